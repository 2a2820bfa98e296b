"""The rooms of memopt.torch stand in an order: none imports one above it, and no files import each other in a circle."""

from __future__ import annotations

import ast
import unittest
from pathlib import Path

from support import PACKAGE

ROOMS = ["step", "elsewhere", "ranks", "record", "lower", "plan", "replay", "native", "graph", "loop", "compile", "ask", "fit", "serve"]  # from the lowest up
TORCH = Path(PACKAGE, "memopt", "torch")


def imports(path: Path, known: set[str]) -> set[str]:
    """The files of memopt.torch that one imports, also within functions."""
    package = ["torch", *path.relative_to(TORCH).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package):
            base = ".".join([*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else [])])
            named = {f"{base}.{a.name}" for a in node.names} & known
            found |= named or {base} & known
    return found


class Rooms(unittest.TestCase):
    def test_order(self) -> None:
        paths = {".".join(["torch", *p.relative_to(TORCH).with_suffix("").parts]).removesuffix(".__init__"): p for p in TORCH.rglob("*.py")}
        edges = {name: imports(path, set(paths)) for name, path in paths.items()}
        self.assertGreater(sum(map(len, edges.values())), 100)
        self.assertEqual({name.split(".")[1] for name in paths if name.count(".") == 2}, set(ROOMS))
        for name, targets in edges.items():
            if name.count(".") < 2:
                continue  # the door, above all rooms
            for target in targets:
                room, other = name.split(".")[1], target.split(".")[1] if "." in target else "the door"
                self.assertIn(other, ROOMS[: ROOMS.index(room) + 1], f"{name} imports {target}, which is above it")
        left = dict(edges)
        while left:
            free = [name for name, targets in left.items() if not targets & set(left)]
            self.assertTrue(free, f"these import each other in a circle, or what does: {sorted(left)}")
            for name in free:
                del left[name]


if __name__ == "__main__":
    unittest.main()
