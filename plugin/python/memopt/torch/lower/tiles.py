"""Feed-forward layers in tiles of rows for unchanged models, recognized by what they compute.

While a step runs, the linear layers that a feed-forward layer begins with return Rows: tensors without bytes that know how they are
computed from what the layers read. Activations, products and sums of Rows are Rows, too. The linear layer that reads them makes the
result in tiles (feed_forward.py). Whatever else looks at Rows gets them computed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..step.sample import Loss
from ..step.tensors import Unmade
from .feed_forward import LINEAR, RULES, TILES, FeedForward, Step, tile_rows
from .lazy import CASTS, Unsuitable, called, computed, flat, shape_after, tried


class Rows(Unmade):
    """A value with one row for each row of x, not computed yet."""

    x: Tensor
    version: int  # of x
    steps: tuple[Step, ...]
    weights: tuple[Tensor, ...]
    entries: tuple[Entry, ...]
    whole: Tensor | None

    @staticmethod
    def __new__(cls, x: Tensor, steps: tuple[Step, ...], weights: tuple[Tensor, ...], entries: tuple[Entry, ...], shape: Sequence[int], dtype: torch.dtype) -> Rows:
        grad = torch.is_grad_enabled() and (x.requires_grad or any(w.requires_grad for w in weights))
        made: Rows = Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype, device=x.device, requires_grad=grad)  # type: ignore[attr-defined]
        made.x, made.version, made.steps, made.weights, made.entries, made.whole = x, x._version, steps, weights, entries, None
        return made

    def make(self) -> Tensor:
        """Computes the value as a whole, by the functions that the model called."""
        if self.whole is None:
            if self.x._version != self.version:
                raise RuntimeError(f"memopt: what {self.entries[0].name} reads was modified by an inplace operation before its result was used; sequence_tiles=1 computes it at once")
            for entry in self.entries:
                entry.made = True
            at: list[Tensor] = [self.x]
            for step in self.steps:
                at.append(_CALLS[step[0]](at, self.weights, step))
            self.whole = at[-1].reshape(self.shape)
        return self.whole

    def sources(self) -> list[Tensor]:
        return [self.x if self.whole is None else self.whole]

    def then(self, step: Step) -> Rows:
        return self._like((*self.steps, step), self.weights, self.entries, self.shape)

    def shaped(self, shape: Sequence[int]) -> Rows:
        """A view that leaves rows as they are."""
        return self._like(self.steps, self.weights, self.entries, shape)

    def _like(self, steps: tuple[Step, ...], weights: tuple[Tensor, ...], entries: tuple[Entry, ...], shape: Sequence[int]) -> Rows:
        made = Rows(self.x, steps, weights, entries, shape, self.dtype)
        made.version = self.version
        return made

    def beside(self, other: Rows, rule: str) -> Rows | None:
        """A function of two values of the same rows."""
        if other.x is not self.x or other.version != self.version or other.shape != self.shape or other.dtype != self.dtype:
            return None
        steps, weights = list(self.steps), list(self.weights)
        places = [next((i for i, w in enumerate(weights) if w is v), None) for v in other.weights]
        for i, v in enumerate(other.weights):
            if places[i] is None:
                places[i] = len(weights)
                weights.append(v)
        at = [0]  # the values of other among those of both
        for step in other.steps:
            step = _moved(step, at, places)
            if step not in steps:
                steps.append(step)
            at.append(steps.index(step) + 1)
        entries = (*self.entries, *(e for e in other.entries if e not in self.entries))
        return self._like((*steps, (rule, len(self.steps), at[-1])), tuple(weights), entries, self.shape)

    def ends(self, weight: Tensor, bias: Tensor | None, turned: bool) -> Tensor | None:
        """The result of the linear layer that reads it; None if it is to be computed as a whole."""
        if self.whole is not None or self.x._version != self.version or weight.ndim != 2 or weight.shape[0 if turned else 1] != self.shape[-1] or type(weight) is Rows:
            return None
        if torch.is_autocast_enabled(self.device.type) and any(step[0] == "pow" for step in self.steps):
            return None  # which autocast computes in single precision
        out = weight.shape[1 if turned else 0]
        weights = [*self.weights, weight, *([bias] if bias is not None else [])]
        steps = [*self.steps, (LINEAR, len(self.steps), len(self.weights), len(self.weights) + 1 if bias is not None else -1, turned)]
        dtype = self.dtype
        x, weights = self.x.to(dtype), [w.to(dtype) for w in weights]
        x = x.reshape(-1, x.shape[-1])
        if not all(w.dtype == x.dtype for w in weights):
            return None
        for entry in self.entries:
            entry.used, entry.layer = True, tuple(e.name for e in self.entries)
        y: Tensor = FeedForward.apply(x, json.dumps(steps), tile_rows(x.shape[0], self.entries[0].tiles), *weights)
        return y.reshape(*self.shape[:-1], out)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Rows({list(self.shape)}, dtype={self.dtype}, of {', '.join(e.name for e in self.entries)})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name, plain = called(func)
        if plain:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        found = _still(func, name, args, kwargs)
        if found is not None:
            return found
        return func(*computed(args, Rows), **computed(kwargs, Rows))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*computed(args, Rows), **computed(kwargs, Rows))


def _moved(step: Step, at: Sequence[int], places: Sequence[int | None]) -> Step:
    if step[0] == LINEAR:
        _, v, w, b, turned = step
        return (LINEAR, at[v], places[w], places[b] if b >= 0 else -1, turned)
    return (step[0], *(at[v] if i < RULES[step[0]].reads else v for i, v in enumerate(step[1:])))


# The functions that models call, of the values so far.
_CALLS: dict[str, Callable[[list[Tensor], Sequence[Tensor], Step], Tensor]] = {
    LINEAR: lambda at, weights, step: _whole_linear(at[step[1]], weights[step[2]], weights[step[3]] if step[3] >= 0 else None, step[4]),
    "gelu": lambda at, _, step: F.gelu(at[step[1]], approximate=step[2]),
    "silu": lambda at, _, step: F.silu(at[step[1]]),
    "relu": lambda at, _, step: F.relu(at[step[1]]),
    "tanh": lambda at, _, step: torch.tanh(at[step[1]]),
    "sigmoid": lambda at, _, step: torch.sigmoid(at[step[1]]),
    "mul": lambda at, _, step: at[step[1]] * at[step[2]],
    "add": lambda at, _, step: at[step[1]] + at[step[2]],
    "times": lambda at, _, step: at[step[1]] * step[2],
    "plus": lambda at, _, step: at[step[1]] + step[2],
    "pow": lambda at, _, step: at[step[1]].pow(step[2]),
}


def _whole_linear(x: Tensor, w: Tensor, b: Tensor | None, turned: bool) -> Tensor:
    if not turned:
        return F.linear(x, w, b)
    y = torch.addmm(b, x.reshape(-1, x.shape[-1]), w) if b is not None else x.reshape(-1, x.shape[-1]) @ w
    return y.reshape(*x.shape[:-1], w.shape[1])


def _still(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """What a function of Rows makes without computing them; None if it needs them."""
    if name == "addmm" and len(args) == 3 and not kwargs and isinstance(args[1], Rows) and args[1].ndim == 2:
        return args[1].ends(args[2], args[0], True)
    given = [*args, *kwargs.values()]
    x = args[0] if args else kwargs.get("input")
    if name == "linear" and isinstance(x, Rows) and 1 < len(given) <= 3 and not set(kwargs) - {"input", "weight", "bias"}:
        named = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        return x.ends(named["weight"], named.get("bias"), False)
    if name in ("mul", "__mul__", "__rmul__", "multiply", "add", "__add__", "__radd__") and len(args) == 2 and not kwargs:
        rule = "mul" if "mul" in name else "add"
        one, other = args
        if isinstance(one, Rows) and isinstance(other, Rows):
            return None if one.whole is not None or other.whole is not None else one.beside(other, rule)
        rows, number = (one, other) if isinstance(one, Rows) else (other, one)
        if rows.whole is None and isinstance(number, (int, float)) and not isinstance(number, bool):
            return rows.then(("times" if rule == "mul" else "plus", len(rows.steps), float(number)))
        return None
    if not isinstance(x, Rows) or x.whole is not None:
        return None
    rest, last = args[1:], len(x.steps)
    if name == "gelu" and not rest:
        return x.then(("gelu", last, kwargs.get("approximate", "none")))
    if name in ("silu", "relu", "tanh", "sigmoid") and not rest and not kwargs.get("inplace"):
        return x.then((name, last))
    if name in ("pow", "__pow__") and len(rest) == 1 and isinstance(rest[0], (int, float)) and not kwargs:
        return x.then(("pow", last, float(rest[0])))
    if name == "dropout":
        named = dict(zip(("p", "training", "inplace"), rest, strict=False)) | kwargs
        return x if named.get("p", 0.5) == 0 or not named.get("training", True) else None
    if name in ("contiguous", "clone") and not rest:
        return x
    if name in ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"):
        shape = shape_after(x.shape, name, rest, kwargs)
        return x.shaped(shape) if shape and shape[-1] == x.shape[-1] else None
    dtype = CASTS.get(name) if not rest else rest[0] if name in ("to", "type") and len(rest) == 1 and isinstance(rest[0], torch.dtype) else None
    return x if dtype is not None and dtype == x.dtype and not kwargs else None


class Entry:
    """A linear layer while a step runs."""

    def __init__(self, module: nn.Module, name: str, tiles: int) -> None:
        self.module, self.name, self.tiles = module, name, tiles
        self.layer: tuple[str, ...] = ()  # the names of those that a feed-forward layer begins with
        self.turned = not isinstance(module, nn.Linear)
        self.used = False  # by a linear layer
        self.made = False  # as a whole, for something else

    def __call__(self, x: Any) -> Any:
        m: Any = self.module
        if isinstance(x, Rows):
            found = x.ends(m.weight, m.bias, self.turned)
            if found is not None:
                return found
            x = x.make()
        w = m.weight
        out, features = (w.shape[1], w.shape[0]) if self.turned else w.shape
        if not isinstance(x, Tensor) or isinstance(x, Unmade) or type(w) not in (Tensor, nn.Parameter) or out <= features or x.shape[-1] != features or x.numel() == 0:
            return _whole_linear(x, w, m.bias, self.turned)
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        weights = (w,) if m.bias is None else (w, m.bias)
        return Rows(x, ((LINEAR, 0, 0, 1 if m.bias is not None else -1, self.turned),), weights, (self,), (*x.shape[:-1], out), dtype)


def is_linear(m: nn.Module) -> bool:
    """Whether a module is a linear layer and nothing else: a torch.nn.Linear, or transformers' Conv1D, whose weight is (in, out)."""
    if "forward" in m.__dict__:
        return False
    kind = type(m)
    return kind.forward is nn.Linear.forward or kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def tiles_of(asked: Asked) -> Tiles | None:
    """The argument sequence_tiles; one tile is none."""
    return None if asked is None or asked == 1 else Tiles(asked)


Asked = int | str | Sequence[int] | None


class Tiles:
    """Runs the forward pass of a model with its feed-forward layers in tiles."""

    def __init__(self, asked: int | str | Sequence[int]) -> None:
        self.counts: tuple[int, ...] = (TILES,) if isinstance(asked, str) else (asked,) if isinstance(asked, int) else tuple(asked)  # of one layer after another, the last for all further ones
        self.open = asked == "auto"  # a sample may show which numbers cost least
        self.names: tuple[str, ...] | None = None  # of the layers that begin one, once they are known
        self.layers: list[tuple[str, ...]] = []  # by feed-forward layers
        self.times = self.slower = 1.0  # what the step with whole layers takes of memory, and this one of time, as a multiple of the other
        self.chosen = ""  # what was chosen without having been asked for

    def count(self, layer: int) -> int:
        """The tiles of a layer."""
        return self.counts[min(layer, len(self.counts) - 1)]

    def said(self) -> str:
        """Which layers are in how many tiles."""
        n = len(self.layers)
        runs: list[list[int]] = []
        for i in range(n):
            if runs and self.count(runs[-1][0]) == self.count(i):
                runs[-1].append(i)
            else:
                runs.append([i])
        parts = []
        for run in runs:
            which = f"all {n}" if len(run) == n else f"the first {len(run)}" if run[0] == 0 else f"the last {len(run)}" if run[-1] == n - 1 else f"{run[0] + 1} to {run[-1] + 1}"
            k = self.count(run[0])
            parts.append(f"{which} of {n} are whole" if k == 1 else f"{which} of {n} are computed in {k} tiles of rows")
        return f"of the feed-forward layers {' and '.join(parts)}".replace(f"all {n} of {n}", "all")

    def around(self, model: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Runs the forward pass with its feed-forward layers in tiles; the first call finds them."""

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled() or not model.training:
                return forward(*args, **kwargs)
            if self.names is None:
                self.find(model, functools.partial(forward, *args, **kwargs), None)
            entries = []
            try:
                for layer, name in ((i, name) for i, names in enumerate(self.layers) for name in names):
                    m = model.get_submodule(name)
                    if "forward" not in m.__dict__ and self.count(layer) > 1:
                        entries.append(Entry(m, name, self.count(layer)))
                        m.forward = entries[-1]  # type: ignore[method-assign, assignment]
                return forward(*args, **kwargs)
            finally:
                for entry in entries:
                    del entry.module.__dict__["forward"]

        return call

    def find(self, model: nn.Module, forward: Callable[[], Any], loss: Loss | None) -> None:
        """Finds the layers that feed-forward layers begin with, in a pass without gradients."""
        entries, out = tried(model, forward, loss, is_linear, lambda m, name: Entry(m, name, TILES))
        for t in flat(out):
            if isinstance(t, Rows):
                for entry in t.entries:
                    entry.made = True
        self.names = tuple(e.name for e in entries if e.used and not e.made)
        self.layers = list(dict.fromkeys(e.layer for e in entries if e.used and not e.made))
        if not self.names:
            raise Unsuitable(
                "sequence_tiles: no linear layer of the model makes a wider result whose rows go through activations alone into another linear layer; leave sequence_tiles out"
            )
