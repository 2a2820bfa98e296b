"""The replacement of a module's forward, and the choice of modules to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class StandIn:
    """A callable in the place of a module's forward, or of another of its methods, which memopt.restore takes out again."""

    off = False  # somebody has wrapped it since: it runs what it replaced
    last: Any = None  # the report of the plan that was made last

    def __init__(self, model: torch.nn.Module, method: str = "forward") -> None:
        self.model, self.method = model, method
        self.replaced: Callable[..., Any] | None = model.__dict__.get(method)

    @property
    def original(self) -> Callable[..., Any]:
        """The module's own."""
        return self.replaced if self.replaced is not None else getattr(type(self.model), self.method).__get__(self.model)  # type: ignore[no-any-return]

    def install(self) -> None:
        setattr(self.model, self.method, self)

    def remove(self) -> None:
        if self.model.__dict__.get(self.method) is not self:
            self.off = True
            return
        del self.model.__dict__[self.method]
        if self.replaced is not None:
            self.model.__dict__[self.method] = self.replaced


def standing(model: torch.nn.Module) -> StandIn | None:
    """Our stand-in of a module, also if it is wrapped by another forward, as Accelerate does."""
    forward = model.__dict__.get("forward")
    while forward is not None and not isinstance(forward, StandIn):
        forward = getattr(forward, "__wrapped__", None)
    return forward if forward is not None and not forward.off else None


def own_forward(model: torch.nn.Module) -> Callable[..., Any]:
    """The module's own forward, whether it is planned or not."""
    ours = standing(model)
    return ours.original if ours is not None else model.forward


def torch_compiled(module: torch.nn.Module) -> bool:
    """Whether a module comes from torch.compile(module), or had module.compile() called."""
    return "_orig_mod" in module._modules and hasattr(module, "dynamo_ctx") or module.__dict__.get("_compiled_call_impl") is not None


def form_of(model: torch.nn.Module, mode: str) -> str:
    """Eager or compiled, by the mode or by the state of the module."""
    if mode not in ("auto", "eager", "graph", "compile", "aot_eager"):
        raise ValueError(f"mode is {mode!r}; there are 'auto', 'eager', 'graph', 'compile' and 'aot_eager'")
    if mode in ("compile", "aot_eager"):
        return mode
    compiled = next((name for name, module in model.named_modules() if torch_compiled(module)), None)
    if compiled is None:
        return "eager"
    if mode != "auto":
        what = f"its module {compiled}" if compiled else "it"
        raise ValueError(f"mode is {mode!r}, which would run {what} uncompiled, but it was compiled with torch.compile: give mode='compile', or the module before that")
    return "compile"
