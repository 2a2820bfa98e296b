"""What the tests share: the test server as the binary, trainers as processes of their own, and patience of a second."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

PACKAGE = Path(__file__).resolve().parent.parent
TEST_SERVER = os.environ.get("MEMOPT_TEST_SERVER", "")

# Interrupts are ignored in the background of a shell, and by all who are started there, unless they say otherwise.
TRAINER = """
import os, signal, sys, time, memopt
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def environment(**changes: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMOPT_", "PLUGIN_", "ORTMODULE_", "GRPC_"))}
    env["PYTHONPATH"] = str(PACKAGE)
    env["MEMOPT_PLUGIN_PATH"] = TEST_SERVER
    env.update(changes)
    return env


class HostCase(unittest.TestCase):
    """Each test with the test server as the binary, sockets in a folder of its own, and nothing left at the end."""

    def setUp(self) -> None:
        if not TEST_SERVER:
            self.skipTest("MEMOPT_TEST_SERVER is not set; use run_tests.sh")
        self.runtime = tempfile.mkdtemp(prefix="memopt-py-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)
        self.env = environment(XDG_RUNTIME_DIR=self.runtime)
        patch = mock.patch.dict(os.environ, self.env, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        import memopt

        self.addCleanup(memopt.close)

    def fake_binary(self, script: str) -> str:
        """A binary made of shell: for services that misbehave from the start. --gencert works."""
        path = os.path.join(self.runtime, "fake")
        with open(path, "w") as f:
            f.write(f'#!/bin/sh\n[ "$2" = --gencert ] && exec {TEST_SERVER} serve --gencert\n{script}\n')
        os.chmod(path, 0o755)
        return path

    def folders(self) -> list[str]:
        return [name for name in os.listdir(self.runtime) if name.startswith("memopt")]

    def assert_gone(self, pid: int, within: float = 1.0) -> float:
        begin = time.monotonic()
        while running(pid) or self.folders():
            if time.monotonic() - begin > within:
                self.fail(f"after {within} s: service running {running(pid)}, folders {self.folders()}")
            time.sleep(0.002)
        return time.monotonic() - begin

    @contextlib.contextmanager
    def trainer(self, code: str) -> Iterator[subprocess.Popen[str]]:
        """A Python process that imports memopt and runs code; its standard output is a pipe."""
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", TRAINER + textwrap.dedent(code)],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def running(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            return False
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False
