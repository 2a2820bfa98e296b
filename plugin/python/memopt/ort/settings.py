"""A session's options as settings of the service."""

from __future__ import annotations

import logging
import os

from . import allocators, devices, providers
from .enums import ArenaExtendStrategy, ExecutionMode, GraphOptimizationLevel
from .options import SessionOptions

_log = logging.getLogger("memopt.ort")

_LEVELS = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "off",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "clean",
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: "fuse",
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: "fuse",
    GraphOptimizationLevel.ORT_ENABLE_ALL: "fuse",
}

# Options of providers that mean something here; those of other libraries are told to the log.
_PROVIDER = ("gpu_mem_limit", "arena_extend_strategy", "device_id")


def of(options: SessionOptions, choice: providers.Choice) -> dict[str, str]:
    """The settings for a session with these options on these devices."""
    first = choice.names[0]
    told = {"device": "cpu", "optimize": _LEVELS[options.graph_optimization_level]}
    if not options.enable_mem_pattern or options.execution_mode == ExecutionMode.ORT_PARALLEL:
        told["enable_mem_pattern"] = "off"
    if not options.enable_cpu_mem_arena:
        told["enable_cpu_mem_arena"] = "off"
    entries = options._entries.items()
    found = _registered(options, first)
    if found is not None:
        told |= {"mem_limit" if key == "max_mem" else key: value for key, value in found[1].items()}
    told |= _provider(first, choice.options[first])
    if options.optimized_model_filepath:
        told["optimized_model_filepath"] = os.path.abspath(options.optimized_model_filepath)
        for key, entry in (("optimized_weights_file", "file_name"), ("optimized_weights_from", "min_size_in_bytes")):
            value = entries.get(f"session.optimized_model_external_initializers_{entry}")
            if value is not None:
                told[key] = value
    if options.intra_op_num_threads > 0:
        told["threads"] = str(options.intra_op_num_threads)
    seed = devices.seed()
    if seed is not None:
        told["seed"] = str(seed % 2**64)
    return told


def _provider(name: str, options: dict[str, str]) -> dict[str, str]:
    told = {}
    if name == providers.VULKAN:
        number = _number(name, "device_id", options.get("device_id", "0"))
        told["device"] = f"vulkan:{number}" if number else "vulkan"
    if "gpu_mem_limit" in options:
        limit = _number(name, "gpu_mem_limit", options["gpu_mem_limit"])
        if 0 < limit < 2**63 - 1:  # above is ONNX Runtime's way to say none
            told["mem_limit"] = str(limit)
    strategy = options.get("arena_extend_strategy")
    if strategy is not None:
        known = {s.name: s.name for s in ArenaExtendStrategy} | {str(s.value): s.name for s in ArenaExtendStrategy} | {"planned": "planned"}
        if strategy not in known:
            raise RuntimeError(f"{name}: arena_extend_strategy is {strategy!r}, and there are kNextPowerOfTwo, kSameAsRequested and planned")
        told["arena_extend_strategy"] = known[strategy]
    for key in options:
        if key not in _PROVIDER:
            _log.info("%s: option %s means nothing to memopt and is left out", name, key)
    return told


def arena(options: SessionOptions, choice: providers.Choice) -> str:
    """The name of the arena that the session shares with others of this process; "" is one of its own, which it has if it is
    given a limit or a way to grow that others are not."""
    name = choice.names[0]
    found = _registered(options, name)
    if found is None or name != providers.CPU or found[1].get("enable_cpu_mem_arena") == "off":
        return ""
    return "" if {"gpu_mem_limit", "arena_extend_strategy"} & set(choice.options[name]) else found[0]


def _registered(options: SessionOptions, name: str) -> tuple[str, dict[str, str]] | None:
    if options._entries.items().get("session.use_env_allocators") != "1":
        return None
    return allocators.registered(name == providers.VULKAN)


def _number(name: str, key: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise RuntimeError(f"{name}: {key} is {value!r}, not a whole number of 0 or more")
    return number
