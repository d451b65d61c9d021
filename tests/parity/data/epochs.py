#!/usr/bin/env python3
"""epochs.py WEFT: is every sample drawn once an epoch, over resumes and changes of layout?

At a learning rate of 0 nothing is learned, so the loss of a sample is its fingerprint. A job with
one sample a step shows them in order: each epoch has every fingerprint once. Jobs with more samples
a step, which are stopped and resumed on other layouts, must show the means of these, step by
step."""
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402
from documents import VOCAB, some_tokens, write  # noqa: E402

SEQUENCE, WINDOWS, EPOCHS, BATCH = 12, 21, 4, 6
STEPS = WINDOWS * EPOCHS // BATCH
JOB = w.EVEN | {"model.vocab": VOCAB, "model.layers": 2, "train.sequence": SEQUENCE,
                "optim.lr": 1e-30, "optim.schedule": "constant", "optim.warmup": 0,
                "optim.weight_decay": 0, "train.batch": BATCH, "train.microbatch": 1,
                "comm.plugin": "shm", "checkpoint.every": 1, "checkpoint.keep": 0}
LAYOUTS = [
    (1, {"parallel.strategy": "none", "train.microbatch": 3}), (2, {}),
    (3, {"train.microbatch": 2}), (2, {"parallel.strategy": "tp"}),
    (2, {"parallel.strategy": "pp"}), (2, {"optim.placement": "zero3"}),
    (4, {"parallel.strategy": "tp, pp, dp", "parallel.tp": 2, "parallel.pp": 2, "parallel.dp": 1}),
]


class Epochs(w.Bench):
    def fingerprints(self, data):
        job = JOB | data | {"train.batch": 1, "parallel.strategy": "none", "checkpoint.every": 0,
                            "run.steps": WINDOWS * EPOCHS}
        self.train("prints", job)
        return [x["loss"] for x in w.metrics(self.path("prints"))]

    def many(self, data, prints):
        """Stopped after random steps, and resumed on the next layout."""
        layouts = random.sample(LAYOUTS, len(LAYOUTS))
        stops = sorted(random.sample(range(1, STEPS), len(layouts) - 1)) + [STEPS]
        for i, (stop, (ranks, layout)) in enumerate(zip(stops, layouts)):
            self.train("cut", JOB | data | layout | {"run.steps": stop}, ranks=ranks,
                       resume="force" if i else False)
        seen = [x["loss"] for x in w.metrics(self.path("cut"))]
        self.assertEqual(len(seen), STEPS)
        for step, loss in enumerate(seen):
            mean = math.fsum(prints[step * BATCH:(step + 1) * BATCH]) / BATCH
            self.assertLessEqual(abs(loss - mean), 2e-6 * mean, f"step {step + 1} of {layouts}")

    def each_once(self, prints, windows):
        """Runs of `windows` fingerprints have the same ones; returns how many are distinct."""
        whole = len(prints) // windows * windows
        first = sorted(prints[:windows])
        for at in range(0, whole, windows):
            self.assertEqual(sorted(prints[at:at + windows]), first)
        return len(set(first))

    def test_one_set(self):
        write(self.path("one.bin"), some_tokens(SEQUENCE * WINDOWS + 5))
        data = {"data.train": self.path("one.bin")}
        prints = self.fingerprints(data)
        self.assertEqual(self.each_once(prints, WINDOWS), WINDOWS)
        orders = {tuple(prints[at:at + WINDOWS]) for at in range(0, len(prints), WINDOWS)}
        self.assertEqual(len(orders), EPOCHS)
        self.many(data, prints)
        # the same tokens in shards, which lie across the samples
        os.mkdir(self.path("shards"))
        tokens = some_tokens(SEQUENCE * WINDOWS + 5)
        for i, at in enumerate(range(0, len(tokens), 50)):
            write(self.path("shards", f"part_{i:03}.bin"), tokens[at:at + 50])
        for name in ("shards", "shards/part_*.bin"):
            self.assertEqual(self.fingerprints({"data.train": self.path(name)}), prints)
        # resumed without force: the data is the same, and what samples are is not another thing
        self.train("whole", JOB | data | {"run.steps": 3, "parallel.strategy": "none"})
        self.train("whole", JOB | {"data.train": self.path("shards"), "run.steps": 5,
                                   "parallel.strategy": "none"}, resume=True)
        for other in ({"data.order": "starts"}, {"data.documents": "separate",
                                                 "data.boundary": "end:1"},
                      {"data.train": f"{self.path('one.bin')}:1"}):
            said = self.train("whole", JOB | data | {"run.steps": 7, "parallel.strategy": "none"}
                              | other, resume=True, status=2).stderr
            self.assertIn("saved with other settings: data.source was 'epochs of ", said)
        # and a job with the order of before keeps it, whether the key is there or not
        old = JOB | data | {"parallel.strategy": "none", "run.steps": 8}
        self.train("old", old | {"data.order": "starts"})
        self.train("kept", old | {"data.order": "starts", "run.steps": 3})
        self.train("kept", old | {"run.steps": 5}, resume=True)
        self.train("kept", old, resume=True)
        self.same_run("old", "kept")
        said = self.train("kept", old | {"run.steps": 9, "data.order": "epochs"}, resume=True,
                          status=2).stderr
        self.assertIn("and is 'epochs of ", said)

    def test_a_mixture(self):
        write(self.path("a.bin"), some_tokens(SEQUENCE * 14 + 1, 1))
        write(self.path("b.bin"), some_tokens(SEQUENCE * 5 + 3, 2))
        data = {"data.train": f"{self.path('a.bin')}:0.75, {self.path('b.bin')}:0.25"}
        prints = self.fingerprints(data)
        alone = {}
        for name in ("a", "b"):
            job = {"data.train": self.path(name + ".bin")}
            alone[name] = set(self.fingerprints(job))
        of_a = [x for x in prints if x in alone["a"]]
        of_b = [x for x in prints if x in alone["b"]]
        self.assertEqual(len(of_a) + len(of_b), len(prints))
        self.assertEqual((len(of_a), len(of_b)), (63, 21))
        self.assertEqual(self.each_once(of_a, 14), 14)
        self.assertEqual(self.each_once(of_b, 5), 5)
        for n in range(1, len(prints) + 1):
            had = sum(x in alone["a"] for x in prints[:n])
            self.assertLess(abs(had - 0.75 * n), 1)
        self.many(data, prints)


if __name__ == "__main__":
    w.main()
