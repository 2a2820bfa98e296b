"""ONNX Runtime's Python API on the memopt service: programs for ONNX Runtime run with a changed import.

    import memopt.ort as onnxruntime
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    session.run(None, {"x": x})

Exceptions are in memopt.ort.capi.onnxruntime_pybind11_state, quantization in memopt.ort.quantization; its quantize_dynamic
and QuantType are here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .allocators import OrtArenaCfg as OrtArenaCfg
    from .allocators import create_and_register_allocator as create_and_register_allocator
    from .allocators import create_and_register_allocator_v2 as create_and_register_allocator_v2
    from .binding import IOBinding as IOBinding
    from .binding import SessionIOBinding as SessionIOBinding
    from .debug import DebugOptions as DebugOptions
    from .debug import LogLevel as LogLevel
    from .device import OrtDevice as OrtDevice
    from .device import OrtMemoryInfo as OrtMemoryInfo
    from .devices import disable_telemetry_events as disable_telemetry_events
    from .devices import enable_telemetry_events as enable_telemetry_events
    from .devices import get_all_providers as get_all_providers
    from .devices import get_available_providers as get_available_providers
    from .devices import get_build_info as get_build_info
    from .devices import get_device as get_device
    from .devices import get_ep_devices as get_ep_devices
    from .devices import get_version_string as get_version_string
    from .devices import has_collective_ops as has_collective_ops
    from .devices import preload_dlls as preload_dlls
    from .devices import print_debug_info as print_debug_info
    from .devices import register_execution_provider_library as register_execution_provider_library
    from .devices import set_default_logger_severity as set_default_logger_severity
    from .devices import set_default_logger_verbosity as set_default_logger_verbosity
    from .devices import set_global_thread_pool_sizes as set_global_thread_pool_sizes
    from .devices import set_seed as set_seed
    from .devices import unregister_execution_provider_library as unregister_execution_provider_library
    from .enums import ExecutionMode as ExecutionMode
    from .enums import ExecutionOrder as ExecutionOrder
    from .enums import GraphOptimizationLevel as GraphOptimizationLevel
    from .enums import OrtAllocatorType as OrtAllocatorType
    from .enums import OrtDeviceMemoryType as OrtDeviceMemoryType
    from .enums import OrtDeviceVendorId as OrtDeviceVendorId
    from .enums import OrtExecutionProviderDevicePolicy as OrtExecutionProviderDevicePolicy
    from .enums import OrtHardwareDeviceType as OrtHardwareDeviceType
    from .enums import OrtMemoryInfoDeviceType as OrtMemoryInfoDeviceType
    from .enums import OrtMemType as OrtMemType
    from .enums import OrtSparseFormat as OrtSparseFormat
    from .metadata import ModelMetadata as ModelMetadata
    from .metadata import NodeArg as NodeArg
    from .metadata import OrtEpDevice as OrtEpDevice
    from .metadata import OrtHardwareDevice as OrtHardwareDevice
    from .module import ORTModule as ORTModule
    from .options import RunOptions as RunOptions
    from .options import SessionOptions as SessionOptions
    from .quantization import QuantType as QuantType
    from .quantization import quantize_dynamic as quantize_dynamic
    from .session import InferenceSession as InferenceSession
    from .sparse import SparseTensor as SparseTensor
    from .value import OrtValue as OrtValue
    from .value import copy_tensors as copy_tensors

__version__ = "1.31.1"  # the release of ONNX Runtime whose names and behaviour these are

# Where each name is.
_HOMES = {
    "allocators": ("OrtArenaCfg", "create_and_register_allocator", "create_and_register_allocator_v2"),
    "binding": ("IOBinding", "SessionIOBinding"),
    "device": ("OrtDevice", "OrtMemoryInfo"),
    "debug": ("DebugOptions", "LogLevel"),
    "devices": (
        "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
        "get_ep_devices", "get_version_string", "has_collective_ops", "preload_dlls", "print_debug_info", "register_execution_provider_library",
        "set_default_logger_severity", "set_default_logger_verbosity", "set_global_thread_pool_sizes", "set_seed",
        "unregister_execution_provider_library",
    ),
    "enums": (
        "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "OrtAllocatorType", "OrtDeviceMemoryType", "OrtDeviceVendorId",
        "OrtExecutionProviderDevicePolicy", "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfoDeviceType", "OrtSparseFormat",
    ),
    "metadata": ("ModelMetadata", "NodeArg", "OrtEpDevice", "OrtHardwareDevice"),
    "module": ("ORTModule",),
    "options": ("RunOptions", "SessionOptions"),
    "quantization": ("QuantType", "quantize_dynamic"),
    "session": ("InferenceSession",),
    "sparse": ("SparseTensor",),
    "value": ("OrtValue", "copy_tensors"),
}  # fmt: skip
_MODULES = ("capi", "quantization", "training")
_lazy = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [name for name in _lazy if name != "ORTModule"]  # noqa: PLE0604 (all is there without PyTorch)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module("." + name, __name__)
    home = _lazy.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home in ("binding", "session", "value"):
        from importlib.util import find_spec

        if find_spec("numpy") is None:
            raise ImportError(f"{__name__}.{name} needs NumPy: pip install 'memopt[ort]'")
    value = getattr(import_module("." + home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy, *_MODULES})
