"""Feed-forward layers and attention in tiles of rows: which are found, what they compute, and what that lowers."""

from __future__ import annotations

import copy
import os
import sys
import unittest
from unittest import mock

import torch
from models import GPT, Llama
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch import report as report_of
from memopt.torch.lower import feed_forward, tiles

sys.path.append(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "memopt", "lab", "bench", "torch"))
from families import build  # noqa: E402


def gradients(model, *sample, loss=None):
    model.zero_grad()
    out = model(*sample)
    (out if loss is None else loss(out)).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def square(out):
    return out.square().mean()


def saved(tensors):
    """Notes what autograd saves."""
    return torch.autograd.graph.saved_tensors_hooks(lambda t: tensors.append(t) or t, lambda t: t)


class Gated(nn.Module):
    """Shapes of feed-forward layers that trainers use; act is a function of the hidden layer."""

    def __init__(self, act, gate=False, bias=True, width=32):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)
        self.gate = nn.Linear(width, 4 * width, bias=bias) if gate else None
        self.act = act

    def forward(self, x):
        h = self.act(self.up(x)) if self.gate is None else self.act(self.gate(x)) * self.up(x)
        return x + self.down(h)


class Normed(nn.Module):
    """A block with the norm in front."""

    def __init__(self, norm, gate):
        super().__init__()
        self.norm, self.mlp = norm, Gated(F.silu, gate, bias=False)

    def forward(self, x):
        mlp, z = self.mlp, self.norm(x)
        return x + mlp.down(mlp.act(mlp.up(z)) if mlp.gate is None else mlp.act(mlp.gate(z)) * mlp.up(z))


class Written(nn.Module):
    """A norm as models write it."""

    def __init__(self, how, bias=False, width=32):
        super().__init__()
        self.how = how
        self.weight = nn.Parameter(torch.ones(width))
        if bias:
            self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.how(self, x)


def _llama(m, x):
    dtype = x.dtype
    x = x.to(torch.float32)
    return m.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)).to(dtype)


def _gemma(m, x):
    z = x.float()
    z = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (z * (1.0 + m.weight.float())).type_as(x)


def _centered(m, x):
    mean = x.mean(-1, keepdim=True)
    return m.weight * ((x - mean) / torch.sqrt((x - mean).square().mean(dim=-1, keepdim=True) + 1e-5)) + m.bias


NORMS = {
    "layer norm": lambda: nn.LayerNorm(32), "no bias": lambda: nn.LayerNorm(32, bias=False), "rms norm": lambda: nn.RMSNorm(32), "llama": lambda: Written(_llama),
    "gemma": lambda: Written(_gemma), "centered": lambda: Written(_centered, bias=True),
}  # fmt: skip

class Attends(nn.Module):
    """Attention as models write it: how makes probabilities of scores."""

    def __init__(self, how, width=32, heads=2):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=b) for b in (True, False, True, True))  # the gradient of a bias of keys is noise
        self.how, self.heads = how, heads
        self.bias = nn.Parameter(torch.randn(heads, 1, 48))

    def split(self, y):
        return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def probabilities(self, x):
        return self.how(self, torch.matmul(self.split(self.q(x)), self.split(self.k(x)).transpose(-1, -2)))

    def forward(self, x):
        y = torch.matmul(self.probabilities(x), self.split(self.v(x)))
        return x + self.out(y.transpose(1, 2).flatten(-2))


def _causal(s):
    return torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)


SCORES = {
    "plain": lambda m, s: F.softmax(s / 4, dim=-1), "causal": lambda m, s: (s * 0.25).masked_fill(_causal(s), float("-inf")).softmax(-1),
    "added": lambda m, s: F.softmax(s * 0.25 + torch.zeros(1, 1, *s.shape[-2:]).masked_fill(_causal(s), -1e9), dim=-1, dtype=torch.float32).to(s.dtype),
    "trained": lambda m, s: torch.softmax(s + m.bias, -1), "half": lambda m, s: F.softmax(s * 0.25, dim=-1, dtype=torch.float32).type_as(m.bias),
}  # fmt: skip

ACTIVATIONS = {
    "gelu": F.gelu, "tanh gelu": nn.GELU(approximate="tanh"), "silu": F.silu, "relu": nn.ReLU(), "squared relu": lambda x: F.relu(x) ** 2, "sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "new gelu": lambda x: 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * torch.pow(x, 3.0)))),
}  # fmt: skip


class Tiles(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def close(self, got, want, tolerance=2e-6):
        self.assertEqual(got.keys(), want.keys())
        largest = max(float(g.abs().max()) for g in want.values())
        for name, g in want.items():
            off = (got[name] - g).abs().max() / max(float(g.abs().max()), 1e-5 * largest)  # the gradient of a key's bias is noise around zero
            self.assertLess(float(off), tolerance, name)

    def found(self, model, *sample, loss=square, tiles_asked=3):
        t = tiles.Tiles(tiles_asked)
        t.find(model, lambda: model(*sample), loss)
        return t

    def test_activations(self):
        """Results have the bits of eager mode where products do not depend on the number of rows; gradients differ by the rounding of sums."""
        x = torch.randn(6, 10, 32)
        for name, act in ACTIVATIONS.items():
            for gate in (False, True):
                with self.subTest(name, gate=gate):
                    model = Gated(act, gate, bias=gate)
                    found = self.found(model, x)
                    self.assertEqual(found.names, ("up", "gate") if gate else ("up",))
                    forward = found.around(model, model.forward)
                    ran = mock.Mock(side_effect=torch.ops.memopt.feed_forward_backward)
                    with mock.patch.object(torch.ops.memopt, "feed_forward_backward", ran):
                        y = forward(x)
                        torch.testing.assert_close(y, model(x), rtol=1e-6, atol=1e-6)
                        model.zero_grad()
                        square(y).backward()
                    self.assertEqual(ran.call_count, 1)
                    got = {n: p.grad.clone() for n, p in model.named_parameters()}
                    self.close(got, gradients(model, x, loss=square))

    def test_models(self):
        """The peak falls by more than a third, and the lowest plan, too."""
        for model in (GPT(vocab=300, layers=2, rows=256, dropout=0.0), Llama(layers=2)):
            with self.subTest(type(model).__name__):
                sample = (torch.randint(0, 200, (2, 256)),) * 2
                want = gradients(model, *sample)
                taken = {}
                for asked in (1, 16, 4):
                    m = copy.deepcopy(model)
                    report = memopt.optimize(m, activation_budget="100%", sample=sample, loss_chunks="auto", sequence_tiles=asked)
                    self.close(gradients(m, *sample), want, 5e-6)
                    with self.assertRaises(memopt.BudgetError) as e:
                        memopt.optimize(m, activation_budget=1, sample=sample, loss_chunks="auto", sequence_tiles=asked)
                    taken[asked] = report.measured_peak, e.exception.best
                for asked in (16, 4):
                    self.assertLess(taken[asked][0], 0.67 * taken[1][0])
                    self.assertLess(taken[asked][1], 0.95 * taken[1][1])  # where attention has the floor

    def test_planned(self):
        """A plan of the step in tiles has its bits and keeps its promise, whether the first step was a sample or one of training."""
        model = Llama(layers=2)
        sample = (torch.randint(0, 200, (2, 256)),) * 2
        m = copy.deepcopy(model)
        report = memopt.optimize(m, activation_budget="100%", sample=sample, sequence_tiles=4)
        want = gradients(m, *sample)
        for given in (sample, None):
            m = copy.deepcopy(model)
            memopt.optimize(m, activation_budget=int(0.75 * report.measured_peak), sample=given, sequence_tiles=4, verbose=False)
            for _ in range(3):
                got = gradients(m, *sample)
                self.assertTrue(all(torch.equal(got[n], g) for n, g in want.items()))
            planned = report_of(m)
            if given is not None:
                self.assertLessEqual(planned.measured_peak, 0.75 * report.measured_peak + 65536)
            self.assertGreater(planned.overhead, 0)
            memopt.restore(m)
            self.assertFalse([name for name, x in m.named_modules() if "forward" in x.__dict__])

    def test_autocast(self):
        x = torch.randn(4, 64, 32)
        for act, gate in ((F.gelu, False), (F.silu, True)):
            model = Gated(act, gate)
            found = self.found(model, x)
            with torch.autocast("cpu", torch.bfloat16):
                self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 0.02)

    def test_half_precision(self):
        model, x = Gated(F.gelu).bfloat16(), torch.randn(4, 64, 32, dtype=torch.bfloat16)
        self.close(gradients(_Around(model, self.found(model, x)), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 0.02)

    def test_frozen(self):
        model, x = Gated(F.silu, True), torch.randn(4, 64, 32, requires_grad=True)
        model.gate.weight.requires_grad_(False)
        model.down.bias.requires_grad_(False)
        got = gradients(_Around(model, self.found(model, x)), x, loss=square)
        d, x.grad = x.grad, None
        want = {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}
        self.close(got, want)
        self.close({"x": d}, {"x": x.grad})

    def test_norms(self):
        """The norm in front of a layer is in its tiles, however it is written, and what only that read is not kept."""
        x = torch.randn(4, 64, 32)
        for name, norm in NORMS.items():
            for gate in (False, True):
                with self.subTest(name, gate=gate):
                    model = Normed(norm(), gate)
                    for w in model.norm.parameters():
                        nn.init.normal_(w)
                    found = self.found(model, x)
                    self.assertEqual(found.layers, [("norm", "mlp.gate", "mlp.up") if gate else ("norm", "mlp.up")])
                    given = x.clone().requires_grad_()
                    kept, whole = [], []
                    with saved(kept):
                        y = found.around(model, model.forward)(given)
                    square(y).backward()
                    d, given.grad = given.grad, None
                    got = {n: p.grad.clone() for n, p in model.named_parameters()} | {"x": d}
                    model.zero_grad()
                    with saved(whole):
                        want = model(given)
                    torch.testing.assert_close(y, want, rtol=1e-6, atol=1e-6)
                    square(want).backward()
                    self.close(got, {n: p.grad for n, p in model.named_parameters()} | {"x": given.grad}, 1e-5)
                    rows = {t.untyped_storage().data_ptr() for t in kept if t.numel() >= x.numel()}
                    self.assertEqual(rows, {given.untyped_storage().data_ptr()})
                    self.assertGreater(len(whole), len(kept))

    def test_shared_norm(self):
        """A norm that attention reads, too, stays whole, and so does one whose result is returned."""

        class Shared(Normed):
            def forward(self, x):
                z = self.norm(x)
                return x + self.mlp.down(F.gelu(self.mlp.up(z))) + self.other(z)

        for first in (True, False):
            model = Shared(nn.LayerNorm(32), False)
            model.other = nn.Linear(32, 32)
            if first:
                model.forward = lambda x, m=model: m.other(m.norm(x)) + Shared.forward(m, x)
            x = torch.randn(4, 16, 32)
            found = self.found(model, x)
            self.assertEqual(found.layers, [("mlp.up",)])
            self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 1e-5)

    def test_norm_inside(self):
        """A norm of the hidden layer is of its rows."""
        model, x = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 32)), torch.randn(4, 16, 32)
        found = self.found(model, x)
        self.assertEqual(found.names, ("0",))
        self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 1e-5)

    def test_families(self):
        """Models of transformers, by what they compute: each block's feed-forward layer, with the norm in front of it, and nothing else."""
        for name, layers in (("gpt2", 2), ("llama", 2), ("bert", 2), ("qwen3", 2), ("vit", 2), ("t5", 4)):
            with self.subTest(name):
                torch.manual_seed(0)
                model, inputs, loss = build(name)
                loss = loss or (lambda out: out.loss)
                model.eval().train()
                for m in model.modules():
                    if isinstance(m, nn.Dropout):
                        m.p = 0.0
                found = tiles.Tiles("auto")
                found.find(model, lambda model=model, inputs=inputs: model(**inputs), loss)
                self.assertGreaterEqual(len(found.layers), layers, found.names)
                for layer in found.layers:
                    self.assertEqual("norm" in layer[0] or "ln_" in layer[0], name != "bert", layer)  # whose norms stand behind sums

                def step(forward, model=model, inputs=inputs, loss=loss):
                    model.zero_grad()
                    torch.manual_seed(7)  # some draw for their attention
                    loss(forward(**inputs)).backward()
                    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

                self.close(step(found.around(model, model.forward)), step(model), 1e-4)

    def test_attention(self):
        """Attention that writes its probabilities out is computed some queries at a time, whatever it does to scores, and keeps none of them."""
        x = torch.randn(2, 48, 32)
        for name, how in SCORES.items():
            with self.subTest(name):
                model = Attends(how)
                want = gradients(model, x, loss=square)
                found = self.found(model, x)
                self.assertEqual(list(found.attentions), [0])
                forward, kept = found.around(model, model.forward), []
                ran = mock.Mock(side_effect=torch.ops.memopt.attention_backward)
                with mock.patch.object(torch.ops.memopt, "attention_backward", ran):
                    with saved(kept):
                        y = forward(x)
                    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-6)
                    model.zero_grad()
                    square(y).backward()
                self.assertEqual(ran.call_count, 1)
                self.assertFalse([t.shape for t in kept if t.shape[-2:] == (48, 48) and t.numel() > 48 * 48 and t.requires_grad])
                self.close({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}, want, 1e-5)

    def test_attention_of_families(self):
        for name in ("gpt2", "llama", "bert", "t5", "vit"):
            with self.subTest(name):
                torch.manual_seed(0)
                model, inputs, loss = build(name)
                loss = loss or (lambda out: out.loss)
                model.set_attn_implementation("eager")
                model.eval().train()
                for m in model.modules():
                    for p in ("p", "dropout", "dropout_prob", "attention_dropout"):
                        if isinstance(getattr(m, p, None), float):
                            setattr(m, p, 0.0)
                found = tiles.Tiles(3)
                found.find(model, lambda model=model, inputs=inputs: model(**inputs), loss)
                self.assertGreaterEqual(len(found.attentions), 2)

                def step(forward, model=model, inputs=inputs, loss=loss):
                    model.zero_grad()
                    loss(forward(**inputs)).backward()
                    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

                ran = mock.Mock(side_effect=torch.ops.memopt.attention)
                with mock.patch.object(torch.ops.memopt, "attention", ran):
                    got = step(found.around(model, model.forward))
                self.assertEqual(ran.call_count, len(found.attentions))
                self.close(got, step(model), 1e-4)

    def test_attention_left_alone(self):
        """Probabilities that are looked at or dropped from, and a softmax of something else, stay whole."""
        x = torch.randn(2, 48, 32)
        for how in (lambda m, s: F.dropout(F.softmax(s, -1), 0.5), lambda m, s: F.softmax(s, -2), lambda m, s: s.relu()):
            with self.assertRaisesRegex(ValueError, "no attention writes its probabilities out; leave sequence_tiles out"):
                self.found(Attends(how), x)

        class Looked(Attends):
            def forward(self, x):
                p = self.probabilities(x)
                return self.out(p @ self.v(x)) + p.mean()

        with self.assertRaisesRegex(ValueError, "leave sequence_tiles out"):
            self.found(Looked(SCORES["plain"]), x)

    def test_attention_planned(self):
        """The peak of a step in tiles is below that with whole probabilities, and plans of it keep their promise and its bits."""
        model = nn.Sequential(*(Attends(SCORES["causal"], width=32) for _ in range(3)))
        x = torch.randn(1, 512, 32)
        whole = memopt.optimize(copy.deepcopy(model), activation_budget="100%", sample=x, loss=square)
        m = copy.deepcopy(model)
        tiled = memopt.optimize(m, activation_budget="100%", sample=x, loss=square, sequence_tiles=8)
        self.assertLess(tiled.measured_peak, 0.5 * whole.measured_peak)
        want = gradients(m, x, loss=square)
        m = copy.deepcopy(model)
        report = memopt.optimize(m, activation_budget=int(0.8 * tiled.measured_peak), sample=x, loss=square, sequence_tiles=8)
        self.assertLessEqual(report.measured_peak, 0.8 * tiled.measured_peak + 65536)
        for _ in range(3):
            got = gradients(m, x, loss=square)
            self.assertTrue(all(torch.equal(got[n], g) for n, g in want.items()))

    def test_attention_half_precision(self):
        model, x = Attends(SCORES["half"]).bfloat16(), torch.randn(2, 48, 32, dtype=torch.bfloat16)
        found = self.found(model, x)
        self.assertEqual(list(found.attentions), [0])
        self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 0.03)

    def test_encoder_layer(self):
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True), 2)
        x = torch.randn(2, 64, 32)
        found = self.found(model, x)
        self.assertEqual(found.names, ("layers.0.linear1", "layers.1.linear1"))
        self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in gradients(model, x, loss=square).items()}, 1e-5)

    def test_left_alone(self):
        """A hidden layer that something else reads stays whole."""

        class Looked(Gated):
            def forward(self, x):
                h = self.act(self.up(x))
                return self.down(h) + h.mean()

        x = torch.randn(4, 16, 32)
        for model in (Looked(F.gelu), Gated(lambda h: h.softmax(-1)), nn.Sequential(nn.Linear(32, 64), nn.GroupNorm(1, 16), nn.Linear(64, 32)), nn.Linear(32, 64)):
            with self.assertRaisesRegex(ValueError, "leave sequence_tiles out"):
                self.found(model, x)
            with self.assertRaisesRegex(ValueError, "leave sequence_tiles out"):
                memopt.optimize(model, activation_budget="60%", sample=x, loss=square, sequence_tiles="auto")

    def test_looked_at_later(self):
        """What a step looks at that the first did not is computed, with its gradients."""
        model, x = Gated(F.gelu), torch.randn(4, 16, 32)
        forward = self.found(model, x).around(model, model.forward)
        model.act = lambda h: F.gelu(h).clamp(max=1.0)
        torch.testing.assert_close(forward(x), model(x))
        with torch.no_grad():
            self.assertEqual(type(forward(x)), torch.Tensor)

    def test_changed_in_between(self):
        model, x = Gated(F.gelu), torch.randn(4, 16, 32)
        forward = self.found(model, x).around(model, model.forward)
        model.act = lambda h: F.gelu(h) if x.mul_(2) is x else h
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation.*sequence_tiles=1"):
            forward(x)

    def test_layers(self):
        """A list is for one layer after another; a layer with one tile is whole."""
        model = nn.Sequential(*(Gated(F.gelu) for _ in range(4)))
        x = torch.randn(4, 16, 32)
        want = gradients(model, x, loss=square)
        for asked, tiles_of_layers in (([1, 1, 4], [4, 4]), ([2, 1, 3, 1], [2, 3]), (5, [5] * 4), ([7], [7] * 4)):
            found = tiles.Tiles(asked)
            found.find(model, lambda: model(x), square)
            self.assertEqual(found.layers, [(f"{i}.up",) for i in range(4)])
            ran = mock.Mock(side_effect=torch.ops.memopt.feed_forward)
            with mock.patch.object(torch.ops.memopt, "feed_forward", ran):
                self.close(gradients(_Around(model, found), x, loss=square), {f"model.{n}": g for n, g in want.items()})
            self.assertEqual([call.args[3] for call in ran.call_args_list], [-(-64 // n) for n in tiles_of_layers])
        self.assertEqual(tiles.Tiles("auto").counts, (feed_forward.TILES,))
        found.counts = (1, 1, 4)
        self.assertEqual(found.said(), "of the feed-forward layers the first 2 of 4 are whole and the last 2 of 4 are computed in 4 tiles of rows")

    def test_chosen(self):
        """By a sample the numbers of tiles are chosen with the plan: none where all fits, and no step with given numbers within the same budget is cheaper."""
        model = nn.Sequential(*(Gated(F.gelu, width=64) for _ in range(4)))
        x = torch.randn(1, 2048, 64)
        whole = memopt.optimize(copy.deepcopy(model), activation_budget="100%", sample=x, loss=square, sequence_tiles="auto")
        self.assertEqual(whole.chosen, "")
        self.assertEqual(whole.overhead, 0)
        for share in (0.7, 0.45):
            m = copy.deepcopy(model)
            want = gradients(m, x, loss=square)
            budget = int(share * whole.eager_peak)
            report = memopt.optimize(m, activation_budget=budget, sample=x, loss=square, sequence_tiles="auto")
            self.assertLessEqual(report.measured_peak, budget + 65536)
            self.close(gradients(m, x, loss=square), want, 5e-6)
            self.assertEqual(report.eager_peak, whole.eager_peak)
            try:
                plain = memopt.optimize(copy.deepcopy(model), activation_budget=budget, sample=x, loss=square).overhead
            except memopt.BudgetError:
                plain = float("inf")
            self.assertLessEqual(report.overhead, plain + 1e-9)
            if plain == float("inf"):
                self.assertIn('sequence_tiles="auto"', report.chosen)
                self.assertIn("tiles of rows", str(report))

    def test_arguments(self):
        for wrong in ([], [0], [2, True], (1.5,)):
            with self.assertRaisesRegex(ValueError, "sequence_tiles is .*a list with the number of each"):
                memopt.optimize(Gated(F.gelu), sequence_tiles=wrong)
        for wrong in (0, -1, True, "many", 1.5):
            with self.assertRaisesRegex((TypeError, ValueError), "sequence_tiles is .*'auto'"):
                memopt.optimize(Gated(F.gelu), sequence_tiles=wrong)
        with self.assertRaisesRegex(TypeError, "sequence_tiles is for mode='eager'"):
            memopt.optimize(Gated(F.gelu), activation_budget="60%", sequence_tiles=2, mode="compile")

    def test_rows(self):
        self.assertEqual([feed_forward.tile_rows(n, 16) for n in (1024, 1000, 5)], [64, 63, 1])
        self.assertEqual(feed_forward.tile_rows(1000, 3), 334)


class _Around(nn.Module):
    """A module with its feed-forward layers in tiles."""

    def __init__(self, model, found):
        super().__init__()
        self.model, self.found = model, found

    def forward(self, *args):
        return self.found.around(self.model, self.model.forward)(*args)


if __name__ == "__main__":
    unittest.main()
