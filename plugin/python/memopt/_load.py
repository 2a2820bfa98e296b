"""memopt.load: the service loads a forward model to a device and unloads it, and measures each phase."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from . import _arguments
from ._arguments import Path
from ._plan import call, texts
from ._progress import Asked
from ._questions import Answer
from ._section import Section
from ._settings import LOAD_SETTINGS, LoadSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Gauge(Section):
    """A figure at the end of a phase, and its peak during the phase."""

    point: int
    high: int


class LoadPhase(Section):
    """A row of the table of phases, in bytes."""

    phase: str
    what: str
    device: Gauge
    device_granted: Gauge
    host_copies: Gauge
    both: Gauge
    host_anon: Gauge
    host_file: int
    host_shmem: int
    host_rss: Gauge
    go_heap: int
    host_rest: int
    promised: int


class Spread(Section):
    """The least, the median and the most of repeated measurements, in bytes."""

    min: int
    median: int
    max: int


class LoadSpread(Section):
    """The spread of repeated loads."""

    device: Spread
    both: Spread
    system: Spread
    host_growth: Spread


class Loaded(Answer):
    """A load: its JSON (memopt.load/1) by attribute or by item, and its table as str(). With mode "all" it has loads, one for each mode."""

    mode: str
    device: str
    unified: bool
    weights: int
    W: int
    w: int
    A: int
    c: int
    formula: str
    promised: int
    measured: int
    device_promised: int
    device_measured: int
    host_growth: int
    system: int
    repeats: int
    spread: LoadSpread
    phases: list[LoadPhase]
    loads: list[Loaded]


def load(model: Path, *, timeout: float | None = 3600.0, progress: Asked = None, **settings: Unpack[LoadSettings]) -> Loaded:
    """Loads the weights of an ONNX model to a device and unloads them, and reports the memory of each phase.

    timeout, progress
        As for memopt.plan.

    Settings are the flags of `memopt load` by their names in JSON: load_mode, chunk, reloads, repeats, dims, device.
    """
    fields = {"model": _arguments.absolute("model", model), "settings": texts("load", settings, LOAD_SETTINGS)}
    reply = call("Load", fields, timeout, progress)
    return Loaded(json.loads(reply.json), reply.text)
