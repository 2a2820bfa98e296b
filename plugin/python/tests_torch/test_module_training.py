"""What people do with modules, and with a module in the service: it is the same."""

from __future__ import annotations

import copy
import inspect
import pickle
import unittest

import torch
from torch import nn
from torch.nn import functional as F

import memopt
from served import Function, Served


class Training(Served):
    def three(self, **settings):
        return self.pair(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), "mse", **settings)

    def both(self, served, plain, x, y, weight=1.0):
        (served(x, y) * weight).backward()
        (F.mse_loss(plain(x), y) * weight).backward()

    def test_accumulation_and_clipping_and_hooks(self):
        served, plain = self.three()
        seen = {id(served): [], id(plain): []}
        for m in (served, plain):
            m[0].weight.register_hook(lambda g, m=m: seen[id(m)].append(g.norm().item()) or g * 2)
        for _ in range(4):
            self.both(served, plain, torch.randn(3, 4), torch.randn(3, 2), 1 / 4)
        self.assert_gradients(served, plain)
        self.assertEqual(len(seen[id(served)]), 4)
        for a, b in zip(*seen.values(), strict=True):
            self.assertAlmostEqual(a, b, 5)
        norms = [nn.utils.clip_grad_norm_(m.parameters(), 0.01).item() for m in (served, plain)]
        self.assertAlmostEqual(*norms, 5)
        self.assert_gradients(served, plain)

    def test_gradients_are_the_users_own(self):
        served, plain = self.three()
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        self.both(served, plain, x, y)
        kept = [p.grad for p in served.parameters()]
        copies = [g.clone() for g in kept]
        for p in served.parameters():
            p.grad = None
        served(torch.randn(3, 4), y).backward()
        for g, c in zip(kept, copies, strict=True):
            self.assertTrue(torch.equal(g, c))

    def test_two_forward_passes_before_the_backward_passes(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.0), nn.Linear(8, 2))
        served, plain = self.pair(model)
        a, b = torch.randn(3, 4), torch.randn(5, 4)
        for m in (served, plain):
            first, second = m(a), m(b)
            (first.square().mean() + second.square().mean()).backward()
        self.assert_gradients(served, plain)
        self.assert_buffers(served, plain)
        for m in (served, plain):
            m.zero_grad()
            out = m(a)
            out.sum().backward(retain_graph=True)
            out.square().sum().backward()
        self.assert_gradients(served, plain)
        self.assert_buffers(served, plain)

    def test_a_pass_that_is_run_again_draws_the_same(self):
        served, _ = self.pair(Function(lambda m, x: F.dropout(x * m.w, 0.5, m.training), w=nn.Parameter(torch.ones(50))))
        first, second = served(torch.ones(50)), served(torch.ones(50))
        (grad,) = torch.autograd.grad(first.sum(), served.w)
        self.assertTrue(torch.equal(grad, first))
        self.assertFalse(torch.equal(first, second))

    def test_what_cannot_be_undone(self):
        served, _ = self.three()
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        loss = served(x, y)
        loss.backward()
        with self.assertRaisesRegex(RuntimeError, "second time"):
            loss.backward()
        first = served(x, y)
        served(x, y)
        with torch.no_grad():
            served[0].weight.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            first.backward()
        x = x.requires_grad_()
        with self.assertRaisesRegex(RuntimeError, "no gradients of gradients"):
            torch.autograd.grad(served(x, y), x, create_graph=True)

    def test_weights_written_in_any_way(self):
        served, plain = self.three()
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        served(x, y)
        for change in (lambda p: p.data.mul_(2), lambda p: setattr(p, "data", torch.ones_like(p)), lambda p: p.data.fill_(3.0), lambda p: p.detach().numpy().fill(0.5)):
            for m in (served, plain):
                change(m[0].weight)
            self.assertAlmostEqual(served(x, y).item(), F.mse_loss(plain(x), y).item(), 5)

    def test_shapes_that_change(self):
        served, plain = self.pair(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), "mse")
        for rows in (6, 6, 3, 5, 1, 6, 3):
            for m in (served, plain):
                m.zero_grad()
            self.both(served, plain, torch.randn(rows, 4), torch.randn(rows, 2))
            self.assert_gradients(served, plain)
        (several,) = served._steps._held.values()
        self.assertLessEqual(len(several), 3)  # six rows, any number of them, and one row, which exporters take for a constant

    def test_frozen_later_and_parts_replaced(self):
        served, plain = self.three()
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        self.both(served, plain, x, y)
        for m in (served, plain):
            m.zero_grad()
            m[0].requires_grad_(False)
        self.both(served, plain, x, y)
        self.assert_gradients(served, plain)
        torch.manual_seed(4)
        served[2] = nn.Linear(8, 2)
        torch.manual_seed(4)
        plain[2] = nn.Linear(8, 2)
        for m in (served, plain):
            m.zero_grad()
        self.both(served, plain, x, y)
        self.assert_gradients(served, plain)

    def test_looks_like_the_model(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        model.note = "kept"
        served = memopt.Module(model, device="cpu")
        self.assertEqual(list(served.state_dict()), list(model.state_dict()))
        self.assertEqual([n for n, _ in served.named_modules()], [n for n, _ in model.named_modules()])
        self.assertEqual([n for n, _ in served.named_parameters()], [n for n, _ in model.named_parameters()])
        self.assertEqual(served.note, "kept")
        served.note = "new"
        self.assertEqual(model.note, "new")
        served.eval()
        self.assertFalse(model.training or model[1].training or served.training)
        model.train()
        self.assertTrue(served.training)
        x = torch.randn(3, 4)
        with torch.no_grad():
            self.assertTrue(torch.equal(served(x), copy.deepcopy(model)(x)))
        for other in (copy.deepcopy(served), pickle.loads(pickle.dumps(served))):
            self.assertIsInstance(other, memopt.Module)
            self.assertIsNot(other[0].weight, model[0].weight)
            self.assertTrue(torch.equal(other[0].weight, model[0].weight))
        served.to(torch.float64)
        self.assertEqual(model[0].weight.dtype, torch.float64)
        served.load_state_dict({k: torch.zeros_like(v) for k, v in model.state_dict().items()})
        self.assertEqual(model[0].weight.abs().max(), 0)
        self.assertIs(served.original, model)
        self.assertEqual(inspect.signature(served.forward), inspect.signature(model.forward))

    def test_eval_is_the_model(self):
        served, plain = self.three()
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        served.eval(), plain.eval()
        self.assertTrue(torch.equal(served(x), plain(x)))
        self.assertTrue(torch.equal(served(x, y), F.mse_loss(plain(x), y)))

    def test_other_types(self):
        served, plain = self.pair(nn.Linear(4, 2).double())
        x = torch.randn(3, 4, dtype=torch.float64).t().contiguous().t()
        for m in (served, plain):
            m(x).sum().backward()
        self.assert_gradients(served, plain, 1e-12)

    def test_resident_accumulates(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).train()
        plain = copy.deepcopy(model)
        served = memopt.Module(model, "mse", mode="resident", optimizer="sgd", accumulate=2, device="cpu", lr=0.1)
        self.addCleanup(served.close)
        optimizer = torch.optim.SGD(plain.parameters(), 0.1)
        for i in range(6):
            x, y = torch.randn(3, 4), torch.randn(3, 2)
            loss = F.mse_loss(plain(x), y)
            (loss / 2).backward()
            self.assertAlmostEqual(served.step(x, y).item(), loss.item(), 5)
            if i % 2:
                optimizer.step()
                optimizer.zero_grad()
        for (name, a), b in zip(served.state_dict().items(), plain.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, msg=name)

    def test_resident_takes_weights_and_other_shapes(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).train()
        plain = copy.deepcopy(model)
        served = memopt.Module(model, "mse", mode="resident", optimizer="adamw", weight_decay=0.01, device="cpu", lr=1e-2)
        self.addCleanup(served.close)
        optimizer = torch.optim.AdamW(plain.parameters(), 1e-2, weight_decay=0.01)
        for i, rows in enumerate((6, 6, 4, 5, 6)):
            if i == 3:
                for m in (served, plain):
                    m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()})
            x, y = torch.randn(rows, 4), torch.randn(rows, 2)
            optimizer.zero_grad()
            loss = F.mse_loss(plain(x), y)
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(served.step(x, y).item(), loss.item(), 5)
        for (name, a), b in zip(served.state_dict().items(), plain.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)
        with self.assertRaisesRegex(RuntimeError, "trains by step"):
            served(x, y)


if __name__ == "__main__":
    unittest.main()
