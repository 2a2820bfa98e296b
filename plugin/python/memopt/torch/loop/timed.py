"""The time that a plan takes, measured: steps of the sample with the plan and without it, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ..native.run import step_of
from ..replay.program import Program
from ..step.sample import Loss, scalar, state_kept

LONG = 0.25  # seconds: of a step that takes longer nobody waits for several
_ROUNDS = 3  # the least counts, as others' work only adds to it
_FIRST = 2  # planned steps that are not timed: in the first one the native module listens

Around = Callable[[Callable[[], Any]], Any]


def times_of(model: torch.nn.Module, program: Program, call: Callable[[Around], Any], loss: Loss | None) -> tuple[float, float, str] | None:
    """Seconds of a step as it is and under the plan, and what replayed it; None if it takes too long to be run several times.

    call runs the model, with its argument around the planned part.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    # What other programs do meanwhile is none of the step's, where the clock of the process counts all of it.
    clock = time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    kind = ""

    def as_it_is(forward: Callable[[], Any]) -> Any:
        return forward()

    def planned(forward: Callable[[], Any]) -> Any:
        nonlocal kind
        run = step_of(program)
        kind = run.kind
        with run.forward():
            return forward()

    def timed(around: Around) -> float:
        for p in model.parameters():
            p.grad = None
        _wait(device)
        begin = clock()
        scalar(call(around), loss).backward()
        _wait(device)
        return clock() - begin

    with state_kept(model):
        for _ in range(_FIRST):
            if timed(planned) > LONG:
                return None
        found = [(timed(as_it_is), timed(planned)) for _ in range(_ROUNDS)]
    return min(a for a, _ in found), min(b for _, b in found), kind


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
