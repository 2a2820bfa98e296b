"""The classes that ONNX Runtime writes in Python, under the name of its module."""

from __future__ import annotations

from ..binding import IOBinding
from ..device import OrtDevice
from ..enums import OrtDeviceVendorId
from ..providers import check_and_normalize_provider_args
from ..session import InferenceSession, Session
from ..value import OrtValue, copy_tensors

__all__ = [
    "IOBinding", "InferenceSession", "OrtDevice", "OrtDeviceVendorId", "OrtValue", "Session", "check_and_normalize_provider_args", "copy_tensors",
]  # fmt: skip
