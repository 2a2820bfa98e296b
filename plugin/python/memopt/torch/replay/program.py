"""A plan of a recorded step, compiled into actions at operator calls, saves and uses of saved tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ..record.again import OUTSIDE
from ..record.operators import Begin, Op, Value
from ..record.record import Recording
from .moves import Moves


@dataclass(eq=False)
class Instance:
    """One computation of a value. It is dropped after step last."""

    value: Value
    made: int
    again: bool
    last: int = -1
    uses: int = 0  # of saved tensors, at step last


@dataclass(eq=False)
class Action:
    """The actions at one operator call."""

    func: Any
    reads: list[int]  # of each tensor operand: the value that its storage carries, or OUTSIDE
    captured: bool = False  # its arguments are kept for a second run
    makes: list[tuple[int, int]] = field(default_factory=list)  # tensors of the result by position: watched values
    writes: list[tuple[int, int]] = field(default_factory=list)  # tensor operands by position: the values they are afterwards
    plain: bool = True  # nothing of that


@dataclass
class Program:
    """The actions of a whole step."""

    recording: Recording
    steps: list[Mapping[str, Any]] = field(default_factory=list)  # of the plan
    watched: set[int] = field(default_factory=set)  # values whose storages carry their number
    actions: list[Action] = field(default_factory=list)  # by call
    held: dict[int, Instance] = field(default_factory=dict)  # first instances that later runs read, by value
    kept: list[bool] = field(default_factory=list)  # by save: the tensor itself is kept
    source: list[Instance | None] = field(default_factory=list)  # by save: what a dropped one is made from
    step_of: list[int] = field(default_factory=list)  # by save: the step that asks for it, -1 if none does
    later: dict[int, list[int]] = field(default_factory=dict)  # by save: the steps that ask for it in later backward passes
    before: list[int] = field(default_factory=list)  # by step of the backward passes: the calls of forward passes that come before it
    begins: dict[int, Begin] = field(default_factory=dict)  # forward passes, by the calls before them
    runs: dict[int, tuple[Op, list[Instance]]] = field(default_factory=dict)  # second runs by step: the operator, and what it makes
    releases: dict[int, list[Instance]] = field(default_factory=dict)  # by step: instances that it reads last
    events: list[int] = field(default_factory=list)  # steps with runs or releases, in order
    maker: dict[int, Op] = field(default_factory=dict)  # of what runs again, by value
    moves: Moves | None = None  # what goes elsewhere and comes back
    native: Any = None  # the same, as the native module reads it

    @property
    def again(self) -> list[Op]:
        """The operators that run again, each once."""
        return list(dict.fromkeys(op for op, _ in self.runs.values()))


def build(
    recording: Recording, steps: Sequence[Mapping[str, Any]], calls: int = 0, tagged: Set[int] = frozenset(), moves: Moves | None = None
) -> Program:
    """Compiles a plan's steps and moves for the recording. The first calls ran under another program, which has storages carry what is tagged."""
    ops, saves = recording.ops, recording.saves
    p = Program(recording, list(steps), begins={begin.calls: begin for begin in recording.begins}, moves=moves)
    away = moves.numbers if moves is not None else set()
    coming: dict[int, list[Value]] = {}  # by step: what begins to come back before it
    leaving: dict[int, list[Value]] = {}  # and what begins to leave, which it may do a second time
    by_number = {v.number: v for op in ops for v in op.outputs} if moves is not None else {}
    for m in moves.moves if moves is not None else ():
        coming.setdefault(m.comes, []).append(by_number[m.number])
        leaving.setdefault(m.out, []).append(by_number[m.number])
    current: dict[Value, Instance] = {}
    firsts: dict[int, Instance] = {}  # by save: what the first of several backward passes reads
    asked: dict[Op, list[int]] = {}
    for i, save in enumerate(saves):
        for op in save.used:
            asked.setdefault(op, []).append(i)
    p.kept = [True] * len(saves)
    p.source = [None] * len(saves)
    p.step_of = [-1] * len(saves)

    came: list[Instance] = []

    def read(value: Value, at: int) -> Instance | None:
        instance = current.get(value)
        if instance is not None and at > instance.last:
            instance.last, instance.uses = at, 0
        return instance

    for s, step in enumerate(steps):
        op = ops[step["node"]]
        again = bool(step.get("again"))
        p.before.append(recording.ends[op.turn] if op.backward else 0)
        for value in leaving.get(s, ()):
            read(value, s)
        for value in coming.get(s, ()):
            p.held.setdefault(value.number, current[value])
            current[value] = back = Instance(value, s, True)
            came.append(back)
        for value in op.inputs:
            instance = read(value, s)
            if again and instance is not None and not instance.again:
                p.held[value.number] = instance
        for i in asked.get(op, ()) if not again else ():
            if p.step_of[i] < 0:
                p.step_of[i] = s
            else:
                p.later.setdefault(i, []).append(s)
            instance = read(saves[i].value, s)
            if instance is not None:
                instance.uses += 1
                if instance.again:
                    p.kept[i], p.source[i] = False, instance
                elif len(saves[i].used) > 1:
                    firsts[i] = instance
        if again:
            made = [Instance(v, s, True) for v in op.outputs]
            p.runs[s] = op, made
        else:
            made = [Instance(v, s, False) for v in op.outputs]
        for instance in made:
            current[instance.value] = instance

    p.held.update((instance.value.number, instance) for i, instance in firsts.items() if not p.kept[i])
    again_ops = {op for op, _ in p.runs.values()}
    for i, save in enumerate(saves):  # nobody asked for these when the step was recorded
        maker = save.value.maker
        if p.step_of[i] < 0 and (maker is not None and not maker.once and maker in again_ops or save.value.number in away):
            p.kept[i] = False
    captured: set[int] = set()
    for op, made in p.runs.values():
        captured.update(op.calls)
        p.maker.update((v.number, op) for v in op.outputs)
        p.watched.update(v.number for v in [*op.inputs, *op.outputs] if v.maker is not None)
        for instance in made:
            if instance.last > instance.made:  # others are read by nobody, and not stored
                p.releases.setdefault(instance.last, []).append(instance)
    for instance in p.held.values() if not recording.keeps else ():
        if instance.value.number not in away:  # those go where the plan says
            p.releases.setdefault(instance.last, []).append(instance)
    for instance in came:
        p.releases.setdefault(instance.last, []).append(instance)
    p.watched |= away
    p.events = sorted({*p.runs, *p.releases})
    p.watched.update(saves[i].value.number for i in range(len(saves)) if not p.kept[i])
    shown: set[int] = set()  # values whose storages carry their number already
    for i, call in enumerate(recording.calls):
        if i == calls:
            shown = set(tagged)
        reads = [v.number if v.number in shown and (v.number in p.watched or v.number in tagged) else OUTSIDE for v in call.reads]
        action = Action(call.func, reads, i in captured)
        for at, value in call.writes:
            action.writes.append((at, value.number))
            shown.add(value.number)
        for at, value in call.makes:
            if value.number in p.watched and value.number not in shown:
                action.makes.append((at, value.number))
                shown.add(value.number)
        action.plain = not (action.captured or action.makes or action.writes or moves is not None and i in moves.calls)
        p.actions.append(action)
    return p


def continued(before: Program, program: Program, calls: int, kept: Sequence[bool]) -> Program:
    """A program as it goes on for a step that ran its first operators under another one, which agrees so far; kept: what that one has
    kept of the saved tensors so far, and autograd has all that came behind those.

    What the other one has dropped is made again as that one would, and what it has not taken down cannot run again.
    """
    recording = program.recording
    tagged = {v for i in range(calls) for _, v in [*before.actions[i].makes, *before.actions[i].writes] if v in before.watched}
    saves = [*kept, *[True] * len(recording.saves)][: max(len(kept), sum(save.calls <= calls for save in recording.saves))]
    dropped = {save.value for save, there in zip(recording.saves, saves, strict=False) if not there}
    can: dict[Op, bool] = {}

    def there(value: Value) -> bool:
        """Whether a second run can read it."""
        maker = value.maker
        return maker is None or maker.backward or not maker.calls or value.number in before.held or any(c >= calls for c in maker.calls) or can.get(maker, False)

    for op in recording.ops:
        early = [c for c in op.calls if c < calls]
        can[op] = not op.backward and not op.once and all(before.actions[c].captured for c in early) and all(there(v) for v in op.inputs)
    steps: list[dict[str, Any]] = []
    place = {op: i for i, op in enumerate(recording.ops)}
    again: set[Value] = set()  # whose second instance is there

    def ensure(value: Value) -> None:
        """Has a value there that nobody holds."""
        maker = value.maker
        if value in again or maker is None or maker not in place or not can[maker] or not any(c < calls for c in maker.calls) or value.number in before.held and value not in dropped:
            return
        again.update(maker.outputs)
        for v in maker.inputs:
            ensure(v)
        steps.append({"node": place[maker], "again": True})

    asked: dict[Op, list[Value]] = {}
    for save in recording.saves:
        for op in save.used:
            asked.setdefault(op, []).append(save.value)
    for step in program.steps:
        op = recording.ops[step["node"]]
        if step.get("again"):
            if not can[op]:
                continue
            for v in op.inputs:
                ensure(v)
            again.update(op.outputs)
        else:
            for v in asked.get(op, ()):
                if v in dropped:
                    ensure(v)
        steps.append(dict(step))
    p = build(recording, steps, calls, tagged)
    p.kept[: len(saves)] = saves[: len(p.kept)]
    for number, op in before.maker.items():
        if all(at < calls for at in op.calls):
            p.maker.setdefault(number, op)
    return p
