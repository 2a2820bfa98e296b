"""Somebody else's policy on a recorded step, priced by the planner as `memopt plan --policy` prices it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from ... import _binary, _scratch
from ..record.record import as_file


def priced(graph: dict[str, Any], policy: str | Mapping[str, Any], for_device: str | None = None, offload: str | None = None, alone: bool = False) -> dict[str, Any]:
    """The answer of `memopt plan --policy`, for a file or what one would have. alone: without plans beside it; offload: what those may move values to."""
    with as_file(graph) as step, _scratch.folder(1 << 20) as folder:
        path = policy if isinstance(policy, str) else os.path.join(folder, "policy.json")
        if not isinstance(policy, str):
            with open(path, "w", encoding="utf-8") as f:
                json.dump(policy, f)
        given = [*(["--for", for_device] if for_device else []), *(["--offload", offload] if offload else []), *(["--alone"] if alone else [])]
        ran = subprocess.run([_binary.find(), "plan", step, "--policy", path, *given, "--format", "json"], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ValueError(ran.stderr.strip().rpartition("\n")[2].removeprefix("memopt: "))
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
