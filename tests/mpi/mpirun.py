#!/usr/bin/env python3
"""mpirun.py WEFT: do ranks that mpirun starts make the same job as those of the launcher?

tests/parity/join.py asks the same of ranks that the environment describes."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from join import JOB  # noqa: E402  (tests/parity/join.py)


class Mpi(w.Bench):
    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here; make integration "
                                                 "installs it")
    def test_mpirun(self):
        """Open MPI gives a rank its number in variables of its own; the same bits."""
        key = self.path("key")
        w.weft("key", "-o", key)
        self.train("launched", JOB, ranks=2)
        words = ["mpirun", "-n", "2", "--oversubscribe"]
        words += ["--allow-run-as-root"] if os.geteuid() == 0 else []
        env = w.environment({"MASTER_PORT": str(w.free_port()), "OMPI_MCA_plm": "isolated",
                             "OMPI_MCA_btl": "self", "TMPDIR": self.path()})
        done = subprocess.run([*words, w.WEFT, "train", self.ini,
                               *self.options("mpi", JOB | {"run.key": key})], env=env,
                              timeout=w.TIMEOUT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same_run("launched", "mpi", 20)


if __name__ == "__main__":
    w.main()
