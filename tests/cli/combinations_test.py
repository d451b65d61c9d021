"""What combines with what: every row of docs/COMBINATIONS.md is provoked, and what no row refuses
is planned."""
import json
import os
import re

import started

LLAMA = "model.family=llama"
DP = "parallel.strategy=dp"
ROWS = [  # ranks, what is asked for
    (4, "parallel.strategy=pp, dp"),
    (2, DP, "parallel.dp=3"),
    (4, "parallel.strategy=tp, dp", "parallel.tp=2", "parallel.dp=4"),
    (2,),
    (2, "parallel.strategy=dp, dp"),
    (8, "parallel.strategy=hybrid, dp"),
    (2, "parallel.strategy=pp", "optim.placement=zero1"),
    (1, "optim.placement=zero3"),
    (2, DP, "comm.plugin=self"),
    (2, "parallel.strategy=tp", "comm.tp.plugin=self"),
    (2, DP, "comm.plugin=nccl", "comm.checksum=on"),
    (2, DP, "comm.plugin=nccl", "comm.dp.checksum=on"),
    (2, DP, "comm.plugin=tcp", "comm.algorithm=mapped"),
    (2, DP, "comm.plugin=tcp", "comm.tcp.latency=20"),
    (1, "comm.compress=int8"),
    (2, "parallel.strategy=tp", "comm.compress=bf16"),
    (4, "parallel.strategy=tp, dp", "parallel.tp=2", "comm.tp.compress=int8"),
    (2, DP, "comm.compress=int8", "comm.algorithm=ring"),
    (2, DP, "comm.compress=int8", "comm.dp.algorithm=pairwise", "optim.placement=zero2"),
    (2, DP, "comm.compress=fp16", "train.precision=bf16", "train.accumulate=compute"),
    (2, DP, "comm.plugin=mpi", "comm.compress=int8"),
    (1, "train.batch=3"),
    (2, DP, "train.batch=2"),
    (1, "train.sequence=17"),
    (1, "optim.min_lr=1"),
    (1, "optim.momentum=0.9"),
]
PLUGINS = [  # and what stands in the help of the plugin's keys
    (2, "schedule = interleaved needs parallel.virtual of 2", "interleaved needs virtual",
     "parallel.strategy=pp", "parallel.schedule=interleaved"),
    (2, "parallel.virtual=2 needs schedule = interleaved", "schedule = interleaved",
     "parallel.strategy=pp", "parallel.virtual=2"),
    (2, "micro-batches in multiples of parallel.pp", "micro-batches in multiples of pp",
     "parallel.strategy=pp", "parallel.virtual=2", "parallel.schedule=interleaved",
     "model.layers=2", "train.microbatch=4"),
    (4, "are more parts than the model's 3 blocks", "at most layers + 2", "parallel.strategy=pp"),
    (2, "for this model parallel.tp may be", "divides model.heads",
     "parallel.strategy=tp", "model.heads=1"),
    (1, "model.heads: 3 heads do not divide model.embed = 16", "they divide embed",
     "model.heads=3"),
    (1, "heads must be a multiple of kv_heads", "heads is a multiple of it",
     LLAMA, "model.heads=4", "model.kv_heads=3"),
    (1, "every head has its own keys and values", "gpt2 has as many as heads", "model.kv_heads=1"),
    (1, "gpt2 learns its positions", "gpt2 learns them", "model.rope_theta=5e5"),
    (1, "llama rotates them in pairs", "an even number of its elements",
     LLAMA, "model.embed=18", "model.heads=2"),
    (1, "the job has no data", "0: what the data says, which is needed then",
     "model.vocab=0", "data.train="),
    (1, "the data has tokens up to 255, the model only 100", "at least as many as in the data",
     "model.vocab=100"),
    (2, "parallel.stages", "blocks of each stage by hand", "parallel.strategy=pp",
     "parallel.stages=7, 7"),
]


class Combinations(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def document(self):
        return self.weft("config", "combinations")[0]

    def refusal(self, ranks, *words):
        """Refused by plan, or where only the data shows it by train, before anything starts."""
        command = "train" if "model.vocab=100" in words else "plan"
        before = self.everything()
        said = self.weft(command, "-n", ranks, "tiny.ini", *words, status=2)[1]
        self.assertEqual(self.everything(), before)
        return said

    def test_the_document_is_current(self):
        with open(os.path.join(started.SOURCE, "docs", "COMBINATIONS.md"), encoding="utf-8") as f:
            kept = f.read()
            for name, kind in re.findall(r"(?m)^- `(\w+)` \((comm|device)\)", kept):
                if not started.built(kind, name):
                    kept = re.sub(rf"(?m)^- `{name}` .*\n(?:  - .*\n)*\n?", "", kept)
            self.assertEqual(kept, self.document(),
                             "it is old: weft config combinations > docs/COMBINATIONS.md")

    def test_every_row_is_what_is_said(self):
        cells = re.findall(r"(?m)^\| `.*? \| (.*) \| .* \|$", self.document())
        self.assertGreater(len(cells), 12)
        rows = {c: re.compile(re.sub(r"`[\w.]+`|'`[\w.]+`'", ".+",
                                     re.escape(c).replace("\\`", "`").replace("\\.", "."))
                              .replace("`", "")) for c in cells}
        seen = set() if started.built("comm", "mpi") else {c for c in rows if "compression;" in c}
        for ranks, *words in ROWS:
            if "comm.plugin=mpi" in words and not started.built("comm", "mpi"):
                continue
            said = self.refusal(ranks, *words)
            fit = [c for c, pattern in rows.items() if pattern.search(said)]
            self.assertEqual(len(fit), 1, f"{words}: {said}")
            seen.add(fit[0])
        self.assertEqual(seen, set(rows), "rows that nothing here provokes")

    def test_what_plugins_refuse_stands_in_their_help(self):
        text = self.document()
        for ranks, sentence, helps, *words in PLUGINS:
            self.assertIn(sentence.replace("=2 ", " = 2 "), self.refusal(ranks, *words))
            self.assertIn(helps, text)

    def test_all_others_are_planned(self):
        """A few hundred combinations: each is planned, or refused in words that stand here."""
        self.write("all.ini", started.TINY + """[sweep]
ranks = 2, 4
train.batch = 16
model.layers = 2
model.family = gpt2, llama
parallel.strategy = dp | tp | pp | tp, dp | pp, dp | tp, pp | hybrid
parallel.tp = 2
parallel.pp = 2
optim.placement = none, zero1, zero2, zero3
train.recompute = none, block
parallel.sequence = off, on
""")
        out, _ = self.weft("bench", "all.ini", "--plan", "--json")
        rows = json.loads(out)["rows"]
        found = ["" if x["status"] == "waits" else f"{x['status']}: {x.get('why', '')}"
                 for x in rows]
        self.assertEqual(len(found), 2 * 2 * 7 * 4 * 2 * 2)
        place = r"^skipped: (all\.ini:\d+: )?"
        words = {re.sub(r"[\d(].*", "", re.sub(place, "", x)) for x in found}
        self.assertIn("parallel.strategy", {x.split(": ")[2] for x in found if ".ini" in x})
        self.assertLessEqual(words, {"", "same: the job of combination ",
                                     "parallel.strategy: the strategies use ", "parallel.pp: ",
                                     "optim.placement: zero"})
        self.assertGreaterEqual(found.count(""), 100)


if __name__ == "__main__":
    started.main()
