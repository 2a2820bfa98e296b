"""A profile measured through PyTorch prices plans of steps that are recorded on its device."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import torch
from models import GPT

import memopt
from memopt.torch.profile import _apart

BINARY = os.environ["MEMOPT_PLUGIN_PATH"]


class TestProfile(unittest.TestCase):
    def plan(self, step: str, env: dict[str, str], *more: str) -> dict:
        done = subprocess.run([BINARY, "plan", step, "--activation-budget", "60%", "--format", "json", *more], env=env, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def test_measured(self):
        """It is kept by device and versions, used from then on, and near to what a step takes."""
        threads = torch.get_num_threads()
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "XDG_CACHE_HOME": folder, "MEMOPT_NATIVE": "0"}
            step = os.path.join(folder, "step.json.gz")
            model, tokens = GPT(vocab=1000, layers=2, width=128), torch.randint(0, 1000, (8, 64))
            memopt.record(model, tokens, tokens, to=step)
            before = self.plan(step, env)["request"]["profile"]
            self.assertEqual((before["name"], before["replay"]), ("torch-core" if threads == 1 else f"torch-core × {threads}", "native"))
            command = [sys.executable, "-W", "ignore", "-m", "memopt", "profile-torch", "--device", "cpu", "--threads", str(threads)]
            subprocess.run(command, env=env, capture_output=True, check=True)
            made = self.plan(step, env)
            found = made["request"]["profile"]
            self.assertEqual(found["name"], "cpu")
            self.assertTrue(found["driver"].startswith(f"PyTorch {torch.__version__}, {threads} thread"), found["driver"])
            self.assertTrue(found["source"].startswith("measured "))
            self.assertNotEqual(found["flops_per_ns"]["attention"], found["flops_per_ns"]["product"])
            self.assertGreater(found["passes"]["forward_ns"], found["passes"]["backward_ns"])  # modules call operators of the one only
            self.assertLess(found["bytes_per_ns_of"]["bf16"][""], 2 * found["bytes_per_ns"][""])
            for pass_ in ("arithmetic", "backward_arithmetic"):
                self.assertEqual(set(found[pass_]), {"product", "attention", "convolution"})
            far = found["far"]
            self.assertTrue(far and all(a["beyond"] < b["beyond"] and a["bytes_per_ns"] > b["bytes_per_ns"] for a, b in itertools.pairwise(far)), far)
            self.assertEqual(self.plan(step, env, "--profile", "shipped")["request"]["profile"], before)
            python = self.plan(step, env, "--replay", "python")["request"]["profile"]
            self.assertGreater(python["again_ns"], found["again_ns"])

            times = []
            for _ in range(10):
                begin = time.perf_counter_ns()
                model(tokens, tokens).backward()
                times.append(time.perf_counter_ns() - begin)
                model.zero_grad()
            promised = made["baseline"]["time_ns"]
            self.assertGreater(3 * min(times), promised)
            self.assertGreater(3 * promised, min(times))

    def test_apart(self):
        """Times that operations and operands give are taken apart again; what is slower the larger it is, beyond its operations, has no bytes beside."""
        points = [(f, b, f / 100 + b / 20) for f, b in ((1e6, 1e5), (8e6, 4e5), (64e6, 16e5))]
        found = _apart(points)
        self.assertAlmostEqual(found["flops_per_ns"] / 100, 1, 6)
        self.assertAlmostEqual(found["bytes_per_ns"] / 20, 1, 6)
        self.assertGreater(_apart([(f, b, f / 100 * (f / 1e6) ** 0.1) for f, b, _ in points])["bytes_per_ns"], 1e5)

    def test_refused(self):
        done = subprocess.run([sys.executable, "-m", "memopt", "profile-torch", "--device", "meta"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("operators cannot be measured on meta", done.stderr)


if __name__ == "__main__":
    unittest.main()
