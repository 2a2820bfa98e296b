"""Blocks of the C library's heap that go back to the system when they are freed."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

_THRESHOLD = -3  # M_MMAP_THRESHOLD of glibc's malloc.h
_FROM, _LARGEST = 1 << 20, 32 << 20  # where glibc's own threshold ends up once a block of this size was freed


@contextlib.contextmanager
def blocks_returned() -> Iterator[None]:
    """Within, blocks from a mebibyte on are mapped, each by itself. glibc would take them from its heap, where aligned blocks of one size leave
    gaps that the next ones do not fit: the temporary tensors of small updates grow it by several times what is alive."""
    limit = getattr(ctypes.CDLL(None), "mallopt", None)
    if limit is not None:
        limit(_THRESHOLD, _FROM)
    try:
        yield
    finally:
        if limit is not None:
            limit(_THRESHOLD, _LARGEST)
