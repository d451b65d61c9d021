#!/usr/bin/env python3
"""rules.py WEFT: what rules keep besides their parameters is the same on every layout.

A rule's own scalar is assigned once a step, however the parameters are divided, and is resumed."""
import math
import os

import weft_jobs as w

PLUGINS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins")
JOB = w.EVEN | {"run.plugins": PLUGINS, "run.steps": 12, "optim.lr": 0.3, "optim.warmup": 0,
                "optim.schedule": "constant", "checkpoint.every": 6, "checkpoint.keep": 0,
                "comm.plugin": "shm"}
ALONE = {"parallel.strategy": "none"}
TP_DP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
LAYOUTS = ((2, {}), (2, {"train.bucket_mb": 0.002}), (2, {"parallel.strategy": "pp"}),
           (2, {"parallel.strategy": "tp"}), (2, {"optim.placement": "zero1"}),
           (2, {"optim.placement": "zero3", "train.bucket_mb": 0.002}),
           (4, TP_DP | {"optim.placement": "zero2"}))


class OwnScalar(w.Bench):
    """p = p - lr * g / sqrt(step): a wrong step is another loss."""

    def counted(self, out, step):
        return list(w.tensors(self.path(out), step)["scalar.test.step"][1])

    def near(self, one, many):
        a, b = w.metrics(self.path(one)), w.metrics(self.path(many))
        for x, y in zip(a, b, strict=True):
            for key in ("loss", "grad_norm"):
                self.assertLessEqual(abs(x[key] - y[key]), 1e-5 * abs(x[key]),
                                     f"{key} of step {x['step']}")

    def check(self, rule):
        job = JOB | {"optim.rule": rule}
        self.train("one", job | ALONE)
        for ranks, more in LAYOUTS:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", job | more, ranks=ranks)
                self.near("one", "many")
                self.assertEqual(self.counted("one", 12), [12])
                self.assertEqual(self.counted("many", 12), [12])

    def test_by_element(self):
        self.check("test.counting")

    def test_by_tensor(self):
        self.check("test.counting_norms")

    def test_formula(self):
        """The first step moves by lr * g, the fourth by half of what SGD would."""
        job = JOB | ALONE | {"run.steps": 4, "checkpoint.every": 1, "train.clip": 0,
                             "optim.rule": "test.counting"}
        self.train("counting", job)
        before = w.tensors(self.path("counting"), 3)
        after = w.tensors(self.path("counting"), 4)
        self.assertEqual([self.counted("counting", s) for s in (1, 2, 3, 4)], [[1], [2], [3], [4]])
        norm = w.metrics(self.path("counting"))[3]["grad_norm"]
        moved = math.sqrt(sum((x - y) ** 2 for n, (_, a) in before.items()
                              if not n.startswith("scalar.") for x, y in zip(a, after[n][1])))
        self.assertLessEqual(abs(moved - 0.3 * norm / 2), 1e-4 * moved)

    def test_resumed(self):
        job = JOB | {"optim.rule": "test.counting"}
        self.train("whole", job, ranks=2)
        self.train("cut", job | {"run.steps": 6}, ranks=2)
        self.train("cut", job, ranks=2, resume=True)
        self.same_run("whole", "cut", 12)

    def test_skipped_step(self):
        """A step that is skipped does not count: its overflow halves the scale and no more."""
        job = JOB | ALONE | {"optim.rule": "test.counting", "train.precision": "fp16",
                             "train.loss_scale": 1 << 40, "optim.lr": 0.01}
        self.train("scaled", job)
        skipped = w.metrics(self.path("scaled"))[-1]["skipped"]
        self.assertGreater(skipped, 0)
        self.assertEqual(self.counted("scaled", 12), [12 - skipped])


if __name__ == "__main__":
    w.main()
