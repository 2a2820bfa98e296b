"""What memopt.ort does that ONNX Runtime does otherwise or not at all: devices, limits, errors instead of crashes, a service of its own."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import numpy as np
import onnx
from onnx import TensorProto, helper

import memopt
import memopt.ort as ort
from both import W, chain, dense, external, identity, info, model, of_dense, pair
from memopt import _host
from memopt.ort.capi.onnxruntime_pybind11_state import EngineError, Fail, InvalidArgument, NotImplemented

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


def resident(pid: int, field: str = "RssAnon") -> int:
    """Bytes of memory that a process holds."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(field))


class Quiet(unittest.TestCase):
    def setUp(self) -> None:
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")


class ErrorsInsteadOfCrashes(Quiet):
    def test_outputs_before_a_run(self) -> None:
        session = ort.InferenceSession(dense().SerializeToString())
        binding = session.io_binding()
        binding.bind_output("y")
        for use in (binding.copy_outputs_to_cpu, lambda: binding.get_outputs()[0].numpy(), lambda: binding.get_outputs()[0].shape()):
            with self.assertRaisesRegex(RuntimeError, "'y' has no value before run_with_iobinding"):
                use()

    def test_addresses_that_nobody_has(self) -> None:
        """Memory that is not there, or no longer, or in part, or not to be written to, is an error when it is bound or when the session runs."""
        session = ort.InferenceSession(dense().SerializeToString())
        page = mmap.PAGESIZE
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

        def pages() -> int:
            return int(libc.mmap(None, 2 * page, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0))

        short = pages()
        libc.mprotect(short + page, page, 0)
        freed = pages()
        libc.mprotect(freed, 2 * page, 0)  # as good as unmapped, but that nothing else comes there
        shut = pages()
        libc.mprotect(shut, 2 * page, mmap.PROT_READ)
        value = ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32)
        returned = value.data_ptr()
        del value
        for bind in (lambda b: b.bind_input("x", "cpu", 0, np.float32, [2, 3], returned), lambda b: b.bind_output("y", "cpu", 0, np.float32, [2, 4], returned)):
            with self.assertRaisesRegex(RuntimeError, "buffer_ptr is 0x.*freed"):
                bind(session.io_binding())
        ours = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
        for at in (8, 0xDEAD0000BEEF, 2**47 - 64, freed, short + page - 4, short + page, ours.data_ptr() + 8):
            for shape in ([2, 3], [10**6, 3]):
                binding = session.io_binding()
                binding.bind_output("y")
                with self.subTest(input=hex(at), shape=shape), self.assertRaisesRegex(RuntimeError, "buffer_ptr is 0x"):
                    binding.bind_input("x", "cpu", 0, np.float32, shape, at)
                    session.run_with_iobinding(binding)
        for at in (8, 0xDEAD0000BEEF, freed, short + page - 4, shut, ours.data_ptr()):
            binding = session.io_binding()
            binding.bind_cpu_input("x", X)
            with self.subTest(output=hex(at)), self.assertRaisesRegex(RuntimeError, "buffer_ptr is 0x"):
                binding.bind_output("y", "cpu", 0, np.float32, [2, 4], at)
                session.run_with_iobinding(binding)
        # Freed after it was bound.
        x, y = pages(), pages()
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, [2, 3], x)
        binding.bind_output("y", "cpu", 0, np.float32, [2, 4], y)
        session.run_with_iobinding(binding)
        libc.mprotect(y, 2 * page, 0)
        for use in (lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu, lambda: binding.get_outputs()[0].update_inplace(np.zeros((2, 4), np.float32))):
            with self.assertRaisesRegex(RuntimeError, "buffer_ptr is 0x"):
                use()
        libc.mprotect(x, page, 0)
        binding.bind_output("y")
        with self.assertRaisesRegex(RuntimeError, "buffer_ptr is 0x"):
            session.run_with_iobinding(binding)
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-5)

    def test_memory_of_ours_stays_while_it_is_bound(self) -> None:
        session = ort.InferenceSession(dense().SerializeToString())
        x, y = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32), ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32)
        x.update_inplace(X)
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, [2, 3], x.data_ptr())
        binding.bind_output("y", "cpu", 0, np.float32, [2, 4], y.data_ptr())
        del x, y
        others = [ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32) for _ in range(8)]
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], of_dense(X), rtol=1e-5)
        self.assertEqual(max(np.abs(v.numpy()).max() for v in others), 0)

    def test_updates_of_another_type(self) -> None:
        x = np.zeros(3, np.float32)
        v = ort.OrtValue.ortvalue_from_numpy(x)
        for other in (np.int32, np.float64):
            with self.assertRaisesRegex(RuntimeError, r"does not go into tensor\(float\)"):
                v.update_inplace(np.ones(3, other))
        self.assertEqual(x.max(), 0)

    def test_initializers_that_do_not_fit(self) -> None:
        for name, array, said in (("w", W.astype(np.float64), "f64"), ("w", W[:2], r"f32\[2 4\]"), ("nope", W, "nope")):
            so = ort.SessionOptions()
            so.add_initializer(name, ort.OrtValue.ortvalue_from_numpy(array))
            with self.assertRaisesRegex(Fail, said):
                ort.InferenceSession(dense().SerializeToString(), so)

    def test_arrays_that_cannot_be_written_to(self) -> None:
        fixed = np.frombuffer(bytes(32), np.float32).reshape(2, 4)
        value = ort.OrtValue.ortvalue_from_numpy(fixed)
        with self.assertRaisesRegex(RuntimeError, "cannot be written to"):
            value.update_inplace(np.ones((2, 4), np.float32))
        session = ort.InferenceSession(dense().SerializeToString())
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_ortvalue_output("y", value)
        with self.assertRaisesRegex(RuntimeError, "cannot be written to"):
            session.run_with_iobinding(binding)

    def test_addresses_of_nothing(self) -> None:
        binding = ort.InferenceSession(dense().SerializeToString()).io_binding()
        with self.assertRaisesRegex(RuntimeError, "no memory begins there"):
            binding.bind_input("x", "cpu", 0, np.float32, [2, 3], 0)
        with self.assertRaisesRegex(RuntimeError, "not the service's"):
            binding.bind_input("x", "cuda", 0, np.float32, [2, 3], X.ctypes.data)

    def test_strings_and_sparse_tensors(self) -> None:
        with self.assertRaisesRegex(NotImplemented, "string"):
            session = ort.InferenceSession(identity(TensorProto.STRING).SerializeToString())
            session.run(None, {"x": np.array(["a"])})
        with self.assertRaisesRegex(NotImplemented, "sparse tensors are not supported"):
            ort.SparseTensor.sparse_coo_from_numpy(np.array([3]), np.array([1.0]), np.array([1]), ort.OrtDevice.make("cpu", 0))
        with self.assertRaisesRegex(RuntimeError, "Only binding non-string Tensors"):
            ort.InferenceSession(dense().SerializeToString()).io_binding().bind_cpu_input("x", np.array(["a"]))

    def test_results_that_numpy_has_no_type_for(self) -> None:
        session = ort.InferenceSession(identity(TensorProto.BFLOAT16).SerializeToString())
        x = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([1, 2, 3], np.uint16), TensorProto.BFLOAT16)
        (y,) = session.run_with_ort_values(None, {"x": x})
        self.assertEqual((y.data_type(), y.shape()), ("tensor(bfloat16)", [3]))
        with self.assertRaisesRegex(RuntimeError, "bfloat16"):
            session.run(None, {"x": x})

    def test_arrays_of_the_other_byte_order(self) -> None:
        session = ort.InferenceSession(dense().SerializeToString())
        np.testing.assert_allclose(session.run(None, {"x": X.astype(">f4")})[0], of_dense(X), rtol=1e-6)

    def test_sizes_that_follow_from_numbers(self) -> None:
        nodes = [helper.make_node("NonZero", ["x"], ["y"])]
        session = ort.InferenceSession(model(nodes, [info("x", ["n"])], [info("y", [1, "k"], TensorProto.INT64)]).SerializeToString())
        for x in ([0, 1, 0, 2], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]):
            np.testing.assert_array_equal(session.run(None, {"x": np.array(x, np.float32)})[0], np.array([np.flatnonzero(x)]))
        for shape in (None, [None, None]):
            made = model(nodes, [info("x", ["n"])], [info("y", shape, TensorProto.INT64)])
            np.testing.assert_array_equal(ort.InferenceSession(made.SerializeToString()).run(None, {"x": np.array([0, 2, 1], np.float32)})[0], [[1, 2]])
        x = np.ones(100_000, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.nonzero(x))


class Devices(Quiet):
    def test_names_of_other_libraries(self) -> None:
        from memopt.ort import providers

        best = ort.get_available_providers()[0]
        for name in ("CUDAExecutionProvider", "DmlExecutionProvider", "ROCMExecutionProvider", "TensorrtExecutionProvider"):
            providers._told.discard(name)
            with warnings.catch_warnings(record=True) as told, self.assertLogs("memopt.ort", "WARNING") as logged:
                warnings.simplefilter("always")
                session = ort.InferenceSession(dense().SerializeToString(), providers=[name, "CPUExecutionProvider"])
                ort.InferenceSession(dense().SerializeToString(), providers=[name])
            self.assertEqual([str(w.message).count(name) for w in told], [1])
            self.assertEqual(len(logged.records), 1)
            self.assertEqual(session.get_providers(), list(dict.fromkeys([best, "CPUExecutionProvider"])))
            np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-5)

    def test_the_guide_for_cuda(self) -> None:
        session = ort.InferenceSession(dense().SerializeToString(), providers=["CUDAExecutionProvider"])
        x = ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
        self.assertEqual(x.device_name(), "cuda")
        binding = session.io_binding()
        binding.bind_input(name="x", device_type=x.device_name(), device_id=0, element_type=np.float32, shape=x.shape(), buffer_ptr=x.data_ptr())
        binding.bind_output("y", "cuda")
        session.run_with_iobinding(binding)
        y = binding.get_outputs()[0]
        self.assertEqual(y.device_name(), "cuda")
        np.testing.assert_allclose(y.numpy(), of_dense(X), rtol=1e-5)
        x.update_inplace(X * 2)
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], of_dense(X * 2), rtol=1e-5)

    def test_limits_bind(self) -> None:
        small, large = np.zeros(1000, np.float32), np.zeros(1 << 20, np.float32)
        for name in ("CPUExecutionProvider", "CUDAExecutionProvider"):
            for strategy in ("kSameAsRequested", "kNextPowerOfTwo"):
                given = {"gpu_mem_limit": str(2 << 20), "arena_extend_strategy": strategy}
                session = ort.InferenceSession(chain().SerializeToString(), providers=[(name, given)])
                self.assertEqual(session.get_provider_options()[session.get_providers()[0]], given)
                session.run(None, {"x": small})
                with self.assertRaisesRegex(Fail, "out of memory: .* the limit is 2097152") as caught:
                    session.run(None, {"x": large})
                self._would_fit(str(caught.exception), caught.exception.__cause__, name, given)
                session.run(None, {"x": small})
                stats = session.get_memory_stats()
                self.assertLessEqual(stats["held_most"], 2 << 20)

    def _would_fit(self, text: str, cause: BaseException | None, name: str, given: dict[str, str]) -> None:
        """What an error says would fit does, and the next that is larger does not."""
        assert isinstance(cause, memopt.BudgetError) and cause.memory is not None
        self.assertEqual(cause.memory.limit, 2 << 20)
        limit, n = re.search(r"gpu_mem_limit=(\d+)", text), re.search(r"inputs with \w+=(\d+)", text)
        assert limit is not None and n is not None, text
        session = ort.InferenceSession(chain().SerializeToString(), providers=[(name, given | {"gpu_mem_limit": limit[1]})])
        session.run(None, {"x": np.zeros(1 << 20, np.float32)})
        session = ort.InferenceSession(chain().SerializeToString(), providers=[(name, given)])
        session.run(None, {"x": np.zeros(int(n[1]), np.float32)})

    def test_bad_limits(self) -> None:
        for given, said in (({"gpu_mem_limit": "much"}, "gpu_mem_limit is 'much'"), ({"gpu_mem_limit": -1}, "gpu_mem_limit"), ({"arena_extend_strategy": "kDouble"}, "kNextPowerOfTwo")):
            with self.assertRaisesRegex(RuntimeError, said):
                ort.InferenceSession(dense().SerializeToString(), providers=[("CUDAExecutionProvider", given)])

    def test_shrinking_returns_memory(self) -> None:
        session = ort.InferenceSession(chain().SerializeToString())
        session.run(None, {"x": np.zeros(1 << 20, np.float32)})
        self.assertGreaterEqual(session.get_memory_stats()["arena"]["TotalAllocated"], 4 << 20)
        ro = ort.RunOptions()
        ro.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        session.run(None, {"x": np.zeros(10, np.float32)}, ro)
        stats = session.get_memory_stats()["arena"]
        self.assertLess(stats["TotalAllocated"], 4 << 20)
        self.assertGreaterEqual(stats["NumArenaShrinkages"], 1)

    def test_a_registered_arena_is_one(self) -> None:
        memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(memory, ort.OrtArenaCfg({"max_mem": 6 << 20, "arena_extend_strategy": 1}))
        so = ort.SessionOptions()
        so.add_session_config_entry("session.use_env_allocators", "1")
        one, other = (ort.InferenceSession(chain().SerializeToString(), so) for _ in range(2))
        own = ort.InferenceSession(chain().SerializeToString())
        x = np.zeros(1 << 19, np.float32)
        one.run(None, {"x": x})
        held = one.get_memory_stats()["arena"]
        self.assertGreaterEqual(held["TotalAllocated"], x.nbytes)
        self.assertEqual(other.get_memory_stats()["arena"], held)
        self.assertEqual(own.get_memory_stats()["arena"]["TotalAllocated"], 0)
        for _ in range(3):  # what one has used, the other uses
            other.run(None, {"x": x})
            one.run(None, {"x": x})
        self.assertLessEqual(one.get_memory_stats()["arena"]["MaxTotalAllocated"], 6 << 20)
        with self.assertRaisesRegex(Fail, "the limit is 6291456"):
            other.run(None, {"x": np.zeros(4 << 20, np.float32)})
        del one
        gc.collect()
        other.run(None, {"x": x})
        ort.create_and_register_allocator(memory, None)
        third = ort.InferenceSession(chain().SerializeToString(), so)
        third.run(None, {"x": np.zeros(4 << 20, np.float32)})

    def test_options_of_the_guide(self) -> None:
        so = ort.SessionOptions()
        so.append_execution_provider("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
        session = ort.InferenceSession(dense().SerializeToString(), so)
        self.assertEqual(session.get_provider_options(), {"CPUExecutionProvider": {"arena_extend_strategy": "kSameAsRequested"}})
        np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X), rtol=1e-6)


class OnTheDevice(Quiet):
    """Values of a GPU are copied to it when they are new, and read from it when somebody looks."""

    def setUp(self) -> None:
        super().setUp()
        if "VulkanExecutionProvider" not in ort.get_available_providers():
            self.skipTest("no Vulkan device")
        self.session = ort.InferenceSession(chain().SerializeToString(), providers=["CUDAExecutionProvider"])
        self.x = ort.OrtValue.ortvalue_from_numpy(np.linspace(0, 1, 1000, dtype=np.float32), "cuda")
        self.binding = self.session.io_binding()
        self.binding.bind_ortvalue_input("x", self.x)
        self.binding.bind_output("y", "cuda")

    def want(self) -> np.ndarray:
        return -np.sin(-self.x.numpy())

    def copied(self) -> tuple[int, int, int, int]:
        stats = self.session.get_memory_stats()
        return stats["copied_in"], stats["copied_out"], stats["host_copied_in"], stats["host_copied_out"]

    def test_a_loop_copies_nothing(self) -> None:
        once = 4000 if os.environ.get("MEMOPT_VULKAN_HIDDEN") else 0  # a device that shares the machine's memory reads it where it is
        for _ in range(4):
            self.session.run_with_iobinding(self.binding)
        self.assertEqual(self.copied(), (once, 0, 0, 0))
        np.testing.assert_allclose(self.binding.get_outputs()[0].numpy(), self.want(), rtol=1e-5, atol=1e-6)
        self.assertEqual(self.copied(), (once, 0, 0, 4000))  # by who looked
        self.x.update_inplace(np.ones(1000, np.float32))
        self.session.run_with_iobinding(self.binding)
        self.assertEqual(self.copied(), (2 * once, 0, 0, 4000))
        np.testing.assert_allclose(self.binding.copy_outputs_to_cpu()[0], self.want(), rtol=1e-5, atol=1e-6)

    def test_sessions_pass_values_on(self) -> None:
        """What one session leaves on the device another reads there, and the first one in its next run."""
        other = ort.InferenceSession(chain().SerializeToString(), providers=["CUDAExecutionProvider"])
        second = other.io_binding()
        second.bind_output("y", "cuda")
        want = self.x.numpy()
        self.session.run_with_iobinding(self.binding)
        before = self.copied()
        for _ in range(3):
            want = -np.sin(-want)
            (y,) = self.binding.get_outputs()
            second.bind_ortvalue_input("x", y)
            other.run_with_iobinding(second)
            want = -np.sin(-want)
            self.binding.bind_ortvalue_input("x", second.get_outputs()[0])
            self.session.run_with_iobinding(self.binding)
        self.assertEqual(self.copied(), before)
        stats = other.get_memory_stats()
        self.assertEqual((stats["copied_in"], stats["copied_out"], stats["host_copied_in"], stats["host_copied_out"]), (0, 0, 0, 0))
        np.testing.assert_allclose(self.binding.copy_outputs_to_cpu()[0], -np.sin(-want), rtol=1e-5, atol=1e-6)
        cpu = ort.InferenceSession(chain().SerializeToString())  # and so does one that runs elsewhere
        np.testing.assert_allclose(cpu.run_with_ort_values(None, {"x": y})[0].numpy(), -np.sin(-y.numpy()), rtol=1e-5, atol=1e-6)

    def test_buffers_go_with_their_values(self) -> None:
        for _ in range(5):
            binding = self.session.io_binding()
            binding.bind_ortvalue_input("x", self.x)
            binding.bind_output("y", "cuda")
            self.session.run_with_iobinding(binding)
        del binding
        gc.collect()
        self.session.run(None, {"x": np.zeros(1000, np.float32)})
        self.assertLessEqual(self.session.get_memory_stats()["owners"].get("buffers", 0), 4000)

    def test_shrink_says_the_bytes(self) -> None:
        for n in (10, 100000, 20):
            self.session.run(None, {"x": np.zeros(n, np.float32)})
        held = self.session.get_memory_stats()["held"]
        returned = self.session.shrink_memory_arena()
        self.assertGreater(returned, 0)
        self.assertEqual(self.session.get_memory_stats()["held"], held - returned)

    def test_another_run_takes_nothing_away(self) -> None:
        self.session.run_with_iobinding(self.binding)
        y = self.binding.get_outputs()[0]
        self.session.run(None, {"x": np.zeros(1000, np.float32)})
        self.session.run(None, {"x": np.zeros(10, np.float32)})
        np.testing.assert_allclose(y.numpy(), self.want(), rtol=1e-5, atol=1e-6)

    def test_addresses_are_written_to(self) -> None:
        self.session.run_with_iobinding(self.binding)
        y = self.binding.get_outputs()[0]
        other = self.session.io_binding()
        other.bind_input("x", "cuda", 0, np.float32, [1000], y.data_ptr())
        other.bind_output("y", "cuda")
        for factor in (1, 2):
            self.x.update_inplace(np.full(1000, factor / 4, np.float32))
            self.session.run_with_iobinding(self.binding)
            self.session.run_with_iobinding(other)
            np.testing.assert_allclose(other.copy_outputs_to_cpu()[0], -np.sin(-self.want()), rtol=1e-5, atol=1e-6)

    def test_shapes_that_do_not_fit_leave_it_as_it_is(self) -> None:
        self.session.run_with_iobinding(self.binding)
        y = self.binding.get_outputs()[0]
        self.binding.bind_cpu_input("x", np.zeros(10, np.float32))
        with self.assertRaisesRegex(RuntimeError, "bind it again"):
            self.session.run_with_iobinding(self.binding)
        np.testing.assert_allclose(y.numpy(), self.want(), rtol=1e-5, atol=1e-6)

    def test_values_of_a_service_that_died(self) -> None:
        self.session.run_with_iobinding(self.binding)
        os.kill(_host.current().pid, signal.SIGKILL)
        with self.assertRaises((RuntimeError, EngineError)):
            self.binding.copy_outputs_to_cpu()
        for _ in range(20):
            try:
                self.session.run_with_iobinding(self.binding)
                break
            except RuntimeError:
                time.sleep(0.05)
        np.testing.assert_allclose(self.binding.copy_outputs_to_cpu()[0], self.want(), rtol=1e-5, atol=1e-6)


class Copies(Quiet):
    def copied(self, session: ort.InferenceSession) -> tuple[int, int, int, int]:
        stats = session.get_memory_stats()
        return stats["host_copied_in"], stats["host_copied_out"], stats["copied_in"], stats["copied_out"]

    def test_values_in_the_arena_are_not_copied(self) -> None:
        session = ort.InferenceSession(chain().SerializeToString())
        x = ort.OrtValue.ortvalue_from_shape_and_type([1000], np.float32)
        x.numpy()[:] = 1
        y = ort.OrtValue.ortvalue_from_shape_and_type([1000], np.float32)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        for _ in range(3):
            session.run_with_iobinding(binding)
        np.testing.assert_allclose(y.numpy(), np.full(1000, -np.sin(np.float32(-1))), rtol=1e-5)
        self.assertEqual(self.copied(session), (0, 0, 0, 0))
        z = session.run(None, {"x": y.numpy()})[0]  # a result is an input without a copy, too
        session.run(None, {"x": z})
        self.assertEqual(self.copied(session), (0, 0, 0, 0))

    def test_arrays_are_copied_once(self) -> None:
        session = ort.InferenceSession(chain().SerializeToString())
        x = np.zeros(1000, np.float32)
        session.run(None, {"x": x})
        self.assertEqual(self.copied(session), (4000, 0, 0, 0))
        y = np.zeros(1000, np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y", "cpu", 0, np.float32, [1000], y.ctypes.data)
        session.run_with_iobinding(binding)
        self.assertEqual(self.copied(session), (8000, 4000, 0, 0))

    def test_initializers_are_shared(self) -> None:
        w = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
        made = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 1024])], [info("y", ["n", 1024])], {"w": w})
        data = made.SerializeToString()
        so = ort.SessionOptions()
        so.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(w))
        sessions = [ort.InferenceSession(data, so) for _ in range(4)]
        x = np.ones((2, 1024), np.float32)
        for session in sessions:
            np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ w, rtol=1e-4, atol=1e-4)
        self.assertEqual([s.get_memory_stats()["weights"]["copied"] for s in sessions], [0] * 4)
        self.assertEqual({s.get_memory_stats()["weights"]["host"] for s in sessions}, {w.nbytes})


@unittest.skipUnless(os.path.exists("/proc/self/status"), "no /proc to read memory from")
class Flat(Quiet):
    def test_sessions_and_runs(self) -> None:
        w = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
        data = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 1024])], [info("y", ["n", 1024])], {"w": w}).SerializeToString()

        def once(runs: int) -> None:
            session = ort.InferenceSession(data)
            for i in range(runs):
                session.run(None, {"x": np.ones((1 + i % 7, 1024), np.float32)})

        once(30)
        pid = _host.current().pid
        gc.collect()
        before = [resident(os.getpid()), resident(pid), resident(os.getpid(), "RssShmem"), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir("/proc/self/fd"))]
        for _ in range(20):
            once(25)
        gc.collect()
        ort.InferenceSession(chain().SerializeToString())  # closes what was dropped
        after = [resident(os.getpid()), resident(pid), resident(os.getpid(), "RssShmem"), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir("/proc/self/fd"))]
        for what, b, a in zip(("the program", "the service", "the arena"), before, after, strict=False):
            self.assertLess(a - b, 12 << 20, what)  # 20 sessions held would be 80 MB
        self.assertLessEqual(after[3] - before[3], 2)
        self.assertLessEqual(after[4] - before[4], 2)


class Service(Quiet):
    def test_a_service_that_dies(self) -> None:
        session = ort.InferenceSession(chain(2).SerializeToString())
        x = np.zeros(10, np.float32)
        want = session.run(None, {"x": x})[0]
        os.kill(_host.current().pid, signal.SIGKILL)
        try:
            session.run(None, {"x": x})
        except EngineError as e:
            self.assertRegex(str(e), "SIGKILL")
        for _ in range(2):  # opened again
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
        np.testing.assert_array_equal(ort.InferenceSession(chain(2).SerializeToString()).run(None, {"x": x})[0], want)

    def test_a_service_that_dies_in_a_run(self) -> None:
        n = 1500
        nodes = [helper.make_node("MatMul", ["x", "x"], ["h0"])] + [helper.make_node("MatMul", [f"h{i}", "x"], [f"h{i + 1}"]) for i in range(40)]
        session = ort.InferenceSession(model(nodes, [info("x", [n, n])], [info("h40", [n, n])]).SerializeToString())
        pid = _host.current().pid
        killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
        killer.start()
        with self.assertRaisesRegex(EngineError, "ended during a call .killed by SIGKILL"):
            session.run(None, {"x": np.zeros((n, n), np.float32)})
        killer.join()
        x = ort.InferenceSession(dense().SerializeToString()).run(None, {"x": X})[0]
        np.testing.assert_allclose(x, of_dense(X), rtol=1e-6)

    def test_a_run_that_is_ended(self) -> None:
        n = 1500
        nodes = [helper.make_node("MatMul", ["x", "x"], ["h0"])] + [helper.make_node("MatMul", [f"h{i}", "x"], [f"h{i + 1}"]) for i in range(40)]
        session = ort.InferenceSession(model(nodes, [info("x", [n, n])], [info("h40", [n, n])]).SerializeToString())
        ro = ort.RunOptions()
        threading.Timer(0.3, setattr, (ro, "terminate", True)).start()
        begin = time.monotonic()
        with self.assertRaisesRegex(Fail, "terminate flag"):
            session.run(None, {"x": np.zeros((n, n), np.float32)}, ro)
        self.assertLess(time.monotonic() - begin, 5)
        begin = time.monotonic()
        ort.InferenceSession(dense().SerializeToString()).run(None, {"x": X})
        self.assertLess(time.monotonic() - begin, 5)
        with self.assertRaises(Fail):
            session.run(None, {"x": np.zeros((n, n), np.float32)}, ro)

    def test_sessions_are_closed_when_they_are_dropped(self) -> None:
        session = ort.InferenceSession(dense().SerializeToString())
        engine = session._opened.engine
        host, number = engine._host, engine._id
        from memopt import _messages

        host.call("Stats", _messages.SessionRequest(session=number), 10)
        del session, engine
        gc.collect()
        deadline = time.monotonic() + 5
        while True:
            try:
                host.call("Stats", _messages.SessionRequest(session=number), 10)
            except memopt.MemoptError as e:
                self.assertIn(f"no session {number}", str(e))
                return
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_has_its_own(self) -> None:
        code = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from both import dense, of_dense
import memopt.ort as ort
session = ort.InferenceSession(dense().SerializeToString())
x = np.ones((2, 3), np.float32)
first = session.run(None, {"x": x})[0]
pid = os.fork()
if pid == 0:
    got = session.run(None, {"x": first[:, :3].copy()})[0]
    os._exit(0 if np.allclose(got, of_dense(first[:, :3])) and np.allclose(first, of_dense(x)) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert np.allclose(session.run(None, {"x": x})[0], first)
print("ok")
"""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, os.path.dirname(__file__)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "ok\n", done.stderr)

    def test_import_loads_neither_numpy_nor_grpc(self) -> None:
        code = "import sys; import memopt.ort; print(*(m for m in ('numpy', 'grpc', 'google.protobuf') if m in sys.modules))"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip(), "")


class Names(Quiet):
    def test_without_numpy(self) -> None:
        code = "import sys; sys.modules['numpy'] = None; import memopt.ort as ort; ort.SessionOptions; ort.InferenceSession"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("ImportError: memopt.ort.InferenceSession needs NumPy: pip install 'memopt[ort]'", done.stderr)

    def test_every_name(self) -> None:
        for name in dir(ort):
            if name not in ("DebugOptions", "LogLevel", "ORTModule", "training"):  # these want PyTorch
                self.assertIsNotNone(getattr(ort, name), name)
        with self.assertRaises(AttributeError):
            ort.InferenceSesion  # noqa: B018

    def test_entries_and_names_that_nothing_has(self) -> None:
        session = ort.InferenceSession(pair().SerializeToString())
        with self.assertRaisesRegex(InvalidArgument, "the model has sum, neg"):
            session.run(["nope"], {"a": X[0], "b": X[0]})
        with self.assertRaisesRegex(InvalidArgument, "the model has a, b"):
            session.run(None, {"a": X[0], "b": X[0], "c": X[0]})

    def test_external_data_beside_a_changed_folder(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "dense.onnx")
            external(dense(), path, "dense.bin")
            os.remove(os.path.join(folder, "dense.bin"))
            with self.assertRaisesRegex(Fail, "External data path validation failed"):
                ort.InferenceSession(path)
            onnx.save(dense(), path)
            np.testing.assert_allclose(ort.InferenceSession(path).run(None, {"x": X})[0], of_dense(X), rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
