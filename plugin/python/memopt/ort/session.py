"""InferenceSession: ONNX Runtime's class on a session of the memopt service."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._visible import class_of
from ..errors import MemoptError
from . import checks, errors, profiling, providers
from .address import AtAddress
from .binding import IOBinding
from .device import OrtMemoryInfo
from .engine import Fetch
from .enums import OrtAllocatorType, OrtDeviceVendorId, OrtMemType
from .metadata import ModelMetadata, NodeArg, OrtEpDevice
from .opened import Opened, running
from .options import RunOptions, SessionOptions
from .resident import Resident
from .types import by_tensor
from .value import OrtValue, plain
from .vector import OrtValueVector

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


class Session:
    """An open model that can be run."""

    _opened: Opened
    _profile: profiling.Profile | None

    @property
    def _sess(self) -> _Compiled:
        """The compiled session, under ONNX Runtime's name."""
        return _Compiled(self)

    def get_session_options(self) -> SessionOptions:
        """The options with which the session was opened."""
        return self._opened.options

    def get_inputs(self) -> list[NodeArg]:
        """The required inputs of a run."""
        return list(self._opened.required)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return list(self._opened.outputs.values())

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs with a default value in the model."""
        return list(self._opened.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """The model's metadata."""
        return self._opened.metadata

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each input is read: in the processor's memory."""
        return [self._memory_info() for _ in self._opened.required]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output is written: in the processor's memory."""
        return [self._memory_info() for _ in self._opened.outputs]

    def _memory_info(self) -> OrtMemoryInfo:
        types = OrtAllocatorType
        kind = types.ORT_ARENA_ALLOCATOR if self._opened.options.enable_cpu_mem_arena else types.ORT_DEVICE_ALLOCATOR
        return OrtMemoryInfo("Cpu", kind, 0, OrtMemType.DEFAULT)

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The device that reads each input."""
        from .devices import get_ep_devices

        first = next(d for d in get_ep_devices() if d.ep_name == self._opened.choice.names[0])
        return [first for _ in self._opened.required]

    def get_providers(self) -> list[str]:
        """The devices that the model runs on, in the order of preference."""
        return list(self._opened.choice.names)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return {name: dict(options) for name, options in self._opened.choice.options.items()}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Opens the model again on other devices. Bindings of the session become invalid."""
        self._reopen(providers, provider_options)

    def _reopen(self, providers: Any, provider_options: Any) -> None:
        raise NotImplementedError

    def disable_fallback(self) -> None:
        """Turns off retries of failed runs on the processor, which memopt never does: failures are raised."""

    def enable_fallback(self) -> None:
        """Accepted without effect: failed runs are not retried on another device, where other limits apply."""

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None) -> list[Array]:
        """Runs the model on arrays, lists or values by name, and returns an array for each named output, by default for all."""
        feeds, names = self._feeds(input_feed, output_names, run_options)
        return [OrtValue(f.array, f.element_type).numpy() for f in self._run(feeds, [Fetch(name) for name in names], run_options)]

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, OrtValue], run_options: RunOptions | None = None
    ) -> list[OrtValue]:
        """Runs the model for values by name, and gives values."""
        for value in input_dict_ort_values.values():
            if not isinstance(value, OrtValue):
                raise AttributeError(f"'{class_of(value)}' object has no attribute '_get_c_value': run_with_ort_values() takes OrtValues")
        feeds, names = self._feeds(input_dict_ort_values, output_names, run_options)
        return [OrtValue(f.array, f.element_type) for f in self._run(feeds, [Fetch(name) for name in names], run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Any, Any, str], None],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Runs the model in another thread, which calls callback(results, user_data, error); error is empty on success."""
        feeds, names = self._feeds(input_feed, output_names, run_options)

        def work() -> None:
            results: list[Array] = []
            error = ""
            try:
                results = [OrtValue(f.array, f.element_type).numpy() for f in self._run(feeds, [Fetch(name) for name in names], run_options)]
            except Exception as e:
                error = str(e)
            callback(results, user_data, error)

        threading.Thread(target=work, name="memopt-run-async").start()

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs the model on bound inputs, into bound outputs."""
        if iobinding._session is not self._opened:
            raise ValueError("IOBinding must be used with the session that created it.")
        _options(run_options)
        try:
            self._run_bound(iobinding, run_options)
        except errors.Status as e:
            raise RuntimeError(f"Error in execution: {e.message}") from e

    def _run_bound(self, bound: IOBinding, options: RunOptions | None) -> None:
        if not bound._outputs:
            raise errors.status(errors.InvalidArgument, "At least one output should be requested.")
        missing = self._opened.missing(bound._inputs)
        if missing:
            raise errors.status(errors.InvalidArgument, f"Missing Input: {', '.join(missing)}")
        self._opened.names(list(bound._outputs))
        for name, value in bound._inputs.items():
            self._opened.check_input(name, value)
        fetches = []
        for name, place in bound._outputs.items():
            if isinstance(place, Resident) and not place.lent():
                fetches.append(Fetch(name, stays=place.device_name(), onto=place))
            elif isinstance(place, OrtValue):
                self._opened.check_output(name, place)
                if isinstance(place, AtAddress):
                    fetches.append(Fetch(name, place._type, place.place()))
                else:
                    fetches.append(Fetch(name, place._type, place._array, bound=True))
            else:
                away = place != "cpu" and self._opened.choice.names[0] != providers.CPU
                fetches.append(Fetch(name, stays=place if away else ""))
        for (name, place), made in zip(list(bound._outputs.items()), self._run(bound._inputs, fetches, options, bound=True), strict=True):
            if not isinstance(place, OrtValue):
                bound._outputs[name] = made.stays or OrtValue(made.array, made.element_type, place)
            elif isinstance(place, AtAddress):
                place.put(made.array)
                self._opened.engine.copied_out += place.tensor_size_in_bytes()
            elif made.stays is None:
                place._written()

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: list[OrtValue],
        fetch_devices: Sequence[Any],
    ) -> None:
        """Runs the model on values, and appends the outputs to a list."""
        fetches.extend(self.run_with_ort_values(fetch_names, dict(zip(feed_names, feeds, strict=True)), run_options))

    def _feeds(self, given: Mapping[str, Any], names: Sequence[str] | None, options: RunOptions | None) -> tuple[dict[str, OrtValue], list[str]]:
        given_names = list(given.keys())
        missing = self._opened.missing(name for name in given_names if given[name] is not None)
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({given_names}).")
        asked = self._opened.names(names)
        _options(options)
        feeds: dict[str, OrtValue] = {}
        for name, value in given.items():
            if value is not None:
                feeds[name] = self._value(name, value)
                self._opened.check_input(name, feeds[name])
        return feeds, asked

    def _value(self, name: str, value: Any) -> OrtValue:
        import numpy

        if isinstance(value, OrtValue):
            return value
        arg = self._opened.inputs.get(name)
        if isinstance(value, list):
            wanted = by_tensor(arg.type) if arg is not None else None
            try:
                value = numpy.array(value, wanted.numpy if wanted is not None and wanted.numpy else None)
            except (ValueError, TypeError, OverflowError) as e:
                raise RuntimeError(f"Could not create tensor from given input list for {name}: {e}") from None
        if not isinstance(value, numpy.ndarray):
            raise RuntimeError(f"Unable to handle object of type {type(value)} for {name}: give a numpy.ndarray, a list or an OrtValue")
        if value.dtype.kind in "USO":
            if arg is not None and arg.type != "tensor(string)":
                raise errors.status(errors.InvalidArgument, f"Unexpected input data type. Actual: (tensor(string)) , expected: ({arg.type}) for input {name}")
            raise errors.status(errors.NotImplemented, f"input {name} is a tensor of strings, which memopt does not run")
        return OrtValue(*plain(value))

    def _run(self, feeds: Mapping[str, OrtValue], fetches: Sequence[Fetch], options: RunOptions | None, bound: bool = False) -> Any:
        begin = time.perf_counter()
        made = self._opened.run(feeds, fetches, options, bound)
        if self._profile is not None:
            self._profile.add("Session", "model_run", begin)
        return made

    def io_binding(self) -> IOBinding:
        """A new binding of the session's inputs and outputs."""
        return IOBinding(self)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int | OrtDeviceVendorId = -1
    ) -> OrtValue:
        """A value in the arena shared with the service."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, in nanoseconds."""
        return self._profile.began_ns if self._profile is not None else time.time_ns()

    def end_profiling(self) -> str:
        """Writes the times of all runs for chrome://tracing and returns the file's path; "" without enable_profiling."""
        profile, self._profile = self._profile, None
        return profile.write() if profile is not None else ""

    def get_memory_stats(self) -> dict[str, Any]:
        """The session's memory by owner, statistics of its arena and patterns, and the bytes copied by runs. Not in ONNX Runtime."""
        try:
            return self._opened.engine.stats()
        except MemoptError as e:
            raise running(e) from e

    def shrink_memory_arena(self) -> int:
        """Gives idle memory of the session back, and says how many bytes that were. Not in ONNX Runtime, where a run's entry
        memory.enable_memory_arena_shrinkage does it."""
        try:
            return int(self._opened.engine.stats(shrink=True)["returned"])
        except MemoptError as e:
            raise running(e) from e

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Raises: options of devices cannot change while a model is open."""
        raise errors.status(errors.NotImplemented, "set_ep_dynamic_options: devices have no options that change while a model is open")

    def get_tuning_results(self) -> list[Any]:
        """None: kernels are not tuned."""
        return []

    def __reduce__(self) -> str:
        raise errors.unpicklable(self)


class _Compiled:
    """A session with the methods and argument order of ONNX Runtime's compiled class."""

    def __init__(self, session: Session) -> None:
        self._opened = session._opened
        self.run = session.run
        self.run_with_iobinding = session.run_with_iobinding
        self.get_providers = session.get_providers
        self.end_profiling = session.end_profiling
        self._run_with_ort_values = session.run_with_ort_values

    def run_with_ort_values(self, feeds: Mapping[str, OrtValue], output_names: Sequence[str], run_options: RunOptions | None) -> OrtValueVector:
        """Runs the model for values by name, and gives values."""
        return OrtValueVector(self._run_with_ort_values(output_names, feeds, run_options))


class InferenceSession(Session):
    """A model opened in the memopt service for any number of runs."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._path = ""
        self._data: bytes | None = None
        if isinstance(path_or_bytes, (str, os.PathLike)):
            self._path = os.fspath(path_or_bytes)
            if not self._path:
                raise TypeError("the model's path is empty")
        elif isinstance(path_or_bytes, bytes):
            self._data = path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}': give a path or bytes")
        if sess_options is not None:
            checks.instance("sess_options", sess_options, SessionOptions)
        self._asked = sess_options
        self._profile = None
        enabled = int(kwargs.get("enable_fallback", 1)) == 1
        self._reopen(providers, provider_options, fall_back=enabled)

    def _reopen(self, asked: Any, options_of: Any, fall_back: bool = False) -> None:
        options = self._asked._snapshot() if self._asked is not None else SessionOptions()
        if asked and options.has_providers():
            warnings.warn("providers of the session go before the ones that SessionOptions have", stacklevel=4)
        try:
            pairs = providers.normalize(asked, options_of) or list(options._providers.items())
            choice = providers.choose(pairs)
        except (ValueError, RuntimeError) as e:
            if not fall_back:
                raise
            warnings.warn(f"EP Error {e} when using {asked}: falling back to ['{providers.CPU}']", stacklevel=4)
            choice = providers.choose([])
        begin = time.perf_counter()
        profile = profiling.Profile(options.profile_file_prefix) if options.enable_profiling else None
        self._opened = Opened(self._path, self._data, options, choice)
        if profile is not None:
            profile.add("Session", "session_initialization", begin)
        self._profile = profile


def _options(given: RunOptions | None) -> None:
    if given is not None:
        checks.instance("run_options", given, RunOptions)
