#!/usr/bin/env python3
"""train_flips.py WEFT: does a job end when a bit changes on its way or in memory, and say where?

flips/ has a transport that inverts one bit of what a rank receives, and a device that inverts one
bit of its memory between the update and the comparison of copies. Of each kind a few whole jobs are
run here; a thousand are in comm.threads_checked_test and unit.run_verify_test. Without the keys the
same bits change a run without a word, and without a changed bit the keys change nothing."""
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS") or os.path.join(
    os.path.dirname(w.WEFT), "..", "tests", "fault", "plugins")
JOB = w.ODD | {"run.steps": 4, "comm.plugin": "flip", "train.microbatch": 4,
               "comm.algorithm": "ring"}
HOST = r"\(host [^)]+\)"


class Flips(w.Bench):
    def run_with(self, out, change, status, flip=None):
        extra = {f"FLIP_{key}": str(value) for key, value in (flip or {}).items()}
        return self.train(out, JOB | {"run.plugins": PLUGINS} | change, ranks=3, status=status,
                          extra=extra).stderr

    def test_links(self):
        received = 4 * 2 * 2 * 4 * 5000  # less than what 3 ranks receive of 4 rings
        quiet = {"comm.checksum": "off"}
        checked = {"comm.checksum": "on"}
        self.run_with("plain", quiet, 0)
        self.run_with("none", checked, 0)
        self.same_run("plain", "none")
        for _ in range(4 if w.BRIEF else 12):
            flip = {"RANK": random.randrange(3), "AT": random.randrange(received),
                    "BIT": random.randrange(8)}
            with self.subTest(**flip):
                said = self.run_with("flipped", checked, 1, flip)
                self.assertRegex(
                    said, rf"over flip: with rank \d: a message changed on its way from rank \d "
                    rf"{HOST} to rank {flip['RANK']} {HOST}: bytes \d+ to \d+ of the [\w ]+ have "
                    r"the CRC32C [0-9a-f]{8}, and [0-9a-f]{8} was sent")
                self.assertRegex(said, r"step \d, entry \d+ of list step: all-reduce of ")
        self.run_with("unnoticed", quiet, 0, {"RANK": 1, "AT": 1003, "BIT": 6})
        self.assertNotEqual(w.lines(self.path("plain")), w.lines(self.path("unnoticed")))

    def parameters(self):
        """[(offset in the arena, bytes)] of parameters that all ranks have."""
        listed = json.loads(w.weft("plan", "-n", 3, self.ini, *self.options("plan", JOB | {
            "comm.plugin": "tcp"}), "--list", "--json").stdout)
        found = set()
        for call in listed["step"]:
            for op in call.get("ops", []):
                at = op["in"] + op["out"]
                found |= {(a, n) for a, n, base in zip(at, op["bytes"], op["base"])
                          if base == "param" and isinstance(a, int)}
        self.assertGreater(len(found), 10)
        return sorted(found)

    def test_memory(self):
        every = {"run.verify": 1, "device.plugin": "forgetful", "comm.plugin": "tcp"}
        self.run_with("plain", every | {"run.verify": 0}, 0)
        self.run_with("none", every, 0)
        for one, two in zip(w.metrics(self.path("plain")), w.metrics(self.path("none"))):
            self.assertEqual(one["loss"], two["loss"])
            self.assertGreater(two["verify_bytes"], 4 * 3 * 257 * 24)
            self.assertGreater(two["verify_ms"], 0)
        parameters = self.parameters()
        for _ in range(4 if w.BRIEF else 12):
            at, size = random.choice(parameters)
            flip = {"RANK": random.randrange(3), "AT": at + random.randrange(size),
                    "BIT": random.randrange(8), "READ": 2}
            with self.subTest(**flip):
                said = self.run_with("flipped", every, 1, flip)
                self.assertRegex(said, rf"after step \d rank {flip['RANK']} {HOST}: other bits of "
                                 r"[\w.]+ than the 2 ranks that agree")
        flip = {"RANK": 2, "AT": parameters[0][0] + 3, "BIT": 6, "READ": 2}
        self.run_with("unnoticed", every | {"run.verify": 0}, 0, flip)

    def test_what_has_no_copy(self):
        """Slices that one rank alone has are not compared, and the log says how much that is."""
        job = JOB | {"run.verify": 1, "comm.plugin": "tcp", "run.steps": 1,
                     "train.precision": "fp32"}
        said = self.train("copies", job, ranks=3).stderr
        self.assertNotIn("run.verify compares", said)
        said = self.train("slices", job | {"optim.placement": "zero1"}, ranks=3).stderr
        share = re.search(r"run\.verify compares (\d+) % of this rank's bytes of parameters and "
                          "states: no other rank holds a copy of the rest", said)
        self.assertTrue(40 < int(share[1]) < 70, said)  # p of p, and m and v of a third


if __name__ == "__main__":
    w.main()
