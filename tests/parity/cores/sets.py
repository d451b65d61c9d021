#!/usr/bin/env python3
"""sets.py WEFT: do ranks whose machines have different instruction sets compute the same?

A rank whose oneDNN is limited by its environment stands for an older machine. Copies of parameters
and states are compared after every step, and the losses are those of a job in which all ranks were
told to use the narrow set. Ranks that are told to use different sets are refused; those with
different numbers of threads compute the same."""
import os
import platform
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

NARROW = {"ONEDNN_MAX_CPU_ISA": "SSE41"}
WIDE = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
JOB = w.ODD | {"run.steps": 4, "run.verify": 1, "comm.plugin": "tcp", "train.precision": "bf16",
               "train.microbatch": 2}
WIDER = {"model.embed": 384, "model.heads": 4, "model.ffn": 1536, "model.context": 64,
         "train.sequence": 64, "train.batch": 8, "train.microbatch": 4, "device.pin": "off"}
# Those whose updates, or whose replicated parts of the model, rounded differently.
JOBS = [{"optim.rule": "muon"}, {"optim.rule": "adafactor"}, {"optim.rule": "lamb"},
        {"optim.placement": "zero2"}, {"train.precision": "fp32"}, {"parallel.strategy": "tp",
        "model.heads": 2, "parallel.sequence": "on"}]


@unittest.skipUnless(platform.machine() == "x86_64", "other processors have one set of kernels")
class Sets(w.Bench):
    def ranks(self, out, job, places):
        """[(status, what it said)] of ranks that differ in (variables, words)."""
        w.weft("key", "-o", self.path(out + ".key"))
        job = JOB | job | {"run.key": self.path(out + ".key")}
        port, running = str(w.free_port()), []
        for rank, (variables, words) in enumerate(places):
            extra = variables | {"RANK": str(rank), "WORLD_SIZE": str(len(places)),
                                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            running.append(subprocess.Popen(
                [w.WEFT, "train", self.ini, *self.options(out, job), *words],
                env=w.environment(extra), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True))
            self.addCleanup(running[-1].wait)
            self.addCleanup(running[-1].kill)
        ends = [(r.communicate(timeout=w.TIMEOUT)[1], r.returncode) for r in running]
        for said, _ in ends:
            self.assertNotRegex(said, w.SANITIZERS)
        return [(status, said) for said, status in ends]

    def test_the_widest_that_all_have(self):
        for number, job in enumerate(JOBS):
            with self.subTest(**job):
                mixed, alike = f"mixed{number}", f"alike{number}"
                ends = self.ranks(mixed, job, [(WIDE, []), (NARROW, [])])
                self.assertEqual([status for status, _ in ends], [0, 0], ends)
                if "avx2" in w.read_text("/proc/cpuinfo"):
                    self.assertIn("all compute with the kernels v2, since rank 1 has no v3, which "
                                  "rank 0 has", ends[0][1])
                self.train(alike, JOB | job | {"device.isa": "v2"}, ranks=2)
                for one, two in zip(w.metrics(self.path(mixed)), w.metrics(self.path(alike))):
                    self.assertEqual((one["loss"], one["grad_norm"]),
                                     (two["loss"], two["grad_norm"]))

    def test_other_numbers_of_threads(self):
        """A rank with more threads cuts its products elsewhere, and computes the same bits."""
        for number, job in enumerate(({"optim.rule": "muon"}, {"optim.rule": "lamb"})):
            ends = self.ranks(f"threads{number}", WIDER | job,
                              [({}, ["device.threads=1"]), ({}, ["device.threads=3"])])
            self.assertEqual([status for status, _ in ends], [0, 0], ends)

    def test_named_sets_have_to_agree(self):
        if "avx2" not in w.read_text("/proc/cpuinfo"):
            self.skipTest("this machine has one set of kernels")
        ends = self.ranks("named", {}, [({}, ["device.isa=v2"]), ({}, ["device.isa=v3"])])
        for status, said in ends:
            self.assertEqual(status, 2, said)
            self.assertIn("rank 1 may compute with the kernels v3 alone, and ranks before it with "
                          "v2: ", said)
        status, said = self.ranks("limited", {}, [({}, []), (NARROW, ["device.isa=v3"])])[1]
        self.assertEqual(status, 77, said)
        self.assertIn("device.isa = v3, but this CPU, or ONEDNN_MAX_CPU_ISA, has v2 at most", said)


if __name__ == "__main__":
    w.main()
