#!/usr/bin/env python3
"""train_save.py WEFT: what happens to checkpoints when saving goes wrong?

A rank is killed while a checkpoint is being written; the disk is full, or files may not grow: the
last good checkpoint is intact, nothing half-written stays in its way, a sentence says what
happened, and the job goes on from it as if nothing had been. What else may not be written is said
in the same way."""
import errno
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

SMALL = w.ODD | {"run.steps": 10, "checkpoint.every": 5, "optim.schedule": "constant",
                 "comm.plugin": "tcp", "checkpoint.keep": 3, "train.microbatch": 2}
# Large enough to be caught while it is saved: 0.9 million parameters, 11 MB.
LARGE = SMALL | {"model.embed": 192, "model.ffn": 768, "model.vocab": 2570,
                 "train.batch": 3, "train.microbatch": 1, "checkpoint.every": 1}


class Save(w.Bench):
    def check_whole(self, out):
        """Every checkpoint verifies; [their steps]."""
        saved, _ = w.steps_saved(out)
        for step in saved:
            w.weft("ckpt", "verify", w.folder(out, step))
        return saved

    def until_saving(self, run):
        folder = os.path.join(run.out, "checkpoints")
        run.until(lambda: [x for x in w.listed(folder) if x.endswith(".tmp")], "saving")

    def test_killed_while_saving(self):
        """The job that is killed has no end of its own: however late we look, it saves."""
        run, endless, caught = None, LARGE | {"run.steps": 10**6}, 0
        for victim in (0, 1, 2, "launcher"):
            with self.subTest(victim=victim):
                before = self.check_whole(run.out)[-1] if run else 0
                run = w.Running(self, "run", endless, 3, resume=before > 0)
                run.until_step(before + 2)
                run.until(lambda: w.steps_saved(run.out)[0], "a whole checkpoint")
                marks, pids = run.marks(), run.until_ranks()
                self.until_saving(run)
                time.sleep(random.random() * 0.03)
                if victim == "launcher":
                    run.process.kill()
                else:
                    os.kill(pids[victim], signal.SIGKILL)
                status = run.wait()
                if victim != "launcher":
                    self.assertEqual(status, 1, run.said())
                    self.assertRegex(run.said(), rf"rank {victim} was killed by signal 9")
                self.assertEqual(marks.wait(w.TIMEOUT)[1], [])
                caught += bool(w.steps_saved(run.out)[1])
        end = self.check_whole(run.out)[-1] + 2
        self.train("run", LARGE | {"run.steps": end}, ranks=3, resume=True)
        self.train("whole", LARGE | {"run.steps": end}, ranks=3)
        self.same_run("whole", "run", end)
        self.assertEqual(w.steps_saved(self.path("run")), ([end - 2, end - 1, end], []))
        print(f"caught with a half-written checkpoint: {caught} of 4")

    def small_disk(self):
        """A tmpfs of 4 MiB, where we may mount one; {} of what the job writes there."""
        place = self.path("disk")
        os.makedirs(place, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place],
                              capture_output=True, check=False) if os.geteuid() == 0 else None
        if not done or done.returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        return os.path.join(place, "filler")

    def fill(self, filler, leave):
        """Leave so many bytes. A job that writes meanwhile may leave less than was counted."""
        try:
            with open(filler, "wb") as f:
                room = os.statvfs(filler)
                f.write(bytes(max(0, room.f_bavail * room.f_frsize - leave)))
        except OSError as e:
            if e.errno != errno.ENOSPC or leave:
                raise

    def check_refusal(self, out, job, words, saved, **more):
        """The job fails with status 1 and one of the words; the checkpoints are as they were."""
        before = {s: self.files(w.folder(self.path(out), s)) for s in saved}
        said = self.train(out, job, status=1, **more).stderr
        self.assertRegex(said, words)
        self.assertRegex(said, r"rank \d")
        self.assertNotIn("signal", said)
        self.assertEqual(w.steps_saved(self.path(out)), (saved, []), said)
        self.assertEqual(before, {s: self.files(w.folder(self.path(out), s)) for s in saved})
        self.assertEqual([x for x in os.listdir(self.path(out)) if x.startswith(".")], [])
        return said

    def files(self, folder):
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
        return found

    def test_full_disk(self):
        filler = self.small_disk()
        longer = SMALL | {"run.steps": 20}
        self.train("whole", longer, ranks=3)
        self.train("disk/run", SMALL, ranks=3)
        for leave in (8192, 100000, 200000):
            with self.subTest(leave=leave):
                self.fill(filler, leave)
                self.check_refusal("disk/run", longer, "[Nn]o space left", [5, 10], ranks=3,
                                   resume=True)
        os.unlink(filler)
        self.train("disk/run", longer, ranks=3, resume=True)
        self.same_run("whole", "disk/run", 20)

    def test_full_disk_in_metrics(self):
        """The run goes on, says so once for each gap, and writes whole lines again when there is
        room. Between two lines that are too long, a short one may have room: two gaps."""
        filler = self.small_disk()
        job = SMALL | {"run.steps": 10**8, "checkpoint.every": 0}
        run = w.Running(self, "disk/run", job, 3)
        run.until_step(5)
        self.fill(filler, 0)
        run.until(lambda: "metrics.jsonl cannot be written" in run.said(), "a warning")
        os.unlink(filler)
        begun = len(w.metrics(run.out))
        run.until(lambda: "metrics.jsonl is written again" in run.said() and
                  len(w.metrics(run.out)) > begun, "a line")
        run.process.terminate()
        self.assertEqual(run.wait(), 1)
        gaps = [tuple(map(int, x)) for x in re.findall(
            r"again from step (\d+) on; lines since step (\d+) that are missing: (\d+)",
            " ".join(run.said().split()))]
        self.assertEqual(run.said().count("cannot be written"), len(gaps), run.said())
        missing = {step for end, first, _ in gaps for step in range(first, end)}
        self.assertEqual(len(missing), sum(n for _, _, n in gaps))
        steps = [x["step"] for x in w.metrics(run.out)]
        self.assertEqual(steps, [x for x in range(1, steps[-1] + 1) if x not in missing])

    def test_full_disk_at_the_start(self):
        filler = self.small_disk()
        self.fill(filler, 300000)
        said = self.train("disk/run", SMALL, ranks=3, status=1).stderr
        self.assertRegex(said, "flight.*[Nn]o space left")

    def test_file_size_limit(self):
        """ulimit -f: what a user without a full disk can try."""
        job = SMALL | {"model.vocab": 2570}
        self.train("run", job, ranks=2)
        shard = os.path.join(w.folder(self.path("run"), 10), "shard-00000-of-00002.safetensors")
        limit = os.path.getsize(shard) - 5000
        self.assertGreater(limit, os.path.getsize(self.path("run", "flight", "rank-0000.ring")))
        words = ["train", "-n", "2", self.ini, *self.options("run", job | {"run.steps": 20}),
                 "--resume"]
        done = subprocess.run([w.WEFT, *words], capture_output=True, text=True, timeout=w.TIMEOUT,
                              env=w.environment(), check=False, preexec_fn=lambda:
                              resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "File too large")
        self.assertEqual(self.check_whole(self.path("run")), [5, 10])
        self.assertEqual(w.steps_saved(self.path("run"))[1], [])

    def test_out_is_a_file(self):
        with open(self.path("file"), "wb") as f:
            f.write(b"mine")
        for out in ("file", "file/below"):
            for ranks in (1, 2):
                said = self.train(out, SMALL, ranks=ranks, status=2).stderr
                self.assertIn("run.out", said)
        with open(self.path("file"), "rb") as f:
            self.assertEqual(f.read(), b"mine")


if __name__ == "__main__":
    w.main()
