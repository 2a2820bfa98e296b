"""The page about loops names tests that are there."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

from support import PACKAGE

DOCS = Path(PACKAGE, "..", "..", "docs", "pytorch.md")


class Loops(unittest.TestCase):
    def test_named(self) -> None:
        page = DOCS.read_text(encoding="utf-8").split("## What your loop may do", 1)[1].split("\n## ", 1)[0]
        rows = re.findall(r"(?m)^\| [^|]+ \| [^|]+ \| `(test_\w+\.py)` ((?:`test_\w+`(?:, )?)+) \|$", page)
        self.assertEqual(len(rows), len(re.findall(r"(?m)^\| ", page)) - 1, "a row names no test")
        self.assertGreater(len(rows), 15)
        for file, names in rows:
            text = Path(PACKAGE, "tests_torch", file).read_text(encoding="utf-8")
            for name in re.findall(r"test_\w+", names):
                self.assertIn(f"def {name}(self", text, file)


if __name__ == "__main__":
    unittest.main()
