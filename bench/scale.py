#!/usr/bin/env python3
"""How well does data parallelism scale, and what does sharding cost, beside PyTorch?

  bench/scale.py [--weft build/release/bin/weft] [--rounds 3] [--steps 10] [--ranks 2]
    [--precision fp32,bf16]

A GPT-2 of about 30M parameters, 4 x 256 tokens a rank, one thread a rank. One rank is the
reference: tokens a second of N ranks over N times its own are the efficiency. Placements none,
zero1, zero2, zero3 over shm and tcp, and PyTorch's DistributedDataParallel, ZeroRedundancyOptimizer
and fully_shard over Gloo, with and without torch.compile, of which the faster counts, in turn in
each round. Prints a JSON line a case. Nothing else should run on the machine; --ranks should not be
more than its cores."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402  (bench/train.py)

MODEL = "30M"
WEFT = [("weft " + placement, transport) for transport in ("shm", "tcp")
        for placement in ("none", "zero1", "zero2", "zero3")]
TORCH = [("torch DDP", "none"), ("torch ZeroRedundancyOptimizer", "state"),
         ("torch fully_shard", "all")]


def weft(o, work, precision, ranks, placement, transport):
    out, job = os.path.join(work, "run"), os.path.join(work, "job.ini")
    with open(job, "w", encoding="utf-8") as f:
        f.write(f"[run]\nout = {out}\nsteps = {o.steps}\n")
        train.write_model(f, MODEL)
        f.write(f"[data]\ntrain = {work}/tokens.bin\n[train]\nbatch = {4 * ranks}\n"
                f"microbatch = 4\nsequence = 256\nprecision = {precision}\neval_every = 0\n"
                "[parallel]\nstrategy = dp\n"
                f"[optim]\nplacement = {placement}\nlr = 1e-4\nschedule = constant\nwarmup = 0\n"
                f"[comm]\nplugin = {transport}\n[device]\nthreads = 1\n"
                "[log]\nprogress = 0\nlevel = error\n")
    done = subprocess.run([o.weft, "train", "-n", str(ranks), job], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"weft train -n {ranks}: {done.stderr}")
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        steps = [json.loads(line) for line in f][2:]
    return {"tokens_per_s": statistics.median(m["tokens_per_s"] for m in steps),
            "exposed_ms": statistics.median(m["exposed_comm_ms"] for m in steps),
            "step_ms": statistics.median(m["step_ms"] for m in steps)}


def torch(o, precision, ranks, shard, *more):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    words = [sys.executable, os.path.join(HERE, "peers", "torch_gpt2.py"), "--batch", "4",
             "--sequence", "256", "--threads", "1", "--steps", str(o.steps), "--shard", shard,
             "--precision", precision, *train.words_of_model(MODEL), *more]
    children = []
    for rank in range(ranks):
        env = dict(train.torch_environment())
        if ranks > 1:
            env |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port)}
        children.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True))
    try:
        said = [c.communicate(timeout=300)[0] for c in children]
    except subprocess.TimeoutExpired:
        for c in children:
            c.kill()
        return None
    if any(c.returncode for c in children):
        return None
    got = json.loads(said[0])
    return {"tokens_per_s": ranks * got["tokens_per_s"], "peer": got["peer"]}


def measure(o, work, precision):
    """{name: runs of a case}, in rounds; a run is None where PyTorch has failed."""
    found = {}
    for _ in range(o.rounds):
        found.setdefault("weft one rank", []).append(weft(o, work, precision, 1, "none", "shm"))
        for name, transport in WEFT:
            found.setdefault(f"{name} {transport}", []).append(
                weft(o, work, precision, o.ranks, name.split()[1], transport))
        for name, shard in [] if o.no_torch else TORCH:
            for more in ((), ("--compile",)):
                found.setdefault((name, *more), []).append(
                    torch(o, precision, o.ranks, shard, *more))
    for name, _ in [] if o.no_torch else TORCH:
        sides = [[r for r in found.pop((name, *more)) if r] for more in ((), ("--compile",))]
        found[name] = train.faster([x for x in sides if x] or [[]])
    return found


def tell(o, precision, found):
    one = statistics.median(r["tokens_per_s"] for r in found["weft one rank"])
    for name, runs in found.items():
        head = {"case": name, "precision": precision}
        if not runs:
            print(json.dumps(head | {"failed": True}))
            continue
        rate = statistics.median(r["tokens_per_s"] for r in runs)
        line = head | {"ranks": 1 if name == "weft one rank" else o.ranks,
                       "tokens_per_s": round(rate, 1)}
        if "peer" in runs[0]:
            line["peer"] = runs[0]["peer"]
        elif name != "weft one rank":
            line["efficiency"] = round(rate / (o.ranks * one), 3)
            line["exposed_comm_share"] = round(statistics.median(
                r["exposed_ms"] / r["step_ms"] for r in runs), 3)
        print(json.dumps(line), flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default=os.path.join(HERE, "..", "build", "release", "bin", "weft"))
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=10)
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--precision", default="fp32,bf16")
    a.add_argument("--no-torch", action="store_true")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as work:
        train.tokens(os.path.join(work, "tokens.bin"))
        for precision in o.precision.split(","):
            tell(o, precision, measure(o, work, precision))


if __name__ == "__main__":
    main()
