"""A user's own offload, by saved-tensor hooks: found in a recorded step, and priced as it is measured."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import unittest

import torch
from models import GPT
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import memopt
from memopt.torch import report
from memopt.torch.record.measure import watched


class ToDisk(saved_tensors_hooks):
    """As tutorials have it: a file for each saved tensor."""

    def __init__(self, folder):
        numbers = itertools.count()

        def pack(t):
            path = os.path.join(folder, f"{next(numbers)}")
            torch.save(t, path)
            return path

        super().__init__(pack, torch.load)


class Tracked(saved_tensors_hooks):
    """As trainers have it: numbers, and a table of what was copied and what was small, of which each is asked for once."""

    def __init__(self, least, use_streams):
        self.least, self.use_streams = least, use_streams
        self.tracker, self.numbers, self.params = {}, itertools.count(), set()

        def pack(t):
            number = next(self.numbers)
            large = t.nbytes >= self.least and not isinstance(t, nn.Parameter)
            self.tracker[number] = (t.detach().numpy().tobytes(), t.shape) if large else (t, None)
            return number

        def unpack(number):
            data, shape = self.tracker.pop(number)
            return data if shape is None else torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape).clone()

        super().__init__(pack, unpack)


class Blocks(nn.Module):
    """Blocks within a context."""

    def __init__(self, context=contextlib.nullcontext, width=128, hooked=4):
        super().__init__()
        self.hooked = hooked
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(4))
        self.context = context

    def forward(self, x):
        with self.context():
            for block in self.blocks[: self.hooked]:
                x = x + block(x)
        for block in self.blocks[self.hooked :]:
            x = x + block(x)
        return x.square().mean()


def peak_of(model, x, around=contextlib.nullcontext):
    model(x).backward()
    model.zero_grad()
    with watched() as watch:
        with around():
            loss = model(x)
        loss.backward()
        del loss
    model.zero_grad()
    return watch.peak


class TestOwnOffload(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.x = torch.randn(512, 128)

    def disk(self):
        return ToDisk(self.folder.name)

    def test_priced_as_measured(self):
        """With everything kept, and with what leaves, the peaks are those of real steps; a plan of the same bytes costs less."""
        for least in (None, 1 << 20, 1 << 19):
            with self.subTest(least=least):
                context = self.disk if least is None else lambda least=least: Tracked(least, use_streams=False)
                found = memopt.explain(Blocks(context), self.x).own_offload
                self.assertEqual(found.name, "ToDisk" if least is None else "Tracked")
                kept, own = peak_of(Blocks(), self.x), peak_of(Blocks(context), self.x)
                self.assertLessEqual(abs(found.kept - kept), 0.01 * kept)
                self.assertLessEqual(abs(found.peak - own), 0.02 * own, (found.peak, own))
                self.assertLess(own, kept)
                self.assertTrue(found.waits)
                self.assertGreater(found.overhead, 0)
                self.assertLess(found.same_bytes.overhead, found.overhead)
                self.assertLessEqual(found.same_bytes.peak, found.peak)
                self.assertLessEqual(found.same_time.peak, found.peak)

    def test_around(self):
        """Hooks around the module, as trainers enter them, are priced as those within it."""
        context = self.disk
        within = memopt.explain(Blocks(context), self.x).own_offload
        model = Blocks()
        with context():
            around = memopt.explain(model, self.x).own_offload
        self.assertEqual(around.kept, within.kept)
        self.assertGreaterEqual(around.values, within.values)  # the loss's operand, too
        own = peak_of(model, self.x, context)
        self.assertLessEqual(abs(around.peak - own), 0.02 * own)

    def test_copies_beside(self):
        """Copies by streams of their own hide behind operators as far as there is time, and are waited for beyond that."""
        waits, beside = (memopt.explain(Blocks(lambda streams=streams: Tracked(1 << 19, streams)), self.x).own_offload for streams in (False, True))
        self.assertTrue(waits.waits and not beside.waits)
        self.assertEqual(waits.bytes, beside.bytes)
        self.assertLess(beside.overhead, waits.overhead)
        self.assertIn("as long as copies run beside operators", str(beside))

    def test_text(self):
        text = str(memopt.explain(Blocks(self.disk), self.x))
        self.assertRegex(text, r"ToDisk moves [\d.]+ MiB to the disk and back: it buys [\d.]+ MiB of [\d.]+ MiB for \+[\d.]+% time; .*a plan of the same bytes costs \+[\d.]+%")
        told = memopt.explain(Blocks(self.disk), self.x).to_dict()
        self.assertGreater(told["own_offload"]["buys"], 0)
        json.dumps(told)

    def test_nothing(self):
        """What is in the host's memory already, what is only looked at, what a checkpoint drops and no hooks at all."""
        for name, context in (("save_on_cpu", save_on_cpu), ("save_on_cpu", lambda: save_on_cpu(pin_memory=True)), ("Looks", lambda: Looks(lambda t: t.detach(), lambda t: t))):
            found = memopt.explain(Blocks(context), self.x).own_offload
            self.assertEqual((found.name, found.values, found.buys), (name, 0, 0))
            self.assertIn("moves nothing here", str(found))
        model = Blocks()
        block = model.blocks[1].forward
        model.blocks[1].forward = lambda x: checkpoint(block, x, use_reentrant=False)
        self.assertIsNone(memopt.explain(model, self.x).own_offload)
        self.assertIsNone(memopt.explain(Blocks(), self.x).own_offload)

    def test_parameters(self):
        """Parameters that are copied, too, take time and buy nothing."""
        copied = []

        def pack(t):
            copied.append(t.nbytes)
            return t.detach().to("meta"), t.detach().numpy().tobytes()

        def unpack(both):
            return torch.frombuffer(bytearray(both[1]), dtype=torch.float32).reshape(both[0].shape)

        model = nn.Sequential(nn.Linear(256, 256), nn.Sigmoid(), nn.Linear(256, 256))
        with saved_tensors_hooks(pack, unpack):
            found = memopt.explain(model, torch.randn(8, 256), loss=lambda out: out.square().mean()).own_offload
        self.assertGreaterEqual(found.idle, 256 * 256 * 4)  # the second layer's weight is saved
        self.assertIn("buy nothing, as those bytes stay", str(found))
        self.assertLessEqual(found.bytes, sum(copied))

    def test_the_module_is_as_it_was(self):
        """Hooks that raise do so in the user's own step, too; gradients of a step afterwards are what they were."""
        before = saved_tensors_hooks.__enter__

        def fails(t):
            raise OSError("no room")

        with self.assertRaisesRegex(OSError, "no room"):
            memopt.explain(Blocks(lambda: Looks(fails, lambda t: t)), self.x)
        self.assertIs(saved_tensors_hooks.__enter__, before)
        model = Blocks(self.disk)
        model(self.x).backward()
        plain = [p.grad.clone() for p in model.parameters()]
        memopt.explain(model, self.x)
        for a, p in zip(plain, model.parameters(), strict=True):
            self.assertTrue(torch.equal(a, p.grad))

    def test_under_a_plan(self):
        """It goes on as it is within the module, with the same bits, and the report of a sample has its price."""
        model, plain = Blocks(self.disk, hooked=2), Blocks()
        model.load_state_dict(plain.state_dict())
        with self.assertLogs("memopt", "INFO") as said:
            found = memopt.optimize(model, activation_budget="80%", sample=self.x)
        self.assertTrue(any("ToDisk in Blocks takes saved tensors from the plan" in r.getMessage() for r in said.records))
        self.assertGreater(found.own_offload.buys, 0)
        self.assertIn("your offload", dict(found._rows()))
        for _ in range(2):
            losses = []
            for m in (plain, model):
                m.zero_grad()
                losses.append(m(self.x))
                losses[-1].backward()
            self.assertTrue(torch.equal(*losses))
            for a, b in zip(plain.parameters(), model.parameters(), strict=True):
                self.assertTrue(torch.equal(a.grad, b.grad))
        memopt.restore(model)

    def test_while_it_trains(self):
        """Hooks around a planned module are told of: they get nothing of it, and the plan holds."""
        model = GPT(layers=2, width=64)
        batch = tuple(torch.randint(0, 300, (2, 4, 32)))
        with self.assertLogs("memopt", "INFO") as said:
            memopt.optimize(model, activation_budget="70%")
            for _ in range(5):
                with self.disk():
                    loss = model(*batch)
                loss.backward()
                model.zero_grad()
        self.assertEqual(sum("ToDisk around GPT gets none of its saved tensors" in r.getMessage() for r in said.records), 1)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assertLessEqual(report(model).measured_peak, 0.71 * report(model).eager_peak)


class Looks(saved_tensors_hooks):
    """Any pair of hooks."""


if __name__ == "__main__":
    unittest.main()
