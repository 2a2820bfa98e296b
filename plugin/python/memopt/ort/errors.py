"""The exceptions of ONNX Runtime's Python surface. Like there, none of them is a RuntimeError."""

from __future__ import annotations

_HOME = "memopt.ort.capi.onnxruntime_pybind11_state"


class Status(Exception):
    """An error with the number and the name that ONNX Runtime gives it."""

    code = 1
    status = "FAIL"
    message = ""  # without these two

    def __init_subclass__(cls) -> None:
        cls.__module__ = _HOME  # where programs import it from


class Fail(Status):
    """A model cannot be opened, or a run cannot be done."""


class InvalidArgument(Status):
    """What was given does not go with the model."""

    code, status = 2, "INVALID_ARGUMENT"


class NoSuchFile(Status):
    """There is no such model file."""

    code, status = 3, "NO_SUCHFILE"


class NoModel(Status):
    """A session without a model."""

    code, status = 4, "NO_MODEL"


class EngineError(Status):
    """The engine failed."""

    code, status = 5, "ENGINE_ERROR"


class RuntimeException(Status):
    """A node failed while it ran."""

    code, status = 6, "RUNTIME_EXCEPTION"


class InvalidProtobuf(Status):
    """A model's bytes are not ONNX."""

    code, status = 7, "INVALID_PROTOBUF"


class ModelLoaded(Status):
    """A model was loaded before."""

    code, status = 8, "MODEL_LOADED"


class NotImplemented(Status):
    """An operator, a type or a call that memopt has not."""

    code, status = 9, "NOT_IMPLEMENTED"


class InvalidGraph(Status):
    """A model's graph is wrong."""

    code, status = 10, "INVALID_GRAPH"


class EPFail(Status):
    """A device failed."""

    code, status = 11, "EP_FAIL"


class ModelLoadCanceled(Status):
    """Loading was given up."""

    code, status = 12, "MODEL_LOAD_CANCELED"


class ModelRequiresCompilation(Status):
    """A model has to be compiled first."""

    code, status = 13, "MODEL_REQUIRES_COMPILATION"


class NotFound(Status):
    """Something that was named is not there."""

    code, status = 14, "NOT_FOUND"


class DeviceReset(Status):
    """A device was reset."""

    code, status = 15, "DEVICE_RESET"


ALL: tuple[type[Status], ...] = (
    DeviceReset, EPFail, EngineError, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled, ModelLoaded,
    ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented, RuntimeException,
)  # fmt: skip


def status(kind: type[Status], message: str) -> Status:
    """An exception whose text begins as ONNX Runtime's do, which programs match."""
    made = kind(f"[ONNXRuntimeError] : {kind.code} : {kind.status} : {message}")
    made.message = message
    return made


def unpicklable(value: object) -> TypeError:
    """What pickle is told of a thing that belongs to this process."""
    return TypeError(f"cannot pickle '{type(value).__module__}.{type(value).__qualname__}' object")
