"""Plans of memopt, at budgets from below the peak of eager mode down to the lowest there is."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal
from unittest import mock

from knob import counting
from torch._dynamo.backends import debugging
from ways import Bench, Way, forward_is

import memopt
from memopt.torch.native import build

Mode = Literal["eager", "aot_eager"]


def ways(bench: Bench, mode: Mode, percents: Sequence[float], equal: Sequence[tuple[str, int]] = (), lowest_too: bool = True, **given: Any) -> Iterator[Way]:
    """Budgets in percent of eager mode's peak; budgets that others came to, by name; then the lowest plan. given: other arguments of optimize.

    Compiled graphs run as by backend="aot_eager": with the kernels of eager mode.
    """
    asked = [(f"{p:g} %", int(bench.peak * p / 100)) for p in percents]
    lowest = 0
    for name, budget in [*asked, *equal]:
        if budget >= lowest:
            way = _way(bench, mode, name, budget, **given)
            if isinstance(way, Way):
                yield way
            else:
                lowest = max(lowest, way)
    if not lowest_too:
        return
    if lowest == 0:
        found = _way(bench, mode, "floor", 1, **given)
        lowest = found if isinstance(found, int) else 0
    if lowest > 0:
        floor = _way(bench, mode, "floor", lowest, **given)
        if not isinstance(floor, Way):
            floor = Way(_kind(mode), "floor", contextlib.nullcontext, asked=lowest, error=f"there is no plan of {lowest} bytes, which were named as the lowest")
        yield floor


def in_python(bench: Bench, percents: Sequence[float], **given: Any) -> Iterator[Way]:
    """The same, replayed in Python, as where there is no compiler."""
    for way in ways(bench, "eager", percents, lowest_too=False, **given):
        yield Way("memopt in Python", way.name, functools.partial(_without_native, way.on), **{k: v for k, v in way.row.items() if k not in ("kind", "name")})


@contextlib.contextmanager
def _without_native(on: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    with on(), mock.patch.object(build.library, "get", lambda tell: None):
        yield


def _kind(mode: Mode) -> str:
    return "memopt" if mode == "eager" else "memopt compiled"


def _way(bench: Bench, mode: Mode, name: str, budget: int, **given: Any) -> Way | int:
    """A way, or the bytes of the lowest plan where the budget is below it."""
    model = bench.family.module
    row: dict[str, Any] = {"asked": budget}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with mock.patch.object(debugging, "boxed_nop", functools.partial(counting, bench)):  # what graphs are run by in this mode
                report = memopt.optimize(model, activation_budget=budget, sample=bench.family.inputs, loss=bench.family.loss, mode=mode, **given)
    except memopt.BudgetError as e:
        return e.best
    except Exception as e:
        way = Way(_kind(mode), name, contextlib.nullcontext, asked=budget)
        way.failed(e)
        memopt.restore(model)
        return way
    assert report is not None
    extra = report.plan.result.extra_flops / bench.flops if report.plan is not None else 0.0
    row |= {"promised": report.promised_peak, "extra_promised": extra, "overhead": report.overhead, "timed": report.plan is not None and bool(report.plan.to_dict()["baseline"].get("time_ns"))}
    if given.get("offload") and report.plan is not None:
        row["moved"] = report.plan.to_dict()["offload"]["values"]
    told = [str(w.message) for w in caught if str(w.message).startswith("memopt")]
    if told:
        row["told"] = told[0][:300]
    forward = vars(model)["forward"]
    memopt.restore(model)
    if hasattr(forward, "off"):
        forward.off = False
    return Way(_kind(mode), name, functools.partial(forward_is, model, forward), mode != "eager", **row)
