"""Work space, live ranges and the peak of a recorded step, from the allocator's events."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from .measure import device_of
from .operators import AGAIN, BACKWARD, BETWEEN, CALL, FORWARD, GONE, Op, Value
from .recorder import Recorder

END = 1 << 62
_LEAST = 512  # bytes that are worth an operator: numbers that autograd saves are not


@dataclass(eq=False)
class Allocation:
    """Bytes that were allocated within the step."""

    bytes: int
    born: int
    died: int = END


def fill(recorder: Recorder) -> None:
    """Fills in what a recorder cannot see: work space, what the loss allocates, how long values are held, and the peak."""
    _Lifetimes(recorder).fill()
    recorder.settle()


class _Lifetimes:
    def __init__(self, recorder: Recorder) -> None:
        self.r = recorder
        events, spans = recorder.events.read(device_of(recorder.model))
        ours: list[tuple[int, int]] = []  # second runs, which the step does not have by itself; one may be within another
        for begin, end in sorted(spans.get(AGAIN, [])):
            if not ours or begin > ours[-1][1]:
                ours.append((begin, end))
        self.allocations: list[Allocation] = []  # by birth
        self.at: dict[int, list[Allocation]] = {}  # by address
        self.nodes: list[tuple[int, int]] = []  # when backward nodes ran
        self.passes = sorted([(*span, False) for span in spans[FORWARD]] + [(*span, True) for span in spans[BACKWARD]])
        self.begin, self.end = self.passes[0][0], self.passes[-1][1]
        self.calls = {int(name.removeprefix(CALL)): found[0] for name, found in spans.items() if name.startswith(CALL)}
        live: dict[int, Allocation] = {}
        for f in recorder.followed:
            if f.before:
                live[f.address] = Allocation(f.bytes, self.begin)
                self.allocations.append(live[f.address])
                self.at.setdefault(f.address, []).append(live[f.address])
        for time, address, size in events:
            i = bisect.bisect_right(ours, (time, END)) - 1
            if i >= 0 and time <= ours[i][1]:
                continue
            if size > 0:
                live[address] = Allocation(size, time)
                self.allocations.append(live[address])
                self.at.setdefault(address, []).append(live[address])
            elif address in live:  # else it was there before the step
                live.pop(address).died = time
        self.followed: set[int] = set()
        for i, f in enumerate(recorder.followed):
            gone = spans.get(f"{GONE}{i}", [(END, END)])[0][0]
            for a in reversed(self.at.get(f.address, [])):
                if a.born < gone:
                    a.died = gone
                    self.followed.add(id(a))
                    break
        self.births = [a.born for a in self.allocations]

    def fill(self) -> None:
        r = self.r
        placed = [op for op in r.ops if op.calls]
        spans: dict[Op, list[tuple[int, int]]] = {}
        for op in placed:
            known = spans[op] = [self.calls[c] for c in op.calls if c in self.calls]
            if op.backward and known:
                spans[op] = [(known[0][0], known[-1][1])]
                self.nodes += spans[op]
        loose = self._unseen()
        # Work space that libraries keep for ever, as of cuBLAS, is there before every later step.
        of_values = {id(self._allocation(v)) for v in r.values}
        lasting = [a for a in self.allocations if a.died == END and id(a) not in of_values and id(a) not in loose]
        r.lasting = sum(a.bytes for a in lasting)
        for a in lasting:
            a.bytes = 0
        for op, known in spans.items():
            op.workspace = _highest([a for begin, end in known for a in self._born(begin, end)])
        r.peak = _highest(self._born(self.begin, self.end))
        self._hold(placed)

    def _born(self, begin: int, end: int) -> list[Allocation]:
        return self.allocations[bisect.bisect_left(self.births, begin) : bisect.bisect_right(self.births, end)]

    def _allocation(self, value: Value) -> Allocation | None:
        """The allocation of a value: the one at its address when it was made or first seen."""
        begin, end = self.calls.get(value.call, (self.end, self.end))
        found = self.at.get(value.address, [])
        i = bisect.bisect_right([a.born for a in found], end) - 1
        return found[i] if i >= 0 and found[i].died > begin else None

    def _unseen(self) -> set[int]:
        """Turns allocations outside recorded operators into operators with known bytes only: one between the passes,
        for the loss, and within them one for each run of allocations in which no older one is freed."""
        marks: list[tuple[int, int, int, Allocation | None]] = [(begin, 2, end, None) for begin, end in [*self.calls.values(), *self.nodes]]
        seen = {id(lies): v for v in self.r.inputs if v.kind == "data" and v not in self.r.sharded and (lies := self._allocation(v)) is not None}
        for a in self._born(self.begin, self.end):
            if a.died == END and id(a) not in seen and self._gap(a.born) > 0 and any(back for _, end, back in self.passes if end <= a.born):
                a.bytes = 0  # states that the optimizer makes in its first step, which is before every later one
            marks += [(a.born, 0, 0, a), (a.died, 1, 0, a)]
        lost: set[int] = set()  # another thread freed them, once their collective was done
        if self.r.windows.units:
            lost = {id(a) for address, found in self.at.items() if address not in self.r.kept for a in found if a.died == END and id(a) not in self.followed}
        covered = 0
        groups: list[list[Allocation]] = []
        group: list[Allocation] = []  # the last, where it goes on
        for time, what, end, one in sorted(marks, key=lambda m: m[:2]):
            if one is None:
                covered, group = max(covered, end), []
            elif what == 1:
                if group and one.born < group[0].born and self._gap(time) < 0:
                    group = []
            elif time > covered and (one.bytes >= _LEAST or self._gap(time) >= 0):
                if not group or self._gap(time) != self._gap(group[0].born):
                    group = []
                    groups.append(group)
                group.append(one)
                if id(one) in lost and self._gap(time) < 0:
                    one.died = one.born + 1
        r = self.r
        times = list(itertools.accumulate((self._time(op) for op in r.ops), max))
        name = "outside.sharding" if r.windows.units else "outside.unseen"
        for group in reversed(groups):
            born, gap = group[0].born, self._gap(group[0].born)
            op = Op(name, once=True, backward=any(back for begin, end, back in self.passes if begin <= born < end), workspace=_highest(group), time=born)
            until = group[-1].born  # what is gone by then is work space
            if gap >= 0:
                op.op, until = "outside.loss", self.passes[gap + 1][0]
                op.inputs = [v for turn, v in r.results if turn <= gap and (gap == 0 or (lies := self._allocation(v)) is not None and lies.died > born)]
            for a in group:
                value = seen.get(id(a))
                if value is not None:  # an operator that was seen read it
                    r.inputs.remove(value)
                    value.maker, value.kind = op, ""
                elif a.died > until:
                    value = Value(len(r.values), a.bytes, [a.bytes], "uint8", op)
                    r.values.append(value)
                else:
                    continue
                value.died = a.died
                op.outputs.append(value)
            r.ops.insert(bisect.bisect_left(times, op.time), op)
        return {id(a) for group in groups for a in group}

    def _gap(self, time: int) -> int:
        """The passes that a time is between, by the number of the first; or -1."""
        i = bisect.bisect_right(self.passes, (time, END, True)) - 1
        return i if 0 <= i < len(self.passes) - 1 and self.passes[i][1] <= time else -1

    def _time(self, op: Op) -> int:
        """The time of an operator: of its last call, for a backward node of its first."""
        return op.time or self.calls[op.calls[0] if op.backward else op.calls[-1]][0]

    def _hold(self, placed: list[Op]) -> None:
        """The time until which the first bytes of each value live whatever a plan drops."""
        r = self.r
        place = {op: i for i, op in enumerate(r.ops)}
        calls = [op.calls[0] if op.backward else op.calls[-1] for op in placed]
        op_of = {call: op for op in placed for call in op.calls}

        def at_call(call: int) -> int:
            if call in op_of:  # of an operator that a later call wrote into, which stands at that one's place
                return place[op_of[call]]
            i = bisect.bisect_right(calls, call) - 1
            return place[placed[i]] if i >= 0 else 0

        starts = sorted([(begin, at_call(call)) for call, (begin, _) in self.calls.items()] + [(op.time, place[op]) for op in r.ops if op.time])
        times = [begin for begin, _ in starts]

        def in_gap(gap: int) -> int:
            """The last operator before the next pass."""
            if gap >= len(self.passes) - 1:
                return len(r.ops) - 1
            i = bisect.bisect_left(times, self.passes[gap + 1][0]) - 1
            return max((at for _, at in starts[: i + 1]), default=0)

        def at_time(time: int) -> int:
            if time == END:
                return len(r.ops) - 1
            gap = self._gap(time)
            if gap >= 0:
                return gaps[gap]
            i = bisect.bisect_right(times, time) - 1
            return starts[i][1] if i >= 0 else 0

        gaps = [in_gap(gap) for gap in range(len(self.passes))]
        last_read = dict.fromkeys(range(len(r.values)), -1)
        last_read_forward = dict(last_read)
        for i, op in enumerate(r.ops):
            for v in op.inputs:
                last_read[v.number] = i
                if not op.backward:
                    last_read_forward[v.number] = i
        saved = {s.value.number for s in r.saves}
        if r.within is not None and r.within.dropping:
            saved |= r.within.pinned  # held by the recorder
        for v in r.values:
            if v.maker is None or v.next is not None:
                continue
            if v.died:
                until = at_time(v.died)
            elif v.number in saved:
                # Autograd holds it from here on, or not, as the plan says. Python lets go of it before or after.
                until = len(r.ops) - 1 if v.showing else gaps[BETWEEN - v.released] if v.released <= BETWEEN else at_call(v.released)
            else:
                a = self._allocation(v)
                until = at_time(a.died) if a is not None else 0
            until = max(until, last_read_forward[v.number])
            if until > place[v.maker] and (not v.maker.backward or until > last_read[v.number]):
                v.held = r.ops[until]


def _highest(allocations: Iterable[Allocation]) -> int:
    """The most bytes that are allocated at once."""
    events = sorted(e for a in allocations for e in ((a.born, a.bytes), (a.died, -a.bytes)))
    live = most = 0
    for _, size in events:
        live += size
        most = max(most, live)
    return most
