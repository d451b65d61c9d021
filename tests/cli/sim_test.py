"""Does `weft sim` walk every shipped cluster, add up, and answer as the plan and physics say?"""
import glob
import json
import os

import started

JOB = """
[model]
layers = 8
heads = 16
embed = 1024
ffn = 4096
context = 1024
vocab = 4096
[train]
batch = 64
microbatch = 1
sequence = 1024
precision = bf16
[parallel]
strategy = tp, pp, dp
tp = 2
pp = 2
dp = auto
[comm]
plugin = tcp
"""
CLUSTERS = sorted(glob.glob(os.path.join(started.SOURCE, "configs/clusters/*.ini")))


class Sim(started.Case):
    def setUp(self):
        super().setUp()
        self.ini = self.write("job.ini", JOB)
        with open(os.path.join(started.SOURCE, "configs/clusters/dgx-a100.ini"),
                  encoding="utf-8") as f:
            self.text = f.read()

    def sim(self, *words, cluster=None, text=None):
        if text:
            cluster = self.write("cluster.ini", text)
        out, _ = self.weft("sim", "-n", 8, self.ini, *words, "--json", "--cluster",
                           cluster or CLUSTERS[0])
        return json.loads(out)

    def test_every_cluster_file_serves(self):
        self.assertGreaterEqual(len(CLUSTERS), 7)
        for path in CLUSTERS:
            words = ["train.precision=fp16"] if "summit" in path else []
            found = self.sim(*words, cluster=path)
            self.assertGreater(found["step_s"], 0, path)
            self.assertGreater(found["error_s"], 0, path)
            self.assertTrue(0 < found["mfu"] < 1, path)

    def test_the_parts_of_each_stage_add_up(self):
        found = self.sim()
        self.assertEqual(len(found["stages"]), 2)
        for part in [found["mean"], *found["stages"]]:
            total = part["compute_s"] + part["optimizer_s"] + part["bubble_s"]
            total += sum(part["exposed_s"].values())
            self.assertAlmostEqual(total, found["step_s"], delta=1e-6 * found["step_s"])
        self.assertEqual(found["tokens"], 64 * 1024)

    def test_memory_is_the_plans(self):
        plan = json.loads(self.weft("plan", "-n", 8, self.ini, "--json")[0])
        self.assertEqual(self.sim()["peak_bytes"], max(r["peak"] for r in plan["ranks"]))

    def test_the_answer_names_what_is_planned(self):
        found = self.sim()
        self.assertEqual((found["device"], found["mesh"]),
                         ("cpu", "dp 2 over tcp x pp 2 over tcp x tp 2 over tcp"))
        said, _ = self.weft("sim", "-n", 8, self.ini, "--cluster", CLUSTERS[0])
        self.assertIn("plan         for device cpu, dp 2 over tcp x pp 2", said)

    def test_a_timeline_replaces_no_input(self):
        cluster = self.write("cluster.ini", self.text)
        for name, what in ((self.ini, "the job file"), (cluster, "the cluster file")):
            with open(os.path.join(self.place, name), encoding="utf-8") as f:
                before = f.read()
            self.refused("sim", "-n", 8, self.ini, "--cluster", cluster, "--trace", name, why=what)
            with open(os.path.join(self.place, name), encoding="utf-8") as f:
                self.assertEqual(f.read(), before)
        self.refused("sim", self.ini, "--cluster", self.write("tiny.ini", self.text.replace(
            "bf16 = 312", "bf16 = 1e-320")), why="as a peak; it is 0 or at least")

    def test_the_same_twice(self):
        self.assertEqual(self.sim(), self.sim())

    def test_better_machines_are_faster(self):
        usual = self.sim(text=self.text)["step_s"]
        slow = self.text.replace("[link.nvlink]\n", "[link.nvlink]\nports = 0.05\n")
        self.assertGreater(self.sim(text=slow)["step_s"], usual)
        fast = self.text.replace("bf16 = 312", "bf16 = 3120").replace("= 2039", "= 20390")
        self.assertLess(self.sim(text=fast)["step_s"], usual)

    def test_recomputation_costs_time_and_saves_memory(self):
        without, with_it = self.sim(), self.sim("train.recompute=block")
        self.assertGreater(with_it["mean"]["compute_s"], without["mean"]["compute_s"])
        self.assertLess(with_it["peak_bytes"], without["peak_bytes"])
        self.assertEqual(with_it["flops"], without["flops"])

    def test_more_micro_batches_have_a_smaller_bubble(self):
        few, many = self.sim("train.batch=8"), self.sim("train.batch=128")
        share = [x["mean"]["bubble_s"] / x["step_s"] for x in (few, many)]
        self.assertGreater(share[0], share[1])

    def test_a_timeline_of_events_that_do_not_overlap(self):
        self.sim("--trace", "step.json")
        with open(self.path("step.json"), encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
        self.assertEqual({e["pid"] for e in events}, {0, 2})
        for rank in (0, 2):
            calls = sorted((e["ts"], e["dur"]) for e in events
                           if e["pid"] == rank and e["tid"] == 0)
            self.assertGreater(len(calls), 64)
            for (begin, long), (after, _) in zip(calls, calls[1:]):
                self.assertLessEqual(begin + long, after + 0.01)

    def test_what_is_refused(self):
        for words, said in (([self.ini], "name the file of the cluster"),
                            ([self.ini, "--cluster", "no.ini"], "cannot open the cluster file"),
                            ([self.ini, "--cluster", self.ini], "is no section of a cluster"),
                            (["--cluster", CLUSTERS[0]], "name the INI file of a job")):
            self.assertIn(said, self.weft("sim", "-n", 8, *words, status=2)[1])
        wrong = self.write("wrong.ini", self.text.replace("bandwidth = 2039", "bandwith = 2039"))
        self.assertIn("wrong.ini:", self.weft("sim", "-n", 8, self.ini, "--cluster", wrong,
                                              status=2)[1])
        small = self.write("small.ini", self.text.replace("devices = 8\n", "devices = 8\n"
                                                          "machines = 1\n", 1))
        self.assertIn("16 ranks", self.weft("sim", "-n", 16, self.ini, "--cluster", small,
                                            status=2)[1])


if __name__ == "__main__":
    started.main()
