"""weft bench SWEEP.ini: rows for what runs, what may not, what fails and what hangs."""
import csv
import io
import json
import os

import started

PARTS = ("compute_ms", "exposed_comm_ms", "bubble_ms", "optimizer_ms")
SWEEP = started.TINY + """\
[device]
threads = 1
[sweep]
repeats = 2
warmup = 1
steps = 3
out = out
"""


class Sweep(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def sweep(self, lists, *words, status=0):
        """Run it; returns (rows of the JSON, standard output, error)."""
        self.write("sweep.ini", SWEEP + lists)
        out, err = self.weft("bench", "sweep.ini", "train.precision=fp32", *words, status=status)
        if status:
            return None, out, err
        return json.loads(self.read("out", "sweep.json"))["rows"], out, err

    def test_rows(self):
        rows, out, err = self.sweep("ranks = 1, 2\nparallel.strategy = none | dp | pp, dp\n"
                                    "comm.plugin = shm, tcp\nskip = ranks=1 & comm.plugin=tcp\n")
        self.assertEqual(len(rows), 9)
        none = [r for r in rows if r["ranks"] is None]
        self.assertEqual([(r["values"]["parallel.strategy"], r["status"]) for r in none],
                         [(x, "skipped") for x in ("pp, dp", "none", "none", "pp, dp", "pp, dp")])
        for r in none:
            self.assertIn("parallel.", r["why"])
            self.assertIn(r["why"], out)
        done = [r for r in rows if r["status"] == "done"]
        self.assertEqual(len(done), 3)  # dp of one rank is none
        for r in done:
            self.check(r)
        self.assertRegex(err, r"(?m)^7/7 .* tokens/s +ETA 0:00$")
        self.assertEqual(err.count("reference on one rank"), 1)

    def check(self, r):
        rate = r["tokens_per_s"]
        self.assertEqual(len(rate["runs"]), 2)
        self.assertEqual((rate["min"], rate["max"]), (min(rate["runs"]), max(rate["runs"])))
        self.assertAlmostEqual(rate["median"], sum(rate["runs"]) / 2, 3)
        self.assertAlmostEqual(sum(r[p] for p in PARTS) / r["step_ms"], 1, 6)
        self.assertEqual(r["sent_bytes"], r["sent_bytes_planned"])
        self.assertEqual(r["sent_bytes"] > 0, r["ranks"] > 1)
        self.assertGreater(r["peak_bytes"], 0)
        self.assertTrue(r["loss"]["agrees"], r)
        self.assertLessEqual(r["loss"]["difference"], r["loss"]["bound"])

    def test_the_files_say_the_same(self):
        rows, _, _ = self.sweep("ranks = 1\nparallel.strategy = none | pp, dp\nparallel.pp = 1, 7\n"
                                "reference = off\n")
        table = list(csv.DictReader(io.StringIO(self.read("out", "sweep.csv").decode())))
        self.assertEqual(len(table), len(rows))
        for r, line in zip(rows, table):
            self.assertEqual(line["status"], r["status"])
            self.assertEqual(int(line["combination"]), r["number"])
            self.assertEqual(line["parallel.strategy"], r["values"]["parallel.strategy"])
            self.assertNotIn(None, line)
            self.assertEqual(line["loss_agrees"], "")
            if r["status"] == "done":
                self.assertAlmostEqual(float(line["step_ms"]) / r["step_ms"], 1, 6)
                self.assertEqual(int(line["peak_bytes"]), r["peak_bytes"])
            else:
                self.assertEqual(line["why"], r["why"])
        self.assertEqual([r["status"] for r in rows], ["done", "same", "same", "skipped"])

    def test_parts_of_all_ranks(self):
        """The stages of a pipeline differ: the parts of a step are means of all ranks."""
        rows, out, _ = self.sweep("parallel = {strategy = pp, pp = 2}\n", "sweep.repeats=1",
                                  "sweep.reference=off")
        lines = [json.loads(x) for x in self.read("out", "001-1", "metrics.jsonl").splitlines()]
        there = [x for x in lines[1:] if "ranks.steps" in x]  # the first is the warm-up
        steps = [x["ranks.steps"] for x in there]
        whole = sum(n * x[f"ranks.{p}.mean"] for p in PARTS for n, x in zip(steps, there))
        table = next(csv.DictReader(io.StringIO(self.read("out", "sweep.csv").decode())))
        for p in PARTS:
            for name, kind in ((p, "mean"), (p + "_max", "max")):
                share = sum(n * x[f"ranks.{p}.{kind}"] for n, x in zip(steps, there)) / whole
                self.assertAlmostEqual(rows[0][name] / rows[0]["step_ms"], share, 6)
                self.assertAlmostEqual(float(table[name]), rows[0][name], 6)
        self.assertGreater(rows[0]["bubble_ms_max"], rows[0]["bubble_ms"])
        self.assertIn(f" {100 * rows[0]['bubble']:.1f}/", out)

    def test_values_that_its_jobs_cannot_have(self):
        for value in ("a #b", "a ;b"):
            err = self.sweep("ranks = 1\n", f"data.train={value}", status=2)[2]
            self.assertIn(f"'data.train={value}': a sweep writes the keys of a run into a job", err)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_its_jobs_run_as_they_stand(self):
        self.sweep("ranks = 2\nparallel.strategy = dp\n")
        self.weft("train", "-n", "2", "out/001-1.ini")
        self.assertIn("001-1.1", self.names("out"))  # the run before it was kept

    def test_one_that_fails_and_one_that_does_not_end(self):
        rows, out, err = self.sweep(
            "optim.lr = 1e-3, 1e6\noptim.rule = sgd\noptim.warmup = 0\ntrain.clip = 0\n",
            "sweep.steps=60", "sweep.repeats=1", "optim.schedule=constant")
        self.assertEqual([r["status"] for r in rows], ["done", "failed"])
        self.assertIn("diverged", rows[1]["why"])
        self.assertIn("diverged", out)
        rows, _, _ = self.sweep("model.layers = 1, 2\n", "sweep.steps=1000000",
                                "sweep.deadline=1", "sweep.repeats=1", "sweep.reference=off",
                                status=1)
        rows = json.loads(self.read("out", "sweep.json"))["rows"]
        self.assertEqual([r["status"] for r in rows], ["failed", "failed"])
        self.assertIn("not done after 1 seconds", rows[0]["why"])

    def test_without_ranks_the_sizes_say_how_many(self):
        out, _ = self.plan("parallel.strategy = pp, dp |\nparallel.dp = 1, 2\nparallel.pp = 2\n")
        self.assertRegex(out, r"^combination +dp +ranks +GFLOP +bubble % +peak/rank +sent *\n")
        self.assertRegex(out, r"(?m)^ *1  1 +2!? .* \d+\.\d MiB  \d+\.\d KiB$")
        self.assertRegex(out, r"(?m)^ *2  2 +4!? .* \d+\.\d MiB  \d+\.\d KiB$")

    def test_the_plan_in_lines(self):
        """A reason stands below its row; the last line counts."""
        out, _ = self.plan("parallel.strategy = none, dp\nranks = 1, 3\ntrain.batch = 4\n"
                           "skip = parallel.strategy=none & ranks=3\n", "train.microbatch=4")
        lines = out.splitlines()
        at = [i for i, line in enumerate(lines) if line.endswith("skipped:")]
        self.assertEqual(len(at), 1, out)
        self.assertLess(len(lines[at[0]]), 60)
        self.assertIn("are not a multiple of microbatch", lines[at[0] + 1])
        self.assertEqual(lines[-1], "1 to run, 1 skipped, 1 the same as another, "
                                    "1 left out by only and skip")

    def test_words_of_an_earlier_version(self):
        """They are named once, and notes on single jobs are not repeated for each."""
        _, err = self.plan("comm.near = tcp, shm\nparallel.strategy = dp, tp\n", "-n", "2",
                           "comm.algorithm=exchange")
        lines = [x for x in err.splitlines() if x.startswith("weft ")]
        self.assertEqual(len(lines), 2, err)
        self.assertIn("write comm.algorithm = one_shot", err)
        self.assertIn("write comm.intra = tcp", err)

    def plan(self, lists, *words):
        self.write("sweep.ini", SWEEP + lists)
        before = self.everything()
        said = self.weft("bench", "sweep.ini", "--plan", *words)
        self.assertEqual(self.everything(), before)
        return said

    def test_only_and_skip(self):
        lists = "train.batch = 2, 4, 8\noptim.rule = sgd, adamw\n"
        for rule, kept in (("", 6), ("only = train.batch=4\n", 2),
                           ("skip = train.batch=4 & optim.rule=sgd\n", 5),
                           ("only = train.batch!=4\nskip = optim.rule=sgd | train.batch=2\n", 1)):
            self.assertIn(f"\n{kept} to run, 0 skipped", self.plan(lists + rule)[0], rule)
        self.assertIn("\n2 to run,", self.plan(lists, "sweep.train.batch=2")[0])
        self.assertRegex(self.plan("parallel.strategy = dp\nranks = 1, 4\n", "-n", "2")[0],
                         r"(?m)^ +1 +2!? ")

    def test_refusals(self):
        self.refused("bench", "tiny.ini", why="has no section [sweep]")
        self.refused("bench", why="name the INI file of a sweep")
        self.write("sweep.ini", SWEEP)
        self.refused("bench", "sweep.ini", "-n", "2000", why="-n: '2000' is not a number of ranks")
        self.refused("bench", "missing.ini", why="cannot open the job file missing.ini")
        for lists, why in (("rank = 2\n", "did you mean 'ranks'?"), ("ranks = 0\n", "'0' is not"),
                           ("repeat = 1\n", "did you mean 'repeats'?"),
                           ("train.batch =\n", "the list of train.batch has a value without"),
                           ("train.batch = 2,2\n", "twice"),
                           ("run.steps = 3\n", "run.steps is set by the sweep itself"),
                           ("only = train.batch=4\n", "'train.batch' has no list"),
                           ("ranks = 1\nskip = ranks=2\n", "'2' is not in the list"),
                           ("ranks = 1\nskip = ranks\n", "'ranks' is not section.key=value"),
                           ("ranks = 1\nskip = ranks=1\n", "leave nothing to run"),
                           ("deadline = 0\n", "sweep.deadline: '0'"),
                           ("train.bathc = 1, 2\n", "unknown key 'bathc'"),
                           ("parallel.strategy = dpp\n", "none of the 1 combinations")):
            self.write("sweep.ini", SWEEP + lists)
            self.refused("bench", "sweep.ini", why=why)

    def test_a_job_without_metrics(self):
        """The runs of a sweep are read from metrics.jsonl, which a sink writes."""
        self.write("sweep.ini", SWEEP.replace("[log]\n", "[log]\nsinks =\n"))
        for words in ((), ("--plan",)):
            self.refused("bench", "sweep.ini", *words, why="log.sinks: it names no sink, and a "
                         "sweep reads OUT/metrics.jsonl of each run")

    def test_the_sweep_that_comes_along(self):
        self.demo_data()
        out, _ = self.weft("bench", os.path.join(started.SOURCE, "configs", "sweep.ini"),
                           "sweep.steps=2", "sweep.warmup=0", "sweep.repeats=1", "train.batch=4",
                           "sweep.optim.placement=none,zero3", "log.peak_gflops=1")
        rows = json.loads(self.read("runs", "sweep", "sweep.json"))["rows"]
        for r in rows:
            if r["status"] not in ("skipped", "same"):
                self.assertTrue(r["loss"]["agrees"], r)
                self.assertEqual(r["sent_bytes"], r["sent_bytes_planned"], r)
        self.assertGreater(sum(r["status"] == "done" for r in rows), 8)
        self.assertIn(" 0 failed", out)

    def test_a_folder_of_somebody_else(self):
        """It is refused as it is; an empty one is taken."""
        self.write("sweep.ini", SWEEP + "ranks = 1\n")
        words = ("sweep.repeats=1", "sweep.reference=off")
        os.mkdir(self.path("out"))
        self.write("out/thesis.tex", "x")
        for more in ((), ("--afresh",)):
            self.refused("bench", "sweep.ini", *words, *more,
                         why="has files, such as thesis.tex, and no runs.jsonl of a sweep")
        os.remove(self.path("out", "thesis.tex"))
        self.weft("bench", "sweep.ini", *words)
        self.assertIn("runs.jsonl", os.listdir(self.path("out")))

    def test_an_older_sweep_is_kept(self):
        for more in ([], ["--afresh"]):
            self.sweep("ranks = 1\n", "sweep.repeats=1", "sweep.reference=off", *more)
        self.assertIn("sweep.json", self.names("out.1"))
        self.assertTrue(os.path.exists(self.path("out", "001-1", "metrics.jsonl")))


if __name__ == "__main__":
    started.main()
