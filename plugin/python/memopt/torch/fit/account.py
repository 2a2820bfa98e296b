"""Who holds the bytes of a step, from node to node and from phase to phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from ..record.floor import Step

# Owners, in the order in which they are shown.
WEIGHTS, GRADIENTS, STATES, ACTIVATIONS, FLIGHT, LOGITS, WORK, GATHERED, UPDATE, COPY, CONTEXT, SLACK = OWNERS = (
    "weights", "gradients", "optimizer states", "activations", "in flight", "logits and loss", "work space", "gathered", "update", "checkpoint", "context", "slack",
)  # fmt: skip
OF_STEP = (GRADIENTS, ACTIVATIONS, FLIGHT, LOGITS, WORK, GATHERED)  # that the allocator places anew in each step


@dataclass(frozen=True)
class Phase:
    """The memory at the peak of a phase, by owner."""

    name: str
    bytes: Mapping[str, int]
    at: str = ""  # where the peak is

    @property
    def total(self) -> int:
        return sum(self.bytes.values())


@dataclass
class Line:
    """The bytes alive at each node of a step, by owner."""

    step: Step
    rows: dict[str, Any] = field(default_factory=dict)  # arrays
    gradients: Sequence[str | None] = ()  # by input of the step

    @property
    def total(self) -> Any:
        return sum(self.rows.values())

    def peak(self, begin: int = 0, end: int | None = None) -> tuple[int, dict[str, int]]:
        """The node of the peak, and its bytes by owner."""
        total = self.total[begin:end]
        if not len(total):
            return begin, dict.fromkeys(self.rows, 0)
        i = begin + int(total.argmax())
        return i, {owner: int(row[i]) for owner, row in self.rows.items()}

    def place(self, i: int) -> str:
        """A node for people."""
        if not 0 <= i < len(self.step.nodes):
            return ""
        node = self.step.nodes[i]
        op = node["op"].removeprefix("autograd.").removeprefix("aten.").split(".")[0]
        return f"{op} in {node['module']}" if node.get("module") else op


def line_of(graph: Mapping[str, Any], steps: Sequence[Mapping[str, Any]] | None = None) -> Line:
    """The step as recorded, or under a plan."""
    step = Step(graph)
    n = len(steps) if steps is not None else len(step.nodes)
    loss = step.loss()
    within = loss[0] if loss is not None else range(0)
    change = {owner: numpy.zeros(n + 2, dtype=numpy.int64) for owner in (GRADIENTS, ACTIVATIONS, FLIGHT, LOGITS)}
    if steps is None:
        last = {v.name: max(v.made, v.pinned) for v in step.values.values()}
        for i, reads in enumerate(step.reads):
            for name in reads:
                last[name] = max(last[name], i)
        lives = [(v, v.made, min(last[v.name], n)) for v in step.values.values()]
    else:
        lives = [(life.value, life.first, min(life.last, n)) for life in step.lives(steps)]
    for v, first, until in lives:
        if v.gradient:
            owner = GRADIENTS
        elif v.made in within:
            owner = LOGITS
        else:
            owner = FLIGHT if step.nodes[v.made]["is_backward"] else ACTIVATIONS
        change[owner][first] += v.bytes
        change[owner][until + 1] -= v.bytes
    rows = {owner: row.cumsum()[:n] for owner, row in change.items()}
    order = range(n) if steps is None else [int(s["node"]) for s in steps]
    rows[WORK] = numpy.array([step.work[i] for i in order], dtype=numpy.int64)
    return Line(step, rows, graph["outputs"][graph["num_fwd_outputs"] :])


def forward_alone(graph: Mapping[str, Any]) -> Line:
    """The forward pass where nothing is kept for a backward pass, as evaluation runs it."""
    step = Step(graph)
    n = step.first_backward
    loss = step.loss()
    within = loss[0] if loss is not None else range(0)
    rows = {owner: numpy.zeros(n + 2, dtype=numpy.int64) for owner in (ACTIVATIONS, LOGITS)}
    last = {v.name: min(max(v.made, v.pinned), n - 1) for v in step.values.values() if v.made < n}
    for i in range(n):
        for name in step.reads[i]:
            last[name] = max(last[name], i)
    for v in step.values.values():
        if v.made < n:
            row = rows[LOGITS if v.made in within else ACTIVATIONS]
            row[v.made] += v.bytes
            row[last[v.name] + 1] -= v.bytes
    found = {owner: row.cumsum()[:n] for owner, row in rows.items()}
    found[WORK] = numpy.array(step.work[:n], dtype=numpy.int64)
    return Line(step, found)
