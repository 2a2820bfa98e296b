"""Experts divided among data-parallel ranks: each has some of them, and takes the tokens of all ranks that chose those."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import torch

from ..plan.form import Form, Place

_EXPERTS = re.compile(r"(^|\.)experts(\.|$)")


def is_expert(name: str, p: torch.Tensor) -> bool:
    """Whether a parameter is one matrix for each expert, as a whole tensor."""
    return p.ndim == 3 and _EXPERTS.search(name) is not None


def count_of(module: torch.nn.Module) -> int:
    """How many experts a block has; 0: none that are whole tensors."""
    return next((p.shape[0] for name, p in module.named_parameters() if is_expert(name, p)), 0)


def part_of(p: torch.Tensor, ranks: int) -> torch.Tensor:
    """The experts that one rank has."""
    return torch.empty(p.shape[0] // ranks, *p.shape[1:], dtype=p.dtype, device="meta", requires_grad=p.requires_grad)


def among_ranks(form: Form, ranks: int, imbalance: float) -> None:
    """Turns a program into that of the rank whose experts are chosen most: imbalance times as often as all are on the average."""
    matrices = {i for i, n in enumerate(form.inputs) if n["kind"] == "param" and _EXPERTS.search(n["source"] or "") and len(n["outputs"][0]["shape"]) == 3}
    shapes = {tuple(form.inputs[i]["outputs"][0]["shape"]) for i in matrices}
    shapes |= {(a, c, b) for a, b, c in shapes}
    for i in matrices:
        form.bytes[-1, i] = -(-form.bytes[-1, i] // ranks)
    inside = [i for i, n in enumerate(form.nodes) if _EXPERTS.search(str(n.fields.get("module", "")))]
    for i in inside:
        form.flops[i] = math.ceil(form.flops[i] * imbalance)
        form.work[i] = math.ceil(form.work[i] * imbalance)
        for k, o in enumerate(form.nodes[i].outputs):
            if tuple(o.shape) in shapes:
                form.bytes[i, k] = -(-form.bytes[i, k] // ranks)
            elif len(o.shape) == 2:  # a row for each token that chose an expert of this rank
                form.bytes[i, k] = math.ceil(form.bytes[i, k] * imbalance)
    for begin, end in _turns(form, inside):
        for i in (begin, end):  # rows that leave are there beside those that come
            form.work[i] += max((form.bytes[r] for r in _rows(form, i)), default=0)


def _turns(form: Form, inside: list[int]) -> Iterable[tuple[int, int]]:
    """The first and the last node of each block's experts, forward and backward."""
    found: dict[tuple[str, bool], tuple[int, int]] = {}
    for i in inside:
        key = str(form.nodes[i].fields["module"]), bool(form.nodes[i].fields["is_backward"])
        found[key] = (found.get(key, (i, i))[0], i)
    return found.values()


def _rows(form: Form, i: int) -> Iterable[Place]:
    node = form.nodes[i]
    return [(i, k) for k, o in enumerate(node.outputs) if len(o.shape) == 2] or [r for r in node.reads if r[0] >= 0]
