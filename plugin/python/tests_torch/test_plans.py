"""Plans kept on disk: the same plan without the service, and no harm from what lies there."""

from __future__ import annotations

import copy
import os
import tempfile
import unittest
from unittest import mock

from models import families
from test_optimize import Case, step

import memopt
from memopt.torch.plan import plans


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

    def test_damaged(self):
        self.optimized()
        (name,) = os.listdir(self.folder)
        for text in (b"", b"\x1f\x8b\x08\x00", b"not gzip"):
            with open(os.path.join(self.folder, name), "wb") as f:
                f.write(text)
            asked = self.asked
            self.optimized()
            self.assertEqual(self.asked, asked + 1)

    def test_no_place(self):
        with open(self.folder, "w"):
            self.optimized()  # a file is where the folder would be

    def test_bounded(self):
        with mock.patch.object(plans, "MOST_FILES", 2):
            for share in ("80%", "70%", "60%"):
                self.optimized(share)
        self.assertEqual(len(os.listdir(self.folder)), 2)


if __name__ == "__main__":
    unittest.main()
