"""Element types with ONNX's number, ONNX Runtime's name, the service's name and NumPy's type."""

from __future__ import annotations

from typing import Any, NamedTuple


class ElementType(NamedTuple):
    """An element type of ONNX."""

    onnx: int
    name: str  # as in tensor(float)
    service: str  # "" where the service has none
    numpy: str  # "" where NumPy has none
    size: int  # bytes of an element

    @property
    def tensor(self) -> str:
        """The type of a tensor of these, as ONNX Runtime writes it."""
        return f"tensor({self.name})"

    def storage(self) -> Any:
        """The NumPy type to store the bytes."""
        import numpy

        return numpy.dtype(self.numpy or f"u{self.size}")


ELEMENT_TYPES = (
    ElementType(1, "float", "f32", "float32", 4),
    ElementType(2, "uint8", "u8", "uint8", 1),
    ElementType(3, "int8", "i8", "int8", 1),
    ElementType(4, "uint16", "u16", "uint16", 2),
    ElementType(5, "int16", "i16", "int16", 2),
    ElementType(6, "int32", "i32", "int32", 4),
    ElementType(7, "int64", "i64", "int64", 8),
    ElementType(8, "string", "", "", 0),
    ElementType(9, "bool", "bool", "bool", 1),
    ElementType(10, "float16", "f16", "float16", 2),
    ElementType(11, "double", "f64", "float64", 8),
    ElementType(12, "uint32", "u32", "uint32", 4),
    ElementType(13, "uint64", "u64", "uint64", 8),
    ElementType(16, "bfloat16", "bf16", "", 2),
    ElementType(17, "float8e4m3fn", "f8e4m3fn", "", 1),
    ElementType(18, "float8e4m3fnuz", "f8e4m3fnuz", "", 1),
    ElementType(19, "float8e5m2", "f8e5m2", "", 1),
    ElementType(20, "float8e5m2fnuz", "f8e5m2fnuz", "", 1),
    ElementType(21, "uint4", "u4", "", 1),  # a byte each, as in ml_dtypes
    ElementType(22, "int4", "i4", "", 1),
    ElementType(25, "uint2", "u2", "", 1),
    ElementType(26, "int2", "i2", "", 1),
)

STRING = next(t for t in ELEMENT_TYPES if t.name == "string")
_BY_NUMBER = {t.onnx: t for t in ELEMENT_TYPES}
_BY_SERVICE = {t.service: t for t in ELEMENT_TYPES if t.service}
_BY_TENSOR = {t.tensor: t for t in ELEMENT_TYPES}
_BY_NUMPY = {t.numpy: t for t in ELEMENT_TYPES if t.numpy}


def by_number(number: int) -> ElementType:
    """The type of an ONNX number."""
    found = _BY_NUMBER.get(int(number))
    if found is None:
        raise RuntimeError(f"tensor type {number} is not supported")
    return found


def by_service(name: str) -> ElementType:
    """The type of a name of the service."""
    return _BY_SERVICE[name]


def by_tensor(name: str) -> ElementType | None:
    """The type of a tensor that ONNX Runtime writes so, if there is one."""
    return _BY_TENSOR.get(name)


def by_numpy(dtype: Any) -> ElementType:
    """The type of a NumPy array's elements. Types of ml_dtypes have their names."""
    found = _BY_NUMPY.get(dtype.name) or _BY_ML_DTYPES.get(dtype.name)
    if found is not None:
        return found
    if dtype.kind in "USOTmM":
        raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
    raise RuntimeError(f"Numpy_type {dtype.name} can't be converted to MLDataType.")


_BY_ML_DTYPES = {
    "bfloat16": _BY_NUMBER[16],
    "float8_e4m3fn": _BY_NUMBER[17],
    "float8_e4m3fnuz": _BY_NUMBER[18],
    "float8_e5m2": _BY_NUMBER[19],
    "float8_e5m2fnuz": _BY_NUMBER[20],
    "uint4": _BY_NUMBER[21],
    "int4": _BY_NUMBER[22],
    "uint2": _BY_NUMBER[25],
    "int2": _BY_NUMBER[26],
}


def asked_for(element_type: Any) -> ElementType:
    """The type of ONNX's number, or of anything that NumPy accepts as a type."""
    import numpy

    if isinstance(element_type, (int, numpy.integer)) and not isinstance(element_type, bool):
        return by_number(int(element_type))
    return by_numpy(numpy.dtype(element_type))
