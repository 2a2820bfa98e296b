"""memopt: plans the memory of a training step.

    import memopt
    plan = memopt.plan("train.onnx", budget="8GB", dims={"batch": 8, "seq": 2048})
    print(plan)             # the table
    plan.result.peak        # bytes

The work is done by the memopt binary, which is started at the first call and ends with this process. Importing this package
loads neither grpc nor protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _backend as _backend
from .errors import BudgetError, MemoptError

if TYPE_CHECKING:
    from ._host import close
    from ._load import load
    from ._plan import info, plan, stats
    from ._quantize import quantize
    from ._questions import check, explain, frontier, max_batch, max_seq
    from .report import Report
    from .torch.ask.feasible import feasible as feasible
    from .torch.fit.fit import fit as fit
    from .torch.lower.cross_entropy import chunked_cross_entropy as chunked_cross_entropy
    from .torch.optimize import optimize as optimize
    from .torch.optimize import optimized as optimized
    from .torch.optimize import restore
    from .torch.record.record import record as record
    from .torch.serve.module import Module as Module
    from .transformers import TrainerCallback as TrainerCallback

__version__ = "0.1.0"

_torch = ["chunked_cross_entropy", "feasible", "fit", "optimize", "optimized", "record", "restore"]
_questions = ["check", "explain", "frontier", "max_batch", "max_seq"]
_lazy = {"Module": "torch.serve.module", "Report": "report", "TrainerCallback": "transformers", "close": "_host", "info": "_plan", "load": "_load", "plan": "_plan", "quantize": "_quantize", "stats": "_plan"}
_lazy |= dict.fromkeys(_questions, "_questions") | dict.fromkeys(_torch, "torch")

__all__ = [
    "BudgetError", "MemoptError", "Module", "Report", "check", "chunked_cross_entropy", "close", "explain", "feasible", "fit", "frontier", "info", "load", "max_batch", "max_seq", "optimize", "optimized", "plan",
    "quantize", "record", "restore", "stats",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "lightning":
        return import_module(".lightning", __name__)
    module = _lazy.get(name)
    if module is None:
        raise AttributeError(f"module 'memopt' has no attribute {name!r}")
    value = getattr(import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_lazy) | {"lightning"})
