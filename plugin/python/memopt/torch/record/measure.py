"""Measurement of steps: the peak growth of allocated bytes, and digests of all results."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..step.sample import Loss, scalar, state_kept
from ..step.spent import Spent
from ..step.tensors import local
from .live import give_up

_SPAN = "memopt measured"


class ProfilerBusy(RuntimeError):
    """A profiler runs already."""


@dataclass
class Measured:
    """What one step did."""

    peak: int
    digests: dict[str, str]


class Profiler:
    """PyTorch's profiler, from here to stop. There is only one: if it is in use, this raises ProfilerBusy, and if somebody
    else's starts meanwhile, ours gives way and is lost."""

    def __init__(self) -> None:
        if torch.autograd._profiler_enabled():
            give_up()  # ours waits for a backward pass that has not come
        if torch.autograd._profiler_enabled():
            raise ProfilerBusy("a profiler is running, and there is only one")
        self.lost = False
        # Not torch.profiler.profile, which loads the compiler.
        device = "cuda" if torch.cuda.is_initialized() else None
        self.profile = torch.autograd.profiler.profile(use_kineto=True, use_device=device, profile_memory=True)
        self.profile.__enter__()
        self._thread = threading.get_ident()
        self._starts = {name: start for name in _STARTS if (start := getattr(torch.autograd.profiler, name, None)) is not None}
        for name, start in self._starts.items():
            setattr(torch.autograd.profiler, name, functools.partial(self._give_way, start))

    def stop(self) -> None:
        if not self._starts:
            return
        for name, start in self._starts.items():
            setattr(torch.autograd.profiler, name, start)
        self._starts = {}
        if self._thread == threading.get_ident():  # else the other thread's has ended it
            self.profile.__exit__(None, None, None)

    def _give_way(self, start: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.lost = True
        self.stop()
        return start(*args, **kwargs)


_STARTS = ("_prepare_profiler", "_enable_profiler")  # how all of PyTorch's profilers start


@contextlib.contextmanager
def profiled() -> Iterator[torch.autograd.profiler.profile]:
    """Profiles memory, where nobody else can start a profiler."""
    profiler = Profiler()
    try:
        yield profiler.profile
    finally:
        profiler.stop()


def events_of(profile: torch.autograd.profiler.profile, device: str = "cpu") -> tuple[list[tuple[int, int, int]], dict[str, list[tuple[int, int]]]]:
    """The events of a device's allocator in a finished profile, in order, as (time, address, bytes), those freed below 0; and when each of our spans ran."""
    events: list[tuple[int, int, int]] = []
    spans: dict[str, list[tuple[int, int]]] = {}
    assert profile.kineto_results is not None
    stack = list(profile.kineto_results.experimental_event_tree())
    while stack:
        e = stack.pop()
        stack.extend(e.children)
        if e.tag == torch._C._profiler._EventType.Allocation:
            if e.extra_fields.device.type == device:
                events.append((e.start_time_ns, e.extra_fields.ptr, e.extra_fields.alloc_size))
        elif e.tag == torch._C._profiler._EventType.TorchOp and e.name.startswith("memopt "):  # not when a device did what a span asked for
            spans.setdefault(e.name, []).append((e.start_time_ns, e.end_time_ns))
    return sorted(events), spans


BEGINS, ENDS = " begins", " ends"


def mark(name: str) -> None:
    """A moment of a profile. A span of the profiler that is open when another profiler takes its place would end in memory that is gone."""
    with torch.profiler.record_function(name):
        pass


def marked(spans: dict[str, list[tuple[int, int]]], name: str) -> list[tuple[int, int]]:
    """The spans between two marks each."""
    return [(begin, end) for (_, begin), (end, _) in zip(sorted(spans.get(name + BEGINS, [])), sorted(spans.get(name + ENDS, [])), strict=True)]


def device_of(model: torch.nn.Module) -> torch.device:
    """The device of a module: that of its first parameter."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def highest(events: list[tuple[int, int, int]], span: tuple[int, int]) -> int:
    """The most bytes that were allocated within a span and not yet freed. Blocks from before it do not count when they are
    freed: the allocator knows the size of some of them alone, by what an earlier profile saw at their address."""
    live = peak = 0
    held: dict[int, int] = {}
    for at, address, size in events:
        if not span[0] <= at <= span[1]:
            continue
        if size > 0:
            held[address] = size
            live += size
            peak = max(peak, live)
        else:
            live -= held.pop(address, 0)
    return peak


class Watch:
    """The peak of what ran within: bytes allocated and not yet freed, at the most."""

    peak: int | None = 0  # None if somebody else's profiler came between


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Measures a block: on a CUDA device by the allocator's own counter, elsewhere by the profiler's memory events."""
    watch = Watch()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield watch
        torch.cuda.synchronize()
        watch.peak = torch.cuda.max_memory_allocated() - before
        return
    profiler = Profiler()
    try:
        mark(_SPAN + BEGINS)
        yield watch
        if not profiler.lost:
            mark(_SPAN + ENDS)
    finally:
        profiler.stop()
    if profiler.lost:
        watch.peak = None
        return
    events, spans = events_of(profiler.profile)
    watch.peak = highest(events, marked(spans, _SPAN)[0])


def step_peak(model: torch.nn.Module, forward: Callable[[], Any], loss: Loss | None, hold: bool = False) -> Measured:
    """Runs one step and measures it, with the results of the forward pass held to its end or not. The module is restored."""
    with state_kept(model):
        with watched() as watch:
            out = forward()
            found = scalar(out, loss)
            if not hold:
                del out
            found.backward()
            out = None
        return Measured(watch.peak or 0, digests(model, found))


def gradients(model: torch.nn.Module, forward: Callable[[], Any], loss: Loss | None) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of one step, and its gradients in double precision in the host's memory. The module is restored."""
    with state_kept(model):
        found = scalar(forward(), loss)
        found.backward()
        made = {name: local(p.grad).detach().cpu().double() for name, p in model.named_parameters() if p.grad is not None and not isinstance(p.grad, Spent) and p.grad.layout == torch.strided}
        return float(found.detach()), made


def digests(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, str]:
    """Digests of the loss, the gradients and the buffers."""
    made = {"the loss": digest(loss)}
    for name, p in model.named_parameters():
        if isinstance(p.grad, Spent):
            if p.grad.digest is not None:
                made[f"the gradient of {name}"] = p.grad.digest
        elif p.grad is not None:
            made[f"the gradient of {name}"] = digest(local(p.grad))
    for name, b in model.named_buffers():
        made[f"the buffer {name}"] = digest(b)
    return made


def digest(t: torch.Tensor) -> str:
    if t.layout != torch.strided:
        t = t.coalesce() if t.layout == torch.sparse_coo else t
        return "".join(digest(x) for x in ((t.indices(), t.values()) if t.layout == torch.sparse_coo else (t.to_dense(),)))
    flat = t.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return hashlib.blake2b(flat.view(torch.uint8).numpy() if flat.numel() else b"", digest_size=16).hexdigest()
