"""The report of a module's step in the service: promised and measured memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..._visible import line
from ...report import Report, show_bytes


@dataclass
class ServedReport:
    """The plan for one batch's shapes, and the steps run under it. Peaks and the floor are bytes on the service's device."""

    device: str
    plan: Report = field(repr=False)
    kept_peak: int  # with everything kept
    promised_peak: int
    measured_peak: int | None = None  # the highest of all steps
    floor: int = 0
    floor_node: str = ""
    overhead: float = 0.0  # extra time, as a share of the step's
    gap: float = 0.0  # of it, at most so much could be saved at this peak
    steps: int = 0
    seconds: float = 0.0  # of the last step, forward and backward
    load: dict[str, Any] | None = None  # what loading the weights was promised to take, by the formula of load_mode, and took; None before the first step

    @classmethod
    def of(cls, device: str, plan: Report) -> ServedReport:
        """The report of a plan under which nothing has run yet."""
        gap = plan.bound.gap if plan.get("bound") else 0.0
        floor = plan.get("floor") or {}
        return cls(
            device, plan, plan.baseline.peak, plan.result.arena if "arena" in plan.result else plan.result.peak,
            floor=int(floor.get("peak") or 0), floor_node=str(floor.get("node") or ""), overhead=plan.result.overhead, gap=gap or 0.0,
        )  # fmt: skip

    def add(self, seconds: float, peak: int, begins: bool, ends: bool) -> None:
        """Counts a step, or half of one."""
        self.measured_peak = max(peak, self.measured_peak or 0)
        self.seconds = seconds if begins else self.seconds + seconds
        self.steps += ends

    def __str__(self) -> str:
        measured = f", measured {show_bytes(self.measured_peak)}" if self.measured_peak is not None else ""
        floor = f"; floor {show_bytes(self.floor)}, set by {line(self.floor_node)}" if self.floor else ""
        load = ""
        if self.load and self.load["mode"] != "streamed":  # which takes no more than the step
            load = f"; while loading ({self.load['mode']}: {self.load['formula']}): promised {show_bytes(self.load['promised'])}, measured {show_bytes(self.load['measured'])}"
        return (
            f"memopt: promised {show_bytes(self.promised_peak)}{measured} on {self.device}, of {show_bytes(self.kept_peak)} with everything kept, "
            f"for {self.overhead:+.1%} time{floor}; {self.steps} steps, the last in {self.seconds * 1000:.1f} ms{load}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON. The whole plan is plan.to_dict()."""
        names = ["device", "kept_peak", "promised_peak", "measured_peak", "floor", "floor_node", "overhead", "gap", "steps", "seconds", "load"]
        return {"format": "memopt.torch.served/1", **{name: getattr(self, name) for name in names}}
