"""mypy in its strict mode and ruff find nothing in the package, and mypy sees what its users would get wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PACKAGE


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as cache:
        return subprocess.run([sys.executable, "-m", *arguments, "--cache-dir", cache], cwd=PACKAGE, capture_output=True, text=True)


class Types(unittest.TestCase):
    def test_mypy(self) -> None:
        done = tool("mypy")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_ruff(self) -> None:
        done = tool("ruff", "check", ".")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_settings_are_typed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            user = Path(folder, "user.py")
            user.write_text(
                "import memopt\n"
                'memopt.plan("m.onnx", budget="8GB", dims={"batch": 8}, strategy="greedy", boundary=False, memory_budget=None)\n'
                'memopt.plan("m.onnx", strategy="gredy")\n'
                'memopt.plan("m.onnx", bugdet="8GB")\n'
                'memopt.plan("m.onnx", dims={"batch": "8"})\n'
                'plan = memopt.plan("m.onnx")\n'
                "reveal_type(plan)\n"
                "reveal_type(plan.result.peak)\n"
                "reveal_type(plan.clusters[0].nodes)\n"
                "plan.result.peek\n"
            )
            out = tool("mypy", "--config-file", "pyproject.toml", str(user)).stdout
        for line, said in ((3, "strategy"), (4, 'Unexpected keyword argument "bugdet"'), (5, "Dict entry 0 has incompatible type"), (10, '"Result" has no attribute "peek"')):
            self.assertRegex(out, rf"user\.py:{line}: error: .*{said}")
        for revealed in ("memopt.report.Report", "int", "list[str]"):
            self.assertRegex(out, rf'Revealed type is "(builtins\.)?{re.escape(revealed)}')
        self.assertNotIn("user.py:2:", out)


if __name__ == "__main__":
    unittest.main()
