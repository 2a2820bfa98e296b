"""What optimizers keep for each parameter, and what their update takes beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import torch


class Work(NamedTuple):
    """The work of an update."""

    program: tuple[str, ...]  # of so many parameters, one after another
    parameters: int
    size: int  # bytes of all
    calls: int  # of an operator, for each of them
    rounded: int = 0  # bytes of states in 8 bits that are read and written beside

    def shared(self, ranks: int) -> Work:
        """Of one of so many ranks that divide it, the one that has most."""
        def part(n: int) -> int:
            return -(-n // ranks)

        return self._replace(parameters=part(self.parameters), size=part(self.size), rounded=part(self.rounded))


@dataclass(frozen=True)
class Optimizer:
    """The bytes of an optimizer's states and update."""

    name: str
    slots: int = 0  # tensors of a parameter's size and type
    rounded: int = 0  # of a parameter's size, in bytes with a scale for each block of 256
    factored: bool = False  # a row and a column for each matrix instead
    whole: int = 0  # tensors of all parameters that an update of all at once makes
    single: int = 0  # of one parameter, that an update one by one makes
    # The operators of an update of one parameter: what each reads, of p, its gradient g, the states m and v and a tensor t beside, and last what it
    # writes; "" are smaller ones, as of rows and columns. √ takes roots, which on a processor take longer than sums.
    program: tuple[str, ...] = ()

    def states(self, p: torch.Tensor) -> int:
        """Bytes that last."""
        if self.factored:
            return 4 * (sum(p.shape[-2:]) * (p.numel() // max(1, p.shape[-1] * p.shape[-2])) if p.ndim > 1 else p.numel())
        if self.rounded and p.numel() >= _LEAST_ROUNDED:
            return self.rounded * (p.numel() + 4 * -(-p.numel() // 256))
        return self.slots * p.nbytes if not self.rounded else 4 * self.rounded * p.numel()

    def update(self, parameters: Sequence[torch.Tensor], foreach: bool) -> int:
        """Bytes that an update takes and gives back."""
        sizes = [p.nbytes for p in parameters]
        return self.whole * sum(sizes) if foreach and self.whole else self.single * max(sizes, default=0)

    def work(self, parameters: Sequence[torch.Tensor], foreach: bool) -> Work:
        """What an update runs and moves."""
        size, count = sum(p.nbytes for p in parameters), len(parameters)
        rounded = sum(self.states(p) for p in parameters) if self.rounded else 0
        if foreach:
            return Work(self.program, min(count, 1), size, -(-count // _TOGETHER), rounded)
        return Work(self.program, count, size, 1, rounded)


_TOGETHER = 32  # parameters that one kernel updates, about, where all are updated at once
_LEAST_ROUNDED = 4096  # smaller parameters keep states in float32
_ADAM = ("mgm", "vv", "vgv", "√vt", "tt", "tt", "pmtp")
OPTIMIZERS = {
    o.name: o
    for o in (
        Optimizer("adamw", 2, whole=1, single=2, program=("pp", *_ADAM)), Optimizer("adamw-fused", 2, program=("pgmvpmv",)), Optimizer("adam", 2, whole=1, single=2, program=_ADAM),
        Optimizer("adamw8bit", rounded=2, single=0, program=("pgp",)), Optimizer("sgd", program=("pgp",)), Optimizer("momentum", 1, program=("mm", "mgm", "pmp")),
        Optimizer("lion", 1, whole=1, single=1, program=("pp", "mgt", "tt", "ptp", "mgm")),
        Optimizer("adafactor", factored=True, single=2, program=("gt", "", "", "", "", "", "√tt", "tt", "tt", "tt", "gtt", "ptp")), Optimizer("none"),
    )
}  # fmt: skip


def optimizer_of(name: str) -> Optimizer:
    found = OPTIMIZERS.get(name)
    if found is None:
        near = get_close_matches(name, OPTIMIZERS, 1)
        raise ValueError(f"optimizer is {name!r}; there are {', '.join(OPTIMIZERS)}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found
