#!/usr/bin/env python3
"""outputs.py WEFT: is what a run leaves behind true?

metrics.jsonl against the plan and against itself, trace.json, and text from a checkpoint of two
ranks: a model that has learnt a sentence by heart says it again."""
import os
import re
import signal
import statistics
import subprocess
import threading
import time

import traces
import weft_jobs as w

KEYS = {"step", "loss", "grad_norm", "lr", "tokens", "step_ms", "tokens_per_s", "mfu", "flops_rule",
        "comm_bytes", "exposed_comm_ms", "peak_bytes", "resident_bytes", "compute_ms",
        "bubble_ms", "optimizer_ms", "version", "time", "host", "attempt"}
PARTS = ("compute_ms", "exposed_comm_ms", "bubble_ms", "optimizer_ms")  # of step_ms
SENTENCE = b"the weft crosses the warp over and under. "


class Outputs(w.Bench):
    def test_metrics(self):
        """Bytes are those of the plan; times and rates fit together."""
        for base, ranks, transport in ((w.ODD, 1, "auto"), (w.ODD, 2, "tcp"), (w.EVEN, 4, "shm")):
            with self.subTest(ranks=ranks):
                job = base | {"comm.plugin": transport, "train.bucket_mb": 0.01,
                              "data.valid": self.path("valid.bin"), "train.eval_every": 8}
                self.train("run", job, ranks=ranks)
                plan = self.plan(job, ranks)
                seen = w.metrics(self.path("run"))
                self.assertEqual([x["step"] for x in seen], list(range(1, 21)))
                self.assertEqual([x["step"] for x in seen if "valid_loss" in x], [8, 16, 20])
                for x in seen:
                    self.check_line(x, job, plan)
        self.assertEqual(plan["parameters"], 2 * 256 * 32 + 16 * 32 + 64 + 2 * (
            32 * 96 + 96 + 32 * 32 + 32 + 2 * 32 * 128 + 128 + 32 + 128))

    def check_line(self, x, job, plan):
        self.assertEqual({k for k in x if k[:6] != "ranks."} - {"valid_loss"}, KEYS)
        self.assertEqual(x["version"], 1)
        self.assertEqual(x["tokens"], job["train.batch"] * job["train.sequence"])
        self.assertEqual(x["peak_bytes"], max(r["peak"] for r in plan["ranks"]))
        self.assertEqual(x["comm_bytes"], sum(plan["ranks"][0]["sent"].values()))
        self.assertGreater(x["step_ms"], 0)
        self.assertAlmostEqual(x["tokens_per_s"] * x["step_ms"] / 1e3 / x["tokens"], 1, 5)
        self.assertAlmostEqual(x["mfu"] * x["step_ms"] * 1e6 / plan["flops"], 1, 5)
        self.assertGreaterEqual(min(x[p] for p in PARTS), 0)
        self.assertAlmostEqual(sum(x[p] for p in PARTS) / x["step_ms"], 1, 5)
        self.assertGreater(x["optimizer_ms"], 0)
        self.assertEqual(x["bubble_ms"], 0)
        self.assertEqual(x["exposed_comm_ms"] > 0, len(plan["ranks"]) > 1)
        self.assertEqual(x["comm_bytes"] > 0, len(plan["ranks"]) > 1)

    def test_exposed_by_axis(self):
        """Where two axes have ranks, the waits of each add up to exposed_comm_ms."""
        self.train("axes", w.EVEN | {"parallel.strategy": "tp, dp", "parallel.tp": 2,
                                     "run.steps": 5}, ranks=4)
        for x in w.metrics(self.path("axes")):
            of = {k.split(".")[1]: v for k, v in x.items() if k[:5] == "axis."}
            self.assertEqual(set(of), {"tp", "dp"})
            self.assertGreater(min(of.values()), 0)
            self.assertAlmostEqual(sum(of.values()) / x["exposed_comm_ms"], 1, 5)

    def test_stages_wait_for_each_other(self):
        """With one micro-batch a stage idles while the other works. Where other programs take turns
        with the stages, rank 0 may be asleep when it would wait, which makes a try worthless."""
        self.assertTrue(any(self.bubble() > 0.1 for _ in range(20)))

    def bubble(self):
        """The median share of a step."""
        job = w.EVEN | {"parallel.strategy": "pp", "train.microbatch": 12, "model.layers": 8}
        self.train("run", job, ranks=2)
        seen = w.metrics(self.path("run"))
        for x in seen:
            self.assertAlmostEqual(sum(x[p] for p in PARTS) / x["step_ms"], 1, 5)
        return statistics.median(x["bubble_ms"] / x["step_ms"] for x in seen)

    def uneven(self, slow, **more):
        """What each rank says in a job of two, of which rank `slow` is stopped three quarters of
        the time."""
        job = w.EVEN | {"comm.plugin": "tcp", "model.embed": 512, "model.ffn": 2048} | more
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(w.free_port())}
        ranks = []
        if not os.path.exists(self.path("job.key")):
            w.weft("key", "-o", self.path("job.key"))
        for r in (0, 1):
            words = [w.WEFT, "train", self.ini, f"run.key={self.path('job.key')}",
                     *self.options("run", job)]
            ranks.append(subprocess.Popen(words, env=w.environment(common | {"RANK": str(r)}),
                                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE))
        hinder = threading.Thread(target=self.hinder, args=(ranks[slow],), daemon=True)
        hinder.start()
        said = [x.communicate(timeout=w.TIMEOUT)[1] for x in ranks]
        hinder.join()
        self.assertEqual([x.returncode for x in ranks], [0, 0], said)
        return said

    @staticmethod
    def hinder(rank):
        while rank.poll() is None:
            rank.send_signal(signal.SIGSTOP)
            time.sleep(0.009)
            rank.send_signal(signal.SIGCONT)
            time.sleep(0.003)

    def test_times_of_all_ranks(self):
        """The slow rank is found, and rank 0's own times are among them. Other programs on the
        machine make a try worthless."""
        for slow in (0, 1):
            self.assertTrue(any(self.slowest(slow) == (slow, slow) for _ in range(20)), slow)
        self.train("one", w.EVEN)
        self.assertFalse([k for x in w.metrics(self.path("one")) for k in x if "ranks." in k])

    def slowest(self, slow):
        """(the slowest rank, the one that computed for longest) of a step in which `slow` is."""
        self.uneven(slow, **{"run.steps": 3})
        seen = [x for x in w.metrics(self.path("run")) if "ranks.steps" in x]
        self.assertEqual([x["step"] for x in seen[:2]], [1, 2])
        for x in seen[:2]:  # each of one step
            self.assertEqual(x["ranks.steps"], 1)
            for name in ("step_ms", *PARTS, "resident_bytes", "comm_bytes"):
                least, mean, most = (x[f"ranks.{name}.{k}"] for k in ("min", "mean", "max"))
                at = x[f"ranks.{name}.max_rank"]
                self.assertAlmostEqual(mean, (least + most) / 2, delta=1e-6 * most)
                self.assertAlmostEqual(x[name], (least, most)[at == 0], delta=1e-5 * most)
        return seen[1]["ranks.slowest"], seen[1]["ranks.compute_ms.max_rank"]

    def test_peak(self):
        """MFU divides by the mean of all ranks' peaks."""
        said = self.uneven(1, **{"log.peak_gflops": 0, "log.level": "debug", "run.steps": 1})
        peaks = [float(re.search(rb"the peak of this rank is (\S+) GFLOP", x)[1]) for x in said]
        mean = float(re.search(rb"MFU divides by (\S+) GFLOP", said[0])[1])
        self.assertAlmostEqual(mean, sum(peaks) / 2, delta=1e-3 * mean)
        self.assertNotEqual(*peaks)

    def test_trace(self):
        job = w.ODD | {"comm.plugin": "tcp", "log.trace_steps": "3-5", "train.bucket_mb": 0.01}
        self.train("run", job, ranks=2)
        events, arrows = traces.check(self, self.path("run", "trace.json"))
        lanes = traces.lanes(events)
        self.assertEqual(sorted(lanes), [(r, lane) for r in (0, 1)
                                         for lane in ("communication", "compute", "kernels")])
        for lane in lanes.values():
            self.assertEqual({e["args"]["step"] for e in lane}, {3, 4, 5})
        sent = w.metrics(self.path("run"))[2]["comm_bytes"]
        for rank in (0, 1):
            last = 0
            for begin, end in map(traces.span, lanes[rank, "compute"]):
                self.assertGreaterEqual(begin, last, "compute is one after the other")
                last = end
            kernels = {e["name"] for e in lanes[rank, "kernels"]}
            self.assertLessEqual({"linear", "linear.dw", "attention.dx", "sumsq", "ew"}, kernels)
            self.assertLessEqual(sum(e["dur"] for e in lanes[rank, "kernels"]),
                                 sum(e["dur"] for e in lanes[rank, "compute"]))
            self.check_counters(events, rank, lanes[rank, "communication"], 3 * sent)
        operations = len(lanes[0, "communication"])
        self.assertEqual(len(arrows), 2 * operations, "one from each rank to the other")
        self.assertEqual([e["name"] for e in lanes[0, "compute"]],
                         [e["name"] for e in lanes[1, "compute"]])
        self.assertFalse([x for x in os.listdir(self.path("run")) if x.startswith(".")])

    def check_counters(self, events, rank, operations, sent):
        """Bytes in flight are those of the operations under way, which send what the metrics
        say."""
        self.assertEqual(sum(e["args"]["sent"] for e in operations), sent)
        flying = traces.counter(events, rank, "in flight")
        changes = [after - before for (_, before), (_, after) in zip([(0, 0), *flying], flying)]
        self.assertEqual(sum(c for c in changes if c > 0), sent)
        for at, value in dict(flying).items():
            self.assertEqual(value, sum(e["args"]["sent"] for e in operations
                                        if traces.span(e)[0] <= at < traces.span(e)[1]))

    def test_trace_of_memory(self):
        """From what a step keeps up to less than the peak, by one block's activations at a time."""
        job = w.ODD | {"log.trace_steps": "3", "run.steps": 3, "model.layers": 4}
        self.train("run", job)
        plan = self.plan(job)["ranks"][0]
        events, _ = traces.check(self, self.path("run", "trace.json"))
        memory = dict(traces.counter(events, 0, "memory"))
        held = plan["params"] + plan["grads"] + plan["state"]
        self.assertGreaterEqual(min(memory.values()), held)
        self.assertLess(max(memory.values()), plan["peak"])
        live = {}
        for e in traces.lanes(events)[0, "compute"]:
            now = max(at for at in memory if at <= traces.span(e)[0])
            live.setdefault(e["name"], memory[now])
        up, down = ([live[f"{way} block.{i}"] for i in range(4)] for way in ("forward", "backward"))
        for values in (up, down):
            steps = {b - a for a, b in zip(values, values[1:])}
            self.assertEqual(len(steps), 1, values)
            self.assertGreater(steps.pop(), 4 * 3 * 17 * (3 * 24 + 2 * 24))  # qkv, two norms

    def test_trace_of_stages(self):
        """Arrows lead from sends to receives: as many bytes leave as arrive, and the rank and the
        peer name each other."""
        job = w.EVEN | {"log.trace_steps": "2-3", "run.steps": 4, "train.microbatch": 2,
                        "parallel.strategy": "pp, dp", "parallel.pp": 2}
        for transport in ("shm", "tcp"):
            self.train("run", job | {"comm.plugin": transport}, ranks=4)
            events, arrows = traces.check(self, self.path("run", "trace.json"))
            begun = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
            pairs = 0
            for (name, _), ends in arrows.items():
                source, = (e for e in ends if e["ph"] == "s")
                target, = (e for e in ends if e["ph"] == "f")
                self.assertLessEqual(source["ts"], target["ts"])
                send = begun[source["pid"], source["tid"], source["ts"]]
                self.assertEqual(send["args"]["channel"], name)
                if send["name"].startswith("send"):
                    pairs += 1
                    self.assertEqual(send["args"]["peer"], target["pid"])
                    receive, = (e for e in begun.values()
                                if (e["pid"], e["tid"]) == (target["pid"], target["tid"])
                                and e["ts"] <= target["ts"] < e["ts"] + e["dur"])
                    self.assertEqual(receive["args"]["peer"], source["pid"])
                    self.assertEqual(receive["args"]["bytes"], send["args"]["bytes"])
                    self.assertEqual(receive["name"].split(" from ")[0].split()[1:],
                                     send["name"].split(" to ")[0].split()[1:])
            self.assertEqual(pairs, sum(e["name"].startswith("receive") for e in begun.values()))
            self.assertGreater(pairs, 0)

    def test_trace_is_bounded(self):
        """Kernels go first, then whole steps; the log says how many events are left out."""
        job = w.ODD | {"comm.plugin": "tcp", "run.steps": 40, "log.trace_steps": "1-40"}
        self.train("whole", job, ranks=2)
        whole = os.path.getsize(self.path("whole", "trace.json"))
        for share in (0.5, 0.05):
            limit = share * whole / 2**20
            said = self.train("run", job | {"log.trace_mb": limit}, ranks=2).stderr
            self.assertLess(os.path.getsize(self.path("run", "trace.json")), share * whole + 4096)
            self.assertGreater(os.path.getsize(self.path("run", "trace.json")), share * whole / 4)
            lanes = traces.lanes(traces.check(self, self.path("run", "trace.json"))[0])
            steps = {name: sorted({e["args"]["step"] for e in lanes[0, name]})
                     for name in ("compute", "communication", "kernels")}
            self.assertEqual(steps["compute"], steps["communication"])
            self.assertEqual(steps["kernels"], list(range(1, len(steps["kernels"]) + 1)))
            self.assertLess(len(steps["kernels"]), 40)
            self.assertEqual(len(steps["compute"]) == 40, share == 0.5)
            lacks, = re.findall(r"rank 0 warn: the trace lacks (\d+) events", said)
            every = traces.lanes(traces.check(self, self.path("whole", "trace.json"))[0])
            self.assertEqual(int(lacks), sum(len(every[x]) - len(lanes[x])
                                             for x in every if x[0] == 0))

    def test_trace_of_calls(self):
        """The transport `trace` shows the calls of another one and changes nothing."""
        job = w.ODD | {"comm.plugin": "tcp", "run.steps": 4}
        self.train("plain", job, ranks=2)
        for inner in ("tcp", "shm"):
            traced = {"comm.plugin": "trace", "comm.trace.inner": inner, "log.trace_steps": "2-3",
                      "comm.trace.shortest": 0}
            self.train(inner, job | traced, ranks=2)
            self.assertEqual([x["loss"] for x in w.metrics(self.path("plain"))],
                             [x["loss"] for x in w.metrics(self.path(inner))])
            lanes = traces.lanes(traces.check(self, self.path(inner, "trace.json"))[0])
            for rank in (0, 1):
                spans = lanes[rank, "plugins"]
                self.assertLessEqual({"send", "recv", "progress"}, {e["name"] for e in spans})
                self.assertEqual({e["args"]["step"] for e in spans}, {2, 3})

    def test_trace_of_what(self):
        for inner, words in (("", "comm.trace.inner is empty"),
                             ("nosuch", "no comm plugin 'nosuch' in"),
                             ("self", "self reaches no other rank"),
                             ("trace", "name an inner component that does not lead back")):
            job = w.ODD | {"comm.plugin": "trace", "comm.trace.inner": inner}
            done = self.train("run", job, ranks=2, status=2)
            self.assertIn(words, done.stderr)

    def test_sample(self):
        self.sample(w.EVEN, "block.1.attn.qkv.w")

    def test_sample_llama(self):
        self.sample(w.EVEN | w.LLAMA, "block.1.attn.k.w")

    def sample(self, base, parameter):
        with open(self.path("text"), "wb") as f:
            f.write(SENTENCE * 200)
        w.weft("data", "--force", self.path("text"), "-o", self.path("text.bin"))
        job = base | {"data.train": self.path("text.bin"), "run.steps": 150, "optim.lr": 1e-2,
                        "checkpoint.every": 150, "comm.plugin": "shm", "optim.warmup": 20}
        self.train("run", job, ranks=2)
        self.assertLess(w.metrics(self.path("run"))[-1]["loss"], 0.2)
        saved = w.folder(self.path("run"), 150)
        greedy = ("sample", saved, "--prompt", SENTENCE[:14].decode(), "--temperature", 0,
                  "--tokens", 100)
        text = w.weft(*greedy).stdout
        self.assertTrue((SENTENCE * 4).decode().startswith(text.rstrip("\n")), text)
        self.assertGreater(len(text), 100)
        self.assertEqual(w.weft(*greedy).stdout, text)
        drawn = [w.weft("sample", saved, "--prompt", "the ", "--temperature", 3, "--tokens", 60,
                        "--seed", seed).stdout for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        w.weft("ckpt", "verify", saved)
        self.assertIn(parameter, w.weft("ckpt", "info", saved).stdout)

    def test_what_was_saved_before_the_trouble_stays(self):
        """The weights grow until every step is skipped, and the run ends."""
        job = w.ODD | {"run.steps": 60, "optim.lr": 1e6, "optim.warmup": 0, "log.progress": 1,
                       "checkpoint.every": 1, "checkpoint.keep": 1, "train.eval_every": 1,
                       "data.valid": self.path("train.bin")}
        said = self.train("wild", job, status=1).stderr
        self.assertIn("the run has diverged", said)
        self.assertIn("valid nan", said)
        self.assertNotIn("-nan", said)
        lines = w.metrics(self.path("wild"))
        sound = max(x["step"] for x in lines if not x.get("skipped"))
        self.assertEqual(w.steps_saved(self.path("wild"))[0], [sound, lines[-1]["step"]])


if __name__ == "__main__":
    w.main()
