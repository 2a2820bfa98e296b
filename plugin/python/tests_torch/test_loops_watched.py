"""Profilers of users around any part of a loop: nothing of ours raises, nothing of theirs is lost, and the plan is made all the same."""

from __future__ import annotations

import contextlib
import copy
import unittest

import torch
from models import families
from test_loops_steps import Loops, Net
from test_optimize import step

import memopt
from memopt.torch import report


def profiler():
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)


class TestProfilers(Loops):
    def around(self, part, steps=6, names=("gpt", "resnet")):
        """A loop with a profiler around a part of some steps: the parts are forward, backward, step, run."""
        for name in names:
            with self.subTest(model=name, around=part):
                model, args, loss = families()[name]
                plain = copy.deepcopy(model)
                memopt.optimize(model, activation_budget="70%", verbose=False)
                with profiler() if part == "run" else contextlib.nullcontext() as whole:
                    for i in range(steps):
                        found = []
                        for m in (model, plain):
                            m.zero_grad(set_to_none=True)
                            torch.manual_seed(i)
                            ours = m is model and part != "run"
                            with profiler() if ours and part == "step" else contextlib.nullcontext() as p1:
                                with profiler() if ours and part == "forward" else contextlib.nullcontext() as p2:
                                    out = m(*args)
                                    value = loss(out) if loss is not None else out
                                with profiler() if ours and part in ("backward", "backward once") and (part == "backward" or i in (0, 3)) else contextlib.nullcontext() as p3:
                                    value.backward()
                            for p in (p1, p2, p3):
                                if p is not None:
                                    self.assertTrue(any(e.name.startswith("aten::") for e in p.events()), "the user's profiler was ended")
                            found.append([value.detach(), *(p.grad for p in m.parameters())])
                        self.equal(*found)
                if whole is not None:
                    self.assertFalse(any(e.name.startswith("memopt") for e in whole.events()))
                made = report(model)
                self.assertIsNotNone(made, "no step was recorded")
                self.assertGreater(made.plan.result.recomputed_nodes, 0)
                self.assertFalse(torch.autograd._profiler_enabled())
                yield name, model, plain, args, loss, made

    def test_around_the_backward_pass(self):
        for _ in self.around("backward"):
            pass

    def test_around_some_backward_passes(self):
        for _ in self.around("backward once"):
            pass

    def test_around_the_forward_pass(self):
        for _ in self.around("forward"):
            pass

    def test_around_steps(self):
        for _ in self.around("step"):
            pass

    def test_around_the_run(self):
        """Sizes come from storages. What only a profiler tells is missing, no more."""
        for name, _, plain, args, loss, made in self.around("run", 3):
            if name != "gpt":
                continue  # work space of convolutions is not seen
            self.assertTrue(made.recording.partial)

            def loop(m, args=args, loss=loss):
                step(m, args, loss)

            eager = self.taken(plain, loop)
            self.assertLessEqual(abs(made.eager_peak - eager), 0.03 * eager)

    def test_recorded_again_without_it(self):
        """A recording that was made beside a profiler is made again when there is none."""
        for name, model, _, args, loss, made in self.around("run", 2):
            self.assertTrue(made.recording.partial)
            step(model, args, loss)
            step(model, args, loss)
            self.assertFalse(report(model).recording.partial, name)

    def test_kept(self):
        """A profiler around the backward pass of a step that fits as it is."""
        model, x = Net(), torch.randn(8, 64)
        memopt.optimize(model, activation_budget="1GiB", verbose=False)
        for _ in range(3):
            out = model(x).sum()
            with profiler():
                out.backward()

    def test_schedule(self):
        """A profiler with a schedule, which starts and ends between steps."""
        model, args, loss = families()["gpt"]
        plain = copy.deepcopy(model)
        memopt.optimize(model, activation_budget="70%", verbose=False)
        seen = []
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=lambda p: seen.append(len(p.events()))
        ) as p:
            for _ in range(8):
                self.same(step(model, args, loss), step(plain, args, loss))
                p.step()
        self.assertEqual(len(seen), 2)
        self.assertGreater(min(seen), 10)
        self.assertGreater(report(model).plan.result.recomputed_nodes, 0)


if __name__ == "__main__":
    unittest.main()
