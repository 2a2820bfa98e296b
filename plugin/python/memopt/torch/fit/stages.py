"""What a rank of a pipeline holds and how long a step of it takes, from the step of one of its stages on paper."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from ..record.floor import Step
from .account import ACTIVATIONS, GATHERED, LOGITS, Line
from .pipeline import BACKWARD, FORWARD, INPUT, WEIGHT, Held, Pass, Schedule, arrivals, finished, flight, most, schedule_of
from .request import Request

_FLOPS = 100  # that take the time of a byte moved, about, where times are divided among passes


@dataclass(frozen=True)
class Stage:
    """The stages of one rank, which do not have all of the model."""

    name: str
    rank: int
    stages: tuple[int, ...]
    head: bool  # whether one of them makes the loss
    without: tuple[str, ...] = ()  # parameters


def virtual_of(request: Request) -> int:
    """Stages of a rank."""
    return schedule_of(request.schedule).check(request.pipeline, request.virtual, request.passes)


def stages(request: Request, graph: Mapping[str, Any]) -> list[Stage]:
    """The ranks that may hold the most: the first has the most microbatches in flight, the last has the loss, and where passes are split the second has both parts of many."""
    schedule, virtual = schedule_of(request.schedule), virtual_of(request)
    named = {n["name"]: n["source"] for n in graph["nodes"] if n["op"] == "input" and n.get("kind") == "param"}
    words = next((named[name] for n in graph["nodes"] if n["op"].startswith("aten.embedding") for name in n["inputs"] if name in named), "")
    found = Step(graph).loss()
    head = found[1]["source"] if found is not None else ""
    ranks = []
    for rank in sorted({0, 1, request.pipeline - 1}):
        own = schedule.stages(request.pipeline, rank, virtual)
        last = request.pipeline * virtual - 1 in own
        has = {words if 0 in own else "", head if last else ""}
        name = "the first" if rank == 0 else "the last" if rank == request.pipeline - 1 else "the second"
        ranks.append(Stage(name, rank, tuple(own), last, tuple({words, head} - has - {""})))
    return ranks


@functools.lru_cache(maxsize=8)
def _turns(schedule: str, ranks: int, virtual: int, passes: int) -> tuple[list[list[Pass]], dict[Pass, int]]:
    """The passes of each rank in order, and when what they read arrives: the same for all stages that are looked at."""
    orders = [schedule_of(schedule).order(ranks, r, virtual, passes) for r in range(ranks)]
    return orders, arrivals(orders)


class Pipelined:
    """The passes of a rank's stages, from the line of one of them with both ends of the model."""

    def __init__(self, request: Request, stage: Stage, line: Line) -> None:
        self.request, self.stage, self.line = request, stage, line
        self.schedule: Schedule = schedule_of(request.schedule)
        self.virtual, self.last = virtual_of(request), request.pipeline * virtual_of(request) - 1
        self.orders, self.arrived = _turns(request.schedule, request.pipeline, self.virtual, request.passes)
        self.order = self.orders[stage.rank]
        self.split = Split(line)
        self.held = {s: self.split.held(s == 0, s == self.last) for s in stage.stages}
        self.peak, self.others, self.at = most(self.order, self.held, self.arrived, self.split.edge)
        self.flight = flight(self.order)

    def under(self, saved: int) -> int:
        """The peak where a plan saves so much of what each microbatch keeps; the input of a stage stays."""
        held = {s: Held({k: n - min(saved, h.after[FORWARD]) for k, n in h.during.items()}, {k: max(0, n - min(saved, h.after[FORWARD])) if k in (FORWARD, INPUT) else n for k, n in h.after.items()}) for s, h in self.held.items()}
        return most(self.order, held, self.arrived, self.split.edge)[0]

    def parts(self) -> tuple[int, dict[str, int]]:
        """The node of the peak and its bytes by owner, those of other microbatches among the activations."""
        first = self.line.step.first_backward
        rows = self.line.rows
        if self.at is not None and self.at.stage != self.last:
            rows = {owner: row.copy() for owner, row in rows.items() if owner != LOGITS}
            for row in rows.values():
                row[self.split.loss.start : self.split.loss.stop] = 0
        begin, end = (0, first) if self.at is None or self.at.kind == FORWARD else (first, len(self.line.total))
        i, found = Line(self.line.step, rows, self.line.gradients).peak(begin, end)
        found[ACTIVATIONS] += self.peak - sum(n for owner, n in found.items() if owner != GATHERED)
        return i, found

    def time(self, step: float, overhead: float, send: float) -> float:
        """The time of a whole step, of the time of one microbatch through one stage with both ends; send is what a stage's output takes to the next."""
        shares = self.split.shares

        def takes(p: Pass) -> float:
            part = shares[p.kind, p.stage == self.last]
            if p.kind in (INPUT, WEIGHT) and p.stage == 0:
                part = 0.0 if p.kind == INPUT else shares[BACKWARD, self.last == 0]
            return step * (part + (overhead if p.kind in (BACKWARD, INPUT) else 0.0))

        return finished(self.orders, takes, send)


def _in_block(node: Mapping[str, Any]) -> bool:
    return any(part.isdigit() for part in str(node.get("module", "")).split("."))


class Split:
    """A stage's step in its passes."""

    def __init__(self, line: Line) -> None:
        self.line, self.step = line, line.step
        step = self.step
        loss = step.loss()
        self.scores = loss[0] if loss is not None else range(0)
        self.loss = self._end(self.scores) if loss is not None else range(0)
        first, n = step.first_backward, len(step.nodes)
        made = {name: v.made for name, v in step.values.items()}
        needed: set[str] = set()  # of the backward pass, for the gradient of the stage's input
        self.nodes: list[int] = []  # that make them, in order
        for i in range(n - 1, first - 1, -1):
            begins = "EmbeddingBackward" in step.nodes[i]["op"]
            if begins or not needed.isdisjoint(step.writes[i]):
                needed.update(name for name in step.reads[i] if made[name] >= first)
                if not begins:
                    self.nodes.append(i)
        self.nodes.reverse()
        self.needed = needed if self.nodes else set()
        # What is left: nodes of parameters' gradients, alone or beside others, and what those read of the others.
        wanted = {name for name, v in step.values.items() if v.gradient}
        self.later: list[int] = []
        for i in range(n - 1, first - 1, -1):
            if "AccumulateGrad" in step.nodes[i]["op"]:
                wanted.update(name for name in step.reads[i] if name not in needed)
            elif not wanted.isdisjoint(step.writes[i]) and "EmbeddingBackward" not in step.nodes[i]["op"]:
                self.later.append(i)
                wanted.update(name for name in step.reads[i] if made[name] >= first and name not in needed)
        self.later.reverse()
        self.captured = {name for i in self.later for name in step.reads[i] if name in needed}

    def _end(self, loss: range) -> range:
        """The loss with what lies between the last block and it: nodes that no other stage has."""
        begin, end = loss.start, loss.stop
        while begin > 0 and not _in_block(self.step.nodes[begin - 1]):
            begin -= 1
        while end < len(self.step.nodes) and not _in_block(self.step.nodes[end]):
            end += 1
        return range(begin, end) if begin > 0 and end < len(self.step.nodes) else loss

    def _without_end(self) -> Any:
        """The bytes alive at each node that the end of the model does not make."""
        step, n = self.step, len(self.step.nodes)
        last = {v.name: max(v.made, v.pinned) for v in step.values.values()}
        for i, reads in enumerate(step.reads):
            for name in reads:
                last[name] = max(last[name], i)
        change = numpy.zeros(n + 2, dtype=numpy.int64)
        for v in step.values.values():
            if v.made in self.loss:
                change[v.made] += v.bytes
                change[min(last[v.name], n) + 1] -= v.bytes
        total = sum(row for owner, row in self.line.rows.items() if owner != GATHERED) - change.cumsum()[:n]
        total[self.loss.start : self.loss.stop] = 0
        return total

    def held(self, first: bool, head: bool) -> Held:
        """What the stage holds of a microbatch; first has no input whose gradient is asked for, head makes the loss."""
        step, rows, turn = self.step, self.line.rows, self.step.first_backward
        total = sum(row for owner, row in rows.items() if owner != GATHERED) if head else self._without_end()
        kept = self._kept(lambda v: v.made not in self.scores and (head or v.made not in self.loss))
        scores = self._kept(lambda v: v.made in self.scores) if head else 0
        # What goes to the stage before waits until it is sent, and what came from the one behind is there meanwhile.
        forward = int(total[:turn].max(initial=0)) + (0 if first else self.edge)
        backward = int(total[turn:].max(initial=0)) + (0 if head else self.edge)
        during, after = {FORWARD: forward, BACKWARD: backward}, {FORWARD: kept + scores, BACKWARD: 0, WEIGHT: 0}
        if first or not self.nodes:
            edge = self.edge
            during.update({INPUT: kept + scores + edge, WEIGHT: backward})
            after[INPUT] = kept + scores + edge
            return Held(during, after)
        last: dict[str, int] = {name: i for i in self.nodes for name in step.reads[i]}
        alive: dict[str, int] = {}
        peak = kept + scores
        come = 0 if head else self.edge
        for i in self.nodes:
            if not head and i in self.loss:
                continue
            alive.update((w, step.values[w].bytes) for w in step.writes[i] if w in self.needed)
            peak = max(peak, kept + scores + come + sum(alive.values()) + step.work[i])
            for name in step.reads[i]:
                if name in alive and last.get(name) == i and name not in self.captured:
                    del alive[name]
        stays = kept + self.edge + sum(b for name, b in alive.items() if name in self.captured)
        first_made = sum(step.values[w].bytes for w in step.writes[self.later[-1]] if w not in self.needed) if self.later else 0  # before anything is freed
        during.update({INPUT: peak, WEIGHT: stays + first_made})
        after[INPUT] = stays
        return Held(during, after)

    def _kept(self, which: Callable[[Any], bool]) -> int:
        """What the forward pass leaves of some values."""
        step, turn = self.step, self.step.first_backward
        read = {name for i in range(turn, len(step.nodes)) for name in step.reads[i]}
        return sum(v.bytes for v in step.values.values() if v.made < turn and (v.name in read or v.pinned >= turn) and which(v))

    @functools.cached_property
    def edge(self) -> int:
        """The bytes that go from stage to stage for a microbatch: of what the embedding makes."""
        return next((self.step.values[self.step.writes[i][0]].bytes for i, n in enumerate(self.step.nodes) if n["op"].startswith("aten.embedding") and self.step.writes[i]), 0)

    @functools.cached_property
    def shares(self) -> dict[tuple[str, bool], float]:
        """The time of each kind of pass as a share of the step's, with the loss and without, by operations and bytes moved."""
        step, mine, later = self.step, set(self.nodes), set(self.later)
        found = {(kind, head): 0.0 for kind in (FORWARD, BACKWARD, INPUT, WEIGHT) for head in (False, True)}
        whole = 0.0
        for i, node in enumerate(step.nodes):
            moved = sum(step.values[name].bytes for name in {*step.reads[i], *step.writes[i]}) + sum(p["outputs"][0]["bytes"] for p in step.params[i])
            cost = max(node.get("flops", 0) / _FLOPS, moved)
            whole += cost
            kinds = {FORWARD: 1.0}
            if i >= step.first_backward:
                both = i in mine and i in later
                kinds = {BACKWARD: 1.0, INPUT: 0.5 if both else float(i in mine), WEIGHT: 0.5 if both else float(i not in mine)}
            for kind, share in kinds.items():
                for head in (False, True):
                    if head or i not in self.loss:
                        found[kind, head] += cost * share
        return {key: cost / max(whole, 1.0) for key, cost in found.items()}


