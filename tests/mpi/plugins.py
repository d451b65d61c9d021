#!/usr/bin/env python3
"""plugins.py BUILD COLL_TEST: does a job train over MPI, by plugins from outside?

tests/openness/plugins/mpi has a transport over MPI's messages and a library of collectives over
MPI's nonblocking ones, built here against an installed SDK. coll_test compares the library's
results with double loops. A job over the transport has the bits of the job over tcp; one over the
library, which adds in MPI's order, is near."""
import os
import shutil
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "openness"), os.path.join(HERE, "..", "parity")]
import installed  # noqa: E402  (installed.py; before weft_jobs: it sets the program)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

COLL_TEST = os.path.abspath(sys.argv.pop(2))
TP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
PP = {"parallel.strategy": "pp, dp", "parallel.pp": 2, "parallel.schedule": "1f1b"}
LAYOUTS = ((2, {}), (2, {"optim.placement": "zero1"}), (3, {"train.batch": 6}),
           (2, {"optim.placement": "zero2"}), (2, {"optim.placement": "zero3"}), (4, TP), (4, PP),
           (4, PP | {"parallel.schedule": "interleaved", "parallel.virtual": 1,
                     "optim.placement": "zero1", "train.microbatch": 1}))


def setUpModule():
    if not shutil.which("mpirun"):
        raise unittest.SkipTest("there is no mpirun here; make integration installs it")
    installed.build()
    if not os.path.exists(os.path.join(installed.PLUGINS, "comm", "acme.mpicoll.so")):
        raise unittest.SkipTest("there is no mpi.h here; make integration installs it")


class Plugins(w.Bench):
    JOB = w.EVEN | {"run.plugins": installed.PLUGINS, "run.steps": 6, "train.batch": 8,
                    "train.microbatch": 2, "checkpoint.every": 3}

    def mpirun(self, ranks, *words):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        env = w.environment({"MASTER_PORT": str(w.free_port()), "OMPI_MCA_plm": "isolated",
                             "OMPI_MCA_btl": "self,vader", "TMPDIR": self.path(),
                             "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})
        return subprocess.Popen(["mpirun", "-n", str(ranks), "--oversubscribe", *root, *words],
                                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def over_mpi(self, out, job, ranks):
        """Begin to train."""
        key = self.path("key")
        if not os.path.exists(key):
            w.weft("key", "-o", key)
        shutil.rmtree(self.path(out), ignore_errors=True)
        return self.mpirun(ranks, w.WEFT, "train", self.ini,
                           *self.options(out, job | {"run.key": key}))

    def said(self, run, status=0, timeout=w.TIMEOUT):
        try:
            text = run.communicate(timeout=timeout)[0]
        finally:
            run.kill()
        self.assertEqual(run.returncode, status, text)
        return text

    def test_collectives(self):
        for ranks in (1, 2, 3, 4):
            so = os.path.join(installed.PLUGINS, "comm", "acme.mpicoll.so")
            text = self.said(self.mpirun(ranks, COLL_TEST, so))
            self.assertRegex(text, rf"{ranks} ranks: [1-9]\d+ cases, [1-9]\d* refused")

    def test_transport(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                job = self.JOB | change | {"comm.algorithm": "direct"}
                self.train("tcp", job | {"comm.plugin": "tcp"}, ranks=ranks)
                self.said(self.over_mpi("mpi", job | {"comm.plugin": "acme.mpilink"}, ranks))
                self.same_run("tcp", "mpi", 6)

    def test_library(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                job = self.JOB | change
                self.train("tcp", job | {"comm.plugin": "tcp"}, ranks=ranks)
                self.said(self.over_mpi("mpi", job | {"comm.plugin": "acme.mpicoll"}, ranks))
                self.near("tcp", "mpi", 1e-5)

    def test_bf16(self):
        job = self.JOB | {"train.precision": "bf16", "optim.placement": "zero2"}
        self.train("tcp", job | {"comm.plugin": "tcp"}, ranks=2)
        self.said(self.over_mpi("mpi", job | {"comm.plugin": "acme.mpicoll"}, 2))
        self.near("tcp", "mpi", 5e-3)

    def near(self, one, two, bound):
        one, two = w.metrics(self.path(one)), w.metrics(self.path(two))
        self.assertEqual(len(one), len(two))
        for a, b in zip(one, two):
            self.assertLessEqual(abs(a["loss"] - b["loss"]), bound * a["loss"])

    def test_both(self):
        """A library on one axis and a transport on the other, in one process."""
        job = self.JOB | TP | {"comm.tp.plugin": "acme.mpicoll", "comm.dp.plugin": "acme.mpilink"}
        self.train("tcp", self.JOB | TP | {"comm.plugin": "tcp"}, ranks=4)
        self.said(self.over_mpi("mpi", job, 4))
        self.near("tcp", "mpi", 1e-5)

    def test_fp16_is_refused(self):
        job = self.JOB | {"train.precision": "fp16", "comm.plugin": "acme.mpicoll",
                          "train.accumulate": "compute"}
        text = " ".join(self.said(self.over_mpi("no", job, 2), 2).split())
        self.assertRegex(text, "all-reduce of .* over acme.mpicoll: .*MPI has no fp16 to add")

    def test_without_mpirun(self):
        for plugin in ("acme.mpilink", "acme.mpicoll"):
            done = self.train("no", self.JOB | {"comm.plugin": plugin}, ranks=2, status=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("start the job by mpirun", " ".join(done.stderr.split()))

    def test_a_rank_freezes(self):
        after = 2 if w.SLOW == 1 else 6
        for plugin in ("acme.mpilink", "acme.mpicoll"):
            job = self.JOB | {"comm.plugin": plugin, "run.steps": 10**8, "optim.lr": 1e-4,
                              "checkpoint.every": 0, "run.frozen_after": after}
            run = self.over_mpi("frozen", job, 2)
            w.Running.until_step(Beside(self, run, self.path("frozen")), 3)
            ranks = {w.read_text(f"/proc/{x}/environ").partition("OMPI_COMM_WORLD_RANK=")[2][0]: x
                     for x in w.children(run.pid)}
            os.kill(ranks["1"], signal.SIGSTOP)
            text = self.said(run, 1, after + 15 * w.SLOW)
            self.assertRegex(text, r"(?m)^weft rank 0 error: rank 0, step \d+, entry .*"
                                   r"rank 1 is frozen")


class Beside(w.Running):
    """What until_step() needs of a job that another launcher runs."""

    def __init__(self, case, process, out):  # pylint: disable=super-init-not-called
        self.case, self.process, self.out = case, process, out

    def said(self):
        return ""


if __name__ == "__main__":
    w.main()
