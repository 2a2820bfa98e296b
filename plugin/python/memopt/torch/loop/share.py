"""The bytes that a step may take, and its plan within them."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..._arguments import Size
from ...errors import BudgetError
from ...report import show_bytes
from ..elsewhere.engine import Engine, rates
from ..elsewhere.smaller import Lossy
from ..lower.inchunks import CHOSEN, InChunks, Undivided
from ..lower.states import StatesElsewhere, movable
from ..lower.tiles import Tiles
from ..native.build import library
from ..plan.budget import Fixed, fixed_bytes, free_bytes, growth, state_bytes
from ..plan.outofmemory import explain, is_of_memory, room
from ..plan.plans import plan_of
from ..plan.refused import Smaller, refused
from ..plan.report import StepReport
from ..plan.sized import At
from ..plan.smaller import plan_smaller
from ..ranks.meeting import Meeting, bucket_bytes, data_parallel, meeting
from ..record.measure import device_of
from ..record.record import Recording
from ..record.windows import crossing
from ..replay.moves import compiled
from ..replay.program import build
from ..step.given import parse
from ..step.sample import Sample
from ..step.tensors import local
from .lengths import Lengths
from .programs import Made
from .request import Request
from .state import State
from .told import Told

AUDITS = 2
_SHARES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)  # of the bytes of optimizer states, of which the best leave
SmallerBatch = Callable[..., Smaller | None]


class Share:
    """Plans recorded steps of a module within its budget."""

    def __init__(self, model: torch.nn.Module, request: Request, state: State, told: Told, smaller: SmallerBatch, loss: InChunks) -> None:
        self.model, self.request, self.state, self.told, self.smaller, self.loss = model, request, state, told, smaller, loss
        self.wrapper: Callable[[], Any] = lambda: None  # DistributedDataParallel
        self.lengths = Lengths()
        self.low: set[Any] = set()  # programs that were told of
        self.engine: Engine | None = None  # of what plans move elsewhere
        self.states: StatesElsewhere | None = None  # of which the first plan chooses those that leave
        self.elsewhere: StatesElsewhere | None = None  # what is elsewhere of the optimizer's states, chosen or not
        self.sent: tuple[int, int, int] | None = None  # how many parameters' states left, their bytes, and those of all
        self.tiles: Tiles | None = None
        self.met = False  # the ranks that train the module with this one, to plan

    def joined(self) -> bool:
        """Whether a wrapper that reduces gradients was put around the module, whose buckets count from now on."""
        running = torch.nn.parallel.DistributedDataParallel._active_ddp_module
        if running is None or running is self.wrapper() or data_parallel(self.model) is None:
            return False
        self.wrapper = weakref.ref(running)
        return True

    def meeting(self) -> contextlib.AbstractContextManager[Meeting | None]:
        """Ranks that train together make their first plan together."""
        found = meeting(self.state.units, self.wrapper()) if not self.met else None
        self.met = True
        return found if found is not None else contextlib.nullcontext()

    def nothing(self) -> None:
        """Tells waiting ranks that there is nothing to plan."""
        with self.meeting() as together:
            if together is not None:
                together.absent()

    def fixed(self, recording: Recording | None = None) -> Fixed:
        """What is there beside a step, with what a recorded one leaves behind and finds in the device's memory."""
        fixed = fixed_bytes(self.model, self.request.optimizer)
        fixed = fixed._replace(bytes=fixed.bytes + bucket_bytes(self.wrapper(), self.model))
        return fixed._replace(bytes=fixed.bytes + recording.lasting + self._others(recording, fixed)) if recording is not None else fixed

    def limit(self, fixed: Fixed, eager: int | None) -> int | None:
        """The bytes that a step may take beyond those in use before it; None if unlimited, or a share of an unknown total."""
        r, left = self.request, self.sent[1] if self.sent is not None else 0
        whole = fixed._replace(bytes=fixed.bytes + left)  # shares are of what the step takes with all states
        found = growth(self.model, whole, eager, budget=r.budget, activation_budget=r.activation_budget, reserve=r.reserve)
        return found + left if found is not None and r.budget not in (None, "auto") else found

    def recording_limit(self) -> int:
        """The limit of a step while it is recorded: its budget if possible, and the device's memory."""
        fixed = self.fixed()
        limit, free = self.limit(fixed, None), free_bytes(self.model, "20%")
        return max(0, free if limit is None else min(limit, free))

    def plan(self, recording: Recording, audits: int = 0, sample: Sample | None = None, together: Meeting | None = None, begun: bool = False, divides: bool = False, at: At | None = None) -> Made:
        """The plan of a recorded step within the budget; with several ranks, the same on all that ran the same step. Training that has
        begun goes on with the lowest plan there is, if nothing fits. divides: raises Undivided if the step would fit with its loss in chunks.
        at: what the recording is one of, whose plans hold for other sizes too."""
        r, taken = self.request, self.taken
        recording.replay = "native" if library.expected() and not recording.units else "python"
        if self.states is not None and self.sent is None:
            self._choose_states(recording)
        peak, eager, fixed = recording.measured_peak, self.eager(recording), self.fixed(recording)
        counted = fixed.bytes if r.budget is not None else 0
        limit, gradients = self.limit(fixed, eager), 0
        if limit is not None and recording.accumulates and r.budget not in (None, "auto"):
            wrapper = self.wrapper()
            if wrapper is None or not wrapper.gradient_as_bucket_view:  # else they are among what is fixed
                gradients = self.state.gradient_bytes()
                limit -= gradients
        if together is not None:
            limit = together.limit(recording.graph, limit)
        if limit is not None and limit >= peak and r.max_overhead is None:
            return Made(None, self._said(StepReport.of(recording, None, fixed.bytes, counted, taken), eager, at), recording, at=at)
        if at is not None and together is None and limit is not None and r.max_overhead is None:
            chosen = self.lengths.choose(at, recording.accumulates, limit)
            if chosen is None and begun and (chosen := self.lengths.lowest(at, recording.accumulates, limit)) is not None:
                self._low(recording, limit, at.peak(chosen.timeline).likely)
            if chosen is not None:
                report = self.lengths.pool(at, recording.accumulates).report(at, chosen, fixed.bytes, counted, taken)
                return Made(chosen.program, self._said(report, eager, at), recording, audits, at, chosen, self.lengths.version, limit, chosen.turns)
        lowest = False
        for text in crossing(recording.windows, recording.measured_peak):
            self.told.warn(text)
        away: dict[str, Any] = {"offload": r.offload, "host_budget": self._room()} if r.offload is not None else {}
        make = functools.partial(plan_of, recording, activation_budget=max(1, limit) if limit is not None else None, max_overhead=r.max_overhead, **away)
        try:
            if r.lossy is not None:
                return self._smaller_values(recording, r.lossy, make.keywords, (fixed.bytes, counted, taken), eager, audits, together)
            found = together.plan(make) if together is not None else make()
        except BudgetError as e:
            if divides and self.loss.suffices(recording, e, limit):
                raise Undivided from None
            if not begun or e.best <= 0:
                whole = gradients + counted
                raise refused(e, recording, limit or 0, counted, taken, functools.partial(self._smaller, sample, limit or 0), lambda step: step + whole) from None
            best = e.best
            self._low(recording, limit or 0, best)
            if r.lossy is not None:
                return self._smaller_values(recording, r.lossy, {"activation_budget": best}, (fixed.bytes, counted, taken), eager, audits)
            found, lowest = plan_of(recording, activation_budget=e.best, **away), True
        report = self._said(StepReport.of(recording, found, fixed.bytes, counted, taken), eager, at)
        if at is None:
            whole_plan = found.to_dict()
            moves = compiled(recording, whole_plan["steps"], moved, self.engine, device_of(self.model)) if self.engine is not None and (moved := whole_plan.get("moves")) else None
            if moves is not None:
                moves.place, moves.promised, moves.tell = whole_plan["offload"]["place"], whole_plan["offload"]["wait_ns"], self.told.say
                moves.engine.prepare(moves.room)  # a disk that is full is found here, and not in a step
            return Made(build(recording, whole_plan["steps"], moves=moves), report, recording, audits)
        plan = self.lengths.take(at, recording.accumulates, found, lowest)
        return Made(plan.program, report, recording, audits, at, plan, self.lengths.version, limit or 0, plan.turns)

    def _room(self) -> Size | None:
        """What states leave of the room elsewhere for moved values."""
        most = self.request.host_budget
        if most is None or self.elsewhere is None or not (taken := self.elsewhere.reserved):
            return most
        return max(1, parse("host_budget", most, 0) - taken)

    def _choose_states(self, recording: Recording) -> None:
        """Has the states of as many parameters elsewhere as make the step and its copies take least, the largest first."""
        assert self.states is not None
        sizes = sorted(self.states.sizes().items(), key=lambda item: -item[1])
        total = sum(n for _, n in sizes)
        limit = self.limit(self.fixed(recording), self.eager(recording))
        time = float(plan_of(recording).baseline.time_ns)
        out, back = rates("disk" if self.states.where == "disk" else "host", recording.graph["device"])
        of = dict(sizes)
        able = [(p, of[p]) for p in self.states.within([p for p, _ in sizes])]  # for which there is room
        best, least = able, float("inf")
        for share in _SHARES if limit is not None else ():
            leaving, left = [], 0
            for p, n in able:
                if left < share * total:
                    leaving.append((p, n))
                    left += n
            try:
                room = (limit or 0) + left
                extra = 0.0 if room >= recording.measured_peak else plan_of(recording, activation_budget=max(1, room)).result.overhead * time
            except BudgetError:
                continue
            cost = extra + left * (1 / out + 1 / back)
            if cost < least:
                best, least = leaving, cost
        self.sent = len(best), sum(n for _, n in best), total
        self.states.send([p for p, _ in best])

    def _smaller_values(self, recording: Recording, kind: Lossy, settings: Mapping[str, Any], figures: tuple[int, int, tuple[str, ...]], eager: int, audits: int, together: Meeting | None = None) -> Made:
        """The plan of a step whose values may be rounded for the backward pass, on all ranks the same ones."""
        make = functools.partial(plan_smaller, recording, kind, **settings)
        found = make() if together is None else together.plan(make)
        assert self.engine is not None
        report = self._said(StepReport.of_smaller(recording, kind, found, *figures), eager, None)
        report.eager_peak = eager + figures[1]
        moves = compiled(recording, found.steps, found.moves, self.engine, device_of(self.model)) if found.moves else None
        return Made(build(recording, found.steps, moves=moves), report, recording, audits)

    def again(self, made: Made) -> None:
        """Takes another plan for a size, where one was made since that runs less again."""
        at, accumulating = made.at, made.recording.accumulates
        if at is None or made.planned is None or made.version == self.lengths.version:
            return
        made.version = self.lengths.version
        chosen = self.lengths.choose(at, accumulating, made.limit)
        if chosen is not None and chosen is not made.planned:
            r = made.report
            made.program, made.planned, made.turns = chosen.program, chosen, chosen.turns
            made.report = self._said(self.lengths.pool(at, accumulating).report(at, chosen, r.fixed, r.counted, r.taken), self.eager(made.recording), at)

    def _low(self, recording: Recording, limit: int, lowest: int) -> None:
        """Tells of steps whose lowest plan is above the budget, of one program once."""
        what = "steps that add to gradients" if recording.accumulates else f"steps of {_passes(recording)}"
        if (id(recording.ops), recording.accumulates) not in self.low:
            self.low.add((id(recording.ops), recording.accumulates))
            self.told.warn(f"{what} do not fit {show_bytes(limit)}: their lowest plan takes {show_bytes(lowest)}")

    def forget(self) -> None:
        """Steps run other operators from now on."""
        self.lengths = Lengths()

    def _said(self, report: StepReport, eager: int, at: At | None) -> StepReport:
        """A report that says what was chosen, beside what the step takes without it; and what the loop holds."""
        report.held = at.held if at is not None else 0
        if self.states is not None and self.sent is not None:
            n, nbytes, total = self.sent
            what = f"the states of {n} of {len(self.states.sizes())} parameters, {show_bytes(nbytes)} of {show_bytes(total)}, are on the {self.states.where} between updates"
            report.sent = what if n else "all optimizer states stay where they are"
        elif self.elsewhere is not None and self.elsewhere.stays:
            sizes = self.elsewhere.sizes()
            gone = [n for p, n in sizes.items() if p not in self.elsewhere.stays]
            report.sent = f"the states of {len(gone)} of {len(sizes)} parameters, {show_bytes(sum(gone))} of {show_bytes(sum(sizes.values()))}, are on the {self.elsewhere.where} between updates, as many as host_budget has room for"
        if self.request.states is None and movable(self.request.optimizer):
            report.states = state_bytes(self.request.optimizer).bytes
        tiled = self.tiles.chosen if self.tiles is not None else ""
        if self.loss.chosen or tiled:
            report.chosen, report.eager_peak = "; ".join(([CHOSEN] if self.loss.chosen else []) + ([tiled] if tiled else [])), eager + report.counted
        if self.tiles is not None and tiled:
            report.overhead = (1 + report.overhead) * self.tiles.slower - 1
        return report

    def eager(self, recording: Recording) -> int:
        """The peak of a recorded step in eager mode, of which a percentage is a share."""
        return int(self.loss.eager(recording) * (self.tiles.times if self.tiles is not None else 1.0))

    def failed(self, made: Made, e: RuntimeError) -> None:
        """Handles an error of a step that was made: if memory ran out, it says where, and what would fit."""
        if is_of_memory(e) and not hasattr(e, "memopt"):
            fixed = self.fixed()
            steps = made.report.plan.to_dict()["steps"] if made.report.plan is not None else None
            explain(e, made.report.recording, room(self.model, fixed), fixed, self.taken, steps)

    def _others(self, recording: Recording, fixed: Fixed) -> int:
        """Other memory of the device's allocator at the beginning of the step: the batch, work space of libraries, other models."""
        if recording.before is None:
            return 0
        gradients = self.state.gradient_bytes() if recording.accumulates else 0
        return max(0, recording.before - (fixed.bytes - fixed.to_come) - gradients)

    def _smaller(self, sample: Sample | None, limit: int) -> Smaller | None:
        """The part of a sample that fits."""
        if sample is None or limit <= 0:
            return None
        r = self.request
        gradients = None if r.optimizer_in_backward else self.trained_bytes()
        return self.smaller(self.model, *sample, limit, gradients, loss=r.loss, loss_chunks=self.loss.setting)

    @property
    def taken(self) -> tuple[str, ...]:
        """Arguments that lower the floor, given or chosen."""
        return (*self.request.taken, *(("loss_chunks",) if self.loss.chosen else ()))

    def trained_bytes(self) -> int:
        return sum(local(p).nbytes for p in self.state.parameters if p.requires_grad)


def _passes(recording: Recording) -> str:
    """How many forward passes a step has, and of what size its inputs are."""
    n = len(recording.begins)
    sizes = ["×".join(map(str, v.shape)) for op in recording.ops for v in op.inputs if v.kind == "data" and v.shape]
    of = f" with inputs of {sizes[0]}" if sizes else ""
    return f"{n} forward passes{of}" if n > 1 else f"one forward pass{of}"
