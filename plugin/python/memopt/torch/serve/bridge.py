"""A module's step in the service as one autograd function: the user's loss, optimizer and hooks stay in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .export import NEXT, Exported
from .session import Binding, Session, Stepped


class Pass:
    """A forward pass and its backward pass. The service keeps the state of the last forward pass; an earlier one is repeated."""

    def __init__(self, session: Session, binding: Binding, tensors: Sequence[torch.Tensor], seed: int, told: Callable[[Stepped, bool, bool], None]) -> None:
        self.session, self.binding, self.seed, self.told = session, binding, seed, told
        self.exported: Exported = session.exported
        self.names = [one.name for one in self.exported.inputs]
        self.parameters = list(self.exported.parameters)
        self.devices = [t.device for t in (*tensors, *self.exported.parameters.values())]
        self.counters = {name: t.clone() for name, t in self.exported.counters.items()}
        # What a pass that is run again begins with.
        self.statistics = {name: t.detach().clone() for name, t in self.exported.buffers.items() if name in self.exported.updated}
        self.run = 0

    def forward(self, tensors: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the pass, updates the module's statistics, and returns the results."""
        self._run(tensors)
        self._keep_statistics()
        device = next((p.device for p in parameters), torch.device("cpu"))
        out = self.binding.of("output")
        return [out[r.name].view.to(device, copy=True) for r in self.exported.results]

    def backward(self, grads: Sequence[torch.Tensor | None], again: Callable[[], Sequence[torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Gradients by name, given those of the results; again returns the inputs, for a pass other than the last one."""
        if self.session.last is not self:
            self._run(again()[: len(self.names)], self.statistics)
            self._forget_statistics()
        seeds = self.binding.of("seed")
        for r, g in zip(self.exported.results, grads, strict=True):
            if r.differentiable and r.name in seeds:
                if g is None:
                    seeds[r.name].view.zero_()
                else:
                    seeds[r.name].view.copy_(g.detach())
        self.session.last = None
        self.told(self.session.step("Backward", self.binding, run=self.run), False, True)
        return {name: t.view for name, t in self.binding.of("grad").items()}

    def _run(self, tensors: Sequence[torch.Tensor], statistics: dict[str, torch.Tensor] | None = None) -> None:
        inputs = dict(zip(self.names, tensors, strict=True)) | self.counters
        changed = self.session.bring(self.binding, inputs, statistics or {})
        self.session.last = None
        done = self.session.step("Forward", self.binding, changed=changed, seed=self.seed, step=0)
        self.run = done.run
        self.session.last = self
        self.told(done, True, False)

    def _keep_statistics(self) -> None:
        """Copies the step's new buffers to the module."""
        outputs, buffers = self.binding.of("output"), self.binding.of("buffer")
        with torch.no_grad():
            for name in self.exported.updated:
                to = self.exported.stored[name]
                made = outputs[name + NEXT] if name + NEXT in outputs else buffers[name]
                to.copy_(made.view)
                if name in buffers:
                    self.session.knows(name, to)

    def _forget_statistics(self) -> None:
        """Discards the buffers of a repeated pass, which were updated before: the next call sends the module's own."""
        for name in self.exported.updated:
            self.session.forget(name)


class Bridge(torch.autograd.Function):
    """The function. Its arguments are a Pass, the tensors of a call, and the parameters of the graph."""

    @staticmethod
    def forward(ctx: Any, one: Pass, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = len(one.names)
        results = one.forward(arguments[:n], arguments[n:])
        ctx.one = one
        ctx.save_for_backward(*arguments)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(t for t, r in zip(results, one.exported.results, strict=True) if not r.differentiable))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        one: Pass = ctx.one
        if torch.is_grad_enabled():
            raise RuntimeError("a step in the memopt service has no gradients of gradients: leave out create_graph=True, or use the module itself (module.original)")
        if all(g is None for g in grads):
            return (None,) * len(ctx.needs_input_grad)
        made = one.backward(grads, lambda: ctx.saved_tensors)
        names = [*one.names, *one.parameters]
        given: list[torch.Tensor | None] = [None]
        for name, needed in zip(names, ctx.needs_input_grad[1:], strict=True):
            like = one.devices[len(given) - 1]
            # A copy: the arena's bytes are the next step's.
            given.append(made[name].to(like, copy=True) if needed and name in made else None)
        return tuple(given)
