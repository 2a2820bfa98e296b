"""When bytes of a step are allocated and freed: from PyTorch's profiler, or from the storages that operators make.

The profiler is told by the allocators and misses nothing, but there is only one. Where somebody else's runs, or starts, what is
known is the storages of results: when they were made, how large they are, and when they are gone. Work space within
operators and what nobody sees between the passes is then missing, and the recording says so (Events.partial).
"""

from __future__ import annotations

import contextlib
import time
import weakref
from typing import Any

import torch

from .measure import BEGINS, ENDS, Profiler, ProfilerBusy, events_of, mark, marked
from .operators import AGAIN, BACKWARD, FORWARD

_LONG = (FORWARD, BACKWARD)  # in which others may start a profiler
Found = tuple[list[tuple[int, int, int]], dict[str, list[tuple[int, int]]]]


class Events:
    """What is allocated in one step, and when its spans ran."""

    def __init__(self) -> None:
        self._profiler: Profiler | None = None
        self._open = False
        self._events: list[tuple[int, int, int]] = []  # time, address, bytes, those freed below 0
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._ended = 0  # the last span
        self._held: list[weakref.ref[torch.UntypedStorage]] = []

    def begin(self) -> None:
        self._open = True
        with contextlib.suppress(ProfilerBusy):
            self._profiler = Profiler()

    def end(self) -> None:
        self._open = False
        if self._profiler is not None:
            self._profiler.stop()

    def forget(self) -> None:
        self._profiler, self._events, self._spans, self._held = None, [], {}, []

    @property
    def partial(self) -> bool:
        """Whether the allocators could not be asked."""
        return self._profiler is None or self._profiler.lost

    def span(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A part of the step."""
        return _Span(self, name)

    def again(self) -> contextlib.AbstractContextManager[None]:
        """What is allocated within is none of the step's."""
        return _Span(self, AGAIN)

    def made(self, storage: torch.UntypedStorage, address: int, met: bool = False) -> None:
        """The last span made a storage, or somebody before it whom nobody saw."""
        size = storage.nbytes()
        if not self._open or not size:
            return
        self._events.append((self._ended + met, address, size))
        here = weakref.ref(self)

        def gone(_: Any) -> None:
            events = here()
            if events is not None and events._open:
                events._events.append((events.now(), address, -size))

        self._held.append(weakref.ref(storage, gone))

    def now(self) -> int:
        """The clock of what is known without the profiler."""
        return time.perf_counter_ns()

    def read(self, device: torch.device) -> Found:
        """All that is known, in order of time."""
        if self._profiler is not None and not self._profiler.lost:
            events, spans = events_of(self._profiler.profile, device.type)
            return events, {**spans, **{name: marked(spans, name) for name in _LONG}}
        return sorted(self._events), self._spans


class _Span:
    """A span of both clocks. A class, since every operator of a recording is one."""

    __slots__ = ("began", "events", "name", "profiled")

    def __init__(self, events: Events, name: str) -> None:
        self.events, self.name = events, name

    def __enter__(self) -> None:
        self.profiled: Any = None
        if not self.events.partial and self.name in _LONG:
            mark(self.name + BEGINS)
        elif not self.events.partial:
            self.profiled = torch.profiler.record_function(self.name)
            self.profiled.__enter__()
        self.began = time.perf_counter_ns()

    def __exit__(self, *exc: Any) -> None:
        ended = time.perf_counter_ns()
        self.events._spans.setdefault(self.name, []).append((self.began, ended))
        if self.name != AGAIN:
            self.events._ended = ended
        if self.name in _LONG and not self.events.partial:
            mark(self.name + ENDS)
        if self.profiled is not None:
            self.profiled.__exit__(*exc)
