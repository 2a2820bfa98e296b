"""Whether gradients come through planned forward passes, and a word where they do not.

In the first steps each parameter tells when a gradient has come to it, later a few of them do, and all again in the pass behind one that
was through no planned forward pass. Such a pass is told of when it is over, with what is known of the way that it took.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..step.results import plain_results
from ..step.tensors import tensors
from .told import Told

_ENOUGH = 3  # backward passes that went through the plan
_COMPILED = "torch.compile compiled after memopt.optimize: compile first and then call memopt.optimize, or give it mode='compile' instead"
_FEW = 8  # parameters that go on telling


class Reach:
    """Watches the first backward passes of a module."""

    def __init__(self, model: torch.nn.Module, told: Told) -> None:
        self.model, self.told = model, told
        self.through = -1  # the last backward pass that came to a planned forward pass
        self.seen = -1  # the last one that was looked at
        self.well = 0
        self.arrived: set[torch.nn.Parameter] = set()
        self.methods: list[str] = []  # other methods that made gradients
        self.compiled = False  # the forward pass, by torch.compile, since
        self.hooks: list[torch.utils.hooks.RemovableHandle] = []
        self.all = True  # parameters tell
        self._listen(None)

    def _listen(self, most: int | None) -> None:
        """Has all parameters tell, or so many."""
        self.end()
        trained = [p for p in self.model.parameters() if p.requires_grad and p.is_leaf]
        self.all = most is None or most >= len(trained)
        self.hooks = [p.register_post_accumulate_grad_hook(self._arrive) for p in (trained if most is None else trained[:: -(-len(trained) // most)])]

    def end(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def was_compiled(self) -> None:
        """torch.compile takes up the forward pass for a step of training."""
        if not self.compiled and self.well >= _ENOUGH:
            self.told.warn(f"steps of {type(self.model).__name__} do not go through the plan from now on: its forward pass {_COMPILED}")
        self.compiled = True

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
            if self.well == _ENOUGH or self.all and self.well > _ENOUGH:
                self._listen(_FEW)
            return
        if self.methods or not self.hooks:
            return  # they are planned from now on
        begun = self.well >= _ENOUGH
        if begun and (self.compiled or not self.model.training):
            return  # that was told, or is an evaluation between steps
        if not self.all:
            self._listen(None)
            return
        self.end()
        where = self._where()
        of = f"{type(self.model).__name__} ({where})" if where else type(self.model).__name__
        does = "as those before did" if begun else "which so far does nothing"
        self.told.warn(f"a backward pass did not go through the plan, {does}: gradients came to {of} {self._way(where)}")

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
        if self.compiled:
            return f"from a forward pass that {_COMPILED}"
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
