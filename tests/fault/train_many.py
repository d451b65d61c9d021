#!/usr/bin/env python3
"""train_many.py WEFT: do many ranks begin on a machine of few cores, with default settings?

A tiny job over tcp and over shm, every rank a process. Printed for each: seconds to the first step,
the most resident memory and the most descriptors of a rank. 64 ranks by default; 16, 64 and 256,
over tcp also 512, with WEFT_WHOLE=1 (`make integration`); 16 under sanitizers."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

SIZES = (16, 64, 256) if w.WHOLE else (64,) if w.SLOW == 1 else (16,)
LARGE = (512,) if w.WHOLE else ()
JOB = w.EVEN_DEFAULTS | {"run.steps": 3, "model.layers": 1, "train.microbatch": 1}


class Many(w.Bench):
    def watch(self, run, began):
        """Seconds to the first step, KiB and descriptors at most of some of the ranks."""
        first, kib, fds, pids = None, 0, 0, []
        while run.process.poll() is None:
            self.assertLess(time.monotonic() - began, w.TIMEOUT * 2, run.said())
            if first is None and w.read_text(os.path.join(run.out, "metrics.jsonl")):
                first = time.monotonic() - began
            if len(pids) < run.n:
                pids = list(run.ranks().values())
            for pid in pids[::max(1, run.n // 8)]:
                for line in w.read_text(f"/proc/{pid}/status").splitlines():
                    kib = max(kib, int(line.split()[1]) if line.startswith("VmHWM") else 0)
                fds = max(fds, len(w.listed(f"/proc/{pid}/fd")))
            time.sleep(0.2)
        return first, kib, fds

    def check(self, transport, ranks):
        began = time.monotonic()
        run = w.Running(self, transport, JOB | {"train.batch": ranks, "comm.plugin": transport},
                        ranks)
        first, kib, fds = self.watch(run, began)
        self.assertEqual(run.wait(), 0, run.said())
        first = first or time.monotonic() - began
        print(f"{ranks} ranks over {transport}: first step after {first:.1f} s, all after "
              f"{time.monotonic() - began:.1f} s; {kib / 1024:.0f} MiB and {fds} descriptors a "
              "rank at most", flush=True)
        if w.SLOW == 1:
            self.assertLess(kib, 80 * 1024)
        self.assertLess(fds, ranks + 150)  # rank 0 has one for each rank

    def test_tcp(self):
        for ranks in SIZES + LARGE:
            self.check("tcp", ranks)

    def test_shm(self):
        for ranks in SIZES:
            self.check("shm", ranks)


if __name__ == "__main__":
    w.main()
