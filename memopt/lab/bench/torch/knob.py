"""PyTorch's own knob: torch._functorch.config.activation_memory_budget, read by the partitioner of torch.compile."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch._functorch.config as config
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch.utils.flop_counter import FlopCounterMode
from ways import Bench, Way, forward_is


def counting(bench: Bench, gm: torch.fx.GraphModule, inputs: Any) -> Any:
    """Runs a graph with the kernels of eager mode, and counts what it computes where that is asked for."""
    run = boxed_nop(gm, inputs)

    def call(args: Any) -> Any:
        if bench.graph_flops is None:
            return run(args)
        with FlopCounterMode(display=False) as counter:
            out = run(args)
        bench.graph_flops.append(counter.get_total_flops())
        return out

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def ways(bench: Bench, settings: Sequence[float]) -> Iterator[Way]:
    """The step compiled as by backend="aot_eager", at settings from 1, the default, to 0; asked is the setting's share of eager mode's peak.

    Dynamo reads the module once; each graph of it is split at every setting.
    """
    at = settings[0]

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        compiler = functools.partial(counting, bench)
        split = functools.partial(min_cut_rematerialization_partition, compiler="inductor")
        compiled = {}
        for setting in settings:
            with config.patch(activation_memory_budget=setting):
                compiled[setting] = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=split)(gm, inputs)
        return lambda *args: compiled[at](*args)

    model = bench.family.module
    forward = torch.compile(type(model).forward.__get__(model), backend=backend, dynamic=False)

    @contextlib.contextmanager
    def on(setting: float) -> Iterator[None]:
        nonlocal at
        at = setting
        with forward_is(model, forward):
            yield

    torch._dynamo.reset()
    for setting in settings:
        yield Way("knob", f"{setting:g}", functools.partial(on, setting), compiled=True, asked=int(setting * bench.peak))
