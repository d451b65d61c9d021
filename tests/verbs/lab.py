#!/usr/bin/env python3
"""lab.py WEFT PROGRAMS SANITIZED: does verbs do on real devices what it promises? For root, in the
lab: two hosts with a soft-RoCE device each.

The questions of tests/links and the collectives of tests/comm, with the programs in the folder
PROGRAMS and, as far as memory is concerned, with those in SANITIZED. Then jobs with a rank on each
host: the bits of the same job over tcp, in good weather and in bad; packets as the plan says; a
rank that dies, a cable that is pulled; and what cannot be, in words."""
import glob
import os
import re
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "parity"), os.path.join(HERE, "..", "lab")]
import tcp as lab  # noqa: E402  (tests/lab/tcp.py)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PROGRAMS, SANITIZED = sys.argv[2:4]
del sys.argv[2:4]
CONFIGS = os.path.join(HERE, "..", "..", "configs")
AFTER = 4  # seconds until a rank without a sign of life is frozen
# Small, and none of the code for wide instructions, which an emulator takes long for.
SMALL = {"model.layers": 2, "model.heads": 2, "model.embed": 16, "model.ffn": 32,
         "model.context": 8, "train.batch": 12, "train.microbatch": 1, "train.sequence": 8,
         "device.isa": "v2", "device.threads": 1, "log.peak_gflops": 1, "log.progress": 0,
         "run.frozen_after": AFTER}
JOB = w.EVEN | SMALL | {"comm.algorithm": "ring", "optim.lr": 1e-4, "run.steps": 12,
                        "checkpoint.every": 12}


def setUpModule():
    lab.hosts("two_rdma_hosts")
    with open("/proc/sys/kernel/printk", "w", encoding="ascii") as f:
        f.write("1")


def tearDownModule():
    lab.hosts("no_hosts", check=False)


def sent(host):
    return int(lab.hosts("counter", host, "sent_pkts"))


class Programs(unittest.TestCase):
    """Each is a test program that ends with 0 where nothing is wrong."""

    def passes(self, folder, program, *words, limit=120):
        plugin = os.path.join(folder, "..", "lib", "weft", "comm", "verbs.so")
        plugin = [plugin, "*32_bits*"] if program.startswith(("links", "verbs")) else ["verbs"]
        began = time.monotonic()
        done = subprocess.run([os.path.join(folder, program), *plugin, *words], timeout=limit,
                              capture_output=True, text=True, errors="replace")
        said = done.stdout + done.stderr
        print(f"{program}: {time.monotonic() - began:.1f} s", flush=True)
        self.assertEqual(done.returncode, 0, said[-6000:])
        self.assertIsNone(w.SANITIZERS.search(said), said[-6000:])
        return said

    def test_links(self):
        for name in ("move", "setup", "thread"):
            self.passes(PROGRAMS, f"links_{name}_test")

    def test_collectives(self):
        self.passes(PROGRAMS, "comm_links_test", "comm.verbs.devices=r1")

    def test_memory(self):
        """Where both ends or one is registered, where a process dies, where mistakes are made:
        nothing is touched that must not be, nothing is left."""
        said = self.passes(SANITIZED, "verbs_device_test")
        print("\n".join(x for x in said.splitlines() if "rank" in x or "limit" in x))
        self.passes(SANITIZED, "links_process_test", "devices=r2")
        self.passes(SANITIZED, "links_region_test", "devices=r1,r2")


class Jobs(w.Bench):
    port = 6000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        w.weft("key", "-o", cls.path("key"))

    def tearDown(self):
        for host in (1, 2):
            lab.hosts("cable", host, "up")
            lab.hosts("unshape", host, check=False)

    def start(self, out, job, where=(1, 2)):
        """Each rank on its host and over its host's device."""
        Jobs.port += 1
        self.out, self.ranks = out, []
        for rank, host in enumerate(where):
            names = {"RANK": rank, "WORLD_SIZE": len(where), "MASTER_ADDR": "10.0.0.1",
                     "MASTER_PORT": Jobs.port, "LOCAL_RANK": where[:rank].count(host),
                     "LOCAL_WORLD_SIZE": where.count(host)}
            own = {"run.key": self.path("key")}
            if job["comm.plugin"] == "verbs":
                own["comm.verbs.devices"] = f"r{host}"
            words = self.options(out, own | job)
            with open(self.path(f"{out}.{rank}.log"), "w", encoding="utf-8") as log:
                self.ranks.append(subprocess.Popen(
                    ["bash", lab.HOSTS, "on", str(host), w.WEFT, "train", self.ini, *words],
                    env=w.environment(lab.NARROW | {k: str(v) for k, v in names.items()}),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            self.addCleanup(self.ranks[-1].kill)

    def said(self, rank):
        return w.read_text(self.path(f"{self.out}.{rank}.log"))

    def ended(self, status, ranks=None):
        for rank in range(len(self.ranks)) if ranks is None else ranks:
            self.ranks[rank].wait(w.TIMEOUT)
            self.assertEqual(self.ranks[rank].returncode, status, f"rank {rank}: {self.said(rank)}")

    def until_step(self, step):
        limit = time.monotonic() + w.TIMEOUT
        path = os.path.join(self.path(self.out), "metrics.jsonl")
        while w.read_text(path).count("\n") < step:
            self.assertLess(time.monotonic(), limit, self.said(0))
            self.assertIsNone(self.ranks[0].poll(), self.said(0))
            time.sleep(0.05)

    def test_the_bits_of_tcp(self):
        """In good weather and in bad; and what crosses the cable does so by RDMA."""
        self.start("tcp", JOB | {"comm.plugin": "tcp"})
        self.ended(0)
        before = [sent(1), sent(2)]
        self.start("verbs", JOB | {"comm.plugin": "verbs"})
        self.ended(0)
        packets = [sent(host) - before[host - 1] for host in (1, 2)]
        self.same_run("tcp", "verbs", 12)
        bytes_sent = sum(x["comm_bytes"] for x in w.metrics(self.path("verbs")))
        print(f"rank 0 was to send {bytes_sent} bytes; the devices sent {packets} packets")
        for n in packets:  # of 4096 bytes at most; acknowledgements and credits are some more
            self.assertGreater(n, bytes_sent / 4096)
        lab.shape("netem delay 10ms loss 1%")
        again = sum(int(lab.hosts("counter", h, "completer_retry_err")) for h in (1, 2))
        self.start("bad", JOB | {"comm.plugin": "verbs", "comm.verbs.timeout": 0.1})
        self.ended(0)
        lost = lab.queues("dropped")
        again = sum(int(lab.hosts("counter", h, "completer_retry_err")) for h in (1, 2)) - again
        print(f"{lost} packets were lost, {again} times something was sent again", flush=True)
        self.assertGreater(lost, 0)
        self.same_run("tcp", "bad", 12)

    def test_configs(self):
        """Shipped configurations, small, on one host: the same bits again."""
        changes = SMALL | {"run.steps": 3, "train.eval_every": 0, "data.valid": "",
                           "checkpoint.every": 0, "comm.algorithm": "ring"}
        for name, ranks in (("zero3", 2), ("tp", 2), ("pp", 2)):
            with self.subTest(name=name):
                for plugin in ("tcp", "verbs"):
                    words = self.options(f"{name}.{plugin}", changes | {"comm.plugin": plugin})
                    w.weft("train", "-n", ranks, os.path.join(CONFIGS, f"{name}.ini"), *words,
                           extra=lab.NARROW)
                self.same_run(f"{name}.tcp", f"{name}.verbs")

    def endless(self, out, where=(1, 2)):
        self.start(out, JOB | {"comm.plugin": "verbs", "run.steps": 10**8, "checkpoint.every": 0},
                   where)
        self.until_step(3)

    def over_within(self, seconds, ranks):
        began = time.monotonic()
        self.ended(1, ranks)
        took = time.monotonic() - began
        print(f"{self.out}: over after {took:.1f} s: {self.said(ranks[0])[-250:]}", flush=True)
        self.assertLess(took, seconds)
        return [self.said(rank) for rank in ranks]

    def test_a_rank_is_killed(self):
        self.endless("killed", (1, 2, 2))
        pids = [int(pid) for pid in map(os.path.basename, glob.glob("/proc/[0-9]*"))
                if b"\0RANK=1\0" in b"\0" + self.environ(pid)
                and os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(w.WEFT)]
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], signal.SIGKILL)
        for said in self.over_within(AFTER + 10, (0, 2)):
            self.assertRegex(said, r"weft rank \d error: .*rank 1 ")

    def environ(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                return f.read()
        except OSError:
            return b""

    def test_a_cable_is_pulled(self):
        self.endless("pulled")
        lab.hosts("cable", 2, "down")
        for rank, said in enumerate(self.over_within(AFTER + 15, (0, 1))):
            self.assertRegex(said, rf"weft rank {rank} error: .*rank {1 - rank} |port 1 of RDMA")

    def test_what_cannot_be(self):
        job = JOB | {"comm.plugin": "verbs"}
        poor = ["prlimit", "--memlock=1000000", "setpriv", "--reuid=65534", "--clear-groups",
                "--bounding-set=-all"]
        large = {"model.vocab": 90000, "model.embed": 64, "comm.verbs.devices": "r1"}
        some = ["prlimit", f"--memlock={65 << 20}", *poor[2:]]
        for status, before, change, *words in (
                (77, [], {"comm.verbs.devices": "r9"}, "r9", "no such RDMA", "r1, r2"),
                (2, [], {"comm.verbs.devices": "r1", "comm.verbs.gid": 99}, "gid = 99",
                 "10.0.0.1 RoCE v2"),
                (77, poor, {}, "lock 976 KiB", "ulimit -l"),
                (1, some, large, "r1 cannot register", "ulimit -l")):
            with self.subTest(change=change):
                place = self.path("cannot")
                os.makedirs(place, exist_ok=True)
                for folder in (self.place, place):
                    os.chmod(folder, 0o777)
                done = subprocess.run(
                    [*before, w.WEFT, "train", "-n", "2", self.ini,
                     *self.options("cannot/out", job | change)],
                    env=w.environment(lab.NARROW), capture_output=True, text=True,
                    timeout=w.TIMEOUT)
                self.assertEqual(done.returncode, status, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                print(re.sub(r"\s+", " ", done.stderr).strip()[:300])


if __name__ == "__main__":
    w.main()
