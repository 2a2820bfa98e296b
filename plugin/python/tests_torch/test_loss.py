"""The loss in chunks of rows: the loss and gradients of eager mode but for rounding, in a fraction of the bytes."""

from __future__ import annotations

import copy
import itertools
import pickle
import unittest

import torch
from models import GPT, ResNet
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch.record.measure import watched


def gradients(model, run):
    model.zero_grad()
    torch.manual_seed(3)
    loss = run(model)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def near(self, a, b, most=1e-6):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b, strict=True):
            self.assertLessEqual((x - y).abs().max().item(), most * max(1, x.abs().max().item()))


class TestFunction(Case):
    def test_like_cross_entropy(self):
        """Every argument of cross_entropy, in double precision: the same but for the order of sums."""
        cases = itertools.product(["mean", "sum", "none"], [0, 0.1], [False, True], [False, True], [False, True])
        for reduction, smoothing, weighted, biased, ignored in cases:
            with self.subTest(reduction=reduction, smoothing=smoothing, weighted=weighted, biased=biased, ignored=ignored):
                hidden = torch.randn(7, 11, 16, dtype=torch.double, requires_grad=True)
                weight = torch.randn(50, 16, dtype=torch.double, requires_grad=True)
                bias = torch.randn(50, dtype=torch.double, requires_grad=True) if biased else None
                target = torch.randint(0, 50, (7, 11))
                if ignored:
                    target[:2] = -100
                classes = torch.rand(50, dtype=torch.double) if weighted else None
                inputs = [hidden, weight] + ([bias] if biased else [])
                how = {"reduction": reduction, "label_smoothing": smoothing}
                want = F.cross_entropy(F.linear(hidden, weight, bias).flatten(0, 1), target.flatten(), weight=classes, **how)
                got = memopt.chunked_cross_entropy(hidden, weight, target, bias, rows=13, class_weight=classes, **how).reshape(want.shape)
                up = torch.randn_like(want)
                self.near([want, *torch.autograd.grad((want * up).sum(), inputs)], [got, *torch.autograd.grad((got * up).sum(), inputs)], 1e-12)

    def test_frozen(self):
        """No gradient is made that nobody asks for, and none is needed for a loss alone."""
        hidden, weight = torch.randn(8, 4, requires_grad=True), torch.randn(10, 4)
        target = torch.randint(0, 10, (8,))
        loss = memopt.chunked_cross_entropy(hidden, weight, target, rows=3)
        loss.backward()
        self.assertIsNone(weight.grad)
        with torch.no_grad():
            self.assertFalse(memopt.chunked_cross_entropy(hidden, weight, target).requires_grad)

    def test_twice(self):
        hidden, weight = torch.randn(8, 4, requires_grad=True), torch.randn(10, 4, requires_grad=True)
        loss = memopt.chunked_cross_entropy(hidden, weight, torch.randint(0, 10, (8,)), rows=3) * 3
        loss.backward(retain_graph=True)
        once = hidden.grad.clone()
        loss.backward()
        self.assertTrue(torch.equal(hidden.grad, 2 * once))

    def test_half(self):
        """Sums over chunks of half precision are no worse than those of eager mode."""
        hidden, weight = torch.randn(256, 32), torch.randn(500, 32)
        target = torch.randint(0, 500, (256,))
        exact = [t.double().requires_grad_() for t in (hidden, weight)]
        F.cross_entropy(F.linear(*exact), target).backward()
        errors = []
        for chunked in (False, True):
            h, w = (t.bfloat16().requires_grad_() for t in (hidden, weight))
            loss = memopt.chunked_cross_entropy(h, w, target, rows=16) if chunked else F.cross_entropy(F.linear(h, w).float(), target)
            loss.backward()
            errors.append((w.grad - exact[1].grad).abs().max().item())
        self.assertLess(errors[1], 1.2 * errors[0])

    def test_bytes(self):
        """One chunk of scores at a time."""
        hidden, weight = torch.randn(1024, 32, requires_grad=True), torch.randn(2000, 32, requires_grad=True)
        target = torch.randint(0, 2000, (1024,))
        scores = 1024 * 2000 * 4
        with watched() as whole:
            F.cross_entropy(F.linear(hidden, weight), target).backward()
        hidden.grad = weight.grad = None
        with watched() as chunked:
            memopt.chunked_cross_entropy(hidden, weight, target, rows=64).backward()
        self.assertGreater(whole.peak, 2 * scores)
        self.assertLess(chunked.peak, 2.2 * scores / 16 + hidden.nbytes + weight.nbytes + 32768)

    def test_refused(self):
        hidden, weight, target = torch.randn(8, 4), torch.randn(10, 4), torch.randint(0, 10, (8,))
        with self.assertRaisesRegex(ValueError, "reduction"):
            memopt.chunked_cross_entropy(hidden, weight, target, reduction="max")
        with self.assertRaisesRegex(ValueError, r"target has shape \(4,\)"):
            memopt.chunked_cross_entropy(hidden, weight, target[:4])
        with self.assertRaisesRegex(TypeError, "probabilities"):
            memopt.chunked_cross_entropy(hidden, weight, torch.rand(8))
        with self.assertRaisesRegex(ValueError, "features"):
            memopt.chunked_cross_entropy(hidden, weight[:, :3], target)
        with self.assertRaises((IndexError, RuntimeError)):
            memopt.chunked_cross_entropy(hidden, weight, target + 10)


class Middle(nn.Module):
    """Scores that change before the loss."""

    def __init__(self, change):
        super().__init__()
        self.body, self.head, self.change = nn.Linear(8, 8), nn.Linear(8, 40), change

    def forward(self, x, y):
        return F.cross_entropy(self.change(self.head(self.body(x))), y)


class TestModels(Case):
    def check(self, model, sample, run, **given):
        """A model with its loss in chunks has the gradients of the plain one, and a peak far below."""
        want = gradients(copy.deepcopy(model), run)
        plain = memopt.optimize(model, activation_budget="100%", sample=sample, **given)
        chunked = memopt.optimize(model, activation_budget="100%", sample=sample, loss_chunks="auto", **given)
        self.assertLess(chunked.eager_peak, 0.65 * plain.eager_peak)
        self.near(want, gradients(model, run))
        try:
            low = memopt.optimize(model, activation_budget="50%", sample=sample, loss_chunks="auto", **given)
        except memopt.BudgetError as e:
            low = memopt.optimize(model, activation_budget=e.best, sample=sample, loss_chunks="auto", **given)
        self.assertIsNotNone(low.plan)
        self.near(want, gradients(model, run))
        return low

    def test_loss_inside(self):
        tokens = torch.randint(0, 3000, (4, 64))
        model = GPT(vocab=3000, layers=2)
        self.check(model, (tokens, tokens), lambda m: m(tokens, tokens))
        # The plan goes where the module goes.
        self.assertIsInstance(pickle.loads(pickle.dumps(model)), GPT)
        copied = copy.deepcopy(model)
        self.near(gradients(model, lambda m: m(tokens, tokens)), gradients(copied, lambda m: m(tokens, tokens)))
        memopt.restore(model)
        self.assertNotIn("forward", model.head.__dict__)

    def test_loss_outside(self):
        """Scores that leave the model, and classes that move to the second dimension."""
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 2000))
        x, y = torch.randn(4, 32, 16), torch.randint(0, 2000, (4, 32))
        for view in (lambda z: F.cross_entropy(z.flatten(0, 1), y.flatten()), lambda z: nn.CrossEntropyLoss()(z.transpose(1, 2), y)):
            self.check(model, x, lambda m, view=view: view(m(x)), loss=view)
        out = model(x)
        self.assertEqual(out.shape, (4, 32, 2000))
        memopt.restore(model)
        self.assertTrue(torch.equal(out.argmax(-1), model(x).argmax(-1)))  # who looks at the scores gets them

    def test_autocast(self):
        tokens = torch.randint(0, 3000, (2, 64))
        model = GPT(vocab=3000, layers=1, dropout=0.0)

        def run(m):
            with torch.autocast("cpu", torch.bfloat16):
                return m(tokens, tokens)

        want = gradients(model, run)
        with torch.autocast("cpu", torch.bfloat16):
            memopt.optimize(model, activation_budget="100%", sample=(tokens, tokens), loss_chunks=4)
        self.near(want, gradients(model, run), 0.01)

    def test_transformers(self):
        """Models of Hugging Face as they are: the scores of a language model are never made."""
        from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

        vocab = 6000
        size = {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": vocab}
        ends = {"bos_token_id": 1, "eos_token_id": 2}
        tokens = torch.randint(0, vocab, (2, 128))
        labels = tokens.clone()
        labels[:, :9] = -100
        for model in (
            GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=vocab, n_positions=128, **ends)),
            LlamaForCausalLM(LlamaConfig(**size, **ends)),
            Qwen3ForCausalLM(Qwen3Config(**size, head_dim=32, **ends)),
        ):
            with self.subTest(model=type(model).__name__):
                model.train()
                low = self.check(model, {"input_ids": tokens, "labels": labels}, lambda m: m(input_ids=tokens, labels=labels).loss)
                self.assertLess(low.floor, 0.5 * 3 * tokens.numel() * vocab * 4)
                out = model(input_ids=tokens, labels=labels)
                memopt.restore(model)
                torch.manual_seed(1)
                if not model.config.to_dict().get("resid_pdrop"):
                    self.assertTrue(torch.equal(out.logits + 0, model(input_ids=tokens).logits))

    def test_refused(self):
        """Nothing is chunked in silence where it would not fit, and the module stays as it was."""
        x, y = torch.randn(16, 8), torch.randint(0, 40, (16,))
        for change, word in ((lambda z: z * 2, "mul"), (torch.tanh, "tanh"), (lambda z: z[:, :39], "getitem")):
            model = Middle(change)
            with self.subTest(word=word), self.assertRaisesRegex(ValueError, f"loss_chunks: .*{word}|loss_chunks: the loss is not"):
                memopt.optimize(model, activation_budget="100%", sample=(x, y % 39), loss_chunks=2)
            self.assertEqual([m for m in model.modules() if "forward" in m.__dict__], [])
        images = torch.randn(2, 3, 8, 8)
        with self.assertRaisesRegex(ValueError, "not torch.nn.functional.cross_entropy"):
            memopt.optimize(ResNet(), activation_budget="100%", sample=images, loss=lambda out: out.square().mean(), loss_chunks=2)
        with self.assertRaisesRegex(ValueError, "loss_chunks is 0"):
            memopt.optimize(ResNet(), sample=images, loss_chunks=0)

    def test_eval(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 40))
        x, y = torch.randn(16, 8), torch.randint(0, 40, (16,))
        memopt.optimize(model, activation_budget="100%", sample=x, loss=lambda z: F.cross_entropy(z, y), loss_chunks=2)
        with torch.no_grad():
            self.assertIs(type(model(x)), torch.Tensor)
        model.eval()
        self.assertIs(type(model(x)), torch.Tensor)
