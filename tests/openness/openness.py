#!/usr/bin/env python3
"""openness.py BUILD: do plugins from outside work that need more than a formula an element?

Installs BUILD to a fresh prefix, builds plugins/ against it with find_package(weft), and trains
with them. Each is compared with one rank, in loss, gradient norm and in the parameters after the
last step; LAMB, Muon and Adafactor are compared with their formulas, in plain Python, as well.

The bounds. fp32 sums in another order differ by some 1e-7, which 20 updates enlarge: 1e-5 of a loss
or norm, and 1e-4 of the largest element of a tensor. In the formulas the gradient is recovered from
what plain SGD with a step of 1e4 has done, to 1e-7 of itself; Muon's iteration enlarges what is
small by up to 3.4445^5 = 485: 1e-3 of the largest element of an update."""
import json
import math
import operator
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PLACE = tempfile.mkdtemp(prefix="weft-openness-")
BUILD, sys.argv[1] = sys.argv[1], os.path.join(PLACE, "prefix", "bin", "weft")
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402

PLUGINS = os.path.join(PLACE, "build", "lib", "weft")
JOB = w.EVEN | {"run.plugins": PLUGINS, "checkpoint.every": 20, "comm.plugin": "shm",
                "train.precision": "fp32", "model.context": 48}
ALONE = {"parallel.strategy": "none"}
TP_DP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
ZERO = ("zero1", "zero2", "zero3")
PP_DP = {"parallel.strategy": "pp, dp", "parallel.pp": 2}


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    prefix, build = os.path.join(PLACE, "prefix"), os.path.join(PLACE, "build")
    for words in (["cmake", "--install", BUILD, "--prefix", prefix],
                  ["cmake", "-S", os.path.join(HERE, "plugins"), "-B", build,
                   "-DCMAKE_PREFIX_PATH=" + prefix],
                  ["cmake", "--build", build]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


class Compared(w.Bench):
    def near(self, one, many, keys=("loss", "grad_norm", "valid_loss")):
        a, b = w.metrics(self.path(one)), w.metrics(self.path(many))
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            for key in keys:
                self.assertEqual(key in x, key in y)
                if key in x:
                    self.assertLessEqual(abs(x[key] - y[key]), 1e-5 * abs(x[key]),
                                         f"{key} of step {x['step']}")
        a, b = w.tensors(self.path(one), 20), w.tensors(self.path(many), 20)
        b = {k: v for k, v in b.items() if not k.startswith("replica.")}
        self.assertEqual(sorted(a), sorted(b))
        far, name = w.furthest(a, b, [n for n in a if "qkv.b" not in n])
        self.assertLessEqual(far, 1e-4, name)

    def like_one_rank(self, job, shapes):
        self.train("one", job | ALONE)
        first, *_, last = w.metrics(self.path("one"))
        self.assertLess(last["loss"], first["loss"] - 0.1, "it does not train")
        for ranks, more in shapes:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", job | more, ranks=ranks)
                self.near("one", "many")

    def refused(self, job, text, ranks=2):
        said = self.train("refused", job, ranks=ranks, status=2).stderr
        self.assertIn(text, " ".join(said.split()))


class Formula(Compared):
    """A rule against its formula: weights and moments after each of three steps."""

    SMALL = JOB | ALONE | {"run.steps": 3, "model.layers": 1, "model.embed": 16, "model.ffn": 40,
                           "model.context": 16, "optim.warmup": 0, "optim.schedule": "constant",
                           "checkpoint.every": 1, "checkpoint.keep": 0}

    def steps(self, job, recover):
        """(step, name, shape, w before, w after, g, {state: (before, after)}) of each step and
        parameter; g is what recover(m before, m after) says, but at the first step SGD's."""
        sgd = self.SMALL | job | {"optim.rule": "sgd", "run.steps": 1}
        self.train("start", sgd | {"optim.lr": 1e-60})  # 0 in fp32
        self.train("far", sgd | {"optim.lr": 1e4})
        self.train("formula", self.SMALL | job)
        before, far = w.tensors(self.path("start"), 1), w.tensors(self.path("far"), 1)
        for step in (1, 2, 3):
            after = w.tensors(self.path("formula"), step)
            for name in (n for n in after if n + ".m" in after):
                shape, old = before[name]
                states = {s: (before.get(f"{name}.{s}", (0, [0.0] * len(old)))[1],
                              after[f"{name}.{s}"][1])
                          for s in ("m", "v") if f"{name}.{s}" in after}
                if step == 1:
                    g = [(x - y) / 1e4 for x, y in zip(old, far[name][1])]
                else:
                    g = [recover(x, y) for x, y in zip(*states["m"])]
                yield step, name, shape, list(old), list(after[name][1]), g, states
            before = after

    def close(self, is_, should, bound, what, rounding=0.0):
        most = bound * max(map(abs, should)) + rounding
        self.assertLessEqual(max(abs(x - y) for x, y in zip(is_, should)), most, what)

    def moved(self, old, new, by, what):
        """new = old - by, as far as fp32 can tell."""
        self.close([x - y for x, y in zip(old, new)], by, 1e-3, what,
                   1.2e-7 * max(map(abs, old)))


class Lamb(Formula):
    LAMB = {"optim.rule": "acme.lamb", "optim.lr": 0.05, "train.clip": 0.5}

    def test_like_one_rank(self):
        tied = {"model.tied": "on", "model.vocab": 257}  # rows that pad the table count nothing
        self.like_one_rank(JOB | self.LAMB | tied, (
            (2, {}), *((2, {"optim.placement": p}) for p in ("zero1", "zero2", "zero3")),
            (2, {"parallel.strategy": "tp"}), (4, TP_DP | {"optim.placement": "zero2"}),
            (4, PP_DP), (4, PP_DP | {"optim.placement": "zero3"})))

    def test_norms_go_together(self):
        """Two norms a parameter, in a few all-reduces: over dp all, over tp of what it splits."""
        job = JOB | self.LAMB | TP_DP | {"optim.placement": "zero1"}
        text = w.weft("plan", "-n", 4, self.ini, "--list", "--json",
                      *self.options("plan", job)).stdout
        plan = json.loads(text)
        counts = {"dp.update": [], "tp.update": []}
        for e in plan["step"]:
            if e["kind"] == "start" and e["channel"] in counts:
                counts[e["channel"]].append(e["count"])
        params = sum(not e["name"].endswith((".m", ".v")) for e in plan["save"])
        self.assertLessEqual(2 * params, sum(counts["dp.update"]))
        self.assertLess(sum(counts["tp.update"]), sum(counts["dp.update"]))
        for of in counts.values():
            self.assertLess(len(of), max(3, sum(of) / 8), counts)

    def test_formula(self):
        lr, decay, b1, b2 = 0.05, 0.01, 0.9, 0.999
        for count, name, _, old, new, g, states in self.steps(
                self.LAMB, lambda x, y: (y - b1 * x) / (1 - b1)):
            m, v = ([b * x + (1 - b) * y for x, y in zip(states[s][0], now)] for s, b, now in
                    (("m", b1, g), ("v", b2, [x * x for x in g])))
            self.close(states["m"][1], m, 1e-5, f"m of {name} after step {count}")
            self.close(states["v"][1], v, 1e-5, f"v of {name} after step {count}")
            share = decay if name.endswith(".w") else 0
            u = [x / (1 - b1**count) / (math.sqrt(y / (1 - b2**count)) + 1e-6) + share * p
                 for x, y, p in zip(states["m"][1], states["v"][1], old)]
            size, step = math.hypot(*old), math.hypot(*u)
            trust = size / step if size and step else 1
            self.moved(old, new, [lr * trust * x for x in u], f"{name} at step {count}")


def product(a, b):
    """[n, k] times [m, k] transposed."""
    return [[sum(map(operator.mul, x, y)) for y in b] for x in a]


def orthogonal(rows):
    size = math.hypot(*(x for row in rows for x in row)) or 1.0
    x = [[v / size for v in row] for row in rows]
    tall = len(x) > len(x[0])
    x = list(map(list, zip(*x))) if tall else x
    for _ in range(5):
        square = product(x, x)
        by = [[-4.7750 * p + 2.0315 * q for p, q in zip(*two)]
              for two in zip(square, product(square, square))]
        x = [[3.4445 * p + q for p, q in zip(*two)]
             for two in zip(x, product(by, list(map(list, zip(*x)))))]
    return list(map(list, zip(*x))) if tall else x


class Muon(Formula):
    MUON = {"optim.rule": "acme.muon", "optim.lr": 0.02}

    def test_like_one_rank(self):
        self.like_one_rank(JOB | self.MUON, (
            (2, {}), (2, {"parallel.strategy": "pp"}), (4, PP_DP),
            (2, {"parallel.strategy": "tp"}), (4, TP_DP)))

    def test_in_slices_like_one_rank(self):
        """Slices end anywhere in a matrix: three ranks divide none evenly."""
        self.like_one_rank(JOB | self.MUON, (
            *((2, {"optim.placement": p}) for p in ZERO),
            (3, {"optim.placement": "zero2", "train.microbatch": 2}),
            *((4, TP_DP | {"optim.placement": p}) for p in ZERO),
            (4, PP_DP | {"optim.placement": "zero3"})))

    def test_formula(self):
        lr, mu, seen = 0.02, 0.95, set()
        for _, name, shape, old, new, g, states in self.steps(self.MUON, lambda x, y: y - mu * x):
            m = [mu * x + y for x, y in zip(states["m"][0], g)]
            self.close(states["m"][1], m, 1e-5, f"m of {name}")
            u = [x + mu * y for x, y in zip(g, m)]
            if len(shape) == 2:
                seen.add(shape[0] > shape[1])
                columns = shape[1]
                rows = [u[i:i + columns] for i in range(0, len(u), columns)]
                long = math.sqrt(max(1, shape[0] / columns))
                u = [long * x for row in orthogonal(rows) for x in row]
            self.moved(old, new, [lr * x for x in u], name)
        self.assertEqual(seen, {True, False})

    def test_what_cannot_be_is_said(self):
        # Wider than tall and split by rows: its product with itself needs all rows, and here no op
        # takes its own part of a matrix.
        self.refused(JOB | self.MUON | {"parallel.strategy": "tp", "model.context": 16},
                     "update of embed.pos.w")


class Adafactor(Formula):
    ADAFACTOR = {"optim.rule": "acme.adafactor", "optim.lr": 0.005}

    def test_like_one_rank(self):
        tied = {"model.tied": "on", "model.vocab": 257}  # rows that pad the table count nothing
        self.like_one_rank(JOB | self.ADAFACTOR | tied, (
            (2, {}), (2, {"parallel.strategy": "pp"}), (2, {"parallel.strategy": "tp"}),
            (4, TP_DP)))

    @staticmethod
    def factored(v, shape):
        """r c / s of each matrix of the last two axes."""
        rows, columns = shape[-2:]
        out = []
        for at in range(0, len(v), rows * columns):
            x = [v[at + i * columns:at + (i + 1) * columns] for i in range(rows)]
            r, c = [math.fsum(row) for row in x], [math.fsum(col) for col in zip(*x)]
            s = math.fsum(r)
            out += [a * b / s for a in r for b in c]
        return out

    def test_formula(self):
        lr, b1, b2, ranks = 0.005, 0.9, 0.999, set()
        for count, name, shape, old, new, g, states in self.steps(
                self.ADAFACTOR, lambda x, y: (y - b1 * x) / (1 - b1)):
            ranks.add(len(shape))
            m = [b1 * x + (1 - b1) * y for x, y in zip(states["m"][0], g)]
            v = [b2 * x + (1 - b2) * (y * y + 1e-30) for x, y in zip(states["v"][0], g)]
            self.close(states["m"][1], m, 1e-5, f"m of {name} after step {count}")
            self.close(states["v"][1], v, 1e-5, f"v of {name} after step {count}")
            m, v = ([x / (1 - b**count) for x in states[k][1]] for k, b in (("m", b1), ("v", b2)))
            by = self.factored(v, shape) if len(shape) > 1 else v
            u = [x / (math.sqrt(y) + 1e-6) for x, y in zip(m, by)]
            rms = math.hypot(*u) / math.sqrt(len(u))
            self.moved(old, new, [lr * x / max(1, rms) for x in u], f"{name} at step {count}")
        self.assertLessEqual({1, 2, 4}, ranks)

    def test_what_cannot_be_is_said(self):
        self.refused(JOB | self.ADAFACTOR | {"optim.placement": "zero1"}, "needs whole matrices")


class Ring(Compared):
    RING = JOB | {"train.microbatch": 1, "parallel.strategy": "acme.ring", "optim.lr": 1e-2}

    def test_like_one_rank(self):
        job = self.RING | {"data.valid": self.path("valid.bin"), "train.eval_every": 10,
                           "train.eval_batches": 2}
        self.like_one_rank(job, ((2, {}), (4, {}), (2, {"train.recompute": "block"})))

    def test_beside_others(self):
        def with_(strategy, **more):
            return {"parallel.strategy": strategy, "parallel.cp": 2} | more
        self.like_one_rank(self.RING, (
            (4, with_("acme.ring, dp")), (4, with_("tp, acme.ring")), (4, with_("acme.ring, pp")),
            (4, with_("acme.ring, dp", **{"optim.placement": "zero2"}))))

    def test_three_ranks(self):
        self.like_one_rank(self.RING | {"train.sequence": 21}, ((3, {}),))

    def test_it_goes_round(self):
        """Three shifts forward and three backward, a block and pass, of [tokens, 3, embed]."""
        plan = w.weft("plan", "-n", 4, self.ini, "--json", *self.options("plan", self.RING))
        sent = json.loads(plan.stdout)["ranks"][0]["sent"]
        blocks, passes, tokens = 2, 12, 4
        self.assertEqual(sent["shift"], 2 * 3 * blocks * passes * tokens * 3 * 32 * 4)

    def test_its_ops_are_described(self):
        """From their docs, and by what their own functions answer."""
        place = f"run.plugins={PLUGINS}"
        self.assertIn("acme.ring.attend.dx ", w.weft("ops", place).stdout)
        said = " ".join(w.weft("ops", "acme.ring.attend", place).stdout.split())
        for text in ("of org.acme.ring", "form 2 of 2",
                     "y_before [tokens, heads, head_dim] compute gradient: yes",
                     "split along tokens y, lse split", "split along head_dim refused",
                     "gradient: of y, lse; appends sub acme.ring.attend.dx",
                     "rounds int required how many there are", 'the attribute "first"'):
            self.assertIn(text, said)
        op = json.loads(w.weft("ops", "acme.ring.attend", place, "--json").stdout)
        self.assertEqual((op["plugin"], len(op["forms"])), ("org.acme.ring", 2))

    def test_sweep_counts_shifts(self):
        with open(self.path("sweep.ini"), "w", encoding="utf-8") as f:
            f.write(f"[sweep]\nranks = 2\nrepeats = 1\nsteps = 2\nout = {self.path('swept')}\n")
        job = {k: v for k, v in self.RING.items()
               if k not in ("run.steps", "train.eval_every", "checkpoint.every", "log.progress")}
        w.weft("bench", self.path("sweep.ini"), *self.options("none", job)[:-1])
        with open(self.path("swept", "sweep.json"), encoding="utf-8") as f:
            (row,) = json.load(f)["rows"]
        self.assertEqual(row["sent_bytes"], row["sent_bytes_planned"])

    def test_what_cannot_be_is_said(self):
        self.refused(self.RING | {"train.microbatch": 3}, "say train.microbatch = 1")
        self.refused(self.RING | {"train.precision": "bf16"}, "say train.precision = fp32")
        self.refused(self.RING | {"parallel.strategy": "dp, acme.ring", "parallel.cp": 2},
                     "parallel.cp splits sequences", ranks=4)
        self.refused(self.RING | w.LLAMA, "model.family = gpt2")


class LocalSgd(Compared):
    """With an average after every step, plain SGD and twice the rate (a worker's gradient is half
    of its own mean) it is data parallelism. With a longer period it is not, and says so."""

    LOCAL = JOB | {"parallel.strategy": "acme.localsgd", "parallel.inner": 1, "optim.rule": "sgd",
                   "optim.momentum": 0, "train.clip": 0, "optim.lr": 0.4}
    PLAIN = LOCAL | {"parallel.strategy": "dp", "optim.lr": 0.2}

    def plain(self, job):
        return {k: v for k, v in job.items() if k != "parallel.inner"}

    def losses(self, out):
        return [x["loss"] for x in w.metrics(self.path(out))]

    def test_every_step_is_data_parallelism(self):
        self.train("plain", self.plain(self.PLAIN), ranks=2)
        self.train("local", self.LOCAL, ranks=2)
        for a, b in zip(self.losses("plain"), self.losses("local")):
            self.assertLessEqual(abs(a - b), 1e-5 * a)
        a, b = w.tensors(self.path("plain"), 20), w.tensors(self.path("local"), 20)
        self.assertLessEqual(w.furthest(a, b, [n for n in a if "qkv.b" not in n])[0], 1e-4)

    def test_every_fourth_is_not(self):
        """Of the loss of the first step all know; then the workers go ways of their own."""
        four = self.LOCAL | {"parallel.inner": 4}
        self.train("one", self.LOCAL, ranks=2)
        self.train("four", four, ranks=2)
        one, many = self.losses("one"), self.losses("four")
        self.assertEqual(one[0], many[0])
        self.assertTrue(any(abs(a - b) > 1e-5 * a for a, b in zip(one[1:], many[1:])))
        self.assertLess(many[-1], many[0] - 0.1)

    def test_seldom_with_equal_data(self):
        """One window of text is every sample, so that workers stay equal: one rank's run."""
        window = self.path("window.bin")
        tokens = w.numbers_of_weft.noisy_chain(self.LOCAL["train.sequence"] + 1, 251)
        w.numbers_of_weft.write_tokens(window, tokens, 251)
        four = self.LOCAL | {"data.train": window, "parallel.inner": 4}
        self.train("alone", self.plain(self.PLAIN | ALONE | {"data.train": window}))
        self.train("equal", four, ranks=2)
        self.near("alone", "equal", keys=("loss",))

    def test_it_says_so(self):
        plan = w.weft("plan", "-n", 2, self.ini, *self.options("plan", self.LOCAL))
        self.assertIn("workers average their parameters", plan.stdout)


if __name__ == "__main__":
    w.main()
