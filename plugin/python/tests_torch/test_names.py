"""Names that authors of models choose: they are no paths, and do nothing to a terminal or a page."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from test_optimize import Case
from torch import nn

import memopt

NAMES = ("A/B", "../../evil", "..", ".", "/tmp/evil", "x" * 300, "a\x1b[31mred\x1b]0;title\x07", "b\u202egnp.exe", "c\nmemopt: nothing", "d\x9b1m", "<script>", "CON", "é" * 200)


def named(name):
    """A module whose class, and a module in it, have a name."""
    inner = type(name, (nn.Sequential,), {})(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
    model = nn.Sequential()
    model.add_module(name.replace(".", "_") or "x", inner)
    model.__class__ = type(name, (nn.Sequential,), {})
    return model


class TestNames(Case):
    def harmless(self, text, name):
        for c in "\x1b\x07\x9b\u202e\r":
            self.assertNotIn(c, text)
        self.assertNotIn("\nmemopt: nothing", text)

    def test_names(self):
        x = torch.randn(32, 64)
        for name in NAMES:
            with self.subTest(ascii(name)), tempfile.TemporaryDirectory() as folder:
                model = named(name)
                out = io.StringIO()
                temporary = os.path.join(folder, "a", "b")  # as much as ../../evil would climb
                os.makedirs(temporary)
                with mock.patch.object(tempfile, "tempdir", temporary), contextlib.redirect_stderr(out), contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    recording = memopt.record(model, x, loss=lambda y: y.square().mean(), to=os.path.join(folder, "step.json"))
                    report = memopt.optimize(model, activation_budget="90%", sample=x, loss=lambda y: y.square().mean())
                    texts = [str(recording), str(report), repr(report), report._repr_html_(), str(report.plan), repr(report.plan), report.plan._repr_html_()]
                    explained = memopt.explain(model)
                    texts += [str(explained), repr(explained), explained._repr_html_()]
                    memopt.restore(model)
                    curve = memopt.frontier(model, x, loss=lambda y: y.square().mean())
                    texts += [str(curve), repr(curve), curve._repr_html_()]
                    with self.assertRaises(memopt.BudgetError) as caught:
                        memopt.optimize(model, activation_budget="1KiB", sample=x, loss=lambda y: y.square().mean())
                    texts += [str(caught.exception), repr(caught.exception)]
                    with self.assertRaises(Exception) as wrong:
                        memopt.optimize(model, activation_budget="90%", sample=x, loss=lambda y, name=name: type(name, (), {})())
                    texts.append(str(wrong.exception))
                for text in [*texts, out.getvalue(), *(str(w.message) for w in told)]:
                    self.harmless(text, name)
                    self.assertNotIn("<script>", text) if "<table" in text else None
                with open(os.path.join(folder, "step.json")) as f:
                    self.assertEqual(json.load(f)["model"].removesuffix(".json"), name)
                self.assertEqual([sorted(files) for _, _, files in os.walk(folder)], [["step.json"], [], []])
                self.assertFalse(os.path.exists("/tmp/evil") or os.path.exists("/tmp/evil.json"))


if __name__ == "__main__":
    unittest.main()
