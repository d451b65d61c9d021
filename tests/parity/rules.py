#!/usr/bin/env python3
"""rules.py WEFT: what rules keep besides their parameters is the same on every layout.

A rule's own scalar is assigned once a step, however the parameters are divided, and is resumed. A
rule that is too long for one program has the bits that it has in one. AdEMAMix, which has more than
64 values, follows its formula in double precision over 32 steps. The count of updates goes on
beyond 2^24, where fp32 numbers are 2 apart: learning rates are compared with double precision, to
1e-6 of the highest."""
import json
import math
import os
import re
import shutil
import signal

import weft_jobs as w
import blocks  # noqa: E402  (its writer of checkpoints)

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


class Lengthy(w.Bench):
    """Factors that cancel change no bit, and make one program of 64 steps into several."""
    JOB = JOB | {"optim.rule": "test.lengthy", "run.steps": 6, "optim.lr": 1e-2}
    LONG = 40

    def same(self, one, many, but=()):
        self.same_run(one, many, None, w.NO_TIME + ("peak_bytes",))
        a, b = (w.tensors(self.path(out), 6) for out in (one, many))
        self.same_tensors(a, {k: v for k, v in b.items() if not k.endswith(tuple(but))})

    def test_of_any_length(self):
        half = {"train.precision": "bf16"}
        for rule in ("test.lengthy", "test.lengthy_whole"):
            for ranks, more in ((1, ALONE), *LAYOUTS[-2:],
                                (2, half | {"optim.placement": "zero1"})):
                with self.subTest(rule=rule, ranks=ranks, more=more):
                    job = self.JOB | more | {"optim.rule": rule}
                    self.train("brief", job, ranks=ranks)
                    self.train("long", job | {"optim.length": self.LONG}, ranks=ranks)
                    self.same("brief", "long")
                    self.assertEqual(w.metrics(self.path("long"))[-1]["test.lengthy"], 6)

    def updates(self, length):
        job = self.JOB | ALONE | {"optim.length": length}
        lines = w.weft("plan", "--list", self.ini, *self.options("planned", job)).stdout
        return len(re.findall(r"^ +\d+ +call +update ", lines, re.M))

    def test_programs(self):
        """More than 64 values are one program still; more than 256 steps are two, of which one is
        for the rate, which is a number."""
        self.assertEqual(self.updates(12), self.updates(0))
        self.assertEqual(self.updates(40), 2 * self.updates(0))

    def test_more_operands_than_a_program_has(self):
        for rule in ("test.lengthy", "test.lengthy_whole"):
            job = self.JOB | ALONE | {"optim.rule": rule}
            self.train("brief", job)
            self.train("many", job | {"optim.moments": 20})
            self.same("brief", "many", [f".m{i}" for i in range(1, 20)])


class Ademamix(w.Bench):
    """The formula in double precision, from the first weights and the gradients of the job; the
    schedules of alpha and of the third beta end before the steps do."""
    JOB = JOB | {"optim.rule": "test.ademamix", "run.steps": 32, "optim.lr": 5e-3, "train.clip": 0,
                 "model.layers": 1, "model.embed": 16, "model.ffn": 40, "checkpoint.every": 1}
    BETA, ALPHA, RAMP, EPS, DECAY = (0.9, 0.999, 0.9999), 5, 20, 1e-8, 0.1

    def step(self, t, lr, g, of):
        """(p, m1, m2, nu) of one element after step t."""
        p, m1, m2, nu = of
        b1, b2, last = self.BETA
        s = min(t / self.RAMP, 1)
        b3 = min(math.exp(math.log(b1) * math.log(last)
                          / ((1 - s) * math.log(last) + s * math.log(b1))), last)
        m1 = b1 * m1 + (1 - b1) * g
        m2 = b3 * m2 + (1 - b3) * g
        nu = b2 * nu + (1 - b2) * g * g
        root = math.sqrt(nu / (1 - b2**t))
        by = (m1 / (1 - b1**t) + self.ALPHA * s * m2) / (root + self.EPS) + self.DECAY * p
        return p - lr * by, m1, m2, nu

    def check(self, ranks, more):
        job = self.JOB | more
        self.train("start", job | {"run.steps": 1, "optim.lr": 1e-60}, ranks=ranks)  # 0 in fp32
        self.train("run", job, ranks=ranks)
        start = w.tensors(self.path("start"), 1)
        names = [n for n in start if n + ".nu" in start]
        self.assertGreater(len(names), 10)
        of = {n: [(x, 0.0, 0.0, 0.0) for x in start[n][1]] for n in names}
        for line in w.metrics(self.path("run")):
            t, found = line["step"], w.tensors(self.path("run"), line["step"])
            for n in names:
                of[n] = [self.step(t, self.JOB["optim.lr"], g, x)
                         for g, x in zip(found[n + ".g"][1], of[n])]
                for k, state in enumerate(("", ".m1", ".m2", ".nu")):
                    should = [x[k] for x in of[n]]
                    most = max(map(abs, should))
                    far = max(abs(x - y) for x, y in zip(found[n + state][1], should))
                    self.assertLessEqual(far, 1e-5 * most, (n + state, t))
        self.assertEqual(t, 32)
        moved = max(abs(x[0] - y) for n in names for x, y in zip(of[n], start[n][1]))
        self.assertGreater(moved, 0.1)

    def test_alone(self):
        self.check(1, ALONE)

    def test_in_slices(self):
        self.check(2, {"optim.placement": "zero1"})

    def test_one_program(self):
        """As many programs as a rule of few values."""
        counts = []
        for rule in ("sgd", "test.ademamix"):
            lines = w.weft("plan", "--list", self.ini, *self.options(
                "planned", self.JOB | ALONE | {"optim.rule": rule})).stdout
            counts.append(len(re.findall(r"^ +\d+ +call +update ", lines, re.M)))
        self.assertGreater(counts[0], 0)
        self.assertEqual(*counts)


class OwnScalar(w.Bench):
    """p = p - lr * g / sqrt(step): a wrong step is another loss."""

    def counted(self, out, step):
        return list(w.tensors(self.path(out), step)["scalar.test.step"][1])

    def told(self, out, steps):
        """The scalar is in the metrics, one without a dot is not, but in the checkpoint, too."""
        lines = w.metrics(self.path(out))
        self.assertEqual([x["test.step"] for x in lines], steps)
        self.assertFalse(any("quiet" in x for x in lines))
        self.assertEqual(list(w.tensors(self.path(out), 12)["scalar.quiet"][1]), steps[-1:])

    def check(self, rule):
        job = JOB | {"optim.rule": rule}
        self.train("one", job | ALONE)
        for ranks, more in LAYOUTS:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", job | more, ranks=ranks)
                self.near("one", "many")
                self.assertEqual(self.counted("one", 12), [12])
                self.assertEqual(self.counted("many", 12), [12])
                self.told("many", list(range(1, 13)))

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
        self.told("scaled", [x["step"] - x["skipped"] for x in w.metrics(self.path("scaled"))])


class Count(w.Bench):
    """The checkpoint of a real run, with its count set near 2^24. Schedules are short there, so
    that each step has a rate of its own."""

    FAR = 1 << 24

    def from_count(self, keys, counts, steps):
        """(metrics, scalars at the end) of steps that follow a checkpoint with these counts."""
        out = self.path("near")
        job = JOB | ALONE | {"optim.rule": "adamw", "optim.lr": 1e-3, "checkpoint.every": 1} | keys
        shutil.rmtree(out, ignore_errors=True)
        self.train("near", job | {"run.steps": 1})
        folder = w.folder(out, 1)
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
            manifest = json.load(f)
        tensors = w.tensors(out, 1)
        tensors.pop("scalar.count.low", None)  # as older versions save it
        tensors |= {f"scalar.{k}": ([1], [v]) for k, v in counts.items()}
        shutil.rmtree(folder)
        blocks.write(folder, manifest, blocks.cut(tensors, 1, 1))
        # Schedules end with run.steps: the job is stopped when it has done enough.
        run = w.Running(self, "near", job, 1, resume=True)
        run.until_step(1 + steps)
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        scalars = {k: v[1][0] for k, v in w.tensors(out, 1 + steps).items() if "scalar" in k}
        return w.metrics(out)[1:1 + steps], scalars

    def check_rates(self, keys, rate):
        start, steps = self.FAR - 10, 30
        lines, scalars = self.from_count(keys, {"count": start}, steps)
        for i, line in enumerate(lines):
            self.assertLessEqual(abs(line["lr"] - rate(start + 1 + i)), 1e-9, line["step"])
        self.assertEqual(scalars["scalar.count"] + scalars["scalar.count.low"], start + steps)
        self.assertEqual(len({line["lr"] for line in lines}), steps)

    def decaying(self, schedule):
        return {"optim.schedule": schedule, "optim.warmup": self.FAR - 100,
                "run.steps": self.FAR + 100}

    def past(self, count):
        return (count - (self.FAR - 100)) / 200

    def test_linear(self):
        self.check_rates(self.decaying("linear"), lambda n: 1e-3 * (1 - self.past(n)))

    def test_cosine(self):
        self.check_rates(self.decaying("cosine"),
                         lambda n: 5e-4 * (math.cos(math.pi * self.past(n)) + 1))

    def test_warm_up_ends(self):
        """Half-way between two fp32 numbers: 2^24 + 9 updates are warm-up, and then it falls."""
        warmup, steps = self.FAR + 9, 24
        lines, _ = self.from_count({"optim.schedule": "linear", "optim.warmup": warmup,
                                    "run.steps": warmup + 100}, {"count": self.FAR - 2}, steps)
        for i, line in enumerate(lines):
            count = self.FAR - 1 + i
            should = 1e-3 * (min(count / warmup, 1) - max(count - warmup, 0) / 100)
            self.assertLessEqual(abs(line["lr"] - should), 1e-9, line["step"])

    def test_far_beyond(self):
        """Exact where fp32 numbers are 2^17 apart, and where a checkpoint has both parts."""
        _, scalars = self.from_count({"run.steps": 1 << 39}, {"count": 1 << 40, "count.low": 5}, 3)
        self.assertEqual(scalars["scalar.count"], 1 << 40)
        self.assertEqual(scalars["scalar.count.low"], 8)

    def test_bias_corrections(self):
        """An update of adamw behind 2^24 by its formula in double precision."""
        lr, b1, b2, decay = 1e-3, 0.9, 0.999999, 0.1
        keys = {"run.steps": 1 << 25, "optim.betas": f"{b1}, {b2}", "train.clip": 0}
        self.from_count(keys, {"count": self.FAR + 2, "count.low": 1}, 2)
        old, new = (w.tensors(self.path("near"), step) for step in (2, 3))
        n = self.FAR + 5
        for name in (x for x in new if x + ".m" in new):
            p, after, m, v = (list(x[1]) for x in (old[name], new[name], new[name + ".m"],
                                                   new[name + ".v"]))
            keep = 1 - lr * decay * name.endswith(".w")
            should = [x * keep - lr / (1 - b1**n) * y / (math.sqrt(z / (1 - b2**n)) + 1e-8)
                      for x, y, z in zip(p, m, v)]
            scale = max(map(abs, (x - y for x, y in zip(after, p))))
            far = max(abs(x - y) for x, y in zip(after, should))
            self.assertLessEqual(far, 1e-4 * scale + 1.2e-7 * max(map(abs, p)), name)
            self.assertGreater(scale, 0, name)


if __name__ == "__main__":
    w.main()
