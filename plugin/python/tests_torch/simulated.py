"""A device whose copies have happened only when they were waited for, which fails on what touches their memory before."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memopt.torch.elsewhere.away import Away
from memopt.torch.elsewhere.engine import Place
from memopt.torch.elsewhere.spill import whole


class InFlight(TorchDispatchMode):
    """Fails on whatever touches memory that a copy has not come to, or has not left."""

    def __init__(self, device):
        super().__init__()
        self.device = device

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for t in tree_leaves((args, kwargs or {})):
            if isinstance(t, torch.Tensor) and not isinstance(t, Away) and t.layout is torch.strided and func._schema.name not in ("aten::view", "aten::slice", "aten::as_strided", "aten::detach"):
                self.device.touched(t, func)
        return func(*args, **(kwargs or {}))


class Within(nn.Module):
    """A module that looks at its own forward pass."""

    def __init__(self, inner, device):
        super().__init__()
        self.inner, self.device = inner, device

    def forward(self, *given):
        with InFlight(self.device):
            return self.inner(*given)


class Simulated:
    """Between the device and tensors of the test."""

    block = 64
    exact = True

    def __init__(self):
        self.flying = []
        self.moved = self.most = 0

    def prepare(self, nbytes):
        self.room = nbytes

    def place(self, nbytes):
        return Place(nbytes, torch.full((whole(nbytes),), 0xA5, dtype=torch.uint8))

    def part(self, place, at, nbytes):
        return Place(nbytes, place.far[at : at + nbytes])

    def give_back(self, place):
        self.finish(place)

    def near(self, nbytes):
        return torch.full((nbytes,), 0xA5, dtype=torch.uint8)

    def begin(self, out, near, place, at):
        self.finish(place)  # in the order of the place's copies, as streams wait for each other's events
        copy = [out, near, place, at, False]
        self.flying.append(copy)
        self.most = max(self.most, len(self.flying))
        return copy

    def leave(self, near, place, at=0):
        return self.begin(True, near, place, at)

    def come(self, place, near, at=0):
        return self.begin(False, near, place, at)

    def wait(self, copy):
        out, near, place, at, done = copy
        if done:
            return
        far = place.far[at : at + near.nbytes]
        self.flying = [c for c in self.flying if c is not copy]
        (far if out else near).copy_(near if out else far)
        self.moved += near.nbytes
        copy[4] = True

    def finish(self, place):
        for flying in [c for c in self.flying if c[2] is place]:
            self.wait(flying)

    def look(self, place, at, nbytes):
        self.finish(place)
        return place.far[at : at + nbytes].clone()

    def touched(self, t, func):
        low = t.data_ptr()
        high = low + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) * t.element_size() + t.element_size() if t.numel() else low
        for out, near, *_ in self.flying:
            if low < near.data_ptr() + near.nbytes and near.data_ptr() < high and (not out or func._schema.is_mutable):
                raise AssertionError(f"{func} touches memory that is {'being copied out' if out else 'not there yet'}")
