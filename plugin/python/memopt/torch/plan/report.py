"""What the plan of a training step promises, and what was measured."""

from __future__ import annotations

import functools
import html
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ... import _scratch
from ..._plan import plan as plan_file
from ..._visible import line, lines
from ...report import Report, show_bytes
from ..elsewhere.smaller import Lossy
from ..record.floor import Binding, binding
from ..record.record import Recording, as_file
from .offloaded import OwnOffload
from .smaller import Rounded, Smaller, would_save

_LEAST_NORM = 1e-3  # of the largest gradient's: one that is all but zero, as that of a bias in front of a batch norm, is compared with this
_QUARTER = 1.25
_WORTH_ROUNDING = 0.05  # of the step's bytes
_WORTH_SAYING = 0.01  # of a step's time
# Nanoseconds of a replay for a step, for an operator of its forward pass and for a saved tensor, in the time of the shipped profile of PyTorch on a core.
_REPLAYS = {"native": (150e3, 800.0, 900.0), "python": (300e3, 12e3, 5e3)}


@dataclass
class Rounding:
    """What is kept in a smaller type for the backward pass, on request."""

    kind: str  # "bf16", "fp16" or "fp8"
    values: int
    bytes: int  # as they were
    worst: str = ""  # of the gradients of the sample's step, the one that differs most from the exact one
    error: float = 0.0  # by so much of its norm
    loss_error: float = 0.0

    def compare(self, loss: tuple[float, float], exact: Mapping[str, torch.Tensor], rounded: Mapping[str, torch.Tensor]) -> None:
        """Notes by how much the loss and the gradients of a step differ from the exact ones, which come first."""
        self.loss_error = abs(loss[1] - loss[0]) / max(abs(loss[0]), 1e-30)
        least = max((float(g.norm()) for g in exact.values()), default=0.0) * _LEAST_NORM or 1.0
        self.worst, self.error = max(((name, float((rounded[name] - g).norm()) / max(float(g.norm()), least)) for name, g in exact.items()), key=lambda found: found[1])

    def __str__(self) -> str:
        if not self.values:
            return f"nothing needs to be kept as {self.kind}, so gradients are exact"
        said = f"{self.values} values, {show_bytes(self.bytes)} in all, are kept as {self.kind} for the backward pass, so gradients are not exact"
        return f"{said}: in the sample's step that of {line(self.worst)} differs the most, by {self.error:.2e} (relative), the loss by {self.loss_error:.2e}" if self.worst else said


@dataclass
class StepReport:
    """What the plan of a step promises, and what was measured.

    Peaks and the floor count the same memory as the budget: for budget= they include `counted` bytes of parameters, buffers and
    optimizer states, for activation_budget= they are the growth during one forward and backward pass.
    """

    eager_peak: int
    promised_peak: int
    measured_peak: int | None
    floor: int  # no plan goes below it
    floor_node: str
    overhead: float  # extra time, as a share of the step's
    gap: float  # of it, at most so much could be saved at this peak
    fixed: int  # bytes of parameters, buffers and optimizer states
    plan: Report | None = field(repr=False)  # None: everything is kept
    recording: Recording = field(repr=False)
    counted: int = 0  # of fixed, in the peaks
    taken: tuple[str, ...] = ()  # arguments that lower the floor and are given
    measured_on: str = ""  # "the sample", or "a step of training"
    without: str = ""  # why no plan holds for the steps, where none does
    chosen: str = ""  # what lowers the floor without having been asked for
    held: int = 0  # bytes of the model's results that the loop holds through the backward pass, which the sample did not
    sent: str = ""  # which of the optimizer's states are elsewhere, where the plan chose them
    states: int = 0  # bytes of the optimizer's states, where they could be elsewhere
    replay: str = ""  # "native", "python" or "graph": what ran the last planned step
    largest: StepReport | None = field(default=None, repr=False)  # of the steps that were measured, where it is of other sizes
    seconds: tuple[float, float] | None = None  # of a step of the sample as it is and under the plan, where it was timed
    lossy: Rounding | None = None  # what is rounded, where it may be
    own_offload: OwnOffload | None = None  # by hooks of the module itself, where the sample told
    reserved: int | None = None  # of captured steps: the bytes of their pool, which it holds between steps

    @classmethod
    def of_smaller(cls, recording: Recording, kind: Lossy, found: Smaller, fixed: int, counted: int, taken: tuple[str, ...] = ()) -> StepReport:
        """The report of a plan that may keep values smaller."""
        whole = replace(recording, graph=Rounded(recording.graph, found.chosen).graph) if found.chosen is not None else recording
        made = cls.of(whole, found.found, fixed, counted, taken)
        made.overhead, made.lossy = found.overhead, Rounding(kind, found.values, found.bytes)
        return made

    @classmethod
    def of(cls, recording: Recording, found: Report | None, fixed: int, counted: int, taken: tuple[str, ...] = ()) -> StepReport:
        """The report of a plan."""
        eager = recording.measured_peak + counted
        if found is None:
            return cls(eager, eager, eager, 0, "", 0.0, 0.0, fixed, None, recording, counted, taken, "the recorded step")
        gap = found.bound.gap if found.get("bound") else 0.0
        return cls(eager, found.result.peak + counted, None, found.floor.peak + counted, found.floor.node, found.result.overhead, gap, fixed, found, recording, counted, taken)

    def measured(self, growth: int, on: str) -> None:
        """Fills in the measured memory of a step."""
        self.measured_peak, self.measured_on = growth + self.counted, on

    def timed(self, as_it_is: float, planned: float, replay: str) -> None:
        """Fills in the measured time of a step."""
        self.seconds, self.replay = (as_it_is, planned), self.replay or replay

    @property
    def measured_overhead(self) -> float | None:
        """The extra time that was measured, as a share of the step's; overhead and replay_overhead are what was promised."""
        return self.seconds[1] / self.seconds[0] - 1 if self.seconds is not None else None

    @property
    def profile_off(self) -> str:
        """What to say of a profile by which a step takes a quarter more or less than it took, or nothing."""
        time = self.plan.to_dict()["baseline"].get("time_ns") if self.plan is not None else None
        if not time or self.seconds is None or 1 / _QUARTER < self.seconds[0] * 1e9 / time < _QUARTER:
            return ""
        return (
            f"memopt: the step takes {self.seconds[0] * 1e3:.1f} ms, and {time / 1e6:.1f} ms by the profile that prices its plan: "
            "python -m memopt profile-torch measures this machine"
        )

    @functools.cached_property
    def binds(self) -> Binding:
        """Which of the loss, one block, gradients and parameters sets the floor, and what would lower it."""
        return binding(self.recording.graph, self.floor, self.floor_node or None, self.counted, self.taken)

    @property
    def replay_overhead(self) -> float:
        """What the replay itself takes beside what it runs again, as a share of the step's time: at each operator of the forward pass, and at each
        saved tensor. It tells of models of many small operators; a captured or a compiled step has no replay."""
        kind, r = self.replay or self.recording.replay, self.recording
        time = self.plan.to_dict()["baseline"].get("time_ns") if self.plan is not None else None
        if not time or kind not in _REPLAYS or self.plan is None:
            return 0.0
        size = (self.eager_peak - self.counted) / max(1, self.plan.baseline.peak)  # the plan may be one that was made for steps of another size
        step, call, save = _REPLAYS[kind]
        return (step + call * len(r.calls) + save * len(r.saves)) / (time * max(size, 1e-3))

    @property
    def floor_at(self) -> str:
        """The operator and the module that set the floor."""
        return self.binds.place

    @property
    def moved(self) -> str:
        """What the plan moves elsewhere and back; "" if it was not allowed to."""
        found = self.plan.to_dict().get("offload") if self.plan is not None else None
        if not found:
            return ""
        if not found["values"]:
            return f"nothing goes to the {found['place']}, as no copy lowers the peak or the cost"
        waits = f", of which the step waits for {found['wait_ns'] / 1e6:.3g}" if found["wait_ns"] else ""
        return f"{found['values']} values, {show_bytes(found['bytes'])} in all, go to the {found['place']} and back, in {found['copy_ns'] / 1e6:.3g} ms{waits}"

    def __str__(self) -> str:
        if self.without:
            taken = f"; measured {show_bytes(self.measured_peak)}" if self.measured_peak is not None else ""
            return f"memopt: no plan holds for the step, and no budget: {self.without}{taken}, of {show_bytes(self.eager_peak)} in eager mode"
        if self.plan is None:
            if self.chosen:
                return f"memopt: the step takes {show_bytes(self.promised_peak)}, of {show_bytes(self.eager_peak)} in eager mode, and fits: {self.chosen}"
            return f"memopt: the step takes {show_bytes(self.eager_peak)} as it is, and fits: nothing to do" + (f"; {self.sent}" if self.sent else "")
        measured = f", measured {show_bytes(self.measured_peak)}" if self.measured_peak is not None else ""
        if not measured and self.largest is not None:
            measured = f" (the largest step that was measured: {show_bytes(self.largest.promised_peak)}, and {show_bytes(self.largest.measured_peak or 0)} taken)"
        beside = f"{show_bytes(self.fixed)} of parameters and states {'in it' if self.counted else 'beside it'}"
        return (
            f"memopt: promised {show_bytes(self.promised_peak)}{measured}, of {show_bytes(self.eager_peak)} in eager mode, for {self.overhead:+.1%} time{self._replayed()}; "
            f"{beside}; floor {show_bytes(self.floor)}, set by {self.binds}{self._offer()}{'; ' + self.chosen if self.chosen else ''}{'; ' + self.moved if self.moved else ''}{f'; {self.lossy}' if self.lossy is not None else ''}{f'; {self.sent}' if self.sent else ''}"
        )

    def _replayed(self) -> str:
        share, measured = self.replay_overhead, self.measured_overhead
        text = f" and {share:+.1%} for its replay" if share >= _WORTH_SAYING else ""
        return f"{text} promised, {measured:+.1%} measured" if measured is not None else text

    def _offer(self) -> str:
        """The most useful change of arguments, if the plan is at its floor."""
        offers = [o for o in self.binds.offers if o.saves > self.floor // 20]
        if self.plan is None or not offers or self.promised_peak > 1.05 * self.floor:
            return ""
        return f"; {offers[0].argument} would lower it to about {show_bytes(offers[0].floor)}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON. The whole plan is plan.to_dict()."""
        fields = ["eager_peak", "promised_peak", "measured_peak", "measured_on", "floor", "floor_at", "overhead", "gap", "fixed", "counted", "held", "sent", "states", "replay", "replay_overhead", "measured_overhead"]
        if self.without:
            fields.remove("floor_at")
        binds = None if self.without else self.binds
        return {
            "format": "memopt.torch.report/1", "model": self.recording.graph["model"], "planned": self.plan is not None, "without": self.without, **{name: getattr(self, name) for name in fields},
            "binds": {"kind": binds.kind, "module": binds.module, "op": binds.op} if binds else None, "offers": [vars(o) for o in binds.offers] if binds else [],
            "largest": {name: getattr(self.largest, name) for name in ("eager_peak", "promised_peak", "measured_peak")} if self.largest is not None else None,
            "lossy": vars(self.lossy) if self.lossy is not None else None, "own_offload": self.own_offload.to_dict() if self.own_offload is not None else None,
            "recomputed_nodes": self.plan.result.recomputed_nodes if self.plan is not None else 0,
        }  # fmt: skip

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page of `memopt plan --html`."""
        self._again(html=os.path.abspath(os.path.expanduser(os.fspath(path))))

    def _again(self, html: str | None = None, svg: str | None = None) -> None:
        """Plans the recorded step again, with files to write."""
        settings: dict[str, Any] = {}
        if self.plan is not None:
            asked = self.plan.to_dict()["request"]
            settings = {k: v for k in ("activation_budget", "max_overhead") if (v := asked.get(k))}
        with as_file(self.recording.graph) as path:
            plan_file(path, html=html, svg=svg, **settings)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "eager mode", show_bytes(self.eager_peak)
        yield "promised", f"{show_bytes(self.promised_peak)} for {self.overhead:+.1%} time{self._replayed()}"
        if self.measured_peak is not None:
            yield "measured", f"{show_bytes(self.measured_peak)}, in {self.measured_on}"
        elif self.largest is not None:
            yield "the largest step", f"{show_bytes(self.largest.promised_peak)} promised, {show_bytes(self.largest.measured_peak or 0)} measured"
        if self.chosen:
            yield "chosen", self.chosen
        if self.moved:
            yield "elsewhere", self.moved
        if self.lossy is not None:
            yield "rounded", str(self.lossy)
        elif self.plan is not None:
            for kind in ("bf16", "fp8"):
                if (saves := would_save(self.recording, kind)) > _WORTH_ROUNDING * self.eager_peak:
                    yield f"lossy='{kind}'", f"would save {show_bytes(saves)} of the step with everything kept, with other gradients"
        if self.own_offload is not None:
            yield "your offload", str(self.own_offload)
        if self.held:
            yield "the loop holds", f"{show_bytes(self.held)} of the model's results through the backward pass"
        yield "beside it" if not self.counted else "in it", f"{show_bytes(self.fixed)} of parameters, buffers and optimizer states"
        if self.sent:
            yield "optimizer states", self.sent
        if self.states:
            yield "optimizer states", f"{show_bytes(self.states)} of that; states='disk' or 'host' would leave none, '8bit', which rounds, about {show_bytes(self.states // 4)} of float32"
        if self.plan is not None:
            yield "gap", f"{self.gap:.2%} of time to the proven bound"
            yield "floor", f"{show_bytes(self.floor)}, set by {self.binds}"
            for offer in self.binds.offers:
                yield "lower with", f"{offer.argument}: about {show_bytes(offer.floor)}"

    def _repr_html_(self) -> str:
        rows = "".join(f'<tr><th style="text-align:left">{html.escape(a)}</th><td style="text-align:left">{html.escape(line(b))}</td></tr>' for a, b in self._rows())
        picture = ""
        if self.plan is not None:
            with _scratch.folder() as folder:
                self._again(svg=os.path.join(folder, "step.svg"))
                with open(os.path.join(folder, "step.svg"), encoding="utf-8") as f:
                    picture = f.read()
        return f"<table><caption>memopt: {html.escape(line(self.recording.graph['model']))}</caption>{rows}</table>{picture[max(0, picture.find('<svg')) :]}"


def say(text: str) -> None:
    """Prints a message on the first rank: through the logger "memopt", or on standard error if logging is not configured."""
    text = lines(text)
    rank = torch.distributed.get_rank() if torch.distributed.is_available() and torch.distributed.is_initialized() else int(os.environ.get("RANK") or 0)
    if rank != 0:
        return
    log = logging.getLogger("memopt")
    handlers = [h for logger in (log, logging.getLogger()) for h in logger.handlers if not isinstance(h, logging.NullHandler)]
    if log.level == logging.NOTSET and not handlers:
        print(text, file=sys.stderr, flush=True)
    else:
        log.info("%s", text)
