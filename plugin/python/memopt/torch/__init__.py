"""PyTorch: training steps of a module, recorded, planned, and run under the plan in eager mode."""

from .optimize import StepReport, optimize, report, restore
from .record import Recording, record

__all__ = ["Recording", "StepReport", "optimize", "record", "report", "restore"]
