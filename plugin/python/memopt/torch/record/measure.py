"""Measurement of steps: the peak growth of allocated bytes, and digests of all results."""

from __future__ import annotations

import contextlib
import hashlib
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


@contextlib.contextmanager
def profiled() -> Iterator[torch.autograd.profiler.profile]:
    """Profiles memory. There is only one profiler: if it is in use, this raises ProfilerBusy."""
    if torch.autograd._profiler_enabled():
        give_up()  # ours waits for a backward pass that has not come
    if torch.autograd._profiler_enabled():
        raise ProfilerBusy("a profiler is running, and there is only one")
    # Not torch.profiler.profile, which loads the compiler.
    device = "cuda" if torch.cuda.is_initialized() else None
    with torch.autograd.profiler.profile(use_kineto=True, use_device=device, profile_memory=True) as profile:
        yield profile


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


def device_of(model: torch.nn.Module) -> torch.device:
    """The device of a module: that of its first parameter."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def highest(events: list[tuple[int, int, int]], span: tuple[int, int]) -> int:
    """The most bytes that were allocated within a span and not yet freed."""
    live = peak = 0
    for at, _, size in events:
        if span[0] <= at <= span[1]:
            live += size
            peak = max(peak, live)
    return peak


class Watch:
    """The peak of what ran within: bytes allocated and not yet freed, at the most."""

    peak = 0


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
    with profiled() as profile, torch.profiler.record_function(_SPAN):
        yield watch
    events, spans = events_of(profile)
    watch.peak = highest(events, spans[_SPAN][0])


def step_peak(model: torch.nn.Module, forward: Callable[[], Any], loss: Loss | None) -> Measured:
    """Runs one step and measures it. The module is restored."""
    with state_kept(model):
        with watched() as watch:
            out = forward()
            found = scalar(out, loss)
            found.backward()
            del out
        return Measured(watch.peak, digests(model, found))


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
