"""The exceptions, and the classes that ONNX Runtime compiles, under the name of its compiled module."""

from __future__ import annotations

from ..allocators import OrtArenaCfg, create_and_register_allocator, create_and_register_allocator_v2
from ..binding import SessionIOBinding
from ..device import OrtDevice, OrtMemoryInfo
from ..devices import (
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from ..enums import (
    ArenaExtendStrategy,
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from ..errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from ..metadata import ModelMetadata, NodeArg, OrtEpDevice, OrtHardwareDevice
from ..options import RunOptions, SessionOptions
from ..session import InferenceSession
from ..sparse import SparseTensor
from ..value import OrtValue, copy_tensors, is_dlpack_uint8_tensor
from ..vector import OrtValueVector

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested

__all__ = [
    "ArenaExtendStrategy", "DeviceReset", "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel",
    "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled", "ModelLoaded", "ModelMetadata",
    "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NodeArg", "NotFound", "NotImplemented", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice",
    "OrtDeviceMemoryType", "OrtEpDevice", "OrtExecutionProviderDevicePolicy", "OrtHardwareDevice", "OrtHardwareDeviceType", "OrtMemType",
    "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue", "OrtValueVector", "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions", "SparseTensor", "copy_tensors",
    "create_and_register_allocator", "create_and_register_allocator_v2", "get_all_providers", "get_available_providers", "get_build_info",
    "get_device", "get_ep_devices", "get_version_string", "is_dlpack_uint8_tensor", "kNextPowerOfTwo", "kSameAsRequested", "set_default_logger_severity",
    "set_default_logger_verbosity", "set_seed",
]  # fmt: skip
