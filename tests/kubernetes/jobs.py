#!/usr/bin/env python3
"""jobs.py WEFT: does the Job of deploy/kubernetes/job.yaml train, continue and fail as
docs/KUBERNETES.md says?

Pods and controller are those of pods.py; 77 where there is no right to make them. Only sizes and
paths of the job file are changed. What comes out has the bits of a job of weft's own launcher."""
import configparser
import io
import os
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from manifests import load  # noqa: E402
from pods import Cluster, make_network  # noqa: E402

SMALL = w.EVEN | {"run.steps": 30, "model.layers": 1, "train.microbatch": 1, "run.join_timeout": 60,
                  "checkpoint.every": 10, "checkpoint.keep": 100,
                  "data.train": "/srv/data/train.bin"}
LONG = {"run.steps": 2000, "checkpoint.every": 50}


class Kubernetes(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.chmod(cls.place, 0o755)
        w.weft("key", "-o", cls.path("key"))

    def job_file(self, config, job):
        """The job file of the manifest, with other values."""
        ini = configparser.ConfigParser()
        ini.read_string(config)
        for key, value in job.items():
            section, _, name = key.partition(".")
            if not ini.has_section(section):
                ini.add_section(section)
            ini[section][name] = str(value)
        text = io.StringIO()
        ini.write(text)
        return text.getvalue()

    def cluster(self, out, job=None, **how):
        """The manifest's Job; `ranks` pods, `mode` of the secret, `words` of the command."""
        documents = load("job.yaml")
        kinds = {d["kind"]: d for d in documents}
        spec, config = kinds["Job"]["spec"], kinds["ConfigMap"]["data"]
        pod = spec["template"]["spec"]
        job = SMALL | (job or {}) | {"run.out": f"/srv/data/{out}"}
        config["job.ini"] = self.job_file(config["job.ini"], job)
        pod["volumes"][1]["secret"]["defaultMode"] = how.pop("mode", 0o400)
        pod["containers"][0]["command"] = how.pop("words", pod["containers"][0]["command"])
        volume = self.path("data")
        os.makedirs(volume, exist_ok=True)
        if not os.path.exists(os.path.join(volume, "train.bin")):
            os.link(self.path("train.bin"), os.path.join(volume, "train.bin"))
        program = os.path.dirname(os.path.dirname(w.WEFT))
        c = Cluster(self.path("cluster-" + out), documents, program,
                    w.read_text(self.path("key")), volume=volume, **how)
        self.addCleanup(c.end)
        return c

    def reference(self, out, change):
        """The same job under weft's own launcher; it need be trained once."""
        if not os.path.exists(self.path(out)):
            job = SMALL | change | {"data.train": self.path("train.bin"), "comm.plugin": "tcp"}
            self.train(out, job, ranks=4)

    def until_step(self, c, out, step, attempt=1):
        path = self.path("data", out, "metrics.jsonl")
        c.until(lambda: os.path.exists(path) and
                any(m["step"] >= step and m["attempt"] >= attempt
                    for m in w.metrics(self.path("data", out))), 60,
                f"step {step} of attempt {attempt}")

    def same(self, out, reference, step):
        """The last checkpoint and losses: metrics may have steps twice after a restart."""
        self.same_tensors(w.tensors(self.path(reference), step),
                          w.tensors(self.path("data", out), step))

    # --- names ---

    def test_late_names(self):
        """Names come 4 s after their pods; rank 0 and the others wait, say so, and train."""
        self.reference("short", {})
        c = self.cluster("late", {"run.join_timeout": 12}, late=4)
        c.apply()
        c.until_complete()
        self.assertEqual(sorted(c.history), [(i, 0) for i in range(4)])
        self.same("late", "short", 30)
        self.assertGreater(c.names.denied["train-0.train.default.svc.cluster.local"], 8)
        for rank in range(4):
            self.assertRegex(c.said(rank), "MASTER_ADDR=train-0.train does not lead to an address "
                             r"yet: .*; it is tried until 12 s")
            self.assertRegex(c.said(rank),
                             r"MASTER_ADDR=train-0.train leads to an address after \d+\.\d s")

    def test_name_that_never_comes(self):
        c = self.cluster("never", {"run.join_timeout": 2}, late=None,
                         words=["weft", "train", "/srv/job/job.ini"])
        c.apply()
        c.until(lambda: len(c.history) >= 4, 30, "failure")
        self.assertEqual({status for _, status in c.history[:4]}, {1})
        for rank in range(4):
            self.assertRegex(c.said(rank), r"MASTER_ADDR=train-0.train did not lead to an address "
                             r"within 2 s, in \d+ tries: .*headless Service")

    def test_server_that_falls_silent(self):
        """Who knows the address of rank 0 goes on trying it while nobody answers about its name."""
        own = f"10.78.0.{10 + Cluster.started + 4}"  # of the fourth pod
        self.reference("short", {})
        c = self.cluster("silent", late=None, extra={0: {"MASTER_ADDR": own}})
        c.names.publish("train-0.train.default.svc.cluster.local", [own])
        for index in (1, 2, 3):
            c.start(index)
        c.until(lambda: c.names.asked.get("train-0.train.default.svc.cluster.local", 0) >= 6, 20,
                "lookup")
        c.names.silent = True
        time.sleep(3)
        c.start(0)
        c.until_complete(20)  # one lookup would take longer
        self.same("silent", "short", 30)

    def test_stop_while_waiting(self):
        """Pods that are drained while they wait for a name end soon, with status 1: the job has not
        begun, and 75 would hide why not."""
        c = self.cluster("drained", late=None)
        c.start(0)
        c.start(1)
        time.sleep(1)
        began = time.monotonic()
        for index in (0, 1):
            c.pods[index].send(signal.SIGTERM)
        c.until(lambda: len(c.history) == 2, 40, "end")
        self.assertLess(time.monotonic() - began, 40)
        self.assertEqual(sorted(c.history), [(0, 1), (1, 1)])

    # --- pods that end ---

    def test_drain(self):
        """One pod is told to end: all save the same step, and new pods continue from it."""
        self.reference("long", LONG)
        c = self.cluster("drain", LONG)
        c.apply()
        self.until_step(c, "drain", 20)
        c.pods[2].send(signal.SIGTERM)
        c.until_complete()
        self.assertEqual(sorted(c.history), [(i, s) for i in range(4) for s in (0, 75)])
        self.assertIn("resumed after step", c.said(0))
        self.assertEqual(c.failures, {})
        self.same("drain", "long", 2000)

    def test_lost_pods(self):
        """A pod dies, then that of rank 0. Their replacements have other addresses, and the name of
        rank 0 leads to the old one for a while; the other pods stay."""
        self.reference("long", LONG)
        c = self.cluster("lost", LONG, late=1)
        c.apply()
        self.until_step(c, "lost", 60)
        c.kill(2)
        self.until_step(c, "lost", 60, attempt=2)
        c.kill(0)
        c.until_complete()
        self.assertEqual(sorted(c.history), [(0, 0), (0, 137), (1, 0), (2, 0), (2, 137), (3, 0)])
        self.assertEqual(c.failures, {0: 1, 2: 1})
        self.assertIn("resumed after step", c.said(0))
        self.assertIn("attempt 3 of this job has begun, so attempt 1 is over", c.said(0))
        self.same("lost", "long", 2000)

    def test_wrong_request(self):
        """Status 2 ends the Job at once."""
        c = self.cluster("wrong", {"optim.rule": "nobodys"})
        c.apply()
        c.until(lambda: c.failed, 30, "failure")
        self.assertRegex(c.failed, "ended with status 2")

    # --- secrets ---

    def test_secret_that_all_may_read(self):
        c = self.cluster("open", mode=0o644)
        c.apply()
        c.until(lambda: c.failed, 30, "failure")
        self.assertRegex(c.failed, "ended with status 2")
        self.assertIn("/srv/key/key' has mode 0644: others can read it (bit 0004)", c.said())
        self.assertIn("defaultMode: 0400", c.said())

    # --- addresses ---

    def test_operators_variables(self):
        """As some operators set them: rank 0 is told localhost, the others a name, and RANK."""
        own = {i: {"RANK": str(i), "MASTER_ADDR": "localhost" if i == 0 else "train-0.train"}
               for i in range(4)}
        self.reference("short", {})
        c = self.cluster("operator", {"run.listen": "0.0.0.0"}, extra=own)
        c.apply()
        c.until_complete()
        self.same("operator", "short", 30)

    def test_version_6(self):
        """Rank 0 listens at ::, the others have a literal address and port; transports use it."""
        number = Cluster.started + 1  # of the next pod
        if subprocess.run(["ip", "-6", "addr", "show", "dev", "br0"], capture_output=True,
                          text=True, check=False).stdout.find("fd00:78::1") < 0:
            self.skipTest("this machine has no IPv6")
        own = {i: {"MASTER_ADDR": f"[fd00:78::{10 + number:x}]:29501", "MASTER_PORT": None}
               for i in range(4)}
        self.reference("short", {})
        c = self.cluster("six", {"run.listen": "::", "run.address": "fd00:78::/64"}, extra=own,
                         late=None)
        c.apply()
        c.until_complete()
        self.same("six", "short", 30)


def main():
    if os.environ.get("WEFT_PODS") != "inside":
        may = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"],
                             capture_output=True, text=True, check=False)
        if may.returncode or os.geteuid():
            print(f"pods in namespaces are not permitted here: {may.stderr.strip()}")
            return 77
        os.environ["WEFT_PODS"] = "inside"
        os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable, "-B", *sys.argv])
    try:
        make_network()
    except subprocess.CalledProcessError as e:
        print(f"pods in namespaces are not permitted here: {e.stderr.decode().strip()}")
        return 77
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
