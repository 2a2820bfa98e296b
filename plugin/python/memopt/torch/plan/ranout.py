"""Where a step runs out of so many bytes: the first tensor that does not fit, and who holds what then."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._visible import line
from ...report import show_bytes
from ..record.floor import Step


class Holder(NamedTuple):
    """What is held, and by which modules: those that differ in a number are one."""

    what: str  # "kept", "run again", "gradients", "in flight", "work space"
    module: str
    bytes: int

    def __str__(self) -> str:
        return line(f"{show_bytes(self.bytes)} {self.what} of {self.module or 'the model itself'}")


@dataclass(frozen=True)
class RanOut:
    """The first operator of a step that does not fit."""

    limit: int  # bytes that the step can have beside parameters, buffers and states
    peak: int  # that it wants, at the most
    bytes: int  # of the largest tensor that the operator makes, or its work space
    place: str  # the operator and its module
    module: str
    phase: str  # "forward pass", "backward pass", or "run again"
    held: tuple[Holder, ...]  # before it, the most first

    @property
    def text(self) -> str:
        shown = ", ".join(map(str, self.held[:MOST]))
        rest = sum(h.bytes for h in self.held[MOST:])
        more = f", {show_bytes(rest)} by others" if rest else ""
        return f"the first tensor that does not fit is of {show_bytes(self.bytes)}, made by {line(self.place)} in the {self.phase}; held then: {shown or 'nothing'}{more}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**{n: getattr(self, n) for n in ("limit", "peak", "bytes", "place", "module", "phase")}, "held": [h._asdict() for h in self.held]}


MOST = 4  # holders that are named


def ran_out(graph: Mapping[str, Any], limit: int, steps: Sequence[Mapping[str, Any]] | None = None) -> RanOut | None:
    """Where a recorded step, as it is or under a plan's steps, first takes more than a limit; None if it stays within."""
    step = Step(graph)
    lives = step.lives(steps)
    if steps is None:
        steps = [{"node": i} for i in range(len(step.nodes))]
    change = [0] * (len(steps) + 2)
    for life in lives:
        change[life.first] += life.value.bytes
        change[min(life.last, len(steps)) + 1] -= life.value.bytes
    live = peak = 0
    first = -1
    for at, s in enumerate(steps):
        live += change[at]
        wants = live + step.work[int(s["node"])]
        peak = max(peak, wants)
        if wants > limit and first < 0:
            first = at
    if first < 0:
        return None
    here = int(steps[first]["node"])
    node = step.nodes[here]
    made = [life for life in lives if life.first == first]
    found: Counter[tuple[str, str]] = Counter()
    for life in lives:
        if life.first < first <= life.last:
            maker = step.nodes[life.value.made]
            what = "run again" if life.again else "gradients" if life.value.gradient else "in flight" if maker["is_backward"] else "kept"
            found[what, layer_of(maker.get("module", ""))] += life.value.bytes
    again = bool(steps[first].get("again"))
    op = node["op"].removeprefix("autograd.").removeprefix("aten.").removesuffix(".default")
    module = node.get("module", "")
    return RanOut(
        limit, peak, max([step.work[here], *(life.value.bytes for life in made)]), f"{op} in {module}" if module else op, module,
        "backward pass, where it runs again" if again else "backward pass" if node["is_backward"] else "forward pass",
        tuple(Holder(what, where, size) for (what, where), size in sorted(found.items(), key=lambda kv: (-kv[1], kv[0]))),
    )  # fmt: skip


def layer_of(module: str) -> str:
    """A module as the layer that it is in, any of its kind: blocks.*"""
    return re.sub(r"^((?:[^.]*[^.\d][^.]*\.)*)\d+(\..*)?$", r"\1*", module)
