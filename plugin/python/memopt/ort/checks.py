"""Checks arguments as ONNX Runtime's compiled classes do; other types are a TypeError that says what is accepted."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from .._visible import class_of

T = TypeVar("T")


def integer(what: str, value: Any, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """An integer, or anything that Python accepts as an index."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} takes an int, not {value!r} of type {class_of(value)}") from None
    if not low <= number <= high:
        raise TypeError(f"{what} takes an int from {low} to {high}, not {number}")
    return number


def int32(what: str, value: Any) -> int:
    """A 32-bit integer."""
    return integer(what, value, -(2**31), 2**31 - 1)


def boolean(what: str, value: Any) -> bool:
    """A bool, or a number or None as one."""
    if value is None or isinstance(value, (bool, int)) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")):
        return bool(value)
    raise TypeError(f"{what} takes a bool, not {value!r} of type {class_of(value)}")


def text(what: str, value: Any) -> str:
    """A str."""
    if not isinstance(value, str):
        raise TypeError(f"{what} takes a str, not {value!r} of type {class_of(value)}")
    return value


def instance(what: str, value: Any, kind: type[T]) -> T:
    """An instance of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} takes {'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}, not {value!r} of type {class_of(value)}")
    return value
