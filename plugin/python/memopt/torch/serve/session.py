"""A training step open in the service: its file, its plans by shapes, and the places of its tensors in the arena."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from ... import _arena, _closing, _host, _messages, _scratch
from ..._plan import call
from ..._progress import Watch
from ...errors import MemoptError
from ...report import Report
from .export import NEXT, Exported, NotExported

_TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
    torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}  # fmt: skip
_BY_NAME = {name: dtype for dtype, name in _TYPES.items()}
_KEPT = ("param", "buffer", "frozen", "state")  # what lasts from step to step, and has one place for all shapes
_MOST = 16  # plans that the service keeps of a session
_PART = 64 << 20  # bytes that are copied at a time to or from a service that keeps the weights


class Stepped(NamedTuple):
    """The time and memory of a step, or of half of one."""

    run: int
    seconds: float
    peak: int
    loss: float


class Tensor(NamedTuple):
    """A tensor of a binding, with its place in the arena."""

    at: int
    name: str
    role: str
    shape: tuple[int, ...]
    block: _arena.Block | None
    view: torch.Tensor


class Binding:
    """The plan for one batch's shapes."""

    def __init__(self, number: int, tensors: Sequence[Tensor], plan: Report, known: bool) -> None:
        self.number = number
        self.plan = plan
        self.known = known
        self._by_role: dict[str, dict[str, Tensor]] = {}
        for t in tensors:
            self._by_role.setdefault(t.role, {})[t.name] = t

    def of(self, role: str) -> dict[str, Tensor]:
        """The tensors of a role, by name."""
        return self._by_role.get(role, {})


class Look(Protocol):
    """A request for additional output about the first plan of a session."""

    def request(self) -> dict[str, Any]:
        """Fields of the request for a plan: show, save_before, save_after."""

    def told(self, shown: str, warnings: Sequence[str]) -> None:
        """Receives the output and the warnings."""


class Session:
    """One open session. It belongs to the process that opened it, and ends with the service; callers then open another."""

    def __init__(self, exported: Exported, mode: str, settings: Mapping[str, str], grads: Sequence[str] = (), look: Look | None = None) -> None:
        self.exported = exported
        self._look = look
        self.mode = mode
        self._process = os.getpid()
        self._host = _host.current()
        self._lock = threading.RLock()
        self._bindings: OrderedDict[tuple[Any, ...], Binding] = OrderedDict()
        self._places: dict[tuple[str, str], tuple[_arena.Block | None, torch.Tensor]] = {}
        self.last: Any = None  # whose forward pass the service could go back from
        self._seen: dict[str, tuple[int, int]] = {}  # of what is kept: where it lay and its version, when it was copied
        _closing.closer.drain()
        with _scratch.folder(exported.file_bytes()) as folder:  # the service has it open
            fields: dict[str, Any] = {"model": exported.write(folder), "mode": mode, "settings": dict(settings)}
            if mode == "bridge":
                fields["outputs"] = [r.name for r in exported.results if r.differentiable]
                fields["grads"] = list(grads)
            told = call("Open", fields, None, message="OpenRequest")
        self._id = int(told.session)
        self._end = _closing.closer.watch(self, self._host, self._id)
        self.device = str(told.device)
        self.trained = [str(p.name) for p in told.params]
        extra = [name for name in self.trained if name not in exported.parameters]
        if extra:
            raise NotExported(f"the service would train what the module does not: {', '.join(extra)}")

    def alive(self) -> bool:
        """Whether it can be called from here."""
        return os.getpid() == self._process and self._host.alive()

    def close(self) -> None:
        """Closes it, and frees its memory."""
        self._bindings.clear()
        self._places.clear()
        self._end()
        if self.alive():
            _closing.closer.drain()

    def bind(self, inputs: Mapping[str, torch.Tensor]) -> Binding:
        """The plan for inputs of these shapes: made, or found."""
        key = tuple((name, t.dtype, tuple(t.shape)) for name, t in inputs.items())
        with self._lock:
            found = self._bindings.get(key)
            if found is not None:
                self._bindings.move_to_end(key)
                return found
            batch = [_messages.Tensor(name=name, type=_type(name, t.dtype), shape=t.shape) for name, t in inputs.items()]
            look, self._look = self._look, None
            more = look.request() if look is not None else {}
            with Watch(self._host, None) as watch:
                told = self._host.call("Bind", _messages.BindRequest(session=self._id, inputs=batch, job=watch.job, **more), None)
            if look is not None:
                look.told(told.shown, told.warnings)
            else:
                for warning in told.warnings:
                    logging.getLogger("memopt").warning("%s", warning)
            tensors = [self._place(i, t) for i, t in enumerate(told.tensors)]
            spans = [_messages.Span() if t.block is None else t.block.span() for t in tensors]
            self._host.call("Bind", _messages.BindRequest(session=self._id, binding=told.binding, spans=spans), None)
            binding = Binding(int(told.binding), tensors, Report(told.plan_json, told.text), bool(told.known))
            self._bindings[key] = binding
            if len(self._bindings) > _MOST:
                self._bindings.popitem(last=False)
            return binding

    def _place(self, index: int, t: Any) -> Tensor:
        """Allocates a tensor of a binding; kept tensors and their gradients share one place among all bindings."""
        role, dtype, shape = str(t.role), _BY_NAME[t.type], tuple(t.shape)
        shared = role in _KEPT or role == "grad" and t.name in self.exported.parameters
        place = self._places.get((role, t.name)) if shared else None
        if place is None:
            nbytes = dtype.itemsize
            for n in shape:
                nbytes *= n
            block = _arena.current().alloc(nbytes) if self._wanted(role, t.name) and nbytes else None
            place = block, (torch.empty(shape if not nbytes else 0, dtype=dtype) if block is None else block.tensor(dtype, shape))
            if shared:
                self._places[role, t.name] = place
        return Tensor(index, str(t.name), role, shape, *place)

    def _wanted(self, role: str, name: str) -> bool:
        """Whether a tensor needs a place in the arena. Where weights stay in the service, only what the module counts does."""
        if self.mode == "bridge":
            return role != "state"
        return role == "input" or role == "output" and name.removesuffix(NEXT) in self.exported.updated

    def bring(self, binding: Binding, inputs: Mapping[str, torch.Tensor], instead: Mapping[str, torch.Tensor]) -> list[int]:
        """Copies a batch to the arena, and kept tensors (or replacements) that have changed. Returns the indices of those."""
        self.put(binding, inputs)
        changed = []
        held: dict[str, torch.Tensor] = {**self.exported.parameters, **self.exported.buffers, **instead}
        for role in ("param", "buffer", "frozen"):
            for name, place in binding.of(role).items():
                if self._renew(name, held[name].detach(), place.view):
                    changed.append(place.at)
        return changed

    def put(self, binding: Binding, inputs: Mapping[str, torch.Tensor]) -> None:
        """Copies a batch to the arena."""
        for name, t in inputs.items():
            binding.of("input")[name].view.copy_(t.detach())

    def _renew(self, name: str, now: torch.Tensor, view: torch.Tensor) -> bool:
        """Copies a kept tensor if its content in the arena differs. Writing through .data does not change the version, so bits are compared."""
        mark = now.data_ptr(), now._version
        if self._seen.get(name) == mark and now.device.type == "cpu" and _same_bits(now, view):
            return False
        view.copy_(now)
        self._seen[name] = mark
        return True

    def knows(self, name: str, now: torch.Tensor) -> None:
        """Notes that a kept tensor equals its content in the arena."""
        self._seen[name] = now.data_ptr(), now._version

    def has(self, name: str, now: torch.Tensor) -> bool:
        """Whether a kept tensor is unchanged, according to its version."""
        return self._seen.get(name) == (now.data_ptr(), now._version)

    def forget(self, name: str) -> None:
        """Notes that a kept tensor differs from its content in the arena."""
        self._seen.pop(name, None)

    def step(self, method: str, binding: Binding, **fields: Any) -> Stepped:
        """Forward, Backward or Step."""
        if not self.alive():
            raise MemoptError("the session has ended with its service", code="UNAVAILABLE")
        r = self._host.call(method, _messages.StepRequest(session=self._id, binding=binding.number, **fields), None)
        return Stepped(int(r.run), float(r.seconds), int(r.peak), float(r.loss))

    def loaded(self) -> dict[str, Any] | None:
        """What loading the weights was promised to take and took: memopt.sessionstats/1's load."""
        told: dict[str, Any] = json.loads(self._host.call("Stats", _messages.SessionRequest(session=self._id), None).json)
        return told.get("load")

    def sync(self, tensors: Mapping[str, torch.Tensor], to_service: bool) -> None:
        """Copies tensors of the service by name, to it or into given ones; in groups, to limit the arena."""
        part: dict[str, torch.Tensor] = {}
        left = _PART
        for name, t in tensors.items():
            if part and left < t.numel() * t.element_size():
                self._sync(part, to_service)
                part, left = {}, _PART
            part[name] = t
            left -= t.numel() * t.element_size()
        if part:
            self._sync(part, to_service)

    def _sync(self, tensors: Mapping[str, torch.Tensor], to_service: bool) -> None:
        blocks = {name: _arena.current().alloc(t.numel() * t.element_size()) for name, t in tensors.items()}
        sent = []
        for name, t in tensors.items():
            if to_service:
                blocks[name].tensor(t.dtype, t.shape).copy_(t.detach())
            sent.append(_messages.Tensor(name=name, type=_type(name, t.dtype), shape=t.shape, span=blocks[name].span()))
        self._host.call("Sync", _messages.SyncRequest(session=self._id, tensors=sent, to_service=to_service), None)
        if not to_service:
            with torch.no_grad():
                for name, t in tensors.items():
                    t.copy_(blocks[name].tensor(t.dtype, t.shape))


def _type(name: str, dtype: torch.dtype) -> str:
    found = _TYPES.get(dtype)
    if found is None:
        raise NotExported(f"{name} is of {dtype}, which the service does not know")
    return found


_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    word = _WORDS[a.element_size()]
    return torch.equal(a.contiguous().view(word), b.view(word))
