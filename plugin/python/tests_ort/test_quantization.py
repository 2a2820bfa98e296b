"""quantize_dynamic: programs of its users against both packages, and what the one writes held against the other's."""

from __future__ import annotations

import collections
import importlib
import importlib.util
import logging
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from both import Programs, both, dots_are_exact, info, model

rng = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 0.3).astype(np.float32)


def layers() -> onnx.ModelProto:
    """Gemms, one of which transposes its weight and one that is no plain product."""
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"], "fc1", transB=1),
        helper.make_node("Relu", ["h1"], ["r1"], "relu"),
        helper.make_node("Gemm", ["r1", "w2", "b2"], ["h2"], "fc2"),
        helper.make_node("Gemm", ["h2", "w3", "b3"], ["y"], "fc3", alpha=0.5),
    ]
    weights = {"w1": weight(32, 16), "b1": weight(32), "w2": weight(32, 24), "b2": weight(24), "w3": weight(24, 8), "b3": weight(8)}
    return model(nodes, [info("x", ["n", 16])], [info("y", ["n", 8])], weights)


def attention() -> onnx.ModelProto:
    """A table, products of constants and of what is computed, and a Transpose of the table."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"], "embed"),
        helper.make_node("MatMul", ["e", "wq"], ["q"], "q"),
        helper.make_node("MatMul", ["e", "wk"], ["k"], "k"),
        helper.make_node("Transpose", ["k"], ["kt"], "kt", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "e"], ["c"], "context"),
        helper.make_node("Transpose", ["table"], ["tt"], "tt", perm=[1, 0]),
        helper.make_node("MatMul", ["c", "tt"], ["y0"], "head"),
        helper.make_node("ReduceSum", ["wq"], ["norm"], "norm", keepdims=0),  # reads a weight that is quantized
        helper.make_node("Add", ["y0", "norm"], ["y"], "last"),
    ]
    weights = {"table": weight(50, 12), "wq": weight(12, 12), "wk": weight(12, 12)}
    return model(nodes, [info("ids", ["b", "s"], TensorProto.INT64)], [info("y", ["b", "s", 50])], weights)


def picture() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w2"], ["c2"], "conv2", strides=[2, 2], group=2),
        helper.make_node("GlobalAveragePool", ["c2"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w3"], ["y"], "fc"),
    ]
    weights = {"w1": weight(8, 3, 3, 3), "b1": weight(8), "w2": weight(8, 4, 3, 3), "w3": weight(8, 5)}
    return model(nodes, [info("x", ["n", 3, 16, 16])], [info("y", ["n", 5])], weights)


MODELS: dict[str, tuple[Any, dict[str, np.ndarray]]] = {
    "layers": (layers(), {"x": rng.standard_normal((3, 16)).astype(np.float32)}),
    "attention": (attention(), {"ids": rng.integers(0, 50, (2, 5))}),
    "picture": (picture(), {"x": rng.standard_normal((2, 3, 16, 16)).astype(np.float32)}),
}


def ops(made: onnx.ModelProto) -> collections.Counter[str]:
    return collections.Counter(n.op_type for n in made.graph.node)


@both
class Quantization(Programs):
    def setUp(self) -> None:
        super().setUp()
        self.quantization = importlib.import_module(self.ort.__name__ + ".quantization")
        logging.getLogger().setLevel(logging.ERROR)

    def quantized(self, name: str, **options: Any) -> onnx.ModelProto:
        if "weight_type" in options:
            options["weight_type"] = self.quantization.QuantType.from_string(options["weight_type"])
        onnx.save(MODELS[name][0], self.path("m.onnx"))
        self.quantization.quantize_dynamic(self.path("m.onnx"), self.path("q.onnx"), **options)
        return onnx.load(self.path("q.onnx"))

    def test_types(self) -> None:
        kinds = self.quantization.QuantType
        self.assertEqual([k.value for k in kinds], list(range(7)))
        self.assertEqual(str(kinds.QUInt8), "QUInt8")
        self.assertIs(kinds.from_string("QInt8"), kinds.QInt8)
        self.assertEqual((kinds.QInt8.tensor_type, kinds.QUInt8.tensor_type), (TensorProto.INT8, TensorProto.UINT8))
        with self.assertRaises(ValueError):
            kinds.from_string("QInt9")

    def test_operators(self) -> None:
        made = ops(self.quantized("layers"))
        self.assertEqual((made["MatMulInteger"], made["DynamicQuantizeLinear"], made["Gemm"]), (2, 2, 1))
        made = ops(self.quantized("picture"))
        self.assertEqual((made["ConvInteger"], made["MatMulInteger"], made["Conv"]), (2, 1, 0))
        made = ops(self.quantized("picture", op_types_to_quantize=["MatMul"]))
        self.assertEqual((made["ConvInteger"], made["MatMulInteger"], made["Conv"]), (0, 1, 2))
        made = ops(self.quantized("picture", nodes_to_exclude=["conv1", "fc"]))
        self.assertEqual((made["ConvInteger"], made["MatMulInteger"]), (1, 0))
        made = ops(self.quantized("picture", nodes_to_quantize=["conv1"]))
        self.assertEqual((made["ConvInteger"], made["MatMulInteger"]), (1, 0))

    def test_constant_factors_only(self) -> None:
        self.assertEqual(ops(self.quantized("attention"))["MatMulInteger"], 2)  # the table's Transpose is computed
        made = self.quantized("attention", extra_options={"MatMulConstBOnly": False})
        self.assertEqual(ops(made)["MatMul"], 0)

    def test_types_of_weights(self) -> None:
        for kind, want in (("QInt8", TensorProto.INT8), ("QUInt8", TensorProto.UINT8)):
            made = self.quantized("layers", weight_type=kind)
            self.assertEqual({t.data_type for t in made.graph.initializer if t.name.endswith("_quantized")}, {want})

    def test_channels(self) -> None:
        made = self.quantized("layers", per_channel=True)
        sizes = {t.name: list(t.dims) for t in made.graph.initializer if t.name.endswith("_scale")}
        self.assertEqual(sizes, {"w1_scale": [32], "w2_scale": [24]})

    def test_seven_bits(self) -> None:
        made = self.quantized("layers", reduce_range=True)
        for t in made.graph.initializer:
            if t.name.endswith("_quantized"):
                self.assertLessEqual(np.abs(numpy_helper.to_array(t).astype(int)).max(), 64)

    def test_models_and_paths(self) -> None:
        self.quantization.quantize_dynamic(MODELS["layers"][0], Path(self.path("q.onnx")))
        self.assertEqual(ops(onnx.load(self.path("q.onnx")))["MatMulInteger"], 2)
        onnx.save(MODELS["layers"][0], self.path("m.onnx"))
        self.quantization.quantize_dynamic(Path(self.path("m.onnx")), self.path("m.onnx"))
        self.assertEqual(ops(onnx.load(self.path("m.onnx")))["MatMulInteger"], 2)

    def test_external_data(self) -> None:
        self.quantized("layers", use_external_data_format=True)
        self.session(self.path("q.onnx")).run(None, MODELS["layers"][1])

    def test_results_are_close(self) -> None:
        for name, (made, feeds) in MODELS.items():
            for options in ({}, {"weight_type": "QUInt8"}, {"per_channel": True}):
                for reduced in (False, True) if self.exact else (True,):
                    with self.subTest(model=name, **options, reduce_range=reduced):
                        want = self.session(made.SerializeToString()).run(None, feeds)
                        self.quantized(name, **options, reduce_range=reduced)
                        got = self.session(self.path("q.onnx")).run(None, feeds)
                        for a, b in zip(got, want, strict=True):
                            self.assertLess(np.abs(a - b).max(), (0.12 if reduced else 0.06) * np.abs(b).max() + 1e-6)


def exactly(path: str, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What a quantized model gives by ONNX's reference, which multiplies and adds integers without rounding."""
    made = onnx.load(path)
    for opset in made.opset_import:
        if not opset.domain:
            opset.version = max(opset.version, 21)  # the reference has no DequantizeLinear of an earlier one
    return list(ReferenceEvaluator(made).run(None, feeds))


@unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "ONNX Runtime is not installed; .ci/peers --onnxruntime makes a Python that has it")
class BothWriteTheSame(unittest.TestCase):
    def assert_results(self, ours: str, theirs: str, feeds: dict[str, np.ndarray], reduced: bool) -> None:
        """Holds our results against exact ones, and against ONNX Runtime's where these are exact."""
        import onnxruntime

        import memopt.ort

        here = memopt.ort.InferenceSession(ours, providers=["CPUExecutionProvider"]).run(None, feeds)
        for x, y in zip(exactly(theirs, feeds), here, strict=True):
            np.testing.assert_allclose(y, x, rtol=0, atol=1e-6 * np.abs(x).max())
        want = onnxruntime.InferenceSession(theirs, providers=["CPUExecutionProvider"]).run(None, feeds)
        there = onnxruntime.InferenceSession(ours, providers=["CPUExecutionProvider"]).run(None, feeds)
        for x, y, z in zip(want, there, here, strict=True):
            np.testing.assert_array_equal(x, y)
            if reduced or dots_are_exact():
                np.testing.assert_allclose(z, x, rtol=0, atol=1e-6 * np.abs(x).max())

    def test_nodes_scales_and_outputs(self) -> None:
        from onnxruntime.quantization import QuantType as Upstream
        from onnxruntime.quantization import quantize_dynamic as upstream

        from memopt.ort.quantization import QuantType, quantize_dynamic

        logging.getLogger().setLevel(logging.ERROR)
        logging.getLogger("memopt").setLevel(logging.ERROR)
        for name, (made, feeds) in MODELS.items():
            for options in (
                {},
                {"reduce_range": True},
                {"weight_type": "QUInt8", "reduce_range": True},
                {"per_channel": True, "extra_options": {"WeightSymmetric": False}},
                {"per_channel": True, "op_types_to_quantize": ["MatMul"]},
                {"extra_options": {"MatMulConstBOnly": False, "ActivationSymmetric": True}},
            ):
                with self.subTest(model=name, **options), tempfile.TemporaryDirectory() as folder:
                    path, ours, theirs = (f"{folder}/{n}.onnx" for n in ("m", "ours", "theirs"))
                    onnx.save(made, path)
                    kind = options.get("weight_type", "QInt8")
                    quantize_dynamic(path, ours, **{**options, "weight_type": QuantType[kind]})
                    upstream(path, theirs, **{**options, "weight_type": Upstream[kind]})
                    self.assertEqual(*(parts(onnx.load(p)) for p in (ours, theirs)))
                    self.assert_results(ours, theirs, feeds, "reduce_range" in options)

    @unittest.skipUnless(dots_are_exact(), "this processor's products of 8-bit integers saturate in ONNX Runtime")
    def test_fused(self) -> None:
        """What ONNX Runtime's transformer optimizer writes: its quantized form is written alike, and runs alike."""
        import onnxruntime
        from onnxruntime.quantization import quantize_dynamic as upstream

        import memopt.ort
        from memopt.ort.quantization import quantize_dynamic

        logging.getLogger().setLevel(logging.ERROR)
        ids, mask = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]], np.int32), np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)
        feeds = {"ids": ids, "segments": ids % 2, "mask": mask}
        providers = ["CPUExecutionProvider"]
        for counted in (False, True):
            for options in ({}, {"per_channel": True}, {"reduce_range": True}):
                with self.subTest(counted=counted, **options), tempfile.TemporaryDirectory() as folder:
                    path, ours, theirs = (f"{folder}/{n}.onnx" for n in ("m", "ours", "theirs"))
                    onnx.save(fused(counted), path)
                    more = {"extra_options": {"DefaultTensorType": TensorProto.FLOAT}, **options}
                    quantize_dynamic(path, ours, **more)
                    upstream(path, theirs, **more)
                    self.assertEqual(*(parts(onnx.load(p)) for p in (ours, theirs)))
                    kinds = {n.op_type for n in onnx.load(ours).graph.node}
                    self.assertLessEqual({"QAttention", "QEmbedLayerNormalization"}, kinds)
                    for file in (path, ours):
                        want = onnxruntime.InferenceSession(file, providers=providers).run(None, feeds)
                        here = memopt.ort.InferenceSession(file, providers=providers).run(None, feeds)
                        for x, y in zip(want, here, strict=True):
                            np.testing.assert_allclose(y, x, rtol=0, atol=3e-6 * np.abs(x).max())


def fused(counted: bool) -> onnx.ModelProto:
    """A layer of BERT, in ONNX Runtime's fused operators; padding by the count of tokens or by the mask."""
    d = 8
    tables = {"word": weight(20, d), "position": weight(9, d), "segment": weight(2, d)}
    norms = {f"{kind}{i}": weight(d) + (kind == "gamma") for i in range(3) for kind in ("gamma", "beta")}
    dense = {"wa": weight(d, 3 * d), "ba": weight(3 * d), "wo": weight(d, d), "bo": weight(d), "w1": weight(d, 16), "b1": weight(16), "w2": weight(16, d), "b2": weight(d)}
    own = {"domain": "com.microsoft"}
    nodes = [
        helper.make_node("EmbedLayerNormalization", ["ids", "segments", *tables, "gamma0", "beta0", "mask"], ["e", "count"], "embed", **own),
        helper.make_node("Attention", ["e", "wa", "ba", "count" if counted else "mask"], ["a"], "attend", num_heads=2, **own),
        helper.make_node("MatMul", ["a", "wo"], ["o"], "out"),
        helper.make_node("SkipLayerNormalization", ["o", "e", "gamma1", "beta1", "bo"], ["n"], "skip1", **own),
        helper.make_node("MatMul", ["n", "w1"], ["h"], "up"),
        helper.make_node("BiasGelu", ["h", "b1"], ["g"], "gelu", **own),
        helper.make_node("MatMul", ["g", "w2"], ["p"], "down"),
        helper.make_node("SkipLayerNormalization", ["p", "n", "gamma2", "beta2", "b2"], ["y"], "skip2", **own),
    ]
    feeds = [info(name, ["b", "s"], TensorProto.INT32) for name in ("ids", "segments", "mask")]
    made = model(nodes, feeds, [info("y", ["b", "s", d])], {**tables, **norms, **dense})
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


def parts(made: onnx.ModelProto) -> tuple[list[bytes], dict[str, bytes]]:
    """A model's nodes, byte for byte, and its tensors by name."""
    nodes = sorted(n.SerializeToString(deterministic=True) for n in made.graph.node)
    tensors = {t.name: f"{t.data_type} {list(t.dims)} ".encode() + numpy_helper.to_array(t).tobytes() for t in made.graph.initializer}
    return nodes, tensors


if __name__ == "__main__":
    unittest.main()
