"""Blocks under torch.utils.checkpoint, for steps without a plan.

Modules that run other operators in each step, or whose backward pass keeps its graph, cannot be replayed by position.
Their blocks are checkpointed while the forward pass runs: less is held, with no promise of bytes. A block whose forward
pass changes state (running statistics, power iterations) is left alone, since it would run twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils.checkpoint import checkpoint

from ..record.within import blocks_of


def regions_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The blocks that can run twice."""
    return [b for b in blocks_of(model) if not any(_changes(m) for m in b.modules()) and any(True for _ in b.parameters())]


def _changes(module: torch.nn.Module) -> bool:
    return isinstance(module, _NormBase) and module.track_running_stats or isinstance(module, ParametrizationList)


@contextlib.contextmanager
def checkpointed(model: torch.nn.Module) -> Iterator[None]:
    """Runs blocks under torch.utils.checkpoint while the forward pass of the model runs."""
    blocks = [(b, b.__dict__.get("forward")) for b in regions_of(model)]
    try:
        for block, _ in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]
        yield
    finally:
        for block, before in blocks:
            if before is None:
                del block.__dict__["forward"]
            else:
                block.__dict__["forward"] = before
