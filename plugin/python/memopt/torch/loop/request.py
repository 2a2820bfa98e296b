"""What memopt.optimize was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ..._arguments import Size
from ..elsewhere.engine import States, Where
from ..elsewhere.smaller import Lossy
from ..step.sample import Loss


@dataclass(frozen=True)
class Request:
    """The arguments that hold for every step."""

    budget: Size | None
    activation_budget: Size | None
    max_overhead: str | float | None
    loss: Loss | None
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None
    reserve: Size
    loss_chunks: int | Literal["auto"] | None
    strict: bool
    verbose: bool = True
    optimizer_in_backward: bool = False
    states: States | None = None
    offload: Where | None = None
    host_budget: Size | None = None
    sequence_tiles: int | Literal["auto"] | Sequence[int] | None = None
    lossy: Lossy | None = None

    @property
    def taken(self) -> tuple[str, ...]:
        """Arguments that lower the floor."""
        given = {"loss_chunks": self.loss_chunks not in (None, 1), "optimizer_in_backward": self.optimizer_in_backward}
        return tuple(name for name, there in given.items() if there)
