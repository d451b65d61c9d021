#!/usr/bin/env python3
"""train_frozen.py WEFT: what happens when a rank of a training job stops moving?

A frozen rank (SIGSTOP) is found by the heartbeats that it no longer sends, within
run.frozen_after; a stuck one, whose computing thread alone stands still, by the deadline of those
that wait for it. Either is named, and the launcher kills it. A job that is stopped as a whole goes
on afterwards.

A thread is held by ptrace, as a debugger does; where that is not allowed the test is skipped."""
import contextlib
import ctypes
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

# Seconds of run.frozen_after and run.deadline. Without WEFT_TIMED a rank that is only late for some
# seconds must not be named in place of the one that is stopped.
AFTER = 2 if w.TIMED else 6 if w.SLOW == 1 else 20
JOINING = 60  # of run.join_timeout, which an exchange of times has, too
BOUND = 3  # that the default settings promise
TRIALS = int(os.environ.get("WEFT_TRIALS", "3"))
LATE = 5  # and so much for the end of all ranks
ENDLESS = w.ODD | {"run.steps": 100000000, "optim.lr": 1e-4}
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def send_all(pids, number):
    for pid in pids:
        os.kill(pid, number)


class Frozen(w.Bench):
    def running(self, transport, ranks, change, out="run", more=()):
        job = ENDLESS | {"comm.plugin": transport, "train.microbatch": 12 // ranks} | change
        job = {key: value for key, value in job.items() if value is not None}
        run = w.Running(self, out, job, ranks, more=more)
        run.until_step(random.randint(1, 60))
        time.sleep(random.random() * 0.3)
        return run

    def wait(self, run, marks, began, bound, what, poll=lambda: None):
        """The job ends with status 1 within `bound` and some, and nothing is left."""
        limit = began + bound + w.patience(LATE)
        while run.process.poll() is None and time.monotonic() < limit:
            poll()
            time.sleep(0.01)
        took = time.monotonic() - began
        self.assertEqual(run.process.poll(), 1, run.said())
        left = marks.wait(w.patience(LATE))[1]
        print(f"{what}: over after {took:.2f} s of {bound}", flush=True)
        self.assertEqual(left, [])
        return took

    def check_frozen(self, transport, ranks, *victims, after=AFTER):
        """A job for each victim, all at the same time; seconds that the last took. after: None is
        the default setting."""
        runs = [self.running(transport, ranks, {"run.frozen_after": after}, f"run{victim}")
                for victim in victims]
        stopped = []
        for run, victim in zip(runs, victims):
            stopped.append((run, victim, run.marks(), time.monotonic()))
            os.kill(run.ranks()[victim], signal.SIGSTOP)
        return max(self.check_named(*x, ranks, after or BOUND) for x in stopped)

    def check_named(self, run, victim, marks, began, ranks, after):
        took = self.wait(run, marks, began, after, f"rank {victim} of {ranks}")
        if w.TIMED:
            self.assertGreater(took, after * 0.5, "a pause is no failure")
        said = run.said()
        self.assertRegex(said, rf"(?m)^\S+ weft error: rank {victim} is frozen")
        for rank in set(range(ranks)) - {victim}:
            self.assertRegex(said, rf"(?m)^\S+ weft error: rank {rank}, ({w.PLACE})rank {victim} "
                                   "is frozen")
        return took

    def test_all(self):
        """No rank is left to name one; with --restarts the next attempt goes on."""
        frozen = (r"(?m)^\S+ weft error: all ranks are frozen: no sign of life for \d+\.\d s; "
                  r"they were ")
        job = {"run.frozen_after": AFTER}
        run = self.running("tcp", 3, job)
        send_all(run.ranks().values(), signal.SIGSTOP)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertRegex(run.said(), frozen)
        run = self.running("tcp", 3, job, "again", more=["--restarts", "1"])
        send_all(run.ranks().values(), signal.SIGSTOP)
        run.until(lambda: "attempt 2 begins" in run.said(), "the next attempt")
        self.assertRegex(run.said(), frozen)
        run.until(lambda: len(run.ranks()) == 3, "its ranks")

    def test_tcp(self):
        self.check_frozen("tcp", 3, 0, 1, 2)

    def test_shm(self):
        self.check_frozen("shm", 3, 0, 1, 2)

    @w.only_timed
    def test_default(self):
        """Three seconds from the stop to the end of all ranks. WEFT_TRIALS: more of them."""
        took = sorted(self.check_frozen(random.choice(("tcp", "shm")), 4, random.randrange(4),
                                        after=None) for _ in range(TRIALS))
        print(f"frozen, default settings: median {took[len(took) // 2]:.2f} s, worst "
              f"{took[-1]:.2f} s of {len(took)} trials", flush=True)
        self.assertLess(took[len(took) // 2], w.patience(BOUND))

    def test_a_pause_is_no_failure(self):
        """A part of the time that is allowed, each rank once; then the job goes on."""
        run = self.running("tcp", 3, {"run.frozen_after": 60})
        for pid in run.ranks().values():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1)
            os.kill(pid, signal.SIGCONT)
            run.until_step(w.metrics(run.out)[-1]["step"] + 2)
        self.assertIsNone(run.process.poll())

    def check_goes_on(self, run, stop, go_on):
        """All processes of the job stand still for longer than its deadlines; then it goes on."""
        pids = [run.pid, *run.ranks().values()]
        stop()
        run.until(lambda: all(w.is_stopped(pid) for pid in pids), "a stop of all processes")
        time.sleep(AFTER + 1)
        go_on()
        run.until_step(w.metrics(run.out)[-1]["step"] + 20)

    def test_job_in_the_background(self):
        """SIGTSTP stops all ranks, as a shell does; SIGCONT lets them go on."""
        run = self.running("shm", 3, {"run.frozen_after": AFTER, "run.deadline": AFTER})
        self.check_goes_on(run, lambda: run.process.send_signal(signal.SIGTSTP),
                           lambda: run.process.send_signal(signal.SIGCONT))

    def test_all_processes_stopped(self):
        """As scontrol suspend and the freezer do: no process has a say in it. Chance decides who
        waits for whom at that moment, so it is done more than once."""
        run = self.running("tcp", 3, {"run.frozen_after": AFTER, "run.deadline": AFTER})
        for _ in range(3):
            pids = [run.pid, *run.ranks().values()]
            self.check_goes_on(run, lambda p=pids: send_all(p, signal.SIGSTOP),
                               lambda p=pids: send_all(p, signal.SIGCONT))

    @contextlib.contextmanager
    def held(self, tid):
        """Hold one thread; yields what is to be called while waiting."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long
        if libc.ptrace(SEIZE, tid, None, None) or libc.ptrace(INTERRUPT, tid, None, None):
            self.skipTest(f"ptrace: {os.strerror(ctypes.get_errno())}")

        def reap():  # a traced process is dead for its parent when its tracer has seen it
            with contextlib.suppress(ChildProcessError):
                os.waitpid(tid, os.WNOHANG | WALL)

        yield reap

    def test_stuck(self):
        for transport, victim in (("tcp", 0), ("tcp", 2), ("shm", 1)):
            with self.subTest(transport=transport, victim=victim):
                run = self.running(transport, 3, {"run.deadline": AFTER,
                                                      "run.stuck_after": 3600})
                marks, began = run.marks(), time.monotonic()
                with self.held(run.ranks()[victim]) as reap:
                    self.wait(run, marks, began, AFTER if w.TIMED else JOINING,
                              f"rank {victim} stuck over {transport}", reap)
                self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank \d, (step \d+, entry \d+ "
                                             r"of list step: all-reduce .*waits for rank [\d, ]*|"
                                             r"after step \d+: the times of all ranks: .*waits for "
                                             rf".*)\b{victim}\b")


if __name__ == "__main__":
    w.main()
