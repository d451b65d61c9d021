#!/usr/bin/env python3
"""train_async.py WEFT: are saves that are written beside the steps as good as those that stop them?

The same bits; a rank that is killed while one is written leaves the checkpoint before; a full disk
ends the job with a sentence; a signal waits for it; a second save waits for the first. And: is an
OUT that the ranks do not share found before the first step? file_faults.so holds writes up
(WEFT_FILE_FAULTS: where it is)."""
import csv
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "fault", "file_faults.so")
FAULTS = os.environ.get("WEFT_FILE_FAULTS", FAULTS)
BENCH = os.path.join(HERE, "..", "..", "bench", "save.py")
SMALL = w.ODD | {"run.steps": 12, "checkpoint.every": 5, "optim.schedule": "constant",
                 "comm.plugin": "tcp", "checkpoint.keep": 0, "train.microbatch": 2,
                 "checkpoint.async": "on"}
ENDLESS = SMALL | {"run.steps": 10**6, "checkpoint.every": 200}


def bytes_of(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as f:
            found[name] = f.read()
    return found


class Async(w.Bench):
    def setUp(self):
        for name in os.listdir(self.place):
            if os.path.isdir(self.path(name)):
                shutil.rmtree(self.path(name))

    def events(self, out):
        return [(x["step"], x["event"]) for x in map(json.loads, w.written(self.path(out)))
                if "event" in x]

    def test_the_bits_of_a_save_that_stops_the_run(self):
        for job, ranks in ((SMALL, 1), (SMALL, 3),
                           (SMALL | {"parallel.strategy": "pp"}, 2),
                           (SMALL | {"comm.compress": "int8"}, 2)):
            with self.subTest(job=job, ranks=ranks):
                self.train("on", job, ranks=ranks)
                self.train("off", job | {"checkpoint.async": "off"}, ranks=ranks)
                self.assertEqual(w.steps_saved(self.path("on")), ([5, 10, 12], []))
                self.assertEqual(w.steps_saved(self.path("off")), ([5, 10, 12], []))
                for step in (5, 10, 12):
                    one = bytes_of(w.folder(self.path("on"), step))
                    two = bytes_of(w.folder(self.path("off"), step))
                    self.assertEqual(sorted(one), sorted(two))
                    for name in one:
                        if name.endswith(".safetensors"):
                            self.assertEqual(one[name], two[name], f"{name} of step {step}")
                self.same_run("on", "off", 12)
                self.setUp()

    def test_metrics(self):
        self.train("run", SMALL, ranks=2)
        lines = {x["step"]: x for x in w.metrics(self.path("run")) if "loss" in x}
        for step, x in lines.items():
            self.assertEqual("save_stop_ms" in x, step in (6, 11), step)
            self.assertEqual("save_copy_ms" in x, step in (6, 11), step)
            if step in (6, 11):
                self.assertLessEqual(x["save_copy_ms"], x["save_stop_ms"])
        self.assertGreaterEqual(sum("save_write_ms" in x for x in lines.values()), 1)

    def begin_held(self, out, job, rank, nth):
        """A run of which `rank` is held up in its write of a shard until go_on()."""
        with open(self.path("held"), "w", encoding="ascii"):
            pass
        return w.Running(self, out, job, 2, extra={
            "LD_PRELOAD": FAULTS, "WEFT_FILE_HOLD": self.path("held"),
            "WEFT_FILE_FAULT": f"{rank}:sync:shard-0000{rank}:{nth}:hold"})

    def go_on(self):
        os.remove(self.path("held"))

    def started_slow(self, rank=1):
        """A run whose save of step 400 is being written, and held up, while steps go on."""
        run = self.begin_held("cut", ENDLESS, rank, 2)
        run.until(lambda: "step-00000400" in " ".join(w.listed(run.out + "/checkpoints")),
                  "the second save")
        run.until_step(420)
        self.assertEqual(w.steps_saved(run.out)[0], [200])
        self.assertEqual(len(w.steps_saved(run.out)[1]), 1, "nothing is being written")
        return run

    @unittest.skipIf(w.SLOW > 1, "files cannot be made to wait under a sanitizer")
    def test_killed_in_the_middle(self):
        """Steps go on during the write; whoever dies then, the checkpoint before is the newest."""
        self.train("whole", ENDLESS | {"run.steps": 450}, ranks=2)
        for victim in (0, 1):
            with self.subTest(victim=victim):
                run = self.started_slow()
                began = time.monotonic()
                os.kill(run.ranks()[victim], signal.SIGKILL)
                self.go_on()
                self.assertEqual(run.wait(), 1)
                self.assertLess(time.monotonic() - began, w.patience(5))
                self.assertRegex(run.said(), rf"rank {victim} was killed by signal 9")
                self.assertEqual(w.steps_saved(run.out)[0], [200])
                w.weft("ckpt", "verify", w.folder(run.out, 200))
                said = self.train("cut", ENDLESS | {"run.steps": 450}, ranks=2,
                                  resume="auto").stderr
                self.assertIn("resumed after step 200", said)
                self.assertEqual(w.steps_saved(run.out), ([200, 400, 450], []))
                self.same_run("whole", "cut", 450)

    @unittest.skipIf(w.SLOW > 1, "files cannot be made to wait under a sanitizer")
    def test_stopped_in_the_middle(self):
        """SIGTERM: the save that is being written and that of the last step are completed."""
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = self.started_slow(rank)
                run.process.send_signal(signal.SIGTERM)
                run.until(lambda r=run: "waits for that of step 400" in r.said(), "the wait")
                self.go_on()
                self.assertEqual(run.wait(), 75, run.said())
                last = w.metrics(run.out)[-1]["step"]
                saved = sorted({200, 400, last} | ({600} if last > 600 else set()))
                self.assertEqual(w.steps_saved(run.out), (saved, []))
                for step in saved:
                    w.weft("ckpt", "verify", w.folder(run.out, step))

    @unittest.skipIf(w.SLOW > 1, "files cannot be made to wait under a sanitizer")
    def test_a_second_save_waits(self):
        run = self.begin_held("run", SMALL, 0, 1)
        run.until(lambda: "the save of step 10 waits for that of step 5" in run.said(), "the wait")
        if w.TIMED:
            time.sleep(2)
        self.go_on()
        self.assertEqual(run.wait(), 0, run.said())
        if w.TIMED:
            lines = {x["step"]: x for x in w.metrics(self.path("run")) if "loss" in x}
            self.assertGreater(lines[11]["save_stop_ms"], 1000)
            self.assertLess(lines[6]["save_stop_ms"], w.patience(1000))
        self.assertEqual(w.steps_saved(self.path("run")), ([5, 10, 12], []))

    @unittest.skipIf(w.SLOW > 1, "files cannot be made to fail under a sanitizer")
    def test_a_write_fails(self):
        """In the thread of any rank, early or late: a sentence; the checkpoints are as before."""
        for rank, call, error in ((0, "write", errno.ENOSPC), (1, "write", errno.ENOSPC),
                                  (1, "sync", errno.EIO), (0, "rename", errno.EIO),
                                  (0, "mkdir", errno.ENOSPC)):
            with self.subTest(rank=rank, call=call):
                path = {"rename": "step-", "mkdir": "step-"}.get(call, f"shard-0000{rank}")
                self.train("run", SMALL | {"run.steps": 5}, ranks=2)
                faults = {"LD_PRELOAD": FAULTS,
                          "WEFT_FILE_FAULT": f"{rank}:{call}:{path}:1+:{error}"}
                said = self.train("run", ENDLESS, ranks=2, resume=True, status=1,
                                  extra=faults).stderr
                self.assertIn(os.strerror(error), said)
                self.assertRegex(said, rf"rank {rank}")
                self.assertNotIn("signal", said)
                self.assertEqual(w.steps_saved(self.path("run")), ([5], []), said)
                w.weft("ckpt", "verify", w.folder(self.path("run"), 5))
                self.setUp()

    def test_plan_counts_the_copy(self):
        plan = self.plan(SMALL)
        self.train("run", SMALL | {"run.steps": 5})
        size = sum(len(b) for n, b in bytes_of(w.folder(self.path("run"), 5)).items()
                   if n.startswith("shard"))
        text = json.dumps(plan)
        counted = int(text.partition('"checkpoint": ')[2].split(",")[0].rstrip("}]"))
        self.assertLess(abs(counted - size), 20000)  # a header, and gaps to cache lines
        said = w.weft("plan", self.ini, *self.options("run", SMALL)).stdout
        self.assertIn("checkpoint.async copies as much", said)

    def train_apart(self, words_of, places):
        """One process a rank, as under another launcher, whose OUT is `run` in the folder
        places[rank]; [(status, what it said)]."""
        port = w.free_port()
        words = self.command("run", SMALL | {"run.key": self.key_file()})[:-1] + ["run.out=run"]
        return w.ends([self.by_hand(words_of(r) + words, w.place_of(r, len(places), port),
                                    cwd=self.path(where)) for r, where in enumerate(places)])

    def check_not_shared(self, ended, missing):
        for rank, (status, said) in enumerate(ended):
            self.assertIn(status, (1, 2) if rank else (2,), said)
            self.assertIn("is not one folder for all ranks", said)
        said = ended[0][1]
        named = ", ".join(rf"rank {r} on {os.uname().nodename}" for r in missing)
        self.assertRegex(said, r"run\.out = \S+ is not one folder for all ranks: what rank 0 on "
                               rf"{os.uname().nodename} wrote .* for {named}\. Set run\.out")
        self.assertFalse(os.path.exists(self.path("first", "run", "metrics.jsonl")))

    def test_out_is_not_shared(self):
        """Other folders: one is empty, one has another run's lock file, one is absent."""
        for name in ("first", "other/run", "empty/run", "absent"):
            os.makedirs(self.path(name))
        with open(self.path("other", "run", ".lock"), "w", encoding="ascii") as f:
            f.write("process 1 on somewhere, since ever\n0123456789abcdef\n")
        self.check_not_shared(
            self.train_apart(lambda r: [],
                             ["first", "other", "first", "empty", "absent", "first"]), (1, 3, 4))

    def test_out_is_not_shared_by_mounts(self):
        """The same path, and another file system under it for rank 1."""
        if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
            self.skipTest("no mount namespaces, or not the right to make one")
        os.makedirs(self.path("first", "run"))
        own = ["unshare", "--mount", "sh", "-c",
               "mount -t tmpfs none run && cd . && exec \"$@\"", "sh"]
        self.check_not_shared(self.train_apart(lambda r: own if r else [], ["first", "first"]),
                              (1,))

    @unittest.skipIf(w.SLOW > 1, "a bench measures the release build")
    def test_bench(self):
        """bench/save.py prints how long a save stops the run, beside the time of memcpy."""
        done = subprocess.run([sys.executable, "-B", BENCH, "--weft", w.WEFT, "--mib", "4",
                               "--saves", "3"], capture_output=True, text=True, check=False,
                              env=w.environment(), timeout=w.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([x["async"] for x in rows], ["on", "off"])
        for x in rows:
            self.assertGreater(int(x["bytes"]), 3 << 20)
            for name in ("stop_ms", "memcpy_ms", "stop_per_memcpy"):
                self.assertGreater(float(x[name]), 0, name)


if __name__ == "__main__":
    w.main()
