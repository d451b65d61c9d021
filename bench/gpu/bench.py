"""weft on one GPU against PyTorch with torch.compile: the same models in the same run, medians.

  bench.py --weft build/release/bin/weft [--only gpt2-124m] [--seconds 500] [--no-torch]

For each model: tokens a second, peak memory, MFU against the measured matrix product, and where the
time of a traced step went, kernel by kernel. Prints tables; a JSON line a model begins with {."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from train import tokens  # noqa: E402  (bench/train.py)

PEER = os.path.join(HERE, "..", "peers", "torch_gpu.py")
STEPS, TRACED = 14, 12

# What each is to reach (thousand tokens a second), and its shape; batch is sequences a pass.
MODELS = {
    "gpt2-124m": (450, dict(family="gpt2", layers=12, heads=12, width=768, ffn=3072, batch=64,
                            sequence=1024, vocab=50304)),
    "gpt2-350m": (185, dict(family="gpt2", layers=24, heads=16, width=1024, ffn=4096, batch=32,
                            sequence=1024, vocab=50304)),
    "gpt2-1.5b": (46, dict(family="gpt2", layers=48, heads=25, width=1600, ffn=6400, batch=16,
                           sequence=1024, vocab=50304)),
    "llama-1b": (55, dict(family="llama", layers=16, heads=32, kv_heads=8, width=2048, ffn=8192,
                          batch=8, sequence=2048, vocab=128256)),
}


def job_words(m, work):
    return {"run.out": f"{work}/run", "run.steps": STEPS, "data.train": f"{work}/tokens.bin",
            "model.family": m["family"], "model.layers": m["layers"], "model.heads": m["heads"],
            "model.kv_heads": m.get("kv_heads", m["heads"]), "model.embed": m["width"],
            "model.ffn": m["ffn"], "model.context": m["sequence"], "model.vocab": m["vocab"],
            "model.tied": "on", "train.batch": m["batch"], "train.microbatch": m["batch"],
            "train.sequence": m["sequence"], "train.precision": "bf16", "train.eval_every": 0,
            "optim.lr": 1e-4, "optim.schedule": "constant", "optim.warmup": 0,
            "log.progress": 0, "log.trace_steps": str(TRACED), "device.plugin": "cuda"}


def run(words, limit):
    done = subprocess.run(words, capture_output=True, text=True, timeout=max(limit, 1))
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: "
                           f"{(done.stdout + done.stderr)[-1500:]}")
    return done


def run_weft(o, m, work, limit, extra=()):
    job = os.path.join(work, "job.ini")
    with open(job, "w", encoding="utf-8") as f:
        f.write("[run]\nname = bench\n")
    words = [f"{k}={v}" for k, v in job_words(m, work).items()]
    subprocess.run(["rm", "-rf", f"{work}/run"], check=True)
    said = run([o.weft, "train", job, *words, *extra], limit).stderr
    with open(f"{work}/run/metrics.jsonl", encoding="utf-8") as f:
        steps = [json.loads(line) for line in f]
    rates = sorted(x["tokens_per_s"] for x in steps[3:] if x["step"] != TRACED)
    mfus = sorted(x["mfu"] for x in steps[3:] if x["step"] != TRACED)
    return {"tokens_per_s": rates[len(rates) // 2], "mfu": mfus[len(mfus) // 2],
            "peak_bytes": steps[-1]["peak_bytes"], "loss": [x["loss"] for x in steps[:3]],
            "said": [x for x in said.splitlines() if "GFLOP" in x or "multiproc" in x]}


def run_torch(m, limit):
    words = [f"--{k.replace('_', '-')}={v}" for k, v in m.items()]
    return json.loads(run([sys.executable, PEER, f"--steps={STEPS}", *words], limit).stdout)


def kernel_table(work):
    """{op: (times, milliseconds)} of the traced step, and its sum."""
    with open(f"{work}/run/trace.json", encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    table = collections.defaultdict(lambda: [0, 0.0])
    for e in events:
        if e["ph"] == "X" and e["tid"] == 2:
            table[e["name"]][0] += 1
            table[e["name"]][1] += e["dur"] * 1e-3
    return dict(sorted(table.items(), key=lambda x: -x[1][1]))


def bandwidths(m, table):
    """GB/s of ops whose traffic is known: {op: bytes a step / time}."""
    n, w = m["batch"] * m["sequence"], m["width"]
    norms = 2 * m["layers"] + 1
    known = {"layernorm": norms * n * w * 4, "rmsnorm": norms * n * w * 4,
             "layernorm.dx": norms * n * w * 6, "rmsnorm.dx": norms * n * w * 6,
             "gelu": m["layers"] * n * m["ffn"] * 4,
             "gelu.dx": m["layers"] * n * m["ffn"] * 6,
             "swiglu": m["layers"] * n * m["ffn"] * 6,
             "softmax_xent": n * m["vocab"] * 4}
    return {k: known[k] / table[k][1] * 1e-6 for k in known if k in table}


def report(name, goal, m, ours, theirs, work, found):
    table = kernel_table(work)
    total = sum(ms for _, ms in table.values())
    print(f"\n{name}: {ours['tokens_per_s'] / 1e3:.1f} thousand tokens/s (to reach: {goal}), "
          f"MFU {ours['mfu']:.3f}, peak {ours['peak_bytes'] / 2**30:.1f} GiB")
    for line in ours["said"]:
        print("  " + line)
    if theirs:
        print(f"  PyTorch: {theirs['tokens_per_s'] / 1e3:.1f}, peak "
              f"{theirs['peak_bytes'] / 2**30:.1f} GiB; ratio "
              f"{ours['tokens_per_s'] / theirs['tokens_per_s']:.2f}")
    print(f"  a traced step, {total:.1f} ms in kernels one after the other:")
    for op, (times, ms) in table.items():
        if ms > 0.002 * total:
            print(f"    {op:18} {times:5} x {ms / times:8.3f} ms = {ms:8.2f} ms {ms / total:6.1%}")
    speeds = bandwidths(m, table)
    copy = found.get("copy_gbps", 0)
    for op, gbps in speeds.items():
        print(f"    {op:18} {gbps:6.0f} GB/s" + (f", {gbps / copy:.0%} of a copy" if copy else ""))
    print(json.dumps({"model": name, "weft": ours, "torch": theirs, "bandwidths": speeds,
                      "kernels": {k: [n, round(ms, 3)] for k, (n, ms) in table.items()}}))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default="build/release/bin/weft")
    a.add_argument("--only", default="")
    a.add_argument("--seconds", type=float, default=500)
    a.add_argument("--no-torch", action="store_true")
    a.add_argument("extra", nargs="*", help="section.key=value for weft")
    o = a.parse_args()
    end, failed = time.monotonic() + o.seconds, 0

    def left():
        return end - time.monotonic()

    found = {}
    if not o.no_torch:
        try:
            found = json.loads(run([sys.executable, PEER, "--ceilings"], left()).stdout)
            print(json.dumps(found), flush=True)
        except (RuntimeError, subprocess.TimeoutExpired, ValueError) as e:
            print(f"no ceilings from PyTorch: {e}")
    with tempfile.TemporaryDirectory() as work:
        tokens(f"{work}/tokens.bin", 400000)
        for name, (goal, m) in MODELS.items():
            if o.only not in name:
                continue
            theirs = None
            try:
                ours = run_weft(o, m, work, min(left(), 150), o.extra)
                if not o.no_torch:
                    theirs = run_torch(m, min(left(), 150))
            except (RuntimeError, subprocess.TimeoutExpired, ValueError) as e:
                print(f"\n{name}: {str(e)[-2500:]}", flush=True)
                failed = 1
                if "ours" not in locals():
                    continue
            report(name, goal, m, ours, theirs, work, found)
            del ours
            sys.stdout.flush()
    sys.exit(failed)


if __name__ == "__main__":
    main()
