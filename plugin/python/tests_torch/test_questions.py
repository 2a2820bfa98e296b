"""Questions about a module's step: what each budget costs, what fits, what stands in the way."""

from __future__ import annotations

import copy
import json
import os
import tempfile
import unittest
from unittest import mock

import torch
from models import GPT, ConvNeXt, families
from torch.nn import functional as F

import memopt
from memopt.torch.ask import largest
from memopt.torch.plan.sized import Sized
from memopt.torch.record.floor import Step, binding


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)


class TestFrontier(Case):
    def test_points_are_plans(self):
        """Each point is what memopt.optimize promises for its budget; the module is as it was."""
        model, args, loss = families()["gpt"]
        state, rng = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        with tempfile.TemporaryDirectory() as folder:
            found = memopt.frontier(model, *args, loss=loss, svg=os.path.join(folder, "f.svg"))
            self.assertGreater(os.path.getsize(os.path.join(folder, "f.svg")), 100)
        self.assertTrue(torch.equal(rng, torch.get_rng_state()))
        self.assertTrue(all(torch.equal(v, state[k]) for k, v in model.state_dict().items()))
        self.assertEqual(found.points[0].overhead, 0)
        self.assertLessEqual(abs(found.points[0].peak - found.eager_peak), 4096)
        for a, b in zip(found.points, found.points[1:], strict=False):
            self.assertGreater(a.peak, b.peak)
            self.assertLessEqual(a.overhead, b.overhead + 1e-9)
        middle = found.points[len(found.points) // 2]
        report = memopt.optimize(model, activation_budget=middle.peak, sample=args, loss=loss)
        self.assertLessEqual(report.overhead, middle.overhead + 1e-3)
        self.assertEqual(json.loads(json.dumps(found.to_dict()))["points"][0]["peak"], found.points[0].peak)
        self.assertIn("budget", str(found))
        self.assertIn("<table>", found._repr_html_())
        # A planned module is asked for its own step, not for the planned one.
        self.assertEqual(memopt.frontier(model, *args, loss=loss).points, found.points)


class TestExplain(Case):
    def test_peak(self):
        """What is said to be alive adds up to the plan's peak, and what is run again to the plan's number."""
        model, args, loss = families()["gpt"]
        plain = memopt.explain(model, *args, loss=loss)
        self.assertLessEqual(abs(plain.peak - plain.eager_peak), 4096)
        self.assertEqual(sum(m.again for m in plain.modules), 0)
        with self.assertRaises(TypeError):
            memopt.explain(model)
        report = memopt.optimize(model, activation_budget="55%", sample=args, loss=loss)
        told = memopt.explain(model)
        self.assertEqual(told.peak, report.plan.result.peak)
        self.assertEqual(sum(a.bytes for a in told.alive), told.peak)
        self.assertEqual(sum(m.again for m in told.modules), report.plan.result.recomputed_nodes)
        self.assertGreater(sum(m.dropped for m in told.modules), 0)
        self.assertIn("blocks.*.fc", [m.modules for m in told.modules])
        self.assertIn("alive at the peak", str(told))
        json.dumps(told.to_dict())
        node = memopt.explain(model, node=report.plan.result.peak_node)
        self.assertTrue(node.is_peak)

    def test_binds(self):
        """The planner's floor is where the most cannot but be there, and the words are those of the model."""
        tokens = torch.randint(0, 4000, (4, 64))
        for name, (model, args, loss), kind, place in (
            ("loss", (GPT(vocab=4000, layers=2), (tokens, tokens), None), "loss", "LogSoftmax"),
            ("block", families()["convnext"], "block", "GeluBackward0"),
            ("gradients", (GPT(vocab=50, layers=1, width=128), (tokens[:1, :8] % 50,) * 2, None), "gradients", ""),
        ):
            with self.subTest(name):
                recording = memopt.record(model, *args, loss=loss)
                with tempfile.TemporaryDirectory() as folder:
                    recording.save(os.path.join(folder, "step.json"))
                    plan = memopt.plan(os.path.join(folder, "step.json"))
                binds = binding(recording.graph, plan.floor.peak, plan.floor.node)
                self.assertEqual(binds.kind, kind)
                self.assertIn(place, binds.place)
                self.assertLessEqual(Step(recording.graph).floor(), plan.floor.peak)
                self.assertGreater(Step(recording.graph).floor(), 0.8 * plan.floor.peak)
                self.assertLessEqual(abs(Step(recording.graph).peak() - recording.measured_peak), 4096)
        self.assertEqual(binding(recording.graph, plan.floor.peak, fixed=1 << 40).kind, "parameters")

    def test_offers_are_true(self):
        """What would lower the floor does, about as far as is said."""
        tokens = torch.randint(0, 4000, (4, 64))
        model = GPT(vocab=4000, layers=2)
        offers = memopt.explain(model, tokens, tokens).binds.offers
        said = next(o.floor for o in offers if o.argument == 'loss_chunks="auto"')
        chunked = memopt.explain(model, tokens, tokens, loss_chunks="auto")
        self.assertLess(chunked.floor, said * 1.1)
        self.assertGreater(chunked.floor, said * 0.5)
        self.assertNotIn("loss_chunks", " ".join(o.argument for o in chunked.binds.offers))
        model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Linear(64, 2048))
        other = memopt.explain(model, torch.randn(512, 16), loss=lambda out: out.square().mean())  # loss_chunks is refused for it
        self.assertNotIn("loss_chunks", " ".join(o.argument for o in other.binds.offers))


class TestModes(Case):
    def test_evaluation(self):
        """A step of a module in evaluation mode is a step of training, and the module is then as it was."""
        tokens = torch.randint(0, 2000, (4, 32))
        model = GPT(vocab=2000, layers=2, dropout=0.5)
        asked = [
            lambda: memopt.record(model, tokens, tokens).measured_peak,
            lambda: memopt.frontier(model, tokens, tokens, loss_chunks="auto").points,
            lambda: memopt.feasible(model, tokens, tokens).eager_peak,
            lambda: memopt.max_batch(model, lambda n: (tokens[:n], tokens[:n]), activation_budget="2MiB", loss_chunks="auto", most=4).size,
        ]
        want = [ask() for ask in asked]
        model.eval()
        model.blocks[0].train()
        modes = [m.training for m in model.modules()]
        self.assertEqual([ask() for ask in asked], want)
        self.assertEqual([m.training for m in model.modules()], modes)


class TestLargest(Case):
    def test_formulas(self):
        """Bytes of sizes that were never run are those of a recording."""
        torch.manual_seed(0)
        for sizes, at, sample in (
            ((2, 4), 9, lambda n: (torch.randint(0, 50, (n, 32)),) * 2),
            ((16, 32, 48), 112, lambda n: (torch.randint(0, 50, (2, n)),) * 2),
        ):
            with self.subTest(at=at):
                model = GPT(vocab=50, layers=2, rows=256)
                found = Sized((sizes[0],), memopt.record(model, *sample(sizes[0])))
                for n in sizes[1:]:
                    self.assertIsNone(found.add((n,), memopt.record(model, *sample(n))))
                real = memopt.record(model, *sample(at))
                foreseen = found.at((at,)).recording(False)
                self.assertLessEqual(abs(foreseen.measured_peak - real.measured_peak), 0.001 * real.measured_peak + 1024)
                self.assertLessEqual(abs(Step(foreseen.graph).floor() - Step(real.graph).floor()), 0.001 * real.measured_peak + 1024)

    def run_sizes(self):
        """Sizes that ran without a plan, noted as they run."""
        ran = []
        record = largest._Runs.record

        def noted(runs, size):
            ran.append(size)
            return record(runs, size)

        self.enterContext(mock.patch.object(largest._Runs, "record", noted))
        return ran

    def test_batch(self):
        model = GPT(vocab=300, layers=2, dropout=0.0)
        state = copy.deepcopy(model.state_dict())
        ran = self.run_sizes()

        def sample(n):
            tokens = torch.randint(0, 300, (n, 64))
            return {"tokens": tokens, "labels": tokens}

        found = memopt.max_batch(model, sample, "6MiB")
        self.assertLessEqual(found.measured_peak + found.fixed, 6 << 20)
        self.assertLess(found.eager_size, found.size)
        self.assertLessEqual(max(ran), found.eager_size)  # nothing ran in eager mode that would not have fit
        self.assertGreater(found.eager_peak, found.promised_peak)
        self.assertLessEqual(abs(found.promised_peak - found.measured_peak), 0.001 * found.promised_peak + 4096)
        with self.assertRaises(memopt.BudgetError):
            memopt.optimize(model, "6MiB", sample=sample(found.size + 1))
        memopt.optimize(model, "6MiB", sample=sample(found.size))
        self.assertEqual(range(100)[found], found.size)
        self.assertIn(f"batch {found.size} fits 6.00 MiB", str(found))
        self.assertGreaterEqual(found.bound, found.size)
        self.assertIn("proven" if found.proven else f"whether {found.size + 1}", str(found))
        with self.assertRaises(memopt.BudgetError) as refused:  # what is said to fit under no plan does not
            memopt.optimize(model, "6MiB", sample=sample(found.bound + 1), loss_chunks=1)
        self.assertGreater(refused.exception.floor.peak, (6 << 20) - found.fixed)
        json.dumps(found.to_dict())
        self.assertTrue(all(torch.equal(v, state[k]) for k, v in model.state_dict().items()))
        small = memopt.max_batch(model, sample, "6MiB", most=5)
        self.assertEqual((small.size, small.search_ended, small.plan), (5, True, small.plan))

    def test_sequence(self):
        model = GPT(vocab=300, layers=2, rows=2048)
        found = memopt.max_seq(model, lambda n: (torch.randint(0, 300, (2, n)),) * 2, activation_budget="5MiB", most=2048)
        self.assertLessEqual(found.measured_peak, (5 << 20) + 65536)
        with self.assertRaises(memopt.BudgetError):
            memopt.optimize(model, activation_budget="5MiB", sample=(torch.randint(0, 300, (2, found.bound + 1)),) * 2, loss_chunks=1)

    def test_ladder(self):
        """The longest sequence by what it may cost: each one trains within the budget, and beyond the last one none does."""
        model = GPT(vocab=2000, layers=1, rows=8192, dropout=0.0)
        limit = 8 << 20

        def sample(n):
            return (torch.randint(0, 300, (2, n)),) * 2

        found = memopt.max_seq(model, sample, activation_budget=limit)
        self.assertEqual([r.max_overhead for r in found.ladder], [0.0, 0.05, 0.1, 0.3, None])
        sizes = [r.size for r in found.ladder]
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(sizes[-1], found.size)
        self.assertGreater(found.size, 2 * found.eager_size)
        self.assertTrue(found.chosen.startswith("loss in chunks, feed-forward layers in tiles"), found.chosen)
        self.assertIn("at most +30%", str(found))
        for rung in {sizes[0]: found.ladder[0], sizes[-1]: found.ladder[-1]}.values():
            self.assertLessEqual(rung.overhead, 1.0 if rung.max_overhead is None else rung.max_overhead + 1e-6)
            forms = {"loss_chunks": "auto" if "loss in chunks" in rung.chosen else 1, "sequence_tiles": "auto" if "in tiles" in rung.chosen else None}
            report = memopt.optimize(model, activation_budget=limit, sample=sample(rung.size), **forms)
            self.assertLessEqual(report.measured_peak, limit + 65536)
            memopt.restore(model)
        with self.assertRaises(memopt.BudgetError):
            memopt.optimize(model, activation_budget=limit, sample=sample(found.bound + 1), loss_chunks="auto", sequence_tiles="auto")
        self.assertEqual(memopt.max_seq(model, sample, activation_budget=limit, most=64, ladder=False).ladder, ())

    def test_loss_with_targets(self):
        found = memopt.max_batch(ConvNeXt(), lambda n: torch.randn(n, 3, 16, 16), activation_budget="2MiB", loss=lambda out, x: F.cross_entropy(out, torch.zeros(len(x)).long()))
        self.assertGreater(found.size, 2)
        self.assertLessEqual(found.measured_peak, (2 << 20) + 65536)

    def test_chunks(self):
        model = GPT(vocab=4000, layers=1)

        def sample(n):
            return (torch.randint(0, 4000, (n, 32)),) * 2

        plain = memopt.max_batch(model, sample, activation_budget="12MiB")
        chunked = memopt.max_batch(model, sample, activation_budget="12MiB", loss_chunks="auto")
        self.assertGreater(chunked.size, 2 * plain.size)

    def test_refused(self):
        model = GPT(vocab=300, layers=1)

        def sample(n):
            return (torch.randint(0, 300, (n, 64)),) * 2

        with self.assertRaisesRegex(memopt.BudgetError, "no batch fits 1.00 KiB: parameters"):
            memopt.max_batch(model, sample, "1KiB")
        with self.assertRaisesRegex(memopt.BudgetError, "not even batch 1 fits"):
            memopt.max_batch(model, sample, activation_budget="1KiB")
        for wrong in ("60%", 0.5):
            with self.assertRaisesRegex(ValueError, "does not bind"):
                memopt.max_batch(model, sample, wrong)
        with self.assertRaises(TypeError):
            memopt.max_batch(model, sample(1), "1GiB")
        with self.assertRaises(TypeError):
            memopt.max_batch(model, sample, "1GiB", activation_budget="1GiB")
