"""The results of a forward pass, by which its backward pass is recognized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .tensors import tensors


class Results:
    """Weak references to their backward nodes."""

    def __init__(self) -> None:
        self.nodes: set[tuple[str, int]] = set()

    def add(self, out: Any) -> bool:
        """Whether a backward pass can come."""
        self.nodes.update((t.grad_fn.name(), t.grad_fn._sequence_nr()) for t in tensors(plain_results(out)) if t.grad_fn is not None)
        return bool(self.nodes)

    def by(self, roots: Sequence[Any]) -> bool:
        """Whether a backward pass from these tensors comes to them."""
        nodes = [n for t in roots if (n := getattr(t, "node", None) or getattr(t, "grad_fn", None)) is not None]
        seen = set(nodes)
        while nodes:
            node = nodes.pop()
            if (node.name(), node._sequence_nr()) in self.nodes:
                return True
            for n, _ in node.next_functions:
                if n is not None and n not in seen:
                    seen.add(n)
                    nodes.append(n)
        return False


def plain_results(out: Any) -> Any:
    """The results of a forward pass as containers that tensors() opens."""
    if isinstance(out, (torch.Tensor, list, tuple, dict)):
        return dict(out) if isinstance(out, dict) else out
    return getattr(out, "__dict__", None)
