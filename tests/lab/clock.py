#!/usr/bin/env python3
"""clock.py WEFT: what does a job do when the machine's clock is set? For root, in the lab.

The wall clock goes a day ahead and a day back, again and again, while a job trains and saves. No
deadline may depend on it: the job goes on without a word, stops when it is asked to, and with the
clock being set a frozen rank and a stuck call are found as soon as without. That the clock was set
is seen in the times that the job writes."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from jobs import NARROW  # noqa: E402

DAY = 86400
RANKS = 3
LATE = 20  # seconds, for a slow machine
OWN = os.path.join(os.path.dirname(os.path.dirname(w.WEFT)), "lib", "weft")
STUCK = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "plugins", "stuck")
JOB = w.ODD | {"run.steps": 1000000, "train.batch": RANKS, "train.microbatch": 1, "optim.lr": 1e-4,
               "train.sequence": 8, "model.layers": 1, "checkpoint.every": 5, "comm.plugin": "tcp",
               "device.isa": "v2", "run.frozen_after": 5}


def turn(days):
    """Set the clock ahead, or back."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + days * DAY)


class Clock(w.Bench):
    def setUp(self):
        true = time.time() - time.monotonic()
        self.addCleanup(lambda: time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic()))

    def running(self, change=None, extra=None):
        run = w.Running(self, "run", JOB | (change or {}), RANKS, extra=NARROW | (extra or {}))
        run.until_step(6)
        return run

    def turned(self, run, seconds):
        """The clock is set again and again; the job does step after step meanwhile."""
        began = time.monotonic()
        times = 0
        while time.monotonic() < began + seconds:
            for days in (1, -1, -1, 1):
                turn(days)
                times += 1
                time.sleep(0.3)
            run.until_step(w.metrics(run.out)[-1]["step"] + 2)
        self.assertNotRegex(run.said(), r" (warn|error): ")
        self.assertIsNone(run.process.poll(), run.said())
        print(f"the clock was set {times} times in {time.monotonic() - began:.0f} s: no alarm",
              flush=True)

    def ends(self, run, began, what, words):
        """With status 1, in time; meanwhile the clock goes on being set."""
        while run.process.poll() is None and time.monotonic() < began + 5 + LATE:
            for days in (-1, 1):
                turn(days)
                time.sleep(0.05)
        took = time.monotonic() - began
        self.assertEqual(run.process.poll(), 1, run.said())
        self.assertRegex(run.said(), words)
        print(f"{what} while the clock was set: over after {took:.1f} s", flush=True)

    def test_it_goes_on_and_a_frozen_rank_is_found(self):
        run = self.running()
        self.turned(run, 20)
        began = time.monotonic()
        os.kill(run.ranks()[2], signal.SIGSTOP)
        turn(-1)
        self.ends(run, began, "a frozen rank", "rank 2 is frozen")

    def test_a_stuck_call_is_found(self):
        flag = self.path("now")
        run = self.running(
            {"run.plugins": STUCK, "comm.plugin": "test.stuck", "device.plugin": "test.stuck"},
            {"WEFT_STUCK": "run 1", "WEFT_STUCK_WHEN": flag,
             "WEFT_STUCK_TCP": os.path.join(OWN, "comm", "tcp.so"),
             "WEFT_STUCK_CPU": os.path.join(OWN, "device", "cpu.so")})
        turn(-1)
        began = time.monotonic()
        with open(flag, "w", encoding="ascii") as f:
            f.write("x")
        self.ends(run, began, "a stuck call",
                  r"rank 1 failed: rank 1, step \d+, .* does not return")

    def test_it_stops_when_asked(self):
        run = self.running()
        turn(1)
        run.process.send_signal(signal.SIGTERM)
        turn(-1)
        self.assertEqual(run.wait(), 75)
        saved, other = w.steps_saved(run.out)
        self.assertTrue(saved)
        self.assertEqual(other, [])


if __name__ == "__main__":
    w.main()
