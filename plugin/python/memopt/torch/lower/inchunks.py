"""Whether a loop's loss is computed in chunks of rows: as asked for, or where the budget cannot be met otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import BudgetError
from ..record.floor import binding
from ..record.record import Recording
from ..step.sample import Loss
from .scores import Chunks, chunks_of

CHOSEN = 'the loss is computed in chunks of rows (loss_chunks="auto"), which changes the rounding of its sums and nothing else; loss_chunks=1 switches that off'


class Undivided(Exception):
    """No plan fits, and one would if the loss were computed in chunks."""


class InChunks:
    """The loss of a loop's steps."""

    def __init__(self, asked: int | str | None, alone: bool) -> None:
        self.chunks: Chunks | None = chunks_of(asked)
        self.open = asked is None and alone  # may be turned on, once
        self._whole: Recording | None = None  # the step for which it was turned on
        self._times = 1.0  # what eager mode takes, as a multiple of what the step takes in chunks

    @property
    def chosen(self) -> bool:
        """Whether it is in chunks without having been asked for."""
        return self.chunks is not None and not self.chunks.asked

    @property
    def setting(self) -> int | str | None:
        """The argument of memopt.optimize that does the same."""
        return None if self.chunks is None else self.chunks.chunks or "auto"

    def around(self, model: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        return forward if self.chunks is None else self.chunks.around(model, forward)

    def suffices(self, recording: Recording, e: BudgetError, limit: int | None) -> bool:
        """Whether a step that was refused would fit with its loss in chunks."""
        if not self.open or e.floor is None or e.best <= 0 or limit is None:
            return False
        offers = binding(recording.graph, e.floor.peak, e.floor.node).offers
        return any(o.argument.startswith("loss_chunks") and "," not in o.argument and o.floor <= limit for o in offers)

    def turn(self, whole: Recording) -> None:
        """Steps are to be recorded anew, with the loss in chunks."""
        self.open, self.chunks, self._whole = False, Chunks("auto", asked=False), whole

    def eager(self, recording: Recording) -> int:
        """The peak of a recorded step in eager mode, of which a percentage is a share: known of the step for which chunks were turned on,
        and in proportion of others."""
        if not self.chosen:
            return recording.measured_peak
        if self._whole is not None and self._whole.begins == recording.begins and self._whole.accumulates == recording.accumulates:
            self._times, self._whole = self._whole.measured_peak / max(1, recording.measured_peak), None
        return int(recording.measured_peak * self._times)

    def find(self, model: torch.nn.Module, forward: Callable[[], Any], loss: Loss | None) -> None:
        """Finds the layer whose scores the loss reads, before a step is recorded. Without one the loss stays whole, unless chunks were asked for."""
        if self.chunks is None or self.chunks.name is not None:
            return
        try:
            self.chunks.find(model, forward, loss)
        except ValueError:
            if self.chunks.asked:
                raise
            self._drop()

    def check(self) -> None:
        """Looks whether the recorded step had its loss in chunks."""
        if self.chunks is None:
            return
        if self.chunks.asked:
            self.chunks.check()
        elif not self.chunks.used:
            self._drop()

    def _drop(self) -> None:
        assert self.chunks is not None
        self.chunks.off = True  # also for calls that were wrapped before
        self.chunks = None
