"""The service's structured error about a budget that cannot be met: JSON of format memopt.refusal/1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .errors import Change, Floor, Memory

TRAILER = "memopt-refusal-bin"


def fields(trailers: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a BudgetError; empty for other errors, or if the service has another version."""
    told = dict(trailers).get(TRAILER)
    try:
        return {} if told is None else _fields(json.loads(told))
    except (AttributeError, KeyError, TypeError, ValueError):  # another version; the message suffices
        return {}


def _fields(refusal: dict[str, Any]) -> dict[str, Any]:
    floor, memory, counted = refusal.get("floor"), refusal.get("memory"), refusal.get("counted", 0)
    return {
        "want": refusal["want"] + counted,
        "best": refusal["best"] + counted if refusal["best"] else 0,
        "fixed": refusal["fixed"],
        "floor": Floor(floor["peak"] + counted, floor["node"], floor.get("op", ""), floor.get("module", "")) if floor else None,
        "changes": tuple(Change(change["setting"], change["share"], dict(change["settings"])) for change in refusal["changes"]),
        "note": refusal.get("note", ""),
        "memory": _memory(memory) if memory else None,
    }


def _memory(of: dict[str, Any]) -> Memory:
    owners = tuple((owner["owner"], owner["bytes"]) for owner in of["largest_owners"])
    return Memory(of["requested"], of["for"], of["in_use"], of["reserved"], of["largest_hole"], of["limit"], owners)
