"""memopt.Module outlives its service and is outlived by none: kills, forks, modules that are dropped."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import torch
from models import GPT
from torch import nn
from torch.nn import functional as F

import memopt
from memopt import _arena, _host, _messages
from served import Served


def small():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


class Killed(Served):
    def kill_in(self, seconds):
        """Kills the service a moment later; the time when it did is in the list."""
        pid, when = _host.current().pid, []

        def kill():
            time.sleep(seconds)
            when.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)

        threading.Thread(target=kill).start()
        return when

    def test_in_a_step(self):
        served, _ = self.pair(GPT(layers=2, rows=128, dropout=0.0))
        x = torch.randint(0, 300, (16, 128))
        served(x, x).backward()
        took = served.report.seconds
        served.zero_grad()
        late = []
        for share in (0.2, 0.5, 0.7):  # while it goes forward, and while it goes back
            for _ in range(10):  # until the signal does not come between two calls
                when = self.kill_in(share * took)
                with self.assertRaises(memopt.MemoptError) as caught:
                    for _ in range(1000):  # as many as it takes until the signal comes
                        served(x, x).backward()
                served.zero_grad()
                if "ended during a call" in str(caught.exception):
                    break
            self.assertRegex(str(caught.exception), "ended during a call.*SIGKILL")
            late.append(time.monotonic() - when[0])
            self.assertEqual(caught.exception.returncode, -signal.SIGKILL)
            served.zero_grad()
        self.assertLess(min(late), 0.05)
        loss = served(x, x)
        loss.backward()
        served.eval()
        self.assertAlmostEqual(loss.item(), served(x, x).item(), 3)

    def test_between_steps(self):
        served, plain = self.pair(small(), "mse")
        batches = [(torch.randn(4, 8), torch.randn(4, 3)) for _ in range(4)]
        optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (served, plain)]
        for x, y in batches:
            for optimizer in optimizers:
                optimizer.zero_grad()
            served(x, y).backward()
            F.mse_loss(plain(x), y).backward()
            self.assert_gradients(served, plain)
            for optimizer in optimizers:
                optimizer.step()
            pid = _host.current().pid
            os.kill(pid, signal.SIGKILL)
            while _host.current().pid == pid:
                time.sleep(0.001)

    def test_between_the_passes(self):
        served, _ = self.pair(small(), "mse")
        loss = served(torch.randn(4, 8), torch.randn(4, 3))
        os.kill(_host.current().pid, signal.SIGKILL)
        with self.assertRaises(memopt.MemoptError) as caught:
            loss.backward()
        self.assertEqual(caught.exception.code, "UNAVAILABLE")
        served(torch.randn(4, 8), torch.randn(4, 3)).backward()

    def test_resident_says_what_is_lost(self):
        served = memopt.Module(small(), "mse", mode="resident", device="cpu", lr=0.1)
        twin = memopt.Module(small(), "mse", mode="resident", device="cpu", lr=0.1)
        twin.load_state_dict(served.state_dict())
        self.addCleanup(twin.close)
        self.addCleanup(served.close)
        x, y = torch.randn(4, 8), torch.randn(4, 3)
        for model in (served, twin):
            model.step(x, y)
            model.step(x, y)
            model.sync()
        twin_next = [twin.step(x, y).item(), twin.step(x, y).item()]
        twin.sync()
        served.step(x, y)
        os.kill(_host.current().pid, signal.SIGKILL)
        time.sleep(0.05)
        with self.assertRaisesRegex(memopt.MemoptError, "what 1 steps since the last sync"):
            served.step(x, y)
        # From the last sync on all is as if nothing had been, the optimizer's states included.
        self.assertEqual([served.step(x, y).item(), served.step(x, y).item()], twin_next)
        for a, b in zip(served.state_dict().values(), twin.state_dict().values(), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


class Dropped(Served):
    def test_gives_everything_back(self):
        served, _ = self.pair(small(), "mse")
        served(torch.randn(4, 8), torch.randn(4, 3)).backward()
        served.zero_grad()
        self.assertEqual([n for n in os.listdir(_host.current().folder) if n.startswith("call-")], [])
        used = _arena.current().used
        self.assertGreater(used, 0)
        ((held,),) = served._steps._held.values()
        number = held._session._id
        del served, held
        self._cleanups.clear()
        gc.collect()
        self.assertLess(_arena.current().used, used)
        deadline = time.monotonic() + 5
        with self.assertRaisesRegex(memopt.MemoptError, "no session"):
            while time.monotonic() < deadline:
                _host.current().call("Stats", _messages.SessionRequest(session=number), 5)
                time.sleep(0.01)

    def test_flat_over_modules(self):
        def one():
            served = memopt.Module(small(), "mse", device="cpu", fallback="raise")
            served(torch.randn(4, 8), torch.randn(4, 3)).backward()

        one()
        gc.collect()
        before = _arena.current().size, len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            one()
            gc.collect()
        self.assertEqual((_arena.current().size, len(os.listdir("/proc/self/fd"))), before)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.full((8,), float(i)), torch.zeros(3)


class Forked(Served):
    def test_workers_of_a_loader(self):
        served, _ = self.pair(small(), "mse")
        served(torch.randn(4, 8), torch.randn(4, 3)).backward()
        pid = _host.current().pid
        seen = 0
        for _ in range(2):
            for x, y in torch.utils.data.DataLoader(Rows(), 4, num_workers=2, multiprocessing_context="fork"):
                served(x, y).backward()
                seen += 1
        self.assertEqual((seen, _host.current().pid), (12, pid))

    def test_a_child_has_a_service_of_its_own(self):
        served, _ = self.pair(small(), "mse")
        x, y = torch.randn(4, 8), torch.randn(4, 3)
        want = served(x, y)
        want.backward()
        child = os.fork()
        if child == 0:
            try:
                fine = served(x, y).item() == want.item()  # PyTorch has no backward pass in a child
            except BaseException:
                fine = False
            memopt.close()
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(served(x, y).item(), want.item())

    def test_killed_trainer_with_workers(self):
        code = """
            import sys, time, torch, memopt
            from memopt import _host
            from torch import nn
            class Rows(torch.utils.data.Dataset):
                def __len__(self): return 8
                def __getitem__(self, i): return torch.zeros(8), torch.zeros(3)
            served = memopt.Module(nn.Linear(8, 3), "mse", device="cpu", fallback="raise")
            loader = iter(torch.utils.data.DataLoader(Rows(), 2, num_workers=2, persistent_workers=True, multiprocessing_context="fork"))
            served(*next(loader)).backward()
            print(_host.current().pid, _host.current().folder, flush=True)
            time.sleep(60)
        """
        trainer = subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.addCleanup(trainer.stdout.close)
        pid, folder = trainer.stdout.readline().split()
        trainer.kill()
        killed = time.monotonic()
        trainer.wait()
        while os.path.exists(folder) or os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]:
            self.assertLess(time.monotonic() - killed, 1)
            time.sleep(0.005)


if __name__ == "__main__":
    unittest.main()
