"""Do ranks that share one GPU, whose devices map each other's memory, train with the bits of ranks
that exchange the same through host memory? In every kind of layout, with the sums of 2 and of 4
ranks; and as the cpu device does, within the roundings of train.py.

`ranks.py WEFT DOUBLES [unittest's arguments]`; DOUBLES is their folder, or "gpu"."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
DOUBLES = sys.argv.pop(2)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

GPU = DOUBLES == "gpu"
STEPS = 20 if GPU else 6
LIBRARIES = {} if GPU else {"LD_LIBRARY_PATH": DOUBLES}
JOB = {k: v for k, v in w.EVEN.items() if k != "device.threads"} | {
    "run.steps": STEPS, "run.deterministic": "on", "train.batch": 8, "train.microbatch": 2,
    "comm.plugin": "shm", "device.plugin": "cuda", "device.attention": "own"}
LAYOUTS = (
    (2, {}),
    (4, {"train.precision": "bf16"}),
    (2, {"optim.placement": "zero1", "train.precision": "fp16"}),
    (4, {"optim.placement": "zero2", "train.microbatch": 1, "train.bucket_mb": 0.02}),
    (2, {"optim.placement": "zero3", "train.bucket_mb": 0.01}),
    (2, {"parallel.strategy": "tp", "parallel.tp": 2, "parallel.sequence": "on"}),
    (2, {"parallel.strategy": "pp", "parallel.pp": 2, "parallel.schedule": "1f1b"}),
    (4, {"parallel.strategy": "pp, tp", "parallel.pp": 2, "parallel.tp": 2}),
)


if w.SAMPLE:
    LAYOUTS = LAYOUTS[1::2]


class Ranks(w.Bench):
    def on_cuda(self, out, job, ranks):
        done = self.train(out, JOB | job, ranks=ranks, extra=LIBRARIES)
        return done.stdout + done.stderr

    def test_layouts(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                said = self.on_cuda("mapped", change | {"comm.algorithm": "mapped"}, ranks)
                self.assertRegex(said, "devices along mesh axis .* map each other's memory")
                self.on_cuda("through-host", change | {"comm.algorithm": "pairwise"}, ranks)
                self.same_run("through-host", "mapped", None,
                              w.NO_TIME + ("comm_bytes", "peak_bytes"))

    def test_the_cpu(self):
        for ranks in 2, 4:
            self.on_cuda("cuda", {}, ranks)
            cpu = {k: v for k, v in JOB.items() if not k.startswith("device.")}
            self.train("cpu", cpu | {"device.threads": 1}, ranks=ranks)
            for a, b in zip(w.metrics(self.path("cpu")), w.metrics(self.path("cuda"))):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=2e-5)

    def test_a_rank_dies(self):
        job = JOB | {"run.steps": 10**8, "optim.lr": 1e-4, "comm.algorithm": "mapped"}
        run = w.Running(self, "dead", job, 2, extra=LIBRARIES)
        run.until_step(3)
        os.kill(run.ranks()[1], 9)
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 9")

    def test_a_rank_freezes(self):
        after = 5 if w.SLOW == 1 else 15
        job = JOB | {"run.steps": 10**8, "optim.lr": 1e-4, "comm.algorithm": "mapped",
                     "run.frozen_after": after}
        run = w.Running(self, "frozen", job, 2, extra=LIBRARIES)
        run.until_step(3)
        os.kill(run.ranks()[1], signal.SIGSTOP)
        self.assertEqual(run.wait(), 1)
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 0, step \d+, .*rank 1 is frozen")


if __name__ == "__main__":
    w.main()
