"""Steps that no plan holds for: blocks run under torch.utils.checkpoint, unless that was measured to take more than keeping everything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from ..plan.report import StepReport
from ..record import measuring
from ..record.joint import name_of
from ..record.record import Recording
from ..replay.regions import checkpointed

_AGAIN = 8  # steps between two measurements


class Without:
    """How such steps run, and what they take."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.last: StepReport | None = None
        self.peaks: dict[bool, int] = {}  # by whether blocks were checkpointed
        self.steps = 0

    def report(self, before: StepReport | None, why: str) -> StepReport:
        """A report that says so."""
        if self.last is not None:
            self.last.without = why
        elif before is None:
            name = name_of(self.model)
            recording = Recording({"model": name, "nodes": [], "outputs": [], "num_fwd_outputs": 0}, 0, [], [], [])
            self.last = StepReport(0, 0, None, 0, "", 0.0, 0.0, 0, None, recording, without=why)
        else:
            eager = before.recording.measured_peak + before.counted
            self.peaks[False] = before.recording.measured_peak
            self.last = dataclasses.replace(before, eager_peak=eager, promised_peak=eager, measured_peak=None, overhead=0.0, gap=0.0, plan=None, measured_on="", without=why)
        return self.last

    def run(self, call: Callable[[], Any]) -> Any:
        """Runs a forward pass. Each way is measured now and then; the one that took less is taken."""
        self.steps += 1
        turn = self.steps % _AGAIN
        checkpoints = turn == 1 or turn != 0 and self.peaks.get(True, 0) <= self.peaks.get(False, 1 << 62)
        found = measuring.begin() if turn in (0, 1) else None
        try:
            if checkpoints:
                with checkpointed(self.model):
                    out = call()
            else:
                out = call()
        except BaseException:
            if found is not None:
                found.close()
            raise
        if found is not None:
            found.behind(out, lambda problem: self._measured(found, checkpoints, problem))
        return out

    def _measured(self, found: measuring.Measuring, checkpoints: bool, problem: str) -> None:
        peak = found.peak()
        if peak is None or problem:
            return
        self.peaks[checkpoints] = peak
        if self.last is not None:
            self.last.measured(min(self.peaks.values()), "a step of training")
            if False in self.peaks and not checkpoints:
                self.last.eager_peak = self.peaks[False] + self.last.counted
