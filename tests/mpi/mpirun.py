#!/usr/bin/env python3
"""mpirun.py WEFT: do ranks that mpirun starts make the same job as those of the launcher, and does
it go on under --restarts when one is killed?

tests/parity/meet/join.py asks the same of ranks that the environment describes."""
import os
import shutil
import signal
import sys
import time
import unittest

import launched

sys.path.insert(0, os.path.join(launched.HERE, "..", "parity", "meet"))
from join import JOB, w  # noqa: E402  (tests/parity/meet/join.py)


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here; make integration installs "
                                             "it")
class Mpi(launched.Launched):
    def begin(self, out, job, *more, told=True):
        """A job of two ranks, as `mpirun -n 2 weft train JOB.ini`; `told`: with a port and a
        key."""
        job = job | ({"run.key": self.key_file()} if told else {})
        return self.mpirun(2, w.WEFT, "train", self.ini, *self.options(out, job), *more, port=told)

    def test_mpirun(self):
        """Open MPI gives a rank its number in variables of its own; the same bits."""
        self.train("launched", JOB, ranks=2)
        self.said(self.begin("mpi", JOB))
        self.same_run("launched", "mpi", 20)

    def test_nothing_set(self):
        """On one machine the port and the key come from what mpirun gives its processes."""
        self.train("launched", JOB, ranks=2)
        self.said(self.begin("bare", JOB, told=False))
        self.same_run("launched", "bare", 20)

    def test_restarts_over_mpi(self):
        """MPI begins once a process, and under its launcher once a rank."""
        for plugin in ("mpi", "mpi_pairs"):
            run = self.begin("refused", JOB | {"comm.plugin": plugin}, "--restarts", "3")
            said = run.communicate(timeout=w.TIMEOUT)[0]
            self.assertIn(run.returncode, (2, 77), said)
            self.assertIn("--restarts cannot be used with MPI", said)
            self.assertNotIn("attempt 2", said)

    def test_restarts(self):
        """A rank is killed: mpirun's processes stay, and both ranks start again."""
        job = JOB | {"run.steps": 400, "checkpoint.every": 20, "checkpoint.keep": 100}
        self.train("whole", job, ranks=2)
        run = self.begin("again", job, "--restarts", "3")
        metrics = self.path("again", "metrics.jsonl")
        limit = time.monotonic() + w.TIMEOUT
        while w.read_text(metrics).count("\n") < 50:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.005)
        [rank] = [child for parent in w.children(run.pid) for child in w.children(parent)
                  if "OMPI_COMM_WORLD_RANK=1\0" in w.read_text(f"/proc/{child}/environ")]
        os.kill(rank, signal.SIGKILL)
        said = self.said(run)
        self.assertIn("attempt 2 begins", said)
        self.assertRegex(said, "resumed after step [1-9]")
        self.same_run("whole", "again", 400)


if __name__ == "__main__":
    w.main()
