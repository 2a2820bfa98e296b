"""Steps of a sample: one is recorded, and one is run under its plan, before the training begins."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...errors import BudgetError
from ..lower.feed_forward import MOST
from ..lower.inchunks import Undivided
from ..lower.tiles import Tiles
from ..native.run import step_of
from ..plan.offloaded import own_offload
from ..plan.plans import plan_of
from ..plan.report import Rounding, StepReport
from ..ranks.meeting import traps
from ..record.measure import gradients, step_peak
from ..record.record import Recording, record_call
from ..replay.program import Program
from ..step.given import share_of
from ..step.sample import Sample, through
from ..step.sizes import Shape
from .holders import cautious
from .loop import Loop
from .programs import Made
from .timed import times_of

_COUNTS = (2, 4, 8, 16, 32, MOST)  # of tiles, that are tried


class Rehearsal:
    """A sample of a loop's steps."""

    def __init__(self, loop: Loop, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.loop, self.forward, self.args, self.kwargs = loop, forward, args, kwargs
        self.model: torch.nn.Module = loop.model
        self.of: Any = None
        self.shape = Shape(None, ())

    def prepare(self) -> StepReport:
        """Records a step, plans it, and checks the plan by running it."""
        loop, share = self.loop, self.loop.share
        loop.state.look()
        for text in traps(self.model):
            loop.told.warn(text)
        recording = self._record() if loop.tiles is None or not loop.tiles.open else self._tiled(loop.tiles)
        at = loop.sized(recording, self.shape)
        sample = Sample(self.args, self.kwargs) if not loop.state.units else None  # other ranks would have to come along
        try:
            with share.meeting() as together:
                made = share.plan(recording, sample=sample, together=together, divides=together is None, at=at)
        except Undivided:
            loop.loss.turn(recording)
            share.forget()
            self.forward = loop.loss.around(self.model, self.forward)
            recording = self._record()
            at = loop.sized(recording, self.shape)
            made = share.plan(recording, sample=sample, at=at)
        while made.program is not None and not self._check(made, made.program):
            made = share.plan(recording, sample=sample, at=at)
        if made.program is not None and together is None and not loop.state.units and loop.early is None and share.request.verbose:
            self._time(made, made.program)
        if recording.sent.name and together is None:
            loop.hooked(recording.sent)
            made.report.own_offload = own_offload(record_call(self.model, self._call, share.request.loss, share.recording_limit(), prices=True))
        loop.keep((self.of, False), made)
        if together is None:
            loop.programs.add((self.of, False), cautious(made, share))
        return made.report

    def _time(self, made: Made, program: Program) -> None:
        """Measures the time of the step under its plan, where the step fits as it is."""
        if made.recording.measured_peak > self.loop.share.recording_limit() or made.report.moved:
            return
        found = times_of(self.model, program, self._call, self.loop.request.loss)
        if found is not None:
            made.report.timed(*found)
            if made.report.profile_off:
                self.loop.told.say("profile", made.report.profile_off)

    def _noted(self, *args: Any, **kwargs: Any) -> Any:
        self.of = ("", "forward"), self.loop.state.key(args, kwargs)  # as the hooks of the module hand them on
        self.shape = self.loop.state.shape(self.of, args, kwargs)
        return self.forward(*args, **kwargs)

    def _call(self, around: Callable[[Callable[[], Any]], Any]) -> Any:
        return through(self.model, self._noted, around, self.args, self.kwargs)

    def _record(self) -> Recording:
        loop = self.loop
        loop.find(functools.partial(self._call, lambda forward: forward()))
        recording = record_call(self.model, self._call, loop.request.loss, loop.share.recording_limit())
        recording.begins = [type(begin)(self.of, begin.calls) for begin in recording.begins]
        loop.loss.check()
        return recording

    def _tiled(self, tiles: Tiles) -> Recording:
        """Records the step with its feed-forward layers whole, and then in more and more tiles while that costs less or nothing fits, and
        with the first ones whole: at their backward pass little else is in memory. The numbers that cost least are taken."""
        loop, share = self.loop, self.loop.share
        tiles.open = False
        if loop.state.units or torch.distributed.is_available() and torch.distributed.is_initialized():
            return self._record()  # ranks would have to choose alike
        asked, tiles.counts = tiles.counts, (1,)
        whole = self._record()
        limit = share.limit(share.fixed(whole), share.loss.eager(whole))
        if limit is None:  # the lowest peak is asked for
            tiles.counts = asked
            return self._record()
        plain = float(plan_of(whole).baseline.time_ns)
        most = share_of("max_overhead", share.request.max_overhead) if share.request.max_overhead is not None else float("inf")

        def cost(recording: Recording) -> tuple[float, float]:
            """The time, infinite where nothing fits, and the bytes of the lowest plan."""
            time = float(plan_of(recording).baseline.time_ns)
            if recording.measured_peak <= limit and time <= (1 + most) * plain:
                return time, 0.0
            try:
                found = (1 + plan_of(recording, activation_budget=max(1, limit)).result.overhead) * time
            except BudgetError as e:
                return float("inf"), float(e.best or recording.measured_peak)
            return (found, 0.0) if found <= (1 + most) * plain * (1 + 1e-9) else (float("inf"), float(recording.measured_peak))

        best: tuple[tuple[float, float], tuple[int, ...]] = cost(whole), (1,)
        found = whole

        def better(counts: tuple[int, ...]) -> bool:
            nonlocal best, found
            tiles.counts = counts
            recording = self._record()
            now = cost(recording), counts
            if now < best:
                best, found = now, recording
            return found is recording

        if best[0] > (plain, 0.0):
            for k in _COUNTS:
                if not better((k,)) and best[0][0] < float("inf"):
                    break  # more tiles save no time
            first, step = 0, tiles.depth // 2 if best[1] != (1,) else 0
            k = best[1][-1]
            while step > 0 and step >= tiles.depth // 4:
                if better((*(1,) * (first + step), k)):
                    first += step
                step //= 2
        tiles.counts = best[1]
        tiles.times = whole.measured_peak / max(1, found.measured_peak)
        if found is not whole:
            tiles.slower = float(plan_of(found).baseline.time_ns) / max(1.0, plain)
            tiles.chosen = f'{tiles.said()} (sequence_tiles="auto")'
        share.forget()
        return found

    def _error(self, lossy: Rounding, program: Program) -> None:
        """Notes by how much the gradients of a step differ from the exact ones."""
        def planned(forward: Callable[[], Any]) -> Any:
            with step_of(program).forward():
                return forward()

        loss, exact = gradients(self.model, lambda: self._call(lambda forward: forward()), self.loop.request.loss)
        rounded_loss, rounded = gradients(self.model, lambda: self._call(planned), self.loop.request.loss)
        lossy.compare((loss, rounded_loss), exact, rounded)

    def _check(self, made: Made, program: Program) -> bool:
        """Runs the step once under the plan, and checks for the bits of eager mode and the promised bytes. False if an operator must be kept from now on."""
        recording, loop = made.recording, self.loop
        drifted: list[Any] = []
        run = step_of(program, audit=lambda at, _: drifted.extend(op for op in recording.ops if at in op.calls and not op.backward))

        def under(forward: Callable[[], Any]) -> Any:
            with run.forward():
                return forward()

        checked = step_peak(self.model, lambda: self._call(under), loop.request.loss)
        made.report.measured(checked.peak, "the sample")
        if run.diverged is not None:
            raise RuntimeError(f"memopt: the module does not run the same operators twice, so no plan holds for it: {run.diverged}")
        for op in drifted:
            loop.told.warn(f"{op.op} of {op.module or 'the model'} gives other bits when it runs again; its results are kept", RuntimeWarning)
            recording.keep(op)
            loop.share.lengths.keep(functools.partial(operator.is_, op))
        if made.report.lossy is not None and made.report.lossy.values:
            self._error(made.report.lossy, program)
            return not drifted
        wrong = [name for name, d in recording.digests.items() if checked.digests.get(name) != d]
        if wrong and not drifted:
            raise RuntimeError(
                f"memopt: under the plan {wrong[0]} has other bits than in eager mode ({len(wrong)} of {len(recording.digests)} tensors differ); "
                "the plan is not used, please report this with the model"
            )
        return not drifted
