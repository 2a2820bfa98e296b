"""A budget that cannot be met: the floor, the module and the operator that set it, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import BudgetError, Change
from ..report import show_bytes
from .floor import binding
from .record import Recording
from .step import Sample


def refused(e: BudgetError, recording: Recording, limit: int, counted: int, taken: Sequence[str], batch: Callable[[], tuple[int, int] | None]) -> BudgetError:
    """The error of the planner, in words of the module.

    limit    bytes that are left beside those counted: parameters, buffers and optimizer states
    batch    finds the largest batch that fits, of how many
    """
    if e.floor is None or e.best <= 0:
        return e  # not for bytes
    binds = binding(recording.graph, e.floor.peak, e.floor.node, counted, taken)
    argument = "budget" if counted else "activation_budget"
    enough = -(-(e.best + counted) * 101 // (100 << 20))  # MiB, a little above what was found
    size = f"{enough}MiB" if e.best + counted > 64 << 20 else e.best + counted
    changes = [Change(f"{argument}={size!r}".replace("'", '"'), (e.best + counted) / max(1, limit + counted) - 1, {argument: str(size)})]
    lower = [o for o in binds.offers if o.floor <= limit]
    for offer in sorted(lower, key=lambda o: len(o.argument))[:1]:
        changes.append(Change(offer.argument, 0.0, dict(_pair(a) for a in offer.argument.split(", "))))
    smaller = batch()
    if smaller is not None:
        changes.append(Change(f"a batch of {smaller[0]} instead of {smaller[1]}", 1 - smaller[0] / smaller[1], {"batch": str(smaller[0])}))
    left = f"{show_bytes(limit)} are left beside {show_bytes(counted)} of parameters, buffers and optimizer states" if counted else f"{show_bytes(limit)} are given"
    text = (
        f"budget cannot be met: {left}, and no plan of {recording.graph['model']}'s step goes below {show_bytes(e.floor.peak)}, set by {binds}; "
        f"the lowest plan found takes {show_bytes(e.best)}, eager mode {show_bytes(recording.measured_peak)}. What would fit: {' or '.join(c.setting for c in changes)}"
    )
    unmet = [o for o in binds.offers if o not in lower][:1] if not lower else []
    if unmet:
        text += f"; {unmet[0].argument} would lower the floor to about {show_bytes(unmet[0].floor)}, which does not suffice alone"
    return BudgetError(
        text, want=limit, best=e.best, fixed=counted, floor=e.floor, changes=tuple(changes), binds=binds.kind, module=binds.module, op=binds.op, code=e.code, binary=e.binary
    )


def _pair(argument: str) -> tuple[str, str]:
    name, _, value = argument.partition("=")
    return name, value.strip('"')


def smaller_batch(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int, **given: Any) -> tuple[int, int] | None:
    """The largest part of a sample that fits, if all of its tensors have one first dimension: how many rows, of how many."""
    found = [t for t in [*args, *kwargs.values()] if isinstance(t, torch.Tensor)]
    rows = found[0].shape[0] if found and found[0].ndim else 0
    if rows < 2 or any(t.ndim == 0 or t.shape[0] != rows for t in found) or len(found) < sum(not isinstance(v, (int, float, str, bool, type(None))) for v in [*args, *kwargs.values()]):
        return None

    def part(x: Any, n: int) -> Any:
        return x[:n] if isinstance(x, torch.Tensor) else x

    def sample(n: int) -> Any:
        return Sample(tuple(part(a, n) for a in args), {k: part(v, n) for k, v in kwargs.items()})

    from .largest import max_batch

    try:
        return max_batch(model, sample, activation_budget=limit, most=rows - 1, **given).size, rows
    except Exception:  # a loss that knows the whole batch, a model that wants so many rows: nothing to say about them
        return None

