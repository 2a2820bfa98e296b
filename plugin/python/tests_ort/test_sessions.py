"""Sessions: opening models, what they tell of them, runs, and what is refused with which exception."""

from __future__ import annotations

import copy
import importlib
import os
import pathlib
import pickle
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from both import Programs, W, both, chain, dense, identity, info, model, of_dense, pair

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


@both
class Sessions(Programs):
    def setUp(self) -> None:
        super().setUp()
        self.file = self.path("dense.onnx")
        onnx.save(dense(), self.file)

    def test_path_and_bytes(self) -> None:
        with open(self.file, "rb") as f:
            data = f.read()
        for given in (self.file, pathlib.Path(self.file), data):
            session = self.session(given)
            np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        session = self.ort.InferenceSession(path_or_bytes=data, sess_options=self.ort.SessionOptions(), providers=["CPUExecutionProvider"], provider_options=[{}])
        np.testing.assert_allclose(session.run(["y"], {"x": X})[0], of_dense(X), rtol=1e-6)
        for bad in (3, None, bytearray(data), memoryview(data)):
            with self.assertRaisesRegex(TypeError, "Unable to load from type"):
                self.session(bad)
        with self.assertRaises((TypeError, AttributeError)):
            self.session(data, 3)

    def test_what_it_tells(self) -> None:
        session = self.session(self.file)
        for args, name, shape in ((session.get_inputs(), "x", ["batch", 3]), (session.get_outputs(), "y", ["batch", 4])):
            self.assertEqual([(a.name, a.shape, a.type, str(a)) for a in args], [(name, shape, "tensor(float)", f"NodeArg(name='{name}', type='tensor(float)', shape={shape})")])
        m = session.get_modelmeta()
        self.assertEqual((m.producer_name, m.graph_name, m.domain, m.description, m.graph_description, m.version, m.custom_metadata_map), ("tests", "graph", "org.example", "a model", "a graph", 7, {"task": "none"}))
        self.assertEqual((session.get_providers(), session.get_provider_options()), (["CPUExecutionProvider"], {"CPUExecutionProvider": {}}))
        for memory in (*session.get_input_memory_infos(), *session.get_output_memory_infos()):
            self.assertEqual((memory.name, memory.device_id, memory.allocator_type), ("Cpu", 0, self.ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR))
        self.assertEqual([d.ep_name for d in session.get_input_epdevices()], ["CPUExecutionProvider"])
        self.assertTrue(session.get_session_options().enable_mem_pattern)
        self.assertEqual(session.get_overridable_initializers(), [])

    def test_shapes_that_models_leave_open(self) -> None:
        def told(shape: list | None) -> list:
            made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x", shape)], [info("y", shape)])
            return self.session(made.SerializeToString()).get_inputs()[0].shape

        self.assertEqual([told(shape) for shape in ([None, 3], [], None, ["a", "a"])], [[None, 3], [], [], ["a", "a"]])

    def test_initializers_that_are_inputs(self) -> None:
        session = self.session(dense(b_is_input=True).SerializeToString())
        self.assertEqual([a.name for a in session.get_inputs()], ["x"])
        self.assertEqual([(a.name, a.shape, a.type) for a in session.get_overridable_initializers()], [("b", [4], "tensor(float)")])
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        other = np.array([1, 2, 3, 4], np.float32)
        np.testing.assert_allclose(session.run(None, {"x": X, "b": other})[0], of_dense(X, b=other), rtol=1e-6)
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)

    def test_what_is_fetched(self) -> None:
        session = self.session(pair().SerializeToString())
        a, b = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
        for names in (None, [], ["sum", "neg"], ("sum", "neg")):
            s, n = session.run(names, {"a": a, "b": b})
            np.testing.assert_array_equal(s, a + b)
            np.testing.assert_array_equal(n, -a * b)
        n, s, again = session.run(["neg", "sum", "neg"], {"a": a, "b": b})
        np.testing.assert_array_equal(n, again)
        np.testing.assert_array_equal(s, a + b)
        only = self.ort.RunOptions()
        only.only_execute_path_to_fetches = True
        self.assertEqual(len(session.run(["sum"], {"a": a, "b": b}, only)), 1)
        with self.assertRaisesRegex(self.state.InvalidArgument, "Invalid output name:nope"):
            session.run(["nope"], {"a": a, "b": b})
        with self.assertRaises(TypeError):
            session.run("sum", {"a": a, "b": b})

    def test_what_is_fed(self) -> None:
        session = self.session(self.file)
        for x in (X, X.tolist(), [row for row in X], np.asfortranarray(X), self.value(X), np.lib.stride_tricks.as_strided(X, X.shape, X.strides)):
            np.testing.assert_allclose(session.run(None, {"x": x})[0], of_dense(X), rtol=1e-6)
        for n in (1, 7, 2, 0, 7):
            x = np.ones((n, 3), np.float32)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], of_dense(x), rtol=1e-6)
        for feed in ({}, {"y": X}):
            with self.assertRaises(ValueError) as e:
                session.run(None, feed)
            self.assertIn(f"Required inputs (['x']) are missing from input feed ({list(feed)})", str(e.exception))
        with self.assertRaisesRegex(self.state.InvalidArgument, "Invalid input name: q"):
            session.run(None, {"x": X, "q": X})
        with self.assertRaisesRegex(self.state.InvalidArgument, "Invalid input name: w"):
            session.run(None, {"x": X, "w": W})
        for x, name in ((X.astype(np.float64), "double"), (X.astype(np.int64), "int64"), (np.array([["a"]]), "string")):
            with self.assertRaises(self.state.InvalidArgument) as e:
                session.run(None, {"x": x})
            self.assertIn(f"Unexpected input data type. Actual: (tensor({name})) , expected: (tensor(float))", str(e.exception))
        with self.assertRaisesRegex(self.state.InvalidArgument, "Invalid rank for input: x Got: 1 Expected: 2"):
            session.run(None, {"x": X[0]})
        with self.assertRaisesRegex(self.state.InvalidArgument, "Got invalid dimensions for input: x(.|\n)*index: 1 Got: 2 Expected: 3"):
            session.run(None, {"x": X[:, :2]})
        for bad in ([["a", 1.0, 2.0]], [[1.0], [2.0, 3.0]]):
            with self.assertRaisesRegex(RuntimeError, "Could not create tensor from given input list"):
                session.run(None, {"x": bad})
        with self.assertRaisesRegex(RuntimeError, "Unable to handle object of type <class 'float'>"):
            session.run(None, {"x": 3.0})
        with self.assertRaises(AttributeError):
            session.run(None, [X])
        with self.assertRaises(TypeError):
            session.run(None, {"x": X}, 3)
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)

    def test_types(self) -> None:
        for kind in ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "BOOL"):
            number = getattr(TensorProto, kind)
            x = np.array([0, 1, 1], helper.tensor_dtype_to_np_dtype(number))
            y = self.session(identity(number).SerializeToString()).run(None, {"x": x})[0]
            self.assertEqual(y.dtype, x.dtype, kind)
            np.testing.assert_array_equal(y, x)

    def test_results_belong_to_the_program(self) -> None:
        session = self.session(self.file)
        first = session.run(None, {"x": X})[0]
        kept = first.copy()
        first.flags.writeable  # noqa: B018
        for n in range(1, 20):
            session.run(None, {"x": np.full((n, 3), n, np.float32)})
        np.testing.assert_array_equal(first, kept)
        first[:] = 0
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], kept)
        del session
        self.assertEqual(first.max(), 0)

    def test_an_input_that_is_an_output(self) -> None:
        made = model([helper.make_node("Add", ["x", "c"], ["y"])], [info("x", [1, 2])], [info("y", [1, 2]), info("x", [1, 2])], {"c": np.array(10, np.float32)})
        for level in (self.ort.GraphOptimizationLevel.ORT_DISABLE_ALL, self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
            so = self.ort.SessionOptions()
            so.graph_optimization_level = level
            session = self.session(made.SerializeToString(), so)
            runs = []
            for i in range(5):
                x = np.full((1, 2), i, np.float32)
                runs.append(session.run(None, {"x": x}))
                self.assertFalse(np.shares_memory(runs[-1][1], x))
            for i, (y, x) in enumerate(runs):
                np.testing.assert_array_equal(y, np.full((1, 2), i + 10, np.float32))
                np.testing.assert_array_equal(x, np.full((1, 2), i, np.float32))
            self.assertIsNotNone(runs[0][0].base)

    def test_values(self) -> None:
        vector = self.session(self.file)._sess.run_with_ort_values({"x": self.value(X)._get_c_value()}, ["y"], self.ort.RunOptions())
        self.assertIsInstance(vector, self.state.OrtValueVector)
        session = self.session(self.file)
        for names in (None, ["y"]):
            (y,) = session.run_with_ort_values(names, {"x": self.value(X)})
            np.testing.assert_allclose(y.numpy(), of_dense(X), rtol=1e-6)
            self.assertEqual((y.shape(), y.data_type(), y.device_name()), ([2, 4], "tensor(float)", "cpu"))
        with self.assertRaises(self.state.InvalidArgument):
            session.run_with_ort_values(["y"], {"x": self.value(X.astype(np.float64))})
        with self.assertRaises(ValueError):
            session.run_with_ort_values(["y"], {})
        with self.assertRaises(AttributeError):
            session.run_with_ort_values(["y"], {"x": X})

    def test_models_that_cannot_be_opened(self) -> None:
        with self.assertRaisesRegex(self.state.NoSuchFile, "NO_SUCHFILE"):
            self.session(self.path("none.onnx"))
        with open(self.path("garbage.onnx"), "wb") as f:
            f.write(b"garbage" * 10)
        whole = pair().SerializeToString()
        for bad in (self.path("garbage.onnx"), b"garbage" * 10, whole[: len(whole) // 2], self.folder.name):
            with self.assertRaisesRegex(self.state.InvalidProtobuf, "INVALID_PROTOBUF"):
                self.session(bad)
        open(self.path("empty.onnx"), "wb").close()
        for bad in (self.path("empty.onnx"), b""):
            with self.assertRaises(self.state.InvalidArgument):
                self.session(bad)
        with self.assertRaises(TypeError):
            self.session("")
        unknown = model([helper.make_node("Foo", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])])
        with self.assertRaisesRegex(self.state.InvalidGraph, "Foo"):
            self.session(unknown.SerializeToString())
        wrong = model([helper.make_node("Not", ["x"], ["y"])], [info("x", ["n"])], [info("y", ["n"])])
        with self.assertRaises((self.state.InvalidGraph, self.state.InvalidArgument)):
            self.session(wrong.SerializeToString()).run(None, {"x": X[0]})
        later = dense()
        later.opset_import[0].version = 99
        with self.assertRaises(self.state.Fail):
            self.session(later.SerializeToString())

    def test_formats(self) -> None:
        os.link(self.file, self.path("dense.ort"))
        with self.assertRaisesRegex(self.state.Fail, "ORT model verification failed"):
            self.session(self.path("dense.ort"))
        so = self.ort.SessionOptions()
        so.add_session_config_entry("session.load_model_format", "ORT")
        with self.assertRaisesRegex(self.state.Fail, "ORT model verification failed"):
            self.session(self.file, so)
        so = self.ort.SessionOptions()
        so.add_session_config_entry("session.load_model_format", "ONNX")
        self.session(self.path("dense.ort"), so)

    def test_a_session_that_is_canceled(self) -> None:
        so = self.ort.SessionOptions()
        so.set_load_cancellation_flag(True)
        with self.assertRaises(self.state.ModelLoadCanceled):
            self.session(self.file, so)
        so.set_load_cancellation_flag(False)
        self.session(self.file, so)

    def test_run_options(self) -> None:
        session = self.session(self.file)
        ro = self.ort.RunOptions()
        ro.logid, ro.log_severity_level = "mine", 3
        ro.add_run_config_entry("an.entry.of.no.meaning", "1")
        np.testing.assert_allclose(session.run(None, {"x": X}, ro)[0], of_dense(X), rtol=1e-6)
        ro.terminate = True
        with self.assertRaisesRegex(self.state.Fail, "terminate flag"):
            session.run(None, {"x": X}, ro)
        ro.terminate = False
        session.run(None, {"x": X}, ro)

    def test_levels_give_the_same(self) -> None:
        for level in self.ort.GraphOptimizationLevel.__members__.values():
            so = self.ort.SessionOptions()
            so.graph_optimization_level = level
            np.testing.assert_allclose(self.session(self.file, so).run(None, {"x": X})[0], of_dense(X), rtol=1e-6)

    def test_modes(self) -> None:
        for mode in self.ort.ExecutionMode.__members__.values():
            for on in (True, False):
                so = self.ort.SessionOptions()
                so.execution_mode = mode
                so.enable_mem_pattern = so.enable_cpu_mem_arena = so.enable_mem_reuse = on
                so.intra_op_num_threads = so.inter_op_num_threads = 1
                session = self.session(self.file, so)
                for n in (2, 5, 2):
                    x = np.ones((n, 3), np.float32)
                    np.testing.assert_allclose(session.run(None, {"x": x})[0], of_dense(x), rtol=1e-6)
                kind = self.ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR if on else self.ort.OrtAllocatorType.ORT_DEVICE_ALLOCATOR
                self.assertEqual(session.get_input_memory_infos()[0].allocator_type, kind)

    def test_entries_of_no_meaning(self) -> None:
        for key, value in (("session.foo", "1"), ("session.use_device_allocator_for_initializers", "1"), ("session.disable_prepacking", "1"), ("session.intra_op.allow_spinning", "0"), ("session.set_denormal_as_zero", "1")):
            so = self.ort.SessionOptions()
            so.add_session_config_entry(key, value)
            self.assertEqual(self.session(self.file, so).run(None, {"x": X})[0].shape, (2, 4))

    def test_free_dims(self) -> None:
        so = self.ort.SessionOptions()
        so.add_free_dimension_override_by_name("batch", 2)
        session = self.session(self.file, so)
        self.assertEqual([a.shape for a in session.get_inputs()], [[2, 3]])
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        with self.assertRaisesRegex(self.state.InvalidArgument, "index: 0 Got: 5 Expected: 2"):
            session.run(None, {"x": np.ones((5, 3), np.float32)})
        so = self.ort.SessionOptions()
        so.add_free_dimension_override_by_name("nope", 2)
        self.assertEqual([a.shape for a in self.session(self.file, so).get_inputs()], [["batch", 3]])

    def test_free_dims_by_denotation(self) -> None:
        made = dense()
        made.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        so = self.ort.SessionOptions()
        so.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
        self.assertEqual([a.shape for a in self.session(made.SerializeToString(), so).get_inputs()], [[2, 3]])

    def test_providers(self) -> None:
        data = dense().SerializeToString()
        for given in (None, [], ("CPUExecutionProvider",), ["CPUExecutionProvider", "CPUExecutionProvider"], [3], [("CPUExecutionProvider",)], [["CPUExecutionProvider", {}]], ["FooExecutionProvider"], "CPUExecutionProvider"):
            session = self.ort.InferenceSession(data, providers=given)
            self.assertEqual(session.get_providers(), ["CPUExecutionProvider"], given)
            np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        for names, options in ((["CPUExecutionProvider"], []), (["CPUExecutionProvider"], [3]), ([("CPUExecutionProvider", {})], [{}])):
            self.assertEqual(self.ort.InferenceSession(data, providers=names, provider_options=options).get_providers(), ["CPUExecutionProvider"])
        session = self.session(data)
        for given in (None, [], ["CPUExecutionProvider"], [("CPUExecutionProvider", {})]):
            session.set_providers(given)
            np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        session = self.session(data)
        for bad in ([3], [("CPUExecutionProvider",)], [["CPUExecutionProvider", {}]]):
            with self.assertRaisesRegex(ValueError, "either strings or"):
                session.set_providers(bad)
        with self.assertRaisesRegex(ValueError, "same length"):
            session.set_providers(["CPUExecutionProvider"], [])
        with self.assertRaisesRegex(RuntimeError, "Unknown Provider Type: FooExecutionProvider"):
            self.session(data).set_providers(["FooExecutionProvider"])

    def test_arguments_of_providers(self) -> None:
        check = importlib.import_module(f"{self.ort.__name__}.capi.onnxruntime_inference_collection").check_and_normalize_provider_args
        for providers, options, names, normal in (
            (None, None, [], []),
            (["a"], None, ["a"], [{}]),
            ([("a", {1: 2}), "b"], None, ["a", "b"], [{"1": "2"}, {}]),
            (["a", "b"], [{1: 2}, {}], ["a", "b"], [{"1": "2"}, {}]),
            (["a", "a"], None, ["a"], [{}]),
        ):
            self.assertEqual([list(r) for r in check(providers, options, ["a", "b", "c"])], [names, normal])
        with self.assertWarns(UserWarning):
            check(["d"], None, ["a", "b", "c"])
        for providers, options in ((["a"], [{}, {}]), ([("a", {})], [{}]), (["a"], {}), (["a"], [1]), ([1], None), (3, None)):
            with self.assertRaises(ValueError):
                check(providers, options, ["a"])

    def test_it_stays_in_its_process(self) -> None:
        session = self.session(self.file)
        for move in (pickle.dumps, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "cannot pickle"):
                move(session)

    def test_two_threads(self) -> None:
        session = self.session(self.file)
        wrong = []

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(50):
                x = rng.standard_normal((int(rng.integers(1, 9)), 3), dtype=np.float32)
                y = session.run(None, {"x": x})[0]
                if not np.allclose(y, of_dense(x), rtol=1e-5, atol=1e-6):
                    wrong.append(x)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_async(self) -> None:
        session = self.session(self.file)
        done = threading.Event()
        told = []

        def callback(results: list, data: object, error: str) -> None:
            told.append((results, data, error))
            done.set()

        session.run_async(["y"], {"x": X}, callback, "mine")
        self.assertTrue(done.wait(10))
        (results, data, error) = told[0]
        self.assertEqual((data, error), ("mine", ""))
        np.testing.assert_allclose(results[0], of_dense(X), rtol=1e-6)

    def test_profiling(self) -> None:
        session = self.session(self.file)
        self.assertEqual(session.end_profiling(), "")
        so = self.ort.SessionOptions()
        so.enable_profiling, so.profile_file_prefix = True, self.path("times")
        session = self.session(self.file, so)
        session.run(None, {"x": X})
        written = session.end_profiling()
        self.assertTrue(written.startswith(self.path("times_")) and written.endswith(".json"), written)
        with open(written) as f:
            self.assertIn("model_run", f.read())

    def test_values_of_a_session(self) -> None:
        v = self.session(self.file).create_ortvalue_from_shape_and_type([2, 3], np.float32, "cpu")
        self.assertEqual((v.shape(), v.data_type()), ([2, 3], "tensor(float)"))

    def test_longer_models(self) -> None:
        session = self.session(chain(9).SerializeToString())
        x = np.linspace(-1, 1, 1000, dtype=np.float32)
        y = x
        for i in range(9):
            y = np.sin(y) if i % 2 else -y
        np.testing.assert_allclose(session.run(None, {"x": x})[0], y, rtol=1e-4, atol=1e-6)

    def test_a_model_that_was_quantized(self) -> None:
        quantization = importlib.import_module(f"{self.ort.__name__}.quantization")
        rng = np.random.default_rng(0)
        w = rng.standard_normal((64, 32), dtype=np.float32)
        made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 64])], [info("y", ["n", 32])], {"w": w})
        onnx.save(made, self.path("float.onnx"))
        quantization.quantize_dynamic(self.path("float.onnx"), self.path("int8.onnx"), weight_type=quantization.QuantType.QInt8, reduce_range=not self.exact)
        x = rng.standard_normal((5, 64), dtype=np.float32)
        y = self.session(self.path("int8.onnx")).run(None, {"x": x})[0]
        self.assertLess(np.abs(y - x @ w).max(), 0.5 if self.exact else 1)
        self.assertGreater(np.abs(y - x @ w).max(), 0)

    def test_the_optimized_model(self) -> None:
        so = self.ort.SessionOptions()
        so.optimized_model_filepath = self.path("optimized.onnx")
        so.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        first = self.session(self.file, so)
        again = self.session(self.path("optimized.onnx"))
        np.testing.assert_array_equal(first.run(None, {"x": X})[0], again.run(None, {"x": X})[0])
        onnx.checker.check_model(onnx.load(self.path("optimized.onnx")))
        so.optimized_model_filepath = self.path("nowhere/optimized.onnx")
        with self.assertRaises(Exception):  # noqa: B017
            self.session(self.file, so)

    def test_the_optimized_model_with_its_weights_beside_it(self) -> None:
        so = self.ort.SessionOptions()
        os.mkdir(self.path("out"))
        so.optimized_model_filepath = self.path("out/optimized.onnx")
        so.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        so.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.bin")
        so.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1")
        first = self.session(self.file, so)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["optimized.bin", "optimized.onnx"])
        again = self.session(self.path("out/optimized.onnx"))
        np.testing.assert_array_equal(first.run(None, {"x": X})[0], again.run(None, {"x": X})[0])


if __name__ == "__main__":
    unittest.main()
