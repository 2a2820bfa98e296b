"""What the tests of memopt.Module share."""

from __future__ import annotations

import copy
import unittest
import warnings

import torch
from torch import nn

import memopt


class Function(nn.Module):
    """A module of a function and its parts."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            (self.register_buffer if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter) else self.__setattr__)(name, part)
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


class Served(unittest.TestCase):
    """Holds a module in the service against the same module in PyTorch."""

    def setUp(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        warnings.simplefilter("error", UserWarning)  # a module that falls back says so
        self.addCleanup(warnings.simplefilter, "ignore")

    def pair(self, model, loss=None, **settings):
        """A module in the service, and a copy that is not."""
        model.train()
        plain = copy.deepcopy(model)
        served = memopt.Module(model, loss, **{"device": "cpu", "fallback": "raise"} | settings)
        self.addCleanup(served.close)
        return served, plain

    def assert_gradients(self, served, plain, within=1e-4):
        """Every gradient, by its norm; those that are rounding errors alone by the largest."""
        largest = max(p.grad.norm() for p in plain.parameters() if p.grad is not None)
        for (name, got), (other, want) in zip(served.named_parameters(), plain.named_parameters(), strict=True):
            self.assertEqual(name, other)
            self.assertEqual(got.grad is None, want.grad is None, name)
            if want.grad is not None:
                off = (got.grad - want.grad).norm() / max(want.grad.norm(), 1e-3 * largest)
                self.assertLess(off, within, name)

    def assert_buffers(self, served, plain, within=1e-5):
        for (name, got), (_, want) in zip(served.named_buffers(), plain.named_buffers(), strict=True):
            torch.testing.assert_close(got, want, rtol=within, atol=within, msg=name)

    def train(self, served, plain, batches, loss, within=1e-3, rate=1e-3):
        """Steps of both, with losses that agree in each and gradients that do in the first."""
        optimizers = [torch.optim.AdamW(m.parameters(), rate) for m in (served, plain)]
        for i, batch in enumerate(batches):
            found = []
            for model, optimizer in zip((served, plain), optimizers, strict=True):
                optimizer.zero_grad()
                found.append(loss(model, *batch))
                found[-1].backward()
            self.assertLess(abs(found[0].item() - found[1].item()), within * max(1, abs(found[1].item())), f"step {i}")
            if i == 0:
                self.assert_gradients(served, plain)
            for optimizer in optimizers:
                optimizer.step()
        self.assertEqual(served.report.steps, len(batches))
