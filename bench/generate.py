#!/usr/bin/env python3
"""weft sample against transformers: the same model, precision and threads, runs in turn.

  bench/generate.py [--weft build/release/bin/weft] [--python python3] [--rounds 3] [--tokens 64]
    [--threads 2] [--only small:bf16] [-o bench/results/generate.md]

Prints a JSON line a case: tokens per second of greedy generation, one sequence, behind a prompt of
16 tokens, the seconds of a prompt of 256 tokens, medians over the rounds, ratios, and the GB/s at
which weft reads the weights, each once a token; -o appends the same as a row of a table. Nothing
else should run on the machine. --python names an interpreter that has torch and transformers."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from train import tokens as token_file, torch_environment  # noqa: E402  (bench/train.py)

MODELS = {"small": (6, 6, 384), "gpt2": (12, 12, 768)}
VOCAB, CONTEXT, SHORT, LONG = 50304, 1024, 16, 256


class Weft:
    def __init__(self, o, work, model, precision):
        layers, heads, embed = MODELS[model]
        self.o, self.threads = o, o.threads
        job = os.path.join(work, "job.ini")
        with open(job, "w", encoding="utf-8") as f:
            f.write(f"[run]\nout = {work}/run\nsteps = 1\n[model]\nfamily = gpt2\n"
                    f"layers = {layers}\nheads = {heads}\nembed = {embed}\nffn = {4 * embed}\n"
                    f"context = {CONTEXT}\nvocab = {VOCAB}\n[data]\ntrain = {work}/tokens.bin\n"
                    "[train]\nbatch = 1\nmicrobatch = 1\nsequence = 64\n"
                    f"precision = {precision}\neval_every = 0\n"
                    f"[checkpoint]\nevery = 1\n[device]\nthreads = {o.threads}\n"
                    "[log]\nprogress = 0\nlevel = error\n")
        token_file(os.path.join(work, "tokens.bin"))
        subprocess.run([o.weft, "train", job], check=True)
        self.saved = os.path.join(work, "run", "checkpoints", "step-00000001")

    def run(self, prompt, count):
        ids = ",".join(str(i % VOCAB) for i in range(prompt))
        done = subprocess.run(
            [self.o.weft, "sample", self.saved, "--ids", ids, "--tokens", str(count),
             "--temperature", "0", "--past-end", "--json"], check=True, capture_output=True,
            text=True)
        said = json.loads(done.stdout)
        assert said["cached"] and len(said["ids"]) == count, said
        return {"prompt_seconds": said["prompt_seconds"],
                "tokens_per_s": (count - 1) / said["seconds"]}


class Peer:
    def __init__(self, o, model, precision):
        layers, heads, embed = MODELS[model]
        self.child = subprocess.Popen(
            [o.python, os.path.join(HERE, "peers", "torch_generate.py"), "--layers", str(layers),
             "--heads", str(heads), "--embed", str(embed), "--vocab", str(VOCAB), "--context",
             str(CONTEXT), "--precision", precision, "--threads", str(o.threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=torch_environment())
        self.versions = json.loads(self.child.stdout.readline())

    def run(self, prompt, count):
        self.child.stdin.write(f"{prompt} {count}\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def weights(model, precision):
    """Bytes that a token reads: the matrices of the blocks, and that of the logits."""
    layers, _, embed = MODELS[model]
    return (12 * layers * embed ** 2 + VOCAB * embed) * (4 if precision == "fp32" else 2)


def append(o, row):
    with open(o.out, "a", encoding="utf-8") as f:
        w, t = row["weft"], row["transformers"]
        f.write(f"| {row['model']} | {row['precision']} | {w['tokens_per_s']} | "
                f"{t['tokens_per_s']} | {row['times_the_tokens']} | {row['weights_mb']} | "
                f"{row['gb_per_s']} | {row['times_the_prompt']} |\n")


def case(o, work, model, precision):
    weft, peer = Weft(o, work, model, precision), Peer(o, model, precision)
    found = {"weft": [], "transformers": []}
    for _ in range(o.rounds):
        for name, side in (("weft", weft), ("transformers", peer)):
            found[name].append((side.run(SHORT, o.tokens)["tokens_per_s"],
                                side.run(LONG, 2)["prompt_seconds"]))
    row = {"model": model, "precision": precision, "threads": o.threads,
           "versions": peer.versions}
    peer.close()
    for name, runs in found.items():
        row[name] = {"tokens_per_s": round(statistics.median(r[0] for r in runs), 2),
                     "prompt_seconds": round(statistics.median(r[1] for r in runs), 4)}
    row["times_the_tokens"] = round(row["weft"]["tokens_per_s"] /
                                    row["transformers"]["tokens_per_s"], 2)
    row["times_the_prompt"] = round(row["transformers"]["prompt_seconds"] /
                                    row["weft"]["prompt_seconds"], 2)
    read = weights(model, precision)
    row["weights_mb"] = round(read / 1e6)
    row["gb_per_s"] = round(read * row["weft"]["tokens_per_s"] / 1e9, 1)
    print(json.dumps(row), flush=True)
    if o.out:
        append(o, row)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--weft", default="build/release/bin/weft")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--only", default="")
    p.add_argument("-o", "--out", help="file to append a row of the table to")
    o = p.parse_args()
    for model in MODELS:
        for precision in ("fp32", "bf16"):
            if o.only and o.only != f"{model}:{precision}":
                continue
            with tempfile.TemporaryDirectory() as work:
                case(o, work, model, precision)


if __name__ == "__main__":
    main()
