"""Arguments of callers as fields of a request; errors name the argument."""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._settings import Setting

Path = str | os.PathLike[str]
Size = str | int | float


# The longest timeout in seconds: some versions of grpc take longer ones for past deadlines.
LONGEST = 10 * 365 * 24 * 3600.0


def absolute(name: str, path: Path | None) -> str:
    """The absolute path, since the service may run in another folder than this process."""
    if path is None:
        return ""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {path!r}; give the path of a file")
    return os.path.abspath(os.path.expanduser(os.fsdecode(path)))


def current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the folder was removed, so there are no relative paths
        return ""


def setting(name: str, value: Any, row: Setting) -> str:
    """A setting's value as text for the service; a wrong type is an error that names the setting."""
    return _FORMS[row.form](name, value, row.words)


def sizes(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r}; give sizes by name, like {{'batch': 8}}")
    for key, n in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{name}: {key!r} is not a name")
        if isinstance(n, bool) or not isinstance(n, numbers.Integral):
            raise TypeError(f"{name}: {key} is {n!r}, not an integer")
        if not 0 < int(n) < 1 << 63:
            raise ValueError(f"{name}: {key} is {n}, not a positive 64-bit number")
    return json.dumps({key: int(n) for key, n in value.items()}, ensure_ascii=False)


def size(name: str, value: Any, words: Sequence[str] = ()) -> str:
    """A size as text for the service: bytes, text, or a share between 0 and 1."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give bytes, a text like '8GB' or '60%', or a share like 0.6")
    if isinstance(value, numbers.Integral):
        if int(value) <= 0:
            raise ValueError(f"{name} is {value} bytes; it must be positive")
        return str(int(value))
    real = float(value)
    if 0 < real <= 1:
        return share(name, real)
    if real > 1 and real.is_integer():  # 8e9
        return str(int(real))
    raise ValueError(f"{name} is {value!r}; a float is a share between 0 and 1, or whole bytes")


def share(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give a text like '10%' or a share like 0.1")
    if not 0 <= float(value) < float("inf"):
        raise ValueError(f"{name} is {value!r}; it must not be negative")
    return f"{float(value) * 100:.10g}%"


def word(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if not isinstance(value, str):
        example = f"a text like {words[0]!r}" if words else "a text"
        raise TypeError(f"{name} is {value!r}; give {example}")
    return value


def switch(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; give True, False, {' or '.join(map(repr, words))}")
    return value


def whole(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is {value!r}; give an integer")
    return str(int(value))  # the service checks the range


def number(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give a number")
    return repr(float(value))


def scale(name: str, value: Any, words: Sequence[str] = ()) -> str:
    return value if isinstance(value, str) else number(name, value)


def names(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise TypeError(f"{name} is {value!r}; give a list of texts")
    several = list(value)
    if not all(isinstance(one, str) for one in several):
        raise TypeError(f"{name} is {value!r}; give a list of texts")
    return json.dumps(several, ensure_ascii=False)


def path(name: str, value: Any, words: Sequence[str] = ()) -> str:
    return absolute(name, value)


def config(name: str, value: Any, words: Sequence[str] = ()) -> str:
    if isinstance(value, os.PathLike):
        return absolute(name, value)
    if isinstance(value, str):
        return absolute(name, value) if os.path.exists(value) else value
    forms = "give the path of a JSON file, its text, clusters like ['BiasGelu+:1:-1'], or settings like {'level': 1}"
    if not isinstance(value, (Sequence, Mapping)) or isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{name} is {value!r}; {forms}")
    try:
        return json.dumps(dict(value) if isinstance(value, Mapping) else list(value), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{name} is {value!r}, which cannot be written as JSON ({e}); {forms}") from None


def show(stages: Iterable[str] | str | None) -> list[str]:
    if stages is None:
        return []
    several = isinstance(stages, Iterable) and not isinstance(stages, (str, bytes, Mapping))
    names: list[Any] = list(stages) if several else [stages]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"show is {stages!r}; give names of stages, like ['graph', 'arena']")
    return names


def timeout(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, numbers.Real):
        raise TypeError(f"timeout is {seconds!r}; give seconds, or None to wait forever")
    if not seconds >= 0:  # also false for NaN
        raise ValueError(f"timeout is {seconds!r}; give seconds from 0 up, or None to wait forever")
    return None if seconds == float("inf") else min(float(seconds), LONGEST)


_FORMS: dict[str, Callable[[str, Any, Sequence[str]], str]] = {
    "elsewhere": config,
    "names": names,
    "number": number,
    "path": path,
    "scale": scale,
    "share": share,
    "size": size,
    "sizes": sizes,
    "switch": switch,
    "text": word,
    "whole": whole,
    "word": word,
}
