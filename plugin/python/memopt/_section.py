"""JSON objects with attributes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._visible import class_of, line


class Section(Mapping[str, Any]):
    """An object of the plan's JSON: s.peak and s["peak"] are the same; use the second for names of methods."""

    __slots__ = ("_fields",)
    _fields: Mapping[str, Any]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getitem__(self, name: str) -> Any:
        return _wrap(self._fields[name])

    if not TYPE_CHECKING:  # the fields have types in _fields.py

        def __getattr__(self, name):
            if name.startswith("_"):  # copy and pickle look these up before there are fields
                raise AttributeError(name)
            try:
                return self[name]
            except KeyError:
                raise AttributeError(f"no field {name!r}; there are {', '.join(self._fields)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a report is read only; to_dict() gives a copy")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._fields})

    def __repr__(self) -> str:
        return line(f"{class_of(self)}({dict(self._fields)!r})")

    def __reduce__(self) -> tuple[Any, ...]:
        return Section, (self._fields,)

    def to_dict(self) -> dict[str, Any]:
        """A plain, independent copy."""
        copy: dict[str, Any] = json.loads(json.dumps(self._fields))
        return copy


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Section(value)
    if isinstance(value, list):
        return [_wrap(v) for v in value]
    return value
