"""The placeholder of a gradient that the optimizer has used in the backward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_WHY = (
    "memopt: the optimizer has taken this gradient in the backward pass (optimizer_in_backward=True), so it cannot be {}; clipping, accumulation over several "
    "backward passes and GradScaler need all gradients after the backward pass: leave optimizer_in_backward out for them"
)


class Spent(Tensor):
    """The placeholder of a gradient that was used and freed. It has no bytes."""

    digest: str | None

    @staticmethod
    def __new__(cls, like: Tensor) -> Spent:
        made: Spent = Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device)  # type: ignore[attr-defined]
        made.digest = None
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Spent({list(self.shape)})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        if name in _HARMLESS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if name in ("zero_", "detach_", "requires_grad_"):  # zero_grad(set_to_none=False)
            return args[0]
        if name == "__set__":  # p.grad = None, or another
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise RuntimeError(_WHY.format(f"read by {name}"))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(_WHY.format(f"read by {func}"))


_HARMLESS = {"shape", "dtype", "device", "layout", "requires_grad", "grad_fn", "is_leaf", "ndim", "size", "dim", "numel", "__hash__", "_version"}


def gradient(p: Tensor) -> Tensor | None:
    """A parameter's gradient, if it exists."""
    return None if isinstance(p.grad, Spent) else p.grad
