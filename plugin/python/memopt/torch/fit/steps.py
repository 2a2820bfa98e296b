"""The step of a model at any batch and length: recorded a few times, then known as formulas."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy
import torch

from ...errors import MemoptError
from ..lower.cross_entropy import work_space
from ..lower.scores import Chunks
from ..plan.form import Form, difference
from ..plan.timeline import Slots, of_plan, plain_steps
from ..record.fake import DependsOnValues, TooLong, fake_recording
from ..record.floor import Step
from ..record.record import Recording
from ..step.sample import NoLoss
from .devices import PROCESSOR, Device
from .experts import among_ranks
from .kernels import kernels_of, work_within
from .models import Model
from .ranks import along_sequence, by_words
from .repeat import Repeated, Run, few_of, recorded_once
from .request import Request
from .scans import needs

BY_ROWS = "memopt.cross_entropy_by_rows.default"  # the operator of a loss in chunks
_MOST = 60_000  # operators of a recording: some ten seconds
_MOST_FLOPS, _MOST_BYTES = 1 << 60, 1 << 58  # of a step, and of one value, that the planner counts
_CASTS = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


class Steps:
    """The programs of a model's step."""

    def __init__(self, model: Model, request: Request, chunks: Chunks | None = None, device: Device = PROCESSOR) -> None:
        """chunks: the loss is computed in chunks of rows."""
        self.model, self.request, self.chunks, self.device = model, request, chunks, device
        self.found = chunks is not None and chunks.name is not None  # the layer whose scores the loss reads
        self.known: list[Repeated] = []  # programs
        self.forms: dict[tuple[int, int], Form] = {}

    def record(self, batch: int, seq: int) -> Recording:
        """A step without bytes."""
        args, kwargs = self.model.inputs(batch, seq)

        def once() -> Recording:
            return self._recorded(args, kwargs)

        recording = once()
        if self.chunks is not None and not self.found:
            self.found, recording = True, once()  # the first had the search for the layer in it
        if self.chunks is not None and not self.chunks.used:
            raise ValueError(f"the scores of {self.chunks.name} are read by more than the loss")
        return recording.accumulating() if self.request.accumulate > 1 or self.request.pipeline > 1 else recording

    def _recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
        wrap = self.chunks.around if self.chunks is not None else None
        try:
            with kernels_of(self.device, self.model.module):
                return fake_recording(self.model.module, args, kwargs, self.model.loss, "cpu", self._around, wrap, _MOST)
        except TooLong as e:
            raise ValueError(
                f"{self.model.name}: a step of {type(self.model.module).__name__}, or of a few of its blocks, runs {e}, as modules do that go through a row token by token where they "
                f"have no kernel for it; what it takes is not found here. Give a shorter seq, {f'for_device of a graphics processor, where {package} are counted' if (package := needs(self.model.module)) else 'or file.py:function with a module that has the kernel'}"
            ) from e
        except DependsOnValues as e:
            raise ValueError(f"{self.model.name}: {e}, and memopt fit answers for what it saved") from e
        except NoLoss as e:
            raise ValueError(f"{self.model.name}: {e.what}; return a loss as the third thing, a function of the module's output that returns one number") from e
        except MemoptError:
            raise
        except Exception as e:  # of whatever class: it is the model's
            raise ValueError(f"{self.model.name}: a step of {type(self.model.module).__name__} cannot be run: {type(e).__name__}: {' '.join(str(e).split())[:400]}") from e

    def _around(self) -> AbstractContextManager[Any]:
        if self.request.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast("cpu", _CASTS[self.request.autocast])

    def form(self, batch: int, seq: int) -> Form:
        """The program at a size. At another size than the first, equal blocks are equal, if a block's program is the same."""
        found = self.forms.get((batch, seq))
        if found is None:
            found = self._at(batch, seq)
            found = copy.copy(found)
            found.bytes, found.work, found.flops = dict(found.bytes), list(found.work), list(found.flops)
            if not self.device.processor:
                work_within(found)
            if self.request.tensor > 1 and self.request.sequence_parallel:
                along_sequence(found, self.request.tensor, batch, seq)
            if self.request.tensor > 1:
                by_words(found, self.request.tensor)
            if self.request.expert > 1:
                among_ranks(found, self.request.expert, self.request.imbalance)
            if self.chunks is not None:
                found = self._worked(found, self.chunks)
            self.forms[batch, seq] = found
        return found

    def _at(self, batch: int, seq: int) -> Form:
        """The program of one rank that has all of it: one that is known, at another size, or another one."""
        def record() -> Recording:
            return self.record(batch, seq)

        runs = self.known[0].runs if self.known else None
        few: Form | None = None
        if runs:
            few = few_of(self.model.module, record, runs)
            for known in self.known:
                if known.runs == runs and (found := known.again(few)) is not None:
                    return found
        self.known.append(recorded_once(self.model.module, record, runs, few))
        return self.known[-1].form

    def _worked(self, form: Form, chunks: Chunks) -> Form:
        """The program with what the loss works in, which a recording without bytes does not show."""
        found = copy.copy(form)
        found.work = list(form.work)
        weight = self.model.module.get_submodule(chunks.name or "").weight
        assert isinstance(weight, torch.Tensor)
        dtype = weight.dtype if self.request.autocast is None else _CASTS[self.request.autocast]
        for i, node in enumerate(form.nodes):
            if node.fields["op"] == BY_ROWS:
                found.work[i] += work_space(node.outputs[0].shape[0], weight, dtype, self.device.processor)
        return found

    @property
    def runs(self) -> list[Run]:
        return self.known[0].runs if self.known else []

    def graph(self, batch: int, seq: int) -> dict[str, Any]:
        """The joint graph at a size."""
        found = graph_of(self.form(batch, seq))
        flops, most = sum(node.get("flops", 0) for node in found["nodes"]), max(o["bytes"] for node in found["nodes"] for o in node["outputs"])
        if flops > _MOST_FLOPS or most > _MOST_BYTES:
            what = f"{flops:.0e} flops, of {_MOST_FLOPS:.0e}" if flops > _MOST_FLOPS else f"{most:.0e} bytes of one value, of {_MOST_BYTES:.0e}"
            raise ValueError(f"{self.model.name}: a step of batch {batch:,}" + (f" and {seq:,} tokens a row" if self.model.has_seq else "") + f" has {what} that a plan can weigh: give smaller ones")
        return found

    def sizes(self, dim: str, batch: int, seq: int, held: bool) -> Sizes | str:
        """The program at any batch or any length, the other as it is; or why it is not known. held: it keeps gradients."""
        degree = 1 if dim == "batch" else 2
        asked = batch if dim == "batch" else seq
        small = [n for n in ([2, 3, 4, 5] if dim == "batch" else [128, 192, 256, 320, 384]) if n != asked][: degree + 2]
        said = ""
        ops = [n.fields["op"] for n in self.form(batch, seq).nodes]
        for points in ([*small[:-1], asked], small):  # one row is another program than several, which may be what counts
            if [n.fields["op"] for n in self.form(*((points[0], seq) if dim == "batch" else (batch, points[0]))).nodes] != ops:
                return f"a step of {dim} {points[0]} runs other operators than one of {asked}"
            forms = [self.form(*((n, seq) if dim == "batch" else (batch, n))) for n in points]
            differs = next((d for f in forms[1:] if (d := difference(forms[0], f)) is not None), None)
            if differs is None:
                try:
                    return Sizes(dim, forms[-1] if held else without_gradients(forms[-1]), points, [f.numbers for f in forms], degree)
                except ValueError as e:
                    differs = str(e)
            said = said or f"steps of {dim} {', '.join(map(str, points))} are not one program" + (f" ({differs})" if differs else "")
        return said


def without_gradients(form: Form) -> Form:
    """The program where gradients are somebody else's as soon as they are there."""
    found = copy.copy(form)
    gradients = {r for r in form.results[form.forward_results :] if r is not None}
    found.results = [*form.results[: form.forward_results], *[None] * (len(form.results) - form.forward_results)]
    found.nodes = list(form.nodes)
    for i, j in gradients:
        node = found.nodes[i]
        outputs = [replace(o, held=None) if k == j else o for k, o in enumerate(node.outputs)]
        found.nodes[i] = replace(node, outputs=outputs)
    return found


def graph_of(form: Form) -> dict[str, Any]:
    graph = form.with_numbers(form.numbers, form.shapes, 0)
    graph["measured_peak"] = Step(graph).peak()
    return graph


class Sizes:
    """A program whose numbers are polynomials of one size: proven by one point more than they need."""

    def __init__(self, dim: str, form: Form, points: Sequence[int], numbers: Sequence[Sequence[int]], degree: int) -> None:
        self.form, self.slots, self.degree = form, Slots(form), degree
        place: dict[tuple[int, ...], int] = {}
        self.of = [place.setdefault(n, len(place)) for n in zip(*numbers, strict=True)]  # the class of each number
        self.coefficients = numpy.array([polynomial(dim, points, n, degree) for n in place], dtype=float)

    def largest(self, steps: Sequence[Mapping[str, Any]] | None, limit: int, most: int = 1 << 24) -> int:
        """The largest size at which a plan's steps, or the step as it is, take no more than limit; 0: none."""
        line = of_plan(self.form, self.slots, steps if steps is not None else plain_steps(self.form)).classes(self.of, len(self.coefficients))

        def fits(n: int) -> bool:
            return line.peak(self.coefficients @ numpy.array([float(n) ** k for k in range(self.degree + 1)])) <= limit

        low, high = 0, 1
        while high < most and fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low


def polynomial(dim: str, points: Sequence[int], numbers: Sequence[int], degree: int) -> list[float]:
    """The coefficients of the polynomial through these numbers. Raises if they are on none."""
    rows = [[Fraction(n) ** k for k in range(degree + 1)] + [Fraction(v)] for n, v in zip(points, numbers, strict=True)]
    for column in range(degree + 1):  # by elimination; the row that is left is the proof
        pivot = next(i for i in range(column, len(rows)) if rows[i][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [x / rows[column][column] for x in rows[column]]
        for i, row in enumerate(rows):
            if i != column and row[column] != 0:
                rows[i] = [x - row[column] * y for x, y in zip(row, rows[column], strict=True)]
    if any(row[-1] != 0 for row in rows[degree + 1 :]):
        raise ValueError(f"a size of the step is no polynomial of {dim}: {', '.join(map(str, numbers))} at {', '.join(map(str, points))}")
    return [float(rows[k][-1]) for k in range(degree + 1)]
