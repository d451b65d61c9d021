"""outside.py BUILD: does a transport over MPI, written and built against the installed SDK alone,
train ranks that mpirun starts, with the bits of tcp; and what becomes of a rank that dies?"""
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "openness"))
import installed  # noqa: E402  (tests/openness/installed.py)
import launched  # noqa: E402
from launched import w  # noqa: E402


def setUpModule():
    if not launched.shutil.which("mpirun"):
        launched.needs_mpi()  # skips
    installed.build("weft_comm_acme.mpi")


class Outside(launched.Launched):
    OVER = {"run.plugins": installed.PLUGINS, "comm.plugin": "acme.mpi"}
    EQUAL = {"comm.algorithm": "pairwise"}

    def test_jobs_equal_those_over_tcp(self):
        for ranks, change in ((2, {}), (2, {"optim.placement": "zero2"}),
                              (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2}),
                              (4, {"parallel.strategy": "pp, dp", "parallel.pp": 2})):
            with self.subTest(ranks=ranks, **change):
                job = self.JOB | change | self.EQUAL
                self.train("tcp", job | {"comm.plugin": "tcp"}, ranks=ranks)
                self.said(self.over_mpi("mpi", job | self.OVER, ranks))
                self.same_run("tcp", "mpi", 6)

    def test_a_rank_that_dies_ends_the_job(self):
        job = self.JOB | self.OVER | {"run.steps": 1000000, "checkpoint.every": 0}
        run = self.over_mpi("lost", job, 2, options=("--enable-recovery",))
        beside = launched.Beside(self, run, self.path("lost"))
        beside.until_step(3)
        os.kill(beside.rank(1), signal.SIGKILL)
        text = run.communicate(timeout=w.TIMEOUT)[0]
        self.assertRegex(text, rf"(?m)^\S+ weft rank 0 error: rank 0, ({w.PLACE})rank 1 ")

    def test_without_mpirun(self):
        said = self.train("alone", self.JOB | self.OVER, ranks=2, status=None)
        self.assertIn("MPI has not started this process", said.stderr)
        self.assertNotEqual(said.returncode, 0)

    def test_checked(self):
        """Every check that needs no ranks of MPI."""
        said = w.weft("plugins", "check", os.path.join(installed.PLUGINS, "comm", "acme.mpi.so"),
                      status=0, timeout=300).stdout
        self.assertRegex(said, r"[1-9]\d checks passed, 0 failed")


if __name__ == "__main__":
    w.main()
