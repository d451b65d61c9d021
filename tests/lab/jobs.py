"""jobs.py: jobs whose ranks are on two hosts with a cable between them (hosts.sh), and what is done
to the network meanwhile. For root, in the lab; imported by scripts as tests/parity/weft_jobs.py is.
"""
import glob
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

HOSTS = os.path.join(HERE, "hosts.sh")
# Code made for wide instructions is what an emulator takes long for.
NARROW = {"ONEDNN_MAX_CPU_ISA": "SSE41"}


def hosts(*words, check=True):
    return subprocess.run(["bash", HOSTS, *map(str, words)], check=check, capture_output=True,
                          text=True).stdout


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


class Jobs(w.Bench):
    port = 5000
    variables, more = NARROW, ()  # of all ranks, and words

    def tearDown(self):
        for host in (1, 2):
            hosts("cable", host, "up")
        unshape()

    def own(self, _host, _job):
        """What the ranks of a host are told besides the job."""
        return {}

    def start(self, out, job, where):
        """The ranks, each on its host."""
        Jobs.port += 1  # the last job's may be waited for still
        self.out, self.ranks = out, []
        for rank, host in enumerate(where):
            words = self.command(out, job | {"run.key": self.key_file()} | self.own(host, job))
            place = w.place_of(rank, len(where), Jobs.port, "10.0.0.1", where)
            self.ranks.append(self.by_hand(["bash", HOSTS, "on", host, *words, *self.more],
                                           self.variables | place,
                                           self.path(f"{out}.{rank}.log")))

    def said(self, rank):
        return w.read_text(self.path(f"{self.out}.{rank}.log"))

    def ended(self, status, ranks=None):
        """These ranks, or all, end with `status`; returns what each said."""
        ranks = range(len(self.ranks)) if ranks is None else ranks
        for rank in ranks:
            self.ranks[rank].wait(w.TIMEOUT)
            self.assertEqual(self.ranks[rank].returncode, status, f"rank {rank}: {self.said(rank)}")
        return [self.said(rank) for rank in ranks]

    def over_within(self, seconds, ranks):
        """These ranks end with 1, so soon; returns what each said."""
        began = time.monotonic()
        said = self.ended(1, ranks)
        took = time.monotonic() - began
        print(f"{self.out}: over after {took:.1f} s: {said[0][-250:]}", flush=True)
        self.assertLess(took, seconds)
        return said

    def kill_rank_1(self, seconds):
        """Of three; the others name it."""
        pids = [int(pid) for pid in map(os.path.basename, glob.glob("/proc/[0-9]*"))
                if "\0RANK=1\0" in "\0" + w.read_text(f"/proc/{pid}/environ")
                and os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(w.WEFT)]
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], signal.SIGKILL)
        for said in self.over_within(seconds, (0, 2)):
            self.assertRegex(said, r"weft rank \d error: .*rank 1 ")

    def step(self):
        """The last one that is done."""
        return w.read_text(os.path.join(self.path(self.out), "metrics.jsonl")).count("\n")

    def until(self, true, what):
        limit = time.monotonic() + 3 * w.TIMEOUT
        while not true():
            self.assertLess(time.monotonic(), limit, f"{what}: {self.said(0)}")
            self.assertIsNone(self.ranks[0].poll(), f"{what}: {self.said(0)}")
            time.sleep(0.05)

    def equals(self, other, steps):
        """The job that runs gets as far as `other` did, which was saved every 5 steps, with the
        same bits; then it is killed."""
        self.until(lambda: self.step() >= steps, f"as far as {other}")
        for process in self.ranks:
            process.kill()
            process.wait()
        ours, theirs = (w.lines(self.path(out))[:steps] for out in (self.out, other))
        self.assertEqual(ours, theirs)
        saved = (steps - 2) // 5 * 5  # the last may have been cut off
        self.same_tensors(*(w.tensors(self.path(out), saved) for out in (self.out, other)))
        print(f"{steps} steps, the same bits", flush=True)
