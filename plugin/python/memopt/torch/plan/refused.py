"""A budget that cannot be met: the floor, the module and the operator that set it, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..._visible import line
from ...errors import BudgetError, Change
from ...report import enough, show_bytes
from ..record.floor import binding
from ..record.record import Recording


class Smaller(NamedTuple):
    """What fits of a batch."""

    fits: int  # rows, at most
    rows: int  # of the whole batch
    part: int  # rows of the largest equal part that fits where gradients of the others are kept; 0 for none


def refused(
    e: BudgetError, recording: Recording, limit: int, counted: int, taken: Sequence[str], batch: Callable[[], Smaller | None], asks: Callable[[int], int] | None = None
) -> BudgetError:
    """Translates the planner's error into terms of the module.

    limit    bytes that are left beside those counted: parameters, buffers and optimizer states
    batch    finds the part of the batch that fits
    asks     the budget that leaves so many bytes; by default these and those counted
    """
    if e.best <= 0:
        return e  # not for bytes
    if e.floor is None:
        return e.counting(counted)
    binds = binding(recording.graph, e.floor.peak, e.floor.node, counted, taken)
    argument = "budget" if counted else "activation_budget"
    best, want, floor = (asks(n) if asks is not None else n + counted for n in (e.best, limit, e.floor.peak))
    size = enough(best)
    changes = [Change(f'{argument}="{size}"', best / max(1, want) - 1, {argument: size})]
    lower = [o for o in binds.offers if o.floor <= limit]
    for offer in sorted(lower, key=lambda o: len(o.argument))[:1]:
        changes.append(Change(offer.argument, 0.0, dict(_pair(a) for a in offer.argument.split(", "))))
    smaller = batch()
    if smaller is not None:
        changes.append(Change(f"a batch of {smaller.fits} instead of {smaller.rows}", 1 - smaller.fits / smaller.rows, {"batch": str(smaller.fits)}))
        if smaller.part:
            runs = smaller.rows // smaller.part
            text = f"gradients of {runs} batches of {smaller.part} added up before a step of the optimizer, the same {smaller.rows} rows"
            changes.append(Change(text, float(runs), {"batch": str(smaller.part), "accumulate": str(runs)}))
    left = f"{show_bytes(limit) + ' are' if limit > 0 else 'nothing is'} left beside {show_bytes(counted)} of parameters, buffers and optimizer states" if counted else f"{show_bytes(limit)} are given"
    text = (
        f"budget cannot be met: {left}, and no plan of {line(recording.graph['model'])}'s step goes below {show_bytes(e.floor.peak)}, set by {binds}; "
        f"the lowest plan found takes {show_bytes(e.best)}, eager mode {show_bytes(recording.measured_peak)}. What would fit: {' or '.join(c.setting for c in changes)}"
    )
    unmet = [o for o in binds.offers if o not in lower][:1] if not lower else []
    if unmet:
        text += f"; {unmet[0].argument} would lower the floor to about {show_bytes(unmet[0].floor)}, which does not suffice alone"
    return BudgetError(
        text, want=want, best=best, fixed=counted, floor=e.floor._replace(peak=floor), changes=tuple(changes), binds=binds.kind if limit > 0 else "parameters", module=binds.module, op=binds.op, code=e.code, binary=e.binary
    )


def _pair(argument: str) -> tuple[str, str]:
    name, _, value = argument.partition("=")
    return name, value.strip('"')
