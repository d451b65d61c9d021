"""swept.py: a sweep of tiny jobs, started, killed and read."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import started  # noqa: E402
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PARTS = ("compute_ms", "exposed_comm_ms", "bubble_ms", "optimizer_ms")
SWEEP = started.TINY + """\
[device]
threads = 1
[sweep]
warmup = 1
steps = 4
out = out
"""


class Case(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def sweep(self, *words, status=0, folder="out"):
        """Run sweep.ini; returns (the JSON, standard output, error)."""
        out, err = self.weft("bench", "sweep.ini", "train.precision=fp32", *words, status=status)
        return json.loads(self.read(folder, "sweep.json")), out, err

    def runs(self):
        """The whole lines of the ledger."""
        try:
            text = self.read("out", "runs.jsonl").decode()
        except FileNotFoundError:
            return []
        return [json.loads(x) for x in text.split("\n")[:-1]]

    def kill_after(self, runs, how, *words):
        """Start the sweep and end it once the ledger has so many runs; returns how many it has."""
        with subprocess.Popen([started.WEFT, "bench", "sweep.ini", "train.precision=fp32", *words],
                              cwd=self.place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as sweep:
            until = time.monotonic() + 300
            while len(self.done()) < runs and sweep.poll() is None:
                self.assertLess(time.monotonic(), until, "the runs do not come")
                time.sleep(0.01)
            sweep.send_signal(how)
            said = sweep.stderr.read()
            sweep.wait(300)
        if sweep.returncode == 0:
            raise w.TooSoon("the sweep was over before the signal")
        self.assertEqual(sweep.returncode, 75 if how == signal.SIGTERM else -how, said)
        if how == signal.SIGTERM:
            self.assertIn("the same command goes on", " ".join(said.split()))
            self.assertNotIn("error", said)
        return len(self.done())

    def done(self):
        """The runs that the ledger names, as (number, repeat, on one rank)."""
        return [(x["number"], x["repeat"], x.get("one_rank", False)) for x in self.runs()
                if "number" in x]


main = started.main
