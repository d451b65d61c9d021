#!/usr/bin/env python3
"""apart.py WEFT: ranks whose gradients are never summed train replicas of their own.

Every replica is saved, so that a resumed run has the same bits at any step; a job with another
number of replicas says that it is another run. A list computes what its formula says, whatever
else splits its parameters. Nobody trains apart by mistake, nothing is compressed that is never
summed, and the plan knows what lists send: to the byte what the run measures."""
import array
import json
import os

import weft_jobs as w

PLUGINS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins")
JOB = w.EVEN | {"run.plugins": PLUGINS, "run.steps": 14, "parallel.strategy": "test.apart",
                "optim.warmup": 0, "optim.schedule": "constant", "comm.plugin": "shm",
                "checkpoint.keep": 0, "parallel.inner": 4}
STRAY = {"MALLOC_PERTURB_": "165"}  # what is read behind an array is no zero
SPLIT = {"parallel.strategy": "tp, test.apart", "parallel.tp": 2}
BESIDE = {"parallel.strategy": "dp, test.apart", "parallel.workers": 2}


class Resumed(w.Bench):
    def check(self, ranks, job, at):
        """The same bits, cut off at step `at`, between two averages or just behind one."""
        with self.subTest(ranks=ranks, job=job, at=at):
            job = JOB | job | {"checkpoint.every": 2}
            self.train("whole", job, ranks=ranks)
            self.train("cut", job | {"run.steps": at}, ranks=ranks)
            said = self.train("cut", job, ranks=ranks, resume=True).stderr
            self.assertNotIn("replicas", said)
            self.same_run("whole", "cut", 14)
            if "parallel.say" not in job:  # the list has a scalar, which is resumed as well
                self.assertEqual(list(w.tensors(self.path("cut"), 14)["scalar.test.rounds"][1]),
                                 [3])

    def test_between_averages(self):
        self.check(2, {}, 6)
        self.check(2, {"optim.rule": "sgd"}, 6)

    def test_just_averaged(self):
        """Parameters are equal, moments are not."""
        self.check(2, {}, 8)

    def test_beside_others(self):
        for placement in ("zero1", "zero3"):
            self.check(4, BESIDE | {"parallel.say": "words", "optim.placement": placement,
                                    "optim.slice_axis": "dp"}, 6)
        self.check(4, BESIDE, 6)
        self.check(4, SPLIT, 6)
        self.check(4, {"parallel.strategy": "test.apart, pp", "parallel.pp": 2, "model.tied": "on"},
                   6)

    def test_another_number(self):
        job = JOB | {"checkpoint.every": 6, "run.steps": 6}
        for first, then, word in ((2, 4, "fewer"), (4, 2, "more")):
            with self.subTest(first=first, then=then):
                self.train("saved", job, ranks=first)
                said = self.train("saved", job | {"run.steps": 8}, ranks=then, resume=True).stderr
                self.assertRegex(said, f"has {word} replicas of .* than the {then} of")

    def test_into_a_model_that_is_one(self):
        """Replica 0 has the names of the model: it is sampled, and any layout goes on from it."""
        self.train("saved", JOB | {"checkpoint.every": 6, "run.steps": 6}, ranks=2)
        names = w.tensors(self.path("saved"), 6)
        self.assertIn("replica.1.embed.tok.w.m", names)
        w.weft("sample", w.folder(self.path("saved"), 6), "--prompt", "3 1 4", "--tokens", 4)
        one = {"parallel.strategy": "none", "run.steps": 8, "checkpoint.every": 0}
        job = {k: v for k, v in JOB.items() if k != "parallel.inner"} | one
        said = self.train("saved", job, resume=True).stderr
        self.assertIn("has more replicas of", said)
        self.assertIn("has the scalar test.rounds, which this job does not use", said)

    def test_from_a_model_that_is_one(self):
        """All replicas begin as the one that was saved, and the list as one that never ran."""
        job = {k: v for k, v in JOB.items() if k != "parallel.inner"}
        self.train("saved", job | {"parallel.strategy": "dp", "checkpoint.every": 6,
                                   "run.steps": 6}, ranks=2)
        said = self.train("saved", JOB | {"run.steps": 8}, ranks=2, resume=True).stderr
        self.assertIn("has fewer replicas of", said)
        self.assertIn("does not have the scalar test.rounds: it starts at 0", said)


class Formulas(w.Bench):
    """The list computes what is written: one formula two ways, and one on two layouts."""
    MEAN = JOB | {"optim.rule": "sgd", "run.steps": 8, "checkpoint.every": 4}

    def test_whole_and_partial_operands(self):
        """Half of the mean from the sum and half from the parameter is the mean, bit for bit: with
        two workers all factors are powers of two."""
        for ranks, job in ((2, {}), (2, {"parallel.only": "ffn.up"}),
                           (4, SPLIT | {"parallel.only": "ffn.up"})):
            with self.subTest(ranks=ranks, job=job):
                self.train("mean", self.MEAN | job, ranks=ranks)
                self.train("mixed", self.MEAN | job | {"parallel.say": "mix"}, ranks=ranks,
                           extra=STRAY)
                self.same_tensors(*(w.tensors(self.path(out), 8) for out in ("mean", "mixed")))

    def test_states_are_placed_like_their_parameters(self):
        """The anchor is the mean of the last time. Under tensor parallelism every parameter has
        what it has without, to what fp32 sums in another order differ by."""
        job = self.MEAN | {"parallel.say": "anchor"}
        self.train("alone", job, ranks=2)
        self.train("split", job | SPLIT, ranks=4)
        (first, alone), (_, split) = ([w.tensors(self.path(out), step) for step in (4, 8)]
                                      for out in ("alone", "split"))
        self.assertEqual(sorted(alone), sorted(split))
        self.assertLessEqual(w.furthest(alone, split, [n for n in alone if "qkv.b" not in n])[0],
                             1e-4)
        params = [n for n in alone if f"{n}.test.anchor" in alone]
        self.assertIn("embed.tok.w", params)
        for name in params:
            now, was = (x[name + ".test.anchor"][1] for x in (alone, first))
            half = array.array("f", [(a + b) / 2 for a, b in zip(now, was)])
            self.assertEqual(alone[name][1].tobytes(), half.tobytes(), name)


class Said(w.Bench):
    def planned(self, job, ranks=2, status=0):
        done = w.weft("plan", "-n", ranks, self.ini, *self.options("plan", JOB | job),
                      status=status)
        return " ".join((done.stderr if status else done.stdout).split())

    def test_nobody_by_mistake(self):
        said = self.planned({"parallel.say": "nothing"}, status=2)
        for words in ("strategy test.apart: sync()", "WEFT_SYNC_NEVER", "mesh axis workers",
                      "changes_results()"):
            self.assertIn(words, said)
        said = self.planned({"parallel.say": "list"})
        self.assertIn("strategy test.apart: gradients are never summed over workers", said)
        for what in ("words", "all"):
            said = self.planned({"parallel.say": what})
            self.assertEqual(said.count("strategy test.apart: "), 1, said)
            self.assertIn("strategy test.apart: workers train apart", said)

    def test_scalars_are_the_same_on_all_stages(self):
        said = self.planned({"parallel.strategy": "test.apart, pp", "parallel.pp": 2,
                             "parallel.say": "norm"}, ranks=4, status=2)
        self.assertIn("list test.norm: assign() to the scalar 'test.norm' a value made of", said)
        self.assertIn("one stage of the model has and another has not", said)

    def test_alone_nothing_is_said(self):
        said = self.planned({"parallel.say": "nothing"}, ranks=1)
        self.assertNotIn("results depend", said)

    def test_what_is_never_summed_is_not_compressed(self):
        for key in ("comm.compress", "comm.workers.compress"):
            said = self.planned({key: "int8"}, status=2)
            self.assertIn(key, said)
            self.assertIn("no gradient is ever summed along workers", said)
        said = self.planned(BESIDE | {"comm.workers.compress": "int8"}, ranks=4, status=2)
        self.assertIn("no gradient is ever summed along workers", said)
        for key in ("comm.compress", "comm.dp.compress"):
            said = self.planned(BESIDE | {key: "int8"}, ranks=4)
            self.assertIn("sums of gradients over dp are rounded", said)
            self.assertNotIn("gradients over workers are rounded", said)


class Sent(w.Bench):
    def test_plan_and_run(self):
        self.train("run", JOB, ranks=2)
        rank = self.plan(JOB, 2)["ranks"][0]
        step, (average,) = sum(rank["sent"].values()), rank["lists"]
        self.assertEqual((average["name"], average["every"]), ("test.average", 4))
        often = sum(average["sent"].values())
        self.assertGreater(often, 4 * 20000)  # all parameters, which no other sum has
        for x in w.metrics(self.path("run")):
            self.assertEqual(x["test.rounds"], x["step"] // 4)
            self.assertEqual(x["comm_bytes"], step + often * (x["step"] % 4 == 0), x["step"])
        said = w.weft("plan", "-n", 2, self.ini, *self.options("run", JOB)).stdout
        self.assertRegex(said, r"  all_reduce +[0-9.]+ KiB  \(list test\.average: "
                               r"[0-9.]+ KiB every 4 steps\)")

    def test_sweep(self):
        """Of the 6 steps that are measured, 3 to 8, two are followed by the list."""
        path = self.path("sweep.ini")
        with open(path, "w", encoding="utf-8") as f:
            f.write("[sweep]\nranks = 2\nrepeats = 2\nwarmup = 2\nsteps = 6\n"
                    f"out = {self.path('swept')}\n")
        job = {k: v for k, v in JOB.items() if k not in ("run.steps", "train.eval_every",
                                                         "log.progress")}
        w.weft("bench", path, *self.options("none", job)[:-1])
        with open(self.path("swept", "sweep.json"), encoding="utf-8") as f:
            (row,) = json.load(f)["rows"]
        rank = self.plan(JOB, 2)["ranks"][0]
        often = sum(rank["lists"][0]["sent"].values())
        self.assertEqual(row["sent_bytes_planned"], sum(rank["sent"].values()) + often * 2 // 6)
        self.assertEqual(row["sent_bytes"], row["sent_bytes_planned"])


if __name__ == "__main__":
    w.main()
