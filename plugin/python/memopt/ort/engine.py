"""Sessions of the service that run forward: opens them, feeds them through the arena, and has them closed.

An input that lies in the arena is used where it is, any other is copied there; results lie in the arena and are given out
as they are. Every byte that is copied is counted.
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
from .types import ElementType, by_service

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_log = logging.getLogger("memopt.ort")


def devices() -> dict[str, str]:
    """The kinds of the devices that the service has, and the name of the first of each."""
    found: dict[str, str] = {}
    for device in _host.current().info.devices:
        found.setdefault(device.kind, device.name)
    return found


class Given(NamedTuple):
    """What the program brings instead of an initializer of the model's, or of a file of it."""

    name: str
    element_type: ElementType | None  # None: the contents of a file
    array: Array


class Fetch(NamedTuple):
    """An output to fetch: to where the program wants it, or to room of its own."""

    name: str
    element_type: ElementType | None = None
    array: Array | None = None


class Fetched(NamedTuple):
    """An output."""

    element_type: ElementType
    array: Array


_FIRST_ROOM = 64 << 10  # for outputs of sizes that are not known yet
_ALIGNMENT = 64  # of outputs in the room


class Engine:
    """One session of the service. When the service has gone, the next call opens it again in another."""

    # path is the model's file; where there is data, a name in the folder of the files that it has beside it.
    def __init__(self, path: str, data: bytes | None, settings: Mapping[str, str], given: Sequence[Given]) -> None:
        self._path = path
        self._data = data
        self._settings = dict(settings)
        self._given = list(given)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._host: _host.Host | None = None
        self._id = 0
        self._end: weakref.finalize[Any, Any] | None = None
        self._shared: list[Array] = []  # what of the program's the service reads as long as the session is open
        self._sizes: dict[Any, dict[str, int]] = {}  # of outputs, by the inputs' shapes
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
        self._unranked = {port["name"] for port in json.loads(self.told.json)["outputs"] if not port["ranked"]}
        self._end = _closing.closer.watch(self, host, self._id)

    def close(self) -> None:
        """Ends the session; nothing is run after it."""
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
        feeds: Sequence[tuple[str, ElementType, Array]],
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
            for name, element_type, array in feeds:
                there = _reach(array)
                if there is not array:
                    there[...] = array
                    self.copied_in += array.nbytes
                held.append(there)
                _describe(request.inputs.add(), name, element_type, there)
            places = self._places(request, fetches)
            reply = self._host.call("Run", request, None, begun)
            del held
            return [self._fetched(*each) for each in zip(fetches, places, reply.outputs, strict=True)]

    def _places(self, request: Any, fetches: Sequence[Fetch]) -> list[Any]:
        """Has each output written to where the program wants it, or to a block of its size, or to room that they share where its
        size follows from numbers of inputs."""
        arena = _arena.current()
        sizes = self._outputs_of(request.inputs) if any(f.array is None for f in fetches) else {}
        places: list[Any] = []
        open_ended = 0
        for fetch in fetches:
            tensor = request.outputs.add(name=fetch.name)
            size = sizes.get(fetch.name, -1)
            if fetch.array is not None:
                places.append(_reach(fetch.array))
                _describe(tensor, fetch.name, fetch.element_type, places[-1])
            elif size >= 0:
                places.append(arena.alloc(size))
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

    def _outputs_of(self, inputs: Any) -> dict[str, int]:
        """The bytes of each output for inputs of these shapes, -1 of one that their numbers decide on."""
        from .. import _messages

        key = tuple((t.name, *t.shape) for t in inputs)
        sizes = self._sizes.get(key)
        if sizes is None:
            assert self._host is not None
            sizes = {}
            try:
                told = self._host.call("Bind", _messages.BindRequest(session=self._id, inputs=[_shape_of(t) for t in inputs]), None)
                for t in told.tensors:
                    follows = any(n < 0 for n in t.shape) or (not t.shape and t.name in self._unranked)
                    sizes[t.name] = -1 if follows else _bytes(t.shape, by_service(t.type))
            except MemoptError as e:
                if e.code != "INVALID_ARGUMENT":
                    raise
                # What is wrong with the inputs is told by the run.
            if len(self._sizes) >= 1024:
                self._sizes.clear()
            self._sizes[key] = sizes
        return sizes

    def stats(self) -> dict[str, Any]:
        """What the service tells of the session's memory, and the bytes that were copied on this side of the arena."""
        from .. import _messages

        self._ready()
        with self._lock:
            if self._host is None or not self._host.alive():
                self._open()
            assert self._host is not None
            told: dict[str, Any] = json.loads(self._host.call("Stats", _messages.SessionRequest(session=self._id), None).json)
        return {**told, "host_copied_in": self.copied_in, "host_copied_out": self.copied_out}


def _reach(array: Array) -> Array:
    """The array itself if it lies in the arena, else room for a copy."""
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
