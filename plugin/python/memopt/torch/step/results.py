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
    """The results of a forward pass as containers that tensors() opens: also what objects in them hold, such as distributions."""
    return _plain(out, _DEEP)


_DEEP = 3
_PLAIN = (torch.Tensor, str, bytes, int, float, bool, type(None))


def _plain(x: Any, deep: int) -> Any:
    if isinstance(x, _PLAIN) or deep == 0:
        return x
    if isinstance(x, dict):
        return {k: _plain(v, deep - 1) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(y, deep - 1) for y in x]
    if isinstance(x, (torch.nn.Module, type)) or callable(x):
        return None
    return _plain(getattr(x, "__dict__", None), deep - 1)
