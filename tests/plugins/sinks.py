"""sinks.py WEFT SOURCE SINKS: what does a sink get, and what happens when it fails?

tests/plugins/sinks.c notes every call. jsonl, which comes along, writes the same values."""
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
SINKS = os.path.abspath(sys.argv.pop(3))
import started  # noqa: E402  (tests/cli/started.py)

LINE = ("step", "time", "host", "attempt", "flops_rule", "version")  # of a line of jsonl
OWN = {"test.sum", "test.last", "test.max"}
BOTH = "log.sinks=jsonl, test.sink"


class Sinks(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.write("job.ini", started.TINY.replace("[run]\n", f"[run]\nplugins = {SINKS}\n"))

    def calls(self):
        return self.read("run", "calls.txt").decode().splitlines()

    def values(self):
        """{step: {name: (value, unit, kind)}} of the calls."""
        found = {}
        for line in self.calls():
            if line.startswith("metrics "):
                _, step, flags, *words = line.split(" ")
                self.assertEqual(flags, "0")
                values = (w.split("=") for w in words)
                found[int(step)] = {n: (float(v), unit, int(kind)) for n, v, unit, kind in values}
        return found

    def lines(self, name="metrics.jsonl"):
        return [json.loads(x) for x in self.read("run", name).splitlines()]

    def fails(self, *words, status=1):
        done = subprocess.run([started.WEFT, "train", "job.ini", *words], cwd=self.place,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        self.assertEqual(done.returncode, status, done.stderr)
        return " ".join(done.stderr.split())

    def test_two_sinks_get_the_same(self):
        self.weft("train", "-n", "2", "job.ini", BOTH, "parallel.strategy=dp", "train.microbatch=1")
        got, lines = self.values(), self.lines()
        self.assertEqual(sorted(got), [1, 2, 3, 4])
        for line in lines:
            step = got[line["step"]]
            names = [n for n in line if n not in LINE]
            self.assertEqual(list(step), names)
            for name in names:
                value = step[name][0]
                if line[name] is None:
                    self.assertFalse(math.isfinite(value))
                else:
                    self.assertLessEqual(abs(value - line[name]), 1e-8 * abs(value), name)
        self.assertEqual(got[1]["step_ms"][1:], ("ms", 1))
        self.assertEqual(got[1]["comm_bytes"][1:], ("bytes", 1))

    def test_values_that_plugins_add(self):
        self.weft("train", "job.ini", BOTH)
        got = self.values()
        self.assertEqual(OWN & set(got[1]), set())
        for step in (2, 3, 4):
            self.assertEqual(got[step]["test.sum"], (-12345678901, "bytes", 1))
            self.assertEqual(got[step]["test.max"], (7.0, "ms", 1))
            self.assertEqual("test.last" in got[step], step == 3)
        self.assertTrue(math.isnan(got[3]["test.last"][0]))
        lines = self.lines()
        self.assertEqual({x["test.sum"] for x in lines[1:]}, {-12345678901})
        self.assertIsNone(lines[2]["test.last"])

    def test_events(self):
        self.weft("train", "job.ini", BOTH, "run.name=my job", "sink.jsonl.events=on",
                  "checkpoint.async=off")
        calls = self.calls()
        self.assertEqual(calls[0], "open 0 1 my job 0")
        self.assertEqual(calls[-1], "close")
        events = [c.split(" ")[1:4] for c in calls if c.startswith("event ")]
        expected = [["begin", "0", "1"], ["evaluation", "2", "1"], ["saving", "2", "1"],
                    ["checkpoint", "2", "1"], ["evaluation", "4", "1"], ["saving", "4", "1"],
                    ["checkpoint", "4", "1"], ["end", "4", "1"]]
        self.assertEqual(events, expected)
        order = [c.split(" ")[:2] for c in calls[1:5]]
        self.assertEqual(order, [["event", "begin"], ["metrics", "1"], ["metrics", "2"],
                                 ["event", "evaluation"]])
        written = self.lines("events.jsonl")
        self.assertEqual([[e["event"], str(e["step"]), "1"] for e in written], expected)
        self.assertTrue(all(e["time"] > 1.6e9 and e["text"] for e in written))

    def test_a_resumed_run(self):
        words = "job.ini", BOTH, "sink.jsonl.events=on", "checkpoint.every=2"
        self.weft("train", *words, "run.steps=2")
        with open(self.path("run", "events.jsonl"), "a", encoding="utf-8") as f:
            f.write('{"step":3,"event":"later"}\n{"st')
        self.weft("train", *words, "--resume")
        self.assertIn("open 0 1 demo 2", self.calls())
        events = [(e["event"], e["step"]) for e in self.lines("events.jsonl")]
        self.assertEqual(events[events.index(("end", 2)) + 1], ("resume", 2))
        self.assertNotIn("later", str(events))
        self.assertEqual([x["step"] for x in self.lines()], [1, 2, 3, 4])

    def test_events_of_a_newer_weft(self):
        words = "job.ini", "log.sinks=jsonl", "sink.jsonl.events=on", "run.steps=2"
        self.weft("train", *words)
        for version, why in (("2", "has version 2, and this program reads versions up to 1"),
                             ("x", "has no valid version number")):
            text = self.read("run", "events.jsonl").decode()
            self.write("run/events.jsonl", text.replace('"version":1', '"version":' + version))
            said = self.fails("log.sinks=jsonl", "sink.jsonl.events=on", "--resume", status=2)
            self.assertIn("events.jsonl " + why, said)
            self.write("run/events.jsonl", text)

    def test_without_sinks(self):
        self.weft("train", "job.ini", "log.sinks=")
        self.assertNotIn("metrics.jsonl", self.names("run"))
        self.weft("train", "job.ini", "log.sinks=test.sink")
        self.assertNotIn("metrics.jsonl", self.names("run"))
        self.assertIn("close", self.calls())
        self.write("quiet.ini", self.read("job.ini") + b"[sink.test.sink]\nbreaks = open\n")
        self.weft("train", "quiet.ini", "log.sinks=test.quiet")
        self.assertNotIn("event", "".join(self.calls()))

    def test_refusals(self):
        for sinks, why in (("jsnol", "did you mean 'jsonl'?"), ("jsonl,jsonl", "named twice"),
                           ("jsonl,", "is not a plugin name"), ("tcp", "log.sinks")):
            for command in ("plan", "train"):
                self.refused(command, "job.ini", "log.sinks=" + sinks, why=why)
        self.refused("train", "job.ini", "sink.jsonl.event=on", why="did you mean 'events'?")
        self.refused("train", "job.ini", "sink.unknown.x=on", why="sink.unknown")

    def test_a_sink_that_fails(self):
        """The run goes on without it, and says so once; the other sink gets every step."""
        for call in ("open", "begin", "metrics", "checkpoint", "evaluation"):
            with self.subTest(call=call):
                said = " ".join(self.weft("train", "job.ini", BOTH,
                                          "sink.test.sink.breaks=" + call)[1].split())
                self.assertEqual(said.count("sink test.sink: plugin org.test.sink: this sink was "
                                            "told to break; the run goes on without this sink"), 1)
                self.assertEqual([x["step"] for x in self.lines()], [1, 2, 3, 4])
                if call != "open":
                    self.assertEqual(self.calls()[-1], "close")
                    self.assertIn(call, self.calls()[-2])

    def test_a_job_that_is_wrong(self):
        """What a sink says of its options ends the job before its first step."""
        self.assertIn("this sink was told to break", self.fails(
            BOTH, "sink.test.sink.breaks=usage", status=2))

    def test_a_sink_that_hangs(self):
        said = self.fails(BOTH, "sink.test.sink.breaks=hang metrics", "run.call_deadline=3")
        self.assertIn("metrics() of the plugin org.test.sink", said)
        self.assertIn("does not return: 3 s", said)

    def test_the_end_of_a_failed_job(self):
        """A sink hears why: here the loss is not finite in every step."""
        said = self.fails(BOTH, "optim.lr=1e6", "run.steps=60", "checkpoint.every=0",
                          "train.precision=fp32", "optim.rule=sgd", "train.clip=0")
        self.assertIn("has diverged", said)
        events = [c.split(" ")[1] for c in self.calls() if c.startswith("event ")]
        self.assertEqual(events.count("skipped"), 19)
        self.assertIn("has diverged", self.calls()[-2])


if __name__ == "__main__":
    started.main()
