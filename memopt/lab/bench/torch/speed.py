"""What a plan costs where there is least to gain: a step of tiny operators, and the planning of a deep model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import checkpoints
import planned
import torch
from torch import nn
from ways import Bench, Way

import memopt
from families import Block, Family, gpt
from loops import loops


class _Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(16, 2, 0.1) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def tiny() -> dict[str, Any]:
    """Eight blocks of width 16: nearly all of the step is what each operator costs before it computes anything."""
    torch.manual_seed(0)
    bench = Bench(Family(_Tiny(), {"x": torch.randn(2, 8, 16)}))
    ways = [bench.eager(), *planned.ways(bench, "eager", (75,)), *planned.in_python(bench, (75,)), *checkpoints.ways(bench, 1)]
    for way in ways[1:]:
        bench.measure(way)
    bench.time(ways, 6, 20)
    return {"model": "tiny", "rows": [w.row for w in ways]}


def moved() -> dict[str, Any]:
    """A GPT some of whose values are on the disk between its passes, by either replay."""
    torch.manual_seed(0)
    bench = Bench(gpt(6, 128, 4, 128, 256, 4))
    ways = [bench.eager(), *planned.ways(bench, "eager", (30,), lowest_too=False, offload="disk"), *planned.in_python(bench, (30,), offload="disk")]
    for way in ways[1:]:
        bench.measure(way)
    bench.time(ways, 10, 12)
    return {"model": "gpt-moved", "rows": [w.row for w in ways]}


def deep() -> dict[str, Any]:
    """A GPT of 48 layers: its first step under optimize, which records, plans and sets up, beside a step in eager mode."""
    torch.manual_seed(0)
    family = gpt(48, 64, 2, 128, 512, 8)
    bench = Bench(family)
    rows = [bench.eager()]
    bench.time(rows, 0, 5)
    best: dict[str, float] = {}
    for _ in range(3):
        memopt.optimize(family.module, activation_budget=int(bench.peak * 0.6), loss=family.loss)
        at, cpu = time.perf_counter(), _cpu()
        bench.step()
        took = {"first_cpu_ms": 1e3 * (_cpu() - cpu), "first_ms": 1e3 * (time.perf_counter() - at)}
        best = {k: min(v, best.get(k, v)) for k, v in took.items()}
        memopt.restore(family.module)
    way = Way("memopt", "60 %", rows[0].on)
    way.row.update(best, beside_ms=best["first_cpu_ms"] - rows[0].row["cpu_ms"])
    return {"model": "gpt-48L", "rows": [rows[0].row, way.row]}


def _cpu() -> float:
    """Processor time of this process and of the service that plans."""
    import psutil

    own = psutil.Process()
    return sum(t.user + t.system for t in [own.cpu_times(), *(c.cpu_times() for c in own.children(recursive=True))])


MODELS: dict[str, Callable[..., dict[str, Any]]] = {"tiny": tiny, "gpt-moved": moved, "gpt-48L": deep, "loops": loops}
