"""memopt.optimize: a module whose training steps stay within a budget."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import torch

from .._arguments import Size
from .ask.smaller import smaller_batch
from .elsewhere.engine import Engine, States, Where, engine_of
from .elsewhere.smaller import Lossy, SmallerEngine, check_kind
from .loop.graphs import Graphs
from .loop.loop import Loop
from .loop.rehearsal import Rehearsal
from .loop.request import Request
from .lower.early import EarlyStep
from .lower.states import StatesElsewhere
from .plan.report import StepReport
from .ranks.meeting import refuse_flattened
from .ranks.units import release, units_of
from .record.measure import device_of
from .step.given import check_methods, check_module, check_request, check_trained, parse
from .step.sample import Loss, arguments, gradients_kept
from .step.standin import StandIn, form_of, standing
from .step.wrapped import inner_module

Models: TypeAlias = "torch.nn.Module | Sequence[torch.nn.Module]"


def optimize(
    model: Models,
    budget: Size | None = None,
    *,
    activation_budget: Size | None = None,
    max_overhead: str | float | None = None,
    sample: Any = None,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    reserve: Size = "5%",
    loss_chunks: int | Literal["auto"] | None = None,
    sequence_tiles: int | Literal["auto"] | Sequence[int] | None = None,
    strict: bool = False,
    optimizer_in_backward: bool = False,
    offload: Where | None = None,
    host_budget: Size | None = None,
    states: States | None = None,
    lossy: Lossy | None = None,
    verbose: bool = True,
    mode: Literal["auto", "eager", "graph", "compile", "aot_eager"] = "auto",
    methods: Sequence[str] | None = None,
) -> StepReport | None:
    """Changes a module in place so that its training steps fit a budget, at the least extra time, with bit-identical results.

    model              a module, or several that are trained together, such as a generator and a discriminator: the budget is for all
    budget             the most memory of a step: parameters, gradients, optimizer states, activations. Bytes, "6GiB", "60%"
                       of the memory in eager mode, or "auto", the default: the device's free memory, less the reserve
    activation_budget  the most growth of memory during one forward and backward pass
    max_overhead       extra time allowed, instead of a budget: the plan is the one with the lowest peak
    sample             inputs of a step: a tensor, a tuple of arguments, or a dict of keyword arguments. The step is run
                       once to record it and once to check it. Without a sample the first step of training is recorded as it
                       runs, with everything kept, and the plan applies from the second step on
    loss               a function of the model's output that returns one number, for a sample of a model that does not
                       return its loss
    optimizer          an optimizer, or several, whose states count in the budget, even before they are created
    reserve            memory that "auto" leaves free
    loss_chunks        the number of chunks of rows, or "auto", for the cross entropy of a torch.nn.Linear's scores, which are then never in
                       memory as a whole. The loss and gradients equal those of eager mode except for rounding. By default, "auto" where the
                       budget cannot be met otherwise, which the report says; 1 leaves the loss whole
    sequence_tiles     the number of tiles of rows in which feed-forward layers are computed, and attention that the model writes out: a norm,
                       linear layers, activations and the linear layer that reads them, or scores, a softmax and their product with values.
                       Their wide results are then never in memory as a whole, and are computed again for the backward
                       pass; or a list with the number of each of these layers, 1 for one that stays whole. "auto": by a sample, those with
                       which the step fits the budget in the least time, none where it fits as it is; without a sample 16. Results and
                       gradients equal those of eager mode except for rounding
    optimizer_in_backward
                       the optimizer applies each parameter's gradient as soon as it is computed, and frees it: gradients of the whole model
                       never exist at once. optimizer.step() is called as before. Clipping, accumulation and GradScaler raise
    offload            where values of the forward pass may be until the backward pass needs them: "disk", for a module on the processor, or "host",
                       for a CUDA device. The plan moves what costs less time so than to compute it again, and nothing else; the same bits
    host_budget        the most bytes there, of offload and states together. Where it has no room for all states, those of as many parameters leave as
                       fit, the largest first
    states             where the optimizer's states are between its steps: "disk", a file without a name in the folder MEMOPT_SPILL_FOLDER, or "host", for a
                       CUDA device. They come in as the update of their parameter comes, and go out behind it, and do not count in the budget.
                       The numbers are those of torch.optim: AdamW, Adam, SGD, Adagrad. "8bit" keeps them where they are, rounded to a code and a
                       scale for each 256, which changes the numbers. "auto" moves as many as the budget needs, the largest first, where that takes less time than
                       to run operators again
    lossy              "bf16", "fp16" or "fp8": values that autograd saves may be kept in that type until the backward pass needs them, where that costs less than
                       to compute them again. Gradients are then not exact, which the report says with the error of the sample's step; results of
                       the forward pass keep every bit
    strict             a step that runs other operators than the recorded one raises; otherwise it keeps everything from there on, and
                       the next step is recorded again
    verbose            reports the promised peak, and after the first planned step the measured one, on the first rank:
                       through the logger "memopt", or on standard error if logging is not configured
    mode               "eager" plans the module as it is; "graph" captures its planned steps on a CUDA device and launches them from then on
                       without Python; "compile" compiles its forward pass and plans the graphs, with Inductor if it
                       has a compiler, else run operator by operator, as with "aot_eager". "auto" compiles a module for which torch.compile
                       was called, else it is "eager". A compiled module takes its first inputs as the sample

    methods            methods whose calls are forward passes, beside forward, such as ("encode", "decode"). By default every method
                       through which gradients are made in the first step

    Returns a report, or None without a sample: then report(model) returns it after the first step. Only forward passes with
    gradients in training mode are planned. restore(model) undoes everything.

    Raises BudgetError, with the floor and what sets it, if nothing fits; the module is then unchanged.
    """
    if budget is None and activation_budget is None and max_overhead is None:
        budget = "auto"
    models = _modules("optimize", model, planned=False)
    check_request(budget=budget, activation_budget=activation_budget, max_overhead=max_overhead, loss=loss, optimizer=optimizer, reserve=reserve, loss_chunks=loss_chunks, sequence_tiles=sequence_tiles, host_budget=host_budget)
    check_trained(models, optimizer, sample is not None)
    form = next((form for m in models if (form := form_of(m, mode)) != "eager"), "eager")
    for m in models:
        refuse_flattened(m)
        restore(m)
    if len(models) > 1 and (form != "eager" or sample is not None or optimizer_in_backward or loss_chunks is not None or sequence_tiles is not None):
        raise TypeError("several modules are planned together in mode='eager' from their first step: without sample, optimizer_in_backward, loss_chunks and sequence_tiles")
    if methods is not None:
        check_methods(models, methods)
    model = models[0]
    request = Request(budget, activation_budget, max_overhead, loss, optimizer, reserve, loss_chunks, strict, verbose, optimizer_in_backward, states, offload, host_budget, sequence_tiles, lossy)
    if host_budget is not None and offload is None and states not in ("host", "disk", "auto"):
        raise TypeError("host_budget limits what offload and states move: give offload='disk' or 'host', or states, too")
    if lossy is not None:
        _check_lossy(lossy, offload, mode)
    if form != "eager":
        from .compile.compiled import optimize_compiled

        if loss_chunks not in (None, 1) or sequence_tiles not in (None, 1) or optimizer_in_backward or states is not None:
            raise TypeError(f"{[*request.taken, *(('sequence_tiles',) if sequence_tiles not in (None, 1) else ()), 'states'][0]} is for mode='eager': compiled graphs keep the module's operators")
        if units_of(model):
            raise TypeError("the step of a module that fully_shard was called for is planned in mode='eager' only")
        with gradients_kept(arguments(sample) if sample is not None else ()):
            return optimize_compiled(model, request, form, arguments(sample) if sample is not None else None)
    if mode == "graph" and (len(models) > 1 or units_of(model) or optimizer_in_backward):
        raise TypeError("mode='graph' captures the steps of one module whose parameters are whole, and updates outside of them: without optimizer_in_backward")
    if offload is not None and (mode == "graph" or units_of(model)):
        raise TypeError("offload is for steps that are not captured, and parameters that are whole: a captured step has its copies no time to wait, and units of fully_shard move by themselves")
    if states == "auto" and (optimizer_in_backward or mode == "graph" or budget is None):
        raise TypeError("states='auto' has as many states leave as the budget needs: give budget=, in mode='eager' and without optimizer_in_backward, or states='disk' or 'host' for all")
    most = parse("host_budget", host_budget, 0) if host_budget is not None else None
    away: Engine | None = engine_of(device_of(model), offload, "offload") if offload is not None else None
    if lossy is not None:
        away = SmallerEngine(device_of(model), lossy)
    loop = _planned(models, request)
    loop.share.engine = away
    if mode == "graph":
        loop.graphs = Graphs(model, loop.told, budget is not None or activation_budget is not None)
    loop.early = EarlyStep(model, optimizer) if optimizer_in_backward else None
    loop.states = StatesElsewhere(optimizer, states, alone=optimizer_in_backward, most=most if states != "8bit" else None) if states is not None else None
    if states == "auto":
        loop.share.states = loop.states
    loop.share.elsewhere = loop.states
    if loop.early is not None:
        loop.early.states = loop.states
    _plan_methods(loop, methods)
    if sample is None:
        loop.install()
        return None
    args, kwargs = arguments(sample)
    _busy.on = True
    try:
        with loop.early.primed() if loop.early is not None else contextlib.nullcontext(), gradients_kept((args, kwargs)):
            found = Rehearsal(loop, loop.standing[0].original, args, kwargs).prepare()
    except BaseException:
        loop.off()
        raise
    finally:
        _busy.on = False
    loop.install()
    return found


def _check_lossy(lossy: Any, offload: Any, mode: str) -> None:
    """Raises where values cannot be kept smaller."""
    check_kind(lossy)
    if offload is not None:
        raise TypeError("lossy keeps values smaller and offload moves them: give one of both")
    if mode == "graph":
        raise TypeError("lossy is for steps whose operators run between rounding: give no mode, or mode='compile'")


def restore(model: Models) -> None:
    """Restores a module's own forward pass, and those of modules that were planned together with it."""
    for m in _modules("restore", model):
        ours = standing(m)
        if ours is not None:
            ours.remove()


@contextlib.contextmanager
def optimized(model: Models, budget: Size | None = None, **settings: Any) -> Iterator[StepReport | None]:
    """optimize for the block of a with statement; the module is restored when it ends."""
    found = optimize(model, budget, **settings)
    try:
        yield found
    finally:
        restore(model)


def report(model: Models) -> StepReport | None:
    """The report of the latest plan, or None."""
    ours = standing(_modules("report", model)[0])
    return ours.last if ours is not None else None


def _modules(function: str, given: Models, planned: bool = True) -> list[torch.nn.Module]:
    """A module, or those of a list or tuple, without the wrappers of trainers."""
    several: list[Any] = list(given) if isinstance(given, (list, tuple)) and given else [given]
    for m in several:
        check_module(function, m, planned=planned)
    return [inner_module(m) for m in several]


_busy = threading.local()
_numbered: weakref.WeakValueDictionary[int, PlannedForward] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _number(ours: PlannedForward) -> int:
    number = next(_numbers)
    _numbered[number] = ours
    return number


def _traced(number: int) -> None:
    """Dynamo takes up a forward pass: it runs this once, when it does, as a constant."""
    ours = _numbered.get(number)
    if ours is not None and not ours.off and ours.loop.reach is not None and ours.model.training and torch.is_grad_enabled():
        ours.loop.reach.was_compiled()


_traced._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch._dynamo.assume_constant_result, without loading dynamo


class PlannedForward(StandIn):
    """Replaces a module's forward, or another method: its passes go through the loop, with those of the modules that are planned with it."""

    def __init__(self, loop: Loop, model: torch.nn.Module, name: str = "", method: str = "forward") -> None:
        super().__init__(model, method)
        self.loop, self.place = loop, (name, method)
        self.number = _number(self)
        functools.update_wrapper(self, getattr(type(model), method))
        self.__signature__ = inspect.signature(self.original)

    @property
    def original(self) -> Callable[..., Any]:
        own = super().original
        return self.loop.around(self.model, own) if self.method == "forward" else own

    @property
    def last(self) -> Any:
        last, most = self.loop.last, self.loop.most
        if last is not None:
            last.largest = most if most is not None and most.promised_peak > last.promised_peak else None
        return last

    def remove(self) -> None:
        self.loop.end()
        for ours in self.loop.standing:
            StandIn.remove(ours)
            if not ours.off and ours.method == "forward":
                release(ours.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            _traced(self.number)
            return self.original(*args, **kwargs)
        if self.off or getattr(_busy, "on", False):
            return self.original(*args, **kwargs)
        _busy.on = True
        try:
            if not self.model.training or not torch.is_grad_enabled():
                return self.original(*args, **kwargs)
            if torch._C._functorch.peek_interpreter_stack() is not None:
                self.loop.told.say("functorch", f"memopt: a forward pass of {type(self.model).__name__} ran within torch.func, and was not planned")
                return self.original(*args, **kwargs)
            return self.loop.run(self.place, self.original, args, kwargs)
        finally:
            _busy.on = False

    # Copies have a forward of their own; files do not hold plans.

    def __deepcopy__(self, memo: dict[int, Any]) -> PlannedForward:
        new = PlannedForward.__new__(PlannedForward)
        memo[id(self)] = new
        new.__dict__.update(self.__dict__)
        new.number = _number(new)
        new.model = copy.deepcopy(self.model, memo)
        new.replaced = copy.deepcopy(self.replaced, memo)
        key = id(self.loop), id(self.model)
        if key not in memo:  # type: ignore[comparison-overlap]
            memo[key] = self.loop.copy(new.model)  # type: ignore[index]  # the optimizer has no parameter of copies
        new.loop = memo[key]  # type: ignore[index]
        new.loop.standing.append(new)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.model, self.loop.request, self.method)


def _unpickled(model: torch.nn.Module, request: Request, method: str) -> PlannedForward:
    return PlannedForward(_planned([model], request), model, "", method)


def _planned(models: list[torch.nn.Module], request: Request) -> Loop:
    """The loop of modules that are planned together, with their stand-ins."""
    loop = Loop(models, request, smaller_batch)
    loop.standing = [PlannedForward(loop, model, name) for name, model in loop.named]
    return loop


def _plan_methods(loop: Loop, methods: Sequence[str] | None) -> None:
    """Plans methods that are named, or those through which gradients will be made in the first step."""

    def plan(model: torch.nn.Module, name: str, method: str) -> None:
        ours = PlannedForward(loop, model, name, method)
        loop.standing.append(ours)
        ours.install()

    for name, model in loop.named:
        if methods is None:
            loop.scout(name, model, functools.partial(plan, model, name), lambda: not getattr(_busy, "on", False))
        else:
            for method in methods:
                if method != "forward" and callable(getattr(type(model), method, None)):
                    plan(model, name, method)
