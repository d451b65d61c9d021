#!/usr/bin/env python3
"""jobs.py WEFT: do jobs over UCX train as those over tcp, to the bit, and end when a rank dies?

Over shared memory, which UCX takes on one machine, and over UCX's tcp, where a job names it."""
import os
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

UCX = {"comm.plugin": "ucx"}
LAYOUTS = [  # ranks, settings
    (2, {}),
    (2, {"optim.placement": "zero1"}),
    (2, {"optim.placement": "zero3"}),
    (2, {"parallel.strategy": "tp"}),
    (2, {"parallel.strategy": "pp"}),
    (4, {}),
    (4, {"optim.placement": "zero2"}),
    (4, {"parallel.strategy": "tp", "parallel.tp": 4}),
    (4, {"parallel.strategy": "pp, dp", "parallel.pp": 2, "parallel.dp": 2}),
    (4, {"parallel.strategy": "tp, pp", "parallel.tp": 2, "parallel.pp": 2}),
]
# An endless job with much to send.
ENDLESS = w.EVEN | UCX | {"train.microbatch": 1, "run.steps": 10**8, "optim.lr": 1e-4,
                          "checkpoint.every": 0}


class Jobs(w.Bench):
    def same_over_both(self, ranks, settings, own):
        job = w.EVEN | {"run.steps": 10, "checkpoint.every": 10} | settings
        self.train("tcp", job | {"comm.plugin": "tcp"}, ranks=ranks)
        said = self.train("ucx", job | UCX | own, ranks=ranks)
        self.same_run("tcp", "ucx", 10)
        return said.stdout + said.stderr

    def test_layouts(self):
        for ranks, settings in LAYOUTS[:4] if w.BRIEF else LAYOUTS:
            with self.subTest(ranks=ranks, **settings):
                self.same_over_both(ranks, settings, {})

    def test_over_its_tcp(self):
        self.same_over_both(2, {}, {"comm.ucx.tls": "tcp"})
        self.same_over_both(3, {"optim.placement": "zero1", "train.microbatch": 1},
                            {"comm.ucx.tls": "tcp"})

    def test_auto_takes_our_own(self):
        """UCX that nobody has tuned is below shm, and below tcp between machines."""
        for own in ({}, {"comm.ucx.tls": "tcp"}):
            said = self.train("auto", w.EVEN | {"run.steps": 1} | own, ranks=2)
            self.assertRegex(said.stdout + said.stderr, r"\bshm\b")

    def test_few_descriptors(self):
        """UCX ends a process that has too few with an assertion: its probe has to look before."""
        for most in (14, 16, 18, 22, 26):
            for plugin in ("auto", "ucx"):
                limit = (most, most)
                run = w.Running(self, "few", w.EVEN | {"run.steps": 1, "comm.plugin": plugin}, 2,
                                preexec_fn=lambda limit=limit: resource.setrlimit(
                                    resource.RLIMIT_NOFILE, limit))
                self.assertIn(run.wait(), (0, 1, 2, 77), f"{most}: {run.said()}")
                self.assertNotIn("signal", run.said())
                if (most, plugin) == (16, "ucx"):
                    self.assertRegex(run.said(), "UCX needs 16 more open files, and this process "
                                     r"can open \d+ more .*; its limit is 16: raise it with ulimit")

    def test_unknown_transports_are_refused(self):
        said = self.train("wrong", w.EVEN | UCX | {"comm.ucx.tls": "no_such"}, ranks=2,
                          status=None)
        self.assertNotEqual(said.returncode, 0)
        self.assertRegex(said.stderr, r"\[comm\.ucx\] tls and devices")


class Deaths(w.Bench):
    def check_killed(self, own, ranks, victim):
        run = w.Running(self, "killed", ENDLESS | own, ranks)
        run.until_step(3)
        began = time.monotonic()
        os.kill(run.ranks()[victim], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        self.assertLess(time.monotonic() - began, w.patience(5))
        self.assertRegex(run.said(), rf"(?m)^\S+ weft error: rank {victim} was killed by signal 9")

    def test_each_rank_of_three(self):
        for victim in range(3):
            self.check_killed({}, 3, victim)

    def test_over_its_tcp(self):
        self.check_killed({"comm.ucx.tls": "tcp"}, 2, 1)


if __name__ == "__main__":
    w.main()
