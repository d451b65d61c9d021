"""weft plan: the fields that other people's scripts read, and plans without data or device."""
import json
import os
import re
import time

import started
import weft_jobs as w  # tests/parity/weft_jobs.py


class Plan(started.Case):
    def plan(self, *words):
        return json.loads(self.weft("plan", *words, "--json")[0])

    def test_json(self):
        p = self.plan("-n", "4", "tiny.ini", "parallel.strategy=dp", "train.batch=8")
        self.assertEqual([r["rank"] for r in p["ranks"]], [0, 1, 2, 3])
        for r in p["ranks"]:
            self.assertEqual(list(r), ["rank", "params", "grads", "state", "activations", "comm",
                                       "peak", "checkpoint", "sent", "collectives"])
            parts = ("params", "grads", "state", "activations", "comm")
            self.assertEqual(sum(r[x] for x in parts), r["peak"])
            self.assertTrue(all(isinstance(r[x], int) and r[x] > 0 for x in parts))
            self.assertGreater(r["sent"]["all_reduce"], 0)
            [along] = r["collectives"]
            self.assertEqual((along["kind"], along["axis"]), ("all_reduce", "dp"))
            self.assertEqual(along["sent"], r["sent"]["all_reduce"])
            self.assertGreater(along["starts"], 1)
        self.assertEqual(p["mesh"], {"dp": 4})

    def test_65536_ranks(self):
        """It ends soon, and every rank is there."""
        began = time.monotonic()
        p = self.plan("-n", "65536", "tiny.ini", "parallel.strategy=tp, pp, dp", "parallel.tp=2",
                      "parallel.pp=4", "parallel.dp=8192", "model.layers=4", "train.batch=65536",
                      "comm.plugin=tcp")
        self.assertEqual([r["rank"] for r in p["ranks"]], list(range(65536)))
        self.assertEqual(p["mesh"], {"tp": 2, "pp": 4, "dp": 8192})
        self.assertLess(time.monotonic() - began, w.patience(10))

    def test_compressed(self):
        r = self.plan("-n", "2", "tiny.ini", "parallel.strategy=dp", "train.batch=8",
                      "comm.compress=int8")["ranks"][0]
        self.assertLess(r["sent"]["all_reduce"] * 3.8, r["uncompressed"]["all_reduce"])
        self.assertLess(r["residual_bytes"], r["comm"])
        self.assertEqual(r["kept"], r["residual_bytes"])  # the old name
        self.assertEqual(sum(r[x] for x in ("params", "grads", "state", "activations", "comm")),
                         r["peak"])

    def test_alone_nothing_is_sent(self):
        r = self.plan("tiny.ini")["ranks"][0]
        self.assertEqual((r["comm"], r["sent"]), (0, {"all_reduce": 0}))

    def test_text(self):
        out, _ = self.weft("plan", "-n", "2", "tiny.ini", "parallel.strategy=dp")
        self.assertRegex(out, r"(?m)^model +\d+ parameters$")
        self.assertRegex(out, r"(?m)^mesh +2 ranks: dp 2 over \w+$")
        self.assertRegex(out, r"(?m)^ *rank +params +grads +state +activations +comm +peak$")
        self.assertEqual(len(re.findall(r"(?m)^ +[01]( +[\d.]+ [KMG]?i?B){6}$", out)), 2)

    def test_lists(self):
        out, _ = self.weft("plan", "-n", "2", "tiny.ini", "parallel.strategy=dp", "--list",
                           "--rank", "1")
        for head in ("list step", "list eval", "list save"):
            self.assertIn(head, out)
        self.assertRegex(out, r"call +forward block\.0, micro-batch 0")
        self.assertRegex(out, r"start +#\d+ all-reduce of gradients")
        p = json.loads(self.weft("plan", "-n", "2", "tiny.ini", "parallel.strategy=dp", "--list",
                                 "--json", "--rank", "1")[0])
        self.assertEqual(p["rank"], 1)
        for name in ("step", "eval", "save"):
            self.assertTrue(p[name])
        started_, waited = ([e["operation"] for e in p["step"] if e["kind"] == k]
                            for k in ("start", "wait"))
        self.assertEqual(sorted(started_), sorted(waited))
        self.operands(out, p)

    def operands(self, text, lists):
        """A tensor that a block saves has one address in its forward and its backward call."""
        self.assertRegex(text, r"(?m)^ +layernorm +0x[0-9a-f]+ \((inout|saved), \d+ B\) ")
        saved = {}
        for e in lists["step"]:
            if e["kind"] != "call":
                continue
            at = saved.setdefault(e["name"], set())
            for op in e["ops"]:
                operands = op["in"] + op["out"]
                self.assertEqual(len(operands), len(op["base"]))
                self.assertEqual(len(operands), len(op["bytes"]))
                at |= {a for a, b in zip(operands, op["base"]) if b == "saved"}
        self.assertGreater(len(saved["forward block.0"]), 3)
        self.assertTrue(saved["forward block.0"] & saved["backward block.0"])

    def passes_of_training(self):
        """The passes that the table of build.c names for training, in order, and the last two."""
        with open(os.path.join(started.SOURCE, "core/plan/build.c")) as f:
            table = re.findall(r'(?m)^ +{"([a-z -]+)", \w+,\s+([A-Z |]+)},', f.read())
        return [name for name, jobs in table if re.search("TRAIN|ALL", jobs)] + ["channels",
                                                                                 "digest"]

    def test_passes(self):
        job = ("-n", "2", "tiny.ini", "parallel.strategy=dp")
        named = self.passes_of_training()
        self.assertGreater(len(named), 20)
        passes = self.plan(*job, "--passes")["passes"]
        self.assertEqual([x["name"] for x in passes], named)
        self.assertTrue(all(x["seconds"] >= 0 for x in passes))
        self.assertGreater(sum(x["seconds"] for x in passes), 0)
        self.assertEqual(self.plan(*job, "--passes")["digest"], self.plan(*job)["digest"])
        out, _ = self.weft("plan", *job, "--passes")
        lines = re.findall(r"(?m)^([a-z][a-z -]*?) +(\d+\.\d{3}) ms$", out)
        self.assertEqual([name for name, _ in lines], named + ["all"])
        self.assertEqual(len(lines), out.count("\n"))
        self.assertGreater(float(lines[-1][1]), 0)

    def test_passes_are_printed_alone(self):
        for other in ("--list", "--schedule"):
            _, said = self.weft("plan", "tiny.ini", "--passes", other, status=2)
            self.assertIn("--passes", said)
        out, _ = self.weft("plan", "--help")
        self.assertIn("[--passes]", out)
        self.assertRegex(out, r"(?m)^  --passes   the passes of planning")

    def test_algorithms_by_collective_and_size(self):
        job = ("-n", "2", "tiny.ini", "parallel.strategy=dp", "optim.placement=zero1",
               "comm.plugin=tcp")
        out, _ = self.weft("plan", *job, "--list", "comm.algorithm=all_reduce:0-64=doubling, "
                           "reduce_scatter:0-1K=halving, reduce_scatter=ring")
        used = set(re.findall(r"(reduce-scatter|all-reduce|all-gather) .* on \S+ \((\w+)\): "
                              r"(\d+)", out))
        self.assertEqual({(kind, name) for kind, name, _ in used},
                         {("reduce-scatter", "halving"), ("reduce-scatter", "ring"),
                          ("all-reduce", "doubling"), ("all-gather", "pairwise")})
        for kind, name, count in used:
            if kind == "reduce-scatter":
                self.assertEqual(name, "halving" if int(count) * 4 <= 1024 else "ring")
        self.refused("plan", *job, "comm.algorithm=one_shot", why="as KIND=one_shot, and")
        self.weft("plan", *job, "comm.algorithm=all_reduce=one_shot")
        text = self.read("tiny.ini").decode() + "[comm.dp]\nalgorithm = ring=1\n"
        self.write("rules.ini", text)
        self.refused("plan", "-n", "2", "rules.ini", "parallel.strategy=dp",
                     why=f"rules.ini:{len(text.splitlines())}: comm.dp.algorithm: 'ring' is none "
                     "of all_reduce")

    def test_a_plugin_that_is_not_there(self):
        why = "command line: comm.plugin: no comm plugin 'wireless' in "
        job = ("plan", "-n", "2", "tiny.ini", "parallel.strategy=dp")
        _, err = self.weft(*job, "comm.plugin=wireless", status=2)
        self.assertIn(why, err)
        self.assertRegex(err, r"; there are: .*\bshm, tcp\b")
        self.refused(*job, "comm.plugin=tcq", why="did you mean 'tcp'?")

    def test_every_tensor_is_saved_by_one_rank(self):
        writes = []
        for rank in range(3):
            p = json.loads(self.weft("plan", "-n", "3", "tiny.ini", "parallel.strategy=dp",
                                     "train.batch=6", "--list", "--json", "--rank", rank)[0])
            writes += [e["name"] for e in p["save"]]
        self.assertEqual(len(writes), len(set(writes)))
        for name in ("embed.tok.w", "block.0.attn.qkv.w.m", "block.0.attn.qkv.w.v"):
            self.assertIn(name, writes)

    def test_the_same_twice(self):
        words = ("plan", "-n", "2", "tiny.ini", "parallel.strategy=dp", "--list")
        self.assertEqual(self.weft(*words), self.weft(*words))

    def test_large_models_and_jobs(self):
        big = ["model.layers=48", "model.heads=25", "model.embed=1600", "model.ffn=6400",
               "model.context=1024", "model.vocab=50257", "train.sequence=1024",
               "parallel.strategy=dp", "train.microbatch=1"]
        p = self.plan("-n", "8", "tiny.ini", *big, "train.batch=8")
        self.assertEqual(p["parameters"], 1557611200)
        self.assertGreater(p["ranks"][0]["peak"], 16 * p["parameters"])
        p = self.plan("-n", "512", "tiny.ini", *big, "train.batch=512")
        self.assertEqual(len(p["ranks"]), 512)

    def test_nothing_is_written(self):
        before = self.everything()
        self.weft("plan", "tiny.ini", "--list")
        self.assertEqual(self.everything(), before)

    def test_the_job_files_that_come_along(self):
        """Each of configs/ is a plan as it stands, and says first what it is for."""
        self.make_data()
        self.demo_data()
        found = started.job_files()
        self.assertGreater(len(found), 15)
        for name, (command, ranks) in found.items():
            ini = os.path.join(started.SOURCE, "configs", name + ".ini")
            if command == "bench":
                self.weft("bench", ini, "--plan")
            else:
                self.weft("plan", "-n", ranks, ini)


if __name__ == "__main__":
    started.main()
