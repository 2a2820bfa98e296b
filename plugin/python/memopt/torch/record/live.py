"""Backward passes wherever the user starts them: the one of a step that is recorded while it trains, and errors of those of planned steps."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..step.results import Results


class Watching(Protocol):
    """A recorder or a measurement between a forward pass and its backward pass."""

    phase: str

    def reached_by(self, roots: Sequence[Any]) -> bool:
        """Whether a backward pass from these tensors comes to the forward pass."""

    def backward(self, run: Callable[[], Any], roots: Sequence[Any]) -> Any:
        """Runs the backward pass."""

    def close(self) -> None:
        """Ends, complete or not."""


class Pending:
    """A recorded or measured forward pass whose backward pass is yet to come."""

    def __init__(self, recorder: Watching, done: Callable[[str], None]) -> None:
        self.recorder, self.done = recorder, done


_here = threading.local()  # .pending: a thread has one at a time
_lock = threading.RLock()  # the last use of a step may end inside
_waiting = 0  # threads that wait
_steps: dict[weakref.ref[Any], tuple[Results, Callable[[RuntimeError], None]]] = {}  # whose graphs are there, and who is told of errors of their backward passes
_engine: Any = None  # what ours stands in front of


def pending() -> Pending | None:
    """This thread's recording that waits for its backward pass."""
    return getattr(_here, "pending", None)


def await_backward(recorder: Watching, done: Callable[[str], None]) -> Pending:
    """Records the next backward pass that comes to the results of a recorded forward pass. Then calls done, with what
    is wrong with it, or nothing; a step that goes on waits for the next one from there."""
    global _waiting
    found = pending()
    if found is not None and found.recorder is recorder:
        return found
    give_up()
    _here.pending = Pending(recorder, done)
    with _lock:
        _waiting += 1
        _stand_in()
    return pending()  # type: ignore[return-value]


def tell_errors(step: object, out: Any, failed: Callable[[RuntimeError], None]) -> None:
    """Tells of errors of backward passes from what a forward pass gave, as long as its step is there, which the graph keeps."""
    results = Results()
    if not results.add(out):
        return
    with _lock:
        _steps[weakref.ref(step, _gone)] = results, failed
        _stand_in()


def _gone(step: weakref.ref[Any]) -> None:
    with _lock:
        _steps.pop(step, None)
        _stand_back()


def _stand_in() -> None:
    """Ours is asked for backward passes. All of PyTorch's ways into the engine, and those of trainers, go through this name."""
    global _engine
    if _engine is None:
        _engine, torch.autograd._engine_run_backward = torch.autograd._engine_run_backward, _run  # type: ignore[assignment]


def _stand_back() -> None:
    """The engine is itself again, where nothing waits and nobody stands in front of ours."""
    global _engine
    if _waiting == 0 and not _steps and torch.autograd._engine_run_backward is _run:
        torch.autograd._engine_run_backward, _engine = _engine, None


def keeping() -> bool:
    """Whether the backward pass that runs keeps the graph."""
    return getattr(_here, "keeping", False)


def _take() -> Pending | None:
    """Ends this thread's wait."""
    global _waiting
    found = pending()
    if found is not None:
        _here.pending = None
        with _lock:
            _waiting -= 1
            _stand_back()
    return found


def give_up() -> None:
    """Ends this thread's recording without a result."""
    found = _take()
    if found is not None:
        found.recorder.close()


atexit.register(give_up)  # a profiler that still runs when the interpreter ends stops it in the wrong order


def _run(roots: Any, grads: Any = None, keep_graph: bool = False, create_graph: bool = False, *args: Any, **kwargs: Any) -> Any:
    before, _here.keeping = keeping(), bool(keep_graph or create_graph)
    try:
        return _run_watched(roots, grads, keep_graph, create_graph, *args, **kwargs)
    except RuntimeError as e:
        with _lock:
            steps = list(_steps.values())
        for results, failed in reversed(steps):
            if results.by(roots):
                failed(e)
                break
        raise
    finally:
        _here.keeping = before


def _run_watched(roots: Any, grads: Any, keep_graph: bool, create_graph: bool, *args: Any, **kwargs: Any) -> Any:
    engine = _engine

    def run() -> Any:
        return engine(roots, grads, keep_graph, create_graph, *args, **kwargs)

    found = pending()
    if found is None or found.recorder.phase != "between" or not found.recorder.reached_by(roots):
        return run()
    _take()
    if create_graph:
        found.recorder.close()
        out = run()
        found.done("its backward pass makes a graph (create_graph), which holds everything that a plan would drop")
        return out
    out = found.recorder.backward(run, roots)
    found.done("")
    return out
