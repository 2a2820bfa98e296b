"""A planned step in eager mode: dropped tensors are recomputed when the backward pass needs them.

Every operator and every saved tensor passes through here, so this is written for speed: what to do at each call is
looked up by its position (Program.actions), and most calls only have their name compared.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from ..ranks.units import Unit
from ..record.again import Captured, captured, digest, modified, run_op
from ..record.operators import Op
from ..step.tensors import View, opaque, operands, pieces, referred
from .moves import Moving
from .program import Program

_TAG = "_memopt_value"
_unseen = torch._C._DisableTorchDispatch  # by any mode
Audit = Callable[[int, str], None]
Other = Callable[["Passes", Any], "Program | None"]  # a program that agrees with a step so far and goes on with this operator, or with the backward pass


class _Number:
    """The tag of a watched storage: the value and the step."""

    __slots__ = ("number", "step")

    def __init__(self, step: object, number: int) -> None:
        self.step, self.number = step, number


class _Handle:
    """Autograd's handle of a saved tensor: the tensor itself, or the number of its value."""

    __slots__ = ("kept", "number", "save", "seen", "version", "view")

    def __init__(self, t: torch.Tensor, save: int, number: int | None) -> None:
        self.save, self.number = save, number
        self.version = t._version
        self.kept: torch.Tensor | None = None
        if number is not None:
            self.seen, self.view = weakref.ref(t), View(t)
        elif t.is_leaf:
            self.kept = t
        elif opaque(t):
            self.kept = t.detach()
        else:
            with _unseen():
                self.kept = t.detach()

    def check(self) -> None:
        """Checks for overwritten saved tensors, as hooks turn off autograd's own check."""
        t = self.kept if self.kept is not None else referred(self.seen)
        if t is not None and t._version != self.version:
            raise modified(t.shape, t._version, self.version)


class Left(RuntimeError):
    """A step with strict=True ran another operator than the recorded one."""


class Passes:
    """What a step knows of its passes, whoever replays it."""

    program: Program
    calls: int
    kind: str  # "python" or "native"
    why: str = ""  # it is not the native module
    reached: int  # the step of the plan that the backward pass is at
    diverged: str | None

    def _left(self, why: str) -> None:
        """The step goes another way than its program."""
        raise NotImplementedError

    def kept(self, calls: int) -> Sequence[bool]:
        """Which of the saved tensors were kept that came by up to here, behind so many operators."""
        raise NotImplementedError

    def goes_on(self, of: Any) -> bool:
        """Whether a forward pass is the next one of the program."""
        begin = self.program.begins.get(self.calls)
        return self.diverged is None and begin is not None and begin.of == of

    def keep(self) -> None:
        """A backward pass keeps the graph that it runs through: another one may ask for everything again."""
        if self.diverged is None and not self.program.recording.keeps:
            self._left("a backward pass keeps its graph, for which another may ask")  # so nothing is released


class Step(Passes):
    """A forward pass under a plan, and the state for its backward pass."""

    kind = "python"

    def __init__(self, program: Program, strict: bool = False, audit: Audit | None = None) -> None:
        self.program = program
        self.strict = strict
        self.audit = audit
        self.actions = program.actions
        self.other: Other | None = None
        self.left_for: Callable[[str], None] | None = None  # told why the step leaves its program
        self.token = object()  # in storages, which may outlive the step
        self.calls = 0
        self.saves = 0
        self.begun = False  # the backward pass
        self.diverged: str | None = None
        self.captured: dict[int, Captured] = {}
        self.store: dict[int, torch.UntypedStorage] = {}
        self.dropped: set[int] = set()  # values that saved tensors were dropped of
        self.spoiled: set[int] = set()  # those of them that were written to afterwards
        self.bits: dict[int, int] = {}  # digests of dropped values, in the steps that are audited
        self.next_event = 0  # of Program.events
        self.reached = -1  # the step of the plan that the backward pass is at
        self.left: dict[int, int] = {}  # uses still to come, by instance
        self.asked: dict[int, int] = {}  # how often, by save that several backward passes ask for
        self.lock = threading.RLock()
        self.aside = 0  # above 0, what runs is not the module's
        self.failed: Callable[[RuntimeError], None] | None = None  # told of an error of what runs again
        self.again: list[Op] = []  # that ran again, in this order
        self.moving = Moving(program.moves, self.store, self.bits.get) if program.moves is not None else None

    def forward(self) -> AbstractContextManager[Any]:
        """The context of a forward pass."""
        return planned(self)

    @property
    def ran(self) -> list[str]:
        """The operators that ran again, in this order."""
        return [op.name for op in self.again]

    # The forward pass.

    def turned(self, unit: Unit) -> None:
        """A unit was gathered or sharded, as when the step was recorded."""

    def follow(self, t: torch.Tensor) -> None:
        """What becomes of its buffers is known from the recording."""

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
            if (action is None or action.func is not func) and self._turn(func):
                action = self.actions[at]
            if action is None or action.func is not func:
                self.leave(f"operator {at} is {func}, where {action.func if action is not None else 'the end'} was recorded")
            else:
                if self.moving is not None and (step := self.moving.moves.calls.get(at)) is not None:
                    self.moving.until(step)
                if action.captured:
                    read, call = captured(func, args, kwargs, self.number)
                    if read != action.reads:
                        self.leave(f"operator {at}, {func}, reads other tensors than when it was recorded")
                        return self.call_unplanned(func, args, kwargs)
                    self.captured[at] = call
                out = func(*args, **kwargs)
                if action.writes:
                    flat = list(pieces((args, kwargs)))
                    for i, number in action.writes:
                        self._wrote(flat[i], number)
                if action.makes:
                    made = (out,) if isinstance(out, torch.Tensor) and out.layout == torch.strided else list(pieces(out))
                    for i, number in action.makes:
                        self._watch(made[i], number)
                return out
        return self.call_unplanned(func, args, kwargs)

    def call_unplanned(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        for _, t in operands(func, args, kwargs)[1]:
            self._wrote(t, None)
        return out

    def kept(self, calls: int) -> Sequence[bool]:
        return self.program.kept[: self.saves]

    def _turn(self, func: Any) -> bool:
        """Goes on under another program that agrees so far, if one is known."""
        found = self.other(self, func) if self.other is not None and self.reached < 0 else None
        if found is not None:
            self.turn(found)
        return found is not None

    def turn(self, program: Program) -> None:
        self.program, self.actions = program, program.actions
        self.store = {number: storage for number, storage in self.store.items() if number in program.held}

    def _left(self, why: str) -> None:
        self.diverged = why
        if self.left_for is not None:
            self.left_for(why)

    def leave(self, why: str) -> None:
        self._left(why)
        if self.strict:
            raise Left(f"the step leaves the recorded one, for which the plan holds: {why}")

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
        if self.diverged is None and i < len(p.kept) and not p.kept[i] and not opaque(t):
            save = p.recording.saves[i]
            if save.calls == self.calls and self.number(t) == save.value.number:
                number = save.value.number
                self.dropped.add(number)
                if self.audit is not None and number not in self.bits:
                    self.bits[number] = digest(t.untyped_storage())
        return _Handle(t, i, number)

    def unpack(self, handle: _Handle) -> torch.Tensor:
        with self.lock:
            running = torch._C._current_graph_task_id() != -1  # else somebody looks at what autograd saved
            self.begun = self.begun or running
            handle.check()
            number = handle.number
            if self.spoiled and number in self.spoiled:
                raise modified(handle.view.size, handle.version + 1, handle.version)
            if self.diverged is None and running and torch.is_grad_enabled():
                self._left("a backward pass makes a graph, which asks for everything again")  # so nothing is released
            if self.diverged is None and running:
                at, first = self._step_of(handle.save)
                if at > self.reached and self.program.before[at] != self.calls:
                    if self._turn(None):
                        at, first = self._step_of(handle.save)
                    else:
                        self.leave(f"a backward pass begins after {self.calls} operators, not after {self.program.before[at]} as recorded")
                if at > self.reached and self.diverged is None:
                    self.reached = at
                    self._advance(at)
            if number is None:
                assert handle.kept is not None
                return handle.kept
            storage = self.store.get(number)
            if storage is None:
                storage = self._make(number)
            t = handle.view.of(storage)
            source = self.program.source[handle.save] if self.diverged is None and running and first else None
            if source is not None and self.program.step_of[handle.save] == source.last:
                left = self.left.get(id(source), source.uses) - 1
                self.left[id(source)] = left
                if left <= 0 and self.store.get(number) is storage:
                    del self.store[number]
            return t

    # The backward pass.

    def _step_of(self, save: int) -> tuple[int, bool]:
        """The step of the plan that asks for a saved tensor now, and whether it is the first one that does."""
        p = self.program
        if save >= len(p.step_of):
            return -1, False  # the step has left the recorded one
        if save not in p.later:
            return p.step_of[save], True
        steps = [p.step_of[save], *p.later[save]]
        n = self.asked.get(save, 0)
        self.asked[save] = n + 1
        return steps[min(n, len(steps) - 1)], n == 0

    def _advance(self, to: int) -> None:
        """Runs recomputations that the plan has before a step, and drops values that it drops."""
        p = self.program
        while self.next_event < len(p.events) and p.events[self.next_event] < to:
            at = p.events[self.next_event]
            self.next_event += 1
            if self.moving is not None:
                self.moving.until(at)
            run = p.runs.get(at)
            if run is not None:
                op, made = run
                found = self._run(op)
                for instance in made:
                    if instance.last > at and instance.value.number in found:
                        self.store[instance.value.number] = found[instance.value.number]
                del found
            for instance in p.releases.get(at, ()):
                self.store.pop(instance.value.number, None)
        if self.moving is not None:
            self.moving.until(to)
        # First instances that a backward node reads last: autograd holds those itself.
        for instance in p.releases.get(to, ()):
            if not instance.again:
                self.store.pop(instance.value.number, None)

    def _make(self, number: int) -> torch.UntypedStorage:
        """Recomputes a value out of order, for a step that differs from the recorded one."""
        storage = self.store.get(number)
        if storage is None and self.moving is not None:
            storage = self.moving.fetch(number)
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
        """Repeats an operator and returns its results, by value."""
        self.again.append(op)
        for unit in op.units:
            unit.check(op.op + (f" of {op.module}" if op.module else ""))
        try:
            made = run_op(op, self.captured, self.program.recording.calls, self._make)
        except RuntimeError as e:
            if self.failed is not None:
                self.failed(e)
            raise
        if self.audit is not None:
            for number, remade in made.items():
                was = self.bits.pop(number, None)
                if was is not None and was != digest(remade):
                    self.audit(op.calls[0], op.op + (f" of {op.module}" if op.module else ""))
        return made


class planned(TorchDispatchMode):
    """A forward pass of a step under a plan: a dispatch mode and saved-tensor hooks, as one context."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step
        self.units = step.program.recording.units
        self.hooks = saved_tensors_hooks(self.step.pack, self.step.unpack)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the guard that it adds costs more than the rest

    def __enter__(self) -> planned:
        self.hooks.__enter__()
        super().__enter__()
        for unit in self.units:
            unit.watched(self.step)
        return self

    def __exit__(self, *exc: Any) -> None:
        for unit in self.units:
            unit.watched(None)
        super().__exit__(*exc)
        self.hooks.__exit__(*exc)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        step = self.step
        at = step.calls
        if step.aside:
            return func(*args, **kwargs or {})
        actions = step.actions
        if at < len(actions) and step.diverged is None:
            action = actions[at]
            if action.plain and action.func is func:
                step.calls = at + 1
                return func(*args, **kwargs) if kwargs else func(*args)
        return step.call(func, args, kwargs or {})
