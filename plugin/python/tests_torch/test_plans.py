"""Plans kept on disk: the same plan without planning, and no harm from what lies there."""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import tempfile
import unittest
import zlib
from unittest import mock

from models import families
from test_optimize import Case, step

import memopt
from memopt.torch.plan import disk, plans


class TestPlans(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "plans")
        patch = mock.patch.dict(os.environ, MEMOPT_PLANS=self.folder)
        patch.start()
        self.addCleanup(patch.stop)
        self.asked = 0
        plan = plans.plan

        def counted(*args, **kwargs):
            self.asked += 1
            return plan(*args, **kwargs)

        patch = mock.patch.object(plans, "plan", counted)
        patch.start()
        self.addCleanup(patch.stop)
        self.model, self.args, _ = families()["gpt"]
        self.want = step(copy.deepcopy(self.model), self.args)

    def optimized(self, share="60%"):
        report = memopt.optimize(self.model, activation_budget=share, sample=self.args)
        self.same(step(self.model, self.args), self.want)
        memopt.restore(self.model)
        return report

    def test_kept(self):
        first = self.optimized()
        self.assertEqual(self.asked, 1)
        again = self.optimized()
        self.assertEqual(self.asked, 1)
        self.assertEqual(str(first.plan), str(again.plan))
        self.assertEqual(first.plan.to_dict(), again.plan.to_dict())
        self.optimized("70%")
        self.assertEqual(self.asked, 2)
        with mock.patch.dict(os.environ, MEMOPT_PLANS=""):
            self.optimized()
        self.assertEqual(self.asked, 3)

    def kept(self):
        """The one file of the folder."""
        (name,) = os.listdir(self.folder)
        return os.path.join(self.folder, name)

    def made_anew(self, name, why=""):
        """Whatever lies there is a miss, said at debug level, and written anew."""
        asked, path = self.asked, self.kept()
        with self.subTest(name):
            with self.assertLogs("memopt", "DEBUG") as told:
                report = self.planned()
            self.assertEqual(self.asked, asked + 1)
            self.assertRegex("\n".join(told.output), "DEBUG:memopt:the plan in .* is made anew: .*" + why)
            self.assertEqual([report.to_dict()[key] for key in ("steps", "result", "floor")], [self.good[key] for key in ("steps", "result", "floor")])
            self.planned()
            self.assertEqual(self.asked, asked + 1, "what was written anew is taken")
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def planned(self, share=0.6):
        if not hasattr(self, "recording"):
            self.recording = memopt.record(self.model, *self.args)
        return plans.plan_of(self.recording, activation_budget=int(share * self.recording.measured_peak))

    def first(self):
        self.good = self.planned().to_dict()
        with open(self.kept(), "rb") as f:
            return f.read()

    def seal(self, text):
        """A file with whatever plan, whose digest is right."""
        with open(self.kept(), "wb") as f:
            f.write(disk._seal(self.kept(), text) + b"\n" + zlib.compress(text))

    def test_damaged(self):
        whole = self.first()
        path, head = self.kept(), whole.index(b"\n") + 1
        damages = [b"", b"\x1f\x8b\x08\x00", b"not a plan", whole[:head], whole[: len(whole) // 2], whole[:-1], whole + b"x", whole[::-1], whole[head:]]
        damages += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, head - 2, head + 1, len(whole) // 2, len(whole) - 1)]
        for i, damage in enumerate(damages):
            with open(path, "wb") as f:
                f.write(damage)
            self.made_anew(i)

    def test_other_kinds(self):
        whole = self.first()
        path = self.kept()

        def put(make):
            os.remove(path)
            make()

        put(lambda: os.mkfifo(path))
        self.made_anew("pipe", "a pipe")
        with open(self.folder + ".other", "wb") as f:
            f.write(whole)
        put(lambda: os.symlink(self.folder + ".other", path))
        self.made_anew("link", "a link")
        os.chmod(path, 0o666)
        self.made_anew("that others write to", "others can write")
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
            self.made_anew("of another user", "others can write")
        with open(path, "wb") as f:
            f.truncate(8 << 30)
        self.made_anew("large", "more than")
        with open(path, "wb") as f:  # 8 GiB of nothing
            pack = zlib.compressobj(9)
            f.write(b"memopt plan 1 " + b"0" * 64 + b"\n")
            for _ in range(64):
                f.write(pack.compress(bytes(128 << 20)))
            f.write(pack.flush())
        began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.made_anew("bomb")
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - began, 128 << 10)

    def test_changed_with_its_digest(self):
        """The planner's check finds what a digest that was made for it hides."""
        whole = self.first()
        text = zlib.decompress(whole[whole.index(b"\n") + 1 :])
        plan_json, _, table = text.partition(b"\0")

        def changed(change):
            plan = json.loads(plan_json)
            change(plan)
            return json.dumps(plan).encode() + b"\0" + table

        def without(key):
            return lambda plan: plan.pop(key)

        def other(key, value):
            return lambda plan: plan.__setitem__(key, value)

        def again(plan):
            for s in plan["steps"]:
                s.pop("again", None)

        def less(*path):
            def change(plan):
                for name in path[:-1]:
                    plan = plan[name]
                plan[path[-1]] = plan[path[-1]] // 2

            return change

        changes = {f"without {key}": without(key) for key in self.good if key in ("steps", "result", "floor", "model", "request", "program", "baseline", "memory", "format")}
        for key in ("steps", "result", "floor", "program"):
            for value in (None, 0, [], {"a": 1}):
                if value != self.good[key]:
                    changes[f"{key} = {value}"] = other(key, value)
        changes |= {
            "reversed": lambda p: p["steps"].reverse(),
            "halved": lambda p: p.__setitem__("steps", p["steps"][: len(p["steps"]) // 2]),
            "twice": lambda p: p.__setitem__("steps", p["steps"] * 2),
            "shuffled": lambda p: random.Random(0).shuffle(p["steps"]),
            "nothing again": again,
            "one step away": lambda p: p["steps"].pop(len(p["steps"]) // 3),
            "other node": lambda p: p["steps"][5].__setitem__("node", "none"),
            "peak": less("result", "peak"),
            "arena": less("result", "arena"),
            "floor": less("floor", "peak"),
            "baseline": less("baseline", "peak"),
        }
        for name, change in changes.items():
            self.seal(changed(change))
            self.made_anew(name)
        for name, bytes_ in {"nothing": b"", "no table": plan_json, "deep": b"[" * 100_000, "no text": b"\xff\xfe\0\xff", "no object": b"[1, 2]\0"}.items():
            self.seal(bytes_)
            if name == "no table":
                continue  # a plan all the same
            self.made_anew(name)

    def test_another_plan(self):
        """A right plan of another budget, or of another step, is not taken."""
        self.planned(0.8)
        path = self.kept()
        with open(path, "rb") as f:
            text = f.read()
        os.remove(path)
        self.first()
        with open(self.kept(), "wb") as f:
            f.write(text)
        self.made_anew("of another budget", "digest")
        self.seal(zlib.decompress(text[text.index(b"\n") + 1 :]))
        self.made_anew("of another budget, sealed", "needs")
        good = self.kept()
        with open(good, "rb") as f:
            mine = f.read()
        model, args, _ = families()["llama"]
        plans.plan_of(memopt.record(model, *args), activation_budget="80%")
        (other,) = [os.path.join(self.folder, f) for f in os.listdir(self.folder) if os.path.join(self.folder, f) != good]
        with open(other, "rb") as f:
            theirs = f.read()
        os.remove(other)
        self.assertNotEqual(mine, theirs)
        self.seal(zlib.decompress(theirs[theirs.index(b"\n") + 1 :]))
        self.made_anew("of another step")

    def test_no_place(self):
        with open(self.folder, "w"):
            self.optimized()  # a file is where the folder would be

    def test_bounded(self):
        with mock.patch.object(disk, "MOST_FILES", 2):
            for share in ("80%", "70%", "60%"):
                self.optimized(share)
        self.assertEqual(len(os.listdir(self.folder)), 2)


if __name__ == "__main__":
    unittest.main()
