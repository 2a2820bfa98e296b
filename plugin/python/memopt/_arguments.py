"""What callers give, as the fields of a request: checked, with the argument's name in what is wrong."""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

Path = str | os.PathLike[str]
Size = str | int | float


def absolute(path: Path | None) -> str:
    """The service's working folder is where this process once was; its paths must not depend on it."""
    return "" if path is None else os.path.abspath(os.path.expanduser(os.fsdecode(path)))


def current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed: no relative path means anything
        return ""


def dims(dims: Mapping[str, int] | None) -> dict[str, int]:
    if dims is not None and not isinstance(dims, Mapping):
        raise TypeError(f"dims is {dims!r}; give sizes by name, like {{'batch': 8}}")
    for name, n in (dims or {}).items():
        if not isinstance(name, str):
            raise TypeError(f"dims: {name!r} is not the name of a dim")
        if isinstance(n, bool) or not isinstance(n, numbers.Integral):
            raise TypeError(f"dims: {name} is {n!r}, not an integer")
        if not 0 < n < 1 << 63:
            raise ValueError(f"dims: {name} is {n}, not a positive 64-bit number")
    return {name: int(n) for name, n in (dims or {}).items()}


def size(name: str, value: Size | None) -> str:
    """Bytes, text for the service to read, or a share between 0 and 1."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give bytes, a text like '8GB' or '60%', or a share like 0.6")
    if isinstance(value, numbers.Integral):
        if value <= 0:
            raise ValueError(f"{name} is {value} bytes; it must be positive")
        return str(int(value))
    if 0 < value <= 1:
        return share(name, float(value))
    if value > 1 and float(value).is_integer():  # 8e9
        return str(int(value))
    raise ValueError(f"{name} is {value!r}; a float is a share between 0 and 1, or whole bytes")


def share(name: str, value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give a text like '10%' or a share like 0.1")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value!r}; it must not be negative")
    return f"{float(value) * 100:.10g}%"


def config(config: Path | Sequence[Any] | Mapping[str, Any] | None) -> str:
    if config is None:
        return ""
    if isinstance(config, os.PathLike):
        return absolute(config)
    if isinstance(config, str):
        return absolute(config) if os.path.exists(config) else config
    return json.dumps(config)
