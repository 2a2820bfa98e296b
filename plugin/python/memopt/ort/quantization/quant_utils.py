"""The words of ONNX Runtime's quantization: types, formats, modes."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

__all__ = ["QuantFormat", "QuantType", "QuantizationMode"]

_Word = TypeVar("_Word", bound=Enum)


class _Words(Enum):
    def __str__(self) -> str:
        return self.name


class QuantizationMode(_Words):
    IntegerOps = 0
    QLinearOps = 1

    @staticmethod
    def from_string(mode: str) -> QuantizationMode:
        return named(QuantizationMode, mode)


class QuantFormat(_Words):
    QOperator = 0
    QDQ = 1

    @staticmethod
    def from_string(format: str) -> QuantFormat:
        return named(QuantFormat, format)


class QuantType(_Words):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    @staticmethod
    def from_string(t: str) -> QuantType:
        return named(QuantType, t)

    @property
    def tensor_type(self) -> int:
        """ONNX's number of the element type."""
        return {"QInt8": 3, "QUInt8": 2, "QFLOAT8E4M3FN": 17, "QInt16": 5, "QUInt16": 4, "QInt4": 22, "QUInt4": 21}[self.name]


def named(words: type[_Word], word: str) -> _Word:
    try:
        return words[word]
    except KeyError:
        raise ValueError(f"{word!r} is none of {', '.join(w.name for w in words)}") from None
