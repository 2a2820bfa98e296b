"""When sharded parameters are whole during a recorded step, and what must be kept because they are not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...report import show_bytes
from ..ranks.units import Unit
from .operators import Op

_MUCH = 0.2  # of a step's peak


class Windows:
    """When each unit of a recorded step was gathered, counted in operator calls."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self.crossing = 0  # bytes that the backward pass reads, and that are kept since their unit is sharded where they are read
        self.turns: dict[Unit, list[int]] = {u: [0] if u.gathered else [] for u in units}

    def turned(self, unit: Unit, call: int) -> None:
        self.turns[unit].append(call)

    def open(self, units: Iterable[Unit], call: int) -> bool:
        """Whether the units were all gathered when a call ran."""
        return all(sum(1 for at in self.turns[u] if at <= call) % 2 == 1 for u in units)

    def misplaced(self, ops: Sequence[Op], steps: Sequence[Mapping[str, Any]]) -> list[Op]:
        """Operators that a plan runs again where their unit may be sharded: right before the next backward node."""
        found: list[Op] = []
        following: Op | None = None
        for step in reversed(steps):
            op = ops[step["node"]]
            if not step.get("again"):
                if op.backward and op.calls:
                    following = op
            elif op.units and op not in found and (following is None or not self.open(op.units, following.calls[0])):
                found.append(op)
        return found


def crossing(windows: Windows, peak: int) -> Iterator[str]:
    """Sharded units too small for a plan to help much."""
    held = windows.crossing
    if held > _MUCH * peak:
        names = [unit.name for unit in windows.units if unit.name]
        yield (
            f"{show_bytes(held)} of {show_bytes(peak)} are kept because they pass from one of {len(names)} sharded units ({', '.join(names[:2])} …) to another, "
            "whose parameters are not there at the same time; call fully_shard on whole blocks, not on the layers in them"
        )
