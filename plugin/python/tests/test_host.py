"""The host and the service together, over the real transport."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import resource
import signal
import threading
import time
import unittest
from unittest import mock

import memopt
from memopt import _binary, _host
from support import HostCase, running

P256 = bytes.fromhex("06082a8648ce3d030107")  # the curve's object identifier in DER


class Calls(HostCase):
    def test_two_plans_one_service(self) -> None:
        first = memopt.plan("a/train.onnx", dims={"batch": 8, "seq": 2048}, memory_budget="8GB")
        pid = memopt.info()["pid"]
        second = memopt.plan("a/train.onnx", dims={"batch": 1})
        self.assertEqual(memopt.info()["pid"], pid)
        self.assertEqual((first.result.peak, second.result.peak), (32768, 2))
        self.assertEqual(first.request.Settings["budget"], "8GB")
        self.assertEqual(first.model.path, os.path.abspath("a/train.onnx"))
        self.assertEqual(str(first), "echo of train.onnx: peak 32768")

    def test_every_argument_arrives(self) -> None:
        os.environ["ORTMODULE_MEMORY_OPT_LEVEL"] = "1"
        memopt.info()  # the service is older than the next variable
        os.environ["MEMOPT_BUDGET"] = "3GB"
        os.environ["ELSE"] = "not sent"
        got = memopt.plan(
            "m.onnx",
            dims={"batch": 2},
            budget=0.6,
            activation_budget=1 << 30,
            max_overhead=0.1,
            strategy="optimize",
            level=0,
            config=["BiasGelu+:1:-1"],
            boundary=False,
            compat="1.19",
            loss="cross-entropy",
            trainable=["a,b"],
            optimizer="sgd",
            save_to="p.json",
            emit="e.onnx",
            html="r.html",
            svg="s.svg",
            show=["graph", "arena"],
        ).request.to_dict()
        environment = got.pop("Environment")
        self.assertEqual(got.pop("Folder"), os.getcwd())
        self.assertEqual(
            {k: environment.get(k) for k in ("ORTMODULE_MEMORY_OPT_LEVEL", "MEMOPT_BUDGET", "ELSE")},
            {"ORTMODULE_MEMORY_OPT_LEVEL": "1", "MEMOPT_BUDGET": "3GB", "ELSE": None},
        )
        self.assertEqual(
            got,
            {
                "Model": os.path.abspath("m.onnx"),
                "Settings": {
                    "dims": '{"batch": 2}',
                    "budget": "60%",
                    "activation_budget": "1073741824",
                    "max_overhead": "10%",
                    "strategy": "optimize",
                    "level": "0",
                    "config": '["BiasGelu+:1:-1"]',
                    "boundary": "off",
                    "compat": "1.19",
                    "loss": "cross-entropy",
                    "trainable": '["a,b"]',
                    "optimizer": "sgd",
                },
                "SaveTo": os.path.abspath("p.json"),
                "Emit": os.path.abspath("e.onnx"),
                "HTML": os.path.abspath("r.html"),
                "SVG": os.path.abspath("s.svg"),
                "Show": ["graph", "arena"],
                "Dim": "",
                "Node": "",
                "Plan": "",
            },
        )

    def test_removed_variables_stay_removed(self) -> None:
        with mock.patch.object(_binary, "find", return_value=os.environ.pop("MEMOPT_PLUGIN_PATH")):
            os.environ["MEMOPT_BUDGET"] = "3GB"
            self.assertEqual(memopt.plan("m.onnx").request.Environment, {"MEMOPT_BUDGET": "3GB"})
            del os.environ["MEMOPT_BUDGET"]  # the service was started with it
            self.assertEqual(memopt.plan("m.onnx").request.Environment, {})

    def test_errors(self) -> None:
        cases = {
            "cannot.onnx": (memopt.BudgetError, "FAILED_PRECONDITION", 'no plan fits 1 GiB: the floor is 1.5 GiB, held by node "loss"'),
            "bad.onnx": (memopt.MemoptError, "INVALID_ARGUMENT", "bad.onnx: not a model: wire type 7 at byte 0"),
            "long.onnx": (memopt.MemoptError, "INVALID_ARGUMENT", "more bytes)"),
            "other.onnx": (memopt.MemoptError, "UNKNOWN", r"disk \xff full"),
            "panic.onnx": (memopt.MemoptError, "INTERNAL", "panic: broken invariant"),
        }
        pid = memopt.info()["pid"]
        for model, (kind, code, text) in cases.items():
            with self.subTest(model), self.assertRaises(memopt.MemoptError) as caught:
                memopt.plan(model)
            e = caught.exception
            self.assertIs(type(e), kind)
            self.assertEqual((e.code, e.returncode, e.binary), (code, None, _binary.find()))
            self.assertIn(text, str(e))
        self.assertEqual(memopt.info()["pid"], pid, "the service lives on")

    def test_a_budget_that_cannot_be_met_in_fields(self) -> None:
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.plan("cannot.onnx")
        e = caught.exception
        self.assertEqual((e.want, e.best, e.fixed, e.floor.peak, e.floor.node), (1, 3, 4, 2, "é"))
        self.assertEqual(e.changes, (("budget=7", 0.5, {"budget": "7"}),))

    def test_errors_travel_between_processes(self) -> None:
        with self.assertRaises(memopt.BudgetError) as caught:
            memopt.plan("cannot.onnx")
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertIs(type(again), memopt.BudgetError)
        self.assertEqual((str(again), vars(again)), (str(caught.exception), vars(caught.exception)))

    def test_deadline(self) -> None:
        pid = memopt.info()["pid"]
        with self.assertRaises(memopt.MemoptError) as caught:
            memopt.plan("slow.onnx", timeout=0.1)
        self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")
        self.assertIn("0.1 s", str(caught.exception))
        self.assertEqual(memopt.info()["pid"], pid)

    def test_long_timeouts(self) -> None:
        for timeout in (1e9, 1e12, 1e308, float("inf"), None):
            with self.subTest(timeout):
                self.assertEqual(memopt.plan("m.onnx", timeout=timeout).result.peak, 2)

    def test_warnings_are_logged(self) -> None:
        with self.assertLogs("memopt", logging.WARNING) as logs:
            memopt.plan("m.onnx")
        self.assertEqual(logs.output, ["WARNING:memopt:this plan is an echo, whatever level says"])

    def test_prints_of_the_service_neither_block_nor_show(self) -> None:
        with self.trainer('memopt.plan("print.onnx", timeout=20); print("done")') as process:
            out, err = process.communicate(timeout=30)
        self.assertEqual((out, err), ("done\n", ""))

    def test_threads(self) -> None:
        peaks: list[int] = []

        def work(n: int) -> None:
            for _ in range(10):
                peaks.append(memopt.plan("m.onnx", dims={"batch": n}).result.peak // n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(peaks, [2] * 80)
        self.assertEqual(len(self.folders()), 1)

    def test_interrupt_ends_the_call_not_the_service(self) -> None:
        code = """
            pid = memopt.info()["pid"]
            print("ready")
            try:
                memopt.plan("slow.onnx")
            except KeyboardInterrupt:
                print(memopt.info()["pid"] == pid)
        """
        with self.trainer(code) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.communicate(timeout=10)[0], "True\n")

    def test_progress_is_told(self) -> None:
        heard: list[tuple[str, float]] = []
        for _ in range(20):  # an echo may end before its watcher comes
            memopt.plan("m.onnx", progress=lambda phase, done: heard.append((phase, done)))
        self.assertLessEqual(set(heard), {("repeating m.onnx", 0.5)})
        with self.assertRaises(memopt.MemoptError):
            memopt.plan("slow.onnx", timeout=1, progress=lambda phase, done: heard.append((phase, done)))
        self.assertIn(("repeating slow.onnx", 0.5), heard)
        with self.assertRaisesRegex(TypeError, "function of \\(phase, done\\), not 3"):
            memopt.plan("m.onnx", progress=3)  # type: ignore[arg-type]

    def test_progress_is_shown(self) -> None:
        code = """
            try:
                memopt.plan("slow.onnx", timeout=2, progress=True)
            except memopt.MemoptError:
                memopt.plan("m.onnx", progress=True)  # is done before it would be shown
        """
        with self.trainer(code) as process:
            shown = process.communicate(timeout=20)[1].split("\n")  # text has no carriage returns
        self.assertEqual(shown[:2], ["", "memopt: repeating slow.onnx, 1 s"])
        self.assertEqual([line.strip() for line in shown[-2:]], ["", ""])


class Start(HostCase):
    def test_field_6_is_p256(self) -> None:
        lines = []
        parse = _host.Host._parse_handshake
        with mock.patch.object(_host.Host, "_parse_handshake", lambda host, line: (lines.append(line), parse(host, line))[1]):
            memopt.info()  # so this grpcio verified it
        field = lines[0].decode().strip().split("|")[5]
        self.assertIn(P256, base64.b64decode(field + "=" * (-len(field) % 4)))

    def test_inherited_plugin_variables_are_stripped(self) -> None:
        os.environ.update(PLUGIN_MULTIPLEX_GRPC="true", PLUGIN_PROTOCOL_VERSIONS="7", PLUGIN_UNIX_SOCKET_DIR="/", PLUGIN_UNIX_SOCKET_GROUP="0")
        self.assertEqual(memopt.info()["protocol"], 3)
        seen = str(self.raised(self.fake_binary("env | grep ^PLUGIN_ | cut -d= -f1 >&2; exit 1")))
        self.assertEqual(
            sorted(line.strip() for line in seen.splitlines() if "PLUGIN_" in line),
            ["PLUGIN_CLIENT_CERT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR"],
        )

    def test_socket_is_private(self) -> None:
        host = _host.current()
        self.assertEqual(os.stat(host.folder).st_mode & 0o7777, 0o700)
        self.assertEqual(os.path.dirname(host.folder), self.runtime)
        self.assertEqual(len(os.listdir(host.folder)), 1)

    def test_long_folders_are_passed_over(self) -> None:
        long = os.path.join(self.runtime, "x" * 90)
        os.mkdir(long)
        os.environ["XDG_RUNTIME_DIR"] = long
        folder = _host.current().folder
        self.assertEqual(os.path.dirname(folder), "/tmp")
        memopt.close()
        self.assertFalse(os.path.exists(folder))

    def test_misbehaving_binaries(self) -> None:
        line = "1|3|unix|/tmp/none|grpc|"
        cases = {
            "echo hello; sleep 9": ("wrote no handshake but b'hello\\n'", None),
            "echo 'cannot open libvulkan.so' >&2; exit 3": ("ended before it was ready (exit code 3)", 3),
            "exit 0": ("ended before it was ready (exit code 0)", 0),
            "kill -9 $$": ("killed by SIGKILL", -9),
            f"echo '{line.replace('1|3', '1|1')}AAAA'; sleep 9": ("speaks protocol 1, this package speaks 3", None),
            f"echo '{line}'; sleep 9": ("wrote no handshake", None),
            f"echo '{line}*'; sleep 9": ("broken certificate", None),
        }
        for script, (text, returncode) in cases.items():
            with self.subTest(script), self.assertRaises(memopt.MemoptError) as caught:
                _host.Host(self.fake_binary("exec 8<&0; " + script.replace("sleep", "exec sleep")))
            e = caught.exception
            self.assertEqual((e.code, e.returncode), ("NOT_STARTED", returncode))
            self.assertIn(text, str(e))
            self.assertEqual(self.folders(), [])
        self.assertIn("libvulkan", str(self.raised(self.fake_binary("echo libvulkan >&2; exit 1"))))

    def test_silent_binary(self) -> None:
        self.assertIn("did not answer within 0.3 s", str(self.raised(self.fake_binary("exec sleep 60"), 0.3)))
        self.assertEqual(self.folders(), [])

    def test_not_a_memopt_binary(self) -> None:
        self.assertIn("gave no certificate", str(self.raised("/bin/true")))

    def test_not_to_be_run(self) -> None:
        path = os.path.join(self.runtime, "text")
        open(path, "w").close()
        self.assertIn("which is not an executable file", str(self.raised(path)))
        os.environ["MEMOPT_PLUGIN_PATH"] = path + "?"
        with self.assertRaises(memopt.MemoptError) as caught:
            memopt.info()
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        self.assertRegex(str(caught.exception), r"MEMOPT_PLUGIN_PATH is .*text\?, which does not exist")

    def raised(self, binary: str, timeout: float = 10) -> memopt.MemoptError:
        with self.assertRaises(memopt.MemoptError) as caught:
            _host.Host(binary, timeout)
        return caught.exception

    def test_another_binary_replaces_the_service(self) -> None:
        pid = memopt.info()["pid"]
        os.environ["MEMOPT_PLUGIN_PATH"] = self.fake_binary(f"exec {os.environ['MEMOPT_PLUGIN_PATH']} serve")
        self.assertNotEqual(memopt.info()["pid"], pid)
        self.assertFalse(running(pid))

    def test_nothing_but_the_private_folder_is_listened_on(self) -> None:
        pid = memopt.info()["pid"]
        inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with open(f"/proc/{pid}/net/{table}") as f:
                for row in f.readlines()[1:]:
                    self.assertNotIn(f"socket:[{row.split()[9]}]", inodes)


class End(HostCase):
    def test_close_and_again(self) -> None:
        pid = memopt.info()["pid"]
        memopt.close()
        self.assertFalse(running(pid))
        self.assertEqual(self.folders(), [])
        memopt.close()
        self.assertNotEqual(memopt.info()["pid"], pid)

    def test_crash_is_an_exception_that_says_why(self) -> None:
        for model, returncode, text in (("crash.onnx", 2, "panic: nobody recovers this"), ("exit.onnx", 3, "exit code 3")):
            pid = memopt.info()["pid"]
            with self.subTest(model), self.assertRaises(memopt.MemoptError) as caught:
                memopt.plan(model)
            self.assertEqual((caught.exception.code, caught.exception.returncode), ("UNAVAILABLE", returncode))
            self.assertIn(text, str(caught.exception))
            self.assertNotEqual(memopt.info()["pid"], pid, "the next call has a new service")

    def test_crash_begins_with_why(self) -> None:
        for signum, text in ((signal.SIGSEGV, "SIGSEGV: segmentation violation"), (signal.SIGABRT, "SIGABRT: abort")):
            pid = memopt.info()["pid"]
            threading.Timer(0.1, os.kill, (pid, signum)).start()
            with self.subTest(signum), self.assertRaises(memopt.MemoptError) as caught:
                memopt.plan("slow.onnx")
            self.assertEqual(caught.exception.stderr[0], text)
            self.assertLessEqual(len(caught.exception.stderr), 20)

    @unittest.skipUnless(hasattr(resource, "prlimit"), "only Linux limits another process")
    def test_out_of_memory(self) -> None:
        resource.prlimit(memopt.info()["pid"], resource.RLIMIT_AS, (4 << 30, 4 << 30))
        with self.assertRaises(memopt.MemoptError) as caught:
            memopt.plan("memory.onnx")
        self.assertIn("out of memory", "".join(caught.exception.stderr[:2]))
        self.assertIn("hint: memory ran out", str(caught.exception))

    def test_killed_service(self) -> None:
        pid = memopt.info()["pid"]
        threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)).start()
        with self.assertRaises(memopt.MemoptError) as caught:
            memopt.plan("slow.onnx")
        self.assertEqual(caught.exception.returncode, -9)
        self.assertIn("killed by SIGKILL", str(caught.exception))
        self.assertIn("memory runs out", str(caught.exception))
        self.assertNotEqual(memopt.info()["pid"], pid)
        self.assertEqual(len(self.folders()), 1, "the folder of the killed one is removed")

    def killed_trainer(self, code: str) -> None:
        with self.trainer(code) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            self.assertTrue(running(pid))
            process.kill()
            self.assert_gone(pid)

    def test_nothing_is_left_of_a_killed_call(self) -> None:
        """The files of a call go with the trainer, whenever it is killed; with the service killed too, the next one that starts removes them."""
        code = """
            from memopt import _scratch
            with _scratch.folder(1 << 20) as folder:
                with open(folder + "/weights", "wb") as f:
                    f.write(bytes(1 << 20))
                print(memopt.info()["pid"], folder, flush=True)
                time.sleep(60)
        """
        for service_too in (False, True):
            with self.trainer(code) as process:
                assert process.stdout is not None
                pid, folder = process.stdout.readline().split()
                self.assertTrue(folder.startswith(self.runtime), folder)
                if service_too:
                    os.kill(int(pid), signal.SIGSTOP)
                process.kill()
                process.wait()
                if service_too:
                    os.kill(int(pid), signal.SIGKILL)
                while running(int(pid)):
                    time.sleep(0.01)
            if service_too:
                self.assertEqual(len(self.folders()), 1)
                memopt.info()
                self.assertEqual(self.folders(), [os.path.basename(_host.current().folder)])
                memopt.close()
            for _ in range(100):
                if not self.folders():
                    break
                time.sleep(0.02)
            self.assertEqual(self.folders(), [])

    def test_files_that_do_not_fit_beside_the_socket(self) -> None:
        """They go to the temporary folder, and with the next service if their trainer is killed."""
        with self.trainer("""
            from memopt import _scratch
            with _scratch.folder(1 << 60) as folder:
                print(memopt.info()["pid"], folder, flush=True)
                input()
            print(os.path.exists(folder), flush=True)
            with _scratch.folder(1 << 60) as folder:
                open(folder + "/weights", "w").close()
                print(folder, flush=True)
                time.sleep(60)
        """) as process:
            assert process.stdout is not None and process.stdin is not None
            pid, folder = process.stdout.readline().split()
            self.assertFalse(folder.startswith(self.runtime + "/"), folder)
            memopt.info()
            memopt.close()
            self.assertTrue(os.path.isdir(folder), "its trainer lives")
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "False\n")
            folder = process.stdout.readline().strip()
            process.kill()
            self.assert_gone(int(pid))
        memopt.info()
        self.assertFalse(os.path.exists(folder))

    def test_a_folder_of_a_live_trainer_stays(self) -> None:
        with self.trainer('print(memopt.info()["pid"], flush=True); input(); print(memopt.info()["pid"])') as process:
            assert process.stdout is not None and process.stdin is not None
            pid = process.stdout.readline()
            memopt.info()
            self.assertEqual(len(self.folders()), 2)
            memopt.close()
            self.assertEqual(len(self.folders()), 1)
            process.stdin.write("\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), pid)

    def test_trainer_killed_when_idle(self) -> None:
        self.killed_trainer('print(memopt.info()["pid"]); time.sleep(60)')

    def test_trainer_killed_when_busy(self) -> None:
        self.killed_trainer("""
            import threading
            pid = memopt.info()["pid"]
            threading.Timer(0.2, print, (pid,)).start()
            memopt.plan("busy.onnx")
        """)

    def test_trainer_killed_while_a_forked_worker_lives(self) -> None:
        self.killed_trainer("""
            pid = memopt.info()["pid"]
            if os.fork() == 0:
                os.close(1); os.close(2)
                time.sleep(3)
                os._exit(0)
            print(pid)
            time.sleep(60)
        """)

    def test_trainer_that_leaves(self) -> None:
        for how in ("os._exit(0)", "sys.exit(1)", "raise ValueError", "os.kill(os.getpid(), 15)", "pass"):
            with self.subTest(how), self.trainer(f'print(memopt.info()["pid"])\n{how}') as process:
                pid = int(process.communicate(timeout=10)[0])
                self.assert_gone(pid)

    def test_started_from_a_thread_that_ends(self) -> None:
        thread = threading.Thread(target=memopt.info)
        thread.start()
        thread.join()
        pid = _host._current.pid  # type: ignore[union-attr]
        time.sleep(0.1)
        self.assertEqual(memopt.info()["pid"], pid)


class Fork(HostCase):
    def run_trainer(self, code: str) -> str:
        with self.trainer(code) as process:
            out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return out

    def test_child_has_its_own_service(self) -> None:
        out = self.run_trainer("""
            mine = memopt.info()["pid"]
            child = os.fork()
            if child == 0:
                theirs = memopt.info()["pid"]
                print("own", theirs != mine, memopt.plan("m.onnx", dims={"b": 3}).result.peak)
                sys.exit(0)
            for _ in range(200):
                assert memopt.plan("m.onnx", timeout=10).result.peak == 2
            assert os.waitpid(child, 0)[1] == 0
            print("parent", memopt.info()["pid"] == mine)
        """)
        self.assertEqual(sorted(out.splitlines()), ["own True 6", "parent True"])
        self.assertEqual(self.folders(), [])

    def test_child_that_leaves_does_not_end_the_parents_service(self) -> None:
        for how in ("sys.exit(0)", "os._exit(0)", "memopt.close(); sys.exit(0)"):
            out = self.run_trainer(f"""
                mine = memopt.info()["pid"]
                child = os.fork()
                if child == 0:
                    {how}
                assert os.waitpid(child, 0)[1] == 0
                print(memopt.info()["pid"] == mine)
            """)
            self.assertEqual(out, "True\n", how)

    def test_inherited_host_refuses(self) -> None:
        out = self.run_trainer("""
            from memopt import _host, _messages
            host = _host.current()
            child = os.fork()
            if child == 0:
                try:
                    host.call("Info", _messages.InfoRequest(), 5)
                except memopt.MemoptError as e:
                    print(e.code, host.alive())
                host.close()
                sys.exit(0)
            os.waitpid(child, 0)
            print(host.alive(), memopt.info()["pid"] == host.pid)
        """)
        self.assertEqual(out, "FAILED_PRECONDITION False\nTrue True\n")

    def test_pool_of_forked_workers(self) -> None:
        out = self.run_trainer("""
            import multiprocessing
            def peak(n):
                return memopt.plan("m.onnx", dims={"b": n}, timeout=20).result.peak
            memopt.info()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(peak, range(1, 7)))
            print(peak(7))
        """)
        self.assertEqual(out, "[2, 4, 6, 8, 10, 12]\n14\n")


if __name__ == "__main__":
    unittest.main()
