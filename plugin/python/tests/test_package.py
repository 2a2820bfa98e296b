"""What needs no service: import, arguments, messages, the report, the search for the binary."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import memopt
from memopt import _arguments, _binary, _messages, _plan, _refusal, _schema
from memopt._lastwords import LastWords
from memopt._settings import SETTINGS, PlanSettings
from memopt.report import Report, Section
from support import PACKAGE, environment

PLAN = {
    "format": "memopt.plan/1",
    "model": {"path": "/models/<gpt>.onnx", "nodes": 500},
    "dims": {"batch": 8, "seq": 1024},
    "baseline": {"peak": 4 << 30},
    "result": {"peak": 1536 << 20, "overhead": 0.041, "recomputed_nodes": 130},
    "floor": {"peak": 1 << 30, "node": "/a/very/long/name" * 10},
    "bound": {"overhead": 0.037, "gap": 0.004},
    "memory": {"total": 3 << 30},
    "clusters": [{"id": "BiasGelu+", "on": True}, {"id": "Softmax+", "on": False}],
    "warnings": ["nothing was asked for"],
}


class Import(unittest.TestCase):
    def test_loads_next_to_nothing(self) -> None:
        """What takes time is modules; how much, on a busy machine, says nothing. With these it is a few milliseconds."""
        code = "import sys; before = set(sys.modules); import memopt; print(*(set(sys.modules) - before))"
        modules = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True).stdout.split()
        self.assertFalse({"grpc", "google", "google.protobuf", "numpy", "torch", "onnx", "subprocess", "logging", "json", "inspect", "asyncio"} & set(modules))
        self.assertLessEqual(len(modules), 40, modules)

    def test_names(self) -> None:
        self.assertLessEqual(set(memopt.__all__), set(dir(memopt)))
        for name in memopt.__all__:
            if memopt._lazy.get(name, "").startswith("torch") and importlib.util.find_spec("torch") is None:
                with self.assertRaisesRegex(ImportError, "pip install torch"):
                    getattr(memopt, name)
                continue
            self.assertIsNotNone(getattr(memopt, name))
        with self.assertRaises(AttributeError):
            memopt.plam  # noqa: B018

    def test_ort_without_torch(self) -> None:
        """All of ONNX Runtime's names are there without PyTorch, and so are the options of ORTModule, which says what it needs."""
        if importlib.util.find_spec("torch") is not None:
            self.skipTest("PyTorch is here")
        code = "from memopt.ort import *; print(DebugOptions(LogLevel.INFO).log_level.name, 'torch' in __import__('sys').modules); import memopt.ort; memopt.ort.ORTModule"
        done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
        self.assertEqual(done.stdout, "INFO False\n", done.stderr)
        self.assertRegex(done.stderr, "ImportError: .*memopt.ort.ORTModule need PyTorch .*: pip install torch")

    def test_typed(self) -> None:
        self.assertTrue((PACKAGE / "memopt" / "py.typed").exists())


class Messages(unittest.TestCase):
    def test_schema_belongs_to_the_proto(self) -> None:
        proto = PACKAGE.parent / "proto" / "memopt.proto"
        if not proto.exists():
            self.skipTest("not in a checkout")
        self.assertEqual(hashlib.sha256(proto.read_bytes()).hexdigest(), _schema.SOURCE_SHA256)

    def test_private_pool(self) -> None:
        from google.protobuf import descriptor_pool

        with self.assertRaises(KeyError):
            descriptor_pool.Default().FindMessageTypeByName("memopt.v1.Question")

    def test_round_trip(self) -> None:
        message = _messages.Question(model="m", settings={"budget": "8GB"})
        again = _messages.Question.FromString(message.SerializeToString())
        self.assertEqual((again.model, dict(again.settings)), ("m", {"budget": "8GB"}))


class Arguments(unittest.TestCase):
    def test_sizes(self) -> None:
        for given, want in {"8GB": "8GB", "60%": "60%", 1: "1", 1 << 33: "8589934592", 0.5: "50%", 0.07: "7%", 0.125: "12.5%", 8e9: "8000000000"}.items():
            self.assertEqual(_arguments.size("b", given), want)
        self.assertEqual(_arguments.size("b", 1.0), "100%")
        for wrong in (0, -1, -0.5, 0.0, 1.5, float("nan"), float("inf")):
            with self.assertRaises(ValueError, msg=repr(wrong)):
                _arguments.size("b", wrong)
        for wrong in (True, [1], b"8GB"):
            with self.assertRaises(TypeError, msg=repr(wrong)):
                _arguments.size("b", wrong)

    def test_shares(self) -> None:
        for given, want in {"10%": "10%", 0.1: "10%", 0: "0%", 1.5: "150%"}.items():
            self.assertEqual(_arguments.share("o", given), want)
        for wrong in (-0.1, float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                _arguments.share("o", wrong)

    def test_dims(self) -> None:
        self.assertEqual(json.loads(_arguments.sizes("dims", {"batch": 8, "a=b": 2})), {"batch": 8, "a=b": 2})
        for wrong, kind in (({"b": 0}, ValueError), ({"b": 1 << 63}, ValueError), ({"b": 1.0}, TypeError), ({"b": True}, TypeError), ({1: 1}, TypeError), ("batch=8", TypeError), ([8], TypeError)):
            with self.assertRaises(kind):
                _arguments.sizes("dims", wrong)

    def test_wrong_types_name_the_argument(self) -> None:
        cases = {
            "level": ("1", True, 1.0),
            "strategy": (3, b"optimize"),
            "compat": (1.19, True),
            "loss": (3, ["mse"]),
            "optimizer": (3,),
            "boundary": (2, 1, 0.0),
            "shrink": (1, None.__class__),
            "trainable": (3, [3], b"fc1", {"fc1": 1}),
            "clip_norm": ("1", True),
            "loss_scale": ([1], True),
            "save_onnx_path": (3,),
            "config": (3, [b"x"], b"mem_opt.json", {"a": object()}, [float("nan")], {3, 4}),
            "show": (3, [3], b"graph", {"graph": 1}),
            "timeout": ("3", True, float("nan"), -1),
            "save_to": (3, True),
            "emit": (3,),
            "html": (["a"],),
            "dims": ([8],),
            "budget": ([1],),
            "memory_budget": ([1],),
        }
        for name, values in cases.items():
            for value in values:
                with self.subTest(name=name, value=value), self.assertRaisesRegex((TypeError, ValueError), f"^{name} is .*; (give|it) "):
                    memopt.plan("m.onnx", **{name: value})
        with self.assertRaisesRegex(TypeError, "^path is 3; give"):
            memopt.plan(3)  # type: ignore[arg-type]
        for places in (("8GB", "9GB"), ([1],)):
            with self.assertRaisesRegex(TypeError, "by place|^budget is "):
                memopt.plan("m.onnx", *places)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "two budgets"):
            memopt.plan("m.onnx", "8GB", budget="9GB")
        with self.assertRaisesRegex(TypeError, "^timeout is '3'; give"):
            memopt.info(timeout="3")  # type: ignore[arg-type]

    def test_names(self) -> None:
        for wrong, why in {"bugdet": "did you mean 'budget'", "lr": "memopt plan does not use it, train does", "cache": "unexpected keyword argument 'cache'$"}.items():
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, f"unexpected keyword argument '{wrong}'.*{why}" if "unexpected" not in why else why):
                memopt.plan("m.onnx", **{wrong: 1})  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "both 'budget' and 'memory_budget'"):
            memopt.plan("m.onnx", budget=1, memory_budget=1)

    def test_every_setting_is_a_keyword(self) -> None:
        parameters = inspect.signature(memopt.plan).parameters
        documentation = inspect.getdoc(memopt.plan) or ""
        for name, row in SETTINGS.items():
            self.assertEqual(parameters[name].kind, inspect.Parameter.POSITIONAL_OR_KEYWORD if name == "budget" else inspect.Parameter.KEYWORD_ONLY)
            self.assertIn(name, PlanSettings.__annotations__)
            self.assertRegex(documentation, rf"(?m)^{name}$")
            self.assertIn(row.help.split()[0], documentation)
        self.assertEqual(parameters["budget"].annotation, "Size | None")
        self.assertEqual(list(parameters)[:2], ["path", "budget"])
        self.assertNotIn("memory_budget", parameters)

    def test_texts(self) -> None:
        given = {
            "level": 0, "boundary": False, "shrink": True, "flash_attention": "rows", "trainable": ("a,b", "c"), "lossy": "", "strategy": None,
            "memory_budget": 0.5, "clip_norm": 1, "loss_scale": "auto", "dims": {"é": 2}, "epsilon": 1e-8,
        }
        self.assertEqual(_plan.texts("plan", given), {
            "level": "0", "boundary": "off", "shrink": "on", "flash_attention": "rows", "trainable": '["a,b", "c"]',
            "budget": "50%", "clip_norm": "1.0", "loss_scale": "auto", "dims": '{"é": 2}', "epsilon": "1e-08",
        })

    def test_stages(self) -> None:
        self.assertEqual([_arguments.show(v) for v in (None, (), "graph", ("graph", "arena"))], [[], [], ["graph"], ["graph", "arena"]])
        for stages in ({"graph": 1}.keys(), {"graph"}, iter(["graph"])):
            self.assertEqual(_arguments.show(stages), ["graph"])

    def test_timeouts(self) -> None:
        for given, want in {None: None, float("inf"): None, 3: 3.0, 0.5: 0.5, 0: 0.0, 1e12: _arguments.LONGEST}.items():
            self.assertEqual(_arguments.timeout(given), want)

    def test_config(self) -> None:
        self.assertEqual(_arguments.config("c", ("BiasGelu+:1:-1",)), '["BiasGelu+:1:-1"]')
        self.assertEqual(_arguments.config("c", ["BiasGelu+:1:-1"]), '["BiasGelu+:1:-1"]')
        self.assertEqual(_arguments.config("c", "BiasGelu+:1:-1,Dropout+:1:-1"), "BiasGelu+:1:-1,Dropout+:1:-1")
        self.assertEqual(_arguments.config("c", Path("c.json")), os.path.abspath("c.json"))
        self.assertEqual(_arguments.config("c", os.path.relpath(__file__)), os.path.abspath(__file__))

    def test_path_that_is_not_utf8(self) -> None:
        with self.assertRaises(memopt.MemoptError) as caught:
            memopt.plan(b"\xff.onnx")  # type: ignore[arg-type]
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")


class Refusals(unittest.TestCase):
    def test_of_another_version(self) -> None:
        for told in (b"{}", b"[]", b"null", b"{", b"\xff", b'{"want": 1, "best": 2, "fixed": 3, "floor": 4, "changes": []}'):
            with self.subTest(told):
                self.assertEqual(_refusal.fields([(_refusal.TRAILER, told)]), {})


class Words(unittest.TestCase):
    def said(self, *lines: str) -> LastWords:
        words = LastWords()
        for line in lines:
            words.add(line)
        return words

    def test_the_last_lines_are_kept(self) -> None:
        self.assertEqual(self.said(*map(str, range(100))).lines(), tuple(map(str, range(80, 100))))
        self.assertEqual(self.said().lines(), ())

    def test_a_crash_begins_with_why(self) -> None:
        rest = tuple(f"goroutine {i}" for i in range(100))
        for why in (("panic: no",), ("fatal error: all goroutines are asleep",), ("SIGBUS: bus error",), ("runtime: out of memory: cannot allocate", "fatal error: out of memory")):
            self.assertEqual(self.said("before", *why, *rest).lines(), (why + rest)[:20])

    def test_no_memory(self) -> None:
        self.assertTrue(self.said("fatal error: runtime: out of memory").tell_of_no_memory())
        self.assertTrue(self.said("fatal error: runtime: cannot allocate memory").tell_of_no_memory())
        self.assertFalse(self.said("a print about being out of memory", "panic: no").tell_of_no_memory())


class Binary(unittest.TestCase):
    def test_not_found_names_all_tried(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            installed = os.path.join(folder, "memopt", "_binary.py")
            with mock.patch.dict(os.environ, {"PATH": folder}, clear=True), mock.patch.object(_binary, "__file__", installed):
                with self.assertRaises(memopt.MemoptError) as caught:
                    _binary.find()
            text = str(caught.exception)
            for part in ("MEMOPT_PLUGIN_PATH", os.path.join(folder, "memopt", "_bin", "memopt"), "PATH", "make build"):
                self.assertIn(part, text)

    def test_order(self) -> None:
        with tempfile.TemporaryDirectory() as folder:

            def binary(*parts: str) -> str:
                path = os.path.join(folder, *parts)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.copy("/bin/true", path)
                return path

            with open(os.path.join(folder, "go.mod"), "w") as f:
                f.write("module memopt\n")
            package = os.path.join(folder, "plugin", "python", "memopt")
            made = [
                binary("path", "memopt"),
                binary("bin", "memopt"),
                binary("plugin", "python", "memopt", "_bin", "memopt"),
                binary("variable"),
                binary("explicit"),
            ]
            env = {"PATH": os.path.join(folder, "path")}
            with mock.patch.dict(os.environ, env, clear=True), mock.patch.object(_binary, "__file__", os.path.join(package, "_binary.py")):
                self.assertEqual(_binary.find(made[4]), made[4])
                os.environ["MEMOPT_PLUGIN_PATH"] = made[3]
                self.assertEqual(_binary.find(), made[3])
                del os.environ["MEMOPT_PLUGIN_PATH"]
                for path in reversed(made[:3]):
                    self.assertEqual(_binary.find(), path)
                    os.remove(path)


class ReportCase(unittest.TestCase):
    def setUp(self) -> None:
        self.text = json.dumps(PLAN)
        self.report = Report(self.text, "the table\n")

    def test_access(self) -> None:
        r = self.report
        self.assertEqual(r.result.peak, r["result"]["peak"])
        self.assertEqual(r.clusters[0].id, "BiasGelu+")
        self.assertEqual(dict(r.dims), {"batch": 8, "seq": 1024})
        self.assertEqual(r.dims, {"batch": 8, "seq": 1024})
        self.assertIsInstance(r.result, Section)
        self.assertIn("clusters", dir(r))
        with self.assertRaisesRegex(AttributeError, "no field 'peek'; there are peak, overhead"):
            r.result.peek  # noqa: B018
        with self.assertRaises(KeyError):
            r["nothing"]
        with self.assertRaises(AttributeError):
            r.result.peak = 1

    def test_to_dict_is_a_copy(self) -> None:
        d = self.report.to_dict()
        self.assertEqual(d, PLAN)
        d["result"]["peak"] = 0
        self.assertEqual(self.report.result.peak, 1536 << 20)

    def test_repr(self) -> None:
        lines = repr(self.report).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertEqual(
            lines,
            [
                "memopt plan of <gpt>.onnx at batch=8, seq=1024",
                "  peak       1.50 GiB, 37.5% of 4.00 GiB with everything kept",
                "  total      3.00 GiB with weights, gradients and optimizer",
                "  extra time 4.1%, 130 nodes computed again",
                "  gap        0.4% to the proven bound",
                "  floor      1.00 GiB, held by " + ("/a/very/long/name" * 10)[:48] + "…",
                "  clusters   1 of 2 on",
                "  warning    nothing was asked for",
            ],
        )
        self.assertEqual(repr(Report("{}")), "memopt plan of ?")

    def test_str_is_the_table(self) -> None:
        self.assertEqual(str(self.report), "the table")
        self.assertEqual(str(Report("{}")), "memopt plan of ?")

    def test_html(self) -> None:
        page = self.report._repr_html_()
        self.assertIn("&lt;gpt&gt;.onnx", page)
        self.assertNotIn("<gpt>", page)

    def test_save(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            for _ in range(2):
                self.report.save(path)
            self.assertEqual(os.listdir(folder), ["plan.json"])
            with open(path) as f:
                self.assertEqual(f.read(), self.text)
            with self.assertRaises(OSError):
                self.report.save(folder)
            self.assertEqual(os.listdir(folder), ["plan.json"])

    def test_copies(self) -> None:
        for again in (pickle.loads(pickle.dumps(self.report)), copy.deepcopy(self.report)):
            self.assertEqual((again, again.text), (self.report, self.report.text))
        self.assertEqual(pickle.loads(pickle.dumps(self.report.result)), self.report.result)


if __name__ == "__main__":
    unittest.main()
