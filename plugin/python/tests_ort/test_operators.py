"""Operators of files that users bring, in sessions: the same results in both packages."""

from __future__ import annotations

import importlib.util
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import memopt.ort
from both import Programs, both, dots_are_exact, info, model


def numbers(seed: int) -> tuple[np.random.Generator, Callable[..., np.ndarray]]:
    """A generator, and a function for normal numbers of a shape by it."""
    rng = np.random.default_rng(seed)

    def some(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return rng, some


def loop(trips: list[str], condition: list[str], until: bool = True, **inits: np.ndarray) -> onnx.ModelProto:
    """A loop that adds x to a sum of rows and lists the sums, and each turn's number."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum_in", "x"], ["sum_out"]),
            helper.make_node("Identity", ["sum_out"], ["row"]),
            helper.make_node("Cast", ["turn"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Less" if until else "Greater", ["turn", "last"], ["on"]),
        ],
        "body",
        [info("turn", [], TensorProto.INT64), info("on_in", [], TensorProto.BOOL), info("sum_in", [2, 3])],
        [info("on", [], TensorProto.BOOL), info("sum_out", [2, 3]), info("row", [2, 3]), info("number", [])],
        [numpy_helper.from_array(np.array(2, np.int64), "last")],
    )
    node = helper.make_node("Loop", [*(trips or [""]), *(condition or [""]), "start"], ["sum", "rows", "numbers"], body=body)
    outputs = [info("sum", [2, 3]), info("rows", ["turns", 2, 3]), info("numbers", ["turns"])]
    return model([node], [info("x", [2, 3]), info("start", [2, 3])], outputs, inits)


@both
class Loops(Programs):
    def check(self, file: onnx.ModelProto, turns: int) -> None:
        x, start = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
        total, rows, numbers = self.session(file.SerializeToString()).run(None, {"x": x, "start": start})
        want = np.stack([start + x * (i + 1) for i in range(turns)]) if turns else np.zeros((0, 2, 3), np.float32)
        np.testing.assert_array_equal(total, start + turns * x)
        np.testing.assert_array_equal(rows, want)
        np.testing.assert_array_equal(numbers, np.arange(turns, dtype=np.float32))
        self.assertEqual((rows.shape, numbers.shape, rows.dtype), ((turns, 2, 3), (turns,), np.dtype(np.float32)))

    def test_turns(self) -> None:
        true, false = np.array(True), np.array(False)
        for trips, turns in [(3, 3), (1, 1), (0, 0), (-1, 0), (-(2**63), 0)]:
            m = np.array(trips, np.int64)
            with self.subTest(trips=trips):
                self.check(loop(["m"], [], m=m), turns)
                self.check(loop(["m"], ["c"], m=m, c=true), turns)
                self.check(loop(["m"], ["c"], m=m, c=false), 0)

    def test_conditions(self) -> None:
        self.check(loop([], ["c"], c=np.array(True)), 3)
        self.check(loop([], ["c"], c=np.array(False)), 0)
        self.check(loop([], ["c"], until=False, c=np.array(True)), 1)
        self.check(loop(["m"], ["c"], m=np.array(2**63 - 1), c=np.array(True)), 3)


@both
class UnknownSizes(Programs):
    def test_a_negative_size_is_unknown(self) -> None:
        file = model([helper.make_node("Neg", ["x"], ["y"])], [info("x", [1, 3])], [info("y", [1, 3])])
        for value in [*file.graph.input, *file.graph.output]:
            value.type.tensor_type.shape.dim[0].dim_value = -1
        session = self.session(file.SerializeToString())
        self.assertEqual([v.shape for v in (*session.get_inputs(), *session.get_outputs())], [[None, 3], [None, 3]])
        for n in (1, 4):
            (y,) = session.run(None, {"x": np.ones((n, 3), np.float32)})
            np.testing.assert_array_equal(y, -np.ones((n, 3), np.float32))


@both
class Bits(Programs):
    def test_shifts_and_masks(self) -> None:
        for kind in (np.uint8, np.uint32, np.uint64):
            x, y = np.array([[1, 200, 77]], kind), np.array([[1], [3]], kind)
            nodes = [
                helper.make_node("BitShift", ["x", "y"], ["left"], direction="LEFT"),
                helper.make_node("BitShift", ["x", "y"], ["right"], direction="RIGHT"),
                helper.make_node("BitwiseAnd", ["x", "y"], ["and"]),
                helper.make_node("BitwiseOr", ["x", "y"], ["or"]),
                helper.make_node("BitwiseXor", ["x", "y"], ["xor"]),
                helper.make_node("BitwiseNot", ["x"], ["not"]),
            ]
            want = {"left": x << y, "right": x >> y, "and": x & y, "or": x | y, "xor": x ^ y, "not": ~x}
            elem = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            file = model(nodes, [info("x", [1, 3], elem), info("y", [2, 1], elem)], [info(name, None, elem) for name in want], opset=18)
            got = self.session(file.SerializeToString()).run(None, {"x": x, "y": y})
            for (name, array), result in zip(want.items(), got, strict=True):
                with self.subTest(kind=kind.__name__, name=name):
                    np.testing.assert_array_equal(result, array)
                    self.assertEqual(result.dtype, array.dtype)


class Alone(Programs):
    """What ONNX Runtime refuses."""

    ort = memopt.ort

    def test_nothing_to_scan(self) -> None:
        body = helper.make_graph(
            [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Mul", ["e", "e"], ["q"])],
            "body", [info("s", [2]), info("e", [2])], [info("t", [2]), info("q", [2])])
        for axes in ({}, {"scan_output_axes": [1], "scan_output_directions": [1]}):
            node = helper.make_node("Scan", ["start", "rows"], ["sum", "squares"], body=body, num_scan_inputs=1, **axes)
            file = model([node], [info("start", [2]), info("rows", [0, 2])], [info("sum", [2]), info("squares", None)])
            with self.subTest(axes=axes):
                total, squares = self.session(file.SerializeToString()).run(None, {"start": np.ones(2, np.float32), "rows": np.zeros((0, 2), np.float32)})
                np.testing.assert_array_equal(total, np.ones(2, np.float32))
                self.assertEqual(squares.shape, (2, 0) if axes else (0, 2))

    def test_packed_heads(self) -> None:
        rng = np.random.default_rng(7)
        b, s, n, h = 2, 3, 2, 4
        packed = rng.standard_normal((b, s, n, 3, h)).astype(np.float32)
        q, k, v = (packed[:, :, :, i].reshape(b, s, n * h) for i in range(3))
        got = []
        for feeds in ({"q": q, "k": k, "v": v}, {"q": packed}, {"q": q, "k": np.ascontiguousarray(packed[:, :, :, 1:])}):
            node = helper.make_node("MultiHeadAttention", list(feeds), ["y"], domain="com.microsoft", num_heads=n)
            file = model([node], [info(name, list(x.shape)) for name, x in feeds.items()], [info("y", None)])
            file.opset_import.append(helper.make_opsetid("com.microsoft", 1))
            got += self.session(file.SerializeToString()).run(None, feeds)
        np.testing.assert_array_equal(got[1], got[0])
        np.testing.assert_array_equal(got[2], got[0])


@unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "ONNX Runtime is not installed; .ci/peers --onnxruntime makes a Python that has it")
class Against(unittest.TestCase):
    """Results held against ONNX Runtime's."""

    def equal(self, file: onnx.ModelProto, feeds: dict[str, np.ndarray], within: float = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        theirs = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)
        ours = memopt.ort.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for output, a, b in zip(file.graph.output, ours, theirs, strict=True):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape), output.name)
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=within, atol=within * max(1, np.abs(b.astype(np.float64)).max(initial=0)), err_msg=output.name)

    @unittest.skipUnless(dots_are_exact(), "this processor's products of 8-bit integers saturate in ONNX Runtime")
    def test_quantized_products(self) -> None:
        rng = np.random.default_rng(1)

        def some(kind: type, *shape: int) -> np.ndarray:
            return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)

        for activations, weights, each in [(np.uint8, np.int8, True), (np.uint8, np.uint8, False), (np.int8, np.int8, True)]:
            scale = (rng.uniform(0.001, 0.02, 6) if each else np.array(0.01)).astype(np.float32)
            zero = np.zeros(6, weights) if each else np.array(3, weights)
            constants = {
                "xs": np.array(0.02, np.float32), "xz": np.array(7, activations), "ws": scale, "wz": zero,
                "ys": np.array(0.03, np.float32), "yz": np.array(11, activations),
                "w": some(weights, 6, 2, 3, 3), "b": rng.integers(-900, 900, 6).astype(np.int32), "m": some(weights, 8, 6),
            }
            nodes = [
                helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["conv"], pads=[1, 1, 0, 1], strides=[2, 1], group=2),
                helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["plain"], group=2, dilations=[2, 1]),
                helper.make_node("QLinearMatMul", ["rows", "xs", "xz", "m", "ws", "wz", "ys", "yz"], ["product"]),
            ]
            elem = helper.np_dtype_to_tensor_dtype(np.dtype(activations))
            file = model(nodes, [info("x", ["n", 4, 7, 6], elem), info("rows", ["n", 5, 8], elem)], [info(name, None, elem) for name in ("conv", "plain", "product")], constants)
            with self.subTest(activations=activations.__name__, weights=weights.__name__):
                self.equal(file, {"x": some(activations, 2, 4, 7, 6), "rows": some(activations, 2, 5, 8)})

    def test_four_bits(self) -> None:
        """Weights of 4 bits, by tensor, by row and by block, as numbers in raw_data and in int32_data."""
        rng, some = numbers(8)
        for kind, low in ((TensorProto.INT4, -8), (TensorProto.UINT4, 0)):
            for raw in (False, True):
                for scale_shape, attributes in (((), {}), ((5,), {"axis": 0}), ((5, 4), {"axis": 1, "block_size": 2}), ((2, 7), {"axis": 0, "block_size": 3})):
                    constants = {"scale": np.abs(some(*scale_shape)).astype(np.float32)}
                    nodes = [
                        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["real"], **attributes),
                        helper.make_node("MatMul", ["x", "real"], ["y"]),
                    ]
                    file = model(nodes, [info("x", ["n", 5])], [info("y", ["n", 7])], constants, opset=21)
                    file.ir_version = 10
                    for name, shape in (("w", (5, 7)), ("zero", scale_shape)):
                        values = rng.integers(low, low + 16, shape)
                        halves = np.append(values.flatten() & 15, [0] * (values.size % 2)).astype(np.uint8)
                        made = TensorProto(name=name, data_type=kind, dims=shape)
                        packed = halves[::2] | halves[1::2] << 4
                        if raw:
                            made.raw_data = packed.tobytes()
                        else:
                            made.int32_data.extend(packed.tolist())
                        file.graph.initializer.append(made)
                    with self.subTest(kind=kind, raw=raw, scales=scale_shape):
                        self.equal(file, {"x": some(3, 5)}, 1e-5)

    def fused(self, op: str, inputs: dict[str, np.ndarray | None], outputs: dict[str, int], within: float = 1e-5, **attributes: Any) -> None:
        """Compares a node of ONNX Runtime's own domain; inputs whose names begin with a capital are initializers."""
        given = {name: x for name, x in inputs.items() if x is not None}
        node = helper.make_node(op, [name if x is not None else "" for name, x in inputs.items()], list(outputs), domain="com.microsoft", **attributes)
        elem = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in given.items()}
        fed = {name: x for name, x in given.items() if name[0].islower()}
        file = model(
            [node], [info(name, list(x.shape), elem[name]) for name, x in fed.items()], [info(name, None, kind) for name, kind in outputs.items() if name],
            {name: x for name, x in given.items() if name not in fed},
        )
        file.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        self.equal(file, fed, within)

    @unittest.skipUnless(dots_are_exact(), "this processor's products of 8-bit integers saturate in ONNX Runtime")
    def test_operators_on_bytes(self) -> None:
        """Results within one step of the output's scale: how ONNX Runtime rounds is its own."""
        rng, _ = numbers(10)

        def some(*shape: int) -> np.ndarray:
            return rng.integers(0, 256, shape).astype(np.uint8)

        x, z, one = some(2, 3, 4, 4), some(2, 3, 4, 4), {"y": TensorProto.UINT8}
        scales = {"S": np.array(0.03, np.float32), "Z": np.array(100, np.uint8)}
        out = {"Ys": np.array(0.04, np.float32), "Yz": np.array(90, np.uint8)}
        small = {"Ys": np.array(1 / 256, np.float32), "Yz": np.array(0, np.uint8)}
        pair = {"x": x, **scales, "z": z, "S2": np.array(0.02, np.float32), "Z2": np.array(120, np.uint8), **out}
        step = 1.01 / 255
        for op in ("QLinearAdd", "QLinearMul"):
            self.fused(op, pair, one, within=step)
        self.fused("QLinearSigmoid", {"x": x, **scales, **small}, one, within=step)
        self.fused("QLinearLeakyRelu", {"x": x, **scales, **out}, one, within=step, alpha=0.2)
        self.fused("QLinearGlobalAveragePool", {"x": x, **scales, **out}, one, within=step)
        self.fused("QLinearAveragePool", {"x": x, **scales, **out}, one, within=step, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        self.fused("QLinearSoftmax", {"x": x, **scales, **small}, one, within=step, axis=1, opset=13)
        self.fused("QLinearSoftmax", {"x": x, **scales, **small}, one, within=step, axis=2, opset=11)
        self.fused("QLinearConcat", {**out, "x": x, **scales, "z": z, "S2": np.array(0.02, np.float32), "Z2": np.array(120, np.uint8)}, one, within=step, axis=1)
        condition = rng.integers(0, 2, (2, 3, 4, 4)).astype(bool)
        self.fused("QLinearWhere", {"c": condition, **pair}, one, within=step)
        gemm = {"x": some(5, 8), **scales, "W": some(6, 8).view(np.int8), "Ws": np.array(0.01, np.float32), "Wz": np.array(0, np.int8)}
        bias = {"B": rng.integers(-900, 900, 6).astype(np.int32)}
        self.fused("QGemm", {**gemm, **bias, **out}, one, within=step, transB=1)
        self.fused("QGemm", {**gemm, **bias}, {"y": TensorProto.FLOAT}, transB=1, alpha=1.0)

    def test_products_of_few_bits(self) -> None:
        rng, some = numbers(9)
        one = {"y": TensorProto.FLOAT}
        for bits, k, n, block in ((4, 64, 7, 32), (4, 40, 6, 16), (8, 48, 5, 16)):
            blocks = -(-k // block)
            for zeros in (None, "bytes", "floats") if bits == 4 else (None, "bytes"):
                inputs: dict[str, np.ndarray | None] = {
                    "x": some(2, 3, k),
                    "W": rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
                    "Scales": np.abs(some(n, blocks)) * 0.05,
                    "Zeros": None if zeros is None else rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8),
                    "none": None,
                    "Bias": some(n),
                }
                if zeros == "floats":
                    inputs["Zeros"] = some(n, blocks) + 8
                with self.subTest(bits=bits, k=k, zeros=zeros):
                    self.fused("MatMulNBits", inputs, one, within=1e-4, bits=bits, K=k, N=n, block_size=block)

    def test_attention(self) -> None:
        rng, some = numbers(2)
        b, s, p, n, d = 2, 4, 3, 2, 8
        x, w, bias = some(b, s, d), some(d, 3 * d) * 0.5, some(3 * d)
        one = {"y": TensorProto.FLOAT}
        masks: dict[str, np.ndarray | None] = {
            "none": None,
            "ends": np.array([4, 2], np.int32),
            "ends and beginnings": np.array([4, 3, 1, 0], np.int32),
            "rows": np.array([[1, 1, 1, 0], [0, 1, 1, 1]], np.int32),
            "all hidden": np.array([[0, 0, 0, 0], [0, 1, 0, 1]], np.int32),
            "matrix": rng.integers(0, 2, (b, s, s)).astype(np.int32),
        }
        for name, mask in masks.items():
            for causal in (0, 1):
                with self.subTest(mask=name, causal=causal):
                    self.fused("Attention", {"x": x, "W": w, "B": bias, "m": mask}, one, num_heads=n, unidirectional=causal)
        past = some(2, b, n, p, d // n)
        both = {"y": TensorProto.FLOAT, "present": TensorProto.FLOAT}
        for causal in (0, 1):
            with self.subTest(past=True, causal=causal):
                self.fused("Attention", {"x": x, "W": w, "B": bias, "m": None, "past": past}, both, num_heads=n, unidirectional=causal)
                rows = np.array([[1] * 7, [0, 0, 1, 1, 1, 1, 1]], np.int32)
                self.fused("Attention", {"x": x, "W": w, "B": bias, "m": rows, "past": past}, both, num_heads=n, unidirectional=causal)
        with self.subTest("attributes"):
            self.fused("Attention", {"x": x, "W": w, "B": bias}, one, num_heads=n, scale=0.3)
            self.fused("Attention", {"x": x, "W": some(d, 2 * d + 4), "B": some(2 * d + 4)}, one, num_heads=n, qkv_hidden_sizes=[d, d, 4])
            self.fused("Attention", {"x": x, "W": w, "B": bias, "m": masks["rows"]}, one, num_heads=n, mask_filter_value=-1.0, unidirectional=1)
            self.fused("Attention", {"x": x, "W": w, "B": bias, "m": masks["rows"], "past": None, "add": some(1, n, s, s)}, one, num_heads=n)

    def test_multi_head_attention(self) -> None:
        rng, some = numbers(3)
        b, s, t, n, h, d = 2, 3, 5, 2, 4, 8
        q, k, v, bias = some(b, s, d), some(b, t, d), some(b, t, d), some(3 * d)
        one = {"y": TensorProto.FLOAT}
        for name, mask in {"none": None, "ends": np.array([5, 2], np.int32), "rows": np.array([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]], np.int32)}.items():
            with self.subTest(mask=name):
                self.fused("MultiHeadAttention", {"q": q, "k": k, "v": v, "B": bias, "m": mask}, one, num_heads=n)
        with self.subTest("forms"):
            self.fused("MultiHeadAttention", {"q": q, "k": some(b, n, t, h), "v": some(b, n, t, h)}, one, num_heads=n)
            self.fused("MultiHeadAttention", {"q": q, "k": k, "v": some(b, t, 12), "B": some(2 * d + 12)}, one, num_heads=n)
        three = {"y": TensorProto.FLOAT, "pk": TensorProto.FLOAT, "pv": TensorProto.FLOAT}
        own, past = some(b, s, d), {"past_key": some(b, n, 2, h), "past_value": some(b, n, 2, h)}
        for causal in (0, 1):
            with self.subTest("past", causal=causal):
                inputs = {"q": q, "k": own, "v": some(b, s, d), "B": bias, "m": None, "add": some(1, 1, s, s + 2), **past}
                self.fused("MultiHeadAttention", inputs, three, num_heads=n, unidirectional=causal)

    def test_embeddings(self) -> None:
        rng, some = numbers(4)
        ids, segments = rng.integers(0, 20, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
        tables = {"Word": some(20, 6), "Position": some(9, 6), "Segment": some(2, 6), "Gamma": some(6), "Beta": some(6)}
        mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
        two = {"y": TensorProto.FLOAT, "count": TensorProto.INT32}
        self.fused("EmbedLayerNormalization", {"ids": ids, "segments": segments, **tables, "mask": mask}, {**two, "sum": TensorProto.FLOAT}, epsilon=1e-5, mask_index_type=1)
        self.fused("EmbedLayerNormalization", {"ids": ids, "segments": segments, **tables}, two)
        self.fused("EmbedLayerNormalization", {"ids": ids, "none": None, **tables, "Segment": None}, two)
        positions = np.array([[4, 3, 2, 1, 0]], np.int32)
        self.fused("EmbedLayerNormalization", {"ids": ids, "none": None, **tables, "Segment": None, "nomask": None, "places": positions}, two)
        self.fused("EmbedLayerNormalization", {"ids": ids, "segments": segments, **tables, "nomask": None, "places": positions.repeat(2, 0)}, two)

    def test_positions_and_activations(self) -> None:
        rng, some = numbers(6)
        one = {"y": TensorProto.FLOAT}
        tables = {"Cos": some(9, 4), "Sin": some(9, 4)}
        places = rng.integers(0, 9, (2, 3))
        self.fused("RotaryEmbedding", {"x": some(2, 3, 16), "p": places, **tables}, one)
        self.fused("RotaryEmbedding", {"x": some(2, 3, 16), "p": np.array([4]), **tables}, one, interleaved=1)
        self.fused("RotaryEmbedding", {"x": some(2, 2, 3, 8), "p": np.array([2]), **tables}, one)
        self.fused("RotaryEmbedding", {"x": some(2, 3, 24), "p": places, **tables}, one, num_heads=2, rotary_embedding_dim=8)
        self.fused("QuickGelu", {"x": some(2, 5)}, one, alpha=1.3)
        self.fused("BiasGelu", {"x": some(2, 5), "B": some(5)}, one)
        self.fused("FastGelu", {"x": some(2, 5), "B": some(5)}, one)
        self.fused("FusedMatMul", {"x": some(2, 5, 3), "z": some(2, 4, 5)}, one, alpha=0.3, transA=1, transB=1)
        self.fused("FusedMatMul", {"x": some(5, 2, 3), "z": some(2, 3, 4)}, one, transBatchA=1)
        norm = {"x": some(2, 3, 8), "z": some(2, 3, 8), "Gamma": some(8), "Beta": some(8), "Bias": some(8)}
        self.fused("SkipLayerNormalization", norm, one, epsilon=1e-5)
        del norm["Beta"]
        self.fused("SkipSimplifiedLayerNormalization", norm, one, epsilon=1e-5)

    @unittest.skipUnless(dots_are_exact(), "this processor's products of 8-bit integers saturate in ONNX Runtime")
    def test_quantized_attention(self) -> None:
        rng = np.random.default_rng(5)
        x, w = rng.integers(0, 255, (2, 4, 8)).astype(np.uint8), rng.integers(-127, 127, (8, 24)).astype(np.int8)
        bias = rng.standard_normal(24).astype(np.float32)
        scale = np.array(0.02, np.float32)
        one = {"y": TensorProto.FLOAT}
        for name, mask in {"none": None, "ends": np.array([4, 2], np.int32), "rows": np.array([[1, 1, 1, 0], [0, 1, 1, 1]], np.int32)}.items():
            for each in (np.array(0.01, np.float32), rng.uniform(0.005, 0.02, 24).astype(np.float32)):
                zero = np.zeros(each.shape, np.int8)
                with self.subTest(mask=name, each=each.shape):
                    inputs = {"x": x, "W": w, "B": bias, "Xs": scale, "Ws": each, "m": mask, "Xz": np.array(120, np.uint8), "Wz": zero}
                    self.fused("QAttention", inputs, one, num_heads=2, unidirectional=int(each.ndim))
