"""Values kept in a smaller type until the backward pass needs them, on their own device."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from .engine import OnDevice, Place

Lossy = Literal["bf16", "fp16", "fp8"]
KINDS: tuple[Lossy, ...] = ("bf16", "fp16", "fp8")
LEAST = 1024  # numbers from which on a value is worth rounding
BLOCK = 32  # numbers of fp8 under one power of two
_PIECES = 16  # in which fp8 is converted, as its steps between need memory
_TOP = 8  # the exponent of the largest power of two in float8_e4m3fn
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}


def check_kind(lossy: Any) -> None:
    """Raises for a type that values are not kept in."""
    if lossy not in KINDS:
        raise ValueError(f"lossy is {lossy!r}; there are {', '.join(map(repr, KINDS))}")


class Sizes(NamedTuple):
    """What a value takes: rounded, and more while it is converted."""

    bytes: int
    work: int


def smaller(kind: Lossy, dtype: str, numbers: int) -> Sizes | None:
    """What so many numbers of a type take as another; None if they are not kept so."""
    of = getattr(torch, dtype, None)
    to = TYPES[kind]
    if not isinstance(of, torch.dtype) or not of.is_floating_point or of.itemsize <= to.itemsize or numbers < LEAST:
        return None
    if kind != "fp8":
        return Sizes(numbers * to.itemsize, 0)
    blocks = -(-numbers // BLOCK)
    piece = _piece(numbers)
    return Sizes(numbers + blocks, piece * max(4, of.itemsize) + piece // BLOCK * 4)  # a piece in full, and the powers of its blocks


def _piece(numbers: int) -> int:
    """Numbers that are converted at once: whole blocks."""
    return max(BLOCK, -(-numbers // _PIECES // BLOCK) * BLOCK)


class SmallerEngine(OnDevice):
    """Copies that round, as an engine of moves: what leaves is kept as numbers of another type, for fp8 with a power of two for each 32."""

    block = 1

    def __init__(self, device: torch.device, kind: Lossy) -> None:
        super().__init__(device)
        self.kind = kind

    def place(self, nbytes: int) -> Place:
        return Place(nbytes, None)

    def part(self, place: Place, at: int, nbytes: int) -> Place:
        return Place(nbytes, None)

    def leave(self, near: Tensor, place: Place, at: int = 0) -> None:
        assert place.dtype is not None
        numbers = near.view(place.dtype)
        place.far = fp8(numbers) if self.kind == "fp8" else numbers.to(TYPES[self.kind])

    def come(self, place: Place, near: Tensor, at: int = 0) -> None:
        assert place.dtype is not None
        numbers, far, place.far = near.view(place.dtype), place.far, None
        if self.kind == "fp8":
            codes, exponents = far
            of_fp8(codes, exponents, numbers)
        else:
            numbers.copy_(far)

    def look(self, place: Place, at: int, nbytes: int) -> Tensor:
        raise NotImplementedError("rounded values are looked at by nobody")


def fp8(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Codes, and the exponent of each block's power of two."""
    n = numbers.numel()
    codes = torch.empty(n, dtype=torch.float8_e4m3fn, device=numbers.device)
    exponents = torch.empty(-(-n // BLOCK), dtype=torch.int8, device=numbers.device)
    for at in range(0, n, size := _piece(n)):
        piece = numbers[at : at + size]
        if whole := piece.numel() // BLOCK * BLOCK:
            rows = piece[:whole].view(-1, BLOCK)
            here = exponents[at // BLOCK : (at + whole) // BLOCK]
            here.copy_(_exponents(torch.maximum(rows.amax(1), rows.amin(1).neg_())))
            powers = torch.exp2(-here.float())[:, None]
            scaled = rows.to(torch.promote_types(rows.dtype, torch.float32), copy=True).mul_(powers)
            codes[at : at + whole].view(-1, BLOCK).copy_(scaled)
            del rows, here, powers, scaled  # before the next piece
        if whole < piece.numel():  # the last numbers are no whole block
            rest = piece[whole:]
            exponents[-1] = _exponents(rest.abs().amax())
            codes[at + whole : at + piece.numel()].copy_(rest * torch.exp2(-exponents[-1:].float()))
    return codes, exponents


def _exponents(largest: Tensor) -> Tensor:
    """Of powers of two under which the largest numbers of blocks are just below the largest of float8_e4m3fn."""
    return (torch.frexp(largest.float()).exponent - _TOP).clamp_(-126, 126)


def of_fp8(codes: Tensor, exponents: Tensor, into: Tensor) -> None:
    n = codes.numel()
    for at in range(0, n, size := _piece(n)):
        piece = codes[at : at + size]
        if whole := piece.numel() // BLOCK * BLOCK:
            powers = torch.exp2(exponents[at // BLOCK : (at + whole) // BLOCK].float())[:, None]
            into[at : at + whole].view(-1, BLOCK).copy_(piece[:whole].float().view(-1, BLOCK).mul_(powers))
        if whole < piece.numel():
            into[at + whole : at + piece.numel()].copy_(piece[whole:].float().mul_(torch.exp2(exponents[-1:].float())))
