#!/usr/bin/env python3
"""sets.py WEFT: do ranks whose machines have different instruction sets compute the same?

A rank whose oneDNN is limited by its environment stands for an older machine. Copies of parameters
and states are compared after every step, and the losses are those of a job in which all ranks were
told to use the narrow set. Ranks that are told to use different sets are refused; different numbers
of threads compute the same at widths where a product's sums are not divided."""
import itertools
import os
import platform
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

# The sets of kernels from the narrowest on, and what limits oneDNN to each.
LIMITS = {"v2": "SSE41", "v3": "AVX2", "v4": "AVX512_CORE", "v4bf16": "AVX512_CORE_BF16",
          "v4amx": "AVX512_CORE_AMX"}
NARROW = {"ONEDNN_MAX_CPU_ISA": "SSE41"}
JOB = w.ODD | {"run.steps": 4, "run.verify": 1, "comm.plugin": "tcp", "train.precision": "bf16",
               "train.microbatch": 2}
WIDER = {"model.embed": 384, "model.heads": 4, "model.ffn": 1536, "model.context": 64,
         "train.sequence": 64, "train.batch": 8, "train.microbatch": 4, "device.pin": "off"}
# Those whose updates, or whose replicated parts of the model, rounded differently.
JOBS = [{"optim.rule": "muon"}, {"optim.rule": "adafactor"}, {"optim.rule": "lamb"},
        {"optim.placement": "zero2"}, {"train.precision": "fp32"}, {"parallel.strategy": "tp",
        "model.heads": 2, "parallel.sequence": "on"}]
MORE = [{"optim.rule": rule} for rule in ("adam", "adam8", "adamw", "sgd")] + [
    {"optim.placement": "zero1"}, {"optim.placement": "zero3"}]


@unittest.skipUnless(platform.machine() == "x86_64", "other processors have one set of kernels")
class Sets(w.Bench):
    def ranks(self, out, job, places):
        """[(status, what it said)] of ranks that differ in (variables, words)."""
        port, command = w.free_port(), self.command(out, JOB | job | {"run.key": self.key_file()})
        ended = w.ends([
            self.by_hand(command + words, variables | w.place_of(rank, len(places), port))
            for rank, (variables, words) in enumerate(places)])
        for _, said in ended:
            self.assertNotRegex(said, w.SANITIZERS)
        return ended

    def here(self):
        """The sets that this machine has."""
        return [name for name in LIMITS if subprocess.run(
            [w.WEFT, "plan", self.ini, *self.options("plan", JOB | {"device.isa": name})],
            env=w.environment({}), capture_output=True, check=False).returncode == 0]

    def test_the_widest_that_all_have(self):
        """Of one pair here; of all pairs, with all update rules, where the whole is asked for."""
        have = self.here()
        pairs = itertools.permutations(have, 2) if w.WHOLE else [have[1::-1]]
        for number, (pair, job) in enumerate(
                itertools.product(pairs, JOBS + MORE if w.WHOLE else JOBS)):
            mixed = f"mixed{number}"
            with self.subTest(pair=pair, **job):
                narrow, wide = sorted(pair, key=have.index) if len(pair) > 1 else pair * 2
                ends = self.ranks(mixed, job, [({"ONEDNN_MAX_CPU_ISA": LIMITS[name]}, [])
                                               for name in pair])
                self.assertEqual([status for status, _ in ends], [0, 0], ends)
                if narrow != wide:
                    self.assertIn(f"all compute with the kernels {narrow}, since rank "
                                  f"{pair.index(narrow)} has no ", ends[0][1])
                self.train("alike", JOB | job | {"device.isa": narrow}, ranks=2)
                self.assertEqual(len(w.metrics(self.path(mixed))), 4)
                for one, two in zip(w.metrics(self.path(mixed)), w.metrics(self.path("alike"))):
                    self.assertEqual((one["loss"], one["grad_norm"]),
                                     (two["loss"], two["grad_norm"]))

    def test_other_numbers_of_threads(self):
        """A rank with more threads cuts its products elsewhere, and computes the same bits here.
        The library may divide a sum by the size of its part: at other widths (400, 768) products of
        Muon differ in their last bits, and the check of the copies says so."""
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
