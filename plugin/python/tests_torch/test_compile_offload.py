"""Values of compiled graphs elsewhere: the bits of the compiled step, the promised bytes, and nothing left behind."""

from __future__ import annotations

import copy
import gc
import unittest
from unittest import mock

import torch
from simulated import Simulated
from test_compile import Stack
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch.compile import moved
from memopt.torch.compile.backend import compiler_for
from memopt.torch.elsewhere.engine import Place
from memopt.torch.elsewhere.spill import SpillError, whole


class Blocks(nn.Module):
    """Views, dropout and a residual stream."""

    def __init__(self, layers=5, width=128, dropout=0.1):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.back = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for layer, back in zip(self.layers, self.back, strict=True):
            a, b = layer(x).chunk(2, -1)
            x = x + self.dropout(back(a.sigmoid() * b.tanh()))
        return F.layer_norm(x, x.shape[-1:]).square().mean()


class Broken(Blocks):
    def forward(self, x):
        x = x + self.back[0](self.layers[0](x).chunk(2, -1)[0])
        torch._dynamo.graph_break()
        return super().forward(x)


class Beside(Simulated):
    """With its far side outside of PyTorch's memory, which is measured."""

    def place(self, nbytes):
        return Place(nbytes, torch.frombuffer(bytearray(whole(nbytes)), dtype=torch.uint8))


class CompileOffload(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(1024, 128)

    def gradients(self, model):
        model.zero_grad()
        torch.manual_seed(3)
        model(self.x).backward()
        return [p.grad.clone() for p in model.parameters()]

    def planned(self, model, engine=None, mode="aot_eager", **given):
        with mock.patch("memopt.torch.compile.compiled.engine_of", lambda *_: engine) if engine is not None else mock.patch.dict({}):
            return memopt.optimize(model, sample=self.x, mode=mode, offload="disk", verbose=False, **given)

    def test_bits(self):
        """Promised is measured, below what is left without moves, with the bits of eager mode, whatever is drawn."""
        model = Blocks()
        want = self.gradients(model)
        whole = memopt.optimize(copy.deepcopy(model), activation_budget="100%", sample=self.x, mode="aot_eager", verbose=False).measured_peak
        for share in (0.7, 0.5, 0.4):
            m = copy.deepcopy(model)
            report = self.planned(m, activation_budget=int(share * whole))
            self.assertRegex(report.moved, r"^\d+ values, .* go to the disk and back")
            self.assertLessEqual(report.measured_peak, share * whole)
            self.assertLessEqual(report.measured_peak, report.promised_peak)
            self.assertLess(report.promised_peak - report.measured_peak, 4096)
            self.assertEqual(report.difference, 0)
            alone = memopt.optimize(copy.deepcopy(model), activation_budget=int(share * whole), sample=self.x, mode="aot_eager", verbose=False)
            self.assertLess(report.overhead, alone.overhead)
            for _ in range(3):
                self.assertTrue(all(map(torch.equal, self.gradients(m), want)))
            self.assertEqual(moved._trips, {})

    def test_order(self):
        """Bits are there only once they were waited for, on a device that copies when it is waited for."""
        model = Blocks()
        want = self.gradients(model)
        device = Beside()
        self.planned(model, device, activation_budget="55%")
        self.assertTrue(all(map(torch.equal, self.gradients(model), want)))
        self.assertGreater(device.moved, 0)
        self.assertGreater(device.most, 1)
        self.assertEqual(device.flying, [])

    def test_inductor(self):
        if compiler_for([self.x]) is not None:
            self.skipTest("Inductor has no compiler here")
        model = Blocks(layers=3, dropout=0.0)
        want = self.gradients(model)
        report = self.planned(model, mode="compile", activation_budget="60%")
        self.assertEqual(report.form, "inductor")
        self.assertRegex(report.moved, "go to the disk and back")
        self.assertLessEqual(report.measured_peak, 0.6 * report.eager_peak)
        for got, w in zip(self.gradients(model), want, strict=True):
            torch.testing.assert_close(got, w)

    def test_within_another(self):
        """Inductor writes what is concatenated into one buffer: a value that lies behind another in it comes back with its own bytes."""
        if compiler_for([self.x]) is not None:
            self.skipTest("Inductor has no compiler here")

        class Joined(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.dim = dim
                self.wide, self.back = (nn.ModuleList(nn.Linear(*size) for _ in range(3)) for size in ((128, 256), (256 * (1 + dim), 128)))

            def forward(self, x):
                sums = 0
                for wide, back in zip(self.wide, self.back, strict=True):
                    h = wide(x).tanh()
                    y = torch.cat([h * 1.5, h], self.dim)
                    x = back(y)[: len(x)].sin()
                    sums = sums + y.square().mean()
                return sums + x.square().mean()

        for dim in (0, 1):
            torch._dynamo.reset()
            model = Joined(dim)
            want = self.gradients(model)
            report = self.planned(model, mode="compile", activation_budget="55%")
            self.assertEqual(report.form, "inductor")
            self.assertRegex(report.moved, "go to the disk and back")
            for got, w in zip(self.gradients(model), want, strict=True):
                torch.testing.assert_close(got, w)

    def test_given_up(self):
        """A step without its backward pass, and one whose results are kept for later, leave nothing behind."""
        model = Blocks()
        device = Beside()
        self.planned(model, device, activation_budget="50%")
        first = model(self.x)
        second = model(self.x)
        self.assertGreater(len(moved._trips), 0)
        del first
        gc.collect()
        second.backward()
        del second
        gc.collect()
        self.assertEqual(moved._trips, {})
        self.assertEqual(device.flying, [])

    def test_full_disk(self):
        with mock.patch("memopt.torch.elsewhere.spill._left", lambda place: 4096), self.assertRaisesRegex(SpillError, "where 4,096 B are free"):
            self.planned(Blocks(), activation_budget="50%")

    def test_refused(self):
        with self.assertRaisesRegex(TypeError, "give offload="):
            memopt.optimize(Blocks(), activation_budget="60%", mode="aot_eager", host_budget="1GB")
        with self.assertRaisesRegex(ValueError, "give 'disk'"):
            memopt.optimize(Blocks(), activation_budget="60%", mode="aot_eager", offload="host")

    def test_several_graphs(self):
        """Values of each graph move, within the promise for the step as a whole, also where one graph is called several times."""
        for model, graphs in ((Broken(), 2), (Stack("within", width=128), 4)):
            torch._dynamo.reset()
            want = self.gradients(model)
            device = Beside()
            report = self.planned(model, device, activation_budget="60%")
            self.assertEqual(report.graphs, graphs)
            self.assertRegex(report.moved, "go to the disk and back")
            self.assertLessEqual(report.measured_peak, report.promised_peak)
            self.assertGreater(report.measured_peak, 0.9 * report.promised_peak)  # what would come while another graph runs comes behind it
            for _ in range(2):
                self.assertTrue(all(map(torch.equal, self.gradients(model), want)))
            self.assertGreater(device.moved, 0)
            self.assertEqual((device.flying, moved._trips), ([], {}))


if __name__ == "__main__":
    unittest.main()
