"""mode="graph": steps launched from captures, on the stand-in for the processor: the bits of eager mode, within the bytes promised."""

from __future__ import annotations

import copy
import sys
import unittest
import warnings
from unittest import mock

import torch
from models import families
from test_loops_programs import Ways
from test_optimize import Case, Wide, step
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch.graph.tape import ArenaPool

GRAPHS = sys.modules["memopt.torch.loop.graphs"]
ENOUGH = 9  # steps, until one was recorded, some checked and measured, and one captured


class TestGraph(Case):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(GRAPHS, "pool_of", lambda devices: ArenaPool())
        patch.start()
        self.addCleanup(patch.stop)

    def replay(self, model):
        return memopt.torch.report(model).replay

    def trained(self, models, loop, steps):
        """The same loop for a captured module and a plain one, with their weights changed in each step."""
        for i in range(steps):
            found = [loop(m, i) for m in models]
            self.same(found[0], found[1])
            with torch.no_grad():
                for m in models:
                    for p in m.parameters():
                        if p.grad is not None:
                            p.sub_(p.grad, alpha=1e-3)

    def pair(self, model, budget="60%", **settings):
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget=budget, mode="graph", verbose=False, **settings)
        return model, plain

    def test_models(self):
        """Real models, their loss within or outside: from the capture on, other inputs, other random numbers, other weights."""
        for name, (model, args, loss) in families().items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                both = self.pair(model, "100%" if name == "lstm" else "60%")

                def loop(m, i, args=args, loss=loss):
                    torch.manual_seed(i)
                    given = [a + 0.01 * i if a.is_floating_point() else a.roll(i) for a in args]
                    m.zero_grad(set_to_none=True)
                    out = m(*given)
                    found = loss(out) if loss is not None else out
                    del out
                    found.backward()
                    grads = {n: p.grad.clone() for n, p in m.named_parameters() if p.grad is not None}
                    return found.detach().clone(), grads, {n: b.clone() for n, b in m.named_buffers()}

                self.trained(both, loop, ENOUGH + 3)
                self.assertEqual(self.replay(model), "graph", name)
                memopt.restore(model)

    def test_reserved(self):
        """The pool of a capture has the bytes that the plan promises."""
        for budget in ("90%", "60%"):
            model, args, _ = families()["gpt"]
            both = self.pair(model, budget)
            self.trained(both, lambda m, i, args=args: step(m, args), ENOUGH + 1)
            report = memopt.torch.report(model)
            self.assertEqual(report.replay, "graph")
            self.assertGreater(report.plan.result.recomputed_nodes, 0)
            self.assertLessEqual(report.reserved, 1.01 * report.promised_peak + 65536)
            self.assertGreater(report.reserved, 0.9 * report.promised_peak)

    def test_no_code_runs(self):
        """From the capture on, the code of the module does not run."""
        runs = []

        class Counts(nn.Module):
            def forward(self, x):
                runs.append(1)
                return torch.sin(x)

        model, _ = both = self.pair(Wide(Counts()))
        args = (torch.randn(128, 64),)
        self.trained(both, lambda m, i: step(m, args), ENOUGH)
        runs.clear()
        self.trained(both, lambda m, i: step(m, args), 3)
        self.assertEqual(len(runs), 3)  # of the plain one

    def test_accumulation(self):
        """Gradients that somebody has when the next pass is launched are added to."""
        args = (torch.randn(128, 64),)

        def loop(m, i):
            m.zero_grad(set_to_none=True)
            for k in range(3):
                out = (m(args[0] * (k + 1)).square().mean()) / 3
                out.backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 3)
        self.assertEqual(self.replay(model), "graph")

    def test_gradients_are_kept(self):
        """zero_grad behind the forward pass, and gradients that are clipped where they lie."""
        args = (torch.randn(128, 64),)

        def loop(m, i):
            out = m(*args).square().mean()
            m.zero_grad(set_to_none=bool(i % 2))
            out.backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.1)
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 6)
        self.assertEqual(self.replay(model), "graph")

    def test_results_are_collected(self):
        args = (torch.randn(128, 64),)
        kept = {}

        def loop(m, i):
            m.zero_grad(set_to_none=True)
            out = m(args[0] * (1 + i / 8))
            kept.setdefault(id(m), []).append(out.detach())
            out.square().mean().backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 3)
        self.assertEqual(self.replay(model), "graph")
        for a, b in zip(*kept.values(), strict=True):
            self.assertTrue(torch.equal(a, b))

    def test_shapes(self):
        """Each shape has its capture where nothing else is within the budget; in turn with new ones, steps run under their plans."""
        batches = [(torch.randn(n, 64),) for n in (128, 96)]

        def loop(m, i):
            return step(m, batches[i // 2 % 2], lambda out: out.square().mean())

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, 24)
        self.assertEqual(self.replay(model), "graph")
        self.assertEqual(len(model.forward.loop.graphs.made), 2)
        odd = (torch.randn(77, 64),)
        self.trained(both, lambda m, i: step(m, odd, lambda out: out.square().mean()), 1)
        self.assertEqual(len(model.forward.loop.graphs.made), 0)
        self.trained(both, loop, 12)
        self.assertEqual(self.replay(model), "graph")

    def test_what_is_not_captured(self):
        """A value that the host waits for: said with its place, and the step runs under its plan."""

        class Asks(nn.Module):
            def forward(self, x):
                y = torch.tanh(x)
                return torch.sigmoid(y) * (1 + abs(y.mean().item()))

        class Picks(nn.Module):
            def forward(self, x):
                return torch.sigmoid(x) * x[x > 0].sum()

        for inner, what in ((Asks(), "aten._local_scalar_dense, in inner"), (Picks(), "in inner")):
            model, _ = both = self.pair(Wide(inner))
            args = (torch.randn(128, 64),)
            with self.assertWarnsRegex(UserWarning, f"the step is not captured.*{what}"):
                self.trained(both, lambda m, i, args=args: step(m, args), ENOUGH)
            self.assertIn(self.replay(model), ("native", "python"))
            memopt.restore(model)

    def test_asked_within_backward(self):
        """What only the backward pass asks for is found when it is captured."""

        class Asks(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * (2 if float(g.sum()) > -1e9 else 3)

        class Layer(nn.Module):
            def forward(self, x):
                return torch.sigmoid(Asks.apply(torch.tanh(x)))

        model, _ = both = self.pair(Wide(Layer()))
        args = (torch.randn(128, 64),)
        with self.assertWarnsRegex(UserWarning, "the step is not captured.*_local_scalar_dense"):
            self.trained(both, lambda m, i: step(m, args), ENOUGH)
        self.assertIn(self.replay(model), ("native", "python"))

    def test_skipped_and_evaluated(self):
        """Batches without a backward pass, and evaluation in between."""
        args = (torch.randn(128, 64),)

        def loop(m, i):
            if i % 3 == 2:
                m(*args)
            m.eval()
            with torch.no_grad():
                seen = m(*args).sum()
            m.train()
            loss, grads, _ = step(m, args, lambda out: out.square().mean())
            return loss + seen, grads, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 4)
        self.assertEqual(self.replay(model), "graph")

    def test_second_pass(self):
        """A forward pass before the backward pass of the one before runs; a second backward pass says what to do."""
        args = (torch.randn(128, 64),)
        model, plain = both = self.pair(Ways())
        self.trained(both, lambda m, i: step(m, args, lambda out: out.square().mean()), ENOUGH)
        self.assertEqual(self.replay(model), "graph")

        def two(m, i):
            m.zero_grad(set_to_none=True)
            out = m(*args).square().mean() + m(args[0] * 2).square().mean()
            out.backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        self.trained(both, two, 1)
        out = model(*args).square().mean()
        if self.replay(model) == "graph":
            out.backward(retain_graph=True)
            with self.assertRaisesRegex(RuntimeError, "mode='eager'"):
                out.backward()

    def test_moved_parameters(self):
        args = (torch.randn(128, 64),)
        model, plain = both = self.pair(Ways())
        self.trained(both, lambda m, i: step(m, args, lambda out: out.square().mean()), ENOUGH)
        for m in both:
            for p in m.parameters():
                p.data = p.data * 1.5
        self.trained(both, lambda m, i: step(m, args, lambda out: out.square().mean()), 8)
        self.assertEqual(self.replay(model), "graph")

    def test_inputs_with_gradients(self):
        args = (torch.randn(128, 64, requires_grad=True),)

        def loop(m, i):
            args[0].grad = None
            loss, grads, _ = step(m, args, lambda out: out.square().mean())
            return loss, {**grads, "input": args[0].grad.clone()}, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 2)
        self.assertEqual(self.replay(model), "graph")

    def test_autocast(self):
        args = (torch.randn(128, 64),)

        def loop(m, i):
            with torch.autocast("cpu", torch.bfloat16):
                out = m(*args).float().square().mean()
            m.zero_grad(set_to_none=True)
            out.backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        model, _ = both = self.pair(Ways())
        self.trained(both, loop, ENOUGH + 4)
        self.assertEqual(self.replay(model), "graph")

    def test_dropout(self):
        class Drops(Ways):
            def forward(self, x):
                return F.dropout(super().forward(F.dropout(x, 0.1)), 0.5)

        def loop(m, i):
            torch.manual_seed(i // 2)
            return step(m, (torch.ones(128, 64),), lambda out: out.square().mean())

        model, _ = both = self.pair(Drops())
        self.trained(both, loop, ENOUGH + 2)
        self.assertEqual(self.replay(model), "graph")


class TestArguments(unittest.TestCase):
    def test_processor(self):
        """Without CUDA there is nothing to capture with."""
        with self.assertRaisesRegex(ValueError, "one CUDA device, and the module is on cpu"):
            memopt.optimize(nn.Linear(4, 4), mode="graph")

    def test_what_does_not_go_together(self):
        model = nn.Linear(4, 4)
        with self.assertRaisesRegex(TypeError, "updates outside"):
            memopt.optimize(model, mode="graph", optimizer=torch.optim.SGD(model.parameters()), optimizer_in_backward=True)
        with self.assertRaisesRegex(TypeError, "one module"):
            memopt.optimize([model, nn.Linear(4, 4)], mode="graph")


if __name__ == "__main__":
    unittest.main()
