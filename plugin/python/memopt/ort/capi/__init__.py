"""The modules in which ONNX Runtime's programs look for exceptions and for the classes behind the package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = ("_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
