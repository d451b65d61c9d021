#!/usr/bin/env python3
"""tcp.py WEFT: what does a job over tcp do when the network between its hosts is bad? For root, in
the lab.

Three ranks, two on one host and one on the other. Delay, loss, reordering, a narrow cable and a
cable that is pulled for a moment change the time that a job takes and not one bit of what it
computes; and each part makes sure that the network was as bad as it should have been. A cable that
stays pulled ends every rank within run.frozen_after, with a sentence that names a rank of the other
side."""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

HOSTS = os.path.join(HERE, "hosts.sh")
WHERE = (1, 1, 2)  # the host of each rank
AFTER = 5  # seconds until a rank without a sign of life is frozen
LATE = 20  # and so much for a slow machine
# Endless: it is seen how far it got. Starting is most of what a rank does here, and it is the code
# made for wide instructions that takes long.
JOB = w.ODD | {"run.steps": 1000000, "train.batch": 3, "train.microbatch": 1, "optim.lr": 1e-4,
               "train.sequence": 8, "model.layers": 1, "checkpoint.every": 5,
               "checkpoint.keep": 1000, "comm.plugin": "tcp", "device.isa": "v2",
               "run.frozen_after": AFTER}
NARROW = {"ONEDNN_MAX_CPU_ISA": "SSE41"}


def hosts(*words, check=True):
    return subprocess.run(["bash", HOSTS, *map(str, words)], check=check, capture_output=True,
                          text=True).stdout


def setUpModule():
    hosts("two_hosts")


def tearDownModule():
    hosts("no_hosts")


def count(name):
    """A counter of TCP, of both hosts."""
    return sum(int(hosts("on", host, "nstat", "-asz", name).split(name)[1].split()[0])
               for host in (1, 2))


def queues(name):
    """What the queues of both hosts have counted."""
    said = "".join(hosts("on", host, "tc", "-s", "qdisc", "show", "dev", f"v{host}")
                   for host in (1, 2))
    return sum(map(int, re.findall(rf"{name} (\d+)", said)))


def shape(words):
    for host in (1, 2):
        hosts("shape", host, *words.split())


def unshape():
    for host in (1, 2):
        hosts("unshape", host, check=False)  # where it was shaped


class Tcp(w.Bench):
    port = 5000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        w.weft("key", "-o", cls.path("key"))

    def tearDown(self):
        for host in (1, 2):
            hosts("cable", host, "up")
        unshape()

    def start(self, out, job):
        """The ranks, each on its host."""
        Tcp.port += 1  # the last job's may be waited for still
        self.out, self.ranks = out, []
        for rank, host in enumerate(WHERE):
            names = {"RANK": rank, "WORLD_SIZE": len(WHERE), "MASTER_ADDR": "10.0.0.1",
                     "MASTER_PORT": Tcp.port, "LOCAL_RANK": WHERE[:rank].count(host),
                     "LOCAL_WORLD_SIZE": WHERE.count(host)}
            options = self.options(out, job | {"run.key": self.path("key")})
            with open(self.path(f"{out}.{rank}.log"), "w", encoding="utf-8") as log:
                self.ranks.append(subprocess.Popen(
                    ["bash", HOSTS, "on", str(host), w.WEFT, "train", self.ini, *options],
                    env=w.environment(NARROW | {k: str(v) for k, v in names.items()}),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            self.addCleanup(self.ranks[-1].kill)

    def said(self, rank):
        return w.read_text(self.path(f"{self.out}.{rank}.log"))

    def ended(self, status):
        """All ranks end with `status`; returns what each said."""
        for rank, process in enumerate(self.ranks):
            process.wait(w.TIMEOUT)
            self.assertEqual(process.returncode, status, f"rank {rank}: {self.said(rank)}")
        return [self.said(rank) for rank in range(len(self.ranks))]

    def step(self):
        """The last one that is done."""
        return w.read_text(os.path.join(self.path(self.out), "metrics.jsonl")).count("\n")

    def until(self, true, what):
        limit = time.monotonic() + 3 * w.TIMEOUT
        while not true():
            self.assertLess(time.monotonic(), limit, f"{what}: {self.said(0)}")
            self.assertIsNone(self.ranks[0].poll(), f"{what}: {self.said(0)}")
            time.sleep(0.05)

    def shaped(self, words, bad):
        """For some steps, and until the network has been as `bad` as it should, each host sends
        through the queue of `words`."""
        shape(words)
        first, began = self.step() + 1, time.monotonic()
        self.until(lambda: self.step() > first + 4 and bad(), words)
        waited = [x["exposed_comm_ms"] for x in w.metrics(self.path(self.out))[first:]]
        print(f"{words}: {time.monotonic() - began:.1f} s, each step waits "
              f"{sum(waited) / len(waited):.0f} ms", flush=True)

    def pulled_for_a_moment(self):
        """A rank begins a step with what all others had to say in the one before. So where nothing
        arrives, rank 0 ends the step that it is in, and the next if rank 2 was in that already."""
        unshape()  # what waits to be sent again after that does so sooner
        steps = f"wc -l <{os.path.join(self.path(self.out), 'metrics.jsonl')}"
        first, last = map(int, hosts("on", 2, "sh", "-ec", "ip link set v2 down; "
                                     f"{steps}; sleep 1; {steps}; ip link set v2 up").split())
        began = time.monotonic()
        self.until(lambda: self.step() > last + 3, "the cable is back")
        print(f"cable pulled for a second: {last - first} steps, and the next ones after "
              f"{time.monotonic() - began:.1f} s more", flush=True)
        self.assertLessEqual(last - first, 2, "the cable carried something still")

    def end_by(self, *words):
        """Hosts that are cut off from each other end, on both sides."""
        began = time.monotonic()
        hosts(*words)
        limit = began + AFTER + LATE
        while any(r.poll() is None for r in self.ranks) and time.monotonic() < limit:
            time.sleep(0.02)
        print(f"{' '.join(map(str, words))}: over after {time.monotonic() - began:.1f} s of "
              f"{AFTER}", flush=True)
        for rank, said in enumerate(self.ended(1)):
            others = "".join(str(r) for r, host in enumerate(WHERE) if host != WHERE[rank])
            self.assertRegex(said, rf"(?m)^weft rank {rank} error: (rank {rank}, step \d+, entry "
                                   rf".*: )?rank [{others}] (is frozen|gave up)")

    def test_bad_weather(self):
        """All of it during one job, which then equals one that had none of it; at the end packets
        of one side are lost, all of them. What the other side gives up for still arrives."""
        shape("netem delay 10ms")  # ranks meet in bad weather too
        self.start("bad", JOB)
        self.until(lambda: self.step() > 0, "starting")
        self.shaped("netem delay 10ms", lambda: queues("Sent") > 10000)
        again = count("TcpRetransSegs")
        self.shaped("netem delay 10ms loss 1%",
                    lambda: queues("dropped") and count("TcpRetransSegs") > again)
        late = count("TcpExtTCPOFOQueue")
        self.shaped("netem delay 10ms reorder 10%", lambda: count("TcpExtTCPOFOQueue") > late)
        self.shaped("tbf rate 5mbit burst 16kb latency 50ms", lambda: queues("overlimits") > 10)
        self.pulled_for_a_moment()
        self.end_by("shape", 1, "netem", "loss", "100%")
        self.equals_good_weather(self.step())

    def equals_good_weather(self, steps):
        unshape()
        self.start("good", JOB)
        self.until(lambda: self.step() >= steps, "as far as the other one")
        for process in self.ranks:
            process.kill()
            process.wait()
        bad, good = (w.lines(self.path(out))[:steps] for out in ("bad", "good"))
        self.assertEqual(bad, good)
        saved = (steps - 2) // 5 * 5  # the last may have been cut off
        self.same_tensors(w.tensors(self.path("bad"), saved), w.tensors(self.path("good"), saved))
        print(f"{steps} steps, the same bits", flush=True)

    def test_cable_pulled(self):
        self.start("pulled", JOB)
        self.until(lambda: self.step() >= 3, "starting")
        self.end_by("cable", 2, "down")

    def test_nobody_answers(self):
        """A host that is cut off from the start: the ranks that are missing are named."""
        hosts("cable", 2, "down")
        self.start("nobody", JOB | {"run.join_timeout": 2})
        said = self.ended(1)
        self.assertIn("rank 2", said[0])
        self.assertIn("10.0.0.1", said[2])
        self.assertFalse(os.path.exists(self.path("nobody")))


if __name__ == "__main__":
    w.main()
