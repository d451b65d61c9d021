#!/usr/bin/env python3
"""transport.py WEFT: does a job train over MPI, by the shipped plugin?

mpi_checks_test runs the checks of any library of collectives and of any link, apart from those that
kill ranks and of what MPI has not (ids, splits, registered memory), in ranks that mpirun has
started. A job over its pairs has the bits of the job over tcp; one over its collectives, which add
in MPI's order, is near. All of it also where MPI grants less support for threads."""
import os

import launched
from launched import w

BIN = os.path.dirname(w.WEFT)

TP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
PP = {"parallel.strategy": "pp, dp", "parallel.pp": 2, "parallel.schedule": "1f1b"}
LAYOUTS = ((2, {}), (2, {"optim.placement": "zero1"}), (3, {"train.batch": 6}),
           (2, {"optim.placement": "zero2"}), (2, {"optim.placement": "zero3"}), (4, TP), (4, PP),
           (4, PP | {"optim.placement": "zero1", "train.microbatch": 1}))
CHECKS = ((1, "multiple", (132, 133)), (2, "serialized", (132, 133, 135, 136, 137)),
          (3, "funneled", (130, 132, 133, 134)), (4, "multiple", (132, 133)))
PAIRS = (105, 106, 108, 109, 110, 112, 114, 125, 126, 129, "pairs", 117)
LEVELS = ("multiple", "serialized", "funneled")

setUpModule = launched.needs_mpi


class Transport(launched.Launched):
    def train_both(self, ranks, job, comm, over=None):
        self.train("tcp", self.JOB | job | {"comm.plugin": "tcp"} | (over or {}), ranks=ranks)
        self.said(self.over_mpi("mpi", self.JOB | job | comm | (over or {}), ranks))

    def checks(self, ranks, level, *checks):
        return self.mpirun(ranks, os.path.join(BIN, "mpi_checks_test"), launched.PLUGIN,
                           self.path(f"meeting{ranks}-{level}-{checks[0]}"), f"threads={level}",
                           *checks)

    def test_collectives(self):
        for ranks, level, checks in CHECKS:
            for check in checks:
                with self.subTest(ranks=ranks, level=level, check=check):
                    self.said(self.checks(ranks, level, check))

    def test_contract(self):
        for level in LEVELS:
            with self.subTest(level=level):
                text = self.checks(2, level, *PAIRS).communicate(timeout=w.TIMEOUT)[0]
                self.assertEqual(text.count(" passed\n"), 2, text)

    def test_pairs(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                self.train_both(ranks, change, {"comm.plugin": "mpi_pairs"},
                                {"comm.algorithm": "pairwise"})
                self.same_run("tcp", "mpi", 6)

    def test_library(self):
        for ranks, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                self.train_both(ranks, change, {"comm.plugin": "mpi"})
                self.near("tcp", "mpi", 1e-5)

    def test_levels(self):
        ranks, change = LAYOUTS[5]
        for level in LEVELS[1:]:
            with self.subTest(level=level):
                self.train_both(ranks, change, {"comm.plugin": "mpi_pairs",
                                                "comm.mpi_pairs.threads": level})
                self.same_run("tcp", "mpi", 6)
                self.train_both(ranks, change, {"comm.plugin": "mpi", "comm.mpi.threads": level})
                self.near("tcp", "mpi", 1e-5)

    def test_16_bits(self):
        for precision in ("bf16", "fp16"):
            with self.subTest(precision=precision):
                self.train_both(2, {"train.precision": precision, "optim.placement": "zero2"},
                                {"comm.plugin": "mpi"})
                self.near("tcp", "mpi", 5e-3)

    def test_both(self):
        """Collectives on one axis and pairs on the other, in one process."""
        for level in ("multiple", "funneled"):
            self.train_both(4, TP, {"comm.tp.plugin": "mpi", "comm.dp.plugin": "mpi_pairs",
                                    "comm.mpi.threads": level, "comm.mpi_pairs.threads": level})
            self.near("tcp", "mpi", 1e-5)

    def test_large_messages(self):
        """Beyond what MPI sends at once without asking the receiver."""
        large = {"model.embed": 256, "model.ffn": 1024, "model.heads": 4, "run.steps": 2,
                 "checkpoint.every": 2}
        for plugin, same in (("mpi_pairs", True), ("mpi", False)):
            self.train_both(2, large | {"optim.placement": "zero1"}, {"comm.plugin": plugin},
                            {"comm.algorithm": "pairwise"} if same else {})
            if same:
                self.same_run("tcp", "mpi", 2)
            else:
                self.near("tcp", "mpi", 1e-5)

    def test_resumed(self):
        job = self.JOB | {"comm.plugin": "mpi", "optim.placement": "zero1"}
        self.said(self.over_mpi("whole", job, 2))
        self.said(self.over_mpi("parts", job | {"run.steps": 3}, 2))
        self.said(self.mpirun(2, *self.command("parts", job | {"run.key": self.key_file()}),
                              "--resume"))
        self.near("whole", "parts", 1e-6)


if __name__ == "__main__":
    w.main()
