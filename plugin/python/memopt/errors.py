"""The exceptions of memopt."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._visible import line, lines


class MemoptError(Exception):
    """A request to memopt failed.

    message     what went wrong
    kind        if a model is at fault: "broken", "graph", "external" or "unsupported"; else ""
    code        gRPC's status code ("INVALID_ARGUMENT", "UNAVAILABLE", …), or "NOT_STARTED", "NOT_FOUND"
    returncode  if the service has ended: its exit code, or minus the signal
    stderr      its last lines of output, or the first of a crash, if they can help
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

    def __reduce__(self) -> tuple[Any, ...]:  # pickle would lose keyword arguments
        return _rebuild, (type(self), self.message, {k: v for k, v in vars(self).items() if k != "message"})


class Floor(NamedTuple):
    """The lower bound of the peak of any plan."""

    peak: int  # bytes of the arena, or of all memory where the budget counts that
    node: str  # the node that needs it
    op: str = ""  # its operator
    module: str = ""  # its part of the model, "" if unknown


class Change(NamedTuple):
    """A change of the request that makes a plan possible."""

    setting: str  # as arguments of memopt.plan: 'budget="65MiB"', with other settings that it needs
    share: float  # how large a change that is
    settings: dict[str, str]  # the same by name; of dims only those that change


class Memory(NamedTuple):
    """The state of memory that does not suffice, in bytes."""

    requested: int
    for_: str  # what the memory was requested for
    in_use: int  # in chunks of the arena, or on the device
    reserved: int  # all memory held
    largest_hole: int  # largest free chunk of the arena
    limit: int  # 0: no limit, the system is out of memory
    largest_owners: tuple[tuple[str, int], ...]  # the three owners that hold most, or the largest parts of a step


class BudgetError(MemoptError):
    """No plan meets the request, or there is too little memory. The message names the floor and the node that needs it; the fields
    are as follows. want, best and the floor count what the budget that was asked for counts: all memory for budget, which can be
    set to best, and the arena for activation_budget, which then can.

    want     bytes of the budget
    best     bytes of the lowest plan found; 0 if the request fails for another reason than bytes
    fixed    bytes outside the arena: parameters, optimizer states, inputs
    floor    the lower bound of any plan, a Floor, or None if unknown
    changes  changes of the request, each of which would fit: a tuple of Change
    note     a hint at a mistake, or at what was not computed
    memory   if memory did not suffice: a Memory, else None
    binds    for a module's step: what sets the floor, "loss", "block", "gradients" or "parameters"
    module   the path of the module there, and op, its operator
    ran_out  of a step that ran out of memory: the first tensor that did not fit, and who held what; else None
    """

    def __init__(
        self, message: str, *, want: int = 0, best: int = 0, fixed: int = 0, floor: Floor | None = None, changes: tuple[Change, ...] = (),
        note: str = "", memory: Memory | None = None, binds: str = "", module: str = "", op: str = "", ran_out: Any = None, **fields: Any,
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
        self.ran_out = ran_out

    def counting(self, more: int, message: str | None = None) -> BudgetError:
        """The same where the budget counts so many bytes more."""
        floor = self.floor._replace(peak=self.floor.peak + more) if self.floor is not None else None
        known = {k: v for k, v in vars(self).items() if k != "message"}
        return BudgetError(message or self.message, **{**known, "want": self.want + more, "best": self.best + more if self.best else 0, "floor": floor})


def _rebuild(kind: type[MemoptError], message: str, fields: dict[str, Any]) -> MemoptError:
    return kind(message, **fields)
