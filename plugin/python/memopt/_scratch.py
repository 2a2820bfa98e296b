"""Folders for the files of one call: inside the service's own where they fit, which it removes with everything in it if this process is killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "memopt."
_NAMES = re.compile(r"memopt\.[a-z0-9_]{8}")
_ROOM = 1 << 20  # left beside a call's files


@contextlib.contextmanager
def folder(nbytes: int = 0) -> Iterator[str]:
    """A folder with room for so many bytes."""
    from . import _host

    service = _host.current().folder
    inside = os.path.isdir(service) and has_room(service, nbytes)
    made, lock = (tempfile.mkdtemp(prefix="call-", dir=service), -1) if inside else claimed(tempfile.gettempdir())
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def has_room(path: str, nbytes: int) -> bool:
    """Whether a file system has room for so many bytes, or does not say."""
    try:
        found = os.statvfs(path)
    except (OSError, AttributeError):
        return True
    return found.f_bavail * found.f_frsize >= nbytes + _ROOM


def file_name(name: str, ending: str) -> str:
    """A file's name after one that anybody wrote: a class of a model, a path. It is short, and leads nowhere."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in os.path.basename(name))
    return (plain[:100].lstrip(".") or "model") + ending


def claimed(parent: str) -> tuple[str, int]:
    """A new private folder in parent, and a lock on it that the system releases when this process has ended. Folders of processes
    that have ended without removing theirs are removed."""
    for place in {parent, tempfile.gettempdir()}:
        _sweep(place)
    while True:
        made = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        if fcntl is None:
            return made, -1
        lock = -1
        try:
            lock = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(lock), os.lstat(made)):
                return made, lock
        except FileNotFoundError:  # a sweep took it for left behind
            pass
        except OSError:  # no locks there, and no sweeps
            return made, lock
        if lock >= 0:
            os.close(lock)


def _sweep(parent: str) -> None:
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if _NAMES.fullmatch(name):
                with contextlib.suppress(OSError):
                    _remove_stale(os.path.join(parent, name))


def _remove_stale(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.lstat(path)):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
