"""Arguments are checked when they are given, and errors say what would be right."""

from __future__ import annotations

import copy
import json
import unittest

import torch
from models import families
from torch import nn

import memopt
from memopt.report import Bytes, enough, show_bytes
from memopt.torch.step.given import parse

_SIZES = (
    ("abc", "give bytes"), ("-5%", "positive"), (-1, "positive"), (0, "positive"), (0.0, "positive"), ("0", "positive"), ("0%", "positive"), ("0 GB", "positive"),
    ("150%", "'100%' is all"), (1.5, "'1.5GiB'"), ("1.5", "'1.5GiB'"), (float("nan"), "positive"), (float("inf"), "give bytes"), ("", "give bytes"), ("6 gigs", "give bytes"),
)  # fmt: skip
_NO_SIZES = (True, [], b"6GiB", object(), {"budget": 1})


def square(out):
    return out.square().mean()


def small():
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model, self.x = small(), torch.randn(4, 8)

    def raises(self, kind, words, call, *args, **kwargs):
        with self.subTest(call=getattr(call, "__qualname__", call), args=str(args[1:]), **{k: str(v) for k, v in kwargs.items()}):
            with self.assertRaisesRegex(kind, words):
                call(*args, **kwargs)
            self.assertNotIn("forward", self.model.__dict__)  # nothing was begun


class TestSizes(Case):
    def test_optimize(self):
        for name in ("budget", "activation_budget"):
            for size, words in _SIZES:
                self.raises(ValueError, f"{name} is .*{words}", memopt.optimize, self.model, **{name: size})
            for size in _NO_SIZES:
                self.raises(TypeError, f"{name} is .*give bytes", memopt.optimize, self.model, **{name: size})

    def test_relatives(self):
        from memopt.lightning import MemoptCallback

        def inputs(n):
            return torch.randn(n, 8)

        for size, words in _SIZES:
            self.raises(ValueError, words, memopt.max_batch, self.model, inputs, size, loss=square)
            self.raises(ValueError, words, memopt.max_seq, self.model, inputs, budget=size, loss=square)
            self.raises(ValueError, words, memopt.feasible, self.model, self.x, budget=size, loss=square)
            self.raises(ValueError, words, memopt.explain, self.model, self.x, activation_budget=size, loss=square)
            self.raises(ValueError, words, memopt.TrainerCallback, size)
            self.raises(ValueError, words, MemoptCallback, size)
            self.raises(ValueError, words, memopt.Module, self.model, "mean", size)
        self.raises(ValueError, "does not bind", memopt.max_batch, self.model, inputs, "60%", loss=square)
        self.raises(ValueError, "batch 1 and 2 have the same sizes", memopt.max_batch, self.model, lambda n: self.x, "1GB", loss=square)
        with self.assertRaisesRegex(Exception, "budget is 'abc'; give bytes"):
            torch.compile(self.model, backend="memopt", options={"budget": "abc", "inductor": False})(self.x)
        torch._dynamo.reset()

    def test_other_shares(self):
        for value, words in (("abc", "'5%'"), ("-5%", "'5%'"), (-0.1, "not be negative"), (float("nan"), "not be negative"), ("1.5", "give '1.5%'"), ([], "'5%'")):
            self.raises((TypeError, ValueError), f"max_overhead is .*{words}", memopt.optimize, self.model, max_overhead=value)
        for value in ("abc", "-5%", "150%", -1):
            self.raises(ValueError, "reserve is ", memopt.optimize, self.model, reserve=value)

    def test_what_is_right(self):
        """Texts and numbers that mean the same."""
        for size, whole in (("60%", 60), (0.6, 60), ("0.6", 60), (" 60 % ", 60), (1.0, 100), ("100%", 100), (7, 7), ("7", 7), (7.0, 7), ("7B", 7), ("1e3", 1000), ("2KB", 2000), ("2 kib", 2048)):
            self.assertEqual(parse("budget", size, 100), whole, size)
        for reserve in (0, "0", "0%", 0.1):
            memopt.restore(self.model) if memopt.optimize(self.model, reserve=reserve) is None else None
        import numpy as np

        self.assertEqual(parse("budget", np.int64(5), 1), 5)
        self.assertEqual(parse("budget", np.float32(0.5), 100), 50)

    def test_both(self):
        for function in (memopt.optimize, memopt.TrainerCallback):
            args = (self.model,) if function is memopt.optimize else ()
            self.raises(TypeError, "not both", function, *args, budget="1GB", activation_budget="1GB")


class TestOthers(Case):
    def test_no_module(self):
        for model, words in ((nn.Linear, r"Linear\(…\)"), ("model.onnx", "memopt.plan"), (lambda x: x, "function"), (None, "NoneType"), (torch.randn(2), "Tensor"), (torch.optim.SGD(self.model.parameters()), "SGD")):
            for function in (memopt.optimize, memopt.restore, memopt.record, memopt.feasible):
                self.raises(TypeError, f"takes a torch.nn.Module.*{words}", function, model)
            if not isinstance(model, str):
                for function, args in ((memopt.frontier, (self.x,)), (memopt.explain, (self.x,)), (memopt.max_batch, (lambda n: n, "1GB")), (memopt.max_seq, (lambda n: n, "1GB"))):
                    self.raises(TypeError, f"takes a torch.nn.Module.*{words}", function, model, *args)

    def test_not_to_be_trained(self):
        """Modules whose steps cannot be planned, and an optimizer of another one, are refused before anything runs."""
        other = torch.optim.SGD(nn.Linear(3, 3).parameters())
        self.raises(ValueError, "none of the module's parameters", memopt.optimize, self.model, "1GB", optimizer=other)
        memopt.optimize(self.model, "1GB", optimizer=[other, torch.optim.SGD(self.model.parameters())], verbose=False)  # as of a loss with parameters
        memopt.restore(self.model)
        self.raises(TypeError, "compiled by torch.jit", memopt.optimize, torch.jit.script(nn.Sequential(nn.Linear(3, 3))), "1GB")
        self.raises(ValueError, "lazy parameters", memopt.optimize, nn.Sequential(nn.LazyLinear(3)), "1GB", sample=self.x)
        self.raises(ValueError, "meta device", memopt.optimize, nn.Linear(3, 3, device="meta"), "1GB", sample=self.x)

    def test_served(self):
        self.raises(TypeError, "memopt.Module.*budget", memopt.optimize, memopt.Module(self.model), "1GB")

    def test_loss_and_optimizer(self):
        for function, args in ((memopt.optimize, ()), (memopt.frontier, (self.x,)), (memopt.explain, (self.x,)), (memopt.record, (self.x,)), (memopt.feasible, (self.x,)), (memopt.max_batch, (lambda n: n, "1GB"))):
            self.raises(TypeError, "loss is 'mse'.*function", function, self.model, *args, loss="mse")
            if function is not memopt.record:
                self.raises(TypeError, "optimizer is generator.*list", function, self.model, *args, optimizer=self.model.parameters())
                self.raises(TypeError, "optimizer is the class SGD", function, self.model, *args, optimizer=torch.optim.SGD)
        for chunks in (0, -1, True, "many", 2.0):
            self.raises((TypeError, ValueError), "loss_chunks is .*'auto'", memopt.optimize, self.model, loss_chunks=chunks)
        for mode in ("eagre", None, 1):
            self.raises(ValueError, "mode is .*'aot_eager'", memopt.optimize, self.model, mode=mode)
        for most in (0, -3, 2.5, "8", True):
            self.raises((TypeError, ValueError), "most is .*positive integer", memopt.max_batch, self.model, lambda n: n, "1GB", most=most)

    def test_names(self):
        self.raises(TypeError, "frontier has no argument 'budget'.*has loss", memopt.frontier, self.model, self.x, budget="1GB")
        self.raises(TypeError, "did you mean 'loss'", memopt.record, self.model, self.x, los=square)
        self.raises(TypeError, "did you mean 'loss_chunks'", memopt.explain, self.model, self.x, loss_chunk=2)
        self.raises(TypeError, "max_batch has no argument 'losses'.*'loss'", memopt.max_batch, self.model, lambda n: n, "1GB", losses=square)
        self.raises(TypeError, "no argument 'bugdet'.*'budget'", memopt.TrainerCallback, bugdet="1GB")

        class Takes(nn.Linear):
            def forward(self, x, budget=1.0):
                return super().forward(x) * budget

        self.assertGreater(memopt.record(Takes(8, 8), self.x, budget=2.0, loss=square).measured_peak, 0)  # the model's own

    def test_what_was_planned_stays(self):
        """A call with a wrong argument changes nothing."""
        memopt.optimize(self.model, sample=self.x, activation_budget="95%", loss=square)
        before = memopt.torch.report(self.model)
        with self.assertRaises(ValueError):
            memopt.optimize(self.model, "abc")
        with self.assertRaises(ValueError):
            memopt.optimize(self.model, mode="fast")
        self.assertIs(memopt.torch.report(self.model), before)


class TestByPlace(Case):
    def test_budget(self):
        """The budget stands behind what a step is made of, without a name, everywhere."""
        model, args, loss = families()["gpt"]
        by_name = memopt.feasible(model, *args, budget="60%", loss=loss)
        self.assertEqual(memopt.feasible(model, *args, "60%", loss=loss).budget, by_name.budget)
        self.assertEqual(memopt.feasible(model, *args, by_name.budget, loss=loss).budget, by_name.budget)
        told = memopt.explain(model, *args, "80%", loss=loss)
        self.assertLess(told.peak, told.eager_peak)
        with self.assertRaisesRegex(memopt.BudgetError, "What would fit: activation_budget="):
            memopt.explain(model, *args, activation_budget="5%", loss=loss)
        with memopt.optimized(copy.deepcopy(model), "60%", sample=args, loss=loss) as report:
            self.assertLessEqual(report.promised_peak, 0.6 * report.eager_peak)
        served = memopt.Module(copy.deepcopy(self.model), "mse", "100%")
        served(self.x, self.x).backward()
        self.assertLessEqual(served.report.promised_peak, served.report.kept_peak)


class TestRead(unittest.TestCase):
    def test_enough(self):
        for n in (1, 1023, 1024, 15_899_362, 64 << 20, (1 << 30) - 1, 3 << 40, 1005 << 20):
            self.assertGreaterEqual(parse("budget", enough(n), 0), n)
            self.assertLessEqual(parse("budget", enough(n), 0), n * 1.02 + 103)
        self.assertEqual(enough(15_899_362), "15.2 MiB")

    def test_bytes(self):
        """Trainers print it as people read it, and write a number."""
        n = Bytes(15_899_362)
        self.assertEqual(str({"peak": n}), "{'peak': 15.16 MiB}")
        self.assertEqual(json.loads(json.dumps({"peak": n})), {"peak": 15_899_362})
        self.assertEqual(f"{n}", show_bytes(n))

    def test_refusal(self):
        torch.manual_seed(0)
        model, args, loss = families()["gpt"]
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(model, activation_budget="5%", sample=args, loss=loss)
        change = caught.exception.changes[0]
        self.assertRegex(change.setting, r'^activation_budget="[\d.]+ [KM]iB"$')
        memopt.optimize(model, sample=args, loss=loss, **change.settings)


if __name__ == "__main__":
    unittest.main()
