"""The loop around a step: each forward pass of the planned modules comes here, and is recorded, planned, or left as it is."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ...errors import BudgetError
from ...report import show_bytes
from ..lower.early import EarlyStep
from ..lower.inchunks import InChunks, Undivided
from ..lower.states import StatesElsewhere
from ..lower.tiles import tiles_of
from ..native.run import StepOf, step_of
from ..plan.report import StepReport
from ..plan.sized import At
from ..ranks.meeting import refuse_flattened, traps
from ..record import measuring
from ..record.hooks import Sent
from ..record.live import await_backward, give_up, pending, tell_errors
from ..record.operators import Op
from ..record.record import Recording, recorded
from ..record.recorder import TRANSFORMS, Recorder, refuses_hooks
from ..replay.program import Program
from ..replay.regions import regions_of
from ..replay.replay import Passes
from ..step.sizes import Shape
from ..step.standin import StandIn
from .graphs import Graphs
from .holders import look
from .programs import Made, Programs
from .reach import Reach, Scout, methods_of
from .request import Request
from .share import AUDITS, Share, SmallerBatch
from .state import State
from .steps import Pass, Running
from .told import Told
from .without import Without

_MOST_FAILURES = 3
_MOST_TURNS = 32  # passes of one step, forward and backward ones counted together


class Loop:
    """The steps of modules that are planned together."""

    def __init__(self, models: list[torch.nn.Module], request: Request, smaller: SmallerBatch) -> None:
        self.models = models
        self.model = models[0] if len(models) == 1 else torch.nn.ModuleList(models)
        self.request = request
        self.loss = InChunks(request.loss_chunks, alone=len(models) == 1)
        self.tiles = tiles_of(request.sequence_tiles)
        self.early: EarlyStep | None = None
        self.states: StatesElsewhere | None = None
        self.told = Told(request.verbose)
        self.state = State(self.model)
        self.share = Share(self.model, request, self.state, self.told, smaller, self.loss)
        self.share.tiles = self.tiles
        self.programs = Programs()
        self.without = Without(self.model)
        self.graphs: Graphs | None = None
        self.last: StepReport | None = None
        self.most: StepReport | None = None  # of the largest step that was measured
        self.standing: list[StandIn] = []  # in the places of methods
        self.scouts: list[tuple[torch.nn.Module, Scout]] = []
        self.reach: Reach | None = None
        self.unplanned = False  # the modules do what no plan holds for
        self.failures = 0  # steps that could not be recorded
        self.wholes = 2  # recordings that may be made anew since a profiler was beside them
        self.lock = threading.RLock()
        self.here = threading.local()  # .current: the step that is under way

    @property
    def named(self) -> list[tuple[str, torch.nn.Module]]:
        """The modules by their names among those that are planned together."""
        return [(str(i) if len(self.models) > 1 else "", model) for i, model in enumerate(self.models)]

    def copy(self, model: torch.nn.Module) -> Loop:
        """The same for a copy of the module. One of several begins anew."""
        new = Loop([model], self.request, self.share.smaller)
        new.loss, new.tiles, new.last, new.told = self.loss, self.tiles, self.last, self.told.copy()
        new.share.told, new.share.loss, new.share.tiles = new.told, new.loss, new.tiles
        if len(self.models) == 1:
            new.programs = self.programs.copy()
        return new

    def install(self) -> None:
        for ours in self.standing:
            if ours.model.__dict__.get(ours.method) is not ours:
                ours.install()
        if not self.state.units:
            self.reach = Reach(self.model, self.told)

    def scout(self, name: str, model: torch.nn.Module, plan: Callable[[str], None], outermost: Callable[[], bool]) -> None:
        """Plans methods of a module from the first call on through which gradients are made, until the first step was planned."""

        def made(method: str) -> None:
            if not outermost():
                return
            for m, scout in self.scouts:
                if m is model and scout.name == method and m.__dict__.get(method) is scout:
                    del m.__dict__[method]
            if self.reach is not None:
                self.reach.methods.append(method)
            self._drop()
            plan(method)

        for method in methods_of(model):
            scout = Scout(model, method, made)
            self.scouts.append((model, scout))
            model.__dict__[method] = scout

    def _end_scouts(self) -> None:
        for model, scout in self.scouts:
            if model.__dict__.get(scout.name) is scout:
                del model.__dict__[scout.name]
        self.scouts = []

    def _drop(self) -> None:
        """Forgets a recording that has not all of its step."""
        step = self.current
        if step is not None and step.recorder is not None:
            step.recorder.close()
            self.here.current = None
            self.programs.tries.pop(step.key, None)

    def off(self) -> None:
        """Takes the plan off the modules."""
        self.standing[0].remove()

    def end(self) -> None:
        """Discards all plans and recordings."""
        self._end_scouts()
        if self.reach is not None:
            self.reach.end()
        self.graphs = None
        if self.early is not None:
            self.early.detach()
            self.early = None
        if self.states is not None:
            self.states.detach()
            self.states = None
        current = self.current
        if current is not None and current.recorder is not None and (found := pending()) is not None and found.recorder is current.recorder:
            give_up()
        self.here = threading.local()

    def find(self, call: Callable[[], Any]) -> None:
        """Finds the layers that are computed in another way, before a step is recorded."""
        self.loss.find(self.model, call, self.request.loss)
        if self.tiles is not None and self.tiles.names is None:
            self.tiles.find(self.model, call, self.request.loss)

    def around(self, model: torch.nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        """A module's own forward pass, with what lowers the floor."""
        forward = forward if self.early is None else self.early.around(forward)
        return self.loss.around(model, forward if self.tiles is None else self.tiles.around(model, forward))

    # Steps.

    @property
    def current(self) -> Running | None:
        return getattr(self.here, "current", None)

    def run(self, place: tuple[str, str], forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a forward pass: place is the name of the module among those that are planned together, and of its method."""
        if self.share.joined():
            self._plan_again()
        of = place, self.state.key(args, kwargs)
        call = functools.partial(forward, *args, **kwargs)
        task = torch._C._current_graph_task_id()
        if self.unplanned or task != -1 and self.current is not None and self.current.task == task:
            return forward(*args, **kwargs)  # made again within the backward pass, as by torch.utils.checkpoint around the module
        step = self.current
        if step is None or not self._goes_on(step, of):
            if self.graphs is not None:
                launched, out = self._launched(self.graphs, step, of, forward, args, kwargs)
                if launched:
                    return out
            step = self._begun(of, self.state.shape(of, args, kwargs), step)
        one = Pass(of)
        if step is None:
            out = self._without(call)
            if one.attach(out) and self.reach is not None:
                one.began = functools.partial(_passed, weakref.ref(self))
            return out
        try:
            if step.recorder is not None:
                out = self._recorded(step, step.recorder, of, call)
            elif step.run is not None:
                out = self._planned(step, step.run, call)
            else:
                out = call()
        except BaseException as e:
            step.broken = True
            if isinstance(e, RuntimeError) and step.made is not None:
                self.share.failed(step.made, e)
            raise
        if one.attach(out):
            look(self, step, out)
            one.began = functools.partial(_began, weakref.ref(step), weakref.ref(self))
            step.add(one)
            if step.made is not None and self.graphs is not None:
                self.graphs.ran(step.key, out)
            if step.made is not None:
                tell_errors(one, out, functools.partial(self.share.failed, step.made))
        return out

    def _launched(self, graphs: Graphs, before: Running | None, of: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> tuple[bool, Any]:
        """Launches a forward pass from a capture, and has its results; False if it must run."""
        key = of, self.state.gradients()
        made = self.programs.first(key)
        if not graphs.ready(key, made, len(self.programs.of(key))) or made is None:
            return False, None
        launched, out = graphs.run(key, made, forward, args, kwargs)
        if launched:
            if self.reach is not None:
                self.reach.end()  # a launched backward pass tells of no forward pass
            if before is not None:
                self._over(before)
            self.last = made.report
        return launched, out

    def _goes_on(self, step: Running, of: Any) -> bool:
        """Whether a forward pass belongs to the step that is under way."""
        if not step.open or step.broken:
            return False
        if step.recorder is not None:
            return step.recorder.phase == "between" and step.recorder.turns < _MOST_TURNS
        assert step.made is not None
        run = step.run() if step.run is not None else None
        if run is None:
            begins = step.made.recording.begins
            return step.run is None and len(step.passes) < len(begins) and begins[len(step.passes)].of == of
        if run.goes_on(of):
            return True
        if self.share.engine is not None:
            return False  # what is away is known to one program only
        found = self.programs.other(step.key, run, None, of) if run.diverged is None and run.reached < 0 else None
        if found is None:
            return False
        step.made = found[0]
        run.turn(found[1])
        return True

    def _begun(self, of: Any, shape: Shape, before: Running | None) -> Running | None:
        """The step that begins with a forward pass; None if no plan holds for it."""
        if before is not None:
            self._over(before)
        key = of, self.state.gradients()
        made = None
        tries = self.programs.begin(key)
        without = tries.waits > 0
        try:
            if not without and not self.share.lengths.wants(shape) and (not tries.records or self._candidates(key, shape)):
                made = self._found(key, shape)
        except BudgetError:
            raise
        except Exception as e:
            self._unplannable(key, e)
            self.here.current = None
            return None
        if made is not None and made.recording.partial and self.wholes > 0 and not torch.autograd._profiler_enabled():
            self.wholes, made = self.wholes - 1, None
        if without or made is None and self.early is not None and not self.early.ready:
            self.here.current = None  # states that the optimizer makes in its first step are not those of a step
            return None
        if made is None:
            step = self._recording(key, shape)
        else:
            self.last = made.report
            step = Running(key, shape, made)
            if made.program is not None:
                step.held = self._start(step, made, made.program)
        if before is not None and before.open:
            before.overtaken = True
        self.here.current = step
        return step

    def _start(self, step: Running, made: Made, program: Program) -> StepOf:
        """The state of a step under its plan. The graph holds it once there is one."""
        others = [other.program for other in self.programs.of(step.key) if other.program is not None and self.share.engine is None]  # that it may go on as
        run = step_of(program, self.request.strict, self._audited if made.audits > 0 else None, others, functools.partial(self.told.say, "native"))
        made.report.replay = run.kind
        step.replayed = f"replayed in Python ({run.why})" if run.why else f"replayed {'in Python' if run.kind == 'python' else 'by the native module'}"
        run.failed = functools.partial(self.share.failed, made)
        here = weakref.ref(step)

        def other(run: Passes, func: Any) -> Program | None:
            if self.share.engine is not None:
                return None
            step = here()
            if step is not None:
                self._candidates(step.key, step.shape)
            found = self.programs.other(step.key, run, func) if step is not None else None
            if step is None or found is None:
                return None
            step.made = found[0]
            return found[1]

        def left(why: str) -> None:
            step = here()
            if step is not None and not step.left:
                self._left(step, why)

        run.other, run.left_for = other, left
        if self._measures(made):
            step.measuring = measuring.begin()
            if step.measuring is None and pending() is None:
                self.told.say("unmeasured", "memopt: a profiler is running, so what a step takes is not measured")
            step.before = sum(t.nbytes for unit in made.recording.units if unit.gathered for t in unit.parameters)
        made.audits -= 1
        step.run = weakref.ref(run)
        return run

    def _measures(self, made: Made) -> bool:
        """Whether a step is measured."""
        if made.audits > 0 or made.report.measured_on == "a step of training" or self.early is not None and not self.early.ready:
            return False
        return made.at is None or self.share.lengths.measures(made.at, made.report.promised_peak)

    def _planned(self, step: Running, ref: weakref.ref[StepOf], call: Callable[[], Any]) -> Any:
        """Runs a forward pass under its plan."""
        run = step.held or ref()
        assert run is not None
        step.held = None
        try:
            with run.forward():
                out = call()
        except BaseException:
            run.diverged = run.diverged or "a forward pass failed"
            if step.measuring is not None:
                step.measuring.close()
            raise
        if step.measuring is not None:
            if run.diverged is None:
                step.measuring.behind(out, functools.partial(self._measured, weakref.ref(step), step.measuring))
            else:
                step.measuring.close()
        return out

    def _left(self, step: Running, why: str) -> None:
        """A step went another way than its program."""
        step.left = True
        self.share.lengths.stray(step.shape)
        self.told.warn(f"a step went another way than the recorded one and keeps what follows; it is recorded again: {why}")
        if not self.programs.left(step.key, "its steps run other operators each time"):
            self._gave_up(step.key)

    def _over(self, step: Running) -> None:
        """Another step begins."""
        self.here.current = None
        if step.measuring is not None:
            step.measuring.close()
        if step.recorder is not None and step.recorder.phase == "between":
            if step.recorder.reached and not step.open:
                self._finish(step, step.recorder)
            else:
                give_up()  # a recording whose backward pass has not come
                step.recorder.close()
        elif step.made is not None and step.ran and not step.left:
            self.programs.met(step.key, step.made)

    # Recordings.

    def _recording(self, key: Any, shape: Shape) -> Running:
        """Begins to record a step as it runs."""
        give_up()
        refuse_flattened(self.model)
        for text in traps(self.model):
            self.told.warn(text)
        tries = self.programs.tries[key]
        tries.records = max(0, tries.records - 1)
        return Running(key, shape, recorder=Recorder(self.model, self.share.recording_limit(), self._gave_other_bits))

    def _recorded(self, step: Running, recorder: Recorder, of: Any, call: Callable[[], Any]) -> Any:
        """Runs a forward pass of a step that is recorded."""
        self.find(call)
        state = torch.get_rng_state()
        try:
            out = recorder.forward(call, of, of[0][0])
        except RuntimeError as e:
            if not refuses_hooks(e):
                raise
            self._unrecorded(TRANSFORMS, _MOST_FAILURES)
            torch.set_rng_state(state)
            return call()
        if recorder.problem:
            recorder.close()
            self._unrecorded(recorder.problem)
        elif recorder.waits:
            await_backward(recorder, functools.partial(self._behind, step, recorder))
        else:
            recorder.close()
            self.here.current = None
            self.share.nothing()
        self.hooked(recorder.sent)
        return out

    def hooked(self, sent: Sent) -> None:
        """Tells of the user's own saved-tensor hooks in a step."""
        if sent.within:
            self.told.say("hooks within", f"memopt: {', '.join(sent.within)} in {type(self.model).__name__} takes saved tensors from the plan, and goes on as it is; memopt.explain(model, batch) prices it")
        if sent.around:
            self.told.say("hooks around", f"memopt: {sent.around} around {type(self.model).__name__} gets none of its saved tensors, as the plan keeps, repeats or moves them; memopt.explain(model, batch) within it prices it")

    def _unrecorded(self, why: str, times: int = 1) -> None:
        """A step could not be recorded, and goes on as it is; none are, where no other was."""
        self.here.current = None
        self.share.nothing()
        self.failures += times
        self.unplanned = self.failures >= _MOST_FAILURES and not any(True for _ in self.programs)
        if self.unplanned and self.reach is not None:
            self.reach.end()
        self.told.warn(f"a step of {type(self.model).__name__} cannot be recorded, so no plan holds for it and it runs as it is: {why}")

    def _behind(self, step: Running, recorder: Recorder, problem: str) -> None:
        """A backward pass of a recorded step is over."""
        if recorder.problem:
            recorder.close()
            self._unrecorded(recorder.problem)
        elif problem:
            self.here.current = None
            self.share.nothing()
            self.programs.give_up(step.key, problem)
            self._gave_up(step.key)
        elif step.open or step.kept:
            await_backward(recorder, functools.partial(self._behind, step, recorder))
        else:
            self._finish(step, recorder)

    def _finish(self, step: Running, recorder: Recorder) -> None:
        """Plans a recorded step."""
        self.here.current = None
        give_up()
        recorder.keeps = step.kept
        recorder.finish()
        if step.dead and self.programs.left(step.key, "a forward pass was given up"):
            return  # the next step may be as most are
        try:
            self.loss.check()
            recording = recorded(recorder)
            if recording.partial:
                self.told.warn("a profiler is running: the step is recorded without what only a profiler tells, the work space of operators")
            at = self.sized(recording, step.shape)
            if at is not None and at.program.recording is not recording:
                recording = at.recording(recording.accumulates)
            with self.share.meeting() as together:
                made = self.share.plan(recording, AUDITS, together=together, begun=any(True for _ in self.programs), divides=not self.state.units, at=at)
            self.keep(step.key, made)
        except Undivided:
            self.loss.turn(recording)
            self.share.forget()
            self.programs = Programs()  # the next steps are recorded with the loss in chunks
        except (BudgetError, ValueError):
            self.off()  # as it was before
            raise
        except Exception as e:
            self._unplannable(step.key, e)

    def _unplannable(self, key: Any, e: Exception) -> None:
        """The training goes on, whatever is wrong with us."""
        self.programs.give_up(key, f"a recorded step could not be planned ({type(e).__name__}: {e})")
        self._gave_up(key)

    def sized(self, recording: Recording, shape: Shape) -> At | None:
        """A recorded step as its program at one size. Steps of several passes, of sharded parameters, those that a profiler hid and those whose values may move are recorded at each size."""
        if self.state.units or recording.partial or len(recording.begins) != 1 or self.share.engine is not None:
            return None
        return self.share.lengths.add(shape, recording)

    def keep(self, key: Any, made: Made) -> None:
        self._end_scouts()
        with self.lock:
            self.programs.add(key, made)
            self.last = made.report
        self.told.say("promised", str(made.report))

    def _found(self, key: Any, shape: Shape) -> Made | None:
        """The plan for steps that begin so; existing gradients are held from the first operator on."""
        of, held = key
        made = self.programs.first(key)
        if made is None:
            self._candidates(key, shape)
            made = self.programs.first(key)
        if made is None and held and (plain := self.programs.first((of, False))) is not None:
            made = self.share.plan(plain.recording.accumulating(), begun=True)
            self.keep(key, made)
        if made is not None:
            self.share.again(made)
        return made

    def _candidates(self, key: Any, shape: Shape) -> bool:
        """Takes up the programs that steps of these sizes may be, which were recorded at other sizes. Whether there were others than known."""
        _, held = key
        with self.lock:
            known = {id(made.recording.ops) for made in self.programs.of(key)}
            found = [at for at in self.share.lengths.at(shape, held) if id(at.program.recording.ops) not in known]
            for at in reversed(found):
                made = self.share.plan(at.recording(held), begun=True, at=at)
                self.programs.add(key, made, seen=False)
                self.last = made.report
            if found:
                self.programs.learnt(key)
            return bool(found)

    def _plan_again(self) -> None:
        """Plans all recorded steps again, after the budget or the set of repeatable operators has changed."""
        with self.lock:
            for made in list(self.programs):
                self.programs.replace(made, self.share.plan(made.recording, begun=True, at=made.at))

    # Steps without a plan.

    def _gave_up(self, key: Any) -> None:
        why = self.programs.tries[key].why
        n = len(regions_of(self.model))
        self.told.warn(f"no plan holds for such steps, and no budget: {why}. {n} blocks run under torch.utils.checkpoint instead, if that takes less")
        self.last = self.without.report(self.last, why)

    def _without(self, call: Callable[[], Any]) -> Any:
        """Runs a forward pass that no plan holds for."""
        if self.early is not None and not self.early.ready:
            return call()
        if self.without.last is not None:
            self.last = self.without.last
        return self.without.run(call)

    # What is watched.

    def _measured(self, ref: weakref.ref[Running], found: measuring.Measuring, problem: str) -> None:
        """A backward pass of a measured step is over: notes the memory of the step, not counting earlier gradients."""
        step = ref()
        if step is None or step.made is None or step.left or problem:
            found.close()
            return
        if step.open or step.kept:
            await_backward(found, functools.partial(self._measured, ref, found))
            return
        peak = found.peak()
        if peak is None:
            self.told.say("unmeasured", "memopt: a profiler was started within a step, so what it takes is not measured")
            return
        step.made.report.measured(step.before + peak, "a step of training")
        if self.most is None or (self.most.measured_peak or 0) < (step.made.report.measured_peak or 0):
            self.most = step.made.report
        if step.made.at is not None:
            self.share.lengths.was_measured(step.made.at, step.made.report.promised_peak)
        self.told.say("measured", f"memopt: measured {show_bytes(step.before + peak)} in a step of training, {show_bytes(step.made.report.promised_peak)} promised; {step.replayed}")

    def _gave_other_bits(self, op: Op) -> None:
        self.told.warn(f"{op.op} of {op.module or 'the model'} gave other bits when it ran again, so the gradients of this step may differ from those of eager mode", RuntimeWarning)

    def _audited(self, at: int, what: str) -> None:
        """Handles a recomputed value with other bits than the original."""
        self.told.warn(
            f"{what} gave other bits when it ran again, so the gradients of this step may differ from those of eager mode; its results are kept from now on", RuntimeWarning
        )
        with self.lock:
            self.share.lengths.keep(lambda op: at in op.calls and not op.backward)
            for made in self.programs:
                for op in made.recording.ops if made.at is None else ():
                    if at in op.calls and not op.backward:
                        made.recording.keep(op)
            self._plan_again()


def _began(ref: weakref.ref[Running], loop: weakref.ref[Loop], first: bool, keeps: bool) -> None:
    """A backward pass comes to a forward pass of a step."""
    ours = loop()
    if ours is not None and ours.reach is not None:
        ours.reach.came()
    step = ref()
    if step is None:
        return
    step.task = torch._C._current_graph_task_id()
    step.ran += first
    step.kept = step.kept or keeps
    run = step.run() if step.run is not None else None
    if keeps and run is not None:
        run.keep()
    if step.overtaken and first and ours is not None and not step.left:
        step.left = True
        ours.programs.left(step.key, "other forward passes are alive together in each of its steps")


def _passed(loop: weakref.ref[Loop], first: bool, keeps: bool) -> None:
    """A backward pass comes to a forward pass that no plan holds for."""
    ours = loop()
    if ours is not None and ours.reach is not None:
        ours.reach.came()
