"""memopt.plan and memopt.info: arguments to messages, messages to objects."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _arguments, _host
from ._arguments import Path, Size
from ._words import in_python
from .errors import MemoptError
from .report import Report


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
    loss: str | None = None,
    optimizer: str | None = None,
    save_to: Path | None = None,
    emit: Path | None = None,
    html: Path | None = None,
    show: Iterable[str] = (),
    timeout: float | None = 600.0,
) -> Report:
    """Plans one training step of the ONNX model at path.

    dims               numbers for the model's named dims: {"batch": 8, "seq": 1024}
    memory_budget      what the whole step may hold: bytes (an int), "8GB", "6GiB", "60%", or a share (0.6)
    activation_budget  the same for activations alone
    max_overhead       extra time allowed: "10%" or 0.1
    level, config      as ORTMODULE_MEMORY_OPT_LEVEL and _CONFIG; config is a file, its text, or the value itself
    loss               the value to lower, or a loss to add to a model that ends in scores: "cross-entropy", "mse", …
    optimizer          "adamw" (default), "adam", "sgd", …: its states are in memory too
    boundary, compat, strategy, show
                       as the flags of `memopt plan`
    save_to, emit, html
                       files to write: the plan, the rewritten graph, the report page
    timeout            seconds; None waits for ever

    Raises BudgetError if no plan can meet the request, MemoptError for everything else that goes wrong.
    """
    from . import _messages

    fields: dict[str, Any] = {
        "model": _arguments.absolute("path", path),
        "dims": _arguments.dims(dims),
        "budget": _arguments.size("memory_budget", memory_budget),
        "activation_budget": _arguments.size("activation_budget", activation_budget),
        "max_overhead": _arguments.share("max_overhead", max_overhead),
        "strategy": _arguments.word("strategy", strategy, "greedy"),
        "level": _arguments.level(level),
        "config": _arguments.config(config),
        "boundary": _arguments.boundary(boundary),
        "compat": _arguments.word("compat", compat, "1.19"),
        "loss": _arguments.word("loss", loss, "cross-entropy"),
        "optimizer": _arguments.word("optimizer", optimizer, "adamw"),
        "save_to": _arguments.absolute("save_to", save_to),
        "emit": _arguments.absolute("emit", emit),
        "html": _arguments.absolute("html", html),
        "show": _arguments.show(show),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))},
        "environment_sent": True,
        "folder": _arguments.current_folder(),
    }
    timeout = _arguments.timeout(timeout)
    try:
        request = _messages.PlanRequest(**fields)
    except UnicodeEncodeError as e:
        raise MemoptError(f"cannot be sent, not UTF-8: {e.object!r}", code="INVALID_ARGUMENT") from None
    reply = _host.current().call("Plan", request, timeout)
    for warning in reply.warnings:
        logging.getLogger("memopt").warning("%s", in_python(warning))
    return Report(reply.plan_json, reply.text)


def info(timeout: float | None = 30.0) -> dict[str, Any]:
    """Says which service this process has: version, protocol, pid, binary, features, devices."""
    from . import _messages

    timeout = _arguments.timeout(timeout)
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
