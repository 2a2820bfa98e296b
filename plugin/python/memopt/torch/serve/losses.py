"""Losses by the names that memopt's command line has for them."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import torch
from torch.nn import functional as F

from ..._visible import class_of


def named(loss: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """A function of a model's output and of targets."""
    if loss is None or callable(loss):
        return loss
    found = _LOSSES.get(str(loss))
    if found is None:
        near = get_close_matches(str(loss), _LOSSES, 1)
        raise ValueError(f"loss {loss!r}: there are {', '.join(_LOSSES)}, or give a function of the output and the targets" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


def _scores(out: Any) -> torch.Tensor:
    """The tensor of an output: itself, or the field that libraries use for scores."""
    if isinstance(out, torch.Tensor):
        return out
    for name in ("logits", "last_hidden_state"):
        found = out.get(name) if isinstance(out, dict) else getattr(out, name, None)
        if isinstance(found, torch.Tensor):
            return found
    if isinstance(out, (tuple, list)) and out and isinstance(out[0], torch.Tensor):
        return out[0]
    raise TypeError(f"the model returns {class_of(out)}, of which no tensor is known to be the scores; give loss= as a function of it")


def _cross_entropy(out: Any, targets: torch.Tensor) -> torch.Tensor:
    scores = _scores(out)
    if targets.shape == scores.shape[:-1]:  # a class for each row
        return F.cross_entropy(scores.flatten(0, -2) if scores.ndim > 2 else scores, targets.flatten() if scores.ndim > 2 else targets)
    return F.cross_entropy(scores, targets)


_LOSSES: dict[str, Callable[..., Any]] = {
    "cross-entropy": _cross_entropy,
    "mse": lambda out, targets: F.mse_loss(_scores(out), targets),
    "l1": lambda out, targets: F.l1_loss(_scores(out), targets),
    "bce-with-logits": lambda out, targets: F.binary_cross_entropy_with_logits(_scores(out), targets),
    "mean": lambda out: _scores(out).mean(),
}
