#!/usr/bin/env python3
"""partition.py WEFT: does at most one side of a network that is cut in two go on?

Three ranks with --restarts, rank 0 on one host and two on another: network namespaces with a cable
(hosts.sh), outside of the lab, at full speed; 77 where they cannot be made. While the cable is
pulled both sides notice it and start again, and neither trains; when it is back the job continues,
with the bits of a run that nothing disturbed."""
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

HOSTS = os.path.join(HERE, "hosts.sh")
WHERE = (1, 2, 2)
AFTER = 1.5 * (1 if w.SLOW == 1 else 3)  # seconds without a heartbeat
JOB = w.EVEN | {"run.steps": 500, "model.layers": 1, "train.microbatch": 1, "comm.plugin": "tcp",
                "checkpoint.every": 50, "checkpoint.keep": 1000, "run.frozen_after": AFTER,
                "run.join_timeout": w.TIMEOUT, "optim.lr": 1e-4}


def hosts(*words, check=True):
    return subprocess.run(["bash", HOSTS, *words], capture_output=True, text=True, check=check)


class Partition(w.Bench):
    def setUp(self):
        hosts("two_hosts")
        self.addCleanup(hosts, "no_hosts", check=False)
        w.weft("key", "-o", self.path("key"))

    def begin(self, out):
        return [self.begin_rank(out, rank, host) for rank, host in enumerate(WHERE)]

    def begin_rank(self, out, rank, host):
        env = w.environment({
            "RANK": str(rank), "WORLD_SIZE": str(len(WHERE)), "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "7172", "LOCAL_RANK": str(WHERE[:rank].count(host)),
            "LOCAL_WORLD_SIZE": str(WHERE.count(host))})
        with open(self.path(f"{rank}.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                ["bash", HOSTS, "on", str(host), w.WEFT, "train", self.ini,
                 *self.options(out, JOB | {"run.key": self.path("key")}), "--restarts", "5"],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def said(self, rank=None):
        return "\n".join(w.read_text(self.path(f"{r}.log")) for r in range(len(WHERE))
                         if rank in (None, r))

    def ended_well(self, ranks):
        for rank in ranks:
            self.assertEqual(rank.wait(w.TIMEOUT), 0, self.said())

    def until(self, true, what):
        limit = time.monotonic() + w.TIMEOUT
        while not true():
            self.assertLess(time.monotonic(), limit, f"{what}: {self.said()}")
            time.sleep(0.02)

    def steps(self):
        return w.read_text(self.path("cut", "metrics.jsonl")).count("\n")

    def test_cable_pulled_and_back(self):
        ranks = self.begin("whole")
        self.ended_well(ranks)
        ranks = self.begin("cut")
        self.until(lambda: self.steps() > 120, "the first steps")
        hosts("cable", "2", "down")
        self.until(lambda: "attempt 2 begins" in self.said(0) and all(
            "rank 0 is not reached" in self.said(rank) for rank in (1, 2)), "both sides notice")
        before = self.steps()
        time.sleep(2 * AFTER)
        self.assertEqual(self.steps(), before, "a side trained on alone")
        self.assertNotIn("resumed after", self.said())
        self.assertEqual([r.poll() for r in ranks], [None] * 3, self.said())
        hosts("cable", "2", "up")
        self.ended_well(ranks)
        self.assertRegex(self.said(), "resumed after step [0-9]+")
        self.same_run("whole", "cut", step=500)


def main():
    if os.environ.get("WEFT_HOSTS") != "apart":
        os.execvp("bash", ["bash", HOSTS, "apart", sys.executable, "-B", *sys.argv])
    w.main()


if __name__ == "__main__":
    main()
