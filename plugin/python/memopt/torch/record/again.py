"""Recomputation of operators: operands as references to values, results as storages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..step.tensors import View, alias, opaque, pieces
from .operators import Call, Op

OUTSIDE = -1
Storages = Callable[[int], torch.UntypedStorage]


class Ref:
    """A tensor operand of a captured call: a value of the step, or a tensor that lives outside it."""

    __slots__ = ("number", "outside", "storage", "version", "view")

    def __init__(self, t: torch.Tensor, number: int | None) -> None:
        self.number = number
        if number is not None:
            self.view = View(t)
            return
        # A tensor with a past would keep the graph that leads to it, and with it this step.
        base = t._base
        self.storage: torch.UntypedStorage | None = None
        if t.is_leaf or opaque(t):
            self.outside = t
        elif base is not None and base.is_leaf:
            self.outside, self.storage, self.view = base, t.untyped_storage(), View(t)
        else:
            self.outside = alias(t)
        self.version = self.outside._version

    def tensor(self, storages: Storages) -> torch.Tensor:
        if self.number is not None:
            return self.view.of(storages(self.number))
        if self.outside._version != self.version:
            raise modified(self.outside.shape, self.outside._version, self.version)
        return self.outside if self.storage is None else self.view.of(self.storage)


def modified(shape: Any, now: int, then: int) -> RuntimeError:
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"a tensor of shape {list(shape)} is at version {now}; expected version {then} instead"
    )


class Captured(NamedTuple):
    """A call of an operator that can be repeated."""

    func: Any
    args: Any
    kwargs: Any
    grad: bool  # whether gradients were enabled: kernels of recurrent layers ask for it


def captured(func: Any, args: Any, kwargs: Any, number: Callable[[torch.Tensor], int | None]) -> tuple[list[int], Captured]:
    """A repeatable call, and the values that it reads, by number or OUTSIDE."""
    read: list[int] = []
    call = Captured(func, [_refs(a, number, read) for a in args], {k: _refs(v, number, read) for k, v in kwargs.items()} if kwargs else kwargs, torch.is_grad_enabled())
    return read, call


def _refs(x: Any, number: Callable[[torch.Tensor], int | None], read: list[int]) -> Any:
    # Not a function within captured: one that calls itself lives, with all it sees, until the collector comes.
    if isinstance(x, torch.Tensor):
        for t in (x,) if x.layout == torch.strided else pieces(x):
            n = number(t)
            read.append(OUTSIDE if n is None else n)
        return Ref(x, n if x.layout == torch.strided else None)
    if isinstance(x, (list, tuple)):
        return type(x)([_refs(y, number, read) for y in x])
    if isinstance(x, dict):
        return {k: _refs(y, number, read) for k, y in x.items()}
    return x


def run_op(op: Op, calls: Mapping[int, Captured], recorded: Sequence[Call] | Mapping[int, Call], storages: Storages) -> dict[int, torch.UntypedStorage]:
    """Repeats a recorded operator and returns its results, by value."""
    made: dict[int, torch.UntypedStorage] = {}
    own = {v.number for v in op.outputs}

    def storage(number: int) -> torch.UntypedStorage:
        return made[number] if number in made else storages(number)

    for at in op.calls:
        func, args, kwargs, grad = calls[at]
        out = run_again(func, _tensors_of(args, storage), _tensors_of(kwargs, storage), grad)
        for (_, value), t in zip(recorded[at].makes, pieces(out), strict=False):
            if value.number in own:
                made[value.number] = t.untyped_storage()
    return made


def _tensors_of(x: Any, storages: Storages) -> Any:
    if isinstance(x, Ref):
        return x.tensor(storages)
    if isinstance(x, (list, tuple)):
        return type(x)([_tensors_of(y, storages) for y in x])
    if isinstance(x, dict):
        return {k: _tensors_of(y, storages) for k, y in x.items()}
    return x


# Operators whose running statistics a second run must not move again; given none, they give the same results.
_STATISTICS = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"}


witness: Callable[[Any, Any, Any, Any], None] | None = None  # told of second runs, which no mode sees


def run_again(func: Any, args: Any, kwargs: Any, grad: bool) -> Any:
    """Repeats an operator below autograd and autocast, invisible to modes, without side effects on statistics.

    grad is whether gradients were enabled the first time: kernels of recurrent layers ask for it.
    """
    if func._overloadpacket._qualified_op_name.removeprefix("aten::") in _STATISTICS:
        names = [a.name for a in func._schema.arguments]
        training = args[names.index("training")]
        if training:
            args = [None if name in ("running_mean", "running_var") else a for name, a in zip(names, args, strict=False)]
    with torch.set_grad_enabled(grad), torch._C._DisableTorchDispatch(), torch._C._DisableAutocast(), torch._C._AutoDispatchBelowAutograd():
        out = func(*args, **kwargs)
    if witness is not None:
        witness(func, args, kwargs, out)
    return out


def digest(storage: torch.UntypedStorage) -> int:
    """A digest of a storage: the sum of its words, which needs no memory."""
    size = storage.nbytes()
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        words = torch.empty(0, dtype=torch.int64, device=storage.device).set_(storage, 0, (size // 8,))
        rest = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, size - size % 8, (size % 8,))
        return int(words.sum()) + int(rest.sum())
