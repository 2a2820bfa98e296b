"""What callers give, checked when they give it: modules, sizes, shares, losses, optimizers."""

from __future__ import annotations

import inspect
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import torch

from ..._arguments import Size
from ..._visible import class_of, line

_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:E[+-]?\d+)?)\s*(%|B|[KMGTP](?:I?B)?)?")
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*")
_FORMS = "give bytes, a text like '8GB' or '60%', or a share like 0.6"


def parse(name: str, size: Size, whole: int, zero: bool = False) -> int:
    """Bytes of "6GiB", "6GB", 6442450944, or "60%" and 0.6 of the whole. zero: there may be none."""
    if isinstance(size, bool) or not isinstance(size, (str, numbers.Real)):
        raise TypeError(f"{name} is {size!r}; {_FORMS}")
    unit = ""
    if isinstance(size, str):
        text = size.strip().upper()
        m = _SIZE.fullmatch(text.removeprefix("-"))
        if m is None:
            raise ValueError(f"{name} is {size!r}; {_FORMS}")
        number, unit = float(m[1]) * (-1 if text.startswith("-") else 1), m[2] or ""
        counts = "." not in m[1] and not unit  # '1' is a byte, '1.0' the whole, as 1 and 1.0 are
    else:
        number, counts = float(size), isinstance(size, numbers.Integral)
    if math.isinf(number):
        raise ValueError(f"{name} is {size!r}; {_FORMS}")
    if number < 0 or math.isnan(number) or number == 0 and not zero:
        raise ValueError(f"{name} is {size!r}; it must be positive: {_FORMS}")
    if unit == "%":
        if number > 100:
            raise ValueError(f"{name} is {size!r}, more than the whole: '100%' is all of it; a text like '8GB' is bytes")
        return int(whole * number / 100)
    if unit:
        return int(number * (1000 ** "BKMGTP".index(unit[0]) if len(unit) == 2 else _UNITS[unit[:1]]))
    if not counts and number <= 1:
        return int(whole * number)
    if not number.is_integer():
        gibibytes = f"; {number:g} GiB are '{number:g}GiB'" if number < 1024 else ""
        raise ValueError(f"{name} is {size!r}; a number with a point is a share up to 1.0, or whole bytes: {_FORMS}{gibibytes}")
    return int(size) if isinstance(size, numbers.Integral) else int(number)


def is_share(size: Size | None) -> bool:
    """Whether a size is a share."""
    if isinstance(size, str):
        return size.strip().endswith("%") or re.fullmatch(r"\s*(0\.\d+|1\.0+)\s*", size) is not None
    return isinstance(size, numbers.Real) and not isinstance(size, numbers.Integral) and 0 < size <= 1


def is_size(x: Any) -> bool:
    """Whether a text is a budget."""
    return isinstance(x, str) and (x == "auto" or _SIZE.fullmatch(x.strip().upper()) is not None)


def check_module(function: str, model: Any, planned: bool = True) -> None:
    """Raises if what is given for a module is none, or, unless it may be, is planned by the service."""
    if isinstance(model, torch.nn.Module):
        if not planned and getattr(type(model), "runs_in_the_service", False):
            raise TypeError(f"memopt.{function} plans steps that PyTorch runs, and a memopt.Module runs in the service, under a plan of its own: memopt.Module(model, budget=…)")
        return
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        what, instead = f"the class {line(model.__name__)}", f"make a module of it: {line(model.__name__)}(…)"
    elif isinstance(model, (str, os.PathLike)):
        what, instead = f"the text {str(model)!r}", "a model in a file is planned by memopt.plan"
    elif inspect.isroutine(model):
        what, instead = f"the function {line(getattr(model, '__name__', ''))}", "give the module whose forward pass it runs"
    else:
        what, instead = class_of(model), "give the module that is trained"
    raise TypeError(f"memopt.{function} takes a torch.nn.Module, not {what}: {instead}")


def check_trained(models: Sequence[torch.nn.Module], optimizer: Any, now: bool) -> None:
    """Raises for modules whose steps cannot be planned as they are, and for an optimizer of another module. now: a step is run at once."""
    parameters = [p for m in models for p in m.parameters()]
    for m in models:
        if isinstance(m, torch.jit.ScriptModule):
            raise TypeError(f"memopt.optimize plans what Python runs, and {class_of(m)} is compiled by torch.jit: give the module that it was made of")
    if now and any(isinstance(p, torch.nn.UninitializedParameter) for p in parameters):
        raise ValueError("the module has lazy parameters, whose shapes are not known yet: run a forward pass first")
    if now and any(p.is_meta for p in parameters):
        raise ValueError("the module has parameters on the meta device, and no step of it can run: move it with to_empty(device=…) and load its weights; memopt.feasible and memopt.fit answer for such a module")
    optimizers = [o for o in (optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]) if o is not None]
    theirs = {id(p) for o in optimizers for group in getattr(o, "param_groups", ()) for p in group["params"]}
    # Others' optimizers may have copies of parameters in a place of their own.
    if theirs and parameters and all(type(o).__module__.startswith("torch.optim.") for o in optimizers) and theirs.isdisjoint(map(id, parameters)):
        raise ValueError("the optimizer has none of the module's parameters: give the one that trains this module")


def check_methods(models: Sequence[torch.nn.Module], methods: Any) -> None:
    """Raises for names of methods that no module has."""
    if isinstance(methods, str) or not all(isinstance(name, str) for name in methods):
        raise TypeError(f"methods is {methods!r}; give names of methods in a tuple, such as ('encode', 'decode')")
    for name in methods:
        if not any(callable(getattr(type(m), name, None)) for m in models):
            near = get_close_matches(name, [n for m in models for n in dir(type(m)) if not n.startswith("_")], 1)
            kinds = " or ".join(dict.fromkeys(type(m).__name__ for m in models))
            raise ValueError(f"methods names {name!r}, which is no method of {kinds}" + (f"; did you mean {near[0]!r}?" if near else ""))


def check_request(
    *, budget: Any = None, activation_budget: Any = None, max_overhead: Any = None, loss: Any = None, optimizer: Any = None, reserve: Any = None, loss_chunks: Any = None,
    sequence_tiles: Any = None, host_budget: Any = None,
) -> None:
    """Raises for arguments of memopt.optimize, or of a function that shares them, that no step can be planned with."""
    if budget is not None and activation_budget is not None:
        raise TypeError("give budget or activation_budget, not both")
    if budget is not None and not (isinstance(budget, str) and budget == "auto"):
        parse("budget", budget, 0)
    if activation_budget is not None:
        parse("activation_budget", activation_budget, 0)
    if max_overhead is not None:
        share_of("max_overhead", max_overhead)
    if reserve is not None:
        parse("reserve", reserve, 0, zero=True)
    if host_budget is not None:
        parse("host_budget", host_budget, 0)
        if is_share(host_budget):
            raise ValueError(f"host_budget is {host_budget!r}, a share of nothing: give bytes or a text like '8GB'")
    if loss is not None and not callable(loss):
        raise TypeError(f"loss is {loss!r}; give a function of the model's output that returns one number")
    if isinstance(sequence_tiles, (list, tuple)):
        if not sequence_tiles or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sequence_tiles):
            raise ValueError(f"sequence_tiles is {sequence_tiles!r}; give 'auto', a number of tiles, or a list with the number of each feed-forward layer, 1 for one that stays whole")
        sequence_tiles = None
    for name, pieces, what in (("loss_chunks", loss_chunks, "chunks the rows of the loss"), ("sequence_tiles", sequence_tiles, "tiles the rows of a feed-forward layer")):
        if pieces is not None and pieces != "auto" and (not isinstance(pieces, int) or isinstance(pieces, bool) or pieces < 1):
            raise (TypeError if not isinstance(pieces, (int, str)) else ValueError)(f"{name} is {pieces!r}; give 'auto' or how many {what} are split into")
    if optimizer is not None:
        _check_optimizer(optimizer)


def share_of(name: str, share: Any) -> float:
    """The share that "5%" or 0.05 is. Raises for what is none."""
    forms = "give a text like '5%' or a share like 0.05"
    if isinstance(share, bool) or not isinstance(share, (str, numbers.Real)):
        raise TypeError(f"{name} is {share!r}; {forms}")
    if not isinstance(share, str):
        if not 0 <= float(share) < math.inf:
            raise ValueError(f"{name} is {share!r}; it must not be negative: {forms}")
        return float(share)
    m = _SHARE.fullmatch(share)
    if m is None:
        raise ValueError(f"{name} is {share!r}; {forms}")
    if not m[2] and float(m[1]) > 1:
        raise ValueError(f"{name} is {share!r}, more than the whole step: give '{m[1]}%' if that is meant")
    return float(m[1]) / (100 if m[2] else 1)


def _check_optimizer(given: Any) -> None:
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in several:
        if not isinstance(getattr(one, "param_groups", None), Sequence) and not isinstance(getattr(one, "optimizer", None), torch.optim.Optimizer):
            what = f"the class {line(one.__name__)}: call it with the parameters" if isinstance(one, type) else class_of(one)
            raise TypeError(f"optimizer is {what}; give a torch.optim.Optimizer, or a list of several")


def check_named(function: str, model: torch.nn.Module, given: Mapping[str, Any], own: Sequence[str]) -> None:
    """Raises for a keyword argument that neither the module's forward pass takes nor the function has."""
    parameters = _parameters(model)
    if parameters is None:
        return
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in given:
        if name in parameters or open_ended and name not in _OF_OPTIMIZE:
            continue
        near = get_close_matches(name, [*own, *(p for p in parameters if p != "self")], 1)
        raise TypeError(
            f"memopt.{function} has no argument {name!r}, and the forward pass of {class_of(model)} takes none of that name; "
            f"{function} has {', '.join(own)}" + (f"; did you mean {near[0]!r}?" if near else "")
        )


_OF_OPTIMIZE = {"budget", "activation_budget", "max_overhead", "optimizer", "reserve", "loss_chunks", "sequence_tiles", "strict", "optimizer_in_backward", "offload", "host_budget", "states", "lossy", "verbose", "mode", "sample", "methods"}


def split_budget(model: torch.nn.Module, batch: tuple[Any, ...], budget: Any) -> tuple[tuple[Any, ...], Any]:
    """The inputs of a step and the budget, which may be the last positional argument: a text of a size, or a number that the forward pass has no room for."""
    if budget is not None or len(batch) < 2:
        return batch, budget
    last = batch[-1]
    if is_size(last):
        return batch[:-1], last
    if isinstance(last, numbers.Real) and not isinstance(last, bool) and (parameters := _parameters(model)) is not None:
        kinds = [p.kind for p in parameters.values()]
        places = sum(k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
        if inspect.Parameter.VAR_POSITIONAL not in kinds and len(batch) > places:
            return batch[:-1], last
    return batch, budget


def _parameters(model: torch.nn.Module) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return None


def check_settings(owner: str, settings: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raises for settings that the function which takes them later does not know, or refuses."""
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise TypeError(f"{owner} has no argument {name!r}; there are {', '.join(known)}" + (f"; did you mean {near[0]!r}?" if near else ""))
    checked = inspect.signature(check_request).parameters
    check_request(**{name: value for name, value in settings.items() if name in checked})

