"""The measured peak of steps that train."""

from __future__ import annotations

import gc

import torch
from models import families
from test_optimize import Case, step

import memopt
from memopt.torch.record.measure import highest


class TestMeasuring(Case):
    def planned(self, name="gpt"):
        model, args, loss = families()[name]
        memopt.optimize(model, activation_budget="85%")
        return model, args, loss

    def test_filled(self):
        """Once the values are checked a step is measured, and the profiler is off again."""
        model, args, loss = self.planned()
        for _ in range(3):
            step(model, args, loss)
            self.assertIsNone(memopt.torch.report(model).measured_peak)
        step(model, args, loss)
        report = memopt.torch.report(model)
        self.assertGreater(report.measured_peak, 0.8 * report.promised_peak)
        self.assertLessEqual(report.measured_peak, report.promised_peak + 0.001 * report.promised_peak + 64 * 1024)
        self.assertFalse(torch.autograd._profiler_enabled())
        self.assertIn("measured", str(report))

    def test_blocks_from_before(self):
        """A block from before a step counts neither while it lives nor when it is freed: an allocator may or may not know its size."""
        within = [(1, 0xA, 100), (2, 0xB, 30), (3, 0xA, -100), (4, 0xA, 60)]
        self.assertEqual(highest(within, (0, 9)), 130)
        self.assertEqual(highest([(1, 0xC, -500), *within], (0, 9)), 130)
        self.assertEqual(highest([(0, 0xC, 500), *within], (1, 9)), 130)
        self.assertEqual(highest(within, (3, 9)), 60)

    def test_no_backward(self):
        """A forward pass without a backward pass measures nothing; the next does."""
        model, args, loss = self.planned()
        for _ in range(3):
            step(model, args, loss)
        step(model, args, loss, backward=False)
        gc.collect()
        self.assertIsNone(memopt.torch.report(model).measured_peak)
        step(model, args, loss)
        self.assertIsNotNone(memopt.torch.report(model).measured_peak)
        self.assertFalse(torch.autograd._profiler_enabled())

    def test_profiler_of_the_user(self):
        model, args, loss = self.planned()
        for _ in range(3):
            step(model, args, loss)
        with torch.profiler.profile() as profile:
            step(model, args, loss)
        self.assertIsNone(memopt.torch.report(model).measured_peak)
        self.assertGreater(len(profile.events()), 0)
        step(model, args, loss)
        self.assertIsNotNone(memopt.torch.report(model).measured_peak)

    def test_exception(self):
        model, args, loss = self.planned()
        for _ in range(3):
            step(model, args, loss)
        handle = model.head.register_forward_pre_hook(lambda *_: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            step(model, args, loss)
        handle.remove()
        self.assertFalse(torch.autograd._profiler_enabled())
        step(model, args, loss)
        self.assertIsNotNone(memopt.torch.report(model).measured_peak)
