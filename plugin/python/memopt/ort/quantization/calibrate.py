"""Sample inputs for static quantization, as ONNX Runtime's readers give them."""

from __future__ import annotations

import abc
import os
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

__all__ = ["CalibrationDataReader", "CalibrationMethod"]


class CalibrationMethod(Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class CalibrationDataReader(metaclass=abc.ABCMeta):
    """Gives a model's inputs batch by batch: get_next returns a dict of arrays, and None at the end."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        return callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> dict[str, Any] | None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        batch = self.get_next()
        if batch is None:
            raise StopIteration
        return batch

    def __len__(self) -> int:
        raise NotImplementedError

    def set_range(self, start_index: int, end_index: int) -> None:
        raise NotImplementedError


def batches(reader: Any, folder: str, stride: int | None) -> int:
    """Writes a reader's batches to files of a folder, and returns how many belong together; 0: all.

    With a stride, the reader gives that much data at a time, if it can be told to.
    """
    os.makedirs(folder)
    count = 0

    def drain() -> int:
        nonlocal count
        before = count
        while batch := reader.get_next():
            _write(os.path.join(folder, f"{count:08d}.npz"), batch)
            count += 1
        return count - before

    groups = set()
    if stride:
        total = len(reader)
        if total % stride:
            raise ValueError(f"the reader has {total} batches, which strides of {stride} do not divide")
        for start in range(0, total, stride):
            reader.set_range(start_index=start, end_index=start + stride)
            groups.add(drain())
    else:
        drain()
    if not count:
        raise ValueError("no data is collected: the calibration_data_reader gave no batch")
    groups.discard(0)
    if len(groups) > 1:
        raise ValueError(f"CalibStridedMinMax: the reader gave strides of different numbers of batches: {sorted(groups)}")
    return groups.pop() if groups else 0


def _write(path: str, batch: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {f"input.{name}": np.asarray(value.numpy() if hasattr(value, "numpy") else value) for name, value in batch.items()}
    with open(path, "wb") as f:
        np.savez(f, **arrays)
