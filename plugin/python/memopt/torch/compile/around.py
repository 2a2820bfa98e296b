"""A compiled step that ran once with everything kept: the memory between the passes of its graphs, from the allocator's events.

Inside of a graph its nodes tell what lives how long. Outside there are the loss, what dynamo did not compile, the engine that
accumulates gradients, and Python, which holds results. The events tell when each of these bytes came and went.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .graph import Gap, Joint, Pass, Writer

SPAN = "memopt pass "


@dataclass
class Ran:
    """A pass of a graph that ran: the addresses of the storages of its inputs and results."""

    graph: int
    backward: bool
    inputs: dict[fx.Node, int] = field(default_factory=dict)  # addresses, by placeholder of the joint graph
    results: dict[fx.Node, int] = field(default_factory=dict)  # by owner
    paired: bool = False
    handed: set[int] = field(default_factory=set)  # of a forward pass, all that it reads and makes; of a backward pass, all that it reads


@dataclass(eq=False)
class _Block:
    """Bytes from when they were allocated to when they were freed; where is 2i in gap i, 2i+1 in pass i."""

    size: int
    born: int
    begin: int
    end: int = 1 << 62
    died: int = -1  # -1: never
    name: str = ""


def address(t: Any) -> int:
    if not isinstance(t, torch.Tensor) or t.layout != torch.strided:
        return 0
    try:
        return t.untyped_storage().data_ptr()
    except RuntimeError:  # a subclass without a storage of its own
        return 0


def pair(ran: Sequence[Ran]) -> None:
    """Numbers the calls of graphs; a backward pass gets the number of the forward pass whose tensors it reads."""
    forward: list[tuple[int, Ran]] = []
    for r in ran:
        if not r.backward:
            forward.append((r.graph, r))
            r.graph = len(forward) - 1
            continue
        own = [(len(r.handed & f.handed), f) for graph, f in forward if graph == r.graph and f.graph not in {b.graph for b in ran if b.backward and b.paired}]
        r.graph, r.paired = max(own, key=lambda x: (x[0], x[1].graph))[1].graph, True


def describe(
    joints: Sequence[Joint], ran: Sequence[Ran], events: list[tuple[int, int, int]], spans: dict[str, list[tuple[int, int]]], whole: tuple[int, int], model: str
) -> tuple[Writer, dict[str, Any]]:
    """The step of these graphs and the memory around them, for the planner."""
    passes = [spans[f"{SPAN}{i}"][0] for i in range(len(ran))]
    starts, ends = [p[0] for p in passes], [p[1] for p in passes]

    def place(at: int) -> int:
        i = bisect.bisect_right(starts, at)  # passes that have begun
        return 2 * i if i == 0 or at > ends[i - 1] else 2 * i - 1

    blocks: dict[int, list[_Block]] = {}
    live: dict[int, _Block] = {}
    net = dict.fromkeys(range(0, 2 * len(ran) + 1, 2), 0)
    most = dict(net)
    for at, where, size in events:
        if not whole[0] <= at <= whole[1]:
            continue
        here = place(at)
        if here in net:
            net[here] += size
            most[here] = max(most[here], net[here])
        if size > 0:
            live[where] = _Block(size, here, at)
            blocks.setdefault(where, []).append(live[where])
        elif where in live:
            block = live.pop(where)
            block.end, block.died = at, here

    def block_at(where: int, at: int) -> _Block | None:
        found = blocks.get(where, ())
        return next((b for b in found if b.begin <= at < b.end), None) if where else None

    def until(b: _Block) -> int:
        """The last gap in which a block is alive."""
        return b.died // 2 if b.died >= 0 else len(ran)

    lasting: dict[int, list[_Block]] = {}  # by gap, what is made there and lives on
    for found in blocks.values():
        for b in found:
            if b.born % 2 == 0 and b.died != b.born:
                lasting.setdefault(b.born // 2, []).append(b)
    reads: dict[int, list[str]] = {}
    for gap, made in lasting.items():
        made.sort(key=lambda b: b.begin)
        for i, b in enumerate(made):
            b.name = f"outside{gap}.{i}"
            if until(b) > gap:
                reads.setdefault(until(b), []).append(b.name)

    w = Writer(joints)
    first_backward = next((i for i, r in enumerate(ran) if r.backward), len(ran))
    for gap in range(len(ran) + 1):
        made = lasting.get(gap, [])
        spare = most[2 * gap] - sum(b.size for b in made)
        w.gap(f"outside{gap}", Gap(reads.get(gap, []), [(b.name, b.size, f"outside{until(b)}") for b in made], spare), gap >= first_backward)
        if gap == len(ran):
            break
        r, (begin, end) = ran[gap], passes[gap]
        read = {n: block_at(where, begin) for n, where in r.inputs.items()}
        inputs = {n: x.name for n, x in read.items() if x is not None and x.name and joints[r.graph].bytes(n)}
        shown = {o: block_at(where, end) for o, where in r.results.items() if o.op != "placeholder"}
        results = {o: x for o, x in shown.items() if x is not None and x.born == 2 * gap + 1}
        later = [block_at(where, passes[i][0]) for i in range(gap + 1, len(ran)) for where in ran[i].inputs.values()]
        handed = {o for o, b in results.items() if b in later}
        w.run(Pass(r.graph, r.backward, inputs), {o: f"outside{until(b)}" for o, b in results.items()}, handed)
        for o, b in results.items():
            b.name = w.names[r.graph][o]
            reads.setdefault(until(b), []).append(b.name)
    return w, w.document(reads.get(len(ran), []), model)
