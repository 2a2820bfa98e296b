"""The times of a session's runs, in the format of chrome://tracing."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import datetime

from .._whole import write


class Profile:
    """Events for opening the session and for each run, written at the end."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._events: list[dict[str, object]] = []
        self._began = time.perf_counter()
        self.began_ns = time.time_ns()

    def add(self, category: str, name: str, begin: float) -> None:
        """Adds an event that began at a given time and ends now."""
        now = time.perf_counter()
        event = {
            "cat": category,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": round((now - begin) * 1e6),
            "ts": round((begin - self._began) * 1e6),
            "ph": "X",
            "name": name,
            "args": {},
        }
        with self._lock:
            self._events.append(event)

    def write(self) -> str:
        """Writes the file and returns its name."""
        at = datetime.fromtimestamp(self.began_ns / 1e9)
        path = f"{self._prefix}_{at:%Y-%m-%d_%H-%M-%S}_{at.microsecond // 1000:03d}.json"
        with self._lock:
            write(path, ("[\n" + ",\n".join(map(json.dumps, self._events)) + "\n]\n").encode())
        return path
