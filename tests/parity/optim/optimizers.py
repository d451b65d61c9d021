#!/usr/bin/env python3
"""optimizers.py WEFT: the rules that need more than a formula an element: lamb, muon, adafactor and
adam8, as they are shipped; tests/openness has their formulas.

A skipped step changes no bit, whoever has which slice. Sizes that nothing divides: the run of one
rank, to what fp32 sums in another order are apart after 20 updates (1e-5 of a loss or norm, 1e-4 of
the largest element of a tensor). The bytes of the state are those of the formulas.

adam8 is followed in double precision, step by step: from the codes, scales and weights of one
checkpoint to those of the next. A code that is rounded to its neighbour would hide errors in a
comparison of whole runs."""
import math
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

RULES = {"lamb": {"optim.lr": 0.05}, "muon": {"optim.lr": 0.02, "optim.adam_eps": 1e-5},
         "adafactor": {"optim.lr": 0.025}, "adam8": {"optim.lr": 3e-3}}
PLAIN = {"optim.schedule": "constant", "optim.warmup": 0, "checkpoint.every": 1,
         "checkpoint.keep": 0, "comm.plugin": "shm"}
ALONE = {"parallel.strategy": "none"}
UNIT = 2**-24  # of rounding in fp32


def zero(stage, **more):
    return {"optim.placement": f"zero{stage}"} | more


class Skipped(w.Bench):
    """The loss scale doubles until gradients overflow, in the middle of training."""

    JOB = w.EVEN | PLAIN | {"train.precision": "fp16", "train.loss_scale": 2**30, "run.steps": 24,
                            "train.scale_window": 1}

    def check(self, rule, ranks, more):
        self.train("run", self.JOB | RULES[rule] | {"optim.rule": rule} | more, ranks=ranks)
        lines, skips, before = w.metrics(self.path("run")), [], w.tensors(self.path("run"), 1)
        for x, y in zip(lines, lines[1:]):
            after = w.tensors(self.path("run"), y["step"])
            same = {n for n in after if after[n][1].tobytes() == before[n][1].tobytes()}
            own = {n for n in after if not n.startswith("scalar.")} | {"scalar.count"}
            if y["skipped"] > x["skipped"]:
                skips.append((y["step"], list(after["scalar.count"][1])[0]))
                self.assertEqual(own - same, set(), f"{rule} in the skipped step {y['step']}")
            else:
                self.assertNotIn("scalar.count", same)
                self.assertLess(len(own & same), len(own) / 2, (rule, y["step"]))
            before = after
        self.assertTrue(any(count >= 3 for _, count in skips), f"no skip between updates: {skips}")

    def test_nothing_changes(self):
        for rule in RULES:
            for ranks, more in ((1, ALONE), (2, zero(2)), (3, zero(3, **{"train.microbatch": 2})),
                                (2, {"parallel.strategy": "tp"})):
                with self.subTest(rule=rule, ranks=ranks, more=more):
                    self.check(rule, ranks, more)


class OddSizes(w.Bench):
    """Nothing in these models is a multiple of a slice, a rank or a cache line."""

    def test_like_one_rank(self):
        for rule in ("lamb", "muon", "adafactor"):
            job = w.ODD | RULES[rule] | {"optim.rule": rule, "checkpoint.every": 20,
                                         "comm.plugin": "shm"}
            self.train("one", job | ALONE)
            first, *_, last = w.metrics(self.path("one"))
            self.assertLess(last["loss"], first["loss"] - 0.05, "it does not train")
            for ranks, more in ((3, {"parallel.strategy": "tp", "model.ffn": 42}),
                                *((n, zero(k, **{"train.microbatch": 2}))
                                  for n in (2, 3) for k in (1, 2, 3))):
                with self.subTest(rule=rule, ranks=ranks, more=more):
                    alone = "one"
                    if "model.ffn" in more:
                        alone = "wider"
                        self.train(alone, job | more | ALONE)
                    self.train("many", job | more, ranks=ranks)
                    self.near(alone, "many")
                    self.near_tensors(alone, "many", 1e-4)


def shapes(layers, heads, embed, ffn, context, vocab):
    """The parameters of gpt2 with a head of its own: {name: axes}."""
    dim, of = embed // heads, {}
    for i in range(layers):
        of |= {f"{i}.{name}": axes for name, axes in {
            "ln1.g": [embed], "ln1.b": [embed], "qkv.w": [3, heads, dim, embed],
            "qkv.b": [3, heads, dim], "out.w": [embed, heads, dim], "out.b": [embed],
            "ln2.g": [embed], "ln2.b": [embed], "in.w": [ffn, embed], "in.b": [ffn],
            "down.w": [embed, ffn], "down.b": [embed]}.items()}
    return of | {"tok": [vocab, embed], "pos": [context, embed], "ln.g": [embed], "ln.b": [embed],
                 "head": [vocab, embed]}


class Memory(w.Bench):
    """The bytes of a rank's state, exactly: each state at a multiple of 64 bytes, all of them to a
    page."""

    SIZES = {"layers": 3, "heads": 4, "embed": 512, "ffn": 1100, "context": 64, "vocab": 5003}

    def planned(self, rule, more=None, ranks=1):
        job = w.EVEN | {f"model.{k}": v for k, v in self.SIZES.items()} | {"optim.rule": rule} | (
            more or ALONE)
        plan = self.plan(job, ranks)
        return plan["parameters"], [r["state"] for r in plan["ranks"]]

    @staticmethod
    def up(n, to=64):
        return -(-n // to) * to

    def total(self, of):
        return self.up(sum(of(name, axes) for name, axes in shapes(**self.SIZES).items()), 4096)

    def test_one_rank(self):
        up = self.up

        def adafactor(_, axes):
            rows, columns = math.prod(axes[:-1]), axes[-1]
            return up(4 * rows) + up(4 * columns) if len(axes) > 1 else up(4 * columns)

        def muon(name, axes):
            hidden = name.endswith(".w")
            return (1 if hidden else 2) * up(4 * math.prod(axes))

        states = {"adafactor": adafactor, "muon": muon,
                  "adam8": lambda _, axes: 2 * up(math.prod(axes)) + 2 * up(4),
                  "lamb": lambda _, axes: 2 * up(4 * math.prod(axes))}
        parameters = sum(map(math.prod, shapes(**self.SIZES).values()))
        adamw, bytes_of = self.planned("adamw")[1][0], {}
        self.assertLess(abs(adamw - 8 * parameters), 8192 + 128 * 41)
        for rule, of in states.items():
            n, (bytes_of[rule],) = self.planned(rule)
            self.assertEqual(n, parameters)
            self.assertEqual(bytes_of[rule], self.total(of), rule)
        self.assertLess(bytes_of["adafactor"], adamw / 100)
        self.assertLess(abs(bytes_of["adam8"] / adamw - 1 / 4), 0.001)

    def test_a_slice_each(self):
        """adam8: what a rank of zero1 has is a fourth; Adafactor's vectors are whole on each."""
        _, (alone,) = self.planned("adam8")
        _, four = self.planned("adam8", {"optim.placement": "zero1"}, 4)
        for bytes_of in four:
            self.assertLess(abs(4 * bytes_of / alone - 1), 0.02)
        _, (alone,) = self.planned("adafactor")
        _, four = self.planned("adafactor", {"optim.placement": "zero1"}, 4)
        matrices = self.total(lambda name, axes: 0 if len(axes) < 2 else (
            self.up(4 * math.prod(axes[:-1])) + self.up(4 * axes[-1])))
        for bytes_of in four:
            self.assertLessEqual(bytes_of, alone + 4096)
            self.assertGreaterEqual(bytes_of, matrices - 4096)


class Trajectory(w.Bench):
    """adam8 in double precision. A step's gradient comes from another one of adam8 from the same
    checkpoint, with moments that forget all and eps 1: w moves by 1e4 g / (|g| + 1)."""

    BETAS, EPS, DECAY, LR, STEPS = (0.9, 0.95), 1e-8, 0.1, 3e-3, 5
    JOB = w.ODD | PLAIN | {"optim.rule": "adam8", "optim.lr": LR, "train.clip": 0,
                           "run.steps": STEPS}
    PROBE = {"optim.betas": "0, 0", "optim.eps": 1, "optim.lr": 1e4, "optim.weight_decay": 0}

    def gradients(self, job, ranks, step, before):
        """{name: (g, error)} of `step`."""
        if step > 1:
            shutil.rmtree(self.path("probe"), ignore_errors=True)
            shutil.copytree(self.path("run"), self.path("probe"))
            for later in range(step, self.STEPS + 1):
                shutil.rmtree(os.path.join(w.folder(self.path("probe"), later)))
        self.train("probe", job | self.PROBE | {"run.steps": step}, ranks=ranks,
                   resume="force" if step > 1 else False)
        after, out = w.tensors(self.path("probe"), step), {}
        for name, old in before.items():
            moved = [(x - y) / 1e4 for x, y in zip(old, after[name][1])]
            g = [u / (1 - abs(u)) for u in moved]
            out[name] = g, [8 * UNIT * (abs(x) + abs(p) / 1e4) for x, p in zip(g, old)]
        return out

    @staticmethod
    def read(code, scale, zero_at, unit):
        return [scale * (t - zero_at) / unit * abs(t - zero_at) / unit for t in code]

    def coded(self, tensors, names, x, zero_at, unit, d, least, what):
        """The scale is the 8-norm, and every code that of x, or beside it where fp32 differs."""
        (code, scale), norm = (tensors[n][1] for n in names), sum(y ** 8 for y in x) ** 0.125
        self.assertLessEqual(abs(scale[0] - norm), 1e-5 * norm, what)
        for c, y in zip(code, x):
            to = zero_at + math.copysign(unit * math.sqrt(abs(y) / norm), y) + d
            low, high = (min(255, max(least, math.floor(to + e))) for e in (-0.02, 0.02))
            self.assertTrue(low <= c <= high, (what, c, to))

    def step(self, name, step, before, after, old, grad):
        """The weights after the step, and how far fp32 may be from them."""
        b1, b2 = self.BETAS
        c1, c2, d = 1 - b1**step, 1 - b2**step, step * 0.6180339887498949 % 1
        m, z = [0.0] * len(old), [0.0] * len(old)
        if step > 1:
            q, s, k, r = (before[f"{name}.{x}"][1] for x in ("m", "ms", "z", "zs"))
            m, z = self.read(q, s[0], 128, 127), self.read(k, r[0], 0, 255)
        decay = self.DECAY if name.endswith(".w") else 0
        want, error, ms, zs = [], [], [], []
        for p, x, y, g, dg in zip(old, m, z, *grad):
            dm = 8 * UNIT * (b1 * abs(x) + (1 - b1) * abs(g)) + (1 - b1) * dg
            x, y = b1 * x + (1 - b1) * g, math.sqrt(b2 * y * y + (1 - b2) * g * g)
            dz = 8 * UNIT * y + math.sqrt(1 - b2) * dg
            below = y / math.sqrt(c2) + self.EPS
            u = x / c1 / below
            # 1 - exp(count log beta) is off by a unit of 1, divided by itself
            du = dm / c1 / below + abs(u) * (dz / math.sqrt(c2) / below + 4 * UNIT / c1
                                             + 4 * UNIT / c2 + 8 * UNIT)
            want.append(p - self.LR * (u + decay * p))
            error.append(self.LR * (du + 8 * UNIT * decay * abs(p)) + 2 * UNIT * abs(p))
            ms.append(x)
            zs.append(y)
        if "qkv.b" not in name:  # that of keys has no gradient but noise
            what = f"{name} at step {step}"
            self.coded(after, (name + ".m", name + ".ms"), ms, 128, 127, d, 0, "m of " + what)
            self.coded(after, (name + ".z", name + ".zs"), zs, 0, 255, d, 1, "z of " + what)
        return want, error

    def check(self, ranks, more):
        job, moved, allowed = self.JOB | more, 0.0, 0.0
        self.train("run", job, ranks=ranks)
        self.train("start", job | {"optim.lr": 1e-60, "run.steps": 1}, ranks=ranks)
        before = w.tensors(self.path("start"), 1)
        for step in range(1, self.STEPS + 1):
            after = w.tensors(self.path("run"), step)
            names = [n for n in after if n + ".zs" in after]
            self.assertGreater(len(names), 20)
            weights = {n: list(before[n][1]) for n in names}
            grads = self.gradients(job, ranks, step, weights)
            for name in names:
                want, error = self.step(name, step, before, after, weights[name], grads[name])
                for x, y, e in zip(after[name][1], want, error):
                    self.assertLessEqual(abs(x - y), e, f"{name} at step {step}")
                moved += sum(abs(x - y) for x, y in zip(want, weights[name]))
                allowed += sum(error)
            before = after
        self.assertLess(allowed, 1e-3 * moved, "the bounds say nothing")

    def test_each_step(self):
        for ranks, more in ((1, ALONE), (3, zero(2, **{"train.microbatch": 2})), (2, zero(3))):
            with self.subTest(ranks=ranks, more=more):
                shutil.rmtree(self.path("probe"), ignore_errors=True)
                self.check(ranks, more)


if __name__ == "__main__":
    w.main()
