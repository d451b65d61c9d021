#!/usr/bin/env python3
"""train_death.py WEFT: what happens when a rank or the launcher of a training job dies?

Each rank of 3 and of 4, rank 0 too, is killed at a random moment of its steps, over tcp and over
shm. The launcher names it, the others say in which instruction they learnt of it, the status is 1,
and soon no process, no port and no file of the job is left (fault.train_death_timed: within 5 s).
Its flight records can be read. A killed launcher takes its ranks along; an asked one stops them and
says so."""
import contextlib
import os
import random
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

LIMIT = 5  # seconds; on a quiet machine it takes a tenth of one
ENDLESS = w.ODD | {"run.steps": 100000000, "optim.lr": 1e-4}
# A sanitizer would catch these signals and report them as its own finds.
BY_ITSELF = {x + "_OPTIONS": "handle_segv=0:handle_sigbus=0" for x in ("ASAN", "TSAN", "UBSAN")}
RECORD = re.compile(r" step (\d+) +entry (\d+) +(\w+) +(.*)")


def flight_records(out):
    """{rank: [(step, entry, kind, name)]} as `weft flight` prints them, oldest first."""
    found = {}
    for line in w.weft("flight", out, "-c", 100).stdout.splitlines():
        if line.startswith("rank "):
            found[int(line.split()[1])] = rows = []
        elif RECORD.search(line):
            step, entry, kind, name = RECORD.search(line).groups()
            rows.append((int(step), int(entry), kind, name))
    return found


class Death(w.Bench):
    def running(self, transport, ranks, change=(), extra=None):
        job = ENDLESS | {"comm.plugin": transport, "train.microbatch": 12 // ranks} | dict(change)
        run = w.Running(self, "run", job, ranks, extra=extra)
        run.until_step(random.randint(1, 60))
        time.sleep(random.random() * 0.3)
        self.assertEqual(len(run.ranks()), ranks, run.said())
        return run

    def check_gone(self, run, marks, began, what):
        limit = w.patience(LIMIT)
        status = run.wait(limit)
        _, left = marks.wait(max(0, began + limit - time.monotonic()))
        print(f"{what}: gone after {time.monotonic() - began:.2f} s", flush=True)
        self.assertEqual(left, [])
        return status

    def check_killed(self, transport, ranks, victim):
        run = self.running(transport, ranks)
        run.until(lambda: not run.marks().ports, "closed ports, now that all are connected")
        marks = run.marks()
        self.assertEqual(len(marks.born), ranks + 1)
        began = time.monotonic()
        os.kill(run.ranks()[victim], signal.SIGKILL)
        status = self.check_gone(run, marks, began, f"rank {victim} of {ranks} over {transport}")
        said = run.said()
        self.assertEqual(status, 1, said)
        self.assertRegex(said, rf"(?m)^\S+ weft error: rank {victim} was killed by signal 9")
        self.check_flight(run, victim, said)

    def check_flight(self, run, victim, said):
        """Each survivor's sentence is the last record of its flight, and all were near. Between
        steps ranks compare their times, now and then; there a sentence names no entry."""
        records = flight_records(run.out)
        self.assertEqual(sorted(records), list(range(run.n)))
        for rank in set(range(run.n)) - {victim}:
            step, entry, kind, name = records[rank][-1]
            line = next((x for x in said.splitlines()
                         if f" rank {rank}, step" in x or f" rank {rank}, after step" in x), "")
            self.assertIn(f"rank {victim} ", line, said)
            if "the times of all ranks" not in line:
                self.assertIn(f"step {step}, entry {entry} ", line, said)
                self.assertIn(name, line)
            self.assertIn(kind, ("call", "start", "wait", "end"))
            self.assertLessEqual(abs(step - records[victim][-1][0]), 1)

    def test_tcp(self):
        for ranks in (3, 4):
            for victim in range(ranks):
                with self.subTest(ranks=ranks, victim=victim):
                    self.check_killed("tcp", ranks, victim)

    def test_shm(self):
        for ranks in (3, 4):
            for victim in range(ranks):
                with self.subTest(ranks=ranks, victim=victim):
                    self.check_killed("shm", ranks, victim)

    def test_two_at_once(self):
        run = self.running("tcp", 4)
        marks, ranks = run.marks(), run.ranks()
        began = time.monotonic()
        for victim in (1, 2):
            with contextlib.suppress(ProcessLookupError):  # it may be gone with the first
                os.kill(ranks[victim], signal.SIGKILL)
        self.assertEqual(self.check_gone(run, marks, began, "two of four"), 1, run.said())
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank [12] was killed by signal 9")

    def test_crash(self):
        """A crash of a rank's own is named by its signal."""
        run = self.running("shm", 3, extra=BY_ITSELF)
        marks, began = run.marks(), time.monotonic()
        os.kill(run.ranks()[1], signal.SIGSEGV)
        self.assertEqual(self.check_gone(run, marks, began, "a crash"), 1, run.said())
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 11")

    def test_launcher(self):
        for transport in ("tcp", "shm"):
            with self.subTest(transport=transport):
                run = self.running(transport, 3)
                marks, began = run.marks(), time.monotonic()
                run.process.kill()
                self.check_gone(run, marks, began, f"launcher over {transport}")

    def test_asked(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number.name):
                run = self.running(random.choice(("tcp", "shm")), 3)
                marks, began = run.marks(), time.monotonic()
                run.process.send_signal(number)
                status = self.check_gone(run, marks, began, number.name)
                self.assertEqual(status, 1, run.said())
                self.assertIn(f"stopped by signal {number.value}", run.said())
                self.assertNotIn("ended by itself", run.said())

    def test_one_rank_asked(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            run = w.Running(self, "run", ENDLESS, 1)
            run.until_step(random.randint(1, 60))
            marks, began = run.marks(), time.monotonic()
            run.process.send_signal(number)
            self.assertEqual(self.check_gone(run, marks, began, "one rank"), 1, run.said())
            self.assertRegex(run.said(), "stopped by (SIGTERM|a signal) after step")


if __name__ == "__main__":
    w.main()
