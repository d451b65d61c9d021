"""Published step times beside what `weft sim` says, every row, misses included.

usage: python3 bench/validate.py WEFT PUBLISHED.csv [-o FOLDER/foresight.md] [--group NAME ...]

PUBLISHED.csv has one figure a line with its configuration: columns group, model, layers, hidden,
heads, seq, vocab, hardware, gpus, tp, pp, vp, cp, dp, sharding, mbs, gbs, schedule, recompute,
precision, metric, value, unit, id, notes. For each row that a job of weft can express, a job and a
cluster are written and simulated. Rows that it cannot express are listed with the reason, which
follows from the row alone. Nothing is fitted here.

A job differs from the published program in one known way that the tables of whole recomputation
show: weft does not repeat the last product of a block, which backward does not need. Its time is
added in a column of its own ("like theirs").
"""
import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LLAMA = {  # model: layers, hidden, heads, heads of keys, inner width, vocabulary
    "Llama 3 8B": (32, 4096, 32, 8, 14336, 128256),
    "Llama 3.1 8B": (32, 4096, 32, 8, 14336, 128256),
    "Llama 3 70B": (80, 8192, 64, 8, 28672, 128256),
    "Llama 3.1 70B": (80, 8192, 64, 8, 28672, 128256),
    "Llama 3.1 405B": (126, 16384, 128, 8, 53248, 128256),
    "Llama 2 13B": (40, 5120, 40, 40, 13824, 32000),
    "Llama 2 70B": (80, 8192, 64, 8, 28672, 32000),
}
METRICS = ("iteration_time", "step_time", "tokens_per_s", "tokens_per_s_per_gpu",
           "tokens_per_s_per_gpu_vanilla_tp", "model_tflops_per_gpu")
GROUPS = ("korth_t5", "sc21_t1", "megatron_h100_r080", "llmc", "torchtitan_h100",
          "torchtitan_a100", "torchtitan_asynctp", "mosaic_mpt")


class LeftOut(Exception):
    """A row that no job can express, and why."""


def number(row, key, default=1):
    return int(float(row[key])) if row[key] else default


def cluster_of(row):
    hardware = row["hardware"].lower()
    for word, name in (("h200", "dgx-h200"), ("h100", "dgx-h100"), ("a100", "dgx-a100")):
        if word in hardware:
            return name
    raise LeftOut(f"no cluster file for {row['hardware']}")


def attention_of(row):
    """Megatron of 2021 and 2022 had no fused attention."""
    if row["group"] not in ("korth_t5", "sc21_t1"):
        return "fused"
    return "recomputed" if "selective" in row["recompute"] else "stored"


def recompute_of(row):
    word = row["recompute"].lower()
    if not word or word.startswith("none"):
        return "none"
    if word.startswith("full"):
        return "block"
    if row["group"] == "korth_t5":  # the core of attention: weft never keeps it
        return "none"
    if word in ("selective op", "per-op selective"):
        return "selective"
    raise LeftOut(f"recomputation '{row['recompute']}' has no counterpart")


def shape_of(row):
    model = row["model"]
    if model in LLAMA:
        layers, hidden, heads, kv, ffn, vocab = LLAMA[model]
        return {"family": "llama", "layers": layers, "embed": hidden, "heads": heads,
                "kv_heads": kv, "ffn": ffn, "vocab": vocab}
    if not row["layers"]:
        raise LeftOut(f"the shape of {model} is not given")
    return {"family": "gpt2", "layers": number(row, "layers"), "embed": number(row, "hidden"),
            "heads": number(row, "heads"), "ffn": 4 * number(row, "hidden"),
            "vocab": number(row, "vocab", 50432)}


def refuse(row):
    if "fp8" in row["precision"] or "Float8" in row["notes"]:
        raise LeftOut("fp8: weft has no such type")
    if number(row, "cp") > 1 or number(row, "ep") > 1:
        raise LeftOut("context or expert parallelism")
    if "AsyncTP" in row["notes"]:
        raise LeftOut("products that are cut to overlap with their communication")
    if "more than 100% MFU" in row["notes"]:
        raise LeftOut("the published figure is impossible, as its notes say")
    if not row["seq"] and row["model"] not in LLAMA:
        raise LeftOut("the sequence length is not given")


def placement_of(row):
    word = row["sharding"].lower()
    if "zero1" in word:
        return "zero1"
    if "fsdp" in word or "full_shard" in word:
        return "zero3"
    return "zero2" if "shard_grad" in word else "none"


def job_of(row):
    """(overrides without micro-batch, micro-batch or None, ranks)"""
    refuse(row)
    ranks, tp, pp = number(row, "gpus"), number(row, "tp"), number(row, "pp")
    dp = ranks // (tp * pp)
    micro = number(row, "mbs", 0) or None
    sequence = number(row, "seq", 8192)
    batch = number(row, "gbs", 0) or (micro or 1) * dp * max(1, 4 * pp if pp > 1 else 1)
    virtual = number(row, "vp")
    keys = {f"model.{k}": v for k, v in shape_of(row).items()}
    keys |= {"model.context": sequence, "train.sequence": sequence, "train.batch": batch,
             "train.precision": "bf16", "train.recompute": recompute_of(row),
             "parallel.strategy": "tp, pp, dp", "parallel.tp": tp, "parallel.pp": pp,
             "parallel.dp": dp, "optim.placement": placement_of(row) if dp > 1 else "none",
             "parallel.schedule": "interleaved" if virtual > 1 else "1f1b",
             "parallel.virtual": virtual, "comm.plugin": "nccl", "device.plugin": "cuda"}
    if tp > 1 and row["group"] != "sc21_t1" and "no SP" not in row["recompute"]:
        keys["parallel.sequence"] = "on"
    if batch % dp:
        raise LeftOut(f"a batch of {batch} does not divide among {dp}")
    return keys, micro, ranks, cluster_of(row), attention_of(row)


def write_cluster(name, attention, folder):
    text = (ROOT / "configs/clusters" / f"{name}.ini").read_text()
    text = text.replace("[accelerator]\n", f"[accelerator]\nattention = {attention}\n")
    path = folder / f"{name}-{attention}.ini"
    path.write_text(text)
    return path


def run_weft(weft, keys, micro, ranks, cluster):
    job = "".join(f"[{k.split('.')[0]}]\n{k.split('.')[1]} = {v}\n" for k, v in keys.items())
    job += f"[train]\nmicrobatch = {micro}\n[log]\nlevel = error\n"
    done = subprocess.run([weft, "sim", "-n", str(ranks), "-", "--cluster", cluster, "--json"],
                          input=job, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LeftOut("weft: " + done.stderr.strip().splitlines()[-1].split("weft error: ")[-1])
    return json.loads(done.stdout)


CACHE = {}


def simulate(weft, row, folder):
    """The result, the micro-batch, and what is known of the job."""
    keys, micro, ranks, name, attention = job_of(row)
    key = json.dumps([keys, micro, ranks, name, attention])
    if key not in CACHE:
        cluster = write_cluster(name, attention, folder)
        each = keys["train.batch"] // keys["parallel.dp"]
        tries = [micro] if micro else [m for m in (64, 32, 16, 8, 4, 2, 1) if each % m == 0]
        if not micro and keys["parallel.pp"] > 1:
            tries = [1]
        for m in tries:  # not given: the largest that fits
            found = run_weft(weft, keys, m, ranks, cluster)
            if found["fits"] or m == tries[-1]:
                break
        CACHE[key] = found, m
    return *CACHE[key], keys, name


def key_of(name, key):
    for line in (ROOT / "configs/clusters" / f"{name}.ini").read_text().splitlines():
        words = line.split(";")[0].split("=")
        if words[0].strip() == key:
            return float(words[1])
    raise KeyError(key)


def repeated(keys, micro, name):
    """Seconds of the last product of each block, which others repeat and weft does not."""
    tp, pp, tokens = keys["parallel.tp"], keys["parallel.pp"], micro * keys["train.sequence"]
    ffn, hidden = keys["model.ffn"] / tp, keys["model.embed"]
    tiles = math.ceil(tokens / 128) * math.ceil(hidden / 128)
    units = key_of(name, "units")
    rounds = tiles / (math.ceil(tiles / units) * units)
    rate = key_of(name, "bf16") * 1e12 * key_of(name, "reach") * ffn / (ffn + key_of(name, "ramp"))
    one = 2 * tokens * hidden * ffn / (rate * rounds)
    if tp > 1:  # and its all-reduce
        nvlink = {"dgx-a100": 232e9, "dgx-h100": 370e9, "dgx-h200": 365e9}[name]
        one += 2 * (tp - 1) / tp * 2 * tokens * hidden / nvlink + 2 * (tp - 1) * 12.7e-6
    passes = keys["train.batch"] / keys["parallel.dp"] / micro
    passes += (pp - 1) / keys["parallel.virtual"]
    return one * keys["model.layers"] / pp * passes


def seconds_of(row, keys):
    """The published figure as seconds of a step."""
    value, metric = float(row["value"]), row["metric"]
    batch, sequence = keys["train.batch"], keys["train.sequence"]
    if metric in ("iteration_time", "step_time"):
        return value
    if metric.startswith("tokens_per_s"):
        each = 1 if metric == "tokens_per_s" else number(row, "gpus")
        return batch * sequence / (value * each)
    # Megatron's model FLOPs: 72 B s l h^2 (1 + s / 6h + V / 12hl)
    layers, hidden, vocab = keys["model.layers"], keys["model.embed"], keys["model.vocab"]
    flops = 72 * batch * sequence * layers * hidden ** 2
    flops *= 1 + sequence / (6 * hidden) + vocab / (12 * hidden * layers)
    return flops / (value * 1e12 * number(row, "gpus"))


def wanted(row):
    if row["group"] == "mosaic_mpt":  # its other metrics are the same measurement
        return row["metric"] == "tokens_per_s_per_gpu"
    if row["group"] == "llmc":
        return row["metric"] == "tokens_per_s"
    return row["metric"] in METRICS


def percentile(values, share):
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def summary(rows):
    lines = ["| group | rows | mean | median | largest | within 20 % | mean signed |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for group in list(dict.fromkeys(r["group"] for r in rows)) + ["all"]:
        errors = [r["error"] for r in rows if group in ("all", r["group"])]
        size = [abs(e) for e in errors]
        near = sum(e <= 20 for e in size) / len(size)
        lines.append(f"| {group} | {len(size)} | {statistics.mean(size):.1f} % | "
                     f"{statistics.median(size):.1f} % | {max(size):.1f} % | {near:.0%} | "
                     f"{statistics.mean(errors):+.1f} % |")
    return lines


def report(rows, left):
    lines = ["# Published step times and those of `weft sim`", "",
             "Made by `bench/validate.py`; [docs/FORESIGHT.md](../../docs/FORESIGHT.md) says what "
             "the columns mean and what is known to be missing. Errors are those of the column "
             "\"like theirs\".", ""]
    lines += summary(rows) if rows else []
    lines += ["", "| row | model | GPUs | tp x pp x dp | micro-batch | published s | weft s | "
              "like theirs s | error | MFU | limits |",
              "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        lines.append(f"| {r['id']} | {r['model']} | {r['gpus']} | {r['mesh']} | {r['micro']} | "
                     f"{r['is']:.3f} | {r['weft']:.3f} +- {r['bar']:.2g} | {r['like']:.3f} | "
                     f"{r['error']:+.1f} % | {r['mfu']:.1%} | {r['limits']} |")
    lines += ["", "Left out:", "", "| rows | reason |", "| --- | --- |"]
    by = {}
    for name, reason in left:
        by.setdefault(reason, []).append(name)
    lines += [f"| {', '.join(names)} | {reason} |" for reason, names in by.items()]
    return "\n".join(lines) + "\n"


def one_row(weft, row, folder):
    found, micro, keys, name = simulate(weft, row, folder)
    published = seconds_of(row, keys)
    like = found["step_s"]
    if keys["train.recompute"] == "block":
        like += repeated(keys, micro, name)
    mesh = f"{keys['parallel.tp']} x {keys['parallel.pp']} x {keys['parallel.dp']}"
    return {"id": row["id"], "group": row["group"], "model": row["model"], "gpus": row["gpus"],
            "mesh": mesh, "micro": micro, "is": published, "weft": found["step_s"],
            "bar": found["error_s"], "like": like, "error": 100 * (like / published - 1),
            "mfu": found["mfu"], "limits": found["limits"].replace("|", "/")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weft")
    parser.add_argument("published")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--group", action="append")
    args = parser.parse_args()
    with open(args.published, newline="", encoding="utf-8") as f:
        table = [r for r in csv.DictReader(f) if r["group"] in (args.group or GROUPS) and wanted(r)]
    rows, left = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i, row in enumerate(table):
            print(f"\r{i + 1} of {len(table)}: {row['id']}   ", end="", file=sys.stderr)
            try:
                rows.append(one_row(args.weft, row, Path(folder)))
            except LeftOut as why:
                left.append((row["id"], str(why)))
    print(file=sys.stderr)
    text = report(rows, left)
    if args.output:
        args.output.write_text(text)
    print("\n".join(summary(rows)) if args.output and rows else text)


if __name__ == "__main__":
    main()
