"""Plans of recorded steps: from the service, or from a bounded folder of plans that were made before.

A plan follows from the recorded graph, the settings and the binary, so its name in the folder is a digest of these.
The folder is MEMOPT_PLANS, or memopt/plans in the user's cache folder; MEMOPT_PLANS= (empty) turns it off.

Nothing is believed of what lies there: a file must be whole (disk.py), and the planner's check replays its plan on the recorded step,
within the limits asked for. Anything else is as good as no file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from typing import Any

from ... import _binary, _scratch
from ..._caches import cache
from ..._plan import plan
from ..._questions import check
from ..._whole import write
from ...report import Report
from ..record.record import Recording, as_file, text_of
from . import disk

MOST_BYTES = 1 << 20  # of a plan, packed or not, and 32 times the graph's text more

_log = logging.getLogger("memopt")


def plan_of(recording: Recording, **settings: Any) -> Report:
    """The plan of a recorded step. It runs nothing where the parameters that it reads are sharded."""
    while True:
        found = plan_of_graph(recording.graph, replay=recording.replay, **settings)
        misplaced = recording.windows.misplaced(recording.ops, found.to_dict()["steps"])
        if not misplaced:
            return found
        for op in misplaced:
            recording.keep(op)


def plan_of_graph(given: dict[str, Any], **settings: Any) -> Report:
    """The plan of a joint graph."""
    text = text_of(given)
    path = disk.path_of(lambda: _digest(text, settings) + ".plan")
    with as_file(given, text) as step:
        found = _read(path, step, settings, len(text)) if path else None
        if found is None:
            found = plan(step, **settings)
            if path:
                _write(path, found)
    return found


def _digest(graph: bytes, settings: dict[str, Any]) -> str:
    binary = _binary.find()
    stat = os.stat(binary)
    # Settings also come from the environment and from files of config.
    rest = {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))}
    given = [_text(str(name)) for name in (settings.get("for_device"), rest.get("MEMOPT_FOR_DEVICE")) if name]
    known = json.dumps([binary, stat.st_size, stat.st_mtime_ns, settings, rest, os.getcwd(), _profiles(), given], sort_keys=True, default=str)
    return hashlib.blake2b(graph + b"\0" + known.encode(), digest_size=16).hexdigest()


def _text(path: str) -> str:
    """What a profile's file says, that may be measured anew; nothing for the name of a device."""
    try:
        with open(path, encoding="utf-8") as f:
            return f.read(1 << 20)
    except (OSError, ValueError):
        return ""


def _profiles() -> list[tuple[str, int]]:
    """The profiles that were measured, by which plans may be priced, and when."""
    try:
        with os.scandir(cache("profiles")) as files:
            return sorted((f.name, f.stat().st_mtime_ns) for f in files)
    except OSError:
        return []


def _read(path: str, step: str, settings: dict[str, Any], size: int) -> Report | None:
    """The plan of a file; None, and a word to the log, if there is none or anything is wrong with it."""
    try:
        text = disk.read(path, MOST_BYTES + 32 * size)
        plan_json, _, table = text.partition(b"\0")
        with _scratch.folder(len(plan_json)) as folder:
            kept = os.path.join(folder, "kept.json")
            write(kept, plan_json)
            limits = {k: settings[k] for k in ("budget", "activation_budget", "max_overhead", "timeout") if k in settings}
            checked = check(kept, step, **limits)
        found = Report(plan_json.decode(), table.decode())
        result, steps = found.result, found.to_dict()["steps"]
        if (result.peak, result.arena, len(steps), result.recomputed_nodes) != (checked.peak, checked.arena, checked.steps, checked.recomputed_nodes):
            raise ValueError("its figures are not those of its steps")
        os.utime(path)
    except FileNotFoundError:
        return None
    except Exception as e:  # whatever lies there, training goes on with a plan that is made anew
        _log.debug("the plan in %s is made anew: %s: %s", path, type(e).__name__, e)
        return None
    return found


def _write(path: str, report: Report) -> None:
    plan_json, table = report.__reduce__()[1]
    disk.write(path, plan_json.encode() + b"\0" + table.encode())
