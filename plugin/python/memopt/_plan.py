"""memopt.plan and memopt.info: arguments to messages, messages to objects."""

from __future__ import annotations

import json
import logging
import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _host
from .errors import MemoptError
from .report import Report

Path = str | os.PathLike[str]
Size = str | int | float


def plan(
    path: Path,
    *,
    dims: Mapping[str, int] | None = None,
    memory_budget: Size | None = None,
    activation_budget: Size | None = None,
    max_overhead: str | float | None = None,
    strategy: str | None = None,
    level: int | None = None,
    config: Path | Sequence[Any] | Mapping[str, Any] | None = None,
    boundary: bool | str | None = None,
    compat: str | None = None,
    save_to: Path | None = None,
    emit: Path | None = None,
    html: Path | None = None,
    show: Sequence[str] = (),
    timeout: float | None = 600.0,
) -> Report:
    """Plans one training step of the ONNX model at path.

    dims               numbers for the model's named dims: {"batch": 8, "seq": 1024}
    memory_budget      what the whole step may hold: bytes (an int), "8GB", "6GiB", "60%", or a share (0.6)
    activation_budget  the same for activations alone
    max_overhead       extra time allowed: "10%" or 0.1
    level, config      as ORTMODULE_MEMORY_OPT_LEVEL and _CONFIG; config is a file, its text, or the value itself
    boundary, compat, strategy, show
                       as the flags of `memopt plan`
    save_to, emit, html
                       files to write: the plan, the rewritten graph, the report page
    timeout            seconds; None waits for ever

    Raises BudgetError if no plan can meet the request, MemoptError for everything else that goes wrong.
    """
    from . import _messages

    fields: dict[str, Any] = {
        "model": _absolute(path),
        "dims": _dims(dims),
        "budget": _size("memory_budget", memory_budget),
        "activation_budget": _size("activation_budget", activation_budget),
        "max_overhead": _share("max_overhead", max_overhead),
        "strategy": strategy or "",
        "config": _config(config),
        "boundary": {None: "", True: "on", False: "off"}.get(boundary, boundary),  # type: ignore[arg-type]
        "compat": compat or "",
        "save_to": _absolute(save_to),
        "emit": _absolute(emit),
        "html": _absolute(html),
        "show": [show] if isinstance(show, str) else list(show),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))},
        "environment_sent": True,
        "folder": _current_folder(),
    }
    if level is not None:
        fields["level"] = level
    try:
        request = _messages.PlanRequest(**fields)
    except UnicodeEncodeError as e:
        raise MemoptError(f"cannot be sent, not UTF-8: {e.object!r}", code="INVALID_ARGUMENT") from None
    reply = _host.current().call("Plan", request, timeout)
    for warning in reply.warnings:
        logging.getLogger("memopt").warning("%s", warning)
    return Report(reply.plan_json, reply.text)


def info(timeout: float | None = 30.0) -> dict[str, Any]:
    """Says which service this process has: version, protocol, pid, binary, features, devices."""
    from . import _messages

    host = _host.current()
    reply = host.call("Info", _messages.InfoRequest(), timeout)
    return {
        "version": reply.version,
        "protocol": reply.protocol,
        "pid": reply.pid,
        "binary": host.binary,
        "features": list(reply.features),
        "devices": [{"name": d.name, "kind": d.kind, "memory": d.memory} for d in reply.devices],
    }


def _absolute(path: Path | None) -> str:
    """The service's working folder is where this process once was; its paths must not depend on it."""
    return "" if path is None else os.path.abspath(os.path.expanduser(os.fsdecode(path)))


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed: no relative path means anything
        return ""


def _dims(dims: Mapping[str, int] | None) -> dict[str, int]:
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


def _size(name: str, value: Size | None) -> str:
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
        return _share(name, float(value))
    if value > 1 and float(value).is_integer():  # 8e9
        return str(int(value))
    raise ValueError(f"{name} is {value!r}; a float is a share between 0 and 1, or whole bytes")


def _share(name: str, value: str | float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; give a text like '10%' or a share like 0.1")
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {value!r}; it must not be negative")
    return f"{float(value) * 100:.10g}%"


def _config(config: Path | Sequence[Any] | Mapping[str, Any] | None) -> str:
    if config is None:
        return ""
    if isinstance(config, os.PathLike):
        return _absolute(config)
    if isinstance(config, str):
        return _absolute(config) if os.path.exists(config) else config
    return json.dumps(config)
