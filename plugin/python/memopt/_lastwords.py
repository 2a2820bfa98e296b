"""The part of the service's standard error that is worth showing after it has ended."""

from __future__ import annotations

import collections
import re

LINES = 20

# Go's runtime prints why a process ends, then goroutines and registers, which are too long to show.
_CRASH = re.compile(r"panic: |fatal error: |SIG[A-Z]+: ")
_BEFORE = ("runtime: ", "runtime/cgo: ", "unexpected fault address ")  # on a line before that
_NO_MEMORY = ("out of memory", "cannot allocate memory")


class LastWords:
    """The last lines of output, or the first of a crash."""

    def __init__(self) -> None:
        self._last: collections.deque[str] = collections.deque(maxlen=LINES)
        self._crash: list[str] = []

    def add(self, line: str) -> None:
        if not self._crash and _CRASH.match(line) and self._last and self._last[-1].startswith(_BEFORE):
            self._crash.append(self._last[-1])
        if self._crash or _CRASH.match(line):
            self._crash.append(line)
            del self._crash[LINES:]
        self._last.append(line)

    def lines(self) -> tuple[str, ...]:
        return tuple(self._crash or self._last)

    def tell_of_no_memory(self) -> bool:
        return any(words in line for line in self._crash for words in _NO_MEMORY)
