"""The placeholder of a tensor whose bytes are elsewhere: whoever reads it gets them, and what writes to it writes there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from .engine import Engine, Place


class Away(Tensor):
    """A tensor without bytes in memory."""

    engine: Engine
    place: Place
    offset: int

    @staticmethod
    def __new__(cls, like: Tensor, dtype: torch.dtype, engine: Engine, place: Place, offset: int) -> Away:
        """Stands for a tensor of another's shape whose bytes, in the order of memory, are in a place from an offset on."""
        made: Away = Tensor._make_wrapper_subclass(cls, like.shape, strides=like.stride(), dtype=dtype, device=like.device)  # type: ignore[attr-defined]
        made.engine, made.place, made.offset = engine, place, offset
        return made

    def load(self, device: torch.device | None = None) -> Tensor:
        """A tensor with the bytes, on its device or another."""
        nbytes = self.numel() * self.element_size()
        found = self.engine.look(self.place, self.offset, nbytes).view(self.dtype)
        return found.to(device or self.device).as_strided(self.shape, self.stride())

    def store(self, values: Tensor) -> None:
        """Writes other values."""
        near = self.engine.near(self.numel() * self.element_size())
        near.view(self.dtype).as_strided(self.shape, self.stride()).copy_(values)
        self.engine.wait(self.engine.leave(near, self.place, self.offset))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Away({list(self.shape)}, {self.dtype})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        memo[id(self)] = made = self.load().clone()
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.load().__reduce_ex__(protocol)

    def __tensor_flatten__(self) -> Any:
        raise RuntimeError("memopt: a state that is elsewhere cannot be compiled: leave states out")

    def tolist(self) -> Any:
        return self.load().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        return self.load().numpy(force=force)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        loaded: list[tuple[Away, Tensor]] = []

        def load(t: Away) -> Tensor:
            for other, values in loaded:
                if other is t:
                    return values
            loaded.append((t, t.load()))
            return loaded[-1][1]

        out = func(*tree_map_only(Away, load, args), **tree_map_only(Away, load, kwargs or {}))
        if func._schema.is_mutable:
            written = [a for s, a in zip(func._schema.arguments, args, strict=False) if s.alias_info is not None and s.alias_info.is_write]
            written += [kwargs[s.name] for s in func._schema.arguments if kwargs and s.name in kwargs and s.alias_info is not None and s.alias_info.is_write]
            for target in written:
                for t in target if isinstance(target, (list, tuple)) else (target,):
                    for mine, values in loaded:
                        if mine is t:
                            mine.store(values)
                            out = t if out is values else out
        return out


def is_dense(t: Tensor) -> bool:
    """Whether a tensor has each byte of its memory once, in some order of its dimensions."""
    expected = 1
    for size, stride in sorted(((n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n != 1), key=lambda d: d[1]):
        if stride != expected:
            return False
        expected *= size
    return True


def in_memory_order(t: Tensor) -> Tensor:
    """A dense tensor's numbers in the order of memory, in one dimension."""
    return torch.as_strided(t, (t.numel(),), (1,))
