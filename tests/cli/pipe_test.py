"""Jobs from pipes: standard input (-), a FIFO, <(...) of a shell; any command, any ranks."""
import json
import os
import subprocess
import threading

import started

DP = "parallel.strategy=dp"


class Pipe(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def losses(self):
        return [json.loads(x)["loss"] for x in self.read("run", "metrics.jsonl").splitlines()]

    def piped(self, text, *words, status=0):
        """Run weft with `text` in its standard input; what it printed, both streams."""
        done = subprocess.run([started.WEFT, *map(str, words)], cwd=self.place, input=text,
                              capture_output=True, text=True, timeout=300, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, status, f"weft {words}\n{said}")
        return said

    def fed(self, text):
        """A FIFO that gives `text` to its first reader."""
        path = self.path("fifo")
        os.mkfifo(path)

        def feed():
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        threading.Thread(target=feed, daemon=True).start()
        return path

    def test_training_is_that_of_the_file(self):
        for ranks in (1, 2, 3):
            words = ["-n", ranks, DP, "train.microbatch=1", f"train.batch={ranks * 2}"]
            self.weft("train", "tiny.ini", *words)
            expected = self.losses()
            self.assertEqual(len(expected), 4)
            self.piped(started.TINY, "train", "-", *words)
            self.assertEqual(self.losses(), expected, f"{ranks} ranks")

    def test_a_fifo_at_two_ranks(self):
        self.weft("train", "-n", 2, "tiny.ini", DP)
        expected = self.losses()
        self.weft("train", "-n", 2, self.fed(started.TINY), DP)
        self.assertEqual(self.losses(), expected)

    def test_a_descriptor_of_the_shell(self):
        done = subprocess.run(
            ["bash", "-c", f'"{started.WEFT}" train -n 2 <(cat tiny.ini) {DP}'], cwd=self.place,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.losses()), 4)

    def test_other_commands(self):
        text = started.TINY + "[parallel]\nstrategy = dp\n"
        self.assertIn("2 ranks", self.piped(text, "plan", "-n", 2, "-"))
        self.assertIn("0 problems", self.piped(text, "doctor", "-", "-n", 1))
        self.assertIn("all_reduce", self.piped(text, "bench", "comm", "-n", 2, "-",
                                               "bench.max=64"))
        self.assertIn("tuned.ini", self.piped(text, "tune", "comm", "-n", 2, "-",
                                              "-o", "tuned.ini", "tune.max=4K",
                                              "tune.seconds=0.01", "tune.passes=1"))
        sweep = "[sweep]\nranks = 1, 2\nout = sweep\nsteps = 2\nrepeats = 1\n"
        self.assertIn("2 done", self.piped(text + sweep, "bench", "-"))

    def test_an_empty_pipe_is_no_job_of_defaults(self):
        for words in (["-"], ["-n", 2, "-"]):
            self.assertIn("standard input is empty",
                          self.piped("", "train", *words, status=2))
        self.assertIn("is empty", self.piped("", "train", "/dev/stdin", status=2))
        self.assertNotIn("run", self.names())

    def test_what_is_wrong_has_its_line(self):
        said = self.piped("[run]\nstep = 3\n", "train", "-n", 2, "-", status=2)
        self.assertIn("standard input:2: unknown key 'step' in [run]; did you mean", said)
        said = self.piped("; long\n" * 200000, "plan", "-", status=2)
        self.assertIn("standard input is longer than", said)

    def test_a_launchers_copy_that_is_none(self):
        for value in ("0", "77", "x", ""):
            self.refused("plan", "tiny.ini", env={"WEFT_JOB_FD": value}, why="WEFT_JOB_FD=")


if __name__ == "__main__":
    started.main()
