"""An output that stays on a device with its own memory until it is read."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .types import ElementType
from .value import OrtValue, room

if TYPE_CHECKING:
    from .engine import Engine

_numbers = itertools.count(1)
_dropped: deque[tuple[Any, int]] = deque()  # hosts and buffers of theirs that no value has any more
_lock = threading.Lock()


def dropped(host: Any) -> list[int]:
    """The buffers of a host that no value has any more, told once. What was another's is gone with it."""
    with _lock:
        gone = list(_dropped)
        _dropped.clear()
        _dropped.extend(each for each in gone if each[0] is not host and each[0].alive())
    return [number for whose, number in gone if whose is host]


class Resident(OrtValue):
    """A value in a buffer of the service's device, that an output is bound to which a program leaves there. Sessions of the
    device read it where it is; its numbers are brought here when it is asked for them."""

    __slots__ = ("_bytes", "_engine", "_fresh", "_host", "_name", "_shape", "_there", "number")

    def __init__(self, engine: Engine, host: Any, name: str, element_type: ElementType, shape: Sequence[int], device: str) -> None:
        unmade: Any = None
        self._there = unmade  # room here, once somebody asks
        super().__init__(unmade, element_type, device)
        self._engine = engine
        self._name = name
        self._shape = tuple(shape)
        self._fresh = False  # whether the room here has the numbers
        self._bytes = element_type.size
        for n in self._shape:
            self._bytes *= n
        self.move(host)

    @property
    def _array(self) -> Any:
        if self._there is None:
            self._there = room(self._shape, self._type)
        if not self._fresh:
            self._engine.bring(self)
        return self._there

    @_array.setter
    def _array(self, _: Any) -> None:
        pass  # the room is made when it is asked for

    def move(self, host: Any) -> None:
        """Has it a buffer of its own with a host, where it has none yet."""
        self._host = host
        self.number = next(_numbers)
        weakref.finalize(self, _dropped.append, (host, self.number)).atexit = False

    def is_with(self, host: Any) -> bool:
        """Whether the device's content is current, as nobody here can have changed the value."""
        return self._host is host and not self.lent() and not self._fresh

    def lent(self) -> bool:
        """Whether the program has the address of its memory, which runs then have to write to."""
        return not self._stamp

    def ran(self) -> None:
        """Notes that a run has written new content on the device."""
        self._fresh = False
        self._written()

    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._shape)

    def tensor_size_in_bytes(self) -> int:
        """Its bytes."""
        return int(self._bytes)
