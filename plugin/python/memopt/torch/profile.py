"""What operators cost on a device under PyTorch, measured with PyTorch: `python -m memopt profile-torch`. Plans of steps that are recorded there are priced by it."""

from __future__ import annotations

import argparse
import contextlib
import functools
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
from torch.utils.checkpoint import checkpoint

from .._caches import cache
from .._whole import write
from .optimize import optimize, report, restore
from .record.joint import ran_on
from .record.record import record

FORMAT = "memopt.device/1"
_ROUNDS = 7
_WIDTH, _SIDE = 1024, 1024
_SLOW = 1e8  # of an operator that is not measured any larger


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
        bandwidth = _bandwidth(clock, on, torch.float32, launch)
        typed = _typed(clock, on, launch) if on.type == "cpu" else {}
        far = _far(clock) if on.type == "cpu" else []
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
    arithmetic: dict[str, Any] = {}
    if on.type == "cpu":
        say("small operators, and gradients")
        arithmetic = _by_size(clock)
    say("operators of modules, and what runs again")
    host, again, dropped = _hosts(clock, on, launch)
    passes, checkpointed = _passes(clock, launch) if on.type == "cpu" else (None, None)
    share = host / _USUAL_HOST
    replays = {
        "native": {"again_ns": again, "dropped_ns": dropped},
        "python": {"again_ns": 20000 * share, "dropped_ns": 5000 * share},  # in proportion: they are Python, too
        "compiled": {"again_ns": 300 * share},
        "graph": {"again_ns": 0.0},
    }
    if checkpointed is not None:
        replays["checkpoint"] = {"again_ns": checkpointed}
    beside = {"passes": passes, **arithmetic, "bytes_per_ns_of": typed, "far": far}
    return _rounded({
        "format": FORMAT, "name": named["device"], "driver": named["driver"], "source": f"measured {time.strftime('%Y-%m-%d')}", "one_clock": on.type == "cpu",
        "launch_ns": launch, "host_ns": host, "again_ns": again, "dropped_ns": dropped, "replays": replays, "bytes_per_ns": bandwidth, "flops_per_ns": rates,
        **{name: told for name, told in beside.items() if told},
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


_ROWS = {"cpu": 64, "cuda": 65536}  # 256 KiB, which stay in a processor's nearest caches, or what fills a graphics processor


def _bandwidth(clock: _Clock, on: torch.device, dtype: torch.dtype, launch: float) -> dict[str, float]:
    """Bytes per nanosecond by class of kernel."""
    return {kernel: _harmonic([probe.work / max(clock.least(probe.run) - launch, 1.0) for probe in probes]) for kernel, probes in _traffic(on, dtype).items()}


def _typed(clock: _Clock, on: torch.device, launch: float) -> dict[str, dict[str, float]]:
    """The same of other types, which processors convert."""
    found = {}
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        with contextlib.suppress(RuntimeError):  # not of this type here: those of others count
            found[name] = _bandwidth(clock, on, dtype, launch)
    return found


def _traffic(on: torch.device, dtype: torch.dtype = torch.float32) -> dict[str, list[_Probe]]:
    """Operators that move bytes, by class: results are new tensors, as in a step."""
    count = _ROWS[on.type]
    x, y, w = torch.rand(count, _WIDTH, device=on).to(dtype), torch.rand(count, _WIDTH, device=on).to(dtype), torch.ones(_WIDTH, device=on, dtype=dtype)
    rows = torch.randperm(count, device=on)
    size = float(x.nbytes)
    norm = torch.nn.functional.layer_norm
    other = torch.bfloat16 if dtype == torch.float32 else torch.float32
    return {
        "": [_Probe("", 3 * size, lambda: x + y), _Probe("", 3 * size, lambda: x * y)],
        "math": [_Probe("math", 2 * size, lambda: torch.nn.functional.gelu(x)), _Probe("math", 2 * size, lambda: torch.nn.functional.silu(x)), _Probe("math", 2 * size, lambda: torch.sqrt(x))],
        "reduction": [_Probe("reduction", 2 * size, lambda: norm(x, (_WIDTH,), w, w)), _Probe("reduction", 2 * size, lambda: torch.softmax(x, -1)), _Probe("reduction", size, lambda: x.sum(0))],
        "gather": [_Probe("gather", 2 * size, lambda: x.index_select(0, rows))],
        "random": [_Probe("random", 2 * size, lambda: torch.empty_like(x).bernoulli_(0.9))],
        "copy": [_Probe("copy", 2 * size, lambda: x.t().contiguous()), _Probe("copy", 2 * size, x.clone), _Probe("copy", size + size * other.itemsize / dtype.itemsize, lambda: x.to(other))],
    }


def _far(clock: _Clock) -> list[dict[str, float]]:
    """What bytes take beside that were touched long before, by how many others were touched since: two tensors are added up behind a walk over others."""
    x, y, z = (torch.rand(128, _WIDTH) for _ in range(3))  # half a MiB each: fetching ahead takes a while to begin
    size, now = 3.0 * x.nbytes, clock.now

    def behind(others: torch.Tensor) -> float:
        took = []
        for _ in range(15):
            others.mul_(0.5)
            begin = now()
            torch.add(x, y, out=z)
            took.append(now() - begin)
        return float(min(took))

    near = behind(torch.ones(16))
    found: list[dict[str, float]] = []
    least = 0.05 * near / size
    for shift in range(20, 28):  # 1 to 128 MiB
        late = (behind(torch.ones(1 << (shift - 2))) - near) / size
        if late > max(1.1 / found[-1]["bytes_per_ns"] if found else 0.0, least):
            found.append({"beyond": 1 << shift, "bytes_per_ns": 1.0 / late})
    return found


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


def _by_size(clock: _Clock) -> dict[str, Any]:
    """What operations and operands of each class and type take, forward and backward: from small operators and large ones, which have more and less
    operands for an operation. The first of each tells what a call takes that does nothing, which passes have."""
    def product(side: int, dtype: torch.dtype) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor], float]:
        return torch.matmul, [torch.rand(side, side).to(dtype) for _ in range(2)], 2.0 * side**3

    def attention(length: int, dtype: torch.dtype) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor], float]:
        return torch.nn.functional.scaled_dot_product_attention, [torch.rand(2, 4, length, 64).to(dtype) for _ in range(3)], 4.0 * 8 * length * length * 64

    def convolution(plane: int, dtype: torch.dtype) -> tuple[Callable[..., torch.Tensor], list[torch.Tensor], float]:
        def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.conv2d(x, w, padding=1)

        return run, [torch.rand(4, 64, plane, plane).to(dtype), torch.rand(64, 64, 3, 3).to(dtype)], 2.0 * 4 * 64 * 64 * 9 * plane * plane

    found: dict[str, Any] = {"arithmetic": {}, "backward_arithmetic": {}}
    gradients = {"product": 2.0, "attention": 2.5, "convolution": 2.0}  # operations for one of the forward pass
    for kind, make, sizes in (("product", product, (8, 256, 512, 1024)), ("attention", attention, (8, 128, 256, 512)), ("convolution", convolution, (1, 14, 28, 56))):
        for name, dtype in (("", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
            points: dict[str, list[tuple[float, float, float]]] = {"arithmetic": [], "backward_arithmetic": []}
            try:
                for size in sizes:
                    so_far = sum(t for taken in points.values() for *_, t in taken[-1:])
                    if len(points["arithmetic"]) > 1 and so_far > _SLOW:
                        break  # of a type that is computed by other means; small operators tell enough
                    rounds = 3 if so_far > _SLOW else 2 * _ROUNDS
                    run, given, work = make(size, dtype)
                    with torch.enable_grad():
                        operands = [t.requires_grad_() for t in given]
                        made = run(*operands)
                        grad = torch.rand_like(made)
                        back = clock.least(functools.partial(torch.autograd.grad, made, operands, grad, retain_graph=True), rounds)
                    read = float(sum(t.nbytes for t in given))
                    points["arithmetic"].append((work, read + made.nbytes, clock.least(functools.partial(run, *given), rounds)))
                    points["backward_arithmetic"].append((gradients[kind] * work, 2 * read + (2 if kind == "attention" else 1) * made.nbytes, back))
            except RuntimeError:  # not of this type here
                if not name:
                    raise
                continue
            for which, (nothing, *taken) in points.items():
                found[which].setdefault(kind, {})[name] = _apart([(f, b, max(t - nothing[2], 1.0)) for f, b, t in taken])
    return found


def _apart(points: list[tuple[float, float, float]]) -> dict[str, float]:
    """The rates of operations and of bytes that are nearest, in proportion, to the times of operators: operations, bytes, time."""
    rows = [(f / t, b / t) for f, b, t in points]
    ff, fb, bb = sum(f * f for f, _ in rows), sum(f * b for f, b in rows), sum(b * b for _, b in rows)
    f, b = sum(f for f, _ in rows), sum(b for _, b in rows)
    apart = ff * bb - fb * fb  # 0: of one operator
    flop, byte = ((f * bb - b * fb) / apart, (b * ff - f * fb) / apart) if len(rows) > 1 else (0.0, 0.0)
    if byte <= 0:  # operands take nothing beside
        flop, byte = f / ff, 1e-6
    elif flop <= 0:  # they take all
        flop, byte = 1e-6, b / bb
    return {"flops_per_ns": 1 / flop, "bytes_per_ns": 1 / byte}


class _Norm(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class _Block(torch.nn.Module):
    """A block as models have it, so small that only host time counts: norms by hand, positions by turning, attention, a feed-forward layer with a gate."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = _Norm(width), _Norm(width)
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = (torch.nn.Linear(width, width, bias=False) for _ in range(7))
        self.act = torch.nn.SiLU()
        self.between: Callable[[], Any] = lambda: None  # what runs behind products

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        def product(layer: torch.nn.Module, t: torch.Tensor) -> torch.Tensor:
            made = layer(t)
            self.between()
            assert isinstance(made, torch.Tensor)
            return made

        def heads(t: torch.Tensor) -> torch.Tensor:
            return t.view(*t.shape[:-1], 2, -1).transpose(1, 2)

        def turned(t: torch.Tensor) -> torch.Tensor:
            half = t.shape[-1] // 2
            return t * cos + torch.cat((-t[..., half:], t[..., :half]), -1) * sin

        h = self.first(x)
        q, k, v = heads(product(self.q, h)), heads(product(self.k, h)), heads(product(self.v, h))
        h = torch.nn.functional.scaled_dot_product_attention(turned(q), turned(k), v)
        x = x + product(self.o, h.transpose(1, 2).reshape(x.shape))
        h = self.second(x)
        return x + product(self.down, self.act(product(self.gate, h)) * product(self.up, h))


class _Blocks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.checkpointed = torch.nn.ModuleList(_Block() for _ in range(8)), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turns = torch.rand(x.shape[1], 8)
        for block in self.blocks:
            x = checkpoint(block, x, turns, turns, use_reentrant=False) if self.checkpointed else block(x, turns, turns)
        return x.square().mean()


def _passes(clock: _Clock, launch: float) -> tuple[dict[str, float], float]:
    """Host time of a call of the forward pass, with its share of modules and views, and of a backward node; and of a call that PyTorch's checkpoint runs again.
    In a step the program comes from far, as kernels have swept the caches nearest to the processor: so they do here, behind each product."""
    model, x = _Blocks(), torch.rand(2, 4, 16)
    swept = torch.ones(1 << 19)  # 2 MiB

    def sweep() -> None:
        with torch.no_grad():
            swept.mul_(1.0)

    def forward() -> torch.Tensor:
        with torch.enable_grad():
            return model(x)

    def step() -> None:
        forward().backward()
        model.zero_grad(set_to_none=True)

    with torch.enable_grad():
        nodes = [n for n in record(model, x).graph["nodes"] if n["op"] not in ("input", "getitem") and not n.get("alias_of") and "view" not in n.get("flags", ())]
    calls = [sum(int(n.get("calls", 1)) for n in nodes if n["is_backward"] is backward) for backward in (False, True)]
    for block in model.blocks:
        assert isinstance(block, _Block)
        block.between = sweep
    sweeps = 7 * len(model.blocks) * clock.least(sweep)
    first, whole = clock.least(forward, enough=2e7), clock.least(step, enough=2e7)
    model.checkpointed = True
    again = clock.least(step, enough=2e7)
    passes = {"forward_ns": max((first - sweeps) / calls[0] - launch, 100.0), "backward_ns": max((whole - first) / calls[1] - launch, 0.0)}
    return passes, max((again - whole - sweeps) / calls[0] - launch, 100.0)


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
    if isinstance(x, list):
        return [_rounded(v) for v in x]
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
