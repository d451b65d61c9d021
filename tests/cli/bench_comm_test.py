"""weft bench comm: the columns that other people's scripts read, lists, and the files it keeps."""
import csv
import io
import json
import re

import started

HEAD = ["size", "count", "type", "op", "time", "algbw", "busbw", "#wrong"]
SMALL = ("bench.max=1K", "bench.factor=64")


class Comm(started.Case):
    def bench(self, *words, status=0):
        return self.weft("bench", "comm", *words, *SMALL, status=status)

    def tables(self, out):
        """Rows as dictionaries, of all tables."""
        return [dict(zip(HEAD, line.split())) for line in out.splitlines() if line[0] != "#"]

    def test_columns(self):
        out, _ = self.bench("-n", "2", "bench.op=all_reduce, all_gather", "bench.type=bf16")
        heads = [x.lstrip("#").split() for x in out.splitlines() if x.startswith("#")]
        self.assertEqual(heads, [HEAD, HEAD])
        rows = self.tables(out)
        self.assertEqual([(r["size"], r["count"], r["op"]) for r in rows],
                         [("8", "4", "all_reduce"), ("512", "256", "all_reduce"),
                          ("8", "4", "all_gather"), ("512", "256", "all_gather")])
        for r in rows:
            self.assertEqual((r["type"], r["#wrong"]), ("bf16", "0"))
            rate = int(r["size"]) / float(r["time"]) / 1e3
            self.assertAlmostEqual(float(r["algbw"]), rate, delta=0.1 * rate + 1e-3)

    def test_lists_and_files(self):
        self.write("job.ini", "[bench]\nranks = 1, 2\nop = all_reduce\ntype = fp32, int64\n"
                              "out = kept\n[comm]\nplugin = shm, tcp\nalgorithm = ring\n")
        out, _ = self.bench("job.ini")
        self.assertEqual(len(re.findall(r"(?m)^# \d ranks?, comm.plugin = (?:shm|tcp), "
                                        r"comm.algorithm = ring, bench.type = (?:fp32|int64)$",
                                        out)), 8)
        rows = list(csv.DictReader(io.StringIO(self.read("kept", "comm.csv").decode())))
        self.assertEqual([(r["ranks"], r["plugin"], r["type"], r["bytes"]) for r in rows],
                         [(n, p, t, b) for n in "12" for p in ("shm", "tcp")
                          for t in ("fp32", "int64") for b in ("8", "512")])
        kept = json.loads(self.read("kept", "comm.json"))
        self.assertEqual([[str(x[k]) for k in ("ranks", "type", "bytes", "wrong")] for x in kept],
                         [[r[k] for k in ("ranks", "type", "bytes", "wrong")] for r in rows])
        self.bench("job.ini", "-n", "2", "bench.type=fp32", "comm.plugin=tcp")
        self.assertEqual(len(self.read("kept", "comm.csv").splitlines()), 3)

    def test_rules_are_one_value(self):
        rules = "all_reduce:0-64=one_shot, all_reduce=ring, *=pairwise"
        self.bench("-n", "2", "comm.plugin=tcp", "bench.op=all_reduce, all_gather",
                   "comm.algorithm=" + rules, "bench.out=kept")
        rows = list(csv.DictReader(io.StringIO(self.read("kept", "comm.csv").decode())))
        self.assertEqual([(r["algorithm"], r["used"], r["op"], r["bytes"]) for r in rows],
                         [("rules", "one_shot", "all_reduce", "8"),
                          ("rules", "ring", "all_reduce", "512"),
                          ("rules", "pairwise", "all_gather", "8"),
                          ("rules", "pairwise", "all_gather", "512")])

    def test_what_cannot_be_measured_does_not_end_the_rest(self):
        self.write("job.ini", "[comm]\nplugin = tcp, shm\nalgorithm = mapped\n")
        done = self.weft_any("bench", "comm", "job.ini", "-n", "2", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("'mapped' cannot do all-reduce over this link", done.stderr)
        self.assertIn("# not measured: status 2", done.stdout)
        self.assertEqual(len(self.tables(done.stdout)), 2)
        self.bench("job.ini", "-n", "2", "comm.plugin=tcp", status=2)

    def test_refusals(self):
        self.refused("bench", "comm", "bench.ranks=1, x", why="'x' is not a number of ranks")
        self.refused("bench", "comm", "bench.ranks=,", why="an empty list")
        self.refused("bench", "comm", "bench.op=all", why="'all' is none of all_reduce")
        self.refused("bench", "comm", "-n", "2", "bench.type=fp8", why="bench.type: 'fp8'")
        self.refused("bench", "comm", "comm.algorithm=all_reduce=rign", why="did you mean 'ring'?")
        self.refused("bench", "comm", "bench.min=8K", "bench.max=8", why="less than bench.min")
        self.refused("bench", "comm", "comm.compress=int8", why="measures what is not compressed")


if __name__ == "__main__":
    started.main()
