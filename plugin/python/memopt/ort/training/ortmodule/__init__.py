"""Where ONNX Runtime has ORTModule: memopt.ort.training.ortmodule for onnxruntime.training.ortmodule."""

from ...debug import DebugOptions as DebugOptions
from ...debug import LogLevel as LogLevel
from ...module import ORTModule as ORTModule

__all__ = ["DebugOptions", "LogLevel", "ORTModule"]
