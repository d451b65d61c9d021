#!/usr/bin/env python3
"""vectors.py BUILD: does a model family from outside learn vectors from a data source from outside?

acme.mlp and acme.vectors (plugins/mlp) are built against an installed SDK. Loss, gradient norm,
gradients and parameters are compared with what PyTorch recorded (vectors.json, made by
vectors_reference.py), on one rank and in several layouts; the bounds are those of
tests/pytorch/compare.py."""
import json
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import installed  # noqa: E402  (installed.py; before weft_jobs: it sets the program)
import vectors_file as file  # noqa: E402  (vectors_file.py)
import weft_jobs as w  # noqa: E402

RECORDED = os.environ.get("RECORDED", os.path.join(HERE, "vectors.json"))
COMPARE = os.path.join(HERE, "..", "pytorch", "compare.py")


def setUpModule():
    installed.build("weft_model_acme.mlp", "weft_data_acme.vectors")


class Vectors(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ini = os.path.join(HERE, "vectors.ini")
        cls.write("train.vectors", file.content(file.samples("train", 200)))
        cls.write("valid.vectors", file.content(file.samples("valid", 36)))

    @classmethod
    def write(cls, name, content):
        with open(cls.path(name), "wb") as f:
            f.write(content)

    @classmethod
    def options(cls, out, job):
        return super().options(out, {
            "run.plugins": installed.PLUGINS, "data.train": cls.path("train.vectors"),
            "log.progress": 0, "device.threads": 1, "comm.plugin": "shm"} | job)

    def compare(self, out, *more):
        return subprocess.run([sys.executable, "-B", COMPARE, RECORDED, "vectors", self.path(out),
                               *more], capture_output=True, text=True)

    def like_pytorch(self, ranks, job, *more):
        self.train("run", {"data.valid": self.path("valid.vectors")} | job, ranks=ranks)
        done = self.compare("run", *more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(RECORDED, encoding="utf-8") as f:
            valid = json.load(f)["jobs"]["vectors"]["valid_loss"]
        found = w.metrics(self.path("run"))[-1]["valid_loss"]
        self.assertLessEqual(abs(found - valid), 2e-5 * valid)

    def test_one_rank(self):
        self.like_pytorch(1, {"parallel.strategy": "none"})
        losses = [x["loss"] for x in w.metrics(self.path("run"))]
        self.assertLess(losses[-1], losses[0] - 0.4, "it does not learn")

    def test_a_changed_loss_is_seen(self):
        self.train("changed", {"parallel.strategy": "none", "optim.lr": 1.0001e-2})
        self.assertEqual(self.compare("changed").returncode, 1)

    def test_layouts(self):
        for ranks, job in (
                (2, {"parallel.strategy": "dp"}), (4, {"parallel.strategy": "dp"}),
                (2, {"parallel.strategy": "dp", "optim.placement": "zero3"}),
                (2, {"parallel.strategy": "tp"}), (2, {"parallel.strategy": "pp"}),
                (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2,
                     "optim.placement": "zero2"})):
            with self.subTest(ranks=ranks, job=job):
                self.like_pytorch(ranks, job)

    def test_rounded_inputs(self):
        """In bf16 the core rounds the vectors; the loss is near."""
        self.train("bf16", {"parallel.strategy": "dp", "train.precision": "bf16"}, ranks=2)
        with open(RECORDED, encoding="utf-8") as f:
            steps = json.load(f)["jobs"]["vectors"]["steps"]
        got = [x["loss"] for x in w.metrics(self.path("bf16"))]
        self.assertTrue(all(abs(x - y["loss"]) < 0.02 * y["loss"] for x, y in zip(got, steps)))
        self.assertTrue(any(abs(x - y["loss"]) > 1e-5 for x, y in zip(got, steps)))

    def test_resume(self):
        job = {"optim.schedule": "constant", "parallel.strategy": "dp"}
        self.train("whole", job, ranks=2)
        self.train("half", job | {"run.steps": 10}, ranks=2)
        self.train("half", job, ranks=2, resume=True)
        self.same_tensors(w.tensors(self.path("whole"), 20), w.tensors(self.path("half"), 20))

    def refused(self, job, *says):
        done = self.train("refused", {"parallel.strategy": "none"} | job, status=None)
        self.assertNotEqual(done.returncode, 0)
        for text in says:
            self.assertIn(text, " ".join(done.stderr.split()))

    def test_damaged_files(self):
        good = file.content(file.samples("train", 20))
        body = good[len(file.LINE):]
        classes = struct.pack("<i", file.CLASSES)
        bad = {
            "cut": (good[:-1], "empty or truncated"),
            "empty": (file.LINE, "empty or truncated"),
            "tokens": (b"\x01\x02" * 600, "no first line"),
            "word": (b"vector 3 x:a=2\n" + body, "does not begin with the line"),
            "none": (b"vectors 3\n" + body, "names no field"),
            "zero": (b"vectors 0 x:a=2\n" + body, "no number of classes"),
            "axis": (b"vectors 3 x:a=0\n" + body, "'x' of the first line is not"),
            "many": (b"vectors 3 x:a=99999,b=99999,c=99999\n" + body, "has more than"),
            "number": (b"vectors 3 x:a=99999999999999999999\n" + body, "is not NAME:AXIS=SIZE"),
            "class": (good[:-4] + classes, "the class is not below 11"),
            "nan": (good[:-8] + b"\0\0\xc0\x7f" + good[-4:], "not finite"),
        }
        for name, (content, says) in bad.items():
            with self.subTest(name):
                self.write("bad", content)
                self.refused({"data.train": self.path("bad"), "run.steps": 40}, "data.train", says)
        self.refused({"data.train": self.path("missing")}, "No such file")

    def test_data_of_another_kind(self):
        tokens = super().path("train.bin")
        self.refused({"data.source": "tokens", "data.train": tokens},
                     "family acme.mlp needs data with at least one field of WEFT_F32")
        self.refused({"train.sequence": 4}, "a sample of the data has 1 rows")
        self.refused({"model.family": "gpt2", "model.heads": 5}, "nothing fills an input 'tokens'")

    def test_plans(self):
        """A family that takes its sizes from the data is planned where the data is."""
        plan = ("plan", "-n", 2, self.ini)
        done = w.weft(*plan, *self.options("plan", {"parallel.strategy": "dp"}))
        self.assertIn("1953 parameters", done.stdout)
        gone = {"data.train": self.path("missing"), "parallel.strategy": "dp"}
        done = w.weft(*plan, *self.options("plan", gone), status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("No such file", done.stderr)
        done = w.weft(*plan, *self.options("plan", gone | {"data.train": ""}), status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("takes its inputs and classes from the data", " ".join(done.stderr.split()))


if __name__ == "__main__":
    w.main()
