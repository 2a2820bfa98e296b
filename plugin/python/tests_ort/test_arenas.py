"""Arenas: shrinkage, limits, arenas that sessions share; and initializers that they share."""

from __future__ import annotations

import os
import unittest

import numpy as np
import onnx

from both import B, Programs, W, both, chain, dense, external, of_dense

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
SHRINK = "memory.enable_memory_arena_shrinkage"


@both
class Arenas(Programs):
    def test_shrinkage(self) -> None:
        session = self.session(chain().SerializeToString())
        for entry in ("cpu:0", "cpu", "cpu:0;cpu:0", "cpu:0;gpu:0", "cpu:0;", ""):
            ro = self.ort.RunOptions()
            ro.add_run_config_entry(SHRINK, entry)
            for n in (10, 1000, 10):
                self.assertEqual(session.run(None, {"x": np.zeros(n, np.float32)}, ro)[0].shape, (n,))
        binding = session.io_binding()
        binding.bind_cpu_input("x", np.zeros(9, np.float32))
        binding.bind_output("y")
        ro = self.ort.RunOptions()
        ro.add_run_config_entry(SHRINK, "cpu:0")
        session.run_with_iobinding(binding, ro)

    def test_arenas_that_are_not_there(self) -> None:
        session = self.session(chain().SerializeToString())
        so = self.ort.SessionOptions()
        so.enable_cpu_mem_arena = False
        without = self.session(chain().SerializeToString(), so)
        x = np.zeros(9, np.float32)
        for run, entry, said in (
            (session, "cpu:7", "Did not find an arena based allocator registered for device-id combination in the memory arena shrink list: cpu:7"),
            (session, "gpu:0", "Did not find an arena based allocator .*: gpu:0"),
            (session, "foo:0", "Unsupported device specified in the memory arena shrink list: foo"),
            (session, "cpu:0;foo:0", "Unsupported device specified in the memory arena shrink list: foo"),
            (session, "cpu:x", "Unsupported device id in the memory arena shrink list: x"),
            (without, "cpu:0", "Did not find an arena based allocator .*: cpu:0"),
        ):
            ro = self.ort.RunOptions()
            ro.add_run_config_entry(SHRINK, entry)
            with self.assertRaisesRegex(self.state.InvalidArgument, said):
                run.run(None, {"x": x}, ro)
        session.run(None, {"x": x})

    def shared(self, **settings: int) -> None:
        o = self.ort
        memory = o.OrtMemoryInfo("Cpu", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)
        o.create_and_register_allocator(memory, o.OrtArenaCfg(settings))

    def with_shared(self) -> object:
        so = self.ort.SessionOptions()
        so.add_session_config_entry("session.use_env_allocators", "1")
        return so

    def test_a_shared_arena(self) -> None:
        self.shared(max_mem=0, arena_extend_strategy=1)
        sessions = [self.session(chain().SerializeToString(), self.with_shared()) for _ in range(2)]
        for n in (10, 1000):
            for session in sessions:
                self.assertEqual(session.run(None, {"x": np.zeros(n, np.float32)})[0].shape, (n,))

    def test_a_limit_of_a_shared_arena(self) -> None:
        self.shared(max_mem=4 << 20)
        session = self.session(chain().SerializeToString(), self.with_shared())
        small, large = np.zeros(1000, np.float32), np.zeros(4 << 20, np.float32)
        self.assertEqual(session.run(None, {"x": small})[0].shape, small.shape)
        with self.assertRaisesRegex(self.state.Fail, "FAIL"):
            session.run(None, {"x": large})
        self.assertEqual(session.run(None, {"x": small})[0].shape, small.shape)
        binding = session.io_binding()
        binding.bind_cpu_input("x", large)
        binding.bind_output("y")
        with self.assertRaises(RuntimeError):
            session.run_with_iobinding(binding)
        self.shared(max_mem=0)

    def test_allocators_that_cannot_be_registered(self) -> None:
        o = self.ort
        memory = o.OrtMemoryInfo("Cuda", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)
        with self.assertRaisesRegex(RuntimeError, "Only CPU devices are supported"):
            o.create_and_register_allocator(memory, None)
        with self.assertRaises(TypeError):
            o.create_and_register_allocator("Cpu", None)


@both
class Initializers(Programs):
    def test_shared(self) -> None:
        w = self.value(np.ones((3, 4), np.float32))
        so = self.ort.SessionOptions()
        so.add_initializer("w", w)
        for _ in range(3):
            session = self.session(dense().SerializeToString(), so)
            np.testing.assert_allclose(session.run(None, {"x": X})[0], of_dense(X, w=w.numpy()), rtol=1e-6)

    def test_wrong_shapes_are_seen_at_the_latest_by_a_run(self) -> None:
        so = self.ort.SessionOptions()
        w = self.value(np.ones((4, 4), np.float32))
        so.add_initializer("w", w)
        with self.assertRaises((self.state.Fail, self.state.InvalidArgument)):
            self.session(dense().SerializeToString(), so).run(None, {"x": X})

    def test_wrong_types(self) -> None:
        so = self.ort.SessionOptions()
        w = self.value(np.ones((3, 4), np.float64))
        so.add_initializer("w", w)
        with self.assertRaises(self.state.Fail):
            self.session(dense().SerializeToString(), so)

    def test_external(self) -> None:
        path = self.path("dense.onnx")
        external(dense(), path, "dense.bin")
        np.testing.assert_allclose(self.session(path).run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        with open(path, "rb") as f:
            data = f.read()
        with open(self.path("dense.bin"), "rb") as f:
            weights = f.read()
        os.mkdir(self.path("elsewhere"))
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.path("elsewhere"))
        with self.assertRaisesRegex(self.state.Fail, "External data path validation failed"):
            self.session(data)
        so = self.ort.SessionOptions()
        so.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder.name)
        np.testing.assert_allclose(self.session(data, so).run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        so = self.ort.SessionOptions()
        so.add_external_initializers_from_files_in_memory(["dense.bin"], [weights], [len(weights)])
        np.testing.assert_allclose(self.session(data, so).run(None, {"x": X})[0], of_dense(X), rtol=1e-6)
        so = self.ort.SessionOptions()
        values = [self.value(W * 2), self.value(B * 2)]
        so.add_external_initializers(["w", "b"], values)
        np.testing.assert_allclose(self.session(data, so).run(None, {"x": X})[0], of_dense(X, W * 2, B * 2), rtol=1e-6)

    def test_external_data_that_leaves_its_folder(self) -> None:
        os.mkdir(self.path("inner"))
        path = self.path("inner/dense.onnx")
        external(dense(), path, "dense.bin")
        os.rename(self.path("inner/dense.bin"), self.path("dense.bin"))
        made = onnx.load(path, load_external_data=False)
        for t in made.graph.initializer:
            next(e for e in t.external_data if e.key == "location").value = "../dense.bin"
        with open(path, "wb") as f:
            f.write(made.SerializeToString())
        with self.assertRaisesRegex(self.state.Fail, "External data path validation failed"):
            self.session(path)


if __name__ == "__main__":
    unittest.main()
