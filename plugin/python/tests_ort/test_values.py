"""OrtValues, devices and descriptions of memory."""

from __future__ import annotations

import copy
import pickle
import unittest

import numpy as np

from both import Programs, both


@both
class Values(Programs):
    def test_a_value_is_its_array(self) -> None:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        v = self.value(x)
        self.assertEqual(v.data_ptr(), x.ctypes.data)
        self.assertEqual((v.shape(), v.data_type(), v.element_type(), v.device_name()), ([2, 3], "tensor(float)", 1, "cpu"))
        self.assertEqual((v.is_tensor(), v.is_sparse_tensor(), v.is_tensor_sequence(), v.has_value()), (True, False, False, True))
        self.assertEqual(v.tensor_size_in_bytes(), 24)
        x[0, 0] = 9
        self.assertEqual(v.numpy()[0, 0], 9)
        self.assertEqual(v.numpy().ctypes.data, x.ctypes.data)
        v.update_inplace(np.full((2, 3), 2, np.float32))
        np.testing.assert_array_equal(x, np.full((2, 3), 2, np.float32))
        self.assertEqual(np.asarray(v).ctypes.data, x.ctypes.data)
        self.assertNotEqual(np.array(v).ctypes.data, x.ctypes.data)
        self.assertEqual(np.asarray(v, dtype=np.float64).dtype, np.float64)

    def test_updates(self) -> None:
        x = np.zeros((2, 3), np.float32)
        v = self.value(x)
        v.update_inplace(np.arange(6, dtype=np.float32).reshape(3, 2))
        np.testing.assert_array_equal(x, np.arange(6, dtype=np.float32).reshape(2, 3))
        v.update_inplace(self.value(np.full((2, 3), 5, np.float32)))
        self.assertEqual(x.min(), 5)
        v.update_inplace(np.arange(6, dtype=np.float32).reshape(3, 2).T)
        np.testing.assert_array_equal(x, [[0, 2, 4], [1, 3, 5]])
        with self.assertRaisesRegex(RuntimeError, "does not match the size of the OrtValue"):
            v.update_inplace(np.zeros((3, 3), np.float32))
        with self.assertRaisesRegex(RuntimeError, "must have the same data type"):
            v.update_inplace(self.value(np.zeros((2, 3), np.int32)))
        with self.assertRaisesRegex(TypeError, "data must be a numpy.ndarray or an OrtValue"):
            v.update_inplace([1.0])

    def test_types(self) -> None:
        names = {"float32": "float", "float64": "double"}
        for i, name in ((1, "float32"), (2, "uint8"), (3, "int8"), (4, "uint16"), (5, "int16"), (6, "int32"), (7, "int64"), (9, "bool"), (10, "float16"), (11, "float64"), (12, "uint32"), (13, "uint64")):
            for v in (self.value(np.ones(2, name)), self.ort.OrtValue.ortvalue_from_shape_and_type([2], name), self.ort.OrtValue.ortvalue_from_shape_and_type([2], i)):
                self.assertEqual(v.data_type(), f"tensor({names.get(name, name)})")
                self.assertEqual(v.element_type(), i)
                self.assertEqual(v.numpy().dtype, np.dtype(name))
        for bad in (np.array(["a"]), np.array(["a"], dtype=object), [1.0], np.float32(1)):
            with self.assertRaisesRegex(RuntimeError, "only supported from non-string numpy arrays"):
                self.value(bad)
        with self.assertRaisesRegex(RuntimeError, "can't be converted to MLDataType"):
            self.value(np.zeros(2, np.complex64))

    def test_types_that_numpy_has_not(self) -> None:
        v = self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, np.uint16), 16)
        self.assertEqual((v.data_type(), v.element_type(), v.tensor_size_in_bytes()), ("tensor(bfloat16)", 16, 6))
        with self.assertRaisesRegex(RuntimeError, "No corresponding Numpy type"):
            v.numpy()
        self.assertEqual(self.ort.OrtValue.ortvalue_from_shape_and_type([2], 16).data_type(), "tensor(bfloat16)")
        self.assertEqual(self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, np.uint8), 17).data_type(), "tensor(float8e4m3fn)")
        with self.assertRaisesRegex(RuntimeError, "Items size in the incoming array: 4"):
            self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, np.float32), 16)
        with self.assertRaisesRegex(RuntimeError, "Not a valid ONNX Tensor data type: 99"):
            self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, np.float32), 99)

    def test_shapes(self) -> None:
        make = self.ort.OrtValue.ortvalue_from_shape_and_type
        v = make([2, 3], np.float32, "cpu", 0)
        self.assertEqual((v.shape(), v.tensor_size_in_bytes(), v.device_name()), ([2, 3], 24, "cpu"))
        v.numpy()[:] = 4
        self.assertEqual(v.numpy().sum(), 24)
        self.assertEqual(make((), np.int64).shape(), [])
        self.assertEqual(make([0, 2], np.int64).tensor_size_in_bytes(), 0)
        self.assertEqual(self.value(np.array(3, np.float32)).shape(), [])
        with self.assertRaises(RuntimeError):
            make([2, -3], np.float32)
        with self.assertRaises(TypeError):
            make([2.0, 3], np.float32)
        with self.assertRaises(MemoryError):
            make([1 << 45], np.float32)
        with self.assertRaisesRegex(RuntimeError, "tensor type 99 is not supported"):
            make([2], 99)
        with self.assertRaises(RuntimeError):
            make([2], np.str_)

    def test_arrays_that_are_not_contiguous_are_copied(self) -> None:
        x = np.arange(6, dtype=np.float32).reshape(2, 3).T
        v = self.value(x)
        np.testing.assert_array_equal(v.numpy(), x)
        self.assertNotEqual(v.data_ptr(), x.ctypes.data)

    def test_dlpack(self) -> None:
        x = np.arange(4, dtype=np.float32)
        v = self.ort.OrtValue.from_dlpack(x)
        self.assertEqual(v.data_ptr(), x.ctypes.data)
        self.assertEqual(np.from_dlpack(self.value(x)).ctypes.data, x.ctypes.data)
        self.assertEqual(self.value(x).__dlpack_device__(), (1, 0))
        with self.assertRaises(TypeError):
            self.ort.OrtValue.from_dlpack(3)
        for make in (lambda: self.value(x)._ortvalue.to_dlpack(), lambda: self.value(x)._ortvalue.__dlpack__(), x.__dlpack__):
            capsule = make()
            self.assertFalse(self.state.is_dlpack_uint8_tensor(capsule))
            v = self.state.OrtValue.from_dlpack(capsule, False)
            self.assertEqual(v.data_ptr(), x.ctypes.data)
            np.testing.assert_array_equal(v.numpy(), x)
            v.update_inplace(x + 1)
            np.testing.assert_array_equal(v.numpy(), x)
        self.assertEqual(x[0], 3)
        self.assertTrue(self.state.is_dlpack_uint8_tensor(np.zeros(3, np.uint8).__dlpack__()))
        truths = self.ort.OrtValue.from_dlpack(self.value(np.array([True, False])))
        np.testing.assert_array_equal(truths.numpy(), [True, False])
        for shape in ((1, 8, 0, 128), (0,), (0, 4), (4, 0)):
            self.assertEqual(list(self.state.OrtValue.from_dlpack(np.zeros(shape, np.float32).__dlpack__(), False).shape()), list(shape))

    def test_values_stay_in_their_process(self) -> None:
        v = self.value(np.zeros(2, np.float32))
        with self.assertRaisesRegex(TypeError, "cannot pickle"):
            pickle.dumps(v)
        self.assertEqual(copy.copy(v).data_ptr(), v.data_ptr())
        with self.assertRaises(ValueError):
            self.ort.OrtValue(3)

    def test_devices(self) -> None:
        make = self.ort.OrtDevice.make
        for name, kind, vendor in (("cpu", 0, 0), ("cuda", 1, 0x10DE), ("dml", 1, 0x1414), ("gpu", 1, 0), ("npu", 3, 0), ("cann", 3, 0x19E5), ("webgpu", 1, 0)):
            d = make(name, 1)
            self.assertEqual((d.device_type(), d.device_id(), d.device_vendor_id(), d.device_mem_type()), (kind, 1, vendor, 0))
        self.assertEqual(make("gpu", 0, self.ort.OrtDeviceVendorId.AMD).device_vendor_id(), 0x1002)
        for bad in ("foo", "CPU"):
            with self.assertRaisesRegex(Exception, f"Unsupported device type: {bad}"):
                make(bad, 0)
        with self.assertRaises(TypeError):
            make("cpu", "0")

    def test_memory_infos(self) -> None:
        o = self.ort
        m = o.OrtMemoryInfo("Cpu", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)
        self.assertEqual((m.name, m.device_id, m.mem_type, m.allocator_type), ("Cpu", 0, o.OrtMemType.DEFAULT, o.OrtAllocatorType.ORT_ARENA_ALLOCATOR))
        self.assertEqual((m.device_mem_type, m.device_vendor_id), (o.OrtDeviceMemoryType.DEFAULT, 0))
        m = o.OrtMemoryInfo("CudaPinned", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.CPU_OUTPUT)
        self.assertEqual((m.device_mem_type, m.device_vendor_id), (o.OrtDeviceMemoryType.HOST_ACCESSIBLE, 0x10DE))
        m = o.OrtMemoryInfo.create_v2("Mine", o.OrtMemoryInfoDeviceType.GPU, 0x10DE, 1, o.OrtDeviceMemoryType.HOST_ACCESSIBLE, 64, o.OrtAllocatorType.ORT_DEVICE_ALLOCATOR)
        self.assertEqual((m.name, m.device_id, m.mem_type, m.device_vendor_id), ("Mine", 1, o.OrtMemType.CPU_OUTPUT, 0x10DE))
        for bad in ("Foo", "cpu", "CUDA"):
            with self.assertRaisesRegex(RuntimeError, "Specified device is not supported"):
                o.OrtMemoryInfo(bad, o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)

    def test_enumerations(self) -> None:
        o = self.ort
        level = o.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.assertEqual((int(level), level.name, level.value, str(level), repr(level)), (99, "ORT_ENABLE_ALL", 99, "GraphOptimizationLevel.ORT_ENABLE_ALL", "<GraphOptimizationLevel.ORT_ENABLE_ALL: 99>"))
        self.assertEqual(level, 99)
        self.assertEqual(pickle.loads(pickle.dumps(level)), level)
        self.assertEqual([int(m) for m in (o.OrtMemType.CPU_INPUT, o.OrtMemType.CPU_OUTPUT, o.OrtMemType.CPU, o.OrtMemType.DEFAULT)], [-2, -1, -1, 0])
        self.assertEqual(list(o.ExecutionMode.__members__), ["ORT_SEQUENTIAL", "ORT_PARALLEL"])


if __name__ == "__main__":
    unittest.main()
