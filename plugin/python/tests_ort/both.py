"""Programs that run against memopt.ort and, where it is installed, against ONNX Runtime, with the same asserts.

A class of tests that is decorated with both becomes two: each has the package as self.ort, and the module of its
exceptions as self.state. Nothing in such a class may know which one it is.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import sys
import tempfile
import unittest
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PACKAGES = ["memopt.ort"]
if importlib.util.find_spec("onnxruntime"):
    PACKAGES.append("onnxruntime")


def dots_are_exact() -> bool:
    """Whether ONNX Runtime's products of uint8 and int8 are exact on this processor.

    x86 without VNNI multiplies them by an instruction that adds two products in 16 bits, and saturates.
    """
    try:
        with open("/proc/cpuinfo") as f:
            flags = next((line.split() for line in f if line.startswith("flags")), None)
    except OSError:
        return False
    return flags is None or bool({"avx512_vnni", "avx_vnni"} & set(flags))  # only x86 has a line of flags


class Programs(unittest.TestCase):
    """What both have."""

    ort: Any
    state: Any
    exact: bool  # whether the package's products of 8-bit integers are

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        told = contextlib.redirect_stdout(io.StringIO())  # ONNX Runtime prints that it falls back
        told.__enter__()
        self.addCleanup(told.__exit__, None, None, None)
        logging.getLogger("memopt").setLevel(logging.ERROR)

    def path(self, name: str) -> str:
        return os.path.join(self.folder.name, name)

    def session(self, model: Any, options: Any = None, **more: Any) -> Any:
        return self.ort.InferenceSession(model, options, **{"providers": ["CPUExecutionProvider"], **more})

    def value(self, array: np.ndarray) -> Any:
        return self.ort.OrtValue.ortvalue_from_numpy(array)


def both(cls: type[Programs]) -> type[Programs]:
    """Makes a class of tests for each package beside the decorated one, which itself is not run."""
    module = sys.modules[cls.__module__]
    for package in PACKAGES:
        short = "Memopt" if package == "memopt.ort" else "OnnxRuntime"
        name = f"{cls.__name__}In{short}"

        def set_up(kind: Any, package: str = package) -> None:
            kind.ort = importlib.import_module(package)
            kind.state = importlib.import_module(f"{package}.capi.onnxruntime_pybind11_state")
            kind.exact = package == "memopt.ort" or dots_are_exact()
            if package == "onnxruntime":
                kind.ort.set_default_logger_severity(4)

        setattr(module, name, type(name, (cls,), {"setUpClass": classmethod(set_up), "__module__": cls.__module__}))
    cls.__test__ = False
    return _Hidden  # type: ignore[return-value]


class _Hidden:
    """Stands for the decorated class, so that unittest does not find it."""


FLOAT = TensorProto.FLOAT


def info(name: str, shape: list[Any] | None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, np.ndarray] | None = None, opset: int = 17) -> onnx.ModelProto:
    """A model of this opset, which both read."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers, doc_string="a graph")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="tests", producer_version="1")
    made.ir_version = 8
    made.domain, made.doc_string, made.model_version = "org.example", "a model", 7
    helper.set_model_props(made, {"task": "none"})
    return made


W = np.arange(12, dtype=np.float32).reshape(3, 4) / 10 - 0.5
B = np.array([0.5, -0.5, 0, 1], np.float32)


def dense(b_is_input: bool = False) -> onnx.ModelProto:
    """y = relu(x w + b)."""
    inputs = [info("x", ["batch", 3])] + ([info("b", [4])] if b_is_input else [])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    return model(nodes, inputs, [info("y", ["batch", 4])], {"w": W, "b": B})


def of_dense(x: np.ndarray, w: np.ndarray = W, b: np.ndarray = B) -> np.ndarray:
    """What dense gives."""
    return np.maximum(x @ w + b, 0)


def pair() -> onnx.ModelProto:
    """Two inputs and two outputs: sum and the negative product."""
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Neg", ["p"], ["neg"])]
    return model(nodes, [info("a", ["n"]), info("b", ["n"])], [info("sum", ["n"]), info("neg", ["n"])])


def chain(length: int = 3) -> onnx.ModelProto:
    """A row of operators over one vector: its memory is in values, not in weights."""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    nodes = [helper.make_node("Sin" if i % 2 else "Neg", [names[i]], [names[i + 1]]) for i in range(length)]
    return model(nodes, [info("x", ["n"])], [info("y", ["n"])])


def identity(kind: int) -> onnx.ModelProto:
    return model([helper.make_node("Identity", ["x"], ["y"])], [info("x", ["n"], kind)], [info("y", ["n"], kind)])


def external(made: onnx.ModelProto, path: str, data: str) -> None:
    """Writes a model whose weights are in a file beside it."""
    onnx.save(made, path, save_as_external_data=True, location=data, size_threshold=0)
