"""Chunked losses for unchanged models: the scores of the last linear layer are computed only by the loss.

In the forward pass that layer returns a Scores: a tensor without bytes, with shape and type, that holds the layer's operands.
Views of it are Scores, too. Its cross entropy is computed in chunks of rows (cross_entropy.py), inside or outside the model.
Other operations on scores before the loss raise; accessing them after the step computes the real ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..step.sample import Loss
from .cross_entropy import chunk_rows, chunked_cross_entropy
from .lazy import CASTS, Lazy, Unsuitable, flat, shape_after, tried


class Scores(Lazy):
    """linear(hidden, weight, bias), not computed yet."""

    hidden: Tensor
    layer: Layer
    version: int  # of hidden
    moved: bool  # classes are the second dimension
    whole: Tensor | None

    @staticmethod
    def __new__(cls, hidden: Tensor, layer: Layer, dtype: torch.dtype, moved: bool = False) -> Scores:
        weight = layer.module.weight
        shape = [*hidden.shape[:-1], weight.shape[0]]
        if moved:
            shape.insert(1, shape.pop())
        grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
        made: Scores = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=hidden.device, requires_grad=grad)  # type: ignore[attr-defined]
        made.hidden, made.layer, made.version, made.moved, made.whole = hidden, layer, hidden._version, moved, None
        return made

    def make(self) -> Tensor:
        """Computes the scores."""
        if self.whole is None:
            self._check()
            m = self.layer.module
            made = F.linear(self.hidden, m.weight, m.bias).to(self.dtype)
            self.whole = made.movedim(-1, 1) if self.moved else made
        return self.whole

    def sources(self) -> list[Tensor]:
        return [self.hidden if self.whole is None else self.whole]

    def _check(self) -> None:
        if self.hidden._version != self.version:
            raise RuntimeError(f"memopt: what {self.layer.name} reads was modified by an inplace operation before the loss; loss_chunks does not fit this model")

    def loss(self, target: Tensor, weight: Tensor | None, size_average: Any, ignore_index: int, reduce: Any, reduction: str, label_smoothing: float) -> Tensor:
        """Cross entropy in chunks."""
        self._check()
        if size_average is not None or reduce is not None:
            reduction = F._Reduction.legacy_get_string(size_average, reduce)
        m = self.layer.module
        hidden = self.hidden
        n = hidden.numel() // max(1, hidden.shape[-1])
        self.layer.used = True
        found = chunked_cross_entropy(
            hidden, m.weight, target, m.bias, rows=chunk_rows(n, m.weight, self.layer.chunks), class_weight=weight,
            ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing,
        )  # fmt: skip
        return found.to(self.dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Scores({list(self.shape)}, dtype={self.dtype}, of {self.layer.name})"

    @classmethod
    def after(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if isinstance(x, Scores):
            if func is F.cross_entropy:
                given = _cross_entropy(*args, **kwargs)
                if given is not None:
                    return given
            found = x._still(name, args[1:], kwargs)
            if found is not None:
                return found
        every = [a for a in flat((args, kwargs)) if isinstance(a, Scores)]
        for scores in every:
            layer = scores.layer
            if layer.strict:
                raise ValueError(
                    f"loss_chunks: the scores of {layer.name} are read by {name or func} before the loss; only torch.nn.functional.cross_entropy "
                    f"of the scores themselves, or of views of them, can be made in chunks; {_INSTEAD}"
                )
        return None

    def _still(self, name: str, args: Any, kwargs: Any) -> Scores | None:
        """Scores again, if this is a view of them or another type."""
        if self.whole is not None:
            return None
        dtype = CASTS.get(name)
        if name in ("to", "type"):
            rest = [*args, *kwargs.values()]
            types = [a for a in rest if isinstance(a, torch.dtype)]
            devices = [a for a in rest if isinstance(a, (str, torch.device))]
            if len(types) + len(devices) != len(rest) or any(torch.device(d).type != self.device.type for d in devices):
                return None
            dtype = types[0] if types else self.dtype
        if dtype is not None:
            return Scores(self.hidden, self.layer, dtype, self.moved) if not args or name in ("to", "type") else None
        if self.moved:
            return None
        if name == "contiguous":
            return self
        if name in ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"):
            shape = shape_after(self.shape, name, args, kwargs)
            if shape and shape[-1] == self.shape[-1]:
                return Scores(self.hidden.reshape(*shape[:-1], self.hidden.shape[-1]), self.layer, self.dtype)
        elif name == "__getitem__":
            index = args[0] if isinstance(args[0], tuple) else (args[0],)
            if any(i is Ellipsis for i in index):
                last = index[-1] is Ellipsis or isinstance(index[-1], slice) and index[-1] == slice(None)
            else:
                used = sum(i.ndim if isinstance(i, Tensor) and i.dtype == torch.bool else i is not None for i in index)
                last = used < self.ndim or isinstance(index[-1], slice) and index[-1] == slice(None)
            if last and not any(isinstance(i, Scores) for i in index):
                return Scores(self.hidden[args[0]], self.layer, self.dtype)
        elif name in ("transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis"):
            if shape_after(range(self.ndim), name, args, kwargs) == [0, self.ndim - 1, *range(1, self.ndim - 1)]:
                return Scores(self.hidden, self.layer, self.dtype, moved=self.ndim > 2)
        return None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = next(a.layer.name for a in flat((args, kwargs)) if isinstance(a, Scores))
        raise ValueError(f"loss_chunks: {func} asks for the scores of {name} below autograd, as hooks and wrappers of modules do; loss_chunks=1 leaves the loss whole")


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0
) -> Tensor | None:
    """Parses a call of torch.nn.functional.cross_entropy; None if the scores themselves are needed."""
    if not isinstance(target, Tensor) or target.is_floating_point() or isinstance(target, Scores):
        return None
    if not input.moved and input.ndim > 2 or input.whole is not None:
        return None  # classes are not the last dimension
    return input.loss(target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)  # type: ignore[no-any-return]


_NOT_FOUND = "the loss is not torch.nn.functional.cross_entropy of the scores of {}"
_INSTEAD = "leave loss_chunks out, or call memopt.chunked_cross_entropy in the model"


class Layer:
    """The last linear layer of a model while a step runs."""

    def __init__(self, module: nn.Linear, name: str, chunks: int | None, strict: bool) -> None:
        self.module, self.name, self.chunks, self.strict = module, name, chunks, strict
        self.used = False  # by a loss

    def __call__(self, x: Tensor) -> Tensor:
        if isinstance(x, Scores) and not x.layer.strict:
            x = x.make()
        if not isinstance(x, Tensor) or isinstance(x, Scores) or x.shape[-1] != self.module.in_features:
            return F.linear(x, self.module.weight, self.module.bias)
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        return Scores(x, self, dtype)


def chunks_of(asked: int | str | None) -> Chunks | None:
    """The argument loss_chunks; one chunk is none."""
    return None if asked is None or asked == 1 else Chunks(asked)


class Chunks:
    """Runs the forward pass of a model with its loss in chunks."""

    def __init__(self, chunks: int | str, asked: bool = True) -> None:
        """asked: scores that something else reads first are an error; otherwise they are then computed as a whole."""
        if chunks != "auto" and (not isinstance(chunks, int) or isinstance(chunks, bool) or chunks < 1):
            raise ValueError(f"loss_chunks is {chunks!r}; give 'auto' or how many chunks the rows of the loss are split into")
        self.chunks = chunks if isinstance(chunks, int) else None
        self.name: str | None = None  # of the layer, once it is known
        self.last: Layer | None = None
        self.asked = asked
        self.off = False

    def around(self, model: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Runs the forward pass with its loss in chunks; the first call finds the layer."""

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.off or not torch.is_grad_enabled() or not model.training:
                return forward(*args, **kwargs)
            if self.name is None:
                self.find(model, functools.partial(forward, *args, **kwargs), None)
            assert self.name is not None
            head = model.get_submodule(self.name)
            assert isinstance(head, nn.Linear)
            layer = self.last = Layer(head, self.name, self.chunks, strict=self.asked)
            if "forward" in head.__dict__:
                raise ValueError(f"loss_chunks: the forward pass of {self.name} was replaced by other code, which loss_chunks would switch off")
            head.forward = layer  # type: ignore[method-assign]
            try:
                return forward(*args, **kwargs)
            finally:
                layer.strict = False  # who looks at the scores now gets them
                del head.__dict__["forward"]

        return call

    @property
    def used(self) -> bool:
        """Whether the last step had its loss in chunks."""
        return self.last is None or self.last.used

    def check(self) -> None:
        """Raises if the last step had its loss in one piece."""
        if self.last is not None and not self.used:
            raise Unsuitable(f"loss_chunks: {_NOT_FOUND.format(self.last.name)}; {_INSTEAD}")

    def find(self, model: nn.Module, forward: Callable[[], Any], loss: Loss | None) -> None:
        """Finds the linear layer whose scores the loss reads, in a pass without gradients."""
        found: str | None = None
        layers, out = tried(
            model, forward, loss, lambda m: type(m).forward is nn.Linear.forward and "forward" not in m.__dict__, lambda m, name: Layer(m, name, self.chunks, strict=False)
        )
        used = [layer.name for layer in layers if layer.used]
        if len(used) == 1:
            found = used[0]
        elif not used:
            found = next((t.layer.name for t in flat(out) if isinstance(t, Scores)), None)
        if found is None:
            what = "the loss is that of several layers, " + ", ".join(used) if used else _NOT_FOUND.format("a torch.nn.Linear")
            raise Unsuitable(f"loss_chunks: {what}; {_INSTEAD}")
        self.name = found
