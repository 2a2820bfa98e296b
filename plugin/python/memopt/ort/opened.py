"""A model that is held open: what it takes and gives, and the runs of it. InferenceSession is the face of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError, MemoptError
from . import errors, providers, settings
from .engine import Engine, Fetch, Fetched, Given
from .metadata import ModelMetadata, NodeArg
from .options import RunOptions, SessionOptions
from .types import ELEMENT_TYPES
from .value import OrtValue

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

SHRINK = "memory.enable_memory_arena_shrinkage"


class Opened:
    """One session of the service, by the names of its model."""

    def __init__(self, path: str, data: bytes, options: SessionOptions, choice: providers.Choice) -> None:
        self.options = options
        self.choice = choice
        try:
            self.engine = Engine(path, data, settings.of(options, choice), _given(options))
        except MemoptError as e:
            raise opening(e, path) from e
        told = self.engine.told
        more = json.loads(told.json or "{}")
        self.inputs: dict[str, NodeArg] = {}
        self.required = [_arg(v.name, v.type, v.shape) for v in told.inputs]
        self.overridable = [_arg(v["name"], v["type"], v.get("shape") or []) for v in more.get("overridable") or []]
        self.inputs = {a.name: a for a in [*self.required, *self.overridable]}
        self.outputs = {a.name: a for a in (_arg(v.name, v.type, v.shape) for v in told.outputs)}
        self.metadata = ModelMetadata.of(more)

    def names(self, asked: Sequence[str] | None) -> list[str]:
        """The outputs to fetch: all if none is asked for."""
        if not asked:
            return list(self.outputs)
        if isinstance(asked, str) or not all(isinstance(n, str) for n in asked):
            raise TypeError(f"output_names takes a list of str, not {asked!r}")
        for name in asked:
            if name not in self.outputs:
                raise errors.status(errors.InvalidArgument, f"Invalid output name:{name}; the model has {', '.join(self.outputs)}")
        return list(asked)

    def missing(self, given: Iterable[str]) -> list[str]:
        """The required inputs that are not among these."""
        names = set(given)
        return [a.name for a in self.required if a.name not in names]

    def check_input(self, name: str, value: OrtValue) -> None:
        """Refuses a value that the model does not take."""
        arg = self.inputs.get(name)
        if arg is None:
            raise errors.status(errors.InvalidArgument, f"Invalid input name: {name}; the model has {', '.join(self.inputs)}")
        if value.data_type() != arg.type:
            raise errors.status(
                errors.InvalidArgument, f"Unexpected input data type. Actual: ({value.data_type()}) , expected: ({arg.type}) for input {name}"
            )
        _check_shape("input", arg, value.shape())

    def check_output(self, name: str, value: OrtValue) -> None:
        """Refuses memory that an output cannot be written to."""
        arg = self.outputs[name]
        if value.data_type() != arg.type:
            raise errors.status(
                errors.InvalidArgument, f"Unexpected output data type. Actual: ({value.data_type()}) , expected: ({arg.type}) for output {name}"
            )
        _check_shape("output", arg, value.shape())
        if not value._array.flags.writeable:
            raise errors.status(errors.InvalidArgument, f"output {name} is bound to an array that cannot be written to")

    def run(self, feeds: Mapping[str, OrtValue], fetches: Sequence[Fetch], options: RunOptions | None) -> list[Fetched]:
        """Runs the model for values that fit."""
        told: dict[str, str] = {}
        if options is not None:
            if options.terminate:
                raise errors.status(errors.Fail, "Exiting due to terminate flag being set to true.")
            entries = options._entries.items()
            if SHRINK in entries:
                told[SHRINK] = self._arenas(entries[SHRINK])
        inputs = [(name, value._type, value._array) for name, value in feeds.items()]
        distinct = list({f.name: f for f in fetches}.values())
        begun: Callable[[Any], None] | None = options._begun if options is not None else None
        try:
            made = self.engine.run(inputs, distinct, told, begun)
        except MemoptError as e:
            if e.code == "CANCELLED" and options is not None and options.terminate:
                raise errors.status(errors.Fail, "Exiting due to terminate flag being set to true.") from e
            raise running(e) from e
        by_name = dict(zip((f.name for f in distinct), made, strict=True))
        return [by_name[f.name] for f in fetches]

    def _arenas(self, entry: str) -> str:
        """The arenas to shrink that an entry like cpu:0;gpu:0 names, as the service has them."""
        chosen = []
        arenas = {"cpu:0"} if self.options.enable_cpu_mem_arena else set()
        if providers.VULKAN in self.choice.options:
            arenas.add(f"gpu:{self.choice.options[providers.VULKAN].get('device_id', '0')}")
        for part in entry.split(";"):
            name, _, number = part.strip().partition(":")
            if not name and not number:
                continue
            if name not in ("cpu", "gpu"):
                raise errors.status(errors.InvalidArgument, f"Unsupported device specified in the memory arena shrink list: {name}; there are cpu and gpu")
            number = number or "0"
            if not number.isdecimal():
                raise errors.status(errors.InvalidArgument, f"Unsupported device id in the memory arena shrink list: {number}")
            if f"{name}:{int(number)}" not in arenas:
                there = f"this session has {', '.join(sorted(arenas))}" if arenas else "this session has none"
                raise errors.status(
                    errors.InvalidArgument,
                    f"Did not find an arena based allocator registered for device-id combination in the memory arena shrink list: {name}:{number}; {there}",
                )
            chosen.append(f"{name}:0")
        return ";".join(dict.fromkeys(chosen))


def _arg(name: str, type: str, shape: Sequence[str]) -> NodeArg:
    dims: list[int | str | None] = [int(d) if d.isdecimal() else d or None for d in shape]
    service = {t.service: t.tensor for t in ELEMENT_TYPES if t.service}
    return NodeArg(name, service.get(type, type), dims)


def _check_shape(what: str, arg: NodeArg, shape: Sequence[int]) -> None:
    if not arg.shape:
        return  # a scalar, or a shape that the model does not give
    if len(shape) != len(arg.shape):
        raise errors.status(
            errors.InvalidArgument,
            f"Invalid rank for {what}: {arg.name} Got: {len(shape)} Expected: {len(arg.shape)} Please fix either the inputs/outputs or the model.",
        )
    wrong = [f" index: {i} Got: {got} Expected: {want}" for i, (got, want) in enumerate(zip(shape, arg.shape, strict=True)) if isinstance(want, int) and got != want]
    if wrong:
        raise errors.status(
            errors.InvalidArgument,
            "\n".join([f"Got invalid dimensions for {what}: {arg.name} for the following indices", *wrong])
            + "\n Please fix either the inputs/outputs or the model.",
        )


def opening(e: MemoptError, path: str) -> Exception:
    """What ONNX Runtime raises where the service cannot open a model."""
    where = f"Load model from {path} failed:" if path else ""
    if e.code == "UNIMPLEMENTED":
        return errors.status(errors.NotImplemented, where + str(e))
    if e.code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED") or isinstance(e, BudgetError):
        return errors.status(errors.Fail, where + str(e))
    return errors.status(errors.EngineError, where + str(e))


def running(e: MemoptError) -> Exception:
    """What ONNX Runtime raises where the service cannot run a model."""
    if e.code == "INVALID_ARGUMENT":
        return errors.status(errors.InvalidArgument, str(e))
    if e.code == "UNIMPLEMENTED":
        return errors.status(errors.NotImplemented, str(e))
    if e.code in ("FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"):
        return errors.status(errors.Fail, str(e))
    return errors.status(errors.EngineError, str(e))


def _given(options: SessionOptions) -> list[Given]:
    values = [Given(name, value._type, value._shared()) for name, value in {**options._initializers, **options._external}.items()]
    files = [Given(name, None, array) for name, array in options._files.items()]
    return values + files

