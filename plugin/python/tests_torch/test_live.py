"""Steps recorded as they train: any loss, any trainer, and steps that change."""

from __future__ import annotations

import copy
import gc
import unittest
import warnings

import torch
from models import families
from test_optimize import Case, Skips, Wide, step
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch import report
from memopt.torch.record.live import pending
from memopt.torch.record.measure import watched
from memopt.torch.replay.replay import Step


class TestLive(Case):
    def test_families(self):
        """The first step is recorded as it runs, loss outside; the second is planned, and measures what was promised."""
        for name, (model, args, loss) in families().items():
            for share in ("70%", "50%"):
                with self.subTest(model=name, budget=share):
                    plain = copy.deepcopy(model)
                    memopt.restore(plain)
                    memopt.optimize(model, activation_budget=share)
                    try:
                        got = step(model, args, loss)
                    except memopt.BudgetError:
                        self.assertNotIn("forward", model.__dict__)
                        continue
                    self.same(got, step(plain, args, loss))
                    made = report(model)
                    self.assertIsNotNone(made.plan)
                    step(plain, args, loss)
                    for m, most in ((model, made.promised_peak), (plain, made.eager_peak)):
                        m.zero_grad(set_to_none=True)
                        state = copy.deepcopy(m.state_dict())
                        torch.manual_seed(7)
                        with watched() as measured:
                            out = m(*args)
                            found = loss(out) if loss is not None else out
                            del out
                            found.backward()
                        self.assertLessEqual(abs(measured.peak - most), 0.001 * most + 65536)
                        m.load_state_dict(state)
                        del found
                    memopt.restore(model)

    def test_no_leftovers(self):
        """Behind the first step the engine's entry is PyTorch's again, and no tensor is held."""
        engine = torch.autograd._engine_run_backward
        model, args, loss = families()["resnet"]
        memopt.optimize(model, activation_budget="60%")
        out = model(*args)
        self.assertIsNotNone(pending())
        self.assertIsNot(torch.autograd._engine_run_backward, engine)
        loss(out).backward()
        self.assertIs(torch.autograd._engine_run_backward, engine)
        self.assertIsNone(pending())
        self.assertFalse(torch.autograd._profiler_enabled())

    def test_part_of_a_model(self):
        """A planned module inside a larger one, whose own operators come before and behind."""
        inner, args, _ = families()["gpt"]

        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.scale = inner, nn.Parameter(torch.ones(3))

            def forward(self, *args):
                return (self.inner(*args) * self.scale).sum()

        model = Whole()
        plain = copy.deepcopy(model)
        memopt.optimize(model.inner, activation_budget="60%")
        for _ in range(3):
            self.same(step(model, args), step(plain, args))
        self.assertGreater(report(model.inner).plan.result.recomputed_nodes, 0)

    def test_two_modules(self):
        """Two planned modules with one loss: each is recorded in a step of its own."""
        (a, args, _), (b, _, _) = families()["gpt"], families()["llama"]
        pair = nn.ModuleList([a, b])
        plain = copy.deepcopy(pair)
        for m in pair:
            memopt.optimize(m, activation_budget="60%")
        for _ in range(3):
            got = step_of(lambda: pair[0](*args) + pair[1](*args), pair)
            self.assertEqual(got, step_of(lambda: plain[0](*args) + plain[1](*args), plain))
        for m in pair:
            self.assertIsNotNone(report(m).plan)

    def test_adversaries(self):
        """A generator and a discriminator that judges real and made images in one backward pass."""
        torch.manual_seed(0)
        g = Wide2(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)))
        d = Wide2(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)))
        pair = nn.ModuleList([g, d])
        plain = copy.deepcopy(pair)
        for m in pair:
            memopt.optimize(m, activation_budget="80%")
        real = torch.randn(256, 64)

        def train(g, d, both):
            torch.manual_seed(1)
            losses = []
            for _ in range(4):
                both.zero_grad()
                z = torch.randn(256, 64)
                found = F.softplus(-d(real)).mean() + F.softplus(d(g(z).detach())).mean()
                found.backward()
                d.zero_grad()
                found2 = F.softplus(-d(g(z))).mean()
                found2.backward()
                losses += [found.item(), found2.item()]
                with torch.no_grad():
                    for p in both.parameters():
                        p -= 0.01 * p.grad if p.grad is not None else 0
            return losses

        self.assertEqual(train(*pair, pair), train(*plain, plain))
        self.assertIsNotNone(report(d).plan)

    def test_no_backward(self):
        """A forward pass whose backward pass never comes is forgotten."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%")
        kept = model(*args)
        del kept
        self.assertFalse(torch.autograd._profiler_enabled(), "the profiler outlives the graph")
        self.same(step(model, args), step(plain, args))
        self.assertIsNotNone(report(model).plan)

    def test_stray_pass(self):
        """A forward pass whose backward pass never comes costs nothing but itself: the plan stays what it is."""
        model, args, _ = families()["gpt"]
        memopt.optimize(model, activation_budget="60%")
        step(model, args)
        made = report(model)
        stray = model(*args)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                step(model, args)
        del stray
        step(model, args)
        self.assertIs(report(model), made)

    def test_gradients_at_first(self):
        """A first step that adds to gradients is no measure for one that makes them."""
        model, args, _ = families()["gpt"]
        step(model, args)
        memopt.optimize(model, activation_budget="60%")
        with torch.random.fork_rng():
            model(*args).backward()  # recorded, with gradients there
        step(model, args)  # recorded, without
        made = report(model)
        model.zero_grad(set_to_none=True)
        with watched() as measured:
            model(*args).backward()
        self.assertLessEqual(abs(measured.peak - made.promised_peak), 4096)

    def test_kept_graph(self):
        """A step whose backward pass keeps its graph, and another asks for everything again, has its plan."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%")

        def twice(m):
            torch.manual_seed(7)
            m.zero_grad(set_to_none=True)
            out = m(*args)
            out.backward(retain_graph=True)
            out.backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        for _ in range(3):
            self.same(twice(model), twice(plain))
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)

    def test_checkpointed(self):
        """Where no plan holds, blocks run under torch.utils.checkpoint: the same bits, and less held."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%")

        def penalty(m):
            torch.manual_seed(7)
            m.zero_grad(set_to_none=True)
            out = m(*args)
            (g,) = torch.autograd.grad(out, [m.ln.weight], create_graph=True)
            (out + g.square().sum()).backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        with self.assertWarnsRegex(UserWarning, "3 blocks run under torch.utils.checkpoint"):
            self.same(penalty(model), penalty(plain))
        self.same(penalty(model), penalty(plain))
        peaks = []
        for m in (model, plain):
            with watched() as measured:
                step(m, args)
            peaks.append(measured.peak)
        self.assertLess(peaks[0], 0.7 * peaks[1])
        self.assertNotIn("forward", model.blocks[0].__dict__)

    def test_drifts(self):
        """An operator that does not repeat is kept: found out on the sample, before anything is installed."""
        model, args = Wide(Noisy()), (torch.randn(256, 64),)
        plain = copy.deepcopy(model)
        with self.assertWarnsRegex(RuntimeWarning, "Noisy|lifts.* of inner"):
            memopt.optimize(model, activation_budget="80%", sample=args)
        Noisy.runs = 0
        want = step(plain, args)
        Noisy.runs = 0
        self.same(step(model, args), want)

    def test_profiler(self):
        """Under a user's profiler the step is recorded without what only a profiler tells."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%")
        with self.assertWarnsRegex(UserWarning, "profiler"), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            self.same(step(model, args), step(plain, args))
            self.same(step(model, args), step(plain, args))
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)

    def test_refused(self):
        """A budget that cannot be met raises behind the first step, and the module is left alone."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="5%")
        torch.manual_seed(7)
        with self.assertRaises(memopt.BudgetError):
            model(*args).backward()
        self.assertNotIn("forward", model.__dict__)
        self.same(step(model, args), step(plain, args))

    def test_recorded_again(self):
        """A step that leaves the recorded one keeps what follows, and the next is planned anew; in strict mode it raises."""
        model, args = Wide(Skips()), (torch.randn(256, 64),)
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="80%")
        step(model, args)
        first = report(model)
        plain.inner.skip = model.inner.skip = True
        with self.assertWarnsRegex(UserWarning, "recorded again"):
            self.same(step(model, args), step(plain, args))
        for _ in range(2):
            self.same(step(model, args), step(plain, args))
        self.assertIsNot(report(model), first)
        self.assertLess(report(model).eager_peak, first.eager_peak)
        memopt.optimize(model, activation_budget="80%", strict=True)
        step(model, args)
        model.inner.skip = False
        with self.assertRaisesRegex(RuntimeError, "leaves the recorded one"):
            model(*args)

    def test_accumulation(self):
        """Where gradients are there already, they count from the first operator on; the budget holds."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        weights = sum(p.nbytes for p in model.parameters())
        memopt.optimize(model, weights + 3 * 2**20)
        step(model, args)
        for m in (plain, model):
            torch.manual_seed(1)
            for micro in range(6):
                if micro % 3 == 0:
                    m.zero_grad(set_to_none=True)
                before = sum(p.grad.nbytes for p in m.parameters() if p.grad is not None)
                with watched() as measured:
                    (m(*args) / 3).backward()
                if m is model:
                    self.assertLessEqual(before + measured.peak, 3 * 2**20 + 65536, micro)
        for (n, p), q in zip(plain.named_parameters(), model.parameters(), strict=True):
            self.assertTrue(torch.equal(p.grad, q.grad), n)

    def test_audit(self):
        """An operator that gives other bits in a later step is found out, named, and kept from then on."""
        library = torch.library.Library("memopt_test", "FRAGMENT")
        library.define("drifts(Tensor x) -> Tensor")
        state = {"runs": 0, "from": 1 << 30}

        def drifts(x):
            state["runs"] += 1
            return x * (2.0 if state["runs"] < state["from"] else 2.0 + state["runs"] * 1e-3)

        library.impl("drifts", drifts, "CompositeExplicitAutograd")

        class Drift(nn.Module):
            def forward(self, x):
                with torch.no_grad():
                    y = torch.ops.memopt_test.drifts(x.detach())
                return torch.sigmoid(x * y) * y

        model, args = Wide(Drift()), (torch.randn(256, 64),)
        memopt.optimize(model, activation_budget="70%")
        step(model, args)
        state["from"] = 0
        with self.assertWarnsRegex(RuntimeWarning, "drifts.* of inner"):
            step(model, args)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(model, args)

    def test_no_leak(self):
        """Fifty steps without the collector: no tensor and no graph is left."""
        model, args, loss = families()["unet"]
        memopt.optimize(model, activation_budget="60%")
        gc.collect()
        gc.disable()
        live = []
        try:
            for i in range(50):
                step(model, args, loss)
                if i in (5, 49):
                    live.append(sum(1 for o in gc.get_objects() if isinstance(o, (torch.Tensor, Step))))
        finally:
            gc.enable()
        self.assertEqual(*live)


def step_of(forward, model):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    found = forward()
    found.backward()
    return [found.item(), *(p.grad.double().sum().item() for p in model.parameters() if p.grad is not None)]


_library = torch.library.Library("memopt_lifts", "DEF")
_library.define("lifts(Tensor x) -> Tensor")


def _lifts(x):
    """The same when it is recorded, run again at once, and run under the plan; another when it is made again."""
    Noisy.runs += 1
    return x * (3.0 if Noisy.runs == 4 else 2.0)


_library.impl("lifts", _lifts, "CompositeExplicitAutograd")


class Noisy(nn.Module):
    runs = 0

    def forward(self, x):
        with torch.no_grad():
            y = torch.ops.memopt_lifts.lifts(x.detach())
        return torch.sigmoid(x * y) * y


class Wide2(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first, self.inner = nn.Linear(64, 64), inner

    def forward(self, x):
        y = torch.tanh(self.first(x))
        for _ in range(3):
            y = torch.sigmoid(y) * 2 + 1
        return self.inner(y)


if __name__ == "__main__":
    unittest.main()
