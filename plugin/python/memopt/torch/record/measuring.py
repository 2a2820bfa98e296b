"""The peak of a planned step, measured while it trains: from its first forward pass to the end of its last backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from ..step.results import Results
from .live import await_backward, give_up, pending
from .measure import ProfilerBusy, watched


class Measuring:
    """A measurement of one step, in the place of a recorder for live."""

    def __init__(self) -> None:
        self.phase = "forward"
        self._block = contextlib.ExitStack()
        self._watch = self._block.enter_context(watched())
        self._results = Results()

    def behind(self, out: Any, done: Callable[[str], None]) -> None:
        """A forward pass has ended. done is called after each backward pass that comes to it."""
        if self._results.add(out):
            self.phase = "between"
            await_backward(self, done)

    def reached_by(self, roots: Sequence[Any]) -> bool:
        return self._results.by(roots)

    def backward(self, run: Callable[[], Any], roots: Sequence[Any]) -> Any:
        try:
            return run()
        except BaseException:
            self.close()
            raise

    def peak(self) -> int | None:
        """Ends the measurement. None if it could not be made."""
        self.close()
        return self._watch.peak

    def close(self) -> None:
        self.phase = "closed"
        self._block.close()


def begin() -> Measuring | None:
    """Begins to measure at a forward pass, unless a step is recorded or somebody else's profiler runs."""
    found = pending()
    if found is not None and isinstance(found.recorder, Measuring):
        give_up()  # its backward pass never came
        found = None
    if found is None:
        with contextlib.suppress(ProfilerBusy):
            return Measuring()
    return None
