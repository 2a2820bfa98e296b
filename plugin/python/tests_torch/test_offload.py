"""Values of the forward pass elsewhere until the backward pass needs them: the same bits, the promised bytes, and copies in order."""

from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import torch
from models import GPT, Llama
from replays import Replayed, replayed
from simulated import InFlight, Simulated, Within
from torch import nn
from torch.nn import functional as F

import memopt
from memopt.torch import report
from memopt.torch.elsewhere.engine import DiskEngine
from memopt.torch.elsewhere.spill import SpillError
from memopt.torch.replay.moves import compiled
from memopt.torch.replay.program import build
from memopt.torch.step.standin import standing


class Views(nn.Module):
    """Large values of which autograd saves several views, and versions that were written in place."""

    def __init__(self, layers=6, width=256):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            a, b = layer(x).split(x.shape[-1], -1)
            x = x + a.sigmoid() * b.t().tanh().t()
            x = x.mul(0.9).add_(0.1).relu_()
        return x.square().mean()


def gpt():
    return GPT(layers=4, width=128), lambda i: tuple(torch.randint(0, 300, (2, 8, 64), generator=torch.Generator().manual_seed(i)))


def llama():
    return Llama(layers=4, d=128), lambda i: tuple(torch.randint(0, 200, (2, 8, 64), generator=torch.Generator().manual_seed(i)))


def views():
    return Views(), lambda i: (torch.randn(1024, 256, generator=torch.Generator().manual_seed(i)),)


def convolutions():
    layers = [nn.Sequential(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.1)) for i in range(5)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1))
    return Mean(model), lambda i: (torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(i)),)


class Mean(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).square().mean()


class Fast(DiskEngine):
    """Counts what it copies."""

    moved = 0

    def leave(self, near, place, at=0):
        self.moved += near.nbytes
        return super().leave(near, place, at)


# Trains with values on the disk, and ends by a signal in the middle of a backward pass.
_KILLED = """
import os, signal, sys
import torch
from unittest import mock
import memopt
from replays import replayed
from test_offload import Fast, gpt
folder, native = sys.argv[1], sys.argv[2] == "1"
torch.set_num_threads(1)
model, batch = gpt()
engine = Fast()
with mock.patch("memopt.torch.optimize.engine_of", lambda *_: engine), replayed(native) as kinds:
    memopt.optimize(model, activation_budget="50%", offload="host", verbose=False)
    for i in range(4):
        model(*batch(i)).backward()
        model.zero_grad()
    assert kinds[-1] == ("native" if native else "python"), kinds
    assert engine.moved > 0 and os.readlink(f"/proc/self/fd/{engine.file.fd}").startswith(folder), folder
    model.blocks[1].register_full_backward_hook(lambda *_: (print("in a step", flush=True), os.kill(os.getpid(), signal.SIGKILL)))
    model(*batch(4)).backward()
"""


class TestOffload(Replayed):
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def planned(self, model, engine=None, **given):
        """Values that are moved as over a fast link, whatever the machine's disk is."""
        with mock.patch("memopt.torch.optimize.engine_of", lambda *_: engine if engine is not None else Fast()):
            return memopt.optimize(model, offload="host", verbose=False, **given)

    def same(self, plain, ours, batch, i, backward=lambda loss: loss.backward()):
        losses = []
        for m in (plain, ours):
            torch.manual_seed(i)
            m.zero_grad()
            loss = m(*batch(i))
            backward(loss)
            losses.append(loss.item())
        self.assertEqual(*losses)
        for (name, a), b in zip(plain.named_parameters(), ours.parameters(), strict=True):
            self.assertTrue(torch.equal(a.grad, b.grad), name)

    def test_same_bits(self):
        for make in (gpt, llama, views, convolutions):
            model, batch = make()
            for sample in (False, True):
                plain, ours = copy.deepcopy(model), copy.deepcopy(model)
                with self.subTest(model=make.__name__, sample=sample):
                    engine = Fast()
                    self.planned(ours, engine, activation_budget="50%", sample=batch(0) if sample else None)
                    for i in range(5):
                        self.same(plain, ours, batch, i)
                    found = report(ours)
                    moved = found.plan.to_dict()["offload"]
                    self.assertGreater(moved["values"], 0)
                    self.assertEqual(engine.moved % moved["bytes"], 0)  # in each step what was promised, each storage once
                    self.assertGreaterEqual(engine.moved // moved["bytes"], 4)
                    self.assertIn("go to the host and back", str(found))
                    self.assertLessEqual(abs(found.measured_peak - found.promised_peak), 0.002 * found.promised_peak + 4096)
                    self.assertLess(found.measured_peak, 0.52 * found.eager_peak)
                    self.assertEqual({n: str(b) for n, b in plain.named_buffers()}, {n: str(b) for n, b in ours.named_buffers()})
                    memopt.restore(ours)

    def test_gone_before_what_nobody_hears_of(self):
        """A loss outside of the module, and nodes that saved nothing, allocate where a plan has a value gone."""
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4)])
        seen = {}
        model[1].register_forward_hook(lambda module, given, out: seen.update(out=out))
        plain, x = copy.deepcopy(model), torch.randn(256, 64)
        memopt.optimize(model, activation_budget="60%", offload="disk", verbose=False)
        for _ in range(6):
            for m in (plain, model):
                m.zero_grad()
                (m(x).square().mean() + seen["out"].abs().mean()).backward()
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            self.assertTrue(torch.equal(a.grad, b.grad))
        found = report(model)
        self.assertGreater(found.plan.to_dict()["offload"]["values"], 0)
        self.assertLessEqual(found.measured_peak, found.promised_peak)

    def test_disk(self):
        """By the profile of a disk, which is slow, and by nobody's help; which replay runs it is said."""
        model, batch = gpt()
        plain = copy.deepcopy(model)
        with self.assertLogs("memopt", "INFO") as said:
            memopt.optimize(model, activation_budget="40%", offload="disk")
            for i in range(6):
                self.same(plain, model, batch, i)
        self.assertIn("promised; replayed by the native module" if self.native else "promised; replayed in Python (MEMOPT_NATIVE=0)", " ".join(said.output))
        found = report(model).plan.to_dict()["offload"]
        self.assertEqual(found["place"], "disk")
        self.assertGreater(found["values"], 0)

    def test_order_of_copies(self):
        """Beside a device nothing is read before it is there, or written before it has left."""
        for make in (gpt, views):
            model, batch = make()
            plain, device = copy.deepcopy(model), Simulated()
            self.planned(model, device, activation_budget="45%")
            with InFlight(device):
                for i in range(4):
                    self.same(plain, model, batch, i)
            self.assertGreater(device.most, 1)
            self.assertGreater(device.moved, 0)
            self.assertEqual(device.flying, [])

    def test_order_of_copies_by_each_replay(self):
        """The same where the module itself enters the mode that looks, which leaves the step to the native module if it is there."""
        for make in (gpt, views):
            model, batch = make()
            device = Simulated()
            ours = Within(model, device)
            plain = copy.deepcopy(model)
            self.planned(ours, device, activation_budget="45%")
            with replayed(self.native) as kinds:
                for i in range(6):
                    self.same(plain, ours, batch, i, lambda loss, device=device: self.looked_at(device, loss))
            self.assertEqual("native" in kinds, self.native)
            self.assertGreater(device.most, 1)
            self.assertEqual(device.flying, [])

    def looked_at(self, device, loss):
        with InFlight(device):
            loss.backward()

    def test_the_simulated_device_fails_for_each_replay(self):
        """What the test before relies on: a copy back that nobody waits for is found at its first reader."""
        model, batch = gpt()
        device = Simulated()
        ours = Within(model, device)
        self.planned(ours, device, activation_budget="45%")
        with replayed(self.native) as kinds:
            for i in range(5):
                ours.zero_grad()
                self.looked_at(device, ours(*batch(i)))
            whole = device.wait
            device.wait = lambda c: whole(c) if c[0] else None
            with self.assertRaisesRegex(AssertionError, "not there yet"):
                self.looked_at(device, ours(*batch(5)))
            device.wait = whole
        self.assertEqual(kinds[-1], "native" if self.native else "python")

    def test_killed(self):
        """A process that is killed in the middle of a step leaves nothing in the folder."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            killed = subprocess.run([sys.executable, "-W", "ignore", "-c", _KILLED, folder, str(int(self.native))], env={**os.environ, "MEMOPT_SPILL_FOLDER": folder, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}, capture_output=True, text=True)
            self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
            self.assertIn("in a step", killed.stdout)
            self.assertEqual(os.listdir(folder), [])

    def test_the_simulated_device_fails(self):
        """What the tests before rely on: a copy that nobody waits for."""
        for out in (True, False):
            model, batch = gpt()
            device = Simulated()
            self.planned(model, device, activation_budget="45%")
            with InFlight(device):
                for i in range(4):
                    model.zero_grad()
                    model(*batch(i)).backward()
                whole = device.wait
                device.wait = lambda c, out=out, whole=whole: None if c[0] == out else whole(c)
                plain = copy.deepcopy(model)
                memopt.restore(plain)
                try:
                    for i in range(3):
                        self.same(plain, model, batch, i)
                    device.wait = whole
                    self.assertTrue(out)  # its storage is freed before it is copied, which the next value in its place shows
                except AssertionError as e:
                    self.assertRegex(str(e), "not there yet|is not true|being copied|!=")

    def test_loops(self):
        """Accumulation, other sizes, a skipped batch, an error, a graph that is kept, an evaluation: places are given back, and bits are the same."""
        model, batch = gpt()
        plain, device = copy.deepcopy(model), Simulated()
        given = []
        device.give_back = lambda place: given.append(place)
        self.planned(model, device, activation_budget="50%")
        for i in range(3):
            self.same(plain, model, batch, i)
        steps = len(given)
        self.assertGreater(steps, 0)
        model(*batch(7))  # nobody asks for its gradients
        gc.collect()
        self.assertEqual(len(given), steps + 1)
        for i in range(2):
            self.same(plain, model, lambda i: tuple(t[:4] for t in batch(i)), i)
        self.same(plain, model, batch, 3, lambda loss: (loss.backward(retain_graph=True), loss.backward()))
        self.same(plain, model, batch, 4)
        with self.assertRaises(IndexError):
            model(torch.full((8, 64), 999), batch(0)[1])
        self.same(plain, model, batch, 5)
        with torch.no_grad():
            model(*batch(0))
        for i in range(3):
            losses = []
            for m in (plain, model):
                torch.manual_seed(i)
                losses.append(m(*batch(i)))
                losses[-1].backward()  # adds to what is there
            self.assertEqual(*[x.item() for x in losses])
        for a, b in zip(plain.parameters(), model.parameters(), strict=True):
            self.assertTrue(torch.equal(a.grad, b.grad))

    def test_order_in_loops(self):
        """A step that fails in the middle of its backward pass, one that is given up, and an evaluation: copies of the next step are in order all the same."""
        model, batch = gpt()
        plain, device = copy.deepcopy(model), Simulated()
        self.planned(model, device, activation_budget="45%")
        with InFlight(device):
            for i in range(3):
                self.same(plain, model, batch, i)

            def fails(grad):
                raise KeyboardInterrupt

            hook = model.blocks[1].register_full_backward_hook(lambda *_: fails(None))
            with self.assertRaises(KeyboardInterrupt):
                model(*batch(3)).backward()
            hook.remove()
            with torch.no_grad():
                model(*batch(4))
            loss = model(*batch(5))  # its copies out are under way when it is given up
            del loss
            gc.collect()
            for i in range(3):
                self.same(plain, model, batch, i)
        self.assertEqual(device.flying, [])

    def test_moved_twice(self):
        """A value that comes back, is read, and leaves once more before its last reader."""
        model, batch = views()
        plain, device = copy.deepcopy(model), Simulated()
        self.planned(model, device, activation_budget="45%")
        self.same(plain, model, batch, 0)
        made = next(iter(standing(model).loop.programs))
        recording, steps = made.recording, made.program.steps
        place = {name: i for i, name in enumerate(op.name for op in recording.ops)}
        at = {s["node"]: i for i, s in enumerate(steps) if not s.get("again")}
        border = next(i for i, op in enumerate(recording.ops) if op.backward)
        twice = 0
        moves = []
        for op in recording.ops[:border]:
            for v in op.outputs:
                readers = [o for o in recording.ops if v in o.inputs]
                backward = [at[place[o.name]] for o in readers if o.backward]
                saved = {o for s in recording.saves if s.value is v for o in s.used}
                last = max([at[place[o.name]] for o in readers if not o.backward] + [at[place[op.name]]])
                if len(backward) > 1 and backward[-1] > backward[0] + 2 and v.bytes > 4096 and v.next is None and all(o in saved for o in readers if o.backward):
                    spans = [(last + 1, backward[0]), (backward[0] + 1, backward[-1])]
                    moves += [{"value": v.name, "bytes": v.bytes, "out": a, "gone": a, "in": b, "back": b, "far": 0} for a, b in spans]
                    twice += 1
        self.assertGreater(twice, 0)
        plain_steps = [{"node": i} for i in range(len(recording.ops))]
        self.assertEqual([s["node"] for s in steps if not s.get("again")], [s["node"] for s in plain_steps])
        far = 0
        for m in moves:  # places of their own
            m["far"], far = far, far + -(-m["bytes"] // 4096) * 4096
        made.program = build(recording, steps, moves=compiled(recording, steps, moves, device, torch.device("cpu")))
        device.moved = 0
        with InFlight(device):
            self.same(plain, model, batch, 1)
        self.assertEqual(device.moved, 2 * sum(m["bytes"] for m in moves))

    def test_room(self):
        """A budget of the far side binds, and one without room is no error where the plan does without."""
        model, batch = gpt()
        self.planned(model, activation_budget="50%", sample=batch(0))
        free = report(model).plan.to_dict()["offload"]
        self.assertGreater(free["peak"], 1_000_000)
        memopt.restore(model)
        self.planned(model, activation_budget="50%", sample=batch(0), host_budget=free["peak"] // 2)
        half = report(model).plan.to_dict()["offload"]
        self.assertLessEqual(half["peak"], free["peak"] // 2)
        memopt.restore(model)
        self.planned(model, activation_budget="50%", sample=batch(0), host_budget=1)
        self.assertEqual(report(model).plan.to_dict()["offload"]["values"], 0)
        self.assertIn("nothing goes to the host", str(report(model)))

    def test_bits_that_changed(self):
        """A place that gives back something else is found out in the first steps."""
        model, batch = gpt()
        device = Simulated()
        self.planned(model, device, activation_budget="50%")
        model(*batch(0)).backward()
        model.zero_grad()
        loss = model(*batch(1))
        whole = device.begin

        def begin(out, near, place, at):
            if not out:
                place.far.view(-1)[:64] = 77
            return whole(out, near, place, at)

        device.begin = begin
        with self.assertRaisesRegex(RuntimeError, "came back with other bits"):
            loss.backward()

    def test_a_disk_that_fails(self):
        model, batch = gpt()
        engine = Fast()
        self.planned(model, engine, activation_budget="50%")
        for i in range(4):
            model(*batch(i)).backward()
            model.zero_grad()
        loss = model(*batch(4))
        engine._thread.submit(lambda: None).result()
        os.ftruncate(engine.file.fd, 0)
        with self.assertRaisesRegex(SpillError, "MEMOPT_SPILL_FOLDER|somebody cut it"):
            loss.backward()

    def test_a_full_disk(self):
        """It is found when the plan is made: a sample raises with what would work, and training without one goes on without a plan, which it is told."""
        model, batch = gpt()
        plain = copy.deepcopy(model)
        with mock.patch("memopt.torch.elsewhere.spill._left", lambda place: 4096):
            with self.assertRaisesRegex(SpillError, r"cannot take [\d,]+ B in .*, where 4,096 B are free: .*; MEMOPT_SPILL_FOLDER names another folder"):
                self.planned(model, activation_budget="50%", sample=batch(0))
            self.same(plain, model, batch, 0)
            self.planned(model, activation_budget="50%")
            with self.assertWarnsRegex(UserWarning, "a recorded step could not be planned .SpillError: .* cannot take"):
                self.same(plain, model, batch, 1)
            self.same(plain, model, batch, 2)
        memopt.restore(model)

    def test_a_folder_that_goes_away(self):
        """One that is not there is an error at once; one that goes away later is not needed any more, as the file has no name in it."""
        model, batch = gpt()
        plain = copy.deepcopy(model)
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, mock.patch.dict(os.environ, {"MEMOPT_SPILL_FOLDER": os.path.join(folder, "spill")}):
            with self.assertRaisesRegex(SpillError, "spill does not exist: make it, or let MEMOPT_SPILL_FOLDER name a folder on a disk"):
                memopt.optimize(model, activation_budget="40%", offload="disk")
            os.mkdir(os.path.join(folder, "spill"))
            self.planned(model, activation_budget="40%")
            self.same(plain, model, batch, 0)
            os.rmdir(os.path.join(folder, "spill"))
            for i in range(1, 4):
                self.same(plain, model, batch, i)
            self.assertGreater(report(model).plan.to_dict()["offload"]["values"], 0)

    def test_a_slow_disk(self):
        """The step waits, and one line says what it lost."""
        model, batch = gpt()
        plain, engine = copy.deepcopy(model), Fast()
        write = engine.file.write
        engine.file.write = lambda near, offset: (time.sleep(0.03), write(near, offset))
        with mock.patch("memopt.torch.optimize.engine_of", lambda *_: engine), self.assertLogs("memopt", "INFO") as said:
            memopt.optimize(model, activation_budget="50%", offload="host")
            for i in range(4):
                self.same(plain, model, batch, i)
        found = [r.getMessage() for r in said.records if "slower than the profile says" in r.getMessage()]
        self.assertEqual(len(found), 1)
        self.assertRegex(found[0], r"waited \d.* ms for copies, where .* were promised: the host is slower .* \d+% of the step")

    def test_refused(self):
        model, _ = gpt()
        for given, why in (
            ({"offload": "host"}, "give 'disk'"),
            ({"offload": "moon"}, "'host'.*'disk'"),
            ({"host_budget": "1GB"}, "give offload=.*, or states"),
            ({"offload": "disk", "host_budget": "50%"}, "a share of nothing"),
            ({"offload": "disk", "mode": "graph"}, "not captured"),
        ):
            with self.subTest(**given), self.assertRaisesRegex((TypeError, ValueError), why):
                memopt.optimize(model, "90%", **given)

    def test_nothing_to_move(self):
        """A budget that is met as it is moves nothing."""
        model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
        self.planned(model, activation_budget="100%", sample=torch.randn(8, 64), loss=lambda out: F.mse_loss(out, torch.zeros(8, 1)))
        self.assertIsNone(report(model).plan)


if __name__ == "__main__":
    unittest.main()
