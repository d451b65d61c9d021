#!/usr/bin/env python3
"""zero.py WEFT: does it change anything what of state, gradients and parameters is in slices?

Jobs with placement none, zero1, zero2 and zero3 on 2 and 4 ranks, with one micro-batch and with
three; resumed under another placement. Clipping is on everywhere, and works in these jobs.

The bounds. A gradient is summed over the same ranks, but by other algorithms and, for zero2 and
zero3 with several passes, ranks first and passes afterwards: in fp32 1e-5 of a number and of the
largest element of a tensor, as in layouts.py, which also says what the keys' bias is. In bf16 (sums
in fp32) the first step is held to that; afterwards a weight between two bf16 numbers may go to the
other one."""
import unittest

import weft_jobs as w

PLACEMENTS = ("zero1", "zero2", "zero3")
CLIPPED = {"train.clip": 0.5, "checkpoint.every": 20}
SHAPES = ((2, 1), (2, 3), (4, 1), (4, 3))  # ranks, passes
TIED, UNTIED = (((2, 3),), ((4, 1),)) if w.SAMPLE else (SHAPES, SHAPES)
SHORT = unittest.skipIf(w.BRIEF, "sanitizers see the same code with the head tied or not")


class Zero(w.Bench):
    def clips(self, out, limit):
        self.assertTrue(any(x["grad_norm"] > limit for x in w.metrics(self.path(out))))

    def family(self, job, bound, tensors=None, transport="shm", first=1e-5, shapes=TIED):
        job = job | CLIPPED | {"comm.plugin": transport, "train.eval_every": 10,
                               "train.eval_batches": 2, "data.valid": self.path("valid.bin")}
        for ranks, passes in shapes:
            these = job | {"train.microbatch": 12 // ranks // passes}
            self.train("none", these, ranks=ranks)
            self.clips("none", 0.5)
            for placement in PLACEMENTS:
                with self.subTest(ranks=ranks, passes=passes, placement=placement):
                    self.train("cut", these | {"optim.placement": placement}, ranks=ranks)
                    self.near("none", "cut", bound, first=first)
                    if tensors:
                        self.near_tensors("none", "cut", tensors)

    def test_fp32_tied(self):
        self.family(w.ODD, 1e-5, 1e-5)

    @SHORT
    def test_fp32_untied(self):
        self.family(w.EVEN, 1e-5, 1e-5, shapes=UNTIED)

    @SHORT
    def test_bf16_tied(self):
        self.family(w.ODD | {"train.precision": "bf16"}, 2**-7)

    def test_bf16_untied(self):
        self.family(w.EVEN | {"train.precision": "bf16"}, 2**-7, shapes=UNTIED)

    def test_beside_stages_and_split_parameters(self):
        """Tied over two stages, heads and vocabulary split, the rest of the ranks in slices."""
        job = w.EVEN | CLIPPED | {"train.microbatch": 2, "model.tied": "on", "comm.plugin": "shm",
                                  "train.bucket_mb": 0.01}
        for mesh in ({"strategy": "pp, dp", "pp": 2, "dp": 2},
                     {"strategy": "tp, dp", "tp": 2, "dp": 2},
                     {"strategy": "tp, pp, dp", "tp": 2, "pp": 2, "dp": 2}):
            ranks = mesh["dp"] * mesh.get("pp", 1) * mesh.get("tp", 1)
            these = job | {f"parallel.{key}": value for key, value in mesh.items()}
            self.train("none", these, ranks=ranks)
            self.clips("none", 0.5)
            for placement in PLACEMENTS:
                with self.subTest(mesh=mesh, placement=placement):
                    self.train("cut", these | {"optim.placement": placement}, ranks=ranks)
                    self.near("none", "cut", 1e-5)
                    self.near_tensors("none", "cut", 1e-5)

    def test_tcp(self):
        self.family(w.ODD, 1e-5, 1e-5, transport="tcp", shapes=((3, 2),))

    def test_sums_in_the_compute_type(self):
        job = w.ODD | {"train.precision": "bf16", "train.accumulate": "compute"}
        self.family(job, 0.03, first=2**-8, shapes=((2, 3),))

    def test_prefetch_changes_nothing(self):
        job = w.ODD | CLIPPED | {"train.microbatch": 2, "optim.placement": "zero3",
                                 "model.layers": 4}
        self.train("one", job, ranks=2)
        for ahead in (0, 2, 9):
            self.train("many", job | {"optim.prefetch": ahead}, ranks=2)
            self.same_run("one", "many", 20, (*w.NO_TIME, "peak_bytes", "comm_bytes"))

    def test_small_groups(self):
        """A bucket of two kilobytes: nearly every parameter is a group of its own."""
        job = w.ODD | CLIPPED | {"train.microbatch": 1}
        self.train("none", job, ranks=4)
        for placement in PLACEMENTS:
            self.train("cut", job | {"optim.placement": placement, "train.bucket_mb": 0.002},
                       ranks=4)
            self.near("none", "cut", 1e-5)
            self.near_tensors("none", "cut", 1e-5)

    def test_the_same_bits_twice(self):
        for placement in PLACEMENTS:
            job = w.ODD | CLIPPED | {"train.microbatch": 1, "optim.placement": placement,
                                     "train.precision": "bf16"}
            self.train("first", job, ranks=4)
            self.train("second", job, ranks=4)
            self.same_run("first", "second", 20)

    def test_resumed_under_another(self):
        """Ten steps with one placement and so many ranks, ten with another."""
        job = w.ODD | {"run.steps": 20, "checkpoint.every": 10, "checkpoint.keep": 0,
                       "optim.schedule": "constant", "train.clip": 0.5, "train.microbatch": 1}
        self.train("one", job)
        turns = ((("none", 2), ("zero1", 4)), (("zero1", 2), ("none", 1)),
                 (("zero1", 4), ("zero3", 2)), (("zero2", 2), ("zero3", 4)),
                 (("zero3", 4), ("zero2", 3)), (("zero3", 2), ("none", 4)))
        for first, second in turns[::2 if w.SAMPLE else 1]:
            with self.subTest(first=first, second=second):
                self.train("cut", job | {"run.steps": 10, "optim.placement": first[0]},
                           ranks=first[1])
                self.train("cut", job | {"optim.placement": second[0]}, ranks=second[1],
                           resume=True)
                self.near("one", "cut", 1e-5)
                self.near_tensors("one", "cut", 1e-5)

    def test_the_same_layout_resumed(self):
        """Bit for bit."""
        for placement in PLACEMENTS:
            job = w.ODD | CLIPPED | {"checkpoint.every": 10, "checkpoint.keep": 0,
                                     "optim.schedule": "constant", "train.precision": "bf16",
                                     "optim.placement": placement}
            self.train("whole", job, ranks=4)
            self.train("cut", job | {"run.steps": 10}, ranks=4)
            self.train("cut", job, ranks=4, resume=True)
            self.same_run("whole", "cut", 20)


if __name__ == "__main__":
    w.main()
