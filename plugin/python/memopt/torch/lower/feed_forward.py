"""Feed-forward layers in tiles of rows, without ever having the whole hidden layer in memory.

A norm, linear layers whose results are several times as wide as what they read, activations, and the linear layer that makes them
narrow again treat each row of a sequence by itself. Here some rows go through all of them before the next ones do; for the
backward pass only what the first of them reads is kept, and each tile is computed again.

To the dispatcher this is one operator each way: a recorder sees its operands, its results and its peak memory.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import register_flop_formula

aten = torch.ops.aten

TILES = 16  # with a hidden layer four times as wide as its input, a tile's values and their gradients have the bytes of the input
MOST = 64  # that are tried

# The name of a rule, the values and the weights that it reads (−1: none), then its parameters. Value 0 is the rows, value n + 1 that of step n.
Step = tuple[Any, ...]


class Rule:
    """A function of values with one row each and of weights: how it is computed, and its gradients from that of its result."""

    def __init__(self, reads: int, make: Callable[..., Tensor], gradients: Callable[..., Sequence[Tensor]], weights: int = 0) -> None:
        self.reads, self.make, self.gradients, self.weights = reads, make, gradients, weights

    def values(self, step: Step) -> tuple[int, ...]:
        return step[1 : 1 + self.reads]

    def operands(self, step: Step) -> tuple[int, ...]:
        """The places of its weights."""
        return step[1 + self.reads : 1 + self.reads + self.weights]

    def apply(self, at: Mapping[int, Tensor], weights: Sequence[Tensor], step: Step, function: Callable[..., Any] | None = None, *before: Tensor) -> Any:
        given = [at[v] for v in self.values(step)] + [weights[w] if w >= 0 else None for w in self.operands(step)]
        return (function or self.make)(*before, *given, *step[1 + self.reads + self.weights :])


def _linear(x: Tensor, w: Tensor, b: Tensor | None, turned: bool) -> Tensor:
    if x.ndim != 2 and not turned:
        return F.linear(x, w, b)
    rows = x.reshape(-1, x.shape[-1])
    w = w if turned else w.t()
    y = rows @ w if b is None else torch.addmm(b, rows, w)
    return y.reshape(*x.shape[:-1], w.shape[1])


def _as(g: Tensor, like: Tensor) -> Tensor:
    """The gradient of a value that may have one column for all of the result's."""
    return g.sum(-1, keepdim=True) if like.shape[-1] == 1 else g


def _column(g: Tensor) -> Tensor:
    """The sum over rows, of half precision in single."""
    return g.sum(0, dtype=torch.promote_types(g.dtype, torch.float32))


def _layer_norm_gradients(dy: Tensor, y: Tensor, x: Tensor, w: Tensor | None, b: Tensor | None, eps: float) -> Sequence[Tensor]:
    width = [x.shape[-1]]
    _, mean, rstd = aten.native_layer_norm(x, width, w, b, eps)
    found: Sequence[Tensor] = aten.native_layer_norm_backward(dy, x, width, mean, rstd, w, b, [True, w is not None, b is not None])
    return found


def _rms_norm_gradients(dy: Tensor, y: Tensor, x: Tensor, w: Tensor | None, eps: float | None) -> Sequence[Tensor | None]:
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    r = torch.rsqrt(exact.square().mean(-1, keepdim=True) + (torch.finfo(x.dtype).eps if eps is None else eps))
    n = exact * r
    g = dy if w is None else dy * w
    return (r * (g - n * (g * n).mean(-1, keepdim=True))).to(x.dtype), None if w is None else _column(dy * n)


# gradients(dy, y, *values, *weights, *parameters); PyTorch's own kernels, in the order in which autograd calls them.
LINEAR = "linear"  # of a weight and a bias; whether the weight is (in, out)
RULES = {
    LINEAR: Rule(1, _linear, lambda *_: (), weights=2),  # whose gradients are added to sums in place
    "gelu": Rule(1, lambda x, how: aten.gelu(x, approximate=how), lambda dy, y, x, how: (aten.gelu_backward(dy, x, approximate=how),)),
    "silu": Rule(1, aten.silu, lambda dy, y, x: (aten.silu_backward(dy, x),)),
    "relu": Rule(1, aten.relu, lambda dy, y, x: (aten.threshold_backward(dy, y, 0),)),
    "tanh": Rule(1, aten.tanh, lambda dy, y, x: (aten.tanh_backward(dy, y),)),
    "sigmoid": Rule(1, aten.sigmoid, lambda dy, y, x: (aten.sigmoid_backward(dy, y),)),
    "mul": Rule(2, torch.mul, lambda dy, y, a, b: (_as(dy * b, a), _as(dy * a, b))),
    "add": Rule(2, torch.add, lambda dy, y, a, b: (_as(dy, a), _as(dy, b))),
    "sub": Rule(2, torch.sub, lambda dy, y, a, b: (_as(dy, a), _as(-dy, b))),
    "div": Rule(2, torch.div, lambda dy, y, a, b: (_as(dy / b, a), _as(-dy * (y / b), b))),
    "times": Rule(1, torch.mul, lambda dy, y, x, c: (dy * c,)),
    "plus": Rule(1, torch.add, lambda dy, y, x, c: (dy,)),
    "pow": Rule(1, torch.pow, lambda dy, y, x, e: (dy * (e * x.pow(e - 1)),)),
    "sqrt": Rule(1, torch.sqrt, lambda dy, y, x: (dy / (2 * y),)),
    "rsqrt": Rule(1, torch.rsqrt, lambda dy, y, x: (-0.5 * dy * y.pow(3),)),
    "mean": Rule(1, lambda x: x.mean(-1, keepdim=True), lambda dy, y, x: (dy.expand_as(x) / x.shape[-1],)),
    "cast": Rule(1, lambda x, dtype: x.to(getattr(torch, dtype)), lambda dy, y, x, dtype: (dy.to(x.dtype),)),
    "scale": Rule(1, torch.mul, lambda dy, y, x, w: (dy * w, _column(dy * x)), weights=1),
    "shift": Rule(1, torch.add, lambda dy, y, x, w: (dy, _column(dy)), weights=1),
    "layer_norm": Rule(1, lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps), _layer_norm_gradients, weights=2),
    "rms_norm": Rule(1, lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w, eps), _rms_norm_gradients, weights=1),
}


@functools.lru_cache(256)
def _parsed(program: str) -> tuple[list[Step], list[list[int]]]:
    """The steps, and the values that nothing reads behind each."""
    steps = [tuple(step) for step in json.loads(program)]
    last = {v: i for i, step in enumerate(steps) for v in RULES[step[0]].values(step)}
    return steps, [[v for v, at in last.items() if at == i] for i in range(len(steps))]


def _run(steps: list[Step], dead: list[list[int]], x: Tensor, weights: Sequence[Tensor], keep: bool) -> dict[int, Tensor]:
    """The values of a tile: all, or the last alone."""
    at: dict[int, Tensor] = {0: x}
    for i, step in enumerate(steps):
        at[i + 1] = RULES[step[0]].apply(at, weights, step)
        if not keep:
            for v in dead[i]:
                del at[v]
    return at


@torch.library.custom_op("memopt::feed_forward", mutates_args=())  # type: ignore[untyped-decorator]
def _forward(x: Tensor, weights: Sequence[Tensor], program: str, rows: int) -> Tensor:
    steps, dead = _parsed(program)
    y = x.new_empty(x.shape[0], _width(steps, weights))
    with torch._C._DisableAutocast():
        for i in range(0, x.shape[0], rows):
            y[i : i + rows] = _run(steps, dead, x[i : i + rows], weights, keep=False)[len(steps)]
    return y


@torch.library.custom_op("memopt::feed_forward_backward", mutates_args=())  # type: ignore[untyped-decorator]
def _backward(dy: Tensor, x: Tensor, weights: Sequence[Tensor], program: str, rows: int, wanted: Sequence[bool]) -> list[Tensor]:
    """The gradients of x and of each weight; those that are not wanted are empty."""
    steps, dead = _parsed(program)
    exact = torch.promote_types(x.dtype, torch.float32)  # half precision adds up in single
    dx = torch.empty_like(x) if wanted[0] else x.new_empty(0)
    sums = [w.new_zeros(w.shape if want else 0, dtype=exact) for w, want in zip(weights, wanted[1:], strict=True)]
    with torch._C._DisableAutocast():
        for i in range(0, x.shape[0], rows):
            at = _run(steps[:-1], dead, x[i : i + rows], weights, keep=True)
            _tile(steps, at, dy[i : i + rows], weights, sums, wanted)
            if wanted[0]:
                dx[i : i + rows] = at[-1]
            del at
    return [dx, *(total.to(w.dtype) for total, w in zip(sums, weights, strict=True))]


def _tile(steps: list[Step], at: dict[int, Tensor], dy: Tensor, weights: Sequence[Tensor], sums: list[Tensor], wanted: Sequence[bool]) -> None:
    """The gradients of a tile: that of its rows as value −1, those of weights added to their sums. Values are dropped as they are used."""
    d: dict[int, Tensor] = {len(steps): dy}
    for k in range(len(steps), 0, -1):
        step, y, g = steps[k - 1], at.pop(k, dy), d.pop(k)
        if step[0] == LINEAR:
            _, v, w, b, turned = step
            if wanted[1 + w]:
                one, other = (at[v], g) if turned else (g, at[v])
                if sums[w].dtype == g.dtype:
                    sums[w].addmm_(one.t(), other)
                else:
                    sums[w] += one.t() @ other
            if b >= 0 and wanted[1 + b]:
                sums[b] += g.sum(0, dtype=sums[b].dtype)
            found = {v: g @ (weights[w].t() if turned else weights[w])} if v or wanted[0] else {}
        else:
            rule, found = RULES[step[0]], {}
            gradients = rule.apply(at, weights, step, rule.gradients, g, y)
            for v, more in zip(rule.values(step), gradients, strict=False):
                found[v] = found[v] + more if v in found else more
            for w, more in zip(rule.operands(step), gradients[rule.reads :], strict=True):
                if w >= 0 and wanted[1 + w]:
                    sums[w] += more
            del gradients
        del y, g
        for v, more in found.items():
            d[v] = d[v] + more if v in d else more
    if 0 in d:
        at[-1] = d[0]


def _width(steps: list[Step], weights: Sequence[Tensor]) -> int:
    _, _, w, _, turned = steps[-1]
    return int(weights[w].shape[1 if turned else 0])


@_forward.register_fake  # type: ignore[untyped-decorator]
def _(x: Tensor, weights: Sequence[Tensor], program: str, rows: int) -> Tensor:
    return x.new_empty(x.shape[0], _width(_parsed(program)[0], weights))


@_backward.register_fake  # type: ignore[untyped-decorator]
def _(dy: Tensor, x: Tensor, weights: Sequence[Tensor], program: str, rows: int, wanted: Sequence[bool]) -> list[Tensor]:
    return [torch.empty_like(t) if want else t.new_empty(0) for t, want in zip([x, *weights], wanted, strict=True)]


def _products(n: int, weights: Any, program: str) -> list[tuple[int, bool]]:
    """The flops of each linear layer, and whether it reads the rows."""
    return [(2 * n * math.prod(weights[step[2]]), step[1] == 0) for step in _parsed(program)[0] if step[0] == LINEAR]


@register_flop_formula(torch.ops.memopt.feed_forward)  # type: ignore[untyped-decorator]
def _forward_flops(x: Any, weights: Any, program: str, rows: int, **_: Any) -> int:
    return sum(f for f, _ in _products(x[0], weights, program))


@register_flop_formula(torch.ops.memopt.feed_forward_backward)  # type: ignore[untyped-decorator]
def _backward_flops(dy: Any, x: Any, weights: Any, program: str, rows: int, wanted: Any, **_: Any) -> int:
    made = _products(x[0], weights, program)
    return sum(f * (2 + (not first or wanted[0])) for f, first in made) - made[-1][0]


class FeedForward(torch.autograd.Function):
    """A program of rows, computed again for its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, program: str, rows: int, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, *weights)
        ctx.program, ctx.rows = program, rows
        y: Tensor = torch.ops.memopt.feed_forward(x, list(weights), program, rows)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad
        wanted = [needs[0], *needs[3:]]
        dx, *grads = torch.ops.memopt.feed_forward_backward(dy.contiguous(), x, weights, ctx.program, ctx.rows, wanted)
        return dx if needs[0] else None, None, None, *(g if need else None for g, need in zip(grads, needs[3:], strict=True))


def tile_rows(n: int, tiles: int) -> int:
    """Rows of a tile. Their number is the same for every size: what the operator works in is then in proportion to the rows, as steps of other sizes are foreseen."""
    return max(1, -(-n // tiles))
