#!/usr/bin/env python3
"""train_trace.py WEFT: what is a trace worth when a job is stopped, when a rank is killed, and when
the clocks of the ranks are a day apart?"""
import os
import resource
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import traces  # noqa: E402  (tests/parity/traces.py)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

TRACED = w.ODD | {"log.trace_steps": "2-4", "comm.plugin": "tcp", "train.batch": 36}
ENDLESS = TRACED | {"run.steps": 100000000, "optim.lr": 1e-4}


class Trace(w.Bench):
    def check_whole(self, out, ranks, whole=False):
        """Steps 2 to 4 of all ranks are there, and nothing else of a trace is in the folder."""
        events, arrows = traces.check(self, self.path(out, "trace.json"), whole)
        self.assertFalse([x for x in os.listdir(self.path(out)) if "trace" in x
                          and x != "trace.json"])
        for rank in range(ranks):
            self.assertEqual({e["args"]["step"] for e in events
                              if e["ph"] == "X" and e["pid"] == rank}, {2, 3, 4})
        return events, arrows

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

    def test_a_folder_that_takes_no_more_for_a_while(self):
        """What the trace lacks then costs a warning: it is valid, and the job goes on."""
        def limit():  # of any file: the trace alone reaches it
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))

        run = w.Running(self, "run", ENDLESS | {"log.trace_steps": "2-102"}, 2, preexec_fn=limit)
        run.until_step(104)
        for pid in run.ranks().values():  # so that there is room for all parts in one file
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        self.assertRegex(run.said(), r"warn: the trace lacks [1-9]\d* events of this rank: its "
                                     "folder did not take them: File too large")
        traces.check(self, self.path("run", "trace.json"), False)

    def test_clocks_a_day_apart(self):
        """Rank 1 has a clock of its own, that of a host that was booted a day earlier."""
        if not traces.can_shift():
            self.skipTest("no time namespaces, or not the right to make one")
        w.weft("key", "-o", self.path("job.key"))
        traces.check_clocks(self, self.trace_apart, shifted={1})

    def trace_apart(self):
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(w.free_port())}
        ranks = []
        for r in range(2):
            words = [w.WEFT, "train", self.ini, f"run.key={self.path('job.key')}",
                     *self.options("apart", TRACED)]
            ranks.append(subprocess.Popen((traces.SHIFTED if r else []) + words,
                                          env=w.environment(common | {"RANK": str(r)}),
                                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE))
        said = [x.communicate(timeout=w.TIMEOUT)[1] for x in ranks]
        self.assertEqual([x.returncode for x in ranks], [0, 0], said)
        return self.check_whole("apart", 2, whole=True)


if __name__ == "__main__":
    w.main()
