"""Which forward passes are alive together: a step is all of them, from the first until no graph is left.

A forward pass is alive as long as its graph holds it, and open until a backward pass has come to it. One whose results are gone
before, such as that of a batch that was skipped, is dead, and of no step any more.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from ..native.run import StepOf
from ..record.live import keeping
from ..record.measuring import Measuring
from ..record.recorder import Recorder
from ..step.results import plain_results
from ..step.sizes import Shape
from ..step.tensors import tensors
from .programs import Made


class Pass:
    """A forward pass of a planned module. Its graph holds it."""

    __slots__ = ("__weakref__", "began", "of", "ran")

    def __init__(self, of: Any) -> None:
        self.of = of
        self.ran = False  # a backward pass came to it
        self.began: Callable[[bool, bool], None] | None = None  # told of that: whether it is the first, and keeps the graph

    def attach(self, out: Any) -> bool:
        """Has the graph of its results hold it. Whether there is one."""
        nodes = {t.grad_fn for t in tensors(plain_results(out)) if t.grad_fn is not None}
        for node in nodes:
            node.metadata["memopt"] = self
            node.register_prehook(functools.partial(_begin, weakref.ref(self)))
        return bool(nodes)


def _begin(ref: weakref.ref[Pass], _: Any) -> None:
    one = ref()
    if one is not None:
        first, one.ran = not one.ran, True
        if one.began is not None:
            one.began(first, keeping())


class Running:
    """A step that is under way: recorded, run under a plan, or left as it is."""

    def __init__(self, key: Any, shape: Shape, made: Made | None = None, recorder: Recorder | None = None) -> None:
        self.key, self.shape, self.made, self.recorder = key, shape, made, recorder
        self.held: StepOf | None = None  # its state under a plan, until its graph holds that
        self.run: weakref.ref[StepOf] | None = None
        self.measuring: Measuring | None = None
        self.before = 0  # bytes that were there when the measurement began, and are of the step
        self.passes: list[weakref.ref[Pass]] = []
        self.ran = 0  # passes that a backward pass came to
        self.task = -1  # the backward pass that came to it last, as autograd counts them
        self.kept = False  # a backward pass has kept its graph
        self.broken = False  # a forward pass has failed, so that the step does not go on
        self.left = False  # it went another way than its program, which was told
        self.replayed = ""  # by what, in words
        self.overtaken = False  # another step began while this one was open

    def add(self, one: Pass) -> None:
        self.passes.append(weakref.ref(one))

    @property
    def waiting(self) -> int:
        """How many passes a backward pass can still come to."""
        return sum((one := ref()) is not None and not one.ran for ref in self.passes)

    @property
    def open(self) -> bool:
        return self.waiting > 0

    @property
    def dead(self) -> int:
        """How many passes were given up."""
        return len(self.passes) - self.ran - self.waiting
