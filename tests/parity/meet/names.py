#!/usr/bin/env python3
"""names.py WEFT: do ranks meet by the names that machines have, however /etc/hosts spells them?

Ranks with a hosts file each, in a network namespace of their own: a name with an address of each
version of which a rank has only one, and addresses in brackets."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.ODD | {"run.steps": 3, "checkpoint.every": 0, "comm.plugin": "tcp", "run.join_timeout": 20}
FOUR, SIX = "10.77.1.1", "fd00:77::5"
LOOPBACK = "127.0.0.1 localhost\n::1 localhost\n"


class Names(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        w.weft("key", "-o", cls.path("key"))

    def start(self, name, hosts, extra, job=None):
        """One process for each text of `hosts`, its /etc/hosts; [(status, what it said)]."""
        ranks = []
        for rank, text in enumerate(hosts):
            own = self.path(f"{name}.hosts{rank}")
            with open(own, "w", encoding="utf-8") as f:
                f.write(LOOPBACK + text)
            common = {"WORLD_SIZE": str(len(hosts)), "RANK": str(rank)}
            words = [w.WEFT, "train", self.ini,
                     *self.options(name, JOB | {"run.key": self.path("key")} | (job or {}))]
            ranks.append(subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", f"mount --bind {own} /etc/hosts; exec \"$@\"",
                 "sh", *words], env=w.environment(common | extra), text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            self.addCleanup(ranks[-1].kill)
        said = [r.communicate(timeout=w.TIMEOUT)[0] for r in ranks]
        return [(r.returncode, text) for r, text in zip(ranks, said)]

    def meets(self, name, hosts, addr, *said, **job):
        extra = {"MASTER_ADDR": addr, "MASTER_PORT": str(w.free_port())}
        ended = self.start(name, hosts, extra, job)
        for status, text in ended:
            self.assertEqual(status, 0, ended)
        for word in said:
            self.assertIn(word, ended[0][1])

    def test_both_versions(self):
        """Rank 0 listens at each address of its name: a rank may have one of them only."""
        four, six = f"{FOUR} two\n", f"{SIX} two\n"
        for i, own in enumerate((six + four, four + six, six + four + six)):
            for j, other in enumerate((four, six)):
                with self.subTest(own=own, other=other):
                    self.meets(f"both{i}{j}", [own, other], "two")

    def test_one_address_is_elsewhere(self):
        """An address of the name that this machine does not have is left out."""
        self.meets("elsewhere", [f"{FOUR} two\nfd00:88::1 two\n", f"{FOUR} two\n"], "two")

    def test_brackets(self):
        for i, addr in enumerate((f"[{SIX}]", SIX)):
            self.meets(f"brackets{i}", ["", ""], addr)
        self.meets("listen", ["", ""], f"[{SIX}]",
                   **{"run.listen": f"[{SIX}]", "run.address": f"[{SIX}]"})
        port = w.free_port()
        for status, text in self.start("port", ["", ""], {"MASTER_ADDR": f"[{SIX}]:{port}"}):
            self.assertEqual(status, 0, text)


def main():
    if os.geteuid() or subprocess.run(["unshare", "--net", "--mount", "true"]).returncode:
        print("names of one's own cannot be made here: that needs root and namespaces")
        sys.exit(77)
    if os.environ.get("WEFT_NAMES_INSIDE") != "1":
        os.environ["WEFT_NAMES_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, "-B", *sys.argv])
    for words in ("link set lo up", f"addr add {FOUR}/32 dev lo",
                  f"addr add {SIX}/128 dev lo nodad"):
        if subprocess.run(["ip", *words.split()]).returncode:
            sys.exit(77)
    w.main()


if __name__ == "__main__":
    main()
