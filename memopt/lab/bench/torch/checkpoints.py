"""Checkpointing by hand, as people set it by trial and error: each block, the first k, or a list of operators whose results stay."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from ways import Bench, Way

_aten = torch.ops.aten
SAVED = [
    _aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.convolution.default, _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_flash_attention.default, _aten._scaled_dot_product_efficient_attention.default,
]  # fmt: skip


def blocks(model: nn.Module) -> list[nn.Module]:
    """What people checkpoint: the members of the outermost lists of modules, or else the blocks in sequences."""
    found: list[nn.Module] = []

    def lists(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                found.extend(child)
            else:
                lists(child)

    lists(model)
    if not found:
        for sequence in model.modules():
            if isinstance(sequence, nn.Sequential):
                found += [b for b in sequence if not isinstance(b, nn.Sequential) and any(b.children()) and next(b.parameters(), None) is not None]
    inner = {id(m) for b in found for m in b.modules() if m is not b}
    return [b for b in found if id(b) not in inner]


@contextlib.contextmanager
def checkpointed(chosen: Sequence[nn.Module], **how: Any) -> Iterator[None]:
    for block in chosen:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False, **how)
    try:
        yield
    finally:
        for block in chosen:
            del block.__dict__["forward"]


def ways(bench: Bench, counts: int) -> Iterator[Way]:
    """The first k blocks for some k up to all of them, and each block with a list of operators."""
    every = blocks(bench.family.module)
    n = len(every)
    for k in sorted({max(1, round(n * (i + 1) / counts)) for i in range(counts)}):
        name = "each block" if k == n else f"first {k} of {n} blocks"
        yield Way("checkpoint", name, functools.partial(checkpointed, every[:k]))
    saved = functools.partial(create_selective_checkpoint_contexts, list(SAVED))
    yield Way("checkpoint", "each block, products saved", functools.partial(checkpointed, every, context_fn=saved))
