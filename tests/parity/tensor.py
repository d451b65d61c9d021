#!/usr/bin/env python3
"""tensor.py WEFT: does it change anything how many ranks share each matrix?

GPT-2 and Llama (grouped queries), tied and untied, on 2, 3 and 4 ranks of tp, with sequence off and
on, beside dp, stages and placements; a vocabulary, a context and lengths that tp does not divide.
Loss, gradient norm and the loss on held-out data are compared with one rank's step by step, and in
fp32 parameters and moments after the last; clipping works in these jobs, so a norm that counted an
element twice would show in everything.

The bounds. In fp32 a sum in another order differs by some 1e-7, which 20 updates enlarge: 1e-5 of a
norm and an eighth of that of a loss, and 1e-4 of the largest element of a tensor, since here every
activation is such a sum and not the gradients alone. In bf16 and fp16 each rank rounds its part of
a product before they are added, which one rank does not: 2^-6 of a norm. layouts.py says what the
keys' bias is."""
import unittest

import weft_jobs as w

CLIPPED = {"train.clip": 0.5, "checkpoint.every": 20, "train.eval_every": 10,
           "train.eval_batches": 2, "comm.plugin": "shm", "parallel.strategy": "tp"}
LLAMA = {"model.family": "llama", "model.heads": 4, "model.kv_heads": 2, "model.ffn": 48}
THREE = {"model.ffn": 39}
ON = {"parallel.sequence": "on"}


class Tensor(w.Bench):
    def family(self, job, shapes, bound=1e-5, tensors=1e-4):
        job = job | CLIPPED | {"data.valid": self.path("valid.bin")}
        self.train("one", job | {"parallel.strategy": "none"})
        self.assertTrue(any(x["grad_norm"] > 0.5 for x in w.metrics(self.path("one"))))
        for ranks, more in shapes:
            for sequence in ({}, ON):
                with self.subTest(ranks=ranks, more=more, sequence=sequence):
                    self.train("many", job | more | sequence, ranks=ranks)
                    far = self.near("one", "many", bound / 8, norm=bound)
                    if tensors:
                        self.near_tensors("one", "many", tensors)
                    print(f"{ranks} ranks {more | sequence}: {far:.1e} away")

    def test_two_and_four_tied(self):
        self.family(w.EVEN | {"model.tied": "on", "model.vocab": 257},
                    ((2, {}), (4, {}), (2, {"train.microbatch": 12})))

    def test_two_and_four_untied(self):
        self.family(w.EVEN, ((2, {}), (4, {})))

    def test_three_with_padding(self):
        """Vocabulary 257, context 19: ranks have 86, 86 and 85 rows; 7, 7 and 5."""
        self.family(w.ODD | THREE, ((3, {}),))

    def test_grouped_queries(self):
        data = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
        self.family(w.EVEN | LLAMA, ((2, {}), (4, data)))

    def test_beside_data_parallel(self):
        self.family(w.EVEN, ((4, {"parallel.strategy": "tp, dp", "parallel.tp": 2}),
                             (4, {"parallel.strategy": "dp, tp", "parallel.tp": 2})))

    def test_beside_stages_and_placements(self):
        two = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
        stages = {"parallel.strategy": "tp, pp", "parallel.tp": 2, "parallel.pp": 2}
        self.family(w.EVEN, ((4, stages), *((4, two | {"optim.placement": p})
                                            for p in ("zero1", "zero2", "zero3"))))

    def test_recomputed(self):
        self.family(w.EVEN | {"train.recompute": "block"}, ((2, {}),))

    def test_tcp(self):
        self.family(w.EVEN, ((2, {"comm.plugin": "tcp"}),))

    def test_bf16(self):
        self.family(w.EVEN | {"train.precision": "bf16"}, ((2, {}), (4, {})), 2**-6, None)

    def test_fp16(self):
        self.family(w.EVEN | LLAMA | {"train.precision": "fp16"}, ((2, {}),), 2**-6, None)

    def test_the_same_bits_twice(self):
        job = w.EVEN | CLIPPED | ON | {"train.precision": "bf16",
                                       "data.valid": self.path("valid.bin")}
        self.train("first", job, ranks=4)
        self.train("second", job, ranks=4)
        self.same_run("first", "second", 20)

    def test_resumed_on_another_layout(self):
        """Ten steps on one layout, ten on another: rows that pad a table are in no checkpoint."""
        job = w.ODD | THREE | CLIPPED | {"run.steps": 20, "checkpoint.every": 10,
                                         "checkpoint.keep": 0, "train.eval_every": 0,
                                         "optim.schedule": "constant"}
        self.train("one", job | {"parallel.strategy": "none"})
        alone, three, data = {"parallel.strategy": "none"}, {}, {"parallel.strategy": "dp"}
        for first, second in (((3, three), (1, alone)), ((2, data), (3, ON)),
                              ((1, alone), (3, ON))):
            with self.subTest(first=first, second=second):
                self.train("cut", job | {"run.steps": 10} | first[1], ranks=first[0])
                self.train("cut", job | second[1], ranks=second[0], resume=True)
                self.near("one", "cut", 1e-5 / 8, norm=1e-5)
                self.near_tensors("one", "cut", 1e-4)


if __name__ == "__main__":
    w.main()
