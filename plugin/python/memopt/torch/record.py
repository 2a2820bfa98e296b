"""One real training step of a module, recorded as the joint graph that ``memopt plan`` reads.

The step runs in eager mode, once: no export, no tracing, no fake tensors. A dispatch mode sees every operator below
autograd, and saved-tensor hooks see what autograd keeps. What is written down:

* A value is a version of a storage. Views make no node: reading one reads its storage.
* An operator that writes into a storage which nobody has read is part of the operator that made it; if it was read,
  the result is a new value. Writes into parameters, buffers and inputs make no value.
* The operators of one backward node are one node: what they make and drop among themselves is work space.
* Work space is measured, from the allocator's events: the bytes that an operator holds at most, beyond its outputs.
* What Python still holds when the forward pass ends is a result of the forward pass, beside the loss.
* An operator runs again only if a second run right behind the first one gave the same bits.
"""

from __future__ import annotations

import bisect
import contextlib
import gzip
import json
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from .._whole import write
from ._tensors import alias, operands, run_again, tensors
from .measure import digests, events_of, highest, profiled
from .step import Loss, scalar, state_kept

FORMAT = "memopt-fx-joint/1"


@dataclass(eq=False)
class Value:
    """A version of a storage."""

    number: int
    bytes: int
    shape: list[int]
    dtype: str
    maker: Op | None  # None: an input
    kind: str = ""  # of an input: param, buffer or data
    source: str = ""
    read: bool = False
    name: str = ""


@dataclass(eq=False)
class Op:
    """A node: an operator with those that write into its output, or all operators of one backward node."""

    op: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)  # of the step, by position
    flops: int = 0
    once: bool = False  # may not run again
    backward: bool = False
    module: str = ""
    workspace: int = 0
    name: str = ""


OUTSIDE = -1


@dataclass(eq=False)
class Call:
    """An operator call of the forward pass, as the dispatcher sees it."""

    func: Any
    reads: list[int]  # the value of each tensor operand, by number; OUTSIDE for inputs of the step
    makes: list[tuple[int, Value]]  # tensors of the result by position, and the values that they are
    writes: list[tuple[int, Value]]  # tensor operands by position, and the values that they are afterwards


@dataclass(eq=False)
class Save:
    """A tensor that autograd saved: after how many calls, of which value, and where the backward pass asks for it."""

    calls: int
    value: Value
    used: Op | None = None


@dataclass
class Recording:
    """A recorded step. str() sums it up; save() writes what ``memopt plan`` reads."""

    graph: dict[str, Any]
    measured_peak: int  # growth of the allocator's bytes over forward and backward, at its highest
    ops: list[Op] = field(repr=False)
    calls: list[Call] = field(repr=False)
    saves: list[Save] = field(repr=False)
    digests: dict[str, str] = field(repr=False)  # of the loss, the gradients and the buffers after the step

    @property
    def parameters(self) -> int:
        """Bytes of parameters, each storage once."""
        return sum(n["outputs"][0]["bytes"] for n in self.graph["nodes"] if n.get("kind") == "param")

    def save(self, to: str | os.PathLike[str]) -> None:
        """Writes the joint graph, gzipped if the name ends in .gz. The file appears whole or not at all."""
        path = os.path.expanduser(os.fspath(to))
        text = json.dumps(self.graph, separators=(",", ":"), allow_nan=False).encode()
        write(path, gzip.compress(text, mtime=0) if path.endswith(".gz") else text)

    def __str__(self) -> str:
        forward = sum(1 for op in self.ops if not op.backward)
        return (
            f"recorded {len(self.ops)} nodes, {forward} of them forward; the step takes {self.measured_peak / 2**20:.2f} MiB "
            f"of activations, gradients and work space, and {self.parameters / 2**20:.2f} MiB of parameters"
        )


def record(model: torch.nn.Module, *args: Any, loss: Loss | None = None, to: str | os.PathLike[str] | None = None, **kwargs: Any) -> Recording:
    """Runs one training step of model(*args, **kwargs) and writes its joint graph to a file.

    loss   a function of the model's output that returns one number; without it the output, its .loss or its ["loss"]
    to     the file, JSON; gzipped if its name ends in .gz

    Parameters, buffers, gradients and the random state are afterwards what they were.
    """
    recording = record_call(model, lambda: model(*args, **kwargs), loss)
    if to is not None:
        recording.save(to)
    return recording


def record_call(model: torch.nn.Module, forward: Callable[[], Any], loss: Loss | None) -> Recording:
    """Records one training step whose forward pass is a call of the model."""
    with state_kept(model):
        return _Recorder(model).step(forward, lambda out: scalar(out, loss))


class _Tag:
    """What a storage carries while it is recorded: its current version."""

    __slots__ = ("recorder", "value")

    def __init__(self, recorder: _Recorder, value: Value) -> None:
        self.recorder, self.value = recorder, value


_TAG = "_memopt_recorded"
_CALL = "memopt call "
_STEP = "memopt step"
_AGAIN = "memopt again"


class _Recorder(TorchDispatchMode):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.ops: list[Op] = []
        self.calls: list[Call] = []
        self.saves: list[Save] = []
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.tagged: list[weakref.ref[torch.UntypedStorage]] = []
        self.seen: list[tuple[weakref.ref[torch.Tensor], Value]] = []
        self.modules: list[str] = []
        self.sequence: list[tuple[int, str]] = []  # by operator of the forward pass: autograd's counter, and the module
        self.spans = 0
        self.inside = True  # the model; what follows is the loss
        self.backward = False
        self.group: tuple[str, int] | None = None
        self.waiting: list[Save] = []  # asked for by the backward node that runs, before its first operator

    # The step.

    def step(self, forward: Callable[[], Any], loss_of: Callable[[Any], torch.Tensor]) -> Recording:
        for kind, named in (("param", self.model.named_parameters()), ("buffer", self.model.named_buffers())):
            for name, t in named:
                self._input(t, kind, name)
        try:
            with self._modules_named(), profiled(_STEP) as profile:
                with saved_tensors_hooks(self._pack, self._unpack), self:
                    out = forward()
                    self.inside = False
                    lost = loss_of(out)
                    del out
                    loss = self._value(lost)
                    held = self._held(loss)
                    self.backward = True
                    lost.backward()
                grads = {name: self._value(p.grad) for name, p in self.model.named_parameters() if p.grad is not None}
            made = digests(self.model, lost)
            peak = self._measure(profile)
        finally:
            for ref in self.tagged:
                storage = ref()
                if storage is not None and hasattr(storage, _TAG):
                    delattr(storage, _TAG)
        return Recording(self._graph(loss, held, grads, peak), peak, self.ops, self.calls, self.saves, made)

    @contextlib.contextmanager
    def _modules_named(self) -> Iterator[None]:
        names = {m: name for name, m in self.model.named_modules()}

        def enter(module: torch.nn.Module, _: Any) -> None:
            if module in names:
                self.modules.append(names[module])

        def leave(module: torch.nn.Module, _: Any, __: Any) -> None:
            if module in names:
                self.modules.pop()

        hooks = [
            torch.nn.modules.module.register_module_forward_pre_hook(enter),
            torch.nn.modules.module.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for h in hooks:
                h.remove()

    def _held(self, loss: Value) -> list[Value]:
        """What Python still holds of what the forward pass made."""
        held: list[Value] = []
        for ref, value in self.seen:
            if ref() is not None and value.maker is not None and value is not loss and value not in held:
                held.append(value)
        self.seen.clear()
        return held

    # Saved tensors.

    def _pack(self, t: torch.Tensor) -> tuple[torch.Tensor, Save]:
        save = Save(len(self.calls), self._value(t))
        self.saves.append(save)
        return alias(t), save

    def _unpack(self, packed: tuple[torch.Tensor, Save]) -> torch.Tensor:
        t, save = packed
        if self.backward and save.used is None and save not in self.waiting:
            self.waiting.append(save)
        return t

    # Operators.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch.profiler.record_function(f"{_CALL}{self.spans}"):
            out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        self.spans += 1
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        read, written = operands(func, args, kwargs)
        numbers = [OUTSIDE if (v := self._value(t)).maker is None else v.number for t in tensors((args, kwargs))]
        op = self._node(func)
        for t in read:
            value = self._value(t)
            if value.maker is not op:
                value.read = True
                if value not in op.inputs:
                    op.inputs.append(value)
        writes = []
        for i, t in written:
            op, value = self._write(op, t)
            writes.append((i, value))
        makes = []
        for i, t in enumerate(tensors(out)):
            tag = getattr(t.untyped_storage(), _TAG, None)
            if tag is None or tag.recorder is not self:
                value = self._new(t, op)
                op.outputs.append(value)
            else:
                value = tag.value
            makes.append((i, value))
            if not self.backward:
                self.seen.append((weakref.ref(t), value))
        op.flops += _flops(func, args, kwargs, out)
        if not self.backward:
            view = not op.outputs and not written
            if view:
                self.ops.remove(op)  # no bytes of its own
            elif not self.inside:
                op.once = True  # the loss is outside the model: nobody stands there when it runs in earnest
            elif not op.once:
                op.once = _unwritten(func) or _draws(func, args, kwargs) or not self._repeats(func, args, kwargs, out, written)
            self.calls.append(Call(func, numbers, makes, writes))

    def _repeats(self, func: Any, args: Any, kwargs: Any, out: Any, written: list[Any]) -> bool:
        """Whether a second run gives the same bits. An operator that writes is judged by what it is part of."""
        if written:
            return True
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in tensors((args, kwargs, out))):
            return False
        with torch.profiler.record_function(_AGAIN):
            again = run_again(func, args, kwargs, torch.is_grad_enabled())
            same = all(_same_bits(a, b) for a, b in zip(tensors(out), tensors(again), strict=True))
            del again
        return same

    def _node(self, func: Any) -> Op:
        """The node that an operator belongs to: its own, or that of the backward node which runs."""
        name = str(func)
        if self.backward:
            node = torch._C._current_autograd_node()
            group = (node.name(), node._sequence_nr()) if node is not None else None
            last = self.ops[-1]
            if group is not None and "AccumulateGrad" not in group[0] and group == self.group and last.backward:
                op = last
            else:
                if group is not None:
                    name = "autograd." + group[0].replace("torch::autograd::", "")
                op = Op(name, backward=True, module=self._module_of(node))
                self.ops.append(op)
            self.group = group
            for save in self.waiting:
                save.used = op
                if save.value not in op.inputs:
                    op.inputs.append(save.value)
            self.waiting = []
        else:
            op = Op(name, module=self.modules[-1] if self.modules else "")
            self.ops.append(op)
            self.sequence.append((torch._C._autograd._get_sequence_nr(), op.module))
        op.calls.append(self.spans)
        return op

    def _module_of(self, node: Any) -> str:
        """The module whose forward pass made a backward node: autograd counts a node before its operator runs."""
        i = bisect.bisect_right(self.sequence, node._sequence_nr(), key=lambda s: s[0]) if node is not None else len(self.sequence)
        return self.sequence[i][1] if i < len(self.sequence) else ""

    def _write(self, op: Op, t: torch.Tensor) -> tuple[Op, Value]:
        """A write into a storage: of its maker's, if nobody has read it, or a new version."""
        old = self._value(t)
        maker = old.maker
        if maker is None or maker is op:
            if maker is None:  # who has read a buffer that changes cannot read the same again
                self._only_once(old, op)
            return op, old
        unseen = not any(v.read for v in maker.outputs) and not any(s.value is old for s in self.saves)
        if unseen and maker.backward == op.backward and not op.outputs:
            # Nobody has seen the old contents: both are one operator, at the place of the later.
            maker.inputs += [v for v in op.inputs if v is not old and v not in maker.inputs]
            maker.calls += op.calls
            maker.flops += op.flops
            maker.once = maker.once or op.once
            self.ops.remove(op)
            self.ops.remove(maker)
            self.ops.append(maker)
            return maker, old
        value = self._new(t, op)
        op.outputs.append(value)
        if old not in op.inputs:
            op.inputs.append(old)
        old.read = True
        if not op.backward:
            self._only_once(old)
        return op, value

    def _only_once(self, value: Value, but: Op | None = None) -> None:
        """What has read a value that is overwritten cannot read it again."""
        for op in self.ops:
            if value in op.inputs and op is not but:
                op.once = True

    # Values.

    def _new(self, t: torch.Tensor, maker: Op | None, kind: str = "", source: str = "") -> Value:
        storage = t.untyped_storage()
        value = Value(len(self.values), storage.nbytes(), list(t.shape), str(t.dtype).removeprefix("torch."), maker, kind, source)
        self.values.append(value)
        setattr(storage, _TAG, _Tag(self, value))
        self.tagged.append(weakref.ref(storage))
        return value

    def _input(self, t: torch.Tensor, kind: str, source: str = "") -> Value:
        tag = getattr(t.untyped_storage(), _TAG, None)
        if tag is not None and tag.recorder is self:
            return tag.value  # tied to one before
        value = self._new(t, None, kind, source)
        self.inputs.append(value)
        return value

    def _value(self, t: torch.Tensor) -> Value:
        return self._input(t, "data")

    # Memory.

    def _measure(self, profile: torch.profiler.profile) -> int:
        """Fills in the work space of every node from the allocator's events, and returns the peak."""
        events, spans = events_of(profile)
        ours = sorted(spans.get(_AGAIN, []))  # second runs, which the step does not have by itself

        def is_ours(at: int) -> bool:
            i = bisect.bisect_right(ours, (at, 1 << 62)) - 1
            return i >= 0 and at <= ours[i][1]

        events = [e for e in events if not is_ours(e[0])]
        times = [at for at, _, _ in events]
        for op in self.ops:
            known = [spans[name][0] for c in op.calls if (name := f"{_CALL}{c}") in spans]
            if op.backward and known:
                known = [(known[0][0], known[-1][1])]
            mine: dict[int, int] = {}
            held = 0
            for begin, end in known:
                for _, ptr, size in events[bisect.bisect_left(times, begin) : bisect.bisect_right(times, end)]:
                    if size > 0:
                        mine[ptr] = size
                        held += size
                    else:
                        held -= mine.pop(ptr, 0)
                    op.workspace = max(op.workspace, held)
        return highest(events, spans[_STEP][0])

    # The graph.

    def _graph(self, loss: Value, held: list[Value], grads: dict[str, Value], peak: int) -> dict[str, Any]:
        """The joint graph, in the form memopt-fx-joint/1."""
        needed = {v.number for v in [loss, *held, *grads.values(), *(v for op in self.ops for v in op.inputs)]}
        taken: dict[str, int] = {}

        def unique(base: str) -> str:
            n = taken.get(base, 0)
            taken[base] = n + 1
            return base if n == 0 else f"{base}_{n}"

        nodes: list[dict[str, Any]] = []
        for value in self.inputs:
            value.name = unique("input")
            nodes.append({"name": value.name, "op": "input", "kind": value.kind, "source": value.source, "inputs": [], "outputs": [_output(value)], "is_backward": False})
        for op in self.ops:
            op.name = unique(op.op.split(".")[1].lower() if "." in op.op else op.op)
            made = [v for v in op.outputs if not op.backward or v.number in needed]
            outputs = [_output(v) for v in made]
            spare = op.workspace - sum(v.bytes for v in made)
            if spare > 0:
                outputs.append({"shape": [spare], "dtype": "uint8", "bytes": spare})
            inputs = list(dict.fromkeys(v.name for v in op.inputs if v.name and v not in op.outputs))
            node: dict[str, Any] = {"name": op.name, "op": _plain(op.op), "inputs": inputs, "outputs": outputs, "flops": op.flops, "is_backward": op.backward}
            if op.module:
                node["module"] = op.module
            if op.once:
                node["flags"] = ["random"]
            nodes.append(node)
            if len(outputs) == 1 and made:
                made[0].name = op.name
                continue
            for i, v in enumerate(made):
                v.name = unique("getitem")
                nodes.append({"name": v.name, "op": "getitem", "index": i, "inputs": [op.name], "outputs": [_output(v)], "is_backward": op.backward, "flags": ["select"], "alias_of": op.name})
        forward = [v.name for v in [*held, loss]]
        back = [grads[v.source].name if v.kind == "param" and v.source in grads else None for v in self.inputs]
        return {
            "format": FORMAT,
            "model": type(self.model).__name__,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "measured_peak": peak,
            "num_fwd_outputs": len(forward),
            "outputs": [*forward, *back],
            "nodes": nodes,
        }


def _output(v: Value) -> dict[str, Any]:
    return {"shape": v.shape, "dtype": v.dtype, "bytes": v.bytes}


def _plain(op: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() or c in "_.:-" else "_" for c in op)


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    count = flop_registry.get(func._overloadpacket)
    return int(count(*args, **kwargs, out_val=out)) if count is not None else 0


def _draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator draws random numbers. Attention is tagged so whatever its dropout is."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for i, a in enumerate(func._schema.arguments):
        if a.name == "dropout_p":
            return bool((args[i] if i < len(args) else kwargs.get(a.name, a.default_value)) != 0)
    return True


def _unwritten(func: Any) -> bool:
    """Whether an operator makes memory for others to write, who may do so where nobody sees it."""
    return "empty" in func._overloadpacket._qualified_op_name


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(_bytes_of(a), _bytes_of(b)))


def _bytes_of(t: torch.Tensor) -> torch.Tensor:
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
