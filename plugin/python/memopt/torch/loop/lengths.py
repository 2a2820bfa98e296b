"""Plans for steps of all sizes: the programs that inputs of one kind run, and the plans that serve each of them at any size."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...report import Report
from ..plan.form import Place
from ..plan.formulas import Sizes
from ..plan.plans import plan_of
from ..plan.points import Kept
from ..plan.report import StepReport
from ..plan.sized import At, Sized, sure
from ..plan.timeline import Timeline, of_plan
from ..record.operators import Op
from ..record.record import Recording
from ..replay.program import Program, build
from ..step.sizes import Shape

MOST_PLANS = 32  # of one program
_GOOD = 0.9  # of the limit: a plan whose peak is lower may run more again than needed
_NEAR = 1.1  # times the size that a plan was made for
_LOW, _ALIKE = 0.98, 1.5
_FEW = 4
_MEASURED, _GROWN = 3, 1.5  # sizes of a program that are measured; a larger one is, if it is so much larger


@dataclass(eq=False)
class Planned:
    """A plan of a program, which holds at every size; its peak depends on it."""

    report: Report  # of the size that it was made for
    program: Program
    timeline: Timeline
    extra: float  # work that runs a second time, at that size
    eager: int  # the step as it is, at that size
    lowest: bool = False  # none was found below it, at that size
    turns: dict[tuple[int, int], Program] = field(default_factory=dict)  # how steps go on as this one that began as others

    def overhead(self, at: At) -> float:
        """Extra compute at a size: what the planner priced at another, in proportion."""
        priced = self.report.result.overhead
        return priced * at.extra(self.timeline) / self.extra if self.extra else priced


@dataclass(eq=False)
class Pool:
    """The plans of a program, with gradients of its own or added to others."""

    program: Sized
    accumulating: bool
    plans: list[Planned] = field(default_factory=list)

    def add(self, at: At, found: Report, lowest: bool) -> Planned:
        """Takes a plan that was made for a size."""
        steps = found.to_dict()["steps"]
        form = self.program.part(self.accumulating).form
        timeline = of_plan(form, self.program.slots, steps)
        made = Planned(found, build(self.program.recording, steps), timeline, at.extra(timeline), at.eager(self.accumulating), lowest)
        self.plans = [*self.plans[-MOST_PLANS + 1 :], made]  # another thread may go through the old list
        return made

    def choose(self, at: At, limit: int) -> Planned | None:
        """The plan with the least to run again of those whose peak is known and within the limit at this size."""
        fit = [p for p in self.plans if (peak := at.peak(p.timeline)).high <= limit and sure(peak)]
        return min(fit, key=lambda p: at.extra(p.timeline), default=None)

    def lowest(self, at: At, limit: int) -> Planned | None:
        """The plan with the lowest peak, where no plan is within the limit: it is below what no plan goes below, or near it and another was too high for a size like this."""
        floor, eager = at.floor(self.accumulating), at.eager(self.accumulating)
        if floor <= limit * _LOW and not any(p.lowest and eager / _ALIKE < p.eager < eager * _ALIKE for p in self.plans):
            return None
        if not any(p.lowest for p in self.plans):
            return None
        return min(self.plans, key=lambda p: at.peak(p.timeline).likely)

    def improvable(self, at: At, limit: int, chosen: Planned) -> bool:
        """Whether a plan of its own may run less again at a size."""
        eager = at.eager(self.accumulating)
        return at.peak(chosen.timeline).likely < _GOOD * limit and not 1 / _NEAR < eager / chosen.eager < _NEAR

    def report(self, at: At, plan: Planned, fixed: int, counted: int, taken: Sequence[str]) -> StepReport:
        """What a plan promises at a size that it was not made for."""
        overhead = plan.overhead(at)
        return StepReport(
            at.eager(self.accumulating) + counted, at.peak(plan.timeline).likely + counted, None, at.floor(self.accumulating) + counted, plan.report.floor.node,
            overhead, overhead, fixed, plan.report, at.recording(self.accumulating), counted, tuple(taken),
        )  # fmt: skip


@dataclass(eq=False)
class Family:
    """The programs that inputs of one kind run: one, and others where the model goes another way, as without a mask."""

    kind: Any = None
    programs: list[Sized] = field(default_factory=list)  # the one that ran last is the last
    kept: dict[Sized, Kept] = field(default_factory=dict)
    runs: dict[Sizes, Sized] = field(default_factory=dict)  # what was seen to run
    strays: int = 0  # steps that were none of them, since one was learnt
    wanted: int = 0  # how many of the next steps are recorded, in the hope that one is such a one

    def add(self, sizes: Sizes, recording: Recording) -> At:
        """Takes a recording, of a program that is known or not."""
        program = next((p for p in self.programs if p.recording.accumulates == recording.accumulates and p.add(sizes, recording) is None), None)
        self.wanted -= self.wanted > 0
        if program is None or len(program.points) == 2:
            self.strays = self.wanted = 0  # it was
        if program is None:
            program = Sized(sizes, recording)
            self.kept[program] = Kept(self.kind, program)
            self.kept[program].read()
        else:
            self.programs.remove(program)
        self.kept[program].write()
        self.programs.append(program)
        self.runs[sizes] = program
        return program.at(sizes)

    def at(self, sizes: Sizes, accumulating: bool) -> list[At]:
        """What a step of a size may be, the likeliest first: programs whose numbers are known there."""
        likely = self.runs.get(sizes)
        programs = [p for p in (likely, *reversed(self.programs)) if p is not None and (accumulating or not p.recording.accumulates)]
        return [at for p in dict.fromkeys(programs) if (at := p.at(sizes)).known]


class Lengths:
    """The programs of a module, and their plans."""

    def __init__(self) -> None:
        self.families: dict[Any, Family] = {}
        self.pools: dict[tuple[Sized, bool, frozenset[Place]], Pool] = {}  # by what is held to the end of the step, too
        self.lock = threading.RLock()
        self.version = 0  # counts plans
        self.measured: dict[Sized, list[int]] = {}  # peaks of the sizes that were measured
        self._wanted: deque[tuple[Pool, At, int]] = deque(maxlen=MOST_PLANS)
        self._worker: threading.Thread | None = None

    def add(self, shape: Shape, recording: Recording) -> At:
        """Takes the recording of a step."""
        with self.lock:
            return self.families.setdefault(shape.kind, Family(shape.kind)).add(shape.sizes, recording)

    def at(self, shape: Shape, accumulating: bool) -> list[At]:
        """What a step of a size may be, without a recording."""
        with self.lock:
            family = self.families.get(shape.kind)
            return family.at(shape.sizes, accumulating) if family is not None else []

    def stray(self, shape: Shape) -> None:
        """A step was none of the known programs, or of one whose numbers are not known at its size."""
        family = self.families.get(shape.kind)
        if family is not None:
            family.strays += 1
            if family.strays <= _FEW or family.strays & (family.strays - 1) == 0:
                family.wanted = 2  # two kinds may take turns

    def wants(self, shape: Shape) -> bool:
        """Whether a step is recorded to learn of another program."""
        family = self.families.get(shape.kind)
        return family is not None and family.wanted > 0

    def keep(self, wrong: Callable[[Op], bool]) -> None:
        """Excludes operators from recomputation: no plan holds that was made before."""
        with self.lock:
            for family in self.families.values():
                for program in family.programs:
                    for op in filter(wrong, program.recording.ops):
                        program.keep(op)
            self.pools.clear()
            self._wanted.clear()

    def measures(self, at: At, peak: int) -> bool:
        """Whether a step of this size is worth a measurement, which costs about as much as the step does. On a device that counts by itself each is."""
        known = self.measured.get(at.program, [])
        return peak not in known and (len(known) < _MEASURED or peak > _GROWN * max(known) or torch.cuda.is_initialized())

    def was_measured(self, at: At, peak: int) -> None:
        """A measurement of a step of this size has come to its end."""
        self.measured.setdefault(at.program, []).append(peak)

    # Plans.

    def pool(self, at: At, accumulating: bool) -> Pool:
        key = at.program, accumulating, at.program.held
        with self.lock:
            return self.pools.setdefault(key, Pool(at.program, accumulating))

    def choose(self, at: At, accumulating: bool, limit: int) -> Planned | None:
        """A plan that was made for another size, or for this one. If one for this size would run less again, it is made meanwhile."""
        with self.lock:
            pool = self.pool(at, accumulating)
            found = pool.choose(at, limit)
            if found is not None and pool.improvable(at, limit, found):
                self._wanted.append((pool, at, limit))
                self._work()
            return found

    def lowest(self, at: At, accumulating: bool, limit: int) -> Planned | None:
        """The lowest plan, where it is known that none is within the limit."""
        with self.lock:
            return self.pool(at, accumulating).lowest(at, limit)

    def take(self, at: At, accumulating: bool, found: Report, lowest: bool = False) -> Planned:
        """Takes a plan that was made for a size."""
        with self.lock:
            self.version += 1
            return self.pool(at, accumulating).add(at, found, lowest)

    def _work(self) -> None:
        if self._worker is None or not self._worker.is_alive():
            self._worker = threading.Thread(target=self._make, name="memopt-plans", daemon=True)
            self._worker.start()

    def _make(self) -> None:
        """Makes the plans that are wanted, the one that was asked for last first."""
        while True:
            with self.lock:
                if not self._wanted:
                    self._worker = None
                    return
                pool, at, limit = self._wanted.pop()
                if self.pool(at, pool.accumulating) is not pool or (best := pool.choose(at, limit)) is None or not pool.improvable(at, limit, best):
                    continue
                recording = at.recording(pool.accumulating)
            try:
                found = plan_of(recording, activation_budget=limit)
            except Exception:  # there is a plan already; the service may be gone, or the interpreter about to end
                continue
            with self.lock:
                if self.pool(at, pool.accumulating) is pool:
                    self.take(at, pool.accumulating, found)

    def wait(self, seconds: float | None = None) -> None:
        """Waits until the plans that are wanted are made."""
        worker = self._worker
        if worker is not None:
            worker.join(seconds)
