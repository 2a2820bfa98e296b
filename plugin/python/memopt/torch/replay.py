"""A planned step in eager mode: tensors that the plan drops are made again when the backward pass asks for them.

Every operator and every saved tensor passes through here, so this is written for speed: what to do at each call is
looked up by its position (Program.actions), and most calls only have their name compared.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from ._tensors import View, alias, operands, run_again, tensors
from .program import Program
from .recorder import OUTSIDE, Op

_TAG = "_memopt_value"
_unseen = torch._C._DisableTorchDispatch  # by any mode
Audit = Callable[[int, str], None]


class _Number:
    """What a watched storage carries: which value it is, in which step."""

    __slots__ = ("number", "step")

    def __init__(self, step: object, number: int) -> None:
        self.step, self.number = step, number


class _Ref:
    """A tensor operand of a captured call: a watched value, or a tensor that lives outside the step."""

    __slots__ = ("number", "outside", "storage", "version", "view")

    def __init__(self, t: torch.Tensor, number: int | None) -> None:
        self.number = number
        if number is not None:
            self.view = View(t)
            return
        # A tensor with a past would keep the graph that leads to it, and with it this step.
        base = t._base
        self.storage: torch.UntypedStorage | None = None
        if t.is_leaf:
            self.outside = t
        elif base is not None and base.is_leaf:
            self.outside, self.storage, self.view = base, t.untyped_storage(), View(t)
        else:
            self.outside = alias(t)
        self.version = self.outside._version

    def tensor(self, storages: Callable[[int], torch.UntypedStorage]) -> torch.Tensor:
        if self.number is not None:
            return self.view.of(storages(self.number))
        if self.outside._version != self.version:
            raise _modified(self.outside.shape, self.outside._version, self.version)
        return self.outside if self.storage is None else self.view.of(self.storage)


class _Handle:
    """What autograd holds in place of a saved tensor: the tensor itself, or which value it is."""

    __slots__ = ("kept", "number", "save", "seen", "version", "view")

    def __init__(self, t: torch.Tensor, save: int, number: int | None) -> None:
        self.save, self.number = save, number
        self.version = t._version
        self.kept: torch.Tensor | None = None
        if number is not None:
            self.seen, self.view = weakref.ref(t), View(t)
        elif t.is_leaf:
            self.kept = t
        else:
            with _unseen():
                self.kept = t.detach()

    def check(self) -> None:
        """Hooks switch off autograd's own check."""
        t = self.kept if self.kept is not None else self.seen()
        if t is not None and t._version != self.version:
            raise _modified(t.shape, t._version, self.version)


def _modified(shape: Any, now: int, then: int) -> RuntimeError:
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"a tensor of shape {list(shape)} is at version {now}; expected version {then} instead"
    )


class Left(RuntimeError):
    """A step ran another operator than the recorded one, where that is forbidden."""


class Step:
    """One forward pass under a plan, and what its backward pass needs."""

    def __init__(self, program: Program, strict: bool = False, audit: Audit | None = None) -> None:
        self.program = program
        self.strict = strict
        self.audit = audit
        self.actions = program.actions
        self.token = object()  # in storages, which may outlive the step
        self.calls = 0
        self.saves = 0
        self.begun = False  # the backward pass
        self.diverged: str | None = None
        self.captured: dict[int, tuple[Any, Any, Any, bool]] = {}
        self.store: dict[int, torch.UntypedStorage] = {}
        self.dropped: set[int] = set()  # values that saved tensors were dropped of
        self.spoiled: set[int] = set()  # those of them that were written to afterwards
        self.bits: dict[int, int] = {}  # digests of dropped values, in the steps that are audited
        self.next_run = 0
        self.finished = -1  # the last step of the plan whose releases are done
        self.left: dict[int, int] = {}  # uses still to come, by instance
        self.lock = threading.RLock()

    # The forward pass.

    def number(self, t: torch.Tensor) -> int | None:
        """Which watched value a tensor shows."""
        tag = getattr(t.untyped_storage(), _TAG, None)
        return tag.number if tag is not None and tag.step is self.token else None

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs an operator as the program says. From where the step leaves the recorded one, everything is kept."""
        at = self.calls
        self.calls = at + 1
        if self.diverged is None:
            action = self.actions[at] if at < len(self.actions) else None
            if action is None or action.func is not func:
                self.leave(f"operator {at} is {func}, where {action.func if action is not None else 'the end'} was recorded")
            elif action.plain:
                return func(*args, **kwargs)
            else:
                if action.captured:
                    flow = self.flow(action.reads, args, kwargs)
                    if flow is None:
                        self.leave(f"operator {at}, {func}, reads other tensors than when it was recorded")
                        return self.call_unplanned(func, args, kwargs)
                    self.captured[at] = (func, *flow, torch.is_grad_enabled())
                out = func(*args, **kwargs)
                if action.writes:
                    flat = list(tensors((args, kwargs)))
                    for i, number in action.writes:
                        self._wrote(flat[i], number)
                if action.makes:
                    made = (out,) if isinstance(out, torch.Tensor) else list(tensors(out))
                    for i, number in action.makes:
                        self._watch(made[i], number)
                return out
        return self.call_unplanned(func, args, kwargs)

    def call_unplanned(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        for _, t in operands(func, args, kwargs)[1]:
            self._wrote(t, None)
        return out

    def leave(self, why: str) -> None:
        self.diverged = why
        if self.strict:
            raise Left(f"the step leaves the recorded one, for which the plan holds: {why}")

    def flow(self, reads: list[int], args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """The operands of a call, as references to values; None if it reads others than the recorded call did."""
        rest = iter(reads)
        same = True

        def refs(x: Any) -> Any:
            nonlocal same
            if isinstance(x, torch.Tensor):
                number = self.number(x)
                if next(rest, None) != (OUTSIDE if number is None else number):
                    same = False
                return _Ref(x, number)
            if isinstance(x, (list, tuple)):
                return type(x)([refs(y) for y in x])
            if isinstance(x, dict):
                return {k: refs(y) for k, y in x.items()}
            return x

        found = [refs(a) for a in args], {k: refs(v) for k, v in kwargs.items()} if kwargs else kwargs
        return found if same else None

    def _watch(self, t: torch.Tensor, number: int) -> None:
        storage = t.untyped_storage()
        setattr(storage, _TAG, _Number(self.token, number))
        if number in self.program.held:
            self.store[number] = storage

    def _wrote(self, t: torch.Tensor, number: int | None) -> None:
        """A storage was written to and shows another value now, or the same one further on."""
        old = self.number(t)
        if old is not None and old in self.dropped:
            self.spoiled.add(old)
        if old is not None and old != number:
            delattr(t.untyped_storage(), _TAG)
            if self.store.get(old) is t.untyped_storage():
                del self.store[old]
        if number is not None and number in self.program.watched:
            self._watch(t, number)

    # Saved tensors.

    def pack(self, t: torch.Tensor) -> _Handle:
        i = self.saves
        self.saves = i + 1
        p = self.program
        number = None
        if self.diverged is None and i < len(p.kept) and not p.kept[i]:
            save = p.recording.saves[i]
            if save.calls == self.calls and self.number(t) == save.value.number:
                number = save.value.number
                self.dropped.add(number)
                if self.audit is not None and number not in self.bits:
                    self.bits[number] = _digest(t.untyped_storage())
        return _Handle(t, i, number)

    def unpack(self, handle: _Handle) -> torch.Tensor:
        with self.lock:
            self.begun = True
            handle.check()
            number = handle.number
            if number in self.spoiled:
                raise _modified(handle.view.size, handle.version + 1, handle.version)
            if self.diverged is None and torch.is_grad_enabled():
                self.diverged = "the backward pass makes a graph, which asks for everything again"  # so nothing is released
            if self.diverged is None:
                self._advance(self.program.step_of[handle.save])
            if number is None:
                assert handle.kept is not None
                return handle.kept
            storage = self.store.get(number)
            if storage is None:
                storage = self._make(number)
            t = handle.view.of(storage)
            source = self.program.source[handle.save]
            if self.diverged is None and source is not None and self.program.step_of[handle.save] == source.last:
                left = self.left.get(id(source), source.uses) - 1
                self.left[id(source)] = left
                if left <= 0 and self.store.get(number) is storage:
                    del self.store[number]
            return t

    # The backward pass.

    def _advance(self, to: int) -> None:
        """Runs what the plan has before a step, and drops what it has dropped by then."""
        runs = self.program.runs
        while self.next_run < len(runs) and runs[self.next_run][0] < to:
            at, op, made = runs[self.next_run]
            self.next_run += 1
            self._release(at)
            found = self._run(op)
            for instance in made:
                if instance.last > at and instance.value.number in found:
                    self.store[instance.value.number] = found[instance.value.number]
            del found
            self._release(at + 1)
        self._release(to)
        self._handed_over(to)

    def _handed_over(self, step: int) -> None:
        """Drops first instances that a backward node reads last: autograd holds those itself."""
        for instance in self.program.releases.get(step, ()):
            if not instance.again:
                self.store.pop(instance.value.number, None)

    def _release(self, before: int) -> None:
        for s in range(self.finished + 1, before):
            for instance in self.program.releases.get(s, ()):
                self.store.pop(instance.value.number, None)
        self.finished = max(self.finished, before - 1)

    def _make(self, number: int) -> torch.UntypedStorage:
        """Makes a value out of the plan's order, for a step that went another way than the recorded one."""
        storage = self.store.get(number)
        if storage is None:
            maker = self.program.maker.get(number)
            if maker is None or any(at not in self.captured for at in maker.calls):
                raise RuntimeError(
                    "a tensor that the plan dropped is asked for a second time, as by a second backward pass through one graph; "
                    "memopt.restore(model) lifts the plan"
                )
            made = self._run(maker)
            if self.diverged is not None:
                self.store.update(made)
            storage = made[number]
        return storage

    def _run(self, op: Op) -> dict[int, torch.UntypedStorage]:
        """Runs an operator again and returns what it makes, by value."""
        made: dict[int, torch.UntypedStorage] = {}
        own = {v.number for v in op.outputs}

        def storage(number: int) -> torch.UntypedStorage:
            return made[number] if number in made else self._make(number)

        for at in op.calls:
            func, args, kwargs, grad = self.captured[at]
            out = run_again(func, _tensors_of(args, storage), _tensors_of(kwargs, storage), grad)
            for (_, value), t in zip(self.program.recording.calls[at].makes, tensors(out), strict=False):
                if value.number in own:
                    made[value.number] = t.untyped_storage()
        if self.audit is not None:
            for number, remade in made.items():
                was = self.bits.pop(number, None)
                if was is not None and was != _digest(remade):
                    self.audit(op.calls[0], op.op + (f" of {op.module}" if op.module else ""))
        return made


def _digest(storage: torch.UntypedStorage) -> int:
    """The bits of a storage in one number, without memory for it."""
    words = torch.int64 if storage.nbytes() % 8 == 0 else torch.int32 if storage.nbytes() % 4 == 0 else torch.uint8
    with _unseen(), torch.no_grad():
        flat = torch.empty(0, dtype=words, device=storage.device).set_(storage)  # type: ignore[call-overload]
        return int(torch.hash_tensor(flat).view(torch.int64)) if flat.numel() else 0


def _tensors_of(x: Any, storages: Callable[[int], torch.UntypedStorage]) -> Any:
    if isinstance(x, _Ref):
        return x.tensor(storages)
    if isinstance(x, (list, tuple)):
        return type(x)([_tensors_of(y, storages) for y in x])
    if isinstance(x, dict):
        return {k: _tensors_of(y, storages) for k, y in x.items()}
    return x


class planned(TorchDispatchMode):
    """The forward pass of one step under a plan: a dispatch mode and saved-tensor hooks, as one context."""

    def __init__(self, program: Program, strict: bool = False, audit: Audit | None = None) -> None:
        super().__init__()
        self.step = Step(program, strict, audit)
        self.hooks = saved_tensors_hooks(self.step.pack, self.step.unpack)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the guard that it adds costs more than the rest

    def __enter__(self) -> planned:
        self.hooks.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self.hooks.__exit__(*exc)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.step.call(func, args, kwargs or {})
