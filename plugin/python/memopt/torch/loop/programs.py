"""The programs that steps were seen to be, each with its plan; and steps for which no plan holds.

What a step is given says which programs it may be: those of earlier steps whose first pass was given the same. Which one it is, is
seen at the first operator that differs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..plan.budget import host_memory
from ..plan.report import StepReport
from ..plan.sized import At
from ..record.record import Recording
from ..replay.program import Program, continued
from ..replay.replay import Passes
from .lengths import Planned

MOST_PROGRAMS = 6  # for one shape
_MOST_FRESH = 4  # programs in a row, each of them new
_RECORDS = 4  # steps that are recorded behind one that was no known program
_LOOK_BACK = 8  # steps that tell what the next one is
_NODE = 8 << 10  # about the bytes of a recorded operator in the host's memory, with its calls, values and node
_MOST_KEYS = 4096  # a counter among the arguments makes one a step
_RETRY = 16  # steps without a plan before the next try, and twice as many after each that fails


@dataclass(eq=False)
class Made:
    """A program and its plan."""

    program: Program | None  # None: everything is kept
    report: StepReport
    recording: Recording
    audits: int = 0  # planned steps whose dropped values are still to be compared with those made again
    at: At | None = None  # the program at the sizes of these steps
    planned: Planned | None = None  # its plan, which may be shared with other sizes
    version: int = 0  # of all plans, when this one was chosen
    limit: int = 0
    turns: dict[tuple[int, int], Program] = field(default_factory=dict)  # what goes on as this one: by the program before, and the operator
    looks: int = 4  # steps whose results are still to be looked at
    instead: Made | None = None  # what takes its place if the loop lets go of them


@dataclass
class Tries:
    """How steps that begin in one way went."""

    steps: int = 0
    fresh: int = 0  # programs that were met since a step last went as one that was known
    records: int = 0  # how many of the next steps are recorded, until one is a new program
    left: int = -1  # the last step that went as no known program does
    due: int = -1  # when the next one is to be expected
    waits: int = 0  # steps without a plan until the next try
    pause: int = _RETRY
    why: str = ""
    went: deque[int] = field(default_factory=lambda: deque(maxlen=64))  # what the last steps were, by id


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
        """The program that a step is taken for when it begins: what came behind steps like the last ones, or the last one met."""
        found = self.known.get(key)
        if not found or len(found) == 1:
            return found[0] if found else None
        went = list(self.tries[key].went) if key in self.tries else []
        best, longest = -1, 0
        for i in range(len(went) - 1, 0, -1):
            n = 0
            while n < min(i, _LOOK_BACK) and went[i - 1 - n] == went[-1 - n]:
                n += 1
            if n > longest:
                best, longest = i, n
        return next((made for made in found if longest and id(made) == went[best]), found[0])

    def add(self, key: Any, made: Made, seen: bool = True) -> None:
        """Takes note of a program, in the place of one that runs the same operators; of one that no such step was seen to be as the last."""
        found = self.known.setdefault(key, [])
        self.known.move_to_end(key)
        while len(self.known) > 1 and (len(self.known) > _MOST_KEYS or self._nodes() * _NODE > host_memory() // 20):
            self.tries.pop(self.known.popitem(last=False)[0], None)
        others = [other for other in found if not _same(other.recording, made.recording)]
        for other in found:
            if other not in others:
                made.recording.native = other.recording.native  # it runs the same operators
        if not seen:
            found[:] = [*others, made][-MOST_PROGRAMS:]
            return
        tries = self.tries.setdefault(key, Tries())
        for other in found:
            if other not in others:
                tries.went = deque((id(made) if one == id(other) else one for one in tries.went), tries.went.maxlen)
        if len(others) == len(found):
            tries.fresh, tries.records = tries.fresh + 1, 0
        tries.went.append(id(made))
        found[:] = [made, *others][:MOST_PROGRAMS]

    def _nodes(self) -> int:
        """How many recorded operators are held: sizes of one program share them."""
        return sum({id(made.recording.ops): len(made.recording.ops) for made in self}.values())

    def replace(self, made: Made, by: Made) -> None:
        for found in self.known.values():
            found[:] = [by if other is made else other for other in found]

    def met(self, key: Any, made: Made) -> None:
        """A step went as a program says."""
        tries = self.tries.setdefault(key, Tries())
        tries.fresh, tries.pause = 0, _RETRY
        tries.went.append(id(made))
        found = self.known.get(key, [])
        if found and found[0] is not made and made in found:
            found.remove(made)
            found.insert(0, made)

    def other(self, key: Any, step: Passes, func: Any, of: Any = None) -> tuple[Made, Program] | None:
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
                made.turns[turn] = continued(step.program, p, at, step.kept(at))
            return made, made.turns[turn]
        return None

    def record(self, key: Any) -> None:
        """Has the next step recorded, whatever is known."""
        self.tries.setdefault(key, Tries()).records = 1

    # Steps for which no plan holds.

    def left(self, key: Any, why: str) -> bool:
        """A step went as no known program does. Whether the next ones are to be recorded; else no plan holds for such steps."""
        tries = self.tries.setdefault(key, Tries())
        tries.why = why
        if tries.fresh >= _MOST_FRESH:
            self.give_up(key, why)
            return False
        tries.records = _RECORDS
        if tries.left >= 0:
            tries.due = 2 * tries.steps - tries.left
        tries.left = tries.steps
        return True

    def give_up(self, key: Any, why: str) -> None:
        tries = self.tries.setdefault(key, Tries())
        tries.why, tries.fresh, tries.records = why, _MOST_FRESH - 1, 0
        tries.waits, tries.pause = tries.pause, min(16 * _RETRY, 2 * tries.pause)

    def learnt(self, key: Any) -> None:
        """There is another program that the next step may be: it need not be recorded."""
        if key in self.tries:
            self.tries[key].records = 0

    def begin(self, key: Any) -> Tries:
        """A step begins. It goes without a plan while it waits, and is recorded, whatever is known, while it records."""
        tries = self.tries.setdefault(key, Tries())
        tries.steps += 1
        if tries.waits:
            tries.waits -= 1
            tries.records = int(tries.waits == 0)
        elif tries.steps == tries.due:
            tries.records = max(1, tries.records)
        return tries


def _same(a: Recording, b: Recording) -> bool:
    """Whether two recordings are of the same program."""
    return len(a.calls) == len(b.calls) and _later(a, len(a.calls)) == _later(b, len(b.calls)) and a.ends == b.ends and _agree(a, b, len(a.calls)) and a.accumulates == b.accumulates


def _agree(a: Recording, b: Recording, calls: int) -> bool:
    """Whether the first operators are the same, on the same values."""
    if len(a.calls) < calls or len(b.calls) < calls or _later(a, calls) != _later(b, calls):
        return False
    if a.calls is b.calls:
        return True
    for x, y in zip(a.calls[:calls], b.calls[:calls], strict=True):
        if x.func is not y.func or [v.number for v in x.reads] != [v.number for v in y.reads] or [(i, v.number) for i, v in x.makes] != [(i, v.number) for i, v in y.makes]:
            return False
    return True


def _later(recording: Recording, calls: int) -> list[Any]:
    """Where forward passes behind the first begin, of which programs are known to be given the same."""
    return [begin for begin in recording.begins[1:] if begin.calls < calls]
