#!/usr/bin/env python3
"""turns.py WEFT: are the elements of a tensor the same after all-to-all and back, along any axis?

plugins/turns.c moves what tp splits to other axes and back, in forward and so in backward: with
copies before, after, and on both sides of the collective, and reduce-scatters and gathers along the
last axis. No number changes on the way, and a sum of two is the same in either order, so two ranks
have every bit of tp alone, in fp32 and in 16 bits; four ranks are compared with one within the
bounds of layouts.py."""
import os

import weft_jobs as w

PLUGINS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins")
JOB = w.EVEN | {"run.plugins": PLUGINS, "checkpoint.every": 20, "comm.plugin": "shm",
                "parallel.strategy": "tp", "parallel.tp": 2, "train.clip": 0.5}
TURNS = {"parallel.strategy": "tp, test.turns"}


class Turns(w.Bench):
    def test_bits_of_two_ranks(self):
        for more in ({}, {"train.precision": "bf16"}, {"train.precision": "fp16"},
                     {"train.recompute": "block"}, {"comm.plugin": "tcp"},
                     {"comm.algorithm": "all_to_all=bruck"}):
            with self.subTest(more=more):
                self.train("tp", JOB | more, ranks=2)
                self.train("turned", JOB | TURNS | more, ranks=2)
                self.same_run("tp", "turned", 20,
                              w.NO_TIME + ("comm_bytes", "peak_bytes"))

    def test_four_ranks_like_one(self):
        alone = {k: v for k, v in JOB.items() if k != "parallel.tp"}
        self.train("one", alone | {"parallel.strategy": "none"})
        a = w.tensors(self.path("one"), 20)
        for more in ({"parallel.tp": 4}, {"parallel.strategy": "tp, test.turns, dp"},
                     {"parallel.strategy": "tp, test.turns, pp", "parallel.pp": 2},
                     {"parallel.strategy": "tp, test.turns, dp", "optim.placement": "zero3"}):
            with self.subTest(more=more):
                self.train("many", JOB | TURNS | more, ranks=4)
                for x, y in zip(w.metrics(self.path("one")), w.metrics(self.path("many"))):
                    self.assertLessEqual(abs(x["loss"] - y["loss"]), 2e-6 * x["loss"])
                far, name = w.furthest(a, w.tensors(self.path("many"), 20),
                                       [n for n in a if "qkv.b" not in n])
                self.assertLessEqual(far, 1e-4, name)

    def test_what_is_planned(self):
        """Of each block and pass: the collectives, and as many copies as lie apart."""
        plan = self.plan(JOB | TURNS, 2, "--list")
        blocks, passes = JOB["model.layers"], JOB["train.batch"] // JOB["train.microbatch"]
        kinds = [e["collective"] for e in plan["step"] if e["kind"] == "start"]
        self.assertEqual(kinds.count("all_to_all"), 8 * blocks * passes)
        copies = sum(op["op"] == "interchange" for e in plan["step"] if e["kind"] == "call"
                     for op in e["ops"])
        # hidden: 1 + 1 there and back; attention: 2 + 2; the same in backward; sums: 1 + 1, twice
        self.assertEqual(copies, (2 * (2 + 4) + 2 * 2) * blocks * passes)


if __name__ == "__main__":
    w.main()
