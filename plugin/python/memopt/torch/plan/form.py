"""A recorded program without its sizes: what reads what, and the numbers of one recording in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Place = tuple[int, int]  # a node and its output; an input is -1 and its number


@dataclass
class Output:
    shape: list[int]
    dtype: str
    held: int | None  # the node until which its first bytes live whatever a plan drops
    recorded: int | None = None  # the same as it was recorded, where it is held for longer


@dataclass
class Node:
    name: str
    fields: dict[str, Any]  # those that have no sizes
    reads: list[Place]
    outputs: list[Output]


class Form:
    """The nodes of a joint graph. Work space is a number of each node: in the graph it is an output that nothing reads."""

    def __init__(self, graph: Mapping[str, Any], like: Form | None = None) -> None:
        """like is the program of which this one is a variant: what is a value there is one here, also if nothing selects it."""
        self.head = {k: v for k, v in graph.items() if k not in ("nodes", "outputs", "measured_peak")}
        self.forward_results: int = graph["num_fwd_outputs"]
        self.inputs: list[dict[str, Any]] = []
        self.nodes: list[Node] = []
        self.flops: list[int] = []
        self.work: list[int] = []
        self.bytes: dict[Place, int] = {}
        where: dict[str, Place] = {}
        place: dict[str, int] = {}
        held: list[tuple[Output, str]] = []

        def output(o: Mapping[str, Any]) -> Output:
            made = Output(list(o["shape"]), o["dtype"], None)
            if o.get("held_until"):
                held.append((made, o["held_until"]))
            return made

        for node in graph["nodes"]:
            if node["op"] == "input":
                where[node["name"]] = at = -1, len(self.inputs)
                self.bytes[at] = node["outputs"][0]["bytes"]
                self.inputs.append(node)
            elif node["op"] == "getitem" and node.get("alias_of") in place:
                i = place[node["alias_of"]]
                where[node["name"]] = at = i, len(self.nodes[i].outputs)
                self.bytes[at] = node["outputs"][0]["bytes"]
                self.nodes[i].outputs.append(output(node["outputs"][0]))
                self.work[i] -= self.bytes[at]
            else:
                i = place[node["name"]] = len(self.nodes)
                fields = {k: v for k, v in node.items() if k not in ("name", "inputs", "outputs", "flops")}
                made = Node(node["name"], fields, [where[n] for n in node["inputs"]], [])
                self.flops.append(node.get("flops", 0))
                self.work.append(sum(o["bytes"] for o in node["outputs"]))
                if len(node["outputs"]) == 1:
                    where[node["name"]] = i, 0
                    self.bytes[i, 0] = self.work[i]
                    made.outputs.append(output(node["outputs"][0]))
                    self.work[i] = 0
                self.nodes.append(made)
        for o, name in held:
            o.held = place[name]
        named = {where[n] for n in graph["outputs"] if n is not None} | {r for node in self.nodes for r in node.reads}
        for i, node in enumerate(self.nodes):
            valued = (i, 0) in named or like is not None and bool(like.nodes[i].outputs)
            if len(node.outputs) == 1 and not valued and node.outputs[0].held is None:  # nothing selects it: work space
                self.work[i], node.outputs = self.bytes.pop((i, 0)), []
        self.results: list[Place | None] = [where[n] if n is not None else None for n in graph["outputs"]]

    def hold(self, places: Iterable[Place], on: bool = True) -> None:
        """Has values live to the end of the step, or as they were recorded."""
        for i, j in places:
            for o in self.nodes[i].outputs[j : j + 1]:
                if not on:
                    o.held = o.recorded
                elif o.held != len(self.nodes) - 1:
                    o.held, o.recorded = len(self.nodes) - 1, o.held

    # Numbers in a fixed order: bytes of inputs and outputs, work space, flops; and apart from them the dims of shapes.

    @property
    def places(self) -> list[Place]:
        return [(-1, i) for i in range(len(self.inputs))] + [(i, j) for i, node in enumerate(self.nodes) for j in range(len(node.outputs))]

    @property
    def numbers(self) -> list[int]:
        return [self.bytes[at] for at in self.places] + self.work + self.flops

    @property
    def shapes(self) -> list[list[int]]:
        return [n["outputs"][0]["shape"] for n in self.inputs] + [o.shape for node in self.nodes for o in node.outputs]

    def with_numbers(self, numbers: Sequence[int], shapes: Iterable[list[int]], peak: int) -> dict[str, Any]:
        """The joint graph with these numbers and shapes."""
        places = self.places
        size = dict(zip(places, numbers, strict=False))
        shape = dict(zip(places, shapes, strict=True))
        work, flops = numbers[len(places) : len(places) + len(self.nodes)], numbers[len(places) + len(self.nodes) :]
        names: dict[Place, str] = {(-1, i): n["name"] for i, n in enumerate(self.inputs)}
        nodes: list[dict[str, Any]] = []
        for i, n in enumerate(self.inputs):
            nodes.append({**n, "outputs": [{**n["outputs"][0], "bytes": size[-1, i], "shape": shape[-1, i]}]})
        taken = {n["name"] for n in self.inputs} | {node.name for node in self.nodes}
        for i, node in enumerate(self.nodes):
            outputs: list[dict[str, Any]] = []
            for j, o in enumerate(node.outputs):
                outputs.append({"shape": shape[i, j], "dtype": o.dtype, "bytes": size[i, j]})
                if o.held is not None:
                    outputs[-1]["held_until"] = self.nodes[o.held].name
            every = outputs + ([{"shape": [work[i]], "dtype": "uint8", "bytes": work[i]}] if work[i] > 0 else [])
            nodes.append({"name": node.name, "inputs": list(dict.fromkeys(names[r] for r in node.reads)), "outputs": every, "flops": flops[i], **node.fields})
            if len(every) == 1 and outputs:
                names[i, 0] = node.name
                continue
            for j, made in enumerate(outputs):
                names[i, j] = f"{node.name}.{j}"
                while names[i, j] in taken:
                    names[i, j] += "_"
                taken.add(names[i, j])
                nodes.append({
                    "name": names[i, j], "op": "getitem", "index": j, "inputs": [node.name], "outputs": [made], "is_backward": node.fields["is_backward"],
                    "flags": ["select"], "alias_of": node.name,
                })  # fmt: skip
        return {**self.head, "measured_peak": peak, "outputs": [names[r] if r is not None else None for r in self.results], "nodes": nodes}


def difference(a: Form, b: Form) -> str | None:
    """Where two programs differ, apart from sizes."""
    for i, (x, y) in enumerate(zip(a.nodes, b.nodes, strict=False)):
        if x.fields != y.fields or x.reads != y.reads or [(o.dtype, o.held) for o in x.outputs] != [(o.dtype, o.held) for o in y.outputs]:
            return f"node {i} is {x.name} of {x.fields['op']}, and {y.name} of {y.fields['op']}"
    if len(a.nodes) != len(b.nodes):
        return f"{len(a.nodes)} nodes, and {len(b.nodes)}"
    if [(n["kind"], n["source"], n["outputs"][0]["dtype"]) for n in a.inputs] != [(n["kind"], n["source"], n["outputs"][0]["dtype"]) for n in b.inputs]:
        return "the inputs"
    return "what is a result" if a.results != b.results else None
