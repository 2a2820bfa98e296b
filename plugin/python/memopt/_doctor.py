"""The checks of `python -m memopt doctor` that the binary cannot make: this Python, its packages, and the way to the service."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib import metadata
from typing import NamedTuple

from . import __version__
from .errors import MemoptError


class Finding(NamedTuple):
    name: str
    ok: bool
    found: str
    advice: str = ""


# What is looked for beside this package, and what for.
PACKAGES = {
    "grpcio": "pip install grpcio: the package talks to the service through it",
    "protobuf": "pip install protobuf: the package talks to the service through it",
    "numpy": "",
    "torch": "memopt.optimize, memopt.Module and memopt.ort.ORTModule need it: pip install 'memopt[torch]'",
    "onnx": "memopt.Module and memopt.ort.ORTModule export with it: pip install 'memopt[onnx]'",
    "onnxscript": "memopt.Module and memopt.ort.ORTModule export with it: pip install 'memopt[onnx]'",
}


def findings(binary: str) -> list[Finding]:
    python = Finding("python", sys.version_info >= (3, 10), f"{platform.python_version()}, {sys.executable}", "" if sys.version_info >= (3, 10) else "install Python 3.10 or newer")
    here = Finding("python package", True, f"memopt {__version__}, {os.path.dirname(os.path.abspath(__file__))}")
    return [python, here, *(_package(name, advice) for name, advice in PACKAGES.items()), *_native(), *_service(binary), _arena()]


def _package(name: str, advice: str) -> Finding:
    try:
        return Finding(name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", advice)


def _native() -> list[Finding]:
    """What replays planned steps, where there is a PyTorch."""
    try:
        from .torch.native import build
    except Exception:  # whatever is wrong with that PyTorch
        return []
    return [Finding("native replay", *build.describe())]


def _service(binary: str) -> list[Finding]:
    if not binary:
        return []
    try:
        import grpc  # noqa: F401

        from . import _host, _messages  # noqa: F401

        begin = time.perf_counter()
        host = _host.Host(binary)
    except (MemoptError, ImportError) as e:
        return [Finding("binary", os.access(binary, os.X_OK), binary), Finding("service", False, f"does not start: {e}".splitlines()[0], "python -c 'import memopt; memopt.info()' says more")]
    seconds = time.perf_counter() - begin
    try:
        version = host.info.version
        advice = "" if version == __version__ else f"the package is {__version__}: install both from one release"
        return [
            Finding("binary", not advice, f"{version}, {binary}", advice),
            Finding("service", True, f"answered {seconds * 1000:.0f} ms after its start, protocol {host.info.protocol}, mutual TLS on a unix socket"),
        ]
    finally:
        host.close()


def _arena() -> Finding:
    """Whether tensors can be passed to the service in memory that both map and neither can shrink."""
    from . import _arena as arena

    try:
        os.close(arena._memory_file())
    except MemoptError as e:
        return Finding("arena", False, str(e), "memopt.Module and memopt.ort share tensors with the service through it: allow memfd_create in this container")
    return Finding("arena", True, "a memory file that cannot shrink (memfd)" if sys.platform == "linux" else "an unlinked file")


def as_json(all: list[Finding]) -> str:
    return json.dumps([{k: v for k, v in one._asdict().items() if v != ""} for one in all])


def table(all: list[Finding]) -> str:
    width = max(len(one.name) for one in all)
    lines: list[str] = []
    for one in all:
        lines.append(f"{'ok' if one.ok else '–':<2}  {one.name:<{width}}  {one.found}")
        if one.advice:
            lines.append(" " * (width + 6) + one.advice)
    return "\n".join(lines)
