#!/usr/bin/env python3
"""train_late.py WEFT: does a job begin when one of its ranks is late at set-up?

One of four ranks tells its address three seconds after the others (late/late.c), or is stopped for
three seconds while connections are made; each rank in turn, in layouts whose ranks connect to all
others or to some. The job begins as if nothing had been, and says nothing of wrong keys."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS") or os.path.join(
    os.path.dirname(w.WEFT), "..", "tests", "fault", "plugins")
LATE = 3.0  # seconds
BASE = w.EVEN | {"run.steps": 2, "model.layers": 2, "train.microbatch": 3, "run.frozen_after": 600,
                 "run.plugins": PLUGINS, "comm.plugin": "late"}
LAYOUTS = {
    "dp": {},
    "ring": {"comm.algorithm": "ring"},
    "tp+dp": {"parallel.strategy": "tp, dp", "parallel.tp": 2},
    "pp+dp": {"parallel.strategy": "pp, dp", "parallel.pp": 2},
}


class Late(w.Bench):
    def finish(self, jobs):
        for name, run in jobs:
            with self.subTest(job=name):
                self.assertEqual(run.wait(), 0, run.said())
                self.assertNotRegex(run.said(), "of one job|dropped a connection")

    def start(self, victim, layout):
        name = f"{layout}.{victim}"
        late = {"LATE_RANK": str(victim), "LATE_MS": str(int(LATE * 1000))}
        return name, w.Running(self, name, BASE | LAYOUTS[layout], 4, extra=late)

    def test_address(self):
        """Eight jobs at once, since all of them mostly sleep."""
        for pair in (("dp", "ring"), ("tp+dp", "pp+dp")):
            self.finish([self.start(victim, x) for x in pair for victim in range(4)])

    @w.again
    def test_stopped(self):
        """Stopped from soon after the start on, through the set-up of the others."""
        jobs = [(f"{layout} stopped", w.Running(self, layout, BASE | LAYOUTS[layout], 4))
                for layout in ("ring", "pp+dp")]
        stopped = []
        for i, (_, run) in enumerate(jobs):
            stopped.append(run.until_ranks()[1 + i])
            time.sleep(0.02 * i)
            os.kill(stopped[-1], signal.SIGSTOP)
        time.sleep(LATE)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        self.finish(jobs)

    def ends(self, name, job, kill):
        """{rank: the calls that ended its link}"""
        folder = self.path(name + ".ends")
        os.mkdir(folder)
        run = w.Running(self, name, BASE | job, 4, extra={"LATE_ENDS": folder})
        if kill:
            run.until_step(3)
            os.kill(run.ranks()[kill], signal.SIGKILL)
        self.assertEqual(run.wait(), 1 if kill else 0, run.said())
        found = {}
        for rank in os.listdir(folder):
            with open(os.path.join(folder, rank), encoding="utf-8") as f:
                found[int(rank)] = f.read().split()
        return found

    def test_ends(self):
        """abort() comes first after a failure, also on a rank whose own calls have not failed."""
        for victim in (1, 2, 1, 2):
            found = self.ends(f"killed{victim}{time.monotonic_ns()}", {"run.steps": 100000}, victim)
            self.assertEqual(sorted(found), sorted({0, 1, 2, 3} - {victim}))
            for calls in found.values():
                self.assertEqual((calls[0], calls[-1]), ("abort", "destroy"), found)
                self.assertEqual(calls.count("abort"), 1, found)
        for calls in self.ends("whole", {}, None).values():
            self.assertNotIn("abort", calls)
            self.assertEqual(calls[-1], "destroy")


if __name__ == "__main__":
    w.main()
