#!/usr/bin/env python3
"""train_local.py WEFT: do the ranks of a machine share its cores, whatever the launcher says?

Four ranks are started with plain variables and no word of LOCAL_RANK, at an address of this machine
that is no loopback address, as on a cluster; with variables of PMI; and with local numbers that do
not hold. Each rank has to take its part of the cores, which rank 0 tells of the device."""
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

RANKS = 4
JOB = {k: v for k, v in w.ODD.items() if k != "device.threads"} | {
    "run.steps": 3, "comm.plugin": "tcp", "checkpoint.every": 0, "model.embed": 96,
    "train.sequence": 16}


def own_address():
    """The address of an interface that is not the loopback; None: this machine has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.77", 9))  # sends nothing
            address = s.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


class Local(w.Bench):
    def play(self, out, address, variables):
        """Train; what the ranks have said. `variables` of a rank, besides where they meet."""
        place = {"MASTER_ADDR": address, "MASTER_PORT": str(w.free_port(address))}
        words = self.command(out, JOB | {"run.key": self.key_file()})
        ended = w.ends([self.by_hand(words, variables(rank) | place) for rank in range(RANKS)])
        self.assertEqual([status for status, _ in ended], [0] * RANKS, ended)
        return [said for _, said in ended]

    def check_share(self, said):
        found = re.search(r"(\d+) thread", said[0])
        self.assertIsNotNone(found, said[0])
        self.assertEqual(int(found[1]), max(1, len(os.sched_getaffinity(0)) // RANKS), said[0])

    def setUp(self):
        self.address = own_address()
        if not self.address:
            self.skipTest("this machine has no address but the loopback's")

    def test_plain_variables(self):
        said = self.play("plain", self.address,
                         lambda r: {"RANK": str(r), "WORLD_SIZE": str(RANKS)})
        self.check_share(said)
        self.assertNotIn("the environment says", "".join(said))

    def test_pmi(self):
        self.check_share(self.play("pmi", self.address,
                                   lambda r: {"PMI_RANK": str(r), "PMI_SIZE": str(RANKS)}))

    def test_contradiction(self):
        said = self.play("wrong", self.address,
                         lambda r: {"RANK": str(r), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0",
                                    "LOCAL_WORLD_SIZE": "1"})
        self.check_share(said)
        self.assertIn("the environment says local size 1, but this is local rank 0 of 4", said[0])
        self.assertIn("the environment says local rank 0, but this is local rank 1 of 4", said[1])
        self.assertNotIn("the environment says", said[2] + said[3])


if __name__ == "__main__":
    w.main()
