"""What an export for training gets wrong without an error, one by one; and what a module in the service refuses."""

from __future__ import annotations

import copy
import unittest
import warnings
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import memopt
from memopt.torch.serve import translate
from memopt.torch.serve.export import export
from served import Function, Served


class Traps(Served):
    def same(self, model, *inputs, steps=2, loss=lambda out: out.float().square().mean(), buffers=1e-5, **settings):
        """Steps whose losses, gradients, gradients of inputs and buffers agree with PyTorch's."""
        served, plain = self.pair(model, **settings)
        for _ in range(steps):
            found = []
            for m in (served, plain):
                m.zero_grad()
                mine = [t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs]
                out = loss(m(*mine))
                out.backward()
                found.append([out, *(t.grad for t in mine if isinstance(t, torch.Tensor) and t.requires_grad)])
            for got, want in zip(*found, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
            self.assert_gradients(served, plain)
            self.assert_buffers(served, plain, buffers)
        return served

    def test_detach_and_no_grad(self):
        def forward(m, x):
            with torch.no_grad():
                t = m.a(x)
            y = m.a(x) * t
            y = y + (torch.round(y * 4) / 4 - y).detach()
            with torch.no_grad():
                m.ema.mul_(0.9).add_(y.mean(0), alpha=0.1)
            return y - m.ema

        self.same(Function(forward, a=nn.Linear(4, 4), ema=torch.zeros(4)), torch.randn(6, 4))

    def test_spectral_norm(self):
        self.same(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)), torch.randn(3, 4))

    def test_cross_entropies(self):
        def forward(m, x, y, p):
            z = m.a(x)
            rows = z.flatten(0, 1)
            found = [F.cross_entropy(rows, y.flatten(), label_smoothing=0.1), F.cross_entropy(rows, y.flatten(), m.weights, label_smoothing=0.2, ignore_index=1)]
            found += [F.cross_entropy(z.transpose(1, 2), y, reduction="sum", label_smoothing=0.3), F.cross_entropy(rows, p.flatten(0, 1), label_smoothing=0.1)]
            found += [F.cross_entropy(rows, p.flatten(0, 1), m.weights), F.cross_entropy(z[0, 0], y[0, 0], label_smoothing=0.1), F.cross_entropy(rows, y.flatten(), m.weights)]
            return torch.stack([*found, F.cross_entropy(rows, y.flatten(), reduction="none", label_smoothing=0.1).square().mean()])

        model = Function(forward, a=nn.Linear(4, 5), weights=torch.rand(5) + 0.1)
        self.same(model, torch.randn(3, 6, 4), torch.randint(0, 5, (3, 6)), torch.randn(3, 6, 5).softmax(-1))

    def test_weight_norm(self):
        self.same(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), torch.randn(3, 4))

    def test_batch_norm(self):
        parts = [nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False, momentum=0.3), nn.BatchNorm1d(4, track_running_stats=False), nn.BatchNorm1d(4, eps=1e-2)]
        model = nn.Sequential(*parts)
        served = self.same(model, torch.randn(5, 4), loss=lambda out: (out * torch.arange(20.0).view(5, 4)).mean())
        self.assertEqual(served[1].num_batches_tracked, 2)

    def test_batch_norm_twice_in_a_step(self):
        self.same(Function(lambda m, x: m.bn(m.bn(x) * 2 + m.a(x)), bn=nn.BatchNorm1d(4), a=nn.Linear(4, 4)), torch.randn(5, 4))

    def test_frozen_batch_norm(self):
        class Frozen(nn.Sequential):
            def train(self, mode=True):
                super().train(mode)
                self[1].eval()
                return self

        model = Frozen(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        model[1].running_mean.normal_()
        served = self.same(model, torch.randn(5, 4))
        self.assertEqual(served[1].num_batches_tracked, 0)

    def test_batch_norm_in_two_dimensions_by_parts(self):
        self.same(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4)), torch.randn(3, 3, 6, 6))

    def test_equal_and_tied_and_unused_parameters(self):
        def forward(m, x):
            return F.linear(m.b(m.a(x)), m.tied) + m.bias + m.other

        a = nn.Linear(4, 4)
        model = Function(forward, a=a, b=nn.Linear(4, 4), tied=a.weight, bias=nn.Parameter(torch.zeros(4)), other=nn.Parameter(torch.zeros(4)), unused=nn.Parameter(torch.ones(3)))
        served = self.same(model, torch.randn(3, 4))
        self.assertIsNone(served.unused.grad)

    def test_buffers_and_frozen_parameters_stay(self):
        model = Function(lambda m, x: m.a(x * m.scale) @ m.table.weight, a=nn.Linear(4, 4), scale=torch.rand(4), table=nn.Linear(4, 4, bias=False))
        model.table.requires_grad_(False)
        before = model.scale.clone(), model.table.weight.clone()
        served = self.same(model, torch.randn(3, 4))
        torch.optim.SGD(served.parameters(), 0.1).step()
        self.assertTrue(torch.equal(served.scale, before[0]) and torch.equal(served.table.weight, before[1]))

    def test_dropout_of_attention(self):
        def forward(m, x):
            q, k, v = m.qkv(x).view(2, 40, 3, 2, 8).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5 if m.training else 0.0)

        served, _ = self.pair(Function(forward, qkv=nn.Linear(16, 48)))
        x = torch.randn(2, 40, 16)
        a, b = served(x), served(x)
        self.assertGreater((a - b).abs().max(), 0.01)

    def test_dropout_drops_its_share(self):
        served, _ = self.pair(Function(lambda m, x: F.dropout(x * m.w, 0.25, m.training), w=nn.Parameter(torch.ones(1))))
        out = served(torch.ones(200, 200))
        self.assertAlmostEqual((out == 0).float().mean().item(), 0.25, delta=0.01)
        self.assertAlmostEqual(out.max().item(), 4 / 3, 5)
        out.sum().backward()  # by the mask of the forward pass
        self.assertAlmostEqual(served.w.grad.item(), out.sum().item(), delta=1)

    def test_other_random_operators(self):
        def forward(m, x):
            channels = F.dropout2d(x * m.w, 0.5, m.training)
            rows = x.new_empty(len(x), 1, 1, 1).bernoulli_(0.5) * m.w
            return channels, rows, torch.randn_like(x) * m.w, torch.rand(40, 40) * m.w

        served, _ = self.pair(Function(forward, w=nn.Parameter(torch.ones(1))))
        x = torch.ones(64, 50, 2, 2)
        torch.manual_seed(1)
        channels, rows, normal, even = served(x)
        self.assertAlmostEqual(channels.mean().item(), 1, delta=0.1)
        self.assertTrue(torch.equal(channels, channels[:, :, :1, :1].expand_as(channels)))
        self.assertEqual(sorted(set(rows.flatten().tolist())), [0, 1])
        self.assertAlmostEqual(normal.std().item(), 1, delta=0.03)
        self.assertAlmostEqual(even.mean().item(), 0.5, delta=0.03)
        loss = sum(t.sum() for t in (channels, rows, normal, even))
        loss.backward()  # of what was drawn in the forward pass
        self.assertAlmostEqual(served.w.grad.item(), loss.item(), delta=1e-3 * abs(loss.item()))
        torch.manual_seed(1)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip((channels, rows, normal, even), served(x), strict=True)))
        self.assertFalse(torch.equal(normal, served(x)[2]))

    def test_checkpointed_parts(self):
        for reentrant in (False, True):
            model = Function(lambda m, x, r=reentrant: checkpoint(m.a, x, use_reentrant=r).tanh(), a=nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
            self.same(model, torch.randn(3, 4, requires_grad=True))

    def test_inputs_have_gradients(self):
        self.same(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4, requires_grad=True))

    def test_kinds_of_results(self):
        def forward(m, x, scale=1.0, flag=None):
            y = m.a(x) * scale
            return {"y": y, "nothing": None, "mean": [y.mean(), y.argmax(-1)], "kept": y.detach(), "number": 3, "x": x}

        served, plain = self.pair(Function(forward, a=nn.Linear(4, 4)))
        x = torch.randn(3, 4)
        got, want = served(x, scale=2.0, flag="a"), plain(x, scale=2.0, flag="a")
        self.assertEqual(list(got), list(want))
        self.assertIsNone(got["nothing"])
        self.assertEqual(got["number"], 3)
        for a, b in ((got["y"], want["y"]), (got["mean"][0], want["mean"][0]), (got["mean"][1], want["mean"][1]), (got["kept"], want["kept"]), (got["x"], want["x"])):
            torch.testing.assert_close(a, b)
            self.assertEqual((a.requires_grad, a.dtype), (b.requires_grad, b.dtype))
        for out in (got, want):
            (out["y"].sum() + 2 * out["mean"][0]).backward()
        self.assert_gradients(served, plain)

    def test_nothing_of_the_source_is_sent(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
        state, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        attributes = [dict(m.__dict__) for m in model.modules()]
        exported = export(model, None, (torch.randn(3, 4),), {})
        torch.set_rng_state(random)
        import onnx_ir as ir

        data = ir.to_proto(exported.program).SerializeToString()
        for word in (b".py", b"File ", b"site-packages", b"forward"):
            self.assertNotIn(word, data)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, state[name]), name)
        self.assertEqual([dict(m.__dict__) for m in model.modules()], attributes)

    def test_generator_is_left_alone(self):
        model = nn.Linear(4, 4)
        x = torch.randn(3, 4)
        torch.manual_seed(5)
        memopt.Module(model, device="cpu", fallback="raise")(x)
        got = torch.rand(1)
        torch.manual_seed(5)
        self.assertTrue(torch.equal(got, torch.rand(1)))


class Refused(Served):
    def refuse(self, model, words, *inputs, context=None):
        """The module runs itself, warns once, and gives its own bits; or raises, if asked to."""
        model.train()
        want = copy.deepcopy(model)
        served = memopt.Module(model, device="cpu")
        strict = memopt.Module(copy.deepcopy(want), device="cpu", fallback="raise")
        with context or warnings.catch_warnings():
            with self.assertRaisesRegex(memopt.MemoptError, words):
                strict(*inputs)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                torch.manual_seed(2)
                got = [served(*inputs), served(*inputs)]
            self.assertEqual(len([w for w in caught if "memopt" in str(w.message)]), 1, [str(w.message) for w in caught])
            self.assertRegex(str(caught[0].message), words)
            self.assertEqual(caught[0].filename, __file__)
            torch.manual_seed(2)
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(got, [want(*inputs), want(*inputs)], strict=True)))
        self.assertIsNone(served.report)

    def test_backward_of_its_own(self):
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return -g

        self.refuse(Function(lambda m, x: Reverse.apply(m.a(x)), a=nn.Linear(4, 4)), "Reverse, a torch.autograd.Function", torch.randn(3, 4))

    def test_hooks_on_what_is_inside(self):
        def forward(m, x):
            y = m.a(x)
            if y.requires_grad:
                y.register_hook(lambda g: g * 2)
            return y

        self.refuse(Function(forward, a=nn.Linear(4, 4)), "registers a hook", torch.randn(3, 4))
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        model[0].register_full_backward_hook(lambda m, a, b: None)
        served = memopt.Module(model, device="cpu", fallback="raise")
        with self.assertRaisesRegex(memopt.MemoptError, "0 has a backward hook"):
            served(torch.randn(3, 4))

    def test_autocast(self):
        self.refuse(nn.Linear(4, 4), "autocast", torch.randn(3, 4), context=torch.autocast("cpu", torch.bfloat16))

    def test_branches_on_numbers(self):
        self.refuse(Function(lambda m, x: m.a(x) if x.sum() > 0 else m.b(x), a=nn.Linear(4, 4), b=nn.Linear(4, 4)), "cannot be exported", torch.randn(3, 4))

    def test_an_exporter_that_leaves_something_out(self):
        model = Function(lambda m, x, y: F.cross_entropy(m.bn(m.a(x)), y, label_smoothing=0.5), a=nn.Linear(4, 4), bn=nn.BatchNorm1d(4))
        x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 1, 2])
        table = translate.table()
        del table[torch.ops.aten.cross_entropy_loss.default]
        with mock.patch.object(translate, "table", lambda: table):
            self.refuse(model, "gives other numbers than the module: output is off by", x, y)
            resident = memopt.Module(copy.deepcopy(model), mode="resident", device="cpu")
            with self.assertRaisesRegex(memopt.MemoptError, "gives other numbers"):
                resident.step(x, y)
        self.assertEqual(model.bn.num_batches_tracked, 2)

    def test_budget_that_cannot_be_met(self):
        served = memopt.Module(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), device="cpu", budget=1000)
        with self.assertRaises(memopt.BudgetError) as caught:
            served(torch.randn(8, 64))
        self.assertGreater(caught.exception.best, 1000)

    def test_arguments(self):
        model = nn.Linear(4, 4)
        for words, make in {
            "mode 'brigde'": lambda: memopt.Module(model, mode="brigde"),
            "fallback 'no'": lambda: memopt.Module(model, fallback="no"),
            "did you mean 'cross-entropy'": lambda: memopt.Module(model, "cross_entropy"),
            "did you mean 'budget'": lambda: memopt.Module(model, bugdet="1GB"),
            "takes a torch.nn.Module": lambda: memopt.Module(lambda x: x),
            "already": lambda: memopt.Module(memopt.Module(model)),
            r"step\(\) is of modules": lambda: memopt.Module(model).step(torch.randn(3, 4)),
        }.items():
            with self.subTest(words), self.assertRaisesRegex((TypeError, ValueError, RuntimeError), words):
                make()


if __name__ == "__main__":
    unittest.main()
