"""The part of a batch that fits, where the whole does not."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from ...errors import BudgetError
from ..plan.plans import plan_of
from ..plan.refused import Smaller
from ..step.sample import Loss, Sample
from .largest import max_batch, recorded_step


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

    try:
        fits = max_batch(model, sample, activation_budget=limit, most=rows - 1, loss=loss, loss_chunks=loss_chunks, ladder=False).size
    except Exception:  # a loss that knows the whole batch, a model that wants so many rows: nothing to say about them
        return None
    if gradients is not None:
        for n in (n for n in range(fits, 0, -1) if rows % n == 0):
            with contextlib.suppress(BudgetError):
                plan_of(recorded_step(model, sample, n, loss, loss_chunks).accumulating(), activation_budget=limit - gradients)
                return Smaller(fits, rows, n)
    return Smaller(fits, rows, 0)
