"""The same names, where ONNX Runtime's package has them too."""

from __future__ import annotations

from .onnxruntime_pybind11_state import *  # noqa: F403
