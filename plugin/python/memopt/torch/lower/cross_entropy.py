"""Cross entropy of a linear layer's scores in chunks of rows, without ever having all scores in memory.

The scores of a language model, rows times vocabulary, are often by far the largest tensors of a step, with three or four of
them alive in the loss's backward pass. Here a chunk of rows is multiplied, turned into losses and gradients, and
dropped, before the next. The gradients are made at once, so nothing is computed twice; only for losses without a
reduction, whose gradients are not known before the backward pass, the scores are made a second time.

To the dispatcher this is one operator: a recorder sees its operands, its results and its peak memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.flop_counter import register_flop_formula

HIDDEN, WEIGHT, BIAS = 1, 2, 4  # whose gradients are wanted


# The tag has planners and torch.compile keep its results: they are handed over as gradients, and a second run would be the dearest of all.
@torch.library.custom_op("memopt::cross_entropy_by_rows", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))  # type: ignore[untyped-decorator]
def _by_rows(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    class_weight: Tensor | None,
    upstream: Tensor | None,
    rows: int,
    ignore_index: int,
    label_smoothing: float,
    wanted: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The loss of each row, and the requested gradients of their sum weighted by upstream; others are empty."""
    n, classes = hidden.shape[0], weight.shape[0]
    exact = torch.promote_types(hidden.dtype, torch.float32)  # half precision adds up in single
    losses = hidden.new_empty(n, dtype=exact)
    d_hidden = torch.empty_like(hidden) if wanted & HIDDEN else hidden.new_empty(0)
    d_weight = weight.new_zeros(weight.shape if wanted & WEIGHT else 0, dtype=exact)
    d_bias = weight.new_zeros(classes if wanted & BIAS else 0, dtype=exact)
    spread = label_smoothing / classes
    whole = float(classes) if class_weight is None else class_weight.sum()
    with torch._C._DisableAutocast():
        for i in range(0, n, rows):
            part = hidden[i : i + rows]
            scores = part @ weight.t() if bias is None else torch.addmm(bias, part, weight.t())
            logs = torch.log_softmax(scores.to(exact), 1)
            del scores
            t = target[i : i + rows]
            taken = t != ignore_index
            t, counted = torch.where(taken, t, 0)[:, None], taken[:, None].to(exact)
            own = (1 - label_smoothing) * (counted if class_weight is None else class_weight.to(exact)[t] * counted)
            loss = -(logs.gather(1, t) * own)[:, 0]
            if spread:
                loss -= spread * counted[:, 0] * (logs.sum(1) if class_weight is None else logs @ class_weight.to(exact))
            losses[i : i + rows] = loss
            if not wanted:
                continue
            assert upstream is not None
            m = upstream[i : i + rows, None].to(exact)
            own = own * m
            smooth = spread * m * counted
            d = logs.exp_().mul_(own + smooth * whole)
            del logs
            if spread:
                d.sub_(smooth if class_weight is None else smooth * class_weight)
            d.scatter_add_(1, t, -own)
            if wanted & BIAS:
                d_bias += d.sum(0)
            d = d.to(hidden.dtype)
            if wanted & HIDDEN:
                torch.mm(d, weight, out=d_hidden[i : i + rows])
            if wanted & WEIGHT and exact == weight.dtype:
                d_weight.addmm_(d.t(), part)
            elif wanted & WEIGHT:
                d_weight += d.t() @ part
            del d
        return losses, d_hidden, d_weight.to(weight.dtype), d_bias.to(weight.dtype)


@_by_rows.register_fake  # type: ignore[untyped-decorator]
def _(hidden: Tensor, weight: Tensor, bias: Any, target: Any, class_weight: Any, upstream: Any, rows: Any, ignore: Any, smooth: Any, wanted: int) -> Any:
    exact = torch.promote_types(hidden.dtype, torch.float32)
    return (
        hidden.new_empty(hidden.shape[0], dtype=exact),
        torch.empty_like(hidden) if wanted & HIDDEN else hidden.new_empty(0),
        weight.new_empty(weight.shape if wanted & WEIGHT else 0),
        weight.new_empty(weight.shape[0] if wanted & BIAS else 0),
    )


@register_flop_formula(torch.ops.memopt.cross_entropy_by_rows)  # type: ignore[untyped-decorator]
def _flops(hidden: Any, weight: Any, bias: Any, target: Any, class_weight: Any, upstream: Any, rows: Any, ignore: Any, smooth: Any, wanted: int, **_: Any) -> int:
    times = 1 + bool(wanted & HIDDEN) + bool(wanted & WEIGHT)
    return int(2 * hidden[0] * hidden[1] * weight[0] * times)


def _is_one(grad: Tensor) -> bool:
    return isinstance(grad, FakeTensor) or bool(grad == 1)


class _Reduced(torch.autograd.Function):
    """A reduced loss: its gradients are computed with it, except for a factor."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, class_weight: Tensor | None, upstream: Tensor, *how: Any) -> Tensor:
        needs = ctx.needs_input_grad
        wanted = HIDDEN * needs[0] + WEIGHT * needs[1] + BIAS * needs[2]
        losses, *grads = torch.ops.memopt.cross_entropy_by_rows(hidden, weight, bias, target, class_weight, upstream, *how, wanted)
        ctx.save_for_backward(*grads)
        # Losses hold the weights of their classes already; where nothing counts, 0 times infinity is what eager mode has.
        return (losses * upstream).sum()

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> Any:
        grads = ctx.saved_tensors
        if _is_one(grad):
            pass  # nothing scales the loss
        elif torch._C._autograd._get_current_graph_task_keep_graph():
            grads = [g * grad for g in grads]
        else:
            grads = [g.mul_(grad) for g in grads]  # asked for once: no second copy
        return *(g if need else None for g, need in zip(grads, ctx.needs_input_grad, strict=False)), *[None] * 6


class _Each(torch.autograd.Function):
    """A loss for each row: the scores are recomputed for the gradients."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, class_weight: Tensor | None, *how: Any) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias, target, class_weight)
        ctx.how = how
        losses: Tensor = torch.ops.memopt.cross_entropy_by_rows(hidden, weight, bias, target, class_weight, None, *how, 0)[0]
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> Any:
        needs = ctx.needs_input_grad
        wanted = HIDDEN * needs[0] + WEIGHT * needs[1] + BIAS * needs[2]
        _, *grads = torch.ops.memopt.cross_entropy_by_rows(*ctx.saved_tensors, grad, *ctx.how, wanted)
        return *(g if need else None for g, need in zip(grads, needs, strict=False)), *[None] * 5


def chunked_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    *,
    rows: int | None = None,
    class_weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of hidden @ weight.T + bias in chunks of rows, without ever having all scores in memory.

    hidden     (…, features), the input of the last linear layer
    weight     (classes, features), the layer's weight; bias (classes)
    target     (…), indices of classes
    rows       rows of a chunk; None: as many as have the bytes of hidden
    The other arguments are those of torch.nn.functional.cross_entropy, whose weight is class_weight here.

    The same loss and gradients as torch.nn.functional.cross_entropy(torch.nn.functional.linear(hidden, weight, bias), target)
    except for rounding: sums over rows are added chunk by chunk, in single precision for half-precision operands.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction!r} is not a valid value for reduction; give 'mean', 'sum' or 'none'")
    if target.shape != hidden.shape[:-1]:
        raise ValueError(f"target has shape {tuple(target.shape)}; hidden of shape {tuple(hidden.shape)} needs {tuple(hidden.shape[:-1])}")
    if target.is_floating_point():
        raise TypeError("target is probabilities; a loss in chunks takes classes by number")
    if hidden.shape[-1] != weight.shape[1]:
        raise ValueError(f"hidden has {hidden.shape[-1]} features and weight {weight.shape[1]}")
    device = hidden.device.type
    if torch.is_autocast_enabled(device):  # as linear would
        dtype = torch.get_autocast_dtype(device)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias.to(dtype) if bias is not None else None
    shape = target.shape
    hidden, target = hidden.reshape(-1, hidden.shape[-1]), target.reshape(-1)
    n = hidden.shape[0]
    if rows is None:
        rows = chunk_rows(n, weight, None)
    if rows < 1:
        raise ValueError(f"rows is {rows}; it must be positive")
    how = (rows, ignore_index, label_smoothing)
    if reduction == "none":
        each: Tensor = _Each.apply(hidden, weight, bias, target, class_weight, *how)
        return each.reshape(shape)
    with torch.no_grad():
        counted = target != ignore_index
        upstream = counted.to(torch.promote_types(hidden.dtype, torch.float32))
        if reduction == "mean":
            upstream = upstream / (counted.sum() if class_weight is None else class_weight[torch.where(counted, target, 0)].mul(counted).sum())
    loss: Tensor = _Reduced.apply(hidden, weight, bias, target, class_weight, upstream, *how)
    return loss


def chunk_rows(n: int, weight: Tensor, chunks: int | None) -> int:
    """Rows of a chunk: for the given number of chunks, or so that two buffers of scores have the bytes of the layer's input."""
    if chunks is None:
        classes, features = weight.shape
        chunks = max(1, min(-(-2 * classes // features), n // 16))
    return max(1, -(-n // chunks))


def work_space(n: int, weight: Tensor, dtype: torch.dtype, processor: bool) -> int:
    """The bytes that a loss of n rows takes beside its results while it runs, where it calculates in a type: tensors without bytes do not show them.

    processor says that operands of another type are copied before they are added, which graphics processors need not do.
    """
    scores = chunk_rows(n, weight, None) * weight.shape[0]
    exact, size = torch.promote_types(dtype, torch.float32).itemsize, dtype.itemsize
    trained = weight.numel() if weight.requires_grad else 0
    if exact == size:
        return 2 * scores * size  # the scores and their logarithms; gradients are added to the result in place
    # The scores in both types and their logarithms, or a chunk's gradients; beside them the sum of gradients in single precision, until it is the result.
    return max(scores * (size + 2 * exact) + trained * (exact - size), scores * size + trained * exact * (1 + processor))
