"""What optimizers keep for each parameter, and what their update takes beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import torch


class Work(NamedTuple):
    """The work of an update."""

    calls: int
    moved: int  # bytes that sums and products read and write
    rooted: int  # and roots

    def shared(self, ranks: int) -> Work:
        """Of one of so many ranks that divide it, the one that has most."""
        return Work(*(-(-n // ranks) for n in self))


@dataclass(frozen=True)
class Optimizer:
    """The bytes of an optimizer's states and update."""

    name: str
    slots: int = 0  # tensors of a parameter's size and type
    rounded: int = 0  # of a parameter's size, in bytes with a scale for each block of 256
    factored: bool = False  # a row and a column for each matrix instead
    whole: int = 0  # tensors of all parameters that an update of all at once makes
    single: int = 0  # of one parameter, that an update one by one makes
    operators: int = 0  # of an update of one parameter
    passes: int = 0  # over a parameter's bytes that these read or write
    roots: int = 0  # of these, that take roots as they do: on a processor they take longer than sums

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
        calls = -(-len(parameters) // _TOGETHER) if foreach else len(parameters)
        size = sum(p.nbytes for p in parameters)
        moved = (self.passes - self.roots) * size
        if self.rounded:
            moved += 2 * sum(self.states(p) for p in parameters)
        return Work(self.operators * calls, moved, self.roots * size)


_TOGETHER = 32  # parameters that one kernel updates, about, where all are updated at once
_LEAST_ROUNDED = 4096  # smaller parameters keep states in float32
OPTIMIZERS = {
    o.name: o
    for o in (
        Optimizer("adamw", 2, whole=1, single=2, operators=8, passes=20, roots=2), Optimizer("adamw-fused", 2, operators=1, passes=7), Optimizer("adam", 2, whole=1, single=2, operators=7, passes=18, roots=2),
        Optimizer("adamw8bit", rounded=2, single=0, operators=1, passes=3), Optimizer("sgd", operators=1, passes=3), Optimizer("momentum", 1, operators=3, passes=8),
        Optimizer("lion", 1, whole=1, single=1, operators=5, passes=13), Optimizer("adafactor", factored=True, single=2, operators=12, passes=16, roots=2), Optimizer("none"),
    )
}  # fmt: skip


def optimizer_of(name: str) -> Optimizer:
    found = OPTIMIZERS.get(name)
    if found is None:
        near = get_close_matches(name, OPTIMIZERS, 1)
        raise ValueError(f"optimizer is {name!r}; there are {', '.join(OPTIMIZERS)}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found
