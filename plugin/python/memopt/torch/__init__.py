"""PyTorch: training steps of a module, recorded, planned, and run under the plan in eager mode."""

try:
    import torch as _  # noqa: F401
except ImportError as e:
    raise ImportError("memopt.optimize, record and restore need PyTorch 2.9 or newer: pip install torch") from e

from .optimize import StepReport, optimize, report, restore
from .record import Recording, record

__all__ = ["Recording", "StepReport", "optimize", "record", "report", "restore"]
