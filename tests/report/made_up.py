"""made_up.py: runs and sweeps by the contract of tools/report/page/README.md, made up."""
import json

EVIL = "</script><img src=x onerror=\"window.hit=1\">'\"&lt;b>"


def a_run(name="run", steps=40, seed=0):
    step = list(range(1, steps + 1))

    def values(unit, f):
        return {"unit": unit, "mean": [f(x) for x in step]}
    split = {"compute_ms": 31.25, "exposed_comm_ms": 7.5, "bubble_ms": 3.125, "optimizer_ms": 1.5}
    series = {"loss": values("", lambda x: 2.5 + 3 / (x + seed)),
              "grad_norm": values("", lambda x: 1 / x),
              "lr": values("", lambda x: 1e-5 * x), "step_ms": values("ms", lambda x: 43.375),
              "tokens_per_s": values("tokens/s", lambda x: 47216.5 + x),
              "mfu": values("", lambda x: 0.312),
              "comm_bytes": values("bytes", lambda x: 4816908),
              "resident_bytes": values("bytes", lambda x: 52428800)}
    series |= {name: values("ms", lambda x, v=v: v + 0.01 * x) for name, v in split.items()}
    points = {"valid_loss": {"unit": "", "step": [20, 40], "value": [2.75, 2.625]}}
    points |= {f"ranks.{what}.{end}": {"unit": "ms", "step": [1, 2, 30], "value": [v, v + 1, v + 2]}
               for what in ("step_ms", "compute_ms")
               for end, v in (("max", 50), ("mean", 45), ("min", 40))}
    points |= {f"ranks.{what}.max": {"unit": "bytes", "step": [1, 30], "value": [1, v]}
               for what, v in (("resident_bytes", 73400320), ("comm_bytes", 5603340))}
    cells = [[s, 0, m, b, 4 * m + 2 * b + s, 4 * m + 2 * b + s + 1 + b]
             for s in (0, 1) for m in (0, 1) for b in (0, 1)]
    spans = [[r, lane, 1000.0 * i + 100 * lane, 800.0 - 100 * (r + lane), lane * 4 + i % 4]
             for r in range(4) for lane in (0, 1, 2) for i in range(8)]
    ranks = [{"rank": r, "params": 520192, "grads": 1040384, "state": 3121152 - r // 2,
              "activations": 8052736,
              "comm": 4096, "peak": 12738560 - r // 2, "collectives": [
                  {"kind": "all_reduce", "axis": "tp", "starts": 21, "sent": 4030476},
                  {"kind": "send", "axis": "pp", "starts": 4, "sent": 786432}]} for r in range(4)]
    arena = {"bytes": 12738560, "entries": [f"call forward block.{i}" for i in range(20)],
             "left_out": 2,
             "regions": [[2, 0, 520192], [3, 520192, 1040384]],
             "kinds": ["saved for backward", "temporary", "parameters", "gradients"],
             "tensors": [[1560576 + 65536 * i, 65536, i, i + 5, i % 2] for i in range(14)]}
    record = {"name": name, "ranks": 4, "steps": 50, "peak_flops": 99.125e9,
              "job": f"[run]\nname = {name}\n[optim]\nlr = {3 + seed}e-3\n[comm]\nplugin =\n",
              "begins": [{"time": 1795907188, "after": 0, "attempt": 1, "ranks": 4}],
              "environment": {"host": "vm", "memory_bytes": 2 ** 34, "load": [0.5, 0.25, 0.125]},
              "mesh": [{"axis": "tp", "size": 2, "inside": None, "transport": "shm"},
                       {"axis": "pp", "size": 2, "inside": "shm", "transport": "tcp"}],
              "machines": [0, 0, 1, 1], "plan": {"ranks": ranks}, "arena": arena,
              "schedule": {"stages": 2, "micro_batches": 2, "bubble": 0.25, "span": 9,
                           "cells": cells}}
    trace = {"step": 21, "ranks": 4, "us": 8000, "lanes": ["compute", "communication", "kernels"],
             "left_out": 3,
             "names": ["forward block.0", "backward block.0", "update block.0", "no loss yet",
                       "all-reduce of x",
                       "send y", "receive z", "all-reduce of loss", "linear", "gelu", "ew",
                       "colsum"], "spans": spans}
    last = {k: s["mean"][-1] for k, s in series.items()} | {"time": 1795907199}
    newest = {k: {"step": steps, "value": s["mean"][-1]} for k, s in series.items()}
    newest |= {k: {"step": p["step"][-1], "value": p["value"][-1]} for k, p in points.items()}
    return {"name": name, "path": "/data/" + name, "record": record, "step": step, "last": last,
            "newest": newest, "recent_ms": 43.375,
            "elapsed": [0.5 * x for x in step], "tokens": [2048 * x for x in step],
            "running": False, "state": "complete" if steps == 50 else "early",
            "series": series, "points": points,
            "steps": {"first": 1, "last": steps, "n": steps, "bucket": 1}, "notes": [],
            "traced": trace,
            "attempts": [{"attempt": 1, "host": "vm", "first": 1, "last": steps, "from": 1795907188,
                          "to": 1795907199}]}


def bucketed(name):
    """A run whose points stand for 100 steps."""
    run = a_run(name)
    run["step"] = [100 * x for x in run["step"]]
    run["steps"] = {"first": 1, "last": 4000, "n": 4000, "bucket": 100}
    run |= {k: [100 * x for x in run[k]] for k in ("elapsed", "tokens")}
    for s in run["series"].values():
        s |= {"min": [v * 0.9 for v in s["mean"]], "max": [v * 1.1 for v in s["mean"]]}
    return run


BARE = {"name": "bare", "path": "/data/bare", "record": None, "steps": None, "step": [],
        "series": {}, "points": {}, "last": None, "newest": {}, "recent_ms": None,
        "running": False, "attempts": [], "traced": None,
        "notes": ["run.json: there is none"]}


def write_lines(path, n):
    """metrics.jsonl of a run of n steps, with all that the ranks measure."""
    parts = {"step_ms": 43.375, "compute_ms": 31.25, "exposed_comm_ms": 7.5, "bubble_ms": 3.125,
             "optimizer_ms": 1.5}
    with open(path, "w", encoding="utf-8") as f:
        for step in range(1, n + 1):
            odd = step * 7919 % 1009 / 1009  # no two neighbours are alike
            line = {"step": step, "time": 1795907188 + 0.044 * step, "host": "vm", "attempt": 1,
                    "loss": 2.5 + 3 / step + 0.1 * odd, "grad_norm": 1 + odd, "lr": 1e-5,
                    "tokens": 2048, "tokens_per_s": 47216.5 + 100 * odd, "mfu": 0.3 + 0.01 * odd,
                    "comm_bytes": 4816908, "peak_bytes": 12738560, "resident_bytes": 50000000,
                    "ranks.steps": 1, "ranks.slowest": step % 4}
            for name, ms in parts.items():
                line[name] = ms + odd
                line |= {f"ranks.{name}.{end}": ms + odd + more
                         for end, more in (("max", 1), ("min", -1), ("mean", 0))}
                line[f"ranks.{name}.max_rank"] = step % 4
            f.write(json.dumps(line) + "\n")


def a_row(number, place, values, ranks, rate, **more):
    split = {"compute_ms": 8e5 / rate, "exposed_comm_ms": 1e5 / rate, "bubble_ms": 5e4 / rate,
             "optimizer_ms": 5e4 / rate}
    split |= {name + "_max": 1.25 * ms for name, ms in split.items()}
    row = {"number": number, "rank": place, "values": values, "ranks": ranks, "status": "done",
           "efficiency": rate / ranks / 900,
           "planned": {"flops": 1e9, "bubble": 0.125, "peak_bytes": 2 ** 20 * number,
                       "sent_bytes": 4096},
           "tokens_per_s": {"median": rate, "min": rate, "max": rate, "low": 0.96 * rate,
                            "high": 1.04 * rate, "runs": [rate]},
           "ratio": {"value": rate / 1000, "low": 0.9, "high": 1.1}, "step_ms": 1e6 / rate,
           "bubble": 0.05,
           "peak_bytes": 2 ** 20 * number, "resident_bytes": 2 ** 24 + number, "sent_bytes": 8192,
           "sent_bytes_planned": 4096,
           "mfu": 0.25, "crowded": ranks > 2, "pinned": True,
           "loss": {"agrees": True, "rounding": False, "difference": 1e-5, "step": 3}}
    return row | split | more


def a_sweep(name="sweep"):
    keys = [{"parallel.strategy": s, "comm.plugin": p}
            for s in ("dp", "tp") for p in ("shm", "tcp")]
    rates = {1: [900, 800, 700, 600], 2: [1750, 1500, 1250, 1000], 4: [3125, 2500, 2250, 2000]}
    rows = [a_row(4 * i + k + 1, 0, v, n, rates[n][k])
            for i, n in enumerate(rates) for k, v in enumerate(keys)]
    for place, row in enumerate(sorted(rows, key=lambda r: -r["tokens_per_s"]["median"])):
        row["rank"] = place + 1
    rows += [{"number": 13, "values": keys[0], "ranks": 8, "status": "skipped",
              "why": "the job needs more memory"},
             {"number": 14, "values": keys[1], "ranks": None, "status": "failed",
              "why": "rank 1 has ended with status 9"}]
    return {"name": name, "path": "/data/" + name,
            "jobs": {str(r["number"]): f"[run]\nname = job {r['number']}\n" for r in rows},
            "sweep": {"version": 1, "sweep": "sweep.ini", "warmup": 2, "steps": 8, "repeats": 3,
                      "left_out": 1, "noise": 0.0125,
                      "warnings": ["other programs kept processors busy"],
                      "environment": {"host": "vm", "date": "x"},
                      "environment_end": {"host": "vm2", "date": "y"}, "interruptions": 1,
                      "rows": rows}}


def whole(runs=(), sweeps=(), live=None):
    return {"version": 1, "made": {"date": "2026-11-28T23:00:00Z", "weft": "0.1.0",
                                   "commit": "abc"}, "live": live,
            "runs": list(runs), "sweeps": list(sweeps)}
