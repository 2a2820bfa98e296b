"""The peak of a planned step, measured while it trains: from its forward pass to the end of its backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
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

    def behind(self, out: Any, done: Callable[[int], None]) -> None:
        """Calls done with the peak after the backward pass of this result of the forward pass."""
        if self._results.add(out):
            self.phase = "between"
            await_backward(self, lambda problem: None if problem else done(self._watch.peak))

    def reached_by(self, roots: Sequence[Any]) -> bool:
        return self._results.by(roots)

    def backward(self, run: Callable[[], Any], roots: Sequence[Any]) -> Any:
        try:
            return run()
        finally:
            self.close()

    def close(self) -> None:
        self._block.close()


@contextlib.contextmanager
def step(wanted: bool) -> Iterator[Measuring | None]:
    """Begins to measure at a forward pass, unless something else is recorded or profiled; ends if no backward pass follows."""
    found = pending() if wanted else None
    if found is not None and isinstance(found.recorder, Measuring):
        give_up()  # its backward pass never came
        found = None
    measuring = None
    if wanted and found is None:
        with contextlib.suppress(ProfilerBusy):
            measuring = Measuring()
    try:
        yield measuring
    finally:
        if measuring is not None and measuring.phase == "forward":
            measuring.close()
