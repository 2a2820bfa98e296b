"""memopt.record: records a training step of a module for ``memopt plan``."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import _scratch
from ..._whole import write
from ..ranks.units import Unit
from ..step.given import check_module, check_named, check_request
from ..step.sample import Loss, gradients_kept, inputs_of, scalar, state_kept
from .hooks import Sent
from .joint import graph_of
from .lifetimes import fill
from .live import await_backward, give_up
from .measure import digests
from .operators import Begin, Call, Op, Save, Value
from .recorder import TRANSFORMS, Recorder, refuses_hooks
from .windows import Windows


@dataclass
class Recording:
    """A recorded step. str() summarizes it; save() writes a file for ``memopt plan``."""

    graph: dict[str, Any]
    measured_peak: int  # growth of the allocator's bytes over forward and backward, at its highest
    ops: list[Op] = field(repr=False)
    calls: list[Call] = field(repr=False)
    saves: list[Save] = field(repr=False)
    lasting: int = 0  # bytes that libraries allocated in the step and keep
    before: int | None = None  # bytes that the device's allocator had given out when the step began, where it counts them
    windows: Windows = field(repr=False, default_factory=lambda: Windows([]))  # when sharded parameters were whole
    begins: list[Begin] = field(repr=False, default_factory=list)  # where its forward passes begin
    ends: list[int] = field(repr=False, default_factory=list)  # by pass, forward or backward: the calls of forward passes up to its end
    keeps: bool = False  # a backward pass kept its graph, so that another one could ask for everything again
    partial: bool = False  # work space, and what nobody saw between the passes, are not in it
    replay: str = field(repr=False, default="native")  # who is expected to replay its plan, whose time second runs take
    native: Any = field(repr=False, default=None)  # what is known of it under the native module
    shown: list[list[Value]] = field(repr=False, default_factory=list)  # by forward pass: what its results are
    sent: Sent = field(repr=False, default_factory=Sent)  # what the user's own hooks do
    digests: dict[str, str] = field(repr=False, default_factory=dict)  # of the loss, the gradients and the buffers after the step

    @property
    def units(self) -> Sequence[Unit]:
        """Groups of sharded parameters."""
        return self.windows.units

    @property
    def parameters(self) -> int:
        """Bytes of parameters, each storage once."""
        return sum(n["outputs"][0]["bytes"] for n in self.graph["nodes"] if n.get("kind") == "param")

    def save(self, to: str | os.PathLike[str]) -> None:
        """Writes the joint graph, gzipped if the name ends in .gz. The file appears complete or not at all."""
        path = os.path.expanduser(os.fspath(to))
        text = text_of(self.graph)
        write(path, gzip.compress(text, mtime=0) if path.endswith(".gz") else text)

    @property
    def accumulates(self) -> bool:
        """Whether the step adds to existing gradients instead of creating them."""
        return not any(self.graph["outputs"][self.graph["num_fwd_outputs"] :])

    def accumulating(self) -> Recording:
        """The same step with existing gradients: its own gradients are added to them and freed."""
        n = self.graph["num_fwd_outputs"]
        gradients = set(filter(None, self.graph["outputs"][n:]))
        held: dict[str, set[int]] = {name: {0} for name in gradients}  # outputs, by node: those that a gradient is picked of, too
        for node in self.graph["nodes"]:
            if node["name"] in gradients and "alias_of" in node and "index" in node:
                held.setdefault(node["alias_of"], set()).add(node["index"])
        nodes = [_unheld(node, held[node["name"]]) if node["name"] in held else node for node in self.graph["nodes"]]
        outputs = self.graph["outputs"][:n] + [None] * (len(self.graph["outputs"]) - n)
        return dataclasses.replace(self, graph={**self.graph, "nodes": nodes, "outputs": outputs}, digests={})

    def keep(self, op: Op) -> None:
        """Excludes an operator from recomputation."""
        op.once = True
        for node in self.graph["nodes"]:
            if node["name"] == op.name:
                node["flags"] = ["once"]

    def __str__(self) -> str:
        forward = sum(1 for op in self.ops if not op.backward)
        return (
            f"recorded {len(self.ops)} nodes, {forward} of them forward; the step takes {self.measured_peak / 2**20:.2f} MiB "
            f"of activations, gradients and work space, and {self.parameters / 2**20:.2f} MiB of parameters"
        )


def record(model: torch.nn.Module, *args: Any, loss: Loss | None = None, to: str | os.PathLike[str] | None = None, **kwargs: Any) -> Recording:
    """Runs one training step of model(*args, **kwargs) and writes its joint graph to a file.

    loss   a function of the model's output that returns one number; by default the output itself, its .loss or its ["loss"]
    to     the file, JSON; gzipped if its name ends in .gz

    Parameters, buffers, gradients (also of arguments) and the random state are restored afterwards.
    """
    check_module("record", model)
    check_named("record", model, kwargs, ("loss", "to"))
    check_request(loss=loss)
    args, kwargs = inputs_of(args, kwargs)
    with gradients_kept((args, kwargs)):
        recording = record_call(model, lambda around: around(lambda: model(*args, **kwargs)), loss)
    if to is not None:
        recording.save(to)
    return recording


def record_call(model: torch.nn.Module, run: Callable[[Callable[[Callable[[], Any]], Any]], Any], loss: Loss | None, limit: int | None = None, prices: bool = False) -> Recording:
    """Records one training step, within limit if possible. run calls the model, with its argument
    as context manager around the part to record. prices: without an offload by the user's own hooks, which is looked at."""
    recorder = Recorder(model, limit, prices=prices)
    with state_kept(model):
        try:
            found = scalar(run(recorder.forward), loss)  # the results go where only the loss is read, as in most loops
            await_backward(recorder, lambda _: None)
            found.backward()
            if recorder.reached:
                recorder.finish()
        except RuntimeError as e:
            if not refuses_hooks(e):
                raise
            raise unrecorded(model, TRANSFORMS) from None
        finally:
            give_up()
            recorder.close()
        if recorder.problem:
            raise unrecorded(model, recorder.problem)
        if recorder.phase != "done":
            raise ValueError("the loss does not depend on what the model returns")
        recording = recorded(recorder)
        recording.digests = digests(model, found)
        return recording


def unrecorded(model: torch.nn.Module, why: str) -> RuntimeError:
    """The error of a sample, of which no plan can be made."""
    return RuntimeError(f"memopt: a step of {type(model).__name__} cannot be recorded, so no plan holds for it: {why}")


def text_of(graph: dict[str, Any]) -> bytes:
    """The text of a joint graph's file."""
    return json.dumps(graph, separators=(",", ":"), allow_nan=False).encode()


@contextlib.contextmanager
def as_file(graph: dict[str, Any], text: bytes | None = None) -> Iterator[str]:
    """Writes a joint graph to a temporary file for the service, named after the model."""
    text = text if text is not None else text_of(graph)
    with _scratch.folder(len(text)) as folder:
        path = os.path.join(folder, _scratch.file_name(graph["model"], ""))
        with open(path, "wb") as f:
            f.write(text)
        yield path


def _unheld(node: dict[str, Any], which: set[int]) -> dict[str, Any]:
    return {**node, "outputs": [{k: v for k, v in o.items() if k != "held_until" or i not in which} for i, o in enumerate(node["outputs"])]}


def pin(r: Recorder) -> None:
    """Marks values to be kept that could not be recomputed where they are needed."""
    if not r.windows.units:
        return
    readers: dict[Value, list[Op]] = {}
    for op in r.ops:
        for v in op.inputs:
            readers.setdefault(v, []).append(op)
    needs: dict[Value, frozenset[Unit]] = {}  # the units that must be gathered to make a value that was dropped
    for op in r.ops:
        if op.backward:
            break
        op.units = tuple({r.sharded[v]: None for v in op.inputs if v in r.sharded})
        if op.once or not op.calls:
            continue
        units = frozenset(op.units).union(*(needs.get(v, frozenset()) for v in op.inputs))
        where = [reader.calls[0] if reader.backward else reader.calls[-1] for v in op.outputs for reader in readers.get(v, ()) if reader.calls and reader is not op]
        if units and not all(r.windows.open(units, call) for call in where):
            op.once = True
            r.windows.crossing += sum(v.bytes for v in op.outputs if any(reader.backward for reader in readers.get(v, ())))
        else:
            needs.update((v, units) for v in op.outputs)


def recorded(recorder: Recorder) -> Recording:
    """The recording of a finished recorder."""
    fill(recorder)
    pin(recorder)
    graph = graph_of(recorder)
    place = {span: i for i, span in enumerate(recorder.called)}
    for op in recorder.ops:
        if not op.backward:
            op.calls = [place[span] for span in op.calls]
    r = recorder
    return Recording(graph, graph["measured_peak"], r.ops, r.calls, r.saves, r.lasting, r.before, r.windows, r.begins, r.ends, r.keeps, r.partial, shown=r.shown, sent=r.sent)
