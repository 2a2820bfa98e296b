"""What operators cost on a device under PyTorch, measured with PyTorch: `python -m memopt profile-torch`. Plans of steps that are recorded there are priced by it."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .._caches import cache
from .._whole import write
from .optimize import optimize, report, restore
from .record.joint import ran_on
from .record.record import record

FORMAT = "memopt.device/1"
_ROUNDS = 7
_WIDTH, _SIDE = 1024, 1024


class _Probe(NamedTuple):
    """An operator whose time tells a figure."""

    kernel: str  # its class
    work: float  # bytes moved, or operations
    run: Callable[[], Any]


def measure(device: str | torch.device = "cpu", say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The profile of a device under PyTorch, in nanoseconds, with the threads that PyTorch has now."""
    on = torch.device(device)
    named = ran_on(on)
    if not named:
        raise ValueError(f"operators cannot be measured on {on}: it is no processor, and no CUDA device that is here")
    clock = _Clock(on)
    with torch.no_grad():
        say("launches")
        launch = _launch(clock, on)
        say("bandwidth")
        bandwidth = {kernel: _harmonic([probe.work / max(clock.least(probe.run) - launch, 1.0) for probe in probes]) for kernel, probes in _traffic(on).items()}
        rates: dict[str, dict[str, float]] = {"product": {}, "convolution": {}, "attention": {}}
        for name, dtype in (("", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
            say(f"products, convolutions and attention in {dtype}".replace("torch.", ""))
            for probe in _arithmetic(on, dtype):
                try:
                    rates[probe.kernel][name] = probe.work / max(clock.least(probe.run) - launch, 1.0)
                except RuntimeError:  # not of this type here: products of others count
                    if not name:
                        raise
    rates[""] = {"": rates["product"][""]}
    say("operators of modules, and what runs again")
    host, again, dropped = _hosts(clock, on, launch)
    share = host / _USUAL_HOST
    replays = {
        "native": {"again_ns": again, "dropped_ns": dropped},
        "python": {"again_ns": 20000 * share, "dropped_ns": 5000 * share},  # in proportion: they are Python, too
        "compiled": {"again_ns": 300 * share},
        "graph": {"again_ns": 0.0},
    }
    return _rounded({
        "format": FORMAT, "name": named["device"], "driver": named["driver"], "source": f"measured {time.strftime('%Y-%m-%d')}", "one_clock": on.type == "cpu",
        "launch_ns": launch, "host_ns": host, "again_ns": again, "dropped_ns": dropped, "replays": replays, "bytes_per_ns": bandwidth, "flops_per_ns": rates,
    })  # fmt: skip


_USUAL_HOST = 3500.0  # of the shipped profile of a core


def place(profile: dict[str, Any]) -> str:
    """Where a profile is kept: the file of its device and versions, in which the binary looks."""
    name = re.sub(r"[^0-9A-Za-z-]", "_", "-".join(["torch", profile["name"], profile["driver"]]))
    return os.path.join(cache("profiles"), name + ".json")


def keep(profile: dict[str, Any], to: str = "") -> str:
    """Writes a profile to a file, or where plans look for it."""
    path = to or place(profile)
    if not to:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write(path, json.dumps(profile, indent=1).encode() + b"\n")
    return path


class _Clock:
    """The time of operators on a device, in nanoseconds. The least counts, as others' work only adds to it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        alone = device.type == "cpu" and torch.get_num_threads() == 1
        self.now = time.process_time_ns if alone else time.perf_counter_ns  # one thread's own time, whoever else the processor serves

    def sync(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def least(self, run: Callable[[], Any], rounds: int = _ROUNDS, enough: float = 2e6) -> float:
        """Of one run, from rounds that take long enough for the clock."""
        run()
        self.sync()
        once = self._round(run, 1)
        times = max(1, min(2000, math.ceil(enough / max(once, 100.0))))
        if once > 1e8:  # no fresh caches in so long a run
            return once
        return min(self._round(run, times) for _ in range(rounds)) / times

    def _round(self, run: Callable[[], Any], times: int) -> float:
        begin = self.now()
        for _ in range(times):
            run()
        self.sync()
        return float(self.now() - begin)


def _launch(clock: _Clock, on: torch.device) -> float:
    """Of the smallest kernel; on a CUDA device without the program, from a captured graph."""
    x = torch.ones(16, device=on)
    y = torch.empty_like(x)
    if on.type == "cpu":
        return clock.least(lambda: torch.neg(x, out=y))
    launches = 200
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            torch.neg(x, out=y)
    return clock.least(graph.replay) / launches


def _traffic(on: torch.device) -> dict[str, list[_Probe]]:
    """Operators that move bytes, by class: results are new tensors, as in a step."""
    count = 2048 if on.type == "cpu" else 65536  # 8 MiB, as activations of small models have, or what fills a graphics processor
    x, w = torch.rand(count, _WIDTH, device=on), torch.ones(_WIDTH, device=on)
    rows = torch.randperm(count, device=on)
    size = float(x.nbytes)
    norm = torch.nn.functional.layer_norm
    return {
        "": [_Probe("", 3 * size, lambda: x + x), _Probe("", 3 * size, lambda: x * x)],
        "math": [_Probe("math", 2 * size, lambda: torch.nn.functional.gelu(x)), _Probe("math", 2 * size, lambda: torch.nn.functional.silu(x))],
        "reduction": [_Probe("reduction", 2 * size, lambda: norm(x, (_WIDTH,), w, w)), _Probe("reduction", 2 * size, lambda: torch.softmax(x, -1)), _Probe("reduction", size, lambda: x.sum(0))],
        "gather": [_Probe("gather", 2 * size, lambda: x.index_select(0, rows))],
        "random": [_Probe("random", 2 * size, lambda: torch.empty_like(x).bernoulli_(0.9))],
        "copy": [_Probe("copy", 2 * size, lambda: x.t().contiguous()), _Probe("copy", 2 * size, x.clone)],
    }


def _arithmetic(on: torch.device, dtype: torch.dtype) -> list[_Probe]:
    """Operators that calculate, by class."""
    side = _SIDE if on.type == "cpu" else 4 * _SIDE
    a, b = torch.rand(side, side, device=on).to(dtype), torch.rand(side, side, device=on).to(dtype)
    batch, heads, length, width = (2, 8, 512, 64) if on.type == "cpu" else (8, 16, 2048, 64)
    q = torch.rand(batch, heads, length, width, device=on).to(dtype)
    images, channels, plane = (4, 64, 56) if on.type == "cpu" else (64, 256, 56)
    image, kernel = torch.rand(images, channels, plane, plane, device=on).to(dtype), torch.rand(channels, channels, 3, 3, device=on).to(dtype)
    return [
        _Probe("product", 2.0 * side**3, lambda: a @ b),
        _Probe("attention", 4.0 * batch * heads * length * length * width, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)),
        _Probe("convolution", 2.0 * images * channels * channels * 9 * plane * plane, lambda: torch.nn.functional.conv2d(image, kernel, padding=1)),
    ]


class _Small(torch.nn.Module):
    """Operators so small that only their host time counts."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.GELU()) for _ in range(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x) * 0.5
        return x.square().mean()


def _hosts(clock: _Clock, on: torch.device, launch: float) -> tuple[float, float, float]:
    """Host time of an operator of a step, with its module and its autograd node, of a second run, and of a dropped tensor."""
    model, x = _Small().to(on), torch.rand(64, 16, device=on)

    def step() -> None:
        with torch.enable_grad():
            model(x).backward()
        model.zero_grad(set_to_none=True)

    with torch.enable_grad():
        calls = sum(int(n.get("calls", 1)) for n in record(model, x).graph["nodes"] if n["op"] not in ("input", "getitem"))
    beside = launch if on.type == "cpu" else 0.0  # the program waits for a processor's kernels, as it runs on it
    host = max(clock.least(step, enough=2e7) / calls - beside, 100.0)
    usual = (1500.0 * host / _USUAL_HOST, 500.0 * host / _USUAL_HOST)
    found: list[tuple[float, int]] = []
    for share in ("85%", "40%"):
        with torch.enable_grad():
            optimize(model, activation_budget=share, sample=x, verbose=False)
            for _ in range(4):
                step()
            last = report(model)
            found.append((clock.least(step, enough=2e7), last.plan.result.recomputed_nodes if last is not None and last.plan is not None else 0))
            native = last is not None and last.replay == "native"
            restore(model)
        if not native:
            return host, *usual
    (more, many), (less, few) = found[1], found[0]
    if many - few < 10:
        return host, *usual
    second = (more - less) / (many - few) - beside
    second = min(max(second, 300.0), 4 * sum(usual))  # a busy machine tells anything
    return host, 0.75 * second, 0.25 * second


def _harmonic(rates: list[float]) -> float:
    return statistics.harmonic_mean(rates)


def _rounded(x: Any) -> Any:
    """Numbers with four digits: more are noise."""
    if isinstance(x, dict):
        return {k: _rounded(v) for k, v in x.items()}
    return float(f"{x:.4g}") if isinstance(x, float) else x


def main(arguments: list[str]) -> int:
    """`python -m memopt profile-torch [--device cpu] [--threads N] [--output FILE]`."""
    parser = argparse.ArgumentParser("python -m memopt profile-torch", description="measure what operators cost under PyTorch; plans of steps that are recorded on the device are priced by it")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--threads", type=int, default=0, help="threads of a processor (default: those of PyTorch)")
    parser.add_argument("--output", "-o", default="", metavar="FILE", help="write the profile there instead of where plans look for it")
    given = parser.parse_args(arguments)
    if given.threads > 0:
        torch.set_num_threads(given.threads)
    try:
        profile = measure(given.device, lambda what: print(f"measuring {what}", file=sys.stderr))
        path = keep(profile, given.output)
    except (ValueError, RuntimeError, OSError) as e:
        print(f"memopt: {e}", file=sys.stderr)
        return 1
    print(json.dumps(profile, indent=1))
    print(f"written to {path}", file=sys.stderr)
    return 0
