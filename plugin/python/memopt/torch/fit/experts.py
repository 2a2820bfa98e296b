"""Experts divided among data-parallel ranks: each has some of them, and takes the tokens of all ranks that chose those."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import torch

from ..plan.form import Form, Place

_EXPERTS = re.compile(r"(^|\.)experts(\.|$)")
_INDEX = 8  # bytes of a row's number


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
    """Turns a program into that of the rank whose experts are chosen most: imbalance times as often as all are on the average.

    Rows of tokens go to the ranks of their experts, are put in the order of experts there, and come back when the last product is done. So what
    lies between the products of a block is of the rows that came, and what lies before and behind them of the rank's own.
    """
    matrices = {(-1, i) for i, n in enumerate(form.inputs) if n["kind"] == "param" and _EXPERTS.search(n["source"] or "") and len(n["outputs"][0]["shape"]) == 3}
    shapes = {tuple(form.inputs[i]["outputs"][0]["shape"]) for _, i in matrices}
    shapes |= {(a, c, b) for a, b, c in shapes}
    for at in matrices:
        form.bytes[at] = -(-form.bytes[at] // ranks)
    for nodes in _blocks(form):
        products = [i for i in nodes if matrices & set(form.nodes[i].reads)]
        for i in nodes:
            for k, o in enumerate(form.nodes[i].outputs):
                if tuple(o.shape) in shapes:
                    form.bytes[i, k] = -(-form.bytes[i, k] // ranks)
        if products and form.nodes[products[0]].fields["is_backward"]:
            _backward(form, nodes, products, imbalance)
        elif products:
            _forward(form, nodes, products, imbalance)


def _forward(form: Form, nodes: Sequence[int], products: Sequence[int], imbalance: float) -> None:
    """The forward pass of a block's experts."""
    first, last = products[0], products[-1]
    rows = next((r for r in form.nodes[first].reads if r[0] >= 0 and _is_rows(form, r)), None)
    if rows is None:
        return
    for i in nodes:
        if rows[0] <= i <= last:
            form.flops[i] = math.ceil(form.flops[i] * imbalance)
        if rows[0] <= i < last:
            _busier(form, i, imbalance)
    came = form.bytes[rows]
    form.work[rows[0]] += came  # as they came, beside the same in the order of experts
    form.bytes[rows] += 2 * _INDEX * form.nodes[rows[0]].outputs[rows[1]].shape[0]  # that order, there and back
    form.work[last] += 2 * math.ceil(form.bytes[last, 0] * imbalance)  # what is made, and the same in the order in which it goes back


def _backward(form: Form, nodes: Sequence[int], products: Sequence[int], imbalance: float) -> None:
    """The backward pass of a block's experts."""
    first, last = products[0], products[-1]
    comes = next((r for r in form.nodes[first].reads if r[0] >= 0 and _is_rows(form, r)), None)
    if comes is not None:
        form.work[first] += math.ceil(form.bytes[comes] * imbalance) - form.bytes[comes]
    for i in nodes:
        if first <= i <= last:
            form.flops[i] = math.ceil(form.flops[i] * imbalance)
            _busier(form, i, imbalance)
    for i in nodes:
        back = next((r for r in form.nodes[i].reads if r[0] == last and _is_rows(form, r)), None)
        if back is not None and i > last:  # in the order in which they came, beside those in the order of experts
            made = form.work[i] + sum(form.bytes[i, k] for k in range(len(form.nodes[i].outputs)))
            form.work[i] += max(0, form.bytes[back] - made)
            return


def _busier(form: Form, i: int, imbalance: float) -> None:
    """More rows in what a node makes."""
    form.work[i] = math.ceil(form.work[i] * imbalance)
    for k in range(len(form.nodes[i].outputs)):
        if _is_rows(form, (i, k)):
            form.bytes[i, k] = math.ceil(form.bytes[i, k] * imbalance)


def _is_rows(form: Form, at: Place) -> bool:
    """Whether a value has a row for each token that chose an expert."""
    return len(form.nodes[at[0]].outputs[at[1]].shape) == 2


def _blocks(form: Form) -> Iterable[list[int]]:
    """The nodes of each block's experts, forward and backward."""
    found: dict[tuple[str, bool], list[int]] = {}
    for i, node in enumerate(form.nodes):
        module = str(node.fields.get("module", ""))
        inside = _EXPERTS.search(module)
        if inside is not None:
            found.setdefault((module[: inside.end()].rstrip("."), bool(node.fields["is_backward"])), []).append(i)
    return found.values()
