"""A budget that cannot be met: the floor, the module and the operator that set it, and what would fit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..errors import BudgetError, Change
from ..report import show_bytes
from .floor import binding
from .plans import plan_of
from .record import Recording
from .step import Loss, Sample


class Smaller(NamedTuple):
    """What fits of a batch."""

    fits: int  # rows, at most
    rows: int  # of the whole batch
    part: int  # rows of the largest equal part that fits where gradients of the others are kept; 0 for none


def refused(e: BudgetError, recording: Recording, limit: int, counted: int, taken: Sequence[str], batch: Callable[[], Smaller | None]) -> BudgetError:
    """Translates the planner's error into terms of the module.

    limit    bytes that are left beside those counted: parameters, buffers and optimizer states
    batch    finds the part of the batch that fits
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
        changes.append(Change(f"a batch of {smaller.fits} instead of {smaller.rows}", 1 - smaller.fits / smaller.rows, {"batch": str(smaller.fits)}))
        if smaller.part:
            runs = smaller.rows // smaller.part
            text = f"gradients of {runs} batches of {smaller.part} added up before a step of the optimizer, the same {smaller.rows} rows"
            changes.append(Change(text, float(runs), {"batch": str(smaller.part), "accumulate": str(runs)}))
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


def smaller_batch(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int, gradients: int | None, loss: Loss | None, loss_chunks: Any
) -> Smaller | None:
    """What of a sample fits in so many bytes, if all of its tensors have one first dimension. gradients are the bytes of those of a step;
    None says that they are not kept."""
    found = [t for t in [*args, *kwargs.values()] if isinstance(t, torch.Tensor)]
    rows = found[0].shape[0] if found and found[0].ndim else 0
    if rows < 2 or any(t.ndim == 0 or t.shape[0] != rows for t in found) or len(found) < sum(not isinstance(v, (int, float, str, bool, type(None))) for v in [*args, *kwargs.values()]):
        return None

    def part(x: Any, n: int) -> Any:
        return x[:n] if isinstance(x, torch.Tensor) else x

    def sample(n: int) -> Any:
        return Sample(tuple(part(a, n) for a in args), {k: part(v, n) for k, v in kwargs.items()})

    from .largest import max_batch, recorded_step

    try:
        fits = max_batch(model, sample, activation_budget=limit, most=rows - 1, loss=loss, loss_chunks=loss_chunks).size
    except Exception:  # a loss that knows the whole batch, a model that wants so many rows: nothing to say about them
        return None
    if gradients is not None:
        for n in (n for n in range(fits, 0, -1) if rows % n == 0):
            with contextlib.suppress(BudgetError):
                plan_of(recorded_step(model, sample, n, loss, loss_chunks).accumulating(), activation_budget=limit - gradients)
                return Smaller(fits, rows, n)
    return Smaller(fits, rows, 0)
