"""The peak of a planned step, measured while it trains: from its forward pass to the end of its backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .live import await_backward, give_up, pending
from .measure import ProfilerBusy, watched
from .results import Results


class Measuring:
    """One step that is measured. live takes it in a recorder's place."""

    def __init__(self) -> None:
        self.phase = "forward"
        self._block = contextlib.ExitStack()
        self._watch = self._block.enter_context(watched())
        self._results = Results()

    def behind(self, out: Any, done: Callable[[int], None]) -> None:
        """Has done called with the peak, when the backward pass of this result of the forward pass is over."""
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
    """Measures from a forward pass on, if nothing else is recorded or profiled; ends where nobody waits for its backward pass."""
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
