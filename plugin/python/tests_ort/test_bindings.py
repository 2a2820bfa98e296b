"""IOBinding: arrays, values and addresses that a session reads and writes, run after run."""

from __future__ import annotations

import unittest

import numpy as np
from onnx import TensorProto, helper

from both import Programs, both, dense, identity, of_dense, pair

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


@both
class Bindings(Programs):
    def setUp(self) -> None:
        super().setUp()
        self.model = dense().SerializeToString()

    def test_the_guide(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        (y,) = binding.copy_outputs_to_cpu()
        np.testing.assert_allclose(y, of_dense(X), rtol=1e-6)

    def test_values_of_the_guide(self) -> None:
        session = self.session(self.model)
        x = self.ort.OrtValue.ortvalue_from_numpy(X, "cpu", 0)
        y = self.ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32, "cpu", 0)
        binding = session.io_binding()
        binding.bind_input(name="x", device_type=x.device_name(), device_id=0, element_type=np.float32, shape=x.shape(), buffer_ptr=x.data_ptr())
        binding.bind_output(name="y", device_type=y.device_name(), device_id=0, element_type=np.float32, shape=y.shape(), buffer_ptr=y.data_ptr())
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        np.testing.assert_allclose(y.numpy(), of_dense(X), rtol=1e-6)
        self.assertEqual(binding.get_outputs()[0].data_ptr(), y.data_ptr())

    def test_bound_arrays_are_read_again(self) -> None:
        session = self.session(self.model)
        x = X.copy()
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        first = binding.get_outputs()[0]
        at = first.data_ptr()
        for n in range(3):
            x[:] = n
            session.run_with_iobinding(binding)
            np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], of_dense(x), rtol=1e-6)
            np.testing.assert_allclose(first.numpy(), of_dense(x), rtol=1e-6)
            self.assertEqual(binding.get_outputs()[0].data_ptr(), at)

    def test_bound_addresses_are_read_and_written(self) -> None:
        session = self.session(self.model)
        x, y = X.copy(), np.zeros((2, 4), np.float32)
        binding = session.io_binding()
        for element_type in (np.float32, 1, "float32", np.dtype("float32")):
            binding.bind_input("x", "cpu", 0, element_type, x.shape, x.ctypes.data)
            binding.bind_output("y", "cpu", 0, element_type, y.shape, y.ctypes.data)
            for n in (1, 2):
                x[:] = n
                session.run_with_iobinding(binding)
                np.testing.assert_allclose(y, of_dense(x), rtol=1e-6)

    def test_bound_values(self) -> None:
        session = self.session(self.model)
        x, y = X.copy(), np.zeros((2, 4), np.float32)
        binding = session.io_binding()
        value = self.value(x)
        binding.bind_ortvalue_input("x", value)
        binding.bind_ortvalue_output("y", self.value(y))
        for n in (1, 2):
            value.update_inplace(np.full((2, 3), n, np.float32))
            session.run_with_iobinding(binding)
            np.testing.assert_allclose(y, of_dense(x), rtol=1e-6)
        with self.assertRaises(AttributeError):
            binding.bind_ortvalue_input("x", x)

    def test_another_shape_needs_another_binding(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        larger = np.ones((5, 3), np.float32)
        binding.bind_cpu_input("x", larger)
        with self.assertRaises(RuntimeError):
            session.run_with_iobinding(binding)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], of_dense(larger), rtol=1e-6)
        binding.clear_binding_inputs()
        binding.clear_binding_outputs()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        self.assertEqual(binding.get_outputs()[0].shape(), [2, 4])

    def test_outputs_that_do_not_fit(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        y = np.full(12, 7, np.float32)
        for kind, shape, said in ((np.float32, [4, 2], "index: 1 Got: 2 Expected: 4"), (np.float32, [8], "Invalid rank for output: y Got: 1 Expected: 2"), (np.int32, [2, 4], "Unexpected output data type"), (np.float32, [3, 4], "")):
            binding.bind_output("y", "cpu", 0, kind, shape, y.ctypes.data)
            with self.assertRaisesRegex(RuntimeError, said):
                session.run_with_iobinding(binding)
        self.assertEqual((y.min(), y.max()), (7, 7))
        with self.assertRaisesRegex(ValueError, "`element_type` and `shape` are to be provided"):
            binding.bind_output("y", "cpu", 0, None, None, y.ctypes.data)
        for value in (self.ort.OrtValue.ortvalue_from_shape_and_type([3, 4], np.float32), self.ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float64)):
            binding.bind_ortvalue_output("y", value)
            with self.assertRaises(RuntimeError):
                session.run_with_iobinding(binding)

    def test_names(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        with self.assertRaisesRegex(RuntimeError, "Failed to find NodeArg with name: nope in the def list"):
            binding.bind_cpu_input("nope", X)
        with self.assertRaisesRegex(RuntimeError, "Failed to find input name in the mapping: nope"):
            binding.bind_input("nope", "cpu", 0, np.float32, X.shape, X.ctypes.data)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        with self.assertRaisesRegex(RuntimeError, "At least one output should be requested"):
            session.run_with_iobinding(binding)
        binding.bind_output("nope")
        with self.assertRaisesRegex(RuntimeError, "Invalid output name: ?nope"):
            session.run_with_iobinding(binding)
        binding.clear_binding_outputs()
        self.assertEqual(binding.get_outputs(), [])
        binding.bind_output("y")
        self.assertEqual([v.has_value() for v in binding.get_outputs()], [False])
        binding.clear_binding_inputs()
        with self.assertRaisesRegex(RuntimeError, "Missing Input: x"):
            session.run_with_iobinding(binding)

    def test_types(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_output("y")
        for bad in ([[1.0, 2.0, 3.0]], ["a"], None):
            with self.assertRaisesRegex(RuntimeError, "Unable to create OrtValue from the given python object"):
                binding.bind_cpu_input("x", bad)
        binding.bind_cpu_input("x", X.astype(np.float64))
        with self.assertRaisesRegex(RuntimeError, "Unexpected input data type"):
            session.run_with_iobinding(binding)
        binding.bind_ortvalue_input("x", self.value(X.astype(np.float64)))
        with self.assertRaisesRegex(RuntimeError, "Unexpected input data type"):
            session.run_with_iobinding(binding)
        binding.bind_input("x", "cpu", 0, np.float64, X.shape, X.ctypes.data)
        with self.assertRaisesRegex(RuntimeError, "Unexpected input data type"):
            session.run_with_iobinding(binding)
        with self.assertRaisesRegex(RuntimeError, "Only binding non-string Tensors"):
            binding.bind_input("x", "cpu", 0, np.str_, X.shape, X.ctypes.data)
        with self.assertRaises(RuntimeError):
            binding.bind_input("x", "cpu", 0, np.float32, [2, -3], X.ctypes.data)
        with self.assertRaisesRegex(RuntimeError, "tensor type 99 is not supported"):
            binding.bind_input("x", "cpu", 0, 99, X.shape, X.ctypes.data)
        with self.assertRaisesRegex(Exception, "Unsupported device type: foo"):
            binding.bind_input("x", "foo", 0, np.float32, X.shape, X.ctypes.data)

    def test_twelve_types(self) -> None:
        for kind in ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "BOOL"):
            number = getattr(TensorProto, kind)
            dtype = helper.tensor_dtype_to_np_dtype(number)
            session = self.session(identity(number).SerializeToString())
            x, y = np.array([0, 1, 1], dtype), np.zeros(3, dtype)
            binding = session.io_binding()
            for element_type in (dtype, number):
                y[:] = 0
                binding.bind_input("x", "cpu", 0, element_type, [3], x.ctypes.data)
                binding.bind_output("y", "cpu", 0, element_type, [3], y.ctypes.data)
                session.run_with_iobinding(binding)
                np.testing.assert_array_equal(y, x, kind)

    def test_compiled_classes(self) -> None:
        c = self.state
        device = c.OrtDevice(c.OrtDevice.cpu(), c.OrtDevice.default_memory(), 0)
        for number in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT16):
            dtype = helper.tensor_dtype_to_np_dtype(number)
            session = self.session(identity(number).SerializeToString())
            x = np.array([0, 1, 1], dtype)
            value = c.OrtValue.ortvalue_from_numpy(x, device)
            for bind in (
                lambda b, v=value: b.bind_ortvalue_input("x", v),
                lambda b, v=x: b.bind_input("x", v),
                lambda b, v=value, d=dtype: b.bind_input("x", device, d, [3], v.data_ptr()),
            ):
                binding = c.SessionIOBinding(session._sess)
                bind(binding)
                binding.bind_output("y", device)
                session._sess.run_with_iobinding(binding, None)
                outputs = binding.get_outputs()
                self.assertIsInstance(outputs, c.OrtValueVector)
                np.testing.assert_array_equal(outputs[0].numpy(), x)
                self.assertEqual(outputs.element_type_at(0), number)
                self.assertEqual(outputs.bool_tensor_indices(), [0] if number == TensorProto.BOOL else [])
                np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], x)

    def test_vectors(self) -> None:
        session = self.session(self.model)
        feeds, fetches = self.state.OrtValueVector(), self.state.OrtValueVector()
        feeds.push_back(self.value(X)._get_c_value())
        cpu = self.state.OrtDevice(self.state.OrtDevice.cpu(), self.state.OrtDevice.default_memory(), 0)
        session.run_with_ortvaluevector(self.ort.RunOptions(), ["x"], feeds, ["y"], fetches, [cpu])
        self.assertEqual(len(fetches), 1)
        np.testing.assert_allclose(fetches[0].numpy(), of_dense(X), rtol=1e-6)

    def test_order_is_that_of_binding(self) -> None:
        session = self.session(pair().SerializeToString())
        a = np.array([1, 2, 3], np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("a", a)
        binding.bind_cpu_input("b", a)
        binding.bind_output("neg")
        binding.bind_output("sum")
        session.run_with_iobinding(binding)
        n, s = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(n, -a * a)
        np.testing.assert_array_equal(s, a + a)
        binding.bind_output("neg")
        self.assertEqual([v.has_value() for v in binding.get_outputs()], [False, True])

    def test_an_output_over_an_input(self) -> None:
        session = self.session(pair().SerializeToString())
        a = np.array([1, 2, 3], np.float32)
        for value in (self.value(a), self.ort.OrtValue.ortvalue_from_shape_and_type([3], np.float32)):
            value.update_inplace(np.array([1, 2, 3], np.float32))
            binding = session.io_binding()
            binding.bind_ortvalue_input("a", value)
            binding.bind_ortvalue_input("b", value)
            binding.bind_ortvalue_output("sum", value)
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(value.numpy(), [2, 4, 6])

    def test_an_array_that_is_not_contiguous_is_copied_when_it_is_bound(self) -> None:
        session = self.session(self.model)
        x = np.arange(6, dtype=np.float32).reshape(3, 2).T
        want = of_dense(x)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        x[:] = 0
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], want, rtol=1e-6)

    def test_copies_are_copies(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        copied = binding.copy_outputs_to_cpu()[0]
        binding.get_outputs()[0].numpy()[:] = 5
        self.assertEqual(binding.copy_outputs_to_cpu()[0].max(), 5)
        np.testing.assert_allclose(copied, of_dense(X), rtol=1e-6)

    def test_bindings_belong_to_their_session(self) -> None:
        one, other = self.session(self.model), self.session(self.model)
        binding = one.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y")
        with self.assertRaisesRegex(ValueError, "IOBinding must be used with the session that created it"):
            other.run_with_iobinding(binding)
        one.run_with_iobinding(binding, self.ort.RunOptions())
        one.set_providers(["CPUExecutionProvider"])
        with self.assertRaisesRegex(ValueError, "IOBinding must be used with the session that created it"):
            one.run_with_iobinding(binding)
        with self.assertRaises(AttributeError):
            one.run_with_iobinding(3)

    def test_outputs_on_other_devices_of_a_session_of_the_processor(self) -> None:
        session = self.session(self.model)
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_output("y", "cuda")
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], of_dense(X), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
