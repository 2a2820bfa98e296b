"""Numbers as formulas of the sizes that vary, found from a few points.

A number of a program (bytes of a value, work space, flops) is a polynomial of the sizes of its inputs with few terms. All sums
of up to three monomials that go through the known points are found, the sparsest first. What they say at a size that was
not seen is the number there, if they agree; if they do not, another point tells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy
import numpy.typing

Sizes = tuple[int, ...]
Floats = numpy.typing.NDArray[numpy.float64]  # not tensors, which would be bytes of the step that is measured
_MOST_TERMS = 3
_MOST_SYMBOLS = 3
_DEGREE = 2  # of one size; _TOTAL of several together
_TOTAL = 3


class Number(NamedTuple):
    """A number at a size: what is most likely, and the least and the most that it can be."""

    likely: int
    low: int
    high: int


class Fits:
    """Formulas through points, evaluated at a size."""

    def __init__(self, points: Sequence[Sizes], at: Sizes) -> None:
        self.points = list(points)
        self.at = at
        self.known: dict[tuple[int, ...], Number] = {}
        columns = _independent([*points, at])
        exponents = [e for e in itertools.product(range(_DEGREE + 1), repeat=len(columns)) if sum(e) <= max(_DEGREE, _TOTAL if len(columns) > 1 else 0)]
        exponents.sort(key=lambda e: (sum(e), max(e, default=0)))
        self.rows = [[math.prod(sizes[c] ** k for c, k in zip(columns, e, strict=True)) for e in exponents] for sizes in self.points]  # monomials at the points
        self.row = [math.prod(at[c] ** k for c, k in zip(columns, e, strict=True)) for e in exponents]  # and at the size
        scale = [max(1, *(row[i] for row in self.rows)) for i in range(len(exponents))]
        self.matrix = numpy.array([[m / s for m, s in zip(row, scale, strict=True)] for row in self.rows])
        self.sums: dict[int, tuple[list[tuple[int, ...]], Floats, Floats]] = {}

    def _sums(self, terms: int) -> tuple[list[tuple[int, ...]], Floats, Floats]:
        """All sums of so many monomials that the points can tell coefficients of: which, their values at the points, the solver's matrices."""
        if terms not in self.sums:
            which = list(itertools.combinations(range(len(self.row)), terms))
            values = self.matrix[:, numpy.array(which, dtype=int).reshape(-1, terms)].transpose(1, 0, 2)
            sound = _ranks(values) == terms
            values = values[sound]
            self.sums[terms] = [w for w, s in zip(which, sound, strict=True) if s], values, numpy.linalg.pinv(values) if len(values) else values
        return self.sums[terms]

    def __call__(self, numbers: Sequence[tuple[int, ...]]) -> list[Number]:
        """Each number at the size, from its values at the points."""
        rest = [n for n in dict.fromkeys(numbers) if n not in self.known]
        if self.at in self.points:
            i = self.points.index(self.at)
            self.known.update((n, Number(n[i], n[i], n[i])) for n in rest)
            rest = []
        for terms in range(1, _MOST_TERMS + 1):
            if not rest or terms > len(self.points):
                break
            which, values, solver = self._sums(terms)
            if not which:
                continue
            right = numpy.array(rest, dtype=float).T  # a column for each number
            off = abs(values @ (solver @ right) - right).max(1)  # by sum and number
            through = off <= 1e-9 * abs(right).max(0) + 1e-9
            left = []
            for j, number in enumerate(rest):
                found = [v for i in through[:, j].nonzero()[0].tolist() if (v := self._value(which[i], number)) is not None]
                whole = [v for v in found if v.denominator == 1] or found
                if not whole:
                    left.append(number)
                    continue
                rounded = [math.ceil(v) for v in whole]
                self.known[number] = Number(rounded[0], min(rounded), max(rounded))
            rest = left
        if rest and len(self.points) > 2:
            # No one formula: kernels choose another way from some size on. The points nearby know best.
            near = sorted(range(len(self.points)), key=lambda i: _distance(self.points[i], self.at))[: len(self.points) - 1]
            fewer = Fits([self.points[i] for i in near], self.at)
            self.known.update(zip(rest, fewer([tuple(n[i] for i in near) for n in rest]), strict=True))
        elif rest:
            self.known.update((n, Number(max(n), 0, 2 * max(n))) for n in rest)
        return [self.known[n] for n in numbers]

    def _value(self, which: tuple[int, ...], number: tuple[int, ...]) -> Fraction | None:
        """The value at the size of the sum of these monomials through the points; None if it does not go through them, or is below zero."""
        coefficients = _solved([[row[m] for m in which] for row in self.rows], number)
        if coefficients is None:
            return None
        value = sum((c * self.row[m] for c, m in zip(coefficients, which, strict=True)), Fraction(0))
        return value if value >= 0 else None


def _ranks(matrices: Floats) -> numpy.typing.NDArray[numpy.int64]:
    """The rank of each matrix."""
    if not len(matrices):
        return numpy.zeros(0, dtype=numpy.int64)
    sigma = numpy.linalg.svd(matrices, compute_uv=False)
    found: numpy.typing.NDArray[numpy.int64] = (sigma > 1e-9 * sigma[:, :1]).sum(1)
    return found


def _independent(points: Sequence[Sizes]) -> list[int]:
    """Positions of the sizes that vary, each without those that go with it in a straight line."""
    found: list[int] = []
    for i in range(len(points[0])):
        column = [p[i] for p in points]
        if len(set(column)) > 1 and not any(_in_line([p[j] for p in points], column) for j in found) and len(found) < _MOST_SYMBOLS:
            found.append(i)
    return found


def _in_line(a: Sequence[int], b: Sequence[int]) -> bool:
    i = next(k for k in range(len(a)) if a[k] != a[0])
    return all((x - a[0]) * (b[i] - b[0]) == (y - b[0]) * (a[i] - a[0]) for x, y in zip(a, b, strict=True))


def _distance(a: Sizes, b: Sizes) -> float:
    return sum(abs(math.log((x + 1) / (y + 1))) for x, y in zip(a, b, strict=True))


def _solved(rows: list[list[int]], right: Sequence[int]) -> list[Fraction] | None:
    """The exact solution of more equations than unknowns; None without one."""
    table = [[Fraction(x) for x in row] + [Fraction(y)] for row, y in zip(rows, right, strict=True)]
    n = len(rows[0])
    for column in range(n):
        pivot = next((i for i in range(column, len(table)) if table[i][column] != 0), None)
        if pivot is None:
            return None
        table[column], table[pivot] = table[pivot], table[column]
        lead = table[column][column]
        table[column] = [x / lead for x in table[column]]
        for i in range(len(table)):
            if i != column and table[i][column] != 0:
                factor = table[i][column]
                table[i] = [x - factor * y for x, y in zip(table[i], table[column], strict=True)]
    return None if any(row[n] != 0 for row in table[n:]) else [row[n] for row in table[:n]]
