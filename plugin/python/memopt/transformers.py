"""memopt.TrainerCallback: transformers.Trainer within a budget.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[memopt.TrainerCallback(budget="6GiB")])
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch

try:
    import transformers
except ImportError as e:
    raise ImportError("memopt.TrainerCallback is a callback of transformers.Trainer: pip install transformers") from e

from ._arguments import Size
from ._visible import class_of
from .report import Bytes
from .torch import StepReport, optimize, report, restore
from .torch.ask.largest import max_batch
from .torch.plan.budget import fixed_bytes
from .torch.step.given import check_settings
from .torch.step.wrapped import inner_module

_SETTINGS = [name for name in inspect.signature(optimize).parameters if name not in ("model", "optimizer")]  # the Trainer's optimizer counts


class TrainerCallback(transformers.TrainerCallback):
    """Keeps the steps of a transformers.Trainer within a budget.

    budget     as for memopt.optimize, whose other settings are accepted, too. Optimizer states count
    sample     a batch as the model takes it, a dict: the plan is then made, or refused if nothing fits, before training
               begins. By default the first training step is recorded

    The promised and the measured peak are logged when they are known. When training ends the model is restored.

    With auto_find_batch_size=True the batch is the largest that fits under a plan, found by memopt.max_batch before
    training begins instead of by running out of memory.
    """

    def __init__(self, budget: Size | None = None, **settings: Any) -> None:
        if settings.get("optimizer_in_backward"):
            raise TypeError("optimizer_in_backward frees gradients in the backward pass, but transformers.Trainer reads the norm of all gradients after it: leave it out")
        self.settings = {"budget": budget, **settings}
        check_settings("memopt.TrainerCallback", self.settings, _SETTINGS)
        self.report: StepReport | None = None
        self._model: torch.nn.Module | None = None
        self._waits = False  # for the optimizer's states, whose bytes are unknown before its first step
        self._checkpointing: list[torch.nn.Module] = []
        self._logged: tuple[Any, ...] | None = None
        self._largest: int | None = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, train_dataloader: Any = None, **kwargs: Any
    ) -> None:
        _refuse(args)
        self._model = inner_module(model)
        self._model.train()  # as it is in every step
        self._checkpointing = [m for m in self._model.modules() if getattr(m, "gradient_checkpointing", False) is True]
        if self._checkpointing:
            warnings.warn(
                "memopt: activation checkpointing (gradient_checkpointing=True) computes every layer again whatever the budget is, and memopt only what the "
                "budget asks for, with the same results: it is off while memopt.TrainerCallback is there. Leave it out of the TrainingArguments",
                stacklevel=2,
            )
            for m in self._checkpointing:
                m.gradient_checkpointing = False  # type: ignore[assignment]
        if args.auto_find_batch_size:
            self._find_batch_size(args, train_dataloader, optimizer)
        self._waits = False
        try:
            fixed_bytes(self._model, optimizer)
        except ValueError:
            self._waits = self.settings.get("activation_budget") is None
        if not self._waits:
            self._plan(optimizer)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if self._waits:
            self._waits = False
            self._plan(optimizer)

    def _find_batch_size(self, args: Any, loader: Any, optimizer: Any) -> None:
        """Refuses batches that do not fit in the way that transformers answers by a smaller one."""
        assert self._model is not None
        asked = loader.total_batch_size if hasattr(loader, "total_batch_size") else loader.batch_size
        if self._largest is None:
            of_both = ("budget", "activation_budget", "max_overhead", "loss", "reserve", "loss_chunks")
            settings = {name: self.settings[name] for name in of_both if name in self.settings}
            with torch.random.fork_rng():
                self._largest = int(max_batch(self._model, _batches(loader, args.device), optimizer=optimizer, most=asked, ladder=False, **settings))
        if asked > self._largest:
            raise RuntimeError(f"memopt: of batches up to {self._largest} every step fits the budget; one of {asked} would run out of memory.")

    def _plan(self, optimizer: Any) -> None:
        assert self._model is not None
        optimize(self._model, optimizer=optimizer, **self.settings)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._model is not None:
            self.report = report(self._model) or self.report

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self.report is None:
            return
        known = {"memopt_eager_peak": Bytes(self.report.eager_peak), "memopt_promised_peak": Bytes(self.report.promised_peak)}
        if self.report.measured_peak is not None:
            known["memopt_measured_peak"] = Bytes(self.report.measured_peak)
        if self._logged == tuple(known.values()):
            return
        self._logged = tuple(known.values())
        for entry in (logs, state.log_history[-1] if state.log_history else None):
            if entry is not None:
                entry.update(known)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._model is not None:
            restore(self._model)
        for m in self._checkpointing:
            m.gradient_checkpointing = True  # type: ignore[assignment]
        self._model, self._checkpointing, self._largest = None, [], None


def _batches(loader: Any, device: torch.device) -> Callable[[int], Any]:
    """Batches of any size, of the rows of a loader's data from the first on."""
    data = loader.dataset
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise ValueError(
            f"auto_find_batch_size=True needs rows of the data to try batches of, and {class_of(data)} has none by number: "
            "leave it out and set per_device_train_batch_size to what memopt.max_batch finds"
        )

    def batch(size: int) -> Any:
        rows = loader.collate_fn([data[i % len(data)] for i in range(size)])
        return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in rows.items()}

    return batch


def _refuse(args: Any) -> None:
    """What a plan of eager steps has no hold on."""
    if getattr(args, "torch_compile", False):
        raise ValueError('torch_compile=True compiles the model around the plan, which would not be obeyed: take it out, and give memopt.TrainerCallback mode="compile" instead')
    if getattr(args, "n_gpu", 1) > 1:
        raise ValueError(
            f"the Trainer splits each batch over {args.n_gpu} devices by DataParallel, which copies the model in every step: "
            "start one process for each device with torchrun, or set CUDA_VISIBLE_DEVICES"
        )
