"""Jobs whose samples are text, encoded as they are read: plugins/data/text."""
import json

import started

TEXT = ("data.source=text", "data.begin=byte", "data.train=one.txt,two.txt", "data.valid=held.txt")
TOKENS = ("data.train=all.bin", "data.valid=held.bin", "data.order=starts")


class Text(started.Case):
    def texts(self):
        """Two texts to learn from and one to evaluate on, and token files of the same bytes."""
        lines = [f"{i * i % 9973} is the square of {i}, more or less.\n" for i in range(4000)]
        self.write("one.txt", "".join(lines[:1500]))
        self.write("two.txt", "".join(lines[1500:3800]))
        self.write("held.txt", "".join(lines[3800:])[:2001])
        self.weft("data", "one.txt", "two.txt", "-o", "all.bin")
        self.weft("data", "held.txt", "-o", "held.bin")

    def results(self, out):
        found = []
        for line in self.read(out, "metrics.jsonl").decode().splitlines():
            row = json.loads(line)
            found.append({k: row[k] for k in ("step", "loss", "grad_norm", "valid_loss")
                          if k in row})
        self.assertEqual(len(found), 4)
        self.assertEqual(sum("valid_loss" in row for row in found), 2)
        return found

    def trained(self, out, words, ranks=1):
        self.weft("train", "-n", ranks, "tiny.ini", *words, f"run.out={out}")
        return self.results(out)

    def test_new_job(self):
        """weft new writes a job that trains as it is, and leaves what it cannot do well alone."""
        self.texts()
        out, _ = self.weft("new", "my.ini", "--text", "one.txt")
        self.assertIn("weft train -n 2 my.ini", out)
        said = self.weft("train", "-n", 2, "my.ini", "run.steps=2", "optim.warmup=1",
                         "log.peak_gflops=1")[1]
        self.assertNotIn("warn", said)
        self.assertEqual(len(self.read("runs/my/metrics.jsonl").splitlines()), 2)
        was = self.read("my.ini")
        self.refused("new", "my.ini", why="my.ini")
        self.assertEqual(self.read("my.ini"), was)
        self.refused("new", "none/my.ini", why="none/my.ini")
        self.refused("new", "a b.ini", why="the name of the file becomes that of the run")
        self.refused("new", "b.ini", "--text", "a;b", why="data.train yourself")
        self.refused("new", why="name the job file")
        self.assertFalse({"a b.ini", "b.ini"} & set(self.names()))

    def test_names_with_commas(self):
        """A comma of a name has a backslash; a backslash before anything else is one."""
        self.texts()
        plain = self.trained("plain", TEXT)
        self.write("one, or more.txt", self.read("one.txt"))
        self.write("two\\b,\\.txt", self.read("two.txt"))
        names = r"data.train=one\, or more.txt, two\b\,\\.txt"
        self.assertEqual(self.trained("commas", TEXT + (names,)), plain)
        self.refused("train", "tiny.ini", *TEXT, "data.train=one, or more.txt",
                     why="text one")

    def test_it_is_the_job_of_its_token_file(self):
        self.texts()
        dp = ("parallel.strategy=dp", "comm.plugin=shm")
        for ranks, more in ((1, ()), (2, dp)):
            with self.subTest(ranks=ranks):
                a = self.trained(f"a{ranks}", TOKENS + more, ranks)
                b = self.trained(f"b{ranks}", TEXT + more, ranks)
                self.assertEqual(a, b)
        other = self.trained("c", TEXT + ("data.begin=line",))
        self.assertNotEqual(other, self.results("b1"))

    def test_it_resumes(self):
        self.texts()
        whole = self.trained("whole", TEXT)
        self.weft("train", "tiny.ini", *TEXT, "run.out=half", "run.steps=2")
        self.weft("train", "tiny.ini", *TEXT, "run.out=half", "--resume")
        self.assertEqual(self.results("half"), whole)
        self.write("two.txt", self.read("two.txt")[:-1] + b"!")
        said = self.weft("train", "tiny.ini", *TEXT, "run.out=half", "run.steps=6", "--resume",
                         status=2)[1]
        self.assertIn("data.source", said)
        out = self.weft("sample", "half/checkpoints/step-00000004", "--prompt", "9 is",
                        "--tokens", 5)[0]
        self.assertTrue(out.startswith("9 is"))

    def test_refusals(self):
        self.texts()
        self.write("empty.txt", "")
        for words, why in ((("data.train=",), "no data for training"),
                           (("data.train=one.txt,none.txt",), "none.txt"),
                           (("data.train=one.txt,,two.txt",), "is empty, or longer"),
                           (("data.train=empty.txt",), "empty.txt is empty"),
                           (("data.tokenizer=none",), "none"),
                           (("data.begin=word",), "data.begin"),
                           (("model.vocab=100",), "255")):
            with self.subTest(words):
                self.refused("train", "tiny.ini", *TEXT, *words, why=why)
        self.write("short.txt", "short\n")
        self.refused("train", "tiny.ini", *TEXT, "data.train=short.txt", why="the text has 6 bytes")


if __name__ == "__main__":
    started.main()
