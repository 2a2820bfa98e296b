"""memopt.load and memopt.quantize with the real binary, on a model that it makes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from unittest import mock

import memopt
from memopt._load import Loaded, LoadPhase
from memopt._quantize import Quantized
from support import environment

BINARY = os.environ.get("MEMOPT_TEST_BINARY", "")
DIMS = {"batch": 1, "seq": 16}


@unittest.skipUnless(BINARY, "MEMOPT_PLUGIN_PATH is not set")
class Weights(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "gpt.onnx")
        subprocess.run([BINARY, "new", "gpt", "--layers", "2", "-o", cls.model], env=environment(), check=True, capture_output=True)
        cls.addClassCleanup(memopt.close)
        patch = mock.patch.dict(os.environ, environment(MEMOPT_PLUGIN_PATH=BINARY), clear=True)
        patch.start()
        cls.addClassCleanup(patch.stop)

    def test_load(self) -> None:
        loaded = memopt.load(self.model, dims=DIMS, device="cpu", reloads=1)
        self.assertEqual((loaded.format, loaded.mode), ("memopt.load/1", "streamed"))
        self.assertEqual(loaded.measured, max(loaded.W + loaded.A, loaded.W + loaded.c))
        self.assertEqual([p.phase for p in loaded.phases], ["P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "U1", "U2", "U3"])
        self.assertEqual(loaded.phases[7].device.point, loaded.W + loaded.A)
        self.assertIn("max(W + A, W + c)", str(loaded))
        self.assertLessEqual({*LoadPhase.__annotations__}, {*loaded.phases[0]})
        self.assertLessEqual({*Loaded.__annotations__} - {"loads"}, {*loaded})
        every = memopt.load(self.model, dims=DIMS, device="cpu", reloads=0, load_mode="all", chunk="64KiB")
        self.assertEqual([one.mode for one in every.loads], ["streamed", "lazy", "eager", "inplace"])

    def test_load_refuses(self) -> None:
        with self.assertRaisesRegex(memopt.MemoptError, "batch"):
            memopt.load(self.model, device="cpu")
        with self.assertRaisesRegex(TypeError, "did you mean 'load_mode'"):
            memopt.load(self.model, loadmode="eager")  # type: ignore[call-arg]

    def test_quantize(self) -> None:
        to = os.path.join(self.folder.name, "q.onnx")
        made = memopt.quantize(self.model, to, per_channel=True, exclude=["nonsuch"])
        self.assertEqual((made.format, made.weight_type, made.path), ("memopt.quantize/1", "int8", to))
        self.assertLess(made.bytes_after, made.bytes_before / 2)
        self.assertTrue(any("nonsuch" in w for w in made.warnings))
        self.assertLessEqual({*Quantized.__annotations__}, {*made})
        with self.assertRaisesRegex(memopt.MemoptError, "would be overwritten"):
            memopt.quantize(self.model, self.model)


if __name__ == "__main__":
    unittest.main()
