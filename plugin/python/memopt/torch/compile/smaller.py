"""Values of compiled graphs that are kept in a smaller type for the backward pass: which may be, and operators that round and widen them, where the plan has them.

Rounding to 16 bits is an operator that Inductor fuses with those beside it. fp8 with a power of two for each block is an operator of ours, as it is in eager mode.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ..elsewhere.smaller import TYPES, Lossy, fp8, of_fp8, smaller
from ..plan.smaller import Candidate, operators
from ..replay.moves import BACK, OUT
from .graph import Writer, hint
from .moved import Event, in_memory_order


@torch.library.custom_op("memopt::round_fp8", mutates_args=())  # type: ignore[untyped-decorator]
def _round(value: Tensor) -> tuple[Tensor, Tensor]:
    return fp8(in_memory_order(value))


@torch.library.custom_op("memopt::widen_fp8", mutates_args=())  # type: ignore[untyped-decorator]
def _widen(codes: Tensor, exponents: Tensor, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
    numbers = torch.empty(codes.numel(), dtype=dtype, device=codes.device)
    of_fp8(codes, exponents, numbers)
    return numbers.as_strided(shape, stride)


@_round.register_fake  # type: ignore[untyped-decorator]
def _(value: Tensor) -> tuple[Tensor, Tensor]:
    return fp8(value.new_empty(value.numel()))


@_widen.register_fake  # type: ignore[untyped-decorator]
def _(codes: Tensor, exponents: Tensor, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype, device=codes.device)


class Narrowing:
    """Writes the operators that round and widen into a graph."""

    def __init__(self, graph: fx.Graph, kind: Lossy) -> None:
        self.graph, self.kind = graph, kind
        self.kept: dict[str, tuple[fx.Node, ...]] = {}  # by value

    def write(self, event: Event, now: fx.Node) -> fx.Node | None:
        """The value that is back, where that is the event. now: the node that stands for the value. What was widened is the same when it is rounded again, and is not."""
        value: Tensor = now.meta["val"]
        if event.what == OUT and event.value not in self.kept:
            if self.kind != "fp8":
                self.kept[event.value] = (self._call(torch.ops.prims.convert_element_type.default, now, TYPES[self.kind]),)
            else:
                both = self._call(torch.ops.memopt.round_fp8.default, now)
                self.kept[event.value] = (self._call(operator.getitem, both, 0), self._call(operator.getitem, both, 1))
        if event.what != BACK:
            return None
        kept = self.kept[event.value]
        if self.kind != "fp8":
            return self._call(torch.ops.prims.convert_element_type.default, *kept, value.dtype)
        return self._call(torch.ops.memopt.widen_fp8.default, *kept, list(value.shape), list(value.stride()), value.dtype)

    def _call(self, target: Any, *args: Any) -> fx.Node:
        made = self.graph.call_function(target, args)
        made.meta["val"] = target(*fx.node.map_arg(args, lambda n: n.meta["val"]))
        return made


def candidates(w: Writer, document: Mapping[str, Any], kind: Lossy) -> list[Candidate]:
    """The values that may be kept smaller, the largest savings first: floating-point results of the forward pass that the backward pass of their graph reads.
    It leaves out results of graphs, what is computed from integers or masks alone, second results (statistics), and small values."""
    nodes = list(operators(document).values())
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        for name in node["inputs"]:
            readers.setdefault(name, []).append(i)
    found = []
    for i, which in enumerate(w.ops):
        if which is None or which[1].backward or not which[1].outputs:
            continue
        graph, op = which
        joint, owner = w.joints[graph], op.outputs[0]
        value, name = owner.meta["val"], w.names[graph][owner]
        if joint.symbolic or owner in {joint.owner.get(n) for n in joint.results if isinstance(n, fx.Node)} or not any(o.meta["val"].is_floating_point() for o in op.reads):
            continue
        numbers = hint(value.numel())
        sizes = smaller(kind, str(value.dtype).removeprefix("torch."), numbers)
        behind = [nodes[r]["name"] for r in readers.get(name, ()) if nodes[r]["is_backward"]]
        if sizes is None or not behind or joint.bytes(owner) != numbers * value.dtype.itemsize:
            continue
        last = nodes[max([i, *(r for r in readers[name] if not nodes[r]["is_backward"])])]
        found.append(Candidate(name, joint.bytes(owner), sizes, last["name"], last.get("module", ""), tuple(behind)))
    return sorted(found, key=lambda c: -c.saves)
