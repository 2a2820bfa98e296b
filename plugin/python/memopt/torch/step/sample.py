"""One training step of a module: its loss, and saving and restoring of the module's state."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..._visible import class_of
from .tensors import tensors

Loss = Callable[[Any], torch.Tensor]


class Sample(NamedTuple):
    """Positional and named arguments together."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A sample as the arguments of a call."""
    if isinstance(sample, Sample):
        return sample.args, sample.kwargs
    if isinstance(sample, Mapping):
        return (), dict(sample)
    if isinstance(sample, (tuple, list)):
        return tuple(sample), {}
    return (sample,), {}


def inputs_of(batch: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call. A single mapping, which is what data loaders yield, is keyword arguments."""
    args, named = arguments(batch[0] if len(batch) == 1 and isinstance(batch[0], Mapping) else tuple(batch))
    return args, {**named, **kwargs}


class NoLoss(TypeError):
    """What a model returns is no loss."""

    def __init__(self, what: str, give: str = "give loss=, a function of the model's output that returns one number") -> None:
        super().__init__(f"{what}; {give}")
        self.what = what


def scalar(out: Any, loss: Loss | None) -> torch.Tensor:
    """The loss of a model's output."""
    if loss is not None:
        found = loss(out)
    elif isinstance(out, torch.Tensor):
        found = out
    elif getattr(out, "loss", None) is not None:
        found = out.loss
    elif isinstance(out, dict) and isinstance(out.get("loss"), torch.Tensor):
        found = out["loss"]
    elif isinstance(out, (tuple, list)) and out and isinstance(out[0], torch.Tensor) and out[0].numel() == 1 and out[0].is_floating_point():
        found = out[0]  # as transformers' tuples have it
    else:
        raise NoLoss(f"the model returns {class_of(out)}, which has no loss")
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else class_of(found)
        raise NoLoss(f"the loss is {what}, not one number")
    if not found.requires_grad:
        raise ValueError("the loss depends on no parameter that requires a gradient")
    return found


def through(model: torch.nn.Module, forward: Callable[..., Any], around: Callable[[Callable[[], Any]], Any], args: Any, kwargs: Any) -> Any:
    """Calls a module with its hooks, and with a context manager around its forward pass."""

    def instead(*args: Any, **kwargs: Any) -> Any:
        return around(functools.partial(forward, *args, **kwargs))

    had = model.__dict__.get("forward")
    model.forward = instead  # type: ignore[method-assign]
    try:
        return model(*args, **kwargs)
    finally:
        del model.__dict__["forward"]
        if had is not None:
            model.__dict__["forward"] = had


_here = threading.local()


def rehearsing() -> bool:
    """Whether the changes of a step will be undone."""
    return getattr(_here, "rehearsing", False)


@contextlib.contextmanager
def training_mode(model: torch.nn.Module) -> Iterator[None]:
    """Sets a module in evaluation mode to training mode, and restores it. A module in training mode may have parts that are not."""
    modes = [] if model.training else [(m, m.training) for m in model.modules()]
    if modes:
        model.train()
    try:
        yield
    finally:
        for m, mode in modes:
            m.training = mode


@contextlib.contextmanager
def state_kept(model: torch.nn.Module) -> Iterator[None]:
    """Restores what a trial step changes: buffers, gradients, the random state, and the mode, which is training within."""
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    grads = [(p, p.grad) for p in model.parameters()]
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    before, _here.rehearsing = rehearsing(), True
    with torch.random.fork_rng(devices=devices), training_mode(model):
        try:
            for p, _ in grads:
                p.grad = None
            torch.clear_autocast_cache()  # casts of weights that an earlier pass made are operators of this one
            yield
        finally:
            _here.rehearsing = before
            torch.clear_autocast_cache()
            with torch.no_grad():
                for b, old in buffers:
                    b.copy_(old)
            for p, g in grads:
                p.grad = g


@contextlib.contextmanager
def gradients_kept(inputs: Any) -> Iterator[None]:
    """Restores the gradients of a sample's tensors."""
    leaves = [t for t in tensors(inputs) if t.requires_grad and t.is_leaf]
    before = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    try:
        yield
    finally:
        for t, grad in zip(leaves, before, strict=True):
            t.grad = grad


def scalars(x: Any) -> Any:
    """Arguments other than tensors: another value may mean another program."""
    if isinstance(x, torch.Tensor):
        return None
    if isinstance(x, (list, tuple)):
        return tuple(scalars(y) for y in x)
    if isinstance(x, dict):
        return tuple((k, scalars(v)) for k, v in x.items())
    try:
        hash(x)
    except TypeError:
        return type(x)
    return x if isinstance(x, (int, float, str, bool, type(None), torch.dtype, torch.device)) else type(x)
