"""Makes the models of this folder, what onnxruntime's quantize_dynamic makes of them, and what onnxruntime
computes with that: .ci/peers --onnxruntime makes the Python to run this with. Record on a processor with VNNI: without
it, 8-bit products of onnxruntime saturate."""

import logging
import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

FOLDER = os.path.dirname(os.path.abspath(__file__))
OPTIONS = {
    "int8": {},
    "uint8": {"weight_type": QuantType.QUInt8},
    "channels": {"per_channel": True, "reduce_range": True},
    "asymmetric": {"extra_options": {"WeightSymmetric": False, "EnableSubgraph": True}},
    "computed": {"weight_type": QuantType.QUInt8, "per_channel": True, "extra_options": {"MatMulConstBOnly": False, "ActivationSymmetric": True}},
    "some": {"op_types_to_quantize": ["MatMul", "Conv"], "nodes_to_exclude": ["q", "conv2", "fc3_MatMul"]},
}
node = helper.make_node
rng = np.random.default_rng(0)


def tensor(name, *shape):
    return numpy_helper.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), name)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(name, nodes, inputs, outputs, tensors):
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="record.py")


def mlp():
    return model(
        "mlp",
        [
            node("Gemm", ["x", "w1", "b1"], ["h1"], "fc1", transB=1),
            node("Relu", ["h1"], ["r1"], "relu1"),
            node("Gemm", ["r1", "w2", "b2"], ["h2"], "fc2"),
            node("Gemm", ["h2", "w3"], ["h3"], "fc3", transB=1),
            node("Gemm", ["h3", "w4", "b4"], ["y"], "fc4", transB=1, alpha=0.5),
        ],
        [value("x", ["n", 16])],
        [value("y", ["n", 8])],
        [tensor("w1", 32, 16), tensor("b1", 32), tensor("w2", 32, 24), tensor("b2", 24), tensor("w3", 24, 24), tensor("w4", 8, 24), tensor("b4", 8)],
    )


def text():
    return model(
        "text",
        [
            node("Gather", ["table", "ids"], ["e"], "emb"),
            node("Transpose", ["e"], ["et"], "turn", perm=[0, 2, 1]),
            node("Transpose", ["et"], ["e2"], "back", perm=[0, 2, 1]),
            node("Add", ["e2", "pos"], ["e3"], "place"),
            node("MatMul", ["e3", "wq"], ["q"], "q"),
            node("MatMul", ["e3", "wk"], ["k"], ""),
            node("MatMul", ["e3", "wv"], ["v"], "v"),
            node("Transpose", ["k"], ["kt"], "kt", perm=[0, 2, 1]),
            node("MatMul", ["q", "kt"], ["s"], "scores"),
            node("Softmax", ["s"], ["p"], "softmax", axis=-1),
            node("MatMul", ["p", "v"], ["c"], "context"),
            node("MatMul", ["c", "head"], ["y"], "head"),
            node("Transpose", ["table"], ["tt"], "tt", perm=[1, 0]),
            node("MatMul", ["c", "tt"], ["z"], "tied"),
        ],
        [value("ids", ["b", "s"], TensorProto.INT64)],
        [value("y", ["b", "s", 11]), value("z", ["b", "s", 50]), value("e", ["b", "s", 12])],
        [tensor("table", 50, 12), tensor("pos", 1, 1, 12), tensor("wq", 12, 12), tensor("wk", 12, 12), tensor("wv", 12, 12), tensor("head", 12, 11)],
    )


def conv():
    return model(
        "conv",
        [
            node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
            node("Relu", ["c1"], ["r"], "relu"),
            node("Conv", ["r", "w2"], ["c2"], "conv2", strides=[2, 2], group=2),
            node("Conv", ["c2", "w3", "b3"], ["c3"], "", dilations=[1, 1]),
            node("GlobalAveragePool", ["c3"], ["g"], "pool"),
            node("Flatten", ["g"], ["f"], "flat"),
            node("Gemm", ["f", "w4", "b4"], ["y"], "fc", transB=1),
        ],
        [value("x", ["n", 3, 16, 16])],
        [value("y", ["n", 5])],
        [tensor("w1", 8, 3, 3, 3), tensor("b1", 8), tensor("w2", 8, 4, 3, 3), tensor("w3", 6, 8, 1, 1), tensor("b3", 6), tensor("w4", 5, 6), tensor("b4", 5)],
    )


def lstm():
    return model(
        "lstm",
        [node("LSTM", ["x", "W", "R", "B"], ["Y", "Yh"], "lstm", hidden_size=6, direction="bidirectional")],
        [value("x", [5, 2, 4])],
        [value("Y", [5, 2, 2, 6]), value("Yh", [2, 2, 6])],
        [tensor("W", 2, 24, 4), tensor("R", 2, 24, 6), tensor("B", 2, 48)],
    )


def branches():
    then = helper.make_graph([node("MatMul", ["x", "inner"], ["a"], "then")], "then", [], [value("a", None)], [tensor("inner", 16, 16)])
    other = helper.make_graph([node("MatMul", ["x", "outer"], ["b"], "else")], "else", [], [value("b", None)])
    return model(
        "branches",
        [node("If", ["c"], ["i"], "if", then_branch=then, else_branch=other), node("MatMul", ["i", "outer"], ["y"], "last")],
        [value("x", ["n", 16]), value("c", [], TensorProto.BOOL)],
        [value("y", ["n", 16])],
        [tensor("outer", 16, 16)],
    )


FEEDS = {
    "mlp": {"x": rng.standard_normal((3, 16)).astype(np.float32)},
    "text": {"ids": rng.integers(0, 50, (2, 5))},
    "conv": {"x": rng.standard_normal((2, 3, 16, 16)).astype(np.float32)},
    "lstm": {"x": rng.standard_normal((5, 2, 4)).astype(np.float32)},
    "branches": {"x": rng.standard_normal((3, 16)).astype(np.float32), "c": np.array(True)},
}


def main():
    logging.disable(logging.WARNING)
    for make in (mlp, text, conv, lstm, branches):
        name = make.__name__
        path = os.path.join(FOLDER, name + ".onnx")
        onnx.save(make(), path)
        for option, given in OPTIONS.items():
            to = os.path.join(FOLDER, f"{name}.{option}.onnx")
            quantize_dynamic(path, to, **{k: dict(v) if isinstance(v, dict) else v for k, v in given.items()})
            session = onnxruntime.InferenceSession(to, providers=["CPUExecutionProvider"])
            results = dict(zip([o.name for o in session.get_outputs()], session.run(None, FEEDS[name]), strict=True))
            np.savez(to.removesuffix("onnx") + "npz", **{"input." + k: v for k, v in FEEDS[name].items()}, **{"output." + k: v for k, v in results.items()})


main()
