"""The report of a planned step, and the error where no plan fits."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pickle
import re
import tempfile
import unittest

import torch
from models import GPT, families
from torch.nn import functional as F

import memopt
from memopt.torch import report as report_of


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.tokens = torch.randint(0, 300, (4, 64))


class TestReport(Case):
    def test_quantity(self):
        """Peaks are of what the budget was given for."""
        model = GPT()
        parameters = sum(p.nbytes for p in {id(p): p for p in model.parameters()}.values())
        growth = memopt.optimize(model, activation_budget="60%", sample=(self.tokens, self.tokens))
        self.assertEqual((growth.counted, growth.fixed), (0, parameters))
        whole = memopt.optimize(model, budget=growth.promised_peak + parameters, sample=(self.tokens, self.tokens))
        self.assertEqual(whole.counted, parameters)
        self.assertAlmostEqual(whole.promised_peak, growth.promised_peak + parameters, delta=4096)
        self.assertAlmostEqual(whole.measured_peak, growth.measured_peak + parameters, delta=4096)
        self.assertEqual(whole.eager_peak, growth.eager_peak + parameters)
        self.assertEqual(whole.floor, growth.floor + parameters)
        self.assertLessEqual(whole.measured_peak, growth.promised_peak + parameters + 4096)

    def test_measured_in_training(self):
        """Real steps are measured, once, whether the plan came from a sample or from the first of them."""
        for sample in (None, (self.tokens, self.tokens)):
            model = GPT()
            memopt.optimize(model, activation_budget="60%", sample=sample)
            for _ in range(6):
                model.zero_grad()
                model(self.tokens, self.tokens).backward()
            found = report_of(model)
            self.assertEqual(found.measured_on, "a step of training")
            self.assertLessEqual(abs(found.measured_peak - found.promised_peak), 0.001 * found.promised_peak + 4096)

    def test_said_once(self):
        """One line with the plan and one when it was measured; on the first rank, and as logging is set up."""
        log = logging.getLogger("memopt")
        before = log.level

        def lines(level=logging.NOTSET, rank="0", **given):
            log.setLevel(level)
            os.environ["RANK"] = rank
            model = GPT(layers=2)
            try:
                with contextlib.redirect_stderr(io.StringIO()) as text:
                    memopt.optimize(model, activation_budget="60%", **given)
                    for _ in range(6):
                        model.zero_grad()
                        model(self.tokens, self.tokens).backward()
                        model(self.tokens[:2], self.tokens[:2]).backward()
            finally:
                log.setLevel(before)
                del os.environ["RANK"]
            return text.getvalue().splitlines()

        told = lines()
        self.assertEqual(len(told), 2)
        self.assertIn("promised", told[0])
        self.assertIn("measured", told[1])
        self.assertEqual(lines(verbose=False), [])
        self.assertEqual(lines(rank="1"), [])
        self.assertEqual(lines(logging.WARNING), [])
        with self.assertLogs(log, logging.INFO) as caught:
            self.assertEqual(lines(logging.INFO), [])
        self.assertEqual(len(caught.records), 2)

    def test_forms(self):
        """JSON, a table with a picture for notebooks, and the page of the command line."""
        model, args, loss = families()["gpt"]
        found = memopt.optimize(model, activation_budget="55%", sample=args, loss=loss)
        told = json.loads(json.dumps(found.to_dict()))
        self.assertEqual((told["promised_peak"], told["model"], told["planned"]), (found.promised_peak, "GPT", True))
        self.assertEqual(told["binds"]["module"], found.binds.module)
        self.assertIn(found.binds.module, found.floor_at)
        html = found._repr_html_()
        self.assertIn("<table>", html)
        self.assertIn("<svg", html)
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.html")
            found.save_html(page)
            with open(page) as f:
                text = f.read()
            self.assertIn("<html", text)
            self.assertIn("GPT", text)
        kept = memopt.optimize(model, activation_budget="100%", sample=args, loss=loss)
        self.assertFalse(kept.to_dict()["planned"])
        self.assertIn("nothing to do", str(kept))
        self.assertIn("<table>", kept._repr_html_())
        json.dumps(kept.to_dict())

    def test_page(self):
        """The page speaks of modules, names the model and no file, and prints sizes that are fixed as bytes."""
        torch.manual_seed(0)
        model, args, loss = families()["gpt"]
        for mode in ("eager", "aot_eager"):
            report = memopt.optimize(model, activation_budget="70%", sample=args, loss=loss, mode=mode)
            with tempfile.TemporaryDirectory() as folder:
                report.save_html(os.path.join(folder, "page.html"))
                with open(os.path.join(folder, "page.html"), encoding="utf-8") as f:
                    page = f.read()
            launched = re.findall(r"launch \d+ of \d+: (\S+)", page)
            with self.subTest(mode=mode):
                self.assertIn("blocks.1.fc.addmm", launched)
                self.assertFalse([name for name in launched if re.match("addmm|mm|gelu|native_layer_norm", name)])
                self.assertIn("<h1>GPT</h1>", page)
                self.assertNotIn(".json", page)
                self.assertNotRegex(page, r"\d\.0{5}")
            memopt.restore(model)


class TestRefusal(Case):
    def test_the_best_is_accepted(self):
        """What an error says of the lowest plan, the budget that it is about takes, also where not even the parameters fit."""
        tokens = torch.randint(0, 2000, (4, 32))
        weights = sum(p.nbytes for p in GPT(vocab=2000, layers=1).parameters())
        for mode in ("eager", "aot_eager"):
            for argument, size in (("budget", 3 * weights + 100_000), ("budget", "10%"), ("budget", 4096), ("activation_budget", 4096)):
                model = GPT(vocab=2000, layers=1)
                optimizer = torch.optim.AdamW(model.parameters())
                with self.subTest(mode, **{argument: size}):
                    with self.assertRaises(memopt.BudgetError) as caught:
                        memopt.optimize(model, **{argument: size}, sample=(tokens, tokens), mode=mode, optimizer=optimizer, verbose=False)
                    e = caught.exception
                    self.assertGreater(e.best, e.want)
                    self.assertLessEqual(e.floor.peak, e.best)
                    report = memopt.optimize(model, **{argument: e.best}, sample=(tokens, tokens), mode=mode, optimizer=optimizer, verbose=False)
                    self.assertLessEqual(report.promised_peak, e.best)
                    if argument == "budget":
                        self.assertGreater(e.best, 3 * sum(p.nbytes for p in model.parameters()))
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.max_batch(model, lambda n: (torch.zeros(n, 32, dtype=torch.int64),) * 2, budget=report.fixed + 100_000)
        found = memopt.max_batch(model, lambda n: (torch.zeros(n, 32, dtype=torch.int64),) * 2, budget=caught.exception.best)
        self.assertGreaterEqual(found.size, 1)
        self.assertLessEqual(found.measured_peak + found.fixed, caught.exception.best)

    def test_what_would_fit(self):
        """The error names the floor, the module and the operator, and each change that it names fits."""
        tokens = torch.randint(0, 2000, (8, 64))
        model = GPT(vocab=2000, layers=2)
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(model, "7MiB", sample=(tokens, tokens), loss_chunks=1)
        e = caught.exception
        self.assertNotIn("forward", model.__dict__)
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        self.assertEqual(e.binds, "loss")
        self.assertIn("LogSoftmax", e.op)
        self.assertGreater(e.floor.peak, e.want)
        self.assertGreater(e.fixed, 0)
        found = {change.setting.partition("=")[0].split(" of")[0]: change for change in e.changes}
        self.assertEqual(set(found), {"budget", "loss_chunks", "a batch", "gradients"})
        for change in e.changes:
            self.assertIn(change.setting, str(e))
        memopt.optimize(model, found["budget"].settings["budget"], sample=(tokens, tokens), loss_chunks=1)
        memopt.optimize(model, "7MiB", sample=(tokens, tokens), loss_chunks="auto")
        rows = int(found["a batch"].settings["batch"])
        memopt.optimize(model, "7MiB", sample=(tokens[:rows], tokens[:rows]), loss_chunks=1)
        memopt.restore(model)
        self.assertEqual(pickle.loads(pickle.dumps(e)).changes, e.changes)

    def test_block(self):
        """Without a first dimension of rows, and with a loss that knows the whole batch, there is no smaller batch to name."""
        model, args, _ = families()["convnext"]
        labels = torch.randint(0, 10, (4,))
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(model, activation_budget="200KiB", sample=args, loss=lambda out: F.cross_entropy(out, labels))
        self.assertEqual((caught.exception.binds, caught.exception.op), ("block", "autograd.GeluBackward0"))
        self.assertEqual([c.setting.partition("=")[0] for c in caught.exception.changes], ["activation_budget"])

    def test_parameters(self):
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.optimize(GPT(), "10KiB", sample=(self.tokens, self.tokens))
        self.assertEqual(caught.exception.binds, "parameters")
