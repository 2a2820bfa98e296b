"""What was worked out of recorded steps, kept in a bounded folder for the next process.

The folder is MEMOPT_PLANS, or memopt/plans in the user's cache folder; MEMOPT_PLANS= (empty) turns it off. A file must be this user's
own, no larger than what is asked for, and have the digest that it was written with.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import zlib
from collections.abc import Callable

from ... import _whole
from ..._caches import cache

MOST_FILES = 256
ENDINGS = (".plan", ".sizes", ".json.gz")  # the last one is of earlier versions

_log = logging.getLogger("memopt")


def path_of(name: Callable[[], str]) -> str:
    """The path of a file, or nothing where nothing is kept."""
    folder = os.environ.get("MEMOPT_PLANS", cache("plans"))
    return os.path.join(folder, name()) if folder else ""


def read(path: str, most: int) -> bytes:
    """What was written, of at most so many bytes. Raises OSError or ValueError."""
    name, _, packed = _whole.read(path, most, own=True).partition(b"\n")
    text = _unpacked(packed, most)
    if name != _seal(path, text):
        raise ValueError("the digest is another")
    return text


def write(path: str, text: bytes) -> None:
    """Writes a file, and removes those that were not used for longest."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _whole.write(path, _seal(path, text) + b"\n" + zlib.compress(text, 1), own=True)
        files = sorted((os.lstat(os.path.join(folder, f)).st_mtime, f) for f in os.listdir(folder) if f.endswith(ENDINGS))
        for _, f in files[:-MOST_FILES]:
            with contextlib.suppress(OSError):  # another process was faster
                os.remove(os.path.join(folder, f))
    except OSError as e:  # a full disk, a folder that cannot be written: it is worked out again next time
        _log.debug("%s is not kept: %s", os.path.basename(path), e)


def _unpacked(packed: bytes, most: int) -> bytes:
    """Unpacks at most so many bytes."""
    inflate = zlib.decompressobj()
    text = inflate.decompress(packed, most)
    if not inflate.eof or inflate.unused_data:
        raise ValueError("it is cut off, or has more in it than is asked for")
    return text


def _seal(path: str, text: bytes) -> bytes:
    """The first line of a file: what it is, and a digest of its name and text."""
    return b"memopt plan 1 " + hashlib.blake2b(text, digest_size=32, key=os.path.basename(path).encode()).hexdigest().encode()
