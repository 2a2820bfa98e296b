"""Closes sessions of the service that a program has dropped.

A session may be dropped at any moment, also while gRPC holds its locks in the same thread, so dropping only queues it,
and a thread makes the call.
"""

from __future__ import annotations

import os
import queue
import threading
import weakref
from typing import TYPE_CHECKING, Any

from . import _messages
from .errors import MemoptError

if TYPE_CHECKING:
    from . import _host


class _Closer:
    def __init__(self) -> None:
        self._dropped: queue.SimpleQueue[tuple[_host.Host, int]] = queue.SimpleQueue()  # put is reentrant
        self._thread: threading.Thread | None = None

    def watch(self, owner: Any, host: _host.Host, session: int) -> weakref.finalize[Any, Any]:
        """Closes the session when its owner is collected, or when the returned finalizer is called."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="memopt-closer", daemon=True)
            self._thread.start()
        watched = weakref.finalize(owner, self._dropped.put, (host, session))
        watched.atexit = False  # at exit the service ends anyway
        return watched

    def drain(self) -> None:
        """Closes the sessions dropped so far, so that their memory is free for a new one."""
        try:
            while True:
                _close(*self._dropped.get_nowait())
        except queue.Empty:
            pass

    def _work(self) -> None:
        while True:
            _close(*self._dropped.get())


def _close(host: _host.Host, session: int) -> None:
    if not host.alive():
        return
    try:
        host.call("Close", _messages.SessionRequest(session=session), 60)
    except MemoptError:
        pass  # the service has ended, and its sessions with it


closer = _Closer()


def _after_fork_in_child() -> None:
    global closer
    closer = _Closer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
