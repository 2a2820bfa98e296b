"""What happens in one training step, seen from below autograd: operators, values, saved tensors, and how long each lives.

A dispatch mode sees the operators of the forward pass and of the engine's run; saved-tensor hooks see what autograd
keeps. Between the two, where the loss is made and nobody looks, the allocator's events tell what was made. So any step
can be recorded as it runs, whoever calls the module and whatever makes the loss:

    recorder = Recorder(model)
    out = recorder.forward(lambda: model(x))        # as often as the step runs one
    ...                                             # the loss
    recorder.backward(lambda: loss.backward(), [loss])
    recorder.finish()

* A value is a version of a storage. Views make no node: reading one reads its storage.
* An operator that writes into a storage which nobody has read is part of the operator that made it; if it was read,
  the result is a new value. Writes into parameters, buffers and inputs make no value.
* The operators of one backward node are one node: what they make and drop among themselves is work space.
* An operator runs again only if a second run right behind the first one gave the same bits.
* What Python or an operator that nobody saw still holds of a value is held: dropping the value frees nothing.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
import hashlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..ranks.units import Unit, units_of
from ..step.results import Results, plain_results
from ..step.spent import gradient
from ..step.tensors import alias, local, opaque, operands, pieces, referred, tensors
from .again import run_again
from .events import Events
from .hooks import Hooks, Sent
from .measure import device_of
from .operators import BACKWARD, BETWEEN, CALL, FORWARD, GONE, Begin, Call, Op, Save, Value, draws
from .windows import Windows
from .within import Packed, Within


@dataclass(eq=False)
class Followed:
    """Bytes of which the profiler may not be told when they are freed: before its time, or freed by another thread."""

    address: int
    bytes: int
    before: bool  # allocated for the step before its forward pass began
    unit: Unit | None = None  # whose parameters they are, until it is sharded
    gone: bool = False


class _Graph:
    """Referenced by each saved tensor: collected after the backward pass, or if it can never come."""

    __slots__ = ("__weakref__",)


class _Tag:
    """What a storage carries while it is recorded: its current version."""

    __slots__ = ("recorder", "value")

    def __init__(self, recorder: Recorder, value: Value) -> None:
        self.recorder, self.value = recorder, value


TRANSFORMS = "it takes derivatives by torch.func in its forward pass"


def refuses_hooks(e: RuntimeError) -> bool:
    """Whether an error says that a transform of torch.func runs under nobody's hooks."""
    return "saved tensor hooks" in str(e)


_TAG = "_memopt_recorded"
_SUM = torch.ops.aten.add.Tensor
_FOLLOWED = "_memopt_followed"
_COLLECTIVE = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor", "symm_mem"}  # all ranks run these together


class Recorder(TorchDispatchMode):
    """Records one step of a module."""

    def __init__(self, model: torch.nn.Module, limit: int | None = None, wrong: Callable[[Op], None] | None = None, prices: bool = False) -> None:
        """A recording that would hold more than limit drops what it can make again; wrong is told of operators that gave other bits then.
        prices: an offload by the user's own hooks is left out of the step, and looked at."""
        super().__init__()
        self.model = model
        self.within = Within(self, limit, wrong) if limit is not None else None
        self.ops: list[Op] = []
        self.calls: list[Call] = []
        self.called: dict[int, Call] = {}  # the same, by their numbers among the calls of all passes
        self.saves: list[Save] = []
        self.values: list[Value] = []
        self.inputs: list[Value] = []
        self.loss: Value | None = None
        self.grads: dict[str, Value] = {}
        self.peak = 0  # growth of the allocator's bytes over forward and backward, at its highest
        self.lasting = 0  # bytes that libraries allocated and keep
        self.before: int | None = None  # bytes that the device's allocator had given out when the step began, where it counts them
        self.phase = "new"
        self.turns = 0  # passes that are over
        self.begins: list[Begin] = []
        self.ends: list[int] = []  # by pass: the calls of forward passes up to its end
        self.reached = False  # by a backward pass
        self.keeps = False  # a backward pass kept its graph
        self.partial = False  # the allocators could not be asked
        self.spans = 0
        self.layout = hashlib.blake2b(digest_size=8)  # of all results: kernels' work space depends on strides
        self._tagged: list[weakref.ref[torch.UntypedStorage]] = []
        self._seen: list[weakref.ref[torch.Tensor]] = []
        self.results: list[tuple[int, Value]] = []  # of forward passes, and which pass it was
        self.shown: list[list[Value]] = []  # by forward pass: what its results are
        self._at = 0  # the call that began last
        self._modules: list[str] = []
        self._sequence: list[tuple[int, str]] = []  # by operator of the forward pass: autograd's counter, and the module
        self._group: tuple[str, int] | None = None
        self._waiting: list[Save] = []  # asked for by the backward node that runs, before its first operator
        self.events = Events()
        self._gradients: set[int] = set()  # addresses of those that are there before the step
        self._alive: weakref.ref[_Graph] | None = None
        self.aside = 0  # above 0, what runs is not the module's
        self.problem = ""  # why this step cannot be recorded: it goes on without
        self.windows = Windows([])
        self.gathered: frozenset[Unit] = frozenset()
        self.sharded: dict[Value, Unit] = {}  # parameters that are there while their unit is gathered
        self.followed: list[Followed] = []
        self.kept: set[int] = set()  # addresses of what units hold when the step is over
        self._results = Results()
        self.prices, self.sent = prices, Sent()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the guard that it adds loads the compiler

    # The step.

    def forward(self, call: Callable[[], Any], of: Any = None, module: str = "") -> Any:
        """Runs a forward pass of the module, or of one in it that is named."""
        if self.phase == "new":
            with self._tried("what is there before the step"):
                self._begin()
        self.phase = "forward"
        self.begins.append(Begin(of, len(self.calls)))
        self._modules = [module]
        try:
            with self.events.span(FORWARD), _light_collector(), self._modules_named(), self._hooked(), self:
                out = call()
        except BaseException:
            self.close()
            raise
        with self._tried("what it returns"):
            self._results.add(out)
            self.shown.append([self.value(t) for t in pieces(plain_results(out))])
            self.results += [(self.turns, v) for v in dict.fromkeys(self.shown[-1]) if v not in (known for _, known in self.results)]
        self._over()
        return out

    @contextlib.contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Nothing of a recording raises in the step: it ends instead, and what went wrong with it is told."""
        try:
            yield
        except Exception as e:
            self._failed(what, e)

    def _failed(self, what: str, e: Exception) -> None:
        if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
            what = f"{what} runs within torch.func"
        self.problem = self.problem or f"{what}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'no more is known'}"

    def _begin(self) -> None:
        """Takes down what is there before the step."""
        for kind, named in (("param", self.model.named_parameters()), ("buffer", self.model.named_buffers())):
            for name, t in named:
                self._input(local(t), kind, name)
        units = units_of(self.model)
        self.windows = Windows(units)
        self.gathered = frozenset(u for u in units if u.gathered)
        self._gradients = {address_of(local(grad).untyped_storage()) for p in self.model.parameters() if (grad := gradient(p)) is not None}
        device = device_of(self.model)
        if device.type == "cuda":
            gc.collect()  # what only the collector frees is not there in later steps
            self.before = torch.cuda.memory_allocated(device)
        self.events.begin()
        self._before(units)
        for unit in units:
            unit.watched(self)
            if unit.gathered:
                self._gathered(unit)

    def _over(self) -> None:
        """A pass has ended."""
        self.phase = "between"
        self.turns += 1
        self.ends.append(len(self.calls))

    @property
    def waits(self) -> bool:
        """Whether a backward pass can come."""
        return bool(self._results.nodes)

    def reached_by(self, roots: Sequence[Any]) -> bool:
        """Whether a backward pass from these tensors comes to the results of the forward pass."""
        return self._results.by(roots)

    def backward(self, run: Callable[[], Any], roots: Sequence[Any]) -> Any:
        """Runs a backward pass from these tensors."""
        with self._tried("the loss"):
            loss = next((t for t in roots if isinstance(t, torch.Tensor)), None)
            if loss is not None:
                self.loss = self.value(loss)
            del loss
        self.phase = "backward"
        try:
            with self.events.span(BACKWARD), _light_collector(), self:
                out = run()
        except BaseException:
            self.close()
            raise
        with self._tried("the gradients"):
            self.grads.update((name, self.value(local(grad))) for name, p in self.model.named_parameters() if (grad := gradient(p)) is not None)
            self.kept = {address_of(t.untyped_storage()) for unit in self.windows.units for t in unit.kept()}
        self._group, self.reached = None, True
        self._over()
        return out

    def finish(self) -> None:
        """The step is over."""
        self.phase = "done"
        self.close()

    def settle(self) -> None:
        """Forgets what the live ranges were read from."""
        self.grads = {name: v for name, v in self.grads.items() if v.maker is not None}  # others were there before
        self._seen.clear()
        self.partial = self.events.partial
        self.events.forget()

    def close(self) -> None:
        """Ends the recording, complete or not."""
        if self.phase != "done":
            self.phase = "closed"
        self.events.end()
        for unit in self.windows.units:
            unit.watched(None)
        self._results.nodes.clear()
        for ref in self._tagged:
            storage = referred(ref)
            tag = getattr(storage, _TAG, None) if storage is not None else None
            if tag is not None and tag.recorder is self:
                delattr(storage, _TAG)
        self._tagged.clear()
        if self.within is not None and not (self.problem and self.within.dropping):  # else what was dropped is still asked for
            self.within.end()

    @contextlib.contextmanager
    def _modules_named(self) -> Iterator[None]:
        names = {m: name for name, m in self.model.named_modules()}

        blocks = self.within.blocks if self.within is not None else set()

        def enter(module: torch.nn.Module, inputs: Any) -> None:
            if module in names:
                self._modules.append(names[module])
            if module in blocks and not self.problem:
                with self._tried(f"what {names.get(module, 'a module')} is given"):
                    self.within.boundary(inputs)  # type: ignore[union-attr]

        def leave(module: torch.nn.Module, _: Any, results: Any) -> None:
            if module in names:
                self._modules.pop()
            if module in blocks and not self.problem:
                with self._tried(f"what {names.get(module, 'a module')} returns"):
                    self.within.boundary(plain_results(results))  # type: ignore[union-attr]

        hooks = [
            torch.nn.modules.module.register_module_forward_pre_hook(enter),
            torch.nn.modules.module.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for h in hooks:
                h.remove()

    # Saved tensors.

    def _hooked(self) -> contextlib.AbstractContextManager[None]:
        return Hooks(self.sent, self._pack, self._unpack, lambda packed: packed.save if isinstance(packed, Packed) else None, self._theirs, self.prices).entered()

    def _pack(self, t: torch.Tensor) -> Packed | torch.Tensor:
        if not self.problem:
            with self._tried("a saved tensor"):
                return self._packed(t)
        return t if t.is_leaf else t.detach()

    def _packed(self, t: torch.Tensor) -> Packed:
        value = self.value(list(pieces(t))[-1])
        if opaque(t) and value.maker is not None:
            value.maker.once = True  # the tensor is kept as it is
        save = Save(len(self.calls), value)
        self.saves.append(save)
        packed = Packed(alias(t) if not opaque(t) else t if t.is_leaf else t.detach(), t, save, self._graph())
        if self.within is not None and not opaque(t):
            self.within.pack(packed)
        return packed

    def _graph(self) -> object:
        """What lives as long as the graph of the forward pass."""
        graph = self._alive() if self._alive is not None else None
        if graph is None:
            graph = _Graph()
            here = weakref.ref(self)

            def gone(_: Any) -> None:
                recorder = here()
                if recorder is not None and recorder.phase == "between":
                    if recorder.reached:
                        recorder.events.end()  # the step is over, where nobody waits for that
                    else:
                        recorder.close()

            self._alive = weakref.ref(graph, gone)
        return graph

    def _unpack(self, packed: Packed | torch.Tensor) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        packed.check()
        save = packed.save
        if self.phase == "backward" and save not in self._waiting and not (save.used and save.used[-1].turn == self.turns):
            self._waiting.append(save)
        if packed.tensor is None:
            assert self.within is not None
            self.aside += 1  # else the spans around second runs would be calls of the backward node
            try:
                return self.within.unpack(packed)
            finally:
                self.aside -= 1
        return packed.tensor

    # Units of sharded parameters.

    def turned(self, unit: Unit) -> None:
        """Called when a unit is gathered or sharded."""
        self.windows.turned(unit, self.spans)
        self.gathered ^= {unit}
        if unit.gathered:
            self._gathered(unit)
        for followed in self.followed:
            if followed.unit is unit:
                self._gone(followed)

    def _before(self, units: list[Unit]) -> None:
        """What units have allocated for the step before its forward pass begins: the root is gathered first."""
        for unit in units:
            for t in unit.buffers():
                self.follow(t, before=True)
                del t
            for t in unit.parameters if unit.gathered else ():
                if t.untyped_storage().nbytes():
                    self.followed.append(Followed(address_of(t.untyped_storage()), t.untyped_storage().nbytes(), True, unit))

    def follow(self, t: torch.Tensor, before: bool = False) -> None:
        """Notes when a tensor of a unit is freed."""
        if getattr(t, _FOLLOWED, None) is self.followed:
            return
        setattr(t, _FOLLOWED, self.followed)
        here, followed = weakref.ref(self), Followed(address_of(t.untyped_storage()), t.untyped_storage().nbytes(), before)
        self.followed.append(followed)

        def gone(_: Any) -> None:
            recorder = here()
            if recorder is not None:
                recorder._gone(followed)

        self._seen.append(weakref.ref(t, gone))

    def _gone(self, followed: Followed) -> None:
        if self.phase in ("forward", "between", "backward") and not followed.gone:
            followed.gone = True
            with self.events.span(f"{GONE}{self.followed.index(followed)}"):
                pass

    def _gathered(self, unit: Unit) -> None:
        self.sharded.update((self.value(t), unit) for t in unit.parameters)

    # Operators.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.aside or self.problem:
            return func(*args, **kwargs)
        self._at = self.spans
        if self.within is not None and self.phase == "forward":
            with self._tried(f"{func} in {self._modules[-1] or 'the model'}"):
                self.within.before(func, args, kwargs)
        with self.events.span(f"{CALL}{self.spans}"):
            out = func(*args, **kwargs)
        if not self.problem:
            with self._tried(f"{func} in {self._modules[-1] or 'the model'}"):
                self._note(func, args, kwargs, out)
        self.spans += 1
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        read, written = operands(func, args, kwargs)
        shown = [self.value(t) for t in pieces((args, kwargs))]
        op = self._node(func)
        for t in read:
            value = self.value(t)
            if value.maker is not op:
                value.read = True
                if value not in op.inputs:
                    op.inputs.append(value)
        writes = []
        for i, t in written:
            op, value = self._write(op, t)
            writes.append((i, value))
        makes = []
        for i, (whole, t) in enumerate((w, t) for w in tensors(out) for t in pieces(w)):
            tag = getattr(t.untyped_storage(), _TAG, None)
            if tag is None or tag.recorder is not self:
                value = self._new(t, op)
                op.outputs.append(value)
            else:
                value = tag.value
            makes.append((i, value))
            self.layout.update(repr(t.stride()).encode())
            if self.phase == "forward":
                self._follow(whole, value)
        op.flops += _flops(func, args, kwargs, out)
        if self.phase == "forward":
            view = not op.outputs and not written
            if view:
                self.ops.remove(op)  # no bytes of its own
            elif not op.once:
                op.once = func.namespace in _COLLECTIVE or _unwritten(func) or draws(func, args, kwargs) or not self._repeats(func, args, kwargs, out, written)
            self.called[self.spans] = Call(func, shown, makes, writes)
            self.calls.append(self.called[self.spans])
            if self.within is not None:
                self.within.after(op)

    def _follow(self, t: torch.Tensor, value: Value) -> None:
        """Notes when a tensor that shows a value is gone. What autograd saves is another tensor."""
        here = weakref.ref(self)

        def gone(_: Any) -> None:
            recorder = here()
            if recorder is not None and recorder.phase != "done":
                value.showing -= 1
                value.released = recorder._at if recorder.phase != "between" else BETWEEN + 1 - recorder.turns

        value.showing += 1
        self._seen.append(weakref.ref(t, gone))

    def _repeats(self, func: Any, args: Any, kwargs: Any, out: Any, written: list[Any]) -> bool:
        """Whether a second run gives the same bits. An operator that writes is judged by what it is part of."""
        if written:
            return True
        if any(opaque(t) for t in tensors((args, kwargs, out))):
            return False
        with self.unseen():
            try:
                again = run_again(func, args, kwargs, torch.is_grad_enabled())
            except Exception:  # it can run only once, as one that takes from a queue
                return False
            # Attention without dropout returns a seed that it neither sets nor uses.
            unused = torch.Tag.nondeterministic_seeded in func.tags
            pairs = zip(tensors(out), tensors(again), strict=True)
            same = all(_same_bits(a, b) for a, b in pairs if not unused or a.is_floating_point())
            del again
        return same

    @contextlib.contextmanager
    def _theirs(self) -> Iterator[None]:
        """What runs within is of the user's hooks, and is left out of the step."""
        self.aside += 1
        try:
            with self.unseen():
                yield
        finally:
            self.aside -= 1

    def unseen(self) -> Any:
        """What is allocated within is none of the step's."""
        return self.events.again()

    def _node(self, func: Any) -> Op:
        """The node that an operator belongs to: its own, or that of the backward node which runs."""
        name = str(func)
        if self.phase == "backward":
            node = torch._C._current_autograd_node()
            group = (node.name(), node._sequence_nr()) if node is not None else None
            last = self.ops[-1] if self.ops else None
            if func is _SUM and last is not None and last.backward and not self._waiting:
                group = "sum of gradients", -1  # the engine's, once the node has let go of what it read
            if group is not None and "AccumulateGrad" not in group[0] and group == self._group and last is not None and last.backward:
                op = last
            else:
                if group is not None and func is not _SUM:
                    name = "autograd." + group[0].replace("torch::autograd::", "")
                op = Op(name, backward=True, module=self._module_of(node), turn=self.turns)
                self.ops.append(op)
            self._group = group
            for save in self._waiting:
                save.used.append(op)
                save.value = save.value.latest  # a part that was written beside is read where it lies
                if save.value not in op.inputs:
                    op.inputs.append(save.value)
            self._waiting = []
        else:
            op = Op(name, module=self._modules[-1], turn=self.turns)
            self.ops.append(op)
            self._sequence.append((torch._C._autograd._get_sequence_nr(), op.module))
        op.calls.append(self.spans)
        return op

    def _module_of(self, node: Any) -> str:
        """The module whose forward pass made a backward node: autograd counts a node before its operator runs."""
        i = bisect.bisect_right(self._sequence, node._sequence_nr(), key=lambda s: s[0]) if node is not None else len(self._sequence)
        return self._sequence[i][1] if i < len(self._sequence) else ""

    def _write(self, op: Op, t: torch.Tensor) -> tuple[Op, Value]:
        """A write into a storage: of its maker's, if nobody has read it, or a new version."""
        old = self.value(t)
        maker = old.maker
        if maker is None or maker is op:
            # Who has read a buffer that changes cannot read the same again. A parameter that the optimizer changes in the backward
            # pass has all of its gradient by then, and nobody reads it again for another.
            if maker is None and not (old.kind == "param" and op.backward):
                self._only_once(old, op)
            return op, old
        if op.backward and maker.backward and maker.turn != op.turn:  # added to a gradient that an earlier backward pass of the step made
            if old not in op.inputs:
                op.inputs.append(old)
            return op, old
        # Who has read the old contents, as autograd does that keeps a copy, and whose results nobody has seen yet.
        readers = [o for o in self.ops if o is not op and o is not maker and old in o.inputs] if old.read else []
        unseen = not any(v.read for o in readers for v in o.outputs) and not any(v.read for v in maker.outputs if v is not old)
        if unseen and not any(s.value is old for s in self.saves) and all(o.turn == op.turn for o in (maker, *readers)) and not op.outputs:
            # Nobody else has seen the old contents: all are one operator, at the place of the last.
            for o in (*readers, op):
                maker.inputs += [v for v in o.inputs if v.maker is not maker and v not in maker.inputs]
                maker.outputs += o.outputs
                maker.calls += o.calls
                maker.flops += o.flops
                maker.once = maker.once or o.once
                for v in o.outputs:
                    v.maker = maker
                self.ops.remove(o)
            maker.calls.sort()
            old.read = False
            self.ops.remove(maker)
            self.ops.append(maker)
            return maker, old
        value = self._new(t, op)
        op.outputs.append(value)
        if old not in op.inputs:
            op.inputs.append(old)
        old.read, old.next = True, value
        if not op.backward:
            self._only_once(old)
        return op, value

    def _only_once(self, value: Value, but: Op | None = None) -> None:
        """Excludes readers of an overwritten value from recomputation."""
        for op in self.ops:
            if value in op.inputs and op is not but:
                op.once = True

    # Values.

    def _new(self, t: torch.Tensor, maker: Op | None, kind: str = "", source: str = "") -> Value:
        storage = t.untyped_storage()
        value = Value(len(self.values), storage.nbytes(), list(t.shape), str(t.dtype).removeprefix("torch."), maker, kind, source, address_of(storage), self.spans)
        self.values.append(value)
        known = getattr(storage, _TAG, None)
        if known is None or known.recorder is not self:
            if maker is not None:
                self.events.made(storage, value.address)
            elif self.phase == "backward" and value.address not in self._gradients:
                self.events.made(storage, value.address, met=True)  # by the loss
        self.show(storage, value)
        if self.within is not None and maker is not None and self.phase == "forward":
            self.within.made_value(value, storage)
        return value

    def show(self, storage: torch.UntypedStorage, value: Value) -> None:
        """Has a storage carry a value."""
        setattr(storage, _TAG, _Tag(self, value))
        self._tagged.append(weakref.ref(storage))

    def _input(self, t: torch.Tensor, kind: str, source: str = "") -> Value:
        tag = getattr(t.untyped_storage(), _TAG, None)
        if tag is not None and tag.recorder is self:
            value: Value = tag.value
            return value  # tied to one before
        value = self._new(t, None, kind, source)
        self.inputs.append(value)
        return value

    def value(self, t: torch.Tensor) -> Value:
        return self._input(t, "data")


@contextlib.contextmanager
def _light_collector() -> Iterator[None]:
    """The garbage collector looks at new objects only: a recording makes many, and each look at all of a program's takes longer than a step."""
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


def address_of(storage: torch.UntypedStorage) -> int:
    return storage.data_ptr() if storage.device.type != "meta" else storage._cdata


def _flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    count = flop_registry.get(func._overloadpacket)
    return int(count(*args, **kwargs, out_val=out)) if count is not None else 0


def _unwritten(func: Any) -> bool:
    """Whether an operator allocates memory for others to write, possibly unseen."""
    return "empty" in func._overloadpacket._qualified_op_name


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(_bytes_of(a), _bytes_of(b)))


def _bytes_of(t: torch.Tensor) -> torch.Tensor:
    return t.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
