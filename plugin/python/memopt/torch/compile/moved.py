"""Values of a compiled graph that are elsewhere for a while: operators that begin a copy and wait for it, where the plan has them.

A copy out reads the value until it is over, so both of its operators read it: no compiler reuses the memory before. From one operator to
the next goes a ticket, a tensor of one number; what is behind it is given up with the ticket's memory, also by a step without a backward pass.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ..elsewhere.engine import Engine, Place
from ..elsewhere.spill import SpillError
from ..replay.moves import BACK, GONE, IN, OUT, storage_bytes


@dataclass(frozen=True)
class Event:
    """What happens to a value: OUT, GONE, IN or BACK."""

    what: int
    value: str  # the node that makes it
    move: int


class Far:
    """Where the values of a module's graphs go. Graphs name it by its key."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.key = engine, next(_keys)
        _fars[self.key] = self


_keys = itertools.count(1)
_fars: weakref.WeakValueDictionary[int, Far] = weakref.WeakValueDictionary()


class _Trip:
    """A value that is elsewhere, or on its way."""

    def __init__(self, engine: Engine, place: Place, copy: Any, near: Tensor | None) -> None:
        self.engine, self.place, self.copy, self.near = engine, place, copy, near

    def settle(self) -> None:
        if self.copy is not None:
            self.engine.wait(self.copy)
            self.copy = None

    def end(self) -> None:
        self.engine.give_back(self.place)


_numbers = itertools.count(1)
_trips: dict[int, _Trip] = {}


class _Ticket(bytearray):
    """The memory of a ticket."""

    number = 0

    def __del__(self) -> None:
        trip = _trips.pop(self.number, None)
        if trip is not None:  # nobody will ask for it
            with contextlib.suppress(SpillError):
                trip.settle()
            trip.end()


def _ticket(trip: _Trip) -> Tensor:
    memory = _Ticket(8)
    memory.number = next(_numbers)
    _trips[memory.number] = trip
    made = torch.frombuffer(memory, dtype=torch.int64)
    made[0] = memory.number
    return made


def _taken(ticket: Tensor) -> _Trip:
    return _trips.pop(int(ticket))


def in_memory_order(value: Tensor) -> Tensor:
    """A value's numbers, in one dimension. It may lie within another buffer, where Inductor writes what is concatenated."""
    return value.permute(sorted(range(value.dim()), key=value.stride, reverse=True)).reshape(-1)


@torch.library.custom_op("memopt::leave", mutates_args=())  # type: ignore[untyped-decorator]
def _leave(value: Tensor, far: int) -> Tensor:
    engine = _fars[far].engine
    near = in_memory_order(value).view(torch.uint8)
    place = engine.place(near.nbytes)
    return _ticket(_Trip(engine, place, engine.leave(near, place), near))


@torch.library.custom_op("memopt::gone", mutates_args=())  # type: ignore[untyped-decorator]
def _gone(ticket: Tensor, value: Tensor) -> Tensor:
    trip = _taken(ticket)
    trip.settle()
    trip.near = None
    return _ticket(trip)


@torch.library.custom_op("memopt::come", mutates_args=())  # type: ignore[untyped-decorator]
def _come(ticket: Tensor, device: torch.device) -> Tensor:
    trip = _taken(ticket)
    trip.near = storage_bytes(torch.UntypedStorage(trip.place.nbytes, device=device), device)
    trip.copy = trip.engine.come(trip.place, trip.near)
    return _ticket(trip)


@torch.library.custom_op("memopt::back", mutates_args=())  # type: ignore[untyped-decorator]
def _back(ticket: Tensor, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    trip = _taken(ticket)
    trip.settle()
    trip.end()
    assert trip.near is not None
    return torch.empty(0, dtype=dtype, device=device).set_(trip.near.untyped_storage(), 0, shape, stride)  # type: ignore[call-overload,no-any-return]


for _begun in (_leave, _gone, _come):
    _begun.register_fake(lambda *_: torch.empty(1, dtype=torch.int64))


@_back.register_fake  # type: ignore[untyped-decorator]
def _(ticket: Tensor, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype, device=device)


class Moving:
    """Writes the operators of moves into a graph."""

    def __init__(self, graph: fx.Graph, far: int) -> None:
        self.graph, self.far = graph, far
        self.tickets: dict[int, fx.Node] = {}  # by move
        self.ticket: Tensor | None = None  # without its bytes

    def write(self, event: Event, now: fx.Node) -> fx.Node | None:
        """The value that is back, where that is the event. now: the node that stands for the value."""
        value, call = now.meta["val"], torch.ops.memopt
        if event.what == OUT:
            made = self.graph.call_function(call.leave.default, (now, self.far))
        elif event.what == GONE:
            made = self.graph.call_function(call.gone.default, (self.tickets[event.move], now))
        elif event.what == IN:
            made = self.graph.call_function(call.come.default, (self.tickets[event.move], value.device))
        else:
            made = self.graph.call_function(call.back.default, (self.tickets[event.move], list(value.shape), list(value.stride()), value.dtype, value.device))
        if event.what == BACK:
            made.meta["val"] = value
            return made
        self.tickets[event.move] = made
        made.meta["val"] = self._like(value)
        return None

    def _like(self, value: Tensor) -> Tensor:
        if self.ticket is None:
            fake = detect_fake_mode([value])
            assert fake is not None
            with unset_fake_temporarily():
                real = torch.empty(1, dtype=torch.int64)
            self.ticket = fake.from_tensor(real, static_shapes=True)
        return self.ticket
