"""Ranks that train one module together: who they are, what their wrapper holds, and one plan for all of them.

Ranks meet once for each module, when its first step is over: all come through that step, since its gradients are theirs
together. They meet at the store of the default process group and not in a collective, so nobody hangs who would be alone:
a rank that has recorded nothing says so, and one that does not come is waited for only so long. Later plans, for other
shapes, are each rank's own: what one makes again is no concern of the others.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch

from ...errors import BudgetError, MemoptError
from .units import Unit

PATIENCE = timedelta(minutes=2)  # with ranks that do not come; a process group that waits less has its own
_meetings: dict[tuple[int, ...], int] = {}


def _distributed() -> Any:
    """torch.distributed, if a process group is initialized."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def data_parallel(model: torch.nn.Module) -> Any:
    """The DistributedDataParallel around the module whose forward pass is running, if any."""
    wrapper = torch.nn.parallel.DistributedDataParallel._active_ddp_module
    return wrapper if wrapper is not None and any(m is model for m in wrapper.module.modules()) else None


def bucket_bytes(wrapper: Any, model: torch.nn.Module) -> int:
    """The bytes of DistributedDataParallel's buckets for a module: as many as all its gradients."""
    if wrapper is None:
        return 0
    ignored = wrapper.parameters_to_ignore
    reduced = {id(p) for name, p in wrapper.module.named_parameters() if name not in ignored}
    return sum(p.nbytes for p in model.parameters() if p.requires_grad and id(p) in reduced)


def refuse_flattened(model: torch.nn.Module) -> None:
    """Raises for parameters that FSDP1 has flattened."""
    old = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    if old is None:
        return
    if any(isinstance(m, old.FullyShardedDataParallel) for m in model.modules()) or any(
        getattr(p, "_is_flat_param", False) or getattr(p, "_fsdp_flattened", False) for p in model.parameters()
    ):
        raise TypeError(
            "this module's parameters are flattened by FullyShardedDataParallel (FSDP1), which frees and moves them within a step; "
            "shard it with torch.distributed.fsdp.fully_shard (FSDP2), blocks first and then the whole, and call memopt.optimize after that"
        )


def traps(model: torch.nn.Module) -> Iterator[str]:
    """Settings that waste memory or time, with advice."""
    checkpoints = sys.modules.get("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    if checkpoints is not None:
        wrapped = [name for name, m in model.named_modules() if isinstance(m, checkpoints.CheckpointWrapper)]
        if wrapped:
            yield (
                f"{len(wrapped)} modules are in checkpoint wrappers ({wrapped[0]} …): everything in them is made again, and what is between them is kept; "
                "leave activation checkpointing out (of Accelerate's FSDP plugin: activation_checkpointing=False), the plan does its work with less"
            )


Made = TypeVar("Made")


class Meeting:
    """Ranks about to plan the step of one module. A context manager: an error in it is raised on all ranks."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self.ranks, self.rank = tuple(sorted(ranks)), torch.distributed.get_rank()
        number = _meetings[self.ranks] = _meetings.get(self.ranks, 0) + 1
        store = torch.distributed.distributed_c10d._get_default_store()
        who = hashlib.blake2b(repr(self.ranks).encode(), digest_size=8).hexdigest()
        self.store = torch.distributed.PrefixStore(f"memopt/{who}/{number}", store)
        self.patience = min(PATIENCE, getattr(store, "timeout", PATIENCE))
        self.alone = False  # somebody has not come, or has nothing to plan
        self.same = False  # all have recorded the same step
        self.told: set[str] = set()

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.alone:
            return
        said = RuntimeError(repr(error)) if error is not None and not isinstance(error, MemoptError) else error
        for what in ("step", "plan") if error is not None else ():
            if what not in self.told:
                self._say(what, said if what == "plan" else None)
        self._say("end", said)
        if error is None:
            for rank in self.ranks:
                other = self._hear("end", rank)
                if isinstance(other, BudgetError):
                    raise BudgetError(
                        f"rank {rank} cannot keep to the budget, so no rank does: {other.message}",
                        want=other.want, best=other.best, fixed=other.fixed, floor=other.floor, changes=other.changes,
                    )  # fmt: skip
                if isinstance(other, Exception):
                    raise RuntimeError(f"memopt: rank {rank} could not plan: {other}")

    def absent(self) -> None:
        """Tells the other ranks that this one has recorded nothing."""
        self._say("step", None)
        self.alone = True

    def limit(self, graph: dict[str, Any], limit: int | None) -> int | None:
        """The bytes that a step may take on each of the ranks, if all run the same step: the least of their limits."""
        digest = hashlib.blake2b(json.dumps(graph, sort_keys=True).encode()).hexdigest()
        self._say("step", (digest, limit))
        found = [self._hear("step", rank) for rank in self.ranks]
        if self.alone or any(f is None for f in found):
            self.alone = True
            return limit
        self.same = all(f[0] == digest for f in found)
        limits = [f[1] for f in found if f[1] is not None]
        return min(limits) if self.same and limits else limit

    def plan(self, make: Callable[[], Made]) -> Made:
        """The first rank's plan, in whatever form, if all have recorded the same step, else each rank's own."""
        if self.alone or not self.same:
            return make()
        if self.rank == self.ranks[0]:
            try:
                made = make()
            except MemoptError as e:
                self._say("plan", e)
                raise
            self._say("plan", made)
            return made
        found = self._hear("plan", self.ranks[0])
        if isinstance(found, Exception):
            raise found
        return found if found is not None else make()  # type: ignore[no-any-return]

    def _say(self, what: str, value: Any) -> None:
        self.told.add(what)
        self.store.set(f"{what}/{self.rank}", zlib.compress(pickle.dumps(value), 1))

    def _hear(self, what: str, rank: int) -> Any:
        if self.alone:
            return None
        key = f"{what}/{rank}"
        try:
            self.store.wait([key], self.patience)
        except RuntimeError as e:  # that of a store has no type of its own
            self.alone = True
            warnings.warn(f"memopt: rank {rank} did not come to plan with rank {self.rank}, which plans for itself: {e}", stacklevel=3)
            return None
        return pickle.loads(zlib.decompress(self.store.get(key)))


def meeting(units: Sequence[Unit], wrapper: Any) -> Meeting | None:
    """Of the ranks that train a module together: those that its parameters are sharded over, or DistributedDataParallel's."""
    dist = _distributed()
    if dist is None:
        return None
    ranks: set[int] = set()
    for unit in units:
        ranks.update(unit.group.mesh_info.mesh.mesh.flatten().tolist())
    if wrapper is not None:
        ranks.update(dist.get_process_group_ranks(wrapper.process_group))
    return Meeting(sorted(ranks)) if len(ranks) > 1 else None
