#!/usr/bin/env python3
"""share.py WEFT: do jobs share the cores of a machine with others?

Two jobs at once, and ranks beside programs that compute: none waits in a way that keeps the others
from working, or that hands its own share to them. The steps of some seconds are compared with those
that the job makes alone, in the same run."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

SECONDS = 3
LOOP = "import os, sys\nwhile os.path.exists('/proc/' + sys.argv[1]): sum(range(100000))"


def start_loops():
    """In the process that becomes the launcher: a loop on each core, as long as that lives. They
    are of its session, since the kernel shares cores among sessions first."""
    if os.fork():
        os.wait()
        return
    for _ in os.sched_getaffinity(0):
        if not os.fork():
            os.execv(sys.executable, [sys.executable, "-c", LOOP, str(os.getsid(0))])
    os._exit(0)


class Share(w.Bench):
    JOB = w.ODD | {"run.steps": 100000000, "train.microbatch": 3}

    def rates(self, jobs, beside=None):
        """Steps that each of some jobs makes in SECONDS, all at once."""
        running = [w.Running(self, f"run{i}", job, n, preexec_fn=beside)
                   for i, (job, n) in enumerate(jobs)]
        for run in running:
            run.until_step(3)
        first = [w.metrics(run.out)[-1]["step"] for run in running]
        time.sleep(SECONDS)
        made = [w.metrics(run.out)[-1]["step"] - n for run, n in zip(running, first)]
        for run in running:
            run.process.kill()
            run.wait()
        return made

    def compare(self, alone, shared, least, what):
        print(f"{what}: {shared} steps, {alone} alone", file=sys.stderr)
        self.assertGreater(min(shared), least * alone, what)

    def test_two_jobs(self):
        """Of two threads each, so that the second is not pinned: half each would be perfect."""
        job = self.JOB | {"device.threads": 2}
        alone, = self.rates([(job, 1)])
        self.compare(alone, self.rates([(job, 1), (job, 1)]), 0.15, "two jobs of two threads")

    def test_beside_programs(self):
        """A program on each core takes half of it, and each message costs a wake."""
        for ranks, strategy, transport in ((2, "tp", "tcp"), (2, "dp", "shm"), (3, "dp", "tcp")):
            job = self.JOB | {"parallel.strategy": strategy, "comm.plugin": transport,
                              "train.microbatch": 12 // ranks}
            job |= {"model.heads": 4} if strategy == "tp" else {}
            alone, = self.rates([(job, ranks)])
            beside = self.rates([(job, ranks)], start_loops)
            self.compare(alone, beside, 0.05, f"{ranks} ranks, {strategy} over {transport}")


if __name__ == "__main__":
    w.main()
