"""The devices of this machine in ONNX Runtime's terms, and process-wide settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .. import __version__ as _memopt_version
from . import checks, engine, errors, providers
from .enums import OrtDeviceVendorId, OrtHardwareDeviceType
from .metadata import OrtEpDevice, OrtHardwareDevice

# The release of ONNX Runtime whose names and behaviour these are.
VERSION = "1.31.1"

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def get_available_providers() -> list[str]:
    """The devices that sessions can run on here, best first."""
    return providers.available()


def get_all_providers() -> list[str]:
    """All known names, including devices that this machine lacks."""
    return providers.every()


def get_device() -> str:
    """The kind of the best device: GPU or CPU."""
    return "GPU" if providers.VULKAN in providers.available() else "CPU"


def get_ep_devices() -> list[OrtEpDevice]:
    """The devices of this machine, best first."""
    names = {"vulkan": (providers.VULKAN, OrtHardwareDeviceType.GPU), "cpu": (providers.CPU, OrtHardwareDeviceType.CPU)}
    found = []
    for kind, name in engine.devices().items():
        if kind in names:
            provider, hardware = names[kind]
            device = OrtHardwareDevice(hardware, name, OrtDeviceVendorId.NONE, 0, {"description": name})
            found.append(OrtEpDevice(provider, "memopt", {"version": _memopt_version}, {}, device))
    return found


def get_version_string() -> str:
    """The release of ONNX Runtime whose behaviour is implemented."""
    return VERSION


def get_build_info() -> str:
    """A description of this implementation of ONNX Runtime's API."""
    return f"ORT Build Info: memopt {_memopt_version}, with the surface of ONNX Runtime {VERSION}"


def has_collective_ops() -> bool:
    """False: a session is of one process."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """Sets the level of the logger memopt.ort: 0 all, 1 info, 2 warnings, 3 errors, 4 fatal errors."""
    if not 0 <= checks.integer("set_default_logger_severity()", severity) <= 4:
        raise RuntimeError("Invalid logging severity. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")
    logging.getLogger("memopt.ort").setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted without effect: there is one verbose level."""
    checks.integer("set_default_logger_verbosity()", verbosity)


_seed: int | None = None


def set_seed(seed: int) -> None:
    """Sets the seed of random operators in sessions opened from now on."""
    global _seed
    _seed = checks.integer("set_seed()", seed)


def seed() -> int | None:
    """The seed that was set."""
    return _seed


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Accepted without effect: the service has one thread per processor."""
    checks.int32("set_global_thread_pool_sizes()", intra_op)
    checks.int32("set_global_thread_pool_sizes()", inter_op)


def enable_telemetry_events() -> None:
    """Does nothing: no telemetry is ever sent."""


def disable_telemetry_events() -> None:
    """Does nothing: no telemetry is ever sent."""


def register_execution_provider_library(name: str, path: str) -> None:
    """Raises: devices of another library cannot run in the service."""
    raise errors.status(errors.NotImplemented, f"{name}: libraries of execution providers are not supported; there are {', '.join(providers.available())}")


def unregister_execution_provider_library(name: str) -> None:
    """Raises: no library can be registered."""
    raise errors.status(errors.InvalidArgument, f"Execution provider library: {name} was not registered.")


def preload_dlls(*_: Any, **__: Mapping[str, Any]) -> None:
    """Does nothing: there are no CUDA libraries to load."""


def print_debug_info() -> None:
    """Prints a description of this implementation of ONNX Runtime's API."""
    import platform

    print(get_build_info())
    print("platform:", platform.platform())
    for kind, name in engine.devices().items():
        print(f"device: {kind}: {name}")
