"""Recording where eager mode does not fit: the same graph and the same bits, with less held."""

from __future__ import annotations

import copy
import gc
import unittest
from unittest import mock

import torch
from models import families
from test_optimize import Case, Wide, step
from torch import nn

import memopt
from memopt.torch import report
from memopt.torch.record import events
from memopt.torch.record.measure import highest, marked
from memopt.torch.record.operators import BACKWARD, FORWARD
from memopt.torch.record.record import record_call


class TestWithin(Case):
    def record(self, model, args, loss, limit):
        """A recording, and what it took itself, second runs and all."""
        taken = []
        gc.collect()
        events_of = events.events_of

        def watched(*args):
            found, spans = events_of(*args)
            taken.append(highest(found, (marked(spans, FORWARD)[0][0], marked(spans, BACKWARD)[0][1])))
            return found, spans

        with mock.patch.object(events, "events_of", watched):
            return record_call(model, lambda around: around(lambda: model(*args)), loss, limit), taken[0]

    def test_families(self):
        for name, (model, args, loss) in families().items():
            with self.subTest(model=name):
                whole, _ = self.record(model, args, loss, None)
                within, _ = self.record(model, args, loss, 0)
                self.assertEqual(whole.digests, within.digests)
                self.assertLessEqual(abs(whole.measured_peak - within.measured_peak), 4096)
                self.assertEqual(whole.graph["outputs"], within.graph["outputs"])
                for a, b in zip(whole.graph["nodes"], within.graph["nodes"], strict=True):
                    self.assertEqual((a["name"], a["inputs"]), (b["name"], b["inputs"]))

    def test_holds_less(self):
        """Deep models are recorded in a part of what they take."""
        from models import GPT

        model, tokens = GPT(layers=12), torch.randint(0, 50, (4, 64))
        whole, took = self.record(model, (tokens, tokens), None, None)
        within, less = self.record(model, (tokens, tokens), None, 0)
        self.assertEqual(whole.digests, within.digests)
        self.assertLess(less, 0.65 * took)

    def test_first_step(self):
        """The first step of training stays below a budget given in bytes, where whole blocks allow it, and has eager mode's bits."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget=3 * 2**20)
        for _ in range(3):
            self.same(step(model, args), step(plain, args))
        self.assertLessEqual(report(model).promised_peak, 3 * 2**20)

    def test_written_before_it_is_made_again(self):
        """What reads a value that is overwritten later is made again before it is."""

        class Writes(nn.Module):
            def forward(self, x):
                y = x * 2
                z = torch.sigmoid(y)
                y.mul_(3)
                return torch.tanh(y) * z * torch.sin(z)

        model = Wide(nn.Sequential(Writes(), Writes()))
        args = (torch.randn(256, 64),)
        whole, _ = self.record(model, args, None, None)
        within, _ = self.record(model, args, None, 0)
        self.assertEqual(whole.digests, within.digests)

    def test_random_and_gone(self):
        """A random result that nobody holds when values begin to be dropped: what was made from it is kept."""

        class Adapter(nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen = nn.Linear(64, 64).requires_grad_(False)
                self.a, self.b = nn.Linear(64, 4, bias=False), nn.Linear(4, 64, bias=False)

            def forward(self, x):
                noise = torch.empty_like(x).bernoulli_(0.9)
                return self.frozen(x) + self.b(self.a(x * noise))

        model, args = nn.Sequential(*(Adapter() for _ in range(3))), (torch.randn(256, 64),)
        whole, took = self.record(model, args, lambda out: out.square().mean(), None)
        for limit in range(0, took, took // 8):  # from the first operator on, and later
            within, _ = self.record(model, args, lambda out: out.square().mean(), limit)
            self.assertEqual(whole.digests, within.digests)

    def test_in_place_after_saving(self):
        """A recorded step too raises where a saved tensor was modified."""

        class Spoils(nn.Module):
            def forward(self, x):
                y = torch.sigmoid(x * 2)
                z = torch.sigmoid(y * y)
                y.mul_(2)
                return z

        model, args = Wide(Spoils()), (torch.randn(256, 64),)
        for limit in (None, 0):
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                self.record(model, args, None, limit)


if __name__ == "__main__":
    unittest.main()
