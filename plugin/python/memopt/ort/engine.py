"""Forward sessions of the service: opens them, passes tensors through the arena, and closes them.

Inputs in the arena are used in place, others are copied there; results lie in the arena and are returned
without a copy. Every copied byte is counted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _arena, _closing, _host
from ..errors import MemoptError
from .address import AtAddress
from .resident import Resident, dropped
from .types import ElementType, by_service

if TYPE_CHECKING:
    import numpy

    from .value import OrtValue

    Array = numpy.ndarray[Any, Any]

_log = logging.getLogger("memopt.ort")


def devices() -> dict[str, str]:
    """The kinds of the devices that the service has, and the name of the first of each."""
    found: dict[str, str] = {}
    for device in _host.current().info.devices:
        found.setdefault(device.kind, device.name)
    return found


class Given(NamedTuple):
    """The program's replacement of an initializer, or of a file of the model."""

    name: str
    element_type: ElementType | None  # None: the contents of a file
    array: Array


class Feed(NamedTuple):
    """An input. A stamp other than 0 identifies its content. A bound input is in the same place in every run."""

    name: str
    value: OrtValue
    bound: bool = False


class Fetch(NamedTuple):
    """An output to fetch: to where the program wants it, to room of its own, or not at all for now: to stay on the device,
    as the value that it was there before, if it was."""

    name: str
    element_type: ElementType | None = None
    array: Array | None = None
    stays: str = ""  # the device
    onto: Resident | None = None
    bound: bool = False


class Fetched(NamedTuple):
    """An output: its content, or the value that stays on the device."""

    element_type: ElementType
    array: Array | Any  # None of what stays
    stays: Resident | None = None


class _Shape(NamedTuple):
    element_type: ElementType
    shape: tuple[int, ...]


_MOST = 1024  # shapes that are remembered
_FIRST_ROOM = 64 << 10  # for outputs of sizes that are not known yet
_ALIGNMENT = 64  # of outputs in the room


class Engine:
    """One session of the service. If the service has ended, the next call opens the session again in a new one."""

    # path is the model's file; where there is data, a name in the folder of the files that it has beside it.
    def __init__(self, path: str, data: bytes | None, settings: Mapping[str, str], given: Sequence[Given], arena: str = "") -> None:
        self._path = path
        self._data = data
        self._settings = dict(settings)
        self._given = list(given)
        self._arena = arena  # the name of one that other sessions have, too
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._host: _host.Host | None = None
        self._id = 0
        self._end: weakref.finalize[Any, Any] | None = None
        self._shared: list[Array] = []  # what of the program's the service reads as long as the session is open
        self._shapes: dict[Any, dict[str, _Shape]] = {}  # of outputs, by the inputs' shapes
        self._stamps: dict[Any, dict[str, int]] = {}  # of the inputs of the latest run, by shapes and outputs
        self._unranked: set[str] = set()  # outputs of which the model says no shape
        self._latest: dict[str, int] = {}  # of outputs whose sizes follow from numbers
        self.copied_in = self.copied_out = 0
        self.told: Any = None
        self._open()

    def _open(self) -> None:
        from .. import _arguments, _messages

        _closing.closer.drain()
        host = _host.current()
        request = _messages.OpenRequest(
            mode="forward",
            settings=self._settings,
            environment={k: v for k, v in os.environ.items() if k.startswith(("MEMOPT_", "ORTMODULE_"))},
            environment_sent=True,
            folder=_arguments.current_folder(),
            arena=self._arena,
        )
        request.model = self._path
        if self._data is not None:
            block = _arena.current().alloc(len(self._data))
            block.view[:] = self._data
            request.bytes.CopyFrom(block.span())
        shared = []
        for given in self._given:
            there = _reach(given.array)
            if there is not given.array:
                there[...] = given.array
            shared.append(there)
            tensor = request.given.add()
            _describe(tensor, given.name, given.element_type, there)
            if given.element_type is None:
                tensor.role = "file"
        self.told = host.call("Open", request, None)
        for warning in self.told.warnings:
            _log.warning("%s", warning)
        if self._end is not None:
            self._end.detach()
        self._host, self._id, self._shared = host, self.told.session, shared
        self._stamps = {}
        self._unranked = {port["name"] for port in json.loads(self.told.json)["outputs"] if not port["ranked"]}
        self._end = _closing.closer.watch(self, host, self._id)

    def close(self) -> None:
        """Closes the session."""
        if self._end is not None:
            self._end()
            _closing.closer.drain()

    def _ready(self) -> None:
        if self._process != os.getpid():  # the parent's session, and its lock, stayed with the parent
            self._process = os.getpid()
            self._lock = threading.Lock()
            self._host = None

    def run(
        self,
        feeds: Sequence[Feed],
        fetches: Sequence[Fetch],
        options: Mapping[str, str],
        begun: Callable[[Any], None] | None = None,
    ) -> list[Fetched]:
        """Runs the model. Arrays are contiguous and in this machine's order."""
        from .. import _messages

        self._ready()
        with self._lock:
            if self._host is None or not self._host.alive():
                self._open()
            assert self._host is not None
            request = _messages.RunRequest(session=self._id, options=options)
            held: list[Any] = []  # until the call has ended
            key = (tuple(f.name for f in fetches), tuple((f.name, tuple(f.value.shape())) for f in feeds))
            latest = self._stamps.pop(key, {})
            stamps: dict[str, int] = {}
            for name, value, bound in feeds:
                tensor = request.inputs.add()
                if isinstance(value, Resident) and value.is_with(self._host):
                    tensor.name, tensor.type, tensor.buffer = name, value._type.service, value.number
                    tensor.shape.extend(value.shape())
                    held.append(value)
                    continue
                array = value._array
                there = _reach(array)
                if there is not array:
                    there[...] = array
                if there is not array or isinstance(value, AtAddress):
                    self.copied_in += array.nbytes
                elif bound and array.nbytes:
                    tensor.bound = True
                held.append(there)
                _describe(tensor, name, value._type, there)
                if value._stamp and latest.get(name) == value._stamp:
                    tensor.role = "same"
                if value._stamp:
                    stamps[name] = value._stamp
            places = self._places(request, fetches)
            gone = dropped(self._host)
            if gone:
                self._host.call("Sync", _messages.SyncRequest(session=self._id, drop=gone), None)
            reply = self._host.call("Run", request, None, begun)
            del held
            if len(self._stamps) >= _MOST:
                self._stamps.clear()
            self._stamps[key] = stamps
            return [self._fetched(*each) for each in zip(fetches, places, reply.outputs, strict=True)]

    def bring(self, value: Resident) -> None:
        """Reads a value from the device."""
        self._ready()
        with self._lock:
            if not value._fresh:
                self._bring(value)

    def _bring(self, value: Resident) -> None:
        from .. import _messages

        if self._host is None or self._host is not value._host or not self._host.alive():
            raise RuntimeError(f"output {value._name!r} was on a device, and what was there is gone")
        tensor = _messages.Tensor()
        _describe(tensor, value._name, value._type, value._there)
        tensor.buffer = value.number
        try:
            self._host.call("Sync", _messages.SyncRequest(session=self._id, tensors=[tensor]), None)
        except MemoptError as e:
            raise RuntimeError(f"output {value._name!r} was on a device, and cannot be read: {e}") from e
        self.copied_out += value._bytes
        value._fresh = True

    def _places(self, request: Any, fetches: Sequence[Fetch]) -> list[Any]:
        """Has each output written to where the program wants it, or to a block of its size, or to room that they share where its
        size follows from numbers of inputs."""
        arena = _arena.current()
        shapes = self._outputs_of(request.inputs) if any(f.array is None for f in fetches) else {}
        places: list[Any] = []
        open_ended = 0
        for fetch in fetches:
            tensor = request.outputs.add(name=fetch.name)
            known = shapes.get(fetch.name)
            if fetch.stays and known is not None:
                if fetch.onto is not None and fetch.onto._shape != known.shape:
                    raise MemoptError(
                        f"output {fetch.name!r} is bound to a value of shape {list(fetch.onto._shape)}, and is {list(known.shape)} for these inputs: bind it again",
                        code="INVALID_ARGUMENT",
                    )
                onto = fetch.onto
                if onto is not None and onto._host is not self._host:
                    onto.move(self._host)
                if onto is None:
                    onto = Resident(self, self._host, fetch.name, known.element_type, known.shape, fetch.stays)
                tensor.buffer = onto.number
                places.append(onto)
            elif fetch.array is not None:
                places.append(_reach(fetch.array))
                _describe(tensor, fetch.name, fetch.element_type, places[-1])
                tensor.bound = fetch.bound and places[-1] is fetch.array
            elif known is not None:
                places.append(arena.alloc(_bytes(known.shape, known.element_type)))
                tensor.span.CopyFrom(places[-1].span())
            else:
                places.append(None)
                open_ended += self._latest.get(fetch.name, _FIRST_ROOM) + _ALIGNMENT
        if open_ended:
            room = arena.alloc(open_ended)
            request.room.CopyFrom(room.span())
            places = [room if place is None else place for place in places]
        return places

    def _fetched(self, fetch: Fetch, place: Any, output: Any) -> Fetched:
        from .. import _messages

        element_type = by_service(output.type)
        if isinstance(place, Resident):
            place.ran()
            return Fetched(element_type, None, place)
        if fetch.array is not None:
            if place is not fetch.array:
                fetch.array[...] = place
                self.copied_out += place.nbytes
            return Fetched(element_type, fetch.array)
        size = _bytes(output.shape, element_type)
        if output.HasField("span") and (output.span.offset, size) == (place.offset, place.nbytes):
            return Fetched(element_type, place.array(element_type.storage(), output.shape))
        block = _arena.current().alloc(size)
        if output.HasField("span"):
            at = output.span.offset - place.offset
            block.view[:] = place.view[at : at + size]
        elif size:
            assert self._host is not None
            tensor = _messages.Tensor(name=fetch.name, type=output.type, shape=output.shape, span=block.span())
            self._host.call("Sync", _messages.SyncRequest(session=self._id, tensors=[tensor]), None)
        self._latest[fetch.name] = size
        self.copied_out += size
        return Fetched(element_type, block.array(element_type.storage(), output.shape))

    def _outputs_of(self, inputs: Any) -> dict[str, _Shape]:
        """The shapes of outputs for inputs of these shapes, but of those that the inputs' numbers decide on."""
        from .. import _messages

        key = tuple((t.name, *t.shape) for t in inputs)
        shapes = self._shapes.get(key)
        if shapes is None:
            assert self._host is not None
            shapes = {}
            try:
                told = self._host.call("Bind", _messages.BindRequest(session=self._id, inputs=[_shape_of(t) for t in inputs]), None)
                for t in told.tensors:
                    follows = any(n < 0 for n in t.shape) or (not t.shape and t.name in self._unranked)
                    if not follows:
                        shapes[t.name] = _Shape(by_service(t.type), tuple(t.shape))
            except MemoptError as e:
                if e.code != "INVALID_ARGUMENT":
                    raise
                # What is wrong with the inputs is told by the run.
            if len(self._shapes) >= _MOST:
                self._shapes.clear()
            self._shapes[key] = shapes
        return shapes

    def stats(self, shrink: bool = False) -> dict[str, Any]:
        """What the service tells of the session's memory, and the bytes that were copied on this side of the arena. To shrink
        gives idle memory back first: "returned" is how many bytes that were."""
        from .. import _messages

        self._ready()
        with self._lock:
            if self._host is None or not self._host.alive():
                self._open()
            assert self._host is not None
            told: dict[str, Any] = json.loads(self._host.call("Stats", _messages.SessionRequest(session=self._id, shrink=shrink), None).json)
        return {**told, "host_copied_in": self.copied_in, "host_copied_out": self.copied_out}


def _reach(array: Array) -> Array:
    """The array itself if it is in the arena, else memory for a copy."""
    arena = _arena.current()
    if array.nbytes and arena.find(array.ctypes.data, array.nbytes) is not None:
        return array
    return arena.alloc(array.nbytes).array(array.dtype, array.shape)


def _describe(tensor: Any, name: str, element_type: ElementType | None, array: Array) -> None:
    tensor.name = name
    tensor.type = element_type.service if element_type is not None else "u8"
    tensor.shape.extend(array.shape)
    offset = _arena.current().find(array.ctypes.data, array.nbytes) if array.nbytes else 0
    assert offset is not None
    tensor.span.offset = offset
    tensor.span.bytes = array.nbytes


def _shape_of(tensor: Any) -> Any:
    from .. import _messages

    return _messages.Tensor(name=tensor.name, type=tensor.type, shape=tensor.shape)


def _bytes(shape: Sequence[int], element_type: ElementType) -> int:
    count = element_type.size
    for n in shape:
        count *= n
    return count
