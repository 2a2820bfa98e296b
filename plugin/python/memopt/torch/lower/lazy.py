"""What tensors without bytes have in common that stand for a linear layer's result, and how the layer is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from ..ranks.units import unit_modules
from ..step.sample import Loss, state_kept
from ..step.tensors import Unmade


class Lazy(Unmade):
    """A tensor without bytes that is computed for whatever needs them."""

    def make(self) -> Tensor:
        """The value as a whole."""
        raise NotImplementedError

    @classmethod
    def after(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """What a function of such tensors makes without computing them; None if it needs them."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, plain = called(func)
        if plain:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        found = cls.after(func, name, args, kwargs)
        return found if found is not None else func(*computed(args, cls), **computed(kwargs, cls))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*computed(args, cls), **computed(kwargs, cls))


class Unsuitable(ValueError):
    """The model does not compute what a form of it is for."""


_PLAIN = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "get_device", "is_floating_point", "is_complex", "is_contiguous", "__len__", "__hash__",
}  # fmt: skip
_VIEWS = ("T", "mT", "H", "mH", "data", "real", "imag")  # attributes that are other tensors
CASTS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}


def called(func: Any) -> tuple[str, bool]:
    """The name of a function or an attribute of a tensor, and whether it can be had without the tensor's bytes."""
    name = getattr(func, "__name__", "")
    if name == "__get__":  # of an attribute
        name = getattr(getattr(func, "__self__", None), "__name__", "")
        return name, name not in _VIEWS
    return name, name in _PLAIN


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


def computed(x: Any, kind: Any) -> Any:
    """Arguments in which tensors of a kind without bytes are computed."""
    if isinstance(x, kind):
        return x.make()
    if isinstance(x, (list, tuple)):
        return type(x)(computed(y, kind) for y in x)
    if isinstance(x, dict):
        return {k: computed(y, kind) for k, y in x.items()}
    return x


StandIn = TypeVar("StandIn", bound=Callable[..., Any])


def tried(model: nn.Module, forward: Callable[[], Any], loss: Loss | None, suits: Callable[[nn.Module], bool], make: Callable[[Any, str], StandIn]) -> tuple[list[StandIn], Any]:
    """What stands for the forward passes of suitable layers in a pass without gradients, and its result."""
    layers: list[StandIn] = []
    replaced: list[nn.Module] = []
    # What fully_shard was called for below the model has its parameters only while it runs, and what reads its results may be computed behind it.
    inner = {m for unit in unit_modules(model) for m in unit.modules()}
    with state_kept(model), torch.no_grad():
        try:
            for name, m in model.named_modules():
                if suits(m) and m not in inner:
                    layers.append(make(m, name))
                    replaced.append(m)
                    m.forward = layers[-1]  # type: ignore[method-assign, assignment]
            out = forward()
            if loss is not None:
                loss(out)
        finally:
            for m in replaced:
                m.__dict__.pop("forward", None)
    return layers, out
