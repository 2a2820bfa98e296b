"""Schedules of pipelines, held against those that PyTorch runs."""

from __future__ import annotations

import unittest
from unittest import mock

from torch.distributed.pipelining import schedules

from memopt.torch.fit.pipeline import SCHEDULES, Held, Pass, finished, flight, most, schedule_of

THEIRS = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe", "interleaved": "ScheduleInterleaved1F1B", "zb-h1": "ScheduleInterleavedZeroBubble", "zbv": "ScheduleZBVZeroBubble"}
KINDS = {"F": "FORWARD", "B": "FULL_BACKWARD", "I": "BACKWARD_INPUT", "W": "BACKWARD_WEIGHT"}


def theirs(name: str, ranks: int, virtual: int, micro: int) -> dict[int, list[tuple[str, int, int]]]:
    """By rank: what PyTorch's schedule runs, without waits."""
    kind = getattr(schedules, THEIRS[name])

    def stage(index: int) -> mock.Mock:
        found = mock.Mock(stage_index=index, num_stages=ranks * virtual, group_size=ranks, group_rank=0, has_backward=True, submod=None, is_first=index == 0, is_last=index == ranks * virtual - 1)
        found.stage_index_to_group_rank = {i: i % ranks for i in range(ranks * virtual)}
        return found

    if name in ("1f1b", "gpipe"):
        order = kind(stage(0), micro)._get_pipeline_order()
    else:
        order = kind([stage(i) for i in SCHEDULES[name].stages(ranks, 0, virtual)], micro).pipeline_order
    return {rank: [(a.computation_type.name, a.stage_index, a.microbatch_index) for a in actions if a is not None and a.computation_type.name in KINDS.values()] for rank, actions in order.items()}


class TestSchedules(unittest.TestCase):
    def test_as_pytorch(self):
        """Each rank runs what PyTorch's schedules have it run, in that order."""
        for name, sizes in {
            "1f1b": [(2, 1, 2), (4, 1, 9)], "gpipe": [(4, 1, 6)], "interleaved": [(2, 2, 4), (4, 2, 8), (4, 3, 10), (4, 2, 3)],
            "zb-h1": [(2, 1, 2), (4, 1, 8), (4, 2, 8), (4, 1, 3)], "zbv": [(2, 2, 4), (4, 2, 12), (4, 2, 3)],
        }.items():  # fmt: skip
            for ranks, virtual, micro in sizes:
                expected = theirs(name, ranks, virtual, micro)
                for rank in range(ranks):
                    with self.subTest(schedule=name, ranks=ranks, virtual=virtual, micro=micro, rank=rank):
                        order = [(KINDS[p.kind], p.stage, p.micro) for p in SCHEDULES[name].order(ranks, rank, virtual, micro)]
                        numbered = name != "1f1b" or rank < ranks - 1  # PyTorch's table has the last rank's forward passes begin at 1
                        self.assertEqual(order if numbered else [a[:2] for a in order], expected[rank] if numbered else [a[:2] for a in expected[rank]])

    def test_names(self):
        for name in ("Interleaved1F1B", "interleaved"):
            self.assertIs(schedule_of(name), SCHEDULES["interleaved"])
        self.assertIs(schedule_of("ZBVZeroBubble"), SCHEDULES["zbv"])
        with self.assertRaisesRegex(ValueError, "'zbw'; there are 1f1b, gpipe, interleaved, zb-h1, zbv; did you mean 'zbv'"):
            schedule_of("zbw")
        with self.assertRaisesRegex(ValueError, "microbatches is 9, .* give a multiple of pipeline=4"):
            SCHEDULES["interleaved"].check(4, None, 9)
        with self.assertRaisesRegex(ValueError, "virtual is 3, and schedule=zbv has 2 stages a rank"):
            SCHEDULES["zbv"].check(4, 3, 9)

    def test_bubbles(self):
        """The time of a step is that of the papers: of equal passes, 1F1B waits for (ranks - 1) of both kinds, and the zero bubble for less."""
        ranks, micro = 4, 12

        def took(name: str, virtual: int) -> float:
            orders = [SCHEDULES[name].order(ranks, r, virtual, micro) for r in range(ranks)]
            return finished(orders, lambda p: (2.0 if p.kind == "B" else 1.0) / virtual, 0.0)

        self.assertEqual(took("1f1b", 1), 3 * (micro + ranks - 1))
        self.assertEqual(took("gpipe", 1), 3 * (micro + ranks - 1))
        self.assertEqual(took("interleaved", 2), 3 * (micro + (ranks - 1) / 2))
        self.assertEqual(took("zb-h1", 1), 3 * micro + ranks - 1)
        self.assertLess(took("zbv", 2), took("zb-h1", 1))

    def test_in_flight(self):
        """As many microbatches are in flight as the papers say."""
        self.assertEqual([flight(SCHEDULES["1f1b"].order(4, r, 1, 16)) for r in range(4)], [4, 3, 2, 1])
        self.assertEqual(flight(SCHEDULES["gpipe"].order(4, 3, 1, 16)), 16)
        self.assertEqual(flight(SCHEDULES["interleaved"].order(4, 0, 2, 16)), 4 + 2 * 3 + 1)
        self.assertEqual([flight(SCHEDULES["zbv"].order(4, r, 2, 16)) for r in range(4)], [8] * 4)

    def test_most(self):
        held = {0: Held({"F": 5, "B": 6}, {"F": 3, "B": 0})}
        order = [Pass("F", 0, 0), Pass("F", 0, 1), Pass("B", 0, 0), Pass("B", 0, 1)]
        self.assertEqual(most(order, held), (9, 3, Pass("B", 0, 0)))


if __name__ == "__main__":
    unittest.main()
