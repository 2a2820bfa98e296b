"""Work space of operators: bytes that they hold while they run, beyond their results.

Graphs do not contain it. It is determined by the operator, the shapes and strides of its operands, and the number of threads; so
each operator is run once for each of these, alone, on operands of zeros, and the allocator's events are read.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import _disable_current_modes

from ..record.measure import events_of, profiled
from .graph import Op, hint, nbytes, writes

_known: dict[Any, tuple[int, list[int]]] = {}  # by signature
_RUN = "memopt work "


def fill(ops: Iterable[Op]) -> None:
    """Measures the work space of new operators, and fills it in."""
    wanted: dict[Any, Op] = {}
    signed = [(op, _signature(op.node)) for op in ops if _measurable(op)]
    for op, key in signed:
        if key not in _known:
            wanted.setdefault(key, op)
    if wanted:
        _known.update(_measure(wanted))
    for op, key in signed:
        op.held, sizes = _known[key]
        for o in op.outputs:
            at = 0 if o is op.node else o.args[1]
            assert isinstance(at, int)
            if at < len(sizes) and sizes[at] > nbytes(o.meta["val"]):
                op.sizes[o] = sizes[at]


def _measurable(op: Op) -> bool:
    target = op.node.target
    return not op.inside and isinstance(target, torch._ops.OpOverload) and target.namespace == "aten" and not writes(op.node)


def _signature(n: fx.Node) -> Any:
    def of(x: Any) -> Any:
        if isinstance(x, fx.Node):
            return of(x.meta.get("val"))
        if isinstance(x, torch.Tensor):
            return tuple(map(hint, x.shape)), tuple(map(hint, x.stride())), x.dtype, str(x.device)
        if isinstance(x, (list, tuple)):
            return tuple(of(y) for y in x)
        if isinstance(x, dict):
            return tuple((k, of(v)) for k, v in x.items())
        return hint(x) if isinstance(x, torch.SymInt) else repr(x)

    return str(n.target), of(n.args), of(n.kwargs), torch.get_num_threads()


def _measure(wanted: dict[Any, Op]) -> dict[Any, tuple[int, list[int]]]:
    found: dict[Any, int] = {}
    sizes: dict[Any, list[int]] = {}
    ran: list[Any] = []
    with _alone(), profiled() as profile:
        for key, op in wanted.items():
            for filled in (0, 1):
                try:
                    args, kwargs = _operands(op.node, filled)
                    with torch.profiler.record_function(f"{_RUN}{len(ran)}"):
                        out = op.node.target(*args, **kwargs)
                    sizes[key] = [t.untyped_storage().nbytes() if isinstance(t, torch.Tensor) else 0 for t in (out if isinstance(out, (list, tuple)) else [out])]
                    del out
                    ran.append(key)
                    break
                except Exception:  # zeros are no operands for it: nothing is known
                    ran.append(None)
            else:
                found[key] = 0
            args = kwargs = None
    events, spans = events_of(profile)
    times = [e[0] for e in events]
    for i, key in enumerate(ran):
        if key is None or f"{_RUN}{i}" not in spans:
            continue
        begin, end = spans[f"{_RUN}{i}"][0]
        held = peak = 0
        for _, _, size in events[bisect.bisect_left(times, begin) : bisect.bisect_right(times, end)]:
            held += size
            peak = max(peak, held)
        found[key] = peak
    return {key: (found.get(key, 0), sizes.get(key, [])) for key in wanted}


def _operands(n: fx.Node, filled: int) -> Any:
    return _plain(fx.node.map_arg((n.args, n.kwargs), lambda m: _real(m.meta.get("val"), filled)))


def _real(value: Any, filled: int) -> Any:
    if isinstance(value, torch.Tensor):
        t = torch.empty_strided([hint(s) for s in value.shape], [hint(s) for s in value.stride()], dtype=value.dtype, device=value.device)
        storage = t.untyped_storage()
        torch.empty(0, dtype=t.dtype, device=t.device).set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,)).fill_(filled)
        return t
    return hint(value) if isinstance(value, torch.SymInt) else value


def _plain(x: Any) -> Any:
    if isinstance(x, torch.SymInt):
        return hint(x)
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(y) for y in x)
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """A context with real tensors, without gradients and autocast, that restores the random state."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast(), torch.random.fork_rng(devices=devices):
        yield
