"""States in eight bits on their device: a code for each number, and a scale for each block of 256."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from .engine import OnDevice, Place
from .spill import BLOCK

SIZE = 256  # numbers with one scale
_SCALE = 5  # bytes of one, and of whether its block has negative numbers


class RoundedEngine(OnDevice):
    """Copies that round. What leaves is kept as codes of a dynamic map, whose steps are finer near zero, in shares of the block's largest
    number; a block without negative numbers has a map of its own, with twice as many steps. Numbers that came once leave again as the same codes.
    """

    block = BLOCK

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        if not dtype.is_floating_point:
            raise ValueError(f"states is '8bit', and the parameters are {dtype}: it rounds floating-point numbers")
        super().__init__(device)
        self.dtype = dtype

    def held(self, nbytes: int) -> int:
        """The bytes that states of so many bytes take."""
        numbers = nbytes // self.dtype.itemsize
        return numbers + -(-numbers // SIZE) * _SCALE

    def place(self, nbytes: int) -> Place:
        numbers = nbytes // self.dtype.itemsize
        codes = torch.zeros(-(-numbers // SIZE) * SIZE, dtype=torch.uint8, device=self.device)
        scales = torch.zeros(codes.numel() // SIZE, device=self.device)
        return Place(nbytes, (codes, scales, torch.zeros_like(scales, dtype=torch.bool)))

    def part(self, place: Place, at: int, nbytes: int) -> Place:
        raise NotImplementedError("parts of rounded states are asked for by nobody")

    def leave(self, near: Tensor, place: Place, at: int = 0) -> None:
        numbers = near.view(self.dtype).float()
        first, blocks = at // self.dtype.itemsize, -(-numbers.numel() // SIZE)
        rows = torch.zeros(blocks * SIZE, device=self.device)
        rows[: numbers.numel()] = numbers
        rows = rows.view(blocks, SIZE)
        largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))  # with its sign: its share is 1, which has a code
        shares = rows / torch.where(largest != 0, largest, 1)
        signed = rows.amin(1) < 0
        codes, scales, signs = place.far
        here = slice(first // SIZE, first // SIZE + blocks)
        for mine, kind in ((signed, True), (~signed, False)):
            codes.view(-1, SIZE)[here][mine] = torch.bucketize(shares[mine], _between(kind, self.device), right=True).to(torch.uint8)
        scales[here], signs[here] = largest[:, 0], signed

    def come(self, place: Place, near: Tensor, at: int = 0) -> None:
        near.view(self.dtype).copy_(self._numbers(place, at, near.nbytes))

    def look(self, place: Place, at: int, nbytes: int) -> Tensor:
        return self._numbers(place, at, nbytes).to(self.dtype).view(torch.uint8)

    def _numbers(self, place: Place, at: int, nbytes: int) -> Tensor:
        n, first = nbytes // self.dtype.itemsize, at // self.dtype.itemsize
        here = slice(first // SIZE, first // SIZE + -(-n // SIZE))
        codes, scales, signs = place.far
        mine = codes.view(-1, SIZE)[here].int()
        shares = torch.where(signs[here][:, None], _map(True, self.device)[mine], _map(False, self.device)[mine])
        return (shares * scales[here][:, None]).reshape(-1)[:n]


@functools.cache
def _map(signed: bool, device: torch.device) -> Tensor:
    """256 shares in order: of each power of ten down to a millionth, twice as many steps as of the one below it, and zero and one."""
    steps = [(10.0 ** (i - 6), 2 ** (i + (not signed))) for i in range(7)]
    found = [power * (0.1 + 0.9 * (k + 0.5) / n) for power, n in steps for k in range(n)]
    found = [*found, *([-x for x in found] if signed else []), 0.0, 1.0]
    return torch.tensor(sorted(found), dtype=torch.float32, device=device)


@functools.cache
def _between(signed: bool, device: torch.device) -> Tensor:
    """Where the next share begins. What is below zero is never rounded to it: a block has the same map when it is rounded again."""
    values = _map(signed, device)
    found = (values[1:] + values[:-1]) / 2
    if signed:
        found[int((values < 0).sum()) - 1] = 0
    return found
