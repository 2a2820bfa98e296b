"""Joint graphs of AOTAutograd, forward and backward pass in one, as the operators that ``memopt plan`` reads."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils.flop_counter import flop_registry

from ..record.joint import FORMAT, balance, plain, ran_on
from ..record.operators import draws

_aten = torch.ops.aten
_WORTH = 8  # times the bytes of a random state
_REDUCTION = getattr(torch.Tag, "reduction", None)  # without it only Inductor's order is foreseen less well: a promise is what was measured
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)
# Views whose schema does not say so.
_VIEWS = {_aten._unsafe_view.default}
# Kernels that may give a view or a copy: their result says which.
_EITHER = {_aten.reshape.default, _aten.contiguous.default, _aten.expand_as.default, _aten.reshape_as.default}


@dataclass(eq=False)
class Op:
    """One operator for the planner: a node of the graph, with nodes that are fused into it."""

    node: fx.Node
    inside: list[fx.Node] = field(default_factory=list)  # in order, before the node itself
    outputs: list[fx.Node] = field(default_factory=list)  # the node, or its getitems
    reads: list[fx.Node] = field(default_factory=list)  # owners of storages
    backward: bool = False
    once: bool = False
    state: int = 0  # bytes of the random state that it draws from, which is kept if it may run again
    held: int = 0  # bytes at the most while it runs, its results included
    sizes: dict[fx.Node, int] = field(default_factory=dict)  # of results that have more bytes than they show
    flops: int = 0

    @property
    def nodes(self) -> list[fx.Node]:
        return [*self.inside, self.node]


class Joint:
    """A joint graph: its operators in order, and the node that owns each node's storage."""

    def __init__(self, gm: fx.GraphModule, forward_outputs: int, static: Iterable[int] = (), fused: bool = False) -> None:
        self.gm, self.fused = gm, fused
        self.nodes = [n for n in gm.graph.nodes if n.op != "output"]
        self.output = next(n for n in gm.graph.nodes if n.op == "output")
        results = list(self.output.args[0])
        self.results, self.gradients = results[:forward_outputs], results[forward_outputs:]
        placeholders = [n for n in self.nodes if n.op == "placeholder"]
        self.tangents = [n for n in placeholders if "tangents" in str(n.target)]
        self.primals = [n for n in placeholders if n not in self.tangents]
        self.written = self._written()
        self.static = {self.primals[i] for i in static if i < len(self.primals)}
        self.owner: dict[fx.Node, fx.Node] = {}
        self.backward = self._backward()
        self.ops: list[Op] = []
        self.op_of: dict[fx.Node, Op] = {}
        for node in [*(n for n in self.nodes if n not in self.backward), *(n for n in self.nodes if n in self.backward)]:
            self._note(node)
        if fused:
            self._fuse()

    def _backward(self) -> set[fx.Node]:
        """The nodes of the backward pass: those that stand there or need what it makes, unless the forward pass needs them."""
        needed: set[fx.Node] = set()
        stack = [n for n in self.results if isinstance(n, fx.Node)]
        stack += [n for n in self.nodes if n.meta.get("partitioner_tag") in ("is_forward", "must_be_in_forward") or n.op == "get_attr"]
        stack += self.primals
        while stack:
            n = stack.pop()
            if n not in needed:
                needed.add(n)
                stack.extend(n.all_input_nodes)
        back = set(self.tangents)
        for n in self.nodes:
            if n not in needed and n.op == "call_function":
                tag = n.meta.get("partitioner_tag")
                if tag in ("is_backward", "must_be_in_backward") or any(m in back for m in n.all_input_nodes):
                    back.add(n)
        return back

    def _written(self) -> set[fx.Node]:
        """Inputs that the forward pass writes to: what has read them cannot read the same in the backward pass."""
        told = [getattr(d, "mutated_input", None) for d in self.output.meta.get("desc") or ()]
        written = {p for p in self.primals if (d := p.meta.get("desc")) is not None and d in told}
        for n in self.nodes:
            if n.op == "call_function" and writes(n):
                written.update(m for m in n.all_input_nodes[:1] if m.op == "placeholder")
        return written

    def _note(self, n: fx.Node) -> None:
        value = n.meta.get("val")
        if n.op in ("placeholder", "get_attr"):
            if isinstance(value, torch.Tensor):
                self.owner[n] = n
            return
        if isinstance(value, _SYMBOLS):
            return
        if n.target is operator.getitem:
            base = n.args[0]
            assert isinstance(base, fx.Node)
            if base in self.owner:  # a part of a view
                self.owner[n] = self.owner[base]
            elif isinstance(value, torch.Tensor):
                self.owner[n] = n
                self.op_of[base].outputs.append(n)
            return
        base = shown(n)
        if base is not None and base in self.owner:
            self.owner[n] = self.owner[base]
            return
        op = Op(n, backward=n in self.backward, state=0 if self.fused or n in self.backward else _state(n))
        op.once = not repeatable(n) and op.state == 0
        op.reads = list(dict.fromkeys(self.owner[m] for m in n.all_input_nodes if m in self.owner))
        op.once = op.once or any(o in self.written for o in op.reads) and statistics(n) is None
        self.ops.append(op)
        self.op_of[n] = op
        if isinstance(value, torch.Tensor):
            if writes(n):
                self.owner[n] = self.owner.get(n.all_input_nodes[0], n)
            else:
                self.owner[n] = n
                op.outputs.append(n)
        op.flops = _flops(n)

    def _fuse(self) -> None:
        """Fuses pointwise operators with a single reader into that reader, as compilers do."""
        readers: dict[fx.Node, list[Op]] = {}
        for op in self.ops:
            for owner in op.reads:
                readers.setdefault(owner, []).append(op)
        held = {self.owner.get(n) for n in [*self.results, *self.gradients] if isinstance(n, fx.Node)}
        for op in list(self.ops):
            by = readers.get(op.node, [])
            if len(by) != 1 or op.once or op.node in held or not _pointwise(op.node) or by[0].backward != op.backward or not _loops(by[0].node):
                continue
            into = by[0]
            into.inside = [*op.nodes, *into.inside]
            into.reads = list(dict.fromkeys([*(o for o in into.reads if o is not op.node), *op.reads]))
            for owner in op.reads:
                readers[owner] = list(dict.fromkeys(into if o is op else o for o in readers[owner]))
            into.flops += op.flops
            self.ops.remove(op)
            for n in op.nodes:
                self.op_of[n] = into
        order = {n: i for i, n in enumerate(self.nodes)}
        for op in self.ops:
            op.inside.sort(key=order.__getitem__)

    @property
    def symbolic(self) -> bool:
        """Whether sizes are known only when the graph runs."""
        return any(isinstance(n.meta.get("val"), (torch.SymInt, torch.SymFloat)) for n in self.primals)

    @property
    def key(self) -> Any:
        """A key that is equal for equal graphs."""
        return [(n.name, str(n.target)) for n in self.nodes]

    def bytes(self, owner: fx.Node) -> int:
        """Bytes of a storage."""
        op = self.op_of.get(owner.args[0] if owner.target is operator.getitem else owner)  # type: ignore[arg-type]
        known = op.sizes.get(owner) if op is not None else None
        return known if known is not None else nbytes(owner.meta["val"])

    def stored(self, owner: fx.Node) -> dict[str, Any]:
        """A storage in the form memopt-fx-joint/1."""
        value = owner.meta["val"]
        return {"shape": [hint(s) for s in value.shape], "dtype": str(value.dtype).removeprefix("torch."), "bytes": self.bytes(owner)}


def shown(n: fx.Node) -> fx.Node | None:
    """The node that owns the storage of a view, or None for other nodes."""
    target = n.target
    if target in _VIEWS:
        return n.all_input_nodes[0]
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.returns:
        return None
    if target in _EITHER:
        base, value = n.all_input_nodes[0], n.meta.get("val")
        return base if _storage(base.meta.get("val")) == _storage(value) else None
    if any(r.alias_info is None or r.alias_info.is_write for r in target._schema.returns):
        return None
    for a, x in zip(target._schema.arguments, n.args, strict=False):
        if a.alias_info is not None and isinstance(x, fx.Node):
            return x
    return None


def _storage(value: Any) -> Any:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def writes(n: fx.Node) -> bool:
    """Whether an operator changes its operands."""
    return isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable


def repeatable(n: fx.Node) -> bool:
    """Whether an operator may be recomputed: PyTorch's own ones that neither draw random numbers nor write."""
    if not isinstance(n.target, torch._ops.OpOverload) or n.target.namespace not in ("aten", "prims"):
        return False
    return not (n.target._schema.is_mutable or draws(n.target, n.args, n.kwargs) or "inductor_seed" in str(n.target))


def random_state(n: fx.Node) -> torch.Tensor | None:
    """The state from which one of PyTorch's operators draws random numbers, without its data; None where it cannot be saved."""
    target, made = n.target, _tensors_of(n)
    if not made or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target._schema.is_mutable or not draws(target, n.args, n.kwargs):
        return None
    own = [i for i, a in enumerate(target._schema.arguments) if a.name == "generator"]
    device, fake = made[0].device, detect_fake_mode(made)
    if n.kwargs.get("generator") is not None or any(i < len(n.args) and n.args[i] is not None for i in own) or device.type not in ("cpu", "cuda") or fake is None:
        return None
    with unset_fake_temporarily():
        state = torch.get_rng_state() if device.type == "cpu" else torch.cuda.get_rng_state(device)
    found: torch.Tensor = fake.from_tensor(state, static_shapes=True)
    return found


def _state(n: fx.Node) -> int:
    """The bytes of the state, if the results are so much larger that it is worth being kept instead."""
    state = random_state(n)
    return nbytes(state) if state is not None and sum(map(nbytes, _tensors_of(n))) >= _WORTH * nbytes(state) else 0


def _tensors_of(n: fx.Node) -> list[torch.Tensor]:
    value = n.meta.get("val")
    return [t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, torch.Tensor)]


def statistics(n: fx.Node) -> list[int] | None:
    """The places of running statistics among the arguments of a batch norm that does not use them, but only moves them."""
    if not isinstance(n.target, torch._ops.OpOverload) or "batch_norm" not in n.target._schema.name:
        return None
    names = [a.name for a in n.target._schema.arguments]
    for flag in ("training", "train"):
        if flag in names and not n.args[names.index(flag)]:
            return None
    return [i for i in (names.index(s) for s in ("running_mean", "running_var") if s in names) if isinstance(n.args[i], fx.Node)]


def _pointwise(n: fx.Node) -> bool:
    target = n.target
    return isinstance(target, torch._ops.OpOverload) and (torch.Tag.pointwise in target.tags or target in (_aten.where.self, torch.ops.prims.convert_element_type.default))


def _loops(n: fx.Node) -> bool:
    """Whether an operator becomes a loop, into which its operands can be fused."""
    return _pointwise(n) or isinstance(n.target, torch._ops.OpOverload) and _REDUCTION in n.target.tags


def hint(n: Any) -> int:
    """The current value of a size, without guarding on it."""
    if isinstance(n, int):
        return n
    found = n.node.hint
    return int(found) if found is not None else 1


def nbytes(value: torch.Tensor) -> int:
    """The bytes of a tensor's storage."""
    if value.layout != torch.strided:
        return 0
    return hint(value.untyped_storage().nbytes())


def _flops(n: fx.Node) -> int:
    packet = n.target._overloadpacket if isinstance(n.target, torch._ops.OpOverload) else None
    count = flop_registry.get(packet)
    if count is None:
        return 0
    args, kwargs = fx.node.map_arg((n.args, n.kwargs), lambda m: m.meta.get("val"))
    return hint(count(*args, **kwargs, out_val=n.meta.get("val")))


def _module(n: fx.Node) -> str:
    """The module that a node belongs to, also in the backward pass."""
    stack = n.meta.get("nn_module_stack") or n.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path = re.sub(r"^L\['\w+'\](\.__self__)?\.?|_modules|['\[]", "", str(next(reversed(stack.values()))[0]))
    return ".".join(part for part in re.split(r"[.\]]+", path) if part and part != "__dict__")


@dataclass
class Gap:
    """The code between passes of graphs: the loss, an optimizer, code that was not compiled."""

    reads: list[str] = field(default_factory=list)
    makes: list[tuple[str, int, str]] = field(default_factory=list)  # what lives on behind it: names, bytes, and the gaps until which
    workspace: int = 0  # beside what it makes


@dataclass
class Pass:
    """The forward or the backward pass of a graph, and the values that stand for its inputs where those are made in the step."""

    graph: int
    backward: bool
    inputs: dict[fx.Node, str] = field(default_factory=dict)


class Writer:
    """A step of one or several joint graphs, and what runs between them, in the form memopt-fx-joint/1."""

    def __init__(self, joints: Sequence[Joint]) -> None:
        self.joints = joints
        self.nodes: list[dict[str, Any]] = []
        self.ops: list[tuple[int, Op] | None] = []  # of the plan's nodes; None: a gap
        self.names: list[dict[fx.Node, str]] = [{} for _ in joints]  # of owners
        self.times: Counter[str] = Counter()  # how often a module ran an operator

    def name(self, graph: int, n: fx.Node) -> str:
        return n.name if len(self.joints) == 1 else f"graph{graph}.{n.name}"

    def input(self, graph: int, n: fx.Node) -> str:
        name = self.name(graph, n)
        kind = "param" if n in self.joints[graph].static else "data"
        self.nodes.append(
            {"name": name, "op": "input", "kind": kind, "source": n.name, "inputs": [], "outputs": [self.joints[graph].stored(n)], "is_backward": False}
        )
        return name

    def run(self, p: Pass, until: Mapping[fx.Node, str], handed: Container[fx.Node] = ()) -> None:
        """Adds the operators of a pass.

        until   results that are held outside of the graph, and the gap until which
        handed  results that another graph reads, which cannot have them made again
        """
        joint, names = self.joints[p.graph], self.names[p.graph]
        for op in joint.ops:
            if op.backward != p.backward:
                continue
            for owner in op.reads:
                if owner not in names:
                    names[owner] = p.inputs[owner] if owner in p.inputs else self.input(p.graph, owner)
            self._op(p.graph, op, until, any(o in handed for o in op.outputs))

    def _op(self, graph: int, op: Op, until: Mapping[fx.Node, str], handed: bool) -> None:
        names, joint = self.names[graph], self.joints[graph]
        name, module = self.name(graph, op.node), _module(op.node)
        if module:
            what = f"{plain(module)}.{plain(str(op.node.target)).removeprefix('aten.').split('.')[0]}"
            name = f"{what}_{self.times[what]}" if self.times[what] else what
            self.times[what] += 1
        outputs = [joint.stored(o) | ({"held_until": until[o]} if o in until else {}) for o in op.outputs]
        made = sum(o["bytes"] for o in outputs)
        held = max(0, op.held - made) + (op.state if not handed else 0)  # a second run puts the state of now aside
        if held:
            outputs.append({"shape": [held], "dtype": "uint8", "bytes": held})
        node: dict[str, Any] = {
            "name": name, "op": plain(str(op.node.target)), "inputs": [names[o] for o in op.reads], "outputs": outputs, "flops": op.flops, "is_backward": op.backward,
        }  # fmt: skip
        if module:
            node["module"] = module
        if op.once or handed:
            node["flags"] = ["once"]
        elif op.state:
            state = {"shape": [op.state], "dtype": "uint8", "bytes": op.state}
            self.nodes.append({"name": f"{name}.state", "op": "random_state", "inputs": [], "outputs": [state], "flops": 0, "is_backward": False, "flags": ["once"]})
            self.ops.append(None)
            node["inputs"].append(f"{name}.state")
        self.nodes.append(node)
        self.ops.append((graph, op))
        if len(outputs) == 1 and op.outputs:
            names[op.outputs[0]] = name
            return
        for i, o in enumerate(op.outputs):
            names[o] = f"{name}.{i}"
            self.nodes.append(_getitem(names[o], name, i, outputs[i], op.backward))

    def gap(self, name: str, gap: Gap, backward: bool) -> None:
        makes = [m for m in gap.makes if m[1] > 0]
        outputs: list[dict[str, Any]] = [{"shape": [size], "dtype": "uint8", "bytes": size, "held_until": until} for _, size, until in makes]
        if gap.workspace > 0:
            outputs.append({"shape": [gap.workspace], "dtype": "uint8", "bytes": gap.workspace})
        self.nodes.append(
            {"name": name, "op": "outside", "inputs": list(dict.fromkeys(gap.reads)), "outputs": outputs, "flops": 0, "is_backward": backward, "flags": ["once"]}
        )
        self.ops.append(None)
        for i, (made, _, _) in enumerate(makes):
            self.nodes.append(_getitem(made, name, i, outputs[i], backward))

    def document(self, held: Iterable[str], model: str) -> dict[str, Any]:
        """The graph, of which held is alive at the end."""
        outputs = list(dict.fromkeys(held))
        made = [(op.flops, val) for _, op in filter(None, self.ops) if op.outputs and isinstance(val := op.outputs[0].meta.get("val"), torch.Tensor)]
        weighed = {**ran_on(made[0][1].device), **balance(made[0][1].device, ((flops, str(val.dtype).removeprefix("torch.")) for flops, val in made))} if made else {}
        return {"format": FORMAT, "model": model, "torch": torch.__version__, **weighed, "num_fwd_outputs": len(outputs), "outputs": outputs, "nodes": self.nodes}


def _getitem(name: str, of: str, index: int, output: dict[str, Any], backward: bool) -> dict[str, Any]:
    return {"name": name, "op": "getitem", "index": index, "inputs": [of], "outputs": [output], "is_backward": backward, "flags": ["select"], "alias_of": of}


def alone(joint: Joint, model: str) -> tuple[Writer, dict[str, Any]]:
    """The step of a single graph: its results stay alive, and their gradients come from outside."""
    w = Writer([joint])
    made = [o for n in joint.results if isinstance(n, fx.Node) and (o := joint.owner.get(n)) is not None and o.op != "placeholder"]
    w.run(Pass(0, False), dict.fromkeys(made, "end"))
    tangents = {t: t.name for t in joint.tangents if isinstance(t.meta.get("val"), torch.Tensor) and nbytes(t.meta["val"])}
    w.gap("outside", Gap([w.names[0][o] for o in made], [(name, nbytes(t.meta["val"]), "outside") for t, name in tangents.items()]), True)
    gradients = [o for n in joint.gradients if isinstance(n, fx.Node) and (o := joint.owner.get(n)) is not None and o.op != "placeholder"]
    w.run(Pass(0, True, tangents), dict.fromkeys(gradients, "end"))
    held = [w.names[0][o] for o in [*made, *gradients]]
    w.gap("end", Gap(held), True)
    return w, w.document(held, model)
