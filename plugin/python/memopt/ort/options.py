"""SessionOptions and RunOptions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from .._visible import class_of
from . import checks, errors, providers
from .config import Entries
from .enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, OrtExecutionProviderDevicePolicy
from .value import OrtValue, into_arena

T = TypeVar("T")


class _Option(Generic[T]):
    """An attribute with a default that accepts only values of its type."""

    def __init__(self, default: T, check: Callable[[str, Any], T], doc: str) -> None:
        self._default = default
        self._check = check
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> _Option[T]: ...
    @overload
    def __get__(self, instance: _Options, owner: type) -> T: ...
    def __get__(self, instance: _Options | None, owner: type) -> _Option[T] | T:
        if instance is None:
            return self
        value: T = instance._values.get(self._name, self._default)
        return value

    def __set__(self, instance: _Options, value: T) -> None:
        instance._values[self._name] = self._check(self._name, value)


def _one_of(kind: type[T]) -> Callable[[str, Any], T]:
    return lambda what, value: checks.instance(what, value, kind)


class _Options:
    """What the two have in common. A name that is no option is refused, as ONNX Runtime does it."""

    __slots__ = ("_entries", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries = Entries(type(self).__name__)

    def __reduce__(self) -> str:
        raise errors.unpicklable(self)


class SessionOptions(_Options):
    """Options of a session. A session copies them when it is opened; later changes affect later sessions."""

    __slots__ = ("_dims", "_external", "_files", "_initializers", "_providers")

    enable_cpu_mem_arena = _Option(True, checks.boolean, "Whether the memory of a run comes from an arena that stays between runs.")
    enable_mem_pattern = _Option(True, checks.boolean, "Whether a run of shapes that were seen before takes one block, laid out by plan.")
    enable_mem_reuse = _Option(True, checks.boolean, "Whether a value's memory is used again once it is no longer needed.")
    enable_profiling = _Option(False, checks.boolean, "Whether the times of runs are written to a file.")
    profile_file_prefix = _Option("onnxruntime_profile_", checks.text, "How the name of that file begins.")
    optimized_model_filepath = _Option("", checks.text, "A file to which the model is written as it runs.")
    logid = _Option("", checks.text, "What the session is called in the log.")
    log_severity_level = _Option(-1, checks.int32, "What the log tells: 0 all, 1 infos, 2 warnings, 3 errors, 4 nothing; -1 as is set for the process.")
    log_verbosity_level = _Option(0, checks.int32, "How much is told at level 0.")
    use_per_session_threads = _Option(True, checks.boolean, "Taken for programs that set it: the service has threads of its own.")
    intra_op_num_threads = _Option(0, checks.int32, "Threads within a node; 0 is as many as there are processors.")
    inter_op_num_threads = _Option(0, checks.int32, "Taken for programs that set it: nodes run one after another.")
    execution_mode = _Option(ExecutionMode.ORT_SEQUENTIAL, _one_of(ExecutionMode), "Parallel turns memory patterns off, as in ONNX Runtime; nodes run one after another.")
    execution_order = _Option(ExecutionOrder.DEFAULT, _one_of(ExecutionOrder), "The order of nodes.")
    graph_optimization_level = _Option(GraphOptimizationLevel.ORT_ENABLE_ALL, _one_of(GraphOptimizationLevel), "How far the graph is rewritten.")
    use_deterministic_compute = _Option(False, checks.boolean, "Taken for programs that set it: the same input always gives the same bits.")

    def __init__(self) -> None:
        super().__init__()
        self._providers: dict[str, dict[str, str]] = {}
        self._initializers: dict[str, OrtValue] = {}
        self._external: dict[str, OrtValue] = {}
        self._files: dict[str, Any] = {}  # arrays in the arena
        self._dims: dict[str, int] = {}  # by "name:" or "denotation:" and what follows

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets a configuration entry."""
        self._entries.add("add_session_config_entry()", key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The value of a configuration entry that was set."""
        return self._entries.get(key)

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Adds a device for sessions that are opened without providers."""
        checks.text("add_provider()", name)
        if not providers.known(name):
            raise RuntimeError(f"Unknown Provider Type: {name}")
        self._providers[name] = {str(k): str(v) for k, v in options.items()}

    def append_execution_provider(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """The same, as ONNX Runtime's guide calls it."""
        self.add_provider(name, options or {})

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str]) -> None:
        """The same, for devices from get_ep_devices."""
        names = {device.ep_name for device in devices}
        if len(names) != 1:
            raise errors.status(errors.InvalidArgument, "All OrtEpDevice values in ep_devices must have the same execution provider.")
        self.add_provider(names.pop(), options)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Chooses the device by a policy: the GPU for PREFER_GPU and MAX_PERFORMANCE, else the processor."""
        policies = OrtExecutionProviderDevicePolicy
        checks.instance("set_provider_selection_policy()", policy, policies)
        self._providers = {}
        if policy in (policies.PREFER_GPU, policies.MAX_PERFORMANCE) and providers.VULKAN in providers.available():
            self._providers[providers.VULKAN] = {}
        self._providers[providers.CPU] = {}

    def has_providers(self) -> bool:
        """Whether one was added."""
        return bool(self._providers)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Sets the size of a named dim of the model's inputs."""
        self._override("name", name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Sets the size of all dims of the model's inputs with this denotation."""
        self._override("denotation", denotation, size)

    def _override(self, kind: str, name: str, size: int) -> None:
        method = f"add_free_dimension_override_by_{kind}()"
        self._dims[f"{kind}:{checks.text(method, name)}"] = checks.integer(method, size)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Gives an initializer of the model a value that other sessions may share. It is kept alive by the options and by sessions."""
        checks.text("add_initializer()", name)
        if not isinstance(value, OrtValue):
            raise RuntimeError(f"The provided Python object must be an OrtValue, not {class_of(value)}")
        self._once(name)
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Replaces initializers that the model has in files."""
        if len(names) != len(values):
            raise RuntimeError(f"Expecting names and ort_values lists to have equal length, not {len(names)} and {len(values)}")
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, OrtValue):
                raise AttributeError(f"'{class_of(value)}' object has no attribute '_ortvalue': initializers are OrtValues")
            self._once(checks.text("add_external_initializers()", name))
            self._external[name] = value

    def add_external_initializers_from_files_in_memory(self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]) -> None:
        """Provides the contents of files with initializers, by their names in the model."""
        if not len(names) == len(buffers) == len(lengths):
            raise RuntimeError(
                "add_external_initializers_from_files_in_memory() takes as many names as buffers and lengths,"
                f" not {len(names)}, {len(buffers)} and {len(lengths)}"
            )
        import numpy

        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            checks.text("add_external_initializers_from_files_in_memory()", name)
            view = memoryview(buffer).cast("B")
            if not 0 <= checks.integer("length", length) <= view.nbytes:
                raise RuntimeError(f"{name}: a length of {length} bytes, and the buffer has {view.nbytes}")
            if name in self._files:
                raise RuntimeError(str(errors.status(errors.InvalidArgument, f"An entry for this name has already been added: {name}")))
            self._files[name] = into_arena(numpy.frombuffer(view[:length], "u1"))

    def _once(self, name: str) -> None:
        if name in self._initializers or name in self._external:
            raise RuntimeError(str(errors.status(errors.InvalidArgument, f"An OrtValue for this name has already been added: {name}")))

    def register_custom_ops_library(self, path: str) -> None:
        """Raises: operators of another library cannot run in the service."""
        path = checks.text("register_custom_ops_library()", path)
        if not os.path.exists(path):
            raise errors.status(errors.Fail, f"Failed to load library {path} with error: {path}: no such file")
        raise errors.status(errors.NotImplemented, f"{path}: libraries of operators are not supported; `memopt ops` lists the operators there are")

    def set_load_cancellation_flag(self, cancel: bool) -> None:
        """Accepted without effect: a session is open when its constructor returns."""
        if checks.boolean("set_load_cancellation_flag()", cancel):
            self._values["cancelled"] = True
        else:
            self._values.pop("cancelled", None)

    def _snapshot(self) -> SessionOptions:
        """A copy of the options, for a session."""
        made = SessionOptions()
        made._values = dict(self._values)
        made._entries = self._entries.copy()
        made._providers = {name: dict(options) for name, options in self._providers.items()}
        made._initializers = dict(self._initializers)
        made._external = dict(self._external)
        made._files = dict(self._files)
        made._dims = dict(self._dims)
        return made


class RunOptions(_Options):
    """Options of one run."""

    __slots__ = ("_calls",)

    log_severity_level = _Option(-1, checks.int32, "As of SessionOptions, for this run.")
    log_verbosity_level = _Option(0, checks.int32, "As of SessionOptions, for this run.")
    logid = _Option("", checks.text, "What the run is called in the log.")
    only_execute_path_to_fetches = _Option(False, checks.boolean, "Runs only the nodes that the outputs asked for need.")

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[Any] = []

    @property
    def terminate(self) -> bool:
        """Whether running runs with these options are ended, and new ones refused."""
        return bool(self._values.get("terminate", False))

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._values["terminate"] = checks.boolean("terminate", value)
        if value:
            for call in list(self._calls):
                call.cancel()

    def _begun(self, call: Any) -> None:
        """Registers a run that terminate may end."""
        self._calls = [c for c in self._calls if not c.done()] + [call]
        if self.terminate:
            call.cancel()

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets a configuration entry."""
        self._entries.add("add_run_config_entry()", key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The value of a configuration entry that was set."""
        return self._entries.get(key)

    def add_active_adapter(self, adapter: object) -> None:
        """Raises: adapters are not supported."""
        raise errors.status(errors.NotImplemented, "adapters are not supported: merge their weights into the model")
