"""A program laid out as numbers, as program.h reads it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..record.operators import Op
from ..replay.program import Instance, Program


def name_of(func: Any) -> str:
    """An operator's name, as the dispatcher has it."""
    overload = func._overloadname
    return str(func._schema.name) if overload == "default" else f"{func._schema.name}.{overload}"


def overload_of(name: str, overload: str) -> Any:
    """The operator of that name."""
    space, _, bare = name.partition("::")
    return getattr(getattr(getattr(torch.ops, space), bare), overload or "default")


def operators(program: Program) -> list[Op]:
    """What may run again, also of an earlier program of the step."""
    return list(dict.fromkeys([*program.again, *program.maker.values()]))


def layout(program: Program) -> tuple[list[str], array[int]]:
    """The operators' names, and the numbers."""
    names: dict[str, int] = {}
    out = _Numbers()
    recording, moves = program.recording, program.moves
    out.put(1 + max((v.number for v in _values(program)), default=-1), len(program.actions))
    captured = {at for op in program.maker.values() for at in op.calls}  # with what an earlier program of the step would run
    for i, action in enumerate(program.actions):
        out.put(names.setdefault(name_of(action.func), len(names)), action.captured or i in captured, -1 if moves is None else moves.calls.get(i, -1))
        out.list(action.reads)
        out.places(action.makes)
        out.places(action.writes)

    hooked = hooks(program)
    gaps = [[len(recording.saves), 0, False] for _ in range(len(program.actions) + 1)]
    for i, save in reversed(list(enumerate(recording.saves))):
        gap = gaps[save.calls]
        gap[0], gap[1], gap[2] = i, gap[1] + 1, gap[2] or i in hooked
    for gap in gaps:
        out.put(*gap)

    instances = list({id(s): s for s in program.source if s is not None}.values())
    numbered = {id(instance): i for i, instance in enumerate(instances)}
    out.put(len(recording.saves))
    for i, (save, kept, source, step) in enumerate(zip(recording.saves, program.kept, program.source, program.step_of, strict=True)):
        out.put(kept, save.value.number, -1 if source is None else numbered[id(source)], step)
        out.list(program.later.get(i, ()))
    out.put(len(instances))
    for instance in instances:
        out.put(instance.value.number, instance.last, instance.uses)

    again = operators(program)
    place = {id(op): i for i, op in enumerate(again)}
    out.put(len(again))
    for op in again:
        own = {v.number for v in op.outputs}
        out.put(len(op.calls))
        for at in op.calls:
            out.put(at)
            out.places([(i, v.number) for i, v in recording.calls[at].makes if v.number in own])
    out.places([(place[id(op)], number) for number, op in program.maker.items()])
    out.list(sorted(program.watched))
    out.list(sorted(program.held))
    out.list(program.before)
    out.put(len(program.events))
    for step in program.events:
        run = program.runs.get(step)
        out.put(step, -1 if run is None else place[id(run[0])])
        out.list([] if run is None else [made.value.number for made in run[1] if made.last > step])
        out.list(instance.value.number for instance in program.releases.get(step, ()))
    first = {step: found for step, all in program.releases.items() if (found := [i for i in all if not i.again])}
    out.put(len(first))
    for step, found in first.items():
        out.put(step)
        out.list(instance.value.number for instance in found)
    out.list(sorted(moves.numbers) if moves is not None else [])
    out.list(moves.steps if moves is not None else [])
    return list(names), out.all


def hooks(program: Program) -> set[int]:
    """Saves that must come by: those that are dropped, and for each step that is the first to ask behind an event or a move, one that tells of it."""
    asking: dict[int, int] = {}  # by step, a save
    for i, first in reversed(list(enumerate(program.step_of))):
        for step in (first, *program.later.get(i, ())):
            if step >= 0 and (step not in asking or program.kept[asking[step]] or not program.kept[i]):
                asking[step] = i
    found = {i for i, kept in enumerate(program.kept) if not kept}
    moved = program.moves.steps if program.moves is not None else []
    steps, events = sorted(asking), iter([*sorted({*program.events, *moved}), None])
    event = next(events)
    for step in steps:
        due = step in program.releases or step in moved
        while event is not None and event < step:
            due, event = True, next(events)
        if due:
            found.add(asking[step])
    passes = [*sorted(program.begins), len(program.actions)]
    for begin, end in zip(passes, passes[1:], strict=False):  # one of each forward pass that goes last, so that its graph holds the step
        own = [i for i, save in enumerate(program.recording.saves) if begin <= save.calls and (save.calls < end or end == passes[-1])]
        if own:
            found.add(max(own, key=lambda i: -1 if program.step_of[i] < 0 else program.step_of[i]))
    return found


def _values(program: Program) -> Iterable[Any]:
    for call in program.recording.calls:
        yield from call.reads
        yield from (v for _, v in [*call.makes, *call.writes])
    yield from (s.value for s in program.recording.saves)
    for op in program.recording.ops:
        yield from op.outputs


class _Numbers:
    def __init__(self) -> None:
        self.all = array("q")

    def put(self, *numbers: int) -> None:
        self.all.extend(map(int, numbers))

    def list(self, numbers: Iterable[int]) -> None:
        given = list(numbers)
        self.put(len(given), *given)

    def places(self, places: Sequence[tuple[int, int]]) -> None:
        self.put(len(places), *(x for place in places for x in place))


__all__ = ["Instance", "layout", "name_of", "operators", "overload_of"]
