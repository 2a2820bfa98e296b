"""What sets the floor of a recorded step: the loss, one block, gradients or parameters; and what would lower it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._visible import line


@dataclass(frozen=True)
class Held:
    """A value of the step: its bytes, and the nodes from and until which it is alive whatever a plan drops."""

    name: str
    bytes: int
    made: int
    pinned: int  # the last node before which it may not be dropped
    gradient: bool  # of a parameter


@dataclass(eq=False)
class Life:
    """The live range of a value: bytes, the step that makes it, and the last one that reads it."""

    value: Held
    first: int
    last: int
    again: bool


@dataclass(frozen=True)
class Need:
    """The bytes that must be alive while a node runs."""

    index: int
    node: str
    op: str
    module: str
    backward: bool
    own: int  # what it reads, writes and works in
    gradients: int  # of parameters, made before
    held: int  # what Python holds meanwhile

    @property
    def bytes(self) -> int:
        return self.own + self.gradients + self.held

    @property
    def place(self) -> str:
        """Where that is, for people: GeluBackward0 in blocks.2."""
        op = self.op.removeprefix("autograd.").removeprefix("aten.").removesuffix(".default")
        return f"{op} in {self.module}" if self.module else op


@dataclass(frozen=True)
class Offer:
    """An argument of memopt.optimize that lowers the floor."""

    argument: str  # as it is written
    floor: int  # with it, about
    saves: int


@dataclass(frozen=True)
class Binding:
    """What sets a floor."""

    kind: str  # "loss", "block", "gradients" or "parameters"
    place: str  # op and module
    module: str
    op: str
    bytes: int
    gradients: int  # of those bytes
    offers: tuple[Offer, ...] = ()

    def __str__(self) -> str:
        what = {"loss": "the loss", "block": "one block", "gradients": "gradients", "parameters": "parameters"}[self.kind]
        return line(f"{what}, at {self.place}" if self.place else what)


class Step:
    """A joint graph's nodes in order, with the values that each reads and writes."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.nodes: list[Mapping[str, Any]] = []
        self.inputs: dict[str, Mapping[str, Any]] = {}
        self.values: dict[str, Held] = {}
        self.reads: list[list[str]] = []
        self.params: list[list[Mapping[str, Any]]] = []  # by node: parameters that it reads
        self.writes: list[list[str]] = []
        self.work: list[int] = []
        made: dict[str, tuple[int, Mapping[str, Any]]] = {}
        place: dict[str, int] = {}
        for node in graph["nodes"]:
            name = node["name"]
            if node["op"] == "input":
                self.inputs[name] = node
                continue
            if node["op"] == "getitem" and node.get("alias_of") == node["inputs"][0] and node["inputs"][0] in place:
                i = place[node["inputs"][0]]
                output = node["outputs"][0]
                made[name] = i, output
                self.writes[i].append(name)
                self.work[i] -= output["bytes"]
                continue
            i = place[name] = len(self.nodes)
            self.nodes.append(node)
            self.reads.append([n for n in node["inputs"] if n in made])
            self.params.append([self.inputs[n] for n in node["inputs"] if n in self.inputs and self.inputs[n].get("kind") == "param"])
            self.writes.append([])
            self.work.append(sum(o["bytes"] for o in node["outputs"]))
            if len(node["outputs"]) == 1:
                made[name] = i, node["outputs"][0]
                self.writes[i].append(name)
                self.work[i] -= node["outputs"][0]["bytes"]
        results = graph["outputs"][: graph["num_fwd_outputs"]]
        gradients = set(graph["outputs"][graph["num_fwd_outputs"] :])
        first = next((i for i, n in enumerate(self.nodes) if n["is_backward"]), len(self.nodes))
        last_read = {name: i for i, reads in enumerate(self.reads) for name in reads}
        for name, (i, output) in made.items():
            pinned = place.get(output.get("held_until") or "", i)
            if name in results and "held_until" not in output:
                pinned = first
            if name in gradients:
                pinned = len(self.nodes)
            if not {"once", "random"}.isdisjoint(self.nodes[i].get("flags", ())):  # nothing makes it a second time
                pinned = max(pinned, last_read.get(name, i))
            self.values[name] = Held(name, output["bytes"], i, pinned, name in gradients)
        self.first_backward = first

    def needs(self, early: bool = False) -> list[Need]:
        """By node. early: the optimizer takes each gradient as soon as it is there."""
        gradients, held = ([0] * (len(self.nodes) + 2) for _ in range(2))
        for v in self.values.values():
            if v.pinned > v.made and not (v.gradient and early):
                total = gradients if v.gradient else held
                total[v.made + 1] += v.bytes
                total[min(v.pinned, len(self.nodes)) + 1] -= v.bytes
        found = []
        grown = there = 0
        for i, node in enumerate(self.nodes):
            grown, there = grown + gradients[i], there + held[i]
            own = [self.values[n] for n in {*self.reads[i], *self.writes[i]}]
            twice = [v for v in own if v.made < i <= v.pinned]
            mine = sum(v.bytes for v in own) + self.work[i]
            rest = grown - sum(v.bytes for v in twice if v.gradient and not early), there - sum(v.bytes for v in twice if not v.gradient)
            found.append(Need(i, node["name"], node["op"], node.get("module", ""), node["is_backward"], mine, *rest))
        return found

    def floor(self) -> int:
        """No plan goes below this."""
        return max((n.bytes for n in self.needs()), default=0)

    def peak(self) -> int:
        """The peak with every value kept until its last reader."""
        change = [0] * (len(self.nodes) + 2)
        last = {v.name: max(v.made, v.pinned) for v in self.values.values()}
        for i, reads in enumerate(self.reads):
            for name in reads:
                last[name] = max(last[name], i)
        for v in self.values.values():
            change[v.made] += v.bytes
            change[min(last[v.name], len(self.nodes)) + 1] -= v.bytes
        live = most = 0
        for i in range(len(self.nodes)):
            live += change[i]
            most = max(most, live + self.work[i])
        return most

    def lives(self, steps: Sequence[Mapping[str, Any]] | None = None) -> list[Life]:
        """The live ranges of values under a plan, or as recorded."""
        if steps is None:
            steps = [{"node": i} for i in range(len(self.nodes))]
        first = {int(s["node"]): at for at, s in enumerate(steps) if not s.get("again")}
        current: dict[str, Life] = {}
        lives: list[Life] = []
        for at, step in enumerate(steps):
            i = int(step["node"])
            for name in self.reads[i]:
                current[name].last = max(current[name].last, at)
            for name in self.writes[i]:
                v = self.values[name]
                until = at
                if v.gradient:
                    until = len(steps)
                elif not step.get("again"):
                    until = max(at, first.get(v.pinned, at))
                current[name] = Life(v, at, until, bool(step.get("again")))
                lives.append(current[name])
        return lives

    def loss(self) -> tuple[range, Mapping[str, Any]] | None:
        """The nodes of the loss: from the last layer with a matrix on, until its own backward node; and that layer's matrix."""
        forward = [i for i in range(self.first_backward) if any(len(p["outputs"][0]["shape"]) > 1 for p in self.params[i])]
        if not forward:
            return None
        head = forward[-1]
        matrix = max(self.params[head], key=lambda p: int(p["outputs"][0]["bytes"]))
        module = self.nodes[head].get("module", "")
        inside = {n.get("module", "") for n in self.nodes[head : self.first_backward]} | {""}
        for i in range(self.first_backward, len(self.nodes)):
            if matrix in self.params[i] or set(self.reads[i]) & set(self.reads[head]):
                return range(head, i + 1), matrix
            if self.nodes[i].get("module", "") not in inside | {module}:
                return range(head, i), matrix
        return range(head, len(self.nodes)), matrix

    def cross_entropy(self, loss: range) -> bool:
        """Whether the loss is one that loss_chunks can compute in chunks."""
        return any("logsoftmax" in self.nodes[i]["op"].lower().replace("_", "") for i in loss)


def binding(graph: Mapping[str, Any], floor: int, at: str | None = None, fixed: int = 0, taken: Sequence[str] = ()) -> Binding:
    """What sets the floor of a step: at a given node, or where the most bytes are needed.

    fixed   bytes of parameters, buffers and optimizer states, if they count
    taken   arguments in use, which are not offered
    """
    step = Step(graph)
    needs = step.needs()
    found = next((n for n in needs if n.node == at), None) or max(needs, key=lambda n: n.bytes)
    loss = step.loss()
    if fixed > found.bytes:
        kind = "parameters"
    elif found.gradients > found.own + found.held:
        kind = "gradients"
    elif loss is not None and found.index in loss[0]:
        kind = "loss"
    else:
        kind = "block"
    most = max(n.bytes for n in needs)
    offers: list[Offer] = []
    for arguments, early, chunked in ((("loss_chunks",), False, True), (("optimizer_in_backward",), True, False), (("loss_chunks", "optimizer_in_backward"), True, True)):
        if any(a in taken for a in arguments) or chunked and (loss is None or not step.cross_entropy(loss[0])):
            continue
        # What the planner proves is a little above what is counted here; the difference between two of ours holds for it too.
        saves = most - _floor(step, early, loss if chunked else None)
        if saves > max([0, *(o.saves for o in offers)] if len(arguments) > 1 else [0]):  # both together only if that is lower than each alone
            offers.append(Offer(", ".join(f"{a}={_VALUES[a]}" for a in arguments), floor - saves, saves))
    return Binding(kind, found.place, found.module, found.op, floor, found.gradients, tuple(sorted(offers, key=lambda o: o.floor)))


_VALUES = {"loss_chunks": '"auto"', "optimizer_in_backward": "True"}


def _floor(step: Step, early: bool, loss: tuple[range, Mapping[str, Any]] | None) -> int:
    needs = step.needs(early)
    if loss is None:
        return max(n.bytes for n in needs)
    nodes, matrix = loss
    rest = max((n.bytes for n in needs if n.index not in nodes), default=0)
    shape, size = matrix["outputs"][0]["shape"], matrix["outputs"][0]["bytes"]
    hidden = max((step.values[n].bytes for n in step.reads[nodes[0]]), default=0)
    rows = hidden * shape[0] // max(1, size)
    scores = hidden * shape[0] // max(1, math.prod(shape[1:]))
    chunk = 2 * scores // max(1, min(-(-2 * shape[0] // max(1, math.prod(shape[1:]))), rows // 16))
    return max(rest, 2 * hidden + size + chunk + needs[nodes[0]].held)
