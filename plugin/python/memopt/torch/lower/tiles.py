"""Feed-forward layers in tiles of rows for unchanged models, recognized by what they compute.

While a step runs, the linear layers that a feed-forward layer begins with, and the norm in front of them, return Rows: tensors without
bytes that know how they are computed from what the layers read. Activations, products, sums and means of Rows are Rows, too. The linear
layer that reads them makes the result in tiles (feed_forward.py). Whatever else looks at Rows gets them computed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..step.sample import Loss
from ..step.tensors import Unmade
from .feed_forward import LINEAR, RULES, TILES, FeedForward, Step, tile_rows
from .lazy import CASTS, Lazy, Unsuitable, flat, shape_after, tried
from .probabilities import Probabilities, Site, Watching


class Rows(Lazy):
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
            at = {0: self.x}
            for i, step in enumerate(self.steps):
                at[i + 1] = RULES[step[0]].apply(at, self.weights, step)
            self.whole = at[len(self.steps)].reshape(self.shape)
        return self.whole

    def sources(self) -> list[Tensor]:
        return [self.x if self.whole is None else self.whole]

    def then(self, rule: str, *parameters: Any, weights: Sequence[Tensor | None] = (), width: int | None = None, dtype: torch.dtype | None = None, entry: Entry | None = None) -> Rows:
        """A function of it and of weights."""
        places = itertools.count(len(self.weights))
        step = (rule, len(self.steps), *(-1 if w is None else next(places) for w in weights), *parameters)
        shape = self.shape if width is None else (*self.shape[:-1], width)
        entries = self.entries if entry is None else (*self.entries, entry)
        return self._like((*self.steps, step), (*self.weights, *(w for w in weights if w is not None)), entries, shape, dtype)

    def shaped(self, shape: Sequence[int]) -> Rows:
        """A view that leaves rows as they are."""
        return self._like(self.steps, self.weights, self.entries, shape)

    def _like(self, steps: tuple[Step, ...], weights: tuple[Tensor, ...], entries: tuple[Entry, ...], shape: Sequence[int], dtype: torch.dtype | None = None) -> Rows:
        made = Rows(self.x, steps, weights, entries, shape, dtype or self.dtype)
        made.version = self.version
        return made

    def beside(self, other: Rows, rule: str) -> Rows | None:
        """A function of two values of the same rows."""
        width, narrow = max(self.shape[-1], other.shape[-1]), min(self.shape[-1], other.shape[-1])
        if other.x is not self.x or other.version != self.version or other.shape[:-1] != self.shape[:-1] or other.dtype != self.dtype or narrow not in (1, width):
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
        return self._like((*steps, (rule, len(self.steps), at[-1])), tuple(weights), entries, (*self.shape[:-1], width))

    def ends(self, weight: Tensor, bias: Tensor | None, turned: bool) -> Tensor | None:
        """The result of the linear layer that reads it; None if it is to be computed as a whole."""
        if not any(step[0] == LINEAR for step in self.steps):
            return None  # a norm alone
        made = self.widened(weight, bias, turned)
        if made is None:
            return None
        x, weights = self.x, made.weights
        if _autocast(self):
            if any(step[0] == "pow" for step in self.steps):
                return None  # which autocast computes in single precision
            x, weights = x.to(self.dtype), tuple(w.to(self.dtype) for w in weights)
        elif self.dtype != x.dtype:
            return None
        for entry in self.entries:
            entry.used, entry.layer = True, tuple(e.name for e in self.entries)
        x = x.reshape(-1, x.shape[-1])
        y: Tensor = FeedForward.apply(x, json.dumps(made.steps), tile_rows(x.shape[0], self.entries[0].tiles), *weights)
        return y.reshape(made.shape)

    def widened(self, weight: Tensor, bias: Tensor | None, turned: bool, entry: Entry | None = None) -> Rows | None:
        """The linear layer of it, as Rows; None if it is to be computed as a whole."""
        if self.whole is not None or self.x._version != self.version or weight.ndim != 2 or weight.shape[0 if turned else 1] != self.shape[-1] or type(weight) is Rows:
            return None
        if not _autocast(self) and any(w.dtype != self.dtype for w in (weight, bias) if w is not None):
            return None
        return self.then(LINEAR, turned, weights=(weight, bias), width=weight.shape[1 if turned else 0], entry=entry)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Rows({list(self.shape)}, dtype={self.dtype}, of {', '.join(e.name for e in self.entries)})"

    @classmethod
    def after(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        return _still(name, args, kwargs)


def _moved(step: Step, at: Sequence[int], places: Sequence[int | None]) -> Step:
    rule = RULES[step[0]]
    return (step[0], *(at[v] for v in rule.values(step)), *(places[w] if w >= 0 else -1 for w in rule.operands(step)), *step[1 + rule.reads + rule.weights :])


def _autocast(x: Tensor) -> bool:
    return torch.is_autocast_enabled(x.device.type)


# Functions of two values by the names that models call them by.
_OF_TWO = {
    "mul": "mul", "__mul__": "mul", "__rmul__": "mul", "multiply": "mul", "add": "add", "__add__": "add", "__radd__": "add",
    "sub": "sub", "__sub__": "sub", "subtract": "sub", "div": "div", "__truediv__": "div", "divide": "div", "true_divide": "div",
}  # fmt: skip
_BY_NUMBER = {"mul": "times", "add": "plus"}
_BY_WEIGHT = {"mul": "scale", "add": "shift"}  # of one number for each column


def _still(name: str, args: Any, kwargs: Any) -> Any:
    """What a function of Rows makes without computing them; None if it needs them."""
    if name == "addmm" and len(args) == 3 and not kwargs and isinstance(args[1], Rows) and args[1].ndim == 2:
        return args[1].ends(args[2], args[0], True)
    given = [*args, *kwargs.values()]
    x = args[0] if args else kwargs.get("input")
    if name == "linear" and isinstance(x, Rows) and 1 < len(given) <= 3 and not set(kwargs) - {"input", "weight", "bias"}:
        named = dict(zip(("input", "weight", "bias"), args, strict=False)) | kwargs
        return x.ends(named["weight"], named.get("bias"), False)
    if name in _OF_TWO and len(args) == 2 and not kwargs:
        return _of_two(_OF_TWO[name], *args)
    if not isinstance(x, Rows) or x.whole is not None:
        return None
    rest, width = args[1:], x.shape[-1]
    if name == "gelu" and not rest:
        return x.then("gelu", kwargs.get("approximate", "none"))
    if name in ("silu", "relu", "tanh", "sigmoid") and not rest and not kwargs.get("inplace"):
        return x.then(name)
    if name in ("pow", "__pow__") and len(rest) == 1 and isinstance(rest[0], (int, float)) and not kwargs:
        return x.then("pow", float(rest[0]))
    if name == "dropout":
        named = dict(zip(("p", "training", "inplace"), rest, strict=False)) | kwargs
        return x if named.get("p", 0.5) == 0 or not named.get("training", True) else None
    if name in ("contiguous", "clone") and not rest:
        return x
    if name in ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"):
        shape = shape_after(x.shape, name, rest, kwargs)
        return x.shaped(shape) if shape and shape[-1] == width else None
    if name in ("layer_norm", "rms_norm"):
        named = dict(zip(("normalized_shape", "weight", "bias", "eps") if name == "layer_norm" else ("normalized_shape", "weight", "eps"), rest, strict=False)) | kwargs
        weights = [named.get(w) for w in ("weight", "bias")[: RULES[name].weights]]
        if _autocast(x) or list(named["normalized_shape"]) != [width] or not all(w is None or _of_columns(w, x) for w in weights):
            return None
        return x.then(name, named.get("eps", 1e-5 if name == "layer_norm" else None), weights=weights)
    dtype = rest[0].dtype if name == "type_as" and len(rest) == 1 else CASTS.get(name) if not rest else rest[0] if name in ("to", "type") and len(rest) == 1 else None
    if isinstance(dtype, torch.dtype) and not kwargs:
        return x if dtype == x.dtype else x.then("cast", str(dtype).removeprefix("torch."), dtype=dtype) if dtype.is_floating_point and not _autocast(x) else None
    if _autocast(x):
        return None
    if name == "square" and not rest:
        return x.then("pow", 2.0)
    if name in ("sqrt", "rsqrt") and not rest:
        return x.then(name)
    if name == "mean":
        named = dict(zip(("dim", "keepdim"), rest, strict=False)) | kwargs
        last = named.pop("dim", None) in (-1, x.ndim - 1, [-1], (-1,), [x.ndim - 1], (x.ndim - 1,))
        return x.then("mean", width=1) if last and named.pop("keepdim", False) is True and not named else None
    return None


def _of_two(rule: str, one: Any, other: Any) -> Rows | None:
    if isinstance(one, Rows) and isinstance(other, Rows):
        return None if one.whole is not None or other.whole is not None or rule not in _BY_NUMBER and _autocast(one) else one.beside(other, rule)
    rows, by = (one, other) if isinstance(one, Rows) else (other, one)
    if rows.whole is not None or rule not in _BY_NUMBER:
        return None
    if isinstance(by, (int, float)) and not isinstance(by, bool):
        return rows.then(_BY_NUMBER[rule], float(by))
    return rows.then(_BY_WEIGHT[rule], weights=(by,)) if isinstance(by, Tensor) and not _autocast(rows) and _of_columns(by, rows) else None


def _of_columns(w: Any, x: Rows) -> bool:
    """Whether w has one number for each column of x."""
    return not isinstance(w, Unmade) and isinstance(w, Tensor) and tuple(w.shape) == (x.shape[-1],) and w.dtype == x.dtype


class Entry:
    """A layer that a feed-forward layer begins with, while a step runs."""

    def __init__(self, module: nn.Module, name: str, tiles: int) -> None:
        self.module, self.name, self.tiles = module, name, tiles
        self.layer: tuple[str, ...] = ()  # the names of those that a feed-forward layer begins with
        self.used = False  # by a linear layer
        self.made = False  # as a whole, for something else

    def begin(self, x: Any, dtype: torch.dtype | None = None) -> Rows | None:
        """What the layer reads, as Rows; None if the layer is to be computed as a whole."""
        if not isinstance(x, Tensor) or isinstance(x, Unmade) or x.ndim < 2 or x.numel() == 0:
            return None
        return Rows(x, (), (), (self,), x.shape, dtype or x.dtype)


class Linear(Entry):
    def __call__(self, x: Any) -> Any:
        m: Any = self.module
        w, turned = m.weight, not isinstance(m, nn.Linear)
        out, features = (w.shape[1], w.shape[0]) if turned else w.shape
        wider = out > features and type(w) in (Tensor, nn.Parameter)
        found = None
        if isinstance(x, Rows):
            found = x.ends(w, m.bias, turned)
            if found is None and wider and not _autocast(x) and not any(step[0] == LINEAR for step in x.steps):
                found = x.widened(w, m.bias, turned, self)
            if found is None:
                x = x.make()
        elif wider and isinstance(x, Tensor):
            begun = self.begin(x, torch.get_autocast_dtype(x.device.type) if _autocast(x) else None)
            found = begun.widened(w, m.bias, turned) if begun is not None else None
        return RULES[LINEAR].make(x, w, m.bias, turned) if found is None else found


class Norm(Entry):
    """What a module with weights for columns alone makes of Rows, if that is Rows again."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        m: Any = self.module
        begun = self.begin(args[0]) if len(args) == 1 and not kwargs and isinstance(args[0], Tensor) and args[0].is_floating_point() and not _autocast(args[0]) else None
        y = type(m).forward(m, *((begun,) if begun is not None else args), **kwargs)
        return y.make() if isinstance(y, Rows) and (y.shape != args[0].shape or y.dtype != args[0].dtype or not y.steps) else y


def is_linear(m: nn.Module) -> bool:
    """Whether a module is a linear layer and nothing else: a torch.nn.Linear, or transformers' Conv1D, whose weight is (in, out)."""
    if "forward" in m.__dict__:
        return False
    kind = type(m)
    return kind.forward is nn.Linear.forward or kind.__name__ == "Conv1D" and kind.__module__ == "transformers.pytorch_utils"


def is_norm(m: nn.Module) -> bool:
    """Whether a module might be a norm: it has weights for columns alone, and no modules."""
    weights = list(m.parameters(recurse=False))
    return "forward" not in m.__dict__ and bool(weights) and all(w.ndim == 1 for w in weights) and not any(True for _ in m.children()) and not any(True for _ in m.buffers())


def entry_of(m: nn.Module, name: str, tiles: int) -> Linear | Norm:
    return (Linear if is_linear(m) else Norm)(m, name, tiles)


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
        self.attentions: Sequence[int] = ()  # by attention that writes its probabilities out: the product that it begins with, of those of a pass
        self.times = self.slower = 1.0  # what the step with whole layers takes of memory, and this one of time, as a multiple of the other
        self.chosen = ""  # what was chosen without having been asked for

    @property
    def depth(self) -> int:
        """The layers of the one kind or the other."""
        return max(len(self.layers), len(self.attentions))

    def count(self, layer: int) -> int:
        """The tiles of a layer."""
        return self.counts[min(layer, len(self.counts) - 1)]

    def said(self) -> str:
        """Which layers are in how many tiles."""
        n = self.depth
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
        of = [what for what, found in (("the feed-forward layers", self.layers), ("attention", self.attentions)) if found]
        return f"of {' and of '.join(of)} {' and '.join(parts)}".replace(f"all {n} of {n}", "all")

    def around(self, model: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Runs the forward pass with its feed-forward layers in tiles; the first call finds them."""

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch.is_grad_enabled() or not model.training:
                return forward(*args, **kwargs)
            if self.names is None:
                self.find(model, functools.partial(forward, *args, **kwargs), None)
            entries: list[Linear | Norm] = []
            try:
                for layer, name in ((i, name) for i, names in enumerate(self.layers) for name in names):
                    m = model.get_submodule(name)
                    if "forward" not in m.__dict__ and self.count(layer) > 1:
                        entries.append(entry_of(m, name, self.count(layer)))
                        m.forward = entries[-1]  # type: ignore[method-assign, assignment]
                sites = {product: Site(self.count(i)) for i, product in enumerate(self.attentions) if self.count(i) > 1}
                with Watching(sites) if sites else contextlib.nullcontext():
                    return forward(*args, **kwargs)
            finally:
                for entry in entries:
                    del entry.module.__dict__["forward"]

        return call

    def find(self, model: nn.Module, forward: Callable[[], Any], loss: Loss | None) -> None:
        """Finds the layers that feed-forward layers begin with, in a pass without gradients."""
        with Watching(None) as watching:
            entries, out = tried(model, forward, loss, lambda m: is_linear(m) or is_norm(m), lambda m, name: entry_of(m, name, TILES))
        for t in flat(out):
            if isinstance(t, Rows):
                for entry in t.entries:
                    entry.made = True
            elif isinstance(t, Probabilities):
                t.site.made = True
        self.attentions = watching.kept()
        stay = [e for e in entries if e.used and not e.made]
        names = {e.name for e in stay}
        self.layers = list(dict.fromkeys(tuple(name for name in e.layer if name in names) for e in stay if isinstance(e, Linear)))
        self.names = tuple(e.name for e in stay if any(e.name in layer for layer in self.layers))
        if not self.names and not self.attentions:
            raise Unsuitable(
                "sequence_tiles: no linear layer of the model makes a wider result whose rows go through activations alone into another linear layer, and no attention writes its "
                "probabilities out; leave sequence_tiles out"
            )
