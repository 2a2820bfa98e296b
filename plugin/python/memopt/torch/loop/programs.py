"""The programs that steps were seen to be, each with its plan; and steps for which no plan holds.

What a step is given says which programs it may be: those of earlier steps whose first pass was given the same. Which one it is, is
seen at the first operator that differs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..native.run import StepOf
from ..plan.report import StepReport
from ..record.record import Recording
from ..replay.program import Program, continued

MOST_PLANS = 16  # one for each shape of the inputs
MOST_PROGRAMS = 6  # for one shape
_MOST_RECORDINGS = 3  # in a row, where steps leave the recorded way each time
_RETRY = 16  # steps without a plan before the next try, and twice as many after each that fails


@dataclass(eq=False)
class Made:
    """A program and its plan."""

    program: Program | None  # None: everything is kept
    report: StepReport
    recording: Recording
    audits: int = 0  # planned steps whose dropped values are still to be compared with those made again
    turns: dict[tuple[int, int], Program] = field(default_factory=dict)  # what goes on as this one: by the program before, and the operator


@dataclass
class Tries:
    """How steps that begin in one way went."""

    recorded: int = 0  # in a row, without a step that went as recorded
    waits: int = 0  # steps until the next try
    pause: int = _RETRY
    again: bool = False  # the next step is recorded
    why: str = ""


class Programs:
    """By what the first pass of a step is given, and whether gradients are there before it: programs, the last met first."""

    def __init__(self) -> None:
        self.known: OrderedDict[Any, list[Made]] = OrderedDict()
        self.tries: dict[Any, Tries] = {}

    def __iter__(self) -> Iterator[Made]:
        for found in self.known.values():
            yield from found

    def copy(self) -> Programs:
        new = Programs()
        new.known = OrderedDict((key, list(found)) for key, found in self.known.items())
        return new

    def of(self, key: Any) -> list[Made]:
        return self.known.get(key, [])

    def first(self, key: Any) -> Made | None:
        """The program that a step is taken for when it begins."""
        found = self.known.get(key)
        return found[0] if found else None

    def add(self, key: Any, made: Made) -> None:
        """Takes note of a program, in the place of one that runs the same operators."""
        found = self.known.setdefault(key, [])
        found[:] = [made, *(other for other in found if not _same(other.recording, made.recording))][:MOST_PROGRAMS]
        self.known.move_to_end(key)
        if len(self.known) > MOST_PLANS:
            self.known.popitem(last=False)

    def replace(self, made: Made, by: Made) -> None:
        for found in self.known.values():
            found[:] = [by if other is made else other for other in found]

    def met(self, key: Any, made: Made) -> None:
        """A step went as a program says."""
        tries = self.tries.get(key)
        if tries is not None and not tries.again:
            del self.tries[key]
        found = self.known.get(key, [])
        if found and found[0] is not made and made in found:
            found.remove(made)
            found.insert(0, made)

    def other(self, key: Any, step: StepOf, func: Any, of: Any = None) -> tuple[Made, Program] | None:
        """A program that has run the same operators as a step so far, and goes on with this one, with this forward pass, or with
        the backward pass; and how it goes on from there."""
        at = step.calls if func is None else step.calls - 1
        for made in self.known.get(key, []):
            p = made.program
            if p is None or p is step.program or p.recording is step.program.recording or not _agree(step.program.recording, made.recording, at):
                continue
            begin = p.begins.get(at)
            if func is not None:
                goes_on = at < len(p.actions) and p.actions[at].func is func
            elif of is not None:
                goes_on = begin is not None and begin.of == of
            else:
                goes_on = at in p.before and (begin is None or at == len(p.actions))
            if not goes_on:
                continue
            turn = (id(step.program), at)
            if turn not in made.turns:
                made.turns[turn] = continued(step.program, p, at, step.saves)
            return made, made.turns[turn]
        return None

    # Steps for which no plan holds.

    def left(self, key: Any, why: str) -> bool:
        """A step went as no known program does. Whether the next one is to be recorded; else no plan holds for such steps."""
        tries = self.tries.setdefault(key, Tries())
        tries.why = why
        if tries.recorded >= _MOST_RECORDINGS:
            self.give_up(key, why)
            return False
        tries.again = True
        return True

    def give_up(self, key: Any, why: str) -> None:
        tries = self.tries.setdefault(key, Tries())
        tries.why, tries.recorded, tries.again = why, _MOST_RECORDINGS - 1, False
        tries.waits, tries.pause = tries.pause, min(16 * _RETRY, 2 * tries.pause)

    def without(self, key: Any) -> Tries | None:
        """How long steps go without a plan. Each one that does is counted."""
        tries = self.tries.get(key)
        if tries is None or tries.waits == 0:
            return None
        tries.waits -= 1
        if tries.waits == 0:
            tries.again = True
        return tries

    def records(self, key: Any) -> bool:
        """Whether the next step is recorded, whatever is known."""
        tries = self.tries.get(key)
        return tries is not None and tries.again

    def recorded(self, key: Any) -> None:
        tries = self.tries.setdefault(key, Tries())
        tries.recorded, tries.again = tries.recorded + 1, False


def _same(a: Recording, b: Recording) -> bool:
    """Whether two recordings are of the same program."""
    return len(a.calls) == len(b.calls) and a.begins == b.begins and a.ends == b.ends and _agree(a, b, len(a.calls)) and a.accumulates == b.accumulates


def _agree(a: Recording, b: Recording, calls: int) -> bool:
    """Whether the first operators are the same, on the same values."""
    if len(a.calls) < calls or len(b.calls) < calls or [x for x in a.begins if x.calls < calls] != [x for x in b.begins if x.calls < calls]:
        return False
    for x, y in zip(a.calls[:calls], b.calls[:calls], strict=True):
        if x.func is not y.func or [v.number for v in x.reads] != [v.number for v in y.reads] or [(i, v.number) for i, v in x.makes] != [(i, v.number) for i, v in y.makes]:
            return False
    return True
