"""What PyTorch runs on a graphics processor where it runs something else on a processor, by which steps are recorded.

Most operators are the same on both, and so is what autograd keeps of them. Some choose by device: attention takes a kernel that keeps a
number for each query where a processor, which has none with dropout, keeps the matrix of probabilities; dropout keeps a mask of bytes in
place of factors in the input's type; the root mean square norm is one operator; and under autocast more of them calculate in 32 bits. Functions of Python are watched, and those operators are called by their own names. Without bytes their
results are as large as on such a device.
"""

from __future__ import annotations

import contextlib
import functools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..plan.form import Form
from .devices import Device
from .scans import with_kernels

_FLASH_BACKWARD = "autograd.ScaledDotProductFlashAttentionBackward0"
_HALF = (torch.bfloat16, torch.float16)
_WIDEST = 256  # heads of flash attention
_WIDE = {"4090": 192, "5090": 192}  # on devices whose kernel takes no wider ones in training
_OFTEN = 8  # numbers that heads of flash attention are padded to, of 16 bits
_ROWS = 16  # numbers that rows of a mask are padded to
_PRODUCTS = ("apple-m4-max",)  # devices that have no kernel of attention for training, and none of dropout
# What autocast has in 32 bits on graphics processors: results of the first, inputs of all others.
_TO_FULL = {"softmax", "log_softmax", "sum", "prod", "cumsum", "cumprod"}
IN_FULL = _TO_FULL | {
    "cross_entropy", "layer_norm", "native_layer_norm", "group_norm", "rms_norm", "pow", "__pow__", "__rpow__", "__ipow__", "square", "rsqrt", "reciprocal", "__rdiv__", "__rtruediv__", "exp", "expm1", "log", "log10", "log1p", "log2", "logsumexp",
    "softplus", "acos", "asin", "cosh", "sinh", "tan", "erfinv", "norm", "vector_norm", "matrix_norm", "dist", "pdist", "renorm", "cosine_similarity", "interpolate",
}  # fmt: skip
_CALLED = {"scaled_dot_product_attention", "dropout"}  # by other functions
_BACKWARD = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)


@contextlib.contextmanager
def kernels_of(device: Device, model: torch.nn.Module) -> Iterator[None]:
    """Has the operators of a model run as on a device."""
    with contextlib.ExitStack() as stack:
        if not device.processor:
            if has_scans(device):
                stack.enter_context(with_kernels(model))
            stack.enter_context(Graphics(device.name.lower()))
        yield


def work_within(form: Form) -> None:
    """Adds what flash attention's backward pass works in to a program: the gradient of queries in 32 bits, a number for each of them, and the
    gradients of keys and values for each head where heads share them."""
    for i, node in enumerate(form.nodes):
        if node.fields["op"] != _FLASH_BACKWARD or len(node.outputs) < 3:
            continue
        queries, keys, values = (o.shape for o in node.outputs[:3])
        form.work[i] += 4 * (math.prod(queries) + math.prod(queries[:-1]))
        if queries[1] != keys[1]:
            form.work[i] += sum(math.prod(shape) // shape[1] * queries[1] for shape in (keys, values)) * getattr(torch, node.outputs[0].dtype).itemsize


def has_scans(device: Device) -> bool:
    """Whether packages have kernels for a device, of modules that else go through a row token by token."""
    return not device.processor and device.name.lower() not in _PRODUCTS


class Graphics(TorchFunctionMode):
    """Has what runs within run as on a graphics processor."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.in_full = False  # whether autocast has the operators in 32 bits that it has on these devices
        if name in _PRODUCTS:
            self.ours: dict[Any, Callable[..., Any]] = {functional.scaled_dot_product_attention: _by_products}
            return
        attention = functools.partial(_attention, widest=_WIDE.get(name, _WIDEST))
        self.ours = {functional.scaled_dot_product_attention: attention, functional.dropout: _dropout, torch.dropout: _dropout, functional.rms_norm: _rms_norm, torch.rms_norm: _rms_norm}
        self.in_full = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.in_full and getattr(func, "__name__", "") in IN_FULL and torch.is_autocast_enabled("cpu"):
            return self._in_full(func, args, kwargs)
        ours = self.ours.get(func)
        if ours is not None:
            return ours(*args, **kwargs)
        inside = _bodies(func)
        if inside is None:
            return func(*args, **kwargs)
        with self:
            return inside(*args, **kwargs)

    def _in_full(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What autocast has in 32 bits: of inputs in 32 bits, or to such a result."""
        with torch.autocast("cpu", enabled=False):
            if func.__name__ in _TO_FULL:
                given = kwargs.get("dtype") or next((a for a in args if isinstance(a, torch.dtype)), None)
                wider = given is None and _is_half(args[0] if args else kwargs.get("input"))
                return func(*args, **{**kwargs, "dtype": torch.float32} if wider else kwargs)
            args = [a.float() if _is_half(a) else a for a in args]
            kwargs = {k: v.float() if _is_half(v) else v for k, v in kwargs.items()}
            return self.ours.get(func, func)(*args, **kwargs)


_known: dict[Any, Callable[..., Any] | None] = {}


def _bodies(func: Any) -> Callable[..., Any] | None:
    """A function as it is within, where it calls those that are watched, or runs blocks again: it would ask the mode for itself once more."""
    if func not in _known:
        inside = None
        if isinstance(func, types.FunctionType) and (func in _BACKWARD or func.__module__ == functional.__name__ and set(func.__code__.co_names) & _CALLED):
            asks = {name: _never for name in func.__globals__ if name.startswith("has_torch_function")}
            inside = types.FunctionType(func.__code__, {**func.__globals__, **asks}, func.__name__, func.__defaults__, func.__closure__)
            inside.__kwdefaults__ = func.__kwdefaults__
        _known[func] = inside
    return _known[func]


def _never(*_: Any) -> bool:
    return False


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, widest: int = _WIDEST,
) -> torch.Tensor:  # fmt: skip
    """scaled_dot_product_attention by the kernel that a graphics processor of compute capability 8.0 or more has for it: flash attention, one with
    little memory, or products."""
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attn_mask = (_cast(t, torch.get_autocast_dtype("cpu")) for t in (query, key, value, attn_mask))  # type: ignore[assignment]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask.logical_not(), -math.inf, torch.scalar_tensor(0.0, dtype=query.dtype, device=query.device))
    if not (query.ndim == key.ndim == value.ndim == 4 and _fused(query, key, value, enable_gqa)):
        return _products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    width = query.shape[-1]
    if attn_mask is None and query.dtype in _HALF and width == value.shape[-1] and width <= widest and not (is_causal and query.shape[-2] != key.shape[-2]):
        q, k, v = (functional.pad(t, (0, -width % _OFTEN)) if width % _OFTEN else t for t in (query, key, value))
        found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False, scale=scale or width**-0.5)[0]
        return found[..., :width] if width % _OFTEN else found
    often = 8 if query.dtype in _HALF else 4
    if width % often or value.shape[-1] % often:
        return _products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None:
        if attn_mask.shape[-1] % _ROWS:  # it is copied to one whose rows begin where the kernel reads
            attn_mask = functional.pad(attn_mask, (0, -attn_mask.shape[-1] % _ROWS))[..., : attn_mask.shape[-1]]
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    if key.shape[1] != query.shape[1]:
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    keeps = any(t.requires_grad for t in (query, key, value))
    found = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, keeps, dropout_p, is_causal, scale=scale)[0]
    assert isinstance(found, torch.Tensor)
    return found


def _fused(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grouped: bool) -> bool:
    """Whether a kernel that does not keep probabilities takes these."""
    heads = {t.shape[1] for t in (key, value)}
    groups = heads == {query.shape[1]} or grouped and len(heads) == 1 and query.shape[1] % key.shape[1] == 0
    same = len({t.shape[0] for t in (query, key, value)}) == 1 and query.shape[-1] == key.shape[-1] and query.dtype == key.dtype == value.dtype
    return groups and same and query.dtype in (*_HALF, torch.float32) and 0 not in query.shape + key.shape and all(t.stride(-1) == 1 for t in (query, key, value))


def _by_products(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, **more: Any) -> torch.Tensor:
    found: torch.Tensor = torch.ops.aten._scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, None, **more)[0]
    return found


def _products(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout: float, causal: bool, scale: float | None, grouped: bool,
) -> torch.Tensor:  # fmt: skip
    """Attention where no kernel does all of it: in numbers of 32 bits, with a matrix of probabilities."""
    if not dropout:
        return _by_products(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=grouped)
    kind = query.dtype
    query, key, value = (t.float() if kind in _HALF else t for t in (query, key, value))
    root = (scale or query.shape[-1] ** -0.5) ** 0.5
    if causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        mask = torch.where(mask.logical_not(), -math.inf, torch.scalar_tensor(0.0, dtype=query.dtype, device=query.device))
    if grouped:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    scores = (query * root) @ (key.transpose(-2, -1) * root)
    if mask is not None:
        scores = scores + mask
    return (torch.native_dropout(torch._safe_softmax(scores, -1), dropout, True)[0] @ value).to(kind)


def _cast(t: torch.Tensor | None, to: torch.dtype) -> torch.Tensor | None:
    return t.to(to) if t is not None and t.is_floating_point() and t.dtype != to else t


def _is_half(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in _HALF


def _rms_norm(input: torch.Tensor, normalized_shape: Any, weight: torch.Tensor | None = None, eps: float | None = None) -> torch.Tensor:
    """The norm, which keeps its input and a number for each row."""
    if weight is not None and weight.dtype != input.dtype or input.dtype not in (*_HALF, torch.float32):
        return torch.rms_norm(input, normalized_shape, weight, eps)
    found: torch.Tensor = _Norm.apply(input, weight, len(normalized_shape))  # type: ignore[no-untyped-call]
    return found


_ops = torch.library.Library("memopt", "FRAGMENT")
_ops.define("rms_norm(Tensor x, Tensor? weight, int dims) -> (Tensor, Tensor)")
_ops.define("rms_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor deviation) -> (Tensor, Tensor)")
_ops.impl("rms_norm", lambda x, weight, dims: (torch.empty_like(x), x.new_empty((*x.shape[: x.ndim - dims], *[1] * dims), dtype=torch.float32)), "Meta")
_ops.impl("rms_norm_backward", lambda dy, x, weight, deviation: (torch.empty_like(x), torch.empty_like(weight) if weight is not None else x.new_empty(0)), "Meta")


class _Norm(torch.autograd.Function):
    """The root mean square norm in one operator."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, dims: int) -> Any:
        y, deviation = torch.ops.memopt.rms_norm(x, weight, dims)
        ctx.save_for_backward(x, weight, deviation)
        return y

    @staticmethod
    def backward(ctx: Any, *dy: Any) -> Any:
        x, weight, deviation = ctx.saved_tensors
        dx, dw = torch.ops.memopt.rms_norm_backward(dy[0], x, weight, deviation)
        return dx, dw if weight is not None else None, None


def _dropout(input: torch.Tensor, p: float = 0.5, train: bool = True, inplace: bool = False, *, training: bool | None = None) -> torch.Tensor:
    """Dropout, which keeps a mask of bytes."""
    train = train if training is None else training
    if inplace:
        return torch.dropout_(input, p, train)
    return torch.native_dropout(input, p, True)[0] if 0 < p < 1 and train and input.numel() else torch.dropout(input, p, train)
