"""memopt.Module: runs the training step of a PyTorch module in the memopt service."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from ..._arguments import Size
from ..._plan import texts
from ..._settings import LOAD_SETTINGS, SETTINGS
from ..._visible import class_of
from ...errors import BudgetError, MemoptError
from ..step.given import parse
from . import agrees
from .bridge import Bridge, Pass
from .export import Exported, NotExported, call, export
from .losses import named
from .resident import Resident
from .served import ServedReport
from .session import Binding, Look, Session, Stepped

_log = logging.getLogger("memopt")
_SEVERAL = "memopt.optimize plans a module for any number of processes"
_MOST = 8  # graphs that are kept for one module


class _Forward:
    """The forward of a call. Without a loss it has the model's signature, for trainers that inspect it."""

    def __get__(self, module: Module | None, kind: type) -> Callable[..., Any]:
        if module is None:
            return Module._forward
        replaced: Callable[..., Any] | None = module.__dict__.get("_replaced")
        if replaced is not None:
            return replaced
        run = functools.partial(Module._forward, module)
        return run if module.__dict__["_loss"] is not None else functools.update_wrapper(run, module.original.forward)

    def __set__(self, module: Module, replaced: Callable[..., Any]) -> None:
        module.__dict__["_replaced"] = replaced  # by a trainer that puts something around it

    def __delete__(self, module: Module) -> None:
        if module.__dict__.pop("_replaced", None) is None:
            raise AttributeError("forward")


# Those of plans, and how weights reach the device.
_SETTINGS = SETTINGS | {name: LOAD_SETTINGS[name] for name in ("load_mode", "chunk")}


class Module(torch.nn.Module):
    """A module whose forward and backward pass run in the memopt service, under a plan, on its device.

        model = memopt.Module(model)                             # the model returns its loss, or you compute it from the output
        model = memopt.Module(model, loss="cross-entropy")       # model(inputs, targets) returns the loss
        model = memopt.Module(model, loss=..., mode="resident", optimizer="adamw")   # model.step(inputs, targets, lr=…)

    loss      a function of the model's output and of targets, or a name: cross-entropy, mse, l1, bce-with-logits, mean. With a loss
              the module is called with the model's arguments (a tensor, a tuple of positional or a dict of named arguments)
              and the targets
    mode      "bridge": gradients are returned to PyTorch, which updates. "resident": weights and optimizer live in the service;
              step() trains, sync() copies the weights back
    fallback  if the service cannot run the step: "warn" says why once and runs the model itself, "raise"
              raises. A budget that cannot be met, and a service that ends during a step, always raise
    budget    all that the step may hold: "6GiB", or "60%" of what it holds with everything kept
    settings  the others of memopt.plan: activation_budget, device, level, …; how weights reach the device (load_mode, chunk); with mode
              "resident" also those of the optimizer

    Parameters, buffers, state_dict, hooks and all other attributes are the model's, with its names. Only training runs
    in the service: eval() and no_grad() run the model itself.
    """

    runs_in_the_service = True

    def __init__(
        self,
        model: torch.nn.Module,
        loss: str | Callable[..., Any] | None = None,
        budget: Size | None = None,
        *,
        mode: str = "bridge",
        fallback: str = "warn",
        lr: float = 1e-3,
        **settings: Any,
    ) -> None:
        if budget is not None:
            settings["budget"] = budget
        for name in ("budget", "memory_budget", "activation_budget"):
            if settings.get(name) is not None:
                parse(name, settings[name], 0)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"{class_of(self)} takes a torch.nn.Module, not {class_of(model)}")
        if isinstance(model, Module):
            raise TypeError("the module is a memopt.Module already")
        if mode not in ("bridge", "resident"):
            raise ValueError(f"mode {mode!r}: there are 'bridge' and 'resident'")
        if fallback not in ("warn", "raise"):
            raise ValueError(f"fallback {fallback!r}: there are 'warn' and 'raise'")
        super().__init__()
        own = self.__dict__
        own["_model"], own["_loss"] = model, named(loss)
        own["_made_with"] = {"loss": loss, "mode": mode, "fallback": fallback, "lr": lr, **settings}
        own["_settings"] = texts("Module", settings, _SETTINGS)
        own["_mode"], own["_fallback"], own["_lr"] = mode, fallback, lr
        own["_resident"] = Resident(int(own["_settings"].get("accumulate", 1))) if mode == "resident" else None
        own["_steps"] = _Steps(self)
        # The module has the model's tensors and parts under the model's names, as they are at any time.
        for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[kind] = getattr(model, kind)

    # What is the model's.

    @property
    def original(self) -> torch.nn.Module:
        """The wrapped module."""
        return self.__dict__["_model"]

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        """The model's class, for trainers that ask what to save and which arguments are labels; type() is the wrapper's.

        A module that brings its own training step, as Lightning's do, is not imitated: whoever runs that step does not call the wrapper.
        """
        model = self.__dict__.get("_model")
        own = model is None or self.__dict__["_loss"] is not None or hasattr(model, "training_step")
        return type(self) if own else type(model)

    @__class__.setter
    def __class__(self, other: type) -> None:
        raise TypeError(f"memopt.Module runs a whole module in one service and cannot become {other.__name__}. {_SEVERAL}")

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the model is in training mode."""
        model = self.__dict__.get("_model")
        return True if model is None else bool(model.training)

    @training.setter
    def training(self, mode: bool) -> None:
        if "_model" in self.__dict__:
            self.original.training = mode

    def __getattr__(self, name: str) -> Any:
        if name == "_model" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).__dict__ or name in self.__dict__ or "_model" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.original, name)

    def train(self, mode: bool = True) -> Module:
        self.original.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.sync()
        return self.original.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.original.load_state_dict(*args, **kwargs)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Module:
        self.original._apply(fn, *args, **kwargs)
        return self

    def _replicate_for_data_parallel(self) -> Any:
        raise NotImplementedError(f"{class_of(self)} does not work with torch.nn.DataParallel: its replicas are of one process, whose service has one plan. {_SEVERAL}")

    def __reduce__(self) -> tuple[Any, ...]:
        self.sync()
        return _remade, (self.original, self.__dict__["_made_with"])

    def extra_repr(self) -> str:
        return f"{self.__dict__['_mode']} of {class_of(self.original)}"

    def __getitem__(self, key: Any) -> Any:
        return self.original[key]  # type: ignore[index]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.original[key] = value  # type: ignore[index]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.original)})

    def _looking(self) -> Look | None:
        """Requests more information about plans; all dims that may change then have names from the first step on."""
        return None

    # What is run.

    forward = _Forward()  # type: ignore[assignment]

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        steps: _Steps = self.__dict__["_steps"]
        if not self.training or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            self.sync()
            return self._plain(args, kwargs)
        if steps.resident is not None:
            raise RuntimeError("a resident module trains by step(inputs, targets, lr=…): its weights and its optimizer are in the service; mode='bridge' gives gradients back")
        kwargs = self._without_cache(kwargs)
        step = steps.of(args, kwargs)
        found = step.run() if step is not None else None
        return self._plain(args, kwargs) if found is None else found[0]

    def step(self, *args: Any, lr: float | None = None, **kwargs: Any) -> torch.Tensor:
        """Runs one training step in the service, including the update, and returns the loss; mode "resident" only.

        Arguments are those of a call. lr is the learning rate of this and later updates.
        """
        steps: _Steps = self.__dict__["_steps"]
        if steps.resident is None:
            raise RuntimeError("step() is of modules made with mode='resident'; the optimizer of a bridge is PyTorch's")
        if not self.training:
            raise RuntimeError("step() trains, and the module is in evaluation mode: call train() before")
        if lr is not None:
            self.__dict__["_lr"] = float(lr)
        steps.resident.check()
        step = steps.of(args, self._without_cache(kwargs))
        assert step is not None  # what cannot be run there raises
        return step.train(self.__dict__["_lr"])

    def sync(self) -> None:
        """Copies weights, running statistics and optimizer states of a resident module back from the service."""
        resident: Resident | None = self.__dict__["_resident"]
        if resident is not None:
            with torch.no_grad():
                resident.sync()

    def optimizer_state(self) -> dict[str, torch.Tensor]:
        """The states of a resident module's optimizer, by name, for checkpoints."""
        resident = self._is_resident("optimizer_state")
        self.sync()
        return {name: t.clone() for name, t in resident.states.items()}

    def load_optimizer_state(self, states: Mapping[str, torch.Tensor]) -> None:
        """Restores states returned by optimizer_state()."""
        resident = self._is_resident("load_optimizer_state")
        self.sync()
        resident.load(states)

    def _is_resident(self, method: str) -> Resident:
        resident: Resident | None = self.__dict__["_resident"]
        if resident is None:
            raise RuntimeError(f"{method}() is of modules made with mode='resident'; the optimizer of a bridge is PyTorch's")
        return resident

    def _plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the model itself. Without targets it returns the output, if it is not trained."""
        loss = self.__dict__["_loss"]
        if loss is not None and len(args) < 2 and not self.training:
            loss, args, kwargs = None, *_called(args, kwargs)
        return call(self.original, loss, args, kwargs)

    def _without_cache(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Turns off caches for generation, which models of transformers return by default."""
        config = getattr(self.original, "config", None)
        if getattr(config, "use_cache", False) is True and "use_cache" not in kwargs and "use_cache" in _parameters_of(self.original.forward):
            return {**kwargs, "use_cache": False}
        return kwargs

    @property
    def report(self) -> ServedReport | None:
        """The promised and the measured memory for the last step's shapes; None before the first step, or if the model runs itself."""
        return self.__dict__["_steps"].report

    def close(self) -> None:
        """Frees the service's memory for this module; the next step allocates it again."""
        self.sync()
        self.__dict__["_steps"].close()


def _remade(model: torch.nn.Module, made_with: dict[str, Any]) -> Module:
    return Module(model, **made_with)


def _called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The model's arguments in a call with a loss."""
    if not args:
        return args, kwargs
    (given,) = args
    if isinstance(given, dict):
        return (), {**given, **kwargs}
    return (tuple(given) if isinstance(given, (tuple, list)) else (given,)), kwargs


def _parameters_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    import inspect

    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


class _Step:
    """A step to run: a graph, its session, the plan for the current shapes, and the batch."""

    def __init__(self, steps: _Steps, held: _Held, tensors: Sequence[torch.Tensor], kind: Any, call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        self.steps, self.held, self.tensors, self.kind, self.call = steps, held, tensors, kind, call
        self.session = held.session(steps)
        exported = held.exported
        inputs = dict(zip((one.name for one in exported.inputs), tensors, strict=True)) | exported.counters
        self.binding: Binding = self.session.bind(inputs)
        report = held.reports.get(self.binding.number)
        if report is None:
            report = held.reports[self.binding.number] = ServedReport.of(self.session.device, self.binding.plan)
        self.report = steps.report = report

    def run(self) -> tuple[Any] | None:
        """Runs the step; None if the graph of a first step computes another function than the module."""
        exported = self.held.exported
        want = self.steps.first(self.held, self.call)
        before = {name: exported.stored[name].clone() for name in exported.updated} if want is not None else {}
        one = Pass(self.session, self.binding, self.tensors, self.steps.seed(exported), self._told)
        results = Bridge.apply(one, *self.tensors, *exported.parameters.values())
        if want is not None:
            try:
                agrees.check(exported.results, [t.detach() for t in results], want)
            except NotExported as e:
                with torch.no_grad():
                    for name, t in before.items():
                        exported.stored[name].copy_(t)
                self.steps.give_up(self.kind, e)
                return None
        return (exported.outputs(results),)

    def train(self, lr: float) -> torch.Tensor:
        exported, resident = self.held.exported, self.steps.resident
        assert resident is not None
        want = self.steps.first(self.held, self.call)
        loss = resident.step(self.session, self.binding, self.tensors, self.steps.seed(exported), lr, self._told)
        if want is not None:
            at = next(i for i, r in enumerate(exported.results) if r.number and r.differentiable)
            try:
                agrees.check([exported.results[at]], [loss], [want[at]])
            except NotExported as e:
                resident.forget()
                self.steps.give_up(self.kind, e)
        return loss

    def _told(self, done: Stepped, begins: bool, ends: bool) -> None:
        self.report.add(done.seconds, done.peak, begins, ends)
        if self.report.load is None:
            self.report.load = self.session.loaded()


class _Held:
    """A graph of the module, and the session in which it is open."""

    def __init__(self, exported: Exported, grads: Sequence[str]) -> None:
        self.exported = exported
        self.grads = grads
        self.checked = exported.random
        self.reports: dict[int, ServedReport] = {}
        self._session: Session | None = None

    def session(self, steps: _Steps) -> Session:
        """The session, opened again if its service has ended."""
        if self._session is None or not self._session.alive():
            self.reports.clear()
            self._session = Session(self.exported, steps.mode, steps.settings | self._loss(steps), self.grads, steps.look)
        return self._session

    def _loss(self, steps: _Steps) -> dict[str, str]:
        """The result to minimize, if the service needs it."""
        if steps.mode == "bridge":
            return {}
        for r in self.exported.results:
            if r.number and r.differentiable:
                return {"loss": r.name}
        raise NotExported("no result of the step is one number, so there is no loss", hint="give loss=, a function of the output and the targets")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self.reports.clear()


class _Steps:
    """The steps of one module: a graph for each kind of call, made at the first such call."""

    def __init__(self, module: Module) -> None:
        own = module.__dict__
        self.model: torch.nn.Module = own["_model"]
        self.loss: Callable[..., Any] | None = own["_loss"]
        self.mode: str = own["_mode"]
        self.settings: dict[str, str] = own["_settings"]
        self.resident: Resident | None = own["_resident"]
        self.raises: bool = own["_fallback"] == "raise" or self.resident is not None
        self.look = module._looking()
        self.report: ServedReport | None = None
        self._held: dict[Any, list[_Held]] = {}
        self._shapes: dict[Any, list[tuple[int, ...]]] = {}  # of the first call of a kind
        self._given_up: dict[Any, str] = {}

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Step | None:
        """The step of a call, or None if the model has to run it."""
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        kind = self._kind(leaves, spec)
        if kind is None or kind in self._given_up:
            return None
        try:
            return self._step(kind, args, kwargs, tensors)
        except BudgetError as e:
            if e.want or e.best:
                raise
            self.give_up(kind, e)
        except MemoptError as e:
            if e.code in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"):
                raise
            self.give_up(kind, e)
        return None

    def _step(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]) -> _Step:
        for held in self._held.get(kind, ()):
            if held.exported.accepts(tensors):
                return _Step(self, held, tensors, kind, (args, kwargs))
        first = self._shapes.setdefault(kind, [tuple(t.shape) for t in tensors])
        varies = [[a != b or self.look is not None for a, b in zip(was, t.shape, strict=True)] for was, t in zip(first, tensors, strict=True)]
        if any(map(any, varies)):
            try:  # the dims that have changed get names
                return _Step(self, self._hold(kind, args, kwargs, tensors, varies), tensors, kind, (args, kwargs))
            except MemoptError as e:
                if isinstance(e, BudgetError) and (e.want or e.best) or e.code == "UNAVAILABLE":
                    raise
                _log.info("a graph for shapes like these cannot be made, so each has its own: %s", e)
                self._held[kind] = [h for h in self._held.get(kind, ()) if not h.exported.accepts(tensors)]
        return _Step(self, self._hold(kind, args, kwargs, tensors, None), tensors, kind, (args, kwargs))

    def _hold(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor], dynamic: Sequence[Sequence[bool]] | None) -> _Held:
        several = torch.distributed.get_world_size() if torch.distributed.is_available() and torch.distributed.is_initialized() else 1
        if several > 1 and self.resident is not None:
            raise NotExported(
                f"there are {several} processes, each with a service of its own, and nothing would reduce gradients that stay in one",
                hint=f"mode='bridge' in DistributedDataParallel gives gradients to PyTorch; {_SEVERAL}",
            )
        exported = export(self.model, self.loss, args, kwargs, dynamic)
        if not exported.parameters:
            raise NotExported("no result of the step depends on a parameter that is trained")
        if not any(r.differentiable for r in exported.results):
            raise NotExported("the step returns nothing that has a gradient")
        grads = [one.name for one, t in zip(exported.inputs, tensors, strict=True) if t.requires_grad]
        held = _Held(exported, grads)
        among = self._held.setdefault(kind, [])
        among.insert(0, held)
        for old in among[_MOST:]:
            old.close()
        del among[_MOST:]
        return held

    def _kind(self, leaves: Sequence[Any], spec: Any) -> Any:
        """Everything in a call that the graph depends on, except shapes; None if nothing is trained."""
        tensors = [*self.model.named_parameters(remove_duplicate=False), *self.model.named_buffers(remove_duplicate=False)]
        if not any(t.requires_grad for _, t in tensors):
            return None
        given = tuple((x.dtype, x.ndim, x.requires_grad) if isinstance(x, torch.Tensor) else _hashable(x) for x in leaves)
        state = tuple((id(t), t.dtype, t.requires_grad) for _, t in tensors)
        return given, spec, state, tuple(m.training for m in self.model.modules()), torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled()

    def first(self, held: _Held, call: tuple[tuple[Any, ...], dict[str, Any]]) -> list[torch.Tensor] | None:
        """The module's own results of the first step of a graph; None for later steps."""
        if held.checked:
            return None
        held.checked = True
        if self.resident is not None:
            with torch.no_grad():
                self.resident.sync()  # for the module to have the weights that the step begins with
        return agrees.plain_results(self.model, self.loss, *call)

    def give_up(self, kind: Any, e: MemoptError) -> None:
        if self.raises:
            raise e
        self.report = None
        if str(e) not in self._given_up.values():
            warnings.warn(f"memopt: {class_of(self.model)} runs in PyTorch, not in the service: {e}", stacklevel=6)
        self._given_up[kind] = str(e)

    def seed(self, exported: Exported) -> int:
        """A seed for the random operators of a step, drawn from PyTorch's generator."""
        return int(torch.randint(0, 2**63 - 1, (), dtype=torch.int64)) if exported.random else 0

    def close(self) -> None:
        for held in self._all():
            held.close()
        self.report = None

    def _all(self) -> Iterator[_Held]:
        for several in self._held.values():
            yield from several


def _hashable(x: Any) -> Any:
    try:
        hash(x)
    except TypeError:
        return repr(x)
    return type(x), x
