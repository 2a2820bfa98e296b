"""ORTModule's options for logging and for saving graphs; does not import PyTorch."""

from __future__ import annotations

import enum
import os

from ..errors import MemoptError

_LOG_LEVEL = "ORTMODULE_LOG_LEVEL"
_SAVE_PATH = "ORTMODULE_SAVE_ONNX_PATH"


class SettingError(MemoptError, ValueError):
    """An environment variable of ORTModule has an invalid value."""


class LogLevel(enum.IntEnum):
    """The log level: WARNING prints whether the memory optimizer is on, INFO also its table, DEVINFO also a report by nodes."""

    VERBOSE = 0
    DEVINFO = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


# The names of the levels as settings of memopt.
SETTINGS = {
    LogLevel.VERBOSE: "debug", LogLevel.DEVINFO: "devinfo", LogLevel.INFO: "info", LogLevel.WARNING: "warn", LogLevel.ERROR: "error", LogLevel.FATAL: "fatal",
}  # fmt: skip


class SaveOptions:
    """Whether and where graphs are saved, and the prefix of their names."""

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
    """The log level; the environment overrides the program."""

    def __init__(self, log_level: LogLevel) -> None:
        named = os.environ.get(_LOG_LEVEL)
        if named and named not in LogLevel.__members__:
            raise SettingError(f"{_LOG_LEVEL}: {named!r} is not a log level, use {', '.join(LogLevel.__members__)}", code="INVALID_ARGUMENT")
        self.log_level = LogLevel[named] if named else LogLevel(log_level)


class DebugOptions:
    """ORTModule's logging, and the graphs that it saves.

    log_level    overridden by ORTMODULE_LOG_LEVEL
    save_onnx    saves PREFIX_optimized_training.onnx, the step before it is planned, and PREFIX_execution_model_training.onnx,
                 the step as it runs, in the folder that ORTMODULE_SAVE_ONNX_PATH names or the current one
    onnx_prefix  the prefix of their names
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
