"""memopt.lightning.MemoptCallback: Lightning's Trainer within a budget.

    trainer = lightning.Trainer(callbacks=[memopt.lightning.MemoptCallback(budget="6GiB")])
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ._arguments import Size
from ._visible import class_of
from .torch import StepReport, optimize, report, restore
from .torch.step.given import check_settings
from .torch.step.wrapped import inner_module, inner_optimizers

_SETTINGS = [name for name in inspect.signature(optimize).parameters if name not in ("model", "optimizer", "sample")]  # training_step is what is planned, with the trainer's optimizers

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule
elif "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback, LightningModule  # the same under its older name
else:
    try:
        from lightning.pytorch import Callback, LightningModule
    except ImportError as e:
        raise ImportError("memopt.lightning.MemoptCallback is a callback of Lightning's Trainer: pip install lightning") from e

class MemoptCallback(Callback):
    """Keeps the training steps of a LightningModule within a budget.

    budget     as for memopt.optimize, whose other settings are accepted, too. Optimizer states count
    module     a module, or its name in the LightningModule, to plan the forward pass of only; by default all of
               training_step is planned

    The first training step is recorded. The promised and the measured peak are logged when they are known. When
    training ends the module is restored.
    """

    def __init__(self, budget: Size | None = None, *, module: str | torch.nn.Module | None = None, **settings: Any) -> None:
        super().__init__()
        self.module = module
        self.settings = {"budget": budget, **settings}
        check_settings("memopt.lightning.MemoptCallback", self.settings, _SETTINGS)
        self.report: StepReport | None = None
        self._planned: torch.nn.Module | None = None
        self._logged: tuple[Any, ...] | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if getattr(pl_module, "_compiler_ctx", None) is not None:
            raise ValueError("memopt.lightning.MemoptCallback plans eager steps, but the LightningModule is compiled: remove the callback or the compilation")
        if self.module is not None:
            planned = pl_module.get_submodule(self.module) if isinstance(self.module, str) else self.module
            self._planned = inner_module(planned)
        elif not pl_module.automatic_optimization:
            children = ", ".join(repr(name) for name, child in pl_module.named_children() if any(p.requires_grad for p in child.parameters()))
            raise ValueError(
                f"{class_of(pl_module)}.training_step starts the backward pass itself (automatic_optimization is False): name the child whose forward pass "
                f"is to be planned, memopt.lightning.MemoptCallback(module=…), one of {children}"
            )
        else:
            self._planned = _TrainingStep(pl_module)
        optimize(self._planned, optimizer=trainer.optimizers, **self.settings)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Frees the last step's gradients before the forward pass; Lightning would keep them until after it."""
        if not pl_module.automatic_optimization or batch_idx % trainer.accumulate_grad_batches or _sees_zero_grad(trainer, pl_module):
            return
        for optimizer in inner_optimizers(trainer.optimizers):
            optimizer.zero_grad()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._planned is None:
            return
        self.report = found = report(self._planned) or self.report
        if found is None:
            return
        known = {"memopt_eager_peak": found.eager_peak, "memopt_promised_peak": found.promised_peak}
        if found.measured_peak is not None:
            known["memopt_measured_peak"] = found.measured_peak
        if self._logged != tuple(known.values()):
            self._logged = tuple(known.values())
            pl_module.log_dict({name: float(size) for name, size in known.items()})

    def _restore(self, pl_module: Any) -> None:
        if self._planned is not None:
            restore(self._planned)
            if isinstance(self._planned, _TrainingStep):
                self._planned.take_out()
        self._planned = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._restore(pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._restore(pl_module)


def _sees_zero_grad(trainer: Any, pl_module: Any) -> bool:
    """Whether a hook around zero_grad may read gradients."""
    own = any(getattr(type(pl_module), name) is not getattr(LightningModule, name) for name in ("on_before_zero_grad", "optimizer_zero_grad"))
    return own or any(type(c).on_before_zero_grad is not Callback.on_before_zero_grad for c in trainer.callbacks)


class _TrainingStep(torch.nn.Module):
    """training_step as the forward pass of a module.

    The plan does not cover the number of the batch, which changes each time, and log, which runs
    other operators in the first step than later.
    """

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module
        self.replaced = {name: module.__dict__.get(name) for name in ("training_step", "log")}
        self.step: Callable[..., Any] = module.training_step
        self.rest: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
        module.training_step, module.log = self._stand_in(), _unseen(module.log)

    def forward(self, batch: Any) -> Any:
        args, kwargs = self.rest
        return self.step(batch, *args, **kwargs)

    def _stand_in(self) -> Callable[..., Any]:
        @functools.wraps(self.step)
        def training_step(*args: Any, **kwargs: Any) -> Any:
            self.training = self.module.training
            batch, rest = (args[0], args[1:]) if args else (kwargs.pop("batch"), ())
            self.rest = rest, kwargs
            return self(batch)

        return training_step

    def take_out(self) -> None:
        """Restores the module's own methods."""
        for name, method in self.replaced.items():
            self.module.__dict__.pop(name, None)
            if method is not None:
                setattr(self.module, name, method)


def _unseen(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return method(*args, **kwargs)

    return run
