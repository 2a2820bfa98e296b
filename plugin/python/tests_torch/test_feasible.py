"""What a step would take, from tensors without bytes."""

from __future__ import annotations

import copy
import json
import resource
import unittest

import torch
from models import GPT, families
from torch import nn

import memopt


class TestFeasible(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def test_like_a_real_step(self):
        """The peak is a real step's but for work space of kernels, and the module is as it was."""
        for name, (model, args, loss) in families().items():
            with self.subTest(model=name):
                real = memopt.record(model, *args, loss=loss)
                state, parameters = copy.deepcopy(model.state_dict()), list(model.parameters())
                found = memopt.feasible(model, *args, loss=loss)
                step = found.eager_peak - found.fixed
                self.assertLessEqual(step, real.measured_peak * 1.001 + 1024)
                if name in ("gpt", "llama", "convnext"):  # without work space
                    self.assertGreater(step, 0.999 * real.measured_peak)
                self.assertTrue(all(a is b for a, b in zip(parameters, model.parameters(), strict=True)))
                self.assertTrue(all(torch.equal(v, state[k]) for k, v in model.state_dict().items()))
                self.assertTrue(all(p.grad is None for p in parameters))
                self.assertLess(found.floor, found.eager_peak)

    def test_nothing_is_allocated(self):
        """A model of a billion parameters that is nowhere."""
        with torch.device("meta"):
            model = GPT(layers=4, width=4096, vocab=50000, rows=2048)
            tokens = torch.empty(4, 2048, dtype=torch.long)
        optimizer = torch.optim.AdamW(model.parameters())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = memopt.feasible(model, tokens, tokens, budget="64GiB", optimizer=optimizer)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 512 << 10)  # KiB
        parameters = sum(p.nbytes for p in model.parameters())
        self.assertGreater(parameters, 4e9 // 2)
        self.assertEqual(found.fixed, 3 * parameters)
        self.assertTrue(found)
        self.assertLessEqual(found.promised_peak, 64 << 30)
        self.assertGreater(found.eager_peak, found.floor)
        self.assertTrue(all(p.is_meta for p in model.parameters()))

    def test_batch_of_names(self):
        """A batch that is a dict is keyword arguments, for each function that takes one."""

        class Scores(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(16, 4)

            def forward(self, x, labels):
                return nn.functional.cross_entropy(self.line(x), labels)

        batch = {"x": torch.randn(8, 16), "labels": torch.randint(0, 4, (8,))}
        model = Scores()
        self.assertEqual(str(memopt.feasible(model, batch)), str(memopt.feasible(model, **batch)))
        self.assertEqual(memopt.record(model, batch).measured_peak, memopt.record(model, **batch).measured_peak)
        self.assertEqual(memopt.record(model, {"x": batch["x"]}, labels=batch["labels"]).measured_peak, memopt.record(model, **batch).measured_peak)
        self.assertEqual(str(memopt.frontier(model, batch)), str(memopt.frontier(model, **batch)))

    def test_answer(self):
        model, args, loss = families()["gpt"]
        for budget, fits in (("60%", True), ("800KiB", False), ("1GiB", True), ("10KiB", False)):
            found = memopt.feasible(model, *args, loss=loss, budget=budget)
            self.assertEqual(bool(found), fits, budget)
            self.assertIn("provisional", str(found))
            self.assertEqual(json.loads(json.dumps(found.to_dict()))["fits"], fits)
        self.assertIn("does not fit", str(found))

    def test_transformers(self):
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(num_hidden_layers=2, hidden_size=64, intermediate_size=128, num_attention_heads=2, num_key_value_heads=1, vocab_size=500)
        with torch.device("meta"):
            model = LlamaForCausalLM(config).train()
            tokens = torch.empty(2, 32, dtype=torch.long)
        found = memopt.feasible(model, input_ids=tokens, labels=tokens)
        self.assertEqual(found.fixed, sum(t.nbytes for t in [*model.parameters(), *model.buffers()]))
        real = LlamaForCausalLM(config).train()
        tokens = torch.randint(0, 500, (2, 32))
        recording = memopt.record(real, input_ids=tokens, labels=tokens)
        self.assertLess(abs(found.eager_peak - found.fixed - recording.measured_peak), 0.15 * recording.measured_peak)

    def test_values(self):
        """A step that looks at values cannot be seen."""

        class Looks(nn.Linear):
            def forward(self, x):
                return (super().forward(x) if x.sum().item() > 0 else x).sum()

        with self.assertRaisesRegex(ValueError, "depends on values"):
            memopt.feasible(Looks(4, 4), torch.ones(2, 4))
