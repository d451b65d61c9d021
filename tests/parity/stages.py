#!/usr/bin/env python3
"""stages.py WEFT: does a pipeline train as one rank does?

Tiny models over 2, 3 and 4 stages under every schedule, alone and beside data parallelism, tied and
untied, blocks divided by cost and by hand, fewer micro-batches than stages, over both transports:
loss and gradient norm of 20 steps and what is saved at the end, against one rank. A stage computes
what that rank computes, in the same order, so without data parallelism, clipping and a tied
embedding (whose two gradients are then summed last) the bits are the same; of the norm alone the
sum goes another way."""
import unittest

import weft_jobs as w

PIPE = {"parallel.strategy": "pp"}
BOTH = {"parallel.strategy": "pp, dp", "parallel.pp": 2}
INTERLEAVED = {"parallel.schedule": "interleaved"}
FTHENB = {"parallel.schedule": "fthenb"}
EXACT = [  # ranks, transport, keys
    (2, "shm", PIPE), (3, "tcp", PIPE | {"parallel.stages": "1, 2, 1"}), (4, "shm", PIPE | FTHENB),
    (2, "tcp", PIPE | INTERLEAVED | {"parallel.virtual": 2}), (4, "shm", PIPE | {
        "train.microbatch": 6})]
CLOSE = [
    (4, "shm", BOTH), (4, "tcp", BOTH | FTHENB), (4, "shm", {
        "parallel.strategy": "dp, pp", "parallel.dp": 2} | INTERLEAVED | {"parallel.virtual": 2})]


class Stages(w.Bench):
    def family(self, job, precision="fp32"):
        job = job | {"train.precision": precision, "train.eval_every": 10, "checkpoint.every": 20,
                     "train.eval_batches": 2, "data.valid": self.path("valid.bin")}
        wanted = {}
        for micro in (3, 6):  # the sum over micro-batches has an order, too
            self.train(f"{self.id()}-{micro}", job | {"train.microbatch": micro})
            wanted[micro] = (w.metrics(self.path(f"{self.id()}-{micro}")),
                             w.tensors(self.path(f"{self.id()}-{micro}"), 20))
        for i, (ranks, transport, keys) in enumerate(EXACT + CLOSE):
            with self.subTest(ranks=ranks, transport=transport, **keys):
                out = f"{self.id()}-run-{i}"
                self.train(out, job | {"comm.plugin": transport} | keys, ranks=ranks)
                one, whole = wanted[keys.get("train.microbatch", 3)]
                exact = i < len(EXACT) and not job["train.clip"] and job["model.tied"] == "off"
                many = w.tensors(self.path(out), 20)
                loose = 1e-4 if precision == "fp32" else 2**-7
                self.near(one, out, 1e-7 if exact else loose, norm=1e-6 if exact else loose)
                self.assertEqual(sorted(whole), sorted(many))
                if exact:
                    self.same_tensors(whole, many)

    def test_tied(self):
        self.family(w.ODD | {"train.clip": 0})

    def test_untied(self):
        self.family(w.EVEN | {"train.clip": 0})

    def test_untied_clipped(self):
        self.family(w.EVEN | {"train.clip": 0.5})

    def test_bf16(self):
        self.family(w.EVEN | {"train.clip": 0}, "bf16")

    def refused(self, ranks, keys, *words):
        said = self.train("no", w.EVEN | keys, ranks=ranks, status=2).stderr
        for word in words:
            self.assertIn(word, said)

    def test_what_cannot_be(self):
        self.refused(5, PIPE, "parallel.pp = 5", "4 blocks")
        self.refused(2, PIPE | {"parallel.virtual": 2}, "parallel.virtual", "interleaved")
        self.refused(2, PIPE | INTERLEAVED | {"parallel.virtual": 2, "train.microbatch": 4},
                     "multiples of parallel.pp", "3")
        self.refused(2, PIPE | {"parallel.stages": "1, 2"}, "parallel.stages", "4 blocks")
        self.refused(2, PIPE | {"parallel.stages": "1, x"}, "parallel.stages")
        said = self.train("no", w.EVEN | {"parallel.strategy": "tp, pp", "parallel.tp": 2,
                                          "parallel.stages": "9"}, ranks=4, status=2).stderr
        self.assertRegex(said, "2 numbers of at least 1 are needed\n")  # and nothing about tp

    def test_resume_on_other_stages(self):
        job = w.EVEN | {"checkpoint.every": 10, "train.clip": 0,
                        "optim.schedule": "constant"}
        self.train("whole", job)
        self.train("cut", job | PIPE | {"run.steps": 10}, ranks=3)
        self.train("cut", job, resume=True)
        self.same_tensors(w.tensors(self.path("whole"), 20), w.tensors(self.path("cut"), 20))
        self.train("other", job | {"run.steps": 10})
        self.train("other", job | PIPE | INTERLEAVED | {"parallel.virtual": 2}, ranks=2,
                   resume=True)
        self.same_tensors(w.tensors(self.path("whole"), 20), w.tensors(self.path("other"), 20))


if __name__ == "__main__":
    w.main()
