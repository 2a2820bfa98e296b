"""memopt.plan and memopt.info: arguments to messages, messages to objects."""

from __future__ import annotations

import inspect
import json
import logging
import os
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _arguments, _host
from ._arguments import Path, Size
from ._progress import Asked, Watch
from ._section import Section
from ._settings import ALIASES, ELSEWHERE, SETTINGS, PlanSettings, Setting
from .errors import MemoptError
from .report import Report

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._questions import Stats


def plan(
    path: Path,
    *within: Size,
    save_to: Path | None = None,
    emit: Path | None = None,
    html: Path | None = None,
    svg: Path | None = None,
    show: Iterable[str] = (),
    timeout: float | None = 600.0,
    progress: Asked = None,
    **settings: Unpack[PlanSettings],
) -> Report:
    """Plans one training step of the ONNX model at path. Its budget may be given without a name: plan("m.onnx", "8GB").

    save_to, emit, html, svg
        Files to write: the plan, the rewritten graph, an HTML page, a picture of memory over the step.
    show
        Stages to print before the table, as `memopt plan --show` does.
    timeout
        Seconds; None waits forever.
    progress
        True shows a progress line, False does not, a function is called with (phase, share done). None shows
        the line on a terminal and in a notebook if planning takes over a second.

    Settings override the environment (MEMOPT_ and the name in capitals), which overrides files of config; None
    means not given.
    """
    if len(within) > 1:
        raise TypeError(f"plan() takes a path and a budget by place, not {len(within) + 1} arguments; all else goes by name")
    if within and settings.get("budget") is not None:
        raise TypeError("plan() got two budgets")
    given: dict[str, Any] = {**settings, "budget": within[0]} if within else {**settings}
    fields: dict[str, Any] = {
        "model": _arguments.absolute("path", path),
        "settings": texts("plan", given),
        "save_to": _arguments.absolute("save_to", save_to),
        "emit": _arguments.absolute("emit", emit),
        "html": _arguments.absolute("html", html),
        "svg": _arguments.absolute("svg", svg),
        "show": _arguments.show(show),
    }
    reply = call("Plan", fields, timeout, progress)
    return Report(reply.json, reply.text)


def call(method: str, fields: dict[str, Any], timeout: float | None, progress: Asked = None, message: str = "Question") -> Any:
    """Calls the service with the environment and the folder of this process, and logs warnings."""
    from . import _messages

    fields["environment"] = {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))}
    fields["environment_sent"] = True
    fields["folder"] = _arguments.current_folder()
    timeout = _arguments.timeout(timeout)
    host = _host.current()
    with Watch(host, progress) as watch:
        try:
            request = getattr(_messages, message)(**fields, job=watch.job)
        except UnicodeEncodeError as e:
            raise MemoptError(f"cannot be sent, not UTF-8: {e.object!r}", code="INVALID_ARGUMENT") from None
        reply = host.call(method, request, timeout)
    for warning in reply.warnings:
        logging.getLogger("memopt").warning("%s", warning)
    return reply


def texts(function: str, settings: Mapping[str, Any], rows: Mapping[str, Setting] = SETTINGS) -> dict[str, str]:
    """Settings by name as text for the service; an unknown name is a TypeError as of any function."""
    made: dict[str, str] = {}
    for given, value in settings.items():
        name = ALIASES.get(given, given)
        if name not in rows:
            raise TypeError(f"{function}() got an unexpected keyword argument {given!r}{_meant(name, rows)}")
        if value is None or isinstance(value, str) and not value:
            continue
        if name in made:
            raise TypeError(f"{function}() got both {name!r} and {given!r}, which are one setting")
        made[name] = _arguments.setting(given, value, rows[name])
    return made


def _meant(name: str, rows: Mapping[str, Setting]) -> str:
    from difflib import get_close_matches

    if rows.keys() >= SETTINGS.keys() and name in ELSEWHERE:
        return f": {ELSEWHERE[name]}"
    near = get_close_matches(name, rows, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _describe() -> None:
    """Adds the settings to plan's signature and docstring."""
    function: Any = plan
    signature = inspect.signature(plan)
    first, *others = (p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL))
    types = PlanSettings.__annotations__
    keywords = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD if name == "budget" else inspect.Parameter.KEYWORD_ONLY, default=None,
            annotation=getattr(types[name], "__forward_arg__", types[name]),
        )
        for name in SETTINGS
    ]  # fmt: skip
    keywords.sort(key=lambda p: p.kind)  # what may stand by place is the budget
    function.__signature__ = signature.replace(parameters=[first, *keywords, *others])
    lines = [inspect.getdoc(plan) or ""]
    group = ""
    for name, row in SETTINGS.items():
        if row.group != group:
            group = row.group
            lines += ["", f"{group}:", ""]
        lines += [name, textwrap.fill(row.help, 100, initial_indent="    ", subsequent_indent="    ")]
    lines += ["", "Raises BudgetError if no plan can meet the request, MemoptError for all other errors."]
    function.__doc__ = "\n".join(lines)


_describe()


class Device(Section):
    """A device that plans can run on."""

    name: str
    kind: str  # cpu or vulkan
    memory: int  # bytes; 0 if unknown


class Info(Section):
    """The service of this process."""

    version: str
    protocol: int
    pid: int
    binary: str
    features: list[str]
    devices: list[Device]


def info(timeout: float | None = 30.0) -> Info:
    """Describes the service of this process: version, protocol, pid, binary, features, devices."""
    from . import _messages

    timeout = _arguments.timeout(timeout)
    host = _host.current()
    reply = host.call("Info", _messages.InfoRequest(), timeout)
    fields = {
        "version": reply.version,
        "protocol": reply.protocol,
        "pid": reply.pid,
        "binary": host.binary,
        "features": list(reply.features),
        "devices": [{"name": d.name, "kind": d.kind, "memory": d.memory} for d in reply.devices],
    }
    return Info(fields)


def stats(timeout: float | None = 30.0) -> Stats:
    """Statistics of the service of this process: its memory, weights by kind, goroutines."""
    from . import _messages
    from ._questions import Stats

    reply = _host.current().call("Stats", _messages.SessionRequest(), _arguments.timeout(timeout))
    return Stats(json.loads(reply.json), reply.text)
