"""Bytes: memory of a module outside a step's peak, free memory of a device, and what a budget leaves for a step."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from ..._arguments import Size
from ..elsewhere.away import Away
from ..lower.states import moved
from ..lower.steps import slots
from ..ranks.units import units_of
from ..record.measure import device_of
from ..step.given import is_share, parse
from ..step.tensors import local
from ..step.wrapped import inner_optimizers


class Fixed(NamedTuple):
    """The memory of a training run outside the peak of a step."""

    bytes: int  # parameters, buffers and optimizer states
    to_come: int  # states that the optimizer has not made yet


def fixed_bytes(model: torch.nn.Module, optimizer: Any) -> Fixed:
    """Parameters and buffers, each storage once, and the states of the optimizer, or of several, that are on the device."""
    shards = [t for unit in units_of(model) for t in unit.shards]  # also of those whose parameters are whole
    storages = [local(t).untyped_storage() for t in [*model.parameters(), *model.buffers(), *shards]]
    held = {s.data_ptr(): s.nbytes() for s in storages}
    states = state_bytes(optimizer)
    return Fixed(sum(held.values()) + states.bytes, states.to_come)


def state_bytes(optimizer: Any) -> Fixed:
    """The states of an optimizer, or of several, that are on the device or will be."""
    there = to_come = 0
    for one in inner_optimizers(optimizer):
        away = moved(one)
        if away is not None and one is away.optimizers[0]:
            there, to_come = (there + away.held, to_come) if one.state else (there, to_come + away.held)
        for group in one.param_groups:
            for p in group["params"]:
                made = one.state.get(p)
                if made:
                    there += sum(local(s).untyped_storage().nbytes() for s in made.values() if isinstance(s, torch.Tensor) and not isinstance(s, Away))
                elif p.requires_grad and (away is None or p in away.stays):
                    to_come += slots(one, group) * local(p).nbytes
    return Fixed(there + to_come, to_come)


def growth(model: torch.nn.Module, fixed: Fixed, eager: int | None, *, budget: Size | None, activation_budget: Size | None, reserve: Size) -> int | None:
    """The bytes that a step may take beyond those in use before it; None if unlimited, or a share of an unknown total."""
    if eager is None and (is_share(budget) or is_share(activation_budget)):
        return None
    if activation_budget is not None:
        return parse("activation_budget", activation_budget, eager or 0)
    if budget == "auto":
        return free_bytes(model, reserve) - fixed.to_come
    if budget is not None:
        return parse("budget", budget, (eager or 0) + fixed.bytes) - fixed.bytes
    return None


def free_bytes(model: torch.nn.Module, reserve: Size | None) -> int:
    """Free memory of the module's device, less the reserve, if any; on a CPU the lesser of the machine's and the cgroup's."""
    device = device_of(model)
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    else:
        free, total = _machine()
    return free if reserve is None else free - parse("reserve", reserve, total, zero=True)


def host_memory() -> int:
    """The memory of the machine, or of the cgroup."""
    return _machine()[1]


def _machine() -> tuple[int, int]:
    """Free and total memory of the machine, or of the cgroup; half of it counts as free if the system does not say."""
    fields = {}
    try:
        with open("/proc/meminfo") as f:
            for line in f:
                name, _, rest = line.partition(":")
                fields[name] = int(rest.split()[0]) * 1024
        free, total = fields["MemAvailable"], fields["MemTotal"]
    except (OSError, KeyError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = total // 2
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit) as f, open(used) as g:
                most = f.read().strip()
                if most != "max" and int(most) < total:
                    total = int(most)
                    free = min(free, total - int(g.read()))
        except (OSError, ValueError):
            continue
    return free, total
