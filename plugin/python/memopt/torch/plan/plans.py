"""Plans of recorded steps: from the service, or from a bounded folder of plans that were made before.

A plan follows from the recorded graph, the settings and the binary, so its name in the folder is a digest of these.
The folder is MEMOPT_PLANS, or memopt/plans in the user's cache folder; MEMOPT_PLANS= (empty) turns it off. Files that cannot be
read or written are ignored.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from typing import Any

from ... import _binary
from ..._plan import plan
from ..._whole import write
from ...report import Report
from ..record.record import Recording, as_file, text_of

MOST_FILES = 256


def plan_of(recording: Recording, **settings: Any) -> Report:
    """The plan of a recorded step. It runs nothing where the parameters that it reads are sharded."""
    while True:
        found = plan_of_graph(recording.graph, **settings)
        misplaced = recording.windows.misplaced(recording.ops, found.to_dict()["steps"])
        if not misplaced:
            return found
        for op in misplaced:
            recording.keep(op)


def plan_of_graph(given: dict[str, Any], **settings: Any) -> Report:
    """The plan of a joint graph."""
    folder, text = _folder(), text_of(given)
    path = os.path.join(folder, _digest(text, settings) + ".json.gz") if folder else ""
    found = _read(path)
    if found is None:
        with as_file(given, text) as step:
            found = plan(step, **settings)
        if path:
            _write(path, found)
    return found


def _folder() -> str:
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("MEMOPT_PLANS", os.path.join(caches, "memopt", "plans"))


def _digest(graph: bytes, settings: dict[str, Any]) -> str:
    binary = _binary.find()
    stat = os.stat(binary)
    # Settings also come from the environment and from files of config.
    rest = {k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))}
    known = json.dumps([binary, stat.st_size, stat.st_mtime_ns, settings, rest, os.getcwd()], sort_keys=True, default=str)
    return hashlib.blake2b(graph + b"\0" + known.encode(), digest_size=16).hexdigest()


def _read(path: str) -> Report | None:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as f:
            kept = json.load(f)
        os.utime(path)
        report = Report(kept["plan"], kept["text"])
        report.to_dict()["steps"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    return report


def _write(path: str, report: Report) -> None:
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        plan_json, table = report.__reduce__()[1]
        text = json.dumps({"plan": plan_json, "text": table})
        write(path, gzip.compress(text.encode(), compresslevel=1, mtime=0))
        files = sorted((os.stat(os.path.join(folder, f)).st_mtime, f) for f in os.listdir(folder) if f.endswith(".json.gz"))
        for _, f in files[:-MOST_FILES]:
            os.remove(os.path.join(folder, f))
    except OSError:
        pass  # a full disk, a folder that cannot be written: the plan is made again next time
