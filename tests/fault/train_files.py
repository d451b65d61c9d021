#!/usr/bin/env python3
"""train_files.py WEFT: does a job lose nothing when files fail for a while, or are slow?

file_faults.so, which the build makes beside WEFT (WEFT_FILE_FAULTS: elsewhere), makes them fail in
one rank. A checkpoint that could not be
read stays the newest and the job says why it stops; a damaged one is set aside whole. A slow rank
is waited for in saves and resumes. Every shard is read for its sum by one rank only."""
import errno
import os
import re
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

FAULTS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "fault", "file_faults.so")
FAULTS = os.environ.get("WEFT_FILE_FAULTS", FAULTS)
SMALL = w.ODD | {"run.steps": 30, "checkpoint.every": 10, "optim.schedule": "constant",
                 "comm.plugin": "shm", "checkpoint.keep": 0, "train.microbatch": 2}
LONGER = SMALL | {"run.steps": 40}
LARGE = SMALL | {"model.embed": 192, "model.ffn": 768, "model.vocab": 2570, "run.steps": 1,
                 "checkpoint.every": 1, "train.batch": 2, "train.microbatch": 1}


@unittest.skipIf(w.SLOW > 1, "files cannot be made to fail under a sanitizer")
class Files(w.Bench):
    def faults(self, *rules):
        shutil.rmtree(self.path("struck"), ignore_errors=True)
        os.makedirs(self.path("struck"))
        self.assertTrue(os.path.exists(FAULTS), FAULTS)
        return {"LD_PRELOAD": FAULTS, "WEFT_FILE_FAULT": ";".join(rules),
                "WEFT_FILE_COUNT": self.path("struck")}

    def struck(self):
        """Lines of what struck; and the sum of bytes that were read from shards."""
        found, read = [], 0
        for name in os.listdir(self.path("struck")):
            for line in w.read_text(self.path("struck", name)).splitlines():
                if line.startswith("read ") and line[5:].isdigit():
                    read += int(line[5:])
                else:
                    found.append(line)
        return found, read

    def setUp(self):
        for name in os.listdir(self.place):
            if os.path.isdir(self.path(name)):
                shutil.rmtree(self.path(name))

    def tree(self, out):
        """{path: (inode, bytes)} of all checkpoints."""
        found = {}
        for base, _, names in os.walk(self.path(out, "checkpoints")):
            for name in names:
                path = os.path.join(base, name)
                with open(path, "rb") as f:
                    found[os.path.relpath(path, self.place)] = os.stat(path).st_ino, f.read()
        return found

    def test_what_could_not_be_read_stays_the_newest(self):
        self.train("whole", LONGER, ranks=2)
        self.train("cut", SMALL, ranks=2)
        before = self.tree("cut")
        cases = (("0:open:00030/manifest:1", errno.EIO, 1),
                 ("1:open:00030/manifest:1", errno.EIO, 1),
                 ("0:read:00030/manifest:1", errno.EIO, 1), ("1:read:shard-00001:2", errno.EIO, 1),
                 ("0:open:step-00000030:1", errno.ENOMEM, None),
                 ("1:open:shard-00000:1", errno.EACCES, 2), ("*:read:shard-0:3", errno.ESTALE, 1),
                 ("0:open:checkpoints:2", errno.EIO, 1))
        for rule, error, status in cases:
            with self.subTest(rule=rule, error=error):
                said = self.train("cut", LONGER, ranks=2, resume=True, status=None,
                                  extra=self.faults(f"{rule}:{error}"))
                self.assertNotEqual(self.struck()[0], [])
                self.assertIn(said.returncode, (status,) if status else (1, 2), said.stderr)
                self.assertIn(os.strerror(error), said.stderr)
                self.assertNotIn("passed over", said.stderr)
                self.assertEqual(self.tree("cut"), before)
                self.assertFalse(os.path.exists(self.path("cut", ".lock")))
        said = self.train("cut", LONGER, ranks=2, resume=True).stderr
        self.assertIn("resumed after step 30", said)
        self.same_run("whole", "cut", 40)

    def test_damage_is_set_aside(self):
        """Whichever rank has to hash the damaged shard, and whatever the number of ranks."""
        self.train("whole", LONGER, ranks=2)
        self.train("good", SMALL, ranks=2)
        for shard, ranks in ((0, 2), (1, 2), (1, 1), (0, 3)):
            with self.subTest(shard=shard, ranks=ranks):
                shutil.copytree(self.path("good"), self.path("cut"))
                name = f"shard-{shard:05}-of-00002.safetensors"
                path = os.path.join(w.folder(self.path("cut"), 30), name)
                with open(path, "r+b") as f:
                    f.seek(-100, os.SEEK_END)
                    f.write(bytes([f.read(1)[0] ^ 16]))
                with open(path, "rb") as f:
                    before = f.read()
                job = LONGER | {"train.microbatch": 2}
                said = self.train("cut", job, ranks=ranks, resume=True).stderr
                self.assertIn("set aside as step-00000030.damaged", said)
                self.assertIn("resumed after step 20", said)
                self.assertEqual(w.steps_saved(self.path("cut")),
                                 ([10, 20, 30, 40], ["step-00000030.damaged"]))
                with open(os.path.join(w.folder(self.path("cut"), 30) + ".damaged", name),
                          "rb") as f:
                    self.assertEqual(f.read(), before)
                w.weft("ckpt", "verify", w.folder(self.path("cut"), 30))
                if ranks == 2:
                    self.same_run("whole", "cut", 40)
                shutil.rmtree(self.path("cut"))

    def test_a_slow_rank_is_waited_for(self):
        """Longer than ranks have to meet: in a save, in its end, in verifying and in loading."""
        job = SMALL | {"run.join_timeout": 3, "run.steps": 10}
        self.train("run", job, ranks=2, extra=self.faults("1:sync:shard-00001:1:sleep=4"))
        self.assertEqual(len(self.struck()[0]), 1)
        job |= {"run.steps": 11, "checkpoint.every": 0, "run.deadline": 3}
        self.train("run", job, ranks=2, resume=True,
                   extra=self.faults("1:read:shard-00001:2:sleep=4", "1:read:shard-0:20:sleep=4"))
        self.assertEqual(len(self.struck()[0]), 2)
        self.assertEqual(len(w.metrics(self.path("run"))), 11)

    def test_the_wait_has_an_end(self):
        job = SMALL | {"run.steps": 10, "checkpoint.timeout": 1}
        said = self.train("run", job, ranks=2, status=1,
                          extra=self.faults("1:sync:shard-00001:1:sleep=30")).stderr
        self.assertRegex(said, r"checkpoint\.timeout = 1 s: .*save.*rank 1")

    def test_a_dead_rank_is_not_waited_for(self):
        """The save would be slow for longer than this test waits."""
        job = SMALL | {"run.steps": 10, "checkpoint.timeout": 3600}
        run = w.Running(self, "run", job, 2, extra=self.faults("1:sync:shard-00001:1:sleep=3600"))
        run.until(lambda: self.struck()[0], "the slow write")
        began = time.monotonic()
        os.kill(run.ranks()[1], signal.SIGKILL)
        self.assertEqual(run.wait(), 1)
        self.assertLess(time.monotonic() - began, w.patience(5))
        self.assertRegex(run.said(), "rank 1 was killed by signal 9")

    def test_every_byte_is_hashed_once(self):
        """Two ranks read each shard's bytes once for its sum, and once each to load them."""
        self.train("run", LARGE, ranks=2)
        size = sum(os.path.getsize(os.path.join(w.folder(self.path("run"), 1), x))
                   for x in os.listdir(w.folder(self.path("run"), 1)) if x.startswith("shard"))
        self.train("run", LARGE, ranks=2, resume=True, extra=self.faults())
        read = self.struck()[1]
        self.assertGreater(read, 2.9 * size)
        self.assertLess(read, 3.2 * size)

    def held(self, *rules, **job):
        """A job whose calls under these rules wait from now on, while there is a file "held"."""
        job = SMALL | {"run.steps": 10**6, "checkpoint.every": 0, "log.progress": 1,
                       "log.sinks": "jsonl, tensorboard", "run.deadline": 4} | job
        faults = self.faults(*(f"0:{rule}:1+:hold" for rule in rules))
        run = w.Running(self, "run", job, 2, extra=faults | {"WEFT_FILE_HOLD": self.path("held")})
        run.until_step(20)
        with open(self.path("held"), "w", encoding="ascii"):
            pass
        return run

    def further(self, run, steps):
        """So many steps are made, as the log says; returns the last one."""
        def last():
            return int(re.findall(r"step (\d+)/", run.said())[-1])
        first = last()
        run.until(lambda: last() >= first + steps, f"{steps} steps more")
        return last()

    def test_a_folder_that_does_not_answer(self):
        """No step waits for its files, and all rows are there once it answers again."""
        run = self.held("write:metrics.jsonl", "write:tfevents", "look:run")
        def looks():
            return sum(x.startswith("look ") for x in self.struck()[0])
        now = looks()
        run.until(lambda: looks() > now, "a look that does not return")
        before = len(w.metrics(run.out))
        last = self.further(run, 500)
        self.assertLessEqual(len(w.metrics(run.out)), before + 1)
        os.remove(self.path("held"))
        run.until_step(last)
        run.process.terminate()
        self.assertEqual(run.wait(), 1)
        self.assertNotIn("cannot be written", run.said())
        steps = [x["step"] for x in w.metrics(run.out)]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertGreaterEqual(len(steps), last)

    def test_a_folder_that_does_not_answer_any_more(self):
        """The run ends all the same, and says how many rows are lost; so does a save."""
        run = self.held("write:metrics.jsonl", **{"checkpoint.every": 400})
        last = self.further(run, 900)
        run.process.terminate()
        self.assertEqual(run.wait(), 75)
        said = " ".join(run.said().split())
        lost = re.search(r"metrics.jsonl cannot be written: its folder does not answer, or is "
                         r"slow; lines that are lost: (\d+)", said)
        self.assertGreaterEqual(int(lost[1]), 900)
        self.assertGreaterEqual(w.steps_saved(run.out)[0][-1], last)
        self.assertNotIn("event file", said)

    def test_rows_that_are_removed(self):
        run = w.Running(self, "run", SMALL | {"run.steps": 10**6, "checkpoint.every": 0}, 1)
        run.until_step(20)
        os.remove(os.path.join(run.out, "metrics.jsonl"))
        run.until(lambda: "metrics.jsonl was removed" in run.said(), "the warning")
        run.process.terminate()
        self.assertEqual(run.wait(), 1)
        self.assertEqual(run.said().count("metrics.jsonl was removed while the job runs"), 1)

    def test_data_that_shrinks(self):
        """Written again in place, or cut by a copy that goes on: the file is named."""
        with open(self.path("train.bin"), "rb") as f:
            tokens = f.read()
        for source, job in (("live.bin", {}), ("live.txt", {
                "data.source": "text", "model.vocab": 256})):
            live = self.path(source)
            with open(live, "wb") as f:
                f.write(tokens if source == "live.bin" else b"over and under\n" * 8000)
            run = w.Running(self, "shrinks", SMALL | {
                "data.train": live, "run.steps": 100000000, "checkpoint.every": 0,
                "comm.plugin": "tcp"} | job, 2)
            run.until_step(3)
            os.truncate(live, 0)
            self.assertEqual(run.wait(), 1, run.said())
            self.assertIn(f"the file {live} became shorter while it was used", run.said())

    def test_a_token_out_of_range(self):
        """It is met when its batch is read, and is a sentence."""
        with open(self.path("train.bin"), "rb") as f:
            tokens = bytearray(f.read())
        tokens[1024 + 2 * 1234:1024 + 2 * 1234 + 2] = (60000).to_bytes(2, "little")
        with open(self.path("bad.bin"), "wb") as f:
            f.write(tokens)
        for ranks in (1, 2):
            for key in ("data.train", "data.valid"):
                job = SMALL | {"run.steps": 1000, "checkpoint.every": 0, "train.eval_every": 5,
                               "train.eval_batches": 100, "data.valid": self.path("valid.bin"),
                               key: self.path("bad.bin")}
                said = self.train("run", job, ranks=ranks, status=2).stderr
                self.assertRegex(said, r"bad\.bin: token number 1234 is 60000, outside its "
                                       r"vocabulary of 251")


if __name__ == "__main__":
    w.main()
