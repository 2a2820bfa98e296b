"""The exceptions of ONNX Runtime's Python API. As there, none is a RuntimeError."""

from __future__ import annotations

_HOME = "memopt.ort.capi.onnxruntime_pybind11_state"


class Status(Exception):
    """An error with ONNX Runtime's number and name."""

    code = 1
    status = "FAIL"
    message = ""  # without these two

    def __init_subclass__(cls) -> None:
        cls.__module__ = _HOME  # where programs import it from


class Fail(Status):
    """A model cannot be opened or run."""


class InvalidArgument(Status):
    """An argument does not match the model."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status):
    """The model file does not exist."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(Status):
    """A session without a model."""

    code, status = 4, "NO_MODEL"


class EngineError(Status):
    """The engine failed."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(Status):
    """A node failed when it ran."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status):
    """A model's bytes are not ONNX."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status):
    """A model is loaded already."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(Status):
    """An operator, type or call is not supported by memopt."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(Status):
    """A model's graph is wrong."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(Status):
    """A device failed."""

    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(Status):
    """Loading was cancelled."""

    code, status = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(Status):
    """A model has to be compiled first."""

    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(Status):
    """Something named does not exist."""

    code, status = 14, "NOT_FOUND"


class DeviceReset(Status):
    """A device was reset."""

    code, status = 15, "DEVICE_RESET"


ALL: tuple[type[Status], ...] = (
    DeviceReset, EPFail, EngineError, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled, ModelLoaded,
    ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented, RuntimeException,
)  # fmt: skip


def status(kind: type[Status], message: str) -> Status:
    """An exception whose text begins like ONNX Runtime's, as programs match it."""
    made = kind(f"[ONNXRuntimeError] : {kind.code} : {kind.status} : {message}")
    made.message = message
    return made


def unpicklable(value: object) -> TypeError:
    """The error of pickling an object that belongs to this process."""
    return TypeError(f"cannot pickle '{type(value).__module__}.{type(value).__qualname__}' object")
