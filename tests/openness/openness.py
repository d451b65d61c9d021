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
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import exposition  # noqa: E402  (tests/openness/exposition.py)
import installed  # noqa: E402  (installed.py; before weft_jobs: it sets the program)
import weft_jobs as w  # noqa: E402

PLUGINS = installed.PLUGINS
JOB = w.EVEN | {"run.plugins": PLUGINS, "checkpoint.every": 20, "comm.plugin": "shm",
                "train.precision": "fp32", "model.context": 48}
ALONE = {"parallel.strategy": "none"}
TP_DP = {"parallel.strategy": "tp, dp", "parallel.tp": 2}
ZERO = ("zero1", "zero2", "zero3")
PP_DP = {"parallel.strategy": "pp, dp", "parallel.pp": 2}


def setUpModule():
    installed.build()


class Compared(w.Bench):
    def losses(self, out):
        return [x["loss"] for x in w.metrics(self.path(out))]

    def alike(self, one, many, **how):
        self.near(one, many, **how)
        self.near_tensors(one, many, 1e-4)

    def like_one_rank(self, job, shapes):
        self.train("one", job | ALONE)
        first, *_, last = w.metrics(self.path("one"))
        self.assertLess(last["loss"], first["loss"] - 0.1, "it does not train")
        for ranks, more in shapes:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", job | more, ranks=ranks)
                self.alike("one", "many")

    def resumed(self, job, ranks, more, near=1e-4):
        """Ten steps and ten more after a resume are twenty, bit for bit in this layout, and near
        from what one rank has saved."""
        job = job | more | {"optim.schedule": "constant"}
        for out in ("whole", "half", "alone"):
            shutil.rmtree(self.path(out), ignore_errors=True)
        self.train("whole", job, ranks=ranks)
        self.train("half", job | {"run.steps": 10}, ranks=ranks)
        self.train("half", job, ranks=ranks, resume=True)
        a, b = (w.tensors(self.path(out), 20) for out in ("whole", "half"))
        self.same_tensors(a, b)
        one = {k: v for k, v in job.items() if not k.startswith("parallel.")} | ALONE
        self.train("alone", one | {"run.steps": 10, "optim.placement": "none"})
        self.train("alone", job, ranks=ranks, resume=True)
        b = w.tensors(self.path("alone"), 20)
        far, name = w.furthest(a, b, [n for n in a if "qkv.b" not in n])
        self.assertLessEqual(far, near, name)

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
        sgd = self.SMALL | {k: v for k, v in job.items() if not k.startswith("optim.")} | {
            "optim.rule": "sgd", "run.steps": 1, "optim.momentum": 0, "optim.weight_decay": 0}
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


class Kernels(Compared):
    """A file of kernels alone: named by run.use, and taken by their scores."""

    GELU = JOB | {"run.use": "acme.gelu"}

    def kernels(self, job):
        steps = self.plan(job, 2, "--list")["step"]
        return (self.plan(job, 2)["digest"],
                {op["op"]: op.get("kernel") for e in steps for op in e.get("ops", ())})

    def test_higher_score_is_taken(self):
        digest, without = self.kernels(JOB)
        other, has = self.kernels(self.GELU)
        self.assertEqual(set(without.values()), {None}, "nothing of it without run.use")
        self.assertEqual(has.pop("gelu"), "acme.gelu")  # and not acme.late_gelu
        self.assertEqual(set(has.values()), {None}, "the device's own elsewhere")
        self.assertNotEqual(digest, other)
        text = w.weft("plan", "-n", 2, self.ini, "--list", *self.options("plan", self.GELU)).stdout
        self.assertRegex(text, r"gelu .* by acme\.gelu\n")

    def test_no_score_for_another_type(self):
        _, has = self.kernels(self.GELU | {"train.precision": "bf16"})
        self.assertEqual(set(has.values()), {None})

    def test_results(self):
        self.train("device", JOB, ranks=2)
        self.train("plugin", self.GELU, ranks=2)
        self.alike("device", "plugin")
        self.assertNotEqual(w.tensors(self.path("device"), 20), w.tensors(self.path("plugin"), 20),
                            "the same bits: it has not been called")

    def test_auto_brings_nothing(self):
        """Looking for a transport loads files of all kinds, and takes nothing from them."""
        _, has = self.kernels(JOB | {"comm.plugin": "auto"})
        self.assertEqual(set(has.values()), {None})

    def test_names(self):
        self.refused(JOB | {"run.use": "acme.gelo"}, "did you mean 'acme.gelu'?")
        self.refused(JOB | {"run.use": "lamb"}, "has neither an op nor a kernel")
        _, has = self.kernels(JOB | {"run.use": "acme.ring, acme.late_gelu"})
        self.assertEqual(has["gelu"], "acme.gelu", "one file, named by a component")
        said = w.weft("plugins", "run.plugins=" + PLUGINS).stdout
        self.assertRegex(said, r"(?m)^op +acme\.gelu +weft\.kernel/1 ")
        self.assertEqual(len([x for x in said.splitlines() if x.split()[1] == "acme.gelu"]), 1)


class Lamb(Formula):
    LAMB = {"optim.rule": "lamb", "optim.lr": 0.05, "train.clip": 0.5}

    def test_like_one_rank(self):
        tied = {"model.tied": "on", "model.vocab": 257}  # rows that pad the table count nothing
        self.like_one_rank(JOB | self.LAMB | tied, (
            (2, {}), *((2, {"optim.placement": p}) for p in ("zero1", "zero2", "zero3")),
            (2, {"parallel.strategy": "tp"}), (4, TP_DP | {"optim.placement": "zero2"}),
            (4, PP_DP), (4, PP_DP | {"optim.placement": "zero3"})))

    def test_norms_go_together(self):
        """Two norms a parameter, in a few all-reduces: over dp all, over tp of what it splits."""
        job = JOB | self.LAMB | TP_DP | {"optim.placement": "zero1"}
        plan = self.plan(job, 4, "--list")
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


def orthogonal(rows, rounds=5):
    size = math.hypot(*(x for row in rows for x in row)) or 1.0
    x = [[v / size for v in row] for row in rows]
    tall = len(x) > len(x[0])
    x = list(map(list, zip(*x))) if tall else x
    for _ in range(rounds):
        square = product(x, x)
        by = [[-4.7750 * p + 2.0315 * q for p, q in zip(*two)]
              for two in zip(square, product(square, square))]
        x = [[3.4445 * p + q for p, q in zip(*two)]
             for two in zip(x, product(by, list(map(list, zip(*x)))))]
    return list(map(list, zip(*x))) if tall else x


class Muon(Formula):
    MUON = {"optim.rule": "muon", "optim.lr": 0.02}
    # AdamW steps as far for gradients that are sums of nothing but rounding: compared with an eps
    # above them.
    NEAR = MUON | {"optim.adam_eps": 1e-5}

    def test_like_one_rank(self):
        self.like_one_rank(JOB | self.NEAR, (
            (2, {}), (2, {"parallel.strategy": "pp"}), (4, PP_DP),
            (2, {"parallel.strategy": "tp"}), (4, TP_DP)))

    def test_in_slices_like_one_rank(self):
        """Slices end anywhere in a matrix: three ranks divide none evenly."""
        self.like_one_rank(JOB | self.NEAR, (
            *((2, {"optim.placement": p}) for p in ZERO),
            (3, {"optim.placement": "zero2", "train.microbatch": 2}),
            *((4, TP_DP | {"optim.placement": p}) for p in ZERO),
            (4, PP_DP | {"optim.placement": "zero3"})))

    def test_llama(self):
        """Projections to heads that are parameters of their own, of two sizes; gates beside ups."""
        self.like_one_rank(JOB | self.NEAR | w.LLAMA | {"model.kv_heads": 2}, (
            (2, {"parallel.strategy": "tp"}), (2, {"optim.placement": "zero3"}),
            (4, TP_DP | {"optim.placement": "zero1"})))

    @staticmethod
    def matrices(name, shape, u):
        """The matrices that the elements u are, as rows: [heads, head_dim] are rows of the fused
        projections, which are three matrices, and columns of attn.out."""
        rows, n = shape[0], 1
        if "attn.qkv" in name:
            n, rows = shape[0], shape[1] * shape[2]
        columns = len(u) // n // rows
        lines = [u[i:i + columns] for i in range(0, len(u), columns)]
        return [lines[i:i + rows] for i in range(0, len(lines), rows)]

    def formula(self, more, mu=0.95, nesterov=True, rounds=5, decay=0.0, adam=0.1, adjusted=None):
        lr, (b1, b2), eps, seen = 0.02, (0.9, 0.95), 1e-8, set()
        adjusted = adjusted or (lambda rows, columns: math.sqrt(max(1, rows / columns)))
        for count, name, shape, old, new, g, states in self.steps(
                self.MUON | more, lambda x, y: y - mu * x):
            share, rate = decay if name.endswith(".w") else 0, lr
            before, now = states["m"]
            if "v" in states:
                seen.add("embed" if "embed" in name else "vector" if len(shape) < 2 else name)
                if count > 1:
                    g = [(y - b1 * x) / (1 - b1) for x, y in zip(before, now)]
                m = [b1 * x + (1 - b1) * y for x, y in zip(before, g)]
                v = [b2 * x + (1 - b2) * y * y for x, y in zip(states["v"][0], g)]
                self.close(states["v"][1], v, 1e-4, f"v of {name}")
                u = [x / (1 - b1**count) / (math.sqrt(y / (1 - b2**count)) + eps)
                     for x, y in zip(now, states["v"][1])]
                rate = lr * adam
            else:
                m = [mu * x + y for x, y in zip(before, g)]
                u = [x + mu * y for x, y in zip(g, m)] if nesterov else m
                every = self.matrices(name, shape, u)
                rows, columns = len(every[0]), len(every[0][0])
                seen |= {"tall" if rows > columns else "wide", len(shape)}
                long = adjusted(rows, columns)
                u = [long * x for one in every for row in orthogonal(one, rounds) for x in row]
            self.close(now, m, 1e-5, f"m of {name}")
            self.moved(old, new, [rate * (x + share * p) for x, p in zip(u, old)], name)
        self.assertEqual(seen, {"tall", "wide", "embed", "head.w", "vector", "block.0.attn.qkv.b",
                                2, 3, 4})

    def test_formula(self):
        self.formula({})

    def test_options(self):
        self.formula({"optim.nesterov": "off", "optim.ns_steps": 1, "optim.weight_decay": 0.5,
                      "optim.adam_lr": 1, "optim.momentum": 0.5,
                      "optim.adjust_lr": "match_rms_adamw"},
                     mu=0.5, nesterov=False, rounds=1, decay=0.5, adam=1,
                     adjusted=lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)))
        for key, value, said in (("ns_steps", 0, "ns_steps"), ("ns_steps", 21, "ns_steps"),
                                 ("adam_betas", "0.9", "must be two numbers"),
                                 ("adjust_lr", "none", "adjust_lr")):
            self.refused(JOB | self.MUON | {"optim." + key: value}, said, ranks=1)

    def test_resume(self):
        job = JOB | self.NEAR | {"checkpoint.every": 10}
        self.resumed(job, 2, {"optim.placement": "zero2"})

    def test_what_cannot_be_is_said(self):
        # Wider than tall and split by rows: its product with itself needs all rows, and here no op
        # takes its own part of a matrix.
        self.refused(JOB | self.MUON | {"parallel.strategy": "tp", "model.ffn": 16},
                     "update of block")


class Adam8(Compared):
    """tests/parity/optim follows its codes and weights in double precision."""
    RULE = {"optim.rule": "adam8", "optim.lr": 3e-3}

    def test_like_adam(self):
        """Within 5 % of what AdamW learns, alone and in every layout. A code is off by up to a
        127th of its root: some percent of a moment, of either sign."""
        losses = {}
        for out, job, ranks in (("adamw", JOB | self.RULE | ALONE | {"optim.rule": "adamw"}, 1),
                                ("one", JOB | self.RULE | ALONE, 1),
                                *((p, JOB | self.RULE | {"optim.placement": p}, 2) for p in ZERO),
                                ("tp", JOB | self.RULE | TP_DP, 4)):
            self.train(out, job, ranks=ranks)
            losses[out] = self.losses(out)
        learned = losses["adamw"][0] - losses["adamw"][-1]
        self.assertGreater(learned, 0.3)
        for out, of in losses.items():
            far = max(abs(x - y) for x, y in zip(of, losses["adamw"]))
            self.assertLess(far, 0.05 * learned, out)

    def test_resume(self):
        self.resumed(JOB | self.RULE | {"checkpoint.every": 10}, 2,
                     {"optim.placement": "zero2"}, near=0.25)

    def test_options(self):
        self.refused(JOB | self.RULE | {"optim.betas": "0.9"}, "must be two numbers", ranks=1)
        self.refused(JOB | self.RULE | {"optim.betas": "0.9, 1"}, "betas", ranks=1)
        self.train("bounds", JOB | self.RULE | ALONE | {"optim.betas": "0, 0"})
        first, *_, last = w.metrics(self.path("bounds"))
        self.assertLess(last["loss"], first["loss"])


class BuiltOutside(Compared):
    """The rules that weft ships, from their sources and the installed SDK alone: that file is
    loaded, where run.plugins has it, and trains to the bits of the one that comes with the program,
    which is loaded elsewhere. So what the tests above say of one holds for both."""

    def test_same_bits(self):
        for rule in ("lamb", "muon", "adafactor", "adam8"):
            shipped = {k: v for k, v in JOB.items() if k != "run.plugins"} | {"optim.rule": rule}
            for ranks, more in ((1, ALONE), (2, {"optim.placement": "zero2"})):
                with self.subTest(rule=rule, ranks=ranks):
                    own = self.train("own", shipped | more, ranks=ranks).stderr
                    self.assertNotIn("takes the place of", own)
                    said = self.train("outside", shipped | more | {"run.plugins": PLUGINS},
                                      ranks=ranks).stderr
                    self.assertIn(f"the optim plugin '{rule}' is loaded from {PLUGINS}/optim/"
                                  f"{rule}.so, which takes the place of ", " ".join(said.split()))
                    self.same_run("own", "outside", 20)


class RowsAndColumns(Formula):
    ROWCOL = {"optim.rule": "acme.rowcol", "optim.lr": 0.005}

    def test_like_one_rank(self):
        tied = {"model.tied": "on", "model.vocab": 257}  # rows that pad the table count nothing
        self.like_one_rank(JOB | self.ROWCOL | tied, (
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
                self.ROWCOL, lambda x, y: (y - b1 * x) / (1 - b1)):
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


class Adafactor(Formula):
    RULE = {"optim.rule": "adafactor", "optim.lr": 0.025}

    def test_like_one_rank(self):
        self.like_one_rank(JOB | self.RULE, (
            (2, {}), (2, {"parallel.strategy": "tp"}), (4, PP_DP),
            *((2, {"optim.placement": p}) for p in ZERO),
            (3, {"optim.placement": "zero2", "train.microbatch": 2}),
            *((4, TP_DP | {"optim.placement": p}) for p in ZERO)))

    def test_formula(self):
        """The gradient is known from SGD at the first step. Later it follows from the update, since
        clip_rms is out of reach; then its means have to be those that the states took."""
        lr, far = 0.025, {"optim.rule": "sgd", "run.steps": 1}
        free = self.RULE | {"optim.clip_rms": 1e6}
        self.train("start", self.SMALL | far | {"optim.lr": 1e-60})
        self.train("far", self.SMALL | far | {"optim.lr": 1e4})
        self.train("formula", self.SMALL | free)
        before, away = w.tensors(self.path("start"), 1), w.tensors(self.path("far"), 1)
        for step in (1, 2, 3):
            after, share = w.tensors(self.path("formula"), step), step ** -0.8
            for name, (shape, old) in (
                    (n, x) for n, x in before.items() if n in away and not n.startswith("scalar.")):
                columns = shape[-1] if len(shape) > 1 else 1
                n = len(old)
                if len(shape) > 1:
                    r, c = (after[f"{name}.{s}"][1] for s in "rc")
                    mean = sum(r) / len(r)
                    v = [x * y / mean for x in r for y in c]
                else:
                    v = after[name + ".v"][1]
                rate = lr * max(1e-3, math.sqrt(sum(x * x for x in old) / n))
                new = after[name][1]
                g = [(x - y) / rate * math.sqrt(z) for x, y, z in zip(old, new, v)]
                if step == 1:
                    known = [(x - y) / 1e4 for x, y in zip(old, away[name][1])]
                    self.close(g, known, 1e-3, name, 2e-7 * max(map(abs, old)) / rate *
                               math.sqrt(max(v)))
                    g = known
                squares = [x * x for x in g]
                if len(shape) < 2:
                    means = {"v": squares}
                else:
                    rows = [squares[i:i + columns] for i in range(0, n, columns)]
                    means = {"r": [sum(x) / columns for x in rows],
                             "c": [sum(x) / len(rows) for x in zip(*rows)]}
                for s, mean in means.items():
                    had = before.get(f"{name}.{s}", (0, [0.0] * len(mean)))[1]
                    self.close(after[f"{name}.{s}"][1],
                               [x + share * (y - x) for x, y in zip(had, mean)], 1e-2,
                               f"{s} of {name} after step {step}")
            before = {n: x for n, x in after.items()}

    def test_options(self):
        """With no share of the old, v is g g + 1e-30, and without a clip a vector whose elements
        have a gradient moves by lr rms(p), and by lr weight_decay p if it is a matrix."""
        job = self.SMALL | self.RULE | {"optim.clip_rms": 1e6, "optim.decay_rate": 0}
        for out, decay in (("plain", 0), ("decay", 0.5)):
            self.train(out, job | {"run.steps": 1, "optim.weight_decay": decay})
        self.train("start", job | {"run.steps": 1, "optim.lr": 1e-60})
        start, plain, decay = (w.tensors(self.path(x), 1) for x in ("start", "plain", "decay"))
        for name in (n for n in start if n.endswith((".w", ".b", ".g"))):
            moved = [x - y for x, y in zip(plain[name][1], decay[name][1])]
            share = 0.025 * 0.5 if name.endswith(".w") else 0
            self.moved(start[name][1], [x - y for x, y in zip(start[name][1], moved)],
                       [share * x for x in start[name][1]], name)
        self.refused(job | {"optim.decay_rate": 1.5}, "decay_rate", ranks=1)

    def test_resume(self):
        """Bit for bit in the same layout, and near in others."""
        job = JOB | self.RULE | {"checkpoint.every": 10, "optim.lr": 0.01}
        layouts = ((1, ALONE), (2, {"optim.placement": "zero2"}), (4, TP_DP))
        for ranks, more in layouts:
            with self.subTest(more=more):
                self.resumed(job, ranks, more)


class Types(Compared):
    """Elementwise Adam with the first moment in bf16; a byte and a whole number beside each
    parameter of a rule of whole ones."""

    HALF = {"optim.rule": "acme.halfadam", "optim.lr": 3e-3}

    def test_half(self):
        """A rounding to 8 bits turns what differs in the last bit of fp32 into 1/256 of a moment,
        so that layouts end only as near to each other as bf16 is to fp32."""
        self.train("one", JOB | ALONE | self.HALF)
        self.train("full", JOB | ALONE | self.HALF | {"optim.rule": "adam"})
        for ranks, more in ((2, {}), (2, {"optim.placement": "zero3"}), (4, TP_DP),
                            (4, PP_DP | {"optim.placement": "zero1"})):
            self.train("many", JOB | self.HALF | more, ranks=ranks)
            for other in ("many", "full"):
                for x, y in zip(*(w.metrics(self.path(out)) for out in ("one", other))):
                    self.assertLessEqual(abs(x["loss"] - y["loss"]), 2e-3 * x["loss"])
        kinds = {n: t["dtype"] for n, t in self.manifest("many").items()}
        for name, dtype in kinds.items():
            self.assertEqual(dtype, "BF16" if name.endswith(".m") else "F32", name)
        self.assertTrue(any(n.endswith(".m") for n in kinds))

    def manifest(self, out):
        with open(os.path.join(w.folder(self.path(out), 20), "manifest.json"),
                  encoding="utf-8") as f:
            return json.load(f)["tensors"]

    def test_half_memory(self):
        state = [self.plan(JOB | ALONE | self.HALF | {"optim.rule": rule})["ranks"][0]["state"]
                 for rule in ("adam", "acme.halfadam")]
        self.assertAlmostEqual(state[1] / state[0], 6 / 8, delta=0.01)

    def test_half_resume(self):
        for ranks, more in ((1, ALONE), (2, {"optim.placement": "zero2"})):
            self.resumed(JOB | self.HALF | {"checkpoint.every": 10}, ranks, more, near=2e-2)

    def test_whole_numbers(self):
        """They keep their bits: in the update, in checkpoints, in another layout."""
        job = JOB | {"optim.rule": "acme.marks", "checkpoint.every": 10, "optim.lr": 0.5}
        self.like_one_rank(job, ((2, {}), (2, {"optim.placement": "zero1"}),
                                 (3, {"optim.placement": "zero3", "train.microbatch": 2}),
                                 (4, TP_DP), (4, TP_DP | {"optim.placement": "zero2"})))
        self.resumed(job, 2, {"optim.placement": "zero2"})
        found = w.tensors(self.path("half"), 20)
        for name, want in (("b", 7), ("i", -123456792), ("n", 0.25)):
            of = {n: x for n, x in found.items() if n.endswith("." + name) and n[:-2] in found}
            self.assertGreater(len(of), 10)
            for shape, values in of.values():
                self.assertEqual(set(values), {want})
            if name != "b":
                self.assertEqual({tuple(x[0]) for x in of.values()}, {(1,)})


class Shampoo(Formula):
    RULE = {"optim.rule": "acme.shampoo", "optim.lr": 0.02}

    def test_like_one_rank(self):
        self.like_one_rank(JOB | self.RULE, (
            (2, {}), (2, {"parallel.strategy": "tp"}), (4, PP_DP),
            *((2, {"optim.placement": p}) for p in ZERO),
            (4, TP_DP | {"optim.placement": "zero3"})))

    def test_formula(self):
        lr, seen, squares = 0.02, set(), {}
        for step, name, shape, old, new, g, states in self.steps(
                self.RULE, lambda x, y: y - 0.9 * x):
            u = states["m"][1]
            if len(shape) == 2:
                tall = shape[0] > shape[1]
                seen.add(tall)

                def turned(x):
                    return list(map(list, zip(*x))) if tall else x
                rows, m = (turned([x[i:i + shape[1]] for i in range(0, len(x), shape[1])])
                           for x in (g, u))
                unit = [[float(i == k) for k in range(len(rows))] for i in range(len(rows))]
                squares[name] = l = [[0.95 * x + 0.05 * y for x, y in zip(*two)] for two in
                                     zip(squares.get(name, unit), product(rows, rows))]
                flat, now = sum(l, []), w.tensors(self.path("formula"), step)
                self.close(now[name + ".l"][1], flat, 1e-5, f"l of {name}")
                self.assertEqual(list(now[name + ".unit"][1]), sum(unit, []))
                size = math.hypot(*flat)
                y, z = [[x / size for x in row] for row in l], unit
                for _ in range(6):
                    t = [[1.5 * (i == k) - 0.5 * x for k, x in enumerate(row)]
                         for i, row in enumerate(product(z, y))]
                    y, z = product(y, t), product(t, z)
                u = sum(turned(product(z, list(map(list, zip(*m))))), [])
            self.moved(old, new, [lr * x for x in u], name)
        self.assertEqual(seen, {True, False})

    def test_resume(self):
        for ranks, more in ((1, ALONE), (2, {"optim.placement": "zero3"}), (4, TP_DP)):
            with self.subTest(more=more):
                self.resumed(JOB | self.RULE | {"checkpoint.every": 10}, ranks, more)


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
        sent = self.plan(self.RING, 4)["ranks"][0]["sent"]
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


class Ulysses(Compared):
    ULYSSES = JOB | {"parallel.strategy": "acme.ulysses", "optim.lr": 1e-2}

    def with_(self, strategy, **more):
        return {"parallel.strategy": strategy, "parallel.cp": 2} | more

    def test_like_one_rank(self):
        job = self.ULYSSES | {"data.valid": self.path("valid.bin"), "train.eval_every": 10,
                              "train.eval_batches": 2}
        self.like_one_rank(job, ((2, {}), (4, {}), (2, {"train.recompute": "block"}),
                                 (2, {"comm.plugin": "tcp"})))

    def test_beside_others(self):
        zero3 = {"optim.placement": "zero3"}
        self.like_one_rank(self.ULYSSES, (
            (4, self.with_("acme.ulysses, dp")), (4, self.with_("acme.ulysses, dp", **zero3)),
            (2, self.with_("acme.ulysses", **zero3)), (4, self.with_("acme.ulysses, tp")),
            (4, self.with_("acme.ulysses, pp")), (4, self.with_("acme.ulysses, pp", **zero3))))

    def test_llama(self):
        """Rotary embeddings and shared keys go with the heads."""
        llama = w.LLAMA | {"model.kv_heads": 2}
        self.like_one_rank(self.ULYSSES | llama, (
            (2, {}), (4, self.with_("acme.ulysses, dp"))))

    def test_what_it_sends(self):
        """Three fourths of queries, keys and values, and of the result, there and back, a block and
        pass; a gradient goes back in each direction's place."""
        sent = self.plan(self.ULYSSES, 4)["ranks"][0]["sent"]
        blocks, passes, tokens, embed = 2, 4, 3 * 16 // 4, 32
        self.assertEqual(sent["all_to_all"],
                         2 * (3 + 1) * blocks * passes * tokens * embed * 4 * 3 // 4)

    def test_what_cannot_be_is_said(self):
        self.refused(self.ULYSSES | {"parallel.strategy": "dp, acme.ulysses", "parallel.cp": 2},
                     "parallel.cp splits sequences", ranks=4)
        self.refused(self.ULYSSES | {"parallel.strategy": "tp, acme.ulysses", "parallel.cp": 2},
                     "name the strategy of cp before that of tp", ranks=4)
        self.refused(self.ULYSSES | w.LLAMA, "axis 'kv_heads' of")


class HostColl(Compared):
    """A library of collectives from outside; tests/coll has it in all kinds of layout."""

    def test_like_links(self):
        """Shifts, all-to-alls, all-reduces in groups of two: the bits of `pairwise` over tcp."""
        for ranks, job in ((4, Ring.RING), (4, Ulysses.ULYSSES), (4, Gossip.GOSSIP)):
            with self.subTest(strategy=job["parallel.strategy"]):
                self.train("link", job | {"comm.plugin": "tcp", "comm.algorithm": "pairwise"},
                           ranks=ranks)
                self.train("library", job | {"comm.plugin": "acme.hostcoll"}, ranks=ranks)
                self.same_run("link", "library", 20, w.NO_TIME + ("peak_bytes", "comm_bytes"))


class LowRank(Compared):
    """Weights as w + B A. The strategy brings no mesh axis, and an op stands between a parameter
    and its use: gradients pass it as partial sums."""

    FOUR = JOB | {"train.microbatch": 1, "parallel.strategy": "acme.lowrank"}
    OVER = {"parallel.strategy": "acme.lowrank, dp"}

    def test_like_one_rank(self):
        shapes = [(2, self.OVER)] + [(3, self.OVER | {"optim.placement": z}) for z in ZERO]
        shapes += [(4, {"parallel.strategy": "acme.lowrank, tp, dp", "parallel.tp": 2,
                        "parallel.sequence": s, "optim.placement": "zero2"}) for s in ("on", "off")]
        shapes += [(4, {"parallel.strategy": "acme.lowrank, pp, dp", "parallel.pp": 2})]
        self.train("one", self.FOUR)
        for ranks, more in shapes:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", self.FOUR | more, ranks=ranks)
                self.alike("one", "many")

    def sums(self, job):
        plan = self.plan(job, 3)
        self.assertEqual(plan["micro_batches"], 4)
        (only,) = plan["ranks"][0]["collectives"]
        return plan["parameters"], only["starts"], only["sent"]

    def test_gradients_are_summed_once_a_step(self):
        plain, starts, sent = self.sums(self.FOUR | {"parallel.strategy": "dp"})
        params, again, more = self.sums(self.FOUR | self.OVER)
        self.assertEqual(again, starts)
        self.assertLess(abs(more - sent - (params - plain) * 4 * 4 / 3), 1024)


class Copies(Compared):
    """States that begin as their parameter."""

    PLAIN = JOB | {"optim.rule": "sgd", "optim.momentum": 0, "optim.lr": 0.2, "train.clip": 0,
                   "optim.weight_decay": 0, "data.order": "starts"}
    SLOW = PLAIN | {"optim.lr": 0.4, "parallel.every": 1, "parallel.strategy": "acme.lookahead"}
    START = JOB | {"optim.rule": "acme.l2sp", "optim.lr": 0.2}

    def test_half_the_way_is_half_the_rate(self):
        """From the first round on: p0 + (p0 - lr g - p0) / 2 = p0 - lr g / 2."""
        self.train("plain", self.PLAIN | ALONE)
        for ranks, more in ((1, {}), (2, {"parallel.strategy": "acme.lookahead, dp"}),
                            (4, {"parallel.strategy": "acme.lookahead, tp, dp", "parallel.tp": 2}),
                            (4, {"parallel.strategy": "acme.lookahead, pp, dp",
                                 "parallel.pp": 2})):
            with self.subTest(ranks=ranks, more=more):
                self.train("slow", self.SLOW | more, ranks=ranks)
                a, b = w.tensors(self.path("plain"), 20), w.tensors(self.path("slow"), 20)
                self.assertLessEqual(w.furthest(a, b, [n for n in a if "qkv.b" not in n])[0], 1e-4)
                self.assertEqual(*([list(b[n + s][1]) for n in a if n + ".slow" in b]
                                   for s in ("", ".slow")))

    def starts(self, job, ranks=1, out="from", resume=False):
        self.train(out, self.START | job, ranks=ranks, resume=resume)
        saved = w.tensors(self.path(out), 20)
        return {n: list(saved[n][1]) for n in saved if n.endswith(".start")}, saved

    def test_a_rule_in_every_layout(self):
        """The fp32 masters, bit for bit; a resumed job has the state of the checkpoint."""
        self.train("first", self.PLAIN | ALONE | {"optim.lr": 1e-60})
        first = w.tensors(self.path("first"), 20)
        want = {n + ".start": list(first[n][1]) for n in first if not n.startswith("scalar.")}
        for ranks, more in [(1, ALONE)] + [
                (ranks, more | {"optim.placement": z, "train.precision": p})
                for ranks, more in ((2, {}), (4, TP_DP), (4, PP_DP))
                for z, p in (("none", "bf16"), ("zero1", "fp32"), ("zero3", "bf16"))]:
            with self.subTest(ranks=ranks, more=more):
                found, saved = self.starts(more, ranks)
                self.assertEqual(found, want)
                self.assertTrue(any(list(saved[n[:-6]][1]) != v for n, v in found.items()))
        self.train("half", self.START | ALONE | {"run.steps": 10, "checkpoint.every": 10})
        self.assertEqual(self.starts({"optim.placement": "zero2"}, 2, "half", True)[0], want)
        weights = w.folder(self.path("half"), 20)
        loaded = w.tensors(self.path("half"), 20)
        found, _ = self.starts({"checkpoint.init": weights, "optim.placement": "zero1"}, 2, "tuned")
        self.assertEqual(found, {n: list(loaded[n[:-6]][1]) for n in found})


class Lazy(Compared):
    """Parameters that are updated in every fourth step, with the mean of the gradients."""

    LAZY = JOB | {"parallel.strategy": "acme.lazy", "optim.schedule": "constant",
                  "optim.warmup": 0, "data.order": "starts", "train.microbatch": 1}
    SOME = LAZY | {"parallel.lazy": "embed*|*.qkv.w|*.ffn.in.b"}
    OVER = (3, {"parallel.strategy": "acme.lazy, dp"})
    SHAPES = [OVER, (2, OVER[1] | {"optim.placement": "zero1"}),
              (4, {"parallel.strategy": "acme.lazy, tp, dp", "parallel.tp": 2}),
              (4, {"parallel.strategy": "acme.lazy, pp, dp", "parallel.pp": 2})]

    def last(self, out, step=20):
        saved = w.tensors(self.path(out), step)
        return {n: v for n, v in saved.items() if not n.startswith(("replica.", "scalar."))}

    def test_all_are_a_larger_batch(self):
        """Four steps are one of four times the samples: SGD with momentum, Adam, LAMB."""
        for rule in ("sgd", "adamw", "lamb"):
            with self.subTest(rule=rule):
                job = self.LAZY | {"optim.rule": rule, "train.clip": 0.5}
                self.train("four", job)
                large = {k: v for k, v in job.items() if k != "parallel.strategy"} | ALONE
                self.train("one", large | {"run.steps": 5, "checkpoint.every": 5,
                                           "train.batch": 4 * w.EVEN["train.batch"]})
                a, b = self.last("one", 5), self.last("four")
                self.assertLessEqual(w.furthest(a, b, [n for n in a if "qkv.b" not in n])[0], 1e-4)
                norms = [[x["grad_norm"] for x in w.metrics(self.path(o))] for o in ("one", "four")]
                for x, y in zip(norms[0], norms[1][3::4], strict=True):
                    self.assertLessEqual(abs(x - y), 1e-4 * x)

    def test_some_in_every_layout(self):
        self.train("one", self.SOME)
        for ranks, more in self.SHAPES:
            with self.subTest(ranks=ranks, more=more):
                self.train("many", self.SOME | more, ranks=ranks)
                self.alike("one", "many", keys=("loss", "grad_norm"))

    def test_bytes_go_in_every_fourth_step(self):
        for placement in ("none", "zero1"):
            with self.subTest(placement=placement):
                ranks, more = self.OVER
                self.train("all", self.LAZY | more | {"optim.placement": placement,
                                                      "comm.plugin": "tcp"}, ranks=ranks)
                sent = [x["comm_bytes"] for x in w.metrics(self.path("all"))]
                self.assertLess(max(sent[4:7]), 512)
                self.assertGreater(min(sent[3::4]), 50000)

    def test_between_two_updates(self):
        """A checkpoint after step 10 has the gradients of two steps: the bits of an unbroken run in
        the same layout, and its numbers in another."""
        for ranks, more in self.SHAPES:
            with self.subTest(ranks=ranks, more=more):
                self.resumed(self.SOME, ranks, more)

    def resumed(self, job, ranks, more):
        job = job | more | {"checkpoint.every": 10}
        for out in ("whole", "half", "other"):
            shutil.rmtree(self.path(out), ignore_errors=True)
        self.train("whole", job, ranks=ranks)
        for out in ("half", "other"):
            self.train(out, job | {"run.steps": 10}, ranks=ranks)
        self.train("half", job, ranks=ranks, resume=True)
        self.same_tensors(w.tensors(self.path("whole"), 20), w.tensors(self.path("half"), 20))
        self.train("other", self.SOME, resume=True)
        a, b = self.last("whole"), self.last("other")
        sums = [n for n in a if n.endswith(".gradient") or "qkv.b" in n]
        self.assertLessEqual(w.furthest(a, b, [n for n in a if n not in sums])[0], 1e-4)

    def test_two_gradients_of_one_op(self):
        """One adds up over steps, the other counts for its step alone, as without the first."""
        job = self.LAZY | {"optim.rule": "sgd", "optim.momentum": 0, "train.clip": 0,
                           "optim.still.params": "*.ln1.g", "optim.still.lr": 0,
                           "parallel.every": 2, "run.steps": 2, "checkpoint.every": 2}
        self.train("both", job | {"parallel.lazy": "*.ln1.g", "parallel.also": "*.ln1.b"})
        self.train("alone", job | {"parallel.lazy": "*.ln1.b", "parallel.mean": "off"})
        a, b = self.last("both", 2), self.last("alone", 2)
        for name in (n for n in a if n.endswith("ln1.b")):
            self.assertTrue(any(a[name][1]), name)
            self.assertEqual(a[name][1].tobytes(), b[name][1].tobytes(), name)

    def test_sums_of_two_bytes(self):
        """Those of three ranks, which one rank adds up."""
        ranks, more = self.OVER
        short = {"train.precision": "bf16", "train.accumulate": "compute", "checkpoint.every": 10,
                 "run.steps": 10}
        self.train("short", self.SOME | short | more, ranks=ranks)
        saved = w.tensors(self.path("short"), 10)
        name = "block.0.attn.qkv.w.gradient"
        parts = [saved[n][1] for n in (name, f"replica.1.{name}", f"replica.2.{name}")]
        for step in (11, 12):  # the update is that of four steps
            self.train("short", self.SOME | short | {"run.steps": step, "checkpoint.every": 1},
                       resume=True)
        there = w.tensors(self.path("short"), 11)[name][1]
        whole = [sum(x) for x in zip(*parts)]
        most = max(map(abs, whole))
        self.assertGreater(most, 0)
        self.assertTrue(any(there))
        far = max(abs(x - y) for x, y in zip(whole, there))
        self.assertLess(far, 1.5 * max(map(abs, there)))  # one step more
        self.assertFalse(any(w.tensors(self.path("short"), 12)[name][1]))

    def test_from_a_step_on(self):
        """Bits stay for ten steps, and the norm is that of the others; then all are updated."""
        job = self.SOME | {"parallel.every": 1, "parallel.from": 10, "parallel.mean": "off",
                           "checkpoint.every": 10, "checkpoint.keep": 0}
        self.train("start", self.SOME | {"parallel.every": 1, "optim.lr": 1e-60,
                                         "optim.weight_decay": 0})
        start = self.last("start")
        lazy = [n for n in start if n.startswith("embed") and n.endswith(".w")]
        lazy += [n for n in start if n.endswith(("qkv.w", "ffn.in.b"))]
        for ranks, more in [(1, {}), self.OVER, (2, self.OVER[1] | {"optim.placement": "zero3"})]:
            with self.subTest(ranks=ranks, more=more):
                self.train("later", job | more, ranks=ranks)
                for name in lazy:
                    bits = [self.last("later", step)[name][1].tobytes() for step in (10, 20)]
                    self.assertEqual(bits[0] == start[name][1].tobytes(), True, name)
                    self.assertNotEqual(bits[0], bits[1], name)

    def test_what_it_cannot_do(self):
        _, more = self.OVER
        for key, value, text in (
                ("optim.placement", "zero2", "summed after every micro-batch"),
                ("comm.compress", "int8", "sums of gradients are compressed"),
                ("train.precision", "fp16", "the loss scale of fp16"),
                ("parallel.from", 4, "so `from` is 0")):
            with self.subTest(key=key):
                self.refused(self.LAZY | more | {key: value}, text)


class Gossip(Compared):
    """With both pairings after every step, four peers are data parallelism at four times the rate
    (a peer's gradient is a quarter of its own mean)."""

    GOSSIP = JOB | {"parallel.strategy": "acme.gossip", "optim.rule": "sgd", "optim.momentum": 0,
                    "train.clip": 0, "optim.lr": 0.8}

    def test_every_step_is_data_parallelism(self):
        dp = self.GOSSIP | {"parallel.strategy": "dp"}
        for ranks, comm in ((2, {}), (4, {}), (4, {"comm.plugin": "tcp"})):
            with self.subTest(ranks=ranks, comm=comm):
                self.train("plain", dp | comm | {"optim.lr": 0.8 / ranks}, ranks=ranks)
                self.train("pairs", self.GOSSIP | comm, ranks=ranks)
                self.alike("plain", "pairs", keys=("loss",), same=("step", "tokens"))

    def test_every_fourth_is_not(self):
        """Of the loss of the first step all ranks know; where they meet seldom, they learn, too,
        and not the same."""
        self.train("one", self.GOSSIP, ranks=4)
        self.train("four", self.GOSSIP | {"parallel.odd": 4}, ranks=4)
        one, many = self.losses("one"), self.losses("four")
        self.assertEqual(one[0], many[0])
        self.assertTrue(any(abs(a - b) > 1e-5 * a for a, b in zip(one[1:], many[1:])))
        self.assertLess(many[-1], many[0] - 0.1)

    def test_pairs_are_equal(self):
        """After the even list alone, 0 and 1 have the same parameters, and 2 and 3 have others."""
        self.train("even", self.GOSSIP | {"parallel.odd": 1000}, ranks=4)
        saved = w.tensors(self.path("even"), 20)
        params = [n for n in saved if not n.startswith(("replica.", "scalar."))]
        for name in params:
            own, *others = (list(saved[f"replica.{r}.{name}" if r else name][1]) for r in range(4))
            self.assertEqual(own, others[0], name)
            self.assertEqual(others[1], others[2], name)
        self.assertTrue(any(list(saved[n][1]) != list(saved["replica.2." + n][1]) for n in params))

    def test_odd_number(self):
        self.refused(self.GOSSIP | {"train.batch": 18}, "parallel.peers must be even", ranks=3)

    def test_it_says_so(self):
        plan = w.weft("plan", "-n", 2, self.ini, *self.options("plan", self.GOSSIP))
        self.assertIn("peers average in pairs", plan.stdout)


class Prometheus(Compared):
    """A sink with a thread of its own, which clients ask while the job trains."""

    JOB = JOB | ALONE | {"run.steps": 10**8, "checkpoint.every": 0, "run.name": 'my "own" job',
                         "log.sinks": "jsonl, prometheus", "model.layers": 1}

    def start(self, out, **more):
        job = {"data.valid": self.path("valid.bin"), "train.eval_every": 500}
        run = w.Running(self, out, self.JOB | job | more, 1)
        address = os.path.join(run.out, "prometheus.address")
        run.until(lambda: w.read_text(address).endswith("\n"), "an address")
        return run, w.read_text(address).strip()

    def scrape(self, address):
        status, text = exposition.ask(address)
        self.assertEqual(status, 200)
        values, types = exposition.parse(text)
        self.assertTrue(all(("job", r"my \"own\" job") in labels for _, labels in values))
        return {name: v for (name, labels), v in values.items() if len(labels) == 1}, values, types

    def test_values_are_those_of_the_file(self):
        run, address = self.start("scraped")
        seen = {}
        run.until_step(1)

        def four():
            got, _, types = self.scrape(address)
            if got["weft_step"] > 0:
                seen[int(got["weft_step"])] = got
            self.assertLessEqual(set(types.values()), {"gauge", "counter"})
            return len(seen) >= 4

        run.until(four, "four steps")
        run.until_step(max(seen))
        lines = {x["step"]: x for x in w.metrics(run.out)}
        for step, got in seen.items():
            last = {}  # of every name, also of those that this step has not
            for at in sorted(x for x in lines if x <= step):
                last |= lines[at]
            names = set(last) - {"step", "time", "host", "attempt", "flops_rule", "version"}
            self.assertEqual(set(got) - {"weft_step"}, {"weft_" + n for n in names})
            for name in names:
                self.assertLessEqual(abs(got["weft_" + name] - last[name]),
                                     1e-8 * abs(got["weft_" + name]), name)
        self.assertIn(f"metrics are served at http://{address}/metrics", run.said())

    def test_events_are_counted(self):
        run, address = self.start("events", **{"checkpoint.every": 20, "checkpoint.async": "off"})
        run.until_step(41)
        _, values, types = self.scrape(address)
        count = {dict(labels)["event"]: v for (name, labels), v in values.items()
                 if name == "weft_events_total"}
        self.assertEqual(types["weft_events"], "counter")
        self.assertEqual(count["begin"], 1)
        self.assertGreaterEqual(count["checkpoint"], 2)

    def test_hostile_clients(self):
        """A crowd that says nothing, garbage, and requests without end: others are served."""
        run, address = self.start("hostile")
        files = len(os.listdir(f"/proc/{run.pid}/fd"))
        crowd = [socket.create_connection(address.split(":"), 10) for _ in range(40)]
        for s in crowd:
            self.addCleanup(s.close)
        for s in crowd[::2]:
            s.sendall(b"GET /metr")
        for request, answers in ((b"", (0,)), (b"\0\0\0\0", (400, 0)), (b"GET\r\n\r\n", (400,)),
                                 (b"GET / HTTP/1.1\r\n\r\n", (404,)),
                                 (b"POST /metrics HTTP/1.1\r\n\r\n", (405,)),
                                 (b"GET /metrics HTTP/2.0\r\n\r\n", (400,)),
                                 (b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n", (400,)),
                                 (b"x" * 100000, (431, 0)),
                                 (b"GET /metrics?a=b HTTP/1.0\r\n\r\n", (200,))):
            with self.subTest(request=request[:40]):
                if request:
                    self.assertIn(exposition.ask(address, request)[0], answers)
                began = time.monotonic()
                self.scrape(address)
                self.assertLess(time.monotonic() - began, w.patience(2))
        self.assertLess(len(os.listdir(f"/proc/{run.pid}/fd")), files + 12)
        self.assertIsNone(run.process.poll())

    def test_the_end(self):
        """No thread is left to wait for, and the port is free again; a wrong address is said."""
        run, address = self.start("ends", **{"checkpoint.every": 10**8})
        run.until_step(1)
        held = socket.create_connection(address.split(":"), 10)
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        held.close()
        self.assertFalse(os.path.exists(os.path.join(run.out, "prometheus.address")))
        for key, value, why in (("address", "nowhere", "is not an IPv4 or IPv6 address"),
                                ("port", 99999, "sink.prometheus.port")):
            said = self.train("wrong", self.JOB | {"sink.prometheus." + key: value},
                              status=2).stderr
            self.assertIn(why, " ".join(said.split()))
        said = self.train("without", self.JOB | {"sink.prometheus.address": "203.0.113.1",
                                                 "run.steps": 5}).stderr
        self.assertIn("cannot listen at port 0 of 203.0.113.1", " ".join(said.split()))


class Throttle(Compared):
    """A wrapper: another transport at a limited rate."""

    FAST = JOB | {"parallel.strategy": "dp", "run.steps": 10, "checkpoint.every": 0,
                  "comm.plugin": "tcp", "log.sinks": "jsonl"}
    SLOW = FAST | {"comm.plugin": "acme.throttle", "comm.acme.throttle.inner": "tcp"}

    def test_it_takes_its_time(self):
        rate = 2000000
        self.train("fast", self.FAST, ranks=2)
        self.train("slow", self.SLOW | {"comm.acme.throttle.rate": rate}, ranks=2)
        self.same_run("fast", "slow", skip=(*w.NO_TIME, "acme.throttle.waited_ms"))
        for x in w.metrics(self.path("slow")):
            least = 1000 * x["comm_bytes"] / rate
            self.assertGreater(least, 5)
            self.assertGreaterEqual(x["step_ms"], 0.99 * least, x["step"])
            self.assertGreater(x["acme.throttle.waited_ms"], 0)

    def test_a_rate_that_does_not_matter(self):
        job = self.SLOW | {"comm.acme.throttle.rate": "100G"}
        for inner in ("tcp", "shm"):
            self.train("plain", self.FAST | {"comm.plugin": inner}, ranks=2)
            self.train("wrapped", job | {"comm.acme.throttle.inner": inner}, ranks=2)
            self.assertEqual(self.losses("plain"), self.losses("wrapped"))

    def test_ranks_with_other_rates(self):
        """They are told, by what the ranks exchange through the host's kv table."""
        port, job = w.free_port(), self.SLOW | {"run.key": self.key_file()}
        ended = w.ends([self.by_hand(
            self.command("rates", job | {"comm.acme.throttle.rate": f"{rank + 1}M"}),
            w.place_of(rank, 2, port)) for rank in (0, 1)])
        said = [" ".join(text.split()) for _, text in ended]
        self.assertTrue(all(status for status, _ in ended))
        self.assertTrue(any("rank 1 has comm.acme.throttle.rate = 2097152, this rank 1048576" in x
                            or "rank 0 has comm.acme.throttle.rate = 1048576, this rank 2097152"
                            in x for x in said), said)

    def test_refusals(self):
        for inner, why in (("", "inner is empty"), ("nothing", "no comm plugin 'nothing'"),
                           ("acme.throttle", "does not lead back to the wrapper")):
            said = self.train("refused", self.SLOW | {"comm.acme.throttle.inner": inner},
                              ranks=2, status=None)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(why, " ".join(said.stderr.split()))


if __name__ == "__main__":
    w.main()
