"""IOBinding: which memory a session reads its inputs from and writes its outputs to, run after run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _arena
from .._visible import class_of
from . import checks
from .address import AtAddress
from .device import OrtDevice
from .types import STRING, asked_for
from .value import OrtValue, plain
from .vector import OrtValueVector

if TYPE_CHECKING:
    import numpy

    from .session import Session, _Compiled

    Array = numpy.ndarray[Any, Any]


class IOBinding:
    """The inputs and outputs of a session, bound by name. Bound memory is read and written by every run."""

    def __init__(self, session: Session | _Compiled) -> None:
        self._session = session._opened
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | str] = {}  # a str: the device where room is made at the first run

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Binds an input to an array, or to a copy if the array is not contiguous."""
        import numpy

        if not isinstance(arr_on_cpu, numpy.ndarray):
            raise RuntimeError(f"Unable to create OrtValue from the given python object of type {class_of(arr_on_cpu)}: bind a numpy.ndarray")
        self._known_input(name, f"Failed to find NodeArg with name: {name} in the def list")
        if arr_on_cpu.dtype.kind in "USO":
            raise RuntimeError("Only binding non-string Tensors is currently supported")
        self._inputs[name] = OrtValue(*plain(arr_on_cpu))

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int) -> None:
        """Binds an input to memory at an address, which must stay valid while it is bound."""
        value = _at(device_type, device_id, element_type, shape, buffer_ptr)
        self._known_input(name, f"Error when binding input: Failed to find input name in the mapping: {name}")
        self._inputs[name] = value

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an input to a value."""
        _value("bind_ortvalue_input()", ortvalue)
        self._known_input(name, f"Error when binding input: Failed to find input name in the mapping: {name}")
        self._inputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Binds an output to memory at an address; without an address, to memory that the first run allocates and later runs reuse."""
        checks.text("bind_output()", name)
        device = OrtDevice.make(device_type, device_id)
        if buffer_ptr is None:
            self._outputs[name] = device.name
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._outputs[name] = _at(device_type, device_id, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Binds an output to a value, which must have its shape."""
        checks.text("bind_ortvalue_output()", name)
        self._outputs[name] = _value("bind_ortvalue_output()", ortvalue)

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: a run ends when its outputs are written."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for: a run ends when its outputs are written."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs, in the order in which they were bound. Before the first run they have no value."""
        return [_Unwritten(name) if isinstance(value, str) else value for name, value in self._outputs.items()]

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """The same."""
        return OrtValueVector(self.get_outputs())

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Copies of the outputs."""
        return [value.numpy().copy() for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Unbinds all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Unbinds all outputs."""
        self._outputs.clear()

    def _known_input(self, name: str, otherwise: str) -> None:
        if checks.text("name", name) not in self._session.inputs:
            raise RuntimeError(f"{otherwise}; the model has {', '.join(self._session.inputs) or 'no inputs'}")


class SessionIOBinding(IOBinding):
    """A binding with the arguments that ONNX Runtime's compiled class takes: devices are OrtDevices."""

    def bind_input(self, name: str, *what: Any) -> None:
        """Binds an input to an array, or to memory of a device, a type and a shape at an address."""
        if len(what) == 1:
            self.bind_cpu_input(name, *what)
        else:
            device, element_type, shape, address = what
            super().bind_input(name, device, device.device_id(), element_type, shape, address)

    def bind_output(self, name: str, device: Any, element_type: Any = None, shape: Any = None, buffer_ptr: int | None = None) -> None:  # type: ignore[override]
        """Binds an output to a device, or to memory of it of a type and a shape at an address."""
        super().bind_output(name, device, device.device_id(), element_type, shape, buffer_ptr)

    def get_outputs(self) -> OrtValueVector:
        """The outputs, in the order in which they were bound."""
        return OrtValueVector(super().get_outputs())


class _Unwritten(OrtValue):
    """An output before the first run."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def has_value(self) -> bool:
        """False."""
        return False

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"output {self._name!r} has no value before run_with_iobinding")


def _value(method: str, value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise AttributeError(f"'{class_of(value)}' object has no attribute '_ortvalue': {method} takes an OrtValue")
    return value


def _at(device_type: str | OrtDevice, device_id: int, element_type: Any, shape: Sequence[int], address: int) -> OrtValue:
    """A value over memory at an address."""
    import numpy

    device = OrtDevice.make(device_type, device_id)
    kind = STRING if not isinstance(element_type, int) and numpy.dtype(element_type).kind in "USO" else asked_for(element_type)
    if kind is STRING:
        raise RuntimeError("Only binding non-string Tensors is currently supported")
    dims = [checks.integer("shape", n) for n in shape]
    if any(n < 0 for n in dims):
        raise RuntimeError(f"shape {dims}: shape.Size() must be >=0")
    count = kind.size
    for n in dims:
        count *= n
    address = checks.integer("buffer_ptr", address)
    if count == 0:
        return OrtValue(numpy.empty(dims, kind.storage()), kind, device.name)
    if address <= 0 or address + count > 2**63:
        raise RuntimeError(f"buffer_ptr is {address:#x}, and no memory begins there")
    owner, ours = _arena.current().owner(address, count), _arena.current().find(address, 1) is not None
    if not ours and not device.on_host():
        raise RuntimeError(
            f"the memory at {address:#x} is not the service's: on {device.name}, bind an OrtValue that was made for {device.name}, or its data_ptr()"
        )
    if not ours:
        return AtAddress(address, count, dims, kind, device.name)
    if owner is None:
        raise RuntimeError(f"buffer_ptr is {address:#x}, and no OrtValue has the {count:,} bytes from there: it was freed, or is shorter")
    memory: Any = (ctypes.c_ubyte * count).from_address(address)
    memory.owner = owner  # nothing else gets its bytes while they are bound
    made = OrtValue(numpy.ndarray(tuple(dims), kind.storage(), memory), kind, device.name)
    made._stamp = 0  # who gave the address may write there
    return made
