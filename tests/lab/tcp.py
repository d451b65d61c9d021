#!/usr/bin/env python3
"""tcp.py WEFT: what does a job over tcp do when the network between its hosts is bad? For root, in
the lab.

Three ranks, two on one host and one on the other. Delay, loss, reordering, a narrow cable and a
cable that is pulled for a moment change the time that a job takes and not one bit of what it
computes; and each part makes sure that the network was as bad as it should have been. A cable that
stays pulled ends every rank within run.frozen_after, with a sentence that names a rank of the other
side."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from jobs import Jobs, hosts, queues, shape, unshape  # noqa: E402

WHERE = (1, 1, 2)  # the host of each rank
AFTER = 5  # seconds until a rank without a sign of life is frozen
LATE = 20  # and so much for a slow machine
# Endless: it is seen how far it got. Starting is most of what a rank does here, and it is the code
# made for wide instructions that takes long.
JOB = w.ODD | {"run.steps": 1000000, "train.batch": 3, "train.microbatch": 1, "optim.lr": 1e-4,
               "train.sequence": 8, "model.layers": 1, "checkpoint.every": 5,
               "checkpoint.keep": 1000, "comm.plugin": "tcp", "device.isa": "v2",
               "run.frozen_after": AFTER}


def setUpModule():
    hosts("two_hosts")


def tearDownModule():
    hosts("no_hosts")


def count(name):
    """A counter of TCP, of both hosts."""
    return sum(int(hosts("on", host, "nstat", "-asz", name).split(name)[1].split()[0])
               for host in (1, 2))


class Tcp(Jobs):
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
            self.assertRegex(said, rf"(?m)^\S+ weft rank {rank} error: (rank {rank}, "
                                   rf"({w.PLACE}))?rank [{others}] (is frozen|gave up)")

    def test_bad_weather(self):
        """All of it during one job, which then equals one that had none of it; at the end packets
        of one side are lost, all of them. What the other side gives up for still arrives."""
        shape("netem delay 10ms")  # ranks meet in bad weather too
        self.start("bad", JOB, WHERE)
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
        steps = self.step()
        unshape()
        self.start("good", JOB, WHERE)
        self.equals("bad", steps)

    def test_cable_pulled(self):
        self.start("pulled", JOB, WHERE)
        self.until(lambda: self.step() >= 3, "starting")
        self.end_by("cable", 2, "down")

    def test_nobody_answers(self):
        """A host that is cut off from the start: the ranks that are missing are named."""
        hosts("cable", 2, "down")
        self.start("nobody", JOB | {"run.join_timeout": 2}, WHERE)
        said = self.ended(1)
        self.assertIn("rank 2", said[0])
        self.assertIn("10.0.0.1", said[2])
        self.assertFalse(os.path.exists(self.path("nobody")))


if __name__ == "__main__":
    w.main()
