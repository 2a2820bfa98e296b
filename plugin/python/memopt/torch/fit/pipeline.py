"""The schedules of a pipeline: what each rank runs in which order, what it holds meanwhile, and when all are done.

A rank has one or more stages of the layers, and runs forward and backward passes of microbatches through them. Zero-bubble schedules
split a backward pass: first what the stage before waits for, the gradient of the input, and later the gradients of parameters, where the
rank would wait otherwise. Until then all that autograd kept stays, and what comes into each layer's backward pass, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

FORWARD, BACKWARD, INPUT, WEIGHT = "F", "B", "I", "W"  # a pass; the last two are the parts of a backward pass


@dataclass(frozen=True)
class Pass:
    """A pass of a microbatch through a stage."""

    kind: str
    stage: int
    micro: int


@dataclass(frozen=True)
class Held:
    """What a stage holds of one microbatch: the most during each kind of pass, and what is left of it."""

    during: Mapping[str, int]
    after: Mapping[str, int]


def _one_by_one(ranks: int, rank: int, virtual: int, micro: int) -> Iterator[Pass]:
    ahead = min(micro, ranks - rank)
    for i in range(micro + ahead):
        if i >= ahead:
            yield Pass(BACKWARD, rank, i - ahead)
        if i < micro:
            yield Pass(FORWARD, rank, i)


def _all_forward(ranks: int, rank: int, virtual: int, micro: int) -> Iterator[Pass]:
    yield from (Pass(FORWARD, rank, i) for i in range(micro))
    yield from (Pass(BACKWARD, rank, i) for i in range(micro))


def _in_rounds(ranks: int, rank: int, virtual: int, micro: int, split: bool) -> Iterator[Pass]:
    """Rounds of as many microbatches as ranks go through the rank's stages in turn."""
    row = micro // max(1, micro // ranks)  # microbatches of a round

    def place(k: int, back: bool) -> tuple[int, int]:
        turn = k // row % virtual
        return (virtual - 1 - turn if back else turn) * ranks + rank, k // (row * virtual) * row + k % row

    total = virtual * micro
    ahead = min((virtual - 1) * row + (1 if split else 2) * (ranks - 1 - rank), total)
    for k in range(total + ahead):
        if k < total:
            yield Pass(FORWARD, *place(k, False))
        if k >= ahead:
            yield Pass(INPUT if split else BACKWARD, *place(k - ahead, True))
            if split and k - ahead >= rank:
                yield Pass(WEIGHT, *place(k - ahead - rank, True))
    if split:
        yield from (Pass(WEIGHT, *place(k, True)) for k in range(max(0, total - rank), total))


def _interleaved(ranks: int, rank: int, virtual: int, micro: int) -> Iterator[Pass]:
    return _in_rounds(ranks, rank, virtual, micro, False)


def _split(ranks: int, rank: int, virtual: int, micro: int) -> Iterator[Pass]:
    return _in_rounds(ranks, rank, virtual, micro, True)


def _there_and_back(ranks: int, rank: int, virtual: int, micro: int) -> Iterator[Pass]:
    """Stages lie along the ranks there and back, so that the first rank has the first and the last of them."""
    stages = rank, 2 * ranks - 1 - rank
    count = {(kind, side): 0 for kind in (FORWARD, INPUT, WEIGHT) for side in (0, 1)}
    whole = max(2 * ranks - 1, micro)  # with those that fill the pipeline, and are left out

    def run(side: int, *kinds: str) -> Iterator[Pass]:
        for kind in kinds:
            if count[kind, side] < micro:
                yield Pass(kind, stages[side], count[kind, side])
            count[kind, side] += 1

    for _ in range(2 * (ranks - rank) - 1):
        yield from run(0, FORWARD)
    for _ in range(rank):
        yield from run(1, FORWARD)
        yield from run(0, FORWARD)
    for _ in range(ranks - rank):
        yield from run(1, FORWARD, INPUT, WEIGHT)
    while count[FORWARD, 1] < count[FORWARD, 0] or count[FORWARD, 0] < whole:
        if count[FORWARD, 0] < whole:
            yield from run(0, FORWARD)
        yield from run(0, INPUT, WEIGHT)
        yield from run(1, FORWARD, INPUT, WEIGHT)
    for _ in range(rank):
        yield from run(0, INPUT)
        yield from run(1, INPUT)
    for _ in range(ranks - rank):
        yield from run(0, INPUT, WEIGHT)
    for side in (1, 0):
        while count[WEIGHT, side] < count[INPUT, side]:
            yield from run(side, WEIGHT)


@dataclass(frozen=True)
class Schedule:
    """How the ranks of a pipeline take turns."""

    name: str
    says: str
    of: Callable[[int, int, int, int], Iterator[Pass]]
    names: tuple[str, ...] = ()  # that others have for it
    virtual: int = 1  # stages of a rank, where nothing else is said
    fixed: bool = True  # whether there can be no other number of them

    def order(self, ranks: int, rank: int, virtual: int, micro: int) -> list[Pass]:
        return list(self.of(ranks, rank, virtual, micro))

    def stages(self, ranks: int, rank: int, virtual: int) -> list[int]:
        """The stages of a rank."""
        return [rank, 2 * ranks - 1 - rank] if self.of is _there_and_back else [i * ranks + rank for i in range(virtual)]

    def check(self, ranks: int, virtual: int | None, micro: int) -> int:
        """The stages of a rank. Raises where the schedule cannot be run so."""
        found = virtual or self.virtual
        if self.fixed and found != self.virtual:
            raise ValueError(f"virtual is {virtual}, and schedule={self.name} has {'one stage' if self.virtual == 1 else f'{self.virtual} stages'} a rank")
        if self.of in (_interleaved, _split) and micro % max(1, micro // ranks):
            raise ValueError(f"microbatches is {micro}, which schedule={self.name} cannot divide into {micro // ranks} equal rounds: give a multiple of pipeline={ranks}")
        return found


SCHEDULES = {
    s.name: s
    for s in (
        Schedule("1f1b", "one forward and one backward pass in turn", _one_by_one),
        Schedule("gpipe", "all forward passes first", _all_forward),
        Schedule("interleaved", "rounds through several stages a rank", _interleaved, ("interleaved1f1b",), 2, False),
        Schedule("zb-h1", "gradients of parameters later", _split, ("interleavedzerobubble", "zb1p", "zbh1"), 1, False),
        Schedule("zbv", "stages there and back, gradients of parameters later", _there_and_back, ("zbvzerobubble",), 2),
    )
}


def schedule_of(name: str) -> Schedule:
    """A schedule by our name, or by PyTorch's."""
    plain = name.lower()
    found = SCHEDULES.get(plain) or next((s for s in SCHEDULES.values() if plain in s.names), None)
    if found is None:
        near = get_close_matches(plain, SCHEDULES, 1)
        raise ValueError(f"schedule is {name!r}; there are {', '.join(SCHEDULES)}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


def most(order: Sequence[Pass], held: Mapping[int, Held], arrived: Mapping[Pass, int] | None = None, edge: int = 0) -> tuple[int, int, Pass | None]:
    """The peak of a rank: its bytes, those of them that other microbatches hold than the one that runs, and the pass. held is by stage; what
    comes from other ranks, arrived before so many passes, is there from then on, of so many bytes."""
    alive: dict[tuple[int, int], int] = {}
    total = peak = others = 0
    at: Pass | None = None
    waits = [0] * (len(order) + 1)  # messages that are there and not read, at each pass
    for i, step in enumerate(order):
        if arrived is not None and step in arrived:
            waits[min(arrived[step], i)] += 1
            waits[i] -= 1
    waiting = 0
    for i, step in enumerate(order):
        waiting += waits[i]
        key = step.stage, step.micro
        rest = total - alive.get(key, 0)
        now = rest + held[step.stage].during[step.kind] + waiting * edge
        if now > peak:
            peak, others, at = now, rest + waiting * edge, step
        alive[key] = held[step.stage].after[step.kind]
        total = rest + alive[key]
    return peak, others, at


def _sender(step: Pass, last: int) -> Pass | None:
    """The pass of another stage whose result a pass reads."""
    if step.kind == FORWARD and step.stage > 0:
        return Pass(FORWARD, step.stage - 1, step.micro)
    if step.kind in (BACKWARD, INPUT) and step.stage < last:
        return Pass(step.kind, step.stage + 1, step.micro)
    return None


def arrivals(orders: Sequence[Sequence[Pass]]) -> dict[Pass, int]:
    """By pass that reads what another rank sends: how many passes its rank had run by then, of ranks that take as long for each."""
    rank_of = {step.stage: rank for rank, order in enumerate(orders) for step in order}
    last = max(rank_of)
    readers = {sender: step for order in orders for step in order if (sender := _sender(step, last)) is not None}
    done: set[Pass] = set()
    at = [0] * len(orders)
    found: dict[Pass, int] = {}
    while any(i < len(order) for i, order in zip(at, orders, strict=True)):
        for rank, order in enumerate(orders):
            if at[rank] == len(order):
                continue
            step = order[at[rank]]
            sender = _sender(step, last)
            if sender is not None and sender not in done:
                continue
            done.add(step)
            at[rank] += 1
            reader = readers.get(step)
            if reader is not None and rank_of[reader.stage] != rank:
                found[reader] = at[rank_of[reader.stage]]
    return found


def flight(order: Sequence[Pass]) -> int:
    """The most microbatches that a rank holds at a time, counted by stage."""
    alive: set[tuple[int, int]] = set()
    found = 0
    for step in order:
        if step.kind == FORWARD:
            alive.add((step.stage, step.micro))
            found = max(found, len(alive))
        elif step.kind in (BACKWARD, WEIGHT):
            alive.discard((step.stage, step.micro))
    return found


def finished(orders: Sequence[Sequence[Pass]], takes: Callable[[Pass], float], send: float) -> float:
    """When the last rank is done: each runs its passes in order, and waits for what other stages send, which takes so long each time."""
    rank_of = {step.stage: rank for rank, order in enumerate(orders) for step in order}
    last = max(rank_of)
    done: dict[Pass, float] = {}
    clocks = [0.0] * len(orders)
    at = [0] * len(orders)

    def ready(step: Pass, rank: int) -> float | None:
        """When its input is there; None: its sender has not run."""
        sender = _sender(step, last)
        if sender is None:
            return 0.0
        when = done.get(sender)
        return None if when is None else when + (send if rank_of[sender.stage] != rank else 0.0)

    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                step = order[at[rank]]
                when = ready(step, rank)
                if when is None:
                    break
                clocks[rank] = done[step] = max(clocks[rank], when) + takes(step)
                at[rank] += 1
                moved = True
    if any(i < len(order) for i, order in zip(at, orders, strict=True)):
        raise AssertionError("a pipeline's ranks wait for each other")
    return max(clocks)
