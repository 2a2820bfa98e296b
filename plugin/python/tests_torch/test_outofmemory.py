"""Errors of memory in a step under memopt tell what would fit."""

from __future__ import annotations

import gc
import unittest
import warnings
from unittest import mock

import torch

import memopt
from memopt.torch.record.measure import watched


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(6))
        self.fails: BaseException | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        if self.fails is not None:
            raise self.fails
        return x.square().mean()


class Late(torch.autograd.Function):
    """Is nothing but in its backward pass, which may want more memory than there is."""

    wants = 0

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        if Late.wants:
            torch.empty(Late.wants)
        return grad * 1


class LateNet(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = Late.apply(self.layers[0](x))
        for layer in self.layers[1:]:
            x = torch.nn.functional.gelu(layer(x))
        return x


class OutOfMemory(unittest.TestCase):
    def test_ordinary_backward(self) -> None:
        """In operators of the backward pass that run once, of the module or of a loss behind it, whether the plan drops anything or not;
        errors of other backward passes, and PyTorch behind the last step, are left as they are."""
        engine = torch.autograd._engine_run_backward
        for budget in ({"activation_budget": "70%"}, {"budget": "1GiB"}):
            model, x = LateNet(), torch.randn(256, 64)
            memopt.optimize(model, sample=x, loss=lambda out: out.square().mean(), **budget)
            for _ in range(5):  # those that are audited and measured
                model(x).square().mean().backward()
            for name in ("module", "loss", "grad", "elsewhere", "other"):
                with self.subTest(name, **budget):
                    out = model(x)
                    loss = out.square().mean()
                    if name == "loss":
                        loss = loss.expand(1 << 45)[0]  # whose gradient is too much
                    if name == "elsewhere":
                        loss = torch.ones((), requires_grad=True).expand(1 << 45)[0]
                    Late.wants = 1 << 60 if name in ("module", "grad") else 0
                    wrong: type[Exception] = RuntimeError
                    if name == "other":
                        loss.register_hook(lambda grad: grad.reshape(7, 7))
                    try:
                        with self.assertRaises(wrong) as caught:
                            torch.autograd.grad(loss, list(model.parameters())) if name == "grad" else loss.backward()
                    finally:
                        Late.wants = 0
                    told = getattr(caught.exception, "memopt", None)
                    if name in ("elsewhere", "other"):
                        self.assertIsNone(told)
                        self.assertFalse(hasattr(caught.exception, "__notes__"))
                    else:
                        assert isinstance(told, memopt.BudgetError)
                        self.assertIn("What would fit: budget=", str(told))
                        self.assertEqual(caught.exception.__notes__, [f"memopt: {told}"])
                    caught.exception.__traceback__ = None
                    del out, loss, caught
                    model(x).square().mean().backward()  # the next step is served
            memopt.restore(model)
        del model
        gc.collect()
        self.assertIs(torch.autograd._engine_run_backward, engine)

    def test_what_would_fit(self) -> None:
        for error in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")):
            model, x = Net(), torch.randn(256, 64)
            report = memopt.optimize(model, sample=x, budget="1GiB")
            model.fails = error
            free = int(0.6 / 0.95 * (report.eager_peak - report.fixed))
            with mock.patch("memopt.torch.plan.budget._machine", return_value=(free, 2 * free)), self.assertRaises(type(error)) as caught:
                model(x)
            self.assertIs(caught.exception, error)
            told = error.memopt  # type: ignore[union-attr]
            assert isinstance(told, memopt.BudgetError) and told.changes
            self.assertIn("memopt: the step takes", error.__notes__[0])
            budget = told.changes[0].settings["budget"]
            model.fails = None
            memopt.restore(model)
            self.assertLess(memopt.optimize(model, sample=x, budget=budget).promised_peak, report.eager_peak)

    def test_where_and_what_would_fit(self) -> None:
        """The first tensor that does not fit by its module, who held what then, and three ways out with their price."""
        model, x = Net(), torch.randn(128, 64)
        optimizer = torch.optim.AdamW(model.parameters())
        report = memopt.optimize(model, sample=x, budget="1GiB", optimizer=optimizer)
        model(x).backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        model.fails = torch.OutOfMemoryError("CUDA out of memory")
        free = int(0.7 / 0.95 * (report.eager_peak - report.fixed))
        with mock.patch("memopt.torch.plan.budget._machine", return_value=(free, 2 * free)), self.assertRaises(torch.OutOfMemoryError):
            model(x)
        told = model.fails.memopt  # type: ignore[attr-defined]
        where = told.ran_out
        one = 128 * 64 * 4  # a layer's sums and what gelu makes of them, kept in turn
        kept = where.limit // one
        place = "gelu" if kept % 2 else f"addmm in layers.{kept // 2}"  # gelu is called by the model itself
        self.assertEqual((where.phase, where.place, where.bytes), ("forward pass", place, one))
        self.assertEqual({h.module: h.bytes for h in where.held}, {"layers.*": -(-kept // 2) * one, "": kept // 2 * one})
        self.assertEqual({h.what for h in where.held}, {"kept"})
        text = str(told)
        self.assertIn(f"the first tensor that does not fit is of 32.00 KiB, made by {place} in the forward pass; held then: ", text)
        for way in ('budget="', " % time)", "about 2 batches of 64 instead of one of 128", 'states="host" or "disk"'):
            self.assertIn(way, text)
        self.assertEqual([sorted(c.settings) for c in told.changes], [["budget"], ["accumulate", "batch"], ["states"]])
        model.fails = None
        memopt.restore(model)
        with watched() as seen:  # what is said of a smaller batch is so
            model(x[:64]).backward()
        self.assertLessEqual(seen.peak, where.limit)

    def test_of_a_step_without_a_plan(self) -> None:
        """memopt.explain tells the same of an error in anybody's loop, from inputs without values."""
        model, x = Net(), torch.randn(256, 64, device="meta")
        error = torch.OutOfMemoryError("CUDA out of memory")
        told = memopt.explain(model, x, error=error, activation_budget="60%")
        assert isinstance(told, memopt.BudgetError)
        self.assertIs(error.memopt, told)  # type: ignore[attr-defined]
        self.assertEqual(error.__notes__, [f"memopt: {told}"])
        self.assertIn("the first tensor that does not fit is of 64.00 KiB, made by gelu in the forward pass; held then: 320.00 KiB kept of layers.*, 256.00 KiB kept of the model itself", str(told))
        self.assertIs(memopt.explain(model, x, error=error), told)
        lowest = memopt.explain(model, x, error=torch.OutOfMemoryError("CUDA out of memory"), activation_budget=1000)
        self.assertIn("no plan of Net's step goes below", str(lowest))
        self.assertIn("As it is, the first tensor that does not fit is of 64.00 KiB, made by addmm in layers.0", str(lowest))
        with self.assertRaisesRegex(TypeError, "which is not one of memory"):
            memopt.explain(model, x, error=RuntimeError("something else"))
        with self.assertRaisesRegex(TypeError, "give the inputs of the step"):
            memopt.explain(model, error=torch.OutOfMemoryError("CUDA out of memory"))

    def test_rows_in_several_runs(self) -> None:
        """The equal parts of a batch that an error names fit, each of them, and give the gradients of the whole; larger parts do not."""
        torch.manual_seed(0)
        model, x = Net(), torch.randn(256, 64)
        weights = sum(p.nbytes for p in model.parameters())
        model(x).backward()
        want = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        limit = 300 << 10
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(model, sample=x, budget=limit)
        change = next(c for c in caught.exception.changes if "accumulate" in c.settings)
        runs, part = int(change.settings["accumulate"]), int(change.settings["batch"])
        self.assertIn(f"gradients of {runs} batches of {part} added up before a step of the optimizer, the same 256 rows", str(caught.exception))
        self.assertEqual(runs * part, 256)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            memopt.optimize(model, sample=x[:part], budget=limit)
            for i, rows in enumerate(x.split(part)):
                with watched() as seen:
                    (model(rows) / runs).backward()
                self.assertLessEqual(seen.peak, limit - weights * (2 if i else 1), i)
        for p, g in zip(model.parameters(), want, strict=True):
            torch.testing.assert_close(p.grad, g)
        memopt.restore(model)
        with self.assertRaises(memopt.BudgetError):
            model.zero_grad()
            memopt.optimize(model, sample=x[: 2 * part], budget=limit)
            self.fits_added_up(model, x, 2 * part)

    def fits_added_up(self, model: torch.nn.Module, x: torch.Tensor, part: int) -> None:
        """A second run, whose gradients are added: one that does not fit warns, and goes on."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for rows in x.split(part):
                model(rows).backward()
        if any("do not fit" in str(w.message) for w in said):
            raise memopt.BudgetError("it does not fit")

    def test_what_runs_again(self) -> None:
        """In the backward pass, too, where an operator that runs again finds no memory."""
        empty = False

        @torch.library.custom_op("memopt_test::fills", mutates_args=())
        def fills(x: torch.Tensor) -> torch.Tensor:
            if empty:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return x * 2

        fills.register_autograd(lambda ctx, grad: grad * 2)

        class Fills(Net):
            def forward(self, x):
                for _ in range(4):
                    x = torch.sin(fills(x))
                return super().forward(x)

        model, x = Fills(), torch.randn(256, 64, requires_grad=True)
        with self.assertRaises(memopt.BudgetError) as floor:
            memopt.optimize(model, sample=x, activation_budget=1)
        memopt.optimize(model, sample=x, activation_budget=floor.exception.best)
        model(x).backward()
        loss = model(x)
        empty = True
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            loss.backward()
        told = caught.exception.memopt
        assert isinstance(told, memopt.BudgetError)
        self.assertIn(f"memopt: {told}", caught.exception.__notes__)

    def test_other_errors_stay(self) -> None:
        model, x = Net(), torch.randn(8, 64)
        memopt.optimize(model, sample=x, budget="1GiB")
        model.fails = RuntimeError("something else")
        with self.assertRaisesRegex(RuntimeError, "something else") as caught:
            model(x)
        self.assertFalse(hasattr(caught.exception, "memopt"))


if __name__ == "__main__":
    unittest.main()
