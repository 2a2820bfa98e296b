"""memopt.quantize: the service quantizes weights to 8-bit integers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import _arguments
from ._arguments import Path
from ._plan import call, texts
from ._progress import Asked
from ._questions import Answer
from ._section import Section
from ._settings import QUANTIZE_SETTINGS, QuantizeSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RoundedTensor(Section):
    """A quantized weight."""

    name: str
    shape: list[int]
    type: str
    scales: int
    bytes_before: int
    bytes_after: int
    worst_error: float


class SkippedTensor(Section):
    """A float weight that is not quantized."""

    name: str
    shape: list[int]
    type: str
    bytes: int
    reason: str


class QuantizableNode(Section):
    """A node of an operator with a quantized form, and why it is not quantized, if it is not."""

    name: str
    op: str
    quantized: bool


class Quantized(Answer):
    """The result of memopt.quantize: its JSON (memopt.quantize/1) by attribute or by item, and its tables as str()."""

    path: str
    weight_type: str
    per_channel: bool
    reduce_range: bool
    bytes_before: int
    bytes_after: int
    worst_error: float
    tensors: list[RoundedTensor]
    skipped: list[SkippedTensor]
    nodes: list[QuantizableNode]
    warnings: list[str]


def quantize(model: Path, to: Path, *, timeout: float | None = 3600.0, progress: Asked = None, **settings: Unpack[QuantizeSettings]) -> Quantized:
    """Writes the ONNX model with its weights quantized to 8-bit integers, like ONNX Runtime's quantize_dynamic; with
    calibrate=, a file or folder of sample inputs, like its quantize_static.

    to
        The file to write.
    timeout, progress
        As for memopt.plan.

    Settings are the flags of `memopt quantize`: weight_type, per_channel, exclude and so on.
    """
    return made(model, to, settings, timeout, progress)


def made(model: Path, to: Path, settings: Mapping[str, object], timeout: float | None, progress: Asked = None) -> Quantized:
    if not isinstance(to, (str, os.PathLike)):
        raise TypeError(f"to is {to!r}; give the path of a file")
    fields = {
        "model": _arguments.absolute("model", model),
        "save_to": _arguments.absolute("to", to),
        "settings": texts("quantize", settings, QUANTIZE_SETTINGS),
    }
    reply = call("Quantize", fields, timeout, progress)
    return Quantized(json.loads(reply.json), reply.text)
