"""OrtValueVector: a list of values with the methods that ONNX Runtime's has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .value import OrtValue


class OrtValueVector(list[OrtValue]):
    """Values for a run, or from one."""

    def __init__(self, values: Iterable[OrtValue] = ()) -> None:
        super().__init__(values)

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Adds a value, or the tensor of another library; of numbers of a byte is_bool_tensor makes truths."""
        self.append(value if isinstance(value, OrtValue) else OrtValue._of_dlpack(value, is_bool_tensor))

    def reserve(self, count: int) -> None:
        """Nothing to do."""

    def shrink_to_fit(self) -> None:
        """Nothing to do."""

    def bool_tensor_indices(self) -> list[int]:
        """The indices of bool values."""
        return [i for i, value in enumerate(self) if value.data_type() == "tensor(bool)"]

    def dlpack_at(self, index: int) -> Any:
        """A value, for another library."""
        return self[index].__dlpack__()

    def element_type_at(self, index: int) -> int:
        """ONNX's number of a value's element type."""
        return self[index].element_type()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None = None) -> list[Any]:
        """All values, for another library."""
        made = [value.__dlpack__() for value in self]
        return made if to_tensor is None else [to_tensor(capsule) for capsule in made]
