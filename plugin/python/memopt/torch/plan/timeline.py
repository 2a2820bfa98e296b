"""The bytes alive at each step of a plan, as sums of a program's numbers: the peak at any size is one product of a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy

from .form import Form, Place
from .formulas import Floats

_RATE = 0.25  # flops of a processor in the time of a byte that moves
Range = tuple[int, int, int]  # a number's slot, and the first and the last step at which its bytes are alive


class Slots:
    """Where a form's numbers stand."""

    def __init__(self, form: Form) -> None:
        places = form.places
        self.bytes: dict[Place, int] = {at: i for i, at in enumerate(places)}
        self.work, self.flops = len(places), len(places) + len(form.nodes)


class Timeline:
    """The steps of a plan. Numbers that are equal at all known sizes are one class."""

    def __init__(self, slots: Slots, ranges: Iterable[Range], work: Sequence[int], cost: Mapping[int, float]) -> None:
        self.ranges, self.work, self.slots = list(ranges), work, slots  # work: the node of each step
        self.cost = cost  # of what runs a second time: numbers by slot, weighed
        self.of: Sequence[int] = ()
        self.matrix: Floats = numpy.zeros((0, 0))
        self.weights: Floats = numpy.zeros(0)

    def classes(self, of: Sequence[int], count: int) -> Timeline:
        """Takes note of the class of each number."""
        if of is self.of:
            return self
        n = len(self.work)
        rows, columns, signs = [], [], []
        for slot, first, last in self.ranges:
            rows += [first, min(last + 1, n)]
            columns += [of[slot], of[slot]]
            signs += [1.0, -1.0]
        change = numpy.zeros((n + 1, count))
        numpy.add.at(change, (rows, columns), signs)
        alive = change.cumsum(0)[:n]
        numpy.add.at(alive, (range(n), [of[self.slots.work + node] for node in self.work]), 1.0)
        self.matrix = numpy.unique(alive, axis=0) if n else alive
        self.weights = numpy.zeros(count)
        numpy.add.at(self.weights, [of[slot] for slot in self.cost], list(self.cost.values()))
        self.of = of
        return self

    def peak(self, numbers: Floats) -> int:
        """The most bytes alive, from the number of each class."""
        return int((self.matrix @ numbers).max()) if len(self.matrix) else 0

    def extra(self, numbers: Floats) -> float:
        """The work of what runs a second time: its flops, and those that a device does while its operands move."""
        return float(self.weights @ numbers)


def plain_steps(form: Form) -> list[Mapping[str, Any]]:
    """The step with nothing dropped."""
    return [{"node": i} for i in range(len(form.nodes))]


def of_plan(form: Form, slots: Slots, steps: Sequence[Mapping[str, Any]]) -> Timeline:
    """The timeline of a plan's steps."""
    pinned, gradients, _ = _pins(form)
    first = {int(s["node"]): at for at, s in enumerate(steps) if not s.get("again")}
    last: dict[Place, int] = {}
    begun: dict[Place, int] = {}
    ranges: list[Range] = []
    again = [int(s["node"]) for s in steps if s.get("again")]
    for at, step in enumerate(steps):
        i = int(step["node"])
        for r in form.nodes[i].reads:
            if r[0] >= 0:
                last[r] = max(last[r], at)
        for j in range(len(form.nodes[i].outputs)):
            place = i, j
            if place in begun:
                ranges.append((slots.bytes[place], begun[place], last[place]))
            begun[place] = at
            last[place] = len(steps) if place in gradients else at if step.get("again") else max(at, first.get(pinned[place], at))
    ranges += [(slots.bytes[place], at, last[place]) for place, at in begun.items()]
    return Timeline(slots, ranges, [int(s["node"]) for s in steps], work_of(form, slots, again))


def work_of(form: Form, slots: Slots, nodes: Iterable[int]) -> dict[int, float]:
    """The work of nodes, as a sum of numbers by slot."""
    rate = form.head.get("flops_per_byte", _RATE)
    cost: dict[int, float] = {}
    for i in nodes:
        cost[slots.flops + i] = cost.get(slots.flops + i, 0.0) + 1.0
        for place in [*form.nodes[i].reads, *((i, j) for j in range(len(form.nodes[i].outputs)))]:
            cost[slots.bytes[place]] = cost.get(slots.bytes[place], 0.0) + rate
    return cost


def of_floor(form: Form, slots: Slots) -> Timeline:
    """What must be alive at each node whatever a plan drops: what it reads and writes, and what may not be dropped."""
    pinned, gradients, once = _pins(form)
    until: dict[Place, int] = {}
    reads: dict[Place, list[int]] = {}
    for i, node in enumerate(form.nodes):
        for r in node.reads:
            if r[0] >= 0:
                reads.setdefault(r, []).append(i)
                if r[0] in once:
                    until[r] = i
        for j in range(len(node.outputs)):
            until[i, j] = len(form.nodes) if (i, j) in gradients else pinned[i, j]
    ranges: list[Range] = []
    for place, last in until.items():
        ranges.append((slots.bytes[place], place[0], max(place[0], last)))
        ranges += [(slots.bytes[place], i, i) for i in reads.get(place, ()) if i > max(place[0], last)]
    return Timeline(slots, ranges, range(len(form.nodes)), {})


def _pins(form: Form) -> tuple[dict[Place, int], set[Place], set[int]]:
    """The node until which each value is held; the gradients of parameters; nodes that nothing makes a second time."""
    results = {r for r in form.results[: form.forward_results] if r is not None}
    gradients = {r for r in form.results[form.forward_results :] if r is not None}
    backward = next((i for i, n in enumerate(form.nodes) if n.fields["is_backward"]), len(form.nodes))
    pinned: dict[Place, int] = {}
    for i, node in enumerate(form.nodes):
        for j, o in enumerate(node.outputs):
            pinned[i, j] = o.held if o.held is not None else backward if (i, j) in results else i
    return pinned, gradients, {i for i, n in enumerate(form.nodes) if not {"once", "random"}.isdisjoint(n.fields.get("flags", ()))}
