"""The same on the processor, for tests: operator calls, repeated on an arena in which storages lie as long as they did when they were captured.

Those that were freed meanwhile are written over by others: who reads what a plan has dropped, or what an earlier replay left, gets
other bytes, as on a device. They are placed by size, so what the arena takes tells how much is alive, and nothing of
how an allocator places it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..record import again
from ..step.tensors import View, pieces
from .capture import Uncapturable, waits

_ALIGNED = 64


class ArenaPool:
    """The arena of all tapes."""

    def __init__(self) -> None:
        self.storage = torch.UntypedStorage(0)
        self.placed = 0  # bytes of fixed places

    @property
    def reserved(self) -> int:
        return self.storage.nbytes() + self.placed

    def capture(self) -> Tape:
        return Tape(self)


class _Range:
    """A storage that a part has made, and while which calls it is there."""

    def __init__(self, nbytes: int, made: int) -> None:
        self.nbytes, self.made = nbytes, made
        self.gone: int | None = None
        self.offset = 0


class _Ref:
    """A tensor of a call: how it shows a storage of the arena, or one from outside."""

    def __init__(self, t: torch.Tensor, of: _Range | None) -> None:
        self.of, self.view = of, View(t)
        self.storage = t.untyped_storage() if of is None else None

    def tensor(self, arena: torch.UntypedStorage) -> torch.Tensor:
        if self.of is None:
            assert self.storage is not None
            return self.view.of(self.storage)
        view = self.view
        begin = view.offset
        view.offset = begin + self.of.offset // view.dtype.itemsize
        try:
            return view.of(arena)
        finally:
            view.offset = begin


class _Call:
    def __init__(self, func: Any, args: Any, kwargs: Any, grad: bool, makes: list[tuple[int, _Range]]) -> None:
        self.func, self.args, self.kwargs, self.grad, self.makes = func, args, kwargs, grad, makes


class Tape:
    def __init__(self, pool: ArenaPool) -> None:
        self.pool = pool
        self.parts: list[list[_Call]] = []
        self.ranges: list[_Range] = []
        self.here: dict[int, _Range] = {}  # storages that are there, by address of their object
        self.watched: list[weakref.ref[torch.UntypedStorage]] = []
        self.clock = 0

    def place(self, like: torch.Tensor) -> torch.Tensor:
        place = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype).copy_(like.detach())
        self.pool.placed += place.untyped_storage().nbytes()
        return place

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        self.parts.append([])
        again.witness = self.note
        try:
            with _Watching(self):
                yield
        finally:
            again.witness = None

    def keep(self, t: torch.Tensor) -> Callable[[], torch.Tensor]:
        of = self.here.get(t.untyped_storage()._cdata)
        ref = _Ref(t, of)
        if of is not None:
            of.gone = 1 << 62
        return lambda: ref.tensor(self.pool.storage)

    def note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Takes down a call that has run."""
        if waits(func):
            raise Uncapturable(f"the host waits for the value of {func._schema.name.replace('::', '.')}")
        at, self.clock = self.clock, self.clock + 1
        given = _map(args, self._ref), _map(kwargs, self._ref)
        makes = []
        for i, t in enumerate(pieces(out)):
            storage = t.untyped_storage()
            if storage._cdata in self.here or any(t.untyped_storage()._cdata == x.untyped_storage()._cdata for x in pieces((args, kwargs))):
                continue
            made = self.here[storage._cdata] = _Range(storage.nbytes(), at)
            self.ranges.append(made)
            self.watched.append(weakref.ref(storage, self._gone(storage._cdata, made)))
            makes.append((i, made))
        if makes or func._schema.is_mutable:  # views are laid out
            self.parts[-1].append(_Call(func, *given, torch.is_grad_enabled(), makes))

    def _ref(self, t: torch.Tensor) -> _Ref:
        return _Ref(t, self.here.get(t.untyped_storage()._cdata))

    def _gone(self, address: int, made: _Range) -> Callable[[Any], None]:
        def gone(_: Any) -> None:
            if self.here.get(address) is made:
                del self.here[address]
            if made.gone is None:
                made.gone = self.clock

        return gone

    def finish(self) -> None:
        """Places all storages, and lays the calls out on the arena."""
        end, height = self.clock + 1, 0
        placed: list[_Range] = []
        for made in sorted(self.ranges, key=lambda r: -r.nbytes):
            gone = end if made.gone is None else made.gone
            beside = sorted((r for r in placed if r.made < gone and (end if r.gone is None else r.gone) > made.made), key=lambda r: r.offset)
            at = 0
            for other in beside:
                if other.offset - at >= made.nbytes:
                    break
                at = max(at, -(-(other.offset + other.nbytes) // _ALIGNED) * _ALIGNED)
            made.offset = at
            placed.append(made)
            height = max(height, at + made.nbytes)
        if height > self.pool.storage.nbytes():
            self.pool.storage.resize_(height)
        for calls in self.parts:
            for call in calls:
                call.args, call.kwargs = _map(call.args, self._laid), _map(call.kwargs, self._laid)

    def _laid(self, ref: _Ref) -> torch.Tensor:
        return ref.tensor(self.pool.storage)

    def replay(self, part: int) -> None:
        with torch._C._DisableTorchDispatch(), torch._C._DisableAutocast(), torch._C._AutoDispatchBelowAutograd():
            for call in self.parts[part]:
                with torch.set_grad_enabled(call.grad):
                    out = call.func(*call.args, **call.kwargs)
                made = list(pieces(out)) if call.makes else []
                for i, to in call.makes:
                    if to.nbytes:
                        _bytes(self.pool.storage, to.offset, to.nbytes).copy_(_bytes(made[i].untyped_storage(), 0, to.nbytes))


def _bytes(storage: torch.UntypedStorage, offset: int, nbytes: int) -> torch.Tensor:
    with torch.no_grad():
        return torch.empty(0, dtype=torch.uint8).set_(storage, offset, (nbytes,), (1,))


def _map(x: Any, f: Callable[[Any], Any]) -> Any:
    if isinstance(x, (torch.Tensor, _Ref)):
        return f(x)
    if isinstance(x, (list, tuple)):
        return type(x)([_map(y, f) for y in x])
    if isinstance(x, dict):
        return {k: _map(v, f) for k, v in x.items()}
    return x


class _Watching(TorchDispatchMode):
    """Sees the calls of a part, below the replay of the plan."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        self.tape.note(func, args, kwargs or {}, out)
        return out
