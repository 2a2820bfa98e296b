"""memopt.fit: whether a step of a model fits a device, and what it costs, before there is a machine."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch

from ..._fitwords import AS_IT_IS, CHUNKED, FIRST_STEP, LATER_STEPS, LOAD, LOWEST_PLAN, RUNGS
from ..._questions import Frontier, ask
from ...errors import BudgetError
from ...report import show_share
from ..lower.scores import Chunks
from ..plan.plans import plan_of_graph
from ..record.floor import binding
from ..record.record import as_file
from ..step.given import parse
from .account import ACTIVATIONS, CONTEXT, COPY, GATHERED, GRADIENTS, OF_STEP, SLACK, STATES, UPDATE, WEIGHTS, Line, Phase, forward_alone, line_of
from .answer import Answer, Offer, Rung, show_time
from .devices import Device, device_of, profile_of
from .kernels import has_scans
from .links import GOOD, Sent, sent
from .models import Model, model_of
from .optimizers import Optimizer, optimizer_of
from .pipeline import FORWARD
from .ranks import Rank
from .request import Request
from .scans import needs
from .stages import Pipelined, Split, Stage, stages, virtual_of
from .steps import Sizes, Steps, graph_of, without_gradients
from .switches import configured
from .verdict import Judge

_FEW = 8  # parameters whose update stands for all


def fit(model: str | Request, **given: Any) -> Answer:
    """Whether a training step of a model fits a device, and what it costs. Nothing of it is allocated.

    model   a preset (memopt fit --list), a config.json of transformers or diffusers or its folder, file.py:function that returns a
            module and a batch; or a Request
    given   config, a trainer's files, whose switches get a verdict; and the fields of a Request: budget, for_device, batch, seq, dtype, autocast, optimizer, lora, accumulate, checkpointing, ranks, shard …

    The result is true if the step fits, as it is or under a plan; str() is one screen, .to_dict() is for JSON, .save_html(path) writes a page.
    """
    request = replace(model, **given) if isinstance(model, Request) else Request(model, **configured(given))
    return answer_of(request)


def answer_of(request: Request) -> Answer:
    with _uncollected():
        return _answer_of(request)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for cycles, of which recordings hardly have any: it would look through their millions of objects again and again."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _answer_of(request: Request) -> Answer:
    optimizer_of(request.optimizer)
    device = device_of(request.for_device)
    budget = parse("budget", request.budget, device.memory or 0) if request.budget is not None else device.memory
    if request.budget is not None and not budget:
        raise ValueError(f"budget is {request.budget!r}, a share of a device whose memory is not known: give bytes, or for_device")
    answer = fit_of(request, device, budget).answer()
    if isinstance(request.lengths, Mapping) and request.lengths:
        answer.worst = worst(request.lengths)
    if request.config:
        answer.verdicts = Judge(request, device, budget, fit_of).verdicts()
    return answer


def fit_of(request: Request, device: Device, budget: int | None) -> Fit:
    made = model_of(request)
    request = replace(request, seq=made.seq if made.has_seq else None, dtype=request.dtype if request.param_dtype else str(made.dtype).removeprefix("torch."))
    one = made  # stage, of a pipeline's rank that has several
    if request.pipeline > 1 and (several := virtual_of(request)) > 1:
        one = model_of(replace(request, pipeline=request.pipeline * several, ranks=request.tensor * request.pipeline * several, shard=None, schedule="gpipe", virtual=None, microbatches=None, expert=1, imbalance=1.0))
    steps = Steps(one, request, device=device)
    graph = steps.graph(request.batch, made.seq)
    if request.pipeline == 1:
        return Fit(request, made, steps, device, budget, graph)
    parts = [Fit(request, made, steps, device, budget, graph, stage) for stage in stages(request, graph)]
    return max(parts, key=lambda part: part.as_it_is)


def worst(lengths: Mapping[int, int]) -> str:
    """What batch of a distribution of lengths this is: rows are padded to the longest of a batch."""
    rows, seen, half = sum(lengths.values()), 0, 0
    for half in sorted(lengths):
        seen += lengths[half]
        if 2 * seen >= rows:
            break
    return f"{rows:,} rows of {min(lengths):,} to {max(lengths):,} tokens, half of them up to {half:,}; this is the worst batch, padded to {max(lengths):,}"


def frontier(graph: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The plans of a step, from the one that costs nothing to the lowest, and what sets the floor."""
    with as_file(graph) as path:
        return ask(Frontier, path, settings, 600.0).to_dict()


def steps_at(graph: dict[str, Any], point: Mapping[str, Any], settings: dict[str, Any]) -> list[Mapping[str, Any]]:
    """The steps of the plan of a frontier's point, by its arena, in which values may need more room than their bytes. A curve has plans next to
    the floor that no budget finds; the lowest one that a budget finds stands for them."""
    try:
        found = plan_of_graph(graph, activation_budget=point["arena"], **settings)
    except BudgetError as e:
        found = plan_of_graph(graph, activation_budget=e.best, **settings)
    steps: list[Mapping[str, Any]] = found.to_dict()["steps"]
    return steps


def count(parameters: Iterable[torch.Tensor]) -> int:
    return sum(p.numel() for p in parameters)


class Fit:
    """A request that is answered."""

    def __init__(self, request: Request, model: Model, steps: Steps, device: Device, budget: int | None, graph: dict[str, Any], stage: Stage | None = None) -> None:
        self.stage = stage
        self.request, self.model, self.steps, self.device, self.budget = request, model, steps, device, budget
        self.optimizer = optimizer_of(request.optimizer)
        self.unknown: list[str] = []  # why something was not found
        self.rank = self._rank_of(self.optimizer)
        self.graph = graph
        self.line = line_of(graph)
        self.rank.gather(self.line)
        self.pipelined = Pipelined(request, stage, self.line) if stage is not None else None
        self.kept = self.pipelined.others if self.pipelined is not None else 0  # by other microbatches
        if self.rank.sharded and request.accumulate == 1:
            self.graph = graph_of(without_gradients(steps.form(request.batch, model.seq)))  # to plan: gradients are shards, which are beside it
        self.reserve = int(self.line.rows[GATHERED].max()) if GATHERED in self.line.rows else 0

    def _rank_of(self, optimizer: Optimizer) -> Rank:
        return Rank(self.request, self.model.module, optimizer, self.device.foreach, self.stage.without if self.stage is not None else ())

    @property
    def held(self) -> int:
        """Gradients that no plan changes: earlier passes of the step made them, or they are shards."""
        return self.rank.between if self.request.passes > 1 or self.rank.sharded else 0

    @property
    def beside(self) -> int:
        """Bytes of the device that no plan changes, but for the allocator's slack."""
        return self.rank.weights + self.rank.states + self.held + self.reserve + self.device.context

    def total(self, peak: int) -> int:
        """The bytes of the device where a step takes so many for its forward and backward pass."""
        if self.pipelined is not None:
            peak = self.pipelined.under(self.graph["measured_peak"] - peak)
        step = self.beside + peak + int((peak + self.held + self.reserve) * self.device.slack)
        return max(step, self.phase("update", self._update()).total)

    def _update(self) -> dict[str, int]:
        rank = self.rank
        return {WEIGHTS: rank.weights, STATES: rank.states, GRADIENTS: rank.gradients, UPDATE: rank.update, GATHERED: rank.buckets}

    def with_optimizer(self, name: str) -> Fit:
        """The same step with another optimizer."""
        other = copy.copy(self)
        other.optimizer = optimizer_of(name)
        other.rank = self._rank_of(other.optimizer)
        other.__dict__.pop("update_time", None)
        return other

    def phase(self, name: str, parts: Mapping[str, int], at: str = "") -> Phase:
        """A phase with the context and the slack."""
        moving = sum(parts.get(owner, 0) for owner in (*OF_STEP, UPDATE))
        return Phase(name, {**parts, CONTEXT: self.device.context, SLACK: int(moving * self.device.slack)}, at)

    def phases(self) -> list[Phase]:
        rank = self.rank
        evaluation = forward_alone(self.graph)
        at, parts = self.line.peak() if self.pipelined is None else self.pipelined.parts()
        later = {WEIGHTS: rank.weights, STATES: rank.states}
        where, forward = evaluation.peak()
        if rank.buckets or rank.sharded:
            forward[GATHERED] = int(self.line.rows[GATHERED][: self.line.step.first_backward].max(initial=0))
        return [
            self.phase(LOAD, {WEIGHTS: rank.weights}),
            self._step(FIRST_STEP, at, parts, 0),
            self._step(LATER_STEPS, at, parts, rank.states),
            self.phase("evaluation", {**later, **forward}, evaluation.place(where)),
            self.phase("checkpoint", {**later, GATHERED: rank.buckets}),
            self.phase("resume", {**later, COPY: rank.weights}),
        ]

    def _step(self, name: str, at: int, parts: Mapping[str, int], states: int) -> Phase:
        """A step: its passes, or its update where that takes more."""
        passes = {WEIGHTS: self.rank.weights, STATES: states, **parts}
        if self.request.passes > 1:
            passes[GRADIENTS] = passes.get(GRADIENTS, 0) + self.held
        update = self.phase(name, self._update(), f"the update of {self.optimizer.name}")
        return max(self.phase(name, passes, self.line.place(at)), update, key=lambda p: p.total)

    def alive(self) -> Line:
        """The bytes of a later step's passes from node to node, without the allocator's slack."""
        rows = {owner: row.copy() for owner, row in self.line.rows.items()}
        for owner, held in ((WEIGHTS, self.rank.weights), (STATES, self.rank.states), (CONTEXT, self.device.context), (ACTIVATIONS, self.kept), (GRADIENTS, self.held if self.request.passes > 1 else 0)):
            rows[owner] = rows.get(owner, 0) + numpy.full(len(self.line.total), held)
        return Line(self.line.step, rows)

    @property
    def as_it_is(self) -> int:
        """The bytes of the device without a plan."""
        return next(p.total for p in self.phases() if p.name == LATER_STEPS)

    def answer(self) -> Answer:
        settings = {"for_device": profile_of(self.device)}
        curve = frontier(self.graph, settings)
        plan = plan_of_graph(self.graph, **settings)
        time = int(plan.baseline.time_ns)
        points = curve["points"]
        whole = self.as_it_is
        chosen: list[tuple[str, dict[str, Any] | None]] = [(AS_IT_IS, None)]
        for name, limit in RUNGS:
            point = min((p for p in points if p["overhead"] <= limit + 1e-9), key=lambda p: (self.total(p["peak"]), p["overhead"]), default=None)
            if point is not None and self.total(point["peak"]) < whole and all(point is not p for _, p in chosen):
                chosen.append((name, point))
        rungs = [self._rung(name, self.total(p["peak"]) if p else whole, p["overhead"] if p else 0.0, time) for name, p in chosen]
        if self.budget is not None and self.request.largest and self.stage is None:
            rungs = self._largest(rungs, [p for _, p in chosen], settings)
        rungs += self._in_chunks(settings, time, rungs)
        floor = curve["floor"]
        binds = binding(self.graph, floor["peak"], floor["node"], self.beside)
        links, comm = self._links(time)
        own = list(self.model.module.parameters())
        return Answer(
            self.request, self.model.name, self.model.parameters or count(own), self.model.parameters or count(p for p in own if p.requires_grad), self._device(), self.budget, self.phases(), rungs,
            self.total(floor["peak"]), str(binds), self._offers(binds), self._notes(), self._blocks(), self._ranks(), profile=settings["for_device"], update_ns=int(self.update_time), graph=self.graph, beside=self.beside, alive=self.alive(), links=links, sent=comm, sized=self.model.has_batch,
        )  # fmt: skip

    def _in_chunks(self, settings: dict[str, Any], time: int, plans: list[Rung]) -> list[Rung]:
        """The step with its loss in chunks of rows: as it is otherwise, and under the cheapest plan that then fits, or the lowest one; without
        those that a plan alone does as well. Their largest batch and row are not looked for: how many chunks there are depends on them."""
        loss = self.line.step.loss()
        if self.stage is not None or self.request.tensor > 1 or loss is None or not self.line.step.cross_entropy(loss[0]):
            return []
        steps = Steps(self.model, self.request, self._chunks(loss[1]["source"]), self.device)
        try:
            other = Fit(self.request, self.model, steps, self.device, self.budget, steps.graph(self.request.batch, self.model.seq))
        except ValueError as e:
            self.unknown.append(f"a loss in chunks is not counted: {e}")
            return []
        points = frontier(other.graph, settings)["points"]
        longer = int(plan_of_graph(other.graph, **settings).baseline.time_ns) / max(time, 1)  # than the step as it is
        rungs = [self._rung(CHUNKED, other.as_it_is, longer - 1, time)]
        fitting = [p for p in points if self.budget is not None and other.total(p["peak"]) <= self.budget]
        best = min(fitting, key=lambda p: p["overhead"]) if fitting else min(points, key=lambda p: (other.total(p["peak"]), p["overhead"]))
        if other.total(best["peak"]) < other.as_it_is:
            rungs.append(self._rung(f"{CHUNKED}, {'plan that fits' if fitting else LOWEST_PLAN}", other.total(best["peak"]), longer * (1 + best["overhead"]) - 1, time))
        return [r for r in rungs if not any(o.total <= r.total and o.overhead <= r.overhead for o in plans)]

    def _rung(self, name: str, total: int, overhead: float, time: int) -> Rung:
        took = int(self.step_time(time, overhead))
        work = self.request.batch * self.request.passes * (self.request.seq or 1)
        return Rung(name, total, overhead, took, work / max(took, 1) * 1e9, total <= self.budget if self.budget is not None else None)

    def _chunks(self, matrix: str) -> Chunks:
        """A loss in chunks, of the layer with that matrix, if that is no other's, too."""
        chunks, name = Chunks("auto", asked=False), matrix.removesuffix(".weight")
        if isinstance(dict(self.model.module.named_modules()).get(name), torch.nn.Linear):
            chunks.name = name
        return chunks

    def step_time(self, time: float, overhead: float) -> float:
        """The time of a whole step, one of whose passes takes so long without a plan, with what ranks wait for and its update."""
        comm = self.sent(time)
        rest = comm.waited + self.update_time
        if self.pipelined is None:
            return time * (1 + overhead) * self.request.passes + rest
        each = (comm.tensor + comm.experts) / (self.request.passes * self.pipelined.virtual)
        return self.pipelined.time(time + each, overhead, comm.stages) + rest - comm.tensor - comm.experts

    @functools.cached_property
    def update_time(self) -> float:
        """Of the optimizer, by the profile: its operators run parameter by parameter, or once over all. A few of them are priced, each of the average size."""
        work = self.rank.updating
        if not work.parameters or not work.program:
            return 0.0
        few = min(work.parameters, _FEW)
        size = max(work.size // work.parameters, 1)
        sizes = {"p": size, "g": size, "m": size, "v": size, "t": size, "r": work.rounded // work.parameters}

        def one(name: str, op: str, inputs: Sequence[str], **more: Any) -> dict[str, Any]:
            return {"name": name, "op": op, "inputs": list(inputs), "outputs": [{"shape": [1], "dtype": "uint8", "bytes": 1}], "is_backward": True, **more}

        given = [f"{c}{i}" for i in range(few) for c in "pgmvr" if sizes[c]] + ["t0"]  # t of one parameter is where that of the last one was
        nodes = [{"name": n, "op": "input", "inputs": [], "outputs": [{"shape": [sizes[n[0]]], "dtype": "uint8", "bytes": sizes[n[0]]}], "is_backward": False, "kind": "data", "source": ""} for n in given]
        nodes.append(one("loss", "aten.neg.default", ["t0"], flops=0) | {"is_backward": False})
        for i in range(few):
            for k, letters in enumerate(work.program):
                op = "aten.sqrt.default" if letters.startswith("√") else "aten.add.Tensor"
                reads = ["t0" if c == "t" else f"{c}{i}" for c in letters.removeprefix("√")]  # what is written is read, too: it lies in the same place
                reads += [f"r{i}"] * 2 if k == 0 and sizes["r"] else []
                nodes.append(one(f"run{i}_{k}", op, reads or ["loss"], flops=0, calls=work.calls))
        graph = {**{k: v for k, v in self.graph.items() if k not in ("nodes", "outputs")}, "measured_peak": few, "num_fwd_outputs": 1, "outputs": ["loss", *(n["name"] for n in nodes if n["is_backward"]), None], "nodes": nodes}
        return float(plan_of_graph(graph, for_device=profile_of(self.device)).baseline.time_ns) * work.parameters / few

    def sent(self, time: float) -> Sent:
        """What ranks send each other in a step, one of whose passes takes so long."""
        if self.request.ranks == 1:
            return Sent()
        r, config = self.request, getattr(self.model.module, "config", None)
        text = config.get_text_config() if config is not None and hasattr(config, "get_text_config") else config
        width, layers = getattr(text, "hidden_size", 0), getattr(text, "num_hidden_layers", 0)
        row = r.batch * (r.seq or 1) * width * self.model.dtype.itemsize
        routed = row // r.tensor * (getattr(text, "num_experts_per_tok", 1) or 1)
        share = self.forward_share
        moves = replace(self.rank.moves(), layers=layers, row=row, again=r.checkpointing, routed=routed, edge=row // r.tensor)
        whole = time * (self.pipelined.virtual if self.pipelined is not None else 1)  # of the rank's stages
        return sent(r, self.device, moves, whole * share, whole * (1 - share))

    @functools.cached_property
    def forward_share(self) -> float:
        """Of a pass's time."""
        split = self.pipelined.split if self.pipelined is not None else Split(self.line)
        return split.shares[FORWARD, True]

    def _largest(self, rungs: list[Rung], chosen: list[dict[str, Any] | None], settings: dict[str, Any]) -> list[Rung]:
        """The rungs with the largest batch and row under their plans."""
        assert self.budget is not None
        limit = int((self.budget - self.beside - (self.held + self.reserve) * self.device.slack) / (1 + self.device.slack))
        if self.total(0) > self.budget:
            limit = 0  # the update alone does not fit
        plans = [steps_at(self.graph, p, settings) if p is not None else None for p in chosen]
        if not self.model.has_batch:
            self.unknown.append(f"the largest batch is not known: {self.model.name} takes no argument batch")
        for dim in [*(["batch"] if self.model.has_batch else []), *(["seq"] if self.model.has_seq else [])]:
            sizes: Sizes | str | None = self.steps.sizes(dim, self.request.batch, self.model.seq, not self.rank.sharded)
            if isinstance(sizes, str) and dim == "batch" and self.request.batch == 1 and limit:
                rungs, sizes = self._more_rows(rungs, limit, settings, sizes)
            if sizes is None:
                continue
            if isinstance(sizes, str):
                self.unknown.append(f"the largest {dim} is not known: {sizes}")
                continue
            found = [sizes.largest(steps, limit) for steps in plans]
            rungs = [replace(r, batch=n) if dim == "batch" else replace(r, seq=n) for r, n in zip(rungs, found, strict=True)]
        return rungs

    def _more_rows(self, rungs: list[Rung], limit: int, settings: dict[str, Any], why: str) -> tuple[list[Rung], str | None]:
        """The rungs with their largest batch, where one row is another program than several: by plans of two rows that cost as little. Else why not."""
        sizes = self.steps.sizes("batch", 2, self.model.seq, not self.rank.sharded)
        if isinstance(sizes, str):
            return rungs, f"{why}; {sizes}"
        form = self.steps.form(2, self.model.seq)
        graph = graph_of(without_gradients(form) if self.rank.sharded and self.request.accumulate == 1 else form)
        points = frontier(graph, settings)["points"]
        most = dict(RUNGS)
        found = []
        for r in rungs:
            point = min((p for p in points if p["overhead"] <= most[r.name] + 1e-9), key=lambda p: (p["peak"], p["overhead"]), default=None) if r.name in most else None
            steps = steps_at(graph, point, settings) if point is not None else None
            n = sizes.largest(steps, limit)
            found.append(replace(r, batch=n if n > 1 else int(r.total <= (self.budget or 0))))
        return found, None

    def _offers(self, binds: Any) -> list[Offer]:
        found: list[Offer] = []
        floor = self.total(binds.bytes)
        for o in binds.offers:
            if self.total(o.floor) < floor:
                found.append(Offer(f"memopt.optimize({o.argument})", self.total(o.floor), "the lowest plan then, about"))
        whole = self.as_it_is
        for name in ("adamw-fused", "adamw8bit"):
            if self.optimizer.name.startswith("adam") and self.rank.states:
                other = self.with_optimizer(name)
                if other.as_it_is < whole or self.budget is not None and other.total(binds.bytes) <= self.budget < floor:
                    found.append(Offer(f"--optimizer {name}", other.as_it_is, "as it is otherwise" + (", with other numbers" if other.optimizer.rounded else "")))
        if self.rank.states:
            found.append(Offer("optimizer states on the host", whole - self.rank.states, "as it is otherwise; copies take time in each update"))
        return found

    def _device(self) -> str:
        memory = f", {self.device.memory / 2**30:.1f} GiB" if self.device.memory else ""
        return f"{self.device.name}{memory}"

    def _ranks(self) -> str:
        """Whose memory this is."""
        r = self.request
        if r.ranks == 1:
            return ""
        shards = {"ddp": "whole parameters, gradients in buckets", "zero1": "whole parameters, states divided", "zero2": "shards, gathered once a step", "fsdp2": "shards, gathered unit by unit", None: "whole parameters"}
        parts = [f"{self.rank.replicas:,} with {shards[self.rank.shard]}"] if self.rank.replicas > 1 else []
        parts += [f"{r.expert} of them divide the experts, the busiest {r.imbalance:g} × as busy as the average" if r.imbalance != 1 else f"{r.expert} of them divide the experts"] if r.expert > 1 else []
        parts += [f"{r.tensor} tensor-parallel" + (", norms and residuals along the sequence" if r.sequence_parallel else "")] if r.tensor > 1 else []
        if self.stage is not None:
            assert self.pipelined is not None
            how = f"{r.pipeline} in a pipeline" + (f" of {self.pipelined.virtual} stages each" if self.pipelined.virtual > 1 else "")
            parts.append(f"{how}, {self.pipelined.schedule.says}, {r.passes} microbatches; this is {self.stage.name}, with {self.pipelined.flight} in flight")
        return f"{r.ranks:,}: {'; '.join(parts)}"

    def _links(self, time: float) -> tuple[str, Sent | None]:
        """What ranks send each other, for people, and in nanoseconds."""
        comm = self.sent(time)
        if not comm.any:
            return "", None
        named = {"gathers": comm.gathers, "reductions": comm.reductions, "of tensor-parallel ranks": comm.tensor, "of experts": comm.experts, "a message between stages": comm.stages}
        parts = ", ".join(f"{name} {show_time(ns)}" for name, ns in named.items() if ns)
        return f"{self.device.inside:.0f} GB/s in a node of {self.device.node}, {self.device.between:g} to others, {show_share(GOOD, 0, False)} of it used: {parts}; a step waits for {show_time(comm.waited)}", comm

    def _blocks(self) -> str:
        return "; ".join(f"{r.period if r.period > 1 else 'one'} of {r.count * r.period} equal blocks of {r.path}" for r in self.steps.runs)

    def _notes(self) -> list[str]:
        notes = ["work space of kernels is what tensors show: what libraries allocate inside one call is in the slack"] if self.device.slack else []
        if self.device.context:
            notes.append(f"the context ({self.device.context / 2**30:.1f} GiB) and the allocator's slack ({show_share(self.device.slack, 0, False)} of what a step allocates) are assumed, not measured")
        if (package := needs(self.model.module)) and has_scans(self.device):
            notes.append(f"rows are gone through by {package}, as where they are installed: without them PyTorch goes through rows itself, which takes far more memory and time")
        notes.append("resume reads the checkpoint's weights onto the device beside the model's; read onto the host they take nothing here")
        if self.request.ranks > 1:
            notes.append("the tokens a second are of one replica" + ("" if self.device.inside else f"; what ranks send each other takes no time here: the links of {self.device.name} are not known"))
        return notes + self.model.notes + self.unknown

