"""Modules whose parameters FSDP2 shards: they are complete only while their unit is gathered.

Between the forward pass and its turn in the backward pass a unit's parameters have no bytes. So

* FSDP2's own operators (gathering, reducing, casts of shards) are neither recorded nor recomputed: their bytes are those
  of unrecorded operators;
* an operator that reads a unit's parameters is recomputed only while they are gathered: a value that is read outside that time and
  could only be recomputed within it is kept.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from ..step.tensors import local

# What FSDP2 calls at a group of parameters around and within the passes.
_METHODS = ("unshard", "wait_for_unshard", "reshard", "pre_forward", "post_forward", "pre_backward", "post_backward", "finalize_backward")
_UNIT = "_memopt_unit"


class Watcher(Protocol):
    """Receives notifications of FSDP2's actions."""

    aside: int  # above 0, what runs is FSDP2's own

    def turned(self, unit: Unit) -> None:
        """Called when a unit is gathered or sharded."""

    def follow(self, t: torch.Tensor) -> None:
        """Called when a buffer for a collective is allocated, which another thread may free."""


class Unit:
    """A group of parameters that FSDP2 gathers together."""

    def __init__(self, name: str, group: Any) -> None:
        self.name, self.group = name, group
        self.modules: set[torch.nn.Module] = set()  # between whose inputs and outputs it is gathered
        self.watcher: Watcher | None = None
        self.told = False  # whether the watcher takes the parameters to be whole
        for method in _METHODS:
            if hasattr(group, method):
                setattr(group, method, self._watched(getattr(group, method)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            watcher = self.watcher
            if watcher is None:
                return method(*args, **kwargs)
            watcher.aside += 1
            try:
                return method(*args, **kwargs)
            finally:
                watcher.aside -= 1
                for t in self.buffers():
                    watcher.follow(t)
                    del t
                if self.gathered != self.told:  # and no call within this one has told so
                    self.told = self.gathered
                    watcher.turned(self)

        return call

    def watched(self, watcher: Watcher | None) -> None:
        """Registers a watcher."""
        self.watcher, self.told = watcher, self.gathered

    @property
    def gathered(self) -> bool:
        """Whether the parameters are gathered."""
        return bool(self.group.is_unsharded)

    def buffers(self) -> Iterator[torch.Tensor]:
        """The tensors for collectives that exist now."""
        shared = getattr(self.group, "comm_ctx", None)
        scattered = getattr(shared, "reduce_scatter_states", None) or [getattr(shared, "reduce_scatter_state", None)]
        gathered = [self.group._all_gather_result, getattr(getattr(shared, "all_gather_state", None), "all_gather_result", None)]
        yield from (found.all_gather_output for found in gathered if found is not None)
        yield from (found.reduce_scatter_input for found in scattered if found is not None)

    def kept(self) -> Iterator[torch.Tensor]:
        """Tensors that outlive a step."""
        yield from self.parameters
        for p in self.group.fsdp_params:
            grads = (p.sharded_param.grad, getattr(getattr(p, "_unsharded_param", None), "grad", None), getattr(p, "unsharded_accumulated_grad", None))
            yield from (local(g) for g in grads if g is not None)
        reduced = (getattr(self.group, "_partial_reduce_output", None), getattr(getattr(self.group, "_all_reduce_state", None), "all_reduce_input", None))
        yield from (t for t in reduced if t is not None)

    @property
    def parameters(self) -> list[torch.Tensor]:
        """The gathered parameters, as operators read them."""
        return [local(p._unsharded_param) for p in self.group.fsdp_params if hasattr(p, "_unsharded_param")]

    @property
    def shards(self) -> list[torch.Tensor]:
        """This rank's part of the parameters."""
        return [local(p.sharded_param) for p in self.group.fsdp_params]

    @property
    def modes(self) -> tuple[Any, ...]:
        """The settings that may change between steps and that its bytes depend on."""
        g = self.group
        return tuple(getattr(g, name, None) for name in ("reduce_grads", "all_reduce_grads", "reshard_after_backward", "_reshard_after_forward"))

    def check(self, what: str) -> None:
        """Raises if an operator would read parameters without bytes."""
        if not self.gathered:
            raise RuntimeError(
                f"memopt: {what} would run again while the parameters of {self.name or 'the root'} are sharded; "
                "memopt.restore(model) lifts the plan, please report this with the model"
            )


def units_of(model: torch.nn.Module) -> list[Unit]:
    """The units of a module and of those in it, from the outermost on."""
    states = sys.modules.get("torch.distributed._composable_state")
    if states is None:
        return []
    found: dict[int, Unit] = {}
    for name, module in model.named_modules():
        state = states._get_module_state(module)
        groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
        for group in groups:
            if group is not None and id(group) not in found:
                unit = group.__dict__.get(_UNIT)
                if unit is None:
                    unit = group.__dict__[_UNIT] = Unit(name, group)
                found[id(group)] = unit
            if group is not None:
                found[id(group)].modules.add(module)
    return list(found.values())


def parameters_of(model: torch.nn.Module, units: Iterable[Unit]) -> list[torch.nn.Parameter]:
    """The parameters that have gradients: for units the shards, also while the unit is gathered."""
    both = [p for unit in units for p in unit.group.fsdp_params]
    shards = [p.sharded_param for p in both]
    known = {id(p) for p in [*shards, *(getattr(p, "_unsharded_param", None) for p in both)]}
    return [*shards, *(p for p in model.parameters() if id(p) not in known)]


def release(model: torch.nn.Module) -> None:
    """Restores the methods of groups of parameters."""
    for unit in units_of(model):
        for method in (*_METHODS, _UNIT):
            unit.group.__dict__.pop(method, None)


def unit_modules(model: torch.nn.Module) -> set[torch.nn.Module]:
    """The modules in a module that are units."""
    return {m for unit in units_of(model) for m in unit.modules if m is not model}
