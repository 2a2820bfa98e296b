"""memopt.frontier, max_batch, max_seq, explain and check: of files by the service, of modules by memopt.torch."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _arguments, _fields
from ._arguments import Path
from ._plan import call, texts
from ._section import Section
from ._visible import lines
from .report import Report

if TYPE_CHECKING:
    import torch

    from .torch.largest import Largest as LargestOfModule
    from .torch.questions import Explanation as ExplanationOfModule
    from .torch.questions import Frontier as FrontierOfModule


class Answer(Section):
    """What a command found: its JSON by attribute or by item, and what it prints for people as str()."""

    __slots__ = ("_text",)
    _text: str

    def __init__(self, fields: dict[str, Any], text: str) -> None:
        super().__init__(fields)
        object.__setattr__(self, "_text", text)

    def __str__(self) -> str:
        return lines(self._text).rstrip("\n")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._fields), self._text)


class Point(Section):
    """A plan of a frontier."""

    name: str  # of references alone
    form: str
    peak: int
    arena: int
    fixed: int
    total: int
    overhead: float
    recomputed_nodes: int
    knee: bool


class Frontier(Answer):
    """Every plan worth having of a file's step, and what well-known ways of choosing come to."""

    format: str
    model: str
    dims: Mapping[str, int]
    floor: _fields.Floor
    fixed: int
    points: list[Point]
    references: list[Point]
    ms: float


class Rung(Section):
    """The largest size at a cost."""

    max_overhead: float | None  # None for any
    size: int  # 0 where none fits
    search_ended: bool
    total: int
    arena: int
    peak: int
    overhead: float
    recomputed_nodes: int


class Largest(Answer):
    """The largest size of a file's dim that fits, and its plan."""

    format: str
    dim: str
    max_overhead: float | None
    size: int
    search_ended: bool
    total: int
    arena: int
    peak: int
    overhead: float
    recomputed_nodes: int
    dims: Mapping[str, int]
    ms: float
    ladder: list[Rung]
    plan: _fields.Plan


class Explanation(Answer, _fields.Plan):
    """A plan as its file has it, and what is said of it."""


class NodeExplanation(Answer):
    """What a plan does with one node."""

    format: str
    node: str
    program: str  # the node, as text
    steps: list[int]  # at which it runs
    is_peak: bool
    is_floor: bool
    held: list[Section]
    again: list[Section]
    clusters: list[Section]


class Checked(Answer):
    """A plan that is right, as it was worked out again."""

    format: str
    ok: bool
    peak: int
    arena: int
    steps: int
    recomputed_nodes: int


class Weights(Section):
    """Bytes of weights that the service holds, by where they are."""

    mapped: int
    heap: int
    device: int
    zero: int
    copied_unaligned: int
    copied_unmapped: int


class Store(Section):
    """Weights that several sessions of the service have in common."""

    blocks: int
    bytes: int
    shared: int  # bytes that lie there once and would lie there again otherwise


class Stats(Answer):
    """What the service holds, in bytes."""

    format: str
    version: str
    anonymous: int
    heap: int
    goroutines: int
    weights: Weights
    store: Store


_A = TypeVar("_A", bound=Answer)


def ask(kind: type[_A], model: Path, settings: Mapping[str, Any], timeout: float | None, dim: str = "", node: str = "", **files: Path | None) -> _A:
    """An answer of the service about a file."""
    method, function = _METHODS[kind]
    settings = dict(settings)
    progress = settings.pop("progress", None)
    fields: dict[str, Any] = {"model": _arguments.absolute("path", model), "settings": texts(function, settings), "dim": dim, "node": node}
    fields |= {name: _arguments.absolute(name, path) for name, path in files.items()}
    reply = call(method, "Question", fields, timeout, progress)
    return kind(json.loads(reply.json), reply.text)


_METHODS: dict[type[Answer], tuple[str, str]] = {
    Frontier: ("Frontier", "frontier"), Largest: ("MaxBatch", "max_batch"), Explanation: ("Explain", "explain"), NodeExplanation: ("Explain", "explain"),
    Checked: ("Check", "check"),
}  # fmt: skip


@overload
def frontier(model: Path, *, svg: Path | None = None, timeout: float | None = 600.0, **given: Any) -> Frontier: ...
@overload
def frontier(model: torch.nn.Module, *batch: Any, svg: Path | None = None, timeout: float | None = 600.0, **given: Any) -> FrontierOfModule: ...

def frontier(model: Path | torch.nn.Module, *batch: Any, svg: Path | None = None, timeout: float | None = 600.0, **given: Any) -> Any:
    """Every plan worth having: peak memory against extra compute, from everything kept down to the floor.

    model    an ONNX file or a recorded step; given are settings then, as memopt.plan takes them. Or a torch.nn.Module:
             its step with these inputs is recorded. given may have loss=, a function of the model's output, and
             optimizer=, whose states are counted
    svg      a file to draw the curve to
    """
    if isinstance(model, (str, os.PathLike)):
        _no_batch("frontier", batch)
        return ask(Frontier, model, given, timeout, svg=svg)
    from .torch.questions import frontier

    return frontier(model, *batch, svg=svg, timeout=timeout, **given)


@overload
def max_batch(
    model: Path, make_sample: Any = None, budget: Any = None, *, dim: str = "batch", save_to: Path | None = None, timeout: float | None = 600.0, **given: Any
) -> Largest: ...
@overload
def max_batch(
    model: torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "batch", save_to: Path | None = None, timeout: float | None = 600.0, **given: Any
) -> LargestOfModule: ...
def max_batch(
    model: Path | torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "batch", save_to: Path | None = None, timeout: float | None = 600.0, **given: Any
) -> Any:
    """The largest batch that fits in a budget.

    model        an ONNX file, whose dim is enlarged; given are settings, as memopt.plan takes them, and save_to is a file
                 for the plan. Or a torch.nn.Module
    make_sample  of a module: a function that makes the inputs of a step of n samples, as memopt.optimize takes them
    budget       all that a step may hold, as memopt.optimize takes it
    given        of a module: activation_budget, loss, optimizer, reserve, loss_chunks, and most, the largest that is tried

    Small batches of a module are recorded, the bytes of larger ones follow from them; the answer is checked by a step
    under its plan. No step is run that does not fit.
    """
    if isinstance(model, (str, os.PathLike)):
        if make_sample is not None and budget is None:
            make_sample, budget = None, make_sample
        if make_sample is not None:
            raise TypeError("max_batch: make_sample is for modules; a file has dims")
        return ask(Largest, model, {"budget": budget, **given}, timeout, dim=dim, save_to=save_to)
    from .torch.largest import max_batch

    return max_batch(model, make_sample, budget, **given)


@overload
def max_seq(model: Path, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> Largest: ...
@overload
def max_seq(model: torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> LargestOfModule: ...
def max_seq(model: Path | torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> Any:
    """The longest sequence that fits in a budget: max_batch over another dim. make_sample(n) makes inputs of n tokens a row."""
    if isinstance(model, (str, os.PathLike)):
        return max_batch(model, make_sample, budget, dim=dim, **given)
    from .torch.largest import max_seq

    return max_seq(model, make_sample, budget, **given)


@overload
def explain(plan: Path | Report, *, node: None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> Explanation: ...
@overload
def explain(plan: Path | Report, *, node: str, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> NodeExplanation: ...
@overload
def explain(plan: torch.nn.Module, *batch: Any, node: None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> ExplanationOfModule: ...
@overload
def explain(plan: torch.nn.Module, *batch: Any, node: str, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> NodeExplanation: ...
def explain(plan: Path | Report | torch.nn.Module, *batch: Any, node: str | None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> Any:
    """What a plan keeps, what it runs again, what each choice frees and costs, and what stands in the way of less.

    plan   a plan file, a plan, or a torch.nn.Module: one that memopt.optimize has planned, or any with the inputs of a
           step. given may then have loss=, a function of the model's output
    node   explain this one instead
    html   a file for the same as a page
    """
    if isinstance(plan, Report):
        _no_batch("explain", batch)
        with tempfile.TemporaryDirectory(prefix="memopt-") as folder:
            path = os.path.join(folder, os.path.basename(plan._get("model", "path") or "plan") + ".plan.json")
            plan.save(path)
            return ask(NodeExplanation if node else Explanation, path, given, timeout, node=node or "", html=html)
    if isinstance(plan, (str, os.PathLike)):
        _no_batch("explain", batch)
        return ask(NodeExplanation if node else Explanation, plan, given, timeout, node=node or "", html=html)
    from .torch.questions import explain

    return explain(plan, *batch, node=node, html=html, timeout=timeout, **given)


def check(plan: Path | Report, model: Path, *, timeout: float | None = 600.0, **given: Any) -> Checked:
    """Holds a plan against its model, by another way than the planner's: order, overlap, bytes and cost.

    plan   a plan, or the file of one
    model  the ONNX file or the recorded step that it is of
    given  settings that the plan must keep: dims, and limits that it must not exceed

    Raises MemoptError if the plan is wrong or of another model.
    """
    if isinstance(plan, Report):
        with tempfile.TemporaryDirectory(prefix="memopt-") as folder:
            path = os.path.join(folder, os.path.basename(plan._get("model", "path") or "plan") + ".plan.json")
            plan.save(path)
            return ask(Checked, model, given, timeout, plan=path)
    return ask(Checked, model, given, timeout, plan=plan)


def _no_batch(function: str, batch: tuple[Any, ...]) -> None:
    if batch:
        raise TypeError(f"{function}: inputs are for modules; settings of a file are given by name")
