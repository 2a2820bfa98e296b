"""What the loop holds of a step's results until its end, which only the loop tells.

A sample lets go of what the model returned before its backward pass, as loops do that only read the loss. One that keeps the scores,
say for a metric, takes as many bytes more. So the first steps behind a sample run under a plan with room for them, and the first
step shows which of both the loop is. Steps that were recorded as they ran are looked at too, and recorded again where later ones
hold something else.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Protocol

import torch

from ...errors import BudgetError
from ...report import show_bytes
from ..plan.form import Place
from ..plan.report import StepReport
from ..record.operators import Value
from ..step.results import plain_results
from ..step.tensors import pieces, referred
from .programs import Made, Programs
from .share import Share
from .steps import Running
from .told import Told

_LEAST = 1000  # a result is of interest if it has more than this part of the step's peak


class Steps(Protocol):
    """The loop."""

    programs: Programs
    told: Told
    last: StepReport | None


def cautious(made: Made, share: Share) -> Made:
    """The plan of a sample's step with room for its results until the end; the same where that is enough as it is, or there is none."""
    places = _places(made)
    if made.at is None or not places:
        return made
    program, accumulates = made.at.program, made.recording.accumulates
    program.hold(places)
    if made.planned is not None:
        share.lengths.take(made.at, accumulates, made.planned.report)
    try:
        found = share.plan(made.at.recording(accumulates), at=made.at)
    except BudgetError:
        program.hold(frozenset())
        return made
    found.instead = made
    return found


def _places(made: Made) -> frozenset[Place]:
    """The results of forward passes that the recording lets go of before its end, by operator and output."""
    recording = made.recording
    ops = {op: i for i, op in enumerate(recording.ops)}
    found = set()
    for value in {v for shown in recording.shown for v in shown}:
        op = value.maker
        if op is not None and not op.backward and value.bytes * _LEAST > recording.measured_peak and not _held(made, value):
            found.add((ops[op], op.outputs.index(value)))
    return frozenset(found)


def _held(made: Made, value: Value) -> bool:
    """Whether a plan has a value held to the end of the step."""
    ops = made.recording.ops
    if value.held is ops[-1]:
        return True
    held = made.at.program.held if made.at is not None else frozenset()
    return value.maker is not None and bool(held) and (ops.index(value.maker), value.maker.outputs.index(value)) in held


def look(loop: Steps, step: Running, out: Any) -> None:
    """Looks at the results of a forward pass of a planned step again when its last backward pass is over."""
    made = step.made
    if made is None or made.looks <= 0 or len(step.passes) >= len(made.recording.shown):
        return
    shown = list(pieces(plain_results(out)))
    values = made.recording.shown[len(step.passes)]
    if len(shown) != len(values):
        return
    here = [(v, weakref.ref(t.untyped_storage())) for v, t in zip(values, shown, strict=True) if v.bytes * _LEAST > made.recording.measured_peak and v.maker is not None and t.layout == torch.strided]
    if not here:
        return
    found = weakref.ref(loop), weakref.ref(step), here
    for t in shown:
        if t.grad_fn is not None:
            t.grad_fn.register_prehook(functools.partial(_comes, found))
            return


_Look = tuple["weakref.ref[Steps]", "weakref.ref[Running]", list[tuple[Value, "weakref.ref[torch.UntypedStorage]"]]]


def _comes(found: _Look, _: Any) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(functools.partial(_judge, found))  # type: ignore[attr-defined]


def _judge(found: _Look) -> None:
    """A backward pass is over: what is there now, the loop holds."""
    loop, step, results = found[0](), found[1](), found[2]
    if loop is None or step is None or step.made is None or step.open or step.kept or step.left or step.broken:
        return
    made = step.made
    made.looks -= 1
    there = {v for v, ref in results if referred(ref) is not None}
    planned = {v for v, _ in results if _held(made, v)}
    if made.instead is not None:
        _settle(loop, step, made, there)
    elif there != planned:
        loop.programs.record(step.key)


def _settle(loop: Steps, step: Running, made: Made, there: set[Value]) -> None:
    """The first step behind a sample is over: its plan was made for a loop that holds all results, and is kept for one that holds some."""
    other = made.instead
    assert other is not None and made.at is not None
    made.instead, other.looks = None, made.looks
    if not there:
        made.at.program.hold(frozenset())
        made.looks = 0
        loop.programs.replace(made, other)
        step.made = other if step.measuring is None else step.made
        loop.last = other.report
        return
    loop.last = made.report
    loop.told.say("held", f"memopt: the loop holds {show_bytes(made.report.held)} of the model's results through the backward pass, beside which a step takes {show_bytes(made.report.promised_peak)}, of {show_bytes(made.report.eager_peak)} in eager mode")
