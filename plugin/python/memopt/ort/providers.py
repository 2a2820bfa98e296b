"""Execution providers: the available ones, and the meaning of names that programs use.

The service has two devices: the processor, and a GPU through Vulkan. Names of other GPU libraries stand for Vulkan, or for
the processor where there is no Vulkan, and the log says so once.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

_log = logging.getLogger("memopt.ort")

CPU = "CPUExecutionProvider"
VULKAN = "VulkanExecutionProvider"

# Every name that ONNX Runtime knows, and our own, and whether it is of a GPU.
_NAMES = {
    VULKAN: True,
    "NvTensorRTRTXExecutionProvider": True,
    "NvTensorRtRtxExecutionProvider": True,
    "TensorrtExecutionProvider": True,
    "CUDAExecutionProvider": True,
    "ROCMExecutionProvider": True,
    "MIGraphXExecutionProvider": True,
    "DmlExecutionProvider": True,
    "WebGpuExecutionProvider": True,
    "OpenVINOExecutionProvider": False,
    "DnnlExecutionProvider": False,
    "VitisAIExecutionProvider": False,
    "QNNExecutionProvider": False,
    "NnapiExecutionProvider": False,
    "VSINPUExecutionProvider": False,
    "JsExecutionProvider": False,
    "CoreMLExecutionProvider": False,
    "ACLExecutionProvider": False,
    "ArmNNExecutionProvider": False,
    "RknpuExecutionProvider": False,
    "TvmExecutionProvider": False,
    "WebNNExecutionProvider": False,
    "XnnpackExecutionProvider": False,
    "CANNExecutionProvider": False,
    "AzureExecutionProvider": False,
    CPU: False,
}

_told: set[str] = set()


def known(name: str) -> bool:
    """Whether ONNX Runtime or memopt has a provider of this name."""
    return name in _NAMES


def of_gpu(name: str) -> bool:
    """Whether a provider is for GPUs."""
    return _NAMES[name]


def every() -> list[str]:
    """All known names."""
    return list(_NAMES)


def available() -> list[str]:
    """The devices of the service, best first."""
    from .engine import devices

    return [VULKAN, CPU] if "vulkan" in devices() else [CPU]


def check_and_normalize_provider_args(providers: Any, provider_options: Any, available_provider_names: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    """The names and options that a program gave, as returned by ONNX Runtime's function of this name."""
    pairs = normalize(providers, provider_options)
    for name, _ in pairs:
        if name not in available_provider_names:
            warnings.warn(f"Specified provider '{name}' is not in available provider names.Available providers: '{', '.join(available_provider_names)}'", stacklevel=2)
    return [name for name, _ in pairs], [options for _, options in pairs]


class Choice(NamedTuple):
    """The devices of a session, in the order of preference, with the options of each."""

    names: list[str]
    options: dict[str, dict[str, str]]


def normalize(providers: Any, provider_options: Any) -> list[tuple[str, dict[str, str]]]:
    """The program's providers as pairs of a name and its options."""
    if providers is None:
        return []
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if provider_options is not None:
        if not isinstance(provider_options, Sequence):
            raise ValueError("'provider_options' should be a sequence.")
        if len(providers) != len(provider_options):
            raise ValueError("'providers' and 'provider_options' should be the same length if both are given.")
        if not all(isinstance(p, str) for p in providers):
            raise ValueError("Only string values for 'providers' are supported if 'provider_options' is given.")
        if not all(isinstance(o, dict) for o in provider_options):
            raise ValueError("'provider_options' values must be dicts.")
        pairs = list(zip(providers, provider_options, strict=True))
    else:
        pairs = []
        for p in providers:
            if isinstance(p, str):
                pairs.append((p, {}))
            elif isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) and isinstance(p[1], dict):
                pairs.append(p)
            else:
                raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
    found: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
            continue
        found[name] = {str(k): str(v) for k, v in options.items()}
    return list(found.items())


def choose(asked: list[tuple[str, dict[str, str]]]) -> Choice:
    """The devices that a session runs on for the requested providers."""
    names: list[str] = []
    options: dict[str, dict[str, str]] = {}
    gpu = None
    for name, given in asked:
        if name not in _NAMES:
            raise RuntimeError(f"Unknown Provider Type: {name}")
        here = name
        if name not in (CPU, VULKAN):
            here = VULKAN if _NAMES[name] else CPU
        if here == VULKAN:
            if gpu is None:
                gpu = VULKAN in available()
            if not gpu:
                here = CPU
        if here != name:
            _tell(name, here)
        if here in options:
            continue
        names.append(here)
        options[here] = given if here == name or here == VULKAN else {k: given[k] for k in ("gpu_mem_limit", "arena_extend_strategy") if k in given}
    if CPU not in options:
        names.append(CPU)
        options[CPU] = {}
    return Choice(names, options)


def _tell(name: str, here: str) -> None:
    if name in _told:
        return
    _told.add(name)
    where = "a GPU through Vulkan" if here == VULKAN else "the processor, for there is no Vulkan device" if _NAMES[name] else "the processor"
    text = f"Specified provider '{name}' is not in available provider names: what asks for it runs as '{here}', on {where}"
    _log.warning("%s", text)
    warnings.warn(text, stacklevel=6)


_DEVICES = {"cuda": "CUDAExecutionProvider", "dml": "DmlExecutionProvider", "rocm": "ROCMExecutionProvider", "hip": "MIGraphXExecutionProvider",
            "webgpu": "WebGpuExecutionProvider", "cann": "CANNExecutionProvider"}  # fmt: skip


def tell_of_device(name: str) -> None:
    """Logs once what a device of another library means here, also for a program that creates values before sessions."""
    provider = _DEVICES.get(name)
    if provider is not None:
        choose([(provider, {})])
