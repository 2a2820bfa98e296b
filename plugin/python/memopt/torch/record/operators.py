"""What a recorded step consists of: values, the operators that make them, calls, and saved tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..ranks.units import Unit

BETWEEN = -1  # the first pass of the step and the second; between later ones it is one less each time

# The profiler's spans of a recording.
CALL = "memopt call "
FORWARD = "memopt forward"
BACKWARD = "memopt backward"
AGAIN = "memopt again"
GONE = "memopt gone "


@dataclass(eq=False)
class Value:
    """A version of a storage."""

    number: int
    bytes: int
    shape: list[int]
    dtype: str
    maker: Op | None  # None: an input
    kind: str = ""  # of an input: param, buffer or data
    source: str = ""
    address: int = 0  # of the storage
    call: int = 0  # the call that made or wrote it
    next: Value | None = None  # the version that took its place in the storage
    read: bool = False
    showing: int = 0  # tensors of the forward pass that show it and are still there
    released: int = 0  # the call in or after which the last of those that are gone went, or BETWEEN and less
    died: int = 0  # when the allocator got it back, if that is known from the start
    held: Op | None = None  # its first bytes live at least until this has run
    name: str = ""

    @property
    def latest(self) -> Value:
        """The current version of its storage."""
        value = self
        while value.next is not None:
            value = value.next
        return value


@dataclass(eq=False)
class Op:
    """A node: an operator with those that write into its output, or all operators of one backward node."""

    op: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)  # of the step, by position
    flops: int = 0
    once: bool = False  # may not run again
    backward: bool = False
    module: str = ""
    workspace: int = 0
    time: int = 0  # when it began, of one that nobody saw
    turn: int = 0  # the pass of the step that it belongs to, forward and backward ones counted together
    units: tuple[Unit, ...] = ()  # whose parameters it reads
    name: str = ""


@dataclass(eq=False)
class Call:
    """An operator call of the forward pass, as the dispatcher sees it."""

    func: Any
    reads: list[Value]  # of each tensor operand
    makes: list[tuple[int, Value]]  # tensors of the result by position, and the values that they are
    writes: list[tuple[int, Value]]  # tensor operands by position, and the values that they are afterwards


@dataclass(frozen=True)
class Begin:
    """A forward pass of the step begins."""

    of: Any  # the module, its method, and what else the pass depends on
    calls: int  # of the step before it


@dataclass(eq=False)
class Save:
    """A tensor that autograd saved: after how many calls, of which value, and where backward passes ask for it."""

    calls: int
    value: Value
    used: list[Op] = field(default_factory=list)  # one for each backward pass that comes to it


def draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator draws random numbers. Attention is tagged so whatever its dropout is."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for i, a in enumerate(func._schema.arguments):
        if a.name == "dropout_p":
            return bool((args[i] if i < len(args) else kwargs.get(a.name, a.default_value)) != 0)
    return True
