#!/usr/bin/env python3
"""refused.py WEFT: what does the plugin mpi say where it cannot be used, and of a lost rank?"""
import os
import signal
import time

import launched
from launched import w

ENDLESS = {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0}

setUpModule = launched.needs_mpi


class Refused(launched.Launched):
    def test_without_mpirun(self):
        for plugin in ("mpi", "mpi_pairs"):
            done = self.train("no", self.JOB | {"comm.plugin": plugin}, ranks=2, status=None)
            self.assertEqual(done.returncode, 77)
            self.assertIn("start the job by mpirun", " ".join(done.stderr.split()))

    def test_launcher_inside_of_mpirun(self):
        """mpirun starts one process, which starts two: MPI has one rank."""
        run = self.mpirun(1, w.WEFT, "train", "-n", 2, self.ini,
                          *self.options("no", self.JOB | {"comm.plugin": "mpi"}))
        self.assertRegex(" ".join(self.said(run, None).split()),
                         r"mpirun \(Open MPI\) has started 1 rank and the job has 2")

    def test_no_library(self):
        job = self.JOB | {"comm.plugin": "mpi", "comm.mpi.library": "/nowhere/libmpi.so"}
        text = " ".join(self.said(self.over_mpi("no", job, 2), None).split())
        self.assertRegex(text, "mpi needs /nowhere/libmpi.so .*install it .*comm.mpi.library")
        job = self.JOB | {"comm.plugin": "mpi", "comm.mpi.library": "libm.so.6"}
        text = " ".join(self.said(self.over_mpi("no", job, 2), None).split())
        self.assertIn("the libm.so.6 of this machine has no MPI_Init_thread", text)

    def test_auto(self):
        """weft's own transports come first on a network that they can use."""
        text = " ".join(self.said(self.over_mpi("auto", self.JOB | {"comm.plugin": "auto"},
                                                2)).split())
        self.assertRegex(text, "transport: dp over shm inside machines")

    def test_planned(self):
        done = w.weft("plan", "-n", 2, self.ini,
                      *self.options("plan", self.JOB | {"comm.plugin": "mpi"}))
        self.assertRegex(done.stdout, r"mesh +2 ranks: dp 2 over mpi\n")

    def test_doctor(self):
        said = " ".join(w.weft("doctor").stdout.split())
        self.assertRegex(said, r"comm mpi: no: .*MPI has not started this process")
        said = " ".join(self.said(self.mpirun(1, w.WEFT, "doctor")).split())
        self.assertIn("comm mpi: can be used", said)
        self.assertIn("comm mpi_pairs: can be used", said)

    def test_checked(self):
        said = w.weft("plugins", "check", launched.PLUGIN, timeout=300).stdout
        self.assertNotRegex(said, "(?m)^ *FAIL")

    def running(self, plugin, *options, **change):
        job = self.JOB | ENDLESS | {"comm.plugin": plugin} | change
        run = self.over_mpi("lost", job, 2, options=options)
        beside = launched.Beside(self, run, self.path("lost"))
        beside.until_step(3)
        return run, beside

    def test_a_rank_freezes(self):
        after = 5
        for plugin in ("mpi", "mpi_pairs"):
            run, beside = self.running(plugin, **{"run.frozen_after": after})
            os.kill(beside.rank(1), signal.SIGSTOP)
            text = self.said(run, 1)
            self.assertRegex(text, rf"(?m)^\S+ weft rank 0 error: rank 0, ({w.PLACE})rank 1 is "
                                   "frozen")

    def test_a_rank_is_killed(self):
        """mpirun ends the others; told not to, the job's own connections notice."""
        for plugin in ("mpi", "mpi_pairs"):
            run, beside = self.running(plugin)
            began = time.monotonic()
            os.kill(beside.rank(1), signal.SIGKILL)
            self.said(run, None)
            self.assertLess(time.monotonic() - began, 60)
            run, beside = self.running(plugin, "--enable-recovery")
            os.kill(beside.rank(1), signal.SIGKILL)
            text = run.communicate(timeout=w.TIMEOUT)[0]
            self.assertRegex(text, rf"(?m)^\S+ weft rank 0 error: rank 0, ({w.PLACE})rank 1 ")
            self.assertNotIn("without giving back", text)


if __name__ == "__main__":
    w.main()
