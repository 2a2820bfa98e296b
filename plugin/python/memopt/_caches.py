"""The user's cache folder, which has what was made once for this machine: plans, and builds of the native module."""

from __future__ import annotations

import os


def cache(name: str) -> str:
    """Our folder of that name in it, which may not be there yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "memopt", name)
