#!/usr/bin/env python3
"""lab.py WEFT PROGRAMS: does ucx carry jobs over RDMA? For root, in the lab: two hosts with a
soft-RoCE device each.

The transport's contract and every collective, with the programs in the folder PROGRAMS; a job with
ranks on both hosts, whose bytes cross as RDMA and whose bits are those of the job over tcp; and a
rank that is killed.

UD of UCX 1.13, which RC needs to connect, does not accept what soft-RoCE receives with an IPv4
address. So all ranks take the device's IPv6 address."""
import glob
import os
import re
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "parity"), os.path.join(HERE, "..", "lab")]
import jobs as lab  # noqa: E402  (tests/lab/jobs.py)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PROGRAMS = sys.argv.pop(2)
AFTER = 4  # seconds until a rank without a sign of life is frozen
JOB = w.EVEN | {"model.layers": 1, "model.heads": 2, "model.embed": 16, "model.ffn": 32,
                "model.context": 8, "train.batch": 6, "train.microbatch": 1, "train.sequence": 8,
                "device.isa": "v2", "optim.lr": 1e-4, "run.frozen_after": AFTER,
                "run.steps": 10**8, "checkpoint.every": 5, "checkpoint.keep": 1000,
                "comm.algorithm": "ring"}
PORT = "/sys/class/infiniband/r{}/ports/1/"


def setUpModule():
    lab.hosts("two_rdma_hosts")
    with open("/proc/sys/kernel/printk", "w", encoding="ascii") as f:
        f.write("1")
    found = [{int(os.path.basename(x)) for x in glob.glob(PORT.format(host) + "gids/*")
              if w.read_text(x).startswith("fe80:")} for host in (1, 2)]
    os.environ["UCX_IB_GID_INDEX"] = str(min(found[0] & found[1]))


def tearDownModule():
    lab.hosts("no_hosts", check=False)


def packets():
    """That each host's device has sent."""
    return [int(w.read_text(PORT.format(host) + "hw_counters/sent_pkts")) for host in (1, 2)]


class Programs(unittest.TestCase):
    """Each is a test program that ends with 0 where nothing is wrong."""

    def passes(self, program, *words):
        before, began = packets(), time.monotonic()
        done = subprocess.run([os.path.join(PROGRAMS, program), *words], timeout=120,
                              capture_output=True, text=True, errors="replace", check=False)
        sent = packets()[0] - before[0]
        print(f"{program}: {time.monotonic() - began:.1f} s, {sent} packets", flush=True)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-6000:])
        self.assertGreater(sent, 1000)

    def test_contract(self):
        plugin = os.path.join(PROGRAMS, "..", "lib", "weft", "comm", "ucx.so")
        self.passes("weft-check", plugin, "--only", "105,107-110,112,190",
                    "--set", "tls=rc", "--set", "devices=r1:1")

    def test_collectives(self):
        self.passes("comm_links_test", "ucx", "comm.ucx.tls=rc", "comm.ucx.devices=r1:1")


class Jobs(lab.Jobs):
    def own(self, host, job):
        return {"comm.ucx.devices": f"r{host}:1"} if job["comm.plugin"] == "ucx" else {}

    def test_bits(self):
        """Three ranks, two of them on one host; then rank 1 is killed, and the others name it."""
        before = packets()
        self.start("ucx", JOB | {"comm.plugin": "ucx", "comm.ucx.tls": "rc"}, (1, 2, 2))
        self.until(lambda: self.step() >= 12, "starting")
        planned, done = w.metrics(self.path("ucx"))[0]["comm_bytes"], self.step()
        sent = [x - y for x, y in zip(packets(), before)]
        print(f"{planned} bytes a step, {done} steps: {sent} packets", flush=True)
        for count in sent:
            self.assertGreater(count, done * planned / 4096)
        self.kill_rank_1(AFTER + 40)
        steps = self.step()
        self.start("tcp", JOB | {"comm.plugin": "tcp"}, (1, 2, 2))
        self.equals("ucx", steps)

    def test_score(self):
        """Where a site has tuned UCX and it has RDMA, `auto` prefers it to sockets."""
        for tls, between in (("rc", 85), ("tcp", 5)):
            said = " ".join(w.weft("doctor", status=None, extra={
                "UCX_TLS": tls, "UCX_NET_DEVICES": "r1:1" if tls == "rc" else "all"})
                .stdout.split())
            self.assertIn("comm ucx: can be used; its score for `auto` is 5 inside a machine and "
                          f"{between} between machines", said)

    def test_no_device(self):
        """What UCX cannot find is said, with the keys."""
        done = w.weft("train", "-n", "2", self.ini,
                      *self.options("no", JOB | {"comm.plugin": "ucx", "comm.ucx.tls": "rc",
                                                 "comm.ucx.devices": "r9:1"}),
                      status=None, extra=lab.NARROW)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\[comm\.ucx\] tls and devices")
        print(re.sub(r"\s+", " ", done.stderr).strip()[:300])


if __name__ == "__main__":
    w.main()
