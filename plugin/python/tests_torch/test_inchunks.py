"""The loss in chunks without being asked for: where a budget cannot be met otherwise, and nowhere else."""

from __future__ import annotations

import copy
import logging
import unittest
import warnings

import torch
import transformers
from models import GPT
from torch import nn
from torch.nn import functional as F
from transformers.loss.loss_utils import ForCausalLMLoss

import memopt
from memopt.torch import report as report_of

transformers.utils.logging.set_verbosity_error()

VOCAB = 6000
_SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": VOCAB, "max_position_embeddings": 128}
_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def llama():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **_SHAPE, **_TOKENS))


def batch(rows=4, length=64, **more):
    torch.manual_seed(1)
    tokens = torch.randint(3, VOCAB, (rows, length))
    return {"input_ids": tokens, "labels": tokens.clone(), **more}


class Case(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        logging.getLogger("memopt").setLevel(logging.WARNING)

    def close(self, a, b):
        for (name, p), (_, q) in zip(a.named_parameters(), b.named_parameters(), strict=True):
            if q.grad is not None:
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6, msg=name)

    def check(self, model, sample, budget="40%", loss=None):
        """Under the budget, and equal but for rounding; with loss_chunks=1 refused."""
        plain = copy.deepcopy(model)
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(model, activation_budget=budget, sample=sample, loss=loss, loss_chunks=1)
        self.assertIn("loss_chunks", str(caught.exception))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            report = memopt.optimize(model, activation_budget=budget, sample=sample, loss=loss)
        self.assertIn("rounding", str(report))
        self.assertIn("loss_chunks=1", str(report))
        self.assertLessEqual(report.promised_peak, float(budget.rstrip("%")) / 100 * report.eager_peak)
        self.assertLessEqual(report.measured_peak, report.promised_peak * 1.001 + 65536)
        for m in (model.train(), plain.train()):
            out = m(**sample)
            (loss(out) if loss else out.loss).backward()
        self.close(model, plain)
        return report


class TestTransformers(Case):
    def test_models(self):
        """As they are: with tied heads, biases, casts to float, routers beside the loss."""
        c = transformers
        made = {
            "llama": (llama(), batch()),
            "gpt2": (c.GPT2LMHeadModel(c.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=VOCAB, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)), batch()),
            "qwen3": (c.Qwen3ForCausalLM(c.Qwen3Config(num_key_value_heads=1, head_dim=16, **_SHAPE, **_TOKENS)), batch()),
            "bert": (c.BertForMaskedLM(c.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **_SHAPE)), batch()),
            "mixtral": (c.MixtralForCausalLM(c.MixtralConfig(num_key_value_heads=1, num_local_experts=2, output_router_logits=True, **_SHAPE, **_TOKENS)), batch()),
            "t5": (c.T5ForConditionalGeneration(c.T5Config(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, vocab_size=VOCAB, dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0)), batch()),
            "summed": (llama(), batch(num_items_in_batch=torch.tensor(200))),  # ForCausalLMLoss as the Trainer calls it
        }
        for name, (model, sample) in made.items():
            with self.subTest(name):
                self.check(model.train(), sample)

    def test_loss_outside(self):
        """transformers' own loss, called by the loop."""
        given = batch()
        labels = given.pop("labels")
        self.check(llama(), given, loss=lambda out: ForCausalLMLoss(out.logits, labels, VOCAB))

    def test_softcapped(self):
        """Scores that something reads before the loss stay whole: the refusal is the one without chunks."""
        torch.manual_seed(0)
        model = transformers.Gemma2ForCausalLM(transformers.Gemma2Config(num_key_value_heads=1, head_dim=16, final_logit_softcapping=30.0, **_SHAPE, **_TOKENS)).train()
        with self.assertRaises(memopt.BudgetError):
            memopt.optimize(model, activation_budget="30%", sample=batch())
        self.assertNotIn("forward", model.__dict__)
        model(**batch()).loss.backward()


class Only(nn.Module):
    """A model that returns its loss and nothing else: hooks of fully_shard look at all that the outermost module returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sample):
        return self.model(**sample).loss


class TestLoop(Case):
    def steps(self, model, run, times=4, **settings):
        plain = copy.deepcopy(model)
        memopt.optimize(model, **settings)
        losses = []
        for _ in range(times):
            for m in (model, plain):
                m.zero_grad()
                losses.append(run(m))
            torch.testing.assert_close(losses[-2], losses[-1], rtol=1e-5, atol=1e-6)
            self.close(model, plain)
        return report_of(model)

    def test_without_a_sample(self):
        """The first step is recorded as it is, the second with its loss in chunks; nothing is raised."""
        tokens = batch()

        def run(m):
            loss = m(**tokens).loss
            loss.backward()
            return loss.detach()

        report = self.steps(llama().train(), run, activation_budget="40%")
        self.assertIn("rounding", str(report))
        self.assertLessEqual(report.measured_peak, 0.4 * report.eager_peak)

    def test_scores_that_are_looked_at(self):
        """A loop may read the scores whenever it likes: they are computed then."""
        tokens = torch.randint(0, VOCAB, (4, 64))

        def run(m):
            out = m(tokens)
            loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
            loss.backward()
            self.assertEqual(out.argmax(-1).shape, tokens.shape)
            return loss.detach()

        class Scores(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.token, self.body, self.head = nn.Embedding(VOCAB, 32), nn.Linear(32, 32), nn.Linear(32, VOCAB)

            def forward(self, tokens):
                return self.head(self.body(self.token(tokens)).relu())

        self.assertIn("rounding", str(self.steps(Scores(), run, activation_budget="60%")))

        def early(m):
            out = m(tokens)
            out.argmax(-1)  # before the loss
            loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
            loss.backward()
            return loss.detach()

        with self.assertRaises(memopt.BudgetError):
            self.steps(Scores(), early, activation_budget="60%")

    def test_longer_later(self):
        """A length for which the loss has to be in chunks comes when shorter ones have plans."""
        model, sizes = llama().train(), [16, 16, 64, 64, 16, 64, 64, 64]
        want, plain = [], copy.deepcopy(model)
        memopt.optimize(model, activation_budget="9MiB")
        for n in sizes:
            sample = batch(length=n)
            for m in (model, plain):
                m.zero_grad()
                loss = m(**sample).loss
                loss.backward()
                want.append(loss.detach())
            torch.testing.assert_close(want[-2], want[-1], rtol=1e-5, atol=1e-6)
            self.close(model, plain)
        self.assertIn("rounding", str(report_of(model)))
        self.assertLessEqual(report_of(model).promised_peak, 9 << 20)

    def test_where_it_is_not_needed(self):
        """A budget that a plan meets without it leaves every bit of the loss."""
        torch.manual_seed(0)
        model = GPT(vocab=100, layers=4)
        report = memopt.optimize(model, activation_budget="60%", sample=(torch.randint(0, 100, (4, 64)),) * 2)
        self.assertNotIn("rounding", str(report))
        self.assertIsNotNone(report.plan)

    def test_fully_shard(self):
        """The head of a sharded model is whole while the root runs, and its scores may be computed in chunks, as the refusal says."""
        from torch.distributed.fsdp import fully_shard

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        for asked in ("auto", 8):
            with self.subTest(asked=asked):
                plain, sample = llama(), batch()
                model = copy.deepcopy(plain)
                for layer in model.model.layers:
                    fully_shard(layer)
                model, plain = fully_shard(Only(model)), Only(plain)
                memopt.optimize(model, activation_budget="99%", loss_chunks=asked, verbose=False)
                for _ in range(3):
                    for m in (model, plain):
                        m.zero_grad(set_to_none=True)
                        m(sample).backward()
                    for (name, p), (_, q) in zip(model.named_parameters(), plain.named_parameters(), strict=True):
                        torch.testing.assert_close(p.grad.to_local(), q.grad, rtol=1e-4, atol=1e-6, msg=name)
                scores = 4 * 64 * VOCAB * 4
                self.assertLess(report_of(model).promised_peak, scores, "all scores are never in memory at once")


if __name__ == "__main__":
    unittest.main()
