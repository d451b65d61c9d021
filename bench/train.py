#!/usr/bin/env python3
"""weft train against PyTorch: the same model, shapes and threads, runs in turn, medians, ratios.

  bench/train.py [--weft build/release/bin/weft] [--rounds 3] [--steps 8] [--only bf16:4x64]
                 [--model 124M] [--threads 2]

PyTorch runs as a careful user has it: AdamW fused, tcmalloc or jemalloc preloaded (the default
allocator gives memory back to the system and gets it page by page, which costs a virtual machine
several times the step), with and without torch.compile, and the faster of the two counts. Prints a
JSON line a case. Nothing else should run on the machine. Needs PyTorch for the peer, and one of the
packages libtcmalloc-minimal4 and libjemalloc2."""
import argparse
import array
import functools
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# GPT-2 models, and (precision, batch, sequence) of each
MODELS = {"124M": {"vocab": 50304, "layers": 12, "heads": 12, "embed": 768, "ffn": 3072,
                   "context": 1024},
          "30M": {"vocab": 50304, "layers": 6, "heads": 6, "embed": 384, "ffn": 1536,
                  "context": 1024}}
CASES = {"124M": [("fp32", 4, 64), ("bf16", 4, 64), ("fp32", 4, 512), ("bf16", 4, 512)],
         "30M": [("fp32", 4, 256), ("bf16", 4, 256)]}


def tokens(path, count=200000):
    """A file in the public GPT-2 token format."""
    random.seed(1)
    head = array.array("i", [20240520, 1, count] + [0] * 253)
    body = array.array("H", (random.randrange(50257) for _ in range(count)))
    with open(path, "wb") as f:
        f.write(head.tobytes() + body.tobytes())


def write_model(f, model):
    f.write("[model]\n")
    f.writelines(f"{key} = {value}\n" for key, value in MODELS[model].items())


def words_of_model(model):
    """The same for peers/torch_gpt2.py."""
    m = MODELS[model]
    return ["--vocab", str(m["vocab"]), "--width", str(m["embed"]), "--layers", str(m["layers"]),
            "--heads", str(m["heads"])]


def write_job(o, work, precision, batch, sequence):
    """The job in `work`, which trains into `work`/run; returns its path and that folder."""
    out = os.path.join(work, "run")
    job = os.path.join(work, "job.ini")
    with open(job, "w", encoding="utf-8") as f:
        f.write(f"[run]\nout = {out}\nsteps = {o.steps}\n")
        write_model(f, o.model)
        f.write(f"[data]\ntrain = {work}/tokens.bin\n"
                f"[train]\nbatch = {batch}\nmicrobatch = {batch}\nsequence = {sequence}\n"
                f"precision = {precision}\neval_every = 0\n"
                "[optim]\nlr = 1e-4\nschedule = constant\nwarmup = 0\nbetas = 0.9, 0.999\n"
                "weight_decay = 0.01\n"
                f"[device]\nthreads = {o.threads}\n[log]\nprogress = 0\nlevel = error\n")
    return job, out


def run_weft(o, work, precision, batch, sequence):
    job, out = write_job(o, work, precision, batch, sequence)
    child = subprocess.Popen([o.weft, "train", job])
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"weft train failed with {status}")
    with open(os.path.join(out, "metrics.jsonl")) as f:
        steps = [json.loads(line) for line in f]
    later = [m["tokens_per_s"] for m in steps[2:]]
    return {"tokens_per_s": statistics.median(later), "mfu": steps[-1]["mfu"],
            "peak_bytes": usage.ru_maxrss * 1024, "plan_bytes": steps[-1]["peak_bytes"]}


@functools.cache
def torch_environment():
    found = [path for name in ("tcmalloc_minimal.so.4", "tcmalloc.so.4", "jemalloc.so.2")
             for path in glob.glob(f"/usr/lib/*/lib{name}")]
    if not found:
        print("no tcmalloc and no jemalloc here: the peer is slower than it could be",
              file=sys.stderr)
    return os.environ | ({"LD_PRELOAD": found[0]} if found else {})


def run_torch(o, precision, batch, sequence, *more):
    text = subprocess.run(
        [sys.executable, os.path.join(HERE, "peers", "torch_gpt2.py"), "--batch", str(batch),
         "--sequence", str(sequence), "--threads", str(o.threads), "--steps", str(o.steps),
         "--precision", precision, *words_of_model(o.model), *more], check=True,
        capture_output=True, text=True, env=torch_environment()).stdout
    return json.loads(text)


def faster(runs):
    """Of runs with and without compiling, those with the higher median."""
    return max(runs, key=lambda x: statistics.median(r["tokens_per_s"] for r in x))


def cases(o):
    """Those of the model that were asked for; all of them: none was."""
    return [c for c in CASES[o.model] if not o.only or o.only == f"{c[0]}:{c[1]}x{c[2]}"]


def options():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default=os.path.join(HERE, "..", "build", "release", "bin", "weft"))
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--model", choices=MODELS, default="124M")
    a.add_argument("--only", help="PRECISION:BATCHxSEQUENCE")
    return a.parse_args()


def main():
    o = options()
    with tempfile.TemporaryDirectory() as work:
        tokens(os.path.join(work, "tokens.bin"))
        for precision, batch, sequence in cases(o):
            ours, eager, compiled = [], [], []
            for _ in range(o.rounds):
                ours.append(run_weft(o, work, precision, batch, sequence))
                eager.append(run_torch(o, precision, batch, sequence))
                compiled.append(run_torch(o, precision, batch, sequence, "--compile"))
            theirs = faster([eager, compiled])
            mine = statistics.median(r["tokens_per_s"] for r in ours)
            peer = statistics.median(r["tokens_per_s"] for r in theirs)
            print(json.dumps({
                "case": f"GPT-2 {o.model} {precision} {batch} x {sequence}, {o.threads} threads",
                "weft_tokens_per_s": round(mine, 1), "torch_tokens_per_s": round(peer, 1),
                "ratio": round(mine / peer, 3), "mfu": round(ours[-1]["mfu"], 3),
                "weft_peak_mb": max(r["peak_bytes"] for r in ours) >> 20,
                "plan_mb": ours[-1]["plan_bytes"] >> 20,
                "torch_peak_mb": max(r["peak_bytes"] for r in theirs) >> 20,
                "torch": theirs[-1]["peer"], "allocator": theirs[-1]["allocator"],
                "torch_eager": round(statistics.median(r["tokens_per_s"] for r in eager), 1),
                "torch_compiled": round(statistics.median(r["tokens_per_s"] for r in compiled), 1)
            }), flush=True)


if __name__ == "__main__":
    main()
