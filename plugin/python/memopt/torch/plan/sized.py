"""A program at any sizes: recorded at some, evaluated at others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ..record.operators import Op
from ..record.record import Recording
from .form import Form, Place, difference
from .formulas import Fits, Number, Sizes
from .timeline import Slots, Timeline, of_floor, of_plan, plain_steps, work_of

TOLERANCE = 2000  # a peak is known if it is known to the 2000th part
_MOST_SIZES = 1024
_FAR = 2  # times the largest recording: kernels may work in another way there


@dataclass
class Point:
    """The sizes and the numbers of one recording."""

    sizes: Sizes
    numbers: list[int]
    dims: list[int]  # of all shapes
    peak: int
    lasting: int = 0
    before: int | None = None


@dataclass(eq=False)
class Parts:
    """The program with gradients of its own, or adding to those that are there."""

    form: Form
    plain: Timeline
    whole: Timeline  # everything a second time
    floor: Timeline


class Sized:
    """A program and its recordings."""

    def __init__(self, sizes: Sizes, recording: Recording) -> None:
        self.recording = recording  # the first, whose operators, calls and saves are those of all
        form = Form(recording.graph)
        self.slots = Slots(form)
        self.ranks = [len(s) for s in form.shapes]
        self.points: list[Point] = []
        self.parts: dict[bool, Parts] = {}
        self.at_sizes: dict[Sizes, At] = {}
        self.of: list[int] = []  # the class of each number
        self.held: frozenset[Place] = frozenset()  # results that live to the end of the step, beside those that were recorded so
        self.columns: list[tuple[int, ...]] = []  # the numbers of each class, by point
        self._point(sizes, recording, form)
        self._parts(recording.accumulates, form)

    def _parts(self, accumulating: bool, form: Form) -> Parts:
        form.hold(self.held)
        self.parts[accumulating] = Parts(
            form, of_plan(form, self.slots, plain_steps(form)), Timeline(self.slots, (), (), work_of(form, self.slots, range(len(form.nodes)))), of_floor(form, self.slots)
        )
        return self.parts[accumulating]

    def part(self, accumulating: bool) -> Parts:
        """The program with gradients that are there already, or without."""
        found = self.parts.get(accumulating)
        return found if found is not None else self._parts(accumulating, Form(self.recording.accumulating().graph, self.part(self.recording.accumulates).form))

    def add(self, sizes: Sizes, recording: Recording) -> str | None:
        """Adds a recording of the same program; of another, says where it differs."""
        form = Form(recording.graph)
        differs = difference(self.part(self.recording.accumulates).form, form)
        if differs is None and [len(s) for s in form.shapes] != self.ranks:
            differs = "the number of dims"
        if differs is None and all(p.sizes != sizes for p in self.points):
            self._point(sizes, recording, form)
        return differs

    def _point(self, sizes: Sizes, recording: Recording, form: Form) -> None:
        self.include([Point(sizes, form.numbers, [d for s in form.shapes for d in s], recording.measured_peak, recording.lasting, recording.before)])

    def include(self, points: Sequence[Point]) -> None:
        """Adds what was recorded elsewhere."""
        here = {p.sizes for p in self.points}
        self.points += [p for p in points if p.sizes not in here]
        place: dict[tuple[int, ...], int] = {}
        self.of = [place.setdefault(n, len(place)) for n in zip(*(p.numbers for p in self.points), strict=True)]
        self.columns = list(place)
        self.at_sizes.clear()

    def keep(self, op: Op) -> None:
        """Excludes an operator from recomputation."""
        self.recording.keep(op)
        i = self.recording.ops.index(op)
        for part in self.parts.values():
            part.form.nodes[i].fields["flags"] = ["once"]
            part.floor = of_floor(part.form, self.slots)
        self.of = list(self.of)  # what was evaluated is so again
        self.at_sizes.clear()

    def hold(self, places: frozenset[Place]) -> None:
        """Has these results live to the end of the step, and those no longer that were held so before."""
        forms = {accumulating: part.form for accumulating, part in self.parts.items()}
        for form in forms.values():
            form.hold(self.held, False)
        self.held = places
        for accumulating, form in forms.items():
            self._parts(accumulating, form)
        self.of = list(self.of)  # what was evaluated is so again
        self.at_sizes.clear()

    def at(self, sizes: Sizes) -> At:
        """The program at a size."""
        found = self.at_sizes.get(sizes)
        if found is None:
            if len(self.at_sizes) >= _MOST_SIZES:
                self.at_sizes.clear()
            found = self.at_sizes[sizes] = At(self, sizes)
        return found


class At:
    """A program at one size."""

    def __init__(self, program: Sized, sizes: Sizes) -> None:
        self.program, self.sizes = program, sizes
        self._evaluate()

    def _evaluate(self) -> None:
        self.of = self.program.of  # another, when a recording is added
        found = self._fits()(self.program.columns)
        self.likely, self.low, self.high = (numpy.array([n[i] for n in found], dtype=float) for i in range(3))
        self.graphs: dict[bool, dict[str, Any]] = {}

    def _refresh(self) -> None:
        if self.of is not self.program.of:
            self._evaluate()

    def _fits(self) -> Fits:
        return Fits([p.sizes for p in self.program.points], self.sizes)

    def peak(self, of: Timeline) -> Number:
        """The peak of a plan."""
        self._refresh()
        of.classes(self.program.of, len(self.program.columns))
        return Number(of.peak(self.likely), of.peak(self.low), of.peak(self.high))

    def eager(self, accumulating: bool) -> int:
        """The peak with everything kept."""
        return self.peak(self.program.part(accumulating).plain).likely

    def floor(self, accumulating: bool) -> int:
        """No plan goes below it."""
        return self.peak(self.program.part(accumulating).floor).likely

    @property
    def held(self) -> int:
        """Bytes of the results that are held to the end of the step, where they were not recorded so."""
        self._refresh()
        slots = self.program.slots.bytes
        return int(sum(self.likely[self.program.of[slots[place]]] for place in self.program.held if place in slots))

    def extra(self, of: Timeline) -> float:
        """The work of what runs a second time, as a share of the step's. It is for comparing plans: the planner prices by a profile."""
        self._refresh()
        of.classes(self.program.of, len(self.program.columns))
        whole = self.program.part(self.program.recording.accumulates).whole.classes(self.program.of, len(self.program.columns))
        return of.extra(self.likely) / max(1.0, whole.extra(self.likely))

    @property
    def known(self) -> bool:
        """Whether all formulas through the recordings agree here."""
        if any(p.sizes == self.sizes for p in self.program.points):
            return True
        peak = self.peak(self.program.part(self.program.recording.accumulates).plain)
        return sure(peak) and peak.likely <= _FAR * max(p.peak for p in self.program.points)

    def recording(self, accumulating: bool) -> Recording:
        """The recording that a step of this size would give."""
        base = self.program.recording
        if accumulating and not base.accumulates:
            base = base.accumulating()
        points = self.program.points
        before = None if any(p.before is None for p in points) else max(p.before or 0 for p in points)
        return AtSizes(self, accumulating, self.eager(accumulating), base, max(p.lasting for p in points), before)

    def graph(self, accumulating: bool) -> dict[str, Any]:
        """The joint graph."""
        self._refresh()
        if accumulating not in self.graphs:
            numbers = [int(n) for n in self.likely[self.program.of].tolist()]
            dims = iter(n.likely for n in self._fits()(list(zip(*(p.dims for p in self.program.points), strict=True))))
            shapes = [[next(dims) for _ in range(rank)] for rank in self.program.ranks]
            self.graphs[accumulating] = self.program.part(accumulating).form.with_numbers(numbers, shapes, self.eager(accumulating))
        return self.graphs[accumulating]


def sure(peak: Number) -> bool:
    return peak.high - peak.low <= peak.likely // TOLERANCE


class AtSizes(Recording):
    """A recording that was evaluated and not made. Its graph is written down when it is asked for."""

    def __init__(self, at: At, accumulating: bool, peak: int, base: Recording, lasting: int, before: int | None) -> None:
        self.__dict__.update(base.__dict__)
        del self.__dict__["graph"]
        self._at, self._accumulating = at, accumulating
        self.measured_peak, self.lasting, self.before, self.digests = peak, lasting, before, {}

    def __getattr__(self, name: str) -> Any:
        if name != "graph":
            raise AttributeError(name)
        return self._at.graph(self._accumulating)

    @property
    def accumulates(self) -> bool:
        return self._accumulating

    def accumulating(self) -> Recording:
        return self._at.recording(True)

    def keep(self, op: Op) -> None:
        self._at.program.keep(op)
