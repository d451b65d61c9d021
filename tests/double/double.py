#!/usr/bin/env python3
"""double.py WEFT PLUGINS: does a job on the device of device.c, whose memory nobody can touch and
whose work finishes later, have the bits of the same job on the cpu?

One rank; then two and four over tcp and shm, in every kind of layout, so that all kinds of
collectives go through host memory, several at once; with checkpoints and a resumed run; and a rank
that dies or freezes while the device waits for what it was to send."""
import os
import re
import shutil
import signal
import sys
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.path.abspath(sys.argv[2])
JOB = w.EVEN | {"run.plugins": PLUGINS, "run.steps": 6, "train.batch": 8, "train.microbatch": 2,
                "train.eval_every": 3, "train.eval_batches": 1, "checkpoint.every": 3}
LAYOUTS = (
    (2, "tcp", {}),
    (2, "shm", {"optim.placement": "zero1", "train.precision": "bf16"}),
    (4, "tcp", {"optim.placement": "zero2", "train.microbatch": 1, "train.bucket_mb": 0.02}),
    (2, "tcp", {"optim.placement": "zero3", "train.bucket_mb": 0.01}),
    (2, "shm", {"parallel.strategy": "tp", "parallel.tp": 2, "parallel.sequence": "on"}),
    (2, "tcp", {"parallel.strategy": "pp", "parallel.pp": 2, "parallel.schedule": "1f1b"}),
    (4, "shm", {"parallel.strategy": "pp, dp", "parallel.pp": 2, "parallel.dp": 2,
                "parallel.schedule": "1f1b", "optim.placement": "zero1", "train.microbatch": 1}),
)
SKIP = w.NO_TIME + ("peak_bytes",)


class Double(w.Bench):
    def job(self, change, device):
        valid = {"data.valid": self.path("valid.bin")}
        return JOB | valid | dict(change) | {"device.plugin": device}

    def test_one_rank(self):
        for precision in ("fp32", "bf16", "fp16"):
            change = {"parallel.strategy": "none", "train.precision": precision}
            for device in ("cpu", "double"):
                self.train(device, self.job(change, device))
            self.same_run("cpu", "double", 6, SKIP)

    def test_layouts(self):
        for ranks, transport, change in LAYOUTS:
            with self.subTest(ranks=ranks, transport=transport, **change):
                change = change | {"comm.plugin": transport, "comm.algorithm": "pairwise"}
                for device in ("cpu", "double"):
                    self.train(device, self.job(change, device), ranks=ranks)
                self.same_run("cpu", "double", 6, SKIP)

    def test_devices_map_each_other(self):
        """What the devices do by themselves has the bits of the same on processors, in all layouts;
        the plan knows of it, to the byte."""
        for ranks, _, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                change = change | {"comm.plugin": "shm"}
                self.train("cpu", self.job(change | {"comm.algorithm": "pairwise"}, "cpu"),
                           ranks=ranks)
                said = self.train("double", self.job(change, "double"), ranks=ranks)
                self.assertRegex(said.stderr + said.stdout, "devices along mesh axis .* map each")
                self.same_run("cpu", "double", 6, SKIP + ("comm_bytes",))
                plan = self.plan(self.job(change, "double"), ranks)["ranks"][0]
                self.assertNotIn("host", plan)
                self.assertEqual(w.metrics(self.path("double"))[-1]["comm_bytes"],
                                 sum(plan["sent"].values()))

    def test_devices_that_map_only_some(self):
        """Ranks of unlike devices, and what devices cannot add, go through host memory."""
        for devices, word in ((2, "rank 0 has double 0, rank . has double 1"),
                              (0, "on rank 0 .*double: its memory is nobody else's")):
            for ranks, _, change in LAYOUTS[1], LAYOUTS[6]:
                change = change | {"comm.plugin": "shm"}
                self.train("cpu", self.job(change | {"comm.algorithm": "pairwise"}, "cpu"),
                           ranks=ranks)
                said = self.train("double", self.job(change, "double"), ranks=ranks,
                                  extra={"DOUBLE_DEVICES": str(devices)})
                self.assertRegex(said.stderr + said.stdout, f"goes through host memory.*: {word}")
                self.same_run("cpu", "double", 6, SKIP + ("comm_bytes",))
        change = {"comm.plugin": "shm", "comm.compress": "int8", "optim.placement": "zero2"}
        for device in ("cpu", "double"):
            self.train(device, self.job(change, device), ranks=2)
        self.same_run("cpu", "double", 6, SKIP + ("comm_bytes",))

    def test_a_library_of_collectives(self):
        """It adds in the order of the ranks, so that fp32 has the bits of the same over links."""
        for ranks, _, change in LAYOUTS:
            with self.subTest(ranks=ranks, **change):
                change = change | {"train.precision": "fp32"}
                self.train("cpu", self.job(change | {"comm.plugin": "shm",
                                                     "comm.algorithm": "pairwise"}, "cpu"),
                           ranks=ranks)
                said = self.train("double", self.job(change, "double"), ranks=ranks)
                self.assertRegex(said.stderr + said.stdout, "over doublecoll")
                self.same_run("cpu", "double", 6, SKIP + ("comm_bytes",))

    def test_auto_takes_the_next_best(self):
        """What is hidden is not taken; the log has what was, and why nothing better was."""
        program = self.path("program")
        shutil.copytree(os.path.dirname(w.WEFT), os.path.join(program, "bin"),
                        ignore=lambda _, names: [x for x in names if x != "weft"])
        lib = os.path.join(os.path.dirname(w.WEFT), "..", "lib")
        shutil.copytree(lib, os.path.join(program, "lib"))
        shutil.copytree(PLUGINS, self.path("plugins"))
        job = self.job({"run.plugins": self.path("plugins"), "run.steps": 1,
                        "checkpoint.every": 0, "train.eval_every": 0, "log.level": "debug"},
                       "double")
        with unittest.mock.patch.object(w, "WEFT", os.path.join(program, "bin", "weft")):
            for best, hidden in (("doublecoll", self.path("plugins", "comm", "doublecoll.so")),
                                 ("shm", os.path.join(program, "lib", "weft", "comm", "shm.so")),
                                 ("tcp", os.path.join(program, "lib", "weft", "comm", "tcp.so")),
                                 ("doublefar", None)):
                said = self.train("best", job, ranks=2)
                log = said.stdout + said.stderr
                line = re.search("transport: dp over .*", log).group()
                self.assertRegex(line, f"^transport: dp over {best} inside machines(, through|;|$)")
                self.assertIn("not self: ", log)
                self.assertRegex(log, f"dp inside machines: {best} has score [0-9]+; not ")
                if os.path.exists(os.path.join(program, "lib", "weft", "comm", "verbs.so")):
                    self.assertRegex(log, "not verbs: .*(libibverbs|device|lock)")
                self.assertEqual(best == "doublefar",
                                 ", through host memory: on rank 1 plugin weft.test.far: " in line)
                if hidden:
                    os.remove(hidden)

    def test_a_card_that_cannot(self):
        """Where one rank's card cannot reach what the others' can, all go through host memory; the
        plan of this machine alone, whose card can, has none."""
        change = {"optim.placement": "zero2", "comm.algorithm": "pairwise"}
        self.train("cpu", self.job(change | {"comm.plugin": "tcp"}, "cpu"), ranks=2)
        job = self.job(change | {"comm.plugin": "doublefar"}, "double")
        said = self.train("double", job, ranks=2)
        self.assertRegex(said.stderr + said.stdout, "dp over doublefar inside machines, "
                                                    "through host memory: on rank 1 .*the card")
        self.same_run("cpu", "double", 6, SKIP)
        self.assertNotIn("host", self.plan(job, 2)["ranks"][0])

    def test_a_library_beside_a_link(self):
        change = {"parallel.strategy": "tp, dp", "parallel.tp": 2, "parallel.dp": 2,
                  "comm.tp.plugin": "doublecoll", "comm.dp.plugin": "tcp",
                  "comm.dp.algorithm": "pairwise"}
        self.train("double", self.job(change, "double"), ranks=4)
        change |= {"comm.tp.plugin": "shm", "comm.tp.algorithm": "pairwise"}
        self.train("cpu", self.job(change, "cpu"), ranks=4)
        self.same_run("cpu", "double", 6, SKIP + ("comm_bytes",))
        refused = self.train("no", self.job({"comm.plugin": "doublecoll"}, "cpu"), ranks=2,
                             status=2)
        self.assertIn("needs a device with streams of a driver", refused.stderr)

    def test_compressed(self):
        """Steps that overflow too: what was kept is forgotten where the host has it."""
        change = {"comm.plugin": "tcp", "comm.compress": "int8", "optim.placement": "zero2",
                  "train.precision": "fp16", "train.loss_scale": 2**24}
        for device in ("cpu", "double"):
            self.train(device, self.job(change, device), ranks=2)
        self.same_run("cpu", "double", 6, SKIP)

    def test_a_library_cannot_encode(self):
        job = self.job({"comm.plugin": "doublecoll", "comm.compress": "int8"}, "double")
        refused = w.weft("plan", "-n", 2, self.ini, *self.options("plan", job), status=2)
        self.assertIn("brings its own collectives, which do not support", refused.stderr)

    def test_a_rank_dies_in_a_library(self):
        run = w.Running(self, "dead", self.job({"comm.plugin": "doublecoll"}, "double") |
                        {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0}, 2)
        run.until_step(3)
        os.kill(run.ranks()[1], 9)
        self.assertEqual(run.wait(5 * w.SLOW), 1)
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 9")

    def test_resumed(self):
        change = {"comm.plugin": "tcp"}
        self.train("whole", self.job(change, "double"), ranks=2)
        self.train("parts", self.job(change, "double") | {"run.steps": 3}, ranks=2)
        self.train("parts", self.job(change, "double"), ranks=2, resume=True)
        self.same_run("whole", "parts", 6, SKIP)

    def test_joined_ops(self):
        """Whatever chains the device joins, the bits stay; and results that only members of a chain
        read have no place."""
        jobs = ({}, w.LLAMA, {"train.recompute": "block"}, {"train.precision": "bf16"},
                {"parallel.strategy": "tp", "parallel.tp": 2, "parallel.sequence": "on"},
                {"optim.placement": "zero3", "train.bucket_mb": 0.01},
                {"parallel.strategy": "pp", "parallel.pp": 2, "parallel.schedule": "1f1b"})
        for change in jobs:
            change = change | {"comm.plugin": "tcp", "comm.algorithm": "pairwise"}
            ranks = 2 if "parallel.strategy" in change or "optim.placement" in change else 1
            self.train("cpu", self.job(change, "cpu"), ranks=ranks)
            for joins in ("none", "short", "long"):
                with self.subTest(joins=joins, **change):
                    job = self.job(change | {"device.joins": joins}, "double")
                    plan = w.weft("plan", "-n", ranks, self.ini, "--list",
                                  *self.options("plan", job)).stdout
                    names = set(re.findall(r"(?m)^ +(\S+\+\S+)", plan))
                    self.assertEqual(bool(names), joins != "none")
                    self.assertEqual("(unread)" in plan, joins != "none")
                    if joins == "long" and "model.family" not in change and ranks == 1:
                        self.assertIn("layernorm+linear+gelu", names)
                    self.train("double", job, ranks=ranks)
                    self.same_run("cpu", "double", 6, SKIP)

    def test_the_plan_has_the_host_memory(self):
        def plan(device):
            return w.weft("plan", "-n", 2, self.ini,
                          *self.options("plan", self.job({"comm.plugin": "tcp"}, device))).stdout
        self.assertNotIn("host memory", plan("cpu"))
        self.assertRegex(plan("double"), r"host memory  [0-9.]+ [KM]iB a rank")

    def test_a_rank_dies(self):
        for algorithm in ("pairwise", "mapped"):
            job = self.job({"comm.plugin": "shm", "comm.algorithm": algorithm}, "double")
            run = w.Running(self, "dead-" + algorithm, job |
                            {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0}, 2)
            run.until_step(3)
            os.kill(run.ranks()[1], 9)
            self.assertEqual(run.wait(w.patience(10)), 1)
            self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 1 was killed by signal 9")

    def test_a_device_does_not_finish(self):
        """A wait for the device has run.stuck_after, or five times what it took before."""
        flag = self.path("flag")
        run = w.Running(self, "hangs", self.job({"parallel.strategy": "none"}, "double") |
                        {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0}, 1,
                        extra={"DOUBLE_HANGS": flag})
        run.until_step(20)
        began = time.monotonic()
        with open(flag, "w", encoding="ascii") as f:
            f.write("x")
        self.assertEqual(run.wait(), 1)
        took = time.monotonic() - began
        self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 0, step \d+, entry \d+ of list "
                                     r"(step|eval), .*device double has not finished its work: .* "
                                     r"s have passed, all that run\.stuck_after allows")
        self.assertGreater(took, 2)
        self.assertLess(took, w.patience(5))

    def test_a_rank_freezes(self):
        """The devices of the others wait for flags that nobody lets them go on by any more."""
        after = 5 if w.SLOW == 1 else 15
        for algorithm in ("pairwise", "mapped"):
            job = self.job({"comm.plugin": "shm", "comm.algorithm": algorithm}, "double")
            run = w.Running(self, "frozen-" + algorithm, job |
                            {"run.steps": 10**8, "optim.lr": 1e-4, "checkpoint.every": 0,
                             "run.frozen_after": after}, 4)
            run.until_step(3)
            os.kill(run.ranks()[2], signal.SIGSTOP)
            self.assertEqual(run.wait(after + w.patience(5)), 1)
            self.assertRegex(run.said(), r"(?m)^\S+ weft error: rank 2 is frozen")
            for rank in (0, 1, 3):
                self.assertRegex(run.said(), rf"(?m)^\S+ weft error: rank {rank}, ({w.PLACE})"
                                             "rank 2 is frozen")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
