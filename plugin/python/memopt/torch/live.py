"""A step recorded while it trains: the forward pass where the module is called, the backward pass wherever the user starts it."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .measuring import Measuring
    from .recorder import Recorder


class Pending:
    """A recorded or measured forward pass whose backward pass is yet to come."""

    def __init__(self, recorder: Recorder | Measuring, done: Callable[[str], None]) -> None:
        self.recorder, self.done = recorder, done


_here = threading.local()  # .pending: a thread has one at a time
_lock = threading.Lock()
_waiting = 0  # threads that wait
_engine: Any = None  # what ours stands in front of


def pending() -> Pending | None:
    """The recording of this thread that waits for its backward pass."""
    return getattr(_here, "pending", None)


def await_backward(recorder: Recorder | Measuring, done: Callable[[str], None]) -> Pending:
    """Records the next backward pass that comes to the results of a recorded forward pass. Then calls done, with what
    is wrong with it, or nothing."""
    global _waiting, _engine
    _here.pending = Pending(recorder, done)
    with _lock:
        _waiting += 1
        if _engine is None:
            # All of PyTorch's ways into the engine, and those of trainers, go through this name.
            _engine, torch.autograd._engine_run_backward = torch.autograd._engine_run_backward, _run  # type: ignore[assignment]
    return pending()  # type: ignore[return-value]


def _take() -> Pending | None:
    """Ends the wait of this thread."""
    global _waiting, _engine
    found = pending()
    if found is not None:
        _here.pending = None
        with _lock:
            _waiting -= 1
            if _waiting == 0 and torch.autograd._engine_run_backward is _run:
                torch.autograd._engine_run_backward, _engine = _engine, None
    return found


def give_up() -> None:
    """Ends the recording of this thread without a result."""
    found = _take()
    if found is not None:
        found.recorder.close()


atexit.register(give_up)  # a profiler that still runs when the interpreter ends stops it in the wrong order


def _run(roots: Any, grads: Any = None, keep_graph: bool = False, create_graph: bool = False, *args: Any, **kwargs: Any) -> Any:
    engine = _engine

    def run() -> Any:
        return engine(roots, grads, keep_graph, create_graph, *args, **kwargs)

    found = pending()
    if found is None or found.recorder.phase != "between" or not found.recorder.reached_by(roots):
        return run()
    _take()
    if keep_graph or create_graph:
        found.recorder.close()
        out = run()
        found.done("its backward pass keeps the graph (retain_graph or create_graph), which holds everything that a plan would drop")
        return out
    out = found.recorder.backward(run, roots)
    found.done("")
    return out
