#!/usr/bin/env python3
"""train_busy.py WEFT: is a job that is only slow left alone?

Ranks that compute all the time are four for each processor, and two processes a processor that spin
are beside them. Meanwhile now one rank, now all of them are stopped for a second. With the default
settings the job has to go on, step by step, without a word; and after that a frozen rank is still
found. WEFT_BUSY_SECONDS is how long it lasts (20; make nightly: 3600)."""
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                             "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

CORES = len(os.sched_getaffinity(0))
RANKS = min(4 * CORES, 32)
SECONDS = float(os.environ.get("WEFT_BUSY_SECONDS", "20"))
# Kernels that take milliseconds, and all of them together more than the waits.
JOB = w.ODD | {"run.steps": 100000000, "optim.lr": 1e-4, "train.microbatch": 1,
               "train.batch": RANKS, "model.embed": 192, "model.ffn": 768, "model.layers": 4,
               "train.sequence": 19, "checkpoint.every": 200, "checkpoint.keep": 2}
del JOB["run.frozen_after"]  # the default setting


class Busy(w.Bench):
    def spin(self):
        """Processes that compute, beside the ranks."""
        for _ in range(2 * CORES):
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)

    def alarms(self, run):
        """What was said besides what every job says."""
        return [x for x in run.said().splitlines() if re.search(r" (warn|error): ", x)]

    def pause(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def check(self, transport, seconds):
        run = w.Running(self, "run", JOB | {"comm.plugin": transport}, RANKS)
        run.until_step(3)
        ranks, began = list(run.ranks().values()), time.monotonic()
        pauses, said, first = 0, began, w.metrics(run.out)[-1]["step"]
        while time.monotonic() < began + seconds and run.process.poll() is None:
            self.pause(ranks if pauses % 2 else [random.choice(ranks)])
            pauses += 1
            time.sleep(random.uniform(0.5, 4))
            if time.monotonic() > said + 60:
                said = time.monotonic()
                print(f"{said - began:.0f} s: {pauses} pauses, alarms: {self.alarms(run)}",
                      flush=True)
        self.assertEqual(self.alarms(run), [])
        self.assertIsNone(run.process.poll(), run.said())
        last = w.metrics(run.out)[-1]["step"]
        run.until_step(last + 2)
        print(f"{RANKS} ranks on {CORES} processors over {transport}: {seconds:.0f} s, {pauses} "
              f"pauses of a second, {last - first} steps, no alarm", flush=True)
        victim = random.randrange(RANKS)
        began = time.monotonic()
        os.kill(run.ranks()[victim], signal.SIGSTOP)
        self.assertEqual(run.wait(), 1)
        self.assertIn(f"rank {victim} is frozen", run.said())
        print(f"then a frozen rank: over after {time.monotonic() - began:.1f} s", flush=True)

    def test_tcp(self):
        self.spin()
        self.check("tcp", SECONDS / 2)

    def test_shm(self):
        self.spin()
        self.check("shm", SECONDS / 2)


if __name__ == "__main__":
    w.main()
