"""Never silently nothing: other methods, children called by themselves, torch.compile after optimize, evaluation mode, torch.func."""

from __future__ import annotations

import copy
import pickle
import unittest
import warnings

import torch
from models import families
from test_loops_steps import Loops, Net
from test_optimize import step
from torch import nn

import memopt
from memopt.torch import report


class Auto(nn.Module):
    """Trained through encode and decode; forward is there, too."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Net(), Net()

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)

    def describe(self):
        return "an autoencoder"

    def forward(self, x):
        return self.decode(self.encode(x))


class TestMethods(Loops):
    def setUp(self):
        super().setUp()
        self.model, self.x = Auto(), torch.randn(256, 64)
        self.plain = copy.deepcopy(self.model)

    def halves(self, m):
        m.zero_grad(set_to_none=True)
        z = m.encode(self.x)
        (m.decode(z * 2) - self.x).square().mean().backward()

    def check(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(6):
                for m in (self.model, self.plain):
                    self.halves(m)
                self.equal([p.grad for p in self.model.parameters()], [p.grad for p in self.plain.parameters()])
        made = report(self.model)
        self.assertGreater(made.plan.result.recomputed_nodes, 0)
        self.assertLessEqual(abs(self.taken(self.model, self.halves) - made.promised_peak), 16384)
        self.assertLessEqual(made.promised_peak, 0.6 * self.taken(self.plain, self.halves) + 8192)

    def test_named(self):
        memopt.optimize(self.model, activation_budget="60%", methods=("encode", "decode"), verbose=False)
        self.check()
        again = pickle.loads(pickle.dumps(copy.deepcopy(self.model)))
        self.halves(again)
        memopt.restore(self.model)
        self.assertFalse({"forward", "encode", "decode"} & set(self.model.__dict__))

    def test_found(self):
        memopt.optimize(self.model, activation_budget="60%", verbose=False)
        self.assertEqual(self.model.describe(), "an autoencoder")
        self.check()
        self.assertEqual({"forward", "encode", "decode"} & set(self.model.__dict__), {"forward", "encode", "decode"})
        self.assertNotIn("describe", self.model.__dict__)
        memopt.restore(self.model)
        self.assertFalse({"forward", "encode", "decode"} & set(self.model.__dict__))

    def test_forward_alone(self):
        """Methods that forward calls are no steps of their own."""
        memopt.optimize(self.model, activation_budget="60%", verbose=False)
        pickle.dumps(copy.deepcopy(self.model))
        for _ in range(3):
            self.same(step(self.model, (self.x,), lambda out: out.sum()), step(self.plain, (self.x,), lambda out: out.sum()))
        self.assertEqual({"forward", "encode", "decode"} & set(self.model.__dict__), {"forward"})

    def test_wrong_names(self):
        with self.assertRaisesRegex(ValueError, "'encod', which is no method of Auto; did you mean 'encode'"):
            memopt.optimize(self.model, activation_budget="60%", methods=("encod",))
        with self.assertRaisesRegex(TypeError, "names of methods in a tuple"):
            memopt.optimize(self.model, activation_budget="60%", methods="encode")


class TestWords(Loops):
    def setUp(self):
        super().setUp()
        self.model, self.x = Auto(), torch.randn(64, 64)
        memopt.optimize(self.model, activation_budget="60%", verbose=False)

    def told(self, text):
        return self.assertWarnsRegex(UserWarning, f"did not go through the plan.*{text}")

    def test_a_child(self):
        with self.told("Auto .encoder.*call memopt.optimize on that"):
            self.model.encoder(self.x).sum().backward()

    def test_children(self):
        with self.told("children that were called by themselves"):
            self.model.decoder(self.model.encoder(self.x)).sum().backward()

    def test_evaluation(self):
        self.model.eval()
        with self.told("evaluation mode"):
            self.model(self.x).sum().backward()

    def test_compiled_afterwards(self):
        compiled = torch.compile(self.model, backend="eager")
        with self.told("torch.compile"):
            compiled(self.x).sum().backward()
        torch._dynamo.reset()

    def test_compiled_in_place_afterwards(self):
        self.model.compile(backend="eager")
        with self.told("torch.compile"):
            self.model(self.x).sum().backward()
        torch._dynamo.reset()

    def test_silent(self):
        """Nothing is said of loops whose gradients come through the plan, beside others of the loss itself."""
        scale = nn.Parameter(torch.ones(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(5):
                (self.model(self.x) * scale).sum().backward()
        self.assertLessEqual(len(self.model.forward.loop.reach.hooks), 8)

    def trained(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(5):
                self.model(self.x).sum().backward()

    def test_a_child_later(self):
        """Also where the steps before went through the plan; and not of an evaluation between them."""
        self.trained()
        self.model.eval()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.model(self.x).sum().backward()
        self.model.train()
        with self.told("Auto .encoder.*call memopt.optimize on that"):
            for _ in range(2):
                self.model.encoder(self.x).sum().backward()
        self.trained()

    def test_compiled_later(self):
        self.trained()
        compiled = torch.compile(self.model, backend="eager")
        with self.assertWarnsRegex(UserWarning, "steps of Auto do not go through the plan.*torch.compile"):
            compiled(self.x).sum().backward()
        torch._dynamo.reset()

    def test_other_compiled(self):
        """What is compiled elsewhere is not blamed."""
        torch.compile(nn.Linear(4, 4), backend="eager")(torch.randn(2, 4))
        with self.told("Auto .encoder.*call memopt.optimize on that"):
            self.model.encoder(self.x).sum().backward()
        torch._dynamo.reset()


class TestFunc(Loops):
    def test_transforms(self):
        """torch.func runs as without a plan, before the first step and after it."""
        model, x = Net(), torch.randn(256, 64)
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%", verbose=False)

        def uses(m):
            state = {n: p.detach() for n, p in m.named_parameters()}

            def loss(state, x):
                return torch.func.functional_call(m, state, (x,)).square().mean()

            grads = torch.func.grad(loss)(state, x)
            each = torch.func.vmap(torch.func.grad(loss), (None, 0))(state, x[:4, None])
            stacked = {n: torch.stack([v, v * 2]) for n, v in state.items()}
            several = torch.func.vmap(loss, (0, None))(stacked, x)
            called = torch.func.functional_call(m, state, (x,))
            _, tangent = torch.func.jvp(lambda x: loss(state, x), (x,), (torch.ones_like(x),))
            return [*grads.values(), *each.values(), several, called, tangent]

        self.equal(uses(model), uses(plain))
        for _ in range(3):
            self.same(step(model, (x,), lambda out: out.square().mean()), step(plain, (x,), lambda out: out.square().mean()))
            self.equal(uses(model), uses(plain))
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)

    def test_within_the_module(self):
        """A module that takes derivatives of its own output, as networks for differential equations do."""

        class Derives(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Net(1, 1)

            def forward(self, x):
                d = torch.func.vmap(torch.func.grad(lambda x: self.net(x).sum()))(x)
                return self.net(x) + d

        model, x = Derives(), torch.randn(64, 1)
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%", verbose=False)
        for _ in range(3):
            self.same(step(model, (x,), lambda out: out.square().mean()), step(plain, (x,), lambda out: out.square().mean()))

    def test_functional_call_trained(self):
        """Parameters that are not the module's own, which gradients come to."""
        model, args, _ = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%", verbose=False)
        for _ in range(4):
            found = []
            for m in (model, plain):
                torch.manual_seed(3)
                state = {n: (p.detach() * 1.5).requires_grad_() for n, p in m.named_parameters()}
                torch.func.functional_call(m, state, args).backward()
                found.append([p.grad for p in state.values()])
            self.equal(*found)


if __name__ == "__main__":
    unittest.main()
