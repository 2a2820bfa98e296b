"""What a plan costs at least, by a solver of mixed integer programs: the planner's problem (memopt/planner/recompute) written a second time.

A launch that writes a value makes an instance, which lives to its last reader; held values live to the end, in their first instance.
Operators run for the first time in their order; in between, some run again. Two programs say so:

ordered   has a place for every launch that there may be: before each operator, so many rounds of all that may run again, in their
          order. What it finds is a list of launches, and every list of launches is among what it looks through once the rounds are
          enough. It is for small programs.
staged    only looks at the backward pass: what is there before each of its operators, and what runs again for it, in whatever order
          fits; bytes count while an operator runs for the first time. Any list of launches obeys that, so what it finds is a lower
          bound for all of them, and the optimum where the launches it stands for replay within the limit.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import highspy
import numpy as np


@dataclass
class Problem:
    """A program in numbers, as recompute.Problem has them."""

    cost: list[float] = field(default_factory=list)
    work: list[int] = field(default_factory=list)
    again: list[bool] = field(default_factory=list)
    inputs: list[list[int]] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    over: list[list[int]] = field(default_factory=list)
    border: int = 0
    bytes: list[int] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)

    def value(self, size: int, held: bool) -> int:
        self.bytes.append(size)
        self.held.append(held)
        return len(self.bytes) - 1

    def operator(self, cost: float, work: int, again: bool, inputs: list[int], outputs: list[int], over: list[int]) -> None:
        self.cost.append(cost)
        self.work.append(work)
        self.again.append(again)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        self.over.append(over)

    def maker(self) -> dict[int, int]:
        return {v: op for op, outputs in enumerate(self.outputs) for v in outputs}


def replay(p: Problem, launches: list[int]) -> tuple[int, float]:
    """The peak and the extra cost of launches: instances with their lives, counted one by one."""
    newest: dict[int, int] = {}  # by value: its instance
    made: list[int] = []  # by instance: the launch that writes it,
    last: list[int] = []  # the last that reads it,
    of: list[int] = []  # and its value
    ran: set[int] = set()
    extra = 0.0
    first: list[int | None] = []  # by launch: the instance of its first output
    under: list[list[int]] = []  # by launch: instances that it may lie over
    for k, op in enumerate(launches):
        if op in ran:
            assert p.again[op], f"operator {op} runs again"
            extra += p.cost[op]
        else:
            assert op == len(ran), f"operator {op} runs before {len(ran)}"
        for v in p.inputs[op]:
            last[newest[v]] = k
        under.append([newest[v] for v in p.over[op]])
        first.append(len(of) if p.outputs[op] else None)
        for v in p.outputs[op]:
            if v not in newest or not p.held[v]:
                newest[v] = len(of)
            made.append(k)
            last.append(k)
            of.append(v)
        ran.add(op)
    assert len(ran) == len(p.cost), "not all operators run"
    for v, i in newest.items():
        if p.held[v]:
            last[i] = len(launches)
    alive = [p.work[op] for op in launches]
    for i, v in enumerate(of):
        for k in range(made[i], min(last[i], len(launches) - 1) + 1):
            alive[k] += p.bytes[v]
    for k, i in enumerate(first):
        if i is not None and any(last[j] == k for j in under[k]):
            alive[k] -= p.bytes[of[i]]
    return max(alive, default=0), extra


class Program:
    """A mixed integer program, row by row."""

    def __init__(self) -> None:
        self.price: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.whole: list[bool] = []
        self.start, self.index, self.factor = [0], [], []
        self.most: list[float] = []

    def column(self, price: float = 0, low: float = 0, high: float = 1, whole: bool = True) -> int:
        self.price.append(price)
        self.low.append(low)
        self.high.append(high)
        self.whole.append(whole)
        return len(self.price) - 1

    def at_most(self, most: float, *terms: tuple[float, int | None]) -> None:
        """The sum of factors times columns is at most so much; None is a column that is 0."""
        row: dict[int, float] = defaultdict(float)
        for factor, column in terms:
            if column is not None:
                row[column] += factor
        self.index += row.keys()
        self.factor += row.values()
        self.start.append(len(self.index))
        self.most.append(most)

    def solve(self) -> tuple[float, list[float]] | None:
        """The least price, with the columns; None if nothing obeys the rows."""
        h = highspy.Highs()
        for option, to in {"output_flag": False, "threads": 1, "mip_rel_gap": 1e-7, "mip_abs_gap": 1e-7}.items():
            h.setOptionValue(option, to)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.price), len(self.most)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.array(self.price), np.array(self.low), np.array(self.high)
        lp.row_lower_, lp.row_upper_ = np.full(len(self.most), -highspy.kHighsInf), np.array(self.most)
        lp.integrality_ = [highspy.HighsVarType.kInteger if w else highspy.HighsVarType.kContinuous for w in self.whole]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(self.start), np.array(self.index), np.array(self.factor)
        h.passModel(lp)
        h.run()
        status = h.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        assert status == highspy.HighsModelStatus.kOptimal, status
        return h.getInfo().objective_function_value, list(h.getSolution().col_value)


def ordered(p: Problem, limit: int, rounds: int) -> tuple[float, list[int]] | None:
    """The cheapest launches within limit that make so many rounds before an operator, with their extra cost."""
    m = Program()
    there: list[int | None] = [None] * len(p.bytes)  # by value: the column that says so
    slots: list[tuple[int, int]] = []  # operators, and the columns of their launches
    ran: set[int] = set()
    for place in range(len(p.cost)):
        for op in [*(o for _ in range(rounds) for o in range(place) if p.again[o]), place]:
            again = op in ran
            x = m.column(p.cost[op] if again else 0, low=0 if again else 1)
            slots.append((op, x))
            for v in p.inputs[op]:
                m.at_most(0, (1, x), (-1, there[v]))
            after = list(there)
            for v in range(len(p.bytes)):
                writes = v in p.outputs[op]
                if there[v] is not None or writes:
                    after[v] = m.column(low=1 if p.held[v] else 0)
                    m.at_most(0, (1, after[v]), (-1, there[v]), (-1, x if writes else None))
            touched = {*p.inputs[op], *p.outputs[op]}
            terms = [(p.bytes[v], after[v]) for v in range(len(p.bytes)) if v not in touched]
            terms += [(p.bytes[v], x) for v in touched]
            terms.append((p.work[op], x))
            if again:  # a copy beside what stays where it was made first
                terms += [(p.bytes[v], x) for v in p.outputs[op] if p.held[v]]
            if p.over[op]:
                dies = m.column(whole=False)
                m.at_most(0, (1, dies), (-1, x))
                m.at_most(len(p.over[op]), (1, dies), *((1, after[v]) for v in p.over[op]))
                terms.append((-p.bytes[p.outputs[op][0]], dies))
            m.at_most(limit, *terms)
            there = after
            ran.add(op)
    found = m.solve()
    return found and (found[0], [op for op, x in slots if found[1][x] > 0.5])


def rounds_of(launches: list[int]) -> int:
    """How many rounds a list of launches takes before an operator, at most."""
    ran: set[int] = set()
    most, now, before = 0, 0, math.inf
    for op in launches:
        if op not in ran:
            ran.add(op)
            now, before = 0, math.inf
            continue
        now += op <= before
        before = op
        most = max(most, now)
    return most


def staged(p: Problem, limit: int) -> tuple[float, list[int]] | None:
    """What launches within limit cost extra at least, and the launches that this stands for."""
    maker = p.maker()
    ops, border = len(p.cost), p.border
    late = [v for v in maker if maker[v] >= border]
    early = [v for v in maker if maker[v] < border]
    assert not any(p.again[border:]) and not any(p.over), "only a forward pass runs again here, and nothing lies over anything"
    # The last stage at which a value, or something made of it, is of use.
    use = {v: ops if p.held[v] else -1 for v in maker}
    for op in reversed(range(ops)):
        moment = max((use[v] for v in p.outputs[op]), default=-1) if p.again[op] else -1
        for v in p.inputs[op]:
            use[v] = max(use[v], op if op >= border else moment)
    fixed = [p.work[op] for op in range(ops)]
    for v in late:
        for op in range(maker[v], ops if p.held[v] else max(use[v], maker[v]) + 1):
            fixed[op] += p.bytes[v]

    m = Program()
    total = sum(p.cost)
    there = {(t, v): m.column(low=1 if p.held[v] else 0) for v in early for t in range(border, ops) if use[v] >= t}
    again = {
        (t, op): m.column(p.cost[op] / total)
        for op in range(border)
        if p.again[op]
        for t in range(border, ops)
        if any(use[v] >= t for v in p.outputs[op])
    }
    for (t, v), s in there.items():
        if t > border:
            m.at_most(0, (1, s), (-1, there[t - 1, v]), (-1, again.get((t - 1, maker[v]))))
    for (t, op), r in again.items():
        for v in p.inputs[op]:
            m.at_most(0, (1, r), (-1, there[t, v]), (-1, again.get((t, maker[v]))))
    for t in range(border, ops):
        needed = [v for v in p.inputs[t] if maker[v] < border]
        for v in needed:
            m.at_most(-1, (-1, there[t, v]), (-1, again.get((t, maker[v]))))
        room = limit - fixed[t] - sum(p.bytes[v] for v in early if p.held[v] or v in needed)
        m.at_most(room / limit, *((p.bytes[v] / limit, there.get((t + 1, v))) for v in early if not p.held[v] and v not in needed))
    # Whatever is used from a place on is there or is made of what is there. That follows from the other rows for whole numbers only;
    # where most is kept, it takes the solver a long way.
    for t in range(border, min(border + 3, ops)):
        made = {op: m.column(whole=False) for op in range(border) if (t, op) in again}
        for op, e in made.items():
            m.at_most(0, (1, e), *((-1, again.get((s, op))) for s in range(t, ops)))
            for v in p.inputs[op]:
                m.at_most(0, (1, e), (-1, there[t, v]), (-1, made.get(maker[v])))
        for v in early:
            if any(op >= t for op in range(border, ops) if v in p.inputs[op]):
                m.at_most(-1, (-1, there[t, v]), (-1, made.get(maker[v])))
    found = m.solve()
    if found is None:
        return None
    launches = list(range(border))
    for t in range(border, ops):
        launches += [op for op in range(border) if (t, op) in again and found[1][again[t, op]] > 0.5]
        launches.append(t)
    return found[0] * total, launches
