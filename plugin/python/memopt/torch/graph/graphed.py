"""A captured step: its forward pass, and its backward pass from the results to the gradients, as one function of autograd.

Inputs are copied into fixed places before a pass is launched. Gradients are read where the capture left them: they are
handed over as they lie, and copied only if somebody still has them when the next pass is launched.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from ..step.results import plain_results
from ..step.sample import state_kept
from ..step.tensors import tensors
from .capture import Capture, Uncapturable

SMALL = 1 << 20  # bytes of results that are handed over as copies, so that who collects them has those of each step


class Token:
    """Lives as long as the graph of a pass."""

    __slots__ = ("__weakref__", "ran")

    def __init__(self) -> None:
        self.ran = False


class Graphed:
    """A captured step."""

    def __init__(
        self, capture: Capture, model: torch.nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any, around: Callable[[], AbstractContextManager[Any]] | None, reached: Set[int],
    ) -> None:  # fmt: skip
        """around: the replay of the plan. reached: the results, by number, from which a backward pass comes."""
        self.capture = capture
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.addresses = [p.data_ptr() for p in model.parameters()]
        self.model = weakref.ref(model)
        given, self.form = flat((args, kwargs))
        self.places: list[Any] = [capture.place(x).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in given]
        self.waiting: weakref.ref[Token] | None = None
        with state_kept(model):
            args, kwargs = pytree.tree_unflatten(self.places, self.form)
            with capture.part(), around() if around is not None else nullcontext():
                out = forward(*args, **kwargs)
            results, self.returns = flat(out)
            if any(not isinstance(x, torch.Tensor) and any(True for _ in tensors(plain_results(x))) for x in results):
                raise Uncapturable(f"the module returns tensors in {type(next(x for x in results if not isinstance(x, torch.Tensor))).__name__}")
            self.grown = [i for i, x in enumerate(results) if isinstance(x, torch.Tensor) and x.requires_grad]
            self.reached = [i for i in self.grown if i in reached]
            wanted = [*self.parameters, *self._given]
            self.incoming = [capture.place(torch.zeros_like(results[i], requires_grad=False)) for i in self.reached]
            with capture.part():
                grads = torch.autograd.grad([results[i] for i in self.reached], wanted, self.incoming, allow_unused=True)
            kept = [capture.keep(x) if isinstance(x, torch.Tensor) else x for x in results]
            made = [capture.keep(g) if g is not None else None for g in grads]
            del out, results, grads, args, kwargs
            capture.finish()
        self.results = [x() if callable(x) else x for x in kept]
        self.grads = [g() if g is not None else None for g in made]

    @property
    def _given(self) -> list[torch.Tensor]:
        """Inputs whose gradients are wanted."""
        return [x for x in self.places if isinstance(x, torch.Tensor) and x.requires_grad]

    @property
    def busy(self) -> bool:
        """Whether a backward pass can still come to the last forward pass."""
        token = self.waiting() if self.waiting is not None else None
        return token is not None and not token.ran

    @property
    def stale(self) -> bool:
        """Whether parameters lie elsewhere than when it was captured."""
        model = self.model()
        return model is None or [p.data_ptr() for p in model.parameters()] != self.addresses

    def __call__(self, args: Any, kwargs: Any) -> Any:
        given, _ = flat((args, kwargs))
        with torch.no_grad():
            for place, x in zip(self.places, given, strict=True):
                if isinstance(x, torch.Tensor):
                    place.copy_(x, non_blocking=True)
        inputs = [x for x, place in zip(given, self.places, strict=True) if isinstance(place, torch.Tensor) and place.requires_grad]
        found = _Launch.apply(self, *self.parameters, *inputs)
        made = iter(found)
        return pytree.tree_unflatten([next(made) if isinstance(x, torch.Tensor) else x for x in self.results], self.returns)

    def rescue(self) -> None:
        """Copies gradients that somebody still has where the next launch writes."""
        for p, grad in zip(self.parameters, self.grads, strict=False):
            if p.grad is not None and grad is not None and p.grad.data_ptr() == grad.data_ptr():
                p.grad = p.grad.clone()


class _Launch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graphed: Graphed, *inputs: torch.Tensor) -> Any:
        token = ctx.token = Token()
        graphed.waiting = weakref.ref(token)
        ctx.graphed = graphed
        graphed.capture.replay(0)
        results = [x for x in graphed.results if isinstance(x, torch.Tensor)]
        found = tuple(x.clone() if x.untyped_storage().nbytes() <= SMALL else x.detach() for x in results)
        numbers = [i for i, x in enumerate(graphed.results) if isinstance(x, torch.Tensor)]
        ctx.numbers = numbers
        ctx.mark_non_differentiable(*(t for i, t in zip(numbers, found, strict=True) if i not in graphed.grown))
        ctx.set_materialize_grads(False)
        return found

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        graphed: Graphed = ctx.graphed
        if ctx.token.ran:
            raise RuntimeError("memopt: a second backward pass comes to a captured step, whose tensors the first has written over; mode='eager' plans such steps")
        by_number = dict(zip(ctx.numbers, grads, strict=True))
        if any(g is not None and i not in graphed.reached for i, g in by_number.items()):
            raise RuntimeError("memopt: a backward pass comes from another result than in the steps before, which is not in the capture; mode='eager' plans such steps")
        ctx.token.ran = True
        for i, place in zip(graphed.reached, graphed.incoming, strict=True):
            grad = by_number[i]
            if grad is None:
                place.zero_()
            else:
                place.copy_(grad)
        graphed.capture.replay(1)
        return (None, *(g.detach() if g is not None else None for g in graphed.grads))


def flat(x: Any) -> tuple[list[Any], Any]:
    """Arguments or results as a list, and how they were nested."""
    return pytree.tree_flatten(x)


def reached(out: Any, into: set[int]) -> Sequence[Any]:
    """Notes from which results, by number, a backward pass comes."""

    def note(i: int) -> Callable[[Any], None]:
        def came(_: Any) -> None:
            into.add(i)

        return came

    return [t.register_hook(note(i)) for i, t in enumerate(flat(out)[0]) if isinstance(t, torch.Tensor) and t.requires_grad]
