"""One model of families.py, all ways to run its step in one process: `python run.py MODEL [--quick]` prints lines of JSON.

{"says": …} is what it is at, {"result": …} what it found; the packages that are missing are {"absent": …}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import sys

_out, sys.stdout = sys.stdout, sys.stderr


def say(**what: object) -> None:
    _out.write(json.dumps(what) + "\n")
    _out.flush()


def measured(name: str, quick: bool) -> dict[str, object]:
    import checkpoints
    import knob
    import planned
    from ways import Bench

    import families

    family = families.build(name)
    bench = Bench(family)
    large = name in families.LARGE
    all_ways = [bench.eager()]

    def each(what: str, more: object) -> None:
        for way in more:  # type: ignore[attr-defined]
            say(says=f"{name}: {what} {way.name}")
            if "measured" not in way.row and "error" not in way.row:
                bench.measure(way)
            all_ways.append(way)

    each("checkpoints", checkpoints.ways(bench, 1 if quick else 4))
    each("knob", knob.ways(bench, (0.5,) if quick else (1, 0.75, 0.5, 0.25, 0)))
    percents = (70, 50) if quick else tuple(range(90, 0, -10))
    rivals = [(f"as {w.name}", w.row["measured"]) for w in all_ways if w.kind == "checkpoint" and w.name.startswith("each") and "error" not in w.row]
    each("budget", planned.ways(bench, "eager", percents, () if quick else rivals))
    if not quick:
        each("in Python", planned.in_python(bench, (60,)))
        each("compiled", planned.ways(bench, "aot_eager", (80, 60, 45) if large else (60,), lowest_too=False))
    say(says=f"{name}: times")
    gc.collect()
    bench.time(all_ways, 0 if quick else 40 if large else 4, 3)
    return {"model": name, "large": large, "blocks": len(checkpoints.blocks(family.module)), "rows": [w.row for w in all_ways]}


def main() -> None:
    for package in ("torch", "transformers", "torchvision", "diffusers", "memopt"):
        if importlib.util.find_spec(package) is None:
            say(absent=package)
            return
    import torch

    from memopt.torch.native import build

    torch.set_num_threads(1)
    with contextlib.suppress(build.Unavailable):  # else steps are replayed in Python
        build.build()
    name, quick = sys.argv[1], "--quick" in sys.argv[2:]
    say(version=torch.__version__)
    import speed

    found = speed.MODELS[name](**({"quick": quick} if name == "loops" else {})) if name in speed.MODELS else measured(name, quick)
    say(result=found)


if __name__ == "__main__":
    main()
