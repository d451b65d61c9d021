"""goes_on_test.py WEFT SOURCE: bundles, equal jobs, sweeps that are killed, and two compared."""
import copy
import json
import os
import random
import re
import signal

import swept
from swept import w

LISTS = """repeats = 2
optim.placement = none, zero1
skip = parallel.strategy!=dp & optim.placement=zero1
parallel = """ + " | ".join(["{strategy = none, ranks = 1}", "{strategy = dp, dp = 2}",
                              "{strategy = dp, dp = auto, ranks = 2}",
                              "{strategy = pp, dp, pp = 2, dp = 1}"]) + "\n"


class GoesOn(swept.Case):
    ALL = {(1, 1, True)} | {(n, k, False) for n in (1, 2, 4, 5) for k in (1, 2)}

    def setUp(self):
        super().setUp()
        self.write("sweep.ini", swept.SWEEP + LISTS)

    def test_bundles_and_equal_jobs(self):
        found, out, _ = self.sweep()
        rows = found["rows"]
        self.assertEqual([(r["values"]["parallel.strategy"], r["ranks"], r["status"])
                          for r in rows],
                         [("none", 1, "done"), ("dp", 2, "done"), ("dp", 2, "same"),
                          ("pp, dp", 2, "done"), ("dp", 2, "done"), ("dp", 2, "same")])
        self.assertEqual([r.get("same_as") for r in rows], [None, None, 2, None, None, 5])
        self.assertNotIn("parallel.pp", rows[1]["values"])
        self.assertEqual(rows[3]["values"]["parallel.pp"], "2")
        self.assertEqual(self.done(), [(1, 1, True)] + [(n, 1, False) for n in (1, 2, 4, 5)]
                         + [(n, 2, False) for n in (5, 4, 2, 1)])  # rounds, there and back
        self.assertEqual(found["job"]["model.layers"], "1")
        for r in rows:
            if r["status"] == "done":
                self.check(r)
        self.assertIn("4 done, 0 skipped, 0 failed, 2 the same as another", out)
        self.check_order(found, out)
        here = found["environment"]
        for key in ("host", "processor", "cpus_usable", "kernel", "weft", "commit", "date", "load"):
            self.assertTrue(here[key], key)
        self.assertEqual(found["baseline"], 1)

    def test_the_peak_is_measured_once(self):
        """... for a number of ranks: by the reference on one, and by the first run on two."""
        found, _, _ = self.sweep("log.peak_gflops=0")
        given = {}
        for number, repeat, alone in self.done():
            name = f"one-rank-{number}" if alone else f"{number:03}-{repeat}"
            text = self.read("out", name + ".ini").decode()
            given[name] = float(re.search(r"^peak_gflops *= *(\S+)", text, re.M)[1])
        self.assertEqual([k for k, v in given.items() if v == 0], ["one-rank-1", "002-1"])
        for one in (True, False):
            later = [v for k, v in given.items() if v and k.startswith("001") == one]
            self.assertAlmostEqual(max(later) / min(later), 1, 6)
        for r in found["rows"]:
            self.assertGreater(r.get("mfu", 1), 0, r)

    def check(self, r):
        rate, plan = r["tokens_per_s"], r["planned"]
        self.assertTrue(rate["low"] < rate["median"] < rate["high"])
        self.assertTrue(r["loss"]["agrees"])
        self.assertEqual(r["sent_bytes"], plan["sent_bytes"])
        self.assertEqual(r["peak_bytes"], plan["peak_bytes"])
        self.assertGreater(r["resident_bytes"], 1 << 20)
        self.assertGreater(plan["flops"], 0)
        self.assertEqual(plan["bubble"] > 0, "pp" in r["values"]["parallel.strategy"])
        self.assertAlmostEqual(r["bubble"], r["bubble_ms"] / r["step_ms"], 9)
        self.assertAlmostEqual(sum(r[p] for p in swept.PARTS) / r["step_ms"], 1, 6)

    def check_order(self, found, out):
        """The fastest first; ratio and efficiency as their definitions have them."""
        done = sorted((r for r in found["rows"] if r["status"] == "done"),
                      key=lambda r: -r["tokens_per_s"]["median"])
        self.assertEqual(done[0]["rank"], 1)
        places = [r["rank"] for r in done]
        self.assertEqual(places, sorted(places))
        for i, r in enumerate(done):
            self.assertLessEqual(r["rank"], i + 1)
        one = found["rows"][0]
        for r in done:
            ratio = r["tokens_per_s"]["median"] / one["tokens_per_s"]["median"]
            self.assertAlmostEqual(r["ratio"]["value"], ratio, 9)
            self.assertAlmostEqual(r["efficiency"], ratio / r["ranks"], 9)
        table = [x.split() for x in out.split("\n\n")[0].splitlines()]
        self.assertEqual([x[0] for x in table], ["place", *map(str, places), "-", "-"])
        self.assertEqual([x[1] for x in table][:1 + len(done)],
                         ["combination", *(str(r["number"]) for r in done)])

    @w.again
    def test_killed_twice(self):
        """With either signal, and with a line that was cut: no run is done twice, none is lost."""
        self.assertGreaterEqual(self.kill_after(2, signal.SIGKILL), 2)
        with open(self.path("out", "runs.jsonl"), "ab") as f:
            f.write(b'{"number":3,"rep')
        first = self.done()
        self.kill_after(len(first) + 3, signal.SIGTERM)
        second = self.done()
        self.assertEqual(second[:len(first)], first)
        partial = json.loads(self.read("out", "sweep.json"))
        found, _, err = self.sweep()
        self.assertIn(f"interrupted after {len(second)} runs", " ".join(err.split()))
        done = self.done()
        self.assertEqual(done[:len(second)], second)
        self.assertEqual(len(done), 9)
        self.assertEqual(set(done), self.ALL)
        self.assertEqual(found["interruptions"], 2)
        for r, before in zip(found["rows"], partial["rows"]):
            if before["status"] == "done":  # what was measured stays
                rates = before["tokens_per_s"]["runs"]
                self.assertEqual(r["tokens_per_s"]["runs"][:len(rates)], rates)
            if r["status"] == "done":
                self.assertEqual(len(r["tokens_per_s"]["runs"]), 2)
                self.check(r)
        self.assertEqual(found["environment"], self.runs()[0]["environment"])

    @w.again
    def test_when_it_does_not_go_on(self):
        """Other jobs, or --afresh: the sweep before is kept beside. More repeats are added."""
        self.kill_after(2, signal.SIGKILL)
        _, _, err = self.sweep("sweep.steps=3")
        self.assertIn("begins anew: that in out has other jobs", " ".join(err.split()))
        self.assertIn("runs.jsonl", self.names("out.1"))
        self.assertEqual(len(self.done()), 9)
        self.sweep("sweep.steps=3", "sweep.repeats=3")
        self.assertEqual(len(self.done()), 13)
        before, table, _ = self.sweep("sweep.steps=3", "sweep.repeats=3")
        again, same, err = self.sweep("sweep.steps=3", "sweep.repeats=3")
        self.assertEqual((again, same), (before, table))
        self.assertIn("holds this sweep, finished", " ".join(err.split()))
        self.assertEqual(len(self.done()), 13)
        self.assertNotIn("out.2", self.names())
        os.rename(self.path("out"), self.path("finished"))
        self.kill_after(2, signal.SIGTERM, "sweep.steps=3", "sweep.repeats=3")
        _, _, err = self.sweep("sweep.steps=3", "sweep.repeats=3", "--afresh")
        self.assertIn("begins anew: --afresh asks for it", " ".join(err.split()))
        self.assertIn("out.2", self.names())
        self.assertEqual(self.runs()[-1], {"complete": 3})

    @w.again
    def test_a_ledger_that_anyone_has_edited(self):
        self.kill_after(3, signal.SIGKILL)
        head = self.read("out", "runs.jsonl").split(b"\n")[0] + b"\n"
        for bad in (b"[]\n", b"\xff\n", b'{"number":-1,"repeat":1,"status":"done"}\n',
                    b'{"number":99999999999,"repeat":1,"status":"done"}\n',
                    b'{"number":2,"repeat":4294967297,"status":"done"}\n',
                    b'{"number":3,"repeat":1,"status":"done","one_rank":true}\n',
                    b'{"complete":-7}\n{"number":1,"repeat":2,"status":"done"}\n', b"x" * 99999):
            self.write("out/runs.jsonl", head + bad)
            found = self.sweep()[0]
            self.assertEqual([r["status"] for r in found["rows"]],
                             ["done", "done", "same", "done", "done", "same"], bad[:40])
            self.assertLessEqual(self.ALL, set(self.done()))

    def test_the_plan_as_json(self):
        out, _ = self.weft("bench", "sweep.ini", "--plan", "--json", "train.precision=fp32")
        rows = json.loads(out)["rows"]
        self.assertEqual([r["status"] for r in rows],
                         ["waits", "waits", "same", "waits", "waits", "same"])
        self.write("job.ini", swept.SWEEP.split("[sweep]", maxsplit=1)[0])
        plan, _ = self.weft("plan", "-n", "2", "job.ini", "--json", "train.precision=fp32",
                            "parallel.strategy=pp, dp", "parallel.pp=2", "parallel.dp=1")
        plan = json.loads(plan)
        self.assertEqual(rows[3]["planned"]["peak_bytes"], max(r["peak"] for r in plan["ranks"]))
        self.assertEqual(rows[3]["planned"]["sent_bytes"],
                         sum(plan["ranks"][0]["sent"].values()))
        self.assertNotIn("out", self.names())

    def test_what_makes_no_difference(self):
        """Keys that a job does not use, beside keys that change it."""
        for lists, same in (("optim.momentum = 0.5, 0.9\n", True),
                            ("optim.rule = sgd\noptim.momentum = 0.5, 0.9\n", False),
                            ("parallel.strategy = dp\nranks = 2\nparallel.tp = 1, 2\n", True),
                            ("parallel.strategy = dp, tp |\nranks = 2\nparallel.dp = auto\n"
                             "parallel.tp = 1, 2\n", False),
                            ("parallel.strategy = tp | tp, dp\nranks = 2\nparallel.tp = 2\n"
                             "comm.dp.algorithm = ring\n", True),
                            ("parallel.strategy = tp | tp, pp\nranks = 2\nparallel.tp = 2\n"
                             "parallel.schedule = 1f1b\n", True),
                            ("parallel.strategy = tp | dp\nranks = 2\nparallel.tp = 2\n", False),
                            ("parallel.strategy = pp\nranks = 2\n"
                             "parallel.schedule = 1f1b, fthenb\n", False),
                            ("ranks = 1\ncomm.plugin = shm, tcp\n", True),
                            ("ranks = 1\ncomm.tcp.encrypt = off, on\n", True),
                            ("ranks = 2\nparallel.strategy = dp\ncomm.plugin = shm, tcp\n", False),
                            ("optim.lr = 1e-3, 0.001\n", True),
                            ("optim.lr = 1e-3, 0.0011\n", False)):
            self.write("sweep.ini", swept.SWEEP + lists)
            out, _ = self.weft("bench", "sweep.ini", "--plan", "--json", "train.precision=fp32")
            self.assertEqual([r["status"] for r in json.loads(out)["rows"]],
                             ["waits", "same" if same else "waits"], lists)

    def test_one_reference(self):
        """Rows that differ in a key that one rank does not use share the run on one rank."""
        self.write("sweep.ini", swept.SWEEP + "repeats = 1\nranks = 2\n"
                   "a = {parallel.strategy = dp, optim.momentum = 0.5} | "
                   "{parallel.strategy = tp, optim.momentum = 0.9}\n")
        found, out, _ = self.sweep()
        self.assertEqual(sum(x[2] for x in self.done()), 1)
        self.assertTrue(all(r["loss"]["agrees"] for r in found["rows"]))
        self.assertRegex(out, r"(?m)^ *1 .* [\d]+ +- +")  # one run each: no bounds

    def test_one_error_once(self):
        self.write("sweep.ini", swept.SWEEP.replace("[device]", "[device]\nthreds = 1", 1) + LISTS)
        _, err = self.weft("bench", "sweep.ini", status=2)
        self.assertEqual(" ".join(err.split()).count("unknown key 'threds'"), 1)

    def test_refused_lists(self):
        lists = "parallel = {strategy = dp, dp = 2}\n"
        for more, why in (("parallel.dp = 1, 2\n", "parallel.dp is set by the list of parallel"),
                          ("optim = {lr = 1e-3 | {lr = 1}\n", "are {key = value, ...}"),
                          ("optim = {lr}\n", "'lr' in a bundle of optim is not key = value"),
                          ("optim = {}\n", "is not key = value"),
                          ("optim = {lr = }\n", "no value for optim.lr"),
                          ("optim = {lr = 1, lr = 2}\n", "sets optim.lr twice"),
                          ("run = {steps = 2}\n", "run.steps is set by the sweep itself"),
                          ("optim = {ranks = 0}\n", "'0' is not a number of ranks"),
                          ("baseline = parallel.dp=3\n", "'3' is not in the list"),
                          ("baseline = parallel.dp!=2\n", "no combination fits it")):
            self.write("sweep.ini", swept.SWEEP + lists + more)
            self.refused("bench", "sweep.ini", why=why)
        self.write("sweep.ini", swept.SWEEP + "parallel = {strategy = dp, ranks = 2}\n")
        self.refused("bench", "sweep.ini", "-n", "2", why="a bundle sets ranks, and so does -n")
        self.refused("bench", "sweep.ini", "--json", why="--json prints plans")


class Compare(swept.Case):
    """Two sweeps, the second written here with known ratios."""

    def setUp(self):
        super().setUp()
        rows = [{"number": i + 1, "values": {"optim.lr": str(i)}, "ranks": 1, "status": "done",
                 "tokens_per_s": {"runs": [100.0 * (i + 1) * x for x in (0.99, 1, 1.01)]}}
                for i in range(6)]
        rows.append({"number": 7, "values": {"optim.lr": "x"}, "ranks": 2, "status": "failed",
                     "why": "broken"})
        self.a = {"version": 1, "steps": 8, "environment": {"host": "a", "commit": "0"},
                  "job": {"model.layers": "4", "train.batch": "8"}, "rows": rows}
        self.b = copy.deepcopy(self.a)
        self.b["environment"]["host"] = "b\x1b[31m"
        self.b["job"] |= {"model.layers": "8", "optim.rule": "sgd"}
        self.b["rows"][2]["tokens_per_s"]["runs"] = [150.0, 151.0, 149.0]
        self.b["rows"][5]["values"] = {"optim.lr": "other"}

    def compare(self, *words, **how):
        self.write("a.json", json.dumps(self.a))
        self.write("b.json", json.dumps(self.b))
        return self.weft("bench", "compare", "a.json", "b.json", *words, **how)

    def test_the_one_that_differs(self):
        found = json.loads(self.compare("--json")[0])
        self.assertEqual([r["verdict"] for r in found["rows"]],
                         ["not told apart", "not told apart", "slower", "not told apart",
                          "not told apart", "not measured"])
        ratio = found["rows"][2]["ratio"]
        self.assertAlmostEqual(ratio["value"], 0.5, 9)
        self.assertTrue(0.45 < ratio["low"] < 0.5 < ratio["high"] < 0.55)
        self.assertEqual([(x["key"], x["a"], x["b"]) for x in found["differs"]],
                         [("host", "a", "b\x1b[31m"), ("model.layers", "4", "8"),
                          ("optim.rule", None, "sgd")])
        self.assertEqual(found["only_b"], [{"optim.lr": "other"}])
        out, _ = self.compare()
        self.assertNotIn("\x1b", out)
        self.assertRegex(out, r"(?m)^ +300 +150 +0\.500 +0\.4\d+\.\.0\.5\d+ +slower +"
                              r"ranks=1  lr=2$")
        self.assertIn("only in A: ranks=1  lr=5", out)
        self.assertNotIn(" \n", out)

    def test_files_that_are_none(self):
        good = self.b
        for bad, why in (({"version": 2}, "its version is not 1"), ({"version": 1}, "has no rows"),
                         ({"version": 1, "rows": [1]}, "no values or no status"),
                         (good | {"rows": [good["rows"][0] | {"values": {"a": 1}}]}, "is no text"),
                         (good | {"rows": [good["rows"][0] | {"tokens_per_s": {"runs": [-1]}}]},
                          "no positive number"),
                         (good | {"rows": [good["rows"][5]]}, "no combination in common")):
            self.b = bad
            self.assertIn(why, " ".join(self.compare(status=2)[1].split()))
        self.write("b.json", "{")
        self.assertIn("b.json is no result of a sweep",
                      self.weft("bench", "compare", "a.json", "b.json", status=2)[1])
        self.refused("bench", "compare", "a.json", why="compare takes two sweeps")
        self.refused("bench", "compare", "a.json", "missing", why="missing cannot be opened")

    def test_any_bytes(self):
        """Changed, cut and spliced files are refused in words or compared; nothing crashes."""
        draw = random.Random(5)
        good = json.dumps(self.b).encode()
        self.write("a.json", json.dumps(self.a))
        for _ in range(100):
            bad = bytearray(good)
            for _ in range(draw.randrange(1, 5)):
                at = draw.randrange(len(bad))
                bad[at:at + draw.randrange(9)] = draw.choice(
                    (bytes([draw.randrange(256)]), b"1e999", b"-1", b"null", b"[[[[", b"{}", b'"'))
            self.write("b.json", bytes(bad[:draw.choice((len(bad), draw.randrange(len(bad))))]))
            self.weft_any("bench", "compare", "a.json", "b.json")


class Lists(swept.Case):
    def test_any_list(self):
        """Lists of any words in any order are refused in words or planned; nothing crashes."""
        draw = random.Random(6)
        words = ("{", "}", ",", "|", "=", "strategy", "dp", "2", "ranks", "parallel.dp", "none",
                 "tp", " ", "optim.lr", "1e-3", "!", "&", ".")
        for _ in range(60):
            text = "".join(draw.choice(words) for _ in range(draw.randrange(1, 14)))
            bundle = "{strategy = dp, " + text
            rule = f"sweep.only={text[::-1]}" if draw.random() < 0.3 else "train.batch=4"
            self.weft_any("bench", "tiny.ini", "--plan", rule,
                          f"sweep.parallel={draw.choice((text, bundle))}")


if __name__ == "__main__":
    swept.main()
