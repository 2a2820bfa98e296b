"""Translations for PyTorch's ONNX exporter of operators that it exports wrongly for training.

Its own translations normalize by stored statistics also in training, and lose that no gradient goes through detach().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnxscript.onnx_opset import opset18 as op
from onnxscript.values import Op, Opset

OPSET = 20


def table() -> dict[Any, Callable[..., Any]]:
    """Translations by operator, for torch.onnx.export."""
    aten = torch.ops.aten
    return {
        aten._native_batch_norm_legit_functional.default: _batch_norm,
        aten._native_batch_norm_legit.no_stats: _batch_norm_without_statistics,
        aten.cross_entropy_loss.default: _cross_entropy,
        aten.detach.default: _stop_gradient,
    }


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> tuple[Any, ...]:
    """The results, then what is kept for the backward pass, which nobody reads here, then the next running statistics."""
    weight, bias = _affine(x, weight, 1.0), _affine(x, bias, 0.0)
    if not training:
        y = op.BatchNormalization(x, weight, bias, mean, var, epsilon=eps)
        return y, mean, var, mean, var
    y, next_mean, next_var = op.BatchNormalization(x, weight, bias, mean, var, epsilon=eps, momentum=1.0 - momentum, training_mode=1)
    # The batch's part in ONNX's running variance is the batch's own variance; in PyTorch's it is the sample's.
    n = op.Cast(op.Div(op.Size(x), op.Size(weight)), to=onnx.TensorProto.FLOAT)
    part = op.Sub(next_var, op.Mul(var, op.CastLike(op.Constant(value_float=1.0 - momentum), var)))
    next_var = op.Add(next_var, op.Div(part, op.CastLike(op.Sub(n, op.Constant(value_float=1.0)), var)))
    return y, next_mean, next_var, next_mean, next_var


def _batch_norm_without_statistics(x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> tuple[Any, ...]:
    weight, bias = _affine(x, weight, 1.0), _affine(x, bias, 0.0)
    zeros = _affine(x, None, 0.0)
    y, mean, var = op.BatchNormalization(x, weight, bias, zeros, zeros, epsilon=eps, momentum=0.0, training_mode=1)
    return y, mean, var


def _affine(x: Any, given: Any, otherwise: float) -> Any:
    if given is not None:
        return given
    return op.Expand(op.CastLike(op.Constant(value_floats=[otherwise]), x), op.Shape(x, start=1, end=2))


def _cross_entropy(x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0) -> Any:
    """ONNX's operator knows neither smoothed labels nor probabilities for labels."""
    by_class = target.dtype not in (ir.DataType.INT64, ir.DataType.INT32)
    if not by_class and not label_smoothing:
        return op.SoftmaxCrossEntropyLoss(x, target, weight, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)[0]
    axis = 1 if len(x.shape) > 1 else 0
    classes = float(x.shape[axis])
    logs = op.LogSoftmax(x, axis=axis)
    if weight is not None:
        shape = [1] * len(x.shape)
        shape[axis] = -1
        logs = op.Mul(logs, op.Reshape(weight, op.Constant(value_ints=shape)))

    def number(v: float) -> Any:
        return op.CastLike(op.Constant(value_float=v), x)

    at = op.Constant(value_ints=[axis])
    if by_class:
        target = op.CastLike(target, x)
        if label_smoothing:
            target = op.Add(op.Mul(target, number(1 - label_smoothing)), number(label_smoothing / classes))
        rows = op.Neg(op.ReduceSum(op.Mul(target, logs), at, keepdims=0))
        counted = op.CastLike(op.Size(rows), x)
    else:
        there = op.Not(op.Equal(target, op.CastLike(op.Constant(value_int=ignore_index), target)))
        index = op.Where(there, target, op.CastLike(op.Constant(value_int=0), target))
        own = op.Squeeze(op.GatherElements(logs, op.Unsqueeze(index, at), axis=axis), at)
        all_of_them = op.Mul(op.ReduceSum(logs, at, keepdims=0), number(label_smoothing / classes))
        rows = op.Neg(op.Add(op.Mul(own, number(1 - label_smoothing)), all_of_them))
        rows = op.Where(there, rows, number(0.0))
        share = op.CastLike(there, x) if weight is None else op.Mul(op.CastLike(there, x), op.Gather(weight, index))
        counted = op.ReduceSum(share, keepdims=0)
    if reduction == 0:
        return rows
    total = op.ReduceSum(rows, keepdims=0)
    return total if reduction == 2 else op.Div(total, counted)


_REDUCTIONS = ("none", "mean", "sum")


def _stop_gradient(x: Any) -> Any:
    return Op(_MEMOPT, "StopGradient", _STOP_GRADIENT)(x)


_MEMOPT = Opset("memopt", 1)
_PORT = onnx.defs.OpSchema.FormalParameter
_STOP_GRADIENT = onnx.defs.OpSchema(
    "StopGradient",
    "memopt",
    1,
    inputs=[_PORT("x", "T")],
    outputs=[_PORT("y", "T")],
    type_constraints=[("T", onnx.defs.get_schema("Identity", 13).type_constraints[0].allowed_type_strs, "")],
)
