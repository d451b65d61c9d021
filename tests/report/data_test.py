"""data_test.py WEFT: is the data of `weft report` what the run has measured, and its plan what
`weft plan` says; and what becomes of folders that are damaged, hostile or not there?"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.EVEN | {"checkpoint.every": 0, "model.layers": 2, "train.microbatch": 3, "run.steps": 8}
STAGES = JOB | {"parallel.strategy": "tp,pp", "parallel.tp": 2, "parallel.pp": 2}
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"
NOT_METRICS = {"step", "time", "host", "attempt", "flops_rule", "version"}


def same(a, b):
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))


class Data(w.Bench):
    def report(self, *paths, **more):
        return json.loads(w.weft("report", *paths, "--json", **more).stdout)

    def one(self, out):
        return self.report(self.path(out))["runs"][0]

    def write(self, out, text):
        os.makedirs(self.path(out), exist_ok=True)
        with open(self.path(out, "metrics.jsonl"), "w", encoding="utf-8") as f:
            f.write(text)

    def record(self, out):
        with open(self.path(out, "run.json"), encoding="utf-8") as f:
            return json.load(f)

    def test_values(self):
        """Every value of metrics.jsonl is in the report."""
        valid = {"data.valid": self.path("valid.bin"), "train.eval_every": 4, "run.name": HOSTILE}
        self.train("values", JOB | valid, ranks=2)
        run, lines = self.one("values"), w.metrics(self.path("values"))
        self.assertEqual(run["notes"], [])
        self.assertEqual(run["steps"], {"first": 1, "last": 8, "n": 8, "bucket": 1})
        self.assertEqual(run["step"], [x["step"] for x in lines])
        found = {name: dict(zip(run["step"], x["mean"])) for name, x in run["series"].items()}
        found |= {name: dict(zip(x["step"], x["value"])) for name, x in run["points"].items()}
        self.assertEqual(set(found["valid_loss"]), {4, 8})
        for line in lines:
            for name in set(line) - NOT_METRICS:
                self.assertTrue(same(found[name][line["step"]], line[name]), (name, line))
        self.assertEqual(run["series"]["step_ms"]["unit"], "ms")
        self.assertEqual([x["last"] for x in run["attempts"]], [8])
        self.assertEqual((run["record"]["name"], run["state"]), (HOSTILE, "complete"))
        self.assertEqual(run["record"]["peak_flops"], 1e9)  # log.peak_gflops
        self.assertEqual(run["tokens"], [12 * 16 * step for step in run["step"]])
        for elapsed, line in zip(run["elapsed"], lines, strict=True):  # times are of milliseconds
            self.assertAlmostEqual(lines[0]["time"] + elapsed, line["time"], delta=5e-4)

    def test_buckets(self):
        """A long run has means between the least and the greatest value of neighbouring steps."""
        losses = [5 / (1 + i / 50) + (i * 37 % 11) / 100 for i in range(2500)]
        losses[1234] = float("nan")
        self.write("long", "".join(
            json.dumps({"step": i + 1, "loss": None if i == 1234 else x,
                        **({"valid_loss": x} if i % 100 == 99 else {})}) + "\n"
            for i, x in enumerate(losses)))
        run = self.one("long")
        n = run["steps"]["bucket"]
        self.assertEqual((n, len(run["step"]), run["step"][-1]), (3, 834, 2500))
        for i, (mean, low, high) in enumerate(zip(*(run["series"]["loss"][k]
                                                    for k in ("mean", "min", "max")))):
            part = [x for x in losses[i * n:i * n + n] if x == x]
            self.assertTrue(same(mean, statistics.fmean(part)))
            self.assertTrue(same(low, min(part)) and same(high, max(part)))
        self.assertEqual(run["points"]["valid_loss"]["step"], list(range(100, 2501, 100)))
        self.assertEqual(run["newest"]["loss"]["step"], 2500)
        self.assertTrue(same(run["newest"]["loss"]["value"], losses[-1]))
        self.assertTrue(same(run["series"]["loss"]["median"],
                             statistics.median(x for x in losses if x == x)))

    def test_plan(self):
        """The record has the job and its plan; the job can be planned and gives the same one."""
        self.train("plan", STAGES, ranks=4)
        record = self.record("plan")
        with open(self.path("again.ini"), "w", encoding="utf-8") as f:
            f.write(record["job"])
        plan = json.loads(w.weft("plan", "-n", 4, self.path("again.ini"), "--json").stdout)
        self.assertEqual(record["plan"], plan)
        self.assertEqual([(x["axis"], x["size"], x["transport"]) for x in record["mesh"]],
                         [("tp", 2, "shm"), ("pp", 2, "shm")])
        self.assertEqual((record["ranks"], record["machines"]), (4, [0] * 4))
        picture = w.weft("plan", "-n", 4, self.path("again.ini"), "--schedule").stdout
        bubble = float(re.search(r"([\d.]+) % with the operations", picture)[1])
        self.assertAlmostEqual(100 * record["schedule"]["bubble"], bubble, delta=0.006)
        cells = record["schedule"]["cells"]
        self.assertEqual(len(cells), 2 * 2 * record["schedule"]["micro_batches"])
        ends = {(stage, m, back): end for stage, _, m, back, _, end in cells}
        for stage, _, m, back, begin, _ in cells:
            before = (1 - stage, m, back) if stage != back else (stage, m, 0) if back else None
            self.assertGreaterEqual(begin, ends[before] if before else 0)

    def test_arena(self):
        """No two things are in the same place at the same time."""
        jobs = {"stages": (4, STAGES), "one": (1, JOB),
                "zero3": (2, JOB | {"optim.placement": "zero3", "train.precision": "bf16"}),
                "muon": (2, JOB | {"optim.rule": "muon", "train.recompute": "block"})}
        for out, (ranks, job) in jobs.items():
            self.train(out, job | {"run.steps": 1}, ranks=ranks)
            arena = self.record(out)["arena"]
            last = len(arena["entries"]) - 1
            held = [(at, at + n, 0, last, kind) for kind, at, n in arena["regions"]]
            held += [(at, at + n, a, b, kind) for at, n, a, b, kind in arena["tensors"]]
            kinds = {arena["kinds"][x[4]] for x in held}
            self.assertLessEqual({"parameters", "gradients", "saved for backward"}, kinds)
            held.sort()
            for i, x in enumerate(held):
                self.assertTrue(x[0] < x[1] <= arena["bytes"] and 0 <= x[2] <= x[3] <= last, x)
                for y in held[i + 1:]:
                    if y[0] >= x[1]:
                        break
                    # a tensor may begin in the entry in which another one ends
                    self.assertFalse(x[2] < y[3] and y[2] < x[3], (out, x, y))

    def test_resumed(self):
        """The record says each time that the run began."""
        job = JOB | {"checkpoint.every": 4}
        self.train("resumed", job)
        self.train("resumed", job | {"run.steps": 12}, ranks=2, resume=True)
        self.assertEqual([(x["after"], x["ranks"]) for x in self.record("resumed")["begins"]],
                         [(0, 1), (8, 2)])
        run, lines = self.one("resumed"), w.metrics(self.path("resumed"))
        self.assertEqual(run["step"], list(range(1, 13)))
        self.assertEqual([(x["first"], x["last"]) for x in run["attempts"]], [(1, 8), (9, 12)])
        # medians are of the steps that the record is about
        self.assertTrue(same(run["series"]["comm_bytes"]["median"], lines[-1]["comm_bytes"]))
        self.train("resumed", job)  # the first one moves away
        self.assertEqual([x["after"] for x in self.record("resumed")["begins"]], [0])

    def test_trace(self):
        """One step of the trace, with every span of it."""
        self.train("traced", STAGES | {"log.trace_steps": "3-5"}, ranks=4)
        trace = self.one("traced")["traced"]
        with open(self.path("traced", "trace.json"), encoding="utf-8") as f:
            events = [x for x in json.load(f)["traceEvents"]
                      if x["ph"] == "X" and x["args"]["step"] == 4]
        self.assertEqual((trace["step"], trace["ranks"], trace["left_out"]), (4, 4, 0))
        first = min(x["ts"] for x in events)
        want = sorted((x["pid"], x["name"], round((x["ts"] - first) / 10)) for x in events)
        have = sorted((rank, trace["names"][name], round(begin / 10))
                      for rank, _, begin, _, name in trace["spans"])
        self.assertEqual([x[:2] for x in want], [x[:2] for x in have])

    def test_trace_of_an_earlier_attempt(self):
        """A run that goes on after the traced steps leaves their trace."""
        job = JOB | {"checkpoint.every": 4, "log.trace_steps": "3-3"}
        self.train("before", job)
        trace = w.read_text(self.path("before", "trace.json"))
        self.train("before", job | {"run.steps": 12}, resume=True)
        self.assertEqual(w.read_text(self.path("before", "trace.json")), trace)
        self.assertEqual(self.one("before")["traced"]["step"], 3)

    def test_names(self):
        """Each run of a page has a name of its own."""
        for out in ("x/a", "a", "y/a"):
            self.write(out, json.dumps({"step": 1, "loss": 2.5}) + "\n")
        runs = self.report(self.path("x/a"), self.path("a"), self.path("y/a"))["runs"]
        self.assertEqual([x["name"] for x in runs], ["a", self.path("a"), self.path("y/a")])

    def test_record_that_cannot_be_written(self):
        os.makedirs(self.path("full", "run.json"))
        said = self.train("full", JOB | {"checkpoint.every": 4}, resume="auto").stderr
        self.assertEqual(said.count("run.json cannot be written"), 1, said)
        self.assertEqual(len(w.metrics(self.path("full"))), 8)
        self.assertIn("run.json cannot be read", self.one("full")["notes"][0])

    def test_damaged(self):
        """What cannot be read is a note, and the rest is there."""
        good = json.dumps({"step": 1, "loss": 2.5}) + "\n"
        for name, text, steps, notes in (
                ("half", good + '{"step":2,"lo', [1], 0), ("none", "", [], 0),
                ("rubbish", "\0\0\n[]\n\n" + good + '{"step":"x"}\n{"step":-1}\n', [1], 1),
                ("again", good + good.replace("2.5", "3.5"), [1], 0),
                ("huge", '{"a":"' + "x" * (1 << 21) + '"}\n' + good, [1], 0),
                ("deep", "[" * 100000 + "\n" + good, [1], 1)):
            self.write(name, text)
            run = self.one(name)
            self.assertEqual((run["step"], len(run["notes"])), (steps, notes), (name, run["notes"]))
        self.assertEqual(self.one("again")["series"]["loss"]["mean"], [3.5])
        self.assertIsNone(self.one("again")["state"])
        for text in ("", "[]", "{", '{"begins": 1, "job": {}}', "[" * 100000):
            with open(self.path("half", "run.json"), "w", encoding="utf-8") as f:
                f.write(text)
            with open(self.path("half", "trace.json"), "w", encoding="utf-8") as f:
                f.write(text + '\n{"ph":"X","pid":-1,"args":{"step":1}},\n{"ph":1}\n')
            self.assertEqual(self.one("half")["step"], [1])

    def test_page(self):
        """The page is whole, asks for nothing from elsewhere, and no text of a run is markup."""
        self.write("page", json.dumps({"step": 1, "loss": 2.5, HOSTILE: 1, "host": HOSTILE}) + "\n")
        page = self.path("page.html")
        w.weft("report", self.path("page"), "-o", page)
        text = w.read_text(page)
        data = re.search(r'id="data">(.*?)</script>', text, re.S)[1]
        self.assertIn(HOSTILE, json.loads(data)["runs"][0]["series"])
        self.assertNotIn("<img src=x", text)
        self.assertTrue(text.rstrip().endswith("</html>"))
        self.assertFalse(re.findall(r"/\*(?:CSS|CHART|PAGE|DATA)\*/", text))
        self.assertFalse(re.findall(r'(?:src|href)\s*=\s*["\']?(?:https?:)?//', text))

    def test_refused(self):
        self.write("run", json.dumps({"step": 1, "loss": 2.5}) + "\n")
        run, page = self.path("run"), self.path("old.html")
        with open(page, "w", encoding="utf-8") as f:
            f.write("old")
        for words, status, why in (
                ([], 2, "name the folder"), (["nowhere"], 2, "cannot be read"),
                ([self.place], 2, "neither metrics.jsonl nor sweep.json"),
                ([run, run], 2, "given twice"), ([run, "--out", page], 2, "--out"),
                ([self.ini], 2, "cannot be read"),
                ([run, "-o", self.path("no", "x.html")], 2, "cannot be written"),
                ([run, "-o", run], 2, "cannot be written")):
            said = w.weft("report", "-o", page, *words, status=status).stderr
            self.assertIn(why, said)
            self.assertEqual(w.read_text(page), "old")
        said = w.weft("report", run, "-o", "/dev/full", status=1).stderr
        self.assertIn("could not be written completely", said)
        os.chmod(page, 0o600)
        w.weft("report", run, "-o", page)
        self.assertEqual(os.stat(page).st_mode & 0o777, 0o600)
        said = subprocess.run(f"'{w.WEFT}' report '{run}' -o /dev/stdout | tail -1", shell=True,
                              capture_output=True, text=True, check=True).stdout
        self.assertIn("</html>", said)
        self.assertIn("<html", w.read_text(page))
        self.assertEqual([x for x in os.listdir(self.place) if x.endswith(".tmp")], [])


class Sweep(w.Bench):
    def test_sweep(self):
        """A sweep is there as it is in sweep.json, with the job files of its rows."""
        sweep = self.path("sweep.ini")
        keys = JOB | {"data.train": self.path("train.bin"), "run.steps": 4}
        with open(sweep, "w", encoding="utf-8") as f:
            f.write("".join(f"[{k.split('.')[0]}]\n{k.split('.')[1]} = {v}\n"
                            for k, v in keys.items()))
            f.write(f"[sweep]\nranks = 1\nparallel.strategy = none\noptim.rule = sgd, adamw\n"
                    f"repeats = 1\nwarmup = 1\nsteps = 2\nout = {self.path('out')}\n")
        w.weft("bench", sweep)
        with open(self.path("out", "sweep.json"), encoding="utf-8") as f:
            want = json.load(f)
        for path in (self.path("out"), self.path("out", "sweep.json")):
            said = w.weft("report", path, "-o", "-", "--json").stdout
            found = json.loads(said)["sweeps"][0]
            self.assertEqual((found["sweep"], found["path"]), (want, self.path("out")))
            self.assertEqual(sorted(found["jobs"]), ["1", "2"])
            self.assertIn("rule = sgd", found["jobs"]["1"])
        shutil.copy(self.path("out", "sweep.json"), self.path("lone.json"))
        said = w.weft("report", self.path("lone.json"), "-o", "-", "--json").stdout
        self.assertEqual(json.loads(said)["sweeps"][0]["jobs"], {})


if __name__ == "__main__":
    w.main()
