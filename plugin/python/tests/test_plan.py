"""memopt.plan with the real binary, on a model that it makes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import memopt
from support import environment

BINARY = os.environ.get("MEMOPT_TEST_BINARY", "")
DIMS = {"batch": 2, "seq": 64}


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *args], env=environment(), capture_output=True, text=True)


@unittest.skipUnless(BINARY, "MEMOPT_PLUGIN_PATH is not set")
class Plan(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "gpt.onnx")
        made = command("new", "gpt", "--layers", "2", "-o", cls.model)
        if made.returncode != 0:
            raise AssertionError(made.stderr)
        cls.addClassCleanup(memopt.close)
        patch = mock.patch.dict(os.environ, environment(MEMOPT_PLUGIN_PATH=BINARY), clear=True)
        patch.start()
        cls.addClassCleanup(patch.stop)

    def test_plan(self) -> None:
        report = memopt.plan(self.model, dims=DIMS)
        self.assertEqual(report.format, "memopt.plan/1")
        self.assertEqual(report.dims, DIMS)
        self.assertLessEqual(report.result.peak, report.baseline.peak)
        self.assertGreaterEqual(report.result.peak, report.floor.peak)
        self.assertLessEqual(max(map(len, repr(report).splitlines())), 80)
        self.assertIn("peak", str(report))

    def test_budget_binds(self) -> None:
        free = memopt.plan(self.model, dims=DIMS)
        budget = free.memory.total - free.baseline.arena // 5
        report = memopt.plan(self.model, dims=DIMS, budget=budget)
        self.assertLessEqual(report.memory.total, budget)
        self.assertLessEqual(report.result.peak, free.result.peak)
        self.assertEqual(memopt.plan(self.model, dims=DIMS, memory_budget=f" {budget} ").request.budget, budget)
        half = memopt.plan(self.model, dims=DIMS, activation_budget=free.baseline.peak * 3 // 4)
        self.assertLessEqual(half.result.arena, free.baseline.peak * 3 // 4)

    def test_budget_that_cannot_be_met(self) -> None:
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.plan(self.model, dims=DIMS, budget="1KiB")
        self.assertIn("floor", str(caught.exception))
        e = caught.exception
        self.assertGreaterEqual(e.best, e.floor.peak)
        self.assertLessEqual(e.want, 0)
        self.assertIn(e.changes[0].setting, str(e))
        self.assertLessEqual(memopt.plan(self.model, dims=DIMS, budget=e.best + e.fixed).memory.total, e.best + e.fixed)
        self.assertRegex(str(caught.exception), r'would fit: budget=("[\d.]+MiB"|\d+)')
        self.assertLessEqual(memopt.plan(self.model, dims=DIMS, budget=e.changes[0].settings["budget"]).memory.total, e.best + e.fixed + (1 << 20))
        self.assertEqual(memopt.plan(self.model, dims=DIMS).format, "memopt.plan/1")

    def test_wrong_input(self) -> None:
        text = os.path.join(self.folder.name, "text.onnx")
        with open(text, "w") as f:
            f.write("not a model")
        for arguments in (
            {"path": os.path.join(self.folder.name, "none.onnx")},
            {"path": text},
            {"path": self.model, "dims": {"bach": 2}},
            {"path": self.model, "dims": DIMS, "budget": "8 apples"},
            {"path": self.model, "dims": DIMS, "level": 7},
            {"path": self.model, "dims": DIMS, "level": -1},
            {"path": self.model, "dims": DIMS, "level": 2**40},
        ):
            with self.subTest(arguments), self.assertRaises(memopt.MemoptError) as caught:
                memopt.plan(**arguments)  # type: ignore[arg-type]
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")

    def test_as_the_command_line(self) -> None:
        path = os.path.join(self.folder.name, "saved.json")
        report = memopt.plan(self.model, dims=DIMS, budget="95%")
        report.save(path)
        checked = command("check", path, self.model)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        printed = command("plan", self.model, "--dims", "batch=2,seq=64", "--budget", "95%", "--format", "json")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        ours, theirs = report.to_dict(), json.loads(printed.stdout)
        for plan in (ours, theirs):
            plan["model"]["path"] = ""
            plan.pop("plan_ms", None)
        self.assertEqual(ours, theirs)

    def test_settings_are_of_the_current_folder(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        for name, level in (("old", 1), ("new", 2)):
            folder = os.path.join(self.folder.name, name)
            os.makedirs(folder)
            with open(os.path.join(folder, "c.json"), "w") as f:
                json.dump({"level": level}, f)
        memopt.close()
        os.chdir(os.path.join(self.folder.name, "old"))
        memopt.info()  # the service begins here, and stays
        os.chdir(os.path.join(self.folder.name, "new"))
        with mock.patch.dict(os.environ, ORTMODULE_MEMORY_OPT_CONFIG="c.json"):
            self.assertEqual(memopt.plan(self.model, dims=DIMS).request.level, 2)

    def test_loss_and_optimizer(self) -> None:
        usual = memopt.plan(self.model, dims=DIMS)
        report = memopt.plan(self.model, dims=DIMS, optimizer="sgd", loss="loss")
        self.assertLess(report.memory.optimizer, usual.memory.optimizer // 1000)  # a rate and a count
        with self.assertRaisesRegex(memopt.MemoptError, 'the loss "nothing" is no value of the model'):
            memopt.plan(self.model, dims=DIMS, loss="nothing")
        with self.assertRaisesRegex(memopt.MemoptError, "optimizer"):
            memopt.plan(self.model, dims=DIMS, optimizer="nothing")

    def test_save_to(self) -> None:
        path = os.path.join(self.folder.name, "written.json")
        report = memopt.plan(self.model, dims=DIMS, save_to=path)
        with open(path) as f:
            self.assertEqual(json.load(f)["result"], report.result.to_dict())


if __name__ == "__main__":
    unittest.main()
