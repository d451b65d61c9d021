#!/usr/bin/env python3
"""train_strangers.py WEFT: what do strangers at the port of a rank cost a tcp job?

Rank 2 of 3 is late with its connections (late/late.c), so that rank 0 waits at an open port. There
it meets attack/attack.py: 1,200 connections and 30 more each second, idle, half greeted, and
replays of a ClientHello that the job's key has signed. With them rank 0 grows by 4 MiB at most,
kernel memory included, and the job begins within 5 s of its time without them. When all are
connected the port is closed, and the kernel holds nothing for those who still wait."""
import os
import sys
import time
import typing

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "parity"), os.path.join(HERE, "attack")]
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
import attack  # noqa: E402  (tests/fault/attack/attack.py)

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS") or os.path.join(
    os.path.dirname(w.WEFT), "..", "tests", "fault", "plugins")
LATE = 4.0  # seconds; more where the crowd takes longer to come
JOB = w.EVEN | {"run.steps": 10**8, "optim.lr": 1e-4, "train.microbatch": 4,
                "run.plugins": PLUGINS, "comm.plugin": "late", "run.frozen_after": 600}
GROWTH, DELAY, CROWD = 4096, 5.0, 50  # KiB; seconds; connections that wait at the same time


class Outcome(typing.NamedTuple):
    seconds: float  # to the first step, without those for which rank 2 is late
    kib: int        # by which rank 0 grew while it waited, with the kernel's for its port
    sockets: int    # at its port, at most
    left: int       # of them once all are connected: its own connections
    is_open: bool   # whether it listens then


class Strangers(w.Bench):
    def port_of(self, run, rank):
        """The port that the rank's link listens at, which is not that of the job's store."""
        pid, marks = run.until_ranks()[rank], w.Marks()
        variables = w.read_text(f"/proc/{pid}/environ").split("\0")
        store = {int(x.partition("=")[2]) for x in variables if x.startswith("MASTER_PORT=")}

        def is_open():
            marks.add(pid)
            return os.path.exists(self.path("hello")) and marks.ports - store
        run.until(is_open, "a port of the link")
        return (marks.ports - store).pop(), pid

    def kib(self, pid, port):
        rss = [x.split()[1] for x in w.read_text(f"/proc/{pid}/status").splitlines()
               if x.startswith("VmRSS")]
        kernel, sockets = attack.kernel_bytes(port)
        return int(rss[0]) + kernel // 1024, sockets

    def run_job(self, late, own=None):
        """own: the sockets that stay, where strangers attack; None: none do."""
        env = {"LATE_RANK": "2", "LATE_MS": str(int(late * 1000)), "LATE_AT": "connect",
               "LATE_HELLO": self.path("hello")}
        if os.path.exists(self.path("hello")):
            os.remove(self.path("hello"))
        began = time.monotonic()
        run = w.Running(self, "run", JOB, 3, extra=env)
        port, pid = self.port_of(run, 0)
        first = most = self.kib(pid, port)[0]
        crowd = attack.Attack(port, self.path("hello")) if own is not None else None
        if crowd:
            self.addCleanup(crowd.end)
        sockets, waits = 0, time.monotonic() + late - 1
        while time.monotonic() < waits:  # before it grows by what training takes
            kib, n = self.kib(pid, port)
            most, sockets = max(most, kib), max(sockets, n)
            time.sleep(0.02)
        run.until_step(1)
        took = time.monotonic() - began - late
        limit = time.monotonic() + w.patience(0.5)
        is_open, left = True, -1
        while (is_open or own not in (None, left)) and time.monotonic() < limit:
            time.sleep(0.02)
            is_open = port in {p for p, _ in w.listening()}
            left = attack.kernel_bytes(port)[1]
        if crowd:
            print(crowd.stop(), flush=True)
        self.assertIsNone(run.process.poll(), run.said())
        run.end()
        return Outcome(took, most - first, sockets, left, is_open)

    def test_link(self):
        plain = self.run_job(LATE)
        print(f"without strangers: {plain}", flush=True)
        for late in (LATE, 4 * LATE, 12 * LATE):
            attacked = self.run_job(late, plain.left)
            print(f"with strangers: {attacked}", flush=True)
            if attacked.sockets > plain.sockets + CROWD:
                break
        self.assertGreater(attacked.sockets, plain.sockets + CROWD, "the attack has come")
        with self.subTest("time"):
            self.assertLess(attacked.seconds, plain.seconds + w.patience(DELAY))
        with self.subTest("memory"):
            if w.SLOW == 1:
                self.assertLess(attacked.kib - plain.kib, GROWTH)
        with self.subTest("closed"):
            self.assertFalse(attacked.is_open)
            self.assertEqual(attacked.left, plain.left, "sockets of strangers stay")


if __name__ == "__main__":
    w.main()
