"""What PyTorch's own tests of checkpointing and of saved-tensor hooks showed under a plan: see upstream.py."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from test_optimize import Case
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

import memopt
from memopt.torch.step.standin import standing


def run_of(model):
    """The planned step of a module that is under way, or None."""
    step = standing(model).loop.current
    return step.run() if step is not None and step.run is not None else None


class Sparse(nn.Module):
    """Rows mixed over the edges of a graph, whose weights come out of a layer."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.weigh, self.mix = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        h = self.weigh(x).exp().sin()
        if self.layout == torch.sparse_coo:
            at = torch.arange(64)
            edges = torch.sparse_coo_tensor(torch.stack([at, (at + 1) % 64]), h.sum(1).tanh(), (64, 64))
        else:
            edges = torch.eye(64).to_sparse(layout=self.layout)
        return torch.sparse.mm(edges, self.mix(h).cos().exp()).sin().exp().sum()


class Chain(nn.Module):
    def forward(self, x):
        return x.exp().sin().cos().exp()


class TestUpstream(Case):
    def planned(self, model, x, loss=None):
        return memopt.optimize(model, max_overhead="10000%", sample=(x,), loss=loss, verbose=False)

    def test_sparse(self):
        """Sparse tensors are made, saved and used between what a plan drops, in a sample and in a step that trains."""
        for layout in (torch.sparse_coo, torch.sparse_csr):
            for sample in (True, False):
                with self.subTest(layout=layout, sample=sample):
                    model, x = Sparse(layout), torch.randn(64, 64)

                    def gradients(model=model, x=x):
                        model.zero_grad(set_to_none=True)
                        model(x).backward()
                        return [p.grad.clone() for p in model.parameters()]

                    want = gradients()
                    if sample:
                        self.planned(model, x)
                    else:
                        memopt.optimize(model, max_overhead="10000%", verbose=False)
                        gradients()
                    report = memopt.torch.report(model)
                    self.assertGreater(report.plan.result.recomputed_nodes, 0)
                    for _ in range(2):
                        self.assertTrue(all(map(torch.equal, gradients(), want)))
                    run = run_of(model)
                    self.assertIsNone(run and run.diverged)

    def test_saved_tensors_are_looked_at(self):
        """Who reads what autograd saved before the backward pass sees it as it was, and changes nothing."""
        model, x = Chain(), torch.linspace(0, 1, 4096, requires_grad=True)
        self.planned(model, x, loss=torch.sum)
        out = model(x)
        step = run_of(model)
        self.assertTrue(step.dropped)
        node = out.grad_fn
        while node.next_functions and (below := node.next_functions[0][0]) is not None and hasattr(below, "_saved_self"):
            node = below
            node._saved_self  # noqa: B018
        self.assertTrue(torch.equal(out.grad_fn._saved_result, out))
        self.assertFalse(step.begun)
        out.sum().backward()
        self.assertIsNone(step.diverged)
        got, x.grad = x.grad, None
        Chain()(x).sum().backward()
        self.assertTrue(torch.equal(got, x.grad))

    def test_gradients_of_the_sample(self):
        """A sample that requires a gradient is left with the one that it had."""
        for grad in (None, torch.ones(4096)):
            x = torch.linspace(0, 1, 4096, requires_grad=True)
            x.grad = grad
            self.planned(Chain(), x, loss=torch.sum)
            memopt.record(Chain(), x, loss=torch.sum)
            memopt.frontier(Chain(), x, loss=torch.sum)
            self.assertIs(x.grad, grad)
            self.assertTrue(grad is None or torch.equal(grad, torch.ones(4096)))

    def test_around_and_within(self):
        """Checkpoints and hooks within a planned module, and hooks around it."""
        def within(x):
            x = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
            with save_on_cpu():
                x = x.cos().exp()
            return x.sin().exp()

        class Within(nn.Module):
            def forward(self, x):
                return within(x)

        model, x = Within(), torch.linspace(0, 1, 4096, requires_grad=True)
        self.planned(model, x, loss=torch.sum)
        for around in (False, True):
            with save_on_cpu() if around else torch.enable_grad():
                model(x.sin()).cos().sum().backward()
            got, x.grad = x.grad, None
            within(x.sin()).cos().sum().backward()
            self.assertTrue(torch.equal(got, x.grad))
            x.grad = None

    def test_program(self):
        """The program runs the tests of a folder, finds one that fails under a plan alone, and says so where there are none."""
        test = """
import torch
from torch.testing._internal.common_utils import TestCase
from torch.utils.checkpoint import checkpoint

class Tests(TestCase):
    def test_checkpoint_gradients(self):
        x = torch.linspace(0, 1, 64, requires_grad=True)
        checkpoint(lambda x: x.exp().sin().exp(), x, use_reentrant=False).sum().backward()
        got, x.grad = x.grad, None
        x.exp().sin().exp().sum().backward()
        self.assertTrue(torch.equal(got, x.grad))

    def test_checkpoint_counts(self):
        calls = []
        def run(x):
            calls.append(x)
            return x.exp().sin().exp()
        checkpoint(run, torch.ones(64, requires_grad=True), use_reentrant=False).sum().backward()
        self.assertEqual(len(calls), 2)

    def test_other(self):
        raise AssertionError
"""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "expecttest.py").write_text("import unittest\nclass TestCase(unittest.TestCase): pass\n")  # PyTorch's need its name

            def run():
                done = subprocess.run([sys.executable, "-W", "ignore", str(Path(__file__).with_name("upstream.py")), folder], capture_output=True, text=True)
                return done.returncode, done.stdout, done.stderr

            code, out, err = run()
            self.assertEqual((code, out), (2, ""))
            self.assertIn("no tests of PyTorch", err)
            (Path(folder) / "test_utils.py").write_text(test)
            code, out, err = run()
            self.assertEqual(code, 1, err)
            self.assertRegex(out, r"test_checkpoint_gradients\tpasses\tcalls planned: 1; values dropped: [23]")
            self.assertRegex(out, r"test_checkpoint_counts\tFAILS")
            self.assertNotIn("test_other", out)


if __name__ == "__main__":
    unittest.main()
