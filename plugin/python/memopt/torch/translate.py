"""What PyTorch's ONNX exporter writes differently for training: operators that it takes for those of inference, or for nothing.

Its own translations normalize by stored statistics also in training, and lose that no gradient goes through detach().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
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
