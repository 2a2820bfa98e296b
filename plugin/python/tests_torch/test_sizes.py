"""Programs at sizes that were not recorded: every number is that of a real recording."""

from __future__ import annotations

import functools
import unittest

import torch
from models import GPT, Llama

import memopt
from memopt.torch.plan.form import Form, difference
from memopt.torch.plan.formulas import Fits
from memopt.torch.plan.plans import plan_of
from memopt.torch.plan.sized import Sized
from memopt.torch.plan.timeline import of_plan


class TestFits(unittest.TestCase):
    """Formulas through a few points."""

    def fit(self, points, at, formula):
        (found,) = Fits(points, at)([tuple(formula(*p) for p in points)])
        return found, formula(*at)

    def test_agree(self):
        points = [(4, 64), (4, 96), (4, 128), (3, 80)]
        for formula in (
            lambda b, s: 4096,
            lambda b, s: 12 * b * s,
            lambda b, s: 8 * b * (s + 1),
            lambda b, s: 2 * b * s * s + 7 * s,
            lambda b, s: s * (s + 1) // 2,
            lambda b, s: 1000 + 24 * b,
        ):
            for at in ((4, 80), (2, 33), (5, 100)):
                found, want = self.fit(points, at, formula)
                self.assertEqual((found.likely, found.low, found.high), (want, want, want))

    def test_disagree(self):
        """What the points cannot tell is said to be unknown, and only that."""
        points = [(4, 64), (4, 96)]
        found, want = self.fit(points, (3, 64), lambda b, s: 12 * b * s)
        self.assertLess(found.low, found.high)
        self.assertTrue(found.low <= want <= found.high)
        found, want = self.fit(points, (4, 31), lambda b, s: 12 * b * s)
        self.assertEqual((found.low, found.high), (want, want))
        found, want = self.fit(points, (4, 31), lambda b, s: 8 * b * (s - 1))
        self.assertLess(found.low, found.high)

    def test_one_point(self):
        found, want = self.fit([(4, 64)], (4, 65), lambda b, s: 12 * b * s)
        self.assertTrue(found.low <= want <= found.high and found.low < found.high)
        found, want = self.fit([(4, 64)], (4, 64), lambda b, s: 12 * b * s)
        self.assertEqual((found.low, found.high), (want, want))

    def test_together(self):
        """Sizes that go with each other in a straight line are one."""
        points = [(4, n, n - 1, 8 * n) for n in (64, 96, 128)]
        found, want = self.fit(points, (4, 50, 49, 400), lambda b, n, m, k: 16 * m)
        self.assertEqual((found.low, found.high), (want, want))

    def test_threshold(self):
        """Where no one formula holds, the points nearby decide."""
        points = [(n,) for n in (32, 64, 96, 256, 384, 512)]
        for at in (48, 80):
            found, want = self.fit(points, (at,), lambda n: 1024 * n if n < 192 else 4096 * n + 77)
            self.assertEqual(found.likely, want)


def record(model, batch):
    return memopt.record(model, *(batch if isinstance(batch, tuple) else (batch,)))


def tokens(b, s, vocab=200):
    return torch.randint(0, vocab, (b, s)), torch.randint(0, vocab, (b, s))


def causal(b, s, pad=False):
    ids = torch.randint(1, 90, (b, s))
    mask = torch.ones_like(ids)
    if pad:
        mask[0, s // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def transformers_models():
    import transformers as t

    small = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    yield "llama", t.LlamaForCausalLM(t.LlamaConfig(**small, num_key_value_heads=2))
    yield "qwen3", t.Qwen3ForCausalLM(t.Qwen3Config(**small, num_key_value_heads=2, head_dim=8))
    yield "gpt2", t.GPT2LMHeadModel(t.GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=256))
    yield "bert", t.BertForMaskedLM(t.BertConfig(**small))
    yield "t5", t.T5ForConditionalGeneration(t.T5Config(vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, pad_token_id=0))


class TestRecordings(unittest.TestCase):
    """A program evaluated at unseen sizes, operator by operator."""

    def program(self, model, batch, points):
        first, *rest = points
        program = Sized(first, record(model, batch(*first)))
        for sizes in rest:
            self.assertIsNone(program.add(sizes, record(model, batch(*sizes))))
        return program

    def same(self, program, model, batch, unseen):
        for sizes in unseen:
            at = program.at(sizes)
            self.assertTrue(at.known, sizes)
            real, ours = Form(record(model, batch(*sizes)).graph), Form(at.recording(False).graph)
            self.assertIsNone(difference(real, ours))
            self.assertEqual(real.shapes, ours.shapes)
            self.assertEqual(real.numbers, ours.numbers, sizes)
            real = record(model, batch(*sizes))
            self.assertAlmostEqual(at.eager(False), real.measured_peak, delta=real.measured_peak // 10000)
            plan = plan_of(real, activation_budget=int(real.measured_peak * 0.7))
            timeline = of_plan(program.part(False).form, program.slots, plan.to_dict()["steps"])
            self.assertEqual(at.peak(timeline), (plan.result.peak,) * 3)
            self.assertLessEqual(at.floor(False), plan.floor.peak)

    def test_lengths(self):
        torch.manual_seed(0)
        for model in (GPT(rows=256), Llama()):
            with self.subTest(type(model).__name__):
                program = self.program(model, tokens, [(4, 40), (4, 64), (4, 100)])
                self.assertFalse(program.at((3, 64)).known)
                self.same(program, model, tokens, [(4, 33), (4, 77), (4, 121)])
                self.assertIsNone(program.add((3, 64), record(model, tokens(3, 64))))
                self.same(program, model, tokens, [(2, 50), (7, 90)])

    def test_transformers(self):
        torch.manual_seed(0)
        for name, model in transformers_models():
            for pad in (False, True):
                with self.subTest(name, pad=pad):
                    batch = functools.partial(causal, pad=pad)
                    program = self.program(model, batch, [(4, 40), (4, 64), (4, 100), (3, 53)])
                    self.same(program, model, batch, [(4, 77), (2, 36)])

    def test_far(self):
        """Far above what was recorded another recording is made."""
        program = self.program(Llama(), tokens, [(2, 20), (2, 30), (2, 40)])
        self.assertTrue(program.at((2, 64)).known)
        self.assertFalse(program.at((2, 200)).known)

    def test_accumulating(self):
        """Gradients that are there already are in no number, but in what is held."""
        model = Llama()
        program = self.program(model, tokens, [(4, 40), (4, 64), (4, 100)])
        real = record(model, tokens(4, 77)).accumulating()
        self.assertEqual(program.at((4, 77)).recording(True).graph["outputs"], real.graph["outputs"])
        self.assertEqual(Form(program.at((4, 77)).recording(True).graph).numbers, Form(real.graph).numbers)


if __name__ == "__main__":
    unittest.main()
