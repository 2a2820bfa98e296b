"""What is asked of a step on paper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

SHARDS = ("ddp", "zero1", "zero2", "fsdp2")
DTYPES = ("float32", "bfloat16", "float16", "float64")
_SHORT = {"fp32": "float32", "f32": "float32", "bf16": "bfloat16", "fp16": "float16", "f16": "float16", "half": "float16", "float": "float32", "fp64": "float64", "f64": "float64", "double": "float64"}

_MOST = 1 << 40
ALONE: dict[str, Any] = {"tensor": 1, "pipeline": 1, "ranks": 1, "expert": 1, "imbalance": 1.0}  # fields of a request for the model of one rank


@dataclass(frozen=True)
class Request:
    """A step of a model: how it is trained, on what, within which budget. What a trainer's config says is turned into one of these."""

    model: str = ""  # a preset, a config.json or its folder, file.py:function
    budget: str | int | None = None  # of one device; None: of the device, or none
    for_device: str | None = None  # whose profile prices time, and whose memory is the budget
    batch: int = 1  # rows of a step on one rank, before accumulation
    seq: int | None = None  # tokens a row; None: what the model takes, 2,048 at most
    dtype: str | None = None  # of parameters; None: as the config says
    autocast: str | None = None  # the type that a step calculates in, where it is another
    param_dtype: str | None = None  # FSDP2's mixed precision: the type that shards are gathered and calculated in
    reduce_dtype: str | None = None  # and in which gradients are reduced; None: float32
    optimizer: str = "adamw"
    lora: int = 0  # the rank of adapters, where they alone are trained
    accumulate: int = 1  # forward and backward passes a step
    checkpointing: bool = False  # the model's own gradient checkpointing, block by block
    attention: str | None = None  # transformers' name of an implementation
    ranks: int = 1
    shard: str | None = None  # what ranks divide among them
    tensor: int = 1
    sequence_parallel: bool = True  # with tensor: norms and residuals are divided along the sequence
    pipeline: int = 1
    schedule: str = "1f1b"  # in which stages take turns, by our name or by PyTorch's
    virtual: int | None = None  # stages of a rank; None: as the schedule has it
    microbatches: int | None = None  # of a pipeline's step; None: as many as ranks have stages
    expert: int = 1  # data-parallel ranks that divide the experts of each layer
    imbalance: float = 1.0  # how often the experts of the busiest rank are chosen, of the average
    lengths: Mapping[int, int] | str = field(default_factory=dict)  # of rows: how many there are of each; or a file with one a line
    largest: bool = True  # look for the largest batch and sequence
    config: tuple[str, ...] = ()  # a trainer's files, whose switches get a verdict; configured() makes the other fields of them

    def __post_init__(self) -> None:
        for name in ("batch", "accumulate", "ranks", "tensor", "pipeline", "expert"):
            _whole(name, getattr(self, name), 1)
        _whole("lora", self.lora, 0)
        for name in ("seq", "microbatches", "virtual"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1)
        for name in ("dtype", "autocast", "param_dtype", "reduce_dtype"):
            value = getattr(self, name)
            if value is not None:
                plain = str(value).removeprefix("torch.").lower()
                plain = _SHORT.get(plain, plain)
                there = DTYPES if name == "dtype" else DTYPES[:3]
                if plain not in there:
                    raise ValueError(f"{name} is {value!r}; there are {', '.join(there)}")
                object.__setattr__(self, name, plain)
        if isinstance(self.lengths, str):
            object.__setattr__(self, "lengths", _read_lengths(self.lengths))
        if self.lengths and not isinstance(self.lengths, str):
            longest = max(self.lengths)
            if self.seq is not None and self.seq < longest:
                raise ValueError(f"seq is {self.seq}, and lengths has rows of {longest} tokens: a row is not cut here, so leave seq out, or cut the lengths")
            object.__setattr__(self, "seq", longest if self.seq is None else self.seq)
        if self.shard is not None and self.shard not in SHARDS:
            raise ValueError(f"shard is {self.shard!r}; there are {', '.join(SHARDS)}")
        if (self.ranks > self.tensor * self.pipeline or self.param_dtype) and self.shard is None:
            object.__setattr__(self, "shard", "fsdp2")
        if self.reduce_dtype and not self.param_dtype:
            raise ValueError("reduce_dtype is of FSDP2's mixed precision: give param_dtype, too")
        if self.param_dtype:
            if self.shard not in ("fsdp2", "zero2"):
                raise ValueError(f"param_dtype is of FSDP2's mixed precision, and shard is {self.shard!r}: give shard fsdp2 or zero2, or autocast")
            object.__setattr__(self, "dtype", self.dtype or "float32")
            object.__setattr__(self, "reduce_dtype", self.reduce_dtype or "float32")
        if self.ranks % (self.tensor * self.pipeline):
            raise ValueError(f"ranks is {self.ranks}, which tensor={self.tensor} times pipeline={self.pipeline} does not divide")
        if self.replicas % self.expert:
            raise ValueError(f"expert is {self.expert}, and there are {self.replicas} data-parallel ranks, which it does not divide")
        if isinstance(self.imbalance, bool) or not isinstance(self.imbalance, (int, float)) or not 1 <= self.imbalance <= 1000:
            raise ValueError(f"imbalance is {self.imbalance!r}; give a number from 1 on: 1.2 is a fifth more than the average")
        if self.imbalance != 1 and self.expert == 1:
            raise ValueError("imbalance is of experts that are divided among ranks: give expert")

    @property
    def passes(self) -> int:
        """Forward and backward passes of a step on one rank."""
        return (self.microbatches or self.pipeline) if self.pipeline > 1 else self.accumulate

    @property
    def made(self) -> str | None:
        """The type of the module's parameters as a step has them."""
        return self.param_dtype or self.dtype

    @property
    def replicas(self) -> int:
        """Ranks that have the same part of the model, and divide its states."""
        return self.ranks // (self.tensor * self.pipeline)

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, for JSON."""
        return {f.name: dict(v) if isinstance(v := getattr(self, f.name), Mapping) else v for f in fields(self) if f.name == "model" or getattr(self, f.name) != _default(f)}


def _default(f: Any) -> Any:
    return f.default_factory() if callable(f.default_factory) else f.default


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; give a whole number from {least} on")
    if value >= _MOST:
        raise ValueError(f"{name} is {value:,}; no step has more than {_MOST:,}")


def _read_lengths(path: str) -> dict[int, int]:
    """A file of lengths, one a line, with how many rows have it behind it if that is not one."""
    found: dict[int, int] = {}
    try:
        with open(os.path.expanduser(path), encoding="utf-8-sig") as f:
            lines = f.readlines()
    except OSError as e:
        raise ValueError(f"lengths {path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise ValueError(f"lengths {path}: is no text ({e})") from None
    for i, text in enumerate(lines, 1):
        words = text.replace(",", " ").split()
        if not words:
            continue
        if len(words) > 2 or not all(w.isascii() and w.isdigit() and int(w) for w in words):
            raise ValueError(f"{path}:{i}: {text.strip()[:40]!r} is no length; a line has a row's tokens, and how many rows have as many")
        found[int(words[0])] = found.get(int(words[0]), 0) + (int(words[1]) if len(words) == 2 else 1)
    if not found:
        raise ValueError(f"{path} has no lengths")
    return found
