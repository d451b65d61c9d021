#!/usr/bin/env python3
"""names.py WEFT: do ranks meet by the names that machines have, however /etc/hosts spells them?

Ranks with a hosts file each, in a network namespace of their own: a name with an address of each
version of which a rank has only one, addresses in brackets, a machine whose own name is 127.0.1.1
as on Debian, and nodes of Slurm whose names nobody knows."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.ODD | {"run.steps": 3, "checkpoint.every": 0, "comm.plugin": "tcp", "run.join_timeout": 20}
FOUR, SIX = "10.77.1.1", "fd00:77::5"
LOOPBACK = "127.0.0.1 localhost\n::1 localhost\n"


class Names(w.Bench):
    def start(self, name, hosts, extra, job=None, of_rank=None, away=()):
        """One process for each text of `hosts`, its /etc/hosts; [(status, what it said)]. `away`:
        a rank, and what starts it on another machine."""
        ranks = []
        for rank, text in enumerate(hosts):
            own = self.path(f"{name}.hosts{rank}")
            with open(own, "w", encoding="utf-8") as f:
                f.write(LOOPBACK + text)
            common = of_rank(rank) if of_rank else {"WORLD_SIZE": str(len(hosts)),
                                                    "RANK": str(rank)}
            own = ["unshare", "--mount", "sh", "-c",
                   f"mount --bind {own} /etc/hosts; exec \"$@\"", "sh"]
            ranks.append(self.by_hand(
                [*(away[1] if away and rank == away[0] else ()), *own,
                 *self.command(name, JOB | {"run.key": self.key_file()} | (job or {}))],
                common | extra))
        return w.ends(ranks)

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

    def test_own_name_is_a_loopback_address(self):
        """Debian's 127.0.1.1 in the hosts file of rank 0's machine."""
        self.meets("debian", ["127.0.1.1 two\n", f"{FOUR} two\n"], "two",
                   "two is a loopback address in this machine's /etc/hosts", "listens at all")
        ended = self.start("known", ["", ""], {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "LOCAL_WORLD_SIZE": "1",
            "LOCAL_RANK": "0"}, {"run.join_timeout": 1})
        self.assertEqual(ended[0][0], 2, ended)
        self.assertIn("MASTER_ADDR=127.0.0.1 is this machine's own loopback", ended[0][1])

    def test_a_rank_beside_rank_0_leaves_loopback(self):
        """It has met rank 0 at 127.0.1.1; a rank of another machine reaches both."""
        other = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 600"],
                                 stdout=subprocess.PIPE)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        other.stdout.readline()
        enter = ["nsenter", f"--net=/proc/{other.pid}/ns/net"]
        for words in (f"ip link add wa type veth peer name wb netns {other.pid}",
                      "ip addr add 10.77.2.1/24 dev wa", "ip link set wa up",
                      *(" ".join(enter + x.split()) for x in (
                          "ip link set lo up", "ip addr add 10.77.2.2/24 dev wb",
                          "ip link set wb up"))):
            if subprocess.run(words.split()).returncode:
                self.skipTest("no pair of interfaces here")
        for away in (1, 2):
            hosts = ["127.0.1.1 two\n"] * 3
            hosts[away] = "10.77.2.1 two\n"
            ended = self.start(f"beside{away}", hosts,
                               {"MASTER_ADDR": "two", "MASTER_PORT": str(w.free_port())},
                               {"train.microbatch": 4, "comm.algorithm": "pairwise",
                                "run.deadline": 10}, away=(away, enter))
            for status, text in ended:
                self.assertEqual(status, 0, ended)
        other.stdout.close()

    # --- Slurm, by its variables; tests/slurm has a real one ---

    def step(self, name, hosts, extra, job=None, shown=None):
        """A step on two nodes, c1 and c2, with a scontrol that prints `shown`, or fails."""
        tools = self.path(name + ".tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "scontrol"), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n[ \"$*\" = '--oneliner show node c1' ] || exit 1\n"
                    + (f"echo '{shown}'\n" if shown else "exit 1\n"))
        os.chmod(os.path.join(tools, "scontrol"), 0o755)
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2",
                  "SLURM_STEP_NODELIST": "c[1-2]", "SLURM_STEP_NUM_NODES": "2",
                  "SLURM_LOCALID": "0",
                  "PATH": tools + ":" + os.environ["PATH"]}
        return self.start(name, hosts, common | extra, job,
                          lambda r: {"SLURM_PROCID": str(r), "SLURM_GTIDS": str(r),
                                     "SLURMD_NODENAME": f"c{r + 1}"})

    def test_slurm_knows_the_address(self):
        """Names of nodes that no resolver knows: NodeAddr of the environment, or of scontrol."""
        shown = f"NodeName=c1 Arch=x86_64 NodeAddr={FOUR} NodeHostName=c1 Version=22"
        aliases = {"SLURM_NODE_ALIASES": f"c2:[10.0.0.9]:c2,c1:[{SIX}]:c1"}
        own = "127.0.1.1 c1\n"
        for name, hosts, extra, line in (("shown", ["", ""], {}, shown),
                                         ("alias", ["", ""], aliases, None),
                                         ("own", [own, ""], {}, shown)):
            with self.subTest(name):
                ended = self.step(name, hosts, extra, None, line)
                for status, text in ended:
                    self.assertEqual(status, 0, ended)
                self.assertIn("the step's first node c1 is no name here; its NodeAddr in Slurm is "
                              + (SIX if extra else FOUR), ended[1][1])

    def test_nobody_knows_the_address(self):
        for name, shown in (("nobody", None), ("same", "NodeName=c1 NodeAddr=c1 Version=22")):
            for status, text in self.step(name, ["", ""], {}, {"run.join_timeout": 1}, shown):
                self.assertIn(status, (1, 2), text)
                self.assertRegex(text, "the step's first node c1 did not lead to an address")
                self.assertIn("set MASTER_ADDR to an address of rank 0's node on all ranks", text)


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
