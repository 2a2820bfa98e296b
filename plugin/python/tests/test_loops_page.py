"""The page about loops names tests that are there."""

from __future__ import annotations

import unittest
from pathlib import Path

from support import PACKAGE

DOCS = Path(PACKAGE, "..", "..", "docs", "pytorch.md")


class Loops(unittest.TestCase):
    def test_named(self) -> None:
        page = DOCS.read_text(encoding="utf-8").split("## What your loop may do", 1)[1].split("\n## ", 1)[0]
        rows = [line.rsplit("|", 2)[1] for line in page.splitlines() if line.startswith("| ")][1:]
        self.assertGreater(len(rows), 15)
        for row in rows:
            held = [part.split() for part in row.strip().split("; ")]
            for file, *names in held:
                self.assertRegex(file, r"^`test_\w+\.py`$", row)
                text = Path(PACKAGE, "tests_torch", file.strip("`")).read_text(encoding="utf-8")
                self.assertTrue(names, row)
                for name in names:
                    self.assertIn(f"def {name.strip('`,')}(self", text, file)


if __name__ == "__main__":
    unittest.main()
