"""The arena that this process shares with its service: blocks, their reuse, and what a forked child sees."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import unittest

from memopt import _arena
from memopt.errors import MemoptError
from support import HostCase, environment


class Blocks(unittest.TestCase):
    def setUp(self) -> None:
        self.arena = _arena.Arena()

    def test_apart_and_aligned(self) -> None:
        blocks = [self.arena.alloc(n) for n in (1, 63, 64, 65, 5000, 17 << 20, 3)]
        spans = sorted((b.offset, b.offset + b.nbytes) for b in blocks)
        self.assertTrue(all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False)))
        self.assertTrue(all(b.offset % 64 == 0 and b.address % 64 == 0 for b in blocks))
        for i, b in enumerate(blocks):
            b.view[:] = bytes([i]) * b.nbytes
        for i, b in enumerate(blocks):
            self.assertEqual((b.view[0], b.view[-1]), (i, i))
            self.assertEqual(os.pread(self.arena.fileno(), 1, b.offset + b.nbytes - 1), bytes([i]), "the file has other bytes")

    def test_freed_is_used_again(self) -> None:
        for _ in range(100):
            self.arena.alloc(5 << 20)
        self.assertEqual((self.arena.size, self.arena.used), (16 << 20, 0))

    def test_neighbours_become_one(self) -> None:
        blocks = [self.arena.alloc(4 << 20) for _ in range(4)]
        random.Random(1).shuffle(blocks)
        while blocks:
            blocks.pop().free()
        self.assertEqual(self.arena.alloc(16 << 20).offset, 0)
        self.assertEqual(self.arena.size, 16 << 20)

    def test_nothing_spans_two_stretches(self) -> None:
        a, b = self.arena.alloc(16 << 20), self.arena.alloc(16 << 20)
        a.free(), b.free()
        c = self.arena.alloc(20 << 20)
        c.view[-1] = 1
        self.assertEqual(c.offset, 32 << 20)

    def test_no_view_shows_another_block(self) -> None:
        block = self.arena.alloc(1000)
        part = block.view[10:20][2:]
        part[:] = bytes(8)
        offset = block.offset
        block.free()
        with self.assertRaisesRegex(ValueError, "freed"):
            block.view  # noqa: B018
        others = [self.arena.alloc(1000) for _ in range(10)]
        self.assertNotIn(offset, [o.offset for o in others])
        for o in others:
            o.view[:] = b"x" * 1000
        self.assertEqual(bytes(part), bytes(8))
        del part
        self.assertEqual(self.arena.alloc(1000).offset, offset)

    def test_empty(self) -> None:
        block = self.arena.alloc(0)
        self.assertEqual((block.offset, len(block.view), self.arena.size), (0, 0, 0))
        with self.assertRaises(ValueError):
            self.arena.alloc(-1)

    def test_no_room(self) -> None:
        with self.assertRaisesRegex(MemoptError, "no room for") as caught:
            self.arena.alloc(1 << 47)
        self.assertEqual(caught.exception.code, "RESOURCE_EXHAUSTED")
        self.arena.alloc(10)

    def test_trim(self) -> None:
        block, kept = self.arena.alloc(32 << 20), self.arena.alloc(100)
        block.view[:] = b"x" * block.nbytes
        kept.view[:] = b"y" * 100
        before = os.fstat(self.arena.fileno()).st_blocks * 512
        block.free()
        self.arena.trim()
        self.assertLess(os.fstat(self.arena.fileno()).st_blocks * 512, before - (31 << 20))
        self.assertEqual(bytes(kept.view), b"y" * 100)
        self.assertEqual(bytes(self.arena.alloc(32 << 20).view[:9]), bytes(9))

    def test_cannot_be_shrunk(self) -> None:
        self.arena.alloc(1)
        with self.assertRaises(PermissionError):
            os.ftruncate(self.arena.fileno(), 0)

    def test_forked_child(self) -> None:
        block = self.arena.alloc(100)
        block.view[:] = b"p" * 100
        view = block.view
        _arena._current = self.arena
        self.addCleanup(setattr, _arena, "_current", None)
        child = os.fork()
        if child == 0:
            seen = bytes(view) == b"p" * 100
            view[:] = b"c" * 100
            try:
                self.arena.alloc(1)
                refused = False
            except MemoptError:
                refused = True
            own = _arena.current().alloc(100)
            own.view[:] = b"o" * 100
            os._exit(0 if seen and refused and own.offset == 0 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(bytes(view), b"p" * 100)
        self.assertEqual(self.arena.alloc(10).offset, 128)


class Inherited(HostCase):
    def test_by_the_service(self) -> None:
        from memopt import _host

        arena = _arena.current()
        host = _host.current()
        there = os.stat(f"/proc/{host.pid}/fd/{arena.fileno()}")
        self.assertEqual((there.st_ino, there.st_size), (os.fstat(arena.fileno()).st_ino, arena.size))
        host.close()
        self.assertIs(_arena.current(), arena)

    def test_without_standard_streams(self) -> None:
        code = "import os; [os.close(i) for i in (0, 1, 2)]\nfrom memopt import _arena\nos._exit(0 if _arena.current().fileno() > 2 else 1)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], env=environment()).returncode, 0)


if __name__ == "__main__":
    unittest.main()
