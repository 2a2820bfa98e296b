"""The program that .ci/gpu runs on a CUDA device, small and on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


class TestGPU(unittest.TestCase):
    def test_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "rows.json")
            program = os.path.join(ROOT, "memopt", "lab", "bench", "torch", "gpu.py")
            done = subprocess.run(
                [sys.executable, "-W", "ignore", program, "--device", "cpu", "--small", "--steps", "1", "--out", out], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, encoding="utf-8") as f:
                rows = json.load(f)["rows"]
        self.assertEqual([r["way"] for r in rows if r.get("error")], [])
        ours = [r for r in rows if r["way"].startswith("memopt")]
        self.assertTrue(all(r["same_bits"] for r in ours))
        self.assertEqual({(r["model"], r["way"]) for r in ours}, {(model, f"memopt, {way}") for model in ("llama", "resnet") for way in ("eager", "graph", "offload", "states")})
        planned = [r for r in ours if r.get("planned", True) and r["way"] != "memopt, states"]  # without states everything may fit
        self.assertEqual({(r["model"], r["way"]) for r in planned}, {(model, f"memopt, {way}") for model in ("llama", "resnet") for way in ("eager", "graph", "offload")})
        for row in planned:
            if row["way"] != "memopt, graph":
                self.assertLessEqual(row["measured"], row["asked"] + 4096)
                self.assertLessEqual(abs(row["measured"] - row["promised"]), 4096)
            else:
                self.assertEqual(row["replay"], "graph")
                self.assertLessEqual(row["pool"], 1.01 * row["promised"] + 98304)  # each tensor of these small steps is rounded up to 512 bytes


if __name__ == "__main__":
    unittest.main()
