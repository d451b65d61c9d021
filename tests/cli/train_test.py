"""weft train as a command: statuses, what it leaves behind, and a disk without room."""
import contextlib
import fcntl
import itertools
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import time

import started

FIELDS = {"step", "loss", "grad_norm", "lr", "tokens", "step_ms", "tokens_per_s", "mfu",
          "flops_rule", "comm_bytes", "exposed_comm_ms", "peak_bytes"}
LARGER = ["model.embed=128", "model.ffn=512"]  # its checkpoint is larger than a flight record


class Train(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def metrics(self, run="run"):
        return [json.loads(line) for line in self.read(run, "metrics.jsonl").splitlines()]

    def rows(self, run):
        """Of the metrics of a run that goes on."""
        path = self.path(run, "metrics.jsonl")
        return self.read(run, "metrics.jsonl").count(b"\n") if os.path.exists(path) else 0

    def test_a_run_leaves_what_it_should(self):
        self.weft("train", "tiny.ini")
        lines = self.metrics()
        self.assertEqual([x["step"] for x in lines], [1, 2, 3, 4])
        for x in lines:
            self.assertLessEqual(FIELDS, set(x))
            self.assertEqual("valid_loss" in x, x["step"] % 2 == 0)
            self.assertTrue(4 < x["loss"] < 6.5)  # about log(256)
        self.assertEqual([n for n in self.names("run", "checkpoints") if n[0] != "."],
                         ["step-00000002", "step-00000004"])
        self.assertIn("flight", self.names("run"))

    def test_the_job_files_that_come_along(self):
        """As the first comment of each says; the large are only planned. On small data."""
        self.demo_data()
        trained = 0
        for name, (command, ranks) in started.job_files().items():
            with self.subTest(job=name):
                ini = os.path.join(started.SOURCE, "configs", name + ".ini")
                if command == "plan" or ranks > 4:
                    self.weft("plan", "-n", ranks, ini)
                elif command == "train":
                    self.weft("train", "-n", ranks, ini, "run.steps=2", "train.eval_every=2",
                              "train.eval_batches=1", "log.peak_gflops=1",
                              "device.threads=1")
                    self.assertIn("valid_loss", self.metrics(f"runs/{name}")[1])
                    trained += 1
        self.assertGreater(trained, 12)

    def test_closed_standard_descriptors(self):
        """What the program prints does not get into a file of the run."""
        for ranks, closed in itertools.product((1, 2), ("2>&-", ">&- 2>&-", "<&- >&- 2>&-")):
            with self.subTest(ranks=ranks, closed=closed):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                command = [started.WEFT, "train", "-n", str(ranks), "tiny.ini", "log.progress=1",
                           "train.microbatch=1", "parallel.strategy=dp"]
                done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command],
                                      cwd=self.place, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, check=False)
                self.assertEqual(done.returncode, 0)
                self.assertEqual([x["step"] for x in self.metrics()], [1, 2, 3, 4])

    def test_out_that_is_a_file(self):
        self.write("taken", b"text")
        for resume in ([], ["--resume"], ["--resume=auto"]):
            with self.subTest(resume=resume):
                self.refused("train", "tiny.ini", "run.out=taken", *resume, why="run.out")
        os.mkdir(self.path("folder"))
        self.write("folder/checkpoints", b"text")
        self.refused("train", "tiny.ini", "run.out=folder", "--resume=auto",
                     why="run.out = folder: it or its checkpoints is a file; name a folder")

    def test_an_old_run_is_kept(self):
        self.weft("train", "tiny.ini", "run.steps=1")
        self.weft("train", "tiny.ini", "run.steps=2")
        self.weft("train", "tiny.ini", "run.steps=3")
        self.assertEqual([len(self.metrics(r)) for r in ("run.1", "run.2", "run")], [1, 2, 3])

    def test_old_checkpoints_go(self):
        self.weft("train", "tiny.ini", "checkpoint.every=1", "checkpoint.keep=2", "run.steps=5")
        self.assertEqual([n for n in self.names("run", "checkpoints") if n[0] != "."],
                         ["step-00000004", "step-00000005"])

    def test_a_start_at_step_1_is_said(self):
        """A run that does not go on from the one before it says so, and Slurm's requeue with it."""
        words = "tiny.ini", "log.level=warn", "optim.warmup=2"
        again = {"SLURM_RESTART_COUNT": "1"}
        self.assertEqual(self.weft("train", *words)[1], "")
        said = self.weft("train", *words)[1]
        self.assertIn("weft warn: run held a run; it is now run.1, and this run begins at step 1; "
                      "--resume=auto goes on from the newest", said)
        self.assertIn("begins at step 1, though Slurm has started the job before",
                      self.weft("train", *words, env=again)[1])
        new = *words, "run.out=new", "--resume=auto"
        self.assertEqual(self.weft("train", *new, "checkpoint.every=0")[1], "")
        self.assertIn("new has a run without a checkpoint: the run begins at step 1\n",
                      self.weft("train", *new)[1])
        self.assertNotIn("begins at step 1", self.weft("train", *new, env=again)[1])
        self.assertIn("none has no checkpoint: the run begins at step 1, though Slurm",
                      self.weft("train", *new, "run.out=none", env=again)[1])

    def test_a_longer_run_lifts_the_rate(self):
        words = "tiny.ini", "log.level=warn", "optim.warmup=1", "optim.lr=1e-3"
        self.weft("train", *words)
        said = self.weft("train", *words, "run.steps=8", "--resume")[1]
        self.assertIn("run.steps was 4 and is 8, so the learning rate rises from 0 to 0.000389 "
                      "after step 4", said)
        rates = [json.loads(line)["lr"] for line in self.read("run", "metrics.jsonl").splitlines()]
        self.assertAlmostEqual(rates[4], 0.000389, 6)
        self.weft("train", *words, "optim.schedule=constant", "run.out=flat")
        self.assertEqual(self.weft("train", *words, "optim.schedule=constant", "run.out=flat",
                                   "run.steps=8", "--resume")[1], "")

    def test_another_rule_cannot_resume(self):
        """Its states are others: nothing promises that --resume=force helps."""
        self.weft("train", "tiny.ini")
        for how in ("--resume", "--resume=force"):
            said = self.weft("train", "tiny.ini", "optim.rule=muon", "run.steps=6", how,
                             status=2)[1]
            self.assertIn("checkpoint.init", said)
        said = self.weft("train", "tiny.ini", "run.seed=9", "--resume", status=2)[1]
        self.assertIn("or use --resume=force to resume with the present ones", said)

    def test_resume_without_a_run(self):
        self.refused("train", "tiny.ini", "--resume", why="run")
        self.refused("train", "-n", "2", "tiny.ini", "parallel.strategy=dp", "--resume", why="run")

    def test_folders_that_cannot_be(self):
        self.write("file", "x")
        self.refused("train", "tiny.ini", "run.out=file/run", why="file")
        self.refused("train", "tiny.ini", "run.out=", why="run.out")
        self.refused("train", "tiny.ini", "run.out=" + "x" * 300, why="x" * 20)

    def test_a_failed_request_keeps_the_old_run(self):
        self.weft("train", "tiny.ini", "run.steps=1")
        before = self.everything()
        for words in (["train.batch=3"], ["data.train=missing"], ["optim.rule=nothing"]):
            self.weft("train", "tiny.ini", *words, status=2)
            self.weft("train", "-n", "2", "tiny.ini", "parallel.strategy=dp", *words, status=2)
        self.assertEqual(self.everything(), before)

    def test_no_ranks_are_started_for_a_wrong_job(self):
        said = self.weft("train", "-n", "4", "tiny.ini", "parallel.strategy=dp", status=2)[1]
        self.assertEqual(said.count("are not a multiple of"), 1, said)

    def test_a_run_that_diverges_says_so(self):
        said = self.weft("train", "tiny.ini", "optim.lr=1e6", "optim.warmup=0", "train.clip=0",
                         "optim.schedule=constant", "run.steps=60", "train.precision=fp32",
                         "optim.rule=sgd", "train.eval_every=0", "checkpoint.every=0", status=1)[1]
        self.assertIn("diverged", said)

    def no_room(self, bytes_):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
        return limit

    def test_files_may_not_grow(self):
        """A checkpoint that cannot be written whole is not there; the one before it is."""
        self.weft("train", "tiny.ini", "run.steps=2", *LARGER)
        said = self.weft("train", "tiny.ini", *LARGER, "--resume", status=1,
                         preexec_fn=self.no_room(400000))[1]
        self.assertIn("step-00000004", said)
        self.weft("ckpt", "verify", "run/checkpoints/step-00000002")
        self.assertNotIn("step-00000004", self.names("run", "checkpoints"))

    def test_full_disk(self):
        disk = self.path("disk")
        os.mkdir(disk)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk],
                               capture_output=True, check=False)
        if mount.returncode:
            self.skipTest("only root can make a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        said = self.weft("train", "tiny.ini", "run.out=disk/run", *LARGER, status=1)[1]
        self.assertRegex(said, "step-00000002.*No space left on device")
        self.assertNotIn("step-00000002", self.names("disk", "run", "checkpoints"))
        steps = [x["step"] for x in self.metrics("disk/run")]
        self.assertEqual(steps, [1, 2, 3, 4][:max(2, len(steps))])  # the next save waits for it

    def test_stopped_by_a_signal(self):
        p = subprocess.Popen([started.WEFT, "train", "tiny.ini", "run.steps=100000000"],
                             cwd=self.place, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, text=True)
        try:
            while self.rows("run") < 3:  # a save of step 2 has begun
                self.assertIsNone(p.poll())
                time.sleep(0.01)
            p.send_signal(signal.SIGTERM)
            said = p.communicate(timeout=300)[1]
        finally:
            p.kill()
        self.assertEqual(p.returncode, 75)
        step = self.metrics("run")[-1]["step"]
        self.assertIn(f"stopped by SIGTERM after step {step}, which is saved", said)
        self.assertIn(f"step-{step:08d}", self.names("run", "checkpoints"))

    def test_lines_of_progress(self):
        """A file has the first step, the last one, and one a second at most; a terminal one line,
        in which the newest step is."""
        quick = ("run.steps=400", "log.progress=auto", "train.eval_every=0", "checkpoint.every=0")
        began = time.monotonic()
        said = self.weft("train", "tiny.ini", *quick)[1]
        shown = [int(x) for x in re.findall(r"(?m)^\S+Z step (\d+)/400  loss", said)]
        self.assertEqual((shown[0], shown[-1]), (1, 400))
        self.assertLessEqual(len(shown), 3 + time.monotonic() - began)
        said = self.weft("train", "tiny.ini", *quick, "log.progress=100")[1]
        self.assertEqual(re.findall(r"step (\d+)/400", said), ["1", "100", "200", "300", "400"])
        master, slave = pty.openpty()
        with subprocess.Popen([started.WEFT, "train", "tiny.ini", "run.steps=20", *quick[1:]],
                              cwd=self.place, stdin=subprocess.DEVNULL, stderr=slave,
                              stdout=subprocess.DEVNULL) as p:
            os.close(slave)
            said = b""
            with contextlib.suppress(OSError):  # EIO: the terminal has no other end any more
                while got := os.read(master, 4096):
                    said += got
        os.close(master)
        self.assertEqual(p.returncode, 0)
        (line,) = [x for x in said.decode().split("\n") if "/20" in x]
        self.assertEqual(line.count("\r\033[Kstep "), 20)

    def test_nobody_reads_standard_error(self):
        """A full pipe stops nobody, and lines are lost; what a reader gets later is whole."""
        for ranks in (1, 2):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            read, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 16384)
            p = subprocess.Popen([started.WEFT, "train", "-n", str(ranks), "tiny.ini",
                                  "run.steps=100000000", "log.progress=1", "checkpoint.every=0",
                                  "train.eval_every=0", "train.microbatch=1",
                                  "parallel.strategy=" + ("none", "dp")[ranks - 1]],
                                 cwd=self.place, stdin=subprocess.DEVNULL, stderr=write,
                                 stdout=subprocess.DEVNULL)
            os.close(write)
            try:
                while self.rows("run") < 1000:
                    self.assertIsNone(p.poll())
                    time.sleep(0.05)
                p.send_signal(signal.SIGTERM)
                with open(read, encoding="utf-8") as f:
                    said = f.read()
                self.assertEqual(p.wait(), 1)
            finally:
                p.kill()
            shown = [line for line in said.splitlines() if " weft " not in line]
            self.assertLess(10, len(shown))
            self.assertLess(len(shown), self.rows("run") - 400)
            for line in shown:
                self.assertRegex(line, r"^\S+Z step [0-9]+/100000000  loss .* ETA [0-9:]+$")


if __name__ == "__main__":
    started.main()
