"""A step under memopt that ran out of memory: what of it would fit, planned for what the device has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import BudgetError, Change
from ...report import show_bytes
from ..record.measure import device_of
from ..record.record import Recording
from .budget import Fixed, free_bytes
from .plans import plan_of
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


def explain(e: BaseException, recording: Recording, limit: int, fixed: Fixed, taken: Sequence[str]) -> None:
    """Adds to the error a note of what would fit in so many bytes, and as e.memopt the same as a BudgetError. It stays what it is,
    for those who catch it."""
    eager = show_bytes(recording.measured_peak)
    if limit <= 0:
        told = BudgetError(f"nothing is left for the step: {show_bytes(fixed.bytes)} are parameters, buffers and optimizer states", want=limit, fixed=fixed.bytes, binds="parameters")
    else:
        try:
            plan = plan_of(recording, activation_budget=limit)
        except BudgetError as wrong:
            told = refused(wrong, recording, limit, fixed.bytes, taken, lambda: None)
        else:
            whole = limit + fixed.bytes
            budget = f"{whole >> 20}MiB" if whole > 64 << 20 else str(whole)
            change = Change(f'budget="{budget}" (+{100 * plan.result.overhead:.1f} % time)', 0.0, {"budget": budget})
            told = BudgetError(f"the step takes {eager} with everything kept, and {show_bytes(limit)} can be had. What would fit: {change.setting}", want=limit, fixed=fixed.bytes, changes=(change,))
    e.memopt = told  # type: ignore[attr-defined]
    note: Any = getattr(e, "add_note", None)
    if note is not None:  # of Python 3.11
        note(f"memopt: {told}")
