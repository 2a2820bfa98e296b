"""A file for bytes that have left memory. It has no name, so nothing stays of it when the process ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import threading
from collections import defaultdict

import torch
from torch import Tensor

BLOCK = 4096  # of addresses, offsets and sizes that reach a disk without the page cache
_BOUNCE = 4 << 20  # bytes of the buffer through which memory at other addresses passes
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


class SpillError(OSError):
    """A spill file cannot be made, or does not read or write."""


class SpillFile:
    """Places of whole blocks in a file in `folder`, by default MEMOPT_SPILL_FOLDER, TMPDIR or /var/tmp, whichever is on a disk.

    Reads and writes go past the page cache where the file system lets them, else pages are dropped behind them: the bytes count as
    nobody's memory. Several threads may read and write at once.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = spill_folder(folder)
        self.direct = True
        try:
            self.fd = _nameless(self.folder, getattr(os, "O_DIRECT", 0))
        except OSError:
            self.direct = False
            try:
                self.fd = _nameless(self.folder, 0)
            except OSError as e:
                raise SpillError(e.errno, f"no spill file can be made in {self.folder}: {e.strerror}; MEMOPT_SPILL_FOLDER names another folder") from None
        self.direct = self.direct and hasattr(os, "O_DIRECT")
        self.size = 0  # of all places
        self.taken = 0  # of the disk
        self._free: dict[int, list[int]] = defaultdict(list)
        self._lock = threading.Lock()
        self._bounces = threading.local()

    def reserve(self, nbytes: int) -> int:
        """The offset of a place of so many bytes. The disk has them from now on, so that a full one is found here and not in a write."""
        size = whole(nbytes)
        with self._lock:
            if self._free[size]:
                return self._free[size].pop()
            offset = self.size
            self._take(offset + size)
            self.size += size
            return offset

    def prepare(self, nbytes: int) -> None:
        """Takes from the disk what places that will be asked for need."""
        with self._lock:
            self._take(self.size + whole(nbytes))

    def _take(self, size: int) -> None:
        if size <= self.taken:
            return
        try:
            _allocate(self.fd, self.taken, size - self.taken)
        except OSError as e:
            raise SpillError(
                e.errno, f"the spill file cannot take {size:,} B in {self.folder}, where {_left(self.folder):,} B are free: {e.strerror}; MEMOPT_SPILL_FOLDER names another folder"
            ) from None
        self.taken = size

    def release(self, offset: int, nbytes: int) -> None:
        """Gives a place back."""
        with self._lock:
            self._free[whole(nbytes)].append(offset)

    def write(self, near: Tensor, offset: int) -> None:
        """Writes the bytes of a contiguous tensor in memory."""
        self._move(near, offset, out=True)

    def read(self, near: Tensor, offset: int) -> None:
        """Reads a contiguous tensor's bytes."""
        self._move(near, offset, out=False)

    def mapped(self, offset: int, nbytes: int) -> Tensor:
        """The bytes of a place, read as they are touched. Writing to them changes nothing in the file."""
        found = mmap.mmap(self.fd, whole(nbytes), flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)
        return torch.frombuffer(found, dtype=torch.uint8, count=nbytes)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()

    def _move(self, near: Tensor, offset: int, out: bool) -> None:
        nbytes = near.nbytes
        if nbytes == 0:
            return
        flat = near.detach().reshape(-1).view(torch.uint8)
        if not self.direct or near.data_ptr() % BLOCK == 0 and nbytes % BLOCK == 0:
            self._transfer(memoryview(flat.numpy()), offset, out)
        else:
            bounce, view = self._bounce()
            for at in range(0, nbytes, _BOUNCE):
                piece = flat[at : at + _BOUNCE]
                size = whole(piece.nbytes)
                if out:
                    bounce[: piece.nbytes].copy_(piece)
                self._transfer(view[:size], offset + at, out)
                if not out:
                    piece.copy_(bounce[: piece.nbytes])
        if not self.direct:
            if out:
                os.fdatasync(self.fd)  # pages that are not on the disk yet are not dropped
            os.posix_fadvise(self.fd, offset, whole(nbytes), os.POSIX_FADV_DONTNEED)

    def _transfer(self, memory: memoryview, offset: int, out: bool) -> None:
        """Moves whole bytes between memory and the file."""
        done = 0
        while done < len(memory):
            try:
                n = os.pwrite(self.fd, memory[done:], offset + done) if out else os.preadv(self.fd, [memory[done:]], offset + done)
            except OSError as e:
                raise SpillError(
                    e.errno, f"the spill file in {self.folder} does not {'write' if out else 'read'} {len(memory):,} B at {offset:,}: {e.strerror}; MEMOPT_SPILL_FOLDER names another folder"
                ) from None
            if n == 0:
                raise SpillError(f"the spill file in {self.folder} ends at {offset + done:,} of {self.size:,} B: somebody cut it")
            done += n

    def _bounce(self) -> tuple[Tensor, memoryview]:
        """A buffer at an address that a disk reads and writes, of the thread that asks."""
        found = getattr(self._bounces, "found", None)
        if found is None:
            memory = mmap.mmap(-1, _BOUNCE)
            found = self._bounces.found = torch.frombuffer(memory, dtype=torch.uint8), memoryview(memory)
        return found  # type: ignore[no-any-return]


def whole(nbytes: int) -> int:
    """Bytes of whole blocks."""
    return -(-nbytes // BLOCK) * BLOCK


def spill_folder(given: str | None = None) -> str:
    """The folder of spill files. One that is in memory frees nothing, and is refused where it was named."""
    named = given or os.environ.get("MEMOPT_SPILL_FOLDER")
    if named:
        if not os.path.isdir(named):
            raise SpillError(f"the spill folder {named} does not exist: make it, or let MEMOPT_SPILL_FOLDER name a folder on a disk")
        if (kind := _file_system(named)) in _IN_MEMORY:
            raise SpillError(f"the spill folder {named} is in memory ({kind}), so that nothing would leave it: let MEMOPT_SPILL_FOLDER name a folder on a disk")
        return os.path.abspath(named)
    tried = [p for p in (os.environ.get("TMPDIR"), "/var/tmp", tempfile.gettempdir(), os.path.expanduser("~/.cache")) if p and os.path.isdir(p) and os.access(p, os.W_OK)]
    for path in tried:
        if _file_system(path) not in _IN_MEMORY:
            return os.path.abspath(path)
    raise SpillError(f"no folder for spill files is on a disk (tried {', '.join(tried) or 'none that can be written'}): let MEMOPT_SPILL_FOLDER name one")


def _file_system(path: str) -> str:
    """The kind of file system that a folder is on, or ''."""
    try:
        device = os.stat(path).st_dev
        of = f"{os.major(device)}:{os.minor(device)}"
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
            for line in f:
                fields = line.split()
                if fields[2] == of:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        pass
    return ""


def _nameless(folder: str, flags: int) -> int:
    """A new file that no name leads to."""
    if hasattr(os, "O_TMPFILE"):
        with contextlib.suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC | flags, 0o600)
    fd, path = tempfile.mkstemp(prefix="memopt.", dir=folder)
    os.unlink(path)
    if not flags:
        return fd
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC | flags)
    finally:
        os.close(fd)


def _allocate(fd: int, offset: int, size: int) -> None:
    """Takes the blocks of a range. A disk with too few is left alone: it would hand out all that it has before it says so."""
    if size > _left(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        os.posix_fallocate(fd, offset, size)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that cannot promise blocks
            raise
        os.ftruncate(fd, offset + size)


def _left(place: str | int) -> int:
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
