"""What training loops cost under a plan beside eager mode: batches of one length and of many, accumulation, several passes of a step, batches that are skipped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import families
import memopt
from memopt.torch import report

SHARE = 0.65  # of what a step of the longest batch takes in eager mode
_LENGTHS = range(32, 129, 4)

Batch = dict[str, Any]
Train = Callable[[torch.nn.Module, torch.optim.Optimizer, list[Batch]], Iterator[float]]


def _fixed(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> Iterator[float]:
    for batch in batches:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def _accumulated(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> Iterator[float]:
    for i, batch in enumerate(batches):
        loss = model(**batch).loss / 4
        loss.backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        yield loss.item()


def _several(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> Iterator[float]:
    for a, b in zip(batches[::2], batches[1::2], strict=True):
        loss = (model(**a).loss - model(**b).loss).square() + model(**a).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def _skipped(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch]) -> Iterator[float]:
    for i, batch in enumerate(batches):
        loss = model(**batch).loss
        if i % 5 == 4:
            continue  # as one whose loss is not finite
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


_LOOPS: dict[str, tuple[Train, bool]] = {  # and whether lengths vary
    "fixed length": (_fixed, False),
    "varying lengths": (_fixed, True),
    "accumulation": (_accumulated, False),
    "several passes": (_several, False),
    "skipped batches": (_skipped, False),
}


def _batches(n: int, varying: bool) -> list[Batch]:
    torch.manual_seed(1)
    draw = random.Random(1)
    found = []
    for _ in range(n):
        tokens = torch.randint(3, 500, (2, draw.choice(_LENGTHS) if varying else 128))
        found.append({"input_ids": tokens, "labels": tokens, "use_cache": False})
    return found


def _run(train: Train, batches: list[Batch], budget: int | None) -> tuple[float, list[float], Any]:
    """CPU time of a whole loop, its losses, and the report: what is recorded and planned on the way counts."""
    model = families.build("llama").module
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    if budget is not None:
        memopt.optimize(model, activation_budget=budget, verbose=False)
    at = time.process_time()
    losses = list(train(model, optimizer, batches))
    took = time.process_time() - at
    found = report(model) if budget is not None else None
    memopt.restore(model)
    return took, losses, found


def loops(quick: bool = False) -> dict[str, Any]:
    """Rows of whole loops; the first is eager mode's with one length. Times are of a step."""
    steps, rounds = (20, 1) if quick else (110, 2)
    rows: list[dict[str, Any]] = []
    eager_peak = memopt.record(families.build("llama").module, **_batches(1, False)[0]).measured_peak
    budget = int(SHARE * eager_peak)
    for name, (train, varying) in _LOOPS.items():
        batches = _batches(steps, varying)
        eager, planned = [], []
        for _ in range(rounds):
            eager.append(_run(train, batches, None))
            planned.append(_run(train, batches, 2 * budget if train is _several else budget))
        base, best = min(r[0] for r in eager), min(r[0] for r in planned)
        found = planned[0][2]
        if not rows:
            rows.append({"kind": "eager", "name": "eager", "measured": eager_peak, "cpu_ms": 1e3 * base / steps, "ratio": 1.0})
        rows.append(
            {
                "kind": "loop", "name": name, "asked": 2 * budget if train is _several else budget, "promised": found.promised_peak, "measured": found.measured_peak or found.promised_peak, "extra_promised": found.overhead,
                "extra": found.overhead, "cpu_ms": 1e3 * best / steps, "ratio": best / base, "bits": eager[0][1] == planned[0][1],
            }
        )  # fmt: skip
    return {"model": "loops", "large": True, "rows": rows}
