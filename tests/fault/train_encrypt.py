#!/usr/bin/env python3
"""train_encrypt.py WEFT: does a job whose payload goes through TLS ([comm.tcp] encrypt = on) train,
and does it end without touching what was freed?

Freed memory is overwritten (MALLOC_PERTURB_), so that a use after free is a crash in the release
build; under the address sanitizer it is a report, which fails the test as well."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.ODD | {"run.steps": 6, "comm.plugin": "tcp", "train.microbatch": 2}
ON = {"comm.tcp.encrypt": "on"}
OVERWRITE = {"MALLOC_PERTURB_": "165"}


class Encrypted(w.Bench):
    def test_same_run(self):
        """Every algorithm's payload, and the bits of the same job in the clear."""
        for ranks, change in ((2, {}), (3, {"comm.algorithm": "ring"}),
                              (2, {"parallel.strategy": "pp", "train.microbatch": 6}),
                              (2, {"parallel.strategy": "tp", "parallel.sequence": "on",
                                   "model.heads": 4, "model.embed": 32})):
            with self.subTest(ranks=ranks, change=change):
                said = self.train("on", JOB | change | ON, ranks=ranks, extra=OVERWRITE)
                self.assertNotIn("weft error", said.stderr)
                self.train("off", JOB | change, ranks=ranks)
                self.same_run("on", "off")

    def test_death(self):
        """A rank is killed: the others tear their sessions down while data is under way."""
        run = w.Running(self, "run", JOB | ON | {"run.steps": 10**8, "optim.lr": 1e-4}, 3,
                        extra=OVERWRITE)
        run.until_step(3)
        os.kill(run.ranks()[1], signal.SIGKILL)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 9")
        self.assertNotRegex(run.said(), r"was killed by signal 11")


if __name__ == "__main__":
    w.main()
