"""The numbers of a program at the sizes at which it was recorded, kept for the next process: it records one step instead of several.

The name of the file is a digest of the program and of all that its numbers depend on beside sizes. What another process has recorded
is taken where it agrees with the recording at hand; a promise that it makes is measured like any other.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from typing import Any

import torch

from . import disk
from .form import Form
from .sized import Point, Sized

_MOST_POINTS = 24
_MOST_BYTES = 1 << 16  # and so many for each number of a point
_BYTES = 64

_log = logging.getLogger("memopt")


class Kept:
    """The file of a program."""

    def __init__(self, kind: Any, program: Sized) -> None:
        self.program = program
        form = program.part(program.recording.accumulates).form
        self.path = disk.path_of(lambda: _digest(kind, form) + ".sizes")
        self.known = 1 if self.path else -1  # points that are in the file; -1: no file is kept

    def read(self) -> None:
        """Takes what other processes have recorded."""
        if not self.path:
            return
        own = self.program.points[0]
        try:
            text = disk.read(self.path, _MOST_BYTES + _MOST_POINTS * _BYTES * (len(own.numbers) + len(own.dims)))
            found = [_point(p, own) for p in json.loads(text)["points"]]
            if len(found) > _MOST_POINTS or any(p.sizes == own.sizes and (p.numbers, p.dims, p.peak) != (own.numbers, own.dims, own.peak) for p in found):
                raise ValueError("it has other numbers than were recorded here")
            os.utime(self.path)
        except FileNotFoundError:
            return
        except Exception as e:  # whatever lies there, this process records for itself
            _log.debug("the numbers in %s are recorded anew: %s: %s", self.path, type(e).__name__, e)
            return
        self.program.include(found)
        self.known = len(self.program.points) if any(p.sizes == own.sizes for p in found) else 0

    def write(self) -> None:
        """Keeps what is new, from the second recording on."""
        points = self.program.points
        if 0 <= self.known < len(points) and len(points) > 1:
            self.known = len(points)
            kept = [{"sizes": p.sizes, "numbers": p.numbers, "dims": p.dims, "peak": p.peak} for p in points[-_MOST_POINTS:]]
            disk.write(self.path, json.dumps({"points": kept}, separators=(",", ":")).encode())


def _digest(kind: Any, form: Form) -> str:
    head = {k: v for k, v in form.head.items() if k not in ("model", "layout")}  # strides are of one size
    nodes = [(n.fields, n.reads, [(o.dtype, o.held, len(o.shape)) for o in n.outputs]) for n in form.nodes]
    inputs = [(n["kind"], n["source"], n["outputs"][0]["dtype"], len(n["outputs"][0]["shape"])) for n in form.inputs]
    machine = torch.__version__, torch.backends.cpu.get_cpu_capability()
    text = json.dumps([repr(kind), head, nodes, inputs, form.results, machine], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _point(found: Any, own: Point) -> Point:
    """A point of a file, of the program that was recorded here."""
    sizes, numbers, dims, peak = (found[name] for name in ("sizes", "numbers", "dims", "peak"))
    for name, values, like in (("sizes", sizes, own.sizes), ("numbers", numbers, own.numbers), ("dims", dims, own.dims), ("peak", [peak], [own.peak])):
        if len(values) != len(like) or not all(type(v) is int and 0 <= v < 1 << 62 for v in values):
            raise ValueError(f"{name} are not those of this program")
    return Point(tuple(sizes), numbers, dims, peak, own.lasting, own.before)
