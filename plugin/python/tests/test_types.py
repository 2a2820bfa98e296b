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
                'memopt.plan("m.onnx", budget="8GB", dims={"batch": 8}, strategy="optimize", boundary=False, memory_budget=None)\n'
                'memopt.plan("m.onnx", strategy="gredy")\n'
                'memopt.plan("m.onnx", bugdet="8GB")\n'
                'memopt.plan("m.onnx", dims={"batch": "8"})\n'
                'plan = memopt.plan("m.onnx")\n'
                "reveal_type(plan)\n"
                "reveal_type(plan.result.peak)\n"
                "reveal_type(plan.clusters[0].nodes)\n"
                "plan.result.peek\n"
                "reveal_type(memopt.info().devices[0].memory)\n"
                'reveal_type(memopt.frontier("m.onnx").points[0].overhead)\n'
                'reveal_type(memopt.max_batch("m.onnx", "1GiB").size)\n'
                'reveal_type(memopt.max_seq("m.onnx", "1GiB").plan.memory.total)\n'
                "reveal_type((memopt.explain(plan).boundaries, memopt.explain(plan, node='a').program))\n"
                'memopt.max_batch("m.onnx", "1GiB").sizes\n'
                'memopt.info()["pid"], memopt.stats().weights.mapped\n'
                "try:\n    pass\nexcept memopt.BudgetError as e:\n    reveal_type(e.floor)\n    reveal_type(e.changes[0].settings)\n"
            )
            out = tool("mypy", "--config-file", "pyproject.toml", str(user)).stdout
        wrong = {
            3: "strategy", 4: 'Unexpected keyword argument "bugdet"', 5: "Dict entry 0 has incompatible type", 10: '"Result" has no attribute "peek"',
            16: '"Largest" has no attribute "sizes"',
        }  # fmt: skip
        for line, said in wrong.items():
            self.assertRegex(out, rf"user\.py:{line}: error: .*{said}")
        self.assertEqual(set(map(int, re.findall(r"user\.py:(\d+): error", out))), set(wrong))
        revealed = {
            7: "memopt.report.Report", 8: "int", 9: "list[str]", 11: "int", 12: "float", 13: "int", 14: "int", 15: "tuple[list[memopt._fields.Boundary], str]",
            21: "memopt.errors.Floor", 22: "dict[str, str]",
        }  # fmt: skip
        found = {int(line): said.replace("builtins.", "") for line, said in re.findall(r'user\.py:(\d+): note: Revealed type is "(.*)"', out)}
        self.assertEqual(found.keys(), revealed.keys())
        for line, type in revealed.items():
            self.assertIn(type, found[line])
        self.assertNotIn("Any", " ".join(found.values()))


if __name__ == "__main__":
    unittest.main()
