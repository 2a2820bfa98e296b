"""A step is recorded with tensors that have no bytes: nothing is allocated and nothing computed."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from ..step.sample import Loss, scalar, training_mode
from ..step.standin import own_forward
from .events import Events, Found
from .floor import Step
from .operators import Save
from .record import Recording, recorded
from .recorder import Recorder
from .within import Packed


class _Counted(Events):
    """Storages without bytes, by a clock that counts spans. No allocator is asked, as nothing is allocated."""

    partial = False  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0

    def now(self) -> int:
        return self._now + 1

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        self._now += 2
        began = self._now
        try:
            yield
        finally:
            self._now += 2
            self._spans.setdefault(name, []).append((began, self._now))
            self._ended = self._now

    def begin(self) -> None:
        self._open = True

    def read(self, device: torch.device) -> Found:
        return sorted(self._events), self._spans


class TooLong(ValueError):
    """A step has more operators than are recorded."""


class DependsOnValues(ValueError):
    """A step asks for values, which tensors without bytes do not have."""


class _FakeRecorder(Recorder):
    """A recorder of tensors without bytes: nothing is run twice to see whether it repeats."""

    def __init__(self, model: torch.nn.Module, most: int | None) -> None:
        """most is the most operators that are recorded."""
        super().__init__(model)
        self.events = _Counted()
        self.most = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Not where C++ asks a tensor for its device or layout, by functions that must not fail.
        if self.most is not None and len(self.calls) > self.most and func.namespace != "prim":
            raise TooLong(f"more than {self.most:,} operators")
        # What a program asks of values is whether a mask is full, or a batch is one sequence a row: it takes the plain way.
        if func is torch.ops.aten._local_scalar_dense.default and args[0].dtype == torch.bool:
            return True
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _repeats(self, *args: Any, **kwargs: Any) -> bool:
        return True

    def _pack(self, t: torch.Tensor) -> Packed:
        save = Save(len(self.calls), self.value(t))
        self.saves.append(save)
        with _disable_current_modes():  # unseen: a tensor of ours is none that Python holds
            held = t.detach()
        return Packed(held, t, save, self._graph())


def fake_recording(
    model: torch.nn.Module, batch: tuple[Any, ...], kwargs: dict[str, Any], loss: Loss | None, device: str | torch.device | None,
    around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext, wrap: Callable[[torch.nn.Module, Callable[..., Any]], Callable[..., Any]] | None = None,
    most: int | None = None,
) -> Recording:
    """A step of tensors without bytes. Its peak is that of the graph. Its forward pass, in what wrap puts around it, runs within around(). Raises TooLong
    where it has more operators than most."""
    forward = own_forward(model) if wrap is None else wrap(model, own_forward(model))
    where = torch.device(device) if device is not None else next((p.device for p in model.parameters()), torch.device("cpu"))
    if where.type == "meta":
        where = torch.device("cpu")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode, training_mode(model), _faked(model, where), _untraced():
            args, named = _fake((batch, kwargs), where)
            recorder = _FakeRecorder(model, most)
            try:
                # The loss is within, as what runs between the passes is known by its allocations alone.
                found = recorder.forward(functools.partial(_loss_of, functools.partial(forward, *args, **named), loss, around))
                recorder.backward(found.backward, [found])
            finally:
                recorder.close()
            recording = recorded(recorder)
    except (DataDependentOutputException, DynamicOutputShapeException) as e:
        raise DependsOnValues(f"the step depends on values, which tensors without bytes do not have ({e}); memopt.record runs a real one") from e
    recording.measured_peak = recording.graph["measured_peak"] = Step(recording.graph).peak()
    return recording


def _loss_of(forward: Callable[[], Any], loss: Loss | None, around: Callable[[], AbstractContextManager[Any]]) -> torch.Tensor:
    with around():
        return scalar(forward(), loss)


@contextlib.contextmanager
def _untraced() -> Iterator[None]:
    """Transformers takes tensors without bytes for those of an export, and would run another program."""
    utils: Any = sys.modules.get("transformers.utils.import_utils")
    asked = getattr(utils, "is_fake_tensor", None)
    if asked is not None:
        utils.is_fake_tensor = lambda _: False
    try:
        yield
    finally:
        if asked is not None:
            utils.is_fake_tensor = asked


@contextlib.contextmanager
def _faked(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Has parameters and buffers without bytes in the place of the module's."""
    made: dict[int, torch.Tensor] = {}
    kept: list[tuple[dict[str, Any], str, Any]] = []
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, t in table.items():
                if t is None:
                    continue
                if id(t) not in made:
                    like = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
                    made[id(t)] = torch.nn.Parameter(like, t.requires_grad) if isinstance(t, torch.nn.Parameter) else like
                kept.append((table, name, t))
    for table, name, t in kept:
        table[name] = made[id(t)]
    try:
        yield
    finally:
        for table, name, t in kept:
            table[name] = t


def _fake(x: Any, device: torch.device) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).requires_grad_(x.requires_grad)
    if isinstance(x, tuple) and hasattr(x, "_fields"):  # a named one
        return type(x)(*(_fake(y, device) for y in x))
    if isinstance(x, (list, tuple)):
        return type(x)(_fake(y, device) for y in x)
    if isinstance(x, MutableMapping):  # of whatever class: models ask for attributes of some
        made = copy.copy(x)
        for k, v in x.items():
            made[k] = _fake(v, device)
        return made
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        like = copy.copy(x)
        for f in dataclasses.fields(x):
            object.__setattr__(like, f.name, _fake(getattr(x, f.name), device))
        return like
    return x
