"""A trainer's config as one list of keys: JSON, YAML or TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST = 4 << 20  # bytes of a config
_MOST_WHOLE = 1 << 40
_DEPTH = 50  # keys within keys


@dataclass(frozen=True)
class Config:
    """What a file says, by dotted key."""

    path: str
    keys: Mapping[str, Any] = field(repr=False)

    def wrong(self, key: str, expected: str) -> ValueError:
        """The error about a key."""
        said = repr(self.keys[key])
        return ValueError(f"{self.path}: {key} is {said if len(said) <= 80 else said[:80] + '…'}; {expected}")

    def whole(self, key: str) -> int:
        value = self.keys[key]
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(key, "it is a whole number from 1 on")
        if value >= _MOST_WHOLE:
            raise self.wrong(key, f"no step has more than {_MOST_WHOLE:,}")
        return value

    def on(self, key: str) -> bool:
        value = self.keys[key]
        if isinstance(value, str) and value.lower() in ("true", "yes", "on", "1", "false", "no", "off", "0", "none", "null", ""):
            value = value.lower() in ("true", "yes", "on", "1")
        if value is None:
            value = False
        if not isinstance(value, (bool, int)):
            raise self.wrong(key, "it is true or false")
        return bool(value)


def read(path: str) -> Config:
    """Reads a config."""
    path = os.path.expanduser(path)
    try:
        with open(path, "rb") as f:
            data = f.read(_MOST + 1)
    except OSError as e:
        raise ValueError(f"{path}: {e.strerror or e}") from None
    if len(data) > _MOST:
        raise ValueError(f"{path}: has more than {_MOST >> 20} MiB, which no trainer's config has")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ValueError(f"{path}: is no text ({e})") from None
    if not text.strip():
        raise ValueError(f"{path}: is empty")
    try:
        tree = _toml(path, text) if path.endswith(".toml") else _json(path, text) if path.endswith(".json") or text.lstrip().startswith("{") else _yaml(path, text)
    except RecursionError:
        raise ValueError(f"{path}: has more brackets within brackets than can be read") from None
    if not isinstance(tree, Mapping) or not tree:
        raise ValueError(f"{path}: has no keys at its top, as a trainer's config has")
    keys: dict[str, Any] = {}
    _flatten(path, tree, (), keys)
    return Config(path, keys)


def _flatten(path: str, tree: Mapping[Any, Any], above: tuple[str, ...], into: dict[str, Any]) -> None:
    if len(above) > _DEPTH:  # as of an anchor that has itself in it
        raise ValueError(f"{path}: {'.'.join(above[:3])} has more than {_DEPTH} keys within each other")
    prefix = "".join(f"{key}." for key in above)
    for key, value in tree.items():
        if isinstance(value, Mapping):
            into[f"{prefix}{key}"] = value
            _flatten(path, value, (*above, str(key)), into)
        else:
            into[f"{prefix}{key}"] = value


def _json(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise ValueError(f"{path}:{e.lineno}:{e.colno}: is no JSON: {e.msg}") from None


def _yaml(path: str, text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"{path}: YAML needs PyYAML, which is not installed: pip install pyyaml, or write it as JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as e:
        at = getattr(e, "problem_mark", None)
        where = f":{at.line + 1}:{at.column + 1}" if at is not None else ""
        raise ValueError(f"{path}{where}: is no YAML: {getattr(e, 'problem', None) or 'it cannot be read'}") from None


def _toml(path: str, text: str) -> Any:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        raise ValueError(f"{path}: TOML is read by Python 3.11 and later: write it as JSON or YAML") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise ValueError(f"{path}: is no TOML: {e}") from None
