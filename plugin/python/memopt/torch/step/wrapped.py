"""Unwraps modules and optimizers from the wrappers of trainers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def inner_module(model: torch.nn.Module) -> torch.nn.Module:
    """The module in DistributedDataParallel, which runs other operators in its second step than in its first."""
    while isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    return model


def inner_optimizers(given: Any) -> Iterator[torch.optim.Optimizer]:
    """The optimizers in one, in several, or in the wrappers of Accelerate and Lightning."""
    if given is None:
        return
    if isinstance(given, Iterable):
        for optimizer in given:
            yield from inner_optimizers(optimizer)
        return
    while isinstance(inner := getattr(given, "optimizer", None), torch.optim.Optimizer):
        given = inner
    yield given
