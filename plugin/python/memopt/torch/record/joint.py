"""A recorded step as the joint graph that ``memopt plan`` reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .floor import Step
from .measure import device_of
from .operators import Value
from .recorder import Recorder

FORMAT = "memopt-fx-joint/1"


def graph_of(r: Recorder) -> dict[str, Any]:
    """The joint graph in the format memopt-fx-joint/1, with nodes in the order in which they ran, named after the module and the operator."""
    loss = r.loss if r.loss is not None and r.loss.maker is not None else r.results[-1][1]
    needed = {v.number for v in [loss, *r.grads.values(), *(v for op in r.ops for v in op.inputs)]}
    needed |= {v.number for v in r.values if v.held is not None}
    times: dict[str, int] = {}
    taken: set[str] = set()

    def unique(base: str) -> str:
        while True:
            n = times.get(base, 0)
            times[base] = n + 1
            name = base if n == 0 else f"{base}_{n}"
            if name not in taken:
                taken.add(name)
                return name

    for value in r.inputs:
        value.name = unique("input")
    for op in r.ops:
        what = op.op.split(".")[1].lower() if "." in op.op else op.op
        op.name = unique(f"{plain(op.module)}.{what}" if op.module else what)
    nodes: list[dict[str, Any]] = []
    for value in r.inputs:
        nodes.append({"name": value.name, "op": "input", "kind": value.kind, "source": value.source, "inputs": [], "outputs": [_output(value)], "is_backward": False})
    for op in r.ops:
        made = [v for v in op.outputs if not op.backward or v.number in needed]
        outputs = [_output(v) for v in made]
        spare = op.workspace - sum(v.bytes for v in made)
        if spare > 0:
            outputs.append({"shape": [spare], "dtype": "uint8", "bytes": spare})
        inputs = list(dict.fromkeys(v.name for v in op.inputs if v.name and v not in op.outputs))
        node: dict[str, Any] = {"name": op.name, "op": plain(op.op), "inputs": inputs, "outputs": outputs, "flops": op.flops, "is_backward": op.backward}
        if len(op.calls) > 1:
            node["calls"] = len(op.calls)
        if op.module:
            node["module"] = op.module
        if op.once:
            node["flags"] = ["once"]
        nodes.append(node)
        if len(outputs) == 1 and made:
            made[0].name = op.name
            continue
        for i, v in enumerate(made):
            v.name = unique(f"{op.name}.{i}")
            select = {"name": v.name, "op": "getitem", "index": i, "inputs": [op.name], "outputs": [_output(v)], "is_backward": op.backward, "flags": ["select"], "alias_of": op.name}
            nodes.append(select)
    back = [r.grads[v.source].name if v.kind == "param" and v.source in r.grads else None for v in r.inputs]
    graph = {
        "format": FORMAT,
        "model": name_of(r.model),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **ran_on(device_of(r.model)),
        "layout": r.layout.hexdigest(),
        "allocator": "PyTorch",
        **balance(device_of(r.model), ((op.flops, op.outputs[0].dtype) for op in r.ops if op.outputs)),
        "measured_peak": 0,
        "num_fwd_outputs": 1,
        "outputs": [loss.name, *back],
        "nodes": nodes,
    }
    graph["measured_peak"] = Step(graph).peak() if r.within is not None and r.within.dropping else r.peak
    return graph


def name_of(model: torch.nn.Module) -> str:
    """The class of a module, or the classes of those in a list that are planned together."""
    several = list(model) if type(model) is torch.nn.ModuleList else [model]
    return "+".join(dict.fromkeys(type(m).__name__ for m in several))


def ran_on(device: torch.device) -> dict[str, str]:
    """A device as profiles name it, and what drives it, with versions. Nothing of one that is not here."""
    if device.type == "cpu":
        threads = torch.get_num_threads()
        return {"device": "cpu", "driver": f"PyTorch {torch.__version__}, {threads} thread{'s' if threads > 1 else ''}"}
    if device.type == "cuda" and torch.cuda.is_available():
        runtime = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
        return {"device": torch.cuda.get_device_name(device), "driver": f"PyTorch {torch.__version__}, {runtime}"}
    return {}


def balance(device: torch.device, work: Iterable[tuple[int, str]]) -> dict[str, int]:
    """How many flops a device does in the time of a byte that moves, as the format says it; work is the flops of operators and the types of their results.

    The figures are about those of matrix products and copies on the GPUs of the last years, from a V100 (112 in half precision) to an H200 (175):
    what counts is that they are far from the quarter of a flop of a processor, which goes without saying.
    """
    if device.type == "cpu":
        return {}
    half = sum(flops if dtype in ("float16", "bfloat16") else -flops for flops, dtype in work)
    return {"flops_per_byte": 160 if half > 0 else 16}


def _output(v: Value) -> dict[str, Any]:
    entry: dict[str, Any] = {"shape": v.shape, "dtype": v.dtype, "bytes": v.bytes}
    if v.held is not None:
        entry["held_until"] = v.held.name
    return entry


def plain(op: str) -> str:
    """The name of an operator or of a module in the characters of the format."""
    return "".join(c if c.isascii() and c.isalnum() or c in "_.:-" else "_" for c in op)
