"""PyTorch's own tests of checkpointing and saved-tensor hooks, with a planned module in the place of what they test.

    python tests_torch/upstream.py FOLDER [-k NAME] [--list FILE]

FOLDER is the folder test of PyTorch's repository, in the version installed. In tests of checkpointing,
torch.utils.checkpoint.checkpoint, and checkpoint of torch.distributed, run the function as a planned module, at
its lowest plan: what the test asserts of gradients, random state, hooks, exceptions and arguments is then asserted
of that. Tests of saved-tensor hooks run inside the forward pass of a planned module. --list writes which of them
run, and why the rest does not.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import importlib.util
import inspect
import io
import os
import re
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch.distributed import _composable
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves, tree_map

import memopt
import memopt.torch.replay.regions  # takes PyTorch's checkpoint before it is replaced
from memopt.torch.record.operators import Op, Value
from memopt.torch.record.record import Recording
from memopt.torch.replay.program import Program, build
from memopt.torch.step.sample import Sample

FILES = ("autograd/test_autograd.py", "test_autograd.py", "autograd/test_node_lifecycle.py", "test_utils.py", "distributed/_composable/test_checkpoint.py")
CHECKPOINT, HOOKS = r"\bcheckpoint\w*\(|\bcheckpoint\(", r"saved_tensors_hooks|save_on_cpu|_raw_saved_"

# What a test asserts that is checkpoint's own, and not of what it computes.
OWN = {
    "test_access_saved_tensor_twice_without_recomputation_works": "counts how often checkpoint calls the function; a plan repeats operators, and never calls it again",
    "test_checkpoint_trigger": "counts how often checkpoint calls the function",
    "test_nested_checkpoint_set_early_stop": "counts what checkpoint repeats with and without its early stop",
    "test_nested_checkpoint_set_early_stop_no_recompution_needed": "counts what checkpoint repeats with and without its early stop",
    "test_checkpoint_detects_non_determinism": "asserts the errors of checkpoint's comparison of a second run",
    "test_checkpoint_valid": "asserts that use_reentrant=True refuses autograd.grad, which a plan allows",
    "test_checkpoint_valid_reset_on_error": "asserts that use_reentrant=True refuses autograd.grad, which a plan allows",
    "test_checkpoint_partial_grad": "asserts the error of use_reentrant=True for results without gradients",
    "test_checkpointing_without_reentrant_detached_tensor_use_reentrant_True": "asserts the error of use_reentrant=True for results without gradients",
    "test_checkpoint_non_tensor_inputs_outputs": "asserts that use_reentrant=True returns an argument as another tensor; a module returns it as it is",
    "test_checkpoint_warns_if_use_reentrant_not_passed_explcitly": "asserts checkpoint's warning about an argument",
    "test_checkpoint_sequential_warns_if_use_reentrant_not_passed_explcitly": "asserts checkpoint's warning about an argument",
    "test_checkpoint_sequential_deprecated_multiple_args": "asserts what arguments checkpoint_sequential takes",
    "test_checkpoint_sequential_deprecated_no_args": "asserts what arguments checkpoint_sequential takes",
    "test_checkpointing_without_reentrant_custom_function_works": "asserts that checkpoint unpacks a tensor only once; a plan does so again",
}

# Why a test of hooks cannot run inside a planned forward pass, by what is raised there.
INSIDE = {
    "whose hooks have already been set": "sets hooks on one saved tensor, which PyTorch refuses where others are on, as it does under checkpoint",
    "makes a graph": "its backward pass makes a graph, inside the forward pass; no plan holds for that",
    "error message": "asserts that hooks can be disabled where none are on",
    "outer": "asserts that hooks can be disabled where none are on",
}


class NotOurs(Exception):
    """A test asks checkpoint for what a plan has no counterpart of."""


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.run: Callable[..., Any] | None = None
        self.dropped = -1  # values that the plan has dropped; -1: it ran without one

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        assert self.run is not None
        mode = _get_current_dispatch_mode()
        out = self.run(*args, **kwargs)
        step = getattr(mode, "step", None)
        if step is not None:
            self.dropped = len(step.dropped) if step.diverged is None else -1
        return out

    def of(self, run: Callable[..., Any]) -> Called:
        """A copy, with its plans, that runs another function."""
        new = copy.deepcopy(self)
        new.run = run
        owner = run if isinstance(run, torch.nn.Module) else getattr(run, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            new.owner = owner  # its parameters are the module's
        return new


def program_of(x: Any, depth: int = 4) -> Any:
    """What tells functions that run other operators apart: their code, and that of what they close over."""
    if depth == 0:
        return None
    if isinstance(x, functools.partial):
        return program_of(x.func, depth), tuple(program_of(a, depth - 1) for a in x.args)
    if isinstance(x, types.MethodType):
        return program_of(x.__func__, depth), program_of(x.__self__, depth)
    if isinstance(x, types.FunctionType):
        cells = []
        for cell in x.__closure__ or ():
            with contextlib.suppress(ValueError):
                cells.append(program_of(cell.cell_contents, depth - 1))
        return x.__code__, tuple(cells)
    if isinstance(x, torch.nn.Module):
        return type(x), tuple(x.named_children()) and str(x)
    return x if isinstance(x, (types.BuiltinFunctionType, torch._C._FunctionBase)) else type(x)


def total(out: Any) -> torch.Tensor:
    """A loss that reaches all results."""
    found = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not found:
        raise ValueError("no result requires a gradient")
    return sum(t.to_dense().abs().sum() if t.is_complex() else t.sum() for t in found).double()  # type: ignore[union-attr,return-value]


def leaves_of(loss: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that a backward pass leaves gradients in."""
    seen, todo, found = set(), [loss.grad_fn], []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        todo.extend(n for n, _ in node.next_functions)
    return found


def dropping_all(recording: Recording, steps: Sequence[Mapping[str, Any]]) -> Program:
    """The plan that checkpoint's would be: whatever can be made again is dropped, and made again for each backward operator."""
    at = {op: i for i, op in enumerate(recording.ops)}
    asked: dict[Op, list[Value]] = {}
    for save in recording.saves:
        for op in save.used:
            asked.setdefault(op, []).append(save.value)
    new: list[Mapping[str, Any]] = []

    def make(value: Value, made: set[Op]) -> None:
        op = value.maker
        if op is None or op.once or op.backward or op in made:
            return
        made.add(op)
        for v in op.inputs:
            make(v, made)
        new.append({"node": at[op], "again": True})

    for step in steps:
        if step.get("again"):
            continue
        made: set[Op] = set()
        for value in asked.get(recording.ops[step["node"]], ()):
            make(value, made)
        new.append(step)
    return build(recording, new)


class Stand:
    """Runs functions as planned modules, in the place of checkpoint. A function is planned where it is first called."""

    def __init__(self) -> None:
        self.sites: dict[Any, Called | str] = {}
        self.inside = self.off = False
        self.calls = self.planned = self.dropped = self.new = 0
        self.why: list[str] = []  # nothing was planned

    def begin(self) -> None:
        self.calls = self.planned = self.dropped = self.new = 0
        self.why = []

    def within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function where nothing that it calls is planned, also when PyTorch's checkpoint runs it again."""

        def run(*args: Any, **kwargs: Any) -> Any:
            before, self.inside = self.inside, True
            try:
                return function(*args, **kwargs)
            finally:
                self.inside = before

        return run

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.inside or not torch.is_grad_enabled():
            return function(*args, **kwargs)
        shapes = [(t.shape, t.stride(), t.dtype, t.requires_grad) if isinstance(t, torch.Tensor) else type(t) for t in tree_leaves((args, kwargs))]
        site = program_of(function), str(shapes), torch.is_autocast_enabled("cpu")
        self.calls += 1
        self.inside = True
        try:
            if site not in self.sites:
                self.new += 1
                self.sites[site] = self.plan(function, args, kwargs)
            found = self.sites[site]
            if isinstance(found, str):
                self.why.append(found)
                return function(*args, **kwargs)
            module = found.of(function)
            try:
                return module(*args, **kwargs)
            finally:
                self.planned += module.dropped >= 0
                self.dropped += max(module.dropped, 0)
        finally:
            self.inside = False

    def plan(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Called | str:
        """A module with a plan for such a call, or why there is none. The step it is made from leaves no trace."""
        kept: dict[torch.Tensor, torch.Tensor | None] = {}

        def loss(out: Any) -> torch.Tensor:
            found = total(out)
            for leaf in leaves_of(found):
                kept.setdefault(leaf, None if leaf.grad is None else leaf.grad.clone())
            return found

        def own(t: Any) -> Any:
            return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t

        module = Called().of(function)
        try:
            report = memopt.optimize(module, max_overhead="100000%", sample=Sample(tree_map(own, args), tree_map(own, kwargs)), loss=loss, verbose=False)
        except Exception as e:
            return f"{type(e).__name__}: {e}".splitlines()[0]
        finally:
            for leaf, grad in kept.items():
                leaf.grad = grad
        if report is None or report.plan is None:
            return "everything is kept"
        module.run = None
        if "owner" in module._modules:
            del module.owner
        return module


def installed(stand: Stand) -> None:
    """Puts the stand-in where tests import checkpoint from."""
    theirs, theirs_of_modules = torch.utils.checkpoint.checkpoint, _composable.checkpoint  # type: ignore[attr-defined]

    def checkpoint(function: Any, *args: Any, use_reentrant: Any = None, context_fn: Any = None, determinism_check: Any = None, debug: bool = False, preserve_rng_state: bool = True, early_stop: bool = True, **kwargs: Any) -> Any:
        if stand.inside or stand.off:  # a user's checkpoint in a planned module
            if not stand.off:
                function = stand.within(function)
            more = {} if context_fn is None else {"context_fn": context_fn}
            return theirs(function, *args, use_reentrant=use_reentrant, debug=debug, preserve_rng_state=preserve_rng_state, **more, **kwargs)
        if context_fn is not None:
            raise NotOurs("it hands checkpoint a context_fn, such as a policy, which a plan has no use for")
        if debug or determinism_check is not None:
            raise NotOurs("it asserts checkpoint's comparison of a second run, which debug and determinism_check are for")
        return stand.run(function, args, kwargs)

    def composable(module: Any, **kwargs: Any) -> Any:
        if stand.off:
            return theirs_of_modules(module, **kwargs)
        module.forward = functools.partial(stand.run_forward, module.forward)
        return module

    stand.run_forward = lambda forward, *args, **kwargs: stand.run(forward, args, kwargs)  # type: ignore[attr-defined]
    for room in ("share", "lengths"):
        sys.modules[f"memopt.torch.loop.{room}"].build = dropping_all  # type: ignore[attr-defined]
    torch.utils.checkpoint.checkpoint = checkpoint  # type: ignore[assignment]
    _composable.checkpoint = composable  # type: ignore[attr-defined]


def load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem + "_upstream", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def text_of(case: type, name: str, deep: int = 2) -> str:
    """A test's source, and that of the helpers of its class that it calls."""
    function = getattr(case, name, None)
    try:
        text = inspect.getsource(inspect.unwrap(function))  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""
    if deep:
        for helper in set(re.findall(r"self\.(\w+)", text)):
            if hasattr(case, helper) and not hasattr(unittest.TestCase, helper) and helper.startswith(("_", "get_tests", "checkpoint")) and helper in vars(case):
                text += text_of(case, helper, deep - 1)
    return text


def tests_of(module: types.ModuleType) -> Iterator[tuple[type, str, bool]]:
    """Tests of a file that are of checkpointing, or of hooks: those run inside a planned module's forward pass."""
    for case in list(vars(module).values()):
        if not (isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == module.__name__):
            continue
        for name in sorted(n for n in dir(case) if n.startswith("test")):
            text = text_of(case, name)
            if re.search(CHECKPOINT, text):
                yield case, name, False
            elif re.search(HOOKS, text):
                yield case, name, True


def once(case: type, name: str, stand: Stand, hooks: bool) -> unittest.TestResult:
    """Runs one test."""
    test: Any = case(name)
    stand.begin()
    if hooks and not stand.off:
        body = getattr(test, name)

        def inside() -> None:
            x = torch.linspace(0.1, 1, 64, requires_grad=True)

            def forward(x: torch.Tensor) -> torch.Tensor:
                x = x.exp().sin()
                body()
                return x.cos().exp()

            stand.run(forward, (x,), {}).sum().backward()
            want = torch.linspace(0.1, 1, 64, requires_grad=True)
            want.exp().sin().cos().exp().sum().backward()
            test.assertTrue(torch.equal(x.grad, want.grad), "the planned module around the test has other gradients")

        setattr(test, name, inside)
    result = unittest.TestResult()
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        test.run(result)
    return result


def outcome(case: type, name: str, hooks: bool, stand: Stand, verbose: bool) -> tuple[str, str]:
    """What becomes of a test: passes, does not run, or fails; and what is to be said of it."""
    if name in OWN:
        return "not run", OWN[name]
    stand.sites.clear()
    for _ in range(3):  # what is planned in one pass runs planned from its start in the next
        result = once(case, name, stand, hooks)
        if result.skipped:
            return "not run", f"PyTorch skips it on this machine: {result.skipped[0][1]}"
        if not stand.new:
            break
    bad = [*result.errors, *result.failures]
    if bad:
        last = bad[0][1].strip().splitlines()
        said = next((line for line in reversed(last) if re.match(r"\S*(Error|Exception|NotOurs)\b", line)), last[-1])
        if "NotOurs" in said:
            return "not run", said.split("NotOurs: ", 1)[1]
        stand.off = True
        plain = once(case, name, stand, hooks)
        stand.off = False
        if not plain.wasSuccessful():
            return "not run", "it fails as it is, with this version of PyTorch"
        return "FAILS", "\n".join(last) if verbose else said[:300]
    if not stand.planned and hooks:
        return "not run", next((why for said, why in INSIDE.items() if said in stand.why[0]), stand.why[0])
    if not stand.planned:
        return "passes unplanned", stand.why[0] if stand.why else "nothing is called with gradients"
    of = "" if stand.planned == stand.calls else f" of {stand.calls}"
    return "passes", f"calls planned: {stand.planned}{of}; values dropped: {stand.dropped}"


def listed(rows: Sequence[tuple[str, ...]], origin: str) -> str:
    """The list as Markdown."""
    out = [
        "# PyTorch's own tests under a plan",
        "",
        "Written by `python tests_torch/upstream.py FOLDER --list ../../docs/upstream-tests.md`, in `plugin/python`.",
        f"PyTorch {torch.__version__.split('+')[0]}{', with the tests of ' + origin if origin else ''}.",
        "",
        "Where a test calls `torch.utils.checkpoint.checkpoint`, the function runs as a planned module, under a plan that drops all that can be",
        "made again, as checkpoint does. Tests of saved-tensor hooks run inside the forward pass of such a module. A test passes if all",
        "that it asserts holds then. What cannot run has its reason.",
    ]
    titles = {
        "FAILS": "Fails",
        "passes": "Runs and passes",
        "passes unplanned": "Passes, with nothing to plan",
        "not run": "Does not run",
    }
    for what, title in titles.items():
        found = [r for r in rows if r[3] == what]
        if not found:
            continue
        out += ["", f"## {title}: {len(found)}", "", "| test | |", "|---|---|"]
        out += [f"| `{case}.{name}` | {why.replace('|', chr(92) + '|')} |" for _, case, name, _, why in found]
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-k", default="", help="only tests whose names have this in them")
    parser.add_argument("-v", action="store_true", help="where tests fail")
    parser.add_argument("--list", type=Path, help="writes the list")
    parser.add_argument("--origin", default="", help="where the files are from, for the list")
    given = parser.parse_args()
    files = [given.folder / f for f in FILES if (given.folder / f).is_file()]
    if not files:
        print(f"upstream: no tests of PyTorch in {given.folder}: it has none of {', '.join(FILES)}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "1")
    sys.path.insert(0, str(given.folder))  # they import each other
    stand = Stand()
    installed(stand)
    sys.argv = sys.argv[:1]  # PyTorch's tests read them
    rows = []
    for path in files:
        try:
            module = load(path)
        except Exception as e:
            print(f"upstream: {path} cannot be loaded: {type(e).__name__}: {e}", file=sys.stderr)
            return 2
        for case, name, hooks in tests_of(module):
            if given.k in name:
                rows.append((path.relative_to(given.folder).as_posix(), case.__name__, name, *outcome(case, name, hooks, stand, given.v)))
                print(*rows[-1][1:], sep="\t", flush=True)
    if given.list is not None:
        given.list.write_text(listed(rows, given.origin))
    counts = {what: sum(1 for r in rows if r[3] == what) for what in dict.fromkeys(r[3] for r in rows)}
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts.get("FAILS") else 0


if __name__ == "__main__":
    sys.exit(main())
