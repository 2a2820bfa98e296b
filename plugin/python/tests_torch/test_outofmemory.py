"""Errors of memory in a step under memopt tell what would fit."""

from __future__ import annotations

import unittest
from unittest import mock

import torch

import memopt


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


class OutOfMemory(unittest.TestCase):
    def test_what_would_fit(self) -> None:
        for error in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")):
            model, x = Net(), torch.randn(256, 64)
            report = memopt.optimize(model, sample=x, budget="1GiB")
            model.fails = error
            free = int(0.6 / 0.95 * (report.eager_peak - report.fixed))
            with mock.patch("memopt.torch.budget._machine", return_value=(free, 2 * free)), self.assertRaises(type(error)) as caught:
                model(x)
            self.assertIs(caught.exception, error)
            told = error.memopt  # type: ignore[union-attr]
            assert isinstance(told, memopt.BudgetError) and told.changes
            self.assertIn("memopt: the step takes", error.__notes__[0])
            budget = told.changes[0].settings["budget"]
            model.fails = None
            memopt.restore(model)
            self.assertLess(memopt.optimize(model, sample=x, budget=budget).promised_peak, report.eager_peak)

    def test_what_runs_again(self) -> None:
        """In the backward pass, too, where an operator that runs again finds no memory."""
        model, x = Net(), torch.randn(256, 64)
        report = memopt.optimize(model, sample=x, activation_budget="70%")
        self.assertGreater(report.overhead, 0)
        model(x).backward()
        loss = model(x)
        error = torch.OutOfMemoryError("CUDA out of memory")
        with mock.patch("memopt.torch.replay.run_op", side_effect=error), self.assertRaises(torch.OutOfMemoryError) as caught:
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
