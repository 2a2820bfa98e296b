"""memopt.frontier and memopt.explain of modules."""

from __future__ import annotations

import functools
import html as markup
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..._arguments import Path, Size
from ..._questions import Explanation as ExplanationOfFile
from ..._questions import Frontier as FrontierOfFile
from ..._questions import NodeExplanation, ask
from ..._questions import explain as explain_file
from ..._visible import class_of, line
from ...errors import BudgetError, Floor
from ...report import Report, show_bytes
from ..lower.scores import chunks_of
from ..plan.budget import fixed_bytes, growth
from ..plan.offloaded import OwnOffload, own_offload
from ..plan.outofmemory import explain as explain_error
from ..plan.outofmemory import is_of_memory, room
from ..plan.plans import plan_of
from ..plan.refused import refused
from ..record.fake import fake_recording
from ..record.floor import Binding, Life, Step, binding
from ..record.record import Recording, as_file, record_call
from ..step.given import check_module, check_named, check_request, split_budget
from ..step.sample import Loss, gradients_kept, inputs_of, through
from ..step.standin import own_forward, standing
from ..step.wrapped import inner_module
from .table import html_table, table


@dataclass(frozen=True)
class Point:
    """A plan of a frontier."""

    peak: int  # of activations, gradients and work space: an activation_budget
    budget: int  # with parameters, buffers and optimizer states
    overhead: float
    recomputed_nodes: int
    knee: bool


@dataclass
class Frontier:
    """All Pareto-optimal plans, from everything kept down to the floor."""

    model: str
    eager_peak: int
    fixed: int  # parameters, buffers and optimizer states
    floor: int
    binds: Binding
    points: list[Point]
    curve: FrontierOfFile = field(repr=False)  # as `memopt frontier` has it

    def to_dict(self) -> dict[str, Any]:
        binds = {"kind": self.binds.kind, "module": self.binds.module, "op": self.binds.op}
        return {
            "format": "memopt.torch.frontier/1", "model": self.model, "eager_peak": self.eager_peak, "fixed": self.fixed, "floor": self.floor, "binds": binds,
            "points": [vars(p) for p in self.points],
        }  # fmt: skip

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (show_bytes(p.budget), show_bytes(p.peak), f"{p.overhead:+.2%}", str(p.recomputed_nodes), "everything kept" if not p.recomputed_nodes else "the knee" if p.knee else "")
            for p in self.points
        ]

    def _title(self) -> str:
        return f"{self.model}: {len(self.points)} plans; no budget below {show_bytes(self.floor + self.fixed)}, because of {self.binds}"

    def __str__(self) -> str:
        return "\n".join([self._title(), "", *table([("budget", "peak", "compute", "run again", ""), *self._rows()])])

    def _repr_html_(self) -> str:
        return html_table(self._title(), ("budget", "peak", "compute", "run again", ""), self._rows())


def frontier(
    model: torch.nn.Module,
    *batch: Any,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    loss_chunks: Any = None,
    svg: Path | None = None,
    timeout: float | None = 600.0,
    **kwargs: Any,
) -> Frontier:
    """Records the step of these inputs once, and finds the extra time of every budget."""
    check_module("frontier", model)
    check_named("frontier", model, kwargs, ("loss", "optimizer", "loss_chunks", "svg", "timeout"))
    check_request(loss=loss, optimizer=optimizer, loss_chunks=loss_chunks)
    recording = recorded(model, batch, kwargs, loss, loss_chunks)
    with as_file(recording.graph) as path:
        curve = ask(FrontierOfFile, path, {}, timeout, svg=svg)
    fixed = fixed_bytes(model, optimizer).bytes
    points = [Point(p["peak"], p["peak"] + fixed, p["overhead"], p["recomputed_nodes"], p.get("knee", False)) for p in curve.to_dict()["points"]]
    floor: Floor = Floor(**curve["floor"])
    binds = binding(recording.graph, floor.peak, floor.node, taken=("loss_chunks",) if loss_chunks else ())
    return Frontier(class_of(model), recording.measured_peak, fixed, floor.peak, binds, points, curve)


def recorded(model: torch.nn.Module, batch: Sequence[Any], kwargs: Mapping[str, Any], loss: Loss | None, loss_chunks: Any = None, prices: bool = False) -> Recording:
    """Records the step of a module with its own forward pass, whether it is planned or not. prices: without an offload of its own, which is looked at."""
    model = inner_module(model)
    args, named = inputs_of(batch, kwargs)
    forward = own_forward(model)
    chunks = chunks_of(loss_chunks)
    if chunks is not None:
        forward = chunks.around(model, forward)
    call = functools.partial(through, model, forward, args=args, kwargs=named)
    if chunks is not None:
        chunks.find(model, functools.partial(call, lambda forward: forward()), loss)
    with gradients_kept((args, named)):
        found = record_call(model, call, loss, prices=prices)
    if chunks is not None:
        chunks.check()
    return found


@dataclass(frozen=True)
class Alive:
    """The memory of a module and an operator at the peak."""

    module: str
    op: str
    bytes: int
    what: str  # "kept", "run again", "gradients", "in use" or "work space"


@dataclass(frozen=True)
class Share:
    """A plan's treatment of the activations of similar modules."""

    modules: str  # blocks.*.fc
    kept: int
    dropped: int
    again: int  # operators that run again


@dataclass
class Explanation:
    """The values alive at the peak of a step, what is kept and recomputed, and what prevents a lower peak."""

    model: str
    eager_peak: int
    peak: int
    peak_at: str
    floor: int
    binds: Binding
    alive: list[Alive]
    modules: list[Share]
    plan: Report = field(repr=False)
    details: ExplanationOfFile = field(repr=False)  # as `memopt explain` has it
    own_offload: OwnOffload | None = None  # that the module does itself, or what runs around it

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "memopt.torch.explain/1", "model": self.model, "eager_peak": self.eager_peak, "peak": self.peak, "peak_at": self.peak_at, "floor": self.floor,
            "binds": {"kind": self.binds.kind, "module": self.binds.module, "op": self.binds.op, "bytes": self.binds.bytes, "gradients": self.binds.gradients},
            "offers": [vars(o) for o in self.binds.offers], "alive": [vars(a) for a in self.alive], "modules": [vars(m) for m in self.modules],
            "own_offload": self.own_offload.to_dict() if self.own_offload is not None else None,
        }  # fmt: skip

    def _lines(self) -> list[str]:
        lines = [f"{self.model}: a peak of {show_bytes(self.peak)} at {line(self.peak_at)}, of {show_bytes(self.eager_peak)} in eager mode"]
        lines.append(f"floor {show_bytes(self.floor)}, set by {self.binds}")
        lines += [f"  {o.argument} would lower it to about {show_bytes(o.floor)}" for o in self.binds.offers]
        return [*lines, line(str(self.own_offload))] if self.own_offload is not None else lines

    def _alive(self) -> list[tuple[str, ...]]:
        return [(show_bytes(a.bytes), f"{a.bytes / max(1, self.peak):.0%}", a.what, a.op, a.module) for a in self.alive]

    def _modules(self) -> list[tuple[str, ...]]:
        return [(show_bytes(m.kept), show_bytes(m.dropped), str(m.again), m.modules or "(the model itself)") for m in self.modules]

    def __str__(self) -> str:
        return "\n".join([
            *self._lines(), "", "alive at the peak", *table([("bytes", "share", "", "op", "module"), *self._alive()]),
            "", "for the backward pass", *table([("kept", "dropped", "run again", "modules"), *self._modules()]),
        ])  # fmt: skip

    def _repr_html_(self) -> str:
        head = "".join(f"<p>{markup.escape(line)}</p>" for line in self._lines())
        alive = html_table("alive at the peak", ("bytes", "share", "", "op", "module"), self._alive())
        return head + alive + html_table("for the backward pass", ("kept", "dropped", "run again", "modules"), self._modules())


MOST_ROWS = 12


def explain(
    model: torch.nn.Module,
    *batch: Any,
    budget: Size | None = None,
    activation_budget: Size | None = None,
    max_overhead: str | float | None = None,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    loss_chunks: Any = None,
    node: str | None = None,
    html: Path | None = None,
    timeout: float | None = 60.0,
    error: BaseException | None = None,
    **kwargs: Any,
) -> Explanation | NodeExplanation | BudgetError:
    """Explains the plan of a module, or that of a step of these inputs: within a budget, or with everything kept.

    error   an error of memory in a step of these inputs, which need no values: the step is recorded without bytes, and the error gets a
            note of the first tensor that did not fit the budget, or what the device has left, of who held what, and of what would fit at
            which price. The result is the same as a BudgetError, which the error has as .memopt
    """
    check_module("explain", model)
    batch, budget = split_budget(model, batch, budget)
    check_named("explain", model, kwargs, ("budget", "activation_budget", "max_overhead", "loss", "optimizer", "loss_chunks", "node", "html", "timeout", "error"))
    check_request(budget=budget, activation_budget=activation_budget, max_overhead=max_overhead, loss=loss, optimizer=optimizer, loss_chunks=loss_chunks)
    if error is not None:
        return _explained(error, model, batch, kwargs, budget, activation_budget, loss, optimizer)
    ours = standing(inner_module(model)) if not batch and not kwargs else None
    last = ours.last if ours is not None else None
    if last is None and not batch and not kwargs:
        raise TypeError("explain: the module has no plan yet; give the inputs of a step")
    recording = last.recording if last is not None else recorded(model, batch, kwargs, loss, loss_chunks, prices=True)
    made = last.plan if last is not None else None
    if made is None or budget is not None or activation_budget is not None or max_overhead is not None:
        fixed = fixed_bytes(model, optimizer)
        limit = growth(model, fixed, recording.measured_peak, budget=budget, activation_budget=activation_budget, reserve="5%")
        try:
            made = plan_of(recording, timeout=timeout, activation_budget=max(1, limit) if limit is not None else None, max_overhead=max_overhead)
        except BudgetError as e:
            raise refused(e, recording, limit or 0, fixed.bytes if budget is not None else 0, ("loss_chunks",) if loss_chunks else (), lambda: None) from None
    if node is not None:
        return explain_file(made, node=node, html=html, timeout=timeout)
    details = explain_file(made, html=html, timeout=timeout)
    taken = last.taken if last is not None else ("loss_chunks",) if loss_chunks else ()
    found = explanation(class_of(model), recording, made, details, taken)
    if last is None:
        found.own_offload = own_offload(recording)
    return found


def _explained(
    error: BaseException, model: torch.nn.Module, batch: tuple[Any, ...], kwargs: dict[str, Any], budget: Size | None, activation_budget: Size | None, loss: Loss | None, optimizer: Any
) -> BudgetError:
    """Explains an error of memory."""
    if isinstance(told := getattr(error, "memopt", None), BudgetError):
        return told  # of a step under memopt
    if not is_of_memory(error):
        raise TypeError(f"explain: error is {line(repr(error))}, which is not one of memory")
    if not batch and not kwargs:
        raise TypeError("explain: give the inputs of the step that ran out of memory, behind the module; they need no values")
    inner = inner_module(model)
    recording = fake_recording(inner, *inputs_of(batch, kwargs), loss, None)
    fixed = fixed_bytes(inner, optimizer)
    limit = growth(inner, fixed, recording.measured_peak, budget=budget, activation_budget=activation_budget, reserve="5%")
    explain_error(error, recording, room(inner, fixed) if limit is None else limit, fixed, ())
    return error.memopt  # type: ignore[attr-defined,no-any-return]


def explanation(model: str, recording: Recording, made: Report, details: ExplanationOfFile, taken: Sequence[str] = ()) -> Explanation:
    """Explains a plan of a recorded step."""
    step = Step(recording.graph)
    steps = made.to_dict()["steps"]
    lives = step.lives(steps)
    at, peak, alive = _at_peak(step, steps, lives)
    node = step.nodes[int(steps[at]["node"])]
    binds = binding(recording.graph, made.floor.peak, made.floor.node, taken=taken)
    return Explanation(
        model, recording.measured_peak, peak, f"{_plain(node['op'])}{' in ' + node['module'] if node.get('module') else ''}", made.floor.peak, binds, alive,
        _shares(step, steps, lives), made, details,
    )  # fmt: skip


def _at_peak(step: Step, steps: Sequence[Mapping[str, Any]], lives: Iterable[Life]) -> tuple[int, int, list[Alive]]:
    """The operator at the peak, the bytes, and their owners."""
    change = [0] * (len(steps) + 2)
    for life in lives:
        change[life.first] += life.value.bytes
        change[min(life.last, len(steps)) + 1] -= life.value.bytes
    live = peak = at = 0
    for i, s in enumerate(steps):
        live += change[i]
        if live + step.work[int(s["node"])] > peak:
            at, peak = i, live + step.work[int(s["node"])]
    here = int(steps[at]["node"])
    found: Counter[tuple[str, str, str]] = Counter()
    for life in lives:
        if life.first <= at <= life.last:
            node = step.nodes[life.value.made]
            what = "run again" if life.again else "gradients" if life.value.gradient else "in use" if node["is_backward"] or life.value.made == here else "kept"
            found[node.get("module", ""), _plain(node["op"]), what] += life.value.bytes
    if step.work[here]:
        found[step.nodes[here].get("module", ""), _plain(step.nodes[here]["op"]), "work space"] += step.work[here]
    rows = [Alive(module, op, size, what) for (module, op, what), size in found.most_common(MOST_ROWS)]
    rest = sum(found.values()) - sum(r.bytes for r in rows)
    return at, peak, rows + ([Alive("", f"{len(found) - len(rows)} others", rest, "")] if rest else [])


def _shares(step: Step, steps: Sequence[Mapping[str, Any]], lives: Iterable[Life]) -> list[Share]:
    """What is kept for the backward pass and what is not, grouped by modules whose names differ in numbers only."""
    boundary = next((i for i, s in enumerate(steps) if step.nodes[int(s["node"])]["is_backward"]), len(steps))
    wanted = {name for i, node in enumerate(step.nodes) if node["is_backward"] for name in step.reads[i] if not step.nodes[step.values[name].made]["is_backward"]}
    kept: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for life in lives:
        if life.again or life.value.name not in wanted:
            continue
        where = _pattern(step.nodes[life.value.made].get("module", ""))
        (kept if life.last >= boundary else dropped)[where] += life.value.bytes
    for s in steps:
        if s.get("again"):
            again[_pattern(step.nodes[int(s["node"])].get("module", ""))] += 1
    names = sorted({*kept, *dropped, *again}, key=lambda n: (-kept[n] - dropped[n], n))
    return [Share(n, kept[n], dropped[n], again[n]) for n in names]


def _pattern(module: str) -> str:
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", module)


def _plain(op: str) -> str:
    return op.removeprefix("autograd.").removeprefix("aten.").removesuffix(".default")
