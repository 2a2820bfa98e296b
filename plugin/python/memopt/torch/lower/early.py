"""The optimizer's step in the backward pass: each parameter is updated, and its gradient freed, as soon as that is complete.

The gradients of the whole model never exist at once, so operations on all gradients after the backward pass are impossible: clipping, accumulation, a
GradScaler. The gradient of an updated parameter is a placeholder that raises when it is used, and optimizer.step() finds none.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ..._visible import class_of
from ..record.measure import digest
from ..step.results import plain_results
from ..step.sample import rehearsing
from ..step.spent import Spent
from ..step.tensors import tensors
from ..step.wrapped import inner_optimizers
from .states import StatesElsewhere
from .steps import bare_step, ran


class EarlyStep:
    """Makes an optimizer update each parameter of a model in the backward pass."""

    def __init__(self, model: torch.nn.Module, optimizer: Any) -> None:
        found = list(inner_optimizers(optimizer))
        if not found:
            raise TypeError("optimizer_in_backward needs the optimizer: give optimizer=")
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise ValueError("optimizer_in_backward: with several ranks a gradient is whole only after those of all ranks were added, behind the step")
        for o in found:
            if isinstance(o, torch.optim.LBFGS):
                raise ValueError("optimizer_in_backward: LBFGS looks at all gradients at once, and several times; leave it out")
        self.owner: dict[Tensor, tuple[torch.optim.Optimizer, int]] = {}
        for o in found:
            for i, group in enumerate(o.param_groups):
                for p in group["params"]:
                    self.owner[p] = o, i
        ours = [p for p in model.parameters() if p.requires_grad and p in self.owner]
        if not ours:
            raise ValueError("optimizer_in_backward: the optimizer has no parameter of the model")
        self.owner = {p: self.owner[p] for p in ours}
        self.states: StatesElsewhere | None = None  # which are elsewhere
        self.ready = False  # a whole step was taken: the optimizer has all of its states
        self.taken = False  # a step was taken that optimizer.step() has not been called for
        self.checks = 3  # of the loss's own gradient, which a scale or a mean over passes changes
        self.hooks = [p.register_post_accumulate_grad_hook(self._take) for p in ours]
        self.hooks += [o.register_step_pre_hook(self._before_step) for o in found]

    def detach(self) -> None:
        """Restores the optimizer."""
        for h in self.hooks:
            h.remove()
        self._clear()

    def around(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The forward pass, between its checks."""

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled() or rehearsing():
                return forward(*args, **kwargs)
            self.before()
            out = forward(*args, **kwargs)
            self.behind(out)
            return out

        return call

    def before(self) -> None:
        """Called when a forward pass begins."""
        if self.taken:
            raise RuntimeError(
                "memopt: a forward pass begins before optimizer.step() was called for the last backward pass, so gradients would be accumulated; with "
                "optimizer_in_backward=True each backward pass is a step of the optimizer. Call optimizer.step() behind it as usual (it has nothing left to do), or "
                "leave optimizer_in_backward out"
            )

    def behind(self, out: Any) -> None:
        """Called with the forward pass's results. The loss's gradient is 1 unless the loss is scaled."""
        if self.checks <= 0:
            return
        self.checks -= 1
        for t in tensors(plain_results(out)):
            if t.requires_grad and t.numel() == 1 and t.is_floating_point():
                t.register_hook(_is_one)

    def _take(self, p: Tensor) -> None:
        """Called when the gradient of a parameter is complete."""
        if rehearsing():
            self._rehearse(p)
        else:
            self._step(p)
            self.taken = True
            p.grad = Spent(p)

    def _step(self, p: Tensor) -> None:
        optimizer, i = self.owner[p]
        if self.states is not None:
            self.states.one(optimizer, p)
            return
        groups = optimizer.param_groups
        group = {**groups[i], "params": [p]}
        before = {k: v for k, v in group.items() if isinstance(v, (int, float))}
        optimizer.param_groups = [group]
        try:
            bare_step(optimizer)(optimizer)
        finally:
            optimizer.param_groups = groups
        if any(group[k] != v for k, v in before.items()):
            raise ValueError(f"optimizer_in_backward: {class_of(optimizer)} counts its steps for all parameters together; leave it out")

    def _rehearse(self, p: Tensor) -> None:
        """Runs a step and undoes it, to measure its memory. Backups are outside PyTorch's memory."""
        optimizer, _ = self.owner[p]
        assert p.grad is not None
        spent = Spent(p)
        with _disable_current_modes():
            spent.digest = digest(p.grad)
            state = optimizer.state.get(p)
            before = dict(state or {})
            kept = [(t, _bytes(t)) for t in [p, *(v for v in before.values() if isinstance(v, Tensor))]]
        self._step(p)
        p.grad = spent
        with _disable_current_modes():
            for t, old in kept:
                _restore(t, old)
            if state is None:
                optimizer.state.pop(p, None)
            else:
                state.clear()
                state.update(before)

    @contextlib.contextmanager
    def primed(self) -> Iterator[None]:
        """Has the optimizer's states there, which its first step would make: what is rehearsed within is as later steps are."""
        made = [p for p in self.owner if p not in self.owner[p][0].state]
        for p in made:
            before, values = p.grad, _bytes(p)
            p.grad = torch.zeros_like(p)
            self._step(p)
            p.grad = before
            _restore(p, values)
        try:
            yield
        finally:
            for p in made:
                self.owner[p][0].state.pop(p, None)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called by optimizer.step(), which has nothing left to do. A closure runs first, as it computes the gradients."""
        changed = ran(args, kwargs)
        self.ready = self.ready or self.taken
        self.taken = False
        self._clear()
        return changed

    def _clear(self) -> None:
        for p in self.owner:
            if isinstance(p.grad, Spent):
                p.grad = None


def _is_one(grad: Tensor) -> None:
    if not bool(grad == 1):
        raise RuntimeError(
            f"memopt: the loss is scaled by {float(grad):g} in the backward pass, as by GradScaler or a mean over accumulated passes; with optimizer_in_backward=True "
            "the optimizer would take scaled gradients. Leave optimizer_in_backward out; no parameter was changed"
        )


def _bytes(t: Tensor) -> bytearray:
    flat = t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return bytearray(flat.numpy().tobytes())


def _restore(t: Tensor, values: bytearray) -> None:
    with torch.no_grad():
        t.copy_(torch.frombuffer(values, dtype=torch.uint8).view(t.dtype).reshape(t.shape))
