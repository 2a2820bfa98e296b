"""A Llama of a billion parameters and a ResNet-50 on a CUDA device: plain PyTorch, full recomputation, PyTorch's knob, and memopt by three
ways of replay at three budgets, and with values or optimizer states elsewhere.

    python3 gpu.py --out torch-gpu.json             # on a CUDA device, about 5 minutes
    python3 gpu.py --device cpu --small             # the same program, for tests; captures are those of the stand-in

Each way runs the same steps of AdamW. Memory is torch.cuda.max_memory_allocated over a whole step, and what the allocator has reserved by
then; on a processor, the allocator's events of forward and backward. The file has each row as soon as it is measured, so that a time
limit costs the last ones: those that compile.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import memopt
from memopt.torch.plan.budget import fixed_bytes
from memopt.torch.record.measure import digests, watched


SHARES = "0.95,0.85,0.6"  # of plain PyTorch's peak
WARM = 9  # steps that are not timed: one is recorded, some are checked and measured, and one is captured


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv: int) -> None:
        super().__init__()
        self.heads, self.kv = heads, kv
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, width * kv // heads, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, n, -1).transpose(1, 2) for f, n in ((self.q, self.heads), (self.k, self.kv), (self.v, self.kv)))
        q, k = (y * cos + torch.cat([-y[..., y.shape[-1] // 2 :], y[..., : y.shape[-1] // 2]], -1) * sin for y in (q, k))
        k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads, kv)
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, kv: int, inner: int, vocab: int) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False)
        self.blocks = nn.ModuleList(Block(width, heads, kv, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.each = width // heads
        self.recompute = False

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens)
        angle = torch.arange(tokens.shape[1], device=x.device)[:, None] / 10000 ** (torch.arange(0, self.each, 2, device=x.device) / self.each)
        cos, sin = angle.cos().repeat(1, 2).to(x.dtype), angle.sin().repeat(1, 2).to(x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, use_reentrant=False) if self.recompute else block(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


class Bottleneck(nn.Module):
    def __init__(self, of: int, width: int, stride: int) -> None:
        super().__init__()
        sizes = ((of, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
        layers: list[nn.Module] = []
        for a, b, size, by in sizes:
            layers += [nn.Conv2d(a, b, size, by, size // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.branch = nn.Sequential(*layers[:-1])
        self.past = nn.Sequential(nn.Conv2d(of, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if stride > 1 or of != 4 * width else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.branch(x) + self.past(x))


class ResNet(nn.Module):
    def __init__(self, depths: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks, of = nn.ModuleList(), width
        for i, depth in enumerate(depths):
            for k in range(depth):
                self.blocks.append(Bottleneck(of, width << i, 2 if i and not k else 1))
                of = 4 * width << i
        self.head = nn.Linear(of, classes)
        self.recompute = False

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.first(images)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.cross_entropy(self.head(x.mean((2, 3))).float(), labels)


class Bench:
    def __init__(self, device: str, small: bool, steps: int, out: str | None, shares: str) -> None:
        self.shares, self.given = [float(s) for s in shares.split(",")], shares != SHARES
        self.device, self.small, self.steps, self.out = device, small, steps, out
        self.of = "llama"
        self.rows: list[dict[str, Any]] = []
        tokens = torch.randint(0, 200, (2, 64) if small else (4, 2048), device=device)
        images = torch.randn((4, 3, 64, 64) if small else (128, 3, 224, 224), device=device, dtype=torch.float32 if small else torch.bfloat16)
        self.inputs = {"llama": (tokens, tokens), "resnet": (images, torch.randint(0, 10, (len(images),), device=device))}

    def model(self) -> tuple[Any, torch.optim.Optimizer]:
        torch.manual_seed(0)
        made: nn.Module
        with torch.device(self.device):
            if self.of == "llama":
                made = Llama(3, 64, 4, 2, 192, 200) if self.small else Llama(20, 2048, 32, 8, 5632, 32000)
            else:
                made = ResNet((1, 1), 8, 10) if self.small else ResNet((3, 4, 6, 3), 64, 1000)
        made = made.to(torch.float32 if self.small else torch.bfloat16)
        return made, torch.optim.AdamW(made.parameters(), fused=True)

    def run(self, way: str, asked: int | None, prepare: Callable[[Any, torch.optim.Optimizer], Any], more: Callable[[Any], dict[str, Any]] = lambda _: {}) -> dict[str, Any]:
        """Trains a fresh model one way: bytes at the most in a step, the median time of a step, and what the first gradients were."""
        model, optimizer = self.model()
        row: dict[str, Any] = {"model": self.of, "way": way, "asked": asked}
        inputs, warm = self.inputs[self.of], WARM
        made: Any = None
        forward: Any = None
        try:
            made = prepare(model, optimizer)
            forward = model if made is None else made
            first = True
            times, peaks = [], []
            for i in range(self.steps + warm):
                optimizer.zero_grad(set_to_none=True)
                self._wait()
                if self.device == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                begin = time.perf_counter()
                if self.device == "cuda" or i != self.steps:
                    loss = forward(*inputs)
                    loss.backward()
                else:
                    with watched() as measured:
                        loss = forward(*inputs)
                        loss.backward()
                    peaks.append(measured.peak + fixed_bytes(model, optimizer).bytes)
                if i == warm - 1:
                    row["digests"] = digests(model, loss)
                    row["loss"] = loss.item()
                del loss
                optimizer.step()
                self._wait()
                if i >= warm:
                    times.append(time.perf_counter() - begin)
                    if self.device == "cuda":
                        peaks.append(torch.cuda.max_memory_allocated())
                        row["reserved"] = torch.cuda.memory_reserved()
                first = False
            assert not first
            row |= {"measured": max(peaks), "ms": 1e3 * statistics.median(times), **more(model)}
        except Exception as e:  # a way that fails costs its row
            row["error"] = str(e).split("\n")[0][:300]
        del model, optimizer, forward, made
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()
        self.rows.append(row)
        self.write()
        shown = {k: v for k, v in row.items() if k != "digests"}
        print(shown, file=sys.stderr, flush=True)
        return row

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def write(self) -> None:
        card = torch.cuda.get_device_name() if self.device == "cuda" else "processor"
        rows = [{k: v for k, v in row.items() if k != "digests"} for row in self.rows]
        text = json.dumps({"device": card, "torch": torch.__version__, "cuda": torch.version.cuda, "rows": rows}, indent=1)
        if self.out:
            with open(self.out, "w", encoding="utf-8") as f:
                f.write(text)

    def all(self, knob: bool, modes: list[str], models: list[str]) -> None:
        bases = {}
        self.inputs = {of: self.inputs[of] for of in models}
        for self.of in self.inputs:
            bases[self.of] = self.run("plain", None, lambda m, o: None), self.run("full recomputation", None, lambda m, o: setattr(m, "recompute", True))

        def report(model: Any) -> dict[str, Any]:
            made = memopt.torch.report(model)
            if made is None or made.plan is None:
                return {"planned": False}
            return {"promised": made.promised_peak, "overhead": made.overhead, "eager": made.eager_peak, "replay": made.replay, "pool": made.reserved, "moved": made.moved}

        far = "host" if self.device == "cuda" else "disk"
        more: dict[str, dict[str, Any]] = {"offload": {"mode": "eager", "offload": far}, "states": {"mode": "eager", "states": far}}
        for mode in modes:
            if mode == "compile" and self.device == "cpu":
                continue  # its promises are of Inductor's order, and tests/test_compile.py has them
            for self.of in self.inputs:
                plain, full = bases[self.of]
                whole = plain.get("measured") or int(0.95 * torch.cuda.mem_get_info()[1])  # plain PyTorch does not fit: budgets from what the device has
                for share in self.shares:
                    # Below full recomputation comes what moves elsewhere alone, where budgets are given by hand.
                    asked = max(int(share * whole), 0 if self.given and mode in more else full.get("measured") or 0)

                    def budgeted(model: Any, optimizer: torch.optim.Optimizer, asked: int = asked, how: dict[str, Any] = more.get(mode, {"mode": mode})) -> None:
                        memopt.optimize(model, asked, optimizer=optimizer, **how)

                    row = self.run(f"memopt, {mode}", asked, budgeted, report)
                    if "digests" in row and "digests" in plain:
                        row["same_bits"] = row["digests"] == plain["digests"]
                    if "ms" in row and "ms" in plain:
                        row["taken"] = row["ms"] / plain["ms"] - 1  # beside overhead, which is promised
        if knob:
            import torch._functorch.config as functorch

            for self.of in self.inputs:
                for share in (1.0, 0.5, 0.0):
                    functorch.activation_memory_budget = share
                    torch._dynamo.reset()
                    self.run(f"torch.compile, activation_memory_budget {share}", None, lambda m, o: torch.compile(m))
        self.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="three layers of width 64")
    parser.add_argument("--steps", type=int, default=6, help="timed steps of each way")
    parser.add_argument("--shares", default=SHARES, help="budgets, of plain PyTorch's peak")
    parser.add_argument("--modes", default="eager,graph,offload,states,compile", help="ways of memopt")
    parser.add_argument("--models", default="llama,resnet")
    parser.add_argument("--knob", action="store_true", help="also PyTorch's activation_memory_budget, under torch.compile")
    parser.add_argument("--out", help="a file for the rows, JSON; without it, standard output")
    given = parser.parse_args()
    if given.device == "cpu":
        from memopt.torch.graph.tape import ArenaPool

        sys.modules["memopt.torch.loop.graphs"].pool_of = lambda _: ArenaPool()  # type: ignore[attr-defined]
    bench = Bench(given.device, given.small, given.steps, given.out, given.shares)
    bench.all(given.knob, given.modes.split(","), given.models.split(","))
    if not given.out:
        print(json.dumps(bench.rows, indent=1))


if __name__ == "__main__":
    main()
