"""An odd step costs that step only: skipped batches, errors, interrupts, evaluation with gradients, second backward passes."""

from __future__ import annotations

import copy
import unittest
import warnings

import torch
from models import families
from test_loops_steps import Loops, Net
from test_optimize import step

import memopt
from memopt.torch import report


class TestOdd(Loops):
    def setUp(self):
        super().setUp()
        self.model, self.args, _ = families()["gpt"]
        self.plain = copy.deepcopy(self.model)

    def begin(self, **settings):
        memopt.optimize(self.model, activation_budget="60%", verbose=False, **settings)
        for _ in range(4):
            self.same(step(self.model, self.args), step(self.plain, self.args))
        self.made = report(self.model)
        self.assertGreater(self.made.plan.result.recomputed_nodes, 0)

    def as_before(self, steps=3):
        """The plan is the one before, and takes what it promises."""
        for _ in range(steps):
            self.same(step(self.model, self.args), step(self.plain, self.args))
        self.assertIs(report(self.model), self.made)

        def loop(m):
            m.zero_grad(set_to_none=True)
            m(*self.args).backward()
        self.assertLessEqual(abs(self.taken(self.model, loop) - self.made.promised_peak), 16384)

    def quiet(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("error")

    def test_skipped(self):
        """Batches that are skipped after their forward pass, whose graph is there while the next one runs."""
        self.begin()
        self.quiet()
        for i in range(12):
            loss = self.model(*self.args)
            if i % 3 == 1:
                continue
            self.model.zero_grad(set_to_none=True)
            loss.backward()
        del loss
        self.as_before()

    def test_skipped_first(self):
        """The first batch is skipped."""
        memopt.optimize(self.model, activation_budget="60%", verbose=False)
        for i in range(4):
            loss = self.model(*self.args)
            if i:
                loss.backward()
                self.model.zero_grad(set_to_none=True)
        self.made = report(self.model)
        self.as_before()

    def test_held_for_long(self):
        """Losses whose graphs somebody keeps for the whole run."""
        self.begin()
        self.quiet()
        bad = [self.model(*self.args) for _ in range(2)]
        self.as_before(8)
        del bad
        self.as_before()

    def test_error_in_forward(self):
        for error in (ValueError, RuntimeError, KeyboardInterrupt):
            with self.subTest(error=error.__name__):
                memopt.restore(self.model)
                self.begin()
                self.quiet()

                def fails(*_, error=error):
                    raise error("in the middle")

                hook = self.model.blocks[1].register_forward_pre_hook(fails)
                with self.assertRaises(error):
                    self.model(*self.args)
                hook.remove()
                self.as_before()

    def test_error_in_backward(self):
        for error in (ValueError, KeyboardInterrupt):
            with self.subTest(error=error.__name__):
                memopt.restore(self.model)
                self.begin()
                self.quiet()

                def fails(*_, error=error):
                    raise error("in the middle")

                hook = self.model.blocks[1].ln_1.weight.register_hook(fails)
                with self.assertRaises(error):
                    self.model(*self.args).backward()
                hook.remove()
                self.as_before()

    def test_errors_at_first(self):
        """In the step that is recorded, and in the one that is measured."""
        for at in range(5):
            with self.subTest(step=at):
                memopt.restore(self.model)
                memopt.optimize(self.model, activation_budget="60%", verbose=False)
                for i in range(6):
                    if i == at:
                        hook = self.model.blocks[1].ln_1.weight.register_hook(lambda _: 1 / 0)
                        with self.assertRaises(ZeroDivisionError):
                            self.model(*self.args).backward()
                        hook.remove()
                    else:
                        self.same(step(self.model, self.args), step(self.plain, self.args))
                self.assertGreater(report(self.model).plan.result.recomputed_nodes, 0)
                self.assertFalse(torch.autograd._profiler_enabled())

    def test_evaluation(self):
        """An evaluation that forgets no_grad, and keeps the losses until its end."""
        self.begin()
        self.quiet()
        losses = [self.model(*self.args) for _ in range(5)]
        self.assertEqual(len({loss.item() for loss in losses}) > 0, True)
        del losses
        self.as_before()

    def test_second_backward_pass(self):
        """A second backward pass that first appears in mid-run, once and then for good."""
        self.begin()

        def twice(m):
            torch.manual_seed(7)
            m.zero_grad(set_to_none=True)
            out = m(*self.args)
            out.backward(retain_graph=True)
            out.backward()
            return out.detach(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        self.same(twice(self.model), twice(self.plain))
        for _ in range(3):
            self.same(step(self.model, self.args), step(self.plain, self.args))
        for _ in range(4):
            self.same(twice(self.model), twice(self.plain))
        self.assertGreater(report(self.model).plan.result.recomputed_nodes, 0)
        for _ in range(3):
            self.same(step(self.model, self.args), step(self.plain, self.args))

    def test_kept_for_nothing(self):
        """retain_graph=True in every step, without a second backward pass."""
        memopt.optimize(self.model, activation_budget="60%", verbose=False)
        for _ in range(5):
            for m in (self.model, self.plain):
                torch.manual_seed(1)
                m.zero_grad(set_to_none=True)
                m(*self.args).backward(retain_graph=True)
            self.equal([p.grad for p in self.model.parameters()], [p.grad for p in self.plain.parameters()])
        self.assertGreater(report(self.model).plan.result.recomputed_nodes, 0)

    def test_gradient_penalty_once(self):
        """Gradients of gradients in one step of a run."""
        self.begin()
        for i in range(6):
            for m in (self.model, self.plain):
                torch.manual_seed(1)
                m.zero_grad(set_to_none=True)
                out = m(*self.args)
                if i == 2:
                    (g,) = torch.autograd.grad(out, [m.ln.weight], create_graph=True)
                    out = out + g.square().sum()
                out.backward()
            self.equal([p.grad for p in self.model.parameters()], [p.grad for p in self.plain.parameters()])
        self.assertGreater(report(self.model).plan.result.recomputed_nodes, 0)

    def test_part_of_the_results(self):
        """Two results, and a backward pass from one of them only, now and then."""

        class Two(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = Net(), Net()

            def forward(self, x):
                return self.a(x), self.b(x)

        model, x = Two(), torch.randn(256, 64)
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%", verbose=False)
        for i in range(9):
            for m in (model, plain):
                m.zero_grad(set_to_none=True)
                a, b = m(x)
                if i % 3 == 1:
                    a.square().mean().backward()
                elif i % 3 == 2:
                    b.square().mean().backward()
                    a.square().mean().backward()
                else:
                    (a * b).mean().backward()
            self.equal([p.grad for p in model.parameters() if p.grad is not None], [p.grad for p in plain.parameters() if p.grad is not None])


if __name__ == "__main__":
    unittest.main()
