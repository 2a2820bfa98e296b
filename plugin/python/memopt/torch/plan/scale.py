"""A recorded step at other sizes: the bytes of everything as polynomials of a size, through a few recordings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..record.floor import Step
from ..record.record import Recording


class Differs(ValueError):
    """Two recordings have different operators."""


@dataclass
class _Output:
    bytes: int
    shape: list[int]
    dtype: str
    held: int | None  # the place of a node


@dataclass
class _Node:
    name: str
    fields: dict[str, Any]  # those that have no sizes
    flops: int
    reads: list[tuple[int, int]]  # node and output; of inputs -1 and which
    outputs: list[_Output]
    work: int


class Form:
    """A joint graph without names that depend on sizes: work space of zero bytes has an output no more than any other."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.head = {k: v for k, v in graph.items() if k not in ("nodes", "outputs", "measured_peak")}
        self.peak: int = graph["measured_peak"]
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[_Node] = []
        where: dict[str, tuple[int, int]] = {}
        place: dict[str, int] = {}
        held: list[tuple[_Output, str]] = []

        def output(o: Mapping[str, Any]) -> _Output:
            made = _Output(o["bytes"], list(o["shape"]), o["dtype"], None)
            if o.get("held_until"):
                held.append((made, o["held_until"]))
            return made

        for node in graph["nodes"]:
            if node["op"] == "input":
                where[node["name"]] = -1, len(self.inputs)
                self.inputs.append(node)
            elif node["op"] == "getitem" and node.get("alias_of") in place:
                i = place[node["alias_of"]]
                where[node["name"]] = i, len(self.nodes[i].outputs)
                self.nodes[i].outputs.append(output(node["outputs"][0]))
                self.nodes[i].work -= node["outputs"][0]["bytes"]
            else:
                i = place[node["name"]] = len(self.nodes)
                fields = {k: v for k, v in node.items() if k not in ("name", "inputs", "outputs", "flops")}
                made = _Node(node["name"], fields, node.get("flops", 0), [where[n] for n in node["inputs"]], [], sum(o["bytes"] for o in node["outputs"]))
                if len(node["outputs"]) == 1:
                    where[node["name"]] = i, 0
                    made.outputs.append(output(node["outputs"][0]))
                    made.work = 0
                self.nodes.append(made)
        for o, name in held:
            o.held = place[name]
        # One output that nothing names is work space: nothing selects it.
        named = {where[n] for n in graph["outputs"] if n is not None} | {r for node in self.nodes for r in node.reads}
        for i, node in enumerate(self.nodes):
            if len(node.outputs) == 1 and (i, 0) not in named and node.outputs[0].held is None:
                node.work, node.outputs = node.outputs[0].bytes, []
        self.results = [where[n] if n is not None else None for n in graph["outputs"]]

    def graph(self) -> dict[str, Any]:
        """The joint graph."""
        names: dict[tuple[int, int], str] = {(-1, i): n["name"] for i, n in enumerate(self.inputs)}
        selected = 0
        nodes: list[dict[str, Any]] = list(self.inputs)
        for i, node in enumerate(self.nodes):
            outputs = [self._output(o) for o in node.outputs]
            every = outputs + ([{"shape": [node.work], "dtype": "uint8", "bytes": node.work}] if node.work > 0 else [])
            nodes.append({"name": node.name, "inputs": list(dict.fromkeys(names[r] for r in node.reads if r in names)), "outputs": every, "flops": node.flops, **node.fields})
            if len(every) == 1 and outputs:
                names[i, 0] = node.name
                continue
            for j, o in enumerate(outputs):
                names[i, j] = f"getitem_{selected}"
                selected += 1
                nodes.append({
                    "name": names[i, j], "op": "getitem", "index": j, "inputs": [node.name], "outputs": [o], "is_backward": node.fields["is_backward"],
                    "flags": ["select"], "alias_of": node.name,
                })  # fmt: skip
        return {**self.head, "measured_peak": self.peak, "outputs": [names[r] if r is not None else None for r in self.results], "nodes": nodes}

    def _output(self, o: _Output) -> dict[str, Any]:
        entry = {"shape": o.shape, "dtype": o.dtype, "bytes": o.bytes}
        return entry if o.held is None else {**entry, "held_until": self.nodes[o.held].name}


class Sizes:
    """Recordings of one step at several sizes."""

    def __init__(self, degree: int) -> None:
        self.degree = degree  # of bytes as polynomials of the size
        self.sizes: list[int] = []
        self.recordings: list[Recording] = []
        self.forms: list[Form] = []

    def add(self, size: int, recording: Recording) -> None:
        """Adds a recording of a larger size than before. Earlier ones with other operators are discarded."""
        form = Form(recording.graph)
        if self.forms and _difference(self.forms[-1], form) is not None:
            self.sizes, self.recordings, self.forms = [], [], []
        self.sizes.append(size)
        self.recordings.append(recording)
        self.forms.append(form)

    @property
    def enough(self) -> bool:
        return len(self.sizes) > self.degree

    def at(self, size: int) -> Recording:
        """The step at any size, extrapolated from the largest recordings."""
        if size in self.sizes:
            return self.recordings[self.sizes.index(size)]
        k = self.degree + 1
        forms = self.forms[-k:]
        value = _through(self.sizes[-k:], size)
        last = forms[-1]
        new = Form.__new__(Form)
        new.head, new.results = last.head, last.results
        new.inputs = []
        for row in zip(*(f.inputs for f in forms), strict=True):
            sizes = [r["outputs"][0] for r in row]
            entry = {**sizes[-1], "bytes": value([o["bytes"] for o in sizes]), "shape": _shape([o["shape"] for o in sizes], value)}
            new.inputs.append({**row[-1], "outputs": [entry]})
        new.nodes = []
        for nodes in zip(*(f.nodes for f in forms), strict=True):
            outputs = [
                _Output(value([o.bytes for o in row]), _shape([o.shape for o in row], value), row[-1].dtype, row[-1].held)
                for row in zip(*(n.outputs for n in nodes), strict=True)
            ]
            n = nodes[-1]
            new.nodes.append(_Node(n.name, n.fields, value([m.flops for m in nodes]), n.reads, outputs, value([m.work for m in nodes])))
        new.peak = 0
        graph = new.graph()
        graph["measured_peak"] = peak = Step(graph).peak()  # the peak itself may be elsewhere than at the sizes that ran
        return dataclasses.replace(self.recordings[-1], graph=graph, measured_peak=peak, digests={})


def _difference(a: Form, b: Form) -> str | None:
    """The difference of two forms, apart from sizes."""
    for x, y in zip(a.nodes, b.nodes, strict=False):
        if x.fields["op"] != y.fields["op"] or x.reads != y.reads or [o.held for o in x.outputs] != [o.held for o in y.outputs]:
            return f"{x.name} is {y.name}"
    if len(a.nodes) != len(b.nodes) or len(a.inputs) != len(b.inputs) or a.results != b.results:
        return "the number of operators"
    return None


def _shape(shapes: Sequence[Sequence[int]], value: Callable[[list[int]], int]) -> list[int]:
    if len({len(s) for s in shapes}) > 1:
        return list(shapes[-1])
    return [value(list(dims)) for dims in zip(*shapes, strict=True)]


def _through(sizes: Sequence[int], at: int) -> Callable[[list[int]], int]:
    """The polynomial through points, at a size, rounded up."""
    weights = []
    for i, a in enumerate(sizes):
        w = Fraction(1)
        for j, b in enumerate(sizes):
            if i != j:
                w *= Fraction(at - b, a - b)
        weights.append(w)
    known: dict[tuple[int, ...], int] = {}

    def value(points: list[int]) -> int:
        key = tuple(points)
        found = known.get(key)
        if found is None:
            found = known[key] = points[0] if len(set(points)) == 1 else max(0, -int(-sum(w * p for w, p in zip(weights, points, strict=True)) // 1))
        return found

    return value
