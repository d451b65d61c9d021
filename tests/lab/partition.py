#!/usr/bin/env python3
"""partition.py WEFT: does at most one side of a network that is cut in two go on?

Three ranks with --restarts, rank 0 on one host and two on another: network namespaces with a cable
(hosts.sh), outside of the lab, at full speed; 77 where they cannot be made. While the cable is
pulled both sides notice it and start again, and neither trains; when it is back the job continues,
with the bits of a run that nothing disturbed."""
import os
import sys
import time

from jobs import HOSTS, Jobs, hosts, w

WHERE = (1, 2, 2)
AFTER = 1.5 * (1 if w.SLOW == 1 else 3)  # seconds without a heartbeat
JOB = w.EVEN | {"run.steps": 500, "model.layers": 1, "train.microbatch": 1, "comm.plugin": "tcp",
                "checkpoint.every": 50, "checkpoint.keep": 1000, "run.frozen_after": AFTER,
                "run.join_timeout": w.TIMEOUT, "optim.lr": 1e-4}


class Partition(Jobs):
    variables, more = {}, ("--restarts", "5")

    def setUp(self):
        hosts("two_hosts")
        self.addCleanup(hosts, "no_hosts", check=False)

    def said_by_all(self):
        return "\n".join(map(self.said, range(len(WHERE))))

    def test_cable_pulled_and_back(self):
        self.start("whole", JOB, WHERE)
        self.ended(0)
        self.start("cut", JOB, WHERE)
        self.until(lambda: self.step() > 120, "the first steps")
        hosts("cable", 2, "down")
        self.until(lambda: "attempt 2 begins" in self.said(0) and all(
            "rank 0 is not reached" in self.said(rank) for rank in (1, 2)), "both sides notice")
        before = self.step()
        time.sleep(2 * AFTER)
        self.assertEqual(self.step(), before, "a side trained on alone")
        self.assertNotIn("resumed after", self.said_by_all())
        self.assertEqual([r.poll() for r in self.ranks], [None] * 3, self.said_by_all())
        hosts("cable", 2, "up")
        self.ended(0)
        self.assertRegex(self.said_by_all(), "resumed after step [0-9]+")
        self.same_run("whole", "cut", step=500)


def main():
    if os.environ.get("WEFT_HOSTS") != "apart":
        os.execvp("bash", ["bash", HOSTS, "apart", sys.executable, "-B", *sys.argv])
    w.main()


if __name__ == "__main__":
    main()
