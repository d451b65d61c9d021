#!/usr/bin/env python3
"""torchrun.py WEFT: do ranks that the real torchrun starts make a job, as docs/MPI.md says?

torchrun's own store may listen at the MASTER_PORT that the ranks get. The job has the bits of the
same job of weft's own launcher. 77: no Python here has PyTorch."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from again import with_torch  # noqa: E402

PYTHON = with_torch()
JOB = w.EVEN | {"run.steps": 6, "model.layers": 1, "checkpoint.every": 6}
# What the torchrun of Debian 12 needs: under Python 3.11 it does not understand its own defaults.
LOGS = ("--redirects", "0:1,1:1", "--tee", "0:1,1:1")
# The first start of rank 1 fails.
ONCE = 'if [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 10 ]; then exit 3; fi; exec "$0" "$@"'


class Torchrun(w.Bench):
    def run_torch(self, out, *options, before=()):
        key = self.path("key")
        if not os.path.exists(key):
            w.weft("key", "-o", key)
        said = subprocess.run(
            [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", "2", *LOGS, *options,
             "--no_python", *before, w.WEFT, "train", self.ini,
             *self.options(out, JOB | {"run.key": key})],
            env=w.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=w.TIMEOUT, check=False)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.same_run("alone", out, JOB["run.steps"])

    def test_jobs(self):
        self.train("alone", JOB, ranks=2)
        fixed = ("--master_addr", "127.0.0.1", "--master_port", str(w.free_port()))
        for name, *options in (("free", "--standalone"), ("fixed", *fixed)):
            with self.subTest(name):
                self.run_torch(name, *options)
                self.run_torch(name + "-again", *options, "--max_restarts", "1",
                               before=("sh", "-c", ONCE))


if __name__ == "__main__":
    w.main()
