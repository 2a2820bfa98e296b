"""The time of what ranks send each other, by the bandwidth of a device's links.

Ranks are numbered as torchtitan does: tensor-parallel ranks are neighbours, data-parallel ranks come next, a pipeline's are the farthest.
Gathers and reductions of shards run beside the passes, as FSDP2 and DDP have them; those of tensor-parallel ranks and experts are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

from .devices import Device
from .request import Request

GOOD = 0.8  # of a link's bandwidth that collectives reach, about


@dataclass(frozen=True)
class Sent:
    """The time of communication in a step, in nanoseconds, and how much of it nothing hides."""

    gathers: float = 0.0
    reductions: float = 0.0
    tensor: float = 0.0
    experts: float = 0.0
    stages: float = 0.0  # of one message between stages
    waited: float = 0.0  # of a whole step, but for messages between stages, which are in its schedule

    @property
    def any(self) -> bool:
        return self.gathers + self.reductions + self.tensor + self.experts + self.stages > 0


@dataclass(frozen=True)
class Moves:
    """The bytes of a pass of one rank that go to others."""

    gathered: int = 0  # parameters, whole, in each gather
    gathers: int = 0  # in a pass: forward, and backward again
    units: int = 1
    reduced: int = 0  # gradients, whole
    whole: bool = False  # every rank has all of them then
    once: bool = False  # they are reduced in the last pass of a step
    layers: int = 0
    row: int = 0  # bytes of a layer's input, whole
    again: bool = False  # the forward pass runs twice
    routed: int = 0  # bytes of rows that go to experts, in one layer
    edge: int = 0  # from stage to stage


def bandwidth(device: Device, ranks: int, stride: int) -> float:
    """Bytes per nanosecond that each of some ranks sends in a ring; stride ranks lie between neighbours."""
    near = max(1, min(ranks, device.node // stride))  # of them in a node
    if near == ranks:
        return device.inside * GOOD
    return min(device.inside, near * device.between) * GOOD


def sent(request: Request, device: Device, moves: Moves, forward: float, backward: float) -> Sent:
    """The time of communication; forward and backward is that of a pass, which hides some of it."""
    if request.ranks == 1 or not device.inside:
        return Sent()
    n, t = request.replicas, request.tensor
    gathers = reductions = waited = 0.0
    if n > 1:
        speed = bandwidth(device, n, t)
        share = (n - 1) / n
        gather, reduce = share * moves.gathered / speed, (2 if moves.whole else 1) * share * moves.reduced / speed
        before = max(0.0, (gather if moves.gathers else 0.0) - forward)
        after = max(0.0, (gather if moves.gathers > 1 else 0.0) + reduce - backward)
        one = (gather * bool(moves.gathers) + reduce) / max(1, moves.units)  # the first gather and the last reduction
        turns = 1 if moves.once else request.passes
        gathers, reductions = gather * moves.gathers * request.passes, reduce * turns
        waited = (before + after + one) * turns
    tensor = experts = 0.0
    if t > 1:
        times = (12 if moves.again else 8) * moves.layers  # two gathers and two reductions forward, and as many backward
        tensor = times * (t - 1) / t * moves.row / bandwidth(device, t, 1) * request.passes
    if request.expert > 1:
        e = request.expert
        times = (6 if moves.again else 4) * moves.layers  # there and back, forward and backward
        experts = times * (e - 1) / e * moves.routed * request.imbalance / bandwidth(device, e, t) * request.passes
    stages = moves.edge / bandwidth(device, request.pipeline, t * n) if request.pipeline > 1 else 0.0
    return Sent(gathers, reductions, tensor, experts, stages, waited + tensor + experts)
