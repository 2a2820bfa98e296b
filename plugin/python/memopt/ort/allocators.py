"""Arenas that sessions share, and how an arena grows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from . import checks
from .device import OrtMemoryInfo
from .enums import ArenaExtendStrategy, OrtAllocatorType, OrtMemoryInfoDeviceType

_FIELDS = (
    "max_mem",
    "arena_extend_strategy",
    "initial_chunk_size_bytes",
    "max_dead_bytes_per_chunk",
    "initial_growth_chunk_size_bytes",
    "max_power_of_two_extend_bytes",
)


class OrtArenaCfg:
    """How an arena grows. -1 is the default of each number, and 0 of max_mem: no limit.

    It takes the first four numbers in order, or a dict of any of them by name.
    """

    __slots__ = _FIELDS

    max_mem: int
    arena_extend_strategy: int
    initial_chunk_size_bytes: int
    max_dead_bytes_per_chunk: int
    initial_growth_chunk_size_bytes: int
    max_power_of_two_extend_bytes: int

    def __init__(self, *numbers: Any) -> None:
        given: Mapping[str, Any]
        if len(numbers) == 1 and isinstance(numbers[0], dict):
            given = numbers[0]
            for name in given:
                if name not in _FIELDS:
                    raise RuntimeError(f"Invalid OrtArenaCfg option: {name}; there are {', '.join(_FIELDS)}")
        elif len(numbers) == 4:
            given = dict(zip(_FIELDS, numbers, strict=False))
        else:
            raise TypeError(f"OrtArenaCfg takes {', '.join(_FIELDS[:4])}, or a dict, not {len(numbers)} arguments")
        self.max_mem = 0
        for name in _FIELDS[1:]:
            setattr(self, name, -1)
        for name, value in given.items():
            try:
                setattr(self, name, value)
            except TypeError as e:
                raise (RuntimeError(str(e)) if len(numbers) == 1 else e) from None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, checks.integer(name, value))


def settings(cfg: OrtArenaCfg) -> dict[str, str]:
    """The settings that are not the default, for the service."""
    told: dict[str, str] = {}
    for name in _FIELDS:
        value = getattr(cfg, name)
        if value == -1 or (name == "max_mem" and value == 0):
            continue
        if name == "arena_extend_strategy":
            if value not in (0, 1):
                raise RuntimeError(f"arena_extend_strategy is 0 for kNextPowerOfTwo or 1 for kSameAsRequested, not {value}")
            told[name] = ArenaExtendStrategy(value).name
        elif value < 0:
            raise RuntimeError(f"{name} is {value}: give bytes, or {0 if name == 'max_mem' else -1} for the default")
        else:
            told[name] = str(value)
    return told


_lock = threading.Lock()
_registered: dict[bool, tuple[int, dict[str, str]]] = {}  # by whether it is a GPU's: how many there were before, and settings


def create_and_register_allocator(mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None = None) -> None:
    """Configures the arena shared by sessions whose entry session.use_env_allocators is 1. Registering again affects
    sessions opened later."""
    checks.instance("create_and_register_allocator()", mem_info, OrtMemoryInfo)
    if mem_info.device_type != OrtMemoryInfoDeviceType.CPU:
        raise RuntimeError(
            "Error when creating and registering allocator: Only CPU devices are supported. Please call CreateAndRegisterAllocatorV2() for other device."
        )
    _register(False, mem_info, arena_cfg)


def create_and_register_allocator_v2(
    provider_type: str, mem_info: OrtMemoryInfo, provider_options: Mapping[str, str], arena_cfg: OrtArenaCfg | None = None
) -> None:
    """The same for the sessions of a provider."""
    from . import providers

    checks.instance("create_and_register_allocator_v2()", mem_info, OrtMemoryInfo)
    if not providers.known(checks.text("create_and_register_allocator_v2()", provider_type)):
        raise RuntimeError(f"Unknown Provider Type: {provider_type}")
    _register(providers.of_gpu(provider_type), mem_info, arena_cfg)


def _register(gpu: bool, mem_info: OrtMemoryInfo, arena_cfg: OrtArenaCfg | None) -> None:
    if arena_cfg is not None:
        checks.instance("arena_cfg", arena_cfg, OrtArenaCfg)
    told = settings(arena_cfg) if arena_cfg is not None else {}
    if not gpu:
        told["enable_cpu_mem_arena"] = "on" if mem_info.allocator_type == OrtAllocatorType.ORT_ARENA_ALLOCATOR else "off"
    with _lock:
        _registered[gpu] = (_registered[gpu][0] + 1 if gpu in _registered else 0, told)


def registered(gpu: bool) -> tuple[str, dict[str, str]] | None:
    """The arena registered for GPUs or for the processor, if any: its name and settings."""
    with _lock:
        if gpu not in _registered:
            return None
        number, told = _registered[gpu]
        return f"registered {number}", dict(told)
