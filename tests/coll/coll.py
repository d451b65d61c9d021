#!/usr/bin/env python3
"""coll.py WEFT PLUGINS: does a job train over a library of collectives on host memory?

acme.hostcoll adds in the order of the ranks, and 16-bit floats in fp32 with one rounding, as the
algorithm `pairwise` does over links: so every layout has the bits of the same job over tcp, and is
near one rank. Then what goes wrong: a rank that dies or freezes, and brokencoll, which counts what
cannot be, never counts, fails, hangs, or refuses a call: the message names plugin and operation."""
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.path.abspath(sys.argv[2])
JOB = w.EVEN | {"run.plugins": PLUGINS, "run.steps": 6, "train.batch": 8, "train.microbatch": 2,
                "train.eval_every": 3, "train.eval_batches": 1, "checkpoint.every": 3}
ALONE = {"parallel.strategy": "none"}
SMALL = {"train.bucket_mb": 0.02}
TP = {"parallel.strategy": "tp", "parallel.tp": 2}
PP = {"parallel.strategy": "pp", "parallel.pp": 2}
LAYOUTS = (
    (2, {}), (3, {"train.batch": 6} | SMALL),
    (2, {"optim.placement": "zero1"}), (4, {"optim.placement": "zero2", "train.microbatch": 1}),
    (2, {"optim.placement": "zero3"} | SMALL), (2, TP), (2, TP | {"parallel.sequence": "on"}),
    (2, PP | {"parallel.schedule": "fthenb"}), (2, PP | {"parallel.schedule": "1f1b"}),
    (4, PP | {"parallel.strategy": "pp, dp", "parallel.schedule": "1f1b",
              "optim.placement": "zero1", "train.microbatch": 1}),
    (4, TP | {"parallel.strategy": "tp, dp", "optim.placement": "zero3", "train.microbatch": 2}),
    (4, TP | PP | {"parallel.strategy": "tp, pp", "parallel.schedule": "1f1b"}),
)
ENDLESS = {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0, "train.eval_every": 0}
SKIP = w.NO_TIME + ("peak_bytes", "comm_bytes")


class Coll(w.Bench):
    LIBRARY = {"comm.plugin": "acme.hostcoll"}
    LINK = {"comm.plugin": "tcp", "comm.algorithm": "pairwise"}

    def job(self, *changes):
        job = JOB | {"data.valid": self.path("valid.bin")}
        for change in changes:
            job = job | change
        return job

    def test_like_links(self):
        for ranks, change in LAYOUTS:
            for precision in ("fp32", "bf16"):
                with self.subTest(ranks=ranks, precision=precision, **change):
                    change = change | {"train.precision": precision}
                    self.train("link", self.job(change, self.LINK), ranks=ranks)
                    self.train("library", self.job(change, self.LIBRARY), ranks=ranks)
                    self.same_run("link", "library", 6, SKIP)

    def test_like_one_rank(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                batch = {"train.batch": change.get("train.batch", 8)}
                self.train("one", self.job(ALONE, batch))
                self.train("many", self.job(change, self.LIBRARY), ranks=ranks)
                self.near("one", "many")

    def test_fp16(self):
        change = {"train.precision": "fp16", "optim.placement": "zero2"}
        for out, comm in (("link", self.LINK), ("library", self.LIBRARY)):
            self.train(out, self.job(change, comm), ranks=2)
        self.same_run("link", "library", 6, SKIP)

    def test_resumed(self):
        job = self.job(self.LIBRARY, {"optim.placement": "zero1"})
        self.train("whole", job, ranks=2)
        self.train("parts", job | {"run.steps": 3}, ranks=2)
        self.train("parts", job, ranks=2, resume=True)
        self.same_run("whole", "parts", 6, SKIP)

    def test_one_channel_at_once(self):
        """brokencoll, which breaks nothing here, says channels = 1."""
        for ranks, change in LAYOUTS[3], LAYOUTS[4], LAYOUTS[10]:
            with self.subTest(ranks=ranks, **change):
                self.train("link", self.job(change, self.LINK), ranks=ranks)
                self.train("one", self.job(change, {"comm.plugin": "brokencoll"}), ranks=ranks)
                self.same_run("link", "one", 6, SKIP)
        ranks, change = LAYOUTS[9]
        job = self.job(change, {"comm.plugin": "brokencoll"})
        said = w.weft("plan", "-n", ranks, self.ini, *self.options("plan", job), status=2).stderr
        self.assertIn("would hang on a transport that buffers nothing", said)

    def test_beside_a_link(self):
        change = TP | {"parallel.strategy": "tp, dp"}
        self.train("link", self.job(change, self.LINK), ranks=4)
        self.train("both", self.job(change, self.LINK, {"comm.tp.plugin": "acme.hostcoll"}),
                   ranks=4)
        self.same_run("link", "both", 6, SKIP)

    def test_auto(self):
        """The score of its probe decides."""
        for score, best in ((0, "shm"), (99, "brokencoll")):
            said = self.train("auto", self.job({"comm.plugin": "auto",
                                                "comm.brokencoll.score": score}), ranks=2)
            self.assertRegex(said.stdout + said.stderr, f"transport: dp over {best}")

    def test_links_are_measured(self):
        place = f"run.plugins={PLUGINS}"
        for words in (("bench", "comm"), ("tune", "comm")):
            said = w.weft(*words, "-n", 2, place, "comm.plugin=acme.hostcoll", status=2).stderr
            self.assertIn("acme.hostcoll brings its own collectives", " ".join(said.split()))
        job = self.job(TP, {"parallel.strategy": "tp, dp", "comm.tp.plugin": "acme.hostcoll",
                            "comm.dp.plugin": "shm"})
        said = w.weft("tune", "comm", "-n", 4, "-o", self.path("tuned.ini"), self.ini,
                      "tune.passes=1", "tune.op=all_reduce", *self.options("tuned", job)).stdout
        self.assertIn("# shm on mesh axis dp", said)
        self.assertNotIn("hostcoll", said)

    def test_plan_and_trace(self):
        job = self.job(self.LIBRARY, SMALL, {"log.trace_steps": "2-3"})
        self.train("traced", job, ranks=2)
        plan = self.plan(job, 2)["ranks"][0]
        lines = [x for x in w.metrics(self.path("traced")) if "comm_bytes" in x]
        self.assertEqual(lines[-1]["comm_bytes"], sum(plan["sent"].values()))
        with open(self.path("traced", "trace.json"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("all-reduce", text)

    def running(self, change, ranks=2, step=3):
        run = w.Running(self, "run", self.job(ENDLESS, change), ranks)
        run.until_step(step)
        return run

    def test_a_rank_dies(self):
        for ranks, change in ((2, {}), (3, {"train.batch": 6} | SMALL), (2, PP)):
            run = self.running(self.LIBRARY | change, ranks)
            marks = run.marks()
            os.kill(run.ranks()[1], signal.SIGKILL)
            self.assertEqual(run.wait(w.patience(5)), 1)
            self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 9")
            for rank in set(range(ranks)) - {1}:
                self.assertRegex(run.said(), rf"rank {rank}, ({w.PLACE})rank 1 ")
            self.assertEqual(marks.wait(w.patience(5))[1], [])

    def test_a_rank_freezes(self):
        after = 4 if w.SLOW == 1 else 12
        run = self.running(self.LIBRARY | {"run.frozen_after": after})
        os.kill(run.ranks()[1], signal.SIGSTOP)
        self.assertEqual(run.wait(after + w.patience(5)), 1)
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 is frozen")

    def broken(self, how, status=1, **change):
        job = self.job({"comm.plugin": "brokencoll", "comm.brokencoll.how": how,
                        "run.deadline": 4, "run.steps": 50, "checkpoint.every": 0}, change)
        began = time.monotonic()
        said = self.train("broken", job, ranks=2, status=status).stderr
        self.assertLess(time.monotonic() - began, w.patience(10))
        return " ".join(said.split())

    def test_never_counted(self):
        for how in ("never", "hang"):
            self.assertRegex(self.broken(how), r"all-reduce of .* on channel dp\S* over "
                             r"brokencoll: not finished after 4 s; test\(\) of the plugin "
                             r"brokencoll counts 4 of the 5 groups")

    def test_miscounted(self):
        self.assertRegex(self.broken("back"), r"over brokencoll: plugin brokencoll: its test\(\) "
                         r"counts 2 complete groups; its last call counted 4, and a count never")
        self.assertRegex(self.broken("beyond"), r"over brokencoll: plugin brokencoll: its test\(\) "
                         r"counts 1000 complete groups; only 5 were started on this communicator")

    def test_failed(self):
        self.assertRegex(self.broken("fail"), r"on channel dp\S* over brokencoll: .*cable is out")
        self.assertRegex(self.broken("ill"), r"over brokencoll: .*gone up in smoke")

    def test_stuck(self):
        """A call that does not return is the watchdog's."""
        said = self.broken("stuck", **{"run.call_deadline": 3})
        self.assertRegex(said, r"test\(\) of the plugin weft.test.brokencoll .*does not return")

    def test_refused(self):
        self.assertRegex(self.broken("refuse", 2), r"step \d+, entry .*has no such collective")

    def test_refused_at_set_up(self):
        """supports() answers before the first step."""
        self.assertRegex(self.broken("nosum", 2), r"all-reduce of .* on channel dp\S* over "
                         r"brokencoll: .*it does not add")

    def test_compressed(self):
        refused = w.weft("plan", "-n", 2, self.ini, *self.options("plan", self.job(
            self.LIBRARY, {"comm.compress": "int8"})), status=2)
        self.assertIn("brings its own collectives, which do not support", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
