"""A value at an address that a program gives, which it may have freed: the system reads and writes it for us, and tells where there is no memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _arena
from .types import ElementType
from .value import OrtValue, room


class AtAddress(OrtValue):
    """A value over memory that is not memopt's own. Each look at it is a copy."""

    __slots__ = ("_address", "_bytes", "_shape")

    def __init__(self, address: int, nbytes: int, shape: Sequence[int], element_type: ElementType, device: str) -> None:
        unread: Any = None
        super().__init__(unread, element_type, device)
        self._address = address
        self._bytes = nbytes
        self._shape = tuple(shape)
        self._stamp = 0  # who gave the address may write there
        for at in (address, address + nbytes - 1):
            self._checked(_arena.current().copy_in, _arena.current().alloc(1), at)

    @property
    def _array(self) -> Any:
        """A copy of what is there now, in the arena."""
        block = _arena.current().alloc(self._bytes)
        self._checked(_arena.current().copy_in, block, self._address)
        return block.array(self._type.storage(), self._shape)

    @_array.setter
    def _array(self, _: Any) -> None:
        pass

    def place(self) -> Any:
        """Room in the arena for new content."""
        return room(self._shape, self._type)

    def put(self, array: Any) -> None:
        """Writes new content, which is in the arena, to the address."""
        self._checked(_arena.current().copy_out, array.ctypes.data, self._bytes, self._address)

    def _checked(self, copy: Any, *what: Any) -> None:
        try:
            copy(*what)
        except OSError as e:
            raise RuntimeError(f"buffer_ptr is {self._address:#x}, and the {self._bytes:,} bytes from there are not all memory of this process: {e.strerror}") from None

    def update_inplace(self, data: Any) -> None:
        """Overwrites it with elements of the same type and number."""
        new = OrtValue(self._array, self._type)
        new.update_inplace(data)
        self.put(new._array)

    def data_ptr(self) -> int:
        """The address."""
        return self._address

    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._shape)

    def tensor_size_in_bytes(self) -> int:
        """Its bytes."""
        return self._bytes
