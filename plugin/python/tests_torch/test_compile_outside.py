"""Compiled modules whose loss is outside, without a sample: the first training step is what they are planned by."""

from __future__ import annotations

import contextlib
import copy
import unittest

import torch
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch import report as report_of
from memopt.torch.record.measure import watched


def net(classes=100):
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())), nn.Linear(64, classes))


class TestOutside(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch._dynamo.reset()

    def loop(self, model, plain, sizes, share, outputs=lambda out: out, within=0.0):
        peak = 0
        for step, n in enumerate(sizes):
            torch.manual_seed(step)
            x, y = torch.randn(n, 64), torch.randint(0, 100, (n,))
            losses = []
            for m in (model, plain):
                m.zero_grad()
                with watched() if m is model and step == len(sizes) - 1 else contextlib.nullcontext() as watch:
                    loss = F.cross_entropy(outputs(m(x)), y)
                    loss.backward()
                losses.append(loss.detach())
                peak = watch.peak if watch else peak
            torch.testing.assert_close(*losses, rtol=within, atol=within)
            for a, b in zip(model.parameters(), plain.parameters(), strict=True):
                torch.testing.assert_close(a.grad, b.grad, rtol=within, atol=within)
        found = report_of(model)
        self.assertLessEqual(found.promised_peak, share * found.eager_peak)
        return found, peak

    def test_first_step(self):
        model, plain = net(), net()
        memopt.optimize(model, activation_budget="75%", mode="aot_eager")
        found, peak = self.loop(model, plain, [512] * 4, 0.75)
        self.assertLessEqual(peak, found.promised_peak * 1.01 + 65536, "the loss counts")
        memopt.restore(model)
        self.assertNotIn("forward", model.__dict__)

    def test_compiled_before(self):
        """m.compile(), then optimize(m), as people write it."""
        model, plain = net(), net()
        model.compile(backend="aot_eager")
        memopt.optimize(model, activation_budget="85%")
        self.assertIsNone(report_of(model))
        self.loop(model, plain, [256] * 3, 0.85, within=1e-5)  # Inductor's kernels round in their own way

    def test_offers(self):
        """What would lower the floor of an eager step is not offered: mode='aot_eager' refuses it."""
        x, y = torch.randn(256, 64), torch.randint(0, 4000, (256,))
        given = {"sample": x, "loss": lambda out: F.cross_entropy(out, y), "mode": "aot_eager"}
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(net(4000), activation_budget="30%", **given)
        self.assertNotRegex(str(caught.exception), "loss_chunks|optimizer_in_backward")
        report = memopt.optimize(net(4000), activation_budget=caught.exception.best, loss_chunks=1, **given)
        self.assertNotRegex(str(report), "loss_chunks|optimizer_in_backward")
        with self.assertRaisesRegex(TypeError, "mode='eager'"):
            memopt.optimize(net(), loss_chunks=2, **given)

    def test_shapes(self):
        model, plain = net(), net()
        memopt.optimize(model, activation_budget="80%", mode="aot_eager")
        self.loop(model, plain, [256, 256, 128, 256, 128, 128], 0.8)

    def test_no_backward_pass(self):
        """A first forward pass that nobody goes back from tells nothing, and leaves no profiler behind."""
        model, plain = net(), net()
        memopt.optimize(model, activation_budget="80%", mode="aot_eager")
        model(torch.randn(256, 64))
        with torch.profiler.profile():  # somebody else's
            model(torch.randn(256, 64)).sum().backward()
        self.loop(model, plain, [256] * 3, 0.8)

    def test_several_results(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.aux = net(), nn.Linear(64, 100)

            def forward(self, x):
                return {"scores": self.body(x), "aux": self.aux(x), "hint": x.sum()}

        torch.manual_seed(0)
        model = Two()
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="85%", mode="aot_eager")
        self.loop(model, plain, [256] * 3, 0.85, lambda out: out["scores"] + out["aux"])


if __name__ == "__main__":
    unittest.main()
