"""The wheel, made as `make wheel` makes it, in virtual environments that have nothing else of memopt."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Any

from support import PACKAGE

ROOT = PACKAGE.parent.parent


def run(*command: str | Path, rc: int = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=300, **options)
    if done.returncode != rc:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def wheel_of(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


@unittest.skipUnless((ROOT / ".ci" / "wheel").exists() and shutil.which("go"), "wheels are made in a checkout, with go")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="memopt-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        run(ROOT / ".ci" / "wheel", cls.folder)
        cls.builder = run(ROOT / ".ci" / "wheel", "--where").stdout.strip()
        cls.wheel = wheel_of(cls.folder)
        # An environment of the kind that users have: no variable of ours, no checkout on any path.
        cls.venv = cls.folder / "venv"
        cls.env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMOPT_", "ORTMODULE_", "PYTHON", "PLUGIN_"))}
        cls.env["PATH"] = f"{cls.venv / 'bin'}:/usr/bin:/bin"
        run(sys.executable, "-m", "venv", cls.venv)
        run(cls.venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", cls.wheel, env=cls.env, cwd=cls.folder)

    def python(self, *arguments: str, rc: int = 0, **changes: str) -> subprocess.CompletedProcess[str]:
        return run(self.venv / "bin" / "python", *arguments, rc=rc, env={**self.env, **changes}, cwd=self.folder)

    def test_what_is_in_it(self) -> None:
        with zipfile.ZipFile(self.wheel) as z:
            names = z.namelist()
            self.assertEqual(z.getinfo("memopt/_bin/memopt").external_attr >> 16 & 0o777, 0o755)
            metadata = z.read(next(n for n in names if n.endswith("METADATA"))).decode()
        self.assertIn("memopt/py.typed", names)
        self.assertIn("memopt/LICENSE", names)
        self.assertFalse([n for n in names if n.startswith("tests") or n.endswith((".go", ".pyc"))])
        self.assertIn("Provides-Extra: torch", metadata)
        self.assertIn("Provides-Extra: onnx", metadata)

    def test_platform(self) -> None:
        """What the tag promises is what the binary's symbols ask for, read by another program than the one that made the tag."""
        if not shutil.which("readelf"):
            self.skipTest("readelf, of binutils, is not here")
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", run("readelf", "-V", self.venv_binary()).stdout)}
        if "manylinux_2_17" in self.wheel.name:
            self.assertLessEqual(max(versions), (2, 17))
            run(self.builder, "-m", "auditwheel", "show", self.wheel)
        else:
            self.assertRegex(self.wheel.name, r"py3-none-linux_\w+\.whl$")
            self.assertGreater(max(versions), (2, 17))

    def venv_binary(self) -> Path:
        (binary,) = self.venv.glob("lib/python*/site-packages/memopt/_bin/memopt")
        return binary

    def test_plans_without_a_checkout(self) -> None:
        self.python("-m", "memopt", "new", "gpt", "-o", "m.onnx")
        code = "import json, memopt; plan = memopt.plan('m.onnx', dims={'batch': 8, 'seq': 64}, activation_budget='70%'); print(json.dumps([plan.baseline.arena, plan.result.arena, memopt.info().binary]))"
        before, after, binary = json.loads(self.python("-c", code).stdout)
        self.assertLessEqual(after, 0.7 * before)
        self.assertEqual(binary, str(self.venv_binary()))

    def test_is_the_command_line(self) -> None:
        version = run(self.venv_binary(), "--version").stdout
        self.assertEqual(self.python("-m", "memopt", "--version").stdout, version)
        self.assertEqual(run(self.venv / "bin" / "memopt", "--version", env=self.env).stdout, version)
        self.assertIn("nonsuch.onnx", self.python("-m", "memopt", "plan", "nonsuch.onnx", rc=2).stderr)
        self.python("-m", "memopt", "new", "mlp", "-o", "exact.onnx")
        self.python("-m", "memopt", "plan", "exact.onnx", "--dims", "batch=8", "--activation-budget", "1B", rc=1)

    def test_signals_reach_the_command(self) -> None:
        self.python("-m", "memopt", "new", "mlp", "-o", "long.onnx", "--data", "long.npz")
        command = [str(self.venv / "bin" / "python"), "-m", "memopt", "train", "long.onnx", "--data", "long.npz", "--steps", "100000000", "--dims", "batch=8", "--format", "json"]
        for number, rc in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
            process = subprocess.Popen(command, env=self.env, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            try:
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(1)
                process.send_signal(number)
                self.assertEqual(process.wait(10), rc)
            finally:
                process.kill()
                process.communicate()

    def test_doctor(self) -> None:
        findings = {f["name"]: f for f in json.loads(self.python("-m", "memopt", "doctor", "--format", "json").stdout)["findings"]}
        for name in ("python", "python package", "grpcio", "protobuf", "binary", "service", "arena"):
            self.assertTrue(findings[name]["ok"], findings[name])
        self.assertRegex(findings["service"]["found"], r"answered \d+ ms after its start")
        self.assertIn(str(self.venv_binary()), findings["binary"]["found"])
        self.assertFalse(findings["torch"]["ok"])
        self.assertIn("memopt[torch]", findings["torch"]["advice"])
        self.assertNotIn("torch", self.python("-c", "import memopt, sys; print(*sys.modules)").stdout.split())

    def test_script_without_a_binary_ends(self) -> None:
        """The script called memopt on PATH is not the binary that it looks for."""
        binary = self.venv_binary()
        binary.rename(binary.with_suffix(".away"))
        try:
            self.assertIn("was not found", run(self.venv / "bin" / "memopt", "plan", "m.onnx", rc=1, env=self.env, cwd=self.folder).stderr)
            done = self.python("-m", "memopt", "doctor", rc=1)
            self.assertIn("grpcio", done.stdout)
            self.assertIn("was not found", done.stderr)
        finally:
            binary.with_suffix(".away").rename(binary)

    def test_source_distribution_makes_the_same_wheel(self) -> None:
        (source,) = self.folder.glob("*.tar.gz")
        with tarfile.open(source) as t:
            t.extractall(self.folder / "source", filter="data")
        (package,) = (self.folder / "source").iterdir()
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        if "manylinux_2_17" in self.wheel.name:
            env |= {"CC": f"{self.builder} -m ziglang cc -target {os.uname().machine}-linux-gnu.2.17", "CGO_ENABLED": "1"}
        run(self.builder, "-m", "hatchling", "build", "-t", "wheel", "-d", self.folder / "again", cwd=package, env=env)
        again = wheel_of(self.folder / "again")
        self.assertEqual(again.name, self.wheel.name)
        self.assertTrue(again.read_bytes() == self.wheel.read_bytes(), "the wheels differ")

        env["PATH"] = "/usr/bin:/bin"
        if shutil.which("go", path=env["PATH"]):
            return
        said = run(self.builder, "-m", "hatchling", "build", "-t", "wheel", "-d", self.folder / "none", cwd=package, env=env, rc=1).stderr
        self.assertRegex(said, r"go is not on PATH.\n  Install a wheel instead .*\n  or install Go 1\.\d+")
        self.assertNotIn("Traceback", said)


if __name__ == "__main__":
    unittest.main()
