"""Plans of recorded steps: from the service, or from a bounded folder of plans that were made before.

A plan follows from the recorded graph, the settings and the binary, so its name in the folder is a digest of these.
The folder is MEMOPT_PLANS, or memopt/plans in the user's cache folder; MEMOPT_PLANS= (empty) turns it off.

Nothing is believed of what lies there: a file must be this user's own, no larger than plans of the step are, and have the digest that
it was written with; and the planner's check replays its plan on the recorded step, within the limits asked for. Anything else is as
good as no file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import zlib
from typing import Any

from ... import _binary, _scratch
from ..._caches import cache
from ..._plan import plan
from ..._questions import check
from ..._whole import read, write
from ...report import Report
from ..record.record import Recording, as_file, text_of

MOST_FILES = 256
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
    folder, text = _folder(), text_of(given)
    path = os.path.join(folder, _digest(text, settings) + ".plan") if folder else ""
    with as_file(given, text) as step:
        found = _read(path, step, settings, len(text)) if path else None
        if found is None:
            found = plan(step, **settings)
            if path:
                _write(path, found)
    return found


def _folder() -> str:
    return os.environ.get("MEMOPT_PLANS", cache("plans"))


def _digest(graph: bytes, settings: dict[str, Any]) -> str:
    binary = _binary.find()
    stat = os.stat(binary)
    # Settings also come from the environment and from files of config.
    rest = {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))}
    known = json.dumps([binary, stat.st_size, stat.st_mtime_ns, settings, rest, os.getcwd(), _profiles()], sort_keys=True, default=str)
    return hashlib.blake2b(graph + b"\0" + known.encode(), digest_size=16).hexdigest()


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
        most = MOST_BYTES + 32 * size
        name, _, packed = read(path, most, own=True).partition(b"\n")
        text = _unpacked(packed, most)
        if name != _seal(path, text):
            raise ValueError("the digest is another")
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


def _unpacked(packed: bytes, most: int) -> bytes:
    """Unpacks at most so many bytes."""
    inflate = zlib.decompressobj()
    text = inflate.decompress(packed, most)
    if not inflate.eof or inflate.unused_data:
        raise ValueError("it is cut off, or has more in it than a plan of this step")
    return text


def _seal(path: str, text: bytes) -> bytes:
    """The first line of a file: what it is, and a digest of its name and text."""
    return b"memopt plan 1 " + hashlib.blake2b(text, digest_size=32, key=os.path.basename(path).encode()).hexdigest().encode()


def _write(path: str, report: Report) -> None:
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        plan_json, table = report.__reduce__()[1]
        text = plan_json.encode() + b"\0" + table.encode()
        write(path, _seal(path, text) + b"\n" + zlib.compress(text, 1), own=True)
        files = sorted((os.lstat(os.path.join(folder, f)).st_mtime, f) for f in os.listdir(folder) if f.endswith((".plan", ".json.gz")))  # those of earlier versions
        for _, f in files[:-MOST_FILES]:
            with contextlib.suppress(OSError):  # another process was faster
                os.remove(os.path.join(folder, f))
    except OSError as e:  # a full disk, a folder that cannot be written: the plan is made again next time
        _log.debug("a plan is not kept: %s", e)
