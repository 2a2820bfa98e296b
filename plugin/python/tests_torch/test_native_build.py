"""The native module's builds: one process of many makes one, whole or not at all, and what fails costs a line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path
from unittest import mock

from memopt.torch.native import build

PACKAGE = Path(build.__file__).parents[3]


class Builds(unittest.TestCase):
    """With a cache folder of their own, and a compiler that copies a build."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.real = build.build()

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="memopt-native-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.to = self.folder / "memopt" / "native" / build.name()
        self.calls = self.folder / "calls"
        self.compiler(f'while [ "$1" != -o ]; do shift; done; sleep 0.5; cp {self.real} "$2"')

    def compiler(self, script: str) -> None:
        path = self.folder / "cxx"
        path.write_text(f"#!/bin/sh\necho call >>{self.calls}\n{script}\n")
        path.chmod(0o755)
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.folder), "CXX": str(path), "MEMOPT_NATIVE": "1", "PYTHONPATH": str(PACKAGE)}
        patch = mock.patch.dict(os.environ, self.env)
        patch.start()
        self.addCleanup(patch.stop)

    def count(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def process(self, code: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def wait(self, what) -> None:
        until = time.monotonic() + 60
        while not what():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_one_of_many(self) -> None:
        """Trainers that start at once share one build, and all come to have it while they run."""
        trainers = [
            self.process("""
                import time
                from memopt.torch.native.build import library
                until = time.monotonic() + 60
                while library.get(print) is None and not library.why and time.monotonic() < until:
                    time.sleep(0.05)
                    library.looked = 0
                print("loaded" if library.module else library.why)
            """)
            for _ in range(3)
        ]
        self.assertEqual([t.communicate()[0] for t in trainers], ["loaded\n"] * 3)
        self.assertEqual(self.count(), 1)
        self.assertEqual(self.to.stat().st_mode & 0o077, 0)
        self.assertEqual(sorted(p.suffix for p in self.to.parent.iterdir()), [".lock", ".so"])

    def test_trainer_ends_first(self) -> None:
        go = self.folder / "go"
        self.compiler(f'while [ "$1" != -o ]; do shift; done; while [ ! -e {go} ]; do sleep 0.1; done; cp {self.real} "$2"')
        trainer = self.process("from memopt.torch.native.build import library; library.get(print); print(library.building is not None)")
        self.assertEqual(trainer.communicate()[0], "True\n")
        self.assertFalse(self.to.exists())
        go.touch()
        self.wait(self.to.exists)

    def test_killed(self) -> None:
        """A build that is killed leaves no lock, and the next one is made."""
        self.compiler("sleep 100")
        begun = build.begin(self.to)
        assert begun is not None
        self.wait(lambda: self.count() == 1)
        self.assertIsNone(build.begin(self.to), "two at once")
        os.killpg(begun.process.pid, signal.SIGKILL)
        begun.process.wait()
        self.compiler(f'while [ "$1" != -o ]; do shift; done; cp {self.real} "$2"')
        self.assertEqual(build.build(), self.to)
        self.assertEqual(self.count(), 2)

    def test_fails(self) -> None:
        """It costs a line, and no other process tries again by itself within the hour."""
        self.compiler("echo 'module.cpp:1: error: no such thing' >&2; exit 1")
        for _ in range(2):
            library, said = build.Library(), []
            self.wait(lambda library=library, said=said: (setattr(library, "looked", 0.0), library.get(said.append), library.why)[-1])
            library.get(said.append)
            self.assertEqual(len(said), 1)
            self.assertIn("error: no such thing", said[0])
            self.assertEqual(self.count(), 1)
        with self.assertRaisesRegex(build.Unavailable, "no such thing"):
            build.build()
        self.assertEqual(self.count(), 2)

    def test_no_compiler(self) -> None:
        with mock.patch.dict(os.environ, CXX="/nowhere/c++"), self.assertRaisesRegex(build.Unavailable, "install a C"):
            build.build()

    def test_none_possible(self) -> None:
        """Where there is no compiler nothing is said, unless the module was asked for."""
        for asked, lines in ((None, 0), ("1", 1)):
            library, said = build.Library(), []
            with mock.patch.dict(os.environ, CXX="/nowhere/c++"):
                os.environ.pop("MEMOPT_NATIVE")
                if asked is not None:
                    os.environ["MEMOPT_NATIVE"] = asked
                self.assertIsNone(library.get(said.append))
            self.assertEqual(len(said), lines, said)
            self.assertIn("is not there", library.why)

    def test_old_builds(self) -> None:
        """A new build removes those that were long not used, or are too many; not one that is under way."""
        self.to.parent.mkdir(parents=True, mode=0o700)
        now = time.time()
        names = [f"torch-2.9.{i}-1-x.so" for i in range(12)]
        for i, name in enumerate(names):
            for path in (self.to.parent / name, self.to.parent / name.replace(".so", ".lock")):
                path.write_bytes(b"")
                os.utime(path, (now - 9 * 86400 * i - 60,) * 2)
        with build._locked(self.to.parent / names[-1].replace(".so", ".lock")):
            build.build()
        left = sorted(p.name for p in self.to.parent.glob("*.so"))
        self.assertEqual(left, sorted([*names[:7], names[-1], self.to.name]))
        self.assertEqual(len(list(self.to.parent.glob("*.lock"))), 9)

    def test_doctor(self) -> None:
        """What `doctor` says of the replay."""
        ok, found, _ = build.describe()
        self.assertTrue(ok)
        self.assertRegex(found, f"yet: {self.folder}/cxx builds it at the first planned step")
        build.build()
        self.assertEqual(build.describe(), (True, str(self.to), ""))
        with mock.patch.dict(os.environ, MEMOPT_NATIVE="0"):
            self.assertRegex(build.describe()[1], "replayed in Python; 0 for others|replayed in Python$")
        self.to.unlink()
        with mock.patch.dict(os.environ, CXX="/nowhere/c++"):
            ok, found, advice = build.describe()
        self.assertFalse(ok)
        self.assertRegex(found, "install a C.. compiler")
        self.assertIn("in Python", advice)

    def test_wrong_build(self) -> None:
        """A file that is none is not loaded, and the step runs without."""
        self.to.parent.mkdir(parents=True)
        self.to.write_bytes(b"not a library")
        library, said = build.Library(), []
        self.assertIsNone(library.get(said.append))
        self.assertRegex(said[0], "replayed in Python.*" + self.to.name)

    def test_off(self) -> None:
        library, said = build.Library(), []
        with mock.patch.dict(os.environ, MEMOPT_NATIVE="0"):
            self.assertIsNone(library.get(said.append))
        self.assertEqual((said, self.count()), ([], 0))

    def test_others_may_write(self) -> None:
        self.to.parent.mkdir(parents=True, mode=0o700)
        shutil.copy(self.real, self.to)
        for path, mode in ((self.to, 0o666), (self.to.parent, 0o777)):
            path.chmod(mode)
            with self.assertRaisesRegex(build.Unavailable, "others may write"):
                build.found()
            path.chmod(0o700)
        self.assertEqual(build.found(), self.to)

    def test_command(self) -> None:
        """`python -m memopt build-native` makes it, and says where, or what is wrong."""

        def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([sys.executable, "-W", "ignore", "-m", "memopt", "build-native", *arguments], env={**self.env, **changes}, capture_output=True, text=True)

        self.assertEqual(run().stdout, f"{self.to}\n")
        self.assertEqual(run("--into", str(self.folder / "here")).stdout, f"{self.folder / 'here' / self.to.name}\n")
        self.assertEqual(run("--in").returncode, 2)
        failed = run("--into", str(self.folder / "there"), CXX="/nowhere/c++")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("install a C++ compiler", failed.stderr)


if __name__ == "__main__":
    unittest.main()
