"""The optimizer's step in the backward pass: the same parameters, no gradients in memory, and a word to whoever wants them."""

from __future__ import annotations

import copy
import unittest

import torch
from models import GPT
from torch import nn

import memopt
from memopt.torch import report
from memopt.torch.step.spent import Spent


class TestEarly(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.tokens = torch.randint(0, 300, (2, 32))
        self.model = GPT(layers=2, width=128)

    def plan(self, optimizer, model=None, **given):
        given = {"activation_budget": "100%", "sample": (self.tokens, self.tokens), "optimizer_in_backward": True, **given}
        return memopt.optimize(model or self.model, optimizer=optimizer, **given)

    def train(self, pairs, steps=5):
        """Steps of models side by side, from the same random states; their losses."""
        losses = []
        for i in range(steps):
            row = []
            for model, optimizer in pairs:
                torch.manual_seed(i)
                optimizer.zero_grad()
                loss = model(self.tokens, self.tokens)
                loss.backward()
                optimizer.step()
                row.append(loss.item())
            losses.append(row)
        return losses

    def test_same_parameters(self):
        """Every step is that of the optimizer, under a plan too, with a sample and without, and its states are where they were."""
        for make in (
            lambda p: torch.optim.AdamW(p, 1e-2),
            lambda p: torch.optim.Adam([{"params": p[:5], "lr": 1e-3}, {"params": p[5:], "weight_decay": 0.1}], amsgrad=True),
            lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True),
            lambda p: torch.optim.RMSprop(p, 1e-3),
        ):
            for sample in (None, (self.tokens, self.tokens)):
                plain, early = copy.deepcopy(self.model), copy.deepcopy(self.model)
                pairs = [(m, make(list(m.parameters()))) for m in (plain, early)]
                with self.subTest(optimizer=type(pairs[0][1]).__name__, sample=sample is not None):
                    before = copy.deepcopy(early.state_dict())
                    found = self.plan(pairs[1][1], early, activation_budget="75%", sample=sample)
                    self.assertTrue(all(torch.equal(v, before[k]) for k, v in early.state_dict().items()))
                    self.assertEqual(len(pairs[1][1].state), 0)
                    for a, b in self.train(pairs):
                        self.assertEqual(a, b)
                    found = report(early)
                    self.assertIsNotNone(found.plan)
                    self.assertEqual(found.measured_on, "a step of training")
                    self.assertLessEqual(abs(found.measured_peak - found.promised_peak), 0.001 * found.promised_peak + 4096)
                    self.assertTrue(all(torch.equal(x, y) for x, y in zip(plain.parameters(), early.parameters(), strict=True)))
                    states = [o.state_dict() for _, o in pairs]
                    self.assertEqual(str(states[0]["param_groups"]), str(states[1]["param_groups"]))
                    for k, state in states[0]["state"].items():
                        self.assertTrue(all(torch.equal(v, states[1]["state"][k][name]) for name, v in state.items() if isinstance(v, torch.Tensor)))
                    self.assertTrue(all(p.grad is None for p in early.parameters()))
                    memopt.restore(early)

    def test_whole_budget(self):
        """A limit on all that the step holds counts no gradient that the optimizer has taken."""
        plain, early = copy.deepcopy(self.model), copy.deepcopy(self.model)
        pairs = [(m, torch.optim.AdamW(m.parameters(), 1e-2)) for m in (plain, early)]
        self.plan(pairs[1][1], early, activation_budget=None, budget="90%", sample=None)
        for a, b in self.train(pairs, steps=3):
            self.assertEqual(a, b)
        self.assertIsNotNone(report(early).plan)

    def test_gradients_are_gone(self):
        """They are not in the peak, recorded and measured, and the report offers what that saves."""
        optimizer = torch.optim.SGD(self.model.parameters(), 1e-2)
        plain = memopt.explain(self.model, self.tokens, self.tokens)
        said = next(o.floor for o in plain.binds.offers if o.argument == "optimizer_in_backward=True")
        self.plan(optimizer)
        early = memopt.explain(self.model)
        self.assertLess(early.eager_peak, plain.eager_peak)
        self.assertLess(early.floor, plain.floor - sum(p.nbytes for p in self.model.parameters()) // 4)
        self.assertLess(early.floor, 1.3 * said)
        self.assertNotIn("optimizer_in_backward", str([o.argument for o in early.binds.offers]))

    def test_schedule(self):
        """A scheduler sees optimizer.step(), and its rates count."""
        plain, early = copy.deepcopy(self.model), copy.deepcopy(self.model)
        pairs = [(m, torch.optim.SGD(m.parameters(), 1e-1)) for m in (plain, early)]
        schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for _, o in pairs]
        self.plan(pairs[1][1], early)
        for _ in range(4):
            for a, b in self.train(pairs, 1):
                self.assertEqual(a, b)
            for s in schedules:
                s.step()
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(plain.parameters(), early.parameters(), strict=True)))

    def test_closure(self):
        plain, early = copy.deepcopy(self.model), copy.deepcopy(self.model)
        for model, planned in ((plain, False), (early, True)):
            optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
            if planned:
                self.plan(optimizer, model)
            for i in range(3):

                def closure(model=model, optimizer=optimizer, i=i):
                    torch.manual_seed(i)
                    optimizer.zero_grad(set_to_none=False)
                    loss = model(self.tokens, self.tokens)
                    loss.backward()
                    return loss

                self.assertIsInstance(optimizer.step(closure), torch.Tensor)
        self.assertTrue(all(torch.equal(x, y) for x, y in zip(plain.parameters(), early.parameters(), strict=True)))

    def step(self):
        self.model(self.tokens, self.tokens).backward()

    def test_who_wants_gradients(self):
        """Clipping, accumulation and scaling raise, before they do harm where that can be known."""
        optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)
        self.plan(optimizer)
        self.step()
        self.assertIsInstance(self.model.head.weight.grad, Spent)
        for clip in (lambda p: nn.utils.clip_grad_norm_(p, 1.0), lambda p: nn.utils.clip_grad_norm_(p, 1.0, foreach=False), lambda p: nn.utils.clip_grad_value_(p, 1.0)):
            with self.assertRaisesRegex(RuntimeError, "optimizer_in_backward"):
                clip(self.model.parameters())
        with self.assertRaisesRegex(RuntimeError, "accumulated"):
            self.step()
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
        self.step()
        optimizer.step()
        self.assertTrue(all(p.grad is None for p in self.model.parameters()))
        memopt.restore(self.model)

        self.plan(optimizer)
        before = copy.deepcopy(self.model.state_dict())
        scaler = torch.amp.GradScaler("cpu")
        with self.assertRaisesRegex(RuntimeError, "scaled by 65536"):
            scaler.scale(self.model(self.tokens, self.tokens)).backward()
        with self.assertRaisesRegex(RuntimeError, "scaled by 0.25"):
            (self.model(self.tokens, self.tokens) / 4).backward()
        self.assertTrue(all(torch.equal(v, before[k]) for k, v in self.model.state_dict().items()))

    def test_ends(self):
        """restore, and a budget that cannot be met, leave no hook behind."""
        optimizer = torch.optim.SGD(self.model.parameters(), 1e-2)
        self.plan(optimizer)
        memopt.restore(self.model)
        with self.assertRaises(memopt.BudgetError):
            self.plan(optimizer, activation_budget="1KiB")
        before = copy.deepcopy(self.model.state_dict())
        self.step()
        self.assertTrue(all(torch.equal(v, before[k]) for k, v in self.model.state_dict().items()))
        self.assertTrue(all(type(p.grad) is torch.Tensor for p in self.model.parameters()))
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.assertFalse(optimizer._optimizer_step_pre_hooks)

    def test_refused(self):
        with self.assertRaisesRegex(TypeError, "optimizer="):
            self.plan(None)
        with self.assertRaisesRegex(ValueError, "LBFGS"):
            self.plan(torch.optim.LBFGS(self.model.parameters()))
        with self.assertRaisesRegex(ValueError, "none of the module's parameters"):
            self.plan(torch.optim.SGD(nn.Linear(2, 2).parameters(), 1))

    def test_frozen(self):
        for p in self.model.blocks[0].parameters():
            p.requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], 1e-2)
        before = copy.deepcopy(self.model.state_dict())
        self.plan(optimizer)
        self.train([(self.model, optimizer)], 2)
        changed = {k for k, v in self.model.state_dict().items() if not torch.equal(v, before[k])}
        self.assertFalse(any(k.startswith("blocks.0") for k in changed))
        self.assertTrue(any(k.startswith("blocks.1") for k in changed))
