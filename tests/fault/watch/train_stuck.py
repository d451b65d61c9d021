#!/usr/bin/env python3
"""train_stuck.py WEFT: what happens when a call of a plugin in a step does not return, while the
rest of its rank lives?

Heartbeats go on, so the rank is not frozen. Its watchdog knows how long that call took before, ends
the rank after run.stuck_after or five times that, and says where it was: all ranks name the rank,
the step, the entry, the op, the plugin and the call. The plugin is tests/plugins/stuck.c, which
notes the moment at which a call gets stuck. WEFT_TRIALS is the number of trials that are timed."""
import os
import random
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                             "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS", os.path.join(
    os.path.dirname(w.WEFT), "..", "tests", "plugins", "stuck"))
OWN = os.path.join(os.path.dirname(os.path.dirname(w.WEFT)), "lib", "weft")
BOUND = 3  # seconds, that the default settings promise for a call that is short
TRIALS = int(os.environ.get("WEFT_TRIALS", "3"))
LATE = 5  # and so much for the end of all ranks
ENDLESS = w.ODD | {"run.steps": 100000000, "optim.lr": 1e-4, "run.plugins": PLUGINS,
                   "comm.plugin": "test.stuck", "device.plugin": "test.stuck"}


class Stuck(w.Bench):
    def running(self, call, ranks=3, change=None, extra=None):
        """A job that has done some steps, in which `call` gets stuck when self.flag has a byte."""
        self.flag = self.path("now")
        for path in (self.flag, self.flag + ".at"):
            if os.path.exists(path):
                os.unlink(path)
        names = {"WEFT_STUCK": call, "WEFT_STUCK_WHEN": self.flag,
                 "WEFT_STUCK_TCP": os.path.join(OWN, "comm", "tcp.so"),
                 "WEFT_STUCK_CPU": os.path.join(OWN, "device", "cpu.so")}
        run = w.Running(self, "run", ENDLESS | {"train.microbatch": 12 // ranks} | (change or {}),
                        ranks, extra=names | (extra or {}))
        run.until_step(6)
        return run

    def stick(self, run, bound):
        """From the begin of the call to the end of the job; nothing is left of it."""
        marks = run.marks()
        with open(self.flag, "w", encoding="ascii") as f:
            f.write("x")
        limit = time.monotonic() + bound + w.patience(LATE)
        while run.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.005)
        ended = time.monotonic()
        self.assertEqual(run.process.poll(), 1, run.said())
        self.assertEqual(marks.wait(w.patience(LATE))[1], [])
        at = w.read_text(self.flag + ".at").split()
        return ended - float(at[1])

    def named(self, run, call, victim, ranks, kind, key="run.stuck_after"):
        """All ranks name it, and where it was."""
        place = (rf"rank {victim}, step \d+, entry \d+ of list step, .*: {call}\(\) of the plugin "
                 rf"org\.test\.stuck \(.*{kind}/test\.stuck\.so\) does not return: .* s have "
                 rf"passed, all that {key} allows")
        said = run.said()
        self.assertRegex(said, rf"(?m)^\S+ weft error: {place}")
        for rank in set(range(ranks)) - {victim}:
            self.assertRegex(said, rf"(?m)^\S+ weft error: rank {rank}, step .*rank {victim} "
                                   rf"failed: {place}")
        return said

    def test_kernel(self):
        """A kernel that sleeps or spins: from the begin of the call to the end of all ranks."""
        took = []
        for trial in range(TRIALS):
            victim = random.randrange(3)
            spins = {"WEFT_STUCK_SPINS": "1"} if trial % 2 else {}
            run = self.running(f"run {victim}", extra=spins)
            took.append(self.stick(run, BOUND))
            said = self.named(run, "run", victim, 3, "comm")
            self.assertRegex(said, r"entry \d+ of list step, [^:]*, op \S+: run\(\)")
        took.sort()
        print(f"stuck kernel, default settings: median {took[len(took) // 2]:.2f} s, worst "
              f"{took[-1]:.2f} s of {len(took)} trials", flush=True)
        if w.TIMED:
            self.assertLess(took[len(took) // 2], w.patience(BOUND))

    def test_transport(self):
        """progress() is called by the thread that walks the list, and by one of the link's own."""
        for victim in (0, 2):
            run = self.running(f"progress {victim}")
            took = self.stick(run, BOUND)
            self.named(run, "progress", victim, 3, "comm")
            print(f"stuck transport on rank {victim}: over after {took:.2f} s", flush=True)

    def test_one_rank(self):
        run = self.running("run", 1, {"comm.plugin": "tcp"})
        self.stick(run, BOUND)
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 0, step \d+, entry \d+ of list "
                                     r"step, .*, op \S+: run\(\) of the plugin org\.test\.stuck")

    def test_long_calls_have_longer(self):
        """What takes 0.8 s each time has 4 s, and is named then with what it took."""
        run = self.running("send 1", 2, extra={"WEFT_STUCK_TAKES": "0.8"})
        took = self.stick(run, 5 * 0.8)
        said = self.named(run, "send", 1, 2, "comm")
        found = re.search(r"such a call took up to (\d[\d.]*) s here before", said)
        self.assertIsNotNone(found, said)
        self.assertGreater(float(found[1]), 0.7)
        self.assertGreater(took, 4.4 * float(found[1]))
        print(f"stuck where calls take 0.8 s: over after {took:.2f} s", flush=True)

    def test_the_first_calls_have_time(self):
        """As long as a call is new, run.call_deadline holds."""
        run = self.running("nothing", 2)
        run.end()
        with open(self.flag, "w", encoding="ascii") as f:
            f.write("x")
        names = {"WEFT_STUCK": "run 1", "WEFT_STUCK_WHEN": self.flag,
                 "WEFT_STUCK_TCP": os.path.join(OWN, "comm", "tcp.so"),
                 "WEFT_STUCK_CPU": os.path.join(OWN, "device", "cpu.so")}
        change = {"run.call_deadline": 5, "run.stuck_after": 3, "train.microbatch": 6}
        run = w.Running(self, "run", ENDLESS | change, 2, extra=names)
        self.assertEqual(run.wait(), 1)
        self.named(run, "run", 1, 2, "comm", "run.call_deadline")

    def test_a_pause_is_no_failure(self):
        """All ranks are stopped in the middle of calls, for longer than such a call may take."""
        run = self.running("record 0", 2, {"run.frozen_after": 60 * w.SLOW},
                           {"WEFT_STUCK_TAKES": "0.2"})
        for _ in range(2):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in run.ranks().values():
                    os.kill(pid, number)
                time.sleep(4 if number == signal.SIGSTOP else random.random())
            run.until_step(w.metrics(run.out)[-1]["step"] + 1)
        self.assertIsNone(run.process.poll(), run.said())

    def test_off(self):
        """run.stuck_after = 0, and run.call_deadline = 0 for a debugger."""
        for key in ("run.stuck_after", "run.call_deadline"):
            run = self.running("run 0", 2, {key: 0})
            with open(self.flag, "w", encoding="ascii") as f:
                f.write("x")
            time.sleep(5)
            self.assertIsNone(run.process.poll(), run.said())


if __name__ == "__main__":
    w.main()
