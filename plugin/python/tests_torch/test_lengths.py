"""Loops whose lengths and batches vary: one program, recorded twice or thrice, whose promise holds at sizes that were never recorded."""

from __future__ import annotations

import copy
import json
import os
import random
import tempfile
import unittest
from unittest import mock

import torch
from models import GPT, Llama
from test_optimize import Case
from test_sizes import causal, record, tokens

import memopt
from memopt.torch import report
from memopt.torch.loop import loop as loops
from memopt.torch.loop.lengths import Family
from memopt.torch.plan import disk, plans
from memopt.torch.record.measure import watched


def step(model, batch, zero=True):
    """A step of training: its loss and its gradients."""
    if zero:
        model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    out = model(**batch) if isinstance(batch, dict) else model(*batch)
    out = out if isinstance(out, torch.Tensor) else out.loss
    out.backward()
    return out.item(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def peak_of(model, batch):
    """How many bytes a step takes. A profiler keeps a step from being recorded whole, so it is run behind one without."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    with watched() as measured:
        out = model(**batch) if isinstance(batch, dict) else model(*batch)
        out = out if isinstance(out, torch.Tensor) else out.loss
        out.backward()
    return measured.peak


class Lengths(Case):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())  # nothing is known from other tests
        self.enterContext(mock.patch.dict(os.environ, MEMOPT_PLANS=self.folder))
        self.recorded = []
        begins = loops.Loop._recording

        def noted(loop, key, shape):
            self.recorded.append(shape.sizes)
            return begins(loop, key, shape)

        self.enterContext(mock.patch.object(loops.Loop, "_recording", noted))
        self.left = []
        leaves = loops.Loop._left

        def left(loop, running, why):
            self.left.append(why)
            return leaves(loop, running, why)

        self.enterContext(mock.patch.object(loops.Loop, "_left", left))

    def steps(self, model, batches):
        """Steps with a plan and without, side by side: the same bits; where nothing was recorded, what was promised was taken. How many those are."""
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="70%", verbose=False)
        found = 0
        for batch in batches:
            want, before = step(plain, batch), (len(self.recorded), len(self.left))
            self.same_step(step(model, batch), want)
            if (len(self.recorded), len(self.left)) != before or report(model).plan is None:
                continue
            peak, made = peak_of(model, batch), report(model)
            self.assertEqual(len(self.recorded), before[0])
            self.assertAlmostEqual(made.promised_peak, peak, delta=peak // 1000 + 512)
            self.assertAlmostEqual(made.eager_peak, peak_of(plain, batch), delta=made.eager_peak // 1000 + 512)
            found += 1
        return found

    def same_step(self, got, want):
        self.assertEqual(got[0], want[0])
        self.assertTrue(all(map(torch.equal, got[1], want[1])))

    def test_lengths(self):
        """Forty steps of as many lengths are recorded twice or thrice, and each promise is kept."""
        for model in (GPT(rows=256, layers=2), Llama(layers=2)):
            with self.subTest(type(model).__name__):
                self.recorded.clear()
                lengths = random.Random(1).sample(range(48, 128), 40)
                found = self.steps(model, (tokens(4, n) for n in lengths))
                self.assertLessEqual(len(self.recorded), 3)
                self.assertGreaterEqual(found, 30)

    def test_last_batch(self):
        """The short last batch of an epoch is recorded once; a batch of another size is not."""
        model = Llama(layers=2)
        batches = [tokens(b, n) for n, b in ((64, 8), (80, 8), (100, 8), (64, 8), (72, 3), (64, 8), (90, 5), (70, 2), (64, 3))]
        self.steps(model, batches)
        self.assertLessEqual(len(self.recorded), 4)
        self.assertIn(3, {sizes[0] for sizes in self.recorded})

    def test_report_of_a_short_batch(self):
        """Behind the short last batch of an epoch the report is that batch's, with what the largest step took."""
        model = Llama(layers=2)
        memopt.optimize(model, activation_budget="70%", verbose=False)
        for b in (8, 8, 8, 8, 8, 3):
            step(model, tokens(b, 64))
        last = report(model)
        self.assertIsNone(last.measured_peak)
        self.assertGreater(last.largest.promised_peak, 2 * last.promised_peak)
        self.assertAlmostEqual(last.largest.measured_peak, last.largest.promised_peak, delta=last.largest.promised_peak // 1000 + 512)
        self.assertIn("the largest step that was measured: ", str(last))
        self.assertEqual(last.to_dict()["largest"]["measured_peak"], last.largest.measured_peak)
        step(model, tokens(8, 64))
        self.assertIsNone(report(model).largest)

    def test_as_it_is(self):
        """A step below the budget runs untouched, and needs neither a plan nor a recording."""
        model = Llama(layers=2)
        plain = copy.deepcopy(model)
        eager = peak_of(plain, tokens(4, 96))
        memopt.optimize(model, activation_budget=eager * 8 // 10, verbose=False)
        for n in (96, 80, 100, 40, 48, 56):
            batch = tokens(4, n)
            self.same_step(step(model, batch), step(plain, batch))
            if n < 60:
                self.assertIsNone(report(model).plan)
                self.assertEqual(peak_of(model, batch), peak_of(plain, batch))
        self.assertLessEqual(len(self.recorded), 3)

    def test_budget_of_bytes(self):
        """No length passes a budget of bytes, whichever length its plan was made for."""
        model = Llama(layers=2)
        eager = peak_of(copy.deepcopy(model), tokens(4, 120))
        limit = eager * 6 // 10
        memopt.optimize(model, activation_budget=limit, verbose=False)
        for n in (*(110, 120, 90), *random.Random(2).sample(range(40, 121), 25)):
            batch, before = tokens(4, n), len(self.recorded)
            step(model, batch)
            if len(self.recorded) == before:
                self.assertLessEqual(peak_of(model, batch), limit + limit // 1000)
        self.assertLessEqual(len(self.recorded), 3)

    def test_padded(self):
        """With a mask and without, a model runs two programs; which one a step is, is seen as it runs."""
        import transformers as t

        torch.manual_seed(0)
        model = t.LlamaForCausalLM(t.LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4))
        chance = random.Random(4)
        lengths = [chance.randrange(48, 120) for _ in range(40)]
        found = self.steps(model, [causal(4, n, pad=i % 2 == 0) for i, n in enumerate(lengths)])
        self.assertLessEqual(len(self.recorded), 8)
        self.assertGreaterEqual(found, 25)

    def test_accumulating(self):
        """Steps that add to gradients have the same program."""
        model = Llama(layers=2)
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="80%", verbose=False)
        for i, n in enumerate((100, 80, 64, 90, 70, 110, 77, 85)):
            batch = tokens(4, n)
            self.same_step(step(model, batch, i % 4 == 0), step(plain, batch, i % 4 == 0))
        self.assertLessEqual(len(self.recorded), 4)

    def test_sample(self):
        """What a sample recorded is the first of the program's recordings."""
        model = Llama(layers=2)
        memopt.optimize(model, activation_budget="70%", sample=tokens(4, 64), verbose=False)
        for n in (80, 100, 72, 90):
            step(model, tokens(4, n))
        self.assertLessEqual(len(self.recorded), 2)

    def test_dropped_while_recorded(self):
        """A step that drops tensors while it is recorded, since it would pass the budget, is the same program as one that does not."""
        model = Llama(layers=2)
        limit = peak_of(copy.deepcopy(model), tokens(4, 120)) * 6 // 10
        memopt.optimize(model, activation_budget=limit, verbose=False)
        for n in (120, 60, 110, 50, 100, 70):
            step(model, tokens(4, n))
        self.assertLessEqual(len(self.recorded), 2)

    def test_next_process(self):
        """What was recorded and planned is kept on disk: the next process records one step, and plans none."""
        lengths = [100, 64, 48, *random.Random(3).sample(range(50, 100), 12)]
        asked, ask = [], plans.plan
        found = []
        for _ in range(2):
            with mock.patch.object(plans, "plan", lambda *args, **settings: asked.append(1) or ask(*args, **settings)):
                self.recorded.clear()
                asked.clear()
                torch.manual_seed(0)
                self.steps(Llama(layers=2), [tokens(4, n) for n in lengths])
                found.append((len(self.recorded), len(asked)))
        self.assertGreaterEqual(found[0][0], 2)
        self.assertGreaterEqual(found[0][1], 1)
        self.assertEqual(found[1], (1, 0))
        (kept,) = (os.path.join(self.folder, f) for f in os.listdir(self.folder) if f.endswith(".sizes"))
        text = json.loads(disk.read(kept, 1 << 30))
        text["points"][0]["numbers"][3] += 64
        disk.write(kept, json.dumps(text).encode())
        self.recorded.clear()
        torch.manual_seed(0)
        self.steps(Llama(layers=2), [tokens(4, n) for n in lengths])
        self.assertEqual(len(self.recorded), found[0][0], "numbers that are not those of this machine are recorded anew")

    def test_integer(self):
        """An argument that counts steps is no new program each time."""

        class Counts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Llama(layers=1)

            def forward(self, ids, labels, step):
                return self.inner(ids, labels) * (1 + step)

        model = Counts()
        memopt.optimize(model, activation_budget="70%", verbose=False)
        for i in range(12):
            step(model, (*tokens(4, 64), i))
        self.assertLessEqual(len(self.recorded), 4)

    def test_two_programs(self):
        """A family keeps apart what runs other operators."""
        import transformers as t

        model = t.LlamaForCausalLM(t.LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4))
        family = Family()
        for i, s in enumerate((40, 48, 64, 80)):
            family.add((4, s), record(model, causal(4, s, pad=i % 2 == 1)))
        self.assertEqual(len(family.programs), 2)
        self.assertEqual([len(p.points) for p in family.programs], [2, 2])


if __name__ == "__main__":
    unittest.main()
