"""memopt.frontier, max_batch, max_seq, explain and check: the service answers for files, memopt.torch for modules."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _arguments, _fields, _scratch
from ._arguments import Path
from ._plan import call, texts
from ._section import Section
from ._visible import lines
from .report import Report

if TYPE_CHECKING:
    import torch

    from .errors import BudgetError
    from .torch.ask.largest import Largest as LargestOfModule
    from .torch.ask.questions import Explanation as ExplanationOfModule
    from .torch.ask.questions import Frontier as FrontierOfModule


class Answer(Section):
    """The result of a command: its JSON by attribute or by item, and its text as str()."""

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

    name: str  # of references only
    form: str
    peak: int
    arena: int
    fixed: int
    total: int
    overhead: float
    recomputed_nodes: int
    moved: int  # bytes that go elsewhere and back; absent where none do
    states: _fields.Streamed  # what is elsewhere with states="auto"; absent where all are in memory
    knee: bool


class Frontier(Answer):
    """The Pareto-optimal plans of a file's step, and the results of well-known methods for comparison."""

    format: str
    model: str
    dims: Mapping[str, int]
    profile: _fields.Profile  # whose time extra costs are; absent where they are flops and bytes
    floor: _fields.Floor
    fixed: int
    points: list[Point]
    references: list[Point]
    ms: float


class Rung(Section):
    """The largest size within a limit of extra time."""

    max_overhead: float | None  # None: no limit
    size: int  # 0: none fits
    search_ended: bool
    total: int
    arena: int
    peak: int
    overhead: float
    recomputed_nodes: int
    forms: list[str]  # of the step that the planner took
    tiles: list[_fields.Tiled]  # of its layers
    moved: int  # bytes that the plan keeps elsewhere


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
    forms: list[str]
    tiles: list[_fields.Tiled]
    moved: int
    dims: Mapping[str, int]
    ms: float
    ladder: list[Rung]
    plan: _fields.Plan


class Explanation(Answer, _fields.Plan):
    """The fields of a plan file, and the explanation as str()."""


class NodeExplanation(Answer):
    """How a plan treats one node."""

    format: str
    node: str
    program: str  # the node, as text
    steps: list[int]  # the steps at which it runs
    is_peak: bool
    is_floor: bool
    held: list[Section]
    again: list[Section]
    clusters: list[Section]


class Checked(Answer):
    """The figures of a plan that was checked and is correct."""

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
    copied_unaligned: int
    copied_unmapped: int


class Store(Section):
    """Weights that sessions of the service share."""

    blocks: int
    bytes: int
    shared: int  # bytes saved by sharing


class Stats(Answer):
    """The memory of the service, in bytes."""

    format: str
    version: str
    anonymous: int
    heap: int
    goroutines: int
    weights: Weights
    store: Store


_A = TypeVar("_A", bound=Answer)


def ask(kind: type[_A], model: Path, settings: Mapping[str, Any], timeout: float | None, dim: str = "", node: str = "", **files: Path | None) -> _A:
    """Asks the service about a file."""
    method, function = _METHODS[kind]
    settings = dict(settings)
    progress = settings.pop("progress", None)
    fields: dict[str, Any] = {"model": _arguments.absolute("path", model), "settings": texts(function, settings), "dim": dim, "node": node}
    fields |= {name: _arguments.absolute(name, path) for name, path in files.items()}
    reply = call(method, fields, timeout, progress)
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
    """Peak memory against extra time, from everything kept down to the floor: all Pareto-optimal plans.

    model    an ONNX file or a recorded step, with the settings of memopt.plan as given. Or a torch.nn.Module:
             its step with these inputs is recorded. given may have loss=, a function of the model's output, and
             optimizer=, whose states are counted
    svg      a file to draw the curve to
    """
    if isinstance(model, (str, os.PathLike)):
        _no_batch("frontier", batch)
        return ask(Frontier, model, given, timeout, svg=svg)
    from .torch.ask.questions import frontier

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

    model        an ONNX file, whose dim is enlarged; given is the settings of memopt.plan, and save_to a file
                 for the plan. Or a torch.nn.Module
    make_sample  for a module: a function of n that makes the inputs of a step of n samples, as for memopt.optimize
    budget       the most memory of a step, as for memopt.optimize
    given        for a module: activation_budget, max_overhead, loss, optimizer, reserve, loss_chunks, most, the largest batch to try, and
                 ladder=False, which leaves out the sizes for limits of extra time

    Small batches of a module are recorded, and the bytes of larger ones extrapolated; the answer is checked by a step
    under its plan. Only steps that fit are run.
    """
    if isinstance(model, (str, os.PathLike)):
        if make_sample is not None and budget is None:
            make_sample, budget = None, make_sample
        if make_sample is not None:
            raise TypeError("max_batch: make_sample is for modules; give dims for a file")
        return ask(Largest, model, {"budget": budget, **given}, timeout, dim=dim, save_to=save_to)
    from .torch.ask.largest import max_batch

    return max_batch(model, make_sample, budget, **given)


@overload
def max_seq(model: Path, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> Largest: ...
@overload
def max_seq(model: torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> LargestOfModule: ...
def max_seq(model: Path | torch.nn.Module, make_sample: Any = None, budget: Any = None, *, dim: str = "seq", **given: Any) -> Any:
    """The longest sequence that fits in a budget: max_batch over another dim. make_sample(n) makes inputs of n tokens a row. Of a module the
    loss is in chunks of rows where that lengthens the sequence, unless loss_chunks is given."""
    if isinstance(model, (str, os.PathLike)):
        return max_batch(model, make_sample, budget, dim=dim, **given)
    from .torch.ask.largest import max_seq

    return max_seq(model, make_sample, budget, **given)


@overload
def explain(plan: Path | Report, *, node: None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> Explanation: ...
@overload
def explain(plan: Path | Report, *, node: str, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> NodeExplanation: ...
@overload
def explain(plan: torch.nn.Module, *batch: Any, error: BaseException, timeout: float | None = 60.0, **given: Any) -> BudgetError: ...
@overload
def explain(plan: torch.nn.Module, *batch: Any, node: None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> ExplanationOfModule: ...
@overload
def explain(plan: torch.nn.Module, *batch: Any, node: str, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> NodeExplanation: ...
def explain(plan: Path | Report | torch.nn.Module, *batch: Any, node: str | None = None, html: Path | None = None, timeout: float | None = 60.0, **given: Any) -> Any:
    """What a plan keeps and recomputes, what each choice frees and costs, and what prevents a lower peak.

    plan   a plan file, a plan, or a torch.nn.Module: one planned by memopt.optimize, or any other with the inputs of a
           step. given may then have loss=, a function of the model's output
    node   explain this node instead
    html   an HTML file to write, too
    error  an error of memory in a step of these inputs: it gets a note of the first tensor that did not fit, of who held what, and of
           what would fit at which price, and the result is that as a BudgetError
    """
    if isinstance(plan, Report):
        _no_batch("explain", batch)
        with _scratch.folder(len(plan._json)) as folder:
            path = os.path.join(folder, _scratch.file_name(plan._get("model", "path") or "plan", ".plan.json"))
            plan.save(path)
            return ask(NodeExplanation if node else Explanation, path, given, timeout, node=node or "", html=html)
    if isinstance(plan, (str, os.PathLike)):
        _no_batch("explain", batch)
        return ask(NodeExplanation if node else Explanation, plan, given, timeout, node=node or "", html=html)
    from .torch.ask.questions import explain

    return explain(plan, *batch, node=node, html=html, timeout=timeout, **given)


def check(plan: Path | Report, model: Path, *, timeout: float | None = 600.0, **given: Any) -> Checked:
    """Checks a plan against its model, independently of the planner: order, overlap, bytes and cost.

    plan   a plan, or a plan file
    model  its ONNX file or recorded step
    given  settings that the plan must satisfy: dims, and limits

    Raises MemoptError if the plan is wrong or of another model.
    """
    if isinstance(plan, Report):
        with _scratch.folder(len(plan._json)) as folder:
            path = os.path.join(folder, _scratch.file_name(plan._get("model", "path") or "plan", ".plan.json"))
            plan.save(path)
            return ask(Checked, model, given, timeout, plan=path)
    return ask(Checked, model, given, timeout, plan=plan)


def _no_batch(function: str, batch: tuple[Any, ...]) -> None:
    if batch:
        raise TypeError(f"{function}: inputs are for modules; give settings of a file by name")
