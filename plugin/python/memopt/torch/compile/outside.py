"""A loss outside of a compiled module, as a first step of training tells of it: its bytes, and the gradients that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..record.live import await_backward
from ..record.measure import Profiler, ProfilerBusy, events_of, highest
from ..step.results import Results, plain_results
from ..step.tensors import tensors

_CAME = "memopt gradients came"


def _differentiable(out: Any) -> list[Tensor]:
    return [t for t in tensors(plain_results(out)) if t.grad_fn is not None]


class Outside:
    """Watches what becomes of a module's results until their gradients come, in the place of a recorder for live; then it stands for the loss."""

    def __init__(self, out: Any, done: Callable[[Outside], None]) -> None:
        self.phase = "between"
        self.bytes = 0  # the most that were allocated on the way
        self.gradients: dict[int, Tensor] = {}  # by place among the results
        self._results = Results()
        if not self._results.add(out):
            return
        self._hooks = [t.register_hook(lambda grad, i=i: self._came(i, grad)) for i, t in enumerate(_differentiable(out))]
        self._profiler: Profiler | None = None
        self._before = 0
        if torch.cuda.is_initialized():
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()
        else:
            try:
                self._profiler = Profiler()
            except ProfilerBusy:
                pass  # the loss counts for nothing, and planned steps are measured all the same
        await_backward(self, lambda problem: done(self) if self.gradients and not problem else None)

    def reached_by(self, roots: Sequence[Any]) -> bool:
        return self._results.by(roots)

    def backward(self, run: Callable[[], Any], roots: Sequence[Any]) -> Any:
        try:
            return run()
        finally:
            self.close()

    def _came(self, i: int, grad: Tensor) -> None:
        if not self.gradients:
            if torch.cuda.is_initialized():
                self.bytes = max(0, torch.cuda.max_memory_allocated() - self._before)
            with torch.profiler.record_function(_CAME):
                pass
        if i not in self.gradients:
            self.gradients[i] = grad.detach().clone()

    def close(self) -> None:
        self.phase = "closed"
        for hook in self._hooks:
            hook.remove()
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        profiler.stop()
        if not profiler.lost:
            events, spans = events_of(profiler.profile)
            if events and _CAME in spans:
                self.bytes = highest(events, (events[0][0], spans[_CAME][0][0]))

    def __call__(self, out: Any) -> Tensor:
        """One number whose backward pass gives results the gradients that they had, in as many bytes."""
        results = _differentiable(out)
        places = [i for i in self.gradients if i < len(results) and results[i].shape == self.gradients[i].shape]
        loss: Tensor = _Stand.apply(self, places, *(results[i] for i in places))
        return loss


class _Stand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outside: Outside, places: list[int], *results: Tensor) -> Tensor:
        ctx.outside, ctx.places = outside, places
        torch.empty(outside.bytes, dtype=torch.uint8, device=results[0].device)
        return results[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *(ctx.outside.gradients[i].clone() for i in ctx.places)
