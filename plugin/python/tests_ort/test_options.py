"""SessionOptions, RunOptions, arenas' settings, and what is set for a process."""

from __future__ import annotations

import pickle
import unittest

import numpy as np

from both import Programs, both


@both
class Options(Programs):
    def test_defaults(self) -> None:
        o = self.ort
        so, ro = o.SessionOptions(), o.RunOptions()
        for name, want in {
            "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True, "enable_profiling": False,
            "execution_mode": o.ExecutionMode.ORT_SEQUENTIAL, "execution_order": o.ExecutionOrder.DEFAULT,
            "graph_optimization_level": o.GraphOptimizationLevel.ORT_ENABLE_ALL, "inter_op_num_threads": 0, "intra_op_num_threads": 0,
            "log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "optimized_model_filepath": "",
            "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False, "use_per_session_threads": True,
        }.items():  # fmt: skip
            self.assertEqual(getattr(so, name), want, name)
        for name, want in {"log_severity_level": -1, "log_verbosity_level": 0, "logid": "", "only_execute_path_to_fetches": False, "terminate": False}.items():
            self.assertEqual(getattr(ro, name), want, name)

    def test_attributes_take_their_types(self) -> None:
        so = self.ort.SessionOptions()
        for value, want in ((True, True), (False, False), (1, True), (0, False), (None, False), (np.bool_(True), True)):
            so.enable_mem_pattern = value
            self.assertIs(so.enable_mem_pattern, want)
        so.intra_op_num_threads = np.int64(3)
        self.assertEqual(so.intra_op_num_threads, 3)
        so.optimized_model_filepath = "x.onnx"
        self.assertEqual(so.optimized_model_filepath, "x.onnx")
        for name, bad in (("enable_mem_pattern", "x"), ("graph_optimization_level", 99), ("graph_optimization_level", "all"), ("execution_mode", 1), ("intra_op_num_threads", "x"), ("intra_op_num_threads", 1.5), ("intra_op_num_threads", 1 << 40), ("optimized_model_filepath", None), ("logid", 3)):
            with self.subTest(name, bad=bad), self.assertRaises(TypeError):
                setattr(so, name, bad)
        with self.assertRaisesRegex(AttributeError, "no attribute 'enable_arena'"):
            so.enable_arena = True

    def test_entries(self) -> None:
        so, ro = self.ort.SessionOptions(), self.ort.RunOptions()
        for options, add, get in ((so, "add_session_config_entry", "get_session_config_entry"), (ro, "add_run_config_entry", "get_run_config_entry")):
            getattr(options, add)("a", "b")
            self.assertEqual(getattr(options, get)("a"), "b")
            getattr(options, add)("a", "c")
            self.assertEqual(getattr(options, get)("a"), "c")
            with self.assertRaisesRegex(RuntimeError, f"{type(options).__name__} does not have configuration with key: nope"):
                getattr(options, get)("nope")
            with self.assertRaises(TypeError):
                getattr(options, add)("a", 1)
            for bad in ("", "k" * 1025):
                with self.assertRaisesRegex(RuntimeError, "Config key is empty or longer than maximum length 1024"):
                    getattr(options, add)(bad, "1")

    def test_providers_of_options(self) -> None:
        so = self.ort.SessionOptions()
        self.assertFalse(so.has_providers())
        so.add_provider("CPUExecutionProvider", {})
        self.assertTrue(so.has_providers())
        with self.assertRaisesRegex(RuntimeError, "Unknown Provider Type: FooExecutionProvider"):
            so.add_provider("FooExecutionProvider", {})

    def test_initializers_are_values(self) -> None:
        so = self.ort.SessionOptions()
        w = self.value(np.zeros(3, np.float32))
        so.add_initializer("w", w)
        with self.assertRaisesRegex(RuntimeError, "has already been added: w"):
            so.add_initializer("w", w)
        with self.assertRaisesRegex(RuntimeError, "must be an OrtValue"):
            so.add_initializer("v", np.zeros(3))
        with self.assertRaises(RuntimeError):
            so.add_external_initializers(["e", "f"], [w])
        so.add_external_initializers(["e"], [w])
        with self.assertRaisesRegex(RuntimeError, "has already been added: e"):
            so.add_external_initializers(["e"], [w])
        so.add_external_initializers_from_files_in_memory(["w.bin"], [b"abcd"], [4])
        with self.assertRaises(RuntimeError):
            so.add_external_initializers_from_files_in_memory(["w.bin"], [b"abcd"], [4])
        with self.assertRaises(RuntimeError):
            so.add_external_initializers_from_files_in_memory(["v.bin"], [b"abcd"], [])

    def test_overrides_take_numbers(self) -> None:
        so = self.ort.SessionOptions()
        so.add_free_dimension_override_by_name("batch", 4)
        so.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
        with self.assertRaises(TypeError):
            so.add_free_dimension_override_by_name("batch", "4")

    def test_options_stay_in_their_process(self) -> None:
        for options in (self.ort.SessionOptions(), self.ort.RunOptions()):
            with self.assertRaisesRegex(TypeError, "cannot pickle"):
                pickle.dumps(options)

    def test_libraries_that_are_not_there(self) -> None:
        with self.assertRaisesRegex(self.state.Fail, "Failed to load library /nowhere/ops.so"):
            self.ort.SessionOptions().register_custom_ops_library("/nowhere/ops.so")

    def test_arena_settings(self) -> None:
        o = self.ort
        names = ["max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk", "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes"]
        given = dict(zip(names, (1 << 30, 1, 5, 6, 7, 8), strict=True))
        cfg = o.OrtArenaCfg(given)
        self.assertEqual({name: getattr(cfg, name) for name in names}, given)
        for cfg in (o.OrtArenaCfg({}), o.OrtArenaCfg(0, -1, -1, -1)):
            self.assertEqual([getattr(cfg, name) for name in names], [0, -1, -1, -1, -1, -1])
        cfg.max_mem = 77
        self.assertEqual(cfg.max_mem, 77)
        with self.assertRaisesRegex(RuntimeError, "Invalid OrtArenaCfg option: foo"):
            o.OrtArenaCfg({"foo": 1})
        with self.assertRaises(RuntimeError):
            o.OrtArenaCfg({"max_mem": "1"})
        with self.assertRaises(TypeError):
            o.OrtArenaCfg(1, 2, 3)

    def test_process(self) -> None:
        o = self.ort
        self.assertEqual(o.__version__, "1.31.1")
        self.assertEqual(o.get_version_string(), "1.31.1")
        self.assertIn("CPUExecutionProvider", o.get_available_providers())
        self.assertLessEqual(set(o.get_available_providers()), set(o.get_all_providers()))
        self.assertIn("CUDAExecutionProvider", o.get_all_providers())
        self.assertIn(o.get_device(), ("CPU", "GPU"))
        self.assertIn("CPUExecutionProvider", [d.ep_name for d in o.get_ep_devices()])
        o.set_default_logger_severity(4)
        with self.assertRaisesRegex(RuntimeError, "Invalid logging severity"):
            o.set_default_logger_severity(9)
        o.set_seed(5)
        with self.assertRaises(TypeError):
            o.set_seed("x")

    def test_exceptions(self) -> None:
        for name in ("Fail", "InvalidArgument", "NoSuchFile", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "EPFail", "EngineError", "RuntimeException", "NoModel", "ModelLoaded"):
            kind = getattr(self.state, name)
            self.assertEqual(kind.__name__, name)
            self.assertTrue(issubclass(kind, Exception))
            self.assertFalse(issubclass(kind, (RuntimeError, ValueError)))
            self.assertIs(getattr(self.ort.capi.onnxruntime_pybind11_state, name), kind)
            self.assertIs(getattr(self.ort.capi._pybind_state, name), kind)


if __name__ == "__main__":
    unittest.main()
