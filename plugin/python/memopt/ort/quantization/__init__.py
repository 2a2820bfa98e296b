"""ONNX Runtime's quantize_dynamic on the memopt service, with the same nodes, names, scales and integers.

Static quantization, which needs a calibration, is not here.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from ..._quantize import made
from ..._whole import target

__all__ = ["DynamicQuantConfig", "QuantFormat", "QuantType", "QuantizationMode", "quantize", "quantize_dynamic"]


_Word = TypeVar("_Word", bound=Enum)


class _Words(Enum):
    def __str__(self) -> str:
        return self.name


class QuantizationMode(_Words):
    IntegerOps = 0
    QLinearOps = 1

    @staticmethod
    def from_string(mode: str) -> QuantizationMode:
        return _named(QuantizationMode, mode)


class QuantFormat(_Words):
    QOperator = 0
    QDQ = 1

    @staticmethod
    def from_string(format: str) -> QuantFormat:
        return _named(QuantFormat, format)


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
        return _named(QuantType, t)

    @property
    def tensor_type(self) -> int:
        """ONNX's number of the element type."""
        return {"QInt8": 3, "QUInt8": 2, "QFLOAT8E4M3FN": 17, "QInt16": 5, "QUInt16": 4, "QInt4": 22, "QUInt4": 21}[self.name]


def _named(words: type[_Word], word: str) -> _Word:
    try:
        return words[word]
    except KeyError:
        raise ValueError(f"{word!r} is none of {', '.join(w.name for w in words)}") from None


class DynamicQuantConfig:
    """The arguments of quantize_dynamic, for quantize."""

    def __init__(
        self,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Iterable[str] | None = None,
        nodes_to_quantize: Iterable[str] | None = None,
        nodes_to_exclude: Iterable[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.weight_type = weight_type
        self.op_types_to_quantize = op_types_to_quantize or []
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.use_external_data_format = use_external_data_format
        self.extra_options = extra_options or {}


def quantize(model_input: Any, model_output: str | Path, quant_config: DynamicQuantConfig) -> None:
    """quantize_dynamic with the arguments of a configuration."""
    if not isinstance(quant_config, DynamicQuantConfig):
        raise TypeError(f"quant_config is {quant_config!r}; only a DynamicQuantConfig is taken: nothing here calibrates")
    quantize_dynamic(model_input, model_output, **vars(quant_config))


# What extra_options are called here; those without a name are for static quantization, or concern no model that can be read.
_OPTIONS = {
    "WeightSymmetric": "weight_symmetric",
    "ActivationSymmetric": "activation_symmetric",
    "MatMulConstBOnly": "matmul_const_b_only",
    "EnableSubgraph": "enable_subgraph",
    "ForceQuantizeNoInputCheck": "force_quantize_no_input_check",
    "MinimumRealRange": "minimum_real_range",
    "DefaultTensorType": None,
    "extra.Sigmoid.nnapi": None,
    "ActivationRestrictedAsymmetric": None,
}


def quantize_dynamic(
    model_input: Any,
    model_output: str | Path,
    op_types_to_quantize: Iterable[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: Iterable[str] | None = None,
    nodes_to_exclude: Iterable[str] | None = None,
    use_external_data_format: bool = False,
    extra_options: Mapping[str, Any] | None = None,
) -> None:
    """Writes a model with 8-bit integer products: weights are quantized now, activations when it runs.

    model_input is the path of a model, or an onnx.ModelProto; the other arguments are ONNX Runtime's.
    Products are exact here; ONNX Runtime's saturate on x86 processors without VNNI unless reduce_range is True.
    memopt.quantize does the same and reports what was quantized, what was not, and why.
    """
    kind = getattr(weight_type, "name", str(weight_type))
    if kind not in ("QInt8", "QUInt8"):
        raise ValueError(f"weight_type is {weight_type}; products of integers take QInt8 or QUInt8")
    settings: dict[str, Any] = {
        "weight_type": kind,
        "per_channel": bool(per_channel),
        "reduce_range": bool(reduce_range),
        "external_data": bool(use_external_data_format),
        "op_types": list(op_types_to_quantize or ()) or None,
        "nodes": list(nodes_to_quantize or ()) or None,
        "exclude": list(nodes_to_exclude or ()) or None,
    }
    for option, value in (extra_options or {}).items():
        if option not in _OPTIONS:
            raise ValueError(f"extra_options: {option} is not known here; there are {', '.join(_OPTIONS)}")
        name = _OPTIONS[option]
        if name and value is not None:
            settings[name] = float(value) if name == "minimum_real_range" else bool(value)
        elif name is None:
            logging.getLogger("memopt").info("extra_options: %s has no effect on dynamic quantization", option)
    output = os.fsdecode(model_output)
    if isinstance(model_input, (str, os.PathLike)):
        _write(os.fsdecode(model_input), output, settings)
        return
    if not hasattr(model_input, "SerializeToString"):
        raise TypeError(f"model_input is {type(model_input).__name__}; give the path of a model or an onnx.ModelProto")
    with tempfile.TemporaryDirectory(prefix="memopt-") as folder:
        _write(_saved(model_input, os.path.join(folder, "model.onnx")), output, settings)


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
