"""The answer to whether a step fits, on one screen."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from ... import _fitwords as words
from ..._visible import line
from ..._whole import write
from ...report import show_bytes, show_share
from ..ask.table import table
from .account import OWNERS, Line, Phase
from .links import Sent
from .page import bars, document, grid, section, text, timeline
from .request import Request
from .verdict import Verdicts

WIDTH = 100


@dataclass(frozen=True)
class Rung:
    """The step under a plan, or as it is."""

    name: str
    total: int  # bytes of the device, everything counted
    overhead: float  # time above the step as it is
    time_ns: int = 0
    tokens_per_s: float = 0.0
    fits: bool | None = None  # None: there is no budget
    batch: int | None = None  # the largest that fits at this cost; 0: none, None: unknown
    seq: int | None = None


@dataclass(frozen=True)
class Offer:
    """Another way to make it fit, or to make it smaller."""

    change: str
    total: int | None
    note: str = ""


@dataclass
class Answer:
    """Whether a step fits, and what it costs. True if it does, as it is or under a plan."""

    request: Request
    model: str
    parameters: int  # on all ranks
    trained: int
    device: str
    budget: int | None
    phases: list[Phase]
    ladder: list[Rung]
    floor: int  # no plan goes below, everything counted
    binds: str  # what sets it
    offers: list[Offer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was assumed
    blocks: str = ""  # which were recorded once
    rank: str = ""  # whose memory this is, of several
    profile: str = ""
    links: str = ""  # between ranks, and what they carry
    sent: Sent | None = None  # in nanoseconds
    update_ns: int = 0  # of a step's time, that its update takes
    sized: bool = True  # of a batch that is known; else of the one that a function makes
    worst: str = ""  # of a distribution of lengths
    verdicts: Verdicts | None = None  # on the switches of a trainer's config
    graph: dict[str, Any] = field(repr=False, default_factory=dict)  # the step of one rank, to plan
    beside: int = field(repr=False, default=0)  # bytes of the device that no plan of the graph changes
    alive: Line | None = field(repr=False, default=None)  # the bytes of a later step from node to node, without the allocator's slack

    @property
    def peak(self) -> int:
        """Of the step as it is."""
        return max(p.total for p in self.phases)

    @property
    def fits(self) -> bool:
        return self.budget is None or any(r.fits for r in self.ladder)

    def __bool__(self) -> bool:
        return self.fits

    @property
    def verdict(self) -> str:
        if self.budget is None:
            return words.NO_BUDGET.format(peak=show_bytes(self.peak))
        sizes = {"budget": show_bytes(self.budget), "peak": show_bytes(self.peak)}
        if self.peak <= self.budget:
            return words.WHOLE.format(**sizes)
        best = next((r for r in self.ladder if r.fits), None)  # of plans alone first: they leave every bit as it is
        if best is not None:
            how = words.UNDER_PLAN if not best.name.startswith(words.CHUNKED) else "with its loss in chunks" + (" and a plan" if best.name != words.CHUNKED else "")
            return words.UNDER.format(how=how, total=show_bytes(best.total), extra=show_share(best.overhead), unit="time", **sizes)
        lower = min((r.total for r in self.ladder if r.name.startswith(words.CHUNKED)), default=self.floor)
        chunked = f"; with its loss in chunks it takes {show_bytes(lower)}" if lower < self.floor else ""
        return words.BEYOND.format(floor=show_bytes(self.floor), binds=self.binds, **sizes) + chunked

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": words.FORMAT, "model": self.model, "request": self.request.to_dict(), "device": self.device, "profile": self.profile, "parameters": self.parameters, "trained": self.trained,
            "fits": self.fits, "budget": self.budget, "peak": self.peak, "floor": self.floor, "binds": self.binds, "rank": self.rank, "communication": {f"{k}_ns": int(v) for k, v in vars(self.sent).items()} if self.sent is not None else None, "update_ns": self.update_ns, "blocks": self.blocks, "worst": self.worst,
            "phases": [{"phase": p.name, "total": p.total, "at": p.at, "bytes": dict(p.bytes)} for p in self.phases],
            "verdicts": self.verdicts.to_dict() if self.verdicts is not None else None, "ladder": [vars(r) for r in self.ladder], "offers": [vars(o) for o in self.offers], "notes": self.notes,
        }  # fmt: skip

    def head(self) -> list[tuple[str, str]]:
        r = self.request
        step = (f"batch {r.batch}" if self.sized else "the batch that the function makes") + (f" of {r.seq:,} tokens" if r.seq and r.seq > 1 else "") + (f", {r.accumulate} passes a step" if r.accumulate > 1 else "")
        rows = [("model", f"{self.model}: {_count(self.parameters)} parameters, {_count(self.trained)} of them trained" if self.trained != self.parameters else f"{self.model}: {_count(self.parameters)} parameters")]
        rows.append(("step", f"{step}, {r.dtype or ''}{f' under autocast to {r.autocast}' if r.autocast else ''}{f', gathered in {r.param_dtype} and reduced in {r.reduce_dtype}' if r.param_dtype else ''}, {r.optimizer}"))
        if r.ranks > 1:
            rows.append(("ranks", self.rank))
        if self.links:
            rows.append(("links", self.links))
        if self.update_ns:
            rows.append(("update", f"{show_time(self.update_ns)} of a step"))
        if self.worst:
            rows.append(("lengths", self.worst))
        if self.blocks:
            rows.append(("recorded", self.blocks))
        rows.append(("device", self.device))
        return rows

    def owners(self) -> list[list[str]]:
        """Bytes at each phase's peak, by owner."""
        names = [owner for owner in OWNERS if any(p.bytes.get(owner) for p in self.phases)]
        rows = [["", *(p.name for p in self.phases)]]
        rows += [[owner, *(_short(p.bytes.get(owner, 0)) for p in self.phases)] for owner in names]
        return [*rows, [words.TOTAL, *(_short(p.total) for p in self.phases)]]

    def rungs(self) -> list[list[str]]:
        sizes = any(r.batch is not None for r in self.ladder), any(r.seq is not None for r in self.ladder)
        timed = any(r.time_ns for r in self.ladder)
        head = ["", words.TAKES, "time", *([words.A_STEP, self._rate()] if timed else []), *([words.LARGEST_BATCH] if sizes[0] else []), *([words.LONGEST_ROW] if sizes[1] else []), ""]
        rows = [head]
        for r in self.ladder:
            rows.append([
                r.name, _short(r.total), show_share(r.overhead), *([show_time(r.time_ns), f"{r.tokens_per_s:,.0f}"] if timed else []),
                *([_size(r.batch)] if sizes[0] else []), *([_size(r.seq)] if sizes[1] else []), "" if r.fits is None else words.FITS if r.fits else words.FITS_NOT,
            ])  # fmt: skip
        return rows

    def _rate(self) -> str:
        """What a step does so many of a second."""
        return "steps/s" if not self.sized else "tokens/s" if self.request.seq and self.request.seq > 1 else "rows/s"

    def html(self) -> str:
        """A page that needs nothing beside it."""
        parts = [grid([*self.head()], head=False)]
        parts.append(section(words.HEAD_PHASES, bars([(p.name, p.bytes) for p in self.phases], self.budget), grid(self.owners(), total=True)))
        parts.append(section(words.HEAD_LADDER, bars([(r.name, {"everything": r.total}) for r in self.ladder], self.budget, ["everything"]), grid(self.rungs())))
        if self.alive is not None and len(self.alive.total):
            parts.append(section(words.HEAD_TIMELINE, timeline(self.alive, self.budget)))
        if self.offers:
            parts.append(section("Also", grid([["change", "takes", ""], *([o.change, _short(o.total) if o.total is not None else "", o.note] for o in self.offers)])))
        if self.verdicts is not None:
            parts.append(section("Your settings", f"<p>{text(self.verdicts.lines()[0])}</p>", grid([["your switch", "verdict"], *([r.switch, r.text] for r in self.verdicts.rows)])))
            parts += [f"<p>not modelled, and may matter: {text(u)}</p>" for u in self.verdicts.unknown]
        parts += [f'<p class="soft">{text(n)}</p>' for n in self.notes]
        return document(self.verdict, self.fits, parts)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page; it appears whole or not at all."""
        write(os.path.expanduser(os.fspath(path)), self.html().encode())

    def __str__(self) -> str:
        wide = max(len(k) for k, _ in self.head())
        parts = [self.verdict, "", *(f"{k.ljust(wide)}  {line(v)}" for k, v in self.head()), "", *table(self.owners())]
        where = max(self.phases, key=lambda p: p.total)
        parts += ["", f"the peak is in {where.name}" + (f", at {line(where.at)}" if where.at else ""), "", *table(self.rungs())]
        if self.offers:
            parts += ["", "also", *(f"  {row}" for row in table([["change", "takes", ""], *([o.change, _short(o.total) if o.total is not None else "", o.note] for o in self.offers)])[1:])]
        if self.verdicts is not None:
            parts += ["", *self.verdicts.lines()]
        if self.notes:
            parts += ["", *(f"note: {line(n)}" for n in self.notes)]
        return "\n".join(parts)


def _short(n: int) -> str:
    return "–" if not n else show_bytes(n)


def _count(n: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 1000 * size else f"{n / size:,.0f} {unit}"
    return str(n)


def show_time(ns: float) -> str:
    return f"{ns / 1e9:.2f} s" if ns >= 1e9 else f"{ns / 1e6:.1f} ms" if ns >= 1e6 else f"{ns / 1e3:.0f} µs"


def _size(n: int | None) -> str:
    return "" if n is None else f"{n:,}" if n else words.NONE


