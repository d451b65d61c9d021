#!/usr/bin/env python3
"""matrix.py WEFT: does every legal combination train as one rank does?

Layouts of up to 16 ranks (data, tensor with and without sequence, pipeline under each schedule, and
mixtures) times placements times model families times transports: loss and gradient norm of 20
steps within 1e-4 of the one-rank run in fp32, the weights that are saved at the end likewise by
their lengths; what rank 0 sends in a step to the byte what the plan says. A sample of the table in
bf16, within 2^-6: a rank of tp rounds its part of a product before parts are added, which one rank
does not. Of the table in fp32 every third row runs, all with WEFT_PARITY_WHOLE=1; with
WEFT_SAMPLE=1, in `make test`, every seventh row and half of the random jobs. These are of odd
sizes, drawn from a seed: those that `weft plan` refuses have to be refused with a sentence, the
others have to train as one rank. WEFT_PARITY_RANDOM says how many (24; a nightly run takes
hundreds), WEFT_PARITY_SEED from where."""
import os
import random
import subprocess

import weft_jobs as w

NUMBER = "12" if w.SAMPLE else "24"  # of random jobs
BASE = {
    "run.seed": 11, "run.steps": 20, "model.layers": 2, "model.heads": 4, "model.embed": 32,
    "model.ffn": 48, "model.context": 16, "model.vocab": 251, "train.batch": 8,
    "train.microbatch": 1, "train.sequence": 16, "train.precision": "fp32", "train.eval_every": 0,
    "optim.lr": 3e-3, "optim.warmup": 2, "device.threads": 1, "log.peak_gflops": 1,
    "log.progress": 0, "checkpoint.every": 20}
FAMILIES = {"gpt2": {"model.family": "gpt2"},
            "llama": {"model.family": "llama", "model.kv_heads": 2}}
SEQUENCE = {"parallel.sequence": "on"}
WAVES = {"parallel.schedule": "interleaved", "parallel.virtual": 2}


def mesh(strategy, **sizes):
    return {"parallel.strategy": strategy} | {f"parallel.{k}": v for k, v in sizes.items()}


LAYOUTS = [  # ranks, keys
    (2, mesh("dp")), (4, mesh("dp")), (2, mesh("tp")), (2, mesh("tp") | SEQUENCE),
    (2, mesh("pp")), (2, mesh("pp") | {"parallel.schedule": "fthenb"}), (2, mesh("pp") | WAVES),
    (4, mesh("pp")), (4, mesh("tp, pp", tp=2)), (4, mesh("tp, pp", tp=2) | SEQUENCE),
    (4, mesh("tp, dp", tp=2) | SEQUENCE), (4, mesh("pp, dp", pp=2)),
    (8, mesh("hybrid", tp=2, pp=2, dp=2)), (8, mesh("hybrid", tp=2, pp=2, dp=2) | SEQUENCE | WAVES)]
PLACEMENTS = ["none", "zero1", "zero2", "zero3"]


def legal(keys, placement):
    strategy = keys["parallel.strategy"]
    return placement == "none" or "dp" in strategy or strategy == "hybrid"


class Compared(w.Bench):
    ones = {}

    def one(self, job):
        """The run of one rank, made once."""
        key = str(sorted(job.items()))
        if key not in self.ones:
            out = f"one-{len(self.ones)}"
            self.train(out, job)
            tensors = w.tensors(self.path(out), job["run.steps"])
            Compared.ones[key] = (w.metrics(self.path(out)), tensors)
        return self.ones[key]

    def compare(self, job, ranks, keys, out, bound):
        want, whole = self.one(job)
        self.train(out, job | keys, ranks=ranks)
        got = w.metrics(self.path(out))
        self.assertEqual(len(want), len(got))
        for a, b in zip(want, got):
            for key in ("loss", "grad_norm"):
                self.assertLessEqual(abs(a[key] - b[key]), bound * abs(a[key]),
                                     f"{key} of step {a['step']}")
        self.assertEqual(got[-1]["comm_bytes"],
                         sum(self.plan(job | keys, ranks)["ranks"][0]["sent"].values()))
        many = w.tensors(self.path(out), job["run.steps"])
        self.assertEqual(sorted(whole), sorted(many))
        names = [n for n in whole if n.endswith((".w", ".g"))]
        far, name = w.distance(whole, many, names)
        self.assertLessEqual(far, 10 * bound, name)


class Matrix(Compared):
    def table(self, precision, bound, every=1):
        number, every = 0, every * (5 if w.SLOW > 1 else 1) | 1  # odd: both transports come up
        for family, model in FAMILIES.items():
            for ranks, keys in LAYOUTS:
                for placement in PLACEMENTS:
                    for transport in ("shm", "tcp"):
                        number += legal(keys, placement)
                        if not legal(keys, placement) or number % every:
                            continue
                        more = keys | {"optim.placement": placement, "comm.plugin": transport}
                        with self.subTest(family=family, ranks=ranks, **more):
                            self.compare(BASE | model | {"train.precision": precision}, ranks,
                                         more, f"{precision}-{number}", bound)
        return number

    def test_fp32(self):
        whole = os.environ.get("WEFT_PARITY_WHOLE")
        every = 1 if whole else 7 if w.SAMPLE else 3
        self.assertGreater(self.table("fp32", 1e-4, every), 120)

    def test_sixteen_ranks(self):
        keys = mesh("hybrid", tp=2, pp=4, dp=2) | {"optim.placement": "zero2"}
        self.compare(BASE | FAMILIES["gpt2"], 16, keys, "sixteen", 1e-4)

    def test_a_transport_an_axis(self):
        """Beside each other, and over another link than the job's."""
        keys = mesh("hybrid", tp=2, pp=2, dp=2) | {
            "comm.plugin": "shm", "comm.pp.plugin": "tcp", "comm.dp.plugin": "tcp"}
        self.compare(BASE | FAMILIES["llama"], 8, keys, "mixed", 1e-4)

    def test_bf16(self):
        self.table("bf16", 2**-6, every=13 if w.SAMPLE else 7)


class Drawn(Compared):
    def draw(self, r):
        heads, dim = r.choice([1, 2, 3, 4, 6]), 2 * r.randint(1, 5)
        divisors = [k for k in range(1, heads + 1) if heads % k == 0]
        job = BASE | {
            "run.seed": r.randint(1, 999), "run.steps": 6, "checkpoint.every": 6,
            "model.family": r.choice(["gpt2", "llama"]), "model.layers": r.randint(1, 5),
            "model.heads": heads, "model.embed": heads * dim, "model.ffn": r.randint(3, 70),
            "model.kv_heads": r.choice(divisors), "model.vocab": r.randint(251, 300),
            "model.context": 24, "train.sequence": r.randint(2, 24),
            "train.batch": r.choice([2, 3, 4, 6, 8, 12]),
            "train.microbatch": r.choice([1, 1, 2, 3]),
            "train.clip": r.choice([0, 0.3, 1]), "model.tied": r.choice(["on", "off", "auto"])}
        if job["model.family"] == "gpt2":
            del job["model.kv_heads"]
        axes = r.sample(["tp", "pp", "dp"], r.randint(1, 3))
        sizes = {a: r.choice([1, 2, 2, 3]) for a in axes}
        keys = mesh(", ".join(axes), **sizes) | {
            "optim.placement": r.choice(PLACEMENTS), "comm.plugin": r.choice(["shm", "shm", "tcp"]),
            "train.recompute": r.choice(["none", "none", "block", "selective"]),
            "train.bucket_mb": r.choice([0.002, 25])}
        if "tp" in axes:
            keys["parallel.sequence"] = r.choice(["on", "off"])
        if "pp" in axes:
            keys |= r.choice([{}, {"parallel.schedule": "fthenb"}, WAVES])
        ranks = 1
        for n in sizes.values():
            ranks *= n
        return job, ranks, keys

    def planned(self, job, ranks, keys):
        done = subprocess.run([w.WEFT, "plan", "-n", str(ranks), self.ini,
                               *self.options("planned", job | keys)], capture_output=True,
                              env=w.environment(), text=True, timeout=w.TIMEOUT)
        if done.returncode == 2:
            self.assertRegex(done.stderr, r"weft error: .{20,}")
        else:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.returncode == 0

    def test_random(self):
        wanted = int(os.environ.get("WEFT_PARITY_RANDOM", NUMBER)) // w.SLOW + 1
        most = 4 if wanted < 100 else 8
        r, trained, refused = random.Random(int(os.environ.get("WEFT_PARITY_SEED", "1"))), 0, 0
        while trained < wanted:
            job, ranks, keys = self.draw(r)
            if ranks > most:
                continue
            if not self.planned(job, 1, {}) or not self.planned(job, ranks, keys):
                refused += 1
                continue
            trained += 1
            with self.subTest(number=trained, ranks=ranks, **job, **keys):
                self.compare(job, ranks, keys, f"drawn-{trained}", 1e-4)
        print(f"{trained} jobs trained, {refused} refused")


if __name__ == "__main__":
    w.main()
