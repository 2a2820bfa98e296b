"""quantize_static: programs of its users against both packages, and what the one writes held against the other's."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import subprocess
import sys
import tempfile
import unittest
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from both import Programs, both, dots_are_exact, info, model

node = helper.make_node
rng = np.random.default_rng(0)


def weight(*shape: int, scale: float = 0.3) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def layers(second: str = "b1", **factors: float) -> onnx.ModelProto:
    """Gemms of all kinds, and a bias that two of them have."""
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["h1"], "fc1", transB=1),
        node("Relu", ["h1"], ["r1"], "relu"),
        node("Gemm", ["r1", "w2", second], ["h2"], "fc2", **factors),
        node("Clip", ["h2", "low", "high"], ["c2"], "clip"),
        node("Gemm", ["c2", "w3"], ["h3"], "fc3", alpha=0.5),
        node("Sigmoid", ["h3"], ["s3"], "sigmoid"),
        node("Add", ["s3", "shift"], ["a3"], "add"),
        node("Gemm", ["a3", "w4", "b4"], ["y"], "fc4"),
    ]
    weights = {"w1": weight(32, 16), "b1": weight(32), second: weight(32), "w2": weight(32, 32), "w3": weight(32, 8), "shift": weight(8), "w4": weight(8, 4, scale=1e-8), "b4": weight(4, scale=9)}
    weights |= {"low": np.float32(-1), "high": np.float32(0.5)}
    return model(nodes, [info("x", ["n", 16])], [info("y", ["n", 4])], {k: np.asarray(v) for k, v in weights.items()})


def attention() -> onnx.ModelProto:
    nodes = [
        node("Gather", ["table", "ids"], ["e"], "embed"),
        node("LayerNormalization", ["e", "g", "gb"], ["n"], "norm", axis=-1),
        node("MatMul", ["n", "wq"], ["q"], "q"),
        node("MatMul", ["n", "wk"], ["k"], "k"),
        node("Add", ["k", "bk"], ["kb"], "kb"),
        node("Transpose", ["kb"], ["kt"], "kt", perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"], "scores"),
        node("Mul", ["s", "tenth"], ["m"], "scale"),
        node("Softmax", ["m"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "n"], ["c"], "context"),
        node("Add", ["c", "e"], ["r"], "residual"),
        node("Reshape", ["r", "flat"], ["f"], "reshape"),
        node("MatMul", ["f", "wo"], ["o"], "out"),
        node("Slice", ["o", "one", "four", "one"], ["sl"], "slice"),
        node("Unsqueeze", ["sl", "one"], ["u"], "unsqueeze"),
        node("Squeeze", ["u", "one"], ["y"], "squeeze"),
        node("ReduceSum", ["wq"], ["w_sum"], "other", keepdims=0),
        node("Neg", ["w_sum"], ["z"], "neg"),
    ]
    weights = {"table": weight(50, 12), "g": weight(12), "gb": weight(12), "wq": weight(12, 12), "wk": weight(12, 12), "bk": weight(12), "tenth": np.float32(0.1), "wo": weight(12, 6)}
    weights |= {"flat": np.array([-1, 12], np.int64), "one": np.array([1], np.int64), "four": np.array([4], np.int64)}
    return model(nodes, [info("ids", ["b", "s"], TensorProto.INT64)], [info("y", None), info("z", [])], {k: np.asarray(v) for k, v in weights.items()})


def picture() -> onnx.ModelProto:
    """A small residual network, with all that pictures go through."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "bg", "bb", "bm", "bv"], ["n1"], "bn"),
        node("Relu", ["n1"], ["r1"], "relu1"),
        node("MaxPool", ["r1"], ["m1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["m1", "w2"], ["c2"], "conv2", group=2, pads=[1, 1, 1, 1]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("Add", ["r2", "m1"], ["a2"], "residual"),
        node("Pad", ["a2", "pads"], ["p2"], "pad"),
        node("Pad", ["a2", "pads", "half"], ["q2"], "padhalf"),
        node("Concat", ["p2", "q2"], ["k2"], "concat", axis=1),
        node("Split", ["k2"], ["s2", "t2"], "split", axis=1),
        node("LeakyRelu", ["s2"], ["l2"], "leaky", alpha=0.1),
        node("Mul", ["l2", "t2"], ["mm"], "mul"),
        node("AveragePool", ["mm"], ["av"], "avg", kernel_shape=[3, 3]),
        node("Resize", ["av", "", "scales"], ["rs"], "resize", mode="nearest"),
        node("ConvTranspose", ["rs", "wt", "bt"], ["ct"], "transposed"),
        node("GlobalAveragePool", ["ct"], ["gp"], "gap"),
        node("Flatten", ["gp"], ["fl"], "flat"),
        node("Where", ["mask", "fl", "zeros"], ["wh"], "where"),
        node("MatMul", ["wh", "w3"], ["y"], "fc"),
        node("ArgMax", ["y"], ["best"], "argmax", axis=1),
    ]
    weights = {"w1": weight(8, 3, 3, 3), "b1": weight(8), "w2": weight(8, 4, 3, 3), "bg": weight(8), "bb": weight(8), "bm": weight(8), "bv": np.abs(weight(8)) + 0.1, "wt": weight(8, 4, 2, 2), "bt": weight(4), "w3": weight(4, 5)}
    weights |= {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "half": np.float32(0.5), "scales": np.array([1, 1, 2, 2], np.float32), "mask": np.array([True, True, False, True]), "zeros": np.zeros(4, np.float32)}
    return model(nodes, [info("x", ["n", 3, 16, 16])], [info("y", ["n", 5]), info("best", None, TensorProto.INT64)], {k: np.asarray(v) for k, v in weights.items()})


def shared(relu: bool = True) -> onnx.ModelProto:
    """Values that several nodes read, a result that others read, a Constant, and what has no quantized form."""
    nodes = [
        node("Constant", [], ["two"], "constant", value=numpy_helper.from_array(np.array([2.0], np.float32))),
        node("Mul", ["x", "two"], ["d"], "double"),
        node("MatMul", ["d", "w"], ["h"], "m1"),
        node("MatMul", ["d", "w"], ["g"], "m2"),
        node("Relu" if relu else "Sigmoid", ["h"], ["r"], "relu"),
        node("Tanh", ["h"], ["t"], "tanh"),
        node("Add", ["r", "t"], ["s"], "sum"),
        node("Exp", ["s"], ["e"], "exp"),
        node("MatMul", ["e", "v"], ["y"], "m3"),
        node("Sub", ["y", "g"], ["z"], "sub"),
        node("Identity", ["w"], ["same"], "identity"),
    ]
    return model(nodes, [info("x", ["n", 6])], [info("y", ["n", 6]), info("z", ["n", 6]), info("same", [6, 6])], {"w": weight(6, 6), "v": weight(6, 6)})


def numbers(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


MODELS: dict[str, tuple[onnx.ModelProto, list[dict[str, np.ndarray]]]] = {
    "layers": (layers(), [{"x": numbers(3, 16) * (i + 1)} for i in range(4)]),
    "attention": (attention(), [{"ids": rng.integers(0, 50, (2, 5))} for i in range(4)]),
    "picture": (picture(), [{"x": numbers(2, 3, 16, 16) * (i + 1)} for i in range(4)]),
    "shared": (shared(), [{"x": numbers(5, 6) / (i + 1)} for i in range(4)]),
}


# Without what ONNX Runtime gets wrong in the QOperator format; see test_what_upstream_gets_wrong.
PLAIN = {**MODELS, "layers": (layers("b2"), MODELS["layers"][1]), "shared": (shared(relu=False), MODELS["shared"][1])}


class Reader:
    """A reader that knows neither package."""

    def __init__(self, batches: list[dict[str, np.ndarray]]) -> None:
        self.batches, self.rest = batches, iter(batches)

    def get_next(self) -> Any:
        return next(self.rest, None)

    def __len__(self) -> int:
        return len(self.batches)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.rest = iter(self.batches[start_index:end_index])


WORDS = {"weight_type": "QuantType", "activation_type": "QuantType", "quant_format": "QuantFormat", "calibrate_method": "CalibrationMethod"}


def options_of(package: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options with words of a package, and none that a call can change."""
    out = {k: getattr(package, WORDS[k])[v] if k in WORDS else v for k, v in options.items()}
    if "extra_options" in out:
        out["extra_options"] = dict(out["extra_options"])
    return out


OPTIONS: list[dict[str, Any]] = [
    {},
    {"per_channel": True},
    {"activation_type": "QUInt8"},
    {"activation_type": "QUInt8", "reduce_range": True, "per_channel": True},
    {"activation_type": "QUInt8", "weight_type": "QUInt8"},
    {"calibrate_method": "Entropy"},
    {"calibrate_method": "Percentile"},
    {"calibrate_method": "Percentile", "extra_options": {"CalibPercentile": 90.0, "CalibTensorRangeSymmetric": False}},
    {"calibrate_method": "Entropy", "extra_options": {"CalibStridedMinMax": 2}},
    {"calibrate_method": "Percentile", "extra_options": {"CalibStridedMinMax": 2, "CalibPercentile": 99.0}},
    {"extra_options": {"CalibMovingAverage": True}},
    {"extra_options": {"CalibMovingAverage": True, "CalibMovingAverageConstant": 0.3, "CalibStridedMinMax": 2}},
    {"extra_options": {"CalibTensorRangeSymmetric": True}},
    {"extra_options": {"ActivationSymmetric": True}},
    {"activation_type": "QUInt8", "extra_options": {"ActivationSymmetric": True, "WeightSymmetric": False}},
    {"activation_type": "QUInt8", "extra_options": {"ActivationRestrictedAsymmetric": True}},
    {"op_types_to_quantize": ["MatMul", "Conv", "Gemm"]},
    {"op_types_to_quantize": ["MatMul", "Conv", "Gemm", "Relu", "Add", "Sub", "Tanh"], "activation_type": "QUInt8"},
    {"nodes_to_exclude": ["conv1", "fc1", "q", "m1", "relu2"]},
    {"nodes_to_quantize": ["conv2", "fc2", "k", "m3", "relu2"]},
    {"extra_options": {"ForceQuantizeNoInputCheck": True}},
    {"extra_options": {"MinimumRealRange": 2.5}},
    {"extra_options": {"MatMulConstBOnly": True}},
    {"extra_options": {"extra.Sigmoid.nnapi": True}, "activation_type": "QUInt8"},
]
OPTIONS_OF_PAIRS: list[dict[str, Any]] = [
    {"extra_options": {"AddQDQPairToWeight": True}},
    {"extra_options": {"DedicatedQDQPair": True}},
    {"extra_options": {"QuantizeBias": False}},
    {"activation_type": "QUInt8", "extra_options": {"QDQKeepRemovableActivations": True}},
    {"extra_options": {"QDQDisableWeightAdjustForInt32Bias": True}},
    {"extra_options": {"UseQDQContribOps": True}},
    {"extra_options": {"OpTypesToExcludeOutputQuantization": ["Conv", "MatMul", "Gemm", "Reshape", "Split"]}},
    {"per_channel": True, "extra_options": {"QDQOpTypePerChannelSupportToAxis": {"MatMul": 0, "LayerNormalization": 0}}},
]


@both
class Static(Programs):
    def setUp(self) -> None:
        super().setUp()
        self.quantization = importlib.import_module(self.ort.__name__ + ".quantization")
        logging.getLogger().setLevel(logging.ERROR)

    def quantized(self, name: str, **options: Any) -> onnx.ModelProto:
        made, batches = MODELS[name]
        onnx.save(made, self.path("m.onnx"))
        self.quantization.quantize_static(self.path("m.onnx"), self.path("q.onnx"), Reader(batches), **options_of(self.quantization, options))
        return onnx.load(self.path("q.onnx"))

    def test_results_are_close(self) -> None:
        for name, (made, batches) in MODELS.items():
            if name == "layers":
                continue  # with weights of 1e-8, whose scales a bias of 9 widens to no more than one step
            for options in ({}, {"activation_type": "QUInt8"}, {"per_channel": True}, {"calibrate_method": "Percentile"}):
                with self.subTest(model=name, **options):
                    want = self.session(made.SerializeToString()).run(None, batches[0])[0]
                    self.quantized(name, **options, reduce_range=not self.exact)
                    got = self.session(self.path("q.onnx")).run(None, batches[0])[0]
                    self.assertLess(np.abs(got - want).max(), 0.15 * np.abs(want).max())

    def test_configurations(self) -> None:
        made, batches = MODELS["shared"]
        q = self.quantization
        config = q.StaticQuantConfig(Reader(batches), calibrate_method=q.CalibrationMethod.Percentile, quant_format=q.QuantFormat.QOperator, activation_type=q.QuantType.QUInt8, op_types_to_quantize=["MatMul"])
        q.quantize(made, self.path("a.onnx"), config)
        self.assertEqual([n.op_type for n in onnx.load(self.path("a.onnx")).graph.node].count("QLinearMatMul"), 3)
        q.quantize(made, self.path("b.onnx"), q.DynamicQuantConfig(weight_type=q.QuantType.QUInt8))
        self.assertEqual([n.op_type for n in onnx.load(self.path("b.onnx")).graph.node].count("MatMulInteger"), 3)
        with self.assertRaises((TypeError, ModuleNotFoundError)):  # ONNX Runtime looks for a package first
            q.quantize(made, self.path("c.onnx"), "dynamic")

    def test_readers(self) -> None:
        made, batches = MODELS["shared"]

        class Own(self.quantization.CalibrationDataReader):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                self.rest = iter(batches)

            def get_next(self) -> Any:
                return next(self.rest, None)

        self.assertEqual(sum(1 for _ in Own()), 4)
        self.assertIsInstance(Reader(batches), self.quantization.CalibrationDataReader)
        self.quantization.quantize_static(made, self.path("q.onnx"), Own())
        self.session(self.path("q.onnx")).run(None, batches[0])
        with self.assertRaises(ValueError):
            self.quantization.quantize_static(made, self.path("q.onnx"), Reader([]))
        with self.assertRaises(ValueError):
            self.quantization.quantize_static(made, self.path("q.onnx"))
        with self.assertRaises(ValueError):
            self.quantization.quantize_static(made, self.path("q.onnx"), Reader(batches), extra_options={"CalibStridedMinMax": 3})

    def test_batches_of_several_sizes(self) -> None:
        made, batches = MODELS["shared"]
        several = [{"x": b["x"][: i + 1]} for i, b in enumerate(batches)]
        self.quantization.quantize_static(made, self.path("q.onnx"), Reader(several))
        low = min(b["x"].min() for b in several)
        high = max(b["x"].max() for b in several)
        scale = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.path("q.onnx")).graph.initializer}["x_scale"]
        self.assertAlmostEqual(float(scale), (max(high, 0) - min(low, 0)) / 255, places=7)

    def test_types(self) -> None:
        with self.assertRaises(ValueError):
            self.quantized("shared", weight_type="QUInt8", activation_type="QInt8")
        with self.assertRaises(ValueError):
            self.quantized("shared", weight_type="QInt16", activation_type="QInt16", quant_format="QOperator")
        made = self.quantized("shared", weight_type="QInt16", activation_type="QUInt16")
        kinds = {t.name: t.data_type for t in made.graph.initializer}
        self.assertEqual((kinds["w_quantized"], kinds["x_zero_point"]), (TensorProto.INT16, TensorProto.UINT16))
        want = self.session(MODELS["shared"][0].SerializeToString()).run(None, MODELS["shared"][1][0])[0]
        np.testing.assert_allclose(self.session(self.path("q.onnx")).run(None, MODELS["shared"][1][0])[0], want, atol=1e-3 * np.abs(want).max())

    def test_models_that_were_prepared(self) -> None:
        for name, (made, batches) in MODELS.items():
            with self.subTest(model=name):
                onnx.save(made, self.path("m.onnx"))
                shapes = importlib.import_module(self.quantization.__name__ + ".shape_inference")
                shapes.quant_pre_process(self.path("m.onnx"), self.path("p.onnx"), skip_symbolic_shape=True)
                want = self.session(self.path("m.onnx")).run(None, batches[0])
                for a, b in zip(self.session(self.path("p.onnx")).run(None, batches[0]), want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1, float(np.abs(b).max())))
                self.quantization.quantize_static(self.path("p.onnx"), self.path("q.onnx"), Reader(batches))
                self.session(self.path("q.onnx")).run(None, batches[0])

    def test_nothing_to_quantize(self) -> None:
        made = model([node("Neg", ["x"], ["y"], "n")], [info("x", ["n"], TensorProto.INT32)], [info("y", ["n"], TensorProto.INT32)])
        self.quantization.quantize_static(made, self.path("q.onnx"), Reader([{"x": np.arange(3, dtype=np.int32)}]))
        self.assertEqual([n.op_type for n in onnx.load(self.path("q.onnx")).graph.node], ["Neg"])

    def test_the_command_that_prepares(self) -> None:
        onnx.save(MODELS["shared"][0], self.path("m.onnx"))
        command = [sys.executable, "-m", self.quantization.__name__ + ".preprocess", "--input", self.path("m.onnx"), "--output", self.path("p.onnx"), "--skip_symbolic_shape", "True"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(onnx.load(self.path("p.onnx")))

    def test_older_opsets(self) -> None:
        nodes = [node("MatMul", ["x", "w"], ["h"], "m"), node("Relu", ["h"], ["y"], "r")]
        made = model(nodes, [info("x", ["n", 6])], [info("y", ["n", 6])], {"w": weight(6, 6)}, opset=9)
        onnx.save(made, self.path("m.onnx"))
        x = numbers(5, 6)
        self.quantization.quantize_static(self.path("m.onnx"), self.path("s.onnx"), Reader([{"x": x}]), reduce_range=not self.exact)
        self.quantization.quantize_dynamic(self.path("m.onnx"), self.path("d.onnx"), reduce_range=not self.exact)
        want = self.session(self.path("m.onnx")).run(None, {"x": x})[0]
        for to in ("s.onnx", "d.onnx"):
            self.assertLess(np.abs(self.session(self.path(to)).run(None, {"x": x})[0] - want).max(), 0.1 * np.abs(want).max())

    def test_external_data(self) -> None:
        self.quantized("picture", use_external_data_format=True)
        self.session(self.path("q.onnx")).run(None, MODELS["picture"][1][0])


@unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "ONNX Runtime is not installed; .ci/peers --onnxruntime makes a Python that has it")
class BothWriteTheSame(unittest.TestCase):
    maxDiff = None

    def test_pairs(self) -> None:
        for name in MODELS:
            for options in OPTIONS + OPTIONS_OF_PAIRS:
                self.same(*MODELS[name], name, options)

    def test_operators(self) -> None:
        for name in PLAIN:
            for options in OPTIONS:
                self.same(*PLAIN[name], name, {"quant_format": "QOperator", **options})

    def same(self, made: onnx.ModelProto, batches: list[dict[str, np.ndarray]], name: str, options: dict[str, Any]) -> None:
        """Nodes and their order, and integers; scales but for the last digit, since each computes the values to round itself."""
        import onnxruntime.quantization as theirs

        import memopt.ort.quantization as ours

        logging.getLogger().setLevel(logging.CRITICAL)
        logging.getLogger("memopt").setLevel(logging.ERROR)
        with self.subTest(model=name, **options), tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            onnx.save(made, f"{folder}/m.onnx")
            for package, to in ((theirs, "theirs"), (ours, "ours")):
                package.quantize_static(f"{folder}/m.onnx", f"{folder}/{to}.onnx", Reader(batches), **options_of(package, options))
            a, b = (onnx.load(f"{folder}/{to}.onnx") for to in ("ours", "theirs"))
            self.assertEqual(*([spelled(n) for n in m.graph.node] for m in (a, b)))
            self.assertEqual(*({(o.domain, o.version) for o in m.opset_import} for m in (a, b)))
            x, y = ({t.name: (t.data_type, numpy_helper.to_array(t)) for t in m.graph.initializer} for m in (a, b))
            self.assertEqual(x.keys(), y.keys())
            for tensor, (kind, want) in y.items():
                self.assertEqual((x[tensor][0], x[tensor][1].shape), (kind, want.shape), tensor)
                if kind in (TensorProto.FLOAT, TensorProto.INT32):  # a bias has the scales of activations
                    np.testing.assert_allclose(x[tensor][1], want, rtol=2e-6, atol=1 if kind == TensorProto.INT32 else 0, err_msg=tensor)
                elif tensor.endswith("_zero_point") and not np.array_equal(x[scale := tensor[:-10] + "scale"][1], y[scale][1]):
                    np.testing.assert_allclose(x[tensor][1].astype(int), want.astype(int), atol=1, err_msg=tensor)  # a tie
                else:
                    np.testing.assert_array_equal(x[tensor][1], want, err_msg=tensor)
            self.assert_results(f"{folder}/ours.onnx", batches[0], options)

    def assert_results(self, path: str, feeds: dict[str, np.ndarray], options: dict[str, Any]) -> None:
        """What ONNX Runtime computes with our file is what memopt does, but for a step of rounding, where its own products are exact."""
        import onnxruntime

        import memopt.ort

        if options.get("quant_format") == "QOperator" or not dots_are_exact():
            return  # most operators are ONNX Runtime's own
        off = onnxruntime.SessionOptions()
        off.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        want = onnxruntime.InferenceSession(path, off, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        got = memopt.ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        self.assertLessEqual(np.abs(got - want).max(), 0.05 * np.abs(want).max())

    def test_what_upstream_gets_wrong(self) -> None:
        """ONNX Runtime's files lose a Relu whose input others read and give a bias that two nodes have one scale (QOperator), and take the factors of a Gemm wrong."""
        import onnxruntime

        import memopt.ort.quantization as ours

        for last, made, batches in (
            ("s", *MODELS["shared"]),
            ("c2", *MODELS["layers"]),
            ("c2", layers(beta=0.5), MODELS["layers"][1]),
            ("c2", layers("b2", beta=0.5, alpha=2.0), MODELS["layers"][1]),
        ):
            for format in ours.QuantFormat:
                with self.subTest(value=last, format=format), tempfile.TemporaryDirectory() as folder:
                    made = onnx.ModelProto.FromString(made.SerializeToString())
                    made.graph.output.append(info(last, None))
                    ours.quantize_static(made, f"{folder}/q.onnx", Reader(batches), quant_format=format, activation_type=ours.QuantType.QUInt8, reduce_range=not dots_are_exact())
                    cpu = ["CPUExecutionProvider"]
                    want = onnxruntime.InferenceSession(made.SerializeToString(), providers=cpu).run([last], batches[0])[0]
                    got = onnxruntime.InferenceSession(f"{folder}/q.onnx", providers=cpu).run([last], batches[0])[0]
                    self.assertLess(np.abs(got - want).mean(), 0.03 * np.abs(want).max())


def spelled(n: onnx.NodeProto) -> str:
    attrs = sorted((a.name, str(helper.get_attribute_value(a))) for a in n.attribute)
    return f"{n.domain}.{n.op_type} {n.name} {list(n.input)} → {list(n.output)} {attrs}"


if __name__ == "__main__":
    unittest.main()
