"""A step recorded within a limit: saved tensors are dropped as it runs if keeping everything would exceed the limit.

Without a plan, the inputs and outputs of blocks stay (the modules in the outermost ModuleList, ModuleDict or
Sequential), and so do results of operators that cannot run again. What is asked for in between is made from these when
the backward pass comes to the block, and dropped when it comes to the next. As long as the limit holds nothing happens.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from ..ranks.units import Unit, unit_modules
from ..step.tensors import View, counter, pieces, referred
from .again import Captured, captured, digest, modified, run_op
from .operators import Call, Op, Save, Value


def blocks_of(model: torch.nn.Module) -> set[torch.nn.Module]:
    """The modules whose inputs and outputs stay."""
    found: set[torch.nn.Module] = set()

    def look(module: torch.nn.Module) -> None:
        for child in module.children():
            if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)):
                found.update(child.children())
            else:
                look(child)

    look(model)
    return found or set(model.children())


class Packed:
    """Autograd's handle of a saved tensor: a tensor, or how to view the value after its recomputation."""

    __slots__ = ("__weakref__", "gathered", "graph", "save", "tensor", "version", "view", "writes")

    def __init__(self, tensor: torch.Tensor, of: torch.Tensor, save: Save, graph: object) -> None:
        self.tensor: torch.Tensor | None = tensor
        self.writes, self.version = counter(of), of._version
        self.save, self.graph = save, graph
        self.view: View | None = None
        self.gathered: frozenset[Unit] = frozenset()

    def check(self) -> None:
        """Hooks switch off autograd's own check. Parts that unsafe_split made count writes each for itself: a write into one spoils no other."""
        if self.writes._version != self.version:
            raise modified(self.save.value.shape, self.writes._version, self.version)


class Recorded(Protocol):
    """What is known of the step so far."""

    ops: list[Op]
    called: dict[int, Call]
    spans: int
    saves: list[Save]
    values: list[Value]
    sharded: dict[Value, Unit]
    gathered: frozenset[Unit]

    @property
    def model(self) -> torch.nn.Module:
        """The module that is recorded."""

    def value(self, t: torch.Tensor) -> Value:
        """The value that a tensor shows."""

    def show(self, storage: torch.UntypedStorage, value: Value) -> None:
        """Takes note that a storage holds a value."""

    def unseen(self) -> AbstractContextManager[None]:
        """Records nothing within."""


class Within:
    """Keeps a recorder below a limit if possible."""

    def __init__(self, recorder: Recorded, limit: int, wrong: Callable[[Op], None] | None) -> None:
        self.r = recorder
        self.limit = limit
        self.wrong = wrong  # called where an operator gave other bits
        self.live = 0  # bytes of the step's storages
        self.dropping = False
        self.blocks = blocks_of(recorder.model) | unit_modules(recorder.model)
        self.block = 0  # counts entries and exits
        self.calls: dict[int, Captured] = {}
        self.block_of: dict[int, int] = {}  # by value
        self.storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}  # by value
        self.pinned: set[int] = set()
        self.kept: dict[int, torch.UntypedStorage] = {}  # pinned ones, once others are dropped
        self.packed: list[weakref.ref[Packed]] = []
        self.can: dict[int, bool] = {}  # by value: whether it can be made again
        self.needs: dict[int, frozenset[Unit]] = {}  # by value
        self.bits: dict[int, int] = {}
        self.made: dict[int, torch.UntypedStorage] = {}  # again, for the block that the backward pass is in
        self.current = -1

    def end(self) -> None:
        """Releases all tensors."""
        for held in (self.calls, self.storages, self.kept, self.packed, self.made):
            held.clear()
        self.__dict__.pop("r", None)

    # The forward pass.

    def made_value(self, value: Value, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self.live += size
        self.block_of[value.number] = self.block
        here = weakref.ref(self)

        def gone(_: Any) -> None:
            w = here()
            if w is not None:
                w.live -= size

        self.storages[value.number] = weakref.ref(storage, gone)

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        """Takes down a call. What only operators that read a value about to change can make is made before it does."""
        r = self.r
        _, self.calls[r.spans] = captured(func, args, kwargs, lambda t: None if (v := r.value(t)).maker is None else v.number)
        if self.dropping and func._schema.is_mutable:
            written = [r.value(t) for i, a in enumerate(func._schema.arguments) if a.alias_info is not None and a.alias_info.is_write for t in pieces(args[i : i + 1])]
            for op in r.ops:
                if any(v in op.inputs for v in written):
                    for out in op.outputs:
                        if any(s.value is out for s in r.saves) and out.number not in self.kept:
                            self.kept[out.number] = self.again(out.number)

    def after(self, op: Op) -> None:
        """Drops values that can be recomputed, if the limit is exceeded."""
        if op.once:
            for value in op.outputs:
                self.pin(value)
        if not self.dropping and self.live > self.limit:
            self.dropping = True
            for number in self.pinned:
                self._keep(number)
            for ref in self.packed:
                packed = ref()
                if packed is not None:
                    self.drop(packed)

    def boundary(self, inside: Any) -> None:
        """The arguments or the results of a block."""
        self.block += 1
        for t in pieces(inside):
            value = self.r.value(t)
            if value.maker is not None:
                self.pin(value)

    def pin(self, value: Value) -> None:
        self.pinned.add(value.number)
        if self.dropping:
            self._keep(value.number)

    def _keep(self, number: int) -> None:
        storage = referred(self.storages[number]) if number in self.storages else None
        if storage is not None:
            self.kept[number] = storage

    def pack(self, packed: Packed) -> None:
        self.packed.append(weakref.ref(packed))
        packed.gathered = self.r.gathered  # and will be again where the tensor is asked for
        if self.dropping:
            self.drop(packed)

    def drop(self, packed: Packed) -> None:
        value, tensor = packed.save.value, packed.tensor
        if value.maker is None or value.number in self.pinned or tensor is None or value.next is not None or not self._can_make(value):
            return
        if not self._needs(value) <= packed.gathered:
            return
        if value.number not in self.bits:
            self.bits[value.number] = digest(tensor.untyped_storage())
        packed.view, packed.tensor = View(tensor), None

    def _can_make(self, value: Value) -> bool:
        """Whether a value can be recomputed: all of its inputs are kept or can be recomputed."""
        number, op = value.number, value.maker
        if number in self.kept or op is None:
            return True
        if number not in self.can:
            self.can[number] = not op.once and all(c in self.calls for c in op.calls) and all(self._can_make(v) for v in op.inputs if v.maker is not op)
        return self.can[number]

    def _needs(self, value: Value) -> frozenset[Unit]:
        """The units that must be gathered to recompute a value."""
        if value in self.r.sharded:
            return frozenset((self.r.sharded[value],))
        if not self.r.sharded or value.maker is None or value.number in self.kept:
            return frozenset()
        if value.number not in self.needs:
            self.needs[value.number] = frozenset().union(*(self._needs(v) for v in value.maker.inputs))
        return self.needs[value.number]

    # The backward pass.

    def unpack(self, packed: Packed) -> torch.Tensor:
        assert packed.view is not None
        value = packed.save.value
        block = self.block_of.get(value.number, 0)
        if block != self.current:
            self.made.clear()
            self.current = block
        storage = self.again(value.number)
        self.r.show(storage, value)
        return packed.view.of(storage)

    def again(self, number: int) -> torch.UntypedStorage:
        """A value's storage: kept, still alive, or recomputed."""
        known = self.kept.get(number) or self.made.get(number)
        if known is None and number in self.storages and number not in self.bits:
            known = referred(self.storages[number])
        if known is not None:
            return known
        op = self.r.values[number].maker
        assert op is not None and not op.once
        for v in op.inputs:
            if v in self.r.sharded:
                self.r.sharded[v].check(op.op + (f" of {op.module}" if op.module else ""))
        with self.r.unseen():
            made = run_op(op, self.calls, self.r.called, self.again)
        for n, storage in made.items():
            was = self.bits.get(n)
            if was is not None and was != digest(storage):
                op.once = True
                if self.wrong is not None:
                    self.wrong(op)
            self.made.setdefault(n, storage)
        return self.made[number]
