"""What a plan moves elsewhere and back: compiled for the steps of a program, and done in one of them."""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from ..elsewhere.engine import Engine, Place
from ..elsewhere.spill import SpillError
from ..record.again import digest
from ..record.record import Recording

_unseen = torch._C._DisableTorchDispatch
OUT, GONE, IN, BACK = range(4)  # what happens before a step of the plan, in this order
_SLOW = 0.05  # of a step's time, lost to copies, is told of


@dataclass(frozen=True)
class Move:
    """The plan's steps before which a value's copy out begins and has ended, and its copy back begins and has ended; its bytes lie at an offset elsewhere."""

    number: int
    bytes: int
    out: int
    gone: int
    comes: int
    back: int
    far: int
    dtype: torch.dtype | None = None  # of a value's numbers, where they are rounded
    turn: int = 0  # among those that are rounded before one step
    there: bool = False  # it came back before, and its place has kept its bytes
    stays: bool = False  # its place keeps its bytes when it comes back


@dataclass
class Moves:
    """The moves of a program."""

    engine: Engine
    moves: list[Move]
    device: torch.device
    place: str = "disk"
    promised: int = 0  # ns that a step waits for copies
    tell: Callable[[str, str], None] = lambda about, text: None
    room: int = 0  # bytes elsewhere
    events: list[tuple[int, int, int]] = field(default_factory=list)  # the plan's step, what happens, which move; in order
    calls: dict[int, int] = field(default_factory=dict)  # by call of the forward pass: the last step of the plan whose events come before it

    @property
    def numbers(self) -> set[int]:
        return {m.number for m in self.moves}

    @property
    def steps(self) -> list[int]:
        """The plan's steps before which something happens, in order."""
        return sorted({s for s, _, _ in self.events})


def compiled(recording: Recording, steps: Sequence[Mapping[str, Any]], moves: Sequence[Mapping[str, Any]], engine: Engine, device: torch.device) -> Moves:
    """The moves of a plan, of which each is of a value that an operator of the forward pass makes."""
    named = {v.name: v for op in recording.ops if not op.backward for v in op.outputs if v.name}
    found = [
        Move(v.number, int(m["bytes"]), int(m["out"]), int(m["gone"]), int(m["in"]), int(m["back"]), int(m["far"]), None if engine.exact else getattr(torch, v.dtype), m.get("turn", 0))
        for m in moves
        for v in [named[m["value"]]]
    ]
    if not engine.exact:
        found = [replace(m, there=any(o.number == m.number and o.out < m.out for o in found), stays=any(o.number == m.number and o.out > m.out for o in found)) for m in found]
    room = max((m.far + m.bytes for m in found), default=0)
    if any(m.far % engine.block or m.bytes % engine.block for m in found):
        found, room = _packed(found, engine.block)
    p = Moves(engine, found, device, room=room)
    heard, used = _heard(recording, steps), _used(recording, steps, p.numbers)
    p.events = [(s, what, k) for k, m in enumerate(found) for what, s in enumerate((*_in_time(m, used[m.number], heard), m.comes, m.back))]
    # Copies that are over when they return are made one by one, as the plan has them; of others, all that can be are under way at once.
    p.events.sort(key=lambda e: (e[0], e[1], e[2]) if engine.exact else (e[0], e[1] >= IN, found[e[2]].turn if e[1] < IN else 0, e[2], e[1]))
    # A step of the plan that repeats an operator belongs to the next one that does not.
    calls: list[int] = [-1] * len(steps)  # by step: the call before which its events come, or −1 for those of a backward pass
    call = -1
    for s in reversed(range(len(steps))):
        op = recording.ops[steps[s]["node"]]
        if not steps[s].get("again"):
            call = -1 if op.backward else min(op.calls, default=call)
        calls[s] = call
    for s, _, _ in p.events:
        if calls[s] >= 0:
            p.calls[calls[s]] = max(s, p.calls.get(calls[s], -1))
    return p


def _heard(recording: Recording, steps: Sequence[Mapping[str, Any]]) -> list[int]:
    """The plan's steps of which a replay hears before they run, in order: operators of forward passes, and backward nodes that ask for what was saved."""
    asks = {op for save in recording.saves for op in save.used}
    return [s for s, step in enumerate(steps) if not step.get("again") and ((op := recording.ops[step["node"]]) in asks or not op.backward and op.calls)]


def _used(recording: Recording, steps: Sequence[Mapping[str, Any]], numbers: Set[int]) -> dict[int, list[int]]:
    """By value: the steps that make it or ask a replay for it, in order. Operators of a forward pass have what they read."""
    asked: dict[Any, set[int]] = {}
    for save in recording.saves:
        for op in save.used:
            asked.setdefault(op, set()).add(save.value.number)
    found: dict[int, list[int]] = {number: [] for number in numbers}
    for s, step in enumerate(steps):
        op = recording.ops[step["node"]]
        touched = {v.number for v in op.outputs} | ({v.number for v in op.inputs} if step.get("again") else asked.get(op, set()))
        for number in touched & numbers:
            found[number].append(s)
    return found


def _in_time(m: Move, used: Sequence[int], heard: Sequence[int]) -> tuple[int, int]:
    """The steps before which a value leaves and is gone. Of a loss outside of the module, and of nodes that saved nothing, a replay hears
    only behind them, when they have taken the memory that the value was to free: it is gone at the last step before them that is heard of."""

    def before(step: int, least: int) -> int:
        at = bisect.bisect_right(heard, step) - 1
        last = bisect.bisect_left(used, step) - 1
        return heard[at] if at >= 0 and heard[at] >= least and heard[at] > used[last] else step

    out = before(m.out, 0)
    return out, before(m.gone, out)


def _packed(moves: Sequence[Move], block: int) -> tuple[list[Move], int]:
    """The same at offsets of whole blocks."""
    done: dict[int, Move] = {}
    for k in sorted(range(len(moves)), key=lambda k: -moves[k].bytes):
        m = moves[k]
        size, at = -(-m.bytes // block) * block, 0
        for o in sorted((o for o in done.values() if o.out <= m.back and m.out <= o.back), key=lambda o: o.far):
            if at + size <= o.far:
                break
            at = max(at, o.far + -(-o.bytes // block) * block)
        done[k] = replace(m, far=at)
    room = max((m.far + -(-m.bytes // block) * block for m in done.values()), default=0)
    return [done[k] for k in range(len(moves))], room


class Held(Protocol):
    """The storages that a step holds, by value."""

    def get(self, number: int, /) -> torch.UntypedStorage | None: ...

    def pop(self, number: int, default: None, /) -> Any: ...

    def __setitem__(self, number: int, storage: torch.UntypedStorage, /) -> None: ...


class Moving:
    """The moves of one step. store has the storages that it holds, and bits tells the digests of values, of a step that is audited."""

    def __init__(self, moves: Moves, store: Held, bits: Callable[[int], int | None]) -> None:
        self.moves, self.store, self.bits = moves, store, bits
        self.next = 0  # of the events
        self.room: Place | None = None
        self.copies: dict[int, tuple[Any, torch.Tensor]] = {}  # by move: what to wait for, and the memory that it uses
        self.away: dict[int, tuple[int, Place]] = {}  # by value: its move, and where it is
        self.kept: dict[int, Place] = {}  # by value that is here: where its bytes are, too
        self.began, self.waited = time.perf_counter_ns(), 0  # ns

    def __del__(self) -> None:
        for copy, _ in self.copies.values():  # of a step that was given up, whose room another one takes
            with contextlib.suppress(SpillError):
                self.moves.engine.wait(copy)
        if self.room is not None:
            self.moves.engine.give_back(self.room)

    def until(self, step: int) -> None:
        """Does what comes before a step of the plan, and before those before it."""
        events = self.moves.events
        with _unseen(), torch.no_grad():
            while self.next < len(events) and events[self.next][0] <= step:
                _, what, k = events[self.next]
                self.next += 1
                (self._out, self._gone, self._in, self._back)[what](k, self.moves.moves[k])
                if self.next == len(events):
                    self._over()

    def _over(self) -> None:
        """Everything is back: says what a place that is slower than promised has cost."""
        took, lost = time.perf_counter_ns() - self.began, self.waited - self.moves.promised
        if lost > _SLOW * took:
            self.moves.tell(
                "slow",
                f"memopt: a step waited {self.waited / 1e6:.3g} ms for copies, where {self.moves.promised / 1e6:.3g} were promised: the {self.moves.place} is slower than the profile "
                f"says, and {lost / took:.0%} of the step's {took / 1e6:.3g} ms are lost to it",
            )

    def _wait(self, copy: Any) -> None:
        begin = time.perf_counter_ns()
        self.moves.engine.wait(copy)
        self.waited += time.perf_counter_ns() - begin

    def fetch(self, number: int) -> torch.UntypedStorage | None:
        """A value that is away, out of order."""
        if number not in self.away:
            return None
        with _unseen(), torch.no_grad():
            k, _ = self.away[number]
            if k not in self.copies:
                self._in(k, self.moves.moves[k])
            self._back(k, self.moves.moves[k])
        return self.store.get(number)

    def _out(self, k: int, m: Move) -> None:
        storage = self.store.get(m.number)
        if storage is None or storage.nbytes() > m.bytes:
            return  # somebody resized it: it stays
        engine = self.moves.engine
        if self.room is None:
            self.room = engine.place(self.moves.room)
        near = storage_bytes(storage, self.moves.device)
        place = self.kept.pop(m.number, None) if m.there else None
        if place is None:
            place = engine.part(self.room, m.far, near.nbytes)
            place.dtype = m.dtype
            copy = engine.leave(near, place)
        else:
            copy = None
        self.copies[k] = copy, near
        self.away[m.number] = k, place

    def _gone(self, k: int, m: Move) -> None:
        if k in self.copies:
            copy, _ = self.copies.pop(k)
            self._wait(copy)
            self.store.pop(m.number, None)

    def _in(self, k: int, m: Move) -> None:
        if m.number in self.away and self.store.get(m.number) is None:
            _, place = self.away[m.number]
            near = storage_bytes(torch.UntypedStorage(place.nbytes, device=self.moves.device), self.moves.device)
            if m.stays:
                self.kept[m.number] = place.twin()
            self.copies[k] = self.moves.engine.come(place, near), near

    def _back(self, k: int, m: Move) -> None:
        if k in self.copies:
            copy, near = self.copies.pop(k)
            self._wait(copy)
            storage = self.store[m.number] = near.untyped_storage()
            del self.away[m.number]
            was = self.bits(m.number)
            if was is not None and self.moves.engine.exact and was != digest(storage):
                raise RuntimeError(f"memopt: a value of {m.bytes:,} B came back with other bits than it left with: what it was moved to is not to be trusted")


def storage_bytes(storage: torch.UntypedStorage, device: torch.device) -> torch.Tensor:
    """A storage as a tensor of bytes."""
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)  # type: ignore[call-overload,no-any-return]
