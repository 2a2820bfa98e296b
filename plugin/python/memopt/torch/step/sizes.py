"""The arguments of a call in two parts: the sizes that may vary from step to step, and everything else."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .sample import scalars


class Shape(NamedTuple):
    """Arguments of a call: two calls of one kind run the same code, as far as arguments tell; their sizes may differ."""

    kind: Any
    sizes: tuple[int, ...]


def shape_of(arguments: Any) -> Shape:
    """The dims of tensors and the values of integers are sizes. Types, devices, orders of strides and all other values are the kind."""
    sizes: list[int] = []
    return Shape(_kind(arguments, sizes), tuple(sizes))


def _kind(x: Any, sizes: list[int]) -> Any:
    if isinstance(x, torch.Tensor):
        sizes.extend(x.shape)
        return x.ndim, _order(x), x.dtype, x.device, x.requires_grad
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, *(_kind(y, sizes) for y in x))
    if isinstance(x, dict):
        return tuple((k, _kind(v, sizes)) for k, v in x.items())
    if type(x) is int:
        sizes.append(x)
        return int
    return scalars(x)


def _order(t: torch.Tensor) -> Any:
    """Which dims of a tensor follow each other in memory, and which are not there at all."""
    if t.layout != torch.strided:
        return t.layout
    if t.is_contiguous():
        return True
    strides = t.stride()
    return tuple(sorted(range(t.ndim), key=lambda i: (-strides[i], i))), tuple(s == 0 for s in strides)
