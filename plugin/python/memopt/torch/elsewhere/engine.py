"""Copies between a device's memory and the places where values are while nothing uses them, beside the computation."""

from __future__ import annotations

import contextlib
import mmap
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from ..._devices import CALLED, COPIES, DISK
from .spill import BLOCK, SpillError, SpillFile, whole

Where = Literal["host", "disk"]
States = Literal["host", "disk", "8bit", "auto"]


def rates(where: Where, device: str) -> tuple[float, float]:
    """Bytes a nanosecond, out and in, between a device, by the name that its driver gives it, and where values are put."""
    if where == "disk":
        return DISK
    return COPIES[next((name for part, name in reversed(CALLED.items()) if part in device), "")]


class Place:
    """Bytes elsewhere, and the last copy from or to them."""

    def __init__(self, nbytes: int, far: Any) -> None:
        self.nbytes, self.far = nbytes, far
        self.last: Any = None
        self.dtype: torch.dtype | None = None  # of its numbers, where they are rounded

    def twin(self) -> Place:
        """A place with the same bytes, of an engine whose places are not written twice."""
        made = Place(self.nbytes, self.far)
        made.dtype = self.dtype
        return made


class Engine(Protocol):
    """Copies in both directions. A copy begins behind what was computed, and behind the last copy of its place, and runs beside what
    is computed from then on: memory that it writes must not be read, and memory that it reads not written, before `wait`."""

    block: int  # of which offsets are multiples
    exact: bool  # what comes back has the bits of what left

    def prepare(self, nbytes: int) -> None:
        """Takes the room of places that will be asked for, or raises if there is not so much."""

    def place(self, nbytes: int) -> Place:
        """Room for so many bytes elsewhere."""

    def part(self, place: Place, at: int, nbytes: int) -> Place:
        """A part of a place, from a whole block on, whose copies have an order of their own."""

    def give_back(self, place: Place) -> None:
        """Room that is not needed any more."""

    def near(self, nbytes: int) -> Tensor:
        """Memory of the device to copy from and to: bytes, of which nothing is known."""

    def leave(self, near: Tensor, place: Place, at: int = 0) -> Any:
        """Begins to copy from the device into a place, from byte `at` of it on; what to wait for."""

    def come(self, place: Place, near: Tensor, at: int = 0) -> Any:
        """Begins to copy from a place to the device; what to wait for."""

    def wait(self, copy: Any) -> None:
        """What is computed from now on may use a copy's memory."""

    def look(self, place: Place, at: int, nbytes: int) -> Tensor:
        """Bytes of a place in the host's memory, to read: from a whole block on."""


class OnDevice:
    """What engines that round have in common: what leaves stays on its device, and copies are over when they return."""

    exact = False

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def prepare(self, nbytes: int) -> None:
        """There is nothing to take before."""

    def give_back(self, place: Place) -> None:
        place.far = None

    def near(self, nbytes: int) -> Tensor:
        return torch.empty(nbytes, dtype=torch.uint8, device=self.device)

    def wait(self, copy: None) -> None:
        """There is nothing to wait for."""


class DiskEngine:
    """Between the memory of the processor and a spill file: a thread makes the copies in the order in which they begin, as both directions share the disk."""

    block = BLOCK
    exact = True

    def __init__(self, folder: str | None = None) -> None:
        self.file = SpillFile(folder)
        self._thread: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def prepare(self, nbytes: int) -> None:
        self.file.prepare(nbytes)

    def place(self, nbytes: int) -> Place:
        return Place(nbytes, self.file.reserve(nbytes))

    def part(self, place: Place, at: int, nbytes: int) -> Place:
        return Place(nbytes, place.far + at)

    def give_back(self, place: Place) -> None:
        with contextlib.suppress(SpillError):  # of a copy that nobody will read
            self._settle(place)
        self.file.release(place.far, place.nbytes)

    def near(self, nbytes: int) -> Tensor:
        return torch.frombuffer(mmap.mmap(-1, max(1, whole(nbytes))), dtype=torch.uint8)[:nbytes]  # at the address of a page, as disks want it

    def leave(self, near: Tensor, place: Place, at: int = 0) -> Future[None]:
        return self._begin(self.file.write, near, place, at)

    def come(self, place: Place, near: Tensor, at: int = 0) -> Future[None]:
        return self._begin(self.file.read, near, place, at)

    def wait(self, copy: Future[None]) -> None:
        copy.result()

    def look(self, place: Place, at: int, nbytes: int) -> Tensor:
        self._settle(place)
        return self.file.mapped(place.far + at, nbytes)

    def _begin(self, move: Callable[[Tensor, int], None], near: Tensor, place: Place, at: int) -> Future[None]:
        before = place.last

        def run() -> None:
            if before is not None:
                before.result()  # raises what went wrong with the bytes that are there
            move(near, place.far + at)

        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="memopt-spill")
            place.last = self._thread.submit(run)
        return place.last  # type: ignore[no-any-return]

    def _settle(self, place: Place) -> None:
        if place.last is not None:
            place.last.result()


class HostEngine:
    """Between a CUDA device and pinned memory of the host: a stream for each direction, so that both run beside the kernels.

    Pinned memory is taken in slabs, which are kept: to pin memory is slow, and waits for the device.
    """

    block = 64
    exact = True

    def __init__(self, device: torch.device, slab: int = 64 << 20) -> None:
        self.device, self.slab = device, slab
        self.streams = {out: torch.cuda.Stream(device) for out in (False, True)}
        self._free: dict[int, list[Tensor]] = defaultdict(list)
        self._rest: Tensor | None = None  # of the slab that was pinned last

    def prepare(self, nbytes: int) -> None:
        if self._rest is None or self._rest.nbytes < nbytes:
            self._rest = torch.empty(whole(nbytes), dtype=torch.uint8, pin_memory=True)

    def place(self, nbytes: int) -> Place:
        size = whole(nbytes)
        if self._free[size]:
            return Place(nbytes, self._free[size].pop())
        if self._rest is None or self._rest.nbytes < size:
            self._rest = torch.empty(max(size, self.slab), dtype=torch.uint8, pin_memory=True)
        far, self._rest = self._rest[:size], self._rest[size:]
        return Place(nbytes, far)

    def part(self, place: Place, at: int, nbytes: int) -> Place:
        return Place(nbytes, place.far[at : at + whole(nbytes)])

    def give_back(self, place: Place) -> None:
        if place.last is not None:
            place.last.synchronize()
        self._free[whole(place.nbytes)].append(place.far)

    def near(self, nbytes: int) -> Tensor:
        return torch.empty(nbytes, dtype=torch.uint8, device=self.device)

    def leave(self, near: Tensor, place: Place, at: int = 0) -> torch.cuda.Event:
        return self._begin(True, near, place, at)

    def come(self, place: Place, near: Tensor, at: int = 0) -> torch.cuda.Event:
        return self._begin(False, near, place, at)

    def wait(self, copy: torch.cuda.Event) -> None:
        torch.cuda.current_stream(self.device).wait_event(copy)

    def look(self, place: Place, at: int, nbytes: int) -> Tensor:
        if place.last is not None:
            place.last.synchronize()
        found: Tensor = place.far[at : at + nbytes].clone()
        return found

    def _begin(self, out: bool, near: Tensor, place: Place, at: int) -> torch.cuda.Event:
        stream = self.streams[out]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        if place.last is not None:
            stream.wait_event(place.last)
        far = place.far[at : at + near.nbytes]
        with torch.cuda.stream(stream):
            (far if out else near).copy_(near if out else far, non_blocking=True)
            near.record_stream(stream)  # the allocator gives this memory to nobody before the copy is over
            place.last = torch.cuda.Event()
            place.last.record(stream)
        return place.last


def engine_of(device: torch.device, where: Where, what: str) -> Engine:
    """The copies of a device's values. what: the argument that asks for them."""
    if where not in ("host", "disk"):
        raise ValueError(f"{what} is {where!r}; there are 'host', the memory of the host, and 'disk', a spill file")
    if device.type == "cpu":
        if where == "host":
            raise ValueError(f"{what} is 'host', where the values of a module on the processor are already: give 'disk', or move the module to a CUDA device")
        return DiskEngine()
    if device.type != "cuda":
        raise ValueError(f"{what} is {where!r}, and the module is on {device.type}: values move from a CUDA device to the host, and from the processor to a disk")
    if where == "disk":
        raise ValueError(f"{what} is 'disk', and the module is on {device}: a CUDA device's values move to the host's memory: give 'host'")
    return HostEngine(device)
