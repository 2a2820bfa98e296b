"""Files that appear whole or not at all, by the rules of the Go package internal/whole, whose tests run against both."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import stat
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows: nothing is locked or swept
    fcntl = None  # type: ignore[assignment]

MOST_LINKS = 40  # as Linux follows
TEMPORARY = re.compile(r"\.memopt-[0-9]+-[0-9]+")
_names = random.SystemRandom()


def write(path: str | os.PathLike[str], data: bytes, *, own: bool = False) -> None:
    """Writes a file that appears whole or not at all: the bytes go to a new file in the same folder, reach the disk, and take the name last.

    A file that was there is replaced and lends its permissions and owner; a link stays, and the file that it leads to is replaced. Devices,
    pipes and folders are refused, and links that another user made.

    own makes it a file that only this user reads and writes, whatever but a folder was there, links too.
    """
    path = os.fsdecode(path) if own else target(os.fsdecode(path))
    was = None if own else _stat(path)
    if was is not None and not stat.S_ISREG(was.st_mode):
        raise OSError(errno.EINVAL, f"{_kind(was.st_mode)} cannot be replaced by a file", path)
    folder = os.path.dirname(path) or "."
    _sweep(folder)
    with _temporary(folder, was) as (f, temporary):
        if own and hasattr(os, "fchmod"):
            os.fchmod(f, 0o600)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(f, rest) :]
        os.fsync(f)
        if os.name == "nt":  # an open file keeps its name
            os.close(f)
        os.replace(temporary, path)


def read(path: str | os.PathLike[str], most: int, *, own: bool = False) -> bytes:
    """Reads a regular file of at most so many bytes, also if it grows meanwhile.

    own says that it must be this user's own, and no link.
    """
    path = os.fsdecode(path)
    seen = os.lstat(path) if own else os.stat(path)  # opening a pipe without a writer would block
    _regular(seen, path)
    f = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | (getattr(os, "O_NOFOLLOW", 0) if own else 0))
    try:
        seen = os.fstat(f)  # the name may be another file's by now
        _regular(seen, path)
        if own and hasattr(os, "geteuid") and (seen.st_uid != os.geteuid() or seen.st_mode & 0o022):
            raise OSError(errno.EPERM, "others can write to the file", path)
        parts, left = [], most + 1
        while left > 0 and (part := os.read(f, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise OSError(errno.EFBIG, f"the file has more than {most:,} bytes", path)
        return b"".join(parts)
    finally:
        os.close(f)


def target(path: str) -> str:
    """The end of a chain of links, or path itself. A link that another user made is refused."""
    for _ in range(MOST_LINKS):
        try:
            link = os.lstat(path)
        except OSError:
            return path
        if not stat.S_ISLNK(link.st_mode):
            return path
        if hasattr(os, "geteuid") and link.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, f"a link that user {link.st_uid} made, not this one ({os.geteuid()})", path)
        _stat(path)  # the system may refuse to follow it
        # Not normalized: the folder may be a link, and .. its parent.
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _temporary(folder: str, was: os.stat_result | None) -> Iterator[tuple[int, str]]:
    """A new file, locked while it is open, that is removed unless it was renamed. Its name cannot be told in advance, and none is used twice."""
    while True:
        name = os.path.join(folder, f".memopt-{os.getpid()}-{_names.getrandbits(63)}")
        try:
            # Private until it has the owner.
            f = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666 if was is None else 0o600)
        except FileExistsError:
            continue
        if _lock(f, name):
            break
        os.close(f)  # a sweep took it for left behind
    try:
        if was is not None:
            _resemble(f, name, was)
        yield f, name
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(name)
        raise
    finally:
        with contextlib.suppress(OSError):
            os.close(f)


def _lock(f: int, name: str) -> bool:
    """Marks a file as that of a live process; False says that it was removed meanwhile."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(f, fcntl.LOCK_EX)
    except OSError:  # a file system without locks; nothing is swept there either
        return True
    return _named(f, name)


def _named(f: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(f), os.lstat(name))
    except OSError:
        return False


def _resemble(f: int, name: str, was: os.stat_result) -> None:
    """Copies permissions and, if the system allows, owner and group. If the group cannot be set, it gets no more rights than others."""
    mode, new = stat.S_IMODE(was.st_mode) & 0o777, os.fstat(f)
    if not hasattr(os, "fchown"):
        os.chmod(name, mode)
        return
    if (was.st_uid, was.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(f, was.st_uid, was.st_gid)
        except OSError:
            try:
                if was.st_gid != new.st_gid:
                    os.fchown(f, -1, was.st_gid)
            except OSError:
                mode &= ~(0o070 & ~((mode & 0o007) << 3))
    os.fchmod(f, mode)


def _sweep(folder: str) -> None:
    """Removes the temporary files of processes that have ended."""
    if fcntl is None:
        return
    try:
        found = [name for name in os.listdir(folder) if TEMPORARY.fullmatch(name)]
    except OSError:
        return
    for name in found:
        with contextlib.suppress(OSError):
            _remove_stale(os.path.join(folder, name))


def _remove_stale(path: str) -> None:
    f = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(f)
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_nlink != 1:
            return
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # With the lock nobody else removes it, so the name stays what it is.
        if _named(f, path):
            os.remove(path)
    finally:
        os.close(f)


def _regular(seen: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(seen.st_mode):
        raise OSError(errno.EINVAL, f"is not a regular file but {_kind(seen.st_mode)}", path)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"), (stat.S_ISLNK, "a link"))
    return next((name for of, name in kinds if of(mode)), "no file")
