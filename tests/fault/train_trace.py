#!/usr/bin/env python3
"""train_trace.py WEFT: what is a trace worth when a job is stopped, when a rank is killed, and when
the clocks of the ranks are a day apart?"""
import collections
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

TRACED = w.ODD | {"log.trace_steps": "2-4", "comm.plugin": "tcp", "train.batch": 36}
ENDLESS = TRACED | {"run.steps": 100000000, "optim.lr": 1e-4}
DAY = 86400


class Trace(w.Bench):
    def events(self, out):
        """{rank: {step: [event]}}; nothing else of the trace is left in the folder."""
        with open(self.path(out, "trace.json"), encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
        self.assertFalse([x for x in os.listdir(self.path(out)) if "trace" in x
                          and x != "trace.json"])
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for e in events:
            if e["ph"] == "X":
                found[e["pid"]][e["args"]["step"]].append(e)
        return found

    def check_whole(self, out, ranks):
        found = self.events(out)
        self.assertEqual({r: sorted(found[r]) for r in range(ranks)},
                         {r: [2, 3, 4] for r in range(ranks)})
        return found

    def test_killed(self):
        for victim in range(3):
            with self.subTest(victim=victim):
                run = w.Running(self, "run", ENDLESS, 3)
                run.until_step(8)
                os.kill(run.ranks()[victim], signal.SIGKILL)
                self.assertEqual(run.wait(), 1)
                self.check_whole("run", 3)

    def test_stopped(self):
        run = w.Running(self, "run", ENDLESS, 2)
        run.until_step(8)
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        self.check_whole("run", 2)

    def test_clocks_a_day_apart(self):
        """Rank 1 has a clock of its own, that of a host that was booted a day earlier."""
        shifted = ["unshare", "--time", "--monotonic", str(DAY)]
        try:
            can = subprocess.run([*shifted, "true"], capture_output=True, check=False).returncode
        except FileNotFoundError:
            can = 1
        if can:
            self.skipTest("no time namespaces, or not the right to make one")
        if not os.path.exists(self.path("job.key")):
            w.weft("key", "-o", self.path("job.key"))
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(w.free_port())}
        ranks = []
        for r in range(2):
            words = [w.WEFT, "train", self.ini, f"run.key={self.path('job.key')}",
                     *self.options("apart", TRACED)]
            ranks.append(subprocess.Popen((shifted if r else []) + words,
                                          env=w.environment(common | {"RANK": str(r)}),
                                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE))
        said = [x.communicate(timeout=w.TIMEOUT)[1] for x in ranks]
        self.assertEqual([x.returncode for x in ranks], [0, 0], said)
        found = self.check_whole("apart", 2)
        for step in (2, 3, 4):
            begin = [min(e["ts"] for e in found[r][step]) for r in (0, 1)]
            end = [max(e["ts"] + e["dur"] for e in found[r][step]) for r in (0, 1)]
            self.assertLess(max(begin), min(end), f"step {step} of the two ranks does not overlap")


if __name__ == "__main__":
    w.main()
