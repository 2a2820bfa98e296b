"""Makes the models of this folder, whose shapes follow from numbers: python make.py (needs onnx)."""

import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

here = os.path.dirname(os.path.abspath(__file__))


def save(name, nodes, inputs, outputs, initializers=()):
    graph = h.make_graph(nodes, name, inputs, outputs, [numpy_helper.from_array(x, n) for n, x in initializers])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8, producer_name="make.py")
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(here, name + ".onnx"))


def value(name, type, *shape):
    return h.make_tensor_value_info(name, type, shape)


# The places and the numbers of what is above 0.
save(
    "above",
    [
        h.make_node("Greater", ["x", "zero"], ["is"]),
        h.make_node("NonZero", ["is"], ["places"]),
        h.make_node("Squeeze", ["places", "axes"], ["rows"]),
        h.make_node("Gather", ["x", "rows"], ["above"]),
        h.make_node("Size", ["above"], ["count"]),
    ],
    [value("x", T.FLOAT, "n")],
    [value("places", T.INT64, 1, "found"), value("above", T.FLOAT, "found"), value("count", T.INT64)],
    [("zero", np.float32(0)), ("axes", np.array([0], np.int64))],
)
# A shape that is an input.
save(
    "reshape",
    [h.make_node("Mul", ["x", "two"], ["d"]), h.make_node("Reshape", ["d", "to"], ["y"])],
    [value("x", T.FLOAT, "n", "m"), value("to", T.INT64, 2)],
    [value("y", T.FLOAT, None, None)],
    [("two", np.float32(2))],
)
# One name for two dims that need not be equal.
save(
    "samename",
    [h.make_node("Relu", ["a"], ["c"]), h.make_node("Relu", ["b"], ["d"])],
    [value("a", T.FLOAT, "n"), value("b", T.FLOAT, "n")],
    [value("c", T.FLOAT, "n"), value("d", T.FLOAT, "n")],
)
# An input that has an initializer.
save(
    "overridable",
    [h.make_node("Add", ["x", "b"], ["y"])],
    [value("x", T.FLOAT, "n", 3), value("b", T.FLOAT, 3)],
    [value("y", T.FLOAT, "n", 3)],
    [("b", np.array([1, 2, 3], np.float32))],
)
# As many turns as an input has rows.
body = h.make_graph(
    [
        h.make_node("Add", ["s", "one"], ["t"]),
        h.make_node("Identity", ["go"], ["on"]),
        h.make_node("Identity", ["t"], ["out"]),
    ],
    "body",
    [value("i", T.INT64), value("go", T.BOOL), value("s", T.FLOAT)],
    [value("on", T.BOOL), value("t", T.FLOAT), value("out", T.FLOAT)],
)
save(
    "turns",
    [
        h.make_node("Shape", ["x"], ["shape"]),
        h.make_node("Gather", ["shape", "first"], ["n"]),
        h.make_node("Loop", ["n", "", "zero"], ["last", "all"], body=body),
    ],
    [value("x", T.FLOAT, "rows")],
    [value("last", T.FLOAT), value("all", T.FLOAT, "rows")],
    [("first", np.int64(0)), ("zero", np.float32(0)), ("one", np.float32(1))],
)
