"""What the plan of a training step promises, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..report import Report, show_bytes
from .record import Recording


@dataclass
class StepReport:
    """What the plan of a step promises, and what was measured. Bytes are of activations, gradients and work space."""

    eager_peak: int
    promised_peak: int
    measured_peak: int | None
    floor: int
    floor_at: str
    overhead: float
    gap: float
    fixed: int  # bytes of parameters, buffers and optimizer states, beside the peak
    plan: Report | None = field(repr=False)  # None: everything is kept
    recording: Recording = field(repr=False)

    def __str__(self) -> str:
        if self.plan is None:
            return f"memopt: the step takes {show_bytes(self.eager_peak)} as it is, and fits: nothing to do"
        measured = f", measured {show_bytes(self.measured_peak)}" if self.measured_peak is not None else ""
        return (
            f"memopt: promised {show_bytes(self.promised_peak)}{measured}, of {show_bytes(self.eager_peak)} in eager mode, for {self.overhead:+.1%} compute; "
            f"{show_bytes(self.fixed)} of parameters and states beside it; floor {show_bytes(self.floor)} at {self.floor_at}"
        )
