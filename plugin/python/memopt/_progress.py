"""Progress of a call: a line on a terminal, which is erased at the end, or calls of a function."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._visible import line

if TYPE_CHECKING:
    from ._host import Host

PATIENCE = 1.0  # seconds before the line appears
PACE = 0.25  # seconds between updates of the line

Asked = bool | Callable[[str, float], Any] | None


class Watch:
    """Follows a call of the service that is sent with job; a context manager around the call.

    asked is a function of phase and share done (from 0 to 1; 0 if unknown), True for the line, False for
    nothing, None for the line on a terminal or in a notebook, on the first rank.
    """

    def __init__(self, host: Host, asked: Asked) -> None:
        if not (asked is None or isinstance(asked, bool) or callable(asked)):
            raise TypeError(f"progress is True, False, None or a function of (phase, done), not {asked!r}")
        self._host = host
        self._tell: Callable[[str, float], Any] | None = asked if callable(asked) else None
        self._shows = self._tell is None and (_seen() if asked is None else asked)
        self.job = uuid.uuid4().hex if self._tell or self._shows else ""
        self._ended = threading.Event()
        self._phase = ""
        self._stream: Any = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Watch:
        if self._tell:
            self._start(self._listen)
        elif self._shows:
            self._start(self._show)
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(5)

    def _start(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name="memopt-progress", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _listen(self) -> None:
        """Reads the stream, which the service ends with the call."""
        for phase, done in self._host.progress(self.job, self._ended):
            self._phase = line(phase)
            if self._tell:
                self._tell(self._phase, done)

    def _show(self) -> None:
        if self._ended.wait(PATIENCE):
            return
        begin = time.monotonic() - PATIENCE
        self._start(self._listen)
        shown = ""
        try:
            while not self._ended.wait(PACE):
                text = f"memopt: {self._phase or 'working'}, {time.monotonic() - begin:.0f} s"
                if text != shown:
                    sys.stderr.write("\r" + text.ljust(len(shown)))
                    sys.stderr.flush()
                    shown = text
        finally:
            if shown:
                sys.stderr.write("\r" + " " * len(shown) + "\r")
                sys.stderr.flush()


def _seen() -> bool:
    if any(os.environ.get(rank, "0") not in ("", "0") for rank in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")):
        return False
    try:
        return sys.stderr.isatty() or "ipykernel" in sys.modules
    except (AttributeError, ValueError):  # stderr is missing or closed
        return False
