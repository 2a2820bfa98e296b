"""What one of several ranks holds: whole parameters, or shards that are gathered unit by unit, as FSDP2 does it.

Units are the blocks of a module's lists, and the rest of it, the root. Forward, a unit is gathered into one buffer, which is copied out
to its parameters and lives until the next unit's is. Backward, the next unit's buffer is gathered while a unit runs; its gradients are
copied into one buffer, which lives until the next unit's is, and reduced to a shard. The root is whole for the whole step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy
import torch

from .account import GATHERED, GRADIENTS, Line
from .optimizers import Optimizer
from .request import Request


@dataclass(frozen=True)
class Unit:
    """Parameters that are gathered together."""

    path: str  # of the block; "" is the root
    bytes: int
    shard: int
    trained: int  # bytes of parameters with gradients
    trained_shard: int


class Rank:
    """The part of one rank, the one that holds the most."""

    def __init__(self, request: Request, module: torch.nn.Module, optimizer: Optimizer, foreach: bool) -> None:
        self.request, self.optimizer = request, optimizer
        self.transport = not foreach  # on processors the transport has a buffer of its own for what it gathers
        self.replicas = request.replicas
        self.shard = request.shard if self.replicas > 1 else None
        named = dict(module.named_parameters())
        self.all = list(named.values())
        trained = [p for p in self.all if p.requires_grad]
        buffers = sum(b.nbytes for b in {id(b): b for b in module.buffers()}.values())
        self.units = self._units(module, named) if self.sharded else []
        parts = [self._part(p) for p in trained] if self.sharded else trained
        self.weights = buffers + (sum(u.shard for u in self.units) if self.sharded else sum(p.nbytes for p in self.all))
        self.gradients = sum(p.nbytes for p in parts)
        self.states = sum(optimizer.states(p) for p in parts)
        self.update = optimizer.update(parts, foreach)
        self.buckets = 0
        if self.shard in ("ddp", "zero1"):
            self.buckets = self.gradients  # of which they are reduced, beside themselves
        if self.shard == "zero1":
            self.states = max(self.states // self.replicas, max((optimizer.states(p) for p in trained), default=0))

    @property
    def sharded(self) -> bool:
        """Whether parameters are."""
        return self.shard in ("fsdp2", "zero2")

    def _part(self, p: torch.Tensor) -> torch.Tensor:
        """The shard of a parameter: rows, rounded up."""
        if p.ndim == 0:
            return p
        return torch.empty(-(-p.shape[0] // self.replicas), *p.shape[1:], dtype=p.dtype, device="meta")

    def _units(self, module: torch.nn.Module, named: dict[str, torch.nn.Parameter]) -> list[Unit]:
        paths: list[str] = []
        for path, child in module.named_modules():
            if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) and not any(path.startswith(p + ".") for p in paths):
                paths += [f"{path}.{name}" if path else name for name, _ in child.named_children()]
        of: dict[str, list[torch.Tensor]] = {path: [] for path in [*paths, ""]}
        for name, p in named.items():
            of[next((path for path in self._above(name) if path in of), "")].append(p)
        return [self._unit(path, ps) for path, ps in of.items() if ps or not path]

    def _above(self, name: str) -> Iterable[str]:
        """The modules that something is in, the innermost first."""
        while "." in name:
            name = name.rpartition(".")[0]
            yield name

    def _unit(self, path: str, parameters: Sequence[torch.Tensor]) -> Unit:
        trained = [p for p in parameters if p.requires_grad]
        shard = sum(self._part(p).nbytes for p in parameters)
        return Unit(path, sum(p.nbytes for p in parameters), shard, sum(p.nbytes for p in trained), sum(self._part(p).nbytes for p in trained))

    # From node to node.

    def gather(self, line: Line) -> None:
        """Adds to a line what is gathered, and has its gradients reduced to shards."""
        n = len(line.rows[GRADIENTS])
        if self.buckets:
            line.rows[GATHERED] = numpy.full(n, self.buckets, dtype=numpy.int64)
        if not self.sharded:
            return
        nodes = line.step.nodes
        known: dict[str, int] = {}
        place = {u.path: i for i, u in enumerate(self.units)}
        root = place[""]

        def unit_of(module: str) -> int:
            if module not in known:
                known[module] = next((place[path] for path in [module, *self._above(module)] if path in place), root)
            return known[module]

        spans: list[dict[int, tuple[int, int]]] = [{}, {}]  # forward and backward, by unit: its first and last node
        for i, node in enumerate(nodes):
            if not node.get("module"):
                continue
            span = spans[bool(node["is_backward"])]
            u = unit_of(node["module"])
            span[u] = (span[u][0] if u in span else i, i)
        gathered = numpy.zeros(n + 1, dtype=numpy.int64)
        gradients = numpy.zeros(n + 1, dtype=numpy.int64)

        def hold(row: numpy.ndarray, size: int, begin: int, end: int) -> None:  # type: ignore[type-arg]
            row[begin] += size
            row[min(end, n)] -= size

        r = self.replicas
        forward = sorted((span, u) for u, span in spans[0].items() if u != root)
        backward = sorted((span, u) for u, span in spans[1].items() if u != root)
        whole = {u: r * self.units[u].shard for u in place.values()}  # of buffers: shards are padded
        hold(gathered, self.units[root].bytes, 0, n)
        hold(gathered, whole[root], 0, forward[0][0][0] + 1 if forward else n)
        until = {u: span[1] for span, u in backward}  # it is resharded before its gradients are copied
        for k, ((begin, end), u) in enumerate(forward):
            following = forward[k + 1][0][0] if k + 1 < len(forward) else n
            hold(gathered, self.units[u].bytes, begin, until.get(u, n) if self.shard == "zero2" else end + 1)
            hold(gathered, whole[u], begin, following if k + 1 < len(forward) else line.step.first_backward)
            hold(gathered, whole[u] if self.transport else self.units[u].shard, begin, begin + 1)
        for k, ((begin, end), u) in enumerate(backward):
            reduced = r * self.units[u].trained_shard
            if self.shard == "fsdp2":
                hold(gathered, self.units[u].bytes, begin, end)
                if k + 1 < len(backward):
                    following = backward[k + 1][1]
                    hold(gathered, whole[following], begin, backward[k + 1][0][0])
                    hold(gathered, whole[following] if self.transport else self.units[following].shard, begin, begin + 1)
            hold(gathered, reduced, end, backward[k + 1][0][1] if k + 1 < len(backward) else n)
            hold(gradients, self.units[u].trained_shard, end, n)
        reduce_at = {u: span[1] for span, u in backward}
        of_gradient = {name: unit_of(source.rpartition(".")[0]) for name, source in self._gradients(line)}
        for v in line.step.values.values():
            if v.gradient:
                hold(gradients, v.bytes, v.made, reduce_at.get(of_gradient.get(v.name, root), n - 1) + 1)
        line.rows[GATHERED] = gathered.cumsum()[:n]
        line.rows[GRADIENTS] = gradients.cumsum()[:n]

    def _gradients(self, line: Line) -> Iterable[tuple[str, str]]:
        """Gradients, and the parameters that they are of."""
        for name, node in zip(line.gradients, line.step.inputs.values(), strict=True):
            if name is not None and node.get("source"):
                yield name, node["source"]
