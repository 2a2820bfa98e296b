"""memopt.optimize(mode="compile"): a module whose forward pass is compiled, with all graphs of its step under one plan."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import fx
from torch._guards import TracingContext, tracing

from ..._visible import lines
from ...errors import BudgetError
from ...report import show_bytes
from ..elsewhere.engine import engine_of
from ..elsewhere.smaller import Lossy
from ..plan.budget import fixed_bytes, growth
from ..plan.refused import refused
from ..plan.report import Rounding, StepReport, say
from ..record.measure import Measured, ProfilerBusy, device_of, events_of, highest, profiled, step_peak
from ..record.operators import draws
from ..record.record import Recording
from ..step.sample import NoLoss, scalar, scalars, state_kept
from ..step.standin import StandIn
from ..step.tensors import tensors
from . import partition
from .around import SPAN, Ran, address, describe, pair
from .backend import Planned, build, compiler_for, joint_of, planned
from .graph import Joint, Writer
from .moved import Far
from .outside import Outside

MOST_PLANS = 16  # one for each shape of the inputs
MOST_TRIES = 4  # with Inductor, whose order is not the plan's
_HOPELESS = 0.6  # of the peak with everything kept: Inductor by itself does not come down to it
_MOST_GRAPHS = 64  # of one piece of code
_STEP = "memopt compiled step"
_CUDA_GRAPHS = "triton.cudagraphs"
_EAGER_ONLY = ("loss_chunks", "optimizer_in_backward")  # not offered: compiled graphs keep the operators of the module


@dataclass
class CompileReport(StepReport):
    """The report of a compiled step: promised and measured memory."""

    form: str = ""  # "inductor", or "aot_eager": compiled graphs run operator by operator
    graphs: int = 1  # more than one where dynamo could not compile all
    # Of the loss and the gradients, as a share of the largest, from those of eager mode or, where Inductor draws other random numbers,
    # from those without a plan; 0: all bits are the same.
    difference: float = 0.0

    def __str__(self) -> str:
        pieces = f"{self.graphs} graphs" if self.graphs > 1 else "one graph"
        return f"{super().__str__()}; compiled by {self.form} as {pieces}"


class _Graph:
    """A graph made by dynamo and its current compilation. It is compiled again for each plan that is tried.

    If a graph is called several times in a step, as for blocks of one class, each call has its own plan.
    """

    def __init__(self, step: _Step, number: int, gm: fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.step, self.number, self.gm = step, number, gm
        self.context = TracingContext.get()
        assert self.context.fake_mode is not None
        # Real inputs would stay in memory.
        self.inputs = [self.context.fake_mode.from_tensor(x) if isinstance(x, torch.Tensor) and not isinstance(x, torch.nn.Parameter) else x for x in inputs]
        self.joint: Joint | None = None  # None: no backward pass
        self.steps: partition.Steps | None = None
        self.calls = 0  # in the step that runs
        self.versions = [self._build(inputs, watch=True)]

    def __call__(self, *args: Any) -> Any:
        at = min(self.calls, len(self.versions) - 1)
        self.calls += 1
        return self.versions[at](*args)

    def compile(self, plans: Sequence[partition.Steps | None]) -> None:
        """Compiles the graph again, for each of its calls as the steps say, or with everything kept."""
        made: dict[Any, Callable[..., Any]] = {}
        self.versions = []
        for steps in plans:
            key = None if steps is None else tuple((s.op.node.name, *s[1:]) for s in steps)
            if key not in made:
                self.steps = steps
                with tracing(self.context):
                    made[key] = self._build(self.inputs, watch=False)
            self.versions.append(made[key])

    def _build(self, inputs: Sequence[Any], watch: bool) -> Callable[..., Any]:
        return build(self.gm, inputs, self._split, self.step.inductor, self._watched if watch else None)

    def _split(
        self, gm: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, static_lifetime_input_indices: Sequence[int] | None = None, **_: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        joint = joint_of(gm, num_fwd_outputs, static_lifetime_input_indices, self.step.inductor is not None)
        steps = partition.in_order(joint)
        if self.joint is not None and self.steps is not None:  # the same graph, traced once more: other objects, equal names
            if joint.key != self.joint.key:
                raise RuntimeError("memopt: PyTorch traces another graph when the module is compiled a second time, so no plan holds for it")
            same = {op.node.name: op for op in joint.ops}
            steps = [s._replace(op=same[s.op.node.name]) for s in self.steps]
        elif self.joint is None:
            self.joint = joint
        return partition.split(joint, steps, num_fwd_outputs, self.step.far)

    def _watched(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Runs one half of the graph operator by operator, and notes the addresses of its inputs and results."""
        from torch._dynamo.backends.debugging import boxed_nop

        run = boxed_nop(gm, inputs)
        placeholders = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
        backward = any("tangents" in name for name in placeholders)

        def call(args: list[Any]) -> Any:
            if self.joint is None:  # no gradients
                return run(args)
            joint, ran = self.joint, Ran(self.number, backward)
            known = {n.name: n for n in (joint.tangents if backward else joint.primals)}
            ran.inputs = {known[name]: where for name, x in zip(placeholders, args, strict=False) if name in known and (where := address(x))}
            at = len(self.step.ran)
            self.step.ran.append(ran)
            args_were = [address(x) for x in args] if backward else []
            with torch.profiler.record_function(f"{SPAN}{at}"):
                out = run(args)
            if backward:
                ran.handed = {where for x in args_were if (where := x)}
            else:
                ran.handed = {where for x in out if (where := address(x))} | set(ran.inputs.values())
            nodes = joint.gradients if backward else joint.results
            for n, x in zip(nodes, out, strict=False):
                if isinstance(n, fx.Node) and n in joint.owner and (where := address(x)):
                    ran.results[joint.owner[n]] = where
            return out

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


class _Step:
    """A module's step for inputs of one shape: its graphs, and the plan that they are compiled for."""

    def __init__(self, forward: Callable[..., Any], inductor: Mapping[str, Any] | None, far: int | Lossy) -> None:
        self.inductor, self.far = inductor, far
        self.graphs: list[_Graph] = []
        self.ran: list[Ran] = []
        self.open = True  # the first run makes graphs
        self.late = False  # dynamo has made graphs since

        def call(*args: Any, **kwargs: Any) -> Any:
            return forward(*args, **kwargs)

        # Dynamo counts what it compiles of one code object, and gives up after a few.
        call.__code__ = call.__code__.replace(co_name="memopt_step")
        apart = {"isolate_recompiles": True, "recompile_limit": _MOST_GRAPHS} if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}
        self.call = torch.compile(call, backend=self._backend, dynamic=False, **apart)

    def _backend(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if not self.open:
            self.late = True
        graph = _Graph(self, len(self.graphs), gm, inputs)
        if self.open:
            self.graphs.append(graph)
        else:
            graph.compile([None])
        return torch._dynamo.disable(graph.__call__)  # type: ignore[no-any-return]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        for g in self.graphs:
            g.calls = 0
        return self.call(*args, **kwargs)

    @property
    def planned(self) -> list[_Graph]:
        return [g for g in self.graphs if g.joint is not None]


@dataclass
class _Made:
    step: _Step
    report: CompileReport


class CompiledForward(StandIn):
    """Replaces a module's forward: runs it compiled, under the plan for the shapes of its inputs."""

    def __init__(self, model: torch.nn.Module, request: Any, form: str) -> None:
        super().__init__(model)
        self.request, self.form = request, form
        self.replaced_call = model.__dict__.get("_compiled_call_impl")
        self.made: OrderedDict[Any, _Made] = OrderedDict()
        self.lock = threading.RLock()
        self.told: set[str] = set()
        self.losses: dict[Any, Outside] = {}  # by shapes of the inputs, where the loss is outside of the module
        self.far = Far(engine_of(device_of(model), request.offload, "offload")) if request.offload is not None else None
        functools.update_wrapper(self, type(model).forward)
        self.__signature__ = inspect.signature(self.original)

    @property
    def original(self) -> Callable[..., Any]:
        inner = self.model.__dict__.get("_modules", {}).get("_orig_mod")
        if inner is not None and isinstance(self.model, torch._dynamo.OptimizedModule):
            return inner.__call__  # type: ignore[no-any-return]
        return super().original

    def install(self) -> None:
        super().install()
        if self.replaced_call is not None:  # of model.compile(), which would go first
            self.model._compiled_call_impl = None

    def remove(self) -> None:
        super().remove()
        if self.replaced_call is not None:
            self.model._compiled_call_impl = self.replaced_call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.off or not self.model.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self.original(*args, **kwargs)
        key = shape_key(self.model, args, kwargs)
        try:
            step = self.prepare(args, kwargs).step
        except NoLoss:  # it is outside of the module: this step runs as it is, and tells of it
            out = self.original(*args, **kwargs)
            Outside(out, functools.partial(self.losses.__setitem__, key))
            return out
        except ProfilerBusy:
            self._tell("a profiler is running, so this step is not planned and runs as it is")
            return self.original(*args, **kwargs)
        out = step.run(*args, **kwargs)
        if step.late:
            text = "dynamo compiled a graph once more, for which there is no plan: everything is kept in it"
            if self.request.strict:
                raise RuntimeError("memopt: " + text)
            self._tell(text)
        return out

    def prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Made:
        """The compiled step for inputs of these shapes, from the cache or made now."""
        key = shape_key(self.model, args, kwargs)
        with self.lock:
            made = self.made.get(key)
            if made is None:
                self.loss = self.request.loss or self.losses.pop(key, None)
                made = self.made[key] = self._make(args, kwargs)
                if len(self.made) > MOST_PLANS:
                    self.made.popitem(last=False)
                if self.request.verbose and "promised" not in self.told:
                    self.told.add("promised")
                    say(str(made.report))
            else:
                self.made.move_to_end(key)
            self.last = made.report
            return made

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Made:
        original = functools.partial(self.original, *args, **kwargs)
        r = self.request
        eager, fixed = step_peak(self.model, original, self.loss, hold=True), fixed_bytes(self.model, r.optimizer)
        limit = growth(self.model, fixed, eager.peak, budget=r.budget, activation_budget=r.activation_budget, reserve=r.reserve)
        counted = fixed.bytes if r.budget is not None else 0
        limit = max(1, limit) if limit is not None else None
        if self.form == "compile" and compiler_for([*self.model.parameters(), *tensors((args, kwargs))]) is None:
            try:
                return self._compiled(args, kwargs, self._asked(), eager, limit, fixed.bytes)
            except BudgetError as e:
                lowest = e.best - counted
            self._tell(
                f"Inductor runs the graphs in an order in which the lowest step found takes {show_bytes(lowest)}, not {show_bytes(limit or 0)}; "
                "so they run operator by operator, as in mode='aot_eager'"
            )
        try:
            return self._compiled(args, kwargs, None, eager, limit, fixed.bytes)
        except BudgetError as e:
            if not self.made or e.best <= 0:
                raise
            # Training has begun, and a shape comes that does not fit: the lowest plan there is, and a word about it.
            self._tell(f"inputs of other shapes do not fit {show_bytes(limit or 0)}: their lowest plan takes {show_bytes(e.best - counted)}")
            return self._compiled(args, kwargs, None, eager, e.best - counted, fixed.bytes)

    def _asked(self) -> dict[str, Any]:
        """Inductor's CUDA graphs, if the module was compiled with them, as by torch.compile(model, mode="reduce-overhead")."""
        compiled = self.model.__dict__.get("_modules", {}).get("_orig_mod") is not None
        config = getattr(self.model if compiled else self.replaced_call, "get_compiler_config", lambda: None)() or {}
        return {_CUDA_GRAPHS: True} if config.get(_CUDA_GRAPHS) else {}

    def _compiled(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], inductor: Mapping[str, Any] | None, eager: Measured, limit: int | None, fixed: int
    ) -> _Made:
        step = _Step(self.original, inductor, self.far.key if self.far is not None else self.request.lossy or 0)
        maker = _Maker(self, step, functools.partial(step.run, *args, **kwargs), replace(eager), limit, fixed)
        try:
            return _Made(step, maker.run(functools.partial(self.original, *args, **kwargs)))
        finally:
            step.open = False

    def _tell(self, text: str) -> None:
        if text not in self.told:
            self.told.add(text)
            warnings.warn("memopt: " + lines(text), stacklevel=3)

    # Copies compile anew; files do not hold plans.

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledForward:
        new = CompiledForward.__new__(CompiledForward)
        memo[id(self)] = new
        new.__dict__.update(self.__dict__)
        new.model = copy.deepcopy(self.model, memo)
        new.lock, new.made, new.last = threading.RLock(), OrderedDict(), None
        new.losses = {}
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.model, self.request, self.form)


def _unpickled(*args: Any) -> CompiledForward:
    return CompiledForward(*args)


class _Maker:
    """Finds the plan under which a compiled step stays within its limit."""

    def __init__(self, forward: CompiledForward, step: _Step, call: Callable[[], Any], eager: Measured, limit: int | None, fixed: int) -> None:
        self.forward, self.step, self.call, self.eager, self.limit, self.fixed = forward, step, call, eager, limit, fixed
        self.model, self.loss = forward.model, forward.loss

    def run(self, original: Callable[[], Any]) -> CompileReport:
        self._once()  # dynamo makes the graphs
        self.step.open = False
        graphs = self.step.planned
        if not graphs:
            raise RuntimeError("memopt: dynamo compiled no graph with a backward pass of this module; mode='eager' plans it as it is")
        if any(g.joint is not None and g.joint.symbolic for g in graphs):
            self.forward._tell("sizes in the graph depend on data: the plan is made for those of the sample")
        writer, document, peak = self._described()
        form = "aot_eager" if self.step.inductor is None else "inductor"
        recording = Recording(document, self.eager.peak, [], [], [])
        counted = self.fixed if self.forward.request.budget is not None else 0

        def report(found: Planned | None) -> CompileReport:
            rest = self.fixed, counted, _EAGER_ONLY
            if found is not None and found.smaller is not None:
                made = cast(CompileReport, CompileReport.of_smaller(recording, self.forward.request.lossy, found.smaller, *rest))
            else:
                made = cast(CompileReport, CompileReport.of(recording, found.report if found is not None else None, *rest))
            made.form, made.graphs, made.difference = form, len(graphs), self._difference(made.lossy)
            made.measured(self.measured.peak, "the sample")
            if found is None or self.step.inductor is not None:  # which runs things in an order that only the compiled step knows
                made.promised_peak = made.measured_peak or 0
            return made

        overhead = self.forward.request.max_overhead
        fits = overhead is None and (self.limit is None or peak <= self.limit)
        draws = any(_draws_numbers(n) for g in graphs if g.joint is not None for n in g.joint.nodes)
        if fits or self.step.inductor is not None and (draws or self.limit is None or self.limit > _HOPELESS * peak):
            self._compile(None)
            self._measure()
            if draws and self.step.inductor is not None:  # it draws other numbers than eager mode, but the same under each plan
                original, self.eager.digests = self.call, self.measured.digests
            self.reference = self._made(original)
            if overhead is None and (self.limit is None or self.measured.peak <= self.limit):
                return report(None)
        else:
            self.reference = self._made(original)
        try:
            return report(self._search(writer, document))
        except BudgetError as e:
            raise refused(e, recording, self.limit or 0, counted, _EAGER_ONLY, lambda: None) from None

    def _once(self) -> None:
        with state_kept(self.model):
            self._run()

    def _run(self) -> None:
        """Runs a step in which the model's results live until its end, as in a variable of a training loop."""
        out = self.call()
        scalar(out, self.loss).backward()
        del out

    def _measure(self) -> int:
        self.measured = step_peak(self.model, self.call, self.loss, hold=True)
        return self.measured.peak

    def _compile(self, plans: Sequence[partition.Steps] | None) -> None:
        for g in self.step.planned:
            g.compile([None] if plans is None else [steps for steps, at in zip(plans, self.calls, strict=True) if at is g])
        self._once()  # what is compiled when it first runs

    def _described(self) -> tuple[Writer, dict[str, Any], int]:
        """The step as it runs with everything kept, for the planner; and its peak."""
        self.step.ran.clear()
        with state_kept(self.model):
            with profiled() as profile, torch.profiler.record_function(_STEP):
                self._run()
        events, spans = events_of(profile)
        whole = spans[_STEP][0]
        ran, self.step.ran = self.step.ran, []
        graphs = {g.number: g for g in self.step.planned}
        self.calls = [graphs[r.graph] for r in ran if not r.backward]  # each call is a graph of its own to the planner
        pair(ran)
        w, document = describe([g.joint for g in self.calls if g.joint is not None], ran, events, spans, whole, type(self.model).__name__)
        return w, document, highest(events, whole)

    def _search(self, w: Writer, document: dict[str, Any]) -> Planned:
        """Plans for the limit; if more is measured, for less."""
        limit, request = self.limit, self.forward.request
        away: dict[str, Any] = {}
        if request.lossy is not None:
            away = {"lossy": request.lossy}
            if any(j.symbolic for j in w.joints):
                self.forward._tell("lossy rounds values whose sizes are known, and some of this step's depend on data: those stay as they are")
        if request.offload is not None and any(j.symbolic for j in w.joints):
            self.forward._tell("offload moves values whose sizes are known, and some of this step's depend on data: nothing moves")
        elif request.offload is not None:
            away = {"offload": request.offload, "host_budget": request.host_budget}
        for _ in range(MOST_TRIES):
            last = False
            try:
                found = planned(w, document, activation_budget=limit, max_overhead=self.forward.request.max_overhead, **away)
            except BudgetError as e:  # Inductor may hold less than its graph says
                if e.best <= 0 or self.step.inductor is None and limit == self.limit:
                    raise
                last = True
                found = planned(w, document, activation_budget=e.best, **away)
            if self.forward.far is not None:  # a disk that is full is found here, and not in a step
                self.forward.far.engine.prepare(max((m["far"] + m["bytes"] for m in found.report.to_dict().get("moves") or []), default=0))
            self._compile(found.steps)
            over = self._measure() - (self.limit or self.measured.peak)
            if over <= 0:
                return found
            if last or limit is None:
                break
            limit = found.report.result.peak - over
        raise BudgetError(
            f"budget cannot be met: {show_bytes(self.limit or 0)} are left for the step, the lowest compiled step found takes {show_bytes(self.measured.peak)} "
            f"({show_bytes(self.eager.peak)} in eager mode)",
            want=self.limit or 0, best=self.measured.peak, fixed=self.fixed,
        )  # fmt: skip

    def _difference(self, rounding: Rounding | None) -> float:
        """The difference from the step without a plan, relative to the largest gradient. Where values were rounded on request, it is told and not judged."""
        if all(self.measured.digests.get(name) == d for name, d in self.eager.digests.items()):
            return 0.0
        made = self._made(self.call)
        whole = max((t.abs().max().item() for t in self.reference.values() if t.numel()), default=0.0)
        worst, where = 0.0, ""
        for name, x in self.reference.items():
            if name not in made:
                raise RuntimeError(f"memopt: the compiled step makes no {name}; please report this with the model")
            off = (x.double().cpu() - made[name].double().cpu()).abs().max().item() / max(whole, 1e-30) if x.numel() else 0.0
            if not off <= worst:
                worst, where = off, name
        values = [n.meta.get("val") for g in self.step.planned if g.joint is not None for n in g.joint.nodes]  # in autocast, of fewer bits than gradients
        if rounding is not None and rounding.values:
            exact, rounded = ({n.removeprefix("the gradient of "): t.double() for n, t in of.items() if n != "the loss"} for of in (self.reference, made))
            rounding.compare((float(self.reference["the loss"]), float(made["the loss"])), exact, rounded)
            return worst
        widest = max(torch.finfo(t.dtype).eps for t in values if isinstance(t, torch.Tensor) and t.is_floating_point())
        if not worst <= widest**0.5:
            raise RuntimeError(
                f"memopt: compiled, {where} differs from what it is without a plan by {worst:.1e} of the largest gradient; the plan is not used, please report this with the model"
            )
        return worst

    def _made(self, call: Callable[[], Any]) -> dict[str, torch.Tensor]:
        with state_kept(self.model):
            loss = scalar(call(), self.loss)
            loss.backward()
            made = {"the loss": loss.detach().clone()}
            made |= {f"the gradient of {n}": p.grad.detach().cpu().clone() for n, p in self.model.named_parameters() if p.grad is not None and not p.grad.is_sparse}
            return made


def optimize_compiled(model: torch.nn.Module, request: Any, form: str, sample: tuple[tuple[Any, ...], dict[str, Any]] | None) -> CompileReport | None:
    """Compiles a module's forward pass in place, under a plan."""
    forward = CompiledForward(model, request, form)
    made = forward.prepare(*sample) if sample is not None else None
    forward.install()
    return made.report if made is not None else None


def _draws_numbers(n: fx.Node) -> bool:
    return isinstance(n.target, torch._ops.OpOverload) and ("inductor_seed" in str(n.target) or draws(n.target, n.args, n.kwargs))


def shape_key(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Everything that a compiled step depends on, apart from the module's code."""
    shapes = tuple((t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in tensors((args, kwargs)))
    autocast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
    state = tuple(p.requires_grad for p in model.parameters())
    return shapes, scalars((args, kwargs)), autocast, hash(state), hash(tuple(m.training for m in model.modules())), torch.get_num_threads()
