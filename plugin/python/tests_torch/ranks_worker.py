"""What two ranks do in test_ranks: trains each named case beside the same model without a plan, and writes down what came out."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
from models import GPT
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import memopt
from memopt.torch import report
from memopt.torch.elsewhere.engine import DiskEngine
from memopt.torch.ranks import meeting as ranks
from memopt.torch.record.measure import watched

CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def gpt(tied=False, seed=0, layers=2, width=64):
    torch.manual_seed(seed)
    model = GPT(layers=layers, width=width)
    if not tied:
        model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model


def tokens(rows=4):
    return torch.randint(0, 50, (rows, 64), generator=torch.Generator().manual_seed(dist.get_rank()))


def sharded(mesh, units="blocks", model=None, **how):
    model = model if model is not None else gpt()
    for block in model.blocks:
        if units == "layers":
            for layer in (block.ln_1, block.qkv, block.out, block.ln_2, block.fc, block.proj):
                fully_shard(layer, mesh=mesh, **how)
        else:
            fully_shard(block, mesh=mesh, **how)
    return fully_shard(model, mesh=mesh, **how)


def bits(model):
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    whole = ((n, getattr(p.grad, "_local_tensor", p.grad)) for n, p in inner.named_parameters() if p.grad is not None)
    return {n: g.detach().clone() for n, g in whole}


def step(model, rows=4, zero=True):
    """One step: the loss, the gradients, and the peak from before the forward pass to behind the backward pass."""
    torch.manual_seed(7 + dist.get_rank())
    if zero:
        model.zero_grad(set_to_none=True)
    gc.collect()
    t = tokens(rows)
    with watched() as measured:
        loss = model(t, t)
        loss.backward()
    return loss.item(), bits(model), measured.peak


def unwatched(model, rows=4, zero=True):
    """One step that nobody measures, so that it can be recorded."""
    torch.manual_seed(7 + dist.get_rank())
    if zero:
        model.zero_grad(set_to_none=True)
    t = tokens(rows)
    loss = model(t, t)
    loss.backward()
    return loss.item(), bits(model)


def same(a, b):
    return a[0] == b[0] and a[1].keys() == b[1].keys() and all(torch.equal(a[1][n], b[1][n]) for n in a[1])


def least(model, most, **how):
    """Steps, and the least that they took. The profiler is not told of what the threads of a collective free, so some steps
    seem to take more than they do: ranks go on together until one of each has taken no more than most."""
    found = []
    while len(found) < 2 or len(found) < 8 and not agreed(min(f[2] for f in found) <= most):
        found.append(step(model, **how))
    return found


def agreed(mine):
    all_of_them = torch.tensor(int(mine))
    dist.all_reduce(all_of_them, dist.ReduceOp.MIN)
    return bool(all_of_them)


def compared(plain, model, **how):
    """Trains both, and tells what the report says beside what was measured."""
    first = unwatched(model, **how)
    found = report(model)
    recorded = found.recording.measured_peak
    promised = found.plan.result.peak if found.plan else recorded
    eager, got = least(plain, 1.001 * recorded, **how), least(model, 1.001 * promised + 65536, **how)
    return {
        "same": all(same(g, eager[0]) for g in (first, *eager[1:], *got)),
        "eager": min(e[2] for e in eager),
        "recorded": recorded,
        "promised": promised,
        "measured": min(g[2] for g in got),
        "again": found.plan.result.recomputed_nodes if found.plan else 0,
        "plan": digest(found),
        "fixed": found.fixed,
    }


def digest(found):
    return hashlib.sha1(json.dumps(found.plan.to_dict()["steps"]).encode()).hexdigest() if found.plan else ""


# DistributedDataParallel.


def ddp_case(budget="65%", before=True, **how):
    plain = DistributedDataParallel(gpt(tied=True), **how)
    inner = gpt(tied=True)
    if before:
        memopt.optimize(inner, activation_budget=budget)
        model = DistributedDataParallel(inner, **how)
    else:
        model = DistributedDataParallel(inner, **how)
        memopt.optimize(model, activation_budget=budget)
    return compared(plain, model)


@case
def ddp(mesh):
    return ddp_case()


@case
def ddp_wrapped_first(mesh):
    return ddp_case(before=False)


@case
def ddp_static_graph(mesh):
    return ddp_case(static_graph=True)


@case
def ddp_bucket_view(mesh):
    return ddp_case(gradient_as_bucket_view=True)


@case
def ddp_unused(mesh):
    return ddp_case(find_unused_parameters=True)


@case
def ddp_budget(mesh):
    """All bytes: parameters, buckets, gradients, activations."""
    plain, inner = DistributedDataParallel(gpt(tied=True)), gpt(tied=True)
    weights = sum(p.nbytes for p in inner.parameters())
    model = DistributedDataParallel(inner)
    limit = 2 * weights + 3 * 2**20
    memopt.optimize(model, limit)
    found = compared(plain, model)
    return found | {"budget": limit, "total": 2 * weights + found["measured"], "weights": weights}


@case
def ddp_sample(mesh):
    """Planned with a sample before it is wrapped; the buckets come later, and count then."""
    inner = gpt(tied=True)
    weights = sum(p.nbytes for p in inner.parameters())
    t = tokens()
    first = memopt.optimize(inner, 2 * weights + 3 * 2**20, sample=(t, t))
    model = DistributedDataParallel(inner)
    plain = DistributedDataParallel(gpt(tied=True))
    found = compared(plain, model)
    return found | {"fixed": [first.fixed, found["fixed"]], "weights": weights}


@case
def ddp_accumulation(mesh):
    plain, model = DistributedDataParallel(gpt(tied=True)), DistributedDataParallel(gpt(tied=True))
    memopt.optimize(model, activation_budget="65%")
    for m in (plain, model):
        for _ in range(2):
            m.zero_grad(set_to_none=True)
            for micro in range(3):
                with m.no_sync() if micro < 2 else contextlib.nullcontext():
                    unwatched(m, zero=False)
    return {"same": same((0, bits(plain)), (0, bits(model))), "again": report(model).plan.result.recomputed_nodes}


@case
def ddp_offload(mesh):
    """Values elsewhere, as over a fast link: ranks take the first one's plan, with its moves."""
    plain, model = DistributedDataParallel(gpt(tied=True)), DistributedDataParallel(gpt(tied=True))
    with mock.patch("memopt.torch.optimize.engine_of", lambda *_: DiskEngine()):
        memopt.optimize(model, activation_budget="65%", offload="host")
    found = compared(plain, model)
    return found | {"moves": report(model).plan.to_dict()["moves"]}


def rounded(plain, model):
    """Trains with rounded values and without: the same loss, gradients that are near, the promised bytes, and what rank 0 chose."""
    unwatched(model, rows=8)
    found = report(model)
    promised = found.promised_peak
    (want, exact, _), got = step(plain, rows=8), least(model, 1.001 * promised + 65536, rows=8)
    return {
        "same_loss": all(g[0] == want for g in got),
        "off": max(float((got[-1][1][n] - g).norm() / max(float(g.norm()), 1e-6)) for n, g in exact.items()),
        "promised": promised,
        "measured": min(g[2] for g in got),
        "values": found.lossy.values,
        "plan": digest(found),
    }


@case
def ddp_lossy(mesh):
    plain, model = (DistributedDataParallel(gpt(tied=True, layers=4, width=128)) for _ in range(2))
    memopt.optimize(model, activation_budget="40%", lossy="fp8")
    return rounded(plain, model)


@case
def fsdp_lossy(mesh):
    plain, model = (sharded(mesh, model=gpt(layers=4, width=128)) for _ in range(2))
    memopt.optimize(model, activation_budget="38.2%", lossy="fp8")
    return rounded(plain, model)


@case
def ddp_uneven(mesh):
    """Other shapes on each rank: each has a plan of its own."""
    rows = 3 + dist.get_rank()
    plain, model = DistributedDataParallel(gpt(tied=True)), DistributedDataParallel(gpt(tied=True))
    memopt.optimize(model, activation_budget="65%")
    return compared(plain, model, rows=rows)


@case
def ddp_profiled(mesh):
    """A profiler on one rank: that rank records without it, and nobody waits for it."""
    model = DistributedDataParallel(gpt(tied=True))
    memopt.optimize(model, activation_budget="65%")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if dist.get_rank() == 0 else contextlib.nullcontext():
        unwatched(model)
    first = report(model) is not None
    unwatched(model)
    return {"first": first, "second": report(model) is not None, "again": report(model).plan.result.recomputed_nodes}


@case
def ddp_refused(mesh):
    """No rank trains on where none can keep to the budget."""
    model = DistributedDataParallel(gpt(tied=True))
    memopt.optimize(model, activation_budget="5%")
    try:
        unwatched(model)
    except memopt.BudgetError as e:
        return {"refused": str(e), "floor": e.floor.peak, "left": "forward" in model.module.__dict__}
    return {"refused": ""}


@case
def ddp_refused_on_one(mesh):
    """One rank has less: the other does not wait for it in the next collective."""
    model = DistributedDataParallel(gpt(tied=True))
    memopt.optimize(model, activation_budget="5%" if dist.get_rank() == 1 else "65%")
    rows = 3 + dist.get_rank()
    try:
        unwatched(model, rows=rows)
    except memopt.BudgetError as e:
        return {"refused": str(e), "left": "forward" in model.module.__dict__}
    return {"refused": ""}


# FSDP2.


def fsdp_case(mesh, budget, units="blocks", **how):
    plain, model = sharded(mesh, units, **how), sharded(mesh, units, **how)
    memopt.optimize(model, activation_budget=budget)
    return compared(plain, model)


@case
def fsdp(mesh):
    return fsdp_case(mesh, "55%")


@case
def fsdp_gathered(mesh):
    return fsdp_case(mesh, "55%", reshard_after_forward=False)


@case
def fsdp_bf16(mesh):
    return fsdp_case(mesh, "65%", mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


@case
def fsdp_layers(mesh):
    """Each layer is a unit."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = fsdp_case(mesh, "80%", "layers")
    return found | {"told": [str(w.message) for w in told if "memopt" in str(w.message)]}


def built(budget, shard):
    plain, model = shard(gpt()), shard(gpt())
    memopt.optimize(model, activation_budget=budget)
    return compared(plain, model)


@case
def fsdp_nested(mesh):
    """Units in units, and one of two modules."""

    def shard(model):
        for block in model.blocks:
            for module in (block.fc, block):
                fully_shard(module, mesh=mesh)
        fully_shard([model.ln, model.head], mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return built("75%", shard)


@case
def fsdp_replicated(mesh):
    """Shards that are replicated, and frozen parameters."""
    two = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))

    def shard(model):
        for name, p in model.named_parameters():
            p.requires_grad_("fc" in name or "ln" in name)
        for block in model.blocks:
            fully_shard(block, mesh=two)
        return fully_shard(model, mesh=two)

    return built("75%", shard)


@case
def fsdp_sample(mesh):
    plain, model = sharded(mesh), sharded(mesh)
    t = tokens()
    memopt.optimize(model, activation_budget="60%", sample=(t, t))
    return compared(plain, model)


@case
def fsdp_accumulation(mesh):
    plain, model = sharded(mesh), sharded(mesh)
    memopt.optimize(model, activation_budget="85%")
    for m in (plain, model):
        for _ in range(3):
            m.zero_grad(set_to_none=True)
            for micro in range(3):
                m.set_requires_gradient_sync(micro == 2)
                unwatched(m, zero=False)
    return {"same": same((0, bits(plain)), (0, bits(model)))}


@case
def fsdp_trains(mesh):
    """Five steps with an optimizer, evaluation between, then restored."""
    plain, model = sharded(mesh), sharded(mesh)
    both = [(m, torch.optim.AdamW(m.parameters(), lr=1e-3)) for m in (plain, model)]
    memopt.optimize(model, activation_budget="80%")
    losses = []
    for m, optimizer in both:
        losses.append([])
        for _ in range(5):
            losses[-1].append(unwatched(m)[0])
            optimizer.step()
            m.eval()
            with torch.no_grad():
                losses[-1].append(m(tokens(), tokens()).item())
            m.train()
    memopt.restore(model)
    return {"same": losses[0] == losses[1], "after": same(unwatched(plain), unwatched(model)), "again": "forward" not in model.__dict__}


@case
def fsdp_sharded_later(mesh):
    """fully_shard after the plan was made: the step is recorded again."""
    model = gpt()
    t = tokens()
    memopt.optimize(model, activation_budget="80%", sample=(t, t))
    step(model)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return compared(sharded(mesh), model)


@case
def fsdp_refused(mesh):
    model = sharded(mesh)
    memopt.optimize(model, activation_budget="20%")
    plain = sharded(mesh)
    want = unwatched(plain)
    try:
        unwatched(model)
    except memopt.BudgetError as e:
        return {"refused": str(e), "left": "forward" in model.__dict__, "same": same(unwatched(model), want)}
    return {"refused": ""}


# Collectives of the model's own.


class Summed(torch.autograd.Function):
    """The sum over ranks, as tensor parallel layers take it."""

    @staticmethod
    def forward(ctx, x):
        y = x * 1.5
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 1.5


class Parallel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if i % 3 == 0:
                x = torch.sigmoid(Summed.apply(x))
            elif i % 3 == 1:
                x = torch.sigmoid(torch.distributed.nn.functional.all_reduce(x))
            else:
                parts = [torch.empty_like(x) for _ in range(2)]
                dist.all_gather(parts, x.detach())
                x = x * torch.sigmoid(parts[0] + parts[1])
        return x.square().mean()


@case
def collectives(mesh):
    """Collectives in the forward pass run once, and the same number on all ranks."""
    torch.manual_seed(dist.get_rank())
    x = torch.randn(256, 64)
    counts, found = [], []
    plain, model = Parallel(), Parallel()
    memopt.optimize(model, activation_budget="70%")
    for m in (plain, model):
        for _ in range(3):
            m.zero_grad(set_to_none=True)
            before = dist.group.WORLD._get_sequence_number_for_group()
            loss = m(x)
            loss.backward()
            counts.append(dist.group.WORLD._get_sequence_number_for_group() - before)
            found.append((loss.item(), bits(m)))
    return {"same": all(same(f, found[0]) for f in found), "counts": counts, "again": report(model).plan.result.recomputed_nodes}


# What is refused, or said.


@case
def fsdp1(mesh):
    said = []
    for wrap in (lambda m: m, lambda m: m.module):
        try:
            memopt.optimize(wrap(FullyShardedDataParallel(gpt(), device_id=torch.device("cpu"))), activation_budget="80%")
        except TypeError as e:
            said.append(str(e))
    return {"said": said}


@case
def checkpoint_wrapped(mesh):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = gpt()
    for block in model.blocks:
        for name, layer in list(block.named_children()):
            setattr(block, name, checkpoint_wrapper(layer))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        memopt.optimize(model, activation_budget="90%")
        unwatched(model)
    return {"told": [str(w.message) for w in told if "checkpoint wrappers" in str(w.message)]}


def main(names, to):
    torch.set_num_threads(1)
    ranks.PATIENCE = timedelta(seconds=30)
    dist.init_process_group("gloo", init_method=f"file://{to}/store", rank=int(os.environ["RANK"]), world_size=2, timeout=timedelta(seconds=60))
    mesh = init_device_mesh("cpu", (2,))
    found = {}
    for name in names or CASES:
        begun = time.process_time()
        try:
            found[name] = CASES[name](mesh)
        except Exception:
            found[name] = {"raised": traceback.format_exc()}
        found[name]["cpu_s"] = round(time.process_time() - begun, 2)
        with open(os.path.join(to, f"{dist.get_rank()}.json"), "w") as f:
            json.dump(found, f)
        if "raised" in found[name]:
            break  # the ranks are no longer in step
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[2:], sys.argv[1])
