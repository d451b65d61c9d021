"""launched.py: what the scripts of this folder share: jobs that mpirun starts. A script imports it
with the program as its first argument, as weft_jobs.py has it."""
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGIN = os.path.join(os.path.dirname(w.WEFT), "..", "lib", "weft", "comm", "mpi.so")


def needs_mpi():
    """For setUpModule()."""
    if not shutil.which("mpirun"):
        raise unittest.SkipTest("there is no mpirun here; make integration installs it")
    if not os.path.exists(PLUGIN):
        raise unittest.SkipTest("the plugin mpi was not built: there was no mpi.h; make "
                                "integration installs it, and make build builds again")


class Launched(w.Bench):
    JOB = w.EVEN | {"run.steps": 6, "train.batch": 8, "train.microbatch": 2, "checkpoint.every": 3}

    def mpirun(self, ranks, *words, options=(), extra=None, port=True):
        """Begin. `port`: name one to meet at. Ranks share the machine, so its memory is what MPI
        communicates through."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        env = w.environment({"OMPI_MCA_plm": "isolated",
                             "OMPI_MCA_btl": "self,vader", "TMPDIR": self.path(),
                             "OMPI_MCA_btl_vader_single_copy_mechanism": "none"} | (extra or {})
                            | ({"MASTER_PORT": str(w.free_port())} if port else {}))
        run = subprocess.Popen(["mpirun", "-n", str(ranks), "--oversubscribe", *root, *options,
                                *map(str, words)], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def over_mpi(self, out, job, ranks, **more):
        """Begin to train."""
        shutil.rmtree(self.path(out), ignore_errors=True)
        return self.mpirun(ranks, *self.command(out, job | {"run.key": self.key_file()}), **more)

    def said(self, run, status=0, timeout=w.TIMEOUT):
        """What it has printed, when it has ended with the status (None: any but 0)."""
        try:
            text = run.communicate(timeout=timeout)[0]
        finally:
            run.kill()
        if status is None:
            self.assertNotEqual(run.returncode, 0, text)
        else:
            self.assertEqual(run.returncode, status, text)
        return text


class Beside(w.Running):
    """What until_step() needs of a job that another launcher runs."""

    def __init__(self, case, process, out):  # pylint: disable=super-init-not-called
        self.case, self.process, self.out = case, process, out

    def said(self):
        return ""

    def rank(self, number):
        """The process of a rank."""
        for child in w.children(self.process.pid):
            said = w.read_text(f"/proc/{child}/environ")
            if f"OMPI_COMM_WORLD_RANK={number}\0" in said:
                return child
        self.case.fail(f"there is no rank {number}")
