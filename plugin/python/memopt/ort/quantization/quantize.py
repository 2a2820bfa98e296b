"""ONNX Runtime's quantize_dynamic and quantize_static on the memopt service, with the same nodes, names, scales and integers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ... import _scratch
from ._writing import write
from .calibrate import CalibrationMethod, batches
from .quant_utils import QuantFormat, QuantType

__all__ = ["DynamicQuantConfig", "QuantConfig", "StaticQuantConfig", "quantize", "quantize_dynamic", "quantize_static"]


class QuantConfig:
    """What the configurations of both ways have."""

    def __init__(
        self,
        activation_type: Any = QuantType.QUInt8,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Iterable[str] | None = None,
        nodes_to_quantize: Iterable[str] | None = None,
        nodes_to_exclude: Iterable[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
    ) -> None:
        self.activation_type = activation_type
        self.weight_type = weight_type
        self.op_types_to_quantize = op_types_to_quantize or []
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.use_external_data_format = use_external_data_format


class DynamicQuantConfig(QuantConfig):
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
        super().__init__(
            weight_type=weight_type,
            op_types_to_quantize=op_types_to_quantize,
            nodes_to_quantize=nodes_to_quantize,
            nodes_to_exclude=nodes_to_exclude,
            per_channel=per_channel,
            reduce_range=reduce_range,
            use_external_data_format=use_external_data_format,
        )
        self.extra_options = extra_options or {}


class StaticQuantConfig(QuantConfig):
    """The arguments of quantize_static, for quantize."""

    def __init__(
        self,
        calibration_data_reader: Any,
        calibrate_method: Any = CalibrationMethod.MinMax,
        quant_format: Any = QuantFormat.QDQ,
        activation_type: Any = QuantType.QInt8,
        weight_type: Any = QuantType.QInt8,
        op_types_to_quantize: Iterable[str] | None = None,
        nodes_to_quantize: Iterable[str] | None = None,
        nodes_to_exclude: Iterable[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        calibration_providers: Any = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            activation_type=activation_type,
            weight_type=weight_type,
            op_types_to_quantize=op_types_to_quantize,
            nodes_to_quantize=nodes_to_quantize,
            nodes_to_exclude=nodes_to_exclude,
            per_channel=per_channel,
            reduce_range=reduce_range,
            use_external_data_format=use_external_data_format,
        )
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


def quantize(model_input: Any, model_output: str | Path, quant_config: QuantConfig) -> None:
    """quantize_static or quantize_dynamic with the arguments of a configuration."""
    arguments = dict(vars(quant_config)) if isinstance(quant_config, QuantConfig) else {}
    if isinstance(quant_config, StaticQuantConfig):
        quantize_static(model_input, model_output, **arguments)
    elif isinstance(quant_config, DynamicQuantConfig):
        del arguments["activation_type"]
        quantize_dynamic(model_input, model_output, **arguments)
    else:
        raise TypeError(f"quant_config is {quant_config!r}; give a StaticQuantConfig or a DynamicQuantConfig")


# What extra_options are called here, those of both ways first; those without a name concern no model that can be read.
_COMMON = {
    "WeightSymmetric": "weight_symmetric",
    "ActivationSymmetric": "activation_symmetric",
    "MatMulConstBOnly": "matmul_const_b_only",
    "EnableSubgraph": "enable_subgraph",
    "ForceQuantizeNoInputCheck": "force_quantize_no_input_check",
    "MinimumRealRange": "minimum_real_range",
    "DefaultTensorType": None,
}
_STATIC = {
    "extra.Sigmoid.nnapi": "sigmoid_nnapi",
    "ActivationRestrictedAsymmetric": "activation_restricted_asymmetric",
    "AddQDQPairToWeight": "add_qdq_pair_to_weight",
    "DedicatedQDQPair": "dedicated_qdq_pair",
    "QuantizeBias": "quantize_bias",
    "QDQKeepRemovableActivations": "qdq_keep_removable_activations",
    "QDQDisableWeightAdjustForInt32Bias": "qdq_disable_weight_adjust_for_int32_bias",
    "UseQDQContribOps": "use_qdq_contrib_ops",
    "OpTypesToExcludeOutputQuantization": "op_types_to_exclude_output_quantization",
    "QDQOpTypePerChannelSupportToAxis": "qdq_op_type_per_channel_support_to_axis",
    "CalibTensorRangeSymmetric": "calib_tensor_range_symmetric",
    "CalibMovingAverage": "calib_moving_average",
    "CalibMovingAverageConstant": "calib_moving_average_constant",
    "CalibPercentile": "calib_percentile",
    "CalibStridedMinMax": "calib_strided_min_max",
    "CalibMaxIntermediateOutputs": None,  # runs are seen one by one
}
# Options that are refused unless they are off.
_REFUSED = {
    "SmoothQuant": "smoothing needs Intel's neural-compressor in ONNX Runtime, too",
    "TensorQuantOverrides": "one tensor's own type, scale or range is not taken",
    "BlockSize": "scales for blocks are not written",
}
_NUMBERS = {"minimum_real_range", "calib_moving_average_constant", "calib_percentile"}
_IGNORED = {"SmoothQuantAlpha", "SmoothQuantFolding"}


def _settings(config: Mapping[str, Any], extra_options: Mapping[str, Any] | None, static: bool) -> dict[str, Any]:
    """Settings of memopt.quantize for the arguments of either way."""
    settings: dict[str, Any] = {
        "weight_type": _type("weight_type", config["weight_type"], static),
        "per_channel": bool(config["per_channel"]),
        "reduce_range": bool(config["reduce_range"]),
        "external_data": bool(config["use_external_data_format"]),
        "op_types": list(config["op_types_to_quantize"] or ()) or None,
        "nodes": list(config["nodes_to_quantize"] or ()) or None,
        "exclude": list(config["nodes_to_exclude"] or ()) or None,
    }
    known = {**_COMMON, **_STATIC} if static else _COMMON
    for option, value in (extra_options or {}).items():
        if static and option in _REFUSED:
            if value:
                raise NotImplementedError(f"extra_options: {option}: {_REFUSED[option]}")
            continue
        if option not in known:
            if option in _IGNORED or option in _STATIC:
                logging.getLogger("memopt").info("extra_options: %s has no effect here", option)
                continue
            raise ValueError(f"extra_options: {option} is not known here; there are {', '.join(known)}")
        name = known[option]
        if name and value is not None:
            settings[name] = _value(name, value)
    return settings


def _value(name: str, value: Any) -> Any:
    if name in _NUMBERS:
        return float(value)
    if name == "op_types_to_exclude_output_quantization":
        return list(value) or None
    if name == "qdq_op_type_per_channel_support_to_axis":
        return [f"{op}={int(axis)}" for op, axis in dict(value).items()] or None
    if name == "calib_strided_min_max":
        return int(value)
    return bool(value)


def _type(name: str, kind: Any, static: bool) -> str:
    word = getattr(kind, "name", str(kind))
    takes = ("QInt8", "QUInt8", "QInt16", "QUInt16") if static else ("QInt8", "QUInt8")
    if word not in takes:
        raise ValueError(f"{name} is {kind}; {'static quantization' if static else 'products of integers'} takes {', '.join(takes)} here")
    return word


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
    write(model_input, model_output, _settings(locals(), extra_options, static=False))


def quantize_static(
    model_input: Any,
    model_output: str | Path,
    calibration_data_reader: Any = None,
    quant_format: Any = QuantFormat.QDQ,
    op_types_to_quantize: Iterable[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: Any = QuantType.QInt8,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: Iterable[str] | None = None,
    nodes_to_exclude: Iterable[str] | None = None,
    use_external_data_format: bool = False,
    calibrate_method: Any = CalibrationMethod.MinMax,
    calibration_providers: Any = None,
    extra_options: Mapping[str, Any] | None = None,
    calibration_cache_path: str | Path | None = None,
) -> None:
    """Writes a model whose activations are quantized by the ranges that they have on the reader's batches.

    model_input is the path of a model, or an onnx.ModelProto; the other arguments are ONNX Runtime's. The model runs on the
    CPU device, whatever calibration_providers are. memopt.quantize(…, calibrate=…) does the same and reports it.
    """
    if calibration_cache_path is not None:
        raise NotImplementedError("calibration_cache_path: ranges are not kept in files; leave it out, with a calibration_data_reader")
    if calibration_data_reader is None:
        raise ValueError("there is no calibration_data_reader to find the ranges of activations with")
    method = getattr(calibrate_method, "name", str(calibrate_method))
    if method not in ("MinMax", "Entropy", "Percentile"):
        raise ValueError(f"calibrate_method is {calibrate_method}; there are MinMax, Entropy and Percentile here")
    if getattr(quant_format, "name", quant_format) not in ("QDQ", "QOperator"):
        raise ValueError(f"quant_format is {quant_format}; there are QDQ and QOperator")
    settings = _settings(locals(), extra_options, static=True)
    settings["activation_type"] = _type("activation_type", activation_type, static=True)
    settings["quant_format"] = str(getattr(quant_format, "name", quant_format)).lower()
    kinds = (settings["activation_type"], settings["weight_type"])
    if kinds == ("QInt8", "QUInt8"):
        raise ValueError("activations of QInt8 with weights of QUInt8 have no operators; choose QUInt8 activations or QInt8 weights")
    if settings["quant_format"] == "qoperator" and any("16" in kind for kind in kinds):
        raise ValueError("QuantFormat.QOperator has 8-bit integers only; 16-bit types need QuantFormat.QDQ")
    settings["calibrate_method"] = method.lower()
    with _scratch.folder(1 << 30) as folder:
        settings["calibrate"] = os.path.join(folder, "batches")
        settings["calib_strided_min_max"] = batches(calibration_data_reader, settings["calibrate"], settings.pop("calib_strided_min_max", None))
        write(model_input, model_output, settings)
