"""What tensors without bytes have in common that stand for a linear layer's result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


class Unsuitable(ValueError):
    """The model does not compute what a form of it is for."""


PLAIN = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "get_device", "is_floating_point", "is_complex", "is_contiguous", "__len__", "__hash__",
}  # fmt: skip
CASTS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}


def shape_after(shape: Sequence[int], view: str, args: Any, kwargs: Any) -> list[int]:
    with _disable_current_modes():
        return list(getattr(torch.empty(tuple(shape), device="meta"), view)(*args, **kwargs).shape)


def flat(x: Any) -> Iterator[Tensor]:
    """The tensors in arguments or a result, also those without bytes."""
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from flat(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from flat(y)
