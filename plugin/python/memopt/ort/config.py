"""Configuration entries: pairs of strings of sessions and runs."""

from __future__ import annotations

import logging

from . import checks

_log = logging.getLogger("memopt.ort")

_LONGEST_KEY = 1024  # ONNX Runtime's


class Entries:
    """The entries of an options object."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._entries: dict[str, str] = {}

    def add(self, method: str, key: str, value: str) -> None:
        """Sets an entry; replacing another value is logged."""
        checks.text(method, key)
        checks.text(method, value)
        if not 0 < len(key.encode()) <= _LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {_LONGEST_KEY}")
        before = self._entries.get(key)
        if before is not None and before != value:
            _log.warning("config entry %s was %s and is now %s", key, before, value)
        self._entries[key] = value

    def get(self, key: str) -> str:
        """The value of an entry that was set."""
        if key not in self._entries:
            raise RuntimeError(f"{self._owner} does not have configuration with key: {key}")
        return self._entries[key]

    def copy(self) -> Entries:
        """An independent copy of the entries."""
        made = Entries(self._owner)
        made._entries = dict(self._entries)
        return made

    def items(self) -> dict[str, str]:
        """All entries."""
        return dict(self._entries)
