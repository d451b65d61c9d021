#!/usr/bin/env python3
"""resume.py WEFT: does a run that was cut off and resumed end where an uninterrupted one ends?

Bit for bit on the same layout: every line of metrics.jsonl but its times, and every tensor of the
last checkpoint, whoever was killed and when; layouts.py resumes on other layouts. What cannot be
resumed is refused with status 2 and left as it was."""
import glob
import hashlib
import json
import math
import os
import random
import shutil
import signal
import struct
import time

import weft_jobs as w

LONG = w.ODD | {"run.steps": 400, "checkpoint.every": 50, "train.eval_every": 30,
                "train.eval_batches": 1, "optim.lr": 1e-3, "optim.warmup": 40}
SHORT = w.ODD | {"run.steps": 10, "checkpoint.every": 5, "optim.schedule": "constant",
                 "checkpoint.keep": 0, "comm.plugin": "tcp"}


def kill_launcher(run):
    run.process.kill()


def kill_some_rank(run):
    ranks = run.ranks()
    if ranks:
        os.kill(random.choice(list(ranks.values())), signal.SIGKILL)


def stop(run):
    run.process.send_signal(signal.SIGTERM)


class Resume(w.Bench):
    def tree(self, out):
        """Every file of a run with its bytes."""
        found = {}
        for base, _, names in os.walk(self.path(out)):
            for name in names:
                with open(os.path.join(base, name), "rb") as f:
                    found[os.path.relpath(os.path.join(base, name), self.path(out))] = f.read()
        return {k: v for k, v in found.items() if not k.startswith("flight")}

    @w.again
    def check_cut_off(self, transport, ranks, how):
        """Cut off three times, some time after a step; resumed each time."""
        job = LONG | {"data.valid": self.path("valid.bin"), "comm.plugin": transport,
                      "train.microbatch": 12 // ranks}
        self.train("whole", job, ranks=ranks)
        shutil.rmtree(self.path("cut"), ignore_errors=True)
        cuts = 0
        for after in (random.randint(51, 90), random.randint(110, 190), random.randint(210, 300)):
            # The save of step 50 may be under way still when a run is killed after step 51.
            run = w.Running(self, "cut", job, ranks, resume="auto" if after > 90 else False)
            run.until_step(after)
            time.sleep(random.random() * 0.02)
            ranks_of_it = list(run.ranks().values())
            how(run)
            status = run.wait()
            self.assertIn(status, (0, 1, 75, -signal.SIGKILL), run.said())
            cuts += status != 0
            while any(w.born(pid) for pid in ranks_of_it):  # of a launcher that was killed
                time.sleep(0.005)
        if not cuts:
            raise w.TooSoon("the job was always faster than the signal")
        self.train("cut", job, ranks=ranks, resume=True)
        self.same_run("whole", "cut", 400)
        saved, other = w.steps_saved(self.path("cut"))
        self.assertEqual((saved, other), ([350, 400], []))

    def test_launcher_killed_tcp(self):
        self.check_cut_off("tcp", 2, kill_launcher)

    def test_launcher_killed_shm(self):
        self.check_cut_off("shm", 3, kill_launcher)

    def test_rank_killed(self):
        self.check_cut_off("shm", 2, kill_some_rank)

    def test_stopped(self):
        self.check_cut_off("tcp", 3, stop)

    def test_one_rank_killed(self):
        self.check_cut_off("auto", 1, kill_launcher)

    def test_more_steps(self):
        self.train("whole", SHORT | {"run.steps": 20}, ranks=2)
        self.train("cut", SHORT, ranks=2)
        self.assertEqual(len(w.metrics(self.path("cut"))), 10)
        self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume=True)
        self.same_run("whole", "cut", 20)
        before = self.tree("cut")
        self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume=True)
        self.assertEqual(self.tree("cut"), before, "there is nothing to do")

    def test_other_precision(self):
        """Master weights and moments are fp32 in any precision."""
        self.train("cut", SHORT | {"train.precision": "bf16"}, ranks=2)
        before = w.tensors(self.path("cut"), 10)
        self.train("cut", SHORT | {"run.steps": 11, "checkpoint.every": 1, "optim.lr": 0}, ranks=2,
                   resume="force")
        after = w.tensors(self.path("cut"), 11)
        weights = [n for n in before if not n.endswith((".m", ".v")) and "scalar" not in n]
        self.same_tensors({n: before[n] for n in weights}, {n: after[n] for n in weights})

    def test_damaged_newest(self):
        """One bit of the newest checkpoint has turned: the one before it goes on."""
        self.train("whole", SHORT | {"run.steps": 20}, ranks=2)
        self.train("cut", SHORT, ranks=2)
        path = os.path.join(w.folder(self.path("cut"), 10), "shard-00001-of-00002.safetensors")
        with open(path, "r+b") as f:
            f.seek(-100, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 16]))
        said = self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume=True).stderr
        self.assertIn("step-00000010", said)
        self.assertIn("resumed after step 5", said)
        self.same_run("whole", "cut", 20)

    def test_torn_metrics(self):
        """The last line was cut in the middle, as a full disk or a lost machine leaves it."""
        self.train("whole", SHORT | {"run.steps": 20}, ranks=2)
        for text in (b'{"step":1', b'{"st', b'{"step":10,"loss":5.1', b"\0" * 64):
            with self.subTest(text=text):
                shutil.rmtree(self.path("cut"), ignore_errors=True)
                self.train("cut", SHORT, ranks=2)
                with open(self.path("cut", "metrics.jsonl"), "ab") as f:
                    f.write(text)
                self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume=True)
                self.same_run("whole", "cut", 20)

    def test_short_metrics(self):
        """Lines of saved steps are missing: the log says which, and the run goes on."""
        self.train("cut", SHORT, ranks=2)
        path = self.path("cut", "metrics.jsonl")
        with open(path, "rb") as f:
            text = f.read()
        for lines, words in ((3, "metrics.jsonl ended after step 3: it continues with step 11,"),
                             (0, "metrics.jsonl of earlier steps is missing"), (10, None)):
            with self.subTest(lines=lines):
                with open(path, "wb") as f:
                    f.write(b"".join(text.splitlines(True)[:lines]))
                said = self.train("cut", SHORT | {"run.steps": 11, "checkpoint.every": 0}, ranks=2,
                                  resume=True).stderr
                self.assertEqual([x["step"] for x in w.metrics(self.path("cut"))],
                                 [*range(1, lines + 1), 11])
                self.assertIn(words or "resumed after step 10", said)
                self.assertEqual("metrics.jsonl" in said, bool(words), said)

    def test_metrics_that_are_no_file(self):
        """A FIFO that nobody reads keeps no job waiting."""
        self.train("cut", SHORT, ranks=2)
        os.remove(self.path("cut", "metrics.jsonl"))
        os.mkfifo(self.path("cut", "metrics.jsonl"))
        for ranks in (1, 2):
            said = self.train("cut", SHORT | {"run.steps": 20}, ranks=ranks, resume=True, status=2,
                              timeout=w.TIMEOUT / 2).stderr
            self.assertIn("metrics.jsonl is not a regular file: remove it", said)

    def test_nothing_there(self):
        for ranks in (1, 2):
            said = self.train("nothing", SHORT, ranks=ranks, resume=True, status=2).stderr
            self.assertIn("nothing", said)
            self.assertIn("checkpoint", said)
            self.assertIn("--resume=auto", said)
            self.assertEqual(said.count("error"), 1, said)
            self.assertFalse(os.path.exists(self.path("nothing")), said)

    def test_refused(self):
        """What would compute something else: status 2, each difference with both values, once, and
        nothing has changed."""
        self.train("cut", SHORT, ranks=2)
        before = self.tree("cut")
        other = self.path("other.bin")
        w.numbers_of_weft.write_tokens(other, w.numbers_of_weft.noisy_chain(4001, 251), 251)
        for change, words in (({"model.embed": 30}, ["model.embed was '24' and is '30'"]),
                              ({"model.layers": 3}, ["model.layers was '2' and is '3'"]),
                              ({"model.tied": "off"}, ["model.tied was 'on' and is 'off'"]),
                              ({"model.norm_eps": "2e-5"}, ["model.norm_eps was '1e-5'"]),
                              ({"optim.rule": "adam"}, ["optim.rule was 'adamw' and is 'adam'"]),
                              ({"optim.rule": "sgd", "run.seed": 6}, ["optim.rule", "run.seed"]),
                              ({"optim.betas": "0.9, 0.99"}, ["optim.betas was '0.9, 0.95'"]),
                              ({"optim.lr": 1e-3, "train.clip": 2}, ["optim.lr", "train.clip"]),
                              ({"train.batch": 24}, ["train.batch was '12' and is '24'"]),
                              ({"train.precision": "bf16"}, ["train.precision was 'fp32'"]),
                              ({"comm.dp.compress": "bf16"}, ["comm.dp.compress was 'same'"]),
                              ({"data.train": other}, ["4000 tokens of", "4001 tokens of"])):
            for ranks in (2,) if "comm.dp.compress" in change else (1, 2):
                with self.subTest(change=change, ranks=ranks):
                    said = self.train("cut", SHORT | {"run.steps": 20} | change, ranks=ranks,
                                      resume=True, status=2).stderr
                    for word in words:
                        self.assertEqual(said.count(word), 1, said)
                    self.assertEqual(said.count(" was '"), len(change), said)
                    self.assertEqual(said.count("error"), 1, said)
                    self.assertIn("--resume=force", said)
                    self.assertEqual(self.tree("cut"), before)

    def test_forced(self):
        """It goes on and logs each difference; what does not fit the tensors is refused still."""
        self.train("cut", SHORT, ranks=2)
        before = self.tree("cut")
        self.train("cut", SHORT | {"model.layers": 3}, ranks=2, resume="force", status=2)
        self.assertEqual(self.tree("cut"), before)
        job = SHORT | {"run.steps": 20, "run.seed": 6, "optim.lr": 1e-3}
        said = self.train("cut", job, ranks=2, resume="force").stderr
        self.assertIn("warn: resumes with other settings: run.seed was '5' and is '6'", said)
        self.assertIn("warn: resumes with other settings: optim.lr was '0.003' and is '0.001'",
                      said)
        self.assertEqual(len(w.metrics(self.path("cut"))), 20)
        # It is the job of the checkpoint from there on.
        self.train("cut", job | {"run.steps": 21}, resume=True)

    def test_free(self):
        """The same values in other words, and what may change: layout, device, paths, amounts."""
        self.train("whole", SHORT | {"run.steps": 20}, ranks=2)
        moved = self.path("moved.bin")
        shutil.copy(self.path("train.bin"), moved)
        for change in ({"optim.lr": "0.30e-2", "optim.betas": "0.90,0.950", "model.dropout": "0.0"},
                       {"data.train": moved, "data.valid": self.path("valid.bin")},
                       {"train.eval_every": 0, "checkpoint.keep": 3, "run.name": "again"},
                       {"comm.plugin": "shm", "train.bucket_mb": 0.01, "optim.placement": "zero1",
                        "train.recompute": "block", "run.deadline": 50, "device.threads": 2}):
            with self.subTest(change=change):
                shutil.rmtree(self.path("cut"), ignore_errors=True)
                self.train("cut", SHORT, ranks=2)
                self.train("cut", SHORT | {"run.steps": 20} | change, ranks=2, resume=True)
                self.assertEqual([x["step"] for x in w.metrics(self.path("cut"))],
                                 list(range(1, 21)))

    def test_auto(self):
        """The same line begins, goes on, and has nothing left to do."""
        self.train("whole", SHORT | {"run.steps": 20}, ranks=2)
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.path("cut"), ignore_errors=True)
                self.train("cut", SHORT, ranks=2, resume="auto")
                said = self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume="auto").stderr
                self.assertIn("resumed after step 10", said)
                self.same_run("whole", "cut", 20)
                before = self.tree("cut")
                self.train("cut", SHORT | {"run.steps": 20}, ranks=2, resume="auto")
                self.assertEqual(self.tree("cut"), before)

    def test_auto_without_checkpoint(self):
        """Killed before its first checkpoint: it begins in the same folder, and none is moved."""
        self.train("whole", SHORT, ranks=2)
        self.train("auto", SHORT | {"run.steps": 3, "checkpoint.every": 0}, ranks=2)
        for leftover in (None, "checkpoints", "checkpoints/.step-00000005.tmp"):
            with self.subTest(leftover=leftover):
                if leftover:
                    shutil.rmtree(self.path("auto", "checkpoints"), ignore_errors=True)
                    os.makedirs(self.path("auto", leftover))
                self.train("auto", SHORT, ranks=2, resume="auto")
                self.same_run("whole", "auto", 10)
                self.assertFalse(os.path.exists(self.path("auto.1")))

    def test_auto_never_begins_over_checkpoints(self):
        """Nothing that can be read, or only what was set aside: an error, as with --resume."""
        self.train("cut", SHORT, ranks=2)
        for step in (5, 10):
            os.truncate(os.path.join(w.folder(self.path("cut"), step), "manifest.json"), 70)
        for resume in (True, "auto"):
            self.assertNotEqual(self.train("cut", SHORT, ranks=2, resume=resume,
                                           status=None).returncode, 0)
            self.assertEqual(len(w.metrics(self.path("cut"))), 10)
        shutil.rmtree(self.path("cut", "checkpoints"))
        with open(self.path("cut", "checkpoints"), "w", encoding="utf-8"):
            pass  # a folder that cannot be listed
        self.assertNotEqual(self.train("cut", SHORT, ranks=2, resume="auto",
                                       status=None).returncode, 0)
        self.assertEqual(len(w.metrics(self.path("cut"))), 10)

    def test_all_damaged(self):
        self.train("cut", SHORT, ranks=2)
        for step in (5, 10):
            os.truncate(os.path.join(w.folder(self.path("cut"), step), "manifest.json"), 70)
        before = self.tree("cut")
        for _ in range(10):  # whichever rank ends first, the reason is that of rank 0
            said = self.train("cut", SHORT, ranks=4, resume=True, status=2).stderr
            self.assertIn("step-00000005", said)
            self.assertEqual(said.count("error: "), 1, said)
            self.assertIn("error: rank 0: none of the 2 checkpoints in", said)
            self.assertIn("put back a copy of one", said)
            self.assertEqual(self.tree("cut"), before)

    def test_without_resume(self):
        """A run is never written over: it is moved aside."""
        self.train("run", SHORT, ranks=2)
        before = self.tree("run")
        for number in (1, 2):
            self.train("run", SHORT | {"run.steps": 2, "checkpoint.every": 0}, ranks=2)
            self.assertEqual(len(w.metrics(self.path("run"))), 2)
            self.assertTrue(os.path.exists(self.path(f"run.{number}", "metrics.jsonl")))
        self.assertEqual(self.tree("run.1"), before)

    def test_a_link(self):
        """Where run.out is a link, as to a larger disk, the folder that it leads to is moved aside,
        and the link stays: every run is on that disk."""
        self.train("disk/big", SHORT, ranks=2)
        before = self.tree("disk/big")
        os.makedirs(self.path("here"))
        os.symlink("second", self.path("here", "first"))
        os.symlink(self.path("disk", "big"), self.path("here", "second"))
        for out, number in (("here/second", 1), ("here/first", 2), ("here/first//", 3)):
            said = self.train(out, SHORT | {"run.steps": 2, "checkpoint.every": 0}, ranks=2).stderr
            self.assertIn(f"held a run; it is now {self.path('disk', 'big')}.{number}", said)
            self.assertEqual(sorted(os.listdir(self.path("disk"))),
                             ["big", *(f"big.{i + 1}" for i in range(number))])
            self.assertEqual(sorted(os.listdir(self.path("here"))), ["first", "second"])
            self.assertEqual(len(w.metrics(self.path("disk", "big"))), 2)
        self.assertEqual(self.tree("disk/big.1"), before)
        said = self.train("here/first", SHORT, ranks=2, resume=True, status=2).stderr
        self.assertIn(f"the earlier run is now in {self.path('disk', 'big')}.3", said)
        os.rename(self.path("disk", "big"), self.path("disk", "gone"))
        said = self.train("here/first", SHORT, ranks=2, status=2).stderr
        self.assertIn("is a link that leads to nothing", said)
        self.assertFalse(os.path.exists(self.path("disk", "big")))


def forge(folder, change, job=""):
    """Change tensors of a checkpoint, change(name, bytes) or None, and all of its sums; `job` comes
    behind that of the checkpoint."""
    with open(os.path.join(folder, "manifest.json"), "rb") as f:
        manifest = json.load(f)
    manifest["job"] += job
    for i, path in enumerate(sorted(glob.glob(os.path.join(folder, "*.safetensors")))):
        with open(path, "rb") as f:
            whole = bytearray(f.read())
        (length,) = struct.unpack("<Q", whole[:8])
        for name, x in json.loads(whole[8:8 + length]).items():
            first, end = (8 + length + x for x in x.get("data_offsets", (0, 0)))
            new = change(name, bytes(whole[first:end])) if end > first else None
            if new:
                whole[first:end] = new
        with open(path, "wb") as f:
            f.write(whole)
        manifest["shards"][i]["sha256"] = hashlib.sha256(whole).hexdigest()
    w.checkpoint.write_manifest(folder, manifest)


class Forged(w.Bench):
    """Checkpoints whose sums are right and whose numbers cannot be those of a run."""

    def test_numbers_that_no_run_has(self):
        cases = (("scalar.count", -7, "the scalar count is -7"),
                 ("scalar.count", 4.5, "the scalar count is 4.5"),
                 ("scalar.count", math.nan, "the scalar count is nan"),
                 ("scalar.count", 1e30, "a whole number from 0 to 2^48"),
                 ("scalar.skipped", -1, "the scalar skipped is -1"),
                 ("embed.pos.w", math.nan, "tensor embed.pos.w has values that are not finite"),
                 ("embed.pos.w.v", math.inf, "tensor embed.pos.w.v has values that are not"))
        job = SHORT | {"run.steps": 5}
        for tensor, value, why in cases:
            with self.subTest(tensor=tensor, value=value):
                shutil.rmtree(self.path("forged"), ignore_errors=True)
                self.train("forged", job, ranks=2)
                number = struct.pack("<f", value)
                forge(w.folder(self.path("forged"), 5), lambda name, data, of=tensor: number
                      + data[4:] if name.partition("@")[0] == of else None)
                w.weft("ckpt", "verify", w.folder(self.path("forged"), 5))
                said = self.train("forged", SHORT, ranks=2, resume=True, status=None)
                self.assertNotIn(said.returncode, (0, 75), said.stderr)
                self.assertIn(why, said.stderr)
                self.assertEqual(w.steps_saved(self.path("forged")), ([5], []))

    def test_a_job_that_talks_to_the_terminal(self):
        self.train("forged", SHORT | {"run.steps": 5})
        forge(w.folder(self.path("forged"), 5), lambda name, data: None, "; \x1b[2J\x07\n")
        said = w.weft("ckpt", "info", w.folder(self.path("forged"), 5)).stdout
        self.assertIn("; ?[2J?\n", said)
        self.assertNotRegex(said, "[\x01-\x08\x0b-\x1f\x7f]")


if __name__ == "__main__":
    w.main()
