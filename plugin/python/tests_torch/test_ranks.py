"""Two ranks train under one plan: DistributedDataParallel and FSDP2 over gloo, beside the same without a plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 600  # seconds; a rank that hangs is ended


def run(to, names):
    """Runs the cases on two ranks: what each wrote down, by case and rank."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MEMOPT_PLANS": "", "KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "-W", "ignore", os.path.join(HERE, "ranks_worker.py"), to, *names]
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(r)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(2)]
    said = []
    try:
        for rank in ranks:
            said.append(rank.communicate(timeout=TIMEOUT)[0])
    except subprocess.TimeoutExpired:
        said.append("a rank hangs")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    found = []
    for r in range(2):
        with open(os.path.join(to, f"{r}.json")) as f:
            found.append(json.load(f))
    return found, "\n".join(said)


FOUND, SAID = [], ""


def setUpModule():
    global FOUND, SAID
    with tempfile.TemporaryDirectory() as folder:
        FOUND, SAID = run(folder, ())


class Case(unittest.TestCase):
    def both(self, name):
        for rank in range(2):
            self.assertIn(name, FOUND[rank], SAID[-3000:])
            found = FOUND[rank][name]
            self.assertNotIn("raised", found, found.get("raised"))
            yield found

    def planned(self, name, share):
        """Eager's bits, the recorded peak, the promise kept, and the same plan on both ranks."""
        for found in self.both(name):
            self.assertTrue(found["same"], "other bits than without a plan")
            self.assertGreater(found["again"], 0)
            self.assertLessEqual(abs(found["recorded"] - found["eager"]), 0.001 * found["eager"] + 4096)
            self.assertLessEqual(found["promised"], share * found["eager"] + 1)
            self.assertLessEqual(abs(found["measured"] - found["promised"]), 0.001 * found["promised"] + 65536)
        a, b = (FOUND[r][name] for r in range(2))
        return a, b


def rounded(test, name, near):
    a, b = test.both(name)
    test.assertEqual((a["plan"], a["values"]), (b["plan"], b["values"]))
    for found in (a, b):
        test.assertGreater(found["values"], 0)
        test.assertTrue(found["same_loss"])
        test.assertTrue(0 < found["off"] < near, found)
        test.assertLessEqual(abs(found["measured"] - found["promised"]), 0.001 * found["promised"] + 65536)


class TestDDP(Case):
    def test_plans(self):
        for name in ("ddp", "ddp_wrapped_first", "ddp_static_graph", "ddp_bucket_view", "ddp_unused"):
            with self.subTest(name):
                a, b = self.planned(name, 0.65)
                self.assertEqual(a["plan"], b["plan"])

    def test_budget(self):
        """A budget for all bytes counts the buckets."""
        for found in self.both("ddp_budget"):
            self.assertTrue(found["same"])
            self.assertEqual(found["fixed"], 2 * found["weights"])
            self.assertLessEqual(found["total"], found["budget"])
            self.assertLess(found["budget"], 2 * found["weights"] + found["eager"])

    def test_sample(self):
        for found in self.both("ddp_sample"):
            self.assertTrue(found["same"])
            self.assertEqual(found["fixed"], [found["weights"], 2 * found["weights"]])
            self.assertLessEqual(found["measured"], 3 * 2**20)

    def test_accumulation(self):
        for found in self.both("ddp_accumulation"):
            self.assertTrue(found["same"])
            self.assertGreater(found["again"], 0)

    def test_offload(self):
        """The same bits, the same moves on both ranks, and the promised bytes."""
        a, b = self.both("ddp_offload")
        self.assertGreater(len(a["moves"]), 0)
        self.assertEqual((a["moves"], a["plan"]), (b["moves"], b["plan"]))
        for found in (a, b):
            self.assertTrue(found["same"])
            self.assertLessEqual(abs(found["measured"] - found["promised"]), 0.001 * found["promised"] + 65536)

    def test_lossy(self):
        """Values in fewer bits: ranks round the same ones, and gradients are near."""
        rounded(self, "ddp_lossy", 0.3)

    def test_uneven(self):
        a, b = self.planned("ddp_uneven", 0.65)
        self.assertLess(a["promised"], b["promised"])

    def test_profiled(self):
        first = [found["first"] for found in self.both("ddp_profiled")]
        self.assertEqual(first, [True, True])
        for found in self.both("ddp_profiled"):
            self.assertTrue(found["second"])

    def test_refused(self):
        for found in self.both("ddp_refused"):
            self.assertIn("budget cannot be met", found["refused"])
            self.assertGreater(found["floor"], 0)
            self.assertFalse(found["left"])
        one, other = self.both("ddp_refused_on_one")
        self.assertIn("rank 1 cannot keep to the budget", one["refused"])
        self.assertIn("budget cannot be met", other["refused"])
        self.assertFalse(one["left"] or other["left"])


class TestFSDP(Case):
    def test_plans(self):
        for name, share in (("fsdp", 0.55), ("fsdp_gathered", 0.55), ("fsdp_bf16", 0.65), ("fsdp_layers", 0.8), ("fsdp_nested", 0.75), ("fsdp_replicated", 0.75), ("fsdp_sample", 0.6), ("fsdp_sharded_later", 0.8)):
            with self.subTest(name):
                a, b = self.planned(name, share)
                self.assertEqual(a["plan"], b["plan"])

    def test_lossy(self):
        rounded(self, "fsdp_lossy", 0.03)

    def test_layers(self):
        """Units of single layers keep what passes between them: that is said."""
        for found in self.both("fsdp_layers"):
            self.assertEqual(len(found["told"]), 1, found["told"])
            self.assertIn("call fully_shard on whole blocks", found["told"][0])

    def test_accumulation(self):
        for found in self.both("fsdp_accumulation"):
            self.assertTrue(found["same"])

    def test_trains(self):
        for found in self.both("fsdp_trains"):
            self.assertTrue(found["same"] and found["after"] and found["again"], found)

    def test_refused(self):
        for found in self.both("fsdp_refused"):
            self.assertIn("budget cannot be met", found["refused"])
            self.assertFalse(found["left"])
            self.assertTrue(found["same"])

    def test_collectives(self):
        """Collectives of the model's own run once in each step."""
        for found in self.both("collectives"):
            self.assertTrue(found["same"])
            self.assertGreater(found["again"], 0)
            self.assertEqual(len(set(found["counts"])), 1, found["counts"])
            self.assertGreater(found["counts"][0], 5)

    def test_told(self):
        for found in self.both("fsdp1"):
            self.assertEqual(len(found["said"]), 2)
            self.assertIn("fully_shard (FSDP2)", found["said"][0])
        for found in self.both("checkpoint_wrapped"):
            self.assertEqual(len(found["told"]), 1)


if __name__ == "__main__":
    unittest.main()
