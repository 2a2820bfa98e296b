"""A planned step runs again what its plan says, and nothing else."""

from __future__ import annotations

import sys
import unittest
from collections import Counter
from unittest import mock

import torch
from models import Block
from torch import nn

import memopt


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(16, 2, 0.1) for _ in range(8))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


class TestSchedule(unittest.TestCase):
    def test_runs_again(self):
        """At the lowest plan operators run several times for some of their results, while others of them are still held."""
        torch.set_num_threads(1)
        torch.manual_seed(0)
        model, x = Tiny(), torch.randn(2, 8, 16)
        with self.assertRaises(memopt.BudgetError) as floor:
            memopt.optimize(model, activation_budget=1, sample=x)
        for budget in (floor.exception.best, "75%", "85%"):
            with self.subTest(budget=budget):
                report = memopt.optimize(model, activation_budget=budget, sample=x)
                ops = report.recording.ops
                want = Counter(ops[s["node"]].name for s in report.plan.to_dict()["steps"] if s.get("again"))
                self.assertTrue(want)
                runs, loop = [], sys.modules["memopt.torch.loop.loop"]

                def noted(*args, runs=runs, step_of=loop.step_of):
                    runs.append(step_of(*args))
                    return runs[-1]

                model.zero_grad()
                with mock.patch.object(loop, "step_of", noted):
                    model(x).backward()
                (run,) = runs
                self.assertEqual(Counter(run.ran), want)


if __name__ == "__main__":
    unittest.main()
