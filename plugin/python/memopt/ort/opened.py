"""An open model: its inputs and outputs, and its runs. InferenceSession is its public class."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError, MemoptError
from . import errors, providers, settings
from .address import AtAddress
from .engine import Engine, Feed, Fetch, Fetched, Given
from .metadata import ModelMetadata, NodeArg
from .options import RunOptions, SessionOptions
from .value import OrtValue

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

SHRINK = "memory.enable_memory_arena_shrinkage"


class Opened:
    """One session of the service, by the names of its model."""

    def __init__(self, path: str, data: bytes | None, options: SessionOptions, choice: providers.Choice) -> None:
        self.options = options
        self.choice = choice
        _check_file(path, data)
        _check_formats(path, options)
        where = path
        if data is not None:
            folder = options._entries.items().get("session.model_external_initializers_file_folder_path", "")
            where = os.path.join(folder, "model from bytes")
        where = os.path.abspath(where)
        told_settings = settings.of(options, choice)
        try:
            self.engine = Engine(where, data, told_settings, _given(options), settings.arena(options, choice))
        except MemoptError as e:
            raise opening(e, str(e).replace(f"{where}: ", "", 1 if data is not None else 0), path) from e
        told = self.engine.told
        more = json.loads(told.json)
        self.required, self.overridable, outputs = ([_arg(port, options._dims) for port in more[of]] for of in ("inputs", "overridable", "outputs"))
        self.inputs: dict[str, NodeArg] = {a.name: a for a in [*self.required, *self.overridable]}
        self.outputs = {a.name: a for a in outputs}
        self.metadata = ModelMetadata.of(more)

    def names(self, asked: Sequence[str] | None) -> list[str]:
        """The outputs to fetch: all if none are named."""
        if not asked:
            return list(self.outputs)
        if isinstance(asked, str) or not all(isinstance(n, str) for n in asked):
            raise TypeError(f"output_names takes a list of str, not {asked!r}")
        for name in asked:
            if name not in self.outputs:
                raise errors.status(errors.InvalidArgument, f"Invalid output name:{name}; the model has {', '.join(self.outputs)}")
        return list(asked)

    def missing(self, given: Iterable[str]) -> list[str]:
        """The required inputs that are missing."""
        names = set(given)
        return [a.name for a in self.required if a.name not in names]

    def check_input(self, name: str, value: OrtValue) -> None:
        """Raises for a value that the model does not accept."""
        arg = self.inputs.get(name)
        if arg is None:
            raise errors.status(errors.InvalidArgument, f"Invalid input name: {name}; the model has {', '.join(self.inputs)}")
        if value.data_type() != arg.type:
            raise errors.status(
                errors.InvalidArgument, f"Unexpected input data type. Actual: ({value.data_type()}) , expected: ({arg.type}) for input {name}"
            )
        _check_shape("input", arg, value.shape())

    def check_output(self, name: str, value: OrtValue) -> None:
        """Raises for memory that an output cannot be written to."""
        arg = self.outputs[name]
        if value.data_type() != arg.type:
            raise errors.status(
                errors.InvalidArgument, f"Unexpected output data type. Actual: ({value.data_type()}) , expected: ({arg.type}) for output {name}"
            )
        _check_shape("output", arg, value.shape())
        if not isinstance(value, AtAddress) and not value._array.flags.writeable:
            raise errors.status(errors.InvalidArgument, f"output {name} is bound to an array that cannot be written to")

    def run(self, feeds: Mapping[str, OrtValue], fetches: Sequence[Fetch], options: RunOptions | None, bound: bool = False) -> list[Fetched]:
        """Runs the model on checked values."""
        told: dict[str, str] = {}
        if options is not None:
            if options.terminate:
                raise errors.status(errors.Fail, "Exiting due to terminate flag being set to true.")
            entries = options._entries.items()
            if SHRINK in entries:
                told[SHRINK] = self._arenas(entries[SHRINK])
        inputs = [Feed(name, value, bound) for name, value in feeds.items()]
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
        arenas = {"cpu:0": "cpu:0"} if self.options.enable_cpu_mem_arena else {}
        if providers.VULKAN in self.choice.options:
            arenas[f"gpu:{self.choice.options[providers.VULKAN].get('device_id', '0')}"] = "gpu:0"
        chosen: dict[str, None] = {}
        absent: list[str] = []
        for part in entry.split(";"):
            name, _, number = part.partition(":")
            if not part:
                continue
            if name not in ("cpu", "gpu"):
                raise errors.status(errors.InvalidArgument, f"Unsupported device specified in the memory arena shrink list: {name}; there are cpu and gpu")
            if number and not number.lstrip("-").isdecimal():
                raise errors.status(errors.InvalidArgument, f"Unsupported device id in the memory arena shrink list: {number}")
            arena = arenas.get(f"{name}:{int(number or 0)}")
            if arena is None:
                absent.append(part)
            else:
                chosen[arena] = None
        # Programs name the processor's arena and a GPU's, whatever the session runs on.
        wrong = [part for part in absent if not chosen or part.startswith("cpu")]
        if wrong:
            there = f"this session has {', '.join(arenas)}" if arenas else "this session has none"
            raise errors.status(
                errors.InvalidArgument,
                f"Did not find an arena based allocator registered for device-id combination in the memory arena shrink list: {wrong[0]}; {there}",
            )
        return ";".join(chosen)


def _arg(port: dict[str, Any], overrides: dict[str, int]) -> NodeArg:
    """An input or output as described by the service, with the program's numbers for dims."""
    dims: list[int | str | None] = []
    for spelled, denoted in zip(port["shape"], port["denotations"], strict=True):
        if spelled.isdecimal():
            dims.append(int(spelled))
            continue
        number = overrides.get(f"name:{spelled}") if spelled else None
        if number is None and denoted:
            number = overrides.get(f"denotation:{denoted}")
        dims.append(number if number is not None else spelled or None)
    return NodeArg(port["name"], port["type"], dims)


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


def _check_file(path: str, data: bytes | None) -> None:
    """Raises ONNX Runtime's errors about a model's path."""
    where = f"Load model from {path} failed:" if data is None else ""
    if data is None and not os.path.exists(path):
        raise errors.status(errors.NoSuchFile, f"{where}Load model {path} failed. File doesn't exist")
    if data is None and os.path.isdir(path):
        raise errors.status(errors.InvalidProtobuf, f"{where}Protobuf parsing failed: it is a folder")
    if (len(data) if data is not None else os.path.getsize(path)) == 0:
        raise errors.status(errors.InvalidArgument, f"{where}No graph was found in the protobuf.")


def _check_formats(path: str, options: SessionOptions) -> None:
    """Refuses what is there only in ONNX Runtime's own file format, and a session that is not to be opened."""
    entries = options._entries.items()
    if options._values.get("cancelled"):
        raise errors.status(errors.ModelLoadCanceled, "loading was canceled by set_load_cancellation_flag(True)")
    if entries.get("session.load_model_format", "ORT" if path.endswith(".ort") else "") == "ORT":
        raise errors.status(errors.Fail, "ORT model verification failed: files of the format ORT are not read; give the ONNX model")
    to = options.optimized_model_filepath
    if to and entries.get("session.save_model_format", "ORT" if to.lower().endswith(".ort") else "") == "ORT":
        raise errors.status(errors.NotImplemented, f"{to}: the format ORT is not written; give a name that ends in .onnx")


def opening(e: MemoptError, text: str, path: str) -> Exception:
    """What ONNX Runtime raises where the service cannot open a model."""
    where = f"Load model from {path} failed:" if path else ""
    if e.kind == "external":
        return errors.status(errors.Fail, f"External data path validation failed. {where}{text}")
    kinds: dict[str, type[errors.Status]] = {"broken": errors.InvalidProtobuf, "graph": errors.InvalidGraph, "unsupported": errors.NotImplemented}
    if e.kind in kinds:
        return errors.status(kinds[e.kind], where + text)
    if e.code in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED") or isinstance(e, BudgetError):
        return errors.status(errors.Fail, where + _respelled(e, text))
    return errors.status(errors.EngineError, where + text)


def running(e: MemoptError) -> Exception:
    """ONNX Runtime's exception for an error of the service in a run."""
    if e.code == "INVALID_ARGUMENT":
        return errors.status(errors.InvalidArgument, str(e))
    if e.code == "UNIMPLEMENTED":
        return errors.status(errors.NotImplemented, str(e))
    if e.code in ("FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"):
        return errors.status(errors.Fail, _respelled(e, str(e)))
    return errors.status(errors.EngineError, str(e))


def _respelled(e: MemoptError, text: str) -> str:
    """The message, with changes that would fit spelled for this API. The exception's cause has them as data."""
    if not isinstance(e, BudgetError):
        return text
    for change in e.changes:
        spelled = ", ".join(_spelled(name, value) for name, value in change.settings.items())
        if spelled:
            text = text.replace(change.setting.partition(" (")[0], spelled)
    return text


def _spelled(name: str, value: str) -> str:
    if name == "mem_limit":
        return f"the provider's option gpu_mem_limit={_bytes(value)}"
    if name == "arena_extend_strategy":
        return f"the provider's option arena_extend_strategy={value}"
    if name == "enable_mem_pattern":
        return "SessionOptions.enable_mem_pattern=True"
    return f"inputs with {value}"  # sizes of dims


def _bytes(size: str) -> int:
    number, unit = (size[:-3], size[-3:]) if size.endswith("iB") else (size, "")
    return int(Fraction(number) * {"": 1, "MiB": 1 << 20, "GiB": 1 << 30}[unit])


def _given(options: SessionOptions) -> list[Given]:
    values = [Given(name, value._type, value._shared()) for name, value in {**options._initializers, **options._external}.items()]
    files = [Given(name, None, array) for name, array in options._files.items()]
    return values + files

