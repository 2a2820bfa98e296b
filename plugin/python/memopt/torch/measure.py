"""Steps measured: the growth of the allocator's bytes at its highest, and digests of everything that a step makes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

_SPAN = "memopt measured"


@dataclass
class Measured:
    """What one step did."""

    peak: int
    digests: dict[str, str]


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
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile, torch.profiler.record_function(_SPAN):
        yield watch
    events: list[tuple[int, int]] = []
    span = (0, 0)
    assert profile.profiler is not None and profile.profiler.kineto_results is not None
    stack = list(profile.profiler.kineto_results.experimental_event_tree())
    while stack:
        e = stack.pop()
        stack.extend(e.children)
        if e.tag == torch._C._profiler._EventType.Allocation:
            events.append((e.start_time_ns, e.extra_fields.alloc_size))
        elif e.name == _SPAN:
            span = (e.start_time_ns, e.end_time_ns)
    live = 0
    for at, size in sorted(events):
        if span[0] <= at <= span[1]:
            live += size
            watch.peak = max(watch.peak, live)


def step_peak(model: torch.nn.Module, forward: Callable[[], Any], loss: Callable[[Any], torch.Tensor] | None) -> Measured:
    """Runs one step and measures it. The module is afterwards what it was."""
    from .record import scalar, state_kept

    with state_kept(model):
        with watched() as watch:
            found = scalar(forward(), loss)
            found.backward()
        return Measured(watch.peak, digests(model, found))


def digests(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, str]:
    """Digests of the loss, the gradients and the buffers."""
    made = {"the loss": _digest(loss)}
    for name, p in model.named_parameters():
        if p.grad is not None:
            made[f"the gradient of {name}"] = _digest(p.grad)
    for name, b in model.named_buffers():
        made[f"the buffer {name}"] = _digest(b)
    return made


def _digest(t: torch.Tensor) -> str:
    if t.layout != torch.strided:
        t = t.coalesce() if t.layout == torch.sparse_coo else t
        return "".join(_digest(x) for x in ((t.indices(), t.values()) if t.layout == torch.sparse_coo else (t.to_dense(),)))
    flat = t.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    return hashlib.blake2b(flat.view(torch.uint8).numpy() if flat.numel() else b"", digest_size=16).hexdigest()
