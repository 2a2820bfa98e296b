"""Attention that a model writes out, recognized by what it computes.

While a step runs, the product of queries and keys returns Probabilities: a tensor without bytes that knows how it is computed. What
models do to scores — scaling, masks, a softmax, casts — leaves it one, and the product with values makes the result in tiles
(attention.py). Whatever else looks at it gets it computed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..step.tensors import Unmade
from .attention import RULES, Attention, Step, given
from .feed_forward import tile_rows
from .lazy import CASTS, Lazy

_PRODUCTS = ("matmul", "__matmul__", "bmm")


class Site:
    """A product of a step that attention may begin with."""

    def __init__(self, tiles: int) -> None:
        self.tiles = tiles
        self.used = False  # by a product with values
        self.made = False  # as a whole, for something else


class Probabilities(Lazy):
    """Scores of queries and keys, and what becomes of them, not computed yet."""

    q: Tensor
    k: Tensor
    masks: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    versions: tuple[int, ...]
    site: Site
    whole: Tensor | None

    @staticmethod
    def __new__(cls, q: Tensor, k: Tensor, masks: tuple[Tensor, ...], steps: tuple[Step, ...], site: Site, dtype: torch.dtype) -> Probabilities:
        grad = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, *masks))
        made: Probabilities = Tensor._make_wrapper_subclass(cls, (*q.shape[:-1], k.shape[-1]), dtype=dtype, device=q.device, requires_grad=grad)  # type: ignore[attr-defined]
        made.q, made.k, made.masks, made.steps, made.site, made.whole = q, k, masks, steps, site, None
        made.versions = (q._version, k._version, *(m._version for m in masks))
        return made

    @property
    def changed(self) -> bool:
        return self.versions != (self.q._version, self.k._version, *(m._version for m in self.masks))

    def make(self) -> Tensor:
        """Computes it as a whole."""
        if self.whole is None:
            if self.changed:
                raise RuntimeError("memopt: queries, keys or a mask of attention were modified by an inplace operation before their scores were used; sequence_tiles=1 computes scores at once")
            self.site.made = True
            x = self.q @ self.k
            for step in self.steps:
                x = RULES[step[0]].make(x, *given(step, self.masks, slice(None)))
            self.whole = x
        return self.whole

    def sources(self) -> list[Tensor]:
        return [self.q, self.k] if self.whole is None else [self.whole]

    def then(self, rule: str, *parameters: Any, mask: Tensor | None = None, dtype: torch.dtype | None = None) -> Probabilities:
        masks = self.masks if mask is None else (*self.masks, mask)
        step = (rule, *((len(self.masks),) if mask is not None else ()), *parameters)
        made = Probabilities(self.q, self.k, masks, (*self.steps, step), self.site, dtype or self.dtype)
        made.versions = (*self.versions, *((mask._version,) if mask is not None else ()))
        return made

    def ends(self, v: Tensor) -> Tensor | None:
        """The product with values; None if it is to be computed as a whole."""
        softmaxes = sum(step[0] == "softmax" for step in self.steps)
        if self.whole is not None or self.changed or softmaxes != 1 or isinstance(v, Unmade) or v.ndim != self.ndim or v.shape[:-1] != self.k.shape[:-2] + self.k.shape[-1:]:
            return None
        if not self.q.dtype == self.k.dtype == v.dtype == self.dtype:
            return None
        self.site.used = True
        y: Tensor = Attention.apply(self.q, self.k, v, json.dumps(self.steps), tile_rows(self.q.shape[-2], self.site.tiles), *self.masks)
        return y

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Probabilities({list(self.shape)}, dtype={self.dtype})"

    @classmethod
    def after(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        return _still(name, args, kwargs)


def _is_mask(mask: Any, x: Probabilities) -> bool:
    """Whether a tensor says something of the scores of each query."""
    if not isinstance(mask, Tensor) or isinstance(mask, Unmade) or mask.ndim > x.ndim:
        return False
    return all(m in (1, n) for m, n in zip(reversed(mask.shape), reversed(x.shape), strict=False))


def _still(name: str, args: Any, kwargs: Any) -> Any:
    """What a function of Probabilities makes without computing them; None if it needs them."""
    x = args[0] if args else kwargs.get("input")
    if not isinstance(x, Probabilities):
        one, other = args if len(args) == 2 else (None, None)
        return _still(name, (other, one), kwargs) if name in ("add", "__add__", "__radd__", "mul", "__mul__", "__rmul__") and isinstance(other, Probabilities) else None
    if x.whole is not None:
        return None
    rest = args[1:]
    number = float(rest[0]) if len(rest) == 1 and isinstance(rest[0], (int, float)) and not isinstance(rest[0], bool) else None
    if name in _PRODUCTS and len(rest) == 1 and not kwargs:
        return x.ends(rest[0]) if isinstance(rest[0], Tensor) else None
    softened = any(step[0] == "softmax" for step in x.steps)
    if name == "softmax":
        named = dict(zip(("dim", "_stacklevel", "dtype") if len(rest) > 2 else ("dim", "dtype"), rest, strict=False)) | kwargs
        dtype = named.get("dtype") or x.dtype
        return x.then("softmax", str(dtype).removeprefix("torch."), dtype=dtype) if not softened and named.get("dim") in (-1, x.ndim - 1) and isinstance(dtype, torch.dtype) else None
    if name == "dropout":
        named = dict(zip(("p", "training", "inplace"), rest, strict=False)) | kwargs
        return x if named.get("p", 0.5) == 0 or not named.get("training", True) else None
    if name in ("contiguous", "clone") and not rest:
        return x
    cast = rest[0].dtype if name == "type_as" and len(rest) == 1 else CASTS.get(name) if not rest else rest[0] if name in ("to", "type") and len(rest) == 1 else None
    if isinstance(cast, torch.dtype) and not kwargs:
        return x if cast == x.dtype else x.then("cast", str(cast).removeprefix("torch."), dtype=cast) if cast.is_floating_point else None
    if softened or kwargs:
        return None
    if name in ("mul", "__mul__", "__rmul__", "multiply") and number is not None:
        return x.then("times", number)
    if name in ("div", "__truediv__", "divide", "true_divide") and number is not None:
        return x.then("over", number)
    if name in ("add", "__add__", "__radd__") and len(rest) == 1 and _is_mask(rest[0], x) and rest[0].dtype == x.dtype:
        return x.then("add", mask=rest[0])
    if name == "masked_fill" and len(rest) == 2 and _is_mask(rest[0], x) and rest[0].dtype == torch.bool and isinstance(rest[1], (int, float)):
        return x.then("fill", float(rest[1]), mask=rest[0])
    return None


class Watching(TorchFunctionMode):
    """Begins attention at the products of a forward pass that it is told of, counted from the first; at all of them where it looks for some."""

    def __init__(self, sites: dict[int, Site] | None) -> None:
        super().__init__()
        self.sites = sites
        self.found: dict[int, Site] = {}  # by product
        self.product = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _PRODUCTS and len(args) == 2 and not kwargs and all(isinstance(t, Tensor) and not isinstance(t, Unmade) for t in args):
            q, k = args
            if 3 <= q.ndim == k.ndim and q.shape[:-2] == k.shape[:-2] and q.dtype == k.dtype and q.is_floating_point():
                self.product += 1
                site = self.site(self.product - 1, q)
                if site is not None:
                    return Probabilities(q, k, (), (), site, q.dtype)
        return func(*args, **kwargs)

    def site(self, product: int, q: Tensor) -> Site | None:
        if torch.is_autocast_enabled(q.device.type):
            return None
        if self.sites is not None:
            return self.sites.get(product)
        return self.found.setdefault(product, Site(2))

    def kept(self) -> Sequence[int]:
        """The products that attention began with, of which nothing else was read."""
        return [n for n, s in self.found.items() if s.used and not s.made]
