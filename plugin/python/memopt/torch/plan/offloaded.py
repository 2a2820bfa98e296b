"""A user's own offload in a recorded step: what it buys, what it costs, and what plans do for the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...report import show_bytes
from ..record.record import Recording
from .policies import priced


@dataclass(frozen=True)
class Instead:
    """A plan beside it."""

    peak: int
    overhead: float


@dataclass(frozen=True)
class OwnOffload:
    """Saved-tensor hooks of the user's that move values, beside the same step with everything kept."""

    name: str  # of the hooks
    place: str  # "host" or "disk"
    values: int  # that leave
    bytes: int  # of all copies out, with those that buy nothing
    idle: int  # bytes of copies of what stays all the same: parameters, inputs, values that are held or copied twice
    kept: int  # the peak with everything kept
    peak: int
    overhead: float  # extra time, with what waits for copies
    waits: bool  # for each copy; else copies run beside operators
    same_bytes: Instead | None  # a plan of no more bytes
    same_time: Instead | None  # a plan of no more time

    @property
    def buys(self) -> int:
        """Bytes of the peak; below 0 where it takes more."""
        return self.kept - self.peak

    def __str__(self) -> str:
        if not self.bytes:
            return f"{self.name} moves nothing here: what it is given stays in memory"
        what = f"{self.name} moves {show_bytes(self.bytes)} to the {self.place} and back"
        time = f"{self.overhead:+.1%} time" + ("" if self.waits else ", as long as copies run beside operators")
        if self.buys <= 0:
            said = f"{what} and buys nothing here: the peak is {show_bytes(self.kept)} either way, for {time}"
        else:
            said = f"{what}: it buys {show_bytes(self.buys)} of {show_bytes(self.kept)} for {time}"
        if self.idle:
            said += f"; copies of {show_bytes(self.idle)} buy nothing, as those bytes stay"
        if self.same_bytes is not None:
            said += f"; a plan of the same bytes costs {self.same_bytes.overhead:+.1%}"
        if self.same_time is not None and self.same_time.peak < self.peak:
            said += f"; one of the same time needs {show_bytes(self.same_time.peak)}, of {show_bytes(self.peak)}"
        return said

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        plans = {name: vars(p) if p is not None else None for name, p in (("same_bytes", self.same_bytes), ("same_time", self.same_time))}
        return {**vars(self), "buys": self.buys, **plans}


def own_offload(recording: Recording) -> OwnOffload | None:
    """What the user's own hooks do in a step that was recorded to price them; None if there are none."""
    sent = recording.sent
    if not sent.name:
        return None
    place = "disk" if recording.graph.get("device") == "cpu" else "host"
    moved = {v: n for v, n in sent.values().items() if v.name}
    twice = sum(max(0, n - v.bytes) for v, n in moved.items())
    policy = {"offload": {"values": [v.name for v in moved], "waits": sent.waits, "beside": sent.beside + twice, "place": place}}
    found = priced(recording.graph, policy, offload=place)
    beside = [Instead(p["peak"], p["overhead"]) if (p := found[name]) else None for name in ("same_bytes", "same_time")]
    return OwnOffload(
        sent.name, place, len(moved), found["moved"] + found["idle"], found["idle"], found["everything_kept"]["peak"], found["policy"]["peak"], found["policy"]["overhead"], sent.waits, *beside
    )
