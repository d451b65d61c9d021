#!/usr/bin/env python3
"""layouts.py WEFT: do N ranks train as one does?

A tiny GPT-2, or a Llama, is trained for 20 steps by one rank and by 2, 3 and 4, over each
transport, in fp32 and bf16, with and without gradient accumulation, tied and untied. Loss, gradient
norm and the loss on held-out data are compared step by step, parameters and moments after the last.

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

RUNS = [  # ranks, transport, micro-batch: batch 12 in 4, 2, 1 and 3 passes
    (1, "auto", 12), (2, "tcp", 3), (2, "shm", 6), (3, "tcp", 2), (3, "shm", 4), (4, "shm", 1),
    (4, "tcp", 3)]
FP32 = {"first": 1e-5, "metrics": 1e-5, "tensors": 1e-5}
LLAMA_FP32 = FP32 | {"tensors": 5e-5}
BF16 = {"first": 1e-5, "metrics": 2**-7, "lengths": 2**-6}


class Layouts(w.Bench):
    def compare_lengths(self, one, many, bound):
        far, name = w.distance(one, many, [n for n in one if n.endswith((".w", ".g"))])
        self.assertLessEqual(far, bound, name)
        return far

    def compare_tensors(self, one, many, bound, key_step):
        biases = [name for name in one if name.endswith("qkv.b")]
        self.assertEqual(len(biases), 0 if self.is_llama(one) else 2)
        far, name = w.furthest(one, many, set(one) - set(biases))
        self.assertLessEqual(far, bound, name)
        for name in biases:
            a, b = one[name][1], many[name][1]
            third, scale = len(a) // 3, max(map(abs, a))  # queries, keys, values
            for i, (x, y) in enumerate(zip(a, b)):
                is_key = third <= i < 2 * third
                self.assertLessEqual(abs(x - y), key_step if is_key else bound * scale,
                                     f"{name}[{i}]")
        return far

    @staticmethod
    def is_llama(tensors):
        return "block.0.ffn.gate.w" in tensors

    def family(self, job, precision, bound):
        job = job | {"train.precision": precision, "train.eval_every": 10, "checkpoint.every": 20,
                     "train.eval_batches": 2, "data.valid": self.path("valid.bin")}
        reference = f"{self.id()}-1"
        self.train(reference, job)
        one, whole = w.metrics(self.path(reference)), w.tensors(self.path(reference), 20)
        self.assertLess(one[-1]["loss"], one[0]["loss"])
        self.assertIn("valid_loss", one[-1])
        for ranks, transport, micro in RUNS:
            out = f"{self.id()}-{ranks}-{transport}-{micro}"
            with self.subTest(ranks=ranks, transport=transport, microbatch=micro):
                self.train(out, job | {"comm.plugin": transport, "train.microbatch": micro},
                           ranks=ranks)
                loss = self.near(one, out, bound["metrics"], first=bound["first"])
                many = w.tensors(self.path(out), 20)
                self.assertEqual(sorted(whole), sorted(many))
                if "lengths" in bound:
                    far = self.compare_lengths(whole, many, bound["lengths"])
                else:
                    far = self.compare_tensors(whole, many, bound["tensors"], 20 * job["optim.lr"])
                print(f"{ranks} ranks over {transport}, {micro} a pass: metrics {loss:.1e} away, "
                      f"tensors {far:.1e}")

    def test_odd_tied_fp32(self):
        self.family(w.ODD, "fp32", FP32)

    def test_even_untied_fp32(self):
        self.family(w.EVEN, "fp32", FP32)

    def test_odd_tied_bf16(self):
        self.family(w.ODD, "bf16", BF16)

    def test_even_untied_bf16(self):
        self.family(w.EVEN, "bf16", BF16)

    def test_odd_llama_fp32(self):
        self.family(w.ODD | w.LLAMA, "fp32", LLAMA_FP32)

    def test_even_llama_bf16(self):
        self.family(w.EVEN | w.LLAMA | {"model.kv_heads": 2}, "bf16", BF16)


if __name__ == "__main__":
    w.main()
