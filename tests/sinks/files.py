"""files.py WEFT: what do the sinks that come along write, and what when they cannot?"""
import glob
import os
import re
import resource
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", x) for x in ("parity", "openness")]
import exposition  # noqa: E402  (tests/openness/exposition.py)
import tfevents  # noqa: E402  (tests/sinks/tfevents.py)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = w.EVEN | {"checkpoint.every": 0, "log.sinks": "jsonl, tensorboard, prometheus",
                "model.layers": 1, "train.microbatch": 6}
NOT_METRICS = {"step", "time", "host", "attempt", "flops_rule", "version"}


def of_lines(lines):
    """{step: {name: value}}; null is not a number."""
    return {x["step"]: {k: float("nan") if v is None else v for k, v in x.items()
                        if k not in NOT_METRICS} for x in lines}


class Files(w.Bench):
    def events(self, out):
        return sorted(glob.glob(self.path(out, "events.out.tfevents.*")), key=os.path.getmtime)

    def same_values(self, out, steps):
        """Event files hold the values of metrics.jsonl, as floats, under names with slashes."""
        lines = of_lines(w.metrics(self.path(out)))
        for step, _, values in steps:
            self.assertEqual(set(values), {name.replace(".", "/") for name in lines[step]})
            for name, value in lines[step].items():
                self.assertLessEqual(abs(values[name.replace(".", "/")] - value),
                                     1e-6 * abs(value), name)

    def test_a_line(self):
        before = time.time()
        self.train("run", JOB | {"log.sinks": "jsonl", "sink.jsonl.events": "on"}, ranks=2)
        seen = w.metrics(self.path("run"))
        times = [x["time"] for x in seen]
        self.assertEqual(times, sorted(times))
        self.assertTrue(before < times[0] and times[-1] < time.time())
        for x in seen:
            self.assertEqual((x["host"], x["attempt"]), (socket.gethostname(), 1))
        self.train("run", JOB | {"log.sinks": "jsonl"}, extra={"WEFT_ATTEMPT": "3"})
        self.assertEqual({x["attempt"] for x in w.metrics(self.path("run"))}, {3})

    def test_lines_of_any_length(self):
        """A run that is resumed keeps lines that are longer than any buffer."""
        job = JOB | {"checkpoint.every": 5, "run.steps": 10, "log.sinks": "jsonl"}
        self.train("long", job)
        path = self.path("long", "metrics.jsonl")
        with open(path, encoding="utf-8") as f:
            text = f.read().replace('"host":"', '"host":"' + "x" * 30000)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        self.train("long", job | {"run.steps": 15}, resume=True)
        self.assertEqual([x["step"] for x in w.metrics(self.path("long"))], list(range(1, 16)))

    def test_lines_of_others(self):
        """A run that is resumed removes the rows of later steps, wherever they are, and no other
        row; lines that are none of its own stay."""
        job = JOB | {"checkpoint.every": 5, "run.steps": 10, "log.sinks": "jsonl",
                     "sink.jsonl.events": "on"}
        self.train("foreign", job)
        path = self.path("foreign", "metrics.jsonl")
        rows = w.written(self.path("foreign"))
        later = rows[9].replace('"step":10,', '"step":11,')
        blank, notes = "\n", ["a note\n", '# {"step":99}\n', '{"step":"x"}\n', "\0\0\n", "[]\n",
                              '{"step":500,"note":"x"}\n']
        for before, kept in (
                ([*rows[:2], blank, *rows[2:]], 11),                 # in the middle
                ([blank, *notes, *rows], 17),                        # in front
                ([*rows, blank, *notes], 17),                        # at the end
                ([*rows, *notes, later, *rows[:1]], 16),             # before rows of later steps
                ([*rows[:5], *notes, *rows[5:], later, blank, later], 16),
                ([*rows, *notes, later.rstrip()], 16)):              # before a torn row
            with self.subTest(before=before):
                with open(path, "w", encoding="utf-8") as f:
                    f.writelines(before)
                said = self.train("foreign", job | {"run.steps": 11, "checkpoint.every": 0},
                                  resume=True).stderr
                after = w.written(self.path("foreign"))
                self.assertEqual(after[:-1], before[:kept])
                self.assertIn('{"step":11,', after[-1])
                self.assertNotIn("missing", said)

    def test_event_files(self):
        before = time.time()
        job = JOB | {"checkpoint.every": 5, "data.valid": self.path("valid.bin"),
                     "train.eval_every": 4, "run.steps": 10}
        self.train("board", job, ranks=2)
        (path,) = self.events("board")
        version, first, steps = tfevents.read(path)
        self.assertEqual((version, first), ("brain.Event:2", 1))
        self.assertEqual([x[0] for x in steps], list(range(1, 11)))
        self.assertTrue(all(before < x[1] < time.time() for x in steps))
        self.same_values("board", steps)
        self.assertIn("valid_loss", steps[3][2])
        time.sleep(1.1)  # the name has the second
        self.train("board", job | {"run.steps": 14}, ranks=2, resume=True)
        old, path = self.events("board")
        version, first, steps = tfevents.read(path)
        self.assertEqual(first, 11)
        self.assertEqual([x[0] for x in steps], [11, 12, 13, 14])
        self.same_values("board", steps)

    def serving(self, out, ranks=1, **more):
        run = w.Running(self, out, JOB | {"run.steps": 1000000} | more, ranks)
        address = os.path.join(run.out, "prometheus.address")
        run.until(lambda: os.path.exists(address) and os.path.getsize(address), "an address")
        with open(address, encoding="utf-8") as f:
            return run, f.read().strip()

    def test_loopback_unless_told_otherwise(self):
        run, address = self.serving("loop")
        self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
        port = int(address.rpartition(":")[2])
        with open("/proc/net/tcp", encoding="ascii") as f:
            bound = {x.split()[1] for x in f if x.split()[3] == "0A"}
        self.assertIn(f"0100007F:{port:04X}", bound)
        run.end()
        run, address = self.serving("all", **{"sink.prometheus.address": "0.0.0.0"})
        self.assertRegex(address, r"^0\.0\.0\.0:\d+$")
        self.assertEqual(exposition.ask(address)[0], 200)
        run.end()
        if os.path.exists("/proc/net/if_inet6"):
            run, address = self.serving("six", **{"sink.prometheus.address": "[::1]"})
            self.assertRegex(address, r"^\[::1\]:\d+$")
            port = int(address.rpartition(":")[2])
            with socket.create_connection(("::1", port), 10) as s:
                s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                self.assertIn(b"200 OK", s.recv(100))

    def test_values_of_earlier_steps_stay(self):
        """What a step has not, as valid_loss, is on the page as it was measured last."""
        job = {"data.valid": self.path("valid.bin"), "train.eval_every": 40}
        run, address = self.serving("last", 2, **job)
        page = {}

        def between():
            status, text = exposition.ask(address)
            self.assertEqual(status, 200)
            values, _ = exposition.parse(text)
            page.update({name: v for (name, labels), v in values.items() if len(labels) == 1})
            return page["weft_step"] > 40 and page["weft_step"] % 40 > 1

        run.until(between, "a step behind an evaluation")
        at = int(page["weft_step"])
        run.until_step(at)
        last = {}
        for step, values in of_lines(w.metrics(run.out)).items():
            last |= values if step <= at else {}
        self.assertIn("valid_loss", last)
        self.assertIn("ranks.step_ms.max", last)
        self.assertEqual(set(page) - {"weft_step"},
                         {"weft_" + name.replace(".", "_") for name in last})
        for name, value in last.items():
            self.assertLessEqual(abs(page["weft_" + name.replace(".", "_")] - value),
                                 1e-8 * abs(value), name)

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = " ".join(self.train("taken", JOB | {"sink.prometheus.port": port})
                            .stderr.split())
        self.assertEqual(said.count("cannot listen at port"), 1)
        self.assertIn(f"sink prometheus: plugin weft.prometheus: cannot listen at port {port} of "
                      "127.0.0.1: Address already in use; the run goes on without this sink", said)
        self.assertEqual(len(w.metrics(self.path("taken"))), 20)

    def test_no_room(self):
        """A file may not grow: the run goes on, says so once for each gap, and goes on writing
        where it may again."""
        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300000, resource.RLIM_INFINITY))

        job = JOB | {"run.steps": 1000000, "log.sinks": "jsonl, tensorboard"}
        run = w.Running(self, "full", job, 1, preexec_fn=limited)
        for what in ("metrics.jsonl", "event file of TensorBoard"):
            run.until(lambda: f"{what} cannot be written: File too large" in self.said(run), what)
        (pid,) = run.ranks().values() or [run.pid]
        infinite = resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (infinite, infinite))
        begun = len(w.metrics(run.out))
        run.until(lambda: len(w.metrics(run.out)) > begun + 1, "lines")
        run.process.terminate()
        self.assertEqual(run.wait(), 1)
        said = self.said(run)
        lines = re.findall(r"metrics.jsonl is written again from step (\d+) on; lines since step "
                           r"\d+ that are missing: (\d+)", said)
        events = re.findall(r"event file of TensorBoard is written again from step (\d+) on; steps "
                            r"since step \d+ that are missing: (\d+)", said)
        self.assertEqual(said.count("File too large"), len(lines) + len(events), said)
        self.check_gaps([x["step"] for x in w.metrics(run.out)], lines)
        (path,) = self.events("full")
        self.check_gaps([x[0] for x in tfevents.read(path)[2]], events)

    def said(self, run):
        return " ".join(run.said().split())

    def check_gaps(self, steps, gaps):
        """Between two lines that are too long, a short one may have room: more than one gap."""
        missing = {x for end, n in gaps for x in range(int(end) - int(n), int(end))}
        self.assertEqual(len(missing), sum(int(n) for _, n in gaps))
        self.assertGreater(len(missing), 0)
        self.assertEqual(steps, [x for x in range(1, steps[-1] + 1) if x not in missing])


if __name__ == "__main__":
    w.main()
