#!/usr/bin/env python3
"""fp16.py WEFT: training in fp16 with a loss scale that follows the gradients.

A scale so large that gradients overflow has to skip the step on every rank: not a bit of weights,
moments or the count of updates changes, the scale is halved, and training goes on when it fits.
Whatever happens, a resumed run has the bits of one that was not cut off.

The bound against fp32. Numbers of 11 bits are 2^-12 away at most; roundings go in random
directions, and loss and norm are sums over many of them: 2^-15 of the first loss, 2^-12 of the
first norm, ten times what is seen. Twenty updates of Adam, whose size does not depend on the
gradient's, take the runs further apart: 2^-13 and 2^-6. And a run in bf16, of 8 bits, has to be
further away."""
import math

import weft_jobs as w

HALF = w.ODD | {"train.precision": "fp16", "optim.schedule": "constant", "checkpoint.keep": 0}
LARGEST = 2**40  # of train.loss_scale


class Fp16(w.Bench):
    def run_of(self, out, job, **more):
        self.train(out, job, **more)
        return w.metrics(self.path(out))

    def test_follows_fp32(self):
        for name, job in (("odd", HALF), ("even", w.EVEN | {"train.precision": "fp16"}),
                          ("llama", HALF | {"model.family": "llama", "model.kv_heads": 1})):
            half = self.run_of(name, job)
            full = self.run_of(name + "-fp32", job | {"train.precision": "fp32"})
            self.assertLess(half[-1]["loss"], half[0]["loss"])
            self.assertEqual([x["skipped"] for x in half], [0] * 20)
            self.assertEqual([x["scale"] for x in half], [65536] * 20)
            self.assertNotIn("scale", full[0])
            brief = self.run_of(name + "-bf16", job | {"train.precision": "bf16"})
            for key, first, later in (("loss", 2**-15, 2**-13), ("grad_norm", 2**-12, 2**-6)):
                far = [abs(a[key] - b[key]) / b[key] for a, b in zip(half, full)]
                further = [abs(a[key] - b[key]) / b[key] for a, b in zip(brief, full)]
                print(f"{name} {key}: {far[0]:.1e} at the first step, {max(far):.1e} at most; "
                      f"bf16 {further[0]:.1e} and {max(further):.1e}")
                self.assertGreater(far[0], 0)
                self.assertLess(sum(far), sum(further))
                self.assertLessEqual(far[0], first, key)
                self.assertLessEqual(max(far), later, key)

    def test_ranks_agree(self):
        """As layouts.py has it for bf16, with two more bits."""
        one = self.run_of("one", HALF)
        for ranks, transport, micro in ((2, "shm", 3), (3, "tcp", 2), (1, "auto", 12)):
            many = self.run_of("many", HALF | {"train.microbatch": micro,
                                               "comm.plugin": transport}, ranks=ranks)
            for a, b in zip(one, many):
                bound = 1e-5 if a["step"] == 1 else 2**-9
                for key in ("loss", "grad_norm"):
                    self.assertLessEqual(abs(a[key] - b[key]) / a[key], bound, (a["step"], key))

    def test_an_overflow_changes_nothing(self):
        self.train("initial", HALF | {"run.steps": 1, "optim.lr": 0, "checkpoint.every": 1})
        initial = w.tensors(self.path("initial"), 1)
        for extra in ({}, {"train.accumulate": "compute"}):
            lines = self.run_of("huge", HALF | extra | {
                "train.loss_scale": LARGEST, "run.steps": 3, "checkpoint.every": 1}, ranks=2)
            self.assertEqual([x["skipped"] for x in lines], [1, 2, 3])
            self.assertEqual([x["scale"] for x in lines], [2**39, 2**38, 2**37])
            self.assertEqual([x["grad_norm"] for x in lines], [None] * 3)
            self.assertEqual(len({x["lr"] for x in lines}), 1)
            self.assertGreater(len({x["loss"] for x in lines}), 1)  # of other samples each
            for step in (1, 2, 3):  # both ranks write parts of it
                after = w.tensors(self.path("huge"), step)
                self.assertEqual(sorted(after), sorted(initial))
                self.assertEqual(list(after["scalar.count"][1]), [0])
                for name, (_, values) in after.items():
                    if name.endswith((".m", ".v")):
                        self.assertFalse(any(values), name)
                    elif not name.startswith("scalar"):
                        self.assertEqual(values.tobytes(), initial[name][1].tobytes(), name)

    def test_the_scale_falls_until_it_fits(self):
        """More skips in a row than a run without a scale may have."""
        lines = self.run_of("falls", HALF | {"train.loss_scale": LARGEST, "run.steps": 60}, ranks=2)
        skipped = lines[-1]["skipped"]
        self.assertGreater(skipped, 10)
        self.assertLess(skipped, 40)
        self.assertEqual(lines[-1]["scale"], LARGEST / 2**skipped)
        finite = [x["grad_norm"] is not None for x in lines]
        self.assertEqual(sum(finite), 60 - skipped)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])

    def test_layouts(self):
        """Whoever sees the overflow, all skip, and the scale moves as on one rank."""
        base = w.EVEN | {"train.precision": "fp16", "train.loss_scale": LARGEST, "run.steps": 30,
                         "optim.schedule": "constant", "train.scale_window": 3}
        one = self.run_of("one", base)
        for ranks, layout in (
                (2, {"parallel.strategy": "tp", "parallel.sequence": "on"}),
                (2, {"optim.placement": "zero1"}), (2, {"optim.placement": "zero3"}),
                (2, {"optim.placement": "zero2"}),
                (4, {"parallel.strategy": "hybrid", "parallel.tp": 2, "parallel.pp": 2})):
            with self.subTest(layout=layout):
                many = self.run_of("many", base | layout, ranks=ranks)
                for key in ("scale", "skipped"):
                    self.assertEqual([x[key] for x in one], [x[key] for x in many], key)
                self.assertLessEqual(abs(one[-1]["loss"] - many[-1]["loss"]) / one[-1]["loss"],
                                     2**-12)

    def test_the_scale_rises(self):
        lines = self.run_of("rises", HALF | {"train.loss_scale": 8, "train.scale_window": 3})
        self.assertEqual([x["scale"] for x in lines], [8 * 2**(step // 3) for step in range(1, 21)])
        lines = self.run_of("stays", HALF | {"train.loss_scale": 8, "train.scale_window": 0})
        self.assertEqual({x["scale"] for x in lines}, {8})

    def test_the_scale_does_not_show(self):
        """A power of two more or less changes no bit of what neither overflows nor vanishes; the
        smallest gradients of a tiny model do vanish a little."""
        small = self.run_of("small", HALF | {"train.loss_scale": 1024})
        large = self.run_of("large", HALF | {"train.loss_scale": 32768})
        for a, b in zip(small, large):
            self.assertLessEqual(abs(a["loss"] - b["loss"]) / a["loss"], 2**-9)
            self.assertLessEqual(abs(math.log(a["grad_norm"] / b["grad_norm"])), 2**-6)

    def test_resumed(self):
        """Cut off where the scale has moved up, down, and between two moves."""
        job = HALF | {"train.loss_scale": LARGEST, "train.scale_window": 4, "checkpoint.every": 5,
                      "run.steps": 40}
        self.run_of("whole", job, ranks=2)
        moves = [x["scale"] for x in w.metrics(self.path("whole"))]
        self.assertTrue(any(b < a for a, b in zip(moves, moves[1:])))
        self.assertTrue(any(b > a for a, b in zip(moves, moves[1:])))
        for step in (10, 30, 35):
            self.train("cut", job | {"run.steps": step}, ranks=2)
            self.train("cut", job, ranks=2, resume=True)
            self.same_run("whole", "cut", 40)

    def test_other_precisions(self):
        """A checkpoint of fp32 knows no scale, and one of fp16 is good for fp32."""
        self.train("full", HALF | {"train.precision": "fp32", "run.steps": 5,
                                   "checkpoint.every": 5})
        lines = self.run_of("full", HALF | {"run.steps": 10, "checkpoint.every": 5}, resume="force")
        self.assertEqual([x.get("scale") for x in lines], [None] * 5 + [65536] * 5)
        lines = self.run_of("full", HALF | {"train.precision": "bf16", "run.steps": 15},
                            resume="force")
        self.assertEqual([x.get("scale") for x in lines[10:]], [None] * 5)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])


if __name__ == "__main__":
    w.main()
