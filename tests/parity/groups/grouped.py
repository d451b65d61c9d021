#!/usr/bin/env python3
"""grouped.py WEFT: communication over groups of a mesh axis within forward and backward.

plugins/grouped.c moves parts of what tp splits among some of its coordinates and back, and takes
maxima of some of them before those of all. No number changes, so every bit is that of tp alone;
what is sent is known."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

PLUGINS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins")
JOB = w.EVEN | {"run.plugins": PLUGINS, "checkpoint.every": 20, "comm.plugin": "shm",
                "parallel.strategy": "tp", "parallel.tp": 4}
GROUPED = {"parallel.strategy": "tp, test.grouped"}


class Grouped(w.Bench):
    def test_bits_of_tp(self):
        for ranks, more in ((4, {}), (2, {"parallel.tp": 2}), (4, {"train.precision": "bf16"}),
                            (4, {"train.recompute": "block"}), (4, {"comm.plugin": "tcp"}),
                            (4, {"parallel.tp": 2, "parallel.strategy": "tp, dp"}),
                            (4, {"parallel.tp": 2, "parallel.strategy": "tp, pp"})):
            with self.subTest(ranks=ranks, more=more):
                self.train("tp", JOB | more, ranks=ranks)
                strategy = (JOB | more)["parallel.strategy"] + ", test.grouped"
                self.train("grouped", JOB | more | {"parallel.strategy": strategy}, ranks=ranks)
                self.same_run("tp", "grouped", 20, w.NO_TIME + ("comm_bytes", "peak_bytes"))

    def test_parts_move(self):
        """Without the way back hidden values meet other weights: another run."""
        self.train("tp", JOB, ranks=4)
        self.train("lost", JOB | {"parallel.strategy": "tp, test.lost"}, ranks=4)
        self.assertNotEqual(*(w.metrics(self.path(x))[0]["loss"] for x in ("tp", "lost")))

    def test_what_is_sent(self):
        """Coordinate 0 is in both groups, and no other sends more: a part a shift, there and back,
        forward and backward, and the maxima of half of the rows to the other of the pair and back.
        """
        plan = self.plan(JOB | GROUPED, 4)["ranks"][0]["sent"]
        rows = JOB["train.batch"] * JOB["train.sequence"]
        shifts = 2 * 2 * 2 * rows * JOB["model.ffn"] // 4 * 4 * JOB["model.layers"]
        self.assertEqual(plan["shift"], shifts)
        sent = []
        for out, job in (("tp", JOB), ("grouped", JOB | GROUPED)):
            self.train(out, job, ranks=4)
            sent.append({x["comm_bytes"] for x in w.metrics(self.path(out))})
        (of_tp,), (of_both,) = sent
        self.assertEqual(of_both - of_tp, shifts + rows * 4)

    def test_what_cannot_be_is_said(self):
        for name, said in (
                ("summed", "would be counted by each of the group's coordinates"),
                ("joined", "in a pass a group shifts parts and takes maxima"),
                ("whole", "all_reduce over the group test.pair: gelu#")):
            text = self.train("refused", JOB | {"parallel.strategy": "tp, test." + name}, ranks=4,
                              status=2).stderr
            self.assertIn(said, " ".join(text.split()))


if __name__ == "__main__":
    w.main()
