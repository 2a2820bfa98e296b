"""A verdict on the switches of a trainer's config: what each buys, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..._visible import line
from ...report import show_bytes, show_share
from ..ask.table import table
from ..plan.plans import plan_of_graph
from ..plan.policies import priced
from .account import LOGITS, line_of
from .config import Config, read
from .devices import Device, profile_of
from .optimizers import optimizer_of
from .request import ALONE, Request
from .switches import SIZES, Switch, switches_of, unknown_of

NOTHING = 0.001  # of a step's bytes: less is nothing


@dataclass(frozen=True)
class Verdict:
    """A switch, beside the step without it."""

    switch: str
    text: str
    buys: int | None = None  # bytes of the device; below 0: it takes more
    costs: float | None = None  # time for a row, as a share


@dataclass
class Verdicts:
    """What a config's switches do."""

    total: int  # bytes of the device, with all of them
    overhead: float  # time above the step with everything kept
    fits: bool | None
    rows: list[Verdict] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    same: str = ""  # plans of the same bytes and of the same time, where checkpoints are on

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"total": self.total, "overhead": self.overhead, "fits": self.fits, "switches": [vars(r) for r in self.rows], "unknown": self.unknown, "same": self.same}

    def lines(self) -> list[str]:
        fits = "" if self.fits is None else ", which fits" if self.fits else ", which does not fit"
        head = [f"your settings take {show_bytes(self.total)} for {show_share(self.overhead)} time{fits}{'; ' + self.same if self.same else ''}", ""]
        rows = table([["your switch", "verdict"], *([line(r.switch), line(r.text)] for r in self.rows)])
        more = ["", *(f"not modelled, and may matter: {line(u)}" for u in self.unknown)] if self.unknown else []
        return [*head, *rows, *more]


@dataclass(frozen=True)
class _Taken:
    """What a step takes."""

    total: int
    time: float  # of a row, in nanoseconds
    overhead: float


class Judge:
    """Tries a request's switches one by one."""

    def __init__(self, request: Request, device: Device, budget: int | None, make: Callable[[Request, Device, int | None], Any]) -> None:
        """make is Fit, of a request."""
        self.request, self.device, self.budget, self.make = replace(request, checkpointing=False), device, budget, make
        self.configs: list[Config] = [read(p) for p in request.config]
        self.switches = switches_of(self.configs)
        self.known: dict[tuple[Any, ...], Any] = {}
        self.policies: dict[tuple[int, str], dict[str, Any]] = {}
        of = {kind: next((c.path for c in self.configs if any(s.path == c.path and s.kind == kind for s in self.switches)), "") for kind in ("checkpointing", "activations elsewhere")}
        self.moves = not of["checkpointing"] and bool(of["activations elsewhere"])  # all that autograd saves
        self.policy = of["checkpointing"] or of["activations elsewhere"]  # the file that says what of a step is kept

    def fit(self, request: Request) -> Any:
        key = tuple(sorted((k, str(v)) for k, v in request.to_dict().items()))
        if key not in self.known:
            self.known[key] = self.make(request, self.device, self.budget)
        return self.known[key]

    def priced(self, fit: Any, alone: bool = True) -> dict[str, Any]:
        """The checkpoints of the config on a step, by the planner."""
        key = (id(fit), "alone" if alone else "")
        if key not in self.policies:
            self.policies[key] = priced(fit.graph, self.policy, profile_of(self.device), "host" if self.moves else None, alone)
        return self.policies[key]

    def taken(self, request: Request, checkpointed: bool | None = None) -> _Taken:
        """A request, with the config's checkpoints or without."""
        fit = self.fit(request)
        peak, overhead = fit.graph["measured_peak"], 0.0
        if self.policy if checkpointed is None else checkpointed:
            point = self.priced(fit)["policy"]
            peak, overhead = point["peak"], point["overhead"]
        time = plan_of_graph(fit.graph, for_device=profile_of(self.device)).baseline.time_ns
        return _Taken(fit.total(peak), fit.step_time(time, overhead) / (request.batch * request.passes), overhead)

    def verdicts(self) -> Verdicts:
        own = self.taken(self.request)
        found = Verdicts(own.total, own.overhead, own.total <= self.budget if self.budget is not None else None, unknown=list(unknown_of(self.configs)))
        for s in self.switches:
            if s.kind not in SIZES:
                found.rows.append(self._judge(s, own))
        if self.policy and own.overhead > 0:
            told = self.priced(self.fit(self.request), alone=False)
            fit, parts = self.fit(self.request), []
            if told["same_bytes"]:
                parts.append(f"a plan of the same bytes costs {show_share(told['same_bytes']['overhead'])}")
            if told["same_time"]:
                parts.append(f"one of the same time needs {show_bytes(fit.total(told['same_time']['peak']))}")
            found.same = "; ".join(parts)
        return found

    def _judge(self, s: Switch, own: _Taken) -> Verdict:
        off: Request | None = None
        r, note = self.request, ""
        if s.kind == "checkpointing":
            return self._compared(s, own, self.taken(r, checkpointed=False), self.priced(self.fit(r))["says"])
        if s.kind == "accumulate" and r.accumulate > 1:
            off, note = replace(r, accumulate=1, batch=r.batch * r.accumulate), f"beside one pass of {r.batch * r.accumulate} rows"
        elif s.kind == "precision" and s.fields:
            off, note = replace(r, dtype="float32") if "dtype" in s.fields else replace(r, autocast=None), "beside float32"
            if s.key == "bf16.enabled" or s.key == "fp16.enabled":
                trained = sum(p.numel() for p in self.fit(r).model.module.parameters() if p.requires_grad)
                note += f"; DeepSpeed keeps weights and states in float32 beside, {show_bytes(8 * trained)} on all ranks that are not counted"
        elif s.kind == "optimizer" and s.fields.get("optimizer") == r.optimizer:
            if r.optimizer == "adamw":
                return Verdict(s.text, f"as it is usual: {show_bytes(self._states(r, 'adamw'))} of states")
            off, note = replace(r, optimizer="adamw"), "beside adamw" + (", with other numbers" if optimizer_of(r.optimizer).rounded else "")
        elif s.kind == "lora" and r.lora:
            off, note = replace(r, lora=0), "beside training all parameters"
        elif s.kind in ("shard", "ranks") and s.fields and r.ranks > 1:
            off, note = (replace(r, shard="ddp"), f"beside DDP on {r.ranks} ranks") if s.kind == "shard" else (replace(r, **ALONE, shard=None), "beside one rank")
            if r.shard not in (None, "ddp") and self.fit(r).total(0) == self.fit(off).total(0):
                return Verdict(s.text, "not modelled: each rank is counted as one alone")
        elif s.kind == "shard" and s.fields:
            return Verdict(s.text, "buys nothing here: there is one rank, and nothing to divide (give --ranks)", 0)
        elif s.kind == "states elsewhere":
            states = self._states(r, r.optimizer)
            return self._moved(s, states, own, "optimizer states", passes=2)
        elif s.kind == "weights elsewhere":
            return Verdict(s.text, "not priced here: parameters come from the host for each use, and gradients and states stay there")
        elif s.kind == "activations elsewhere":
            told = self.priced(self.fit(r))
            if self.moves:
                note = f"{show_bytes(told['moved'] + told['idle'])} there and back in each pass, of whose {told['copy_ns'] / 1e6:.3g} ms the step waits for {told['wait_ns'] / 1e6:.3g}"
                return self._compared(s, own, self.taken(r, checkpointed=False), note)
            if not (moved := told["moved"]):
                return Verdict(s.text, "buys nothing here: checkpoints leave nothing of layers that could be moved", 0)
            late = 2 * moved / self.device.link / (own.time * r.batch)
            return Verdict(s.text, f"is in what checkpoints buy: {show_bytes(moved)} of layers' inputs there and back in each pass, up to {show_share(late, 0)} time at {self.device.link:.0f} GB/s where copies are late")
        elif s.kind == "fused loss":
            return self._fused(s, own)
        elif s.kind == "kernels":
            return Verdict(s.text, "not priced here: a fused kernel keeps its inputs alone; the step as recorded keeps what PyTorch's operators do")
        elif s.kind == "packing":
            return Verdict(s.text, "buys nothing of the peak: the longest row is as long; it spares the time of padding", 0)
        elif s.kind == "cache":
            return Verdict(s.text, "buys nothing of the peak: it gives cached blocks back to the device and asks for them again, which takes time", 0)
        elif s.kind == "compile":
            return Verdict(s.text, "not priced here: what Inductor fuses is not kept; memopt.optimize(mode='compile') plans the compiled step")
        elif s.kind == "quantized":
            return Verdict(s.text, "not priced here: weights are counted in their own type")
        if off is None:
            if s.kind == "optimizer":
                return Verdict(s.text, f"not modelled: {r.optimizer} is counted instead")
            return Verdict(s.text, "is what it is without it", 0)
        return self._compared(s, own, self.taken(off), note)

    def _states(self, r: Request, optimizer: str) -> int:
        """Bytes of the optimizer's states on the device."""
        fit = self.fit(r)
        return fit.with_optimizer(optimizer).total(0) - fit.with_optimizer("none").total(0)

    def _compared(self, s: Switch, own: _Taken, without: _Taken, note: str) -> Verdict:
        buys, costs = without.total - own.total, own.time / without.time - 1 if without.time else 0.0
        said = f" ({note})" if note else ""
        if abs(buys) < NOTHING * without.total:
            text = "buys nothing here" + (f", and costs {show_share(costs)} time" if costs > 0.0005 else "")
        elif buys < 0:
            text = f"raises the peak by {show_bytes(-buys)}, for {show_share(costs)} time"
        else:
            text = f"buys {show_bytes(buys)} for {show_share(costs)} time"
        return Verdict(s.text, text + said, buys, costs)

    def _moved(self, s: Switch, size: int, own: _Taken, what: str, passes: int) -> Verdict:
        if not size:
            return Verdict(s.text, f"buys nothing here: there are no {what}", 0)
        fit = self.fit(self.request)
        step = own.time * self.request.batch * self.request.accumulate
        late = passes * size / self.device.link / step
        left = max(own.total - size, fit.with_optimizer("none").total(0))
        return Verdict(s.text, f"buys {show_bytes(own.total - left)} for up to {show_share(late, 0)} time ({show_bytes(size)} of {what} there and back in each update, at {self.device.link:.0f} GB/s)", own.total - left, late)

    def _fused(self, s: Switch, own: _Taken) -> Verdict:
        """Scores that are never whole: the step's peak without what only the loss holds."""
        fit = self.fit(self.request)
        of = line_of(fit.graph)
        total = of.total - of.rows[LOGITS]
        buys = int(of.total.max() - total.max())
        if self.policy and buys:
            return Verdict(s.text, f"buys up to {show_bytes(int(of.rows[LOGITS].max()))}, the scores and their gradients, which are never whole, where the loss sets the peak (not counted in what your settings take); the products of the head run twice")
        if buys < NOTHING * own.total:
            return Verdict(s.text, "buys nothing here: the loss does not set the peak", 0)
        return Verdict(s.text, f"buys about {show_bytes(buys)}: scores and their gradients are never whole (not counted in what your settings take); the products of the head run twice", buys)
