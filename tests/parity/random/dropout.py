#!/usr/bin/env python3
"""dropout.py WEFT: is a job with dropout the same job on every layout?

Which elements are dropped depends on the seed, the step, the token and the place, not on ranks,
micro-batches or stages. So the losses of one rank have to be those of tp, dp and pp, of sharded
parameters and of other micro-batches, within the bounds of layouts.py; one mask of
other numbers is a thousand times outside of them. Resumed and recomputed runs have the same
bits."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

STEPS = 12
BASE = {"model.dropout": 0.2, "run.steps": STEPS, "checkpoint.every": STEPS, "comm.plugin": "shm"}
GPT2 = w.ODD | BASE
LLAMA = w.ODD | w.LLAMA | BASE
TP = {"parallel.strategy": "tp"}
ON = TP | {"parallel.sequence": "on"}
PP = {"parallel.strategy": "pp"}
# Ranks, and what differs from one rank.
LAYOUTS = [
    (2, {}), (3, {"train.microbatch": 2}), (2, TP), (2, ON), (2, PP),
    (2, PP | {"parallel.schedule": "interleaved", "parallel.virtual": 2, "model.layers": 4}),
    (2, {"optim.placement": "zero1"}), (2, {"optim.placement": "zero3"}),
    (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2, "optim.placement": "zero3",
         "parallel.sequence": "on"}),
    (4, {"parallel.strategy": "hybrid", "parallel.tp": 2, "parallel.pp": 2}),
]
EVEN = {"model.heads": 4, "model.embed": 32, "model.ffn": 128, "model.context": 16,
        "model.vocab": 256, "train.sequence": 16, "train.batch": 12}
ONE = {"parallel.strategy": "none"}
PLUGINS = {"run.plugins": os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins"),
           "model.dropout": 0}


class Dropout(w.Bench):
    def family(self, job):
        for ranks, layout in LAYOUTS:
            with self.subTest(ranks=ranks, layout=layout):
                keep = {k: v for k, v in layout.items() if k.startswith("model.")}
                self.train("one", job | EVEN | keep | ONE)
                self.train("many", job | EVEN | layout, ranks=ranks)
                far = self.near("one", "many")
                print(f"{ranks} ranks {layout}: {far:.1e} away")

    def test_gpt2(self):
        self.family(GPT2)

    def test_llama(self):
        self.family(LLAMA | {"model.kv_heads": 2})

    def test_micro_batches(self):
        """And sizes that no vector likes: 17 tokens of 24 features."""
        self.train("one", GPT2)
        for size in (1, 4, 12):
            self.train("other", GPT2 | {"train.microbatch": size})
            self.near("one", "other")

    def test_it_drops(self):
        """Other masks are seen, so that the bounds above say something."""
        self.train("one", GPT2)
        for other in ({"model.dropout": 0}, {"model.dropout": 0.21}, {"run.seed": 6}):
            self.train("other", GPT2 | other)
            a, b = w.metrics(self.path("one")), w.metrics(self.path("other"))
            far = max(abs(x["grad_norm"] - y["grad_norm"]) / x["grad_norm"] for x, y in zip(a, b))
            self.assertGreater(far, 1e-2)

    def test_bits(self):
        """The same job twice, and with activations made again."""
        for precision in ("fp32", "bf16"):
            job = GPT2 | {"train.precision": precision}
            self.train("one", job)
            for word in ("none", "selective", "block"):
                self.train("again", job | {"train.recompute": word})
                self.same_run("one", "again", STEPS, (*w.NO_TIME, "peak_bytes"))

    def test_resume(self):
        for ranks, more in ((1, {}), (2, ON), (2, {"optim.placement": "zero2"})):
            job = GPT2 | EVEN | more | {"optim.schedule": "constant"}
            parts = f"parts-{ranks}-{len(more)}-{more.get('optim.placement')}"
            self.train("whole", job, ranks=ranks)
            self.train(parts, job | {"checkpoint.every": 5, "run.steps": 5}, ranks=ranks)
            self.train(parts, job, ranks=ranks, resume=True)
            self.assertEqual(len(w.metrics(self.path(parts))), STEPS)
            self.same_run("whole", parts, STEPS)

    def test_replacements(self):
        """A strategy outside the tree draws in tensors that tp splits along ffn; llama's too."""
        layouts = ((2, "dp"), (2, "tp"), (4, "tp, dp"), (2, "pp"))
        for job in (GPT2, LLAMA | {"model.kv_heads": 2}):
            job = job | EVEN | PLUGINS
            self.train("plain", job | ONE)
            self.train("one", job | {"parallel.strategy": "acme.noise"})
            self.train("block", job | {"parallel.strategy": "acme.noise",
                                       "train.recompute": "block", "train.microbatch": 4})
            self.near("one", "block")
            with self.assertRaises(AssertionError):
                self.near("plain", "one", 1e-3)
            for ranks, strategy in layouts:
                for sequence in ("off", "on") if "tp" in strategy else ("off",):
                    self.train("many", job | {"parallel.strategy": "acme.noise, " + strategy}
                               | ({"parallel.tp": 2, "parallel.sequence": sequence}
                                  if "tp" in strategy else {}), ranks=ranks)
                    self.near("one", "many")

    def test_rules(self):
        """So does an update rule: parameters of one shape draw numbers of their own."""
        job = GPT2 | EVEN | PLUGINS | {"optim.rule": "test.noisy", "optim.lr": 0.02,
                                       "optim.schedule": "constant"}
        self.train("one", job | ONE)
        one = w.tensors(self.path("one"), STEPS)
        for ranks, more in ((2, {}), (2, TP), (2, PP), (2, {"optim.placement": "zero1"}),
                            (2, {"optim.placement": "zero3", "train.bucket_mb": 0.002}),
                            (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2,
                                 "optim.placement": "zero1"})):
            with self.subTest(ranks=ranks, more=more):
                self.train("many", job | more, ranks=ranks)
                self.near("one", "many")
                far, name = w.furthest(one, w.tensors(self.path("many"), STEPS))
                self.assertLessEqual(far, 1e-5, name)
        self.train("cut", job | ONE | {"run.steps": 5, "checkpoint.every": 5})
        self.train("cut", job | ONE, resume=True)
        self.same_run("one", "cut", STEPS)
        a, b = (one[f"block.{i}.ffn.out.b"][1] for i in (0, 1))
        self.assertLess(abs(sum(x * y for x, y in zip(a, b))),
                        0.5 * sum(x * x for x in a))
        bad = self.train("bad", job | {"optim.rule": "test.noisy_elements"}, ranks=4, status=2)
        self.assertIn("op random is not elementwise", bad.stderr)

    def test_evaluation(self):
        """Held-out data is read without dropout: at a rate of 0 the first evaluation, before the
        weights differ, is the same with and without."""
        job = GPT2 | {"data.valid": self.path("valid.bin"), "train.eval_every": 1,
                      "train.eval_batches": 2, "run.steps": 1, "checkpoint.every": 0,
                      "optim.lr": 0}
        self.train("with", job)
        self.train("without", job | {"model.dropout": 0})
        a, b = (w.metrics(self.path(x))[0] for x in ("with", "without"))
        self.assertEqual(a["valid_loss"], b["valid_loss"])
        self.assertNotEqual(a["loss"], b["loss"])


if __name__ == "__main__":
    w.main()
