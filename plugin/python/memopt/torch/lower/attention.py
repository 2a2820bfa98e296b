"""Attention that a model writes out, in tiles of queries, without ever having the scores of all queries in memory.

Each row of probabilities is of one query, so some queries go through the scores, masks, softmax and the values before the next ones
do; for the backward pass queries, keys, values and masks are kept, and each tile is computed again.

To the dispatcher this is one operator each way: a recorder sees its operands, its results and its peak memory.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

aten = torch.ops.aten

Step = tuple[Any, ...]  # the name of a rule, then its parameters; of a mask its number among the masks


class Rule:
    """A function of scores: how it is computed, and the gradient of its operand from that of its result."""

    def __init__(self, make: Callable[..., Tensor], gradient: Callable[..., Tensor]) -> None:
        self.make, self.gradient = make, gradient


def _softmax(x: Tensor, dtype: str) -> Tensor:
    return torch.softmax(x, -1, dtype=getattr(torch, dtype))


# make(x, *parameters) and gradient(dy, y, x's dtype, *parameters); masks are given as they are for the tile's queries.
RULES = {
    "times": Rule(lambda x, c: x * c, lambda dy, y, dtype, c: dy * c),
    "over": Rule(lambda x, c: x / c, lambda dy, y, dtype, c: dy / c),
    "add": Rule(lambda x, mask: x + mask, lambda dy, y, dtype, mask: dy),
    "fill": Rule(lambda x, mask, c: x.masked_fill(mask, c), lambda dy, y, dtype, mask, c: dy.masked_fill(mask, 0)),
    "softmax": Rule(_softmax, lambda dy, y, dtype, _: aten._softmax_backward_data(dy, y, -1, y.dtype).to(dtype)),
    "cast": Rule(lambda x, dtype: x.to(getattr(torch, dtype)), lambda dy, y, dtype, _: dy.to(dtype)),
}
MASKED = ("add", "fill")


@functools.lru_cache(256)
def _parsed(program: str) -> list[Step]:
    return [tuple(step) for step in json.loads(program)]


def given(step: Step, masks: Sequence[Tensor], queries: slice) -> tuple[Any, ...]:
    """The parameters of a step for a tile."""
    if step[0] not in MASKED:
        return step[1:]
    mask = masks[step[1]]
    return (mask if mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., queries, :], *step[2:])


def _tile(q: Tensor, k: Tensor, masks: Sequence[Tensor], steps: list[Step], queries: slice) -> Tensor:
    x = q[..., queries, :] @ k
    for step in steps:
        x = RULES[step[0]].make(x, *given(step, masks, queries))
    return x


@torch.library.custom_op("memopt::attention", mutates_args=())  # type: ignore[untyped-decorator]
def _forward(q: Tensor, k: Tensor, v: Tensor, masks: Sequence[Tensor], program: str, rows: int) -> Tensor:
    """k has its last two dims as the product with queries wants them."""
    steps = _parsed(program)
    y = q.new_empty(*q.shape[:-1], v.shape[-1])
    for i in range(0, q.shape[-2], rows):
        at = slice(i, i + rows)
        y[..., at, :] = _tile(q, k, masks, steps, at) @ v
    return y


@torch.library.custom_op("memopt::attention_backward", mutates_args=())  # type: ignore[untyped-decorator]
def _backward(dy: Tensor, q: Tensor, k: Tensor, v: Tensor, masks: Sequence[Tensor], program: str, rows: int, wanted: Sequence[bool]) -> list[Tensor]:
    """The gradients of q, k and v, and of masks that are trained; those that are not wanted are empty."""
    steps = _parsed(program)
    exact = torch.promote_types(q.dtype, torch.float32)  # half precision adds up in single
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k, dtype=exact), torch.zeros_like(v, dtype=exact)
    trained = [m.new_zeros(m.shape if want else 0, dtype=exact) for m, want in zip(masks, wanted, strict=True)]
    for i in range(0, q.shape[-2], rows):
        at = slice(i, i + rows)
        rowed, values = q[..., at, :], []
        x = rowed @ k
        for step in steps:
            values.append(x.dtype)
            x = RULES[step[0]].make(x, *given(step, masks, at))
            if step[0] == "softmax":
                y = x
        g = dy[..., at, :]
        dv += x.transpose(-1, -2) @ g
        del x
        g = g @ v.transpose(-1, -2)
        for step, dtype in zip(reversed(steps), reversed(values), strict=True):
            if step[0] == "add" and wanted[step[1]]:
                (mine,) = given(step, trained, at)
                mine += g.sum_to_size(mine.shape)
            g = RULES[step[0]].gradient(g, y if step[0] == "softmax" else None, dtype, *given(step, masks, at))
        dk += rowed.transpose(-1, -2) @ g
        dq[..., at, :] = g @ k.transpose(-1, -2)
        del g, y
    return [dq, dk.to(k.dtype), dv.to(v.dtype), *(t.to(m.dtype) for t, m in zip(trained, masks, strict=True))]


@_forward.register_fake  # type: ignore[untyped-decorator]
def _(q: Tensor, k: Tensor, v: Tensor, masks: Sequence[Tensor], program: str, rows: int) -> Tensor:
    return q.new_empty(*q.shape[:-1], v.shape[-1])


@_backward.register_fake  # type: ignore[untyped-decorator]
def _(dy: Tensor, q: Tensor, k: Tensor, v: Tensor, masks: Sequence[Tensor], program: str, rows: int, wanted: Sequence[bool]) -> list[Tensor]:
    return [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), *(m.new_empty(m.shape if want else 0) for m, want in zip(masks, wanted, strict=True))]


def _product(q: Any, k: Any) -> int:
    """The flops of the scores."""
    flops = 2 * k[-1]
    for n in q:
        flops *= n
    return int(flops)


@register_flop_formula(torch.ops.memopt.attention)  # type: ignore[untyped-decorator]
def _forward_flops(q: Any, k: Any, v: Any, masks: Any, program: str, rows: int, **_: Any) -> int:
    return _product(q, k) + _product((*q[:-1], v[-1]), k)


@register_flop_formula(torch.ops.memopt.attention_backward)  # type: ignore[untyped-decorator]
def _backward_flops(dy: Any, q: Any, k: Any, v: Any, masks: Any, program: str, rows: int, wanted: Any, **_: Any) -> int:
    return 3 * _product(q, k) + 2 * _product((*q[:-1], v[-1]), k)


class Attention(torch.autograd.Function):
    """A program of scores, computed again for its gradients."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, program: str, rows: int, *masks: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v, *masks)
        ctx.program, ctx.rows = program, rows
        y: Tensor = torch.ops.memopt.attention(q, k, v, list(masks), program, rows)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dy: Tensor) -> Any:
        q, k, v, *masks = ctx.saved_tensors
        needs = ctx.needs_input_grad
        dq, dk, dv, *trained = torch.ops.memopt.attention_backward(dy.contiguous(), q, k, v, masks, ctx.program, ctx.rows, needs[5:])
        found = (dq, dk, dv, None, None, *trained)
        return tuple(g if need else None for g, need in zip(found, needs, strict=True))
