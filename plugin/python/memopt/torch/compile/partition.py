"""A plan over a joint graph, as its forward and its backward graph: the plan's order, and exactly what it keeps between them."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._functorch import partitioners
from torch._prims import rng_prims

from ..elsewhere.smaller import Lossy
from .graph import _SYMBOLS, Joint, Op, random_state, statistics
from .moved import Event, Moving
from .smaller import Narrowing


class Step(NamedTuple):
    """An operator, whether it runs again, and what moves elsewhere or back before and behind it."""

    op: Op
    again: bool
    before: tuple[Event, ...] = ()
    behind: tuple[Event, ...] = ()


Steps = list[Step]  # in the plan's order


def in_order(joint: Joint) -> Steps:
    """Everything runs once."""
    return [Step(op, False) for op in joint.ops]


def split(joint: Joint, steps: Steps, forward_outputs: int, far: int | Lossy = 0) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph in which the steps run. far: where values move, or as what they are kept."""
    ordered = _Ordered(joint, _whole(joint, steps), far)
    return ordered.split(forward_outputs)


def _whole(joint: Joint, steps: Steps) -> Steps:
    """Adds unread operators that the plan leaves out, but which draw random numbers or write."""
    planned = {s.op for s in steps if not s.again}
    missing = [op for op in joint.ops if op not in planned and op.once]
    order = {op: i for i, op in enumerate(joint.ops)}
    for op in missing:
        at = next((i for i, s in enumerate(steps) if not s.again and order[s.op] > order[op]), len(steps))
        steps = [*steps[:at], Step(op, False), *steps[at:]]
    return steps


class _Ordered:
    """A joint graph in another order, in which operators may stand several times."""

    def __init__(self, joint: Joint, steps: Steps, far: int | Lossy) -> None:
        self.joint = joint
        self.graph = fx.Graph()
        self.moving: Moving | Narrowing = Narrowing(self.graph, far) if isinstance(far, str) else Moving(self.graph, far)
        self.named = {n.name: n for n in joint.nodes}
        self.made: dict[fx.Node, fx.Node] = {}  # what stands for a node now
        self.shows: dict[fx.Node, list[fx.Node]] = {}  # operands of what was made as a view, when it was made
        # Operators that draw random numbers: each saves what it drew from, as the plan counts it, if any runs again.
        self.drawing = {s.op.node for s in steps if s.op.state} if any(s.again and s.op.state for s in steps) else set()
        self.states: dict[fx.Node, fx.Node] = {}
        self.forward: set[fx.Node] = set()
        for n in joint.nodes:
            if n.op in ("placeholder", "get_attr"):
                self.made[n] = self._copy(n)
        last = max((i for i, s in enumerate(steps) if not s.again and not s.op.backward), default=-1)
        results = [n for n in joint.results if isinstance(n, fx.Node)]
        for step in steps[: last + 1]:
            self._run(step)
        found = {n: self._value(n) for n in results}
        for n in joint.nodes:  # sizes, so that no tensor is kept for the sake of its own
            if isinstance(n.meta.get("val"), _SYMBOLS) and n not in joint.backward and n.op == "call_function":
                self._value(n)
        self.forward = set(self.graph.nodes)
        self.made = {n: m for n, m in self.made.items() if n not in self.shows or isinstance(n.meta.get("val"), _SYMBOLS)}
        for step in steps[last + 1 :]:
            self._run(step)
        outputs = [found[n] if isinstance(n, fx.Node) else n for n in joint.results]
        gradients = [self._value(n) if isinstance(n, fx.Node) else n for n in joint.gradients]
        behind = [n for n in self.graph.nodes if n not in self.forward]
        for n in behind:
            n.meta["partitioner_tag"] = "is_backward"
        out = self.graph.output((*outputs, *gradients))
        self.crossing = dict.fromkeys(m for m in [*(m for n in behind for m in n.all_input_nodes), *(g for g in gradients if isinstance(g, fx.Node))] if m in self.forward)
        out.meta = joint.output.meta

    def _copy(self, n: fx.Node) -> fx.Node:
        new = self.graph.node_copy(n, self._value)
        self._describe(new, n)
        return new

    def _describe(self, new: fx.Node, n: fx.Node) -> None:
        new.meta = copy.copy(n.meta)
        new.meta.pop("recompute", None)

    def _run(self, step: Step) -> None:
        op, again = step.op, step.again
        self._move(step.before)
        for n in op.nodes:
            self.made[n] = self._draw(n, again) if n in self.drawing else self._copy(n)
            if again and (moved := statistics(n)):
                self._withhold(self.made[n], n, moved)
        for n in op.outputs:
            if n is not op.node:
                self.made[n] = self._copy(n)
        self._move(step.behind)

    def _move(self, events: Sequence[Event]) -> None:
        for event in events:
            n = self.named[event.value]
            back = self.moving.write(event, self.made[n])
            if back is not None:
                self.made[n] = back

    def _draw(self, n: fx.Node, again: bool) -> fx.Node:
        """An operator that draws random numbers: first from the state of now, which is kept, then from that."""
        operands, named = fx.node.map_arg((n.args, n.kwargs), self._value)
        if again:
            new = self.graph.call_function(rng_prims.run_with_rng_state, (self.states[n], n.target, *operands), named)
        else:
            both = self.graph.call_function(rng_prims.run_and_save_rng_state, (n.target, *operands), named)
            state = self.states[n] = self.graph.call_function(operator.getitem, (both, 0))
            new = self.graph.call_function(operator.getitem, (both, 1))
            state.meta["val"] = random_state(n)
            both.meta["val"] = state.meta["val"], n.meta["val"]
        self._describe(new, n)
        return new

    def _withhold(self, new: fx.Node, n: fx.Node, moved: list[int]) -> None:
        """Gives a recomputed batch norm dummy statistics: its own were updated, and the new ones are not used."""
        for i in moved:
            real = n.args[i]
            assert isinstance(real, fx.Node)
            value = real.meta["val"]
            with self.graph.inserting_before(new):
                zeros = self.graph.call_function(torch.ops.aten.full.default, (list(value.shape), 0), {"dtype": value.dtype, "device": value.device, "pin_memory": False})
            zeros.meta["val"] = value
            new.update_arg(i, zeros)

    def _value(self, n: fx.Node) -> fx.Node:
        """What stands for a node: views and sizes are made where they are first needed."""
        now = self.made.get(n)
        if n.op != "call_function" or n in self.joint.op_of or n.target is operator.getitem and self.joint.owner.get(n) is n:
            assert now is not None, f"{n} is read before it is made"
            return now
        operands = [self._value(m) for m in n.all_input_nodes]
        if now is None or self.shows.get(n) != operands and not isinstance(n.meta.get("val"), _SYMBOLS):
            now = self.made[n] = self._copy(n)
            self.shows[n] = operands
        return now

    def split(self, forward_outputs: int) -> tuple[fx.GraphModule, fx.GraphModule]:
        gm = fx.GraphModule(self.joint.gm, self.graph)
        saved = [n for n in self.crossing if not _is_tangent(n)]
        symbols = [n for n in saved if isinstance(n.meta.get("val"), _SYMBOLS)]
        tensors = [n for n in saved if n not in symbols and n.op != "get_attr"]
        extra: dict[str, Any] = {}
        if "static_lifetime_input_nodes" in inspect.signature(partitioners._extract_fwd_bwd_modules).parameters:
            static = {self.made[n] for n in self.joint.static}
            extra["static_lifetime_input_nodes"] = type(partitioners.OrderedSet())(n for n in self.graph.nodes if n in static) if static else None
        forward, backward = partitioners._extract_fwd_bwd_modules(gm, tensors, symbols, num_fwd_outputs=forward_outputs, **extra)
        # Draws that the forward pass needs are not repeated in the backward pass for nobody.
        backward.graph.eliminate_dead_code(is_impure_node=_stays)
        backward.recompile()
        return forward, backward


def _is_tangent(n: fx.Node) -> bool:
    return n.op == "placeholder" and "tangents" in str(n.target)


def _stays(n: fx.Node) -> bool:
    return n.op in ("placeholder", "output") or isinstance(n.target, torch._ops.OpOverload) and n.target._schema.is_mutable


def saved(forward: fx.GraphModule, forward_outputs: int) -> Sequence[fx.Node]:
    """The values that a forward graph passes to the backward graph."""
    out = next(n for n in forward.graph.nodes if n.op == "output")
    return [n for n in out.args[0][forward_outputs:] if isinstance(n, fx.Node)]
