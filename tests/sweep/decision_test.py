"""decision_test.py WEFT SOURCE: does a sweep find what is slow and what is wrong, and is its table
the same when it was killed on the way?"""
import json
import math
import os
import signal

import swept
from swept import w

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS", "")

# 45 combinations: 4 of one rank, the others of 2 to 4, none refused. On one rank both transports
# are the same job, so 43 run. One of them is planted: its transport sends 100 kB a second.
LAYOUTS = " | ".join(
    ["{strategy = none, ranks = 1}"] +
    [f"{{strategy = dp, dp = {n}}}" for n in (2, 4)] +
    ["{strategy = tp, tp = 2}", "{strategy = pp, pp = 2}", "{strategy = pp, pp = 3}",
     "{strategy = tp, dp, tp = 2, dp = 2}", "{strategy = pp, dp, pp = 2, dp = 2}",
     "{strategy = pp, tp, pp = 2, tp = 2}", "{strategy = pp, pp = 2, schedule = fthenb}",
     "{strategy = pp, pp = 3, schedule = fthenb}"])
THROTTLE = ("{plugin = acme.throttle, comm.acme.throttle.inner = tcp, "
            "comm.acme.throttle.rate = 100000}")
FORTY = f"""repeats = 3
parallel = {LAYOUTS}
train.recompute = none, block
comm = {{plugin = tcp}} | {{plugin = shm}} | {THROTTLE}
skip = comm.plugin=acme.throttle & parallel.dp!=4 | comm.plugin=acme.throttle & train.recompute=none
"""
WORDS = ("train.batch=8", f"run.plugins={PLUGINS}")


def by_chance(n, share, limit):
    """How many of n, each with this share, there are more of in less than `limit` of all cases."""
    def more(k):
        return sum(math.comb(n, i) * share**i * (1 - share)**(n - i) for i in range(k + 1, n + 1))
    return next(k for k in range(n) if more(k) < limit)


class Decision(swept.Case):
    @w.again
    def test_forty_combinations_killed_twice(self):
        self.write("sweep.ini", swept.SWEEP + FORTY)
        whole, _, _ = self.sweep(*WORDS, "sweep.out=whole", folder="whole")
        runs = sum(len(r["tokens_per_s"]["runs"]) for r in whole["rows"] if r["status"] == "done")
        self.assertEqual([len(whole["rows"]), runs], [45, 3 * 43])
        third = runs // 3
        for at, how in ((third, signal.SIGKILL), (2 * third, signal.SIGTERM)):
            self.kill_after(at, how, *WORDS)
        again, _, _ = self.sweep(*WORDS)
        self.assertEqual(again["interruptions"], 2)
        same = ("number", "values", "ranks", "status", "planned", "sent_bytes", "peak_bytes")
        for a, b in zip(whole["rows"], again["rows"]):
            self.assertEqual([a.get(k) for k in same], [b.get(k) for k in same])
            if a["status"] == "done":
                self.assertTrue(a["loss"]["agrees"] and b["loss"]["agrees"], (a, b))
        for sweep in (whole, again):
            [slow] = [r for r in sweep["rows"] if r["values"]["comm.plugin"] == "acme.throttle"]
            self.assertEqual(slow["rank"], 43, sweep["warnings"])
        out, _ = self.weft("bench", "compare", "whole", "out", "--json")
        rows = json.loads(out)["rows"]
        self.assertEqual(len(rows), 43)
        apart = sum(r["verdict"] in ("slower", "faster") for r in rows)
        self.assertLessEqual(apart, by_chance(43, 0.05, 0.01),
                             "one in twenty differs by chance; a machine is not quiet")

    def planted(self, lists, **env):
        self.write("sweep.ini", swept.SWEEP + "repeats = 3\nparallel.strategy = dp\nranks = 2\n" +
                   lists)
        os.environ.update(env)
        try:
            return self.sweep(f"run.plugins={PLUGINS}", "model.embed=64", "model.ffn=256",
                              "optim.rule=sgd", "optim.lr=0.1", "optim.warmup=0")
        finally:
            for key in env:
                del os.environ[key]

    def test_a_slow_plugin(self):
        """Nothing that it does is wrong, but its place is the last, and it shares it with none."""
        found, _, _ = self.planted(
            "comm = {plugin = tcp} | {plugin = shm} | {plugin = acme.throttle, "
            "comm.acme.throttle.inner = tcp, comm.acme.throttle.rate = 1000000}\n"
            "train.recompute = none, block\n")
        rows = found["rows"]
        self.assertEqual({r["status"] for r in rows}, {"done"})
        slow = [r for r in rows if r["values"]["comm.plugin"] == "acme.throttle"]
        for r in slow:
            self.assertEqual(r["rank"], 5, "a place is shared: " + str(found["warnings"]))
            self.assertLess(r["ratio"]["high"], 1)
        self.assertTrue(all(r["loss"]["agrees"] for r in rows))

    def test_a_wrong_plugin(self):
        """A transport that changes one bit of a step: its losses are not those of one rank."""
        found, out, _ = self.planted("comm.plugin = tcp, flip\n", FLIP_RANK="1", FLIP_AT="40003",
                                     FLIP_BIT="6")
        agrees = {r["values"]["comm.plugin"]: r["loss"]["agrees"] for r in found["rows"]}
        self.assertEqual(agrees, {"tcp": True, "flip": False})
        self.assertRegex(out, r"(?m) flip .* differs: [\d.e+-]+ at step \d$")


if __name__ == "__main__":
    swept.main()
