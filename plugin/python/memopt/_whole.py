"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import shutil


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a temporary file and renames it. An existing file keeps its permissions, a link its target."""
    path = os.path.realpath(os.fsdecode(path))
    temporary = os.path.join(os.path.dirname(path), f".memopt-{os.getpid()}.tmp")  # short, as names have a maximum length
    try:
        with open(temporary, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
