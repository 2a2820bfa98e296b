"""memopt.optimize on the models that people train: the budget holds and the bits are those of eager mode, on every one."""

from __future__ import annotations

import os
import sys
import unittest

import torch

import memopt
from memopt.torch.record.measure import digests, watched

sys.path.append(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "memopt", "lab", "bench", "torch"))
from families import SMALL, build  # noqa: E402


def step(family):
    """The peak of a step from the same random state, and digests of all that it made."""
    model, inputs, loss = family
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    with watched() as watch:
        found = loss(model(**inputs)) if loss is not None else model(**inputs).loss  # the results are let go of, as in the sample
        found.backward()
    return watch.peak, digests(model, found) | {"the random state": str(hash(tuple(torch.get_rng_state().tolist())))}


class TestFamilies(unittest.TestCase):
    def check(self, name):
        torch.set_num_threads(1)
        family = build(name)
        model, inputs, loss = family
        state = {k: v.clone() for k, v in model.state_dict().items()}
        eager, want = step(family)
        for share in ("60%", "1%"):
            with self.subTest(budget=share):
                model.load_state_dict(state)
                try:
                    report = memopt.optimize(model, activation_budget=share, sample=inputs, loss=loss, loss_chunks=1, verbose=False)
                except memopt.BudgetError as e:
                    report = memopt.optimize(model, activation_budget=e.best, sample=inputs, loss=loss, loss_chunks=1, verbose=False)
                    self.assertLessEqual(report.promised_peak, e.best)
                else:
                    self.assertLessEqual(report.promised_peak, float(share[:-1]) / 100 * report.eager_peak)
                peak, got = step(family)
                self.assertEqual(got, want)
                slack = 0.001 * report.promised_peak + 64 * 1024
                self.assertLessEqual(peak, report.promised_peak + slack)
                self.assertLess(peak, eager)
                self.assertGreater(report.plan.result.recomputed_nodes, 0)
                memopt.restore(model)


def _of(name):
    return lambda self: self.check(name)


for _name in SMALL:
    setattr(TestFamilies, f"test_{_name}", _of(_name))
