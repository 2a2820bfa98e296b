"""Ways to run a training step of one module, and the memory, floating-point operations and CPU time of each."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from families import Family
from memopt.torch.record import again
from memopt.torch.record.measure import digests, watched
from memopt.torch.step.sample import scalar, state_kept

Context = Callable[[], contextlib.AbstractContextManager[None]]


_SETTLED = 4  # steps behind which a loop has seen what is held of the results, recorded it, and checked its plan


class Way:
    """How a step is run: on() puts it into the module and takes it out again."""

    def __init__(self, kind: str, name: str, on: Context, compiled: bool = False, **known: Any) -> None:
        self.kind, self.name, self.on, self.compiled = kind, name, on, compiled
        self.row: dict[str, Any] = {"kind": kind, "name": name, **known}
        self.times: list[float] = []

    def failed(self, what: BaseException) -> None:
        self.row["error"] = f"{type(what).__name__}: {str(what).strip().splitlines()[0] if str(what).strip() else ''}"[:300]


class Bench:
    """Steps of one module from one state, so that they can be compared bit for bit."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.graph_flops: list[int] | None = None  # of compiled graphs, which no mode sees into
        self.want: dict[str, str] = {}
        self.values: dict[str, torch.Tensor] = {}
        self.flops = 0
        self.peak = 0

    def pass_through(self) -> torch.Tensor:
        """Forward and backward as loops do that read nothing but the loss: the output is let go of before the backward pass."""
        found = scalar(self.family.module(**self.family.inputs), self.family.loss)
        found.backward()
        return found

    def step(self) -> None:
        self.family.module.zero_grad(set_to_none=True)
        self.pass_through()

    def eager(self) -> Way:
        """What all else is compared with."""
        way = Way("eager", "eager", contextlib.nullcontext)
        self.step()  # lazy things are made
        self.measure(way)
        self.peak, self.flops = way.row["measured"], way.row.pop("flops")
        way.row.update(flops=self.flops)
        return way

    def measure(self, way: Way) -> None:
        """The peak of a step, the bits that it makes, and what it computes."""
        model = self.family.module
        try:
            with way.on():
                for _ in range(_SETTLED if way.kind != "eager" else 0):
                    with state_kept(model):
                        self.step()
                with state_kept(model):
                    torch.manual_seed(7)
                    gc.collect()  # what is freed meanwhile would be missing in the peak
                    with watched() as watch:
                        found = self.pass_through()
                    got = digests(model, found) | {"the random state": str(hash(tuple(torch.get_rng_state().tolist())))}
                    values = {"the loss": found.detach()} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
                    if way.kind == "eager":
                        self.want, self.values = got, {n: v.clone() for n, v in values.items()}
                    else:
                        wrong = sorted(n for n, d in self.want.items() if got.get(n) != d)
                        way.row["bits"] = not wrong
                        if wrong:
                            way.row["wrong"] = wrong[:3]
                            way.row["error_of_values"] = max(_error(values.get(n), v) for n, v in self.values.items())
                    del found, values
                way.row["measured"] = watch.peak
                with state_kept(model):
                    torch.manual_seed(7)
                    flops = self.count_compiled() if way.compiled else self.count()
            if way.kind == "eager":
                way.row["flops"] = flops
            else:
                way.row["extra"] = flops / self.flops - 1
        except Exception as e:  # the others are still measured, and the row says what it was
            if way.kind == "eager":
                raise
            way.failed(e)

    def count(self) -> int:
        """Floating-point operations of a step, those of operators that run again unseen by modes included."""
        unseen = 0
        run_again = again.run_again

        def counted(func: Any, args: Any, kwargs: Any, grad: bool) -> Any:
            nonlocal unseen
            out = run_again(func, args, kwargs, grad)
            formula = flop_registry.get(func._overloadpacket)
            if formula is not None:
                unseen += formula(*args, **kwargs, out_val=out)
            return out

        again.run_again = counted
        try:
            with FlopCounterMode(display=False) as counter:
                self.pass_through()
            return counter.get_total_flops() + unseen
        finally:
            again.run_again = run_again

    def count_compiled(self) -> int:
        """Those of the compiled graphs of a step: under a mode they would not be used."""
        self.graph_flops = []
        try:
            self.pass_through()
            return sum(self.graph_flops)
        finally:
            self.graph_flops = None

    def time(self, ways: list[Way], seconds: float, least: int) -> None:
        """Processor time of steps in rounds in which all take turns, the quickest of each."""
        ways = [w for w in ways if "error" not in w.row]
        began = time.process_time()
        rounds = 0
        while rounds < least or time.process_time() - began < seconds:
            for way in ways:
                with way.on():
                    at = time.process_time()
                    self.step()
                    way.times.append(time.process_time() - at)
            rounds += 1
        for way in ways:
            way.row["cpu_ms"] = round(1e3 * min(way.times), 4)
            way.row["ratio"] = min(way.times) / min(ways[0].times)


def _error(got: torch.Tensor | None, want: torch.Tensor) -> float:
    if got is None:
        return float("inf")
    return float((got - want).abs().max() / want.abs().max().clamp_min(1e-30))


@contextlib.contextmanager
def forward_is(model: torch.nn.Module, forward: Any) -> Iterator[None]:
    """The module runs another forward pass."""
    model.forward = forward
    try:
        yield
    finally:
        del model.__dict__["forward"]
