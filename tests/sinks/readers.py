"""readers.py WEFT: do TensorBoard and a Prometheus read the values of metrics.jsonl?"""
import json
import math
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)
from tensorboard.backend.event_processing import event_accumulator  # noqa: E402

JOB = w.EVEN | {"log.sinks": "jsonl, tensorboard, prometheus", "model.layers": 1,
                "train.microbatch": 6}
NOT_METRICS = {"step", "time", "host", "attempt", "flops_rule", "version"}
CONFIG = """global:
  scrape_interval: 200ms
scrape_configs:
  - job_name: weft
    honor_labels: true
    static_configs:
      - targets: ["{address}"]
"""


class Readers(w.Bench):
    def test_tensorboard(self):
        job = JOB | {"checkpoint.every": 10, "checkpoint.async": "off", "train.eval_every": 4,
                     "data.valid": self.path("valid.bin")}
        run = w.Running(self, "board", job | {"run.steps": 100000}, 2)
        run.until_step(15)
        run.end()  # behind a checkpoint: what follows it is void
        saved = max(w.steps_saved(run.out)[0])
        self.train("board", job | {"run.steps": saved + 5}, ranks=2, resume=True)
        board = event_accumulator.EventAccumulator(run.out, size_guidance={"scalars": 0})
        board.Reload()
        lines = w.metrics(run.out)
        self.assertEqual([x["step"] for x in lines], list(range(1, saved + 6)))
        names = {name for x in lines for name in set(x) - NOT_METRICS}
        tags = {x for x in board.Tags()["scalars"] if board.Scalars(x)}  # not of void steps alone
        self.assertEqual(tags, {n.replace(".", "/") for n in names})
        for name in names:
            want = {x["step"]: x[name] for x in lines if name in x}
            found = {x.step: x.value for x in board.Scalars(name.replace(".", "/"))}
            self.assertEqual(set(found), set(want), name)
            for step, value in want.items():
                self.assertLessEqual(abs(found[step] - value), 1e-6 * abs(value), (name, step))

    def query(self, port, what):
        """[(labels, value)] of an instant query; values of the database keep their bits."""
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": what})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return []
        return result

    def test_prometheus(self):
        """Samples of the database are those of metrics.jsonl, by the step of the same scrape."""
        server = shutil.which("prometheus")
        if not server:
            self.skipTest("there is no prometheus here; make integration installs it")
        two_axes = {"parallel.strategy": "tp, dp", "parallel.tp": 2, "parallel.dp": 2}
        run = w.Running(self, "scraped", JOB | two_axes | {"run.steps": 1000000,
                                                           "checkpoint.every": 0}, 4)
        address = os.path.join(run.out, "prometheus.address")
        run.until(lambda: os.path.exists(address) and os.path.getsize(address), "an address")
        with open(address, encoding="utf-8") as f, \
                open(self.path("prometheus.yml"), "w", encoding="utf-8") as to:
            to.write(CONFIG.format(address=f.read().strip()))
        port = w.free_port()
        log = open(self.path("prometheus.log"), "w", encoding="utf-8")
        self.addCleanup(log.close)
        scraper = subprocess.Popen(
            [server, "--config.file=" + self.path("prometheus.yml"),
             "--storage.tsdb.path=" + self.path("tsdb"), f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log)
        self.addCleanup(scraper.wait)
        self.addCleanup(scraper.terminate)
        run.until(lambda: len(self.samples(port, "weft_step")) >= 4, "four scrapes")
        steps = self.samples(port, "weft_step")
        names = {x["metric"]["__name__"] for x in self.query(port, '{job="tests"}')}
        run.until_step(int(max(steps.values())))
        lines = {x["step"]: x for x in w.metrics(run.out)}
        of_weft = {"weft_" + n.replace(".", "_"): n for n in lines[1]
                   if n not in NOT_METRICS}
        self.assertLessEqual({"weft_ranks_bubble_ms_max", "weft_axis_tp_exposed_comm_ms"},
                             set(of_weft))
        self.assertLessEqual(set(of_weft) | {"weft_step", "weft_events_total"}, names)
        compared = 0
        for name, key in of_weft.items():
            for at, value in self.samples(port, name).items():
                if at in steps and steps[at] > 0:
                    step = int(steps[at])
                    while key not in lines[step]:  # ranks.*: the last value stays
                        step -= 1
                    want = lines[step][key]
                    self.assertTrue(math.isclose(value, want, rel_tol=1e-8), (name, value, want))
                    compared += 1
        self.assertGreaterEqual(compared, 3 * len(of_weft))

    def samples(self, port, name):
        """{time: value} of the last minute."""
        series = self.query(port, name + "[1m]")
        return {at: float(value) for x in series for at, value in x["values"]}


if __name__ == "__main__":
    w.main()
