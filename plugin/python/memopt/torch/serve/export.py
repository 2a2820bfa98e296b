"""A module's training step as an ONNX graph, in which parameters and buffers have the module's names.

The exporter's own optimizer merges equal parameters, folds others, and turns normalization by the batch into
that of inference; so it is turned off, and the service cleans up the graph instead. What ONNX cannot express, such as
a user's backward functions, is refused: a graph without it would have wrong gradients.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree

from ..._visible import class_of, line
from ...errors import MemoptError
from ..step.tensors import opaque

_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"  # by which the service tells parameters, buffers and constants
NEXT = ".new"  # an output of a buffer's name with this behind it is the buffer's next value


class NotExported(MemoptError):
    """A module whose step cannot be an ONNX graph."""

    def __init__(self, message: str, **fields: Any) -> None:
        fields.setdefault("code", "UNIMPLEMENTED")
        super().__init__(message, **fields)


@dataclass
class Input:
    """An input of the graph: one of the tensors of a call."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]  # a dim that may change has a name


@dataclass
class Result:
    """An output of the graph that the module returns."""

    name: str
    differentiable: bool
    number: bool  # it is one


@dataclass
class Exported:
    """A training step as a graph."""

    program: Any = field(repr=False)  # onnx_ir.Model
    inputs: list[Input]
    results: list[Result]
    outputs: Callable[[Sequence[torch.Tensor]], Any] = field(repr=False)  # the module's output of results
    parameters: dict[str, torch.nn.Parameter]  # that are trained, by name in the graph
    buffers: dict[str, torch.Tensor]  # floats of the module that are not: they are given, as parameters are
    counters: dict[str, torch.Tensor]  # buffers of whole numbers that the step changes: inputs, and outputs
    stored: dict[str, torch.Tensor]  # all of the module's tensors
    updated: list[str]  # those of its buffers that the step changes
    random: bool  # it draws random numbers

    def accepts(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the graph accepts tensors of these shapes and types."""
        sizes: dict[str, int] = {}
        for one, t in zip(self.inputs, tensors, strict=True):
            if one.dtype != t.dtype or len(one.shape) != t.ndim:
                return False
            for dim, n in zip(one.shape, t.shape, strict=True):
                if n != (sizes.setdefault(dim, n) if isinstance(dim, str) else dim):
                    return False
        return True

    def file_bytes(self) -> int:
        """About what write takes of the disk: constants, and a little for each node."""
        graph = self.program.graph
        constants = (v.const_value for name, v in graph.initializers.items() if name not in self.parameters and name not in self.buffers)
        return sum(c.nbytes for c in constants if c is not None) + 1024 * len(graph)

    def write(self, folder: str) -> str:
        """Writes the graph to a folder. The numbers of parameters and buffers are not in it: their file has no bytes but a size."""
        import onnx_ir as ir

        path = os.path.join(folder, "step.onnx")
        end = 0
        for name, value in self.program.graph.initializers.items():
            if name in self.parameters or name in self.buffers:
                held = value.const_value
                value.const_value = ir.ExternalTensor("step.weights", end, held.nbytes, held.dtype, shape=held.shape, name=name, base_dir=folder)
                end += -(-held.nbytes // 64) * 64
        with open(os.path.join(folder, "step.weights"), "wb") as f:
            f.truncate(end)
        ir.save(self.program, path)
        return path


class Step(torch.nn.Module):
    """A module, with its loss if any, as a function of the tensors of a call that also returns the buffers."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any] | None, leaves: Sequence[Any], spec: Any) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self._others = [None if isinstance(x, torch.Tensor) else x for x in leaves]
        self._places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        self._call = spec
        self._buffers_by_name = [name for name, _ in self.named_buffers()]
        self.found = Found()
        self.train(model.training)

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = list(self._others)
        for i, t in zip(self._places, tensors, strict=True):
            leaves[i] = t
        args, kwargs = _pytree.tree_unflatten(leaves, self._call)
        out = call(self.model, self.loss, args, kwargs)
        keyed, spec = _flat(out)
        found = [(path, x) for path, x in keyed if isinstance(x, torch.Tensor)]
        self.found.leaves, self.found.spec = [_TENSOR if isinstance(x, torch.Tensor) else x for _, x in keyed], spec
        self.found.names, self.found.differentiable = [_name_of_path(path) for path, _ in found], [t.requires_grad for _, t in found]
        return (*(t for _, t in found), *(self.get_buffer(name) for name in self._buffers_by_name))


_TENSOR = object()


class Found:
    """What a traced step returned. It is filled in, as the tracer puts attributes back that were set."""

    leaves: list[Any]
    spec: Any
    names: list[str]  # of its tensors
    differentiable: list[bool]

    def outputs(self, tensors: Sequence[torch.Tensor]) -> Any:
        """What the module would have returned, with these tensors in it."""
        given = iter(tensors)
        return _pytree.tree_unflatten([next(given) if x is _TENSOR else x for x in self.leaves], self.spec)


def call(model: Callable[..., Any], loss: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a module; with a loss the first argument has what the module is called with, and the others are the loss's."""
    if loss is None:
        return model(*args, **kwargs)
    if not args:
        return loss(model(**kwargs))
    given, *targets = args
    if isinstance(given, dict):
        return loss(model(**given, **kwargs), *targets)
    if isinstance(given, (tuple, list)):
        return loss(model(*given, **kwargs), *targets)
    return loss(model(given, **kwargs), *targets)


def export(model: torch.nn.Module, loss: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Sequence[Sequence[bool]] | None = None) -> Exported:
    """The step of a call of a module in training mode.

    dynamic  of each tensor of the call, which of its dims may change; none if it is not given
    """
    try:
        from . import translate
    except ImportError as e:
        raise NotExported(f"PyTorch's ONNX exporter needs packages that are not here: {e}", hint="pip install onnx onnxscript") from None
    _refuse(model)
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    step = Step(model, loss, leaves, spec)
    shapes = None
    if dynamic is not None:
        auto = torch.export.Dim.AUTO
        shapes = (tuple(tuple(auto if d else None for d in dims) for dims in dynamic),)
    with _untouched(step), _quiet(), _refusing():
        try:
            traced = torch.export.export(step, tuple(tensors), dynamic_shapes=shapes, strict=False)
            _prepare(traced.graph_module)
            program = torch.onnx.export(traced, dynamo=True, optimize=False, verbose=False, opset_version=translate.OPSET, custom_translation_table=translate.table())
        except MemoptError:
            raise
        except Exception as e:
            refusal = _cause(e)
            if refusal is not None:
                raise refusal from None
            raise NotExported(f"the step of {class_of(model)} cannot be exported to ONNX: {_first_lines(e)}") from e
    assert program is not None
    return _Naming(step, traced, program.model, tensors, _input_names(model, loss, leaves, args, kwargs)).exported()


class _Naming:
    """Gives the exporter's graph names, kinds and outputs that the service and this side agree on."""

    def __init__(self, step: Step, traced: Any, program: Any, tensors: Sequence[torch.Tensor], names: Sequence[str]) -> None:
        self.step, self.traced, self.program, self.tensors, self.names = step, traced, program, tensors, names
        self.graph = program.graph
        self.taken = {v.name for v in self.graph.initializers.values()} | {v.name for v in self.graph.inputs}
        self.taken |= {v.name for n in self.graph.all_nodes() for v in n.outputs}

    def exported(self) -> Exported:
        found = self.step.found
        self._strip()
        outputs = list(self.graph.outputs)
        results, after = outputs[: len(found.names)], outputs[len(found.names) :]
        stored = self._stored()
        self._rename(stored)
        updated, counters = self._updates(after, stored)
        inputs = self._inputs()
        self.graph.outputs.clear()
        self.graph.outputs.extend(self._results(results, found.names))
        self.graph.outputs.extend(updated.values())
        parameters, buffers = self._kinds(stored, counters)
        for name, value in counters.items():
            self.graph.inputs.append(value)
            del self.graph.initializers[name]
        return Exported(
            program=self.program,
            inputs=inputs,
            results=[Result(v.name, d, len(v.shape) == 0) for v, d in zip(self.graph.outputs, found.differentiable, strict=False)],
            outputs=found.outputs,
            parameters=parameters,
            buffers=buffers,
            counters={name: stored[name] for name in counters},
            stored=stored,
            updated=list(updated),
            random=any(n.op_type in _RANDOM for n in self.graph.all_nodes()),
        )

    def _strip(self) -> None:
        """Removes the user's source from the graph, and notes each node's place in the module."""
        self.graph.metadata_props.clear()
        self.program.metadata_props.clear()
        used: dict[str, int] = {}
        for node in self.graph.all_nodes():
            path = _module_of(node.metadata_props.get("pkg.torch.onnx.name_scopes", ""))
            base = f"{path}/{node.op_type}" if path else node.op_type
            used[base] = used.get(base, 0) + 1
            node.name = base if used[base] == 1 else f"{base}_{used[base]}"
            node.metadata_props.clear()
            node.doc_string = None
            if node.op_type == "Dropout" and len(node.inputs) < 3:
                # Attention's: without the third input it would be that of inference.
                self._train(node)

    def _train(self, node: Any) -> None:
        import onnx_ir as ir

        yes = ir.Value(name=self._free("training"), const_value=ir.tensor(True), shape=ir.Shape([]), type=ir.TensorType(ir.DataType.BOOL))
        self.graph.initializers[yes.name] = yes
        node.resize_inputs(3)
        node.replace_input_with(2, yes)

    def _stored(self) -> dict[str, torch.Tensor]:
        """The module's tensors by their first names in it."""
        stored: dict[str, torch.Tensor] = {}
        seen: set[int] = set()
        for name, t in [*self.step.named_parameters(), *self.step.named_buffers()]:
            if id(t) not in seen:
                seen.add(id(t))
                stored[name.removeprefix("model.")] = t
        return stored

    def _rename(self, stored: dict[str, torch.Tensor]) -> None:
        """Renames the graph's initializers to the module's names: of tied weights the exporter keeps an arbitrary one."""
        names = {id(t): name for name, t in stored.items()}
        everything = dict(self.step.named_parameters(remove_duplicate=False)) | dict(self.step.named_buffers(remove_duplicate=False))
        for old, value in list(self.graph.initializers.items()):
            t = everything.get(old)
            if t is None:
                continue
            name = names[id(t)]
            if name != old:
                del self.graph.initializers[old]
                self._claim(name)
                value.name = name
                self.graph.initializers[name] = value

    def _updates(self, after: Sequence[Any], stored: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The new values of buffers that the step changes, and the buffers that have to be inputs."""
        updated: dict[str, Any] = {}
        counters: dict[str, Any] = {}
        for long, value in zip(self.step._buffers_by_name, after, strict=True):
            name = long.removeprefix("model.")
            was = self.graph.initializers.get(name)  # None: the step does not read it
            if value is was or value.is_initializer():
                continue
            value = self._own(value)
            self._claim(name + NEXT)
            value.name = name + NEXT
            updated[name] = value
            if was is not None and not stored[name].is_floating_point():
                counters[name] = was
        return updated, counters

    def _inputs(self) -> list[Input]:
        self._name_dims()
        inputs = []
        for value, t, name in zip(self.graph.inputs, self.tensors, self.names, strict=True):
            self._claim(name)
            value.name = name
            value.metadata_props.clear()
            shape = tuple(d if isinstance(d, int) else str(d.value) for d in value.shape)
            inputs.append(Input(name, t.dtype, shape))
        return inputs

    def _name_dims(self) -> None:
        """Calls dims that may change after the first input that has them: tokens_dim1."""
        import onnx_ir as ir

        names: dict[str, str] = {}
        for value, name in zip(self.graph.inputs, self.names, strict=True):
            for i, d in enumerate(value.shape):
                if not isinstance(d, int) and not str(d.value).isdigit():
                    names.setdefault(str(d.value), f"{re.sub(r'[^0-9A-Za-z]', '_', name)}_dim{i}")
        symbol = re.compile(rf"\b({'|'.join(map(re.escape, names)) or '(?!)'})\b")

        def named(d: Any) -> Any:
            if isinstance(d, int) or d.value is None:
                return d
            text = symbol.sub(lambda m: names[m[0]], str(d.value))
            return int(text) if text.isdigit() else text  # the exporter writes some numbers as names

        for value in [*self.graph.inputs, *(v for n in self.graph.all_nodes() for v in n.outputs)]:
            if value.shape is not None:
                value.shape = ir.Shape(map(named, value.shape))

    def _results(self, values: Sequence[Any], names: Sequence[str]) -> list[Any]:
        made: list[Any] = []
        for value, name in zip(values, names, strict=True):
            value = self._own(value, made)
            name = self._free(name)
            self.taken.add(name)
            value.name = name
            made.append(value)
        return made

    def _own(self, value: Any, others: Sequence[Any] = ()) -> Any:
        """The value, or one that is equal where something else has the name of this one."""
        import onnx_ir as ir

        if value.producer() is not None and not any(value is o for o in others) and not (value.name or "").endswith(NEXT):
            return value
        node = ir.node("Identity", [value])
        node.outputs[0].shape, node.outputs[0].type = value.shape, value.type
        node.name = self._free("Identity")
        self.graph.append(node)
        return node.outputs[0]

    def _kinds(self, stored: dict[str, torch.Tensor], counters: dict[str, Any]) -> tuple[dict[str, torch.nn.Parameter], dict[str, torch.Tensor]]:
        """Notes for each initializer whether it is trained, and removes unread ones."""
        parameters: dict[str, torch.nn.Parameter] = {}
        buffers: dict[str, torch.Tensor] = {}
        for name, value in list(self.graph.initializers.items()):
            t = stored.get(name)
            kind = "CONSTANT_TENSOR"
            if not value.uses() and not value.is_graph_output() and name not in counters:
                del self.graph.initializers[name]
                continue
            if isinstance(t, torch.nn.Parameter) and t.requires_grad:
                kind, parameters[name] = "PARAMETER", t
            elif t is not None and t.is_floating_point():
                kind, buffers[name] = "BUFFER", t
            elif t is None and getattr(getattr(value.const_value, "raw", None), "requires_grad", False):
                raise NotExported(f"{name} requires gradients but is no parameter of the module: make it a torch.nn.Parameter")
            value.metadata_props.clear()
            value.metadata_props[_KIND] = kind
        missing = self._missing(parameters)
        if missing:
            raise NotExported(f"the exporter lost {len(missing)} trainable parameters: {', '.join(missing)}")
        return parameters, buffers

    def _missing(self, parameters: dict[str, torch.nn.Parameter]) -> list[str]:
        """The trainable parameters that the traced step reads and the graph does not have."""
        specs = self.traced.graph_signature.inputs_to_parameters
        read = {specs[n.name] for n in self.traced.graph.nodes if n.op == "placeholder" and n.name in specs and n.users}
        everything = dict(self.step.named_parameters(remove_duplicate=False))
        there = {id(p) for p in parameters.values()}
        return sorted(name.removeprefix("model.") for name in read if everything[name].requires_grad and id(everything[name]) not in there)

    def _claim(self, name: str) -> None:
        """Renames what has a name that is needed."""
        if name not in self.taken:
            self.taken.add(name)
            return
        values = [*self.graph.inputs, *self.graph.initializers.values(), *(v for n in self.graph.all_nodes() for v in n.outputs)]
        for value in values:
            if value.name == name:
                other = self._free(name)
                self.taken.add(other)
                if name in self.graph.initializers and self.graph.initializers[name] is value:
                    del self.graph.initializers[name]
                    value.name = other
                    self.graph.initializers[other] = value
                else:
                    value.name = other

    def _free(self, name: str) -> str:
        n, made = 1, name
        while made in self.taken:
            n += 1
            made = f"{name}_{n}"
        return made


_RANDOM = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def _module_of(scopes: str) -> str:
    """The path of the module that a node comes from, of what the exporter says: ['', 'model', 'model.h.0', 'linear']."""
    import ast

    try:
        names = ast.literal_eval(scopes)
    except (SyntaxError, ValueError):
        return ""
    path = names[-2] if isinstance(names, list) and len(names) > 1 else ""
    return "" if path == "model" else str(path).removeprefix("model.")


def _flat(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The leaves of a tree with their paths; by their numbers where a type of its own does not tell them."""
    try:
        keyed, spec = _pytree.tree_flatten_with_path(x)
        return list(keyed), spec
    except ValueError:
        leaves, spec = _pytree.tree_flatten(x)
        return [((_pytree.SequenceKey(i),), leaf) for i, leaf in enumerate(leaves)], spec


def _name_of_path(path: Sequence[Any]) -> str:
    """A name for an output at a place in what a module returns."""
    parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", "")))) for k in path]
    return ".".join(parts) if parts and not parts[0].isdigit() else ".".join(["output", *parts])


def _input_names(model: torch.nn.Module, loss: Callable[..., Any] | None, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Names of the tensors of a call, after the parameters of the function that takes them."""
    keyed, _ = _flat((args, kwargs))
    try:
        positional = [p.name for p in inspect.signature(model.forward).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        positional = []
    names: list[str] = []
    for path, x in keyed:
        if not isinstance(x, torch.Tensor):
            continue
        steps: list[Any] = [getattr(k, "key", getattr(k, "idx", "")) for k in path]
        if len(steps) == 1:
            steps = [f"input.{steps[0]}"]
        elif steps[0] == 0 and loss is not None:
            if steps[1] == 0:
                steps = [0, *(steps[2:] or [0])]
            else:
                steps = ["targets" if len(args) == 2 else f"targets.{steps[1] - 1}", *steps[2:]]
        if steps[0] == 0:
            rest = steps[1:]
            first = rest[0] if rest else 0
            if isinstance(first, int):
                first = positional[first] if first < len(positional) else f"input.{first}"
            steps = [first, *rest[1:]]
        elif steps[0] == 1:
            steps = steps[1:]
        name = ".".join(map(str, steps)) or "input"
        while name in names:
            name += "_"
        names.append(name)
    return names


def _prepare(module: torch.fx.GraphModule) -> None:
    """Says of a traced step what the exporter does not see for itself.

    What leaves a part that is run without gradients has none. Attention lays out its result in another way each time that
    the exporter runs it, and views of it are views in all of them.
    """
    without = torch.ops.higher_order.wrap_with_set_grad_enabled
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
        elif node.target is torch.ops.aten.scaled_dot_product_attention.default:
            with module.graph.inserting_after(node):
                laid = module.graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
            laid.meta["val"] = node.meta["val"].contiguous()
            node.replace_all_uses_with(laid, delete_user_cb=lambda user, laid=laid: user is not laid)
        elif node.target is without and not node.args[0]:
            _stop_gradients(getattr(module, node.args[1].target))
    module.recompile()
    for _, inner in module.named_children():
        if isinstance(inner, torch.fx.GraphModule):
            _prepare(inner)


def _stop_gradients(part: torch.fx.GraphModule) -> None:
    """Stops the gradients of all that leaves a part of a step."""
    (output,) = (n for n in part.graph.nodes if n.op == "output")

    def stopped(x: Any) -> Any:
        value = x.meta.get("val") if isinstance(x, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return x
        with part.graph.inserting_before(output):
            made = part.graph.call_function(torch.ops.aten.detach.default, (x,))
            made.meta["val"] = value
        return made

    output.args = (_pytree.tree_map(stopped, output.args[0], is_leaf=lambda x: isinstance(x, torch.fx.Node)),)


def _refuse(model: torch.nn.Module) -> None:
    """Raises for modules whose gradients are not those of their graph."""
    if torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu"):
        raise NotExported("the step is under autocast, and ONNX has no word for it", hint="leave autocast out, or give lossy='bf16' to keep activations smaller")
    for name, m in model.named_modules():
        if m._backward_hooks or m._backward_pre_hooks:
            raise NotExported(f"{line(name) or class_of(model)} has a backward hook, which would not be called", hint="hooks on parameters work: parameter.register_hook")
    for name, t in [*model.named_parameters(), *model.named_buffers()]:
        if t.is_meta or opaque(t):
            raise NotExported(f"{name} is {'on the meta device' if t.is_meta else f'a {class_of(t)} of layout {t.layout}'}, which cannot be handed to the service")


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raises on operations, while a step is traced, that change gradients without appearing in the graph."""
    from torch.utils.checkpoint import CheckpointFunction

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is CheckpointFunction:
            return args[0](*args[2:])  # what it computes again, the plan decides
        raise _Refusal(f"the step calls {cls.__module__}.{cls.__qualname__}, a torch.autograd.Function with a backward of its own, which ONNX cannot tell")

    def register_hook(self: torch.Tensor, hook: Any) -> Any:
        raise _Refusal("the step registers a hook on a tensor, which would not be called in the service")

    function, tensor = torch.autograd.Function, torch.Tensor
    was_apply, was_hook = function.__dict__["apply"], tensor.register_hook
    function.apply = classmethod(apply)
    tensor.register_hook = register_hook  # type: ignore[method-assign]
    try:
        yield
    finally:
        function.apply = was_apply
        tensor.register_hook = was_hook  # type: ignore[method-assign]


class _Refusal(Exception):
    """Raised through the exporter."""


def _cause(e: BaseException | None) -> NotExported | None:
    while e is not None:
        if isinstance(e, _Refusal):
            return NotExported(str(e))
        e = e.__cause__ or e.__context__
    return None


def _first_lines(e: BaseException) -> str:
    """The first error of a chain, without the exporter's advice."""
    while e.__cause__ is not None:
        e = e.__cause__
    text = "; ".join(line.strip() for line in str(e).splitlines() if line.strip())
    return f"{class_of(e)}: {text[:400]}"


@contextlib.contextmanager
def _untouched(step: torch.nn.Module) -> Iterator[None]:
    """Restores the modules' attributes and the state of random generators."""
    kept = [(m, dict(m.__dict__), *(dict(m.__dict__[k]) for k in ("_parameters", "_buffers", "_modules"))) for m in step.modules() if m is not step]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for m, attributes, *dicts in kept:
                m.__dict__.clear()
                m.__dict__.update(attributes)
                for key, was in zip(("_parameters", "_buffers", "_modules"), dicts, strict=True):
                    m.__dict__[key].clear()
                    m.__dict__[key].update(was)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the exporter's prints, logs and warnings about what is handled here."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "torch.fx", "onnx_ir")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
