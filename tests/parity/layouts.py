#!/usr/bin/env python3
"""layouts.py WEFT [CLASS]: do N ranks train as one does, however they divide the work?

Tiny GPT-2s and Llamas (grouped queries, too) are trained for 20 steps. Layouts: by one rank and by
2, 3 and 4 that share the data, over each transport, in fp32 and bf16, with and without gradient
accumulation, tied and untied. Tensor: by ranks that share every matrix. Zero: by ranks that have
state, gradients and parameters in slices. Stages: by a pipeline, under every schedule. Resumed: ten
steps on one layout and ten on another. Loss, gradient norm and the loss on held-out data are
compared step by step, parameters and moments after the last. Where a job clips, some step has to,
so a norm that counted an element twice would show in everything.

The bounds. In fp32 a sum in another order differs by some 1e-7, which 20 updates enlarge: 1e-5 of a
number, and of the largest element of a tensor. The gradient of the keys' bias is nothing but
rounding, which Adam divides by its own size: it may differ by a whole step in every update. A Llama
has no biases, but single elements with gradients near 0 from the first step on, of which the same
is true to a lesser degree: 5e-5 for its tensors. In bf16 gradients are summed in fp32 as well, so
the first step is held to the same bound; but then a weight that lies between two bf16 numbers may
go to the other one, 2^-8 away, and gradients that are rounding are no longer the keys' alone:
tensors are compared by their lengths, and moments not."""
import unittest

import weft_jobs as w

CHECKED = {"checkpoint.every": 20, "train.eval_every": 10, "train.eval_batches": 2}
CLIPPED = {"train.clip": 0.5}
BF16, FP16 = {"train.precision": "bf16"}, {"train.precision": "fp16"}
FIRST = {"bound": 2**-7, "first": 1e-5}  # of a run in bf16
SLICES = [{"optim.placement": p} for p in ("zero1", "zero2", "zero3")]
ALONE, DATA, TP, PIPE = ({"parallel.strategy": x} for x in ("none", "dp", "tp", "pp"))
TP_DP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
BOTH = {"parallel.strategy": "pp, dp", "parallel.pp": 2}
SEQUENCE = {"parallel.sequence": "on"}
INTERLEAVED = {"parallel.schedule": "interleaved", "parallel.virtual": 2}
FTHENB = {"parallel.schedule": "fthenb"}
SHM, TCP = {"comm.plugin": "shm"}, {"comm.plugin": "tcp"}
PADDED = w.ODD | {"model.ffn": 39}  # 257 tokens over 3 ranks of tp: 86, 86 and 85


class Compared(w.Bench):
    def tensors_within(self, bound, key_step=None):
        return lambda one, many: self.near_tensors(one, many, bound, key_step=key_step)

    def same_saved(self, one, many):
        self.same_tensors(w.tensors(self.path(one), 20), w.tensors(self.path(many), 20))

    def like(self, one, rows, saved=None, ranks=1, **bounds):
        """Do the jobs of `rows`, (ranks, keys) each, train as the job `one` does, and save what it
        saves?"""
        one = one | CHECKED | {"data.valid": self.path("valid.bin")}
        self.train("one", one, ranks=ranks)
        seen = w.metrics(self.path("one"))
        self.assertLess(seen[-1]["loss"], seen[0]["loss"])
        self.assertIn("valid_loss", seen[-1])
        if one.get("train.clip"):
            self.assertTrue(any(x["grad_norm"] > one["train.clip"] for x in seen))
        for n, keys in rows:
            with self.subTest(ranks=n, **keys):
                self.train("many", one | keys, ranks=n)
                far = self.near("one", "many", **bounds)
                if saved:
                    saved("one", "many")
                print(f"{n} ranks {keys}: {far:.1e} away")


class Layouts(Compared):
    RUNS = [  # ranks, transport, micro-batch: batch 12 in 4, 2, 1 and 3 passes
        (1, "auto", 12), (2, "tcp", 3), (2, "shm", 6), (3, "tcp", 2), (3, "shm", 4), (4, "shm", 1),
        (4, "tcp", 3)]

    def lengths(self, one, many):
        one, many = (w.tensors(self.path(x), 20) for x in (one, many))
        self.assertEqual(sorted(one), sorted(many))
        far, name = w.distance(one, many, [n for n in one if n.endswith((".w", ".g"))])
        self.assertLessEqual(far, 2**-6, name)

    def family(self, job, saved=None, **bounds):
        self.like(job, [(n, {"comm.plugin": transport, "train.microbatch": micro})
                        for n, transport, micro in self.RUNS], saved or self.lengths, **bounds)
        biases = [x for x in w.tensors(self.path("one"), 20) if x.endswith("qkv.b")]
        self.assertEqual(len(biases), 0 if "model.family" in job else 2)

    def test_odd_tied_fp32(self):
        self.family(w.ODD, self.tensors_within(1e-5, 20 * w.ODD["optim.lr"]))

    def test_even_untied_fp32(self):
        self.family(w.EVEN, self.tensors_within(1e-5, 20 * w.EVEN["optim.lr"]))

    def test_odd_tied_bf16(self):
        self.family(w.ODD | BF16, **FIRST)

    def test_even_untied_bf16(self):
        self.family(w.EVEN | BF16, **FIRST)

    def test_odd_llama_fp32(self):
        self.family(w.ODD | w.LLAMA, self.tensors_within(5e-5))

    def test_even_llama_bf16(self):
        self.family(w.EVEN | w.LLAMA | {"model.kv_heads": 2} | BF16, **FIRST)

    def test_the_same_bits_twice(self):
        for ranks, micro, job in (
                (4, 3, w.ODD | TCP), (3, 4, w.ODD | BF16 | SHM), (2, 6, w.ODD | BF16 | TCP),
                (2, 6, w.ODD | SHM), (4, 3, w.EVEN | CLIPPED | TP | SEQUENCE | BF16 | SHM),
                (4, 3, w.ODD | TCP | SLICES[1] | {"comm.compress": "int8"}),
                *((4, 1, w.ODD | CLIPPED | BF16 | slices) for slices in SLICES)):
            with self.subTest(ranks=ranks, **job):
                job = job | CHECKED | {"train.bucket_mb": 0.005, "train.microbatch": micro,
                                       "data.valid": self.path("valid.bin")}
                self.train("first", job, ranks=ranks)
                self.train("second", job, ranks=ranks)
                self.same_run("first", "second", 20)


class Tensor(Compared):
    """With sequence off and on, beside dp, stages and placements; a vocabulary, a context and
    lengths that tp does not divide.

    Here every activation is a sum over ranks and not the gradients alone: an eighth of 1e-5 of a
    loss, and 1e-4 of the largest element of a tensor. In bf16 and fp16 each rank rounds its part of
    a product before they are added, which one rank does not: 2^-6 of a norm."""
    LLAMA = {"model.family": "llama", "model.heads": 4, "model.kv_heads": 2, "model.ffn": 48}

    def family(self, job, shapes, norm=1e-5):
        rows = [(n, TP | more | sequence) for n, more in shapes for sequence in ({}, SEQUENCE)]
        self.like(job | CLIPPED | SHM | ALONE, rows,
                  self.tensors_within(1e-4) if norm == 1e-5 else None, bound=norm / 8, norm=norm)

    def test_two_and_four_tied(self):
        self.family(w.EVEN | {"model.tied": "on", "model.vocab": 257},
                    ((2, {}), (4, {}), (2, {"train.microbatch": 12})))

    def test_two_and_four_untied(self):
        self.family(w.EVEN, ((2, {}), (4, {}), (2, TCP)))

    def test_three_with_padding(self):
        """Vocabulary 257, context 19: ranks have 86, 86 and 85 rows; 7, 7 and 5."""
        self.family(PADDED, ((3, {}),))

    def test_grouped_queries(self):
        self.family(w.EVEN | self.LLAMA, ((2, {}), (4, TP_DP)))

    def test_beside_others(self):
        self.family(w.EVEN, ((4, TP_DP), (4, TP_DP | {"parallel.strategy": "dp, tp"}),
                             (4, {"parallel.strategy": "tp, pp", "parallel.tp": 2}),
                             *((4, TP_DP | slices) for slices in SLICES)))

    def test_recomputed(self):
        self.family(w.EVEN | {"train.recompute": "block"}, ((2, {}),))

    def test_bf16(self):
        self.family(w.EVEN | BF16, ((2, {}), (4, {})), 2**-6)

    def test_fp16(self):
        self.family(w.EVEN | self.LLAMA | FP16, ((2, {}),), 2**-6)


class Zero(Compared):
    """Placement none against the others, with one micro-batch and with three. A gradient is summed
    over the same ranks, but by other algorithms and, for zero2 and zero3 with several passes, ranks
    first and passes afterwards."""
    SHAPES = ((2, 1), (2, 3), (4, 1), (4, 3))  # ranks, passes
    TIED, UNTIED = (((2, 3),), ((4, 1),)) if w.SAMPLE else (SHAPES, SHAPES)
    SHORT = unittest.skipIf(w.BRIEF, "sanitizers see the same code with the head tied or not")

    def family(self, job, shapes=TIED, saved=None, **bounds):
        for ranks, passes in shapes:
            self.like(CLIPPED | SHM | job | {"train.microbatch": 12 // ranks // passes},
                      [(ranks, slices) for slices in SLICES], saved, ranks, **bounds)

    def test_fp32_tied(self):
        self.family(w.ODD, saved=self.tensors_within(1e-5))

    @SHORT
    def test_fp32_untied(self):
        self.family(w.EVEN, self.UNTIED, self.tensors_within(1e-5))

    @SHORT
    def test_bf16_tied(self):
        self.family(w.ODD | BF16, **FIRST)

    def test_bf16_untied(self):
        self.family(w.EVEN | BF16, self.UNTIED, **FIRST)

    def test_tcp(self):
        self.family(w.ODD | TCP, ((3, 2),), self.tensors_within(1e-5))

    def test_sums_in_the_compute_type(self):
        self.family(w.ODD | BF16 | {"train.accumulate": "compute"}, ((2, 3),), bound=0.03,
                    first=2**-8)

    def test_beside_stages_and_split_parameters(self):
        """Tied over two stages, heads and vocabulary split, the rest of the ranks in slices."""
        job = w.EVEN | CLIPPED | SHM | {"model.tied": "on", "train.bucket_mb": 0.01}
        for ranks, mesh in ((4, BOTH), (4, TP_DP), (8, TP_DP | {"parallel.strategy": "tp, pp, dp",
                                                                "parallel.pp": 2})):
            self.like(job | mesh | {"train.microbatch": 2}, [(ranks, slices) for slices in SLICES],
                      self.tensors_within(1e-5), ranks)

    def test_small_groups(self):
        """A bucket of two kilobytes: nearly every parameter is a group of its own."""
        self.like(w.ODD | CLIPPED | {"train.microbatch": 1},
                  [(4, slices | {"train.bucket_mb": 0.002}) for slices in SLICES],
                  self.tensors_within(1e-5), 4)

    def test_prefetch_changes_nothing(self):
        job = w.ODD | CLIPPED | SLICES[2] | {"train.microbatch": 2, "model.layers": 4,
                                             "checkpoint.every": 20}
        self.train("one", job, ranks=2)
        for ahead in (0, 2, 9):
            self.train("many", job | {"optim.prefetch": ahead}, ranks=2)
            self.same_run("one", "many", 20, (*w.NO_TIME, "peak_bytes", "comm_bytes"))


class Stages(Compared):
    """2, 3 and 4 stages alone and beside data parallelism, blocks divided by cost and by hand,
    fewer micro-batches than stages, over both transports. A stage computes what one rank computes,
    in the same order, so without data parallelism, clipping and a tied embedding (whose two
    gradients are then summed last) the bits are the same; of the norm alone the sum goes another
    way."""
    EXACT = [(2, SHM | PIPE), (3, TCP | PIPE | {"parallel.stages": "1, 2, 1"}),
             (4, SHM | PIPE | FTHENB), (2, TCP | PIPE | INTERLEAVED)]
    FEWER = [(4, SHM | PIPE)]  # micro-batches, of 6: their sum has an order, too
    CLOSE = [(4, SHM | BOTH), (4, TCP | BOTH | FTHENB),
             (4, SHM | INTERLEAVED | {"parallel.strategy": "dp, pp", "parallel.dp": 2})]

    def same_names(self, one, many):
        self.assertEqual(*(sorted(w.tensors(self.path(x), 20)) for x in (one, many)))

    def family(self, job, loose=1e-4):
        exact = not job["train.clip"] and job["model.tied"] == "off"
        as_exact = (self.same_saved, 1e-7, 1e-6) if exact else (self.same_names, loose, loose)
        for micro, rows, (saved, bound, norm) in (
                (3, self.EXACT, as_exact), (6, self.FEWER, as_exact),
                (3, self.CLOSE, (self.same_names, loose, loose))):
            self.like(job | {"train.microbatch": micro}, rows, saved, bound=bound, norm=norm)

    def test_tied(self):
        self.family(w.ODD | {"train.clip": 0})

    def test_untied(self):
        self.family(w.EVEN | {"train.clip": 0})

    def test_untied_clipped(self):
        self.family(w.EVEN | CLIPPED)

    def test_bf16(self):
        self.family(w.EVEN | BF16 | {"train.clip": 0}, 2**-7)

    def refused(self, ranks, keys, *words):
        said = self.train("no", w.EVEN | keys, ranks=ranks, status=2).stderr
        for word in words:
            self.assertIn(word, said)
        return said

    def test_what_cannot_be(self):
        self.refused(5, PIPE, "parallel.pp = 5", "4 blocks")
        self.refused(2, PIPE | {"parallel.virtual": 2}, "parallel.virtual", "interleaved")
        self.refused(2, PIPE | INTERLEAVED | {"train.microbatch": 4}, "multiples of parallel.pp",
                     "3")
        self.refused(2, PIPE | {"parallel.stages": "1, 2"}, "parallel.stages", "4 blocks")
        self.refused(2, PIPE | {"parallel.stages": "1, x"}, "parallel.stages")
        said = self.refused(4, {"parallel.strategy": "tp, pp", "parallel.tp": 2,
                                "parallel.stages": "9"})
        self.assertRegex(said, "2 numbers of at least 1 are needed\n")  # and nothing about tp


class Resumed(Compared):
    """Ten steps with one layout and so many ranks, ten with another, against one rank all the way:
    rows that pad a table are in no checkpoint, and slices end elsewhere."""
    def turns(self, job, rows, saved, **bounds):
        job = job | {"checkpoint.every": 10, "checkpoint.keep": 0, "optim.schedule": "constant"}
        self.train("one", job | ALONE)
        for first, second in rows[::2 if w.SAMPLE else 1]:
            with self.subTest(first=first, second=second):
                self.train("cut", job | {"run.steps": 10} | first[1], ranks=first[0])
                self.train("cut", job | second[1], ranks=second[0], resume=True)
                self.near("one", "cut", **bounds)
                saved("one", "cut")

    def test_data(self):
        rows = [((a, TCP | DATA), (b, SHM | DATA)) for a, b in ((2, 1), (1, 2), (2, 4), (4, 2))]
        self.turns(w.ODD, rows, self.tensors_within(1e-5))

    def test_tensor(self):
        alone, three, data = (1, ALONE), (3, TP), (2, DATA)
        self.turns(PADDED | CLIPPED | SHM,
                   [(three, alone), (data, (3, TP | SEQUENCE)), (alone, (3, TP | SEQUENCE))],
                   self.tensors_within(1e-4), bound=1e-5 / 8, norm=1e-5)

    def test_slices(self):
        rows = ((("none", 2), ("zero1", 4)), (("zero1", 2), ("none", 1)),
                (("zero1", 4), ("zero3", 2)), (("zero2", 2), ("zero3", 4)),
                (("zero3", 4), ("zero2", 3)), (("zero3", 2), ("none", 4)))
        self.turns(w.ODD | CLIPPED | {"train.microbatch": 1},
                   [[(n, DATA | {"optim.placement": p}) for p, n in row] for row in rows],
                   self.tensors_within(1e-5))

    def test_stages(self):
        alone = (1, ALONE)
        self.turns(w.EVEN | {"train.clip": 0},
                   [((3, PIPE), alone), (alone, (2, PIPE | INTERLEAVED))], self.same_saved)

    def test_the_same_slices(self):
        """Bit for bit."""
        for slices in SLICES:
            job = w.ODD | CLIPPED | BF16 | slices | {
                "checkpoint.every": 10, "checkpoint.keep": 0, "optim.schedule": "constant"}
            self.train("whole", job, ranks=4)
            self.train("cut", job | {"run.steps": 10}, ranks=4)
            self.train("cut", job, ranks=4, resume=True)
            self.same_run("whole", "cut", 20)


if __name__ == "__main__":
    w.main()
