"""PyTorch: training steps of a module, recorded, planned, and run under the plan in eager mode."""

import logging
import os

# The profiler's library logs that it starts, stops and finds no GPU; the counter
# of flops logs that there is no Triton.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

try:
    import torch as _  # noqa: F401
except ImportError as e:
    raise ImportError("memopt.optimize, memopt.Module, memopt.record, memopt.restore and memopt.ort.ORTModule need PyTorch 2.9 or newer: pip install torch") from e

from .ask.feasible import feasible
from .fit.fit import fit
from .lower.cross_entropy import chunked_cross_entropy
from .optimize import optimize, optimized, report, restore
from .plan.report import StepReport
from .record.record import Recording, record

__all__ = ["Recording", "StepReport", "chunked_cross_entropy", "feasible", "fit", "optimize", "optimized", "record", "report", "restore"]
