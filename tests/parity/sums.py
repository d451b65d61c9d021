#!/usr/bin/env python3
"""sums.py WEFT: does it matter by which way a sum was formed? Not beyond its last bits.

Every collective algorithm on every transport that has it, many buckets instead of one, both types
of gradient sums. Initial weights are the same bits on every layout, and what a seed decides differs
with it."""
import weft_jobs as w

ALGORITHMS = [("tcp", "ring"), ("tcp", "halving"), ("tcp", "pairwise"), ("tcp", "auto"),
              ("shm", "ring"), ("shm", "halving"), ("shm", "pairwise"), ("shm", "mapped"),
              ("shm", "auto"), ("tcp", "double_tree"),
              ("shm", "all_reduce:0-1K=doubling, all_reduce:1K-8K=tree, all_reduce=double_tree")]


class Sums(w.Bench):
    def test_algorithms(self):
        for ranks, micro in ((3, 4), (4, 3)):
            job = w.ODD | {"train.microbatch": micro}
            self.train("one", job)
            for transport, algorithm in ALGORITHMS:
                with self.subTest(ranks=ranks, transport=transport, algorithm=algorithm):
                    self.train("many", job | {"comm.plugin": transport,
                                              "comm.algorithm": algorithm}, ranks=ranks)
                    self.near("one", "many")

    def test_mapped_needs_shared_memory(self):
        said = self.train("no", w.ODD | {"comm.plugin": "tcp", "comm.algorithm": "mapped"}, ranks=2,
                          status=2).stderr
        self.assertIn("mapped", said)
        self.assertEqual(said.count("error"), 1, "said once, not by every rank")

    def test_buckets(self):
        """A bucket of a few kilobytes: some dozens of them, and none is a multiple of anything."""
        self.train("one", w.ODD)
        plan = w.weft("plan", "-n", 2, self.ini, "--list",
                      *self.options("plan", w.ODD | {"train.bucket_mb": 0.001})).stdout
        self.assertGreater(len([x for x in plan.splitlines() if " start " in x]), 12, plan)
        for transport in ("tcp", "shm"):
            for ranks, size in ((2, 0.001), (4, 0.003)):
                with self.subTest(transport=transport, ranks=ranks, bucket_mb=size):
                    self.train("many", w.ODD | {"comm.plugin": transport, "train.bucket_mb": size},
                               ranks=ranks)
                    self.near("one", "many")

    def test_no_clip_and_other_rules(self):
        for change in ({"train.clip": 0}, {"train.clip": 0.3}, {"optim.rule": "sgd"},
                       {"optim.rule": "adam", "optim.schedule": "linear"}):
            with self.subTest(**{k.replace(".", "_"): v for k, v in change.items()}):
                self.train("one", w.EVEN | change)
                self.train("many", w.EVEN | change | {"comm.plugin": "tcp"}, ranks=4)
                self.near("one", "many")

    def test_sums_in_the_compute_type(self):
        """bf16 sums of bf16 gradients: 12 terms, each rounded to 8 bits."""
        job = w.ODD | {"train.precision": "bf16", "train.accumulate": "compute"}
        self.train("one", job)
        for ranks, transport in ((2, "tcp"), (4, "shm")):
            self.train("many", job | {"comm.plugin": transport}, ranks=ranks)
            self.near("one", "many", 0.03)
            self.assertAlmostEqual(w.metrics(self.path("one"))[0]["loss"],
                                   w.metrics(self.path("many"))[0]["loss"], delta=2e-6)

    def test_threads_change_nothing(self):
        job = w.EVEN | {"checkpoint.every": 20}
        self.train("one", job)
        self.train("two", job | {"device.threads": 2, "device.pin": "off"})
        self.near("one", "two")

    def test_initial_weights(self):
        """With a learning rate of 0 the first checkpoint holds the initial weights."""
        job = w.ODD | {"run.steps": 1, "optim.lr": 0, "checkpoint.every": 1}
        self.train("one", job)
        first = w.tensors(self.path("one"), 1)
        weights = [n for n in first if not n.endswith((".m", ".v")) and not n.startswith("scalar")]
        for change, ranks in (({"comm.plugin": "tcp"}, 2), ({"comm.plugin": "shm"}, 4),
                              ({"train.precision": "bf16"}, 1), ({"train.microbatch": 4}, 3)):
            self.train("many", job | change, ranks=ranks)
            many = w.tensors(self.path("many"), 1)
            self.assertEqual(sorted(first), sorted(many))
            self.same_tensors({n: first[n] for n in weights}, {n: many[n] for n in weights})
        self.train("other", job | {"run.seed": 77})
        other = w.tensors(self.path("other"), 1)
        matrices = [n for n in weights if len(set(first[n][1])) > 1]
        self.assertGreater(len(matrices), 6)
        for name in matrices:
            self.assertNotEqual(first[name][1].tobytes(), other[name][1].tobytes(), name)
        self.assertNotEqual(w.metrics(self.path("one"))[0]["loss"],
                            w.metrics(self.path("other"))[0]["loss"])


if __name__ == "__main__":
    w.main()
