# How a peer is talked to: lines of JSON. It greets with its version, the kernels
# that its library chose and its threads, or with the package that it lacks. {"open": case, ...} makes a case ready; {"run": n}
# does n steps of it and tells the seconds.
import json
import sys
import time

_out, sys.stdout = sys.stdout, sys.stderr


def _say(**what):
    _out.write(json.dumps(what) + "\n")
    _out.flush()


def need(package):
    try:
        return __import__(package)
    except ModuleNotFoundError as e:
        if e.name != package:
            raise
        _say(absent=package)
        sys.exit()


def serve(version, kernels, threads, cases, wait=lambda: None):
    _say(version=version, kernels=kernels, threads=threads)
    step = None
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            if "open" in ask:
                step = cases[ask.pop("open")](**ask)
                _say()
                continue
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(ask["run"]):
                step()
            wait()
            _say(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)
        except Exception as e:
            _say(error=f"{type(e).__name__}: {e}")


