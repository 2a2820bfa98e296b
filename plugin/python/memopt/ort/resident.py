"""An output that stays on a device with memory of its own until somebody looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .types import ElementType
from .value import OrtValue, room

if TYPE_CHECKING:
    from .engine import Engine


class Resident(OrtValue):
    """The value that an output is bound to which a program leaves on the device. It is read from there when it is asked for
    its numbers, and in time before another run takes its place."""

    __slots__ = ("_engine", "_fresh", "_name", "_shape", "_there")

    def __init__(self, engine: Engine, name: str, element_type: ElementType, shape: Sequence[int], device: str) -> None:
        there = room(shape, element_type)
        self._there = there
        super().__init__(there, element_type, device)
        self._engine = engine
        self._name = name
        self._shape = tuple(shape)
        self._fresh = False  # whether the room here has the numbers

    @property
    def _array(self) -> Any:
        if not self._fresh:
            self._engine.bring(self)
        return self._there

    @_array.setter
    def _array(self, _: Any) -> None:
        pass  # the room is there

    def lent(self) -> bool:
        """Whether somebody has the address of its room, which runs then have to write to."""
        return not self._stamp

    def ran(self) -> None:
        """A run has left new numbers on the device."""
        self._fresh = False
        self._written()

    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._shape)

    def tensor_size_in_bytes(self) -> int:
        """Its bytes."""
        return int(self._there.nbytes)
