#!/usr/bin/env python3
"""machines.py WEFT: is a job over several machines the job that one rank computes?

Two hosts are two network namespaces with a cable (tests/lab/hosts.sh); without the right to make
them it ends with 77. Four ranks, two on each: `auto` takes one transport inside the machines and
one between them, and says why not others, also when a rank lacks one; the losses are those of one
rank; what crosses the cable is what the plan says; a rank that dies is named on both machines."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import traces
import weft_jobs as w

HOSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab", "hosts.sh")
JOB = w.EVEN | {"train.batch": 8, "train.microbatch": 1, "run.steps": 20,
                "train.accumulate": "fp32", "run.join_timeout": 300}


def hosts(*words, **how):
    return subprocess.run(["bash", HOSTS, *words], capture_output=True, text=True, **how)


class Machines(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        hosts("no_hosts")
        made = hosts("two_hosts") if os.geteuid() == 0 else None
        if not made or made.returncode:
            print("two hosts cannot be made here:", made and made.stderr.strip())
            os._exit(77)
        cls.addClassCleanup(hosts, "no_hosts")

    def begin(self, out, job, machines=(1, 1, 2, 2), programs=None):
        """The ranks, each started on its machine; programs: other words than WEFT for some."""
        return self.launch(out, ["train", self.ini, *self.options(out, job)], machines, programs)

    def measure(self, keys, machines):
        """What rank 0 of `weft bench comm` says."""
        words = ["bench", "comm", "comm.plugin=auto", *(f"{k}={v}" for k, v in keys.items())]
        status, said = self.end(self.launch("bench", words, machines))
        self.assertEqual(status, [0] * len(status), "\n".join(said))
        return said[0]

    def launch(self, out, command, machines, programs=None):
        self.path_of = [self.path(f"{out}.{r}.log") for r in range(len(machines))]
        shutil.rmtree(self.path(out), ignore_errors=True)
        ranks = []
        for rank, host in enumerate(machines):
            words = ["bash", HOSTS, "on", host, *(programs or {}).get(rank, [w.WEFT]), *command,
                     f"run.key={self.key_file()}"]
            place = w.place_of(rank, len(machines), 7171, "10.0.0.1", machines)
            ranks.append(self.by_hand(words, place, self.path_of[rank]))
        return ranks

    def end(self, ranks):
        """Each rank's status, and what it said."""
        status = [p.wait(w.TIMEOUT) for p in ranks]
        said = []
        for path in self.path_of:
            with open(path, encoding="utf-8", errors="replace") as f:
                said.append(f.read())
        return status, said

    def run_job(self, out, job, **how):
        status, said = self.end(self.begin(out, job, **how))
        self.assertEqual(status, [0] * len(status), "\n".join(said))
        return said

    def crossed(self, host):
        """Bytes that the host has put on the cable."""
        at = f"/sys/class/net/v{host}/statistics/tx_bytes"
        return int(hosts("on", str(host), "cat", at, check=True).stdout)

    def alike(self, out, reference):
        ours, theirs = w.metrics(self.path(out)), w.metrics(self.path(reference))
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertLess(abs(a["loss"] - b["loss"]), 1e-4)
            self.assertLess(abs(a["grad_norm"] - b["grad_norm"]), 1e-3)

    def test_layouts_over_two_machines(self):
        self.train("one", JOB | {"parallel.strategy": "none"})
        cases = (
            ({}, (1, 1, 2, 2), "shm inside", "tcp between"),
            ({"comm.algorithm": "ring"}, (1, 2, 1, 2), "shm inside", "tcp between"),
            ({"optim.placement": "zero3"}, (1, 2, 2, 2), "shm inside", "tcp between"),
            ({"parallel.strategy": "tp, dp", "parallel.tp": 2}, (1, 1, 2, 2), "dp over tcp",
             "tp over shm"),
            ({"parallel.strategy": "pp, dp", "parallel.pp": 2}, (1, 2, 2, 1), "over tcp"),
            ({"comm.plugin": "tcp", "comm.intra": "shm"}, (1, 1, 2, 2)),
        )
        for number, (change, machines, *words) in enumerate(cases):
            with self.subTest(change=change, machines=machines):
                said = self.run_job("many", JOB | change, machines=machines)
                self.alike("many", "one")
                for word in words:
                    self.assertRegex(said[0], rf"(?m)^.*transport: .*{word}")

    def test_compressed(self):
        """In int8 about a quarter crosses the cable, where it is summed inside machines first."""
        base = JOB | {"model.embed": 64, "model.ffn": 256, "run.steps": 10}
        for placement, machines in (("none", (1, 1, 2, 2)), ("zero2", (1, 2, 2, 2))):
            crossed = []
            for form in ("none", "int8"):
                before = self.crossed(1) + self.crossed(2)
                self.run_job(form, base | {"comm.compress": form, "optim.placement": placement,
                                           "train.microbatch": 2}, machines=machines)
                crossed.append(self.crossed(1) + self.crossed(2) - before)
            print(f"{placement}: {crossed[1] / crossed[0]:.3f} of the bytes")
            self.assertLess(crossed[1], crossed[0] * (0.4 if placement == "none" else 0.7))
            for a, b in zip(*(w.metrics(self.path(x)) for x in ("none", "int8"))):
                self.assertLess(abs(a["loss"] - b["loss"]), 2e-3)

    def test_bytes_on_the_cable(self):
        """An all-reduce between two machines takes its own size from each, whatever the ranks."""
        job = JOB | {"model.embed": 64, "model.ffn": 256, "run.steps": 10}
        before = [self.crossed(1), self.crossed(2)]
        said = self.run_job("bytes", job)
        sent = [self.crossed(1) - before[0], self.crossed(2) - before[1]]
        plan = w.weft("plan", "-n", 4, "--machines", 2, self.ini, "--list",
                      *self.options("bytes", job)).stdout
        sums = re.findall(r"all-reduce of gradients .*\(hierarchical\): (\d+) elements", plan)
        self.assertTrue(sums, plan)
        want = 10 * 4 * sum(map(int, sums))
        for host, bytes_sent in enumerate(sent):
            self.assertGreaterEqual(bytes_sent, want, said)
            self.assertLess(bytes_sent, 1.15 * want + 200000)  # headers, rendezvous, scalars
        print(f"each machine was to send {want} bytes of gradients, and sent {sent}")

    def test_narrow_cable(self):
        """4 + 4 ranks over 200 Mbit/s: hierarchical sends what its formula says, a ring over all
        ranks 7/4 of it, and is the slower by about as much."""
        late = "netem delay 1ms rate 200mbit limit 10000".split()  # not every kernel has it
        for host in ("1", "2"):
            if hosts("shape", host, *late).returncode:
                late = "tbf rate 200mbit burst 64kb latency 50ms".split()
                hosts("shape", host, *late, check=True)
            self.addCleanup(hosts, "unshape", host)
        sent, took = {}, {}
        for algorithm in ("hierarchical", "ring"):
            before = self.crossed(1)
            said = self.measure({"comm.algorithm": algorithm, "bench.op": "all_reduce",
                                 "bench.min": "4M", "bench.max": "4M"}, (1, 1, 1, 1, 2, 2, 2, 2))
            sent[algorithm] = self.crossed(1) - before
            took[algorithm] = float(re.search(r"(?m)^ *4194304 .* all_reduce +(\S+)", said)[1])
        ratios = [x["ring"] / x["hierarchical"] for x in (sent, took)]
        print(f"4 + 4 ranks, {late[0]}: a ring sends {ratios[0]:.2f} times the bytes of "
              f"hierarchical, and takes {ratios[1]:.2f} times its "
              f"{took['hierarchical'] / 1000:.0f} ms for 4 MiB")
        self.assertAlmostEqual(ratios[0], 7 / 4, delta=0.05)
        if w.TIMED:
            self.assertGreater(ratios[1], 1.2)

    def test_tuning_both_transports(self):
        """Each is measured where it is used, and the costs are taken by a job over both."""
        tuned = self.path("tuned.ini")
        words = ["tune", "comm", self.ini, *self.options("tuned", JOB), "-o", tuned,
                 "tune.op=all_reduce", "tune.min=4K", "tune.max=4K", "tune.seconds=0.003",
                 "tune.passes=1"]
        status, said = self.end(self.launch("tune", words, (1, 2, 2, 2)))
        self.assertEqual(status, [0] * 4, "\n".join(said))
        self.assertIn("# shm+tcp on mesh axis dp, 4 ranks", said[0])
        self.assertRegex(said[0], r"all_reduce +4096 +hierarchical +\S+ +\d")
        with open(tuned, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(re.findall(r"(?m)^\[(.*)\]", text), ["comm", "comm.shm", "comm.tcp"])
        self.train("one", JOB | {"parallel.strategy": "none"})
        self.run_job("tuned", JOB | {"comm.tuned": tuned})
        self.alike("tuned", "one")

    def test_what_one_rank_lacks_nobody_takes(self):
        """Shared memory is not installed for rank 3: none uses it, and the log says why."""
        other = self.path("other")
        os.makedirs(os.path.join(other, "bin"))
        shutil.copy(w.WEFT, os.path.join(other, "bin", "weft"))
        shutil.copytree(os.path.join(os.path.dirname(w.WEFT), "..", "lib"),
                        os.path.join(other, "lib"), ignore=shutil.ignore_patterns("shm.so"))
        said = self.run_job("lack", JOB | {"run.steps": 3, "log.level": "debug"},
                            programs={3: [os.path.join(other, "bin", "weft")]})
        self.assertIn("dp over tcp inside machines", said[0])
        self.assertIn("not shm: on rank 3 it is not installed", said[0])

    def test_trace_of_hosts_booted_a_day_apart(self):
        if not traces.can_shift():
            self.skipTest("no time namespaces, or not the right to make one")
        traces.check_clocks(self, self.trace_apart, shifted={2, 3})

    def trace_apart(self):
        self.run_job("apart", JOB | {"log.trace_steps": "3-5"},
                     programs={r: [*traces.SHIFTED, w.WEFT] for r in (2, 3)})
        return traces.check(self, self.path("apart", "trace.json"))

    def test_a_rank_that_dies_is_named_on_both(self):
        ranks = self.begin("dead", JOB | {"run.steps": 10**8, "optim.lr": 1e-4})
        limit = time.monotonic() + w.TIMEOUT
        metrics = self.path("dead", "metrics.jsonl")
        while not (os.path.exists(metrics) and os.path.getsize(metrics) > 2000):
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.01)
        began = time.monotonic()
        os.kill(ranks[2].pid, signal.SIGKILL)
        status, said = self.end(ranks)
        self.assertLess(time.monotonic() - began, w.patience(5))
        for rank in (0, 1, 3):
            self.assertEqual(status[rank], 1, said[rank])
            self.assertRegex(said[rank], r"rank 2 .*")


if __name__ == "__main__":
    if os.environ.get("WEFT_HOSTS") != "apart":  # so that two of this may run at the same time
        os.execvp("bash", ["bash", HOSTS, "apart", sys.executable, "-B", *sys.argv])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
