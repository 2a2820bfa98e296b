"""Who replays a planned step: the native module where it is there and sees the step as it was recorded, else Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..replay.program import Program
from ..replay.replay import Audit, Left, Other, Passes, Step, planned
from .build import library
from .layout import layout, name_of


@dataclass
class Seen:
    """What is known of a recorded step under the native module."""

    heard: bool = False  # every operator came by in a step that Python replayed
    followed: bool = False  # to the end of a step
    refused: str = ""


def step_of(program: Program, strict: bool = False, audit: Audit | None = None, several: bool = False, tell: Callable[[str], None] = lambda _: None) -> StepOf:
    """The state of a planned step. Several programs are known for such steps, among which Python finds the one to go on as."""
    native = library.get(tell)
    seen = _seen(program)
    if native is None or several or seen.refused or program.recording.units or program.later or torch._C._len_torch_dispatch_stack() > 0:
        return Step(program, strict, audit)
    if not seen.heard:
        return HeardStep(native, program, strict, audit)
    if audit is not None:
        return Step(program, strict, audit)
    if program.native is None:
        try:
            program.native = native.program(*layout(program))
        except (RuntimeError, IndexError) as e:
            seen.refused = str(e).splitlines()[0]
            return Step(program, strict, audit)
    return _native_step(native)(program, strict)  # type: ignore[no-any-return]


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
    saves = 0  # not counted: most do not come by

    def __init__(self, program: Program, strict: bool) -> None:
        self.program = program
        self.other: Other | None = None  # several programs are replayed by Python
        self.left_for: Callable[[str], None] | None = None  # told why the step leaves its program
        self.failed: Callable[[RuntimeError], None] | None = None  # told of an error of what runs again
        self.begin(program.native, Left if strict else None)  # type: ignore[attr-defined]

    def forward(self) -> AbstractContextManager[Any]:
        return _Native(self)

    @property
    def ran(self) -> list[str]:
        """The operators that ran again, in this order."""
        again = self.program.again
        return [again[i].name for i in self.repeated]  # type: ignore[attr-defined]

    def turn(self, program: Program) -> None:
        self._left("it goes on as another program")  # one that was not known when the step began

    def _left(self, why: str) -> None:
        self.diverged = why
        if self.left_for is not None:
            self.left_for(why)

    def left(self, why: str, forward: bool) -> None:
        """Called where the step leaves its program, in a forward pass or in a backward pass."""
        seen = _seen(self.program)
        if forward and not seen.followed:
            seen.refused = why  # by what the native module sees: Python replays the next one
        elif self.left_for is not None:
            self.left_for(why)


def _native_step(native: Any) -> Any:
    """The class of native steps, which is made when the module is there."""
    found = _classes.get(native)
    if found is None:
        found = _classes[native] = type("NativeStep", (NativeStep, native.Step), {"native": native})
    return found


_classes: dict[Any, Any] = {}
StepOf: TypeAlias = "Step | NativeStep"


class _Silent(TorchDispatchMode):
    """Stands where planned stands, so that composite operators and compilers take the way that was recorded, and is seldom called."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.step = step

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.step.native.saves_result(func._schema.name, func._schema.overload_name):
            with torch._C._DisableTorchDispatch():
                return func(*args, **kwargs or {})
        return func(*args, **kwargs or {})


class _Native:
    """A forward pass of a step that the native module replays."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.mode = _Silent(step)

    def __enter__(self) -> None:
        self.mode.__enter__()
        torch._C._push_on_torch_dispatch_stack(self.mode)  # a second time: while one is called there is another, so PyTorch does not switch modes on behind it
        self.step.enter()

    def __exit__(self, *exc: Any) -> None:
        self.step.exit()
        torch._C._pop_torch_dispatch_stack(None)
        self.mode.__exit__(*exc)
        if exc[0] is None and self.step.diverged is None and self.step.calls == len(self.step.program.actions):
            _seen(self.step.program).followed = True
