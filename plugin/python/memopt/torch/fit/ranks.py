"""What one of several ranks holds: whole parameters, or shards that are gathered unit by unit, as FSDP2 does it.

Units are the blocks of a module's lists, and the rest of it, the root. Forward, a unit is gathered into one buffer, which is copied out
to its parameters and lives until the next unit's is. Backward, the next unit's buffer is gathered while a unit runs; its gradients are
copied into one buffer, which lives until the next unit's is, and reduced to a shard. The root is whole for the whole step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy
import torch

from ..plan.form import Form, Node, Place
from .account import GATHERED, GRADIENTS, Line
from .experts import is_expert, part_of
from .links import Moves
from .models import DTYPES
from .optimizers import Optimizer
from .request import Request

_BUCKET = 25 << 20  # bytes that DDP reduces at a time
_NEAR = 8  # nodes between a product and what reads its sum


@dataclass(frozen=True)
class Unit:
    """Parameters that are gathered together."""

    path: str  # of the block; "" is the root
    bytes: int  # as the step has them
    shard: int  # as they lie there
    cast: int  # the shard in the type in which it is gathered, where that is another
    gathered: int  # the buffer of all shards, which are padded
    trained_shard: int  # the gradients' shard
    reduced: int  # the buffer in which gradients are reduced


class Rank:
    """The part of one rank, the one that holds the most."""

    def __init__(self, request: Request, module: torch.nn.Module, optimizer: Optimizer, foreach: bool, without: Collection[str] = ()) -> None:
        """without names parameters that another stage has."""
        self.request, self.optimizer = request, optimizer
        self.transport = not foreach  # on processors the transport has a buffer of its own for what it gathers
        self.replicas = request.replicas
        self.shard = request.shard if self.replicas > 1 or request.param_dtype else None
        self.stored = DTYPES[request.dtype] if request.param_dtype and request.dtype else None
        self.reducing = DTYPES[request.reduce_dtype] if request.reduce_dtype else None
        named = {name: p for name, p in module.named_parameters() if name not in without}
        self.experts: set[int] = set()  # parameters by id, of those that ranks divide
        if request.expert > 1:
            named = {name: part_of(p, request.expert) if is_expert(name, p) else p for name, p in named.items()}
            self.experts = {id(p) for name, p in named.items() if is_expert(name, p)}
        self.all = list(named.values())
        trained = [p for p in self.all if p.requires_grad]
        buffers = sum(b.nbytes for b in {id(b): b for b in module.buffers()}.values())
        self.units = self._units(module, named) if self.sharded else []
        parts = [self._part(p) for p in trained] if self.sharded else trained
        self.weights = buffers + (sum(u.shard for u in self.units) if self.sharded else sum(p.nbytes for p in self.all))
        self.gradients = sum(p.nbytes for p in parts)
        if request.tensor > 1 and not self.sharded:  # those of embeddings are of all words
            words = {id(m.weight) for m in module.modules() if isinstance(m, torch.nn.Embedding)}
            self.gradients += (request.tensor - 1) * sum(p.nbytes for p in trained if id(p) in words)
        # Between passes of a pipeline's microbatches FSDP2 adds gradients up whole, in the type in which it reduces them then.
        self.between = sum(p.numel() * (self.reducing or p.dtype).itemsize for p in trained) if self.sharded and request.pipeline > 1 else self.gradients
        self.states = sum(optimizer.states(p) for p in parts)
        self.update = optimizer.update(parts, foreach)
        self.updating = optimizer.work(parts, foreach)
        self.buckets = 0
        if self.shard in ("ddp", "zero1"):
            self.buckets = self.gradients  # of which they are reduced, beside themselves
        if self.shard == "zero1":
            self.states = max(self.states // self.replicas, max((optimizer.states(p) for p in trained), default=0))
            self.updating = self.updating.shared(self.replicas)

    @property
    def sharded(self) -> bool:
        """Whether parameters are."""
        return self.shard in ("fsdp2", "zero2")

    def _ranks(self, p: torch.Tensor) -> int:
        """That divide a parameter among them."""
        return self.replicas // self.request.expert if id(p) in self.experts else self.replicas

    def _part(self, p: torch.Tensor) -> torch.Tensor:
        """The shard of a parameter: rows, rounded up."""
        shape, n, dim = list(p.shape), self._ranks(p), 0
        if id(p) in self.experts and shape[0] < n:
            dim = 1
        if shape:
            shape[dim] = -(-shape[dim] // n)
        return torch.empty(shape, dtype=self.stored or p.dtype, device="meta")

    def _units(self, module: torch.nn.Module, named: dict[str, torch.nn.Parameter]) -> list[Unit]:
        paths: list[str] = []
        for path, child in module.named_modules():
            if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) and not any(path.startswith(p + ".") for p in paths):
                paths += [f"{path}.{name}" if path else name for name, _ in child.named_children()]
        paths += dict.fromkeys(name.rpartition(".")[0] for name, p in named.items() if id(p) in self.experts)  # which other ranks gather than the block's
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
        parts = [(p, self._part(p)) for p in parameters]
        trained = [(p, part) for p, part in parts if p.requires_grad]
        shard, cast = sum(part.nbytes for _, part in parts), sum(part.numel() * p.itemsize for p, part in parts)
        gathered = sum(self._ranks(p) * part.numel() * p.itemsize for p, part in parts)
        reduced = sum(self._ranks(p) * part.numel() * (self.reducing or p.dtype).itemsize for p, part in trained)
        if all(self._ranks(p) == 1 for p in parameters):
            cast = gathered = 0  # nobody has another part: they are copied to where they are read
        return Unit(path, sum(p.nbytes for p in parameters), shard, cast, gathered, sum(part.nbytes for _, part in trained), reduced)

    def moves(self) -> Moves:
        """What goes to other ranks in a pass, of parameters and gradients."""
        if self.shard is None:
            return Moves()
        if not self.sharded:
            return Moves(reduced=self.gradients, whole=True, once=True, units=max(1, self.gradients // _BUCKET))
        return Moves(sum(u.gathered for u in self.units), 2 if self.shard == "fsdp2" else 1, len(self.units), sum(u.reduced for u in self.units))

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
        at_end = self.request.pipeline > 1  # gradients are reduced, when all passes are done

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

        forward = sorted((span, u) for u, span in spans[0].items() if u != root)
        backward = sorted((span, u) for u, span in spans[1].items() if u != root)
        whole = {u: self.units[u].gathered for u in place.values()}
        hold(gathered, self.units[root].bytes, 0, n)
        hold(gathered, whole[root], 0, forward[0][0][0] + 1 if forward else n)
        until = {u: span[1] for span, u in backward}  # it is resharded before its gradients are copied
        for k, ((begin, end), u) in enumerate(forward):
            following = forward[k + 1][0][0] if k + 1 < len(forward) else n
            hold(gathered, self.units[u].bytes, begin, until.get(u, n) if self.shard == "zero2" else end + 1)
            hold(gathered, whole[u], begin, following if k + 1 < len(forward) else line.step.first_backward)
            hold(gathered, whole[u] if self.transport else self.units[u].cast, begin, begin + 1)
        for k, ((begin, end), u) in enumerate(backward):
            if self.shard == "fsdp2":
                hold(gathered, self.units[u].bytes, begin, end)
                if k + 1 < len(backward):
                    following = backward[k + 1][1]
                    hold(gathered, whole[following], begin, backward[k + 1][0][0])
                    hold(gathered, whole[following] if self.transport else self.units[following].cast, begin, begin + 1)
        reduced = sorted((end, u) for (_, end), u in backward) if not at_end else []
        for k, (end, u) in enumerate(reduced):  # experts before the block that they are in
            hold(gathered, self.units[u].reduced, end, reduced[k + 1][0] if k + 1 < len(reduced) else n)
            hold(gradients, self.units[u].trained_shard, end, n)
        if self.shard == "zero2":
            hold(gathered, sum(self.units[u].bytes for u in place.values() if u != root and u not in spans[0]), 0, n)  # of the rank's other stages
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


def along_sequence(form: Form, tensor: int, batch: int, seq: int) -> None:
    """Divides among tensor-parallel ranks what norms, residuals and embeddings make, which lie there along the sequence. What a matrix reads is gathered."""
    matrices = {(-1, i) for i, n in enumerate(form.inputs) if n["kind"] == "param" and len(n["outputs"][0]["shape"]) > 1}
    readers = [node for node in form.nodes if matrices & set(node.reads) and "embedding" not in node.fields["op"]]
    backward = next((i for i, n in enumerate(form.nodes) if n.fields["is_backward"]), len(form.nodes))
    # A backward node may run a whole block again, whose input is gathered within: what it reads of the forward pass stays divided.
    whole = {r for node in readers for r in node.reads if not node.fields["is_backward"] or r[0] >= backward}
    gradients = {r for r in form.results[form.forward_results :] if r is not None}
    outside = {i for i, node in enumerate(form.nodes) if not _divides(node)}
    for i, node in enumerate(form.nodes):
        if i in outside:
            continue
        form.work[i] = -(-form.work[i] // tensor)
        scattered = max((form.bytes[r] for r in node.reads if r[0] in outside and not _divided(form, r, batch, seq)), default=0)
        for k, o in enumerate(node.outputs):
            if (i, k) in gradients or o.shape[:2] != [batch, seq]:
                continue
            if (i, k) in whole:  # what others have comes in their order, beside that of rows
                form.work[i] += form.bytes[i, k] + -(-form.bytes[i, k] // tensor)
            else:
                form.bytes[i, k] = -(-form.bytes[i, k] // tensor)
        if node.fields["is_backward"]:
            form.work[i] += scattered  # it goes to others in their order
    for i in outside:
        node = form.nodes[i]
        if matrices & set(node.reads) and not node.fields["is_backward"] and any((i, 0) in form.nodes[j].reads and _divides(form.nodes[j]) for j in range(i + 1, min(i + _NEAR, len(form.nodes)))):
            form.work[i] += form.bytes[i, 0] + -(-form.bytes[i, 0] // tensor)  # in the order of ranks, and this one's part of the sum


def _divides(node: Node) -> bool:
    """Whether a node is of a module that lies along the sequence."""
    last = str(node.fields.get("module", "")).rpartition(".")[2]
    return "norm" in last or "embed" in last or last.isdigit()


def _divided(form: Form, at: Place, batch: int, seq: int) -> bool:
    """Whether a value is none of all rows and tokens, so that nothing is to be scattered."""
    shape = form.nodes[at[0]].outputs[at[1]].shape
    return shape[:2] != [batch, seq] and shape[:1] != [batch * seq]


def by_words(form: Form, tensor: int) -> None:
    """What tensor-parallel ranks that divide the words hold beside their part: the gradient of an embedding is made of all words, from all rows and
    tokens, and stays so; and the loss of divided scores has their powers beside its gradient."""
    for i, node in enumerate(form.nodes):
        if not node.fields["is_backward"]:
            continue
        op = node.fields["op"]
        if "EmbeddingBackward" in op:
            for k in range(len(node.outputs)):
                form.bytes[i, k] *= tensor
            for r in node.reads:
                if r[0] >= 0:
                    o = form.nodes[r[0]].outputs[r[1]]
                    every = math.prod(o.shape) * getattr(torch, o.dtype).itemsize
                    form.work[i] += every if o.dtype.startswith(("float", "bfloat")) and form.bytes[r] < every else 0
        elif "LogSoftmaxBackward" in op:
            form.work[i] += form.bytes[i, 0]
