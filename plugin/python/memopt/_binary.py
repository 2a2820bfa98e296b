"""Finds the memopt binary."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .errors import MemoptError

VARIABLE = "MEMOPT_PLUGIN_PATH"


def find(explicit: str | os.PathLike[str] | None = None) -> str:
    """Returns the absolute path of the binary: explicit, MEMOPT_PLUGIN_PATH, packaged, checkout, PATH.

    The first two are explicit: if such a path cannot be run, that is an error, and no other path is tried.
    """
    for source, wish in (("the binary given", explicit), (VARIABLE, os.environ.get(VARIABLE))):
        if wish:
            path = os.path.abspath(os.path.expanduser(os.fspath(wish)))
            if not _runs(path):
                raise MemoptError(
                    f"{source} is {path}, {_why_not(path)}", code="NOT_FOUND", binary=path, hint="give the path of an executable memopt binary"
                )
            return path

    here = Path(os.path.abspath(__file__)).parent
    tried = [str(here / "_bin" / "memopt")]
    tried += [str(folder / "bin" / "memopt") for folder in here.parents if _is_checkout(folder)]
    for path in tried:
        if _runs(path):
            return path
    for folder in os.get_exec_path():
        found = shutil.which("memopt", path=folder)
        if found and not _is_ours(found):
            return os.path.abspath(found)
    raise MemoptError(
        "the memopt binary was not found; looked at:\n"
        + f"  {VARIABLE} (not set)\n"
        + "".join(f"  {path}\n" for path in tried)
        + "  memopt on PATH",
        code="NOT_FOUND",
        hint=f"run `make build` in a memopt checkout, or set {VARIABLE} to the binary",
    )


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return "which does not exist"
    return "which is not an executable file"


def _is_ours(path: str) -> bool:
    """Whether this is the Python script that looks for the binary."""
    with open(path, "rb") as f:
        return f.read(2) == b"#!" and b"memopt.__main__" in f.read(1000)


def _is_checkout(folder: Path) -> bool:
    try:
        with open(folder / "go.mod", encoding="utf-8") as f:
            return f.readline().split() == ["module", "memopt"]
    except (OSError, UnicodeDecodeError):
        return False
