"""Steps of optimizers that are not taken as a whole: their closures, their code without hooks, and what they keep."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch


def ran(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the closure among the arguments of a step, which computes the gradients. The arguments with what it returned in its place, or None without one."""
    closure: Callable[[], Any] | None = args[0] if args and callable(args[0]) else args[1] if len(args) > 1 and callable(args[1]) else kwargs.get("closure")
    if closure is None:
        return None
    with torch.enable_grad():
        value = closure()
    return tuple(a if a is not closure else (lambda: value) for a in args), {k: v if v is not closure else (lambda: value) for k, v in kwargs.items()}


_bare: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def bare_step(optimizer: torch.optim.Optimizer) -> Callable[..., Any]:
    """The step of an optimizer without the hooks of its users, who mean whole steps."""
    kind = type(optimizer)
    if kind not in _bare:
        found = kind.step
        _bare[kind] = found.__wrapped__ if getattr(found, "hooked", False) and hasattr(found, "__wrapped__") else found
    bare: Callable[..., Any] = _bare[kind]
    return bare


def slots(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> int:
    """The number of tensors of a parameter's size that an optimizer keeps for it."""
    name = type(optimizer).__name__
    if name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"):
        return 3 if group.get("amsgrad") else 2
    if name == "SGD":
        return 1 if group.get("momentum") else 0
    if name == "RMSprop":
        return 1 + bool(group.get("momentum")) + bool(group.get("centered"))
    if name in ("Adagrad", "Rprop", "Lion"):
        return 2 if name == "Rprop" else 1
    if name == "Adadelta":
        return 2
    raise ValueError(
        f"how much {name} keeps for each parameter is not known before its first step: call memopt.optimize after one step, "
        "or give activation_budget, which leaves optimizer states out"
    )
