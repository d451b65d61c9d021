#!/usr/bin/env python3
"""documents.py WEFT: do the commands of docs/MPI.md run as they are written? `weft` is a script
that makes the job small and names a key."""
import os
import re

import launched
from launched import HERE, w

setUpModule = launched.needs_mpi


class Documents(launched.Launched):
    def test_commands(self):
        with open(os.path.join(HERE, "..", "..", "docs", "MPI.md"), encoding="utf-8") as f:
            commands = re.findall(r"^(mpirun [^#\n]*)", f.read(), re.M)
        self.assertGreaterEqual(len(commands), 4)
        w.weft("key", "-o", self.path("job.key"))
        job = self.JOB | {"run.key": self.path("job.key")}
        os.mkdir(self.path("bin"))
        with open(self.path("bin", "weft"), "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec {w.WEFT} "$@" ' + " ".join(
                f"'{x}'" for x in self.options("out", job)) + "\n")
        os.chmod(self.path("bin", "weft"), 0o755)
        for command in commands:
            with self.subTest(command=command):
                mpirun, n, ranks, *words = command.split()
                self.assertEqual((mpirun, n, words[0]), ("mpirun", "-n", "weft"))
                words = [self.path("bin", "weft"),
                         *(self.ini if x == "job.ini" else x for x in words[1:])]
                text = self.said(self.mpirun(int(ranks), *words), timeout=120)
                if "--doctor" in words:
                    self.assertIn("comm mpi: can be used", " ".join(text.split()))


if __name__ == "__main__":
    w.main()
