"""What a forward pass depends on apart from the module's code."""

from __future__ import annotations

from typing import Any

import torch

from ..ranks.units import Unit, parameters_of, units_of
from ..step.sample import scalars
from ..step.sizes import Shape, shape_of
from ..step.spent import gradient
from ..step.tensors import local, tensors

_LOOK = 64  # forward passes between two looks for modules and parameters that were put in or taken out


class State:
    """The state of a module, read before each pass."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.looks = 0
        self.kind = type(model)  # fully_shard changes it
        self.units: list[Unit] = []
        self.parameters: list[torch.nn.Parameter] = []
        self.modules: list[torch.nn.Module] = []

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Everything that a recorded pass depends on."""
        shapes = tuple((t.shape, t.stride(), t.dtype, t.device, t.requires_grad) for t in tensors((args, kwargs)))
        autocast = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))
        if self.looks % _LOOK == 0 or type(self.model) is not self.kind:  # walking the modules costs more than reading their flags
            self.look()
        self.looks += 1
        state = tuple([p.requires_grad for p in self.parameters])
        modes = tuple([m.training for m in self.modules])
        sharded = tuple(unit.modes for unit in self.units)
        return shapes, scalars((args, kwargs)), autocast, hash(state), hash(modes), torch.get_num_threads(), sharded

    def shape(self, of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape:
        """The sizes of a pass, and everything else that it depends on: which module, and its key without the arguments."""
        place, key = of
        kind, sizes = shape_of((args, kwargs))
        return Shape((place, kind, key[2:]), sizes)

    def look(self) -> None:
        self.kind, self.units = type(self.model), units_of(self.model)
        self.parameters, self.modules = parameters_of(self.model, self.units), list(self.model.modules())

    def gradients(self) -> bool:
        """Whether gradients exist before a step. Nearly all parameters have none, so that is asked first."""
        for p in self.parameters:
            if p.grad is not None and p.requires_grad and gradient(p) is not None:
                return True
        return False

    def gradient_bytes(self) -> int:
        return sum(local(grad).nbytes for p in self.parameters if (grad := gradient(p)) is not None)
