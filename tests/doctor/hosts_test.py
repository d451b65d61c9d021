"""weft train --doctor on two hosts that are namespaces of this machine (tests/lab/hosts.sh): the
interface between them is found and measured, and packets that get lost for their length are seen.
Ends with 77 without the right to make them. All of it is in namespaces of its own, which are gone
with it."""
import json
import os
import subprocess
import sys
import time
import unittest

from machine import started

HOSTS = os.path.join(started.SOURCE, "tests", "lab", "hosts.sh")


def hosts(*words):
    return subprocess.run(["bash", HOSTS, *words], capture_output=True, text=True, check=False)


class Hosts(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.weft("key", "-o", "job.key")
        self.write("job.ini", started.TINY.replace("[run]", "[run]\nkey = job.key") +
                   "[parallel]\nstrategy = dp\n")

    def examine(self, fits):
        """What rank 0, on the first host, says of both. Measurements of a busy machine may be off,
        so it is asked until they fit."""
        limit = time.monotonic() + 120
        while not fits(*(found := self.ask())) and time.monotonic() < limit:
            continue
        return found

    def ask(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))}
        ranks = []
        for i in range(2):
            own = env | {"RANK": str(i), "WORLD_SIZE": "2", "LOCAL_RANK": "0",
                         "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.0.0.1",
                         "MASTER_PORT": "7272"}
            ranks.append(subprocess.Popen(
                ["bash", HOSTS, "on", str(i + 1), started.WEFT, "train", "--doctor", "--json",
                 "job.ini"], cwd=self.place, env=own, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True))
        said = [p.communicate(timeout=300) for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [0, 0], said)
        report = json.loads(said[0][0])
        facts = [c["facts"] for r in report["ranks"] for c in r["checks"] if c["id"] == "path"]
        return report, facts, [f["what"] for f in report["compared"]]

    def test_the_way(self):
        report, facts, differs = self.examine(
            lambda _, facts, differs: facts[0].get("from.1") == 4500 and not differs)
        self.assertEqual([r["host"] for r in report["ranks"]], ["h1", "h2"])
        self.assertEqual([f["interface"] for f in facts], ["v1", "v2"])
        self.assertEqual([f["mtu"] for f in facts], [4500, 4500])
        self.assertEqual(facts[0].get("from.1"), 4500, "the longest packet did not arrive")
        self.assertEqual(facts[1]["probed"], 4500)
        self.assertGreater(facts[1]["round_trip_us"], 0)
        self.assertLess(abs(facts[1]["skew_ms"]), 100)
        self.assertEqual(differs, [])

    def test_long_packets_that_are_lost(self):
        hosts("on", "1", "ip", "link", "set", "v1", "mtu", "1500")
        try:
            _, facts, differs = self.examine(lambda _, facts, __: "from.1" in facts[0])
        finally:
            hosts("on", "1", "ip", "link", "set", "v1", "mtu", "4500")
        self.assertLess(facts[0]["from.1"], 1500)
        self.assertIn("packets of 4500 bytes from rank 1 (h2) do not reach rank 0, and short ones "
                      "do", differs)
        self.assertIn("the MTU of the interface towards rank 0 differs: 1500 on rank 0 (h1), 4500 "
                      "on rank 1 (h2)", differs)

    def test_a_wall_that_lets_nothing_through_says_nothing(self):
        if hosts("on", "1", "iptables", "-A", "INPUT", "-p", "udp", "-j", "DROP").returncode:
            self.skipTest("there is no iptables here")
        try:
            _, facts, differs = self.examine(lambda _, __, differs: not differs)
        finally:
            hosts("on", "1", "iptables", "-F")
        self.assertNotIn("from.1", facts[0])
        self.assertEqual(differs, [])


def main():
    if os.geteuid() != 0:
        print("two hosts cannot be made without being root")
        return 77
    if sys.argv[-1] != "inside":
        # A namespace may be mounted in one with a lower number alone, and Linux 6.18 numbers those
        # that one CPU makes upwards, others as it likes.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.execvp("unshare", ["unshare", "--net", "--mount", "--", sys.executable, "-B", *sys.argv,
                              "inside"])
    made = subprocess.run(["sh", "-c", "mount -t tmpfs tmpfs /run && ip link set lo up"],
                          capture_output=True, text=True, check=False)
    if made.returncode == 0:
        made = hosts("two_hosts")
    os.sched_setaffinity(0, range(os.cpu_count()))
    if made.returncode:
        print("two hosts cannot be made here:", made.stderr.strip())
        return 77
    unittest.main(argv=sys.argv[:1], verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
