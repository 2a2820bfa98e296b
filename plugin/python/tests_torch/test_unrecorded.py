"""Nothing of a recording raises in the user's step: where one fails, the step runs as it is, and one line says why."""

from __future__ import annotations

import copy
import unittest
import warnings

import torch
from test_loops_steps import Loops, Net
from torch import nn
from torch.utils.flop_counter import register_flop_formula

import memopt
from memopt.torch import report
from memopt.torch.record.measure import watched


class Odd(torch.Tensor):
    """A wrapper of a tensor that tells nobody what it wraps: it has no storage and no __tensor_flatten__."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
        return torch.utils._pytree.tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, func(*plain[0], **plain[1]))

    def untyped_storage(self):
        raise RuntimeError("there is nothing to see here")


class _Wrapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Odd(x.detach())

    @staticmethod
    def backward(ctx, grad):
        return grad.inner if isinstance(grad, Odd) else grad


class _Unwrapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.inner.detach()

    @staticmethod
    def backward(ctx, grad):
        return Odd(grad)


class Subclass(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.on = Net(), True

    def forward(self, x):
        x = self.net(x)
        return _Unwrapped.apply(torch.sin(_Wrapped.apply(x)) * 2) if self.on else x


@torch.library.custom_op("memopt_tests::uncounted", mutates_args=())
def uncounted(x: torch.Tensor) -> torch.Tensor:
    """An operator whose number of operations cannot be told."""
    return x * 2


uncounted.register_autograd(lambda ctx, grad: grad * 2)


@register_flop_formula(torch.ops.memopt_tests.uncounted)
def _uncounted(*_, **__):
    raise KeyError("no formula")


_queue: list[float] = []


@torch.library.custom_op("memopt_tests::taken", mutates_args=())
def taken(x: torch.Tensor) -> torch.Tensor:
    """An operator that can run only once."""
    return x * _queue.pop()


taken.register_autograd(lambda ctx, grad: grad * 2)


_OPERATORS = {"uncounted": uncounted, "taken": taken}


class Custom(nn.Module):
    def __init__(self, op):
        super().__init__()
        self.net, self.op = Net(), op

    def forward(self, x):
        return _OPERATORS[self.op](self.net(x))


class TestUnrecorded(Loops):
    def loop(self, model, steps=6, before=lambda: None):
        """Steps as without a plan, bit for bit, and what was said."""
        plain, x = copy.deepcopy(model), torch.randn(256, 64)
        memopt.optimize(model, activation_budget="60%", verbose=False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(steps):
                for m in (model, plain):
                    before()
                    m.zero_grad(set_to_none=True)
                    m(x).square().mean().backward()
                self.equal([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
        return [str(w.message) for w in told if "memopt" in str(w.message)]

    def test_subclass(self):
        (told,) = self.loop(Subclass())
        self.assertRegex(told, "a step of Subclass cannot be recorded.*runs as it is: .*nothing to see here")

    def test_operator(self):
        (told,) = self.loop(Custom("uncounted"))
        self.assertRegex(told, "memopt_tests.uncounted.default in the model: KeyError: 'no formula'")

    def test_within_a_limit(self):
        """What a recording had dropped when it failed is still made again."""
        model = Custom("uncounted")
        plain, x = copy.deepcopy(model), torch.randn(256, 64)
        with watched() as eager:
            plain(x).square().mean().backward()
        memopt.optimize(model, activation_budget=eager.peak // 3, verbose=False)
        with self.assertWarnsRegex(UserWarning, "no formula"), watched() as found:
            model(x).square().mean().backward()
        self.equal([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
        self.assertLess(found.peak, eager.peak)

    def test_once(self):
        """An operator that fails when it runs a second time is kept, and the step is planned."""

        def before():
            _queue[:] = [2.0]

        model = Custom("taken")
        self.assertEqual(self.loop(model, before=before), [])
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)

    def test_now_and_then(self):
        """A step in between costs the others no plan."""
        model, x = Subclass(), torch.randn(256, 64)
        model.on = False
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="60%", verbose=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in range(16):
                for m in (model, plain):
                    m.on = i % 5 == 4
                    m.zero_grad(set_to_none=True)
                    m(x).square().mean().backward()
                self.equal([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)

    def test_sample(self):
        """A sample of such a model is refused, and the model is as it was."""
        model, x = Custom("uncounted"), torch.randn(256, 64)
        with self.assertRaisesRegex(RuntimeError, "a step of Custom cannot be recorded, so no plan holds for it: .*no formula"):
            memopt.optimize(model, activation_budget="60%", sample=x, loss=lambda out: out.square().mean())
        self.assertNotIn("forward", model.__dict__)


class TestTransforms(Loops):
    def test_forward_mode(self):
        """torch.func within the module's own forward pass: one line, and the step as without us."""
        net = Net()

        class Jvp(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, x):
                y, t = torch.func.jvp(self.net, (x,), (torch.ones_like(x),))
                return y + t

        class Vjp(Jvp):
            def forward(self, x):
                y, back = torch.func.vjp(self.net, x)
                return y + back(torch.ones_like(y))[0]

        class Mapped(Jvp):
            def forward(self, x):
                return torch.func.vmap(lambda row: _Exp.apply(self.net(row) * 0.1))(x)

        for kind in (Jvp, Vjp, Mapped):
            with self.subTest(kind.__name__):
                (told,) = TestUnrecorded.loop(self, kind())
                self.assertRegex(told, f"a step of {kind.__name__} cannot be recorded, so no plan holds for it and it runs as it is: .*torch.func")
                self.assertNotIn("open an issue", told)


class _Exp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


if __name__ == "__main__":
    unittest.main()
