"""The arena: the memory file through which tensors are passed between this process and its service.

This process creates it and allocates all blocks in it. On Linux it is a file of memfd_create, sealed against
shrinking, without a name, that disappears with the two processes; elsewhere a file in a private folder, unlinked at once.
It begins empty and grows as blocks are allocated.

A block's bytes are reused when the block and all views of it have been freed: arrays and tensors over
the arena never show another block's bytes. A forked child sees its parent's blocks as they were, and writes to pages
of its own.
"""

from __future__ import annotations

import bisect
import ctypes
import errno
import mmap
import os
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import MemoptError

if TYPE_CHECKING:
    import numpy
    import torch

ALIGNMENT = 64
VARIABLE = "MEMOPT_ARENA_FD"

_STEP = 16 << 20  # a block as large as this gets a stretch of its own size
_MAX = 1 << 46  # the service takes no offset behind it

_MFD_CLOEXEC, _MFD_ALLOW_SEALING = 1, 2
_F_ADD_SEALS, _F_SEAL_SHRINK = 1033, 2
_F_DUPFD_CLOEXEC = 1030
_MADV_REMOVE, _MADV_POPULATE_WRITE = 9, 23
_MAP_FIXED = 16
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}  # the system call, for a Python that was built where there was none


class Block:
    """A part of the arena. Its bytes are free when it and all its views are collected; free() frees it earlier."""

    __slots__ = ("__weakref__", "_owner", "address", "nbytes", "offset")

    def __init__(self, owner: Any, offset: int, nbytes: int) -> None:
        self._owner = owner
        self.offset = offset
        self.nbytes = nbytes
        self.address: int = ctypes.addressof(owner) if owner is not None else 0

    @property
    def view(self) -> memoryview:
        """Its bytes, to read and write."""
        if self._owner is None:
            if self.nbytes == 0:
                return memoryview(bytearray())
            raise ValueError("this block of the arena was freed")
        return memoryview(self._owner).cast("B")

    def array(self, dtype: Any, shape: Sequence[int]) -> numpy.ndarray[Any, Any]:
        """A NumPy array over its first bytes."""
        import numpy

        return numpy.ndarray(tuple(shape), dtype, self.view)

    def tensor(self, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """A tensor of PyTorch's over its first bytes."""
        import torch

        count = 1
        for n in shape:
            count *= n
        if count == 0:
            return torch.empty(tuple(shape), dtype=dtype)
        return torch.frombuffer(self.view, dtype=dtype, count=count).view(tuple(shape))

    def span(self, nbytes: int | None = None) -> Any:
        """The span of it, or of its first bytes, for messages."""
        from . import _messages

        return _messages.Span(offset=self.offset, bytes=self.nbytes if nbytes is None else nbytes)

    def free(self) -> None:
        """Frees the block. Existing views stay valid."""
        self._owner = None


class _Stretch(NamedTuple):
    """A part of the file that is mapped, for the life of the process."""

    offset: int
    address: int
    nbytes: int


class Arena:
    """The memory file of this process. Thread-safe."""

    def __init__(self) -> None:
        self._fd = _memory_file()
        self._lock = threading.Lock()
        self._stretches: list[_Stretch] = []  # by offset
        self._size = 0
        self._free: list[tuple[int, int]] = []  # offset and bytes, by offset
        self._returned: deque[tuple[int, int]] = deque()  # by owners that are gone: at any moment, in any thread
        self._watched: dict[int, tuple[weakref.ref[Any], int, int]] = {}
        self._closed = False

    def fileno(self) -> int:
        """The descriptor, for the service to inherit."""
        return self._fd

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    @property
    def used(self) -> int:
        """Bytes of it in blocks."""
        with self._lock:
            self._take_back()
            return self._size - sum(n for _, n in self._free)

    def alloc(self, nbytes: int) -> Block:
        """A new block of uninitialized bytes."""
        if nbytes < 0:
            raise ValueError(f"a block of {nbytes} bytes")
        if nbytes == 0:
            return Block(None, 0, 0)
        room = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._lock:
            if self._closed:
                raise MemoptError("this arena belongs to the process that this one was forked from", code="FAILED_PRECONDITION")
            self._take_back()
            i = self._smallest(room)
            if i is None:
                self._grow(room)
                i = len(self._free) - 1
            offset, n = self._free[i]
            if n == room:
                del self._free[i]
            else:
                self._free[i] = (offset + room, n - room)
            stretch = self._stretches[self._stretch(offset)]
            owner = (ctypes.c_ubyte * nbytes).from_address(stretch.address + offset - stretch.offset)
            ref = weakref.ref(owner, self._gone)
            self._watched[id(ref)] = (ref, offset, room)
        return Block(owner, offset, nbytes)

    def find(self, address: int, nbytes: int) -> int | None:
        """The offset in the file of an address of this process, if it is in the arena."""
        for stretch in self._stretches:
            if stretch.address <= address and address + nbytes <= stretch.address + stretch.nbytes:
                return None if self._closed else stretch.offset + address - stretch.address
        return None

    def owner(self, address: int, nbytes: int) -> Any:
        """What keeps the block that has these bytes; None if no block has them all."""
        at = self.find(address, nbytes)
        if at is not None:
            for ref, offset, _ in list(self._watched.values()):
                owner = ref()
                if owner is not None and offset <= at and at + nbytes <= offset + ctypes.sizeof(owner):
                    return owner
        return None

    def copy_in(self, block: Block, address: int) -> None:
        """Fills a block with what this process has at an address. The system reads it: where there is no memory, that is an OSError."""
        source = memoryview((ctypes.c_ubyte * block.nbytes).from_address(address))
        done = 0
        while done < block.nbytes:
            done += os.pwrite(self._fd, source[done:], block.offset + done)

    def copy_out(self, source: int, nbytes: int, address: int) -> None:
        """Writes bytes of a block to an address of this process. Where there is no memory, or none to write to, that is an OSError."""
        offset = self.find(source, nbytes)
        assert offset is not None
        to = memoryview((ctypes.c_ubyte * nbytes).from_address(address))
        done = 0
        while done < nbytes:
            done += os.preadv(self._fd, [to[done:]], offset + done)

    def trim(self) -> None:
        """Gives the memory of free pages back to the system."""
        with self._lock:
            self._take_back()
            for offset, n in self._free:
                stretch = self._stretches[self._stretch(offset)]
                first = -(-(offset - stretch.offset) // mmap.PAGESIZE) * mmap.PAGESIZE
                last = (offset - stretch.offset + n) // mmap.PAGESIZE * mmap.PAGESIZE
                if first < last:
                    _advise(stretch.address + first, last - first, _MADV_REMOVE)

    def _gone(self, ref: weakref.ref[Any]) -> None:
        self._returned.append(self._watched.pop(id(ref))[1:])

    def _take_back(self) -> None:
        while self._returned:
            offset, n = self._returned.popleft()
            i = bisect.bisect(self._free, (offset, n))
            # Neighbours become one, but not over the border of stretches, which are not mapped side by side.
            if i < len(self._free) and self._free[i][0] == offset + n and self._stretch(offset + n) == self._stretch(offset):
                n += self._free.pop(i)[1]
            if i > 0 and sum(self._free[i - 1]) == offset and self._stretch(offset) == self._stretch(self._free[i - 1][0]):
                before = self._free.pop(i - 1)
                offset, n, i = before[0], before[1] + n, i - 1
            self._free.insert(i, (offset, n))

    def _smallest(self, room: int) -> int | None:
        """The smallest free range with room."""
        best = None
        for i, (_, n) in enumerate(self._free):
            if n >= room and (best is None or n < self._free[best][1]):
                best = i
        return best

    def _stretch(self, offset: int) -> int:
        return bisect.bisect_right(self._stretches, offset, key=lambda s: s.offset) - 1

    def _grow(self, room: int) -> None:
        more = -(-max(room, _STEP) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        try:
            if self._size + more > _MAX:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            os.ftruncate(self._fd, self._size + more)
            address = _map(0, more, mmap.MAP_SHARED, self._fd, self._size)
        except OSError as e:
            raise MemoptError(f"no room for {room} more bytes in the arena that is shared with the service: {e}", code="RESOURCE_EXHAUSTED") from None
        self._stretches.append(_Stretch(self._size, address, more))
        self._free.append((self._size, more))
        self._size += more
        threading.Thread(target=_advise, args=(address, more, _MADV_POPULATE_WRITE), name="memopt-arena", daemon=True).start()

    def _leave(self) -> None:
        """In a forked child: maps private pages, so that writes are not seen by the parent and the service."""
        self._closed = True
        self._lock = threading.Lock()
        for stretch in self._stretches:
            try:
                _map(stretch.address, stretch.nbytes, mmap.MAP_PRIVATE | _MAP_FIXED, self._fd, stretch.offset)
            except OSError:
                os._exit(70)  # to go on would be to write into the parent's tensors
        os.close(self._fd)


def _memory_file() -> int:
    fd = _sealed_file() if sys.platform == "linux" else _unlinked_file()
    if fd > 2:
        return fd
    # A process without standard streams: the service takes these numbers for its own.
    import fcntl

    moved: int = fcntl.fcntl(fd, getattr(fcntl, "F_DUPFD_CLOEXEC", _F_DUPFD_CLOEXEC), 3)
    os.close(fd)
    return moved


def _sealed_file() -> int:
    import fcntl

    make: Any = getattr(os, "memfd_create", _memfd_create)
    try:
        fd: int = make("memopt", _MFD_CLOEXEC | _MFD_ALLOW_SEALING)
        fcntl.fcntl(fd, _F_ADD_SEALS, _F_SEAL_SHRINK)
    except OSError as e:
        raise MemoptError(f"cannot make the arena that is shared with the service: {e}", code="NOT_STARTED") from None
    return fd


def _memfd_create(name: str, flags: int) -> int:
    number = _MEMFD_CREATE.get(os.uname().machine)
    fd = int(_libc.syscall(number, name.encode(), flags)) if number is not None else -1
    if fd < 0:
        code = ctypes.get_errno() or errno.ENOSYS
        raise OSError(code, os.strerror(code))
    return fd


def _unlinked_file() -> int:
    fd, path = tempfile.mkstemp(prefix="memopt-")
    os.unlink(path)
    return fd


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _map(address: int, nbytes: int, flags: int, fd: int, offset: int) -> int:
    """Like mmap.mmap, but with flags that it lacks, and without a descriptor for each mapping."""
    mapped = _libc.mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, offset)
    if mapped is None or mapped == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(mapped)


def _advise(address: int, nbytes: int, advice: int) -> None:
    """Lets Linux populate pages before their first use, or free them. Old kernels without this do nothing."""
    if sys.platform == "linux":
        _libc.madvise(address, nbytes, advice)


_lock = threading.Lock()
_current: Arena | None = None


def current() -> Arena:
    """The arena of this process, which outlives its services."""
    global _current
    with _lock:
        if _current is None:
            _current = Arena()
        return _current


def _after_fork_in_child() -> None:
    global _current, _lock
    _lock = threading.Lock()
    if _current is not None:
        _inherited.append(_current)
        _current._leave()
        _current = None


_inherited: list[Arena] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
