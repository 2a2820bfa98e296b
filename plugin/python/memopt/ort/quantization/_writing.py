"""Calls the service with a model that is a file or an onnx.ModelProto."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ... import _scratch
from ..._quantize import made
from ..._visible import class_of
from ..._whole import target


def write(model_input: Any, model_output: str | Path, settings: Mapping[str, Any]) -> None:
    """Quantizes a model with these settings of memopt.quantize."""
    with file_of(model_input) as path:
        _write(path, os.fsdecode(model_output), settings)


@contextlib.contextmanager
def file_of(model_input: Any) -> Iterator[str]:
    """The file of a model: its path is given, or it is saved for as long as this lasts."""
    if isinstance(model_input, (str, os.PathLike)):
        yield os.fsdecode(model_input)
        return
    if not hasattr(model_input, "SerializeToString"):
        raise TypeError(f"the model is {class_of(model_input)}; give the path of a model or an onnx.ModelProto")
    with _scratch.folder(_size(model_input)) as folder:
        yield _saved(model_input, os.path.join(folder, "model.onnx"))


def _write(model: str, output: str, settings: Mapping[str, Any]) -> None:
    if not os.path.exists(model):
        raise FileNotFoundError(f"there is no model {model}")
    if not os.path.exists(output) or not os.path.samefile(model, output) or settings["external_data"]:
        made(model, output, settings, timeout=None)
        return
    # ONNX Runtime has read the whole model by the time it writes.
    output = target(output)
    with tempfile.TemporaryDirectory(prefix=".memopt-", dir=os.path.dirname(output) or None) as folder:
        to = os.path.join(folder, "model.onnx")
        made(model, to, settings, timeout=None)
        shutil.copymode(output, to)
        os.replace(to, output)


def _size(model: Any) -> int:
    try:
        return int(model.ByteSize())
    except Exception:  # more than protobuf counts
        return 1 << 40


def _saved(model: Any, path: str) -> str:
    """The file of a model, with its weights outside where protobuf cannot hold them."""
    try:
        data = model.SerializeToString()
    except Exception:  # of protobuf, which has one class for this in each release
        import copy

        import onnx

        onnx.save_model(copy.deepcopy(model), path, save_as_external_data=True)
        return path
    with open(path, "wb") as f:
        f.write(data)
    return path
