"""Whether gradients come through planned forward passes, and a word where they do not.

In the first steps each parameter tells when a gradient has come to it. A backward pass that was through no planned forward pass is
told of when it is over, with what is known of the way that it took.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..step.results import plain_results
from ..step.tensors import tensors
from .told import Told

_ENOUGH = 3  # backward passes that went through the plan


class Reach:
    """Watches the first backward passes of a module."""

    def __init__(self, model: torch.nn.Module, told: Told) -> None:
        self.model, self.told = model, told
        self.through = -1  # the last backward pass that came to a planned forward pass
        self.seen = -1  # the last one that was looked at
        self.well = 0
        self.arrived: set[torch.nn.Parameter] = set()
        self.methods: list[str] = []  # other methods that made gradients
        self.hooks = [p.register_post_accumulate_grad_hook(self._arrive) for p in model.parameters() if p.requires_grad and p.is_leaf]

    def end(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def came(self) -> None:
        """A backward pass comes to a planned forward pass."""
        self.through = torch._C._current_graph_task_id()

    def _arrive(self, p: torch.nn.Parameter) -> None:
        task = torch._C._current_graph_task_id()
        if task != self.seen:
            self.seen = task
            self.arrived.clear()
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._judge(task))  # type: ignore[attr-defined]
        self.arrived.add(p)

    def _judge(self, task: int) -> None:
        """A backward pass is over."""
        if self.through == task:
            self.well += 1
            if self.well >= _ENOUGH:
                self.end()
            return
        if self.methods or not self.hooks:
            return  # they are planned from now on
        self.end()
        where = self._where()
        of = f"{type(self.model).__name__} ({where})" if where else type(self.model).__name__
        self.told.warn(f"a backward pass did not go through the plan, which so far does nothing: gradients came to {of} {self._way(where)}")

    def _where(self) -> str:
        """The innermost module that all gradients came to."""
        names = [name.split(".")[:-1] for name, p in self.model.named_parameters() if p in self.arrived]
        common = names[0] if names else []
        for name in names:
            n = next((i for i, (a, b) in enumerate(zip(common, name, strict=False)) if a != b), min(len(common), len(name)))
            common = common[:n]
        return ".".join(common)

    def _way(self, where: str) -> str:
        if not self.model.training:
            return "in evaluation mode, in which memopt plans nothing: call train(), and eval() on the parts that are to stay in it"
        dynamo = sys.modules.get("torch._dynamo.utils")
        if self.model.__dict__.get("_compiled_call_impl") is not None or dynamo is not None and dynamo.counters["frames"]["total"]:
            return "from a forward pass that torch.compile compiled after memopt.optimize: compile first and then call memopt.optimize, or give it mode='compile' instead"
        if where:
            return f"and to nothing else, as where {where} is called by itself: call memopt.optimize on that, or on a list of the modules that are called"
        return "from children that were called by themselves, or from a method that memopt.optimize was not given: name it, methods=(…)"


class Scout:
    """In the place of a method until the first backward pass: sees whether gradients are made through it."""

    def __init__(self, model: torch.nn.Module, name: str, made: Callable[[str], None]) -> None:
        self.model, self.name, self.made = model, name, made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = getattr(type(self.model), self.name).__get__(self.model)(*args, **kwargs)
        if torch.compiler.is_compiling():
            return out
        if torch.is_grad_enabled() and any(t.grad_fn is not None for t in tensors(plain_results(out))):
            self.made(self.name)
        return out

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return getattr(type(self.model), self.name).__get__(memo.get(id(self.model), self.model))

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.model, self.name)


def methods_of(model: torch.nn.Module) -> Iterator[str]:
    """Methods that may be called instead of forward: public ones of the classes up to the one that defines it."""
    for kind in type(model).__mro__:
        for name, method in vars(kind).items():
            if inspect.isfunction(method) and not name.startswith("_") and not hasattr(torch.nn.Module, name) and name not in model.__dict__:
                yield name
        if "forward" in vars(kind):
            return
