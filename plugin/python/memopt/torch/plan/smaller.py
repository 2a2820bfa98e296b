"""Values that are kept in a smaller type for the backward pass: a joint graph in which they are, and its plan as one of the graph itself.

Each value that the backward pass reads gets a node that rounds it, behind its last reader of the forward pass, and one that widens it before
each reader of the backward pass, or for several that come one after the other. The planner keeps or repeats these like any other. What it keeps rounded is, in the step as it runs, a value that
leaves to a smaller place and comes back (replay/moves.py). Results of the forward pass keep every bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import BudgetError
from ...report import Report
from ..elsewhere.smaller import Lossy, Sizes, smaller
from ..record.floor import Step
from ..record.operators import Op, Value
from ..record.record import Recording
from .plans import plan_of_graph

_COPY = "aten._to_copy.default"
_CLOSE = 0.002  # of a step's time: fewer values are rounded if that costs no more
_SHARES = (0.125, 0.25, 0.5)  # of the bytes that may be saved, until a plan is as good as that of all
_TRIES = 8  # plans without values that they turn out to need as they are


@dataclass(frozen=True)
class Candidate:
    """A value that may be kept smaller."""

    value: str  # its name
    bytes: int
    sizes: Sizes
    last: str  # the operator of the forward pass that reads it last, or behind which Python lets go of it
    module: str
    readers: tuple[str, ...]  # operators of the backward pass

    @property
    def saves(self) -> int:
        return self.bytes - self.sizes.bytes


def candidates(recording: Recording, kind: Lossy) -> list[Candidate]:
    """The values that may be, the largest savings first: floating-point results of operators of the forward pass that autograd saved.
    It leaves out results of the step, what is computed from integers or masks alone, second results (statistics), and small values."""
    ops, asked = recording.ops, {(save.value, op) for save in recording.saves for op in save.used}
    place = {op: i for i, op in enumerate(ops)}
    border = next((i for i, op in enumerate(ops) if op.backward), len(ops))
    readers: dict[Value, list[Op]] = {}
    for op in ops:
        for v in op.inputs:
            readers.setdefault(v, []).append(op)
    found = []
    for maker in ops[:border]:
        if not maker.outputs or not any("float" in x.dtype for x in maker.inputs):
            continue
        v = maker.outputs[0]
        if not v.name or v.held is not None and v.held.backward or v.next is not None or v.name in recording.graph["outputs"]:
            continue
        numbers = math.prod(v.shape)
        sizes = smaller(kind, v.dtype, numbers)
        behind = [op for op in readers.get(v, ()) if op.backward]
        if sizes is None or not behind or v.bytes != numbers * _size(v.dtype) or any((v, op) not in asked for op in behind):
            continue
        before = [op for op in readers[v] if not op.backward]
        if any(place[op] >= border for op in before):
            continue  # a later forward pass reads it, which keeps its bits
        last = max([maker, *before, *([v.held] if v.held is not None else [])], key=place.__getitem__)
        found.append(Candidate(v.name, v.bytes, sizes, last.name, last.module, tuple(dict.fromkeys(op.name for op in behind))))
    return sorted(found, key=lambda c: -c.saves)


def _size(dtype: str) -> int:
    return int(getattr(torch, dtype).itemsize)


class Rounded:
    """A joint graph with some values rounded."""

    def __init__(self, plain: Mapping[str, Any], chosen: Sequence[Candidate]) -> None:
        self.plain, self.chosen = plain, chosen
        self.graph, self.rounds, self.widens = _rewritten(plain, chosen)

    def translated(self, steps: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], set[Candidate]]:
        """A plan's steps as those of the plain graph, its moves, and values that it needs as they are behind where they are rounded."""
        own = {name: (i, node) for i, (name, node) in enumerate(operators(self.plain).items())}
        names = list(operators(self.graph))
        makes: dict[str, list[str]] = {name: [name] for name in own}
        for node in self.plain["nodes"]:
            if node["op"] == "getitem":
                makes[node["alias_of"]].append(node["name"])
        out: list[dict[str, Any]] = []
        left: dict[Candidate, int] = {}  # since which step a value is smaller
        turns: dict[Candidate, int] = {}  # in which order values are rounded
        again: set[str] = set()
        exact: set[Candidate] = set()
        moves: list[dict[str, Any]] = []
        waiting: list[tuple[Candidate, str]] = []  # widened before the next step, for readers up to one
        wide: dict[Candidate, str] = {}
        by_value = {c.value: c for c in self.chosen}
        for step in steps:
            name = names[step["node"]]
            if name in self.rounds:
                c = self.rounds[name]
                if step.get("again"):
                    left.pop(c, None)  # made as it is, for those that read it from here on
                else:
                    left[c], turns[c] = len(out), len(turns)
                continue
            if name in self.widens:
                waiting.append(self.widens[name])
                continue
            number, node = own[name]
            if step.get("again"):
                exact.update(by_value[v] for v in node["inputs"] if v not in again and v in by_value and by_value[v] in left)
                again.update(makes[name])
            at = len(out)
            for c, _ in waiting:
                if c in left and left[c] < at:
                    moves.append({"value": c.value, "bytes": c.bytes, "out": left[c], "gone": left[c], "in": at, "back": at, "far": 0, "turn": turns[c]})
            wide.update(waiting)
            waiting = []
            for c in [c for c, last in wide.items() if last == name and not step.get("again")]:
                del wide[c]
                if c in left:
                    left[c] = at + 1
            out.append({**step, "node": number})
        return out, moves, exact


def operators(graph: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The nodes that plans have as steps, in order."""
    return {n["name"]: n for n in graph["nodes"] if n["op"] not in ("input", "getitem")}


def _rewritten(graph: Mapping[str, Any], chosen: Sequence[Candidate]) -> tuple[dict[str, Any], dict[str, Candidate], dict[str, tuple[Candidate, str]]]:
    """The joint graph with nodes that round and widen, which are of which value, and for readers up to which one."""
    rounds: dict[str, Candidate] = {}
    widens: dict[str, tuple[Candidate, str]] = {}
    behind: dict[str, list[Candidate]] = {}
    reads: dict[str, list[Candidate]] = {}
    place = {name: i for i, name in enumerate(operators(graph))}
    for c in chosen:
        behind.setdefault(c.last, []).append(c)
        for name in c.readers:
            reads.setdefault(name, []).append(c)
    nodes: list[dict[str, Any]] = []
    pending: list[Candidate] = []

    def put(name: str, reads: str, nbytes: int, c: Candidate, backward: bool) -> str:
        """A node that converts, and the name of what it makes."""
        outputs = [{"shape": [n], "dtype": "uint8", "bytes": n} for n in (nbytes, c.sizes.work) if n]
        node = {"name": name, "op": _COPY, "inputs": [reads], "outputs": outputs, "flops": 0, "is_backward": backward, "module": c.module}
        nodes.append(node)
        if len(outputs) == 1:
            return name
        nodes.append({"name": name + ".0", "op": "getitem", "index": 0, "inputs": [name], "outputs": outputs[:1], "is_backward": backward, "flags": ["select"], "alias_of": name})
        return name + ".0"

    def flush() -> None:
        for c in pending:
            name = c.value + ".smaller"
            rounds[name] = c
            kept[c] = put(name, c.value, c.sizes.bytes, c, False)
        pending.clear()

    kept: dict[Candidate, str] = {}
    shown: dict[Candidate, tuple[str, str, int]] = {}  # widened: the node, what it makes, and the place of its last reader so far
    for node in graph["nodes"]:
        if node["op"] != "getitem":
            flush()
        if here := reads.get(node["name"]):
            instead = {}
            for c in here:
                at = place[node["name"]]
                if c not in shown or shown[c][2] != at - 1:
                    name = f"{c.value}.for.{node['name']}"
                    shown[c] = name, put(name, kept[c], c.bytes, c, True), at
                name, made, _ = shown[c]
                shown[c], widens[name] = (name, made, at), (c, node["name"])
                instead[c.value] = made
            node = {**node, "inputs": [instead.get(name, name) for name in node["inputs"]]}
        nodes.append(node)
        pending += behind.get(node["name"], ())
    flush()
    return {**graph, "nodes": nodes}, rounds, widens


@dataclass
class Smaller:
    """A plan with values kept smaller, as one of the step as it was recorded. Ranks that have recorded the same tell it to each other."""

    found: Report
    chosen: list[Candidate] | None  # None: nothing needs to be smaller
    steps: list[dict[str, Any]]
    moves: list[dict[str, Any]]
    overhead: float  # above the recorded step, with what rounding takes

    @property
    def values(self) -> int:
        return len({m["value"] for m in self.moves})

    @property
    def bytes(self) -> int:
        """Of these values, as they were."""
        return sum({m["value"]: m["bytes"] for m in self.moves}.values())


def plan_smaller(recording: Recording, kind: Lossy, **settings: Any) -> Smaller:
    """The plan of a recorded step whose values may be kept smaller. It runs nothing where the parameters that it reads are sharded."""
    while True:
        found = smallest(recording.graph, candidates(recording, kind), recording.replay, **settings)
        misplaced = recording.windows.misplaced(recording.ops, found.steps)
        if not misplaced:
            return found
        for op in misplaced:
            recording.keep(op)


def smallest(graph: dict[str, Any], every: Sequence[Candidate], replay: str, **settings: Any) -> Smaller:
    """The plan of a joint graph with as few of these values rounded as cost about as little as all."""

    def make(of: dict[str, Any]) -> Report:
        return plan_of_graph(of, replay=replay, **settings)

    try:
        plain: Report | None = make(graph)
    except BudgetError:
        if not every:
            raise
        plain = None
    if plain is not None and (not every or plain.result.overhead <= _CLOSE):
        return _exact(plain)
    base = float((plain if plain is not None else plan_of_graph(graph, replay=replay)).baseline.time_ns)
    best = _planned(graph, every, make, base)
    if plain is not None and plain.result.overhead <= best.overhead + _CLOSE:
        return _exact(plain)
    for share in _SHARES:
        try:
            some = _planned(graph, _first(every, share), make, base)
        except BudgetError:
            continue
        if some.overhead <= best.overhead + _CLOSE:
            return some
    return best


def _exact(found: Report) -> Smaller:
    return Smaller(found, None, found.to_dict()["steps"], [], found.result.overhead)


def _first(every: Sequence[Candidate], share: float) -> list[Candidate]:
    """The first ones, up to a share of the bytes."""
    found, left = [], share * sum(c.saves for c in every)
    for c in every:
        if left <= 0:
            break
        found.append(c)
        left -= c.saves
    return found


def _planned(graph: dict[str, Any], chosen: Sequence[Candidate], make: Callable[[dict[str, Any]], Report], base: float) -> Smaller:
    """The plan with these rounded; base: what the recorded step takes, in nanoseconds."""
    without: set[Candidate] = set()
    for _ in range(_TRIES):
        rounded = Rounded(graph, [c for c in chosen if c not in without])
        found = make(rounded.graph)
        steps, moves, exact = rounded.translated(found.to_dict()["steps"])
        if not exact:
            return Smaller(found, list(rounded.chosen), steps, moves, found.baseline.time_ns * (1 + found.result.overhead) / base - 1)
        without |= exact
    return _exact(make(graph))


def would_save(recording: Recording, kind: Lossy) -> int:
    """Bytes of the peak with everything kept, if all values that may be were kept smaller."""
    chosen = candidates(recording, kind)
    return Step(recording.graph).peak() - Step(Rounded(recording.graph, chosen).graph).peak() if chosen else 0
