"""Which steps of a loop are launched from captures: those of which one program is known, that was checked and measured, and nothing else of late.

A capture holds its memory between steps. So where the steps are within a budget it is dropped when a step comes that is not captured,
and made again when none has come for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ...report import show_bytes
from ..graph.capture import Pool, pool_of, waits
from ..graph.graphed import Graphed, reached
from ..native.run import step_of
from ..record.record import Recording
from .programs import Made
from .told import Told

MOST = 8  # captures
_QUIET = 3  # steps in a row that could have been captured, before one is
_MOST_OVERLAPS = 3
_MOST_DROPS = 3  # of all captures; then there are too many kinds of steps


class Graphs:
    """The captures of a module's steps."""

    def __init__(self, model: torch.nn.Module, told: Told, bounded: bool) -> None:
        self.model, self.told, self.bounded = model, told, bounded
        self.pool: Pool | None = pool_of({t.device for t in model.parameters()})
        self.made: dict[Any, Graphed] = {}
        self.why: dict[Any, str] = {}  # steps that are not captured, or nothing of those that may be
        self.overlaps = 0  # forward passes that came before the backward pass of a captured step
        self.reached: dict[Any, set[int]] = {}  # results from which a backward pass came
        self.quiet = 0
        self.drops = 0

    def ready(self, key: Any, made: Made | None, programs: int) -> bool:
        """Whether steps of a kind may be launched from a capture, if there is one."""
        fit = made is not None and programs == 1 and made.audits <= 0
        if fit and made is not None and key not in self.why:
            self._refuse(key, uncapturable(made.recording))
        fit = fit and not self.why[key]
        if not fit:
            self.quiet = 0
            if self.made and self.bounded:
                self.drop()
        return fit and self.drops <= _MOST_DROPS

    def run(self, key: Any, made: Made, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        """Launches a step's forward pass. False if it must run."""
        for graphed in self.made.values():
            graphed.rescue()
        found = self.made.get(key)
        if found is not None and found.stale:
            self.drop()
            found = None
        if found is None:
            self.quiet += 1
            if self.quiet <= _QUIET or not self.reached.get(key):
                return False, None
            found = self._capture(key, made, forward, args, kwargs)
        if found is None:
            return False, None
        if found.busy:
            self.overlaps += 1
            if self.overlaps >= _MOST_OVERLAPS:
                self._refuse(key, "forward passes come before the backward pass of the one before")
                self.drop()
            return False, None
        made.report.replay = "graph"
        return True, found(args, kwargs)

    def ran(self, key: Any, out: Any) -> None:
        """A step that may be captured later has run its forward pass."""
        reached(out, self.reached.setdefault(key, set()))

    def _capture(self, key: Any, made: Made, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graphed | None:
        assert self.pool is not None
        around: Callable[[], AbstractContextManager[Any]] | None = None
        if made.program is not None:
            program = made.program
            around = lambda: step_of(program, strict=True).forward()  # noqa: E731
        if len(self.made) >= MOST:
            self.made.pop(next(iter(self.made)))
        try:
            found = self.made[key] = Graphed(self.pool.capture(), self.model, forward, args, kwargs, around, self.reached[key])
        except Exception as e:  # the step runs without
            self._refuse(key, str(e).splitlines()[0] or type(e).__name__)
            return None
        made.report.reserved = self.pool.reserved + made.report.counted
        self.told.say("captured", f"memopt: steps are launched from one capture, in a pool of {show_bytes(self.pool.reserved)}")
        return found

    def _refuse(self, key: Any, why: str) -> None:
        self.why[key] = why
        if why:
            self.told.warn(f"the step is not captured, and runs under its plan: {why}")

    def drop(self) -> None:
        """Gives the memory of all captures back."""
        for graphed in self.made.values():
            graphed.rescue()
        self.made.clear()
        self.drops += 1
        self.quiet = 0
        if self.drops > _MOST_DROPS:
            self.told.warn("steps of too many kinds come in turn for all of them to be captured within the budget: they run under their plans")
        devices = {t.device for t in self.model.parameters()}
        self.pool = None
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        self.pool = pool_of(devices)


def uncapturable(recording: Recording) -> str:
    """Why a recorded step cannot be captured, and where."""
    if len(recording.begins) > 1:
        return f"it has {len(recording.begins)} forward passes"
    if recording.keeps:
        return "a backward pass keeps its graph"
    if recording.units:
        return "its parameters are sharded"
    for i, call in enumerate(recording.calls):
        if waits(call.func):
            before = [(at, op.module) for op in recording.ops if not op.backward for at in op.calls if at <= i]  # what makes no bytes is no operator of the recording
            _, module = max(before, default=(0, ""))
            return f"the host waits for the value of {call.func._schema.name.replace('::', '.')}" + (f", in {module}" if module else "")
    return ""
