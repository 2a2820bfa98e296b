"""A GPT on two ranks within a budget: parameters sharded over them (FSDP2), or whole on each (DistributedDataParallel).

    torchrun --standalone --nproc-per-node 2 examples/torchrun.py
    torchrun --standalone --nproc-per-node 2 examples/torchrun.py --ddp

Needs memopt and PyTorch. Runs on a processor in seconds; the losses are those of plain training, bit for bit. Rank 0 plans
for all, and writes.
"""

import sys

import torch
import torch.distributed as dist
from gpt_half_memory import GPT
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import memopt


def parallel(model: torch.nn.Module, ddp: bool) -> torch.nn.Module:
    if ddp:
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:  # whole blocks: what passes between units is kept
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(ddp: bool, budget: str | None, steps: int = 6) -> list[float]:
    torch.manual_seed(0)
    model = parallel(GPT(), ddp)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())  # each rank has a batch of its own
    text = torch.randint(0, 256, (8, 129)) // 4
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    if budget is not None:
        memopt.optimize(model, budget=budget, optimizer=optimizer, verbose=False)  # the one line

    losses = []
    for _ in range(steps):  # the first step is recorded; the plan holds from the second on
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())

    if budget is not None and dist.get_rank() == 0:
        report, size = memopt.torch.report(model), 2**20
        print(f"eager     {report.eager_peak / size:7.2f} MiB, {report.fixed / size:.2f} of them parameters, buckets and optimizer states")
        print(f"budget    {report.eager_peak * float(budget[:-1]) / 100 / size:7.2f} MiB")
        print(f"promised  {report.promised_peak / size:7.2f} MiB, for {report.overhead:.1%} more compute")
        print(f"measured  {report.measured_peak / size:7.2f} MiB")
    return losses


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ddp = "--ddp" in sys.argv[1:]
    plain, planned = train(ddp, None), train(ddp, "60%")
    assert planned == plain, (planned, plain)
    if dist.get_rank() == 0:
        print("losses   ", *(f"{loss:.4f}" for loss in planned))
        print("the same as without a plan, bit for bit")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
