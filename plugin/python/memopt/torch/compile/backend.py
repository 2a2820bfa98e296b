"""torch.compile(model, backend="memopt"): graphs whose backward pass keeps within a budget.

    torch.compile(model, backend="memopt", options={"activation_budget": "60%"})

AOTAutograd passes the forward and the backward pass as one graph. It is planned like any step, and split as the plan
says. The halves are run operator by operator ("inductor": False, which needs no compiler), or compiled by Inductor.
"""

from __future__ import annotations

import copy
import functools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from ..._visible import lines
from ...errors import BudgetError
from ...report import Report, show_bytes
from ..elsewhere.smaller import Lossy, check_kind
from ..plan.budget import fixed_bytes, growth
from ..plan.plans import plan_of_graph
from ..plan.smaller import Smaller, smallest
from ..replay.moves import BACK, GONE, IN, OUT
from ..step.given import check_request
from . import partition, workspace
from .graph import Joint, Writer, alone, nbytes
from .moved import Event
from .smaller import candidates

Split = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]
OPTIONS = ("budget", "activation_budget", "max_overhead", "optimizer", "reserve", "lossy", "inductor")


def memopt(gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """The backend. Its options, besides those of Inductor:

    budget             the most memory of a step: parameters, gradients, optimizer states, activations. Bytes, "6GiB", "60%" of
                       the memory with everything kept, or "auto", the default: the device's free memory, less the reserve
    activation_budget  the most growth of memory during one forward and backward pass
    max_overhead       extra time allowed, instead of a budget
    optimizer          an optimizer whose states count in the budget
    reserve            memory that "auto" leaves free
    lossy              "bf16", "fp16" or "fp8": values may be kept in that type for the backward pass, so that gradients are not exact
    inductor           False runs the graphs operator by operator. By default Inductor is used if it has a compiler

    Each graph's memory is planned with its results alive and their gradients computed immediately. What runs outside of
    it is unknown here: memopt.optimize(model, mode="compile", sample=...) runs a step, and plans all of its memory.
    """
    given = dict(options or {})
    request = {name: given.pop(name) for name in OPTIONS if name in given}
    inductor = request.pop("inductor", None)
    if inductor is None:
        inductor = compiler_for(example_inputs) is None
    known = torch._inductor.config.get_config_copy() if given and inductor else {}
    for name in given:
        if name.replace("-", "_") not in known:
            raise TypeError(f"backend 'memopt' has no option {name!r}; there are {', '.join(OPTIONS)}, and with Inductor those of Inductor")
    check_request(**{name: value for name, value in request.items() if name != "lossy"})
    if request.get("lossy") is not None:
        check_kind(request["lossy"])
    if mode not in (None, "default"):
        given = {**torch._inductor.list_mode_options(mode), **given}
    session = _sessions.setdefault(id(options), _Session(options, request)) if options is not None else _Session(options, request)
    return build(gm, example_inputs, functools.partial(session.split, inputs=example_inputs, fused=inductor), given if inductor else None)


def compiler_for(inputs: Sequence[Any]) -> str | None:
    """The reason why Inductor cannot be used for these inputs, or None."""
    devices = {t.device.type for t in inputs if isinstance(t, torch.Tensor)}
    if devices - {"cpu", "meta"}:
        from torch.utils._triton import has_triton

        return None if has_triton() else "there is no Triton"
    from torch._inductor import cpp_builder, exc

    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return "there is no C++ compiler"
    return None


def build(
    gm: fx.GraphModule, inputs: Sequence[Any], split: Split, inductor: Mapping[str, Any] | None, wrap: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Compiles a graph that split divides in two: with Inductor and its options, or to run operator by operator.

    wrap is used instead of a compiler for graphs to run operator by operator.
    """
    if inductor is None:
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        return aot_autograd(  # type: ignore[no-any-return]
            fw_compiler=wrap or boxed_nop, bw_compiler=wrap or boxed_nop, inference_compiler=boxed_nop, partition_fn=split
        )(gm, inputs)
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioner(CustomPartitionerFn):  # type: ignore[misc]
        def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
            return split(gm, joint_inputs, **kwargs)

        def uuid(self) -> None:  # what is cached would leave the plan out
            return None

    inner = compile_fx_inner if wrap is None else lambda gm, inputs, **_: wrap(gm, inputs)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        return compile_fx(  # type: ignore[no-any-return]
            copy.deepcopy(gm), list(inputs), inner_compile=inner, config_patches={**inductor, "fx_graph_cache": False, "custom_partitioner_fn": Partitioner()}
        )


def joint_of(gm: fx.GraphModule, forward_outputs: int, static: Sequence[int] | None, fused: bool) -> Joint:
    """A joint graph with measured facts that its nodes lack. Under PyTorch's profiler, work space stays unknown."""
    joint = Joint(gm, forward_outputs, static or (), fused)
    if not fused and not torch.autograd._profiler_enabled():
        workspace.fill(joint.ops)
    return joint


class Planned(NamedTuple):
    """The plan of a step, its part for each graph, and what it keeps smaller, where values may be."""

    report: Report
    steps: list[partition.Steps]
    smaller: Smaller | None = None


def planned(w: Writer, document: dict[str, Any], lossy: Lossy | None = None, **limits: Any) -> Planned:
    """The plan of a step."""
    replay = "compiled" if any(j.fused for j in w.joints) else "native"
    if lossy is not None:
        found = smallest(document, candidates(w, document, lossy), replay, **limits)
        return Planned(found.found, _parts(w, found.steps, found.moves), found)
    report = plan_of_graph(document, replay=replay, **limits)
    plan = report.to_dict()
    return Planned(report, _parts(w, plan["steps"], plan.get("moves") or []))


def _parts(w: Writer, steps: Sequence[Mapping[str, Any]], moves: Sequence[Mapping[str, Any]]) -> list[partition.Steps]:
    """The steps of each graph. Of events that the plan has while something else runs, values leave after the graph's last step before, and come back before its next one."""
    parts: list[partition.Steps] = [[] for _ in w.joints]
    events = _events(w, moves)
    late: list[tuple[Event, ...]] = [()] * len(parts)
    for i, step in enumerate(steps):
        which = w.ops[step["node"]]
        for graph, part in enumerate(parts):
            now = late[graph] + events[graph].get(i, ())
            if which is not None and which[0] == graph:
                late[graph] = ()
                part.append(partition.Step(which[1], bool(step.get("again")), now))
            elif now:
                late[graph] = tuple(e for e in now if e.what not in (OUT, GONE))
                part[-1] = part[-1]._replace(behind=part[-1].behind + tuple(e for e in now if e.what in (OUT, GONE)))
    return parts


def _events(w: Writer, moves: Sequence[Mapping[str, Any]]) -> list[dict[int, tuple[Event, ...]]]:
    """What comes before each step of a plan to values of each graph."""
    value_of = {name: (graph, n.name) for graph, names in enumerate(w.names) for n, name in names.items() if n.op != "placeholder"}
    found: list[dict[int, list[Event]]] = [{} for _ in w.joints]
    for k, m in enumerate(moves):
        graph, value = value_of[m["value"]]
        for what, at in ((OUT, "out"), (GONE, "gone"), (IN, "in"), (BACK, "back")):
            found[graph].setdefault(int(m[at]), []).append(Event(what, value, k))
    return [{at: tuple(sorted(events, key=lambda e: e.what)) for at, events in of.items()} for of in found]


class _Session:
    """The graphs of one call of torch.compile."""

    def __init__(self, options: Any, request: Mapping[str, Any]) -> None:
        self.options = options  # kept, so that its id stays its own
        self.request = request
        self.held: dict[Any, int] = {}  # by frame, bytes that its graph holds from its forward to its backward pass

    def split(
        self,
        gm: fx.GraphModule,
        joint_inputs: Sequence[object],
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
        inputs: Sequence[Any] = (),
        fused: bool = False,
        **_: Any,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        joint = joint_of(gm, num_fwd_outputs, static_lifetime_input_indices, fused)
        w, document = alone(joint, "compiled")
        frame, times = _frame()
        others = sum(size for f, size in self.held.items() if f != frame)
        peak = planned(w, document, activation_budget="100%").report.baseline.peak
        limit, counted = self._limit(peak, inputs)
        overhead, lossy = self.request.get("max_overhead"), self.request.get("lossy")
        if limit is not None:
            limit -= others
        if joint.symbolic:
            _tell("the graph has sizes that are known only when it runs; it is planned for those of now. dynamic=False plans each shape")
        steps = partition.in_order(joint)
        if limit is None or limit < peak:
            try:
                found = planned(w, document, lossy, activation_budget=max(1, limit) if limit is not None else None, max_overhead=overhead)
                report, steps = found.report, found.steps[0]
            except BudgetError as e:
                text = e.message
                if others:
                    text += (
                        f". The graph is one of {len(self.held) + 1}, of which those before it hold {show_bytes(others)} at the same time; "
                        "memopt.optimize(model, mode='compile', sample=...) plans all of them together"
                    )
                if counted:
                    text += f". The budget counts {show_bytes(counted)} of parameters and optimizer states, too"
                raise e.counting(others + counted, text) from None
            logging.getLogger("memopt").info("graph %s: planned %s of %s, %+.1f%% time", frame, show_bytes(report.result.peak), show_bytes(peak), 100 * report.result.overhead)
        forward, backward = partition.split(joint, steps, num_fwd_outputs, lossy or 0)
        kept = [n.meta.get("val") for n in partition.saved(forward, num_fwd_outputs) if n.op != "placeholder"]
        self.held[frame] = sum(nbytes(value) for value in kept if isinstance(value, torch.Tensor))
        return forward, backward

    def _limit(self, peak: int, inputs: Sequence[Any]) -> tuple[int | None, int]:
        """The bytes for the step, and those that the budget counts beside it."""
        r = self.request
        budget, activations = r.get("budget"), r.get("activation_budget")
        if budget is not None and activations is not None:
            raise TypeError("give budget or activation_budget, not both")
        if budget is None and activations is None and r.get("max_overhead") is None:
            budget = "auto"
        held = torch.nn.ParameterList(t for t in inputs if isinstance(t, torch.nn.Parameter))
        fixed = fixed_bytes(held, r.get("optimizer"))
        limit = growth(held, fixed, peak, budget=budget, activation_budget=activations, reserve=r.get("reserve", "5%"))
        return limit, fixed.bytes if budget is not None else 0


_sessions: dict[int, _Session] = {}


def _frame() -> tuple[Any, int]:
    """The code that is compiled, and the number of times it was compiled before."""
    found = torch._guards.CompileContext.current_compile_id()
    return (None, 0) if found is None else (found.frame_id, found.frame_compile_id)


def _tell(text: str) -> None:
    warnings.warn("memopt: " + lines(text), stacklevel=2)
