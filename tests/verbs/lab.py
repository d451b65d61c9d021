#!/usr/bin/env python3
"""lab.py WEFT PROGRAMS SANITIZED: does verbs do on real devices what it promises? For root, in the
lab: two hosts with a soft-RoCE device each.

The checks of sdk/check/link and the collectives of tests/comm, with the programs in the folder
PROGRAMS and, as far as memory is concerned, with those in SANITIZED. Then jobs with ranks on both
hosts: as many bytes on the cable as the plan says, in good weather and in bad the bits of the same
job over tcp; a rank that dies, a cable that is pulled; and what cannot be, in words.

About a minute. Without WEFT_LAB in the environment, which the lab sets, the programs take their
full time (every collective with every type and count), and configurations of configs/ are run
too."""
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

PROGRAMS, SANITIZED = sys.argv[2:4]
del sys.argv[2:4]
BRIEF = "WEFT_LAB" in os.environ
CONFIGS = os.path.join(HERE, "..", "..", "configs")
AFTER = 4  # seconds until a rank without a sign of life is frozen
# Small, and none of the code for wide instructions, which an emulator takes long for.
SMALL = {"model.layers": 1, "model.heads": 2, "model.embed": 16, "model.ffn": 32,
         "model.context": 8, "train.batch": 6, "train.microbatch": 1, "train.sequence": 8,
         "device.isa": "v2", "device.threads": 1, "log.peak_gflops": 1, "log.progress": 0,
         "run.frozen_after": AFTER}
ENDLESS = w.EVEN | SMALL | {"comm.plugin": "verbs", "comm.algorithm": "ring", "optim.lr": 1e-4,
                            "run.steps": 10**8, "checkpoint.every": 0}
SAVED = {"checkpoint.every": 5, "checkpoint.keep": 1000}


def setUpModule():
    lab.hosts("two_rdma_hosts")
    with open("/proc/sys/kernel/printk", "w", encoding="ascii") as f:
        f.write("1")


def tearDownModule():
    lab.hosts("no_hosts", check=False)


def counters(name):
    """Of each host's device."""
    return [int(w.read_text(f"/sys/class/infiniband/r{host}/ports/1/hw_counters/{name}"))
            for host in (1, 2)]


def on_the_cable():
    """Bytes that each host has sent over it, by RDMA and otherwise."""
    return [int(w.read_text(f"/sys/class/net/v{host}/statistics/tx_bytes")) for host in (1, 2)]


def sent_again():
    return sum(counters("completer_retry_err"))


class Programs(unittest.TestCase):
    """Each is a test program that ends with 0 where nothing is wrong."""

    def passes(self, folder, program, *words, limit=120):
        plugin = os.path.join(folder, "..", "lib", "weft", "comm", "verbs.so")
        plugin = ["verbs"] if program.startswith("comm") else [plugin]
        began = time.monotonic()
        done = subprocess.run([os.path.join(folder, program), *plugin, *words], timeout=limit,
                              capture_output=True, text=True, errors="replace")
        said = done.stdout + done.stderr
        print(f"{program}: {time.monotonic() - began:.1f} s", flush=True)
        self.assertEqual(done.returncode, 0, said[-6000:])
        self.assertIsNone(w.SANITIZERS.search(said), said[-6000:])
        return said

    def test_links(self):
        """The contract of a link, without checks for which the lab is too slow: 102 and 119 measure
        calls, and 106 moves more than 4 GiB."""
        said = self.passes(PROGRAMS, "weft-check", "--only",
                           "57,101,103-105,107-118,120,121,125,126,190",
                           "--set", "devices=r1", "--set", "qps=2")
        self.assertNotIn("check 105 (link): not applicable", said)

    def test_collectives(self):
        self.passes(PROGRAMS, "comm_links_test", "comm.verbs.devices=r1",
                    limit=120 if BRIEF else 900)

    def test_memory(self):
        """Where both ends or one is registered, where a process dies, where mistakes are made:
        nothing is touched that must not be, nothing is left."""
        said = self.passes(SANITIZED, "verbs_device_test")
        print("\n".join(x for x in said.splitlines() if "rank" in x or "limit" in x))
        self.passes(SANITIZED, "links_process_test", "devices=r2")
        # Soft-RoCE of 6.1 may answer a packet that it gets twice, of several queue pairs at work,
        # with "remote invalid request": nothing is to be sent again only because it took long.
        self.passes(SANITIZED, "links_region_test", "devices=r1,r2", "timeout=2")


class Jobs(lab.Jobs):
    def own(self, host, job):
        return {"comm.verbs.devices": f"r{host}"} if job["comm.plugin"] == "verbs" else {}

    def test_bytes_and_bits(self):
        """One job: in good weather, in bad, and until a rank is killed. It equals one over tcp."""
        before = counters("sent_pkts"), on_the_cable()
        self.start("verbs", ENDLESS | SAVED | {"comm.verbs.timeout": 0.1}, (1, 2, 2))
        self.until(lambda: self.step() >= 6, "starting")
        self.bytes_as_planned(*before)
        lab.shape("netem delay 10ms loss 1%")
        first, again = self.step(), sent_again()
        self.until(lambda: self.step() > first + 5 and sent_again() > again
                   and lab.queues("dropped") > 0, "bad weather")
        print(f"{self.step() - first} steps in bad weather, {sent_again() - again} times "
              "something was sent again", flush=True)
        self.kill_rank_1(AFTER + 40)
        steps = self.step()
        lab.unshape()
        self.start("tcp", ENDLESS | SAVED | {"comm.plugin": "tcp"}, (1, 2, 2))
        self.equals("verbs", steps)

    def bytes_as_planned(self, packets_before, bytes_before):
        """Of the ring of ranks 0, 1 and 2 each host sends to the other what one rank sends, in
        packets of 4096 bytes at most."""
        planned = w.metrics(self.path("verbs"))[0]["comm_bytes"]
        done = self.step()
        crossed = [x - y for x, y in zip(on_the_cable(), bytes_before)]
        most = self.step() + 1
        sent = [x - y for x, y in zip(counters("sent_pkts"), packets_before)]
        print(f"{planned} bytes a step, {done} to {most} steps: {crossed} bytes on the cable, "
              f"then {sent} packets", flush=True)
        for host in (0, 1):
            self.assertGreater(crossed[host], done * planned)
            self.assertLess(crossed[host], 1.2 * most * planned + 50000)  # headers; starting
            self.assertGreater(sent[host], done * planned / 4096)

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

    def test_auto_takes_what_reaches(self):
        """verbs where each rank has a port with its address, tcp where one has not. Soft-RoCE of
        6.1 has both hosts in one network, where a rank's address may be the other's."""
        job = SMALL | w.EVEN | {"comm.plugin": "auto", "run.steps": 2, "checkpoint.every": 0,
                           "log.level": "debug"}
        for best in ("verbs", "tcp"):
            self.start(best, job, (1, 2))
            for rank in self.ranks:
                rank.wait(w.TIMEOUT)
            line = re.search("transport: dp over .*", self.said(0)).group()
            print(line, flush=True)
            self.assertIn(f"dp over {best} between machines", line)
            self.assertEqual([x.returncode for x in self.ranks], [0, 0], self.said(0))
            if best == "verbs":
                self.hide_host_2s_device()
        self.assertRegex(self.said(0), r"not verbs: on rank \d .*no active port .*10\.0\.0\.2")

    def hide_host_2s_device(self):
        def back():
            lab.hosts("on", 2, "rdma", "link", "add", "r2", "type", "rxe", "netdev", "v2")
            subprocess.run(["bash", "-c", f". {lab.HOSTS}; until has_gid 2; do sleep 0.1; done"],
                           check=True, timeout=w.TIMEOUT)
        lab.hosts("on", 2, "rdma", "link", "delete", "r2")
        self.addCleanup(back)

    def test_a_cable_is_pulled(self):
        self.start("pulled", ENDLESS, (1, 2))
        self.until(lambda: self.step() >= 3, "starting")
        lab.hosts("cable", 2, "down")
        for rank, said in enumerate(self.over_within(AFTER + 40, (0, 1))):
            self.assertRegex(said, rf"weft rank {rank} error: .*rank {1 - rank} |port 1 of RDMA")

    def test_what_cannot_be(self):
        poor = ["prlimit", "--memlock=1000000", "setpriv", "--reuid=65534", "--clear-groups",
                "--bounding-set=-all"]
        large = {"model.vocab": 70000, "model.embed": 32, "comm.verbs.devices": "r1"}
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
                     *self.options("cannot/out", ENDLESS | change)],
                    env=w.environment(lab.NARROW), capture_output=True, text=True,
                    timeout=w.TIMEOUT)
                self.assertEqual(done.returncode, status, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)
                print(re.sub(r"\s+", " ", done.stderr).strip()[:300])


if __name__ == "__main__":
    w.main()
