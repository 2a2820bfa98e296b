"""Starts, calls and ends the memopt service: a synchronous go-plugin host on grpcio.

One Host is one process of the service, owned by the process that made it. It is not inherited through fork: a child's
bytes on the parent's connection would break it, so a child that calls memopt gets a service of its own.
"""

from __future__ import annotations

import atexit
import base64
import json
import logging
import os
import queue
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from . import _arena, _binary, _refusal, _scratch
from ._lastwords import LINES, LastWords
from .errors import BudgetError, MemoptError

PROTOCOL = 3
COOKIE = ("MEMOPT_PLUGIN_COOKIE", "keep-shrink-or-compute-again")
START_TIMEOUT = 30.0

# A socket's path has room for 107 bytes; the service names its socket plugin and up to ten digits.
MAX_FOLDER = 107 - len("/plugin4294967295")

_log = logging.getLogger("memopt")
_log.addHandler(logging.NullHandler())


class Host:
    """A running service. Thread-safe; every call has a deadline."""

    def __init__(self, binary: str | os.PathLike[str] | None = None, start_timeout: float = START_TIMEOUT) -> None:
        self.binary = _binary.find(binary)
        self._owner = os.getpid()
        self._last_words = LastWords()
        self._threads: list[threading.Thread] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Any = None
        self._folder = ""
        self._claim = -1  # a lock on it
        if os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower() in ("0", "false", "no"):
            _log.warning("GRPC_ENABLE_FORK_SUPPORT=0 lets forked workers break grpc calls of this process; unset it")
        try:
            self._start(start_timeout)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, request: Any, timeout: float | None, begun: Callable[[Any], None] | None = None) -> Any:
        """Calls a unary method of the service; any failure is a MemoptError. begun is called with the call, to cancel it."""
        import grpc

        if os.getpid() != self._owner:
            raise MemoptError(
                "this service belongs to the process that this one was forked from",
                code="FAILED_PRECONDITION",
                binary=self.binary,
                hint="call memopt.plan, which starts one for this process",
            )
        begin = time.monotonic()
        try:
            running = self._methods[method].future(request, timeout=timeout)
            try:
                if begun is not None:
                    begun(running)
                return running.result()
            except BaseException:
                running.cancel()  # an interrupt: the service goes on with nothing that nobody waits for
                raise
        except grpc.RpcError as e:
            code = e.code().name
            if code == "CANCELLED" and timeout is not None and time.monotonic() - begin >= 0.9 * timeout:
                code = "DEADLINE_EXCEEDED"  # the service's own clock ended the call a moment before ours
            if code == "FAILED_PRECONDITION":
                refused = _refusal.fields(e.trailing_metadata() or ())
                raise BudgetError(e.details() or "", code=code, binary=self.binary, **refused) from None
            failed = self._error(code, e.details() or "", timeout)
            failed.kind = str(dict(e.trailing_metadata() or ()).get("memopt-kind", ""))
            raise failed from None
        except grpc.FutureCancelledError:
            raise MemoptError("the call was given up", code="CANCELLED", binary=self.binary) from None
        except ValueError as e:  # grpc's word for a channel closed by another thread
            raise MemoptError(f"the memopt service was closed during a call ({e})", code="CANCELLED", binary=self.binary) from None

    def progress(self, job: str, ended: threading.Event) -> Iterator[tuple[str, float]]:
        """Yields the progress of the call with a job's name whenever it changes, until ended is set or the call ends."""
        import grpc

        from . import _messages

        stream = self._methods["Progress"](_messages.ProgressRequest(job=job))
        threading.Thread(target=lambda: (ended.wait(), stream.cancel()), name="memopt-progress-end", daemon=True).start()
        try:
            for note in stream:
                yield note.phase, note.done
        except (grpc.RpcError, ValueError):
            return  # the call that is watched says why

    def alive(self) -> bool:
        """Whether the service can be called from this process."""
        return os.getpid() == self._owner and self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the service."""
        assert self._process is not None
        return self._process.pid

    @property
    def folder(self) -> str:
        """The private folder of the socket."""
        return self._folder

    def close(self) -> None:
        """Ends the service and removes its folder. Does nothing in a process that does not own it."""
        if os.getpid() != self._owner:
            return
        process, channel = self._process, self._channel
        if channel is not None and process is not None and process.poll() is None:
            self._shutdown()
        if process is not None:
            assert process.stdin is not None
            _quietly(process.stdin.close)
            try:
                process.wait(2 if channel is not None else 0)  # what never spoke to us need not be waited for
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if channel is not None:
            channel.close()
        for thread in self._threads:
            thread.join(1)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._claim >= 0:
                os.close(self._claim)
                self._claim = -1

    def _start(self, timeout: float) -> None:
        certificate, key = self._client_certificate(timeout)
        self._folder, self._claim = _private_folder()
        env = {name: value for name, value in os.environ.items() if not name.startswith("PLUGIN_")}
        env[COOKIE[0]] = COOKIE[1]
        env["PLUGIN_PROTOCOL_VERSIONS"] = str(PROTOCOL)
        env["PLUGIN_CLIENT_CERT"] = certificate
        env["PLUGIN_UNIX_SOCKET_DIR"] = self._folder
        env["MEMOPT_PARENT_PID"] = str(os.getpid())
        arena = _arena.current().fileno()
        env[_arena.VARIABLE] = str(arena)
        try:
            self._process = subprocess.Popen(
                [self.binary, "serve"],
                stdin=subprocess.PIPE,  # held open; the service takes its end for ours
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                pass_fds=(arena,),
                start_new_session=True,  # Ctrl-C is for the trainer
            )
        except OSError as e:
            raise MemoptError(f"cannot start {self.binary}: {e}", code="NOT_STARTED", binary=self.binary) from None

        lines: queue.Queue[bytes] = queue.Queue(maxsize=1)
        self._drain(self._read_stdout, self._process.stdout, lines)
        self._drain(self._read_stderr, self._process.stderr)
        try:
            line = lines.get(timeout=timeout)
        except queue.Empty:
            raise self._not_started(f"{self.binary} serve did not answer within {timeout:g} s") from None
        target, server = self._parse_handshake(line)
        self._connect(target, server, certificate, key)

        from . import _messages

        self.info = self.call("Info", _messages.InfoRequest(), timeout)

    def _client_certificate(self, timeout: float) -> tuple[str, str]:
        """Lets the binary make the key pair, so that this package needs no cryptography library; it is never written to disk."""
        try:
            made = subprocess.run(
                [self.binary, "serve", "--gencert"], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout
            )
        except OSError as e:
            raise MemoptError(f"cannot start {self.binary}: {e}", code="NOT_STARTED", binary=self.binary) from None
        except subprocess.TimeoutExpired:
            raise self._not_started(f"{self.binary} serve --gencert did not answer within {timeout:g} s") from None
        end = "-----END CERTIFICATE-----\n"
        certificate, found, key = made.stdout.decode("ascii", "replace").partition(end)
        if made.returncode != 0 or not found or "PRIVATE KEY" not in key:
            raise MemoptError(
                f"{self.binary} serve --gencert gave no certificate",
                code="NOT_STARTED",
                returncode=made.returncode,
                stderr=tuple(made.stderr.decode("utf-8", "replace").splitlines()[-LINES:]),
                binary=self.binary,
                hint="is it a memopt binary of this version?",
            )
        return certificate + end, key

    def _parse_handshake(self, line: bytes) -> tuple[str, str]:
        """core protocol | app protocol | network | address | protocol | certificate"""
        fields = line.decode("utf-8", "replace").strip().split("|")
        if not line:
            raise self._not_started(f"{self.binary} serve ended before it was ready", wait=1)
        if len(fields) < 6 or fields[0] != "1" or fields[2] != "unix" or fields[4] != "grpc" or not fields[5]:
            raise self._not_started(f"{self.binary} serve wrote no handshake but {line[:200]!r}")
        if fields[1] != str(PROTOCOL):
            raise self._not_started(
                f"{self.binary} speaks protocol {fields[1]}, this package speaks {PROTOCOL}",
                hint="install the package and the binary from one release",
            )
        try:
            der = base64.b64decode(fields[5] + "=" * (-len(fields[5]) % 4), validate=True)
        except ValueError as e:
            raise self._not_started(f"{self.binary} serve sent a broken certificate: {e}") from None
        return "unix:" + fields[3], ssl.DER_cert_to_PEM_cert(der)

    def _connect(self, target: str, server: str, certificate: str, key: str) -> None:
        import grpc

        from . import _messages

        credentials = grpc.ssl_channel_credentials(server.encode(), key.encode(), certificate.encode())
        options = [
            ("grpc.ssl_target_name_override", "localhost"),
            ("grpc.default_authority", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),  # not shared with another channel of the trainer
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_metadata_size", 1 << 20),  # errors list everything that is wrong
            ("grpc.absolute_max_metadata_size", 1 << 20),
        ]
        self._channel = grpc.secure_channel(target, credentials, options)
        self._methods = {
            path.rsplit("/", 1)[1]: (self._channel.unary_stream if method.streams else self._channel.unary_unary)(
                path, request_serializer=method.request.SerializeToString, response_deserializer=method.response.FromString
            )
            for path, method in _messages.METHODS.items()
        }

    def _shutdown(self) -> None:
        """The service answers by closing the connection: an error here is success."""
        import grpc

        try:
            self._channel.unary_unary("/plugin.GRPCController/Shutdown")(b"", timeout=2)
        except (grpc.RpcError, ValueError):
            pass

    def _drain(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name="memopt-service-output", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _read_stdout(self, pipe: IO[bytes], lines: queue.Queue[bytes]) -> None:
        with pipe:
            lines.put(pipe.readline(65536))
            while pipe.read(65536):
                pass

    def _read_stderr(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(65536):
                level, text = _parse_log(line.decode("utf-8", "replace").rstrip())
                for part in text.splitlines():
                    self._last_words.add(part[:500])
                _log.getChild("plugin").log(level, "%s", text)

    def _ended(self, wait: float) -> int | None:
        """The error that the service has ended, after waiting a moment for its exit and its output."""
        assert self._process is not None
        try:
            code = self._process.wait(wait)
        except subprocess.TimeoutExpired:
            return None
        for thread in self._threads:
            thread.join(1)
        return code

    def _not_started(self, message: str, hint: str = "", wait: float = 0) -> MemoptError:
        code = self._ended(wait) if self._process is not None else None
        if code is not None:
            message += f" ({_how_it_ended(code)})"
        return MemoptError(
            message, code="NOT_STARTED", returncode=code, stderr=self._last_words.lines(), binary=self.binary, hint=hint
        )

    def _error(self, code: str, details: str, timeout: float | None) -> MemoptError:
        if code == "INVALID_ARGUMENT":
            return MemoptError(details, code=code, binary=self.binary)
        if code == "DEADLINE_EXCEEDED":
            return MemoptError(
                f"the memopt service did not answer within {timeout:g} s", code=code, binary=self.binary, hint="give a larger timeout"
            )
        ended = self._ended(2 if code == "UNAVAILABLE" else 0)  # the connection ends a moment before the process
        if ended is not None:
            return MemoptError(
                f"the memopt service ended during a call ({_how_it_ended(ended)})",
                code=code,
                returncode=ended,
                stderr=self._last_words.lines(),
                binary=self.binary,
                hint=_NO_MEMORY if self._last_words.tell_of_no_memory() else _hints.get(ended, "the next call starts a new one"),
            )
        if code == "UNAVAILABLE":
            details = f"cannot talk to the memopt service: {details}"
        return MemoptError(details, code=code, stderr=self._last_words.lines() if code == "INTERNAL" else (), binary=self.binary)


_NO_MEMORY = "memory ran out: free some, or raise the limit on it; the next call starts a new service"
_hints = {
    -signal.SIGKILL: "the system kills so when memory runs out; `dmesg` tells",
    2: "this is a bug in memopt; the lines below say where",
}


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


_levels = {"DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING, "ERROR": logging.ERROR}


def _parse_log(line: str) -> tuple[int, str]:
    """The service logs one JSON object a line; anything else is a print or the trace of a crash."""
    if line.startswith("{"):
        try:
            record = json.loads(line)
            record.pop("time", None)
            level, message = record.pop("level"), record.pop("msg")
            return _levels.get(level, logging.DEBUG), " ".join([f"{message}", *(f"{k}={v}" for k, v in record.items())])
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
    return logging.DEBUG, line


def _private_folder() -> tuple[str, int]:
    """A new folder of mode 0700 with a path short enough for a socket, and a lock on it."""
    tried = []
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), "/tmp", tempfile.gettempdir()):
        if not parent or not os.path.isabs(parent):
            continue
        if len(os.fsencode(parent)) + len("/memopt-12345678") > MAX_FOLDER:
            tried.append(f"{parent}: too long for a socket's path")
            continue
        try:
            return _scratch.claimed(parent)
        except OSError as e:
            tried.append(f"{parent}: {e.strerror}")
    raise MemoptError(
        "no folder for the service's socket:\n  " + "\n  ".join(tried), code="NOT_STARTED", hint="set XDG_RUNTIME_DIR or TMPDIR to a short path"
    )


def _quietly(action: Any) -> None:
    try:
        action()
    except OSError:  # the pipe's other end is gone
        pass


_lock = threading.Lock()
_current: Host | None = None
_inherited: list[Host] = []


def current() -> Host:
    """The service of this process: started on the first call, started again if it ended or another binary is asked for."""
    global _current
    with _lock:
        binary = _binary.find()
        if _current is None or not _current.alive() or _current.binary != binary:
            if _current is not None:
                _current.close()
                _current = None
            _current = Host(binary)
        return _current


def close() -> None:
    """Ends the service of this process, if one runs. The next call starts a new one."""
    global _current
    with _lock:
        if _current is not None:
            _current.close()
            _current = None


def _after_fork_in_child() -> None:
    # Kept, not dropped: destroying an inherited channel would speak on the parent's connection.
    global _current, _lock
    _lock = threading.Lock()
    if _current is not None:
        _inherited.append(_current)
        _current = None


atexit.register(close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
