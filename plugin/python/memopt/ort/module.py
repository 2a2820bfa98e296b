"""ORTModule and its options over memopt.Module: code written for ONNX Runtime's trainer runs with its import changed.

    from memopt.ort import DebugOptions, LogLevel, ORTModule
    model = ORTModule(model, DebugOptions(log_level=LogLevel.INFO))

The levels, the files of clusters, the table and the variables (ORTMODULE_MEMORY_OPT_LEVEL, …) are ONNX Runtime's. The step
runs in the memopt service.
"""

from __future__ import annotations

import enum
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import torch

from .. import _arguments, _binary
from .._visible import lines
from ..errors import MemoptError
from ..torch.module import Module
from ..torch.session import Look

_LEVEL = "ORTMODULE_MEMORY_OPT_LEVEL"
_CONFIG = "ORTMODULE_MEMORY_OPT_CONFIG"
_LOG_LEVEL = "ORTMODULE_LOG_LEVEL"
_SAVE_PATH = "ORTMODULE_SAVE_ONNX_PATH"
_FALLBACK = "ORTMODULE_FALLBACK_POLICY"

_log = logging.getLogger("memopt.ort")


class SettingError(MemoptError, ValueError):
    """A variable of ORTModule's has a value that it cannot have."""


class LogLevel(enum.IntEnum):
    """What is told: WARNING a line of whether the memory optimizer is on, INFO its table, DEVINFO a report by nodes too."""

    VERBOSE = 0
    DEVINFO = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


# The names of the levels as settings of memopt.
_SETTINGS_OF = {
    LogLevel.VERBOSE: "debug", LogLevel.DEVINFO: "devinfo", LogLevel.INFO: "info", LogLevel.WARNING: "warn", LogLevel.ERROR: "error", LogLevel.FATAL: "fatal",
}  # fmt: skip


class SaveOptions:
    """Whether graphs are saved, where, and what their names begin with."""

    def __init__(self, save: bool, name_prefix: str) -> None:
        self.save = bool(save)
        self.name_prefix = name_prefix
        self.path = os.environ.get(_SAVE_PATH) or os.getcwd()
        if not self.save:
            return
        if not name_prefix:
            raise ValueError("save_onnx needs onnx_prefix, which the names of the files begin with")
        if os.path.basename(name_prefix) != name_prefix:
            raise ValueError(f"onnx_prefix is {name_prefix!r}, a path; name the folder by {_SAVE_PATH}")
        if not os.path.isdir(self.path) or not os.access(self.path, os.W_OK):
            raise OSError(f"{self.path} is not a folder that can be written to; set {_SAVE_PATH} to one")

    def file(self, what: str) -> str:
        """The path of a graph."""
        return os.path.join(os.path.abspath(self.path), f"{self.name_prefix}_{what}.onnx")


class LoggingOptions:
    """The level at which is told what is done; the environment goes before the program."""

    def __init__(self, log_level: LogLevel) -> None:
        named = os.environ.get(_LOG_LEVEL)
        if named and named not in LogLevel.__members__:
            raise SettingError(f"{_LOG_LEVEL}: {named!r} is not a log level, use {', '.join(LogLevel.__members__)}", code="INVALID_ARGUMENT")
        self.log_level = LogLevel[named] if named else LogLevel(log_level)


class DebugOptions:
    """What ORTModule tells, and which graphs it saves.

    log_level    ORTMODULE_LOG_LEVEL goes before it
    save_onnx    saves PREFIX_optimized_training.onnx, the step before it is planned, and PREFIX_execution_model_training.onnx,
                 the step as it runs, in the folder that ORTMODULE_SAVE_ONNX_PATH names or the current one
    onnx_prefix  what their names begin with
    """

    def __init__(self, log_level: LogLevel = LogLevel.WARNING, save_onnx: bool = False, onnx_prefix: str = "") -> None:
        self._save_onnx_models = SaveOptions(save_onnx, onnx_prefix)
        self._logging = LoggingOptions(log_level)

    @property
    def save_onnx_models(self) -> SaveOptions:
        return self._save_onnx_models

    @property
    def logging(self) -> LoggingOptions:
        return self._logging

    @property
    def log_level(self) -> LogLevel:
        return self._logging.log_level


class ORTModule(Module):
    """A module whose training step runs under ONNX Runtime's memory optimizer, in the memopt service.

    ORTMODULE_MEMORY_OPT_LEVEL   0 the clusters that the next names, 1 all clusters of each transformer layer, 2 compromises too
    ORTMODULE_MEMORY_OPT_CONFIG  the path of a JSON file like ["BiasGelu+:1:-1"], or the clusters with commas between
    ORTMODULE_LOG_LEVEL, ORTMODULE_SAVE_ONNX_PATH   see DebugOptions
    ORTMODULE_FALLBACK_POLICY    FALLBACK_DISABLE raises where the step cannot run in the service; otherwise the module runs in PyTorch then

    They are read when the module is made. So are memopt's own, MEMOPT_BUDGET for one, when it first trains. Names in state_dict and
    everything else are the module's own; evaluation is PyTorch's.
    """

    def __init__(self, module: torch.nn.Module, debug_options: DebugOptions | None = None) -> None:
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"ORTModule takes a torch.nn.Module, not {type(module).__name__}")
        if debug_options is not None and not isinstance(debug_options, DebugOptions):
            raise TypeError(f"debug_options is {debug_options!r}; give a DebugOptions")
        options = debug_options or DebugOptions()
        policy = _policy()
        _check()
        settings: dict[str, Any] = {"level": int(os.environ.get(_LEVEL) or 0), "log": _SETTINGS_OF[options.log_level]}
        if config := os.environ.get(_CONFIG):
            settings["config"] = _arguments.config("config", config)
        own = self.__dict__
        own["_debug_options"] = options
        own["_in_torch"] = bool(policy & {"FALLBACK_FORCE_TORCH_FORWARD", "FALLBACK_FORCE_TORCH_BACKWARD"})
        super().__init__(module, fallback="raise" if policy == {"FALLBACK_DISABLE"} else "warn", **settings)

    @property
    def module(self) -> torch.nn.Module:
        """The module that was given."""
        return self.original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__["_in_torch"]:
            return self.original(*args, **kwargs)
        return super().forward(*args, **kwargs)

    def _looking(self) -> Look:
        return _Look(self.__dict__["_debug_options"])

    def __reduce__(self) -> tuple[Any, ...]:
        return ORTModule, (self.original, self.__dict__["_debug_options"])


class _Look:
    """What is asked of a plan beside the plan, and what becomes of the answer."""

    def __init__(self, options: DebugOptions) -> None:
        self._level = options.log_level
        self._save = options.save_onnx_models

    def request(self) -> dict[str, Any]:
        """Fields of the request for a plan."""
        fields: dict[str, Any] = {"show": ["ort"]} if self._level <= LogLevel.WARNING else {}
        if self._save.save:
            fields["save_before"] = self._save.file("optimized_training")
            fields["save_after"] = self._save.file("execution_model_training")
        return fields

    def told(self, shown: str, warnings: Sequence[str]) -> None:
        if self._level <= LogLevel.WARNING:
            for warning in warnings:
                _say("memopt: warning: " + warning)
        if self._level == LogLevel.WARNING:
            shown = shown.partition("\n")[0]
        if shown.strip():
            _say(shown.rstrip("\n"))


def _say(text: str) -> None:
    """Logs a text where somebody listens, and prints it on standard error otherwise, as ONNX Runtime does."""
    text = lines(text)
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            _log.warning("%s", text)
            return
        logger = logger.parent if logger.propagate else None
    print(text, file=sys.stderr, flush=True)


def _policy() -> set[str]:
    """What ORTMODULE_FALLBACK_POLICY says."""
    known = (
        "FALLBACK_DISABLE", "FALLBACK_FORCE_TORCH_FORWARD", "FALLBACK_FORCE_TORCH_BACKWARD", "FALLBACK_UNSUPPORTED_DEVICE", "FALLBACK_UNSUPPORTED_DATA",
        "FALLBACK_UNSUPPORTED_TORCH_MODEL", "FALLBACK_UNSUPPORTED_ONNX_MODEL", "FALLBACK_BAD_INITIALIZATION",
    )  # fmt: skip
    named = {part.strip() for part in os.environ.get(_FALLBACK, "").split("|")} - {""}
    unknown = sorted(named - set(known))
    if unknown:
        raise SettingError(f"{_FALLBACK}: {unknown[0]!r} is not a policy, use {', '.join(known)}, or several with | between", code="INVALID_ARGUMENT")
    return named


def _check() -> None:
    """Has the binary read the variables: what is wrong with one is an error here, and not a reason to train without it."""
    binary = _binary.find()
    try:
        done = subprocess.run([binary, "config", "--format", "json"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise MemoptError(f"cannot start {binary}: {e}", code="NOT_STARTED", binary=binary) from None
    if done.returncode != 0:
        raise SettingError(done.stderr.strip().removeprefix("memopt: "), code="INVALID_ARGUMENT", binary=binary)
    for line in done.stderr.splitlines():
        _say(line)
