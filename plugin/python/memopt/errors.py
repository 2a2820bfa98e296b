"""What memopt raises."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._visible import line, lines


class MemoptError(Exception):
    """Something memopt was asked for did not happen.

    message     what went wrong, as the service or the host says it
    kind        of a model: "broken", "graph", "external" or "unsupported"; "" where that is not known
    code        gRPC's name for the kind ("INVALID_ARGUMENT", "UNAVAILABLE", …), or "NOT_STARTED", "NOT_FOUND"
    returncode  how the service ended, if it did: its exit code, or minus the signal
    stderr      the last lines it wrote, or the first of a crash, where they can help
    binary      the path of the service
    hint        what to try
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "UNKNOWN",
        returncode: int | None = None,
        stderr: tuple[str, ...] = (),
        binary: str = "",
        hint: str = "",
        kind: str = "",
    ) -> None:
        message = lines(message)
        super().__init__(message)
        self.message = message
        self.code = code
        self.returncode = returncode
        self.stderr = tuple(map(line, stderr))
        self.binary = binary
        self.hint = hint
        self.kind = kind

    def __str__(self) -> str:
        lines = [self.message]
        if self.hint:
            lines.append("hint: " + self.hint)
        if self.stderr:
            lines.append(f"{self.binary} wrote:")
            lines += ["  " + line for line in self.stderr]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:  # keyword arguments would be lost on the way to another process
        return _rebuild, (type(self), self.message, {k: v for k, v in vars(self).items() if k != "message"})


class Floor(NamedTuple):
    """What no plan goes below."""

    peak: int  # bytes of the arena
    node: str  # that holds it
    op: str = ""  # its operator
    module: str = ""  # and the part of the model that it belongs to, "" if that is not known


class Change(NamedTuple):
    """A change of the request under which there is a plan."""

    setting: str  # as arguments of memopt.plan: 'budget="65MiB"', with what comes with it
    share: float  # how large a change that is
    settings: dict[str, str]  # the same by name, as memopt.plan takes them; of dims those that change


class Memory(NamedTuple):
    """What a limit, an arena or a device said that has too little memory, in bytes."""

    requested: int
    for_: str  # what was to have it
    in_use: int  # of the arena's chunks, or of the device
    reserved: int  # all that is held
    largest_hole: int  # of the arena
    limit: int  # 0: none, the system has no more
    largest_owners: tuple[tuple[str, int], ...]  # the three who hold most, or of a step the parts that take most


class BudgetError(MemoptError):
    """No plan can do what was asked, or there is too little memory; the message has the floor and what holds it. For code it is in fields:

    want     bytes of the arena that budgets leave
    best     those of the lowest plan found; 0 if it is not for bytes that there is none
    fixed    bytes beside the arena: parameters, optimizer states, inputs
    floor    what no plan goes below, a Floor, or None where none is known
    changes  what would fit, one of them each: a tuple of Change
    note     what may have been meant, or was not computed
    memory   what refused, where that is no budget but memory: a Memory, else None
    binds    of a module's step: what sets the floor, "loss", "block", "gradients" or "parameters"
    module   its path, and op, its operator
    """

    def __init__(
        self, message: str, *, want: int = 0, best: int = 0, fixed: int = 0, floor: Floor | None = None, changes: tuple[Change, ...] = (),
        note: str = "", memory: Memory | None = None, binds: str = "", module: str = "", op: str = "", **fields: Any,
    ) -> None:  # fmt: skip
        super().__init__(message, **fields)
        self.want = want
        self.best = best
        self.fixed = fixed
        self.floor = floor
        self.changes = changes
        self.note = note
        self.memory = memory
        self.binds = binds
        self.module = module
        self.op = op


def _rebuild(kind: type[MemoptError], message: str, fields: dict[str, Any]) -> MemoptError:
    return kind(message, **fields)
