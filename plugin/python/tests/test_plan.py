"""memopt.plan with the real binary, on a model that it makes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from unittest import mock

import memopt
from memopt._fields import Plan, Result
from memopt._questions import Checked, Explanation, Frontier, Largest, NodeExplanation, Point, Rung, Stats, Store, Weights
from support import environment

BINARY = os.environ.get("MEMOPT_TEST_BINARY", "")
DIMS = {"batch": 2, "seq": 64}


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, *args], env=environment(), capture_output=True, text=True)


@unittest.skipUnless(BINARY, "MEMOPT_PLUGIN_PATH is not set")
class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "gpt.onnx")
        cls.mlp = os.path.join(cls.folder.name, "rows.onnx")
        for words in (["gpt", "--layers", "2", "-o", cls.model], ["mlp", "--layers", "4", "--width", "16", "--inputs", "8", "--classes", "4", "-o", cls.mlp]):
            made = command("new", *words)
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
        declared = set(Plan.__annotations__)
        self.assertLessEqual(set(report), declared)
        self.assertLessEqual(set(report.result), set(Result.__annotations__))

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
        self.assertEqual(e.want, 1024)
        self.assertIn(e.changes[0].setting, str(e))
        self.assertGreater(e.floor.peak, e.fixed)
        self.assertLessEqual(memopt.plan(self.model, dims=DIMS, budget=e.best).memory.total, e.best)
        self.assertRegex(str(caught.exception), r'would fit: budget=("[\d.]+MiB"|\d+)')
        self.assertLessEqual(memopt.plan(self.model, dims=DIMS, budget=e.changes[0].settings["budget"]).memory.total, e.best + (1 << 20))
        for setting, other in (("budget", {}), ("activation_budget", {}), ("budget", {"activation_budget": "100%"}), ("activation_budget", {"budget": "100%"}), ("budget", {"optimizer": "adamw"})):
            with self.subTest(setting, **other):
                with self.assertRaises(memopt.BudgetError) as caught:
                    memopt.plan(self.model, dims=DIMS, **{setting: 4096}, **other)
                self.assertEqual(caught.exception.want, 4096)
                memopt.plan(self.model, dims=DIMS, **{setting: caught.exception.best}, **other)
        self.assertEqual(memopt.plan(self.model, dims=DIMS).format, "memopt.plan/1")

    def test_rows_in_several_runs(self) -> None:
        """What an error says of accumulate, as it spells it, fits."""
        for budget in (2048, "12%"):
            with self.assertRaises(memopt.BudgetError) as caught:
                memopt.plan(self.mlp, dims={"batch": 64}, activation_budget=budget)
            change = next(c for c in caught.exception.changes if "accumulate" in c.settings)
            said = re.match(r'(accumulate=\d+, dims=\{"batch": \d+\}.*?) \(\d+ runs of batch=\d+ for an update, the same 64 rows; ', change.setting)
            assert said is not None, change.setting
            given = eval(f"dict({said[1]})")
            self.assertEqual(given["accumulate"] * given["dims"]["batch"], 64)
            limit = 2048 if budget == 2048 else int(given["activation_budget"])
            plan = memopt.plan(self.mlp, **{"activation_budget": budget, **given})
            self.assertLessEqual(plan.result.arena, limit)

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

    def test_save_is_whole(self) -> None:
        """Threads that save plans at once write whole ones, and no device becomes a file."""
        reports = [memopt.plan(self.model, dims=DIMS, budget=budget) for budget in ("95%", "90%")]
        texts = [json.dumps(report.to_dict()) for report in reports]
        paths = [os.path.join(self.folder.name, name) for name in ("one.json", "other.json")]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(reports[i % 2].save, paths[i % 2]) for i in range(64)]:
                done.result()
        for path, text in zip(paths, texts, strict=True):
            with open(path) as f:
                self.assertEqual(json.dumps(json.load(f)), text)
        pipe = os.path.join(self.folder.name, "pipe")
        os.mkfifo(pipe)
        with self.assertRaisesRegex(OSError, "a pipe cannot be replaced by a file"):
            reports[0].save(pipe)
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith(".memopt")], [])

    def test_questions(self) -> None:
        """frontier, max_batch and explain of files answer as the commands do."""
        model = os.path.join(self.folder.name, "mlp.onnx")
        self.assertEqual(command("new", "mlp", "-o", model, "--width", "128", "--inputs", "4", "--classes", "3", "--layers", "2").returncode, 0)
        plan, svg, page = (os.path.join(self.folder.name, name) for name in ("asked.json", "curve.svg", "asked.html"))
        curve = memopt.frontier(model, dims={"batch": 8}, svg=svg)
        largest = memopt.max_batch(model, "1MiB", save_to=plan)
        told = memopt.explain(plan, html=page)
        for got, line, files in (
            (curve, ["frontier", model, "--dims", "batch=8"], [svg]),
            (largest, ["maxbatch", model, "--budget", "1MiB"], [plan]),
            (told, ["explain", plan], [page]),
        ):
            theirs = json.loads(command(*line, "--format", "json").stdout)
            ours = got.to_dict()
            self.assertEqual(ours["format"], theirs["format"])
            for answer in (ours, theirs):
                for timed in (answer, answer.get("plan") or {}):
                    timed.pop("ms", None)
                    timed.pop("plan_ms", None)
                    timed.pop("warnings", None)  # with the names of arguments
            self.assertEqual(ours, theirs)
            shown = command(*line).stdout
            self.assertIn(str(got).splitlines()[1], shown)
            for path in files:
                self.assertGreater(os.path.getsize(path), 100)
        one = memopt.explain(plan, node=told.result.peak_node)
        for answer, kind in ((curve, Frontier), (curve.points[0], Point), (curve.references[0], Point), (largest, Largest), (largest.ladder[0], Rung), (told, Explanation), (one, NodeExplanation)):
            declared = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
            self.assertLessEqual(set(answer) - {"from"}, declared)
        self.assertLessEqual(largest.total, 1 << 20)
        self.assertEqual(str(memopt.explain(memopt.plan(model, dims={"batch": largest.size}, budget="1MiB"))), str(told))
        self.assertGreater(memopt.max_seq(model, "1MiB", dim="batch").size, 8)
        self.assertEqual(one.node, told.result.peak_node)
        with self.assertRaises(memopt.BudgetError):
            memopt.max_batch(model, "1KiB")
        for call in (
            lambda: memopt.frontier(model, dims={"batch": 8}, budget="1GiB"),
            lambda: memopt.max_batch(model),
            lambda: memopt.explain(plan, node="nobody"),
        ):
            with self.assertRaises(memopt.MemoptError) as caught:
                call()
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        for wrong in (lambda: memopt.frontier(model, 3), lambda: memopt.max_batch(model, lambda n: n, "1GiB"), lambda: memopt.frontier(model, batsch=3)):
            with self.assertRaises(TypeError):
                wrong()

    def test_stats(self) -> None:
        held = memopt.stats()
        self.assertEqual(held.format, "memopt.stats/1")
        for answer, kind in ((held, Stats), (held.weights, Weights), (held.store, Store)):
            self.assertEqual(set(answer), set(inspect.get_annotations(kind)))
        self.assertGreater(held.goroutines, 0)
        self.assertGreaterEqual(held.weights.mapped, 0)
        self.assertIn("memory of the service:", str(held))

    def test_check(self) -> None:
        """A plan is held against its model: as a plan, as a file, and against another model."""
        model, other, path = (os.path.join(self.folder.name, name) for name in ("mlp.onnx", "other.onnx", "p.json"))
        for file, width in ((model, "128"), (other, "64")):
            self.assertEqual(command("new", "mlp", "-o", file, "--width", width, "--inputs", "4", "--classes", "3").returncode, 0)
        plan = memopt.plan(model, dims={"batch": 8}, save_to=path)
        for checked in (memopt.check(plan, model), memopt.check(path, model), memopt.check(path, model, dims={"batch": 8})):
            self.assertLessEqual(set(checked), set(inspect.get_annotations(Checked)))
            self.assertEqual((checked.ok, checked.peak, checked.arena), (True, plan.result.peak, plan.result.arena))
        self.assertEqual(str(checked), command("check", path, model).stdout.strip())
        for wrong in (lambda: memopt.check(path, other), lambda: memopt.check(path, model, dims={"batch": 9}), lambda: memopt.check(model, model)):
            with self.assertRaises(memopt.MemoptError):
                wrong()

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

    def test_given_up(self) -> None:
        """A call that ends by an interrupt or its timeout ends in the service too, and writes no file after that."""
        out = os.path.join(self.folder.name, "out")
        os.mkdir(out)
        long = os.path.join(self.folder.name, "long.onnx")
        made = command("new", "gpt", "--layers", "300", "--width", "16", "--heads", "1", "--vocab", "64", "-o", long)
        self.assertEqual(made.returncode, 0, made.stderr)
        files = {"save_to": os.path.join(out, "p.json"), "emit": os.path.join(out, "e.onnx"), "html": os.path.join(out, "p.html")}

        def plan(model: str = long, timeout: float | None = 600) -> memopt.Report:
            if model == self.model:
                return memopt.plan(model, dims=DIMS, timeout=timeout, **files)
            return memopt.plan(model, dims={"batch": 4, "seq": 16}, activation_budget="50%", timeout=timeout, **files)

        pid = memopt.info()["pid"]
        took = []  # by a call that nobody gives up; the first also warms the service up
        for _ in range(3):
            before = processor_time(pid)
            plan()
            took.append(processor_time(pid) - before)
        whole = min(took)
        for name in os.listdir(out):
            os.remove(os.path.join(out, name))
        for k in range(1, 9):
            after = whole * k / 10
            with self.subTest(k=k, by="an interrupt"):
                with signals_when_used(pid, after), self.assertRaises(KeyboardInterrupt):
                    plan()
                self.assertLess(time_until_idle(pid), 0.2)
                self.assertEqual(os.listdir(out), [])
            with self.subTest(k=k, by="its timeout"):
                with self.assertRaises(memopt.MemoptError) as caught:
                    plan(timeout=0.05 * k)
                self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")
                plan(self.model)  # which another call may not write over
                there = {name: os.path.getsize(os.path.join(out, name)) for name in os.listdir(out)}
                self.assertLess(time_until_idle(pid), 0.2)
                self.assertEqual({name: os.path.getsize(os.path.join(out, name)) for name in os.listdir(out)}, there)
                self.assertEqual(sorted(there), ["e.onnx", "p.html", "p.json"])
                for name in there:
                    os.remove(os.path.join(out, name))
        self.assertEqual(memopt.info()["pid"], pid)


def processor_time(pid: int) -> float:
    """What a process has used, in seconds. What else the machine does is not in it."""
    with open(f"/proc/{pid}/stat", "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def time_until_idle(pid: int) -> float:
    """The processor time that a process uses from now on until it does nothing for a while."""
    begin = last = processor_time(pid)
    quiet = time.monotonic()
    while time.monotonic() - quiet < 0.5:
        time.sleep(0.01)
        now = processor_time(pid)
        if now - last > 0.01:
            last, quiet = now, time.monotonic()
    return processor_time(pid) - begin


@contextlib.contextmanager
def signals_when_used(pid: int, seconds: float) -> Iterator[None]:
    """Interrupts this process once another has used so much processor time."""
    until = processor_time(pid) + seconds

    over = threading.Event()

    def watch() -> None:
        while processor_time(pid) < until:
            if over.wait(0.005):
                return  # the call ended before its time
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, usual)


if __name__ == "__main__":
    unittest.main()
