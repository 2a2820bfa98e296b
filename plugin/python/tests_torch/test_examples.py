"""What examples/ at the root of the repository has, run as its readers would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class TestExamples(unittest.TestCase):
    def run_example(self, name, *launcher, slack=0.07):
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-W", "ignore", *launcher, str(EXAMPLES / name)], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        eager, budget, promised, measured = (
            float(re.search(rf"^{what} +(\d+\.\d+) MiB", done.stdout, re.MULTILINE)[1]) for what in ("eager", "budget", "promised", "measured")
        )
        self.assertLessEqual(promised, budget)
        self.assertLessEqual(measured, promised + slack)
        self.assertLess(budget, 0.65 * eager)
        self.assertIn("bit for bit", done.stdout)

    def test_gpt_half_memory(self):
        self.run_example("gpt_half_memory.py")

    def test_hf_trainer(self):
        self.run_example("hf_trainer.py")

    def test_lora(self):
        self.run_example("lora.py")

    def test_torchrun(self):
        """Two ranks. The profiler is not told of what the threads of a collective free: a few buffers of a block, at the most."""
        self.run_example("torchrun.py", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", slack=4.0)
