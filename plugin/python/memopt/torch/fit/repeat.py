"""Equal blocks of a module: a few are recorded, proven equal, and repeated as often as the module has them.

A list of blocks is equal by its classes, shapes and plain attributes, with a period (Gemma has five windows of attention and a
whole one). That is a guess: what is recorded decides. The recording with three periods has a stretch of its forward pass, and one of
its backward pass, that come twice: the same operators, bytes, work and modules, reading what lies as far before. And taking one period
out of it gives the recording with two, node by node. If so, the graph with any number follows. Where a block reads its input until its
last operator, or a loop holds what the block before returned, the first and the last of three periods are unlike the others from one end to the other, and no stretch
comes twice: then four are recorded. If none does there either, the whole module is recorded.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..plan.form import Form, Node, Output, Place, difference
from ..record.fake import TooLong
from ..record.record import Recording

_LEAST = 6  # periods that are worth two recordings of three and two
_FEW = (3, 4)  # periods that are recorded: first so many, and where that is too few, more
_CONSTANT = ".#"  # in the name of an input that is a module's own constant


class Unequal(Exception):
    """Blocks are not equal, where that was tried."""


@dataclass(frozen=True)
class Run:
    """A part of a list of modules that repeats."""

    path: str  # of the list
    first: int  # blocks before it
    period: int  # blocks after which they are the same again
    count: int  # periods
    few: int = _FEW[0]  # of them that are recorded

    def shortened(self, blocks: Sequence[torch.nn.Module], periods: int) -> list[torch.nn.Module]:
        """The blocks with so many periods."""
        begin, end = self.first + periods * self.period, self.first + self.count * self.period
        return [*blocks[:begin], *blocks[end:]]


def runs_of(model: torch.nn.Module) -> list[Run]:
    """The lists of a module whose blocks look equal, the outermost ones."""
    found: list[Run] = []
    for path, module in model.named_modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len(module) < _LEAST or any(path.startswith(r.path + ".") for r in found):
            continue
        looks = _looks(list(module))
        best: Run | None = None
        for period in range(1, len(looks) // _LEAST + 1):
            first = len(looks) - period
            while first > 0 and looks[first - 1] == looks[first - 1 + period]:
                first -= 1
            count = (len(looks) - first) // period
            run = Run(path, len(looks) - count * period, period, count)
            if count >= _LEAST and (best is None or run.count * run.period > best.count * best.period):
                best = run
        if best is not None:
            found.append(best)
    return found


def _looks(blocks: Sequence[torch.nn.Module]) -> list[tuple[Any, ...]]:
    """What blocks look like: their classes, shapes and plain attributes, but for what counts the blocks, and for how large a number with a point is: rates
    of dropout rise from block to block."""
    plain: list[dict[tuple[str, str], Any]] = []
    parts: list[list[Any]] = []
    for block in blocks:
        plain.append({})
        parts.append([])
        for name, module in block.named_modules():
            for k, v in vars(module).items():
                if isinstance(v, (int, bool, str)) and k != "_version":
                    plain[-1][name, k] = v
                elif isinstance(v, float):
                    plain[-1][name, k] = v == 0, v == 1
            tensors = [(k, tuple(t.shape), t.dtype, t.requires_grad) for table in (module._parameters, module._buffers) for k, t in table.items() if t is not None]
            parts[-1].append((name, type(module), tuple(tensors)))
    counts = {key for key, n in plain[0].items() if type(n) is int and all(type(p.get(key)) is int and p[key] == n + i for i, p in enumerate(plain))}
    return [(*part, *sorted((k, v) for k, v in p.items() if k not in counts)) for part, p in zip(parts, plain, strict=True)]


@contextlib.contextmanager
def shortened(model: torch.nn.Module, runs: Sequence[Run], periods: Sequence[int]) -> Iterator[None]:
    """The module with fewer periods of each run."""
    kept: list[tuple[torch.nn.Module, dict[str, Any]]] = []
    try:
        for run, n in zip(runs, periods, strict=True):
            blocks = model.get_submodule(run.path)
            kept.append((blocks, blocks._modules))
            blocks._modules = {str(i): m for i, m in enumerate(run.shortened(list(blocks.children()), n))}
        yield
    finally:
        for blocks, modules in kept:
            blocks._modules = modules


@dataclass
class Repeated:
    """A program whose equal blocks were recorded a few times."""

    form: Form  # with all blocks
    runs: list[Run]
    few: Form  # with a few periods of each run
    places: list[_Places]

    def again(self, few: Form) -> Form | None:
        """The program at other sizes, of a few periods of each run there, if it is the same but for them."""
        if difference(self.few, few) is not None:
            return None
        try:
            return _grown(few, self.runs, self.places)
        except Unequal:
            return None


def few_of(model: torch.nn.Module, record: Callable[[], Recording], runs: Sequence[Run]) -> Form:
    """The program of a step with a few periods of each run."""
    with shortened(model, runs, [run.few for run in runs]):
        return _marked(record())


def _marked(recording: Recording) -> Form:
    """The program of a recording. A constant that a module makes for itself, and one operator reads, is named after that module: each block has its own."""
    form = Form(recording.graph)
    readers: dict[int, list[Node]] = {}
    for node in form.nodes:
        for r, k in node.reads:
            if r < 0 and not form.inputs[k]["source"]:
                readers.setdefault(k, []).append(node)
    times: dict[str, int] = {}
    for k, nodes in sorted(readers.items()):
        module = nodes[0].fields.get("module")
        if len(nodes) == 1 and module:
            times[module] = times.get(module, 0) + 1
            form.inputs[k] = {**form.inputs[k], "source": f"{module}{_CONSTANT}{times[module]}"}
    return form


def recorded_once(model: torch.nn.Module, record: Callable[[], Recording], runs: list[Run] | None = None, few: Form | None = None) -> Repeated:
    """The program of a step with all of its blocks, of which equal ones are recorded a few times; few is that of some runs, if it is known."""
    runs = runs_of(model) if runs is None else runs
    while runs:
        try:
            form, few = few if few is not None else few_of(model, record, runs), None
        except ValueError as e:
            if isinstance(e.__cause__, TooLong):
                raise
            break  # a module that does without none of its blocks
        places: list[_Places] = []
        sound: list[Run] = []
        for i, run in enumerate(runs):
            with shortened(model, runs, [other.few - (j == i) for j, other in enumerate(runs)]):
                fewer = _marked(record())
            try:
                found = _Places.of(form, fewer, run)
                proven(found.with_periods(form, run.few - 1), fewer)
            except Unequal:
                more = next((n for n in _FEW if run.few < n < run.count - 1), None)
                if more is not None:
                    sound.append(replace(run, few=more))
                continue
            places.append(found)
            sound.append(run)
        if sound == runs:
            with_all = _grown(form, runs, places)
            return Repeated(with_all, runs, form, places)
        runs = sound
    whole = Form(record().graph)
    return Repeated(whole, [], whole, [])


def _grown(form: Form, runs: Sequence[Run], places: Sequence[_Places]) -> Form:
    """The program with all periods of its runs in place of a few."""
    places = list(places)
    for i, run in enumerate(runs):
        form = places[i].with_periods(form, run.count)
        for j in range(i + 1, len(runs)):
            places[j] = places[j].moved(places[i], run.count - run.few)
    form = copy.copy(form)
    form.inputs = [{**n, "source": ""} if _CONSTANT in (n["source"] or "") else n for n in form.inputs]
    return form


def proven(ours: Form, theirs: Form) -> None:
    """Raises if two programs differ in anything."""
    a, b = _canonical(ours), _canonical(theirs)
    if len(a) != len(b):
        raise Unequal(f"{len(a)} nodes, and {len(b)}")
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y:
            raise Unequal(f"node {i}: {x}, and {y}")


def _canonical(form: Form) -> list[Any]:
    def where(r: Place | None) -> Any:
        return r if r is None or r[0] >= 0 else (form.inputs[r[1]]["kind"], form.inputs[r[1]]["source"] or form.bytes[r])

    nodes: list[Any] = []
    for i, node in enumerate(form.nodes):
        outputs = [(o.shape, o.dtype, o.held, form.bytes[i, j]) for j, o in enumerate(node.outputs)]
        nodes.append((node.fields, [where(r) for r in node.reads], outputs, form.work[i], form.flops[i]))
    grads = sorted((str(where((-1, i))), where(r)) for i, r in enumerate(form.results[form.forward_results :]) if r is not None)
    inputs = sorted((n["kind"], n["source"] or "", form.bytes[-1, i]) for i, n in enumerate(form.inputs))
    return [*nodes, [where(r) for r in form.results[: form.forward_results]], grads, inputs]


@dataclass(frozen=True)
class _Same:
    """Of two references a period apart: where the first leads, and whether the second leads as far on."""

    to: int
    moves: bool


@dataclass(frozen=True)
class _Places:
    """Where a run stands in a program of a few periods: [at, at + 2 size) of the nodes forward, [back, back + 2 less) backward."""

    run: Run
    at: int
    size: int
    back: int
    less: int

    @classmethod
    def of(cls, form: Form, fewer: Form, run: Run) -> _Places:
        forward, there = _forward(form), _forward(fewer)
        size, less = forward - there, len(form.nodes) - forward - (len(fewer.nodes) - there)
        if size <= 0 or less < 0:
            raise Unequal(f"{run.path}: another block adds no operators")
        looking = cls(run, 0, size, forward, less)
        at = _stretch([looking.pair(form, i, i + size, False) for i in range(forward - size)], size, 0)
        back = _stretch([looking.pair(form, i, i + less, True) for i in range(forward, len(form.nodes) - less)], less, forward) if less else len(form.nodes)
        return cls(run, at, size, back, less)

    def moved(self, other: _Places, periods: int) -> _Places:
        """Where it stands once another run has so many periods more."""
        at = self.at + (periods * other.size if self.at > other.at else 0)
        back = self.back + periods * other.size + (periods * other.less if self.back > other.back else 0)
        return _Places(self.run, at, self.size, back, self.less)

    # Pairs of nodes.

    def input(self, form: Form, i: int) -> tuple[str, int] | None:
        """Of an input of the run's: its name without the period, and the period; those behind the run have more than there are."""
        m = re.match(re.escape(self.run.path) + r"\.(\d+)(\..*)?$", form.inputs[i]["source"] or "")
        if m is None or int(m[1]) < self.run.first:
            return None
        period, offset = divmod(int(m[1]) - self.run.first, self.run.period)
        return f"{offset}{m[2] or ''}", period

    def module(self, node: Node, move: int) -> dict[str, Any]:
        """The fields of a node, so many periods on."""
        name = node.fields.get("module", "")
        found = re.match(re.escape(self.run.path) + r"\.(\d+)(?=\.|$)", name)
        if found is None or int(found[1]) < self.run.first or not move:
            return node.fields
        return {**node.fields, "module": f"{self.run.path}.{int(found[1]) + move * self.run.period}{name[found.end():]}"}

    def pair(self, form: Form, i: int, j: int, backward: bool) -> bool:
        """Whether node j is node i again, a period later."""
        x, y = form.nodes[i], form.nodes[j]
        if form.flops[i] != form.flops[j] or form.work[i] != form.work[j] or len(x.outputs) != len(y.outputs) or len(x.reads) != len(y.reads):
            return False
        if y.fields not in (self.module(x, -1 if backward else 1), x.fields):
            return False
        for k, (o, p) in enumerate(zip(x.outputs, y.outputs, strict=True)):
            if o.shape != p.shape or o.dtype != p.dtype or form.bytes[i, k] != form.bytes[j, k] or (o.held is None) != (p.held is None):
                return False
            if o.held is not None and p.held is not None and self.same(form, o.held, p.held, backward) is None:
                return False
        return all(r[1] == s[1] if r[0] >= 0 <= s[0] else r[0] == s[0] for r, s in zip(x.reads, y.reads, strict=True)) and all(
            (self.same(form, r[0], s[0], backward) if r[0] >= 0 else self.same_input(form, r[1], s[1], backward)) is not None for r, s in zip(x.reads, y.reads, strict=True)
        )

    def same(self, form: Form, to: int, then: int, backward: bool) -> _Same | None:
        if to == then:
            return _Same(to, False)
        if form.nodes[to].fields["is_backward"] != form.nodes[then].fields["is_backward"]:
            return None
        step = self.less if form.nodes[to].fields["is_backward"] else self.size
        sign = 1 if form.nodes[to].fields["is_backward"] == backward else -1
        return _Same(to, True) if then == to + sign * step else None

    def same_input(self, form: Form, to: int, then: int, backward: bool) -> _Same | None:
        if to == then:
            return _Same(to, False)
        x, y = self.input(form, to), self.input(form, then)
        if x is None or y is None or x[0] != y[0] or y[1] != x[1] + (-1 if backward else 1):
            return None
        return _Same(to, True)

    # A program with other numbers of periods.

    def with_periods(self, form: Form, count: int) -> Form:
        """The program with so many periods in place of a few."""
        few = self.run.few
        more = count - few
        at, size, back, less = self.at, self.size, self.back, self.less
        top, low = at + 2 * size, back + 2 * less  # behind the stretches
        forward, backward = more * size, more * (size + less)
        inputs, input_of = self._inputs(form, more)

        def anchored(i: int, late: bool, ends: bool) -> int:
            """Where a node goes. One in a stretch is of its first periods, or late of its last; ends does the same for the backward pass."""
            if i < (at if late else top):
                return i
            if i < (back if ends else low):
                return i + forward
            return i + backward

        def moved_input(i: int, move: int) -> int:
            known = self.input(form, i)
            if known is None:
                return input_of[i, 0]
            return input_of[i, move if known[1] < few else more]

        nodes: list[Node] = []
        flops: list[int] = []
        work: list[int] = []
        size_of: dict[Place, int] = {(-1, i): n["outputs"][0]["bytes"] for i, n in enumerate(inputs)}

        def add(i: int, name: str, fields: dict[str, Any], reads: list[Place], held: Callable[[int], int]) -> None:
            outputs = [Output(o.shape, o.dtype, held(o.held) if o.held is not None else None) for o in form.nodes[i].outputs]
            for k in range(len(outputs)):
                size_of[len(nodes), k] = form.bytes[i, k]
            nodes.append(Node(name, fields, reads, outputs))
            flops.append(form.flops[i])
            work.append(form.work[i])

        def outside(i: int, late: bool, ends: bool, move: int) -> None:
            """A node outside the stretches."""
            node = form.nodes[i]
            reads = [(anchored(r, late, ends), k) if r >= 0 else (-1, moved_input(k, move)) for r, k in node.reads]
            add(i, node.name, self.module(node, move), reads, lambda h: anchored(h, late, ends))

        def repeated(i: int, turn: int, behind: bool) -> None:
            """A node of a stretch, in its turn."""
            j = i + (less if behind else size)
            x, y = form.nodes[i], form.nodes[j]
            last = more if behind else 0  # the backward pass begins with the last period

            def goes(to: int, then: int) -> int:
                if to == then:
                    return anchored(to, to >= top, to < low)
                if form.nodes[to].fields["is_backward"]:
                    return to + forward + turn * less if behind else to + backward - turn * less
                return to + forward - turn * size if behind else to + turn * size

            reads: list[Place] = []
            for (r, k), (s, other) in zip(x.reads, y.reads, strict=True):
                if r >= 0:
                    reads.append((goes(r, s), k))
                elif k == other:
                    reads.append((-1, moved_input(k, 0)))
                else:
                    reads.append((-1, moved_input(k, last - turn if behind else turn)))
            holds = {o.held: p.held for o, p in zip(x.outputs, y.outputs, strict=True)}
            fields = x.fields if x.fields == y.fields and not _within(x, self.run) else self.module(x, last - turn if behind else turn)
            add(i, x.name, fields, reads, lambda h: goes(h, holds[h] if holds[h] is not None else h))  # type: ignore[arg-type]

        for i in range(at):
            outside(i, False, True, 0)
        for turn in range(2 + more):
            for i in range(at, at + size):
                repeated(i, turn, False)
        for i in range(top, back):
            outside(i, True, False, more)
        for turn in range(2 + more):
            for i in range(back, back + less):
                repeated(i, turn, True)
        for i in range(low, len(form.nodes)):
            outside(i, False, True, 0)
        grown = copy.copy(form)
        grown.inputs, grown.nodes, grown.flops, grown.work, grown.bytes = inputs, nodes, flops, work, size_of
        grown.results = [(anchored(r[0], True, False), r[1]) if r is not None else None for r in form.results[: form.forward_results]]
        grown.results += self._gradients(form, inputs, input_of, more, anchored)
        _name(grown)
        return grown

    def _inputs(self, form: Form, more: int) -> tuple[list[dict[str, Any]], dict[tuple[int, int], int]]:
        """The inputs, and where each goes: by its number and periods on."""
        inputs: list[dict[str, Any]] = []
        place: dict[tuple[int, int], int] = {}
        named: dict[tuple[str, int], int] = {}
        for i, node in enumerate(form.inputs):
            known = self.input(form, i)
            if known is None:
                place[i, 0] = len(inputs)
                inputs.append(node)
                continue
            name, period = known
            for move in (range(-period, self.run.few + more - period) if period < self.run.few else [more]):
                key = name, period + move
                if key not in named:
                    m = re.match(re.escape(self.run.path) + r"\.(\d+)", node["source"])
                    assert m is not None
                    named[key] = len(inputs)
                    inputs.append({**node, "source": f"{self.run.path}.{int(m[1]) + move * self.run.period}{node['source'][m.end():]}"})
                place[i, move] = named[key]
        for i, node in enumerate(inputs):
            inputs[i] = {**node, "name": f"input_{i}"}
        return inputs, place

    def _gradients(self, form: Form, inputs: list[dict[str, Any]], input_of: dict[tuple[int, int], int], more: int, anchored: Callable[[int, bool, bool], int]) -> list[Place | None]:
        grads: list[Place | None] = [None] * len(inputs)
        for i, r in enumerate(form.results[form.forward_results :]):
            known = self.input(form, i)
            if r is None:
                continue
            if known is None or known[1] >= self.run.few:
                grads[input_of[i, 0 if known is None else more]] = anchored(r[0], True, True), r[1]
            elif r[0] < self.back:  # of the last periods
                grads[input_of[i, more]] = anchored(r[0], True, True), r[1]
            elif r[0] >= self.back + 2 * self.less:  # of the first ones
                grads[input_of[i, 0]] = anchored(r[0], False, False), r[1]
            elif r[0] < self.back + self.less:  # the other half of the stretch is a turn of this one
                for turn in range(2 + more):
                    at = input_of.get((i, more - turn))
                    if at is None:
                        raise Unequal(f"the gradient of {form.inputs[i]['source']} is made where those of other blocks are not")
                    grads[at] = r[0] + more * self.size + turn * self.less, r[1]
        return grads


def _within(node: Node, run: Run) -> bool:
    return str(node.fields.get("module", "")).startswith(run.path + ".")


def _forward(form: Form) -> int:
    """Nodes of the forward pass."""
    return next((i for i, n in enumerate(form.nodes) if n.fields["is_backward"]), len(form.nodes))


def _stretch(equal: Sequence[bool], size: int, begin: int) -> int:
    """Where so many nodes in a row come again."""
    row = 0
    for i, same in enumerate(equal):
        row = row + 1 if same else 0
        if row == size:
            return begin + i - size + 1
    raise Unequal("no stretch of operators comes twice")


def _name(form: Form) -> None:
    """Names that are nobody else's: after the module and the operator."""
    times: dict[str, int] = {}
    taken = {n["name"] for n in form.inputs}
    for node in form.nodes:
        op = str(node.fields["op"])
        what = op.split(".")[1].lower() if "." in op else op
        module = node.fields.get("module", "")
        base = name = f"{module}.{what}" if module else what
        while name in taken:
            times[base] = times.get(base, 0) + 1
            name = f"{base}_{times[base]}"
        taken.add(name)
        node.name = name
