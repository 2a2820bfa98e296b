"""A step under memopt that ran out of memory: what of it would fit, planned for what the device has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...errors import BudgetError, Change
from ...report import show_bytes
from ..record.floor import Step
from ..record.measure import device_of
from ..record.record import Recording
from .budget import Fixed, free_bytes
from .plans import plan_of
from .ranout import ran_out
from .refused import refused


def is_of_memory(e: BaseException) -> bool:
    """Whether an error of PyTorch is one of memory, of whatever device."""
    return isinstance(e, torch.OutOfMemoryError) or isinstance(e, RuntimeError) and "DefaultCPUAllocator" in str(e)


def room(model: torch.nn.Module, fixed: Fixed) -> int:
    """What a step can have beside what stays, with the twentieth part left to the allocator's gaps."""
    device = device_of(model)
    left = free_bytes(model, None) - fixed.to_come
    if device.type == "cuda":  # what the failed step still holds is the next one's
        left += max(0, torch.cuda.memory_allocated(device) - (fixed.bytes - fixed.to_come))
    return left * 19 // 20


def explain(e: BaseException, recording: Recording, limit: int, fixed: Fixed, taken: Sequence[str], steps: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Adds to the error a note: the first tensor that did not fit, who held what, and what would fit in so many bytes and at what
    price; and as e.memopt the same as a BudgetError. It stays what it is, for those who catch it.

    steps   of the plan under which the step ran; None: everything was kept
    """
    told = explanation(recording, limit, fixed, taken, steps)
    e.memopt = told  # type: ignore[attr-defined]
    note: Any = getattr(e, "add_note", None)
    if note is not None:  # of Python 3.11
        note(f"memopt: {told}")


def explanation(recording: Recording, limit: int, fixed: Fixed, taken: Sequence[str], steps: Sequence[Mapping[str, Any]] | None = None) -> BudgetError:
    """What happened to a step that had so many bytes, and what would fit."""
    if limit <= 0:
        return BudgetError(f"nothing is left for the step: {show_bytes(fixed.bytes)} are parameters, buffers and optimizer states", want=limit, fixed=fixed.bytes, binds="parameters")
    where = ran_out(recording.graph, limit, steps)
    try:
        plan = plan_of(recording, activation_budget=limit)
    except BudgetError as wrong:
        told = refused(wrong, recording, limit, fixed.bytes, taken, lambda: None)
        if where is not None:
            told = told.counting(0, f"{told.message}. As it is, {where.text}")
    else:
        whole = limit + fixed.bytes
        budget = f"{whole >> 20}MiB" if whole > 64 << 20 else str(whole)
        changes = [Change(f'budget="{budget}" (+{100 * plan.result.overhead:.1f} % time)', 0.0, {"budget": budget}), *others(recording, limit, fixed, taken)]
        happened = f"; {where.text}, beside {show_bytes(fixed.bytes)} of parameters, buffers and optimizer states" if where is not None else ""
        told = BudgetError(
            f"the step takes {show_bytes(recording.measured_peak)} with everything kept, and {show_bytes(limit)} can be had{happened}. What would fit: {', or '.join(c.setting for c in changes)}",
            want=limit, fixed=fixed.bytes, changes=tuple(changes),
        )  # fmt: skip
    told.ran_out = where
    return told


def others(recording: Recording, limit: int, fixed: Fixed, taken: Sequence[str]) -> list[Change]:
    """Ways out beside a plan, with their price: a smaller batch, states elsewhere."""
    found: list[Change] = []
    step = Step(recording.graph)
    rows = rows_of(recording.graph)
    gradients = sum(v.bytes for v in step.values.values() if v.gradient)
    if rows > 1 and (of_batch := recording.measured_peak - gradients) > 0:
        least = 2  # parts, of which each takes about so much of what is not gradients; those of the others are there
        while least < rows and (rows % least or gradients + of_batch * (rows // least) / rows > limit):
            least += 1
        if gradients + of_batch * (rows // least) / rows <= limit:
            part = rows // least
            text = f"about {least} batches of {part} instead of one of {rows}, whose gradients are added up ({least} passes a step, of less work each)"
            found.append(Change(text, float(least), {"batch": str(part), "accumulate": str(least)}))
    states = fixed.bytes - recording.parameters
    short = recording.measured_peak - limit
    if "states" not in taken and states > 0 and states >= short:
        text = f'states="host" or "disk", which frees about {show_bytes(states)} of optimizer states (each update moves them there and back)'
        found.append(Change(text, states / max(1, fixed.bytes), {"states": "host"}))
    return found


def rows_of(graph: Mapping[str, Any]) -> int:
    """The rows of a batch: the first size of the first input that has one; 0 if there is none."""
    return next((int(n["outputs"][0]["shape"][0]) for n in graph["nodes"] if n.get("kind") == "data" and n["outputs"][0]["shape"]), 0)
