"""What callers give, as the fields of a request: checked, with the argument's name in what is wrong."""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Path = str | os.PathLike[str]
Size = str | int | float


# Of what a deadline can be, in seconds: later ones are past it already, to some versions of grpc.
LONGEST = 10 * 365 * 24 * 3600.0


def absolute(name: str, path: Path | None) -> str:
    """The service's working folder is where this process once was; its paths must not depend on it."""
    if path is None:
        return ""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {path!r}; give the path of a file")
    return os.path.abspath(os.path.expanduser(os.fsdecode(path)))


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


def word(name: str, value: str | None, like: str) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give a text like {like!r}")
    return value or ""


def level(value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"level is {value!r}; give 0, 1 or 2")
    if not 0 <= value < 1 << 31:  # the service knows which of these there are
        raise ValueError(f"level is {value}; give 0, 1 or 2")
    return int(value)


def boundary(value: bool | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, bool):
        raise TypeError(f"boundary is {value!r}; give True, False, 'on' or 'off'")
    return "on" if value else "off"


def config(value: Path | Sequence[Any] | Mapping[str, Any] | None) -> str:
    if value is None:
        return ""
    if isinstance(value, os.PathLike):
        return absolute("config", value)
    if isinstance(value, str):
        return absolute("config", value) if os.path.exists(value) else value
    forms = "give the path of a JSON file, its text, clusters like ['BiasGelu+:1:-1'], or settings like {'level': 1}"
    if not isinstance(value, (Sequence, Mapping)) or isinstance(value, (bytes, bytearray)):
        raise TypeError(f"config is {value!r}; {forms}")
    try:
        return json.dumps(dict(value) if isinstance(value, Mapping) else list(value), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise TypeError(f"config is {value!r}, which JSON cannot say ({e}); {forms}") from None


def show(stages: Iterable[str] | str | None) -> list[str]:
    if stages is None:
        return []
    several = isinstance(stages, Iterable) and not isinstance(stages, (str, bytes, Mapping))
    names = list(stages) if several else [stages]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"show is {stages!r}; give names of stages, like ['graph', 'arena']")
    return names


def timeout(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"timeout is {seconds!r}; give seconds, or None to wait for ever")
    if not seconds >= 0:  # not a number is neither
        raise ValueError(f"timeout is {seconds!r}; give seconds from 0 up, or None to wait for ever")
    return None if seconds == float("inf") else min(float(seconds), LONGEST)
