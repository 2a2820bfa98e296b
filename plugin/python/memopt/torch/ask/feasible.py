"""memopt.feasible: the memory of a step, before any of it is allocated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..._arguments import Size
from ...errors import BudgetError
from ...report import Report, show_bytes
from ..plan.budget import fixed_bytes
from ..plan.plans import plan_of
from ..record.fake import fake_recording
from ..record.floor import Binding, binding
from ..step.given import check_module, check_named, check_request, parse, split_budget
from ..step.sample import Loss, inputs_of
from ..step.wrapped import inner_module


@dataclass
class Feasible:
    """The memory of a step, provisional as it excludes work space of kernels. True if the budget can be met."""

    fixed: int  # parameters, buffers and optimizer states
    eager_peak: int  # with them, everything kept
    floor: int  # with them, no plan goes below
    binds: Binding
    budget: int | None
    promised_peak: int | None  # of a plan within the budget, if there is one
    overhead: float
    provisional: bool = True
    plan: Report | None = field(repr=False, default=None)

    def __bool__(self) -> bool:
        return self.budget is None or self.promised_peak is not None

    def __str__(self) -> str:
        text = f"about {show_bytes(self.eager_peak)} in eager mode, {show_bytes(self.fixed)} of them parameters, buffers and optimizer states; no plan below {show_bytes(self.floor)}"
        if self.budget is not None and self.promised_peak is not None:
            text = f"fits {show_bytes(self.budget)}: {show_bytes(self.promised_peak)} for {self.overhead:+.1%} time; {text}"
        elif self.budget is not None:
            text = f"does not fit {show_bytes(self.budget)}: {text}, set by {self.binds}"
        return "provisional: " + text + " (work space of kernels is not counted before a real step)"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("provisional", "fixed", "eager_peak", "floor", "budget", "promised_peak", "overhead")
        return {"format": "memopt.torch.feasible/1", "fits": bool(self), **{n: getattr(self, n) for n in names}, "binds": {"kind": self.binds.kind, "module": self.binds.module, "op": self.binds.op}}


def feasible(
    model: torch.nn.Module,
    *batch: Any,
    budget: Size | None = None,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    device: str | torch.device | None = None,
    **kwargs: Any,
) -> Feasible:
    """Whether a training step of model(*batch, **kwargs) fits a budget under a plan, without allocating anything.

    The module and the inputs may be on the meta device: tensors have no values, so a step that depends on values cannot
    be analysed. The answer is provisional: memopt.optimize records a real step and measures it.

    budget   the most memory of the step: bytes, "6GiB", or "60%" of eager mode; also as the last argument after the inputs
    device   the device to run on; by default the module's, or the CPU for a module on the meta device
    """
    check_module("feasible", model)
    batch, budget = split_budget(model, batch, budget)
    check_named("feasible", model, kwargs, ("budget", "loss", "optimizer", "device"))
    check_request(budget=budget, loss=loss, optimizer=optimizer)
    if budget == "auto":
        raise ValueError("budget is 'auto', what a device has free, which feasible does not look at: give bytes, or a text like '8GB' or '60%'")
    model = inner_module(model)
    recording = fake_recording(model, *inputs_of(batch, kwargs), loss, device)
    states = fixed_bytes(model, optimizer)
    held = {id(t): t.nbytes for t in [*model.parameters(), *model.buffers()]}
    made = states.bytes - states.to_come - fixed_bytes(model, None).bytes
    fixed = sum(held.values()) + states.to_come + max(0, made)
    whole = recording.measured_peak + fixed
    limit = parse("budget", budget, whole) - fixed if budget is not None else None
    found: Report | None = None
    try:
        found = plan_of(recording, activation_budget=max(1, limit) if limit is not None else None)
        floor, node = found.floor.peak, found.floor.node
    except BudgetError as e:
        if e.floor is None:
            raise
        floor, node = e.floor.peak, e.floor.node
    binds = binding(recording.graph, floor + fixed, node, fixed)
    fits = found is not None and limit is not None
    return Feasible(
        fixed, whole, floor + fixed, binds, limit + fixed if limit is not None else None, found.result.peak + fixed if fits and found is not None else None,
        found.result.overhead if found is not None else 0.0, plan=found,
    )  # fmt: skip
