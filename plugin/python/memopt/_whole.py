"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file under another name and renames it. One that was there keeps its permissions, a link what it points to."""
    path = os.path.realpath(os.fsdecode(path))
    temporary = os.path.join(os.path.dirname(path), f".memopt-{os.getpid()}.tmp")  # short, whatever the file is called
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
