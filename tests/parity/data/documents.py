#!/usr/bin/env python3
"""documents.py WEFT: does attention stay within documents, on every layout?

Samples that hold several documents are trained with data.documents = separate. What that computes
is, within rounding, what samples of one document each give, if a step has the same documents; the
losses of one rank are those of every layout within the bounds of layouts.py; and
recomputed activations have the same bits. Joined documents are a thousand times outside of the
bounds, so the mask is there."""
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

STEPS = 10
VOCAB = 97
BASE = {"run.steps": STEPS, "checkpoint.every": STEPS, "comm.plugin": "shm", "model.vocab": VOCAB,
        "model.heads": 4, "model.embed": 32, "model.ffn": 64, "model.context": 48,
        "train.batch": 12,
        "train.microbatch": 12, "train.sequence": 48, "data.documents": "separate"}
GPT2 = w.ODD | BASE
LLAMA = w.ODD | w.LLAMA | BASE | {"model.kv_heads": 2}
ONE = {"parallel.strategy": "none"}
TP = {"parallel.strategy": "tp", "parallel.tp": 2}
PP = {"parallel.strategy": "pp", "parallel.pp": 2}
# Ranks, and what differs from one rank.
LAYOUTS = [
    (2, {"train.microbatch": 6}), (3, {"train.microbatch": 2}), (2, TP),
    (2, TP | {"parallel.sequence": "on"}), (2, PP | {"train.microbatch": 3}),
    (2, PP | {"train.microbatch": 3, "parallel.schedule": "interleaved", "parallel.virtual": 2,
              "model.layers": 4}),
    (2, {"train.microbatch": 6, "optim.placement": "zero3"}),
    (4, {"parallel.strategy": "hybrid", "parallel.tp": 2, "parallel.pp": 2,
         "train.microbatch": 4}),
]


def write(path, tokens, ends=(), magic=20261121, version=1, vocab=VOCAB, width="H"):
    """A token file as docs/DATA.md has it; `ends` are those of documents."""
    n = len(tokens)
    head = [magic, 3 if ends else version, n, vocab, 0, 16 if width == "H" else 32, len(ends)]
    if not ends:
        head[5] = 0
    body = struct.pack(f"<{n}{width}", *tokens)
    if ends:
        body += bytes(-len(body) % 8) + struct.pack(f"<{len(ends)}Q", *ends)
    with open(path, "wb") as f:
        f.write(struct.pack(f"<{len(head)}I", *head) + bytes(1024 - 4 * len(head)) + body)


def some_tokens(n, seed=7):
    draw = random.Random(seed)
    out = [draw.randrange(VOCAB)]
    while len(out) < n:
        out.append(draw.randrange(VOCAB) if draw.random() < 0.3 else (3 * out[-1] + 1) % VOCAB)
    return out


def some_ends(n, seed=9):
    draw, ends = random.Random(seed), []
    while not ends or ends[-1] < n:
        ends.append(min(n, (ends[-1] if ends else 0) + draw.randint(1, 40)))
    return ends


class Documents(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokens = some_tokens(3001)
        write(cls.path("packed.bin"), tokens, some_ends(len(tokens)))
        cls.packed = {"data.train": cls.path("packed.bin")}

    def differs(self, one, two, bound=1e-2):
        with self.assertRaises(AssertionError):
            self.near(one, two, bound)

    def family(self, job):
        for ranks, layout in LAYOUTS:
            with self.subTest(ranks=ranks, layout=layout):
                keep = {k: v for k, v in layout.items() if k.startswith("model.")}
                self.train("one", job | self.packed | keep | ONE)
                self.train("many", job | self.packed | layout, ranks=ranks)
                print(f"{ranks} ranks {layout}: {self.near('one', 'many'):.1e} away")

    def test_gpt2(self):
        self.family(GPT2)

    def test_llama(self):
        self.family(LLAMA)

    def alone(self, job, far):
        """12 documents of 16 tokens in 4 samples, or in 12; a step has all of them."""
        job = job | {"model.context": 48, "run.seed": 3} | ONE
        tokens = some_tokens(12 * 16 + 1, 5)
        write(self.path("some.bin"), tokens, [*range(16, 12 * 16 + 1, 16), len(tokens)])
        some = {"data.train": self.path("some.bin")}
        three = {"train.sequence": 48, "train.batch": 4, "train.microbatch": 4}
        self.train("packed", job | some | three)
        self.train("alone", job | some | {"train.sequence": 16, "train.batch": 12,
                                          "train.microbatch": 12, "data.documents": "joined"})
        self.train("joined", job | some | three | {"data.documents": "joined"})
        self.near("packed", "alone")
        self.differs("joined", "alone", far)

    def test_alone_gpt2(self):
        self.alone(GPT2, 1e-3)

    def test_alone_llama(self):
        self.alone(LLAMA, 1e-3)

    def test_positions(self):
        """Positions that go on through the sample are another model."""
        self.train("anew", GPT2 | self.packed | ONE)
        self.train("on", GPT2 | self.packed | ONE | {"model.positions": "sample"})
        self.differs("anew", "on", 1e-3)

    def test_recompute(self):
        for job in (GPT2, LLAMA):
            for precision in ("fp32", "bf16"):
                job = job | self.packed | ONE | {"train.precision": precision}
                self.train("kept", job)
                for how in ("block", "selective"):
                    self.train("again", job | {"train.recompute": how})
                    self.same_run("kept", "again", STEPS,
                                  (*w.NO_TIME, "peak_bytes", "flops_rule"))

    def test_evaluation(self):
        job = GPT2 | self.packed | {"data.valid": self.path("packed.bin"), "train.eval_every": 5,
                                    "train.eval_batches": 2}
        self.train("one", job | ONE)
        self.train("two", job | {"train.microbatch": 6}, ranks=2)
        for x, y in zip(w.metrics(self.path("one")), w.metrics(self.path("two")), strict=True):
            self.assertEqual("valid_loss" in x, "valid_loss" in y)
            if "valid_loss" in x:
                self.assertAlmostEqual(x["valid_loss"], y["valid_loss"], delta=1e-4)

    def test_refused(self):
        plain = self.path("plain.bin")
        write(plain, some_tokens(1000))
        for words, extra in ((r"plain\.bin does not say where its documents end", {}),
                             ("begin:ID and end:ID are possible", {"data.boundary": "end:97"})):
            with self.assertRaises(AssertionError) as why:
                self.train("none", GPT2 | {"data.train": plain} | extra | ONE)
            self.assertRegex(str(why.exception), "ended with 2")
            self.assertRegex(str(why.exception), words)
        self.train("by_id", GPT2 | {"data.train": plain, "data.boundary": "end:96"} | ONE)


if __name__ == "__main__":
    w.main()
