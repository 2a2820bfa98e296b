"""memopt.max_batch and memopt.max_seq: the largest step that fits, found without running larger ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..._arguments import Size
from ..._fitwords import CHUNKED as CHUNKS
from ..._fitwords import LIMITS
from ..._visible import class_of
from ...errors import BudgetError
from ...report import Report, show_bytes
from ..lower.feed_forward import MOST
from ..lower.feed_forward import TILES as FIRST
from ..lower.lazy import Unsuitable
from ..lower.scores import Chunks, chunks_of
from ..lower.tiles import Tiles, tiles_of
from ..plan.budget import fixed_bytes, free_bytes
from ..plan.plans import plan_of
from ..plan.sized import Sized
from ..record.measure import step_peak
from ..record.record import Recording, record_call
from ..replay.program import build
from ..replay.replay import Step as Run
from ..replay.replay import planned
from ..step.given import check_module, check_request, check_settings, is_share, parse, share_of
from ..step.sample import arguments
from ..step.standin import own_forward
from ..step.wrapped import inner_module
from .table import table

MOST_RECORDINGS = 7
_SETTINGS = ("activation_budget", "max_overhead", "loss", "optimizer", "reserve", "loss_chunks", "sequence_tiles", "most", "ladder")
TILES = "feed-forward layers in tiles"
_MOST_PROOFS = 4  # plans that are asked for only to learn what no plan goes below


@dataclass(frozen=True)
class Rung:
    """The largest size whose step takes no more than some time above that of the step as it is."""

    max_overhead: float | None  # None: as much as it takes
    size: int  # 0: none
    promised_peak: int
    overhead: float
    chosen: str  # what the step does for it


@dataclass
class Largest:
    """The largest size that fits, also as int(). Peaks are bytes of activations, gradients and work space."""

    what: str
    size: int
    budget: int  # bytes of everything, or of activations alone
    fixed: int  # of them, parameters, buffers and optimizer states
    eager_peak: int  # at this size, by the formulas
    promised_peak: int
    measured_peak: int | None
    overhead: float
    eager_size: int  # the largest that fits without a plan
    recorded: tuple[int, ...]  # sizes that ran
    search_ended: bool  # it is the largest that was asked for
    bound: int  # no plan of a larger size fits: their floors are above the budget
    plan: Report | None = field(repr=False, default=None)
    chosen: str = ""  # what the step of this size does to fit
    ladder: tuple[Rung, ...] = ()  # by what it may cost, this size last

    @property
    def proven(self) -> bool:
        """Whether no plan of any larger size fits."""
        return self.bound == self.size

    def __int__(self) -> int:
        return self.size

    __index__ = __int__

    def __str__(self) -> str:
        text = f"{self.what} {self.size} fits {show_bytes(self.budget)}: a peak of {show_bytes(self.promised_peak)} promised"
        if self.measured_peak is not None:
            text += f", {show_bytes(self.measured_peak)} measured"
        text += f", {show_bytes(self.fixed)} beside it, {self.overhead:+.1%} time"
        if self.eager_size < self.size:
            text += f"; eager mode takes {show_bytes(self.eager_peak)} for it and fits {self.eager_size}"
        if self.search_ended:
            text += "; it is the largest asked for"
        else:
            text += f"; proven, since no plan of {self.size + 1} fits" if self.proven else f"; whether {_span(self.size + 1, self.bound)} fits is open, and nothing larger does"
        rows = [(_limit(r), str(r.size) if r.size else "none", f"{r.overhead:+.1%}" if r.size else "", show_bytes(r.promised_peak) if r.size else "", r.chosen) for r in self.ladder]
        return "\n".join([text, *(["", *table([("extra time", self.what, "costs", "peak", ""), *rows])] if rows else [])])

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**{k: v for k, v in vars(self).items() if k != "plan"}, "ladder": [vars(r) for r in self.ladder], "proven": self.proven}


def _limit(rung: Rung) -> str:
    return "any" if rung.max_overhead is None else f"at most {rung.max_overhead:+.0%}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def max_batch(model: torch.nn.Module, make_sample: Callable[[int], Any], budget: Size | None = None, **given: Any) -> Largest:
    """The largest batch whose step fits; make_sample(n) makes the inputs of a step of n samples."""
    check_settings("memopt.max_batch", given, _SETTINGS)
    return _largest(model, make_sample, budget, what="batch", degree=1, first=(1, 2, 4), **given)


def max_seq(model: torch.nn.Module, make_sample: Callable[[int], Any], budget: Size | None = None, **given: Any) -> Largest:
    """The longest sequence whose step fits; make_sample(n) makes inputs of n tokens a row. Bytes are quadratic in n. Where loss_chunks is
    not given, the loss is in chunks of rows if that lengthens the sequence, and so are feed-forward layers and attention that is written out, without sequence_tiles."""
    check_settings("memopt.max_seq", given, _SETTINGS)
    if given.get("most") is None:
        given["most"] = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return _largest(model, make_sample, budget, what="sequence", degree=2, first=(16, 32, 64), **given)


def _largest(
    model: torch.nn.Module,
    make_sample: Callable[[int], Any],
    budget: Size | None,
    *,
    what: str,
    degree: int,
    first: Sequence[int],
    activation_budget: Size | None = None,
    max_overhead: str | float | None = None,
    loss: Callable[..., torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    reserve: Size = "5%",
    loss_chunks: Any = None,
    sequence_tiles: Any = None,
    most: int | None = None,
    ladder: bool = True,
) -> Largest:
    check_module("max_batch" if what == "batch" else "max_seq", model)
    if not callable(make_sample):
        raise TypeError(f"make_sample is {class_of(make_sample)}; give a function of the {what} that makes the inputs of a step")
    check_request(budget=budget, activation_budget=activation_budget, max_overhead=max_overhead, loss=loss, optimizer=optimizer, reserve=reserve, loss_chunks=loss_chunks, sequence_tiles=sequence_tiles)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise (ValueError if isinstance(most, int) else TypeError)(f"most is {most!r}; give the largest {what} to try, a positive integer")
    for name, size in (("budget", budget), ("activation_budget", activation_budget)):
        if is_share(size):
            raise ValueError(f"{name} is {size!r}; a share of what a {what} takes does not bind the {what}: give bytes, or a text like '8GB'")
    fixed = fixed_bytes(model, optimizer)
    room = free_bytes(model, reserve) - fixed.to_come
    if activation_budget is not None:
        limit, whole, beside = parse("activation_budget", activation_budget, 0), parse("activation_budget", activation_budget, 0), 0
    elif budget is None or budget == "auto":
        limit, whole, beside = room, room + fixed.bytes, fixed.bytes
    else:
        whole, beside = parse("budget", budget, 0), fixed.bytes
        limit = whole - beside
    if limit <= 0:
        raise BudgetError(f"no {what} fits {show_bytes(whole)}: parameters, buffers and optimizer states alone are {show_bytes(fixed.bytes)}", fixed=fixed.bytes)
    model = inner_module(model)
    asked = _Asked(what, degree, first, limit, whole, beside, max(limit, room), most if most is not None else 1 << 20, max_overhead)
    given = chunks_of(loss_chunks), tiles_of(sequence_tiles)
    ways = [_Way((), _Runs(model, make_sample, loss, *given), asked)]
    found: list[tuple[_Way, int, int | None]] = []
    refused: BudgetError | None = None

    def look(way: _Way) -> None:
        nonlocal refused
        try:
            found.append((way, *way.largest()))
        except BudgetError as e:
            refused = refused or e

    look(ways[0])
    if what == "sequence":
        for name in (*([CHUNKS] if loss_chunks is None else []), *([TILES] if sequence_tiles is None else [])):
            way = ways[-1].also(name, given)
            if way.possible:
                ways.append(way)
                look(way)
        tiled = ways[-1]
        if TILES in tiled.names and max(found, key=lambda f: f[1], default=(None,))[0] is tiled:
            for counts in tiled.others():
                ways.append(tiled.also("", given, counts))
                look(ways[-1])
    if not found:
        assert refused is not None
        raise refused
    best, size, measured = max(found, key=lambda f: f[1])
    search, made = best.search, best.search.made[size]
    plain = ways[0] if found[0][0] is ways[0] else best
    bottom = search.sizes.sizes[0]
    eager = plain.search.eager(min(bottom, size), size)
    top = Rung(share_of("max_overhead", max_overhead) if max_overhead is not None else None, size, made.result.peak if made is not None else search.sizes.at(size).measured_peak, best.overhead(size, plain), best.chosen(size))
    return Largest(
        what, size, whole, beside, search.peak(size), top.promised_peak, measured, top.overhead, eager, tuple(search.sizes.sizes), size == asked.most, max(way.search.bound(n, asked.most) for way, n, _ in found),
        made, top.chosen, (*_ladder([(way, n) for way, n, _ in found], plain, top), top) if ladder else (),
    )  # fmt: skip


def _ladder(ways: list[tuple[_Way, int]], plain: _Way, top: Rung) -> list[Rung]:
    """The largest sizes at the limits below that of the last rung."""
    rungs = []
    for most in LIMITS:
        if top.max_overhead is not None and most >= top.max_overhead:
            break
        way, size = max(((way, way.within(most, n, plain)) for way, n in ways), key=lambda f: f[1])
        if size == 0:
            rungs.append(Rung(most, 0, 0, 0.0, "none fits"))
            continue
        made = way.search.made[size]
        rungs.append(Rung(most, size, made.result.peak if made is not None else way.search.peak(size), way.overhead(size, plain), way.chosen(size)))
    return rungs


@dataclass(frozen=True)
class _Asked:
    """What is looked for."""

    what: str
    degree: int
    first: Sequence[int]
    limit: int  # of activations, gradients and work space
    whole: int  # of everything that was counted
    beside: int
    room: int  # that a recording may take
    most: int
    max_overhead: str | float | None


class _Way:
    """The step in one form, at all sizes."""

    def __init__(self, names: tuple[str, ...], run: _Runs, asked: _Asked) -> None:
        self.names, self.run, self.asked = names, run, asked

    def also(self, name: str, given: tuple[Chunks | None, Tiles | None], counts: Sequence[int] = (FIRST,)) -> _Way:
        """The step in this form and another, with these numbers of tiles if it is in tiles."""
        names = (*self.names, name) if name else self.names
        r, chunks, tiles = self.run, *given
        return _Way(names, _Runs(r.model, r.make_sample, r.loss, Chunks("auto", asked=False) if CHUNKS in names else chunks, Tiles(counts) if TILES in names else tiles), self.asked)

    def others(self) -> list[tuple[int, ...]]:
        """Other numbers of tiles: more, which take less memory, and none for the first half of the layers, which takes less time."""
        layers = self.run.tiles.depth if self.run.tiles is not None else 0
        return [(MOST,), *([(*(1,) * (layers // 2), FIRST)] if layers > 1 else [])]

    @functools.cached_property
    def search(self) -> _Search:
        a = self.asked
        sizes = _recordings(self.run, a.degree, [n for n in a.first if n <= a.most] or [a.most], a.most, a.room, a.what)
        return _Search(sizes, a.limit, a.max_overhead)

    @property
    def possible(self) -> bool:
        """Whether the model has a loss and layers that this form is for."""
        try:
            return bool(self.search) and (CHUNKS not in self.names or self.run.chunks is not None and self.run.chunks.used)
        except Unsuitable:
            return False

    def largest(self) -> tuple[int, int | None]:
        """The largest size that fits, and what its step was measured to take."""
        a, search = self.asked, self.search
        sizes = search.sizes
        bottom = sizes.sizes[0]
        if not search.fits(bottom):
            while bottom > 1 and sizes.enough and not search.fits(bottom):
                bottom //= 2
            if not search.fits(bottom):
                found = search.lowest(bottom)
                raise BudgetError(
                    f"not even {a.what} {bottom} fits {show_bytes(a.whole)}"
                    + (f", of which {show_bytes(a.beside)} are parameters, buffers and optimizer states" if a.beside else "")
                    + (f": its lowest plan takes {show_bytes(found)}" if found else ""),
                    want=a.whole, best=found + a.beside if found else 0, fixed=a.beside,
                )  # fmt: skip
        size = search.largest(bottom, a.most) if sizes.enough else sizes.sizes[-1]
        while True:
            made = search.made[size]
            measured = self.run.measured(size, sizes.at(size), made) if not (made is None and size in sizes.sizes) else sizes.at(size).measured_peak
            if measured is not None and measured <= a.limit + a.limit // 1000 + (1 << 16):
                return size, measured
            if size == 1:
                raise BudgetError(f"not even {a.what} 1 fits {show_bytes(a.whole)}: its step took {show_bytes(measured or 0)}", want=a.whole, best=measured + a.beside if measured else 0, fixed=a.beside)
            # The formulas promised too much there.
            size = search.largest_below(min(size - 1, size * a.limit // measured) if measured else size * 7 // 8, bottom)

    def within(self, most: float, size: int, plain: _Way) -> int:
        """The largest size up to one that fits whose step takes so little more time than the plain one, within a hundredth; 0: none."""

        def cheap(n: int) -> bool:
            return self.search.fits(n) and self.overhead(n, plain) <= most + 1e-6

        low, high = min(size, self.search.sizes.sizes[0]), size + 1
        if not cheap(low):
            return 0
        while True:
            known = [n for n in self.search.made if n <= size]
            low = max([low, *(n for n in known if cheap(n))])
            high = min([size + 1, *(n for n in known if n > low)])
            if high - low <= 1 + size // 100:
                return low
            if not cheap((low + high) // 2):
                size = (low + high) // 2 - 1

    def overhead(self, size: int, plain: _Way) -> float:
        """The time above that of the plain step, of a size that fits."""
        made = self.search.made[size]
        overhead = made.result.overhead if made is not None else 0.0
        if self is plain:
            return float(overhead)
        whole, own = plain.search.time(size), self.search.time(size)
        return own * (1 + overhead) / whole - 1 if whole and own else float(overhead)

    def chosen(self, size: int) -> str:
        """What the step of a size that fits does for it."""
        made = self.search.made[size]
        names = [f"{name}: {self.run.tiles.said()}" if name == TILES and self.run.tiles is not None else name for name in self.names]
        return ", ".join([*names, f"{made.result.recomputed_nodes} operators run again" if made is not None else "everything kept"])


def recorded_step(model: torch.nn.Module, make_sample: Callable[[int], Any], size: int, loss: Callable[..., torch.Tensor] | None, loss_chunks: Any) -> Recording:
    """The step of a size, recorded."""
    return _Runs(inner_module(model), make_sample, loss, chunks_of(loss_chunks)).record(size)


class _Runs:
    """Steps of the model, of any size."""

    def __init__(self, model: torch.nn.Module, make_sample: Callable[[int], Any], loss: Callable[..., torch.Tensor] | None, chunks: Chunks | None, tiles: Tiles | None = None) -> None:
        self.model, self.make_sample, self.loss, self.chunks, self.tiles = model, make_sample, loss, chunks, tiles
        self.both = False
        if loss is not None:
            try:
                self.both = len([p for p in inspect.signature(loss).parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]) > 1
            except (TypeError, ValueError):
                pass
        self.forward = own_forward(model)
        if tiles is not None:
            self.forward = tiles.around(model, self.forward)
        if chunks is not None:
            self.forward = chunks.around(model, self.forward)

    def call(self, size: int) -> tuple[Callable[[], Any], Callable[[Any], torch.Tensor] | None]:
        sample = self.make_sample(size)
        args, kwargs = arguments(sample)
        loss = self.loss
        if loss is not None and self.both:
            loss = functools.partial(_with_sample, loss, sample)
        return functools.partial(self.forward, *args, **kwargs), loss

    def record(self, size: int) -> Recording:
        call, loss = self.call(size)
        if self.chunks is not None and self.chunks.name is None:
            self.chunks.find(self.model, call, loss)
        if self.tiles is not None and self.tiles.names is None:
            self.tiles.find(self.model, call, loss)
        recording = record_call(self.model, lambda around: around(call), loss)
        if self.chunks is not None:
            self.chunks.check()
        return recording

    def measured(self, size: int, recording: Recording, made: Report | None) -> int | None:
        """The peak of a step of this size under its plan; None if it ran other operators than the smaller ones, or out of memory."""
        call, loss = self.call(size)
        run = planned(Run(build(recording, made.to_dict()["steps"]), strict=True)) if made is not None else None

        def forward() -> Any:
            if run is None:
                return call()
            with run:
                return call()

        try:
            return step_peak(self.model, forward, loss).peak
        except torch.OutOfMemoryError:
            return None
        except RuntimeError:
            if run is None or run.step.diverged is None:
                raise
            return None


def _with_sample(loss: Callable[..., torch.Tensor], sample: Any, out: Any) -> torch.Tensor:
    return loss(out, sample)


class _Sizes:
    """The program at all sizes, and those of its recordings."""

    def __init__(self, degree: int) -> None:
        self.degree = degree  # of bytes as polynomials of the size
        self.recordings: dict[int, Recording] = {}
        self.program: Sized | None = None

    def add(self, size: int, recording: Recording) -> None:
        """Adds a recording of a larger size than before. Earlier ones with other operators are discarded."""
        if self.program is None or self.program.add((size,), recording) is not None:
            self.program, self.recordings = Sized((size,), recording), {}
        self.recordings[size] = recording

    @property
    def sizes(self) -> list[int]:
        return list(self.recordings)

    @property
    def enough(self) -> bool:
        return len(self.recordings) > self.degree

    def at(self, size: int) -> Recording:
        assert self.program is not None
        return self.recordings[size] if size in self.recordings else self.program.at((size,)).recording(False)

    def peak(self, size: int) -> int:
        """In eager mode."""
        assert self.program is not None
        return self.program.at((size,)).eager(False)

    def floor(self, size: int) -> int:
        assert self.program is not None
        return self.program.at((size,)).floor(False)


def _recordings(run: _Runs, degree: int, first: Sequence[int], most: int, room: int, what: str) -> _Sizes:
    """Records small sizes, and larger ones until their peaks are predicted; only sizes that fit."""
    sizes = _Sizes(degree)
    size = first[0]
    for count in range(MOST_RECORDINGS):
        foreseen = sizes.peak(size) if sizes.enough else None
        recording = run.record(size)
        sizes.add(size, recording)
        if foreseen is not None and sizes.enough and abs(foreseen - recording.measured_peak) <= recording.measured_peak // 1000:
            break
        if size >= most:
            break
        before, size = size, min(most, first[count + 1] if count + 1 < len(first) else 2 * size)
        # Of a polynomial of this degree without negative terms.
        upper = recording.measured_peak * (size**degree) // (before**degree)
        if (sizes.peak(size) if sizes.enough else upper) > room:
            break
    if len(sizes.sizes) > 1 and len({tuple(o["bytes"] for n in r.graph["nodes"] for o in n["outputs"]) for r in sizes.recordings.values()}) == 1:
        few = " and ".join(map(str, sizes.sizes[:2]))
        raise ValueError(f"make_sample's steps of {what} {few} have the same sizes throughout; give a function whose inputs have the {what} that it is asked for")
    return sizes


class _Search:
    """Which sizes fit."""

    def __init__(self, sizes: _Sizes, limit: int, max_overhead: str | float | None) -> None:
        self.sizes, self.limit, self.max_overhead = sizes, limit, max_overhead
        self.made: dict[int, Report | None] = {}  # of sizes that fit; None: as they are
        self.refused: dict[int, int] = {}  # the bytes of the lowest plans of those that do not
        self.floors: dict[int, int] = {}  # that the planner proved of those
        self.times: dict[int, int] = {}  # ns of the step as it is

    def eager(self, bottom: int, most: int) -> int:
        """The largest size that fits as it is; 0: none."""
        return self.largest_by(lambda n: self.peak(n) <= self.limit, bottom, most) if self.peak(bottom) <= self.limit else 0

    def time(self, size: int) -> int:
        """The time of the step as it is; 0 where costs are not times."""
        if size not in self.times:
            made = self.made.get(size) or plan_of(self.sizes.at(size))
            self.times[size] = int(made.to_dict()["baseline"].get("time_ns", 0))
        return self.times[size]

    def peak(self, size: int) -> int:
        """In eager mode."""
        return self.sizes.peak(size)

    def bound(self, size: int, most: int) -> int:
        """The largest size that is not proven to fit under no plan."""
        low, high = size, self.largest_by(lambda n: self.sizes.floor(n) <= self.limit, size, most)
        high = min([high, *(n - 1 for n, floor in self.floors.items() if floor > self.limit and n > size)])
        if self.max_overhead is not None:  # which is no limit of bytes
            return high
        if high > low and low + 1 in self.floors and self.floors[low + 1] > self.limit:
            return low
        for _ in range(_MOST_PROOFS):
            if low >= high:
                break
            middle = (low + high + 1) // 2
            if middle not in self.floors:
                try:
                    found = plan_of(self.sizes.at(middle), activation_budget=self.limit)
                    self.floors[middle] = found.floor.peak
                except BudgetError as e:
                    self.floors[middle] = e.floor.peak if e.floor is not None else 0
            if self.floors[middle] > self.limit:
                high = middle - 1
            else:
                low = middle
        return high

    def fits(self, size: int) -> bool:
        if size in self.made:
            return True
        if size in self.refused:
            return False
        if self.peak(size) <= self.limit:
            self.made[size] = None
            return True
        floor = self.sizes.floor(size)
        if floor > self.limit:
            self.refused[size] = floor
            return False
        try:
            self.made[size] = plan_of(self.sizes.at(size), activation_budget=self.limit, max_overhead=self.max_overhead)
            return True
        except BudgetError as e:
            self.refused[size] = e.best
            self.floors[size] = e.floor.peak if e.floor is not None else 0
            return False

    def lowest(self, size: int) -> int:
        """The bytes of the lowest plan of a size that does not fit, which may be above its floor; 0 if it is not for bytes."""
        try:
            plan_of(self.sizes.at(size), activation_budget=1, max_overhead=self.max_overhead)
        except BudgetError as e:
            return e.best
        return 0

    def largest(self, bottom: int, most: int) -> int:
        """From one that fits on."""
        top = self.largest_by(lambda n: self.sizes.floor(n) <= self.limit, bottom, most)  # no plan goes below
        return self.largest_below(top, bottom)

    def largest_below(self, top: int, bottom: int) -> int:
        gap = 1
        last = top + 1
        while top > bottom and not self.fits(top):
            last, top = top, max(bottom, top - gap)
            gap *= 2
        if not self.fits(top):
            raise BudgetError("no size fits", want=self.limit, best=self.refused[top])
        return self.largest_by(self.fits, top, last - 1)

    def largest_by(self, fits: Callable[[int], bool], low: int, most: int) -> int:
        """The largest of sizes from low, which fits, to most, if those that fit come first."""
        step = 1
        while low + step <= most and fits(low + step):
            low += step
            step *= 2
        high = min(most, low + step - 1)
        while low < high:
            middle = (low + high + 1) // 2
            if fits(middle):
                low = middle
            else:
                high = middle - 1
        return low
