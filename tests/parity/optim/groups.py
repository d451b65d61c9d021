#!/usr/bin/env python3
"""groups.py WEFT: do parameter groups, [optim.NAME], have a rate and options of their own?

A group's rate is a multiple of optim.lr, and a power of two is exact in fp32: one group of all
parameters is a job with that rate, bit for bit, and one step of plain SGD goes that much further.
Layouts are held to the bounds of layouts.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLAIN = w.EVEN | {"optim.rule": "sgd", "optim.momentum": 0, "optim.weight_decay": 0,
                  "optim.warmup": 0, "optim.schedule": "constant", "train.clip": 0,
                  "checkpoint.every": 1, "run.steps": 1, "optim.lr": 0.125}
EMBED = {"optim.embed.params": "embed.*"}
BOTH = EMBED | {"optim.embed.lr": 0.012, "optim.rest.params": "@norm*|*.b|!embed.*",
                "optim.rest.weight_decay": 0, "optim.weight_decay": 0.1}
LAYOUTS = [(2, {"optim.placement": "zero1"}), (2, {"optim.placement": "zero3"}),
           (4, {"parallel.strategy": "tp, dp", "parallel.tp": 2}),
           (4, {"parallel.strategy": "pp, dp", "parallel.pp": 2})]


class Groups(w.Bench):
    def weights(self, out, step=1):
        saved = w.tensors(self.path(out), step)
        return {n: v[1] for n, v in saved.items() if not n.startswith("scalar.")}

    def test_one_step_goes_further(self):
        self.train("start", PLAIN | {"optim.lr": 1e-60})
        self.train("plain", PLAIN)
        self.train("groups", PLAIN | EMBED | {
            "optim.embed.lr": 0.5, "optim.still.params": "*.w|!embed.*", "optim.still.lr": 0})
        start, plain, groups = (self.weights(out) for out in ("start", "plain", "groups"))
        for name, p in start.items():
            share = 4 if name.startswith("embed.") else 0 if name.endswith(".w") else 1
            for p0, p1, got in zip(p, plain[name], groups[name]):
                far = abs(got - (p0 + share * (p1 - p0)))
                self.assertLessEqual(far, 4e-7 * (1 + abs(p0)), name)
            if share == 0:
                self.assertEqual(groups[name].tobytes(), p.tobytes(), name)

    def test_options_of_a_group(self):
        """SGD adds decay * p to the gradient: p falls by lr * decay * p more."""
        self.train("plain", PLAIN)
        self.train("start", PLAIN | {"optim.lr": 1e-60})
        self.train("decays", PLAIN | EMBED | {"optim.embed.weight_decay": 0.5})
        start, plain, decays = (self.weights(out) for out in ("start", "plain", "decays"))
        for name, p in start.items():
            share = 0.125 * 0.5 if name.startswith("embed.") else 0
            for p0, p1, got in zip(p, plain[name], decays[name]):
                self.assertLessEqual(abs(got - (p1 - share * p0)), 4e-7 * (1 + abs(p0)), name)

    def test_one_group_of_all_is_a_job(self):
        for rule in ("adamw", "lamb"):
            with self.subTest(rule=rule):
                job = w.EVEN | {"optim.rule": rule, "checkpoint.every": 20,
                                "optim.schedule": "linear"}
                self.train("job", job | {"optim.lr": 0.004})
                self.train("group", job | {"optim.lr": 0.001, "optim.all.params": "*",
                                           "optim.all.lr": 0.004})
                self.same_run("job", "group", 20, w.NO_TIME + ("lr", "peak_bytes"))

    def test_every_layout(self):
        for rule in ("adamw",) if w.BRIEF else ("adamw", "lamb", "muon"):
            job = w.EVEN | BOTH | {"optim.rule": rule, "checkpoint.every": 20}
            self.train("one", job)
            self.train("none", {k: v for k, v in job.items() if k not in BOTH})
            one = self.weights("one", 20)
            self.assertNotEqual(one["embed.tok.w"], self.weights("none", 20)["embed.tok.w"])
            for ranks, more in LAYOUTS:
                with self.subTest(rule=rule, ranks=ranks, more=more):
                    self.train("many", job | more, ranks=ranks)
                    a, b = w.tensors(self.path("one"), 20), w.tensors(self.path("many"), 20)
                    self.assertEqual(sorted(a), sorted(b))
                    far, name = w.furthest(a, b, [n for n in a if "qkv.b" not in n])
                    self.assertLessEqual(far, 1e-4, name)

    def test_resumes_bind_groups(self):
        job = w.EVEN | BOTH | {"checkpoint.every": 5, "run.steps": 5}
        self.train("saved", job)
        self.train("saved", job | {"run.steps": 10}, resume=True, ranks=2)
        for change, text in (({"optim.embed.lr": 0.01}, "optim.embed.lr was"),
                             ({"optim.rest.weight_decay": 0.1}, "optim.rest.weight_decay was"),
                             ({"optim.new.params": "*.qkv.w"}, "optim.new.params was")):
            with self.subTest(text=text):
                said = self.train("saved", job | change | {"run.steps": 15}, resume=True, status=2)
                self.assertIn(text, said.stderr)
        fewer = {k: v for k, v in job.items() if not k.startswith("optim.embed.")}
        said = self.train("saved", fewer | {"run.steps": 15}, resume=True, status=2)
        self.assertIn("optim.embed.params was 'embed.*'", said.stderr)

    def test_what_is_refused(self):
        for change, text in (
                ({"optim.embed.params": "none.*"}, "no parameter of the model has a name like"),
                ({"optim.embed.lr": 0.1}, "names no parameters"),
                (EMBED | {"optim.two.params": "*.tok.w"}, "is in the group [optim.embed] already"),
                (EMBED | {"optim.embed.momentum": 0.5}, "momentum: the key has no effect"),
                (EMBED | {"optim.embed.moment": 0.5}, "unknown key 'moment' in [optim.embed]"),
                (EMBED | {"optim.lr": 0, "optim.embed.lr": 1}, "optim.lr is 0"),
                ({f"optim.g{i}.params": f"embed.{i}" for i in range(17)}, "at most 16")):
            with self.subTest(text=text):
                said = self.train("refused", w.EVEN | change, status=2).stderr
                self.assertIn(text, " ".join(said.split()))

    def test_a_plan_says_which(self):
        plan = w.weft("plan", self.ini, *self.options("plan", w.EVEN | EMBED)).stdout
        self.assertIn("[optim.embed] has 2 parameters", plan)


if __name__ == "__main__":
    w.main()
