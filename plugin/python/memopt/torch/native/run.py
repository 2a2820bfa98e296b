"""Who replays a planned step: the native module where it is there and sees the step as it was recorded, else Python."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils import _python_dispatch as modes
from torch.utils._python_dispatch import TorchDispatchMode

from ..replay.moves import Moving
from ..replay.program import Program
from ..replay.replay import Audit, Left, Other, Passes, Step, planned
from .build import library
from .layout import layout, name_of, operators, overload_of


@dataclass
class Seen:
    """What is known of a recorded step under the native module."""

    heard: bool = False  # every operator came by in a step that Python replayed
    followed: bool = False  # to the end of a step
    strayed: str = ""  # where a step left it before that
    refused: str = ""


def step_of(program: Program, strict: bool = False, audit: Audit | None = None, others: Iterable[Program] = (), tell: Callable[[str], None] = lambda _: None) -> StepOf:
    """The state of a planned step, which may go on as others that are known."""
    native = library.get(tell)
    if native is not None and not (why := _in_python(program, others)):
        if not _seen(program).heard:
            step = HeardStep(native, program, strict, audit)
            step.why = "the native module listens in the first planned step"
            return step
        if _laid_out(native, program):
            return _native_step(native)(program, strict, audit)  # type: ignore[no-any-return]
        why = _seen(program).refused
    found = Step(program, strict, audit)
    found.why = why if native is not None else library.why or "the native module is not built yet"
    return found


def _in_python(program: Program, others: Iterable[Program]) -> str:
    """Why the native module does not run a step; "" if it may."""
    if program.recording.units:
        return "parameters are under fully_shard"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "the step runs within a dispatch mode"
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return "the step runs within saved-tensor hooks"  # the native module leaves what is kept to autograd, where these would get it
    return next((why for p in (program, *others) if (why := _seen(p).refused)), "")


def _laid_out(native: Any, program: Program) -> bool:
    """Whether the native module has a program."""
    if program.native is None:
        try:
            program.native = native.program(*layout(program))
        except (RuntimeError, IndexError) as e:
            _seen(program).refused = str(e).splitlines()[0]
    return program.native is not None


def _seen(program: Program) -> Seen:
    found = program.recording.native
    if found is None:
        found = program.recording.native = Seen()
    return found  # type: ignore[no-any-return]


class HeardStep(Step):
    """A step that Python replays, while the native module listens whether it would see the same."""

    def __init__(self, native: Any, program: Program, strict: bool, audit: Audit | None) -> None:
        super().__init__(program, strict, audit)
        self.ear = _Ear(native)

    def forward(self) -> AbstractContextManager[Any]:
        return _Heard(self)


class _Heard:
    """A forward pass of it."""

    def __init__(self, step: HeardStep) -> None:
        self.step = step
        self.both = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as both:
            both.enter_context(self.step.ear)
            both.enter_context(planned(self.step))
            self.both = both.pop_all()

    def __exit__(self, *exc: Any) -> None:
        self.both.__exit__(*exc)
        step = self.step
        if step.diverged is None and exc[0] is None and step.calls == len(step.actions):
            seen = _seen(step.program)
            seen.heard, seen.refused = not step.ear.other, step.ear.other


class _Ear(TorchDispatchMode):
    """Compares what comes by the native module with what comes by a mode."""

    def __init__(self, native: Any) -> None:
        super().__init__()
        self.native = native
        self.other = ""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.native.cover(func._schema.name, func._schema.overload_name):
            return func(*args, **kwargs or {})  # seen above autograd, from where a mode is called
        name = name_of(func)
        self.native.hear()
        try:
            return func(*args, **kwargs or {})
        finally:
            heard = self.native.heard()
            if heard != [name]:
                self.other = self.other or f"of {name} it sees {', '.join(heard[:4]) or 'nothing'}"


class NativeStep(Passes):
    """A step that the native module replays. The state is in C++, of which this is a part."""

    kind = "native"
    native: Any
    reached: int  # the step of the plan that the backward pass is at

    def __init__(self, program: Program, strict: bool, audit: Audit | None) -> None:
        self.program = program
        self.audit = audit
        self.other: Other | None = None
        self.left_for: Callable[[str], None] | None = None  # told why the step leaves its program
        self.failed: Callable[[RuntimeError], None] | None = None  # told of an error of what runs again
        self.begin(program.native, Left if strict else None, audit is not None)  # type: ignore[attr-defined]
        here = weakref.proxy(self)  # the step ends with its graph, whatever is away
        self.moving = Moving(program.moves, _Storages(here), lambda number: here.bits(number)) if program.moves is not None else None

    def forward(self) -> AbstractContextManager[Any]:
        return _Native(self)

    @property
    def ran(self) -> list[str]:
        """The operators that ran again, in this order."""
        again = operators(self.program)
        return [again[i].name for i in self.repeated]  # type: ignore[attr-defined]

    def kept(self, calls: int) -> Sequence[bool]:
        # What autograd keeps by itself behind the last operator does not come by.
        first = sum(save.calls < calls for save in self.program.recording.saves)
        return self.program.kept[: first + self.packed(calls)]  # type: ignore[attr-defined]

    def turn(self, program: Program) -> None:
        if _laid_out(self.native, program):
            self.program = program
            self.follow(program.native)  # type: ignore[attr-defined]
        else:
            self._left("it goes on as a program that the native module does not run")

    def another(self, name: str = "", overload: str = "") -> bool:
        """Called where the step does not go on as its program says: whether it goes on as another one."""
        found = self.other(self, overload_of(name, overload) if name else None) if self.other is not None else None
        if found is not None:
            self.turn(found)
        return found is not None and self.diverged is None

    def differs(self, which: int) -> None:
        """Called for an operator that gave other bits when it ran again."""
        op = operators(self.program)[which]
        if self.audit is not None:
            self.audit(op.calls[0], op.op + (f" of {op.module}" if op.module else ""))

    def move(self, step: int) -> None:
        """Called before a step of the plan before which values leave or come back."""
        assert self.moving is not None
        self.moving.until(step)

    def fetch(self, number: int) -> None:
        """Called for a value that is away, out of order."""
        assert self.moving is not None
        self.moving.fetch(number)

    def _left(self, why: str) -> None:
        self.diverged = why
        if self.left_for is not None:
            self.left_for(why)

    def left(self, why: str, forward: bool) -> None:
        """Called where the step leaves its program, in a forward pass or in a backward pass."""
        seen = _seen(self.program)
        if forward and not seen.followed:
            if seen.strayed == why:  # twice at one operator, and Python went on there in between: it is what the native module sees
                seen.refused = why
                return
            seen.strayed = why
        if self.left_for is not None:
            self.left_for(why)


class _Storages:
    """The storages that the native part of a step holds."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def get(self, number: int, /) -> torch.UntypedStorage | None:
        return self.step.held(number)  # type: ignore[no-any-return]

    def pop(self, number: int, default: None, /) -> None:
        self.step.hold(number, default)

    def __setitem__(self, number: int, storage: torch.UntypedStorage, /) -> None:
        self.step.hold(number, storage)


def _native_step(native: Any) -> Any:
    """The class of native steps, which is made when the module is there."""
    found = _classes.get(native)
    if found is None:
        found = _classes[native] = type("NativeStep", (NativeStep, native.Step), {"native": native})
        _tell_of_modes(native)
    return found


def _tell_of_modes(native: Any) -> None:
    """Has the module told of each mode that is entered, by whomever, and a step where its own are taken away for what is computed on the side."""
    enter, leave = modes._push_mode, modes._pop_mode

    def _push_mode(mode: Any) -> None:
        enter(mode)
        native.wake()
        if isinstance(mode, _Silent) and mode.step is not None:
            mode.step.away(-1)

    def _pop_mode(k: Any = None) -> Any:
        mode = leave(k)
        if isinstance(mode, _Silent) and mode.step is not None:
            mode.step.away(1)
        return mode

    modes._push_mode, modes._pop_mode = _push_mode, _pop_mode


_classes: dict[Any, Any] = {}
StepOf: TypeAlias = "Step | NativeStep"


class _Silent(TorchDispatchMode):
    """Stands where planned stands, so that composite operators and compilers take the way that was recorded, and is seldom called."""

    def __init__(self, native: Any) -> None:
        super().__init__()
        self.native = native
        self.step: Any = None  # while its forward pass runs

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.native.saves_result(func._schema.name, func._schema.overload_name):
            with torch._C._DisableTorchDispatch():
                return func(*args, **kwargs or {})
        return func(*args, **kwargs or {})


class _Native:
    """A forward pass of a step that the native module replays."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.mode = _Silent(step.native)

    def __enter__(self) -> None:
        self.mode.__enter__()
        torch._C._push_on_torch_dispatch_stack(self.mode)  # a second time: while one is called there is another, so PyTorch does not switch modes on behind it
        self.step.enter()
        self.mode.step = self.step

    def __exit__(self, *exc: Any) -> None:
        self.mode.step = None
        self.step.exit()
        torch._C._pop_torch_dispatch_stack(None)
        self.mode.__exit__(*exc)
        if exc[0] is None and self.step.diverged is None and self.step.calls == len(self.step.program.actions):
            _seen(self.step.program).followed = True
