"""The native module's binary: shipped in the wheel, kept in the user's cache folder, or built there in the background.

A build is named after what it depends on: PyTorch, its ABI, Python, and the sources. One process of many builds it; its lock goes with
the processes that hold it. The compiler goes on where the trainer ends first, so the next one has the build. Builds that nobody has
loaded for long are removed when one is made.

    MEMOPT_NATIVE         0: not used; 1: used, and it is said where there can be none
    CXX                   the compiler, else c++ or g++
    XDG_CACHE_HOME        its folder memopt/native has the builds, else ~/.cache/memopt/native
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..._caches import cache

MODULE = "memopt_native"
SHIPPED = Path(__file__).parent / "built"
_SOURCES = ("module.cpp", "interceptor.h", "step.h", "captured.h", "program.h")
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_LOOK = 1.0  # seconds between two looks for a build of another process
_LIMIT = 300  # seconds of a build that is waited for
_AGAIN = 3600  # seconds behind one that failed, in which no process tries another by itself
_KEPT = 8  # builds, the last used ones
_OLD = 60 * 86400  # seconds after which one that was not loaded is removed
_HERE = Path(__file__).parent


class Unavailable(RuntimeError):
    """There is no native module here, and why."""


class Impossible(Unavailable):
    """There can be none: this is a machine without what it takes."""


def name() -> str:
    """The file's name of the build for this interpreter."""
    release, _, local = torch.__version__.partition("+")
    version = release if not local or re.fullmatch(r"cpu|cu\d+|rocm[\d.]+|xpu", local) else torch.__version__  # packages of one release have one ABI
    digest = hashlib.sha256(b"\0".join((_HERE / source).read_bytes() for source in _SOURCES) + " ".join(_FLAGS).encode()).hexdigest()[:12]
    return f"torch-{version}-{int(torch._C._GLIBCXX_USE_CXX11_ABI)}-{sysconfig.get_config_var('SOABI')}-{digest}.so"


def folder() -> Path:
    return Path(cache("native"))


def unsupported() -> str:
    """Why no build can be used here, or nothing."""
    if sys.platform != "linux":
        return f"it is for Linux, and this is {sys.platform}"
    if sys.implementation.name != "cpython":
        return f"it is for CPython, and this is {sys.implementation.name}"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without its global lock"
    return ""


def found() -> Path | None:
    """The build for this interpreter, if it exists: one from the wheel, or from the user's folder, where nobody else may have written."""
    shipped = SHIPPED / name()
    if shipped.exists():
        return shipped
    path = folder() / name()
    try:
        state, around = path.stat(), path.parent.stat()
    except OSError:
        return None
    for one in (state, around):
        if one.st_uid != os.getuid() or one.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Unavailable(f"others may write to {path.parent if one is around else path}, so it is not loaded; remove it, or chmod go-w")
    return path


def load(path: Path) -> Any:
    """The module in a file, after a trial."""
    loader = importlib.machinery.ExtensionFileLoader(MODULE, str(path))
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    x = torch.ones(2)
    module.hear()
    try:
        y = torch.add(x, torch.zeros(2))
    finally:
        heard = module.heard()
    if heard != ["aten::zeros", "aten::add.Tensor"] or y.tolist() != [1.0, 1.0]:
        raise Unavailable(f"its interceptor heard {heard} of torch.add and torch.zeros")
    return module


def compiler() -> str:
    given = os.environ.get("CXX", "")
    for command in [given] if given else ["c++", "g++", "clang++"]:
        if shutil.which(shlex.split(command)[0]) is not None:
            return command
    raise Impossible(f"{given or 'c++'} is not there: install a C++ compiler (apt-get install g++), or a wheel that has builds inside")


def command(to: Path) -> list[str]:
    """What builds the module."""
    headers = Path(torch.__file__).parent / "include"
    python = sysconfig.get_paths()["include"]
    if not (headers / "torch" / "library.h").exists():
        raise Impossible(f"PyTorch's headers are not at {headers}")
    if not Path(python, "Python.h").exists():
        raise Impossible(f"Python's headers are not at {python}: install them (apt-get install python3-dev)")
    include = [f"-isystem{p}" for p in (headers, headers / "torch" / "csrc" / "api" / "include", python)]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    libraries = [f"-L{headers.parent / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python"]
    return [*shlex.split(compiler()), *_FLAGS, abi, *include, str(_HERE / _SOURCES[0]), "-o", str(to), *libraries]


class Build:
    """A build that runs: in a process of its own, which holds the lock and renames what it made."""

    def __init__(self, to: Path, process: subprocess.Popen[bytes]) -> None:
        self.to, self.process = to, process

    @property
    def done(self) -> bool:
        return self.process.poll() is not None

    def check(self) -> None:
        """Raises if the build failed."""
        if not self.to.exists():
            raise _failure(self.to) or Unavailable("the compiler was stopped")


def _failure(to: Path, since: float = 0) -> Unavailable | None:
    """What the compiler said in the last build, if that failed."""
    log = to.with_suffix(".failed")
    try:
        if log.stat().st_mtime < since:
            return None
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return None
    said = next((line for line in lines if "error" in line), lines[0] if lines else "the compiler did not end well")
    return Unavailable(f"{said[:300]} (all of it in {log})")


def begin(to: Path) -> Build | None:
    """Starts a build; None where another process builds it."""
    made, log = to.with_suffix(".tmp"), to.with_suffix(".log")
    run = command(made)
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(to.with_suffix(".lock")) as lock:
        if lock is None or to.exists():
            return None
        _prune(to)
        script = 'umask 077; made=$1 to=$2 log=$3 failed=$4; shift 4; if "$@" && mv -f "$made" "$to"; then rm -f "$log" "$failed"; else rm -f "$made"; mv -f "$log" "$failed"; fi'
        with open(log, "wb") as said:
            process = subprocess.Popen(
                ["nice", "-n", "10", "sh", "-c", script, "build", str(made), str(to), str(log), str(to.with_suffix(".failed")), *run],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=[lock], start_new_session=True,
            )  # fmt: skip
    return Build(to, process)


def _prune(to: Path) -> None:
    """Removes builds that were not used for long, or are too many, and what is left of those that failed; not one that is under way."""
    stems: dict[Path, float] = {}
    for path in to.parent.iterdir():
        with contextlib.suppress(OSError):
            stem = path.with_suffix("")
            stems[stem] = max(stems.get(stem, 0.0), path.stat().st_mtime)
    stems.pop(to.with_suffix(""), None)
    now = time.time()
    for i, stem in enumerate(sorted(stems, key=lambda stem: -stems[stem])):
        if i < _KEPT - 1 and now - stems[stem] < _OLD:
            continue
        lock = stem.with_name(stem.name + ".lock")
        with _locked(lock) as held:
            if held is not None:
                for ending in (".so", ".tmp", ".log", ".failed", ".lock"):
                    stem.with_name(stem.name + ending).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """A lock of this process and of those that it hands the descriptor to. None if others have it."""
    import fcntl

    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
        else:
            yield lock
    finally:
        os.close(lock)


def build(into: Path | None = None) -> Path:
    """Builds the module now, unless it is there."""
    reason = unsupported()
    if reason:
        raise Impossible(reason)
    to = (into or folder()) / name()
    until = time.monotonic() + _LIMIT
    while not to.exists():
        running = begin(to)
        if running is not None:
            running.process.wait()
            running.check()
        elif time.monotonic() > until:
            raise Unavailable(f"another process has been building {to} for {_LIMIT} s")
        else:
            time.sleep(0.1)
    return to


class Library:
    """The native module of this process: loaded when there is a build, which is begun at first use."""

    def __init__(self) -> None:
        self.module: Any = None
        self.why = ""  # there is none
        self.pid = os.getpid()
        self.building: Build | None = None
        self.looked = 0.0
        self.lock = threading.Lock()

    def expected(self) -> bool:
        """Whether steps are replayed by the module, now or once it is built."""
        return self.module is not None or not self.why and os.environ.get("MEMOPT_NATIVE") != "0" and not unsupported()

    def get(self, tell: Any) -> Any:
        """The module, or None. tell is called once with a line where there will be none."""
        if self.module is not None or self.why:
            return self.module
        now = time.monotonic()
        if now - self.looked < _LOOK or not self.lock.acquire(blocking=False):
            return None
        try:
            self.looked = now
            self._look()
        except Exception as e:  # whatever it is, the step runs without
            self.why = str(e) or type(e).__name__
            if not isinstance(e, Impossible) or os.environ.get("MEMOPT_NATIVE"):
                tell(f"steps are replayed in Python, without the native module: {self.why}")
        finally:
            self.lock.release()
        return self.module

    def _look(self) -> None:
        if os.environ.get("MEMOPT_NATIVE") == "0":
            self.why = "MEMOPT_NATIVE=0"
            return
        reason = unsupported()
        if reason:
            raise Impossible(reason)
        if self.pid != os.getpid():  # a forked process has no part in the build
            self.pid, self.building = os.getpid(), None
        path = found()
        if path is not None:
            self.module = load(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # used
        elif self.building is not None and self.building.done:
            self.building.check()
        elif self.building is None:
            to = folder() / name()
            failure = _failure(to, time.time() - _AGAIN)
            if failure is not None:
                raise failure
            self.building = begin(to)


def describe() -> tuple[bool, str, str]:
    """For `doctor`: whether steps are replayed by a build, which builds there are, and what would help."""
    made = sorted(path.name for path in folder().glob("*.so")) if folder().exists() else []
    others = f"; {len(made) - (name() in made)} for others in {folder()}" if set(made) - {name()} else ""
    this = f"PyTorch {torch.__version__}, Python {platform.python_version()}"
    if os.environ.get("MEMOPT_NATIVE") == "0":
        return False, f"MEMOPT_NATIVE=0: planned steps are replayed in Python{others}", ""
    try:
        reason = unsupported()
        if reason:
            raise Impossible(reason)
        path = found()
        if path is not None:
            return True, f"{path}{others}", ""
        failure = _failure(folder() / name())
        if failure is not None:
            raise failure
        command(folder() / name())
    except Unavailable as e:
        return False, f"none for {this}: {e}{others}", "planned steps are replayed in Python, which costs 10 to 20 µs an operator"
    return True, f"none for {this} yet: {compiler()} builds it at the first planned step, or python -m memopt build-native{others}", ""


library = Library()


def main(arguments: list[str]) -> int:
    """`python -m memopt build-native [--into FOLDER]`."""
    if arguments and (len(arguments) != 2 or arguments[0] != "--into"):
        print("usage: python -m memopt build-native [--into FOLDER]", file=sys.stderr)
        return 2
    try:
        print(build(Path(arguments[1]).absolute() if arguments else None))
    except Unavailable as e:
        print(f"memopt: the native module cannot be built: {e}", file=sys.stderr)
        return 1
    return 0
