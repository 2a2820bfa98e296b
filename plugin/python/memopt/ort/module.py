"""ORTModule and its options on memopt.Module: code for ONNX Runtime's trainer runs with a changed import.

    from memopt.ort import DebugOptions, LogLevel, ORTModule
    model = ORTModule(model, DebugOptions(log_level=LogLevel.INFO))

The levels, the files of clusters, the table and the variables (ORTMODULE_MEMORY_OPT_LEVEL, …) are ONNX Runtime's. The step
runs in the memopt service.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _arguments, _binary
from .._visible import lines
from ..errors import MemoptError
from ..torch.serve.module import Module
from .debug import SETTINGS, DebugOptions, LogLevel, SettingError

if TYPE_CHECKING:
    import torch

    from ..torch.serve.session import Look

_LEVEL = "ORTMODULE_MEMORY_OPT_LEVEL"
_CONFIG = "ORTMODULE_MEMORY_OPT_CONFIG"
_FALLBACK = "ORTMODULE_FALLBACK_POLICY"

_log = logging.getLogger("memopt.ort")


class ORTModule(Module):
    """A module whose training step runs under ONNX Runtime's memory optimizer, in the memopt service.

    ORTMODULE_MEMORY_OPT_LEVEL   0 the clusters in the config, 1 all clusters of each transformer layer, 2 also compromises
    ORTMODULE_MEMORY_OPT_CONFIG  the path of a JSON file like ["BiasGelu+:1:-1"], or the clusters separated by commas
    ORTMODULE_LOG_LEVEL, ORTMODULE_SAVE_ONNX_PATH   see DebugOptions
    ORTMODULE_FALLBACK_POLICY    FALLBACK_DISABLE raises if the step cannot run in the service; otherwise the module then runs in PyTorch

    They are read when the module is created; memopt's own variables, such as MEMOPT_BUDGET, at the first training step. Names in state_dict and
    all other attributes are the module's own; evaluation runs in PyTorch.
    """

    def __init__(self, module: torch.nn.Module, debug_options: DebugOptions | None = None) -> None:
        if debug_options is not None and not isinstance(debug_options, DebugOptions):
            raise TypeError(f"debug_options is {debug_options!r}; give a DebugOptions")
        options = debug_options or DebugOptions()
        policy = _policy()
        _check()
        settings: dict[str, Any] = {"level": int(os.environ.get(_LEVEL) or 0), "log": SETTINGS[options.log_level]}
        if config := os.environ.get(_CONFIG):
            settings["config"] = _arguments.config("config", config)
        own = self.__dict__
        own["_debug_options"] = options
        own["_in_torch"] = bool(policy & {"FALLBACK_FORCE_TORCH_FORWARD", "FALLBACK_FORCE_TORCH_BACKWARD"})
        super().__init__(module, fallback="raise" if policy == {"FALLBACK_DISABLE"} else "warn", **settings)

    @property
    def module(self) -> torch.nn.Module:
        """The wrapped module."""
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
    """Requests additional output about a plan, and prints or saves it."""

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
    """Logs a text if logging is configured, else prints it on standard error, as ONNX Runtime does."""
    text = lines(text)
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            _log.warning("%s", text)
            return
        logger = logger.parent if logger.propagate else None
    print(text, file=sys.stderr, flush=True)


def _policy() -> set[str]:
    """The policy in ORTMODULE_FALLBACK_POLICY."""
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
    """Lets the binary check the variables: a mistake in one is an error, not a reason to train without it."""
    binary = _binary.find()
    try:
        done = subprocess.run([binary, "config", "--format", "json"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise MemoptError(f"cannot start {binary}: {e}", code="NOT_STARTED", binary=binary) from None
    if done.returncode != 0:
        raise SettingError(done.stderr.strip().removeprefix("memopt: "), code="INVALID_ARGUMENT", binary=binary)
    for line in done.stderr.splitlines():
        _say(line)
