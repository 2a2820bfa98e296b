"""The two ways to replay a step: tests of planned steps run by the native module, where it is built, and here by Python; and what only the native module can get wrong."""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
import unittest
import warnings
from unittest import mock

import test_live
import test_offload
import test_optimize
import test_schedule
import torch
from replays import Replayed, replayed
from test_loops_programs import Ways
from test_optimize import Case, Wide, step
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import memopt
from memopt.torch.loop.share import AUDITS
from memopt.torch.record.measure import watched


def of(cls: type[unittest.TestCase]) -> type[unittest.TestCase]:
    return type(f"Python{cls.__name__}", (cls,) if issubclass(cls, Replayed) else (Replayed, cls), {"native": False})


Promise, Module, Traps, Shape, Schedule, Offload = map(
    of, (test_optimize.TestPromise, test_optimize.TestModule, test_optimize.TestTraps, test_optimize.TestResNetShape, test_schedule.TestSchedule, test_offload.TestOffload)
)
Live = [of(cls) for name, cls in vars(test_live).items() if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and name.startswith("Test")]
globals().update({cls.__name__: cls for cls in Live})
del test_live, test_offload, test_optimize, test_schedule


class Both(Case):
    """Steps by Python and by the native module have the bits of eager mode, and one peak."""

    def both(self, model, args, steps: int = 4, kinds=("native", "native"), loss=None, budget=None, change=lambda m, i: None):
        """The last steps of some under the lowest plan; change is made before each."""
        plain = copy.deepcopy(model)
        want = []
        for i in range(steps):
            change(plain, i)
            want.append(step(plain, args, loss))
        peaks = []
        for native in (True, False):
            ours = copy.deepcopy(model)
            with self.subTest(native=native), replayed(native) as ran:
                if budget is None:
                    with self.assertRaises(memopt.BudgetError) as floor:
                        memopt.optimize(ours, activation_budget=1, sample=args, loss=loss)
                    budget = floor.exception.best
                report = memopt.optimize(ours, activation_budget=budget, sample=args, loss=loss)
                self.assertGreater(report.plan.result.recomputed_nodes, 0)
                ours.load_state_dict(model.state_dict())
                ran.clear()
                for i in range(steps):
                    change(ours, i)
                    self.same(step(ours, args, loss), want[i])
                self.assertEqual(tuple(ran[-len(kinds) :]), kinds if native else ("python",) * len(kinds))
                peaks.append(memopt.torch.report(ours).measured_peak)
                memopt.restore(ours)
        return peaks

    def rows(self, n=128):
        return (torch.randn(n, 64),)

    def test_operands(self):
        """Lists of tensors, with gaps and without, numbers, ranges, fills, and complex values run again."""

        class Operands(nn.Module):
            def forward(self, x):
                rows = torch.arange(len(x)).flip(0) % 7
                a = torch.sin(x)[rows, :][:, 3:, None]
                b = torch.cat([a, a * 2, torch.full((len(x), 3, 1), 0.5) + 1], 1)
                c = torch.fft.fft(b[..., 0].tanh()).conj()
                d = torch.where(x > 0, x.exp(), 1.0 - x) ** 2
                e = torch.stack([F.pad(y, (0, 1)) for y in (c * c).real.split(16)]).flatten(0, 1)
                return 0.5 * d * (1.0 + torch.tanh(0.7 * (d + 0.04 * d**3))) + e[:, :64] * 1e-3

        a, b = self.both(Wide(Operands()), self.rows())
        self.assertLess(abs(a - b), 1024)

    def test_fills_that_change(self):
        """What is made from a number alone is made from the number of this step."""

        class Fills(nn.Module):
            by = 0.0

            def forward(self, x):
                return torch.sin(x * torch.full((1, 64), self.by).cos().exp())

        def change(model, i):
            model.inner.by = i / 4

        self.both(Wide(Fills()), self.rows(), change=change)

    def test_layers(self):
        class Layers(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.conv, self.embed = nn.BatchNorm1d(64), nn.Conv1d(1, 4, 3, padding=1), nn.Embedding(9, 64, padding_idx=0)

            def forward(self, x):
                y = F.gelu(self.norm(x))
                y = self.conv(y[:, None]).relu_().max(1)[0]
                return y + self.embed((x[:, 0] * 3).abs().long().clamp(max=8)).tanh()

        self.both(Wide(Layers()), self.rows())

    def test_hooks_of_the_module(self):
        """A module's own saved-tensor hooks are called as in eager mode, also beside tensors that the plan drops."""
        calls = []

        def pack(t):
            calls.append(t.shape)
            return t.clone()

        class Hooked(nn.Module):
            def forward(self, x):
                y = torch.sin(torch.tanh(x))
                with saved_tensors_hooks(pack, lambda t: t):
                    y = torch.exp(y).sin()
                    with save_on_cpu():
                        y = torch.tanh(y)
                return torch.sigmoid(y) * y

        model = Wide(Hooked())
        plain = copy.deepcopy(model)
        args = self.rows()
        step(plain, args)
        want = list(calls)
        self.both(model, args)
        with replayed(True):
            memopt.optimize(model, activation_budget="70%", sample=args)
            calls.clear()
            step(model, args)
        self.assertEqual(calls, want)

    def test_threads(self):
        """Other threads run what they run, and it is none of the step's."""

        class Beside(nn.Module):
            def forward(self, x):
                y = torch.tanh(x)
                found = []
                thread = threading.Thread(target=lambda: found.append((torch.ones(3) * 2).sum()))
                thread.start()
                thread.join()
                return torch.sin(y) * y + float(found[0])

        self.both(Wide(Beside()), self.rows())

    def test_modes(self):
        """Under somebody's mode Python replays: a mode changes what composite operators are made of."""

        class Counts(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        model, args = Wide(nn.Linear(64, 64)), self.rows()
        want = step(copy.deepcopy(model), args)
        with replayed(True) as kinds:
            memopt.optimize(model, activation_budget="70%", sample=args)
            with Counts():
                self.same(step(model, args), want)
            self.assertEqual(kinds[-1], "python")
            self.same(step(model, args), want)
            self.assertEqual(kinds[-1], "native")

    def test_func(self):
        """torch.func.vmap in a forward pass."""

        class Maps(nn.Module):
            def forward(self, x):
                return torch.func.vmap(lambda row: torch.tanh(row) * row.sum())(x) + torch.sin(x)

        self.both(Wide(Maps()), self.rows())

    def test_lists_of_lists(self):
        """An operator that writes into tensors in lists of lists, as collectives do."""
        library = torch.library.Library("memopt_test", "FRAGMENT")
        self.addCleanup(library._destroy)
        library.define("gather_(Tensor(a!)[][] into, Tensor[] of) -> Tensor(a!)[][]")

        def gather(into, of):
            for parts in into:
                for part, x in zip(parts, of, strict=True):
                    part.copy_(x * 2)
            return into

        library.impl("gather_", gather, "CompositeExplicitAutograd")

        class Gathers(nn.Module):
            def forward(self, x):
                for _ in range(3):
                    x = torch.tanh(x)
                    part = torch.empty_like(x)
                    with torch.no_grad():
                        torch.ops.memopt_test.gather_([[part]], [x.detach()])
                    x = x * torch.sigmoid(part)
                return x

        self.both(Wide(Gathers()), self.rows())

    def test_operator_from_later(self):
        """An operator that is registered when the module is there."""
        with replayed(True):
            step(Wide(nn.Identity()), self.rows())

        @torch.library.custom_op("memopt_test::later", mutates_args=())
        def later(x: torch.Tensor, by: float) -> torch.Tensor:
            return x * by

        later.register_autograd(lambda ctx, grad: (grad * 2, None))

        class Later(nn.Module):
            def forward(self, x):
                return torch.sin(later(torch.tanh(x), 2.0))

        self.both(Wide(Later()), self.rows())

    def test_written_without_a_count(self):
        """A dropped tensor that is written through .data raises: it could not be made again as it is now."""

        class Writes(nn.Module):
            write = False

            def forward(self, x):
                y = torch.sigmoid(x * 2)
                z = torch.sigmoid(y * y)
                if self.write:
                    y.data.mul_(2)
                return z

        model, args = Wide(Writes()), self.rows()
        for native in (True, False):
            with self.subTest(native=native), replayed(native):
                model.inner.write = False
                with self.assertRaises(memopt.BudgetError) as floor:
                    memopt.optimize(model, activation_budget=1, sample=args)
                memopt.optimize(model, activation_budget=floor.exception.best, sample=args)
                step(model, args)
                model.inner.write = True
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    step(model, args)
                    step(model, args)

    def test_strict(self):
        from test_optimize import Skips

        model, args = Wide(Skips()), self.rows()
        for native in (True, False):
            with self.subTest(native=native), replayed(native):
                memopt.optimize(model, activation_budget="70%", sample=args, strict=True)
                step(model, args)
                model.inner.skip = True
                with self.assertRaisesRegex(RuntimeError, "leaves the recorded one.*operator 6 is"):
                    step(model, args)
                model.inner.skip = False
                step(model, args)

    def test_nothing_stays(self):
        """Behind a step, whether it ended or not, the keys are off, no hooks are there, and no tensor of it is held."""

        class Fails(nn.Module):
            fails = False

            def forward(self, x):
                y = torch.tanh(torch.sin(x))
                if self.fails:
                    raise KeyboardInterrupt
                return y * y

        model, args = Wide(Fails()), self.rows()
        with replayed(True) as kinds:
            memopt.optimize(model, activation_budget="70%", sample=args)
            step(model, args)
            model.inner.fails = True
            for _ in range(2):
                with self.assertRaises(KeyboardInterrupt):
                    model(*args)
            self.assertEqual(kinds[-1], "native")
            for key in ("CustomRNGKeyId", "TESTING_ONLY_GenericMode"):
                self.assertFalse(torch._C._dispatch_tls_is_dispatch_key_included(getattr(torch._C.DispatchKey, key, key)))
            self.assertIsNone(torch._C._autograd._top_saved_tensors_default_hooks(True))
            model.inner.fails = False
            counts = []
            for _ in range(4):
                step(model, args)
                gc.collect()
                counts.append(sum(1 for o in gc.get_objects() if isinstance(o, torch.Tensor) or type(o).__name__ == "Step"))
            self.assertEqual(counts[1:], counts[:1] * 3)

    def test_workers(self):
        """Batches that forked processes make."""
        loader = torch.utils.data.DataLoader([torch.full((64,), i / 64) for i in range(64)], batch_size=32, num_workers=2, multiprocessing_context="fork")
        model = Wide(nn.Linear(64, 64))
        plain = copy.deepcopy(model)
        with replayed(True) as kinds:
            memopt.optimize(model, activation_budget="70%", sample=torch.randn(32, 64))
            for _ in range(2):
                for batch in loader:
                    self.same(step(model, (batch,)), step(plain, (batch,)))
            self.assertEqual(kinds[-1], "native")

    def loop(self, model, loop, last: int, before: int = 12, times: int = 12, exact=True, slack=0, **settings):
        """A loop by either replay: the gradients of eager mode, within the bytes promised, and slack for what the loop holds beside; by the native module in the last steps."""
        plain = copy.deepcopy(model)
        want = [loop(plain, i) for i in range(before + times)] if exact else {}
        for native in (True, False):
            ours = copy.deepcopy(model)
            with self.subTest(native=native), replayed(native) as ran, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                memopt.optimize(ours, activation_budget="60%", verbose=False, **settings)
                for i in range(before + times):
                    if i == before:
                        gc.collect()
                    planned = len(ran)
                    with watched() if i >= before else contextlib.nullcontext() as found:
                        got = loop(ours, i)
                    self.same(got, want[i] if exact else want.setdefault(i, got))
                    if i >= before and len(ran) > planned:
                        self.assertLessEqual(found.peak, memopt.torch.report(ours).promised_peak + slack + 4096, f"step {i}")
                self.assertEqual(set(ran[-last:]), {"native" if native else "python"})
                self.assertGreater(memopt.torch.report(ours).plan.result.recomputed_nodes, 0)

    def test_programs(self):
        """Steps that go on as another program, which is seen at an operator or at the backward pass."""
        args = (torch.randn(256, 64),)
        order = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(1)).tolist()

        class More(Ways):
            def forward(self, x):
                out = super().forward(x)
                return out.tanh().square().mean() if self.way == 3 else out.tanh()

        def loop(m, i):
            m.way = order[i]
            return step(m, args, None if m.way == 3 else lambda out: out.square().mean())

        self.loop(More(), loop, last=12, before=30, times=20, slack=256 << 10)

    def test_passes(self):
        """One to three passes before a backward pass."""
        args = (torch.randn(128, 64),)

        def loop(m, i):
            return step(m, args, loss=lambda out: sum((m(*args).square().mean() for _ in range(i % 3)), out.square().mean()))

        self.loop(Ways(), loop, last=6, slack=480 << 10)

    def test_kept_graph(self):
        """A graph through which two backward passes go."""
        args = (torch.randn(128, 64),)

        def loop(m, i):
            m.zero_grad(set_to_none=True)
            out = m(*args).square().mean()
            out.backward(retain_graph=True)
            out.backward()
            return out.detach().clone(), {n: p.grad.clone() for n, p in m.named_parameters()}, {}

        self.loop(Ways(), loop, last=6, slack=192 << 10)  # gradients twice, and two activations more on PyTorch 2.9, in Python

    def test_lengths(self):
        """Sizes of one program."""
        batches = [(torch.randn(n, 64),) for n in (256, 192, *torch.randint(100, 260, (22,), generator=torch.Generator().manual_seed(2)).tolist())]
        self.loop(Ways(), lambda m, i: step(m, batches[i], lambda out: out.square().mean()), last=12)

    def test_loss_in_chunks(self):
        """What is computed on the side, without modes, is none of the step's."""

        class Classes(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = Ways(), nn.Linear(64, 500)

            def forward(self, x, target):
                scores = self.head(self.body(x)).view(16, 16, 500)
                return F.cross_entropy(scores.view(-1, 500), target)

        args = (torch.randn(256, 64), torch.randint(0, 500, (256,)))
        self.loop(Classes(), lambda m, i: step(m, args), last=6, before=4, times=6, exact=False, loss_chunks=4)

    def test_audited(self):
        """The first planned step is run by Python, which sees whether the native module sees the same; the second is audited."""
        model, args = Ways(), (torch.randn(128, 64),)
        with replayed(True) as ran:
            memopt.optimize(model, activation_budget="60%", verbose=False)
            for _ in range(4):
                step(model, args, lambda out: out.square().mean())
        self.assertEqual(ran, ["python", "native", "native"])
        self.assertGreater(AUDITS, 1)

    def test_report(self):
        model, args = Wide(nn.Linear(64, 64)), self.rows()
        for native, kind in ((True, "native"), (False, "python")):
            with replayed(native):
                memopt.optimize(model, activation_budget="70%", sample=args)
                step(model, args)
                self.assertEqual(memopt.torch.report(model).to_dict()["replay"], kind)

    def test_measured_time(self):
        """A sample's steps are timed as they are and under the plan, and the line has what was measured beside what was promised."""
        model, args = Wide(nn.Linear(64, 64)), self.rows()
        plain = copy.deepcopy(model)
        with self.assertLogs("memopt", "INFO") as told:
            made = memopt.optimize(model, activation_budget="70%", sample=args)
        self.assertAlmostEqual(made.measured_overhead, made.seconds[1] / made.seconds[0] - 1)
        self.assertGreater(made.seconds[0], 0)
        self.assertRegex(told.output[-1], r"for \+.*% time.* promised, [+-].*% measured; ")
        self.assertEqual(made.to_dict()["measured_overhead"], made.measured_overhead)
        self.same(step(model, args), step(plain, args))
        made.seconds = (1e3 * made.seconds[0], 1e3 * made.seconds[1])
        self.assertRegex(made.profile_off, "the step takes .* ms, and .* ms by the profile that prices its plan: python -m memopt profile-torch")
        self.assertIsNone(memopt.optimize(model, activation_budget="70%", sample=args, verbose=False).measured_overhead)
        with mock.patch("memopt.torch.loop.timed.LONG", 0):
            self.assertIsNone(memopt.optimize(model, activation_budget="70%", sample=args).measured_overhead)

    def test_replay(self):
        """The replay of many tiny operators takes time that the promise names; that of large ones does not show."""
        found = []
        for width, blocks in ((8, 300), (512, 4)):
            torch.manual_seed(0)
            model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(blocks)])
            made = memopt.optimize(model, activation_budget="80%", sample=torch.randn(16 * width, width), loss=lambda out: out.square().mean(), verbose=False)
            self.assertEqual(made.to_dict()["replay_overhead"], made.replay_overhead)
            self.assertEqual("for its replay" in str(made), made.replay_overhead >= 0.01)
            made.replay = "python"
            slow = made.replay_overhead
            made.replay = "graph"
            self.assertEqual(made.replay_overhead, 0.0)
            made.replay = "native"
            self.assertLess(made.replay_overhead, slow)
            found.append(made.replay_overhead)
        self.assertGreater(found[0], 0.05)
        self.assertLess(found[1], 0.01)


if __name__ == "__main__":
    unittest.main()
