"""The planner's answers beside the optimum: proven bound ≤ optimum ≤ plan, and mostly plans that are the optimum."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import oracle
from support import environment

BINARY = os.environ.get("MEMOPT_TEST_BINARY", "")
SOLVER = os.environ.get("MEMOPT_TEST_SOLVER", "")
REPOSITORY = Path(__file__).resolve().parents[3]
ALIGNMENT = 64  # of the planner's bytes


class Joint:
    """A joint graph's file as a problem: what internal/joint and planner make of it, written a second time."""

    # Random operators that draw nothing where they drop nothing.
    DROPOUT = ("aten._scaled_dot_product_flash_attention_for_cpu.default",)

    def __init__(self, path: Path, unit: int) -> None:
        with gzip.open(path) as f:
            joint = json.load(f)
        self.problem = p = oracle.Problem()
        self.steps: dict[int, int] = {}  # by node of memopt's graph: its operator
        self.of: dict[str, list[tuple[int | None, int]]] = {}  # by name: values, None for what is fed, and bytes
        results = {name for name in joint["outputs"] if name}
        never = {n["op"] for n in joint["nodes"] if self.draws(n)}
        backward, nodes = False, 0
        for n in joint["nodes"]:
            backward = backward or n["is_backward"] and n["op"] != "input"
            if n["op"] == "input":
                self.of[n["name"]] = [(None, n["outputs"][0]["bytes"])]
                continue
            source = n.get("alias_of") or n["inputs"][0] if n["op"] == "getitem" or n.get("alias_of") else None
            if n["op"] == "getitem" and len(self.of[source]) > 1:
                self.of[n["name"]] = [self.of[source][n["index"]]]
                continue
            if source:
                self.of[n["name"]] = [(self.of[source][0][0], n["outputs"][0]["bytes"])]
                nodes += len(n["outputs"]) == 1  # its parts are nodes, not it
                continue
            read = [x for name in n["inputs"] for x in self.of[name]]
            made = [(p.value(-(-o["bytes"] // unit) * unit, False), o["bytes"]) for o in n["outputs"]]
            self.of[n["name"]] = made
            cost = n["flops"] + sum(size for _, size in read + made) / 4
            inputs = list(dict.fromkeys(v for v, _ in read if v is not None))
            self.steps[nodes] = len(p.cost)
            nodes += 1
            p.border += not backward
            p.operator(cost, 0, not backward and n["op"] not in never, inputs, [v for v, _ in made], [])
        for name in results:
            if (v := self.of[name][0][0]) is not None:
                p.held[v] = True

    @classmethod
    def draws(cls, n: dict) -> bool:
        if "random" not in n.get("flags", ()):
            return False
        return n["op"] not in cls.DROPOUT or any(isinstance(x, float) and x for x in n.get("attrs", ()))


def step(r: random.Random, forward: int) -> oracle.Problem:
    """A program like a training step, with all that a problem can hold: work space, several outputs, held values, results over inputs."""
    p = oracle.Problem(border=forward)

    def operator(again: bool, inputs: list[int], outputs: list[int]) -> None:
        work = r.randrange(20) if r.random() < 0.25 else 0
        over = [v for v in inputs if p.bytes[v] == p.bytes[outputs[0]] and r.random() < 0.7]
        p.operator(r.randrange(10), work, again, inputs, outputs, over)

    def value(held: float) -> int:
        return p.value(r.choice((0, 3, 8, 8, 8, 13, 21)), r.random() < held)

    made: list[int] = []
    for _ in range(forward):
        inputs = r.sample(made[-4:], min(len(made), r.randrange(3)))
        outputs = [value(0.06) for _ in range(1 + (r.random() < 0.2))]
        operator(r.random() < 0.9, inputs, outputs)
        made += outputs
    gradient: list[int] = []
    for i in reversed(range(forward)):
        inputs = r.sample(made[: i + 2], min(i + 2, len(made), 1 + r.randrange(2))) + gradient
        gradient = [value(0.15)]
        operator(False, inputs, gradient)
    return p


def solve(questions: list[tuple[oracle.Problem, list[int]]]) -> list[dict]:
    text = "".join(json.dumps({**vars(p), "limits": limits}) for p, limits in questions)
    out = subprocess.run([SOLVER], input=text, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


@unittest.skipUnless(SOLVER, "MEMOPT_TEST_SOLVER is not set; use run_tests.sh")
class Random(unittest.TestCase):
    """Random programs. All lists of launches are looked through, or as many as the plan's own takes."""

    def compare(self, seed: int, programs: int, forward: range, optimal: float) -> None:
        """optimal is the share of limits whose plan is the best there is."""
        r = random.Random(seed)
        steps = [step(r, r.choice(forward)) for _ in range(programs)]
        floors = [reply["floor"] for reply in solve([(p, []) for p in steps])]
        questions = []
        for p, floor in zip(steps, floors, strict=True):
            plain, _ = oracle.replay(p, list(range(len(p.cost))))
            questions.append((p, [floor + (plain - floor) * part // 8 for part in (0, 2, 5)]))
        dear = none = best_of_all = asked = 0
        for (p, limits), floor, reply in zip(questions, floors, solve(questions), strict=True):
            self.assertIsNone(oracle.ordered(p, floor - 1, 1), "a plan below the floor")
            for limit, answer in zip(limits, reply["answers"], strict=True):
                with self.subTest(problem=vars(p), limit=limit):
                    best = oracle.ordered(p, limit, max(2, oracle.rounds_of(answer["launches"] or [])))
                    if best is None:
                        none += 1
                        self.assertFalse(answer["found"])
                        continue
                    peak, least = oracle.replay(p, best[1])
                    self.assertLessEqual(peak, limit)
                    self.assertAlmostEqual(least, best[0], places=6)
                    asked += 1
                    if answer["found"]:
                        self.plan(p, limit, answer)
                        self.assertLessEqual(answer["bound"], least + 1e-6)
                        self.assertLessEqual(least, answer["extra"] + 1e-6)
                        best_of_all += answer["extra"] <= least + 1e-6
                    dear += least > 0
        self.assertGreater(dear, programs)
        self.assertGreater(none, 0)
        self.assertGreaterEqual(best_of_all / asked, optimal)

    def plan(self, p: oracle.Problem, limit: int, answer: dict) -> None:
        self.assertTrue(answer["found"])
        self.assertEqual(oracle.replay(p, answer["launches"]), (answer["peak"], answer["extra"]))
        self.assertLessEqual(answer["peak"], limit)

    def test_small(self) -> None:
        self.compare(1, 200, range(2, 7), 0.95)

    def test_larger(self) -> None:
        self.compare(2, 40, range(7, 13), 0.85)


@unittest.skipUnless(BINARY, "MEMOPT_PLUGIN_PATH is not set")
class Recorded(unittest.TestCase):
    """Steps as PyTorch records them, planned by the binary."""

    def compare(self, model: str, *shares: int) -> None:
        path = REPOSITORY / "memopt" / "lab" / "corpus" / "steps" / f"{model}.json.gz"
        plain, padded = Joint(path, 1), Joint(path, ALIGNMENT)
        total = sum(plain.problem.cost)
        for share in shares:
            with self.subTest(model=model, share=share), tempfile.TemporaryDirectory() as folder:
                saved = os.path.join(folder, "plan.json")
                command = [BINARY, "plan", str(path), "--activation-budget", f"{share}%", "--cost", "flops", "--format", "json", "-o", saved]
                said = json.loads(subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout)
                budget, result, bound = said["request"]["activation_budget"], said["result"], said["bound"]
                with open(saved) as f:
                    launches = [plain.steps[s["node"]] for s in json.load(f)["steps"]]
                peak, extra = oracle.replay(plain.problem, launches)
                self.assertEqual(peak, result["peak"])
                self.assertAlmostEqual(extra / total, result["overhead"], places=9)
                self.assertLessEqual(peak, budget)
                self.assertLessEqual(said["floor"]["peak"], peak)

                limit = -(-budget // ALIGNMENT) * ALIGNMENT  # what the bound holds for, too
                found = oracle.staged(padded.problem, limit)
                self.assertIsNotNone(found)
                least, best = found
                peak, extra = oracle.replay(padded.problem, best)
                self.assertLessEqual(peak, limit)
                self.assertAlmostEqual(extra / total, least / total, places=6)
                self.assertLessEqual(bound["overhead"], least / total + 1e-6)
                self.assertLessEqual(least / total, result["overhead"] + 1e-6)
                self.assertAlmostEqual(bound["gap"], result["overhead"] - bound["overhead"], places=9)
                self.assertLess(result["overhead"] - least / total, 1e-4)  # however far the bound is

    def test_gpt2(self) -> None:
        self.compare("gpt2-6L", 80, 70, 60, 50, 40)

    def test_resnet18(self) -> None:
        self.compare("resnet18", 90)
