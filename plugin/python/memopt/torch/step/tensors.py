"""Operands of operators, and tensors as views of storages."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch


class Unmade(torch.Tensor):
    """A tensor without storage that stands for a future value."""

    def sources(self) -> list[torch.Tensor]:
        """Those others."""
        raise NotImplementedError


def tensors(x: Any) -> Iterator[torch.Tensor]:
    """The tensors in a result or in arguments, in order."""
    if isinstance(x, torch.Tensor):
        if isinstance(x, Unmade):
            yield from x.sources()
        else:
            yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from tensors(y)
    elif isinstance(x, dict):
        for y in x.values():
            yield from tensors(y)


_SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def pieces(x: Any) -> Iterator[torch.Tensor]:
    """The tensors whose storages have the bytes of those in a result or in arguments: of a sparse one, its indices and values."""
    for t in tensors(x):
        names = _SPARSE.get(t.layout)
        if names is None:
            yield t
            continue
        with torch._C._DisableTorchDispatch():
            held = [getattr(t.detach(), name)() for name in names]
        yield from held


def local(t: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor that is spread over ranks; any other tensor itself."""
    part = getattr(t, "_local_tensor", t)
    return part if isinstance(part, torch.Tensor) else t


def operands(func: Any, args: Any, kwargs: Any) -> tuple[list[torch.Tensor], list[tuple[int, torch.Tensor]]]:
    """The tensors that an operator only reads; and those that it writes into, with their place among all its tensors."""
    in_place = func.namespace == "c10d" and func._schema.name.endswith("_")  # what these write, their schemas do not say
    read: list[torch.Tensor] = []
    written: list[tuple[int, torch.Tensor]] = []
    place = 0
    for i, a in enumerate(func._schema.arguments):
        x = args[i] if i < len(args) else kwargs.get(a.name)
        writes = not a.name.startswith("input") if in_place else a.alias_info is not None and a.alias_info.is_write
        for t in pieces(x):
            if writes:
                written.append((place, t))
            else:
                read.append(t)
            place += 1
    return read, written


def referred(ref: weakref.ref[Any]) -> Any:
    """The tensor or storage of a weak reference, if it is still alive."""
    x = ref()
    if x is not None:
        x._fix_weakref()  # or it is no longer there when PyTorch alone held it and lets go
    return x


class View:
    """How a tensor shows its storage."""

    __slots__ = ("conj", "dtype", "neg", "offset", "size", "stride")

    def __init__(self, t: torch.Tensor) -> None:
        self.dtype, self.size, self.stride, self.offset = t.dtype, t.size(), t.stride(), t.storage_offset()
        self.conj, self.neg = t.is_conj(), t.is_neg()

    def of(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """A tensor that shows another storage in the same way, and keeps nothing else alive."""
        with torch.no_grad(), torch._C._DisableTorchDispatch():
            t = torch.empty(0, dtype=self.dtype, device=storage.device).set_(storage, self.offset, self.size, self.stride)
            if self.conj:
                t = t.conj()
            return torch._neg_view(t) if self.neg else t


def opaque(t: torch.Tensor) -> bool:
    """Whether a tensor is more than a view of one storage."""
    return type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or t.layout != torch.strided


def alias(t: torch.Tensor) -> torch.Tensor:
    """A tensor over the same storage that keeps nothing else alive: a detached view would keep its base."""
    return View(t).of(t.untyped_storage())


def counter(t: torch.Tensor) -> torch.Tensor:
    """A tensor whose _version goes on counting the writes into another, and that keeps nothing of it alive."""
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        same = t.detach()
        if not opaque(t):
            same.data = torch.empty(0, dtype=t.dtype, device=t.device)
    return same
