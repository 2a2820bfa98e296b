"""OrtValue: a tensor of the program that sessions read and write.

On the processor a value made from an array shares its memory. A value that memopt
allocates lies in the arena shared with the service, and is not copied to or from sessions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _arena
from .._visible import class_of
from ..errors import MemoptError
from . import checks, errors
from .device import OrtDevice, OrtMemoryInfo
from .enums import OrtDeviceVendorId, OrtMemoryInfoDeviceType
from .types import STRING, ElementType, asked_for, by_number, by_numpy

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


_stamps = itertools.count(1)


class OrtValue:
    """A tensor of any element type of ONNX except strings."""

    __slots__ = ("__weakref__", "_array", "_copy", "_device", "_stamp", "_type")

    def __init__(self, array: Array, element_type: ElementType | None = None, device: str = "cpu") -> None:
        if element_type is None:
            raise ValueError("an OrtValue is made by ortvalue_from_numpy, ortvalue_from_shape_and_type or from_dlpack")
        self._array = array  # of NumPy's type, or of unsigned numbers where NumPy has none; contiguous
        self._type = element_type
        self._device = device
        self._copy: Array | None = None
        self._stamp = next(_stamps) if device != "cpu" else 0  # names the numbers, where nobody changes them unseen

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Array, /, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int | OrtDeviceVendorId = -1
    ) -> OrtValue:
        """A value over the array on the processor, a copy on other devices; also a copy if the array is not contiguous."""
        device = OrtDevice.make(device_type, device_id, vendor_id)
        array, element_type = plain(numpy_obj)
        if not device.on_host():
            _tell_of(device)
            array = into_arena(array)
        return cls(array, element_type, device.name)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, /, onnx_element_type: int) -> OrtValue:
        """The array itself, its bytes taken for elements of ONNX's type of this number."""
        array, _ = plain(data)
        try:
            element_type = by_number(checks.integer("onnx_element_type", onnx_element_type))
        except RuntimeError:
            raise RuntimeError(f"Not a valid ONNX Tensor data type: {onnx_element_type}") from None
        if element_type.size != array.dtype.itemsize:
            raise RuntimeError(
                f"Items size in the incoming array: {array.dtype.itemsize} specified by onnxtype: {element_type.size} ({element_type.tensor})"
            )
        return cls(array.view(element_type.storage()), element_type)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int | OrtDeviceVendorId = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """A value of zeros in the arena shared with the service."""
        if memory_info is not None:
            kind = checks.instance("memory_info", memory_info, OrtMemoryInfo).device_type
            device_type, device_id, vendor_id = ("cpu" if kind == OrtMemoryInfoDeviceType.CPU else "gpu"), memory_info.device_id, -1
        device = OrtDevice.make(device_type, device_id, vendor_id)
        kind_of = asked_for(element_type)
        if kind_of is STRING:
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        dims = [checks.integer("shape", n) for n in shape]
        if any(n < 0 for n in dims):
            raise RuntimeError(f"shape {dims}: shape.Size() must be >= 0")
        if not device.on_host():
            _tell_of(device)
        array = room(dims, kind_of)
        array[...] = 0
        return cls(array, kind_of, device.name)

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: Any) -> OrtValue:
        """Raises: sessions support dense tensors only."""
        raise errors.status(errors.NotImplemented, "sparse tensors are not supported: give the dense array")

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> OrtValue:
        """A value over the memory of another library's tensor on the processor."""
        if isinstance(data, OrtValue):
            return cls(data._array, data._type, data._device)
        dtype = getattr(data, "dtype", None)
        return cls._of_dlpack(data, is_bool_tensor or getattr(dtype, "name", str(dtype)) in ("bool", "torch.bool"))

    @classmethod
    def _of_dlpack(cls, data: Any, is_bool: bool) -> OrtValue:
        import numpy

        if not hasattr(data, "__dlpack__"):
            if type(data).__name__ != "PyCapsule":
                raise TypeError(f"from_dlpack takes a tensor that has __dlpack__, not {class_of(data)}")
            data = _Capsule(data)
        array = numpy.from_dlpack(data)
        if not array.flags.c_contiguous:
            raise RuntimeError("from_dlpack takes contiguous tensors only")
        if not array.flags.writeable and not (isinstance(data, numpy.ndarray) and not data.flags.writeable):
            array = _writable(array)  # what a capsule of the older kind does not say
        if is_bool and array.dtype == numpy.uint8:
            array = array.view(numpy.bool_)  # older exporters have no truths
        return cls(array, by_numpy(array.dtype))

    def __dlpack__(self, *, stream: Any = None) -> Any:
        """Its memory, for another library."""
        if not self._type.numpy:
            raise RuntimeError(f"{self._type.tensor} has no type in NumPy to be passed on as")
        if not self._array.flags.writeable:
            raise BufferError("an array that cannot be written to is not passed on by DLPack")
        self._stamp = 0
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The processor: the memory is always the process's."""
        return (1, 0)

    def data_ptr(self) -> int:
        """The address of the first element."""
        self._stamp = 0  # who has it may write there
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """The device as the program named it."""
        return self._device

    def shape(self) -> list[int]:
        """Its dims."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Its type as ONNX Runtime writes it: tensor(float)."""
        return self._type.tensor

    def element_type(self) -> int:
        """ONNX's number of its element type."""
        return self._type.onnx

    def tensor_size_in_bytes(self) -> int:
        """Its bytes."""
        return int(self._array.nbytes)

    def has_value(self) -> bool:
        """True: there are no optional values."""
        return True

    def is_tensor(self) -> bool:
        """True: there are no other kinds of values."""
        return True

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False

    def is_tensor_sequence(self) -> bool:
        """False."""
        return False

    def as_sparse_tensor(self) -> Any:
        """Raises: it is dense."""
        raise RuntimeError(f"This OrtValue does not contain SparseTensor. It is a {self._type.tensor}")

    def numpy(self) -> Array:
        """An array over the same memory; a copy if the value is on a device."""
        if not self._type.numpy:
            raise RuntimeError(f"No corresponding Numpy type for Tensor Type. {self._type.name}")
        return self._array.view() if self._device == "cpu" else self._array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy

        array = self.numpy()
        if copy:
            return numpy.array(array, dtype=dtype)
        if copy is False and dtype is not None and numpy.dtype(dtype) != array.dtype:
            raise ValueError(f"{self._type.tensor} as {numpy.dtype(dtype)} is a copy")
        return array if dtype is None else numpy.asarray(array, dtype=dtype)

    def update_inplace(self, data: Any) -> None:
        """Overwrites it with elements of the same type and number."""
        import numpy

        if isinstance(data, OrtValue):
            source, element_type = data._array, data._type
        elif isinstance(data, numpy.ndarray):
            source, element_type = plain(data)
            if not self._type.numpy and source.dtype == self._array.dtype:
                element_type = self._type  # bytes of a type that NumPy has not
        else:
            raise TypeError("data must be a numpy.ndarray or an OrtValue.")
        if source.size != self._array.size:
            raise RuntimeError(
                "The input size of numpy arrays does not match the size of the OrtValue."
                f" {list(source.shape)} has {source.size} elements, {self.shape()} has {self._array.size}"
            )
        if element_type is not self._type:
            raise RuntimeError(
                f"The source and destination OrtValues must have the same data type: {element_type.tensor} does not go into {self._type.tensor}"
            )
        if not self._array.flags.writeable:
            raise RuntimeError("this OrtValue is an array that cannot be written to")
        if source.ctypes.data != self._array.ctypes.data:
            self._array[...] = source.reshape(self._array.shape)
            self._written()

    def _written(self) -> None:
        """Notes that the content has changed."""
        if self._stamp:
            self._stamp = next(_stamps)

    def __copy__(self) -> OrtValue:
        return type(self)(self._array, self._type, self._device)

    def __reduce__(self) -> str:
        raise errors.unpicklable(self)

    def _shared(self) -> Array:
        """It in the arena: itself, or one copy for all sessions that share it, until its numbers are others."""
        arena = _arena.current()
        for array in (self._array, self._copy):
            if array is not None and arena.find(array.ctypes.data, array.nbytes) is not None and (array is self._array or _same(array, self._array)):
                return array
        self._copy = into_arena(self._array)
        return self._copy

    def _get_c_value(self) -> OrtValue:
        return self

    @property
    def _ortvalue(self) -> OrtValue:
        return self

    def to_dlpack(self) -> Any:
        """Its memory, for another library."""
        return self.__dlpack__()


def _writable(array: Array) -> Array:
    """An array over the memory of another, which it keeps, to write to."""
    import ctypes

    import numpy

    memory: Any = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array
    return numpy.ndarray(array.shape, array.dtype, memory)


class _Capsule:
    """A bare capsule of DLPack, which NumPy takes only from an object."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def plain(array: Any) -> tuple[Array, ElementType]:
    """An array whose elements lie one after another in this machine's order, which may be itself, and their type."""
    import numpy

    if not isinstance(array, numpy.ndarray):
        raise RuntimeError(
            f"Creation of OrtValues is currently only supported from non-string numpy arrays, not from {class_of(array)}"
        )
    element_type = by_numpy(array.dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    if not element_type.numpy:
        array = array.view(element_type.storage())  # a type of ml_dtypes
    return array, element_type


def room(shape: Sequence[int], element_type: ElementType) -> Array:
    """An uninitialized array in the arena."""
    count = element_type.size
    for n in shape:
        count *= n
    try:
        block = _arena.current().alloc(count)
    except MemoptError as e:
        raise MemoryError(f"a value of shape {list(shape)}: {e}") from None
    return block.array(element_type.storage(), shape)


def into_arena(array: Array) -> Array:
    """A copy in the arena."""
    made = room(array.shape, by_numpy(array.dtype))
    made[...] = array
    return made


def _same(a: Array, b: Array) -> bool:
    same: bool = (a.reshape(-1).view("u1") == b.reshape(-1).view("u1")).all().item()
    return same


def is_dlpack_uint8_tensor(data: Any) -> bool:
    """Whether a DLPack capsule has type uint8. The capsule is not consumed."""
    import ctypes

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor: int = pointer(data, b"dltensor")
    # Behind the data's address, the device's kind and number and the count of dims: kind of numbers, and bits.
    return ctypes.string_at(tensor + 20, 2) == b"\x01\x08"


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies each value of one list to its place in another."""
    if len(src) != len(dst):
        raise RuntimeError(f"copy_tensors takes as many sources as destinations, not {len(src)} and {len(dst)}")
    for source, destination in zip(src, dst, strict=True):
        destination.update_inplace(source)


def _tell_of(device: OrtDevice) -> None:
    from . import providers

    providers.tell_of_device(device.name)
