#!/usr/bin/env python3
"""recompute.py WEFT: do activations that are made again change anything?

Backward runs the same kernels on the same inputs that forward ran, so a run that recomputes must
have the bits of one that does not, in fp32, bf16 and fp16, with several micro-batches, on one
rank and two: metrics and, after the last step, every parameter and moment. Only the memory may
differ, and does."""

import weft_jobs as w

SKIP = (*w.NO_TIME, "peak_bytes")
STEPS = 6
# So large that activations outweigh what recomputation does not touch.
DEEP = w.ODD | {"model.layers": 6, "train.batch": 16, "train.microbatch": 8, "run.steps": STEPS,
                "checkpoint.every": STEPS}
# Communication inside a block is made again too, and parameters are gathered for it.
WIDE = w.EVEN | {"model.layers": 4, "train.batch": 16, "train.microbatch": 4, "run.steps": STEPS,
                 "checkpoint.every": STEPS, "train.precision": "bf16"}
TP = {"parallel.strategy": "tp"}
PP = {"parallel.strategy": "pp"}
LAYOUTS = [
    (2, TP), (2, TP | {"parallel.sequence": "on"}),
    (2, PP | {"parallel.schedule": "interleaved", "parallel.virtual": 2}),
    (2, {"optim.placement": "zero2"}), (2, {"optim.placement": "zero3"}),
    (4, {"parallel.strategy": "hybrid", "parallel.tp": 2, "parallel.pp": 2}),
    (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2, "optim.placement": "zero3"}),
]


class Recompute(w.Bench):
    def family(self, job, ranks=1):
        peaks = []
        for word in ("none", "selective", "block"):
            out = f"{self.id()}-{word}"
            self.train(out, job | {"train.recompute": word}, ranks=ranks)
            self.same_run(f"{self.id()}-none", out, STEPS, SKIP)
            peaks.append(w.metrics(self.path(out))[0]["peak_bytes"])
        self.assertGreater(peaks[0], peaks[1])
        self.assertGreater(peaks[1], peaks[2])

    def test_fp32(self):
        self.family(DEEP | {"train.precision": "fp32"})

    def test_bf16(self):
        self.family(DEEP | {"train.precision": "bf16"})

    def test_many_passes(self):
        self.family(DEEP | {"train.precision": "bf16", "train.microbatch": 2, "model.tied": "off"})

    def test_two_ranks(self):
        self.family(DEEP | {"train.precision": "fp32", "train.microbatch": 4}, ranks=2)

    def test_llama(self):
        self.family(DEEP | {"train.precision": "fp16", "model.family": "llama",
                            "model.kv_heads": 1})

    def test_stages(self):
        """A block's input may come from another rank, and waits longer for its backward there."""
        self.family(DEEP | {"train.precision": "bf16", "train.microbatch": 2,
                            "parallel.strategy": "pp"}, ranks=2)

    def test_layouts(self):
        for family in ({}, {"model.family": "llama", "model.kv_heads": 2}):
            for ranks, layout in LAYOUTS:
                with self.subTest(ranks=ranks, layout=layout, family=family):
                    job, peaks = WIDE | layout | family, []
                    for word in ("none", "selective", "block"):
                        self.train(word, job | {"train.recompute": word}, ranks=ranks)
                        self.same_run("none", word, STEPS, (*SKIP, "comm_bytes"))
                        peaks.append(w.metrics(self.path(word))[0]["peak_bytes"])
                    self.assertGreater(peaks[0], peaks[2])


if __name__ == "__main__":
    w.main()
