"""What a device offers to capture launches once and repeat them: on CUDA, graphs in one pool of memory."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch


class Uncapturable(RuntimeError):
    """What runs cannot be captured, and where."""


_ASKS = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"}


def waits(func: Any) -> bool:
    """Whether the host waits for values that an operator has computed."""
    return func._schema.name in _ASKS or torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


class Pool(Protocol):
    """Memory of captures, of which one runs at a time."""

    @property
    def reserved(self) -> int:
        """Its bytes."""

    def capture(self) -> Capture:
        """A new capture."""


class Capture(Protocol):
    """Launches in parts, which are repeated one after the other. What they made lies where it lay."""

    def place(self, like: torch.Tensor) -> torch.Tensor:
        """A fixed place for a tensor that parts read, with its value."""

    def part(self) -> AbstractContextManager[None]:
        """What is launched within is the next part."""

    def keep(self, t: torch.Tensor) -> Callable[[], torch.Tensor]:
        """A tensor that a part has made, to be read behind it. It is there once the capture is finished."""

    def finish(self) -> None:
        """There are no more parts."""

    def replay(self, part: int) -> None:
        """Launches a part again."""


class CudaPool:
    """A pool of a CUDA device that nothing but captures allocate from."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.memory = torch.cuda.MemPool()
        self.stream = torch.cuda.Stream(device)

    @property
    def reserved(self) -> int:
        return sum(segment["total_size"] for segment in self.memory.snapshot())

    def capture(self) -> CudaCapture:
        return CudaCapture(self)


class CudaCapture:
    def __init__(self, pool: CudaPool) -> None:
        self.pool = pool
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def place(self, like: torch.Tensor) -> torch.Tensor:
        with torch.cuda.use_mem_pool(self.pool.memory, self.pool.device):
            place = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)
        return place.copy_(like.detach())

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # what is freed while a stream is captured would be freed into the graph
        with torch.cuda.device(self.pool.device), torch.cuda.graph(graph, pool=self.pool.memory.id, stream=self.pool.stream):  # type: ignore[arg-type]
            yield
        self.graphs.append(graph)

    def keep(self, t: torch.Tensor) -> Callable[[], torch.Tensor]:
        kept = t.detach()
        return lambda: kept

    def finish(self) -> None:
        torch.cuda.synchronize(self.pool.device)

    def replay(self, part: int) -> None:
        self.graphs[part].replay()


def pool_of(devices: set[torch.device]) -> Pool:
    """The pool for a module's captures. Raises where there can be none."""
    if len(devices) != 1 or next(iter(devices)).type != "cuda":
        raise ValueError(f"mode is 'graph', which captures steps on one CUDA device, and the module is on {', '.join(sorted(map(str, devices))) or 'none'}: leave mode out")
    return CudaPool(next(iter(devices)))
