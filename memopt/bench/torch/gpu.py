"""A Llama of a billion parameters on a CUDA device, at five budgets, beside plain PyTorch, full recomputation and PyTorch's knob.

    python3 gpu.py --out torch-gpu.json             # on a CUDA device, about 4 minutes
    python3 gpu.py --device cpu --small             # the same program, for tests

Each way runs the same steps of AdamW. Memory is torch.cuda.max_memory_allocated over a whole step; on a processor, the
allocator's events of forward and backward.
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


class Bench:
    def __init__(self, device: str, small: bool, steps: int) -> None:
        self.device, self.small, self.steps = device, small, steps
        self.tokens = torch.randint(0, 200, (2, 64) if small else (4, 2048), device=device)
        self.rows: list[dict[str, Any]] = []

    def model(self) -> tuple[Llama, torch.optim.Optimizer]:
        torch.manual_seed(0)
        with torch.device(self.device):
            made = Llama(3, 64, 4, 2, 192, 200) if self.small else Llama(20, 2048, 32, 8, 5632, 32000)
        made = made.to(torch.float32 if self.small else torch.bfloat16)
        return made, torch.optim.AdamW(made.parameters(), fused=True)

    def run(self, way: str, asked: int | None, prepare: Callable[[Llama, torch.optim.Optimizer], Any], more: Callable[[Llama], dict[str, Any]] = lambda _: {}) -> dict[str, Any]:
        """Trains a fresh model one way: bytes at the most in a step, the median time of a step, and what the first gradients were."""
        model, optimizer = self.model()
        row: dict[str, Any] = {"way": way, "asked": asked}
        made: Any = None
        forward: Any = None
        try:
            made = prepare(model, optimizer)
            forward = model if made is None else made
            first = True
            times, peaks = [], []
            for i in range(self.steps + 3):
                optimizer.zero_grad(set_to_none=True)
                self._wait()
                if self.device == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                begin = time.perf_counter()
                if self.device == "cuda" or i != self.steps:
                    loss = forward(self.tokens, self.tokens)
                    loss.backward()
                else:
                    with watched() as measured:
                        loss = forward(self.tokens, self.tokens)
                        loss.backward()
                    peaks.append(measured.peak + fixed_bytes(model, optimizer).bytes)
                if i == 1:
                    row["digests"] = digests(model, loss)
                    row["loss"] = loss.item()
                del loss
                optimizer.step()
                self._wait()
                if i >= 3:
                    times.append(time.perf_counter() - begin)
                    if self.device == "cuda":
                        peaks.append(torch.cuda.max_memory_allocated())
                first = False
            assert not first
            row |= {"measured": max(peaks), "ms": 1e3 * statistics.median(times), **more(model)}
        except (memopt.BudgetError, torch.OutOfMemoryError) as e:
            row["error"] = str(e).split("\n")[0][:300]
        del model, optimizer, forward, made
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()
        self.rows.append(row)
        shown = {k: v for k, v in row.items() if k != "digests"}
        print(shown, file=sys.stderr, flush=True)
        return row

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def all(self, knob: bool) -> None:
        plain = self.run("plain", None, lambda m, o: None)
        full = self.run("full recomputation", None, lambda m, o: setattr(m, "recompute", True))

        def report(model: Llama) -> dict[str, Any]:
            made = memopt.torch.report(model)
            if made is None or made.plan is None:
                return {"planned": False}
            return {"promised": made.promised_peak, "overhead": made.overhead, "eager": made.eager_peak}

        whole, least = plain.get("measured"), full.get("measured")
        if whole is None:  # plain PyTorch does not fit: budgets from what the device has
            whole = int(0.95 * torch.cuda.mem_get_info()[1])
        least = least or whole // 2
        for share in (0.9, 0.7, 0.5, 0.25, 0.0):
            asked = int(least + share * (whole - least))

            def budgeted(model: Llama, optimizer: torch.optim.Optimizer, asked: int = asked) -> None:
                memopt.optimize(model, asked, optimizer=optimizer)

            row = self.run("memopt", asked, budgeted, report)
            if "digests" in row and "digests" in plain:
                row["same_bits"] = row["digests"] == plain["digests"]
        if knob:
            import torch._functorch.config as functorch

            for share in (0.5, 0.0):
                functorch.activation_memory_budget = share
                torch._dynamo.reset()
                self.run(f"torch.compile, activation_memory_budget {share}", None, lambda m, o: torch.compile(m))
        for row in self.rows:
            row.pop("digests", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="three layers of width 64")
    parser.add_argument("--steps", type=int, default=6, help="timed steps of each way")
    parser.add_argument("--knob", action="store_true", help="also PyTorch's activation_memory_budget, under torch.compile")
    parser.add_argument("--out", help="a file for the rows, JSON; without it, standard output")
    given = parser.parse_args()
    bench = Bench(given.device, given.small, given.steps)
    bench.all(given.knob)
    card = torch.cuda.get_device_name() if given.device == "cuda" else "processor"
    text = json.dumps({"device": card, "torch": torch.__version__, "cuda": torch.version.cuda, "rows": bench.rows}, indent=1)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
