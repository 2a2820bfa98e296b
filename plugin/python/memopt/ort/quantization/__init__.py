"""ONNX Runtime's quantization, under its names: quantize_dynamic, quantize_static, and what they take."""

from __future__ import annotations

from .calibrate import CalibrationDataReader, CalibrationMethod
from .quant_utils import QuantFormat, QuantizationMode, QuantType
from .quantize import DynamicQuantConfig, QuantConfig, StaticQuantConfig, quantize, quantize_dynamic, quantize_static
from .shape_inference import quant_pre_process

__all__ = [
    "CalibrationDataReader",
    "CalibrationMethod",
    "DynamicQuantConfig",
    "QuantConfig",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "StaticQuantConfig",
    "quant_pre_process",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
]
