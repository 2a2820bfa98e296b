"""memopt.ort.ORTModule: ONNX Runtime's levels, clusters, table and options give PyTorch's gradients."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import pickle
import re
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from models import GPT
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import memopt
from memopt.ort import DebugOptions, LogLevel, ORTModule
from served import Served


class Tower(nn.Module):
    """Two layers with a wide activation between; nothing random."""

    def __init__(self, width=16):
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0))
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 4)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, labels=None):
        out = self.down(self.norm(F.gelu(self.up(x)))) * self.scale
        return out if labels is None else F.cross_entropy(out, labels)


class Mean(nn.Module):
    """A loss of what a module makes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).square().mean()


def batch(rows=16):
    return torch.randn(rows, 8), torch.randint(0, 4, (rows,))


@contextlib.contextmanager
def variables(**given):
    """The environment with these variables of ORTModule's and no others."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ORTMODULE_")}
    with mock.patch.dict(os.environ, {**kept, **{"ORTMODULE_" + k: v for k, v in given.items()}}, clear=True):
        yield


class Case(Served):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def step(self, model, *args):
        """Loss and gradients of a step, and what was printed meanwhile."""
        told = io.StringIO()
        model.zero_grad()
        with contextlib.redirect_stderr(told), warnings.catch_warnings():
            warnings.simplefilter("error")
            loss = model(*args)
            loss.backward()
        return loss.detach(), [p.grad.clone() for p in model.parameters()], told.getvalue()

    def wrapped(self, model, options=None, **given):
        with variables(**({"FALLBACK_POLICY": "FALLBACK_DISABLE"} | given)):
            return ORTModule(copy.deepcopy(model), options)

    def assert_same(self, ours, theirs):
        torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
        for a, b in zip(ours[1], theirs[1], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def rows(self, told):
        """The rows of a table: on or off, key, how often, bytes and formula."""
        return re.findall(r"^ - Plan \d+ +:  (ON|OFF) +:  (\S+:[12]:-1) +(\d+) +([\d,]+) +(\S+) *$", told, re.MULTILINE)


class Levels(Case):
    def test_levels(self):
        """Each gives PyTorch's loss and gradients, its table, and less kept the more is run again."""
        model, args = GPT(layers=2, dropout=0.0), (torch.randint(0, 300, (2, 32)), torch.randint(0, 300, (2, 32)))
        theirs = self.step(model, *args)
        first, kept = None, []
        for level in (0, 1, 2):
            ours = self.wrapped(model, DebugOptions(log_level=LogLevel.INFO), MEMORY_OPT_LEVEL=str(level))
            done = self.step(ours, *args)
            self.assert_same(done, theirs)
            first = first or done
            self.assertTrue(torch.equal(done[0], first[0]) and all(map(torch.equal, done[1], first[1])), "a plan changed bits")
            head, titles = done[2].splitlines()[:2]
            names = ["", "TRANSFORMER_LAYERWISE_RECOMPUTE", "TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE"]
            self.assertRegex(head, rf"^Memory Optimizer     :  ON   :  Memory Optimization Level: \[{names[level]}\], Optimization Config: \[" if level else r"^Memory Optimizer     :  OFF  :  Enable with env")
            self.assertRegex(titles, r"^ {32}Configs +Freq +Max Saving\(Bytes\) +Saving Symbolic\(Bytes\) +$")
            rows = self.rows(done[2])
            self.assertGreater(len(rows), 4)
            sizes = [int(row[3].replace(",", "")) for row in rows]
            self.assertEqual(sizes, sorted(sizes, reverse=True))
            self.assertEqual({row[0] for row in rows if row[1].endswith(":1:-1")}, {"ON"} if level else {"OFF"})
            for _, _, _, value, formula in rows:
                self.assertEqual(int(value.replace(",", "")), int(eval(formula, {"tokens_dim0": 2, "tokens_dim1": 32, "labels_dim0": 2, "labels_dim1": 32})))
            self.assertIn("tokens_dim0=2,  tokens_dim1=32,", done[2])
            self.assertIn("Note 1: [Memory Optimizer] Use ORTMODULE_MEMORY_OPT_LEVEL=1 or 2", done[2])
            kept.append(ours.report.plan.result.stashed)
        self.assertLess(kept[1], 0.7 * kept[0])
        self.assertLessEqual(kept[2], kept[1])

    def test_dropout_is_the_same_run_again(self):
        model, args = GPT(layers=2, dropout=0.2), (torch.randint(0, 300, (2, 32)), torch.randint(0, 300, (2, 32)))
        done = []
        for level in "02":
            ours = self.wrapped(model, MEMORY_OPT_LEVEL=level)
            torch.manual_seed(1)
            done.append([self.step(ours, *args) for _ in range(2)])
        for other in done[1:]:
            for (loss, gradients, _), (base, base_gradients, _) in zip(other, done[0], strict=True):
                self.assertTrue(torch.equal(loss, base) and all(map(torch.equal, gradients, base_gradients)))

    def test_checkpoints_and_budgets(self):
        """What the module checkpoints, the plan decides; a budget of memopt's binds beside ONNX Runtime's settings."""

        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(6))

            def forward(self, x):
                for layer in self.layers:
                    x = checkpoint(layer, x, use_reentrant=False)
                return x.square().mean()

        model, x = Deep(), torch.randn(512, 32)
        theirs = self.step(model, x)
        with mock.patch.dict(os.environ, {"MEMOPT_ACTIVATION_BUDGET": "60%"}):
            ours = self.wrapped(model, MEMORY_OPT_LEVEL="0")
            self.assert_same(self.step(ours, x), theirs)
        self.assertLessEqual(ours.report.measured_peak, 0.6 * ours.report.kept_peak)
        self.assertEqual(ours.report.measured_peak, ours.report.promised_peak)

    def test_other_shapes(self):
        """The graph is made once, and its table is that of the first batch; a plan is made for every shape."""
        model = Tower()
        ours = self.wrapped(model, DebugOptions(log_level=LogLevel.INFO), MEMORY_OPT_LEVEL="1")
        peaks = []
        for i, rows in enumerate((16, 5, 16, 33)):
            args = batch(rows)
            done = self.step(ours, *args)
            self.assert_same(done, self.step(model, *args))
            self.assertEqual("\n  x_dim0=16,\n" in done[2], i == 0)  # the other dims are no others, or cannot change
            self.assertEqual(done[2] == "", i > 0)
            peaks.append(ours.report.promised_peak)
        self.assertEqual([peaks[0]] + sorted(set(peaks)), [peaks[2], peaks[1], peaks[0], peaks[3]])

    def test_dims_that_cannot_change_are_numbers(self):
        """A normalization fixes the last dim: savings are formulas of the others, and one graph has all their sizes."""
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", norm_first=True, batch_first=True)
        model = nn.Sequential(layer, nn.Linear(32, 1))
        ours = self.wrapped(model, DebugOptions(log_level=LogLevel.INFO), MEMORY_OPT_LEVEL="1")
        for shape in ((4, 8, 32), (3, 12, 32)):
            x = torch.randn(shape)
            results = [self.step(m, x) for m in (Mean(ours), Mean(model))]
            self.assert_same(*results)
            formulas = {row[4] for row in self.rows(results[0][2])}
            self.assertEqual("128.0*input_dim0*input_dim1" in formulas, shape == (4, 8, 32), formulas)

    def test_is_read_when_the_module_is_made(self):
        model, args = Tower(), batch()
        with variables(MEMORY_OPT_LEVEL="1", LOG_LEVEL="INFO"):
            on = ORTModule(copy.deepcopy(model))
        with variables():
            off = ORTModule(copy.deepcopy(model))
            self.assertIn("ON", {row[0] for row in self.rows(self.step(on, *args)[2])})
        with variables(MEMORY_OPT_LEVEL="1"):
            self.assertRegex(self.step(off, *args)[2], "^Memory Optimizer +:  OFF ")


class Configs(Case):
    def setUp(self):
        super().setUp()
        self.model, self.args = Tower(), batch()
        self.theirs = self.step(self.model, *self.args)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, text):
        path = os.path.join(self.folder, "plans.json")
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_what_is_on(self):
        """Files and the comma string of before 1.19 turn on what they name; the rest of the table is off."""
        cases = {
            self.file('["Gelu+:1:-1"]'): {"Gelu+:1:-1"},
            "Gelu+:1:-1": {"Gelu+:1:-1"},
            "Gelu+:1:-1,Gemm+:1:1": {"Gelu+:1:-1", "Gemm+:1:-1"},
            "Gelu+:0:-1": set(),
        }
        for config, want in cases.items():
            with self.subTest(config):
                ours = self.wrapped(self.model, MEMORY_OPT_CONFIG=config, LOG_LEVEL="INFO")
                done = self.step(ours, *self.args)
                self.assert_same(done, self.theirs)
                self.assertEqual({row[1] for row in self.rows(done[2]) if row[0] == "ON"}, want)
                self.assertRegex(done[2], r"^Memory Optimizer +:  ON +:  Memory Optimization Level: \[USER_SPECIFIED\], Optimization Config: \[.")

    def test_relative_file(self):
        self.file('["Gelu+:1:-1"]')
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        ours = self.wrapped(self.model, MEMORY_OPT_CONFIG="plans.json", LOG_LEVEL="INFO")
        os.chdir("/")
        self.assertIn(("ON", "Gelu+:1:-1"), {row[:2] for row in self.rows(self.step(ours, *self.args)[2])})

    def test_what_is_wrong_is_said_at_once(self):
        cases = {
            ("MEMORY_OPT_LEVEL", "abc"): 'ORTMODULE_MEMORY_OPT_LEVEL: "abc" is not an integer from 0 to 2',
            ("MEMORY_OPT_LEVEL", "3"): 'ORTMODULE_MEMORY_OPT_LEVEL: "3" is not an integer from 0 to 2',
            ("MEMORY_OPT_CONFIG", "nonsuch.json"): "ORTMODULE_MEMORY_OPT_CONFIG: nonsuch.json: no such file",
            ("MEMORY_OPT_CONFIG", "Gelu+:3:-1"): '"3" in "Gelu\\+:3:-1" is not a strategy',
            ("MEMORY_OPT_CONFIG", "Gelu+:1:-2"): "-2",
            ("MEMORY_OPT_CONFIG", self.file('["Gelu+:1:-1",]')): "plans.json:1:14: comma before ']'",
            ("LOG_LEVEL", "LOUD"): "ORTMODULE_LOG_LEVEL: 'LOUD' is not a log level, use VERBOSE, DEVINFO, INFO, WARNING, ERROR, FATAL",
            ("FALLBACK_POLICY", "NEVER"): "ORTMODULE_FALLBACK_POLICY: 'NEVER' is not a policy",
        }
        for (name, value), said in cases.items():
            with self.subTest(name, value=value), self.assertRaisesRegex(memopt.MemoptError, said) as caught:
                self.wrapped(self.model, **{name: value})
            self.assertIsInstance(caught.exception, ValueError)

    def test_unknown_clusters_are_told(self):
        ours = self.wrapped(self.model, MEMORY_OPT_CONFIG="Gelo+:1:-1")
        self.assertRegex(self.step(ours, *self.args)[2], r"(?m)^memopt: warning: .*Gelo\+")
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            self.wrapped(self.model, MEMORY_OPT_CONFG="Gelu+:1:-1")
        self.assertIn("did you mean ORTMODULE_MEMORY_OPT_CONFIG?", told.getvalue())


class Options(Case):
    def setUp(self):
        super().setUp()
        self.model, self.args = Tower(), batch()

    def test_log_levels(self):
        for level, given, row, table, report in (
            (LogLevel.ERROR, {}, False, False, False), (LogLevel.ERROR, {"LOG_LEVEL": "WARNING"}, True, False, False),
            (LogLevel.INFO, {}, True, True, False), (LogLevel.INFO, {"LOG_LEVEL": "DEVINFO"}, True, True, True),
        ):  # fmt: skip
            with self.subTest(level.name, **given), variables(**given):
                ours = self.wrapped(self.model, DebugOptions(log_level=level), MEMORY_OPT_LEVEL="1", **given)
                told = self.step(ours, *self.args)[2]
                self.assertEqual(("Memory Optimizer  " in told, "Saving Symbolic" in told, "MemoryInsight Summary" in told), (row, table, report), told)
        self.assertIn("Enabled, requested count=-1, actual applied count=", told)

    def test_the_environment_goes_first(self):
        with variables(LOG_LEVEL="DEVINFO"):
            self.assertEqual(DebugOptions(log_level=LogLevel.ERROR).log_level, LogLevel.DEVINFO)
        with variables():
            self.assertEqual(DebugOptions().log_level, LogLevel.WARNING)
            self.assertEqual([level.value for level in LogLevel], [0, 1, 2, 3, 4, 5])

    def test_is_logged_where_somebody_listens(self):
        ours = self.wrapped(self.model, DebugOptions(log_level=LogLevel.INFO))
        with self.assertLogs("memopt.ort", logging.WARNING) as logs:
            self.assertEqual(self.step(ours, *self.args)[2], "")
        self.assertIn("Saving Symbolic(Bytes)", logs.output[0])

    def test_saved_graphs(self):
        """The step before and after it is planned: the second is the first with nodes that run again."""
        import onnx

        with tempfile.TemporaryDirectory() as folder:
            with variables(SAVE_ONNX_PATH=folder):
                options = DebugOptions(save_onnx=True, onnx_prefix="tower")
            self.step(self.wrapped(self.model, options, MEMORY_OPT_LEVEL="1"), *self.args)
            self.assertEqual(sorted(os.listdir(folder)), ["tower_execution_model_training.onnx", "tower_optimized_training.onnx"])
            before, after = (onnx.load(os.path.join(folder, f"tower_{name}_training.onnx")).graph for name in ("optimized", "execution_model"))
        again = [n for n in after.node if n.name.endswith("_recompute")]
        self.assertFalse([n for n in before.node if n.name.endswith("_recompute")])
        self.assertEqual(len(after.node), len(before.node) + len(again))
        self.assertIn("Gelu", {n.op_type for n in again})
        for graph in (before, after):
            self.assertEqual([n.op_type for n in graph.node].count("YieldOp"), 1)
            self.assertLessEqual({"x", "labels", *dict(self.model.named_parameters())}, {i.name for i in graph.input})
            self.assertFalse(set(dict(self.model.named_parameters())) & {i.name for i in graph.initializer})

    def test_wrong_options(self):
        with variables(SAVE_ONNX_PATH="/nonsuch"):
            for wrong, kind, said in (
                ({"save_onnx": True}, ValueError, "save_onnx needs onnx_prefix"),
                ({"save_onnx": True, "onnx_prefix": "a/b"}, ValueError, "is 'a/b', a path"),
                ({"save_onnx": True, "onnx_prefix": "a"}, OSError, "/nonsuch is not a folder that can be written to; set ORTMODULE_SAVE_ONNX_PATH"),
                ({"log_level": 9}, ValueError, "9"),
            ):
                with self.subTest(wrong), self.assertRaisesRegex(kind, said):
                    DebugOptions(**wrong)
            self.assertFalse(DebugOptions(onnx_prefix="a").save_onnx_models.save)
        for wrong in (3, None, len, nn.Linear):
            with self.assertRaisesRegex(TypeError, "ORTModule takes a torch.nn.Module"):
                ORTModule(wrong)
        with self.assertRaisesRegex(TypeError, "debug_options is 'INFO'"):
            ORTModule(self.model, "INFO")
        with self.assertRaises(TypeError):
            ORTModule(self.wrapped(self.model))

    def test_fallback(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(3))

            def forward(self, x):
                return (self.w * x).sum() if float(x.sum()) > 0 else self.w.sum()  # depends on numbers: no graph

        x = torch.ones(3)
        with self.assertRaises(memopt.MemoptError):
            self.wrapped(Odd())(x)
        with variables():
            ours = ORTModule(Odd())
        with self.assertWarnsRegex(UserWarning, "runs in PyTorch"):
            ours(x).backward()
        self.assertEqual(ours.w.grad.tolist(), [1, 1, 1])
        for policy in ("FALLBACK_FORCE_TORCH_FORWARD", "FALLBACK_FORCE_TORCH_FORWARD|FALLBACK_UNSUPPORTED_DATA"):
            ours = self.wrapped(self.model, FALLBACK_POLICY=policy)
            self.step(ours, *self.args)
            self.assertIsNone(ours.report)


class AsModule(Case):
    def setUp(self):
        super().setUp()
        self.model = Tower()
        self.ours = self.wrapped(self.model)

    def test_is_the_module_by_another_name(self):
        ours, model = self.ours, self.model
        for names in ("named_parameters", "named_buffers", "named_modules", "named_children"):
            self.assertEqual([n for n, _ in getattr(ours, names)()], [n for n, _ in getattr(model, names)()], names)
        self.assertEqual(list(ours.state_dict()), list(model.state_dict()))
        self.assertIsInstance(ours, nn.Module)
        self.assertIs(ours.up, ours.module.up)
        self.assertEqual(ours.load_state_dict(model.state_dict()), model.load_state_dict(ours.state_dict()))
        ours.scale = torch.tensor(3.0)
        self.assertEqual(ours.module.scale, 3)
        with self.assertRaises(AttributeError):
            ours.nonsuch  # noqa: B018

    def test_evaluation_is_the_modules_own(self):
        args = batch()
        self.ours.eval()
        self.assertFalse(self.ours.module.training or self.ours.up.training)
        self.assertTrue(torch.equal(self.ours(*args), self.model.eval()(*args)))
        self.ours.train()
        self.assertTrue(self.ours.module.training and self.ours.up.training)

    def test_trains(self):
        """An optimizer over its parameters takes it where it takes the module."""
        optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (self.ours, self.model)]
        for _ in range(5):
            args = batch()
            losses = []
            for m, optimizer in zip((self.ours, self.model), optimizers, strict=True):
                optimizer.zero_grad()
                losses.append(m(*args))
                losses[-1].backward()
                optimizer.step()
            torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)

    def test_saved_and_copied(self):
        args = batch()
        base = self.step(self.ours, *args)
        buffer = io.BytesIO()
        torch.save(self.ours, buffer)
        buffer.seek(0)
        with variables():
            loaded = torch.load(buffer, weights_only=False)
            self.assertTrue(torch.equal(self.step(loaded, *args)[0], base[0]))
            for again in (loaded, copy.deepcopy(self.ours), pickle.loads(pickle.dumps(self.ours))):
                self.assertIsInstance(again, ORTModule)
                self.assertTrue(torch.equal(again.up.weight, self.ours.up.weight) and again.up.weight is not self.ours.up.weight)
        buffer = io.BytesIO()
        torch.save(self.ours.state_dict(), buffer)
        buffer.seek(0)
        self.model.load_state_dict(torch.load(buffer))

    def test_several_replicas_are_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "DataParallel"):
            self.ours._replicate_for_data_parallel()

    def test_names_of_onnx_runtime(self):
        from memopt.ort.training import ortmodule

        self.assertIs(ortmodule.ORTModule, ORTModule)
        self.assertIs(ortmodule.DebugOptions, DebugOptions)
        self.assertIs(memopt.ort.training.ortmodule.LogLevel, LogLevel)


if __name__ == "__main__":
    unittest.main()
