"""Checks that a graph computes the same as its module, by comparing its first results with the module's.

Exporters have silently dropped arguments of operators. Steps that draw random numbers cannot be compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from .export import NotExported, Result, Step

_OFF = {torch.float64: 1e-4, torch.float32: 1e-2, torch.float16: 5e-2, torch.bfloat16: 5e-2}  # of a result's norm


def plain_results(model: torch.nn.Module, loss: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a call of the module returns; the module and random generators are restored."""
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    step = Step(model, loss, leaves, spec)
    buffers = {name: t.clone() for name, t in step.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.func.functional_call(step, buffers, tuple(x.clone() for x in leaves if isinstance(x, torch.Tensor)))
    return list(found[: len(step.found.names)])


def check(of: Sequence[Result], results: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> None:
    """Raises if a result differs from the module's."""
    for r, got, plain in zip(of, results, want, strict=True):
        allowed = _OFF.get(plain.dtype)
        if allowed is None or plain.numel() == 0:
            continue
        got, plain = got.double(), plain.double()
        finite = plain.isfinite()
        if not torch.equal(finite, got.isfinite()):
            raise NotExported(f"the exported step gives other numbers than the module: {r.name} is not finite where the module's is, or the other way round")
        got, plain = got[finite], plain[finite]
        off = float((got - plain).norm() / plain.norm().clamp_min(1e-6))
        if off > allowed:
            raise NotExported(f"the exported step gives other numbers than the module: {r.name} is off by {off:.1%}")
