"""Which way of replay runs planned steps in a test."""

from __future__ import annotations

import contextlib
import os
import sys
import unittest
from collections.abc import Iterator
from unittest import mock

import memopt.torch  # noqa: F401
from memopt.torch.native import build, run

LOOP = sys.modules["memopt.torch.loop.loop"]


@contextlib.contextmanager
def replayed(native: bool) -> Iterator[list[str]]:
    """Steps run by the native module, or by Python; the kinds of those that ran."""
    if native:
        build.build()
    kinds: list[str] = []

    def noted(*args, **kwargs):
        found = run.step_of(*args, **kwargs)
        kinds.append(found.kind)
        return found

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, MEMOPT_NATIVE="1" if native else "0"))
        stack.enter_context(mock.patch.object(build.library, "why", ""))
        stack.enter_context(mock.patch.object(build.library, "looked", 0.0))
        if not native:
            stack.enter_context(mock.patch.object(build.library, "module", None))
        stack.enter_context(mock.patch.object(LOOP, "step_of", noted))
        yield kinds


class Replayed(unittest.TestCase):
    """Tests of a class that all run by one way."""

    native = True

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.kinds = cls.enterClassContext(replayed(cls.native)) if hasattr(cls, "enterClassContext") else cls._entered(replayed(cls.native))

    @classmethod
    def _entered(cls, context):  # Python 3.10
        found = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return found

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        if cls.native and "native" not in cls.kinds:
            raise AssertionError(f"no step of {len(cls.kinds)} was run by the native module")
        if not cls.native and "native" in cls.kinds:
            raise AssertionError("the native module ran a step")
