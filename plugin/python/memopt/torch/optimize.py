"""memopt.optimize: a module whose training steps stay within a budget."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import threading
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from .._arguments import Size
from ..errors import BudgetError
from ..report import show_bytes
from .ask.smaller import smaller_batch
from .lower.early import EarlyStep
from .lower.scores import Chunks
from .plan.budget import Fixed, fixed_bytes, free_bytes, growth
from .plan.outofmemory import explain, is_of_memory, room
from .plan.plans import plan_of
from .plan.refused import Smaller, refused
from .plan.report import StepReport, say
from .ranks.meeting import Meeting, bucket_bytes, data_parallel, meeting, refuse_flattened, traps
from .ranks.units import Unit, parameters_of, release, units_of
from .record import measuring
from .record.live import await_backward, give_up, tell_errors
from .record.measure import ProfilerBusy, step_peak
from .record.operators import Op
from .record.record import Recording, record_call, recorded
from .record.recorder import Recorder
from .record.windows import crossing
from .replay.program import Program, build
from .replay.regions import checkpointed, regions_of
from .replay.replay import Step, planned
from .step.given import check_module, check_request
from .step.results import plain_results
from .step.sample import Loss, Sample, arguments, gradients_kept, scalars, through
from .step.spent import gradient
from .step.standin import StandIn, form_of, standing
from .step.tensors import local, tensors
from .step.wrapped import inner_module

MOST_PLANS = 16  # one for each shape of the inputs


def optimize(
    model: torch.nn.Module,
    budget: Size | None = None,
    *,
    activation_budget: Size | None = None,
    max_overhead: str | float | None = None,
    sample: Any = None,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    reserve: Size = "5%",
    loss_chunks: int | Literal["auto"] | None = None,
    strict: bool = False,
    optimizer_in_backward: bool = False,
    verbose: bool = True,
    mode: Literal["auto", "eager", "compile", "aot_eager"] = "auto",
) -> StepReport | None:
    """Changes a module in place so that its training steps fit a budget, at the least extra time, with bit-identical results.

    budget             the most memory of a step: parameters, gradients, optimizer states, activations. Bytes, "6GiB", "60%"
                       of the memory in eager mode, or "auto", the default: the device's free memory, less the reserve
    activation_budget  the most growth of memory during one forward and backward pass
    max_overhead       extra compute allowed, instead of a budget: the plan is the one with the lowest peak
    sample             inputs of a step: a tensor, a tuple of arguments, or a dict of keyword arguments. The step is run
                       once to record it and once to check it. Without a sample the first step of training is recorded as it
                       runs, with everything kept, and the plan applies from the second step on
    loss               a function of the model's output that returns one number, for a sample of a model that does not
                       return its loss
    optimizer          an optimizer, or several, whose states count in the budget, even before they are created
    reserve            memory that "auto" leaves free
    loss_chunks        the number of chunks of rows, or "auto", for the cross entropy of a torch.nn.Linear's scores, which are then never in
                       memory as a whole. The loss and gradients equal those of eager mode except for rounding
    optimizer_in_backward
                       the optimizer applies each parameter's gradient as soon as it is computed, and frees it: gradients of the whole model
                       never exist at once. optimizer.step() is called as before. Clipping, accumulation and GradScaler raise
    strict             a step that runs other operators than the recorded one raises; otherwise it keeps everything from there on, and
                       the next step is recorded again
    verbose            reports the promised peak, and after the first planned step the measured one, on the first rank:
                       through the logger "memopt", or on standard error if logging is not configured
    mode               "eager" plans the module as it is; "compile" compiles its forward pass and plans the graphs, with Inductor if it
                       has a compiler, else run operator by operator, as with "aot_eager". "auto" compiles a module for which torch.compile
                       was called, else it is "eager". A compiled module takes its first inputs as the sample

    Returns a report, or None without a sample: then report(model) returns it after the first step. Only forward passes with
    gradients in training mode are planned. restore(model) undoes everything.

    Raises BudgetError, with the floor and what sets it, if nothing fits; the module is then unchanged.
    """
    if budget is None and activation_budget is None and max_overhead is None:
        budget = "auto"
    check_module("optimize", model, planned=False)
    check_request(budget=budget, activation_budget=activation_budget, max_overhead=max_overhead, loss=loss, optimizer=optimizer, reserve=reserve, loss_chunks=loss_chunks)
    model = inner_module(model)
    form = form_of(model, mode)
    refuse_flattened(model)
    restore(model)
    request = _Request(budget, activation_budget, max_overhead, loss, optimizer, reserve, loss_chunks, strict, verbose, optimizer_in_backward)
    if form != "eager":
        from .compile.compiled import optimize_compiled

        if loss_chunks is not None or optimizer_in_backward:
            raise TypeError(f"{request.taken[0]} is for mode='eager': compiled graphs are not changed")
        if units_of(model):
            raise TypeError("the step of a module that fully_shard was called for is planned in mode='eager' only")
        with gradients_kept(arguments(sample) if sample is not None else ()):
            return optimize_compiled(model, request, form, arguments(sample) if sample is not None else None)
    forward = PlannedForward(model, request)
    forward.early = EarlyStep(model, optimizer) if optimizer_in_backward else None
    if sample is None:
        forward.install()
        return None
    args, kwargs = arguments(sample)
    try:
        with forward.early.primed() if forward.early is not None else contextlib.nullcontext(), gradients_kept((args, kwargs)):
            found = forward.prepare(args, kwargs)
    except BaseException:
        forward.end()
        raise
    forward.install()
    return found


def restore(model: torch.nn.Module) -> None:
    """Restores a module's own forward pass."""
    check_module("restore", model)
    ours = standing(inner_module(model))
    if ours is not None:
        ours.remove()


@contextlib.contextmanager
def optimized(model: torch.nn.Module, budget: Size | None = None, **settings: Any) -> Iterator[StepReport | None]:
    """optimize for the block of a with statement; the module is restored when it ends."""
    found = optimize(model, budget, **settings)
    try:
        yield found
    finally:
        restore(model)


def report(model: torch.nn.Module) -> StepReport | None:
    """The report of the latest plan, or None."""
    ours = standing(inner_module(model))
    return ours.last if ours is not None else None


@dataclass(frozen=True)
class _Request:
    budget: Size | None
    activation_budget: Size | None
    max_overhead: str | float | None
    loss: Loss | None
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None
    reserve: Size
    loss_chunks: int | Literal["auto"] | None
    strict: bool
    verbose: bool = True
    optimizer_in_backward: bool = False

    @property
    def taken(self) -> tuple[str, ...]:
        """Arguments that lower the floor."""
        given = {"loss_chunks": self.loss_chunks is not None, "optimizer_in_backward": self.optimizer_in_backward}
        return tuple(name for name, there in given.items() if there)


@dataclass
class _Made:
    """The state of steps with one key."""

    program: Program | None  # None: everything is kept
    report: StepReport
    recording: Recording
    audits: int = 0  # planned steps whose dropped values are still to be compared with those made again


class _Kept:
    """A step that keeps everything."""


_MOST_RECORDINGS = 3  # of one key, where steps leave the recorded way
_AUDITS = 2
_LATELY = 16  # forward passes that tell how many share a backward pass
_LOOK = 64  # steps between two looks for modules and parameters that were put in or taken out


_busy = threading.local()


class PlannedForward(StandIn):
    """Replaces a module's forward: runs it under the plan for the shapes of its inputs, or records it."""

    def __init__(self, model: torch.nn.Module, request: _Request) -> None:
        super().__init__(model)
        self.request = request
        self.chunks = Chunks(request.loss_chunks) if request.loss_chunks is not None else None
        self.made: OrderedDict[Any, _Made] = OrderedDict()
        self.recorded: dict[Any, int] = {}  # recordings, by key
        self.given_up: set[Any] = set()  # keys of steps that no plan holds for
        self.passes = 1  # forward passes before a backward pass
        self.waiting: deque[int] = deque([1], maxlen=_LATELY)  # the same, at each of the last passes
        self.steps: list[weakref.ref[Step]] = []  # planned, whose backward passes are yet to come
        self.looks = 0
        self.kind = type(model)  # fully_shard changes it
        self.units: list[Unit] = []
        self.wrapper: Callable[[], Any] = lambda: None  # DistributedDataParallel
        self.met = False  # the ranks that train the module with this one, to plan
        self.parameters: list[torch.nn.Parameter] = []
        self.modules: list[torch.nn.Module] = []
        self.early: EarlyStep | None = None
        self.lock = threading.RLock()
        self.told: set[str] = set()
        functools.update_wrapper(self, type(model).forward)
        self.__signature__ = inspect.signature(self.original)

    @property
    def original(self) -> Callable[..., Any]:
        forward = super().original
        forward = forward if self.early is None else self.early.around(forward)
        return forward if self.chunks is None else self.chunks.around(self.model, forward)  # type: ignore[no-any-return]

    def end(self) -> None:
        """Discards all plans and recordings."""
        if self.early is not None:
            self.early.detach()
            self.early = None

    def remove(self) -> None:
        self.end()
        super().remove()
        if not self.off:
            release(self.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.off or getattr(_busy, "on", False) or not self.model.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self.original(*args, **kwargs)
        self._join()
        key = self._key(args, kwargs)
        if key in self.given_up:
            with checkpointed(self.model):
                return self.original(*args, **kwargs)
        self._count_passes()
        made = self._found(key)
        _busy.on = True
        try:
            if made is None:
                if self.early is not None and not self.early.ready:
                    return self.original(*args, **kwargs)  # states that the optimizer makes in its first step are not those of a step
                return self._first(key, args, kwargs)
            self.last = made.report
            if made.program is None:
                return self._kept(made, args, kwargs)
            return self._planned(key, made, args, kwargs)
        except RuntimeError as e:
            if made is not None:
                self._failed(made.recording, e)
            raise
        finally:
            _busy.on = False

    def _failed(self, recording: Recording, e: RuntimeError) -> None:
        """Handles an error of a recorded step: if memory ran out, it says what would fit."""
        if is_of_memory(e) and not hasattr(e, "memopt"):
            fixed = self._fixed()
            explain(e, recording, room(self.model, fixed), fixed, self.request.taken)

    def _kept(self, made: _Made, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the forward pass as it is, which fits. Errors of memory in its backward pass tell what would fit all the same."""
        out = self.original(*args, **kwargs)
        step = _Kept()
        for t in tensors(plain_results(out)):
            if t.grad_fn is not None:
                t.grad_fn.metadata["memopt"] = step  # which is there as long as the graph
        tell_errors(step, out, functools.partial(self._failed, made.recording))
        return out

    def _planned(self, key: Any, made: _Made, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the forward pass under its plan."""
        assert made.program is not None
        gathered = sum(t.nbytes for unit in made.recording.units if unit.gathered for t in unit.parameters)
        run = planned(made.program, strict=self.request.strict, audit=self._audited if made.audits > 0 else None)
        measures = made.audits <= 0 and made.report.measured_on != "a step of training" and (self.early is None or self.early.ready)
        run.step.failed = functools.partial(self._failed, made.recording)
        made.audits -= 1
        with measuring.step(measures) as measured:
            try:
                with run:
                    out = self.original(*args, **kwargs)
            finally:
                why = run.step.diverged
                if why is not None:
                    self._tell(f"a step went another way than the recorded one and keeps what follows; it is recorded again: {why}")
                    self._forget(key, "its steps run other operators each time")
            if measured is not None and why is None:
                measured.behind(out, functools.partial(self._measured, made.report, gathered))
        self.steps = [s for s in self.steps if s() is not None] + [weakref.ref(run.step)]
        tell_errors(run.step, out, run.step.failed)
        return out

    def _measured(self, found: StepReport, before: int, peak: int) -> None:
        """Notes the memory of a planned training step, not counting earlier gradients."""
        found.measured(before + peak, "a step of training")
        self._say("measured", f"memopt: measured {show_bytes(found.measured_peak or 0)} in a step of training, {show_bytes(found.promised_peak)} promised")

    def _say(self, about: str, text: str) -> None:
        """Reports once."""
        if self.request.verbose and about not in self.told:
            self.told.add(about)
            say(text)

    def _count_passes(self) -> None:
        """Divides the budget among forward passes that share a backward pass."""
        self.waiting.append(1 + sum(map(_waits, self.steps)))
        passes = max(self.waiting)  # a forward pass whose backward pass never comes counts for _LATELY passes only
        if passes == self.passes:
            return
        if passes > self.passes:
            self._tell(f"{passes} forward passes come before a backward pass; each keeps to its share of the budget")
        self.passes = passes
        self._plan_again()

    def _plan_again(self) -> None:
        """Plans all recorded steps again, after the budget or the set of repeatable operators has changed."""
        with self.lock:
            for key, made in list(self.made.items()):
                self.made[key] = self._plan(made.recording)

    def _forget(self, key: Any, why: str) -> None:
        """Discards the recording of a key, unless that was done often."""
        with self.lock:
            self.looks = 0
            self.made.pop(key, None)
            self.made.pop((key, "gradients"), None)
            if self.recorded.get(key, 0) >= _MOST_RECORDINGS:
                self.given_up.add(key)
                n = len(regions_of(self.model))
                self._tell(f"no plan holds for steps with inputs of these shapes, and no budget: {why}. {n} blocks run under torch.utils.checkpoint instead")

    def _audited(self, at: int, what: str) -> None:
        """Handles a recomputed value with other bits than the original."""
        self._tell(
            f"{what} gave other bits when it ran again, so the gradients of this step may differ from those of eager mode; its results are kept from now on", RuntimeWarning
        )
        with self.lock:
            for made in self.made.values():
                for op in made.recording.ops:
                    if at in op.calls and not op.backward:
                        made.recording.keep(op)
            self._plan_again()

    def _first(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a step as it runs, and plans it after its backward pass."""
        give_up()  # a recording whose backward pass has not come
        refuse_flattened(self.model)
        for text in traps(self.model):
            self._tell(text)
        if self.chunks is not None and self.chunks.name is None:
            self.chunks.find(self.model, functools.partial(self.original, *args, **kwargs), self.request.loss)
        recorder = Recorder(self.model, self._recording_limit(), self._gave_other_bits)
        self.recorded[key] = self.recorded.get(key, 0) + 1
        place = (key, "gradients") if self._gradients() else key
        try:
            out = recorder.forward(functools.partial(self.original, *args, **kwargs))
        except ProfilerBusy:
            self._tell("a profiler is running, so no step can be recorded")  # tried again at the next step
            self._nothing()
            return self.original(*args, **kwargs)

        def done(problem: str) -> None:
            if problem:
                self._nothing()
                self.recorded[key] = _MOST_RECORDINGS
                self._forget(key, problem)
                return
            try:
                if self.chunks is not None:
                    self.chunks.check()
                recording = recorded(recorder)
                with self._meeting() as together:
                    made = self._plan(recording, audits=_AUDITS, together=together)
                self._keep(place, made)
            except (BudgetError, ValueError):
                restore(self.model)  # as it was before
                raise

        if recorder.waits:
            await_backward(recorder, done)
        else:
            self._nothing()
        return out

    def _keep(self, key: Any, made: _Made) -> None:
        with self.lock:
            self.made[key] = made
            if len(self.made) > MOST_PLANS:
                self.made.popitem(last=False)
            self.last = made.report
        self._say("promised", str(made.report))

    def prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepReport:
        """Records a step with these inputs, plans it, and checks the plan by running it."""

        key: Any = None

        def forward(*args: Any, **kwargs: Any) -> Any:
            nonlocal key
            key = self._key(args, kwargs)  # as the hooks of the module hand them on
            return self.original(*args, **kwargs)

        def call(around: Callable[[Callable[[], Any]], Any]) -> Any:
            return through(self.model, forward, around, args, kwargs)

        self._look()
        for text in traps(self.model):
            self._tell(text)
        _busy.on = True
        try:
            if self.chunks is not None and self.chunks.name is None:
                self.chunks.find(self.model, functools.partial(call, lambda forward: forward()), self.request.loss)
            recording = record_call(self.model, call, self.request.loss, self._recording_limit())
            if self.chunks is not None:
                self.chunks.check()
            sample = Sample(args, kwargs) if not self.units else None  # other ranks would have to come along
            with self._meeting() as together:
                made = self._plan(recording, sample=sample, together=together)
            while made.program is not None and not self._check(made, call):
                made = self._plan(recording, sample=sample)
        finally:
            _busy.on = False
        self._keep(key, made)
        return made.report

    def _found(self, key: Any) -> _Made | None:
        """The plan for steps with a key; existing gradients are held from the first operator on."""
        if not self._gradients():
            return self.made.get(key)
        held = (key, "gradients")
        if held not in self.made and (made := self.made.get(key)) is not None:
            self._keep(held, self._plan(made.recording.accumulating()))
        return self.made.get(held)

    def _gradients(self) -> bool:
        """Whether gradients exist before a step."""
        return any(gradient(p) is not None for p in self.parameters if p.requires_grad)

    def _gradient_bytes(self) -> int:
        return sum(local(grad).nbytes for p in self.parameters if (grad := gradient(p)) is not None)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Everything that a recorded step depends on, apart from the module's code."""
        shapes = tuple((t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in tensors((args, kwargs)))
        autocast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
        if self.looks % _LOOK == 0 or type(self.model) is not self.kind:  # walking the modules costs more than reading their flags
            self._look()
        self.looks += 1
        state = tuple(p.requires_grad for p in self.parameters)
        modes = tuple(m.training for m in self.modules)
        sharded = tuple(unit.modes for unit in self.units)
        return shapes, scalars((args, kwargs)), autocast, hash(state), hash(modes), torch.get_num_threads(), sharded

    def _look(self) -> None:
        self.kind, self.units = type(self.model), units_of(self.model)
        self.parameters, self.modules = parameters_of(self.model, self.units), list(self.model.modules())

    def _join(self) -> None:
        """Notes the wrapper that reduces gradients, whose buckets count from now on."""
        running = torch.nn.parallel.DistributedDataParallel._active_ddp_module
        if running is None or running is self.wrapper() or data_parallel(self.model) is None:
            return
        self.wrapper = weakref.ref(running)
        self._plan_again()

    def _meeting(self) -> contextlib.AbstractContextManager[Meeting | None]:
        """Ranks that train together make their first plan together."""
        found = meeting(self.units, self.wrapper()) if not self.met else None
        self.met = True
        return found if found is not None else contextlib.nullcontext()

    def _nothing(self) -> None:
        """Tells waiting ranks that there is nothing to plan."""
        with self._meeting() as together:
            if together is not None:
                together.absent()

    def _smaller(self, sample: Sample | None, limit: int) -> Smaller | None:
        """The part of a sample that fits."""
        if sample is None or limit <= 0:
            return None
        r = self.request
        gradients = None if r.optimizer_in_backward else sum(local(p).nbytes for p in self.parameters if p.requires_grad)
        return smaller_batch(self.model, *sample, limit, gradients, loss=r.loss, loss_chunks=r.loss_chunks)

    def _plan(self, recording: Recording, audits: int = 0, sample: Sample | None = None, together: Meeting | None = None) -> _Made:
        """The plan of a recorded step within the budget; with several ranks, the same on all that ran the same step."""
        r = self.request
        eager, fixed = recording.measured_peak, self._fixed()
        fixed = fixed._replace(bytes=fixed.bytes + recording.lasting + self._others(recording, fixed))
        counted = fixed.bytes if r.budget is not None else 0
        limit, gradients = self._limit(fixed, eager), 0
        if limit is not None and recording.accumulates and r.budget not in (None, "auto"):
            wrapper = self.wrapper()
            if wrapper is None or not wrapper.gradient_as_bucket_view:  # else they are among what is fixed
                gradients = self._gradient_bytes()
        if limit is not None:
            limit = (limit - gradients) // self.passes
        if together is not None:
            limit = together.limit(recording.graph, limit)
        if limit is not None and limit >= eager and r.max_overhead is None:
            return _Made(None, StepReport.of(recording, None, fixed.bytes, counted, r.taken), recording)
        for text in crossing(recording.windows, recording.measured_peak):
            self._tell(text)
        make = functools.partial(plan_of, recording, activation_budget=max(1, limit) if limit is not None else None, max_overhead=r.max_overhead)
        try:
            found = together.plan(make) if together is not None else make()
        except BudgetError as e:
            if not self.made or e.best <= 0:
                passes = self.passes
                raise refused(
                    e, recording, limit or 0, counted, r.taken, functools.partial(self._smaller, sample, limit or 0), lambda step: step * passes + gradients + counted
                ) from None
            # Training has begun, and a shape comes that does not fit: the lowest plan there is, and a word about it.
            what = "steps that add to gradients" if recording.accumulates else "inputs of other shapes"
            self._tell(f"{what} do not fit {show_bytes(limit or 0)}: their lowest plan takes {show_bytes(e.best)}")
            found = plan_of(recording, activation_budget=e.best)
        report = StepReport.of(recording, found, fixed.bytes, counted, r.taken)
        return _Made(build(recording, found.to_dict()["steps"]), report, recording, audits)

    def _others(self, recording: Recording, fixed: Fixed) -> int:
        """Other memory of the device's allocator at the beginning of the step: the batch, work space of libraries, other models."""
        if recording.before is None:
            return 0
        gradients = self._gradient_bytes() if recording.accumulates else 0
        return max(0, recording.before - (fixed.bytes - fixed.to_come) - gradients)

    def _limit(self, fixed: Fixed, eager: int | None) -> int | None:
        """The bytes that a step may take beyond those in use before it; None if unlimited, or a share of an unknown total."""
        r = self.request
        return growth(self.model, fixed, eager, budget=r.budget, activation_budget=r.activation_budget, reserve=r.reserve)

    def _fixed(self) -> Fixed:
        fixed = fixed_bytes(self.model, self.request.optimizer)
        return fixed._replace(bytes=fixed.bytes + bucket_bytes(self.wrapper(), self.model))

    def _recording_limit(self) -> int:
        """The limit of a step while it is recorded: its budget if possible, and the device's memory."""
        fixed = self._fixed()
        limit, free = self._limit(fixed, None), free_bytes(self.model, "20%")
        return max(0, free if limit is None else min(limit, free))

    def _gave_other_bits(self, op: Op) -> None:
        self._tell(f"{op.op} of {op.module or 'the model'} gave other bits when it ran again, so the gradients of this step may differ from those of eager mode", RuntimeWarning)

    def _check(self, made: _Made, call: Callable[[Callable[[Callable[[], Any]], Any]], Any]) -> bool:
        """Runs the step once under the plan, and checks for the bits of eager mode and the promised bytes. False if an operator must be kept from now on."""
        assert made.program is not None
        recording = made.recording
        drifted: list[Op] = []
        run = planned(made.program, audit=lambda at, _: drifted.extend(op for op in recording.ops if at in op.calls and not op.backward))

        def under(forward: Callable[[], Any]) -> Any:
            with run:
                return forward()

        checked = step_peak(self.model, lambda: call(under), self.request.loss)
        made.report.measured(checked.peak, "the sample")
        if run.step.diverged is not None:
            raise RuntimeError(f"memopt: the module does not run the same operators twice, so no plan holds for it: {run.step.diverged}")
        for op in drifted:
            self._tell(f"{op.op} of {op.module or 'the model'} gives other bits when it runs again; its results are kept", RuntimeWarning)
            recording.keep(op)
        wrong = [name for name, d in recording.digests.items() if checked.digests.get(name) != d]
        if wrong and not drifted:
            raise RuntimeError(
                f"memopt: under the plan {wrong[0]} has other bits than in eager mode ({len(wrong)} of {len(recording.digests)} tensors differ); "
                "the plan is not used, please report this with the model"
            )
        return not drifted

    def _tell(self, text: str, category: type[Warning] = UserWarning) -> None:
        if text not in self.told:
            self.told.add(text)
            warnings.warn("memopt: " + text, category, stacklevel=3)

    # Copies have a forward of their own; files do not hold plans.

    def __deepcopy__(self, memo: dict[int, Any]) -> PlannedForward:
        new = PlannedForward.__new__(PlannedForward)
        memo[id(self)] = new
        new.__dict__.update(self.__dict__)
        new.model = copy.deepcopy(self.model, memo)
        new.replaced = copy.deepcopy(self.replaced, memo)
        new.lock = threading.RLock()
        new.made, new.recorded, new.given_up, new.told, new.steps = OrderedDict(self.made), dict(self.recorded), set(self.given_up), set(self.told), []
        new.waiting = self.waiting.copy()
        new.looks, new.early = 0, None  # the optimizer has no parameters of copies
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.model, self.request)


def _waits(ref: weakref.ref[Step]) -> bool:
    """Whether a planned step's backward pass is yet to come. A frame of its own: that of a plan may outlive it in an error's traceback."""
    step = ref()
    return step is not None and not step.begun and step.diverged is None


def _unpickled(model: torch.nn.Module, request: _Request) -> PlannedForward:
    return PlannedForward(model, request)
