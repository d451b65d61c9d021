#!/usr/bin/env python3
"""What planning, a start and a step cost without kernels, beside another build of weft.

  bench/overhead.py [--build build/release] [--against OTHER/build/release] [--pairs 12]

Each pair runs a command of both builds, in turn first; the table has the medians, and the median of
the quotients of pairs. The time of planning and of a start, which is a job of one small step on
two ranks, is that of the processor, user and system together.
OTHER is a build of an older commit in a worktree of its own. A step runs on
bench/overhead's device, whose kernels do nothing, in a process that lasts for 2,001 steps."""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

import train  # bench/train.py

JOB = """[model]
family = gpt2
vocab = 50304
layers = {layers}
heads = {heads}
embed = {embed}
ffn = {ffn}
context = 1024
[data]
train = tokens.bin
[train]
batch = 1024
microbatch = 1
sequence = 1024
"""
LARGE = {"layers": 48, "heads": 25, "embed": 1600, "ffn": 6400}  # GPT-2 1.5B
SMALL = {"layers": 1, "heads": 1, "embed": 8, "ffn": 8}
DEEP = {"layers": 48, "heads": 1, "embed": 8, "ffn": 8}
HUGE = {"layers": 32, "heads": 32, "embed": 4096, "ffn": 16384}
HUGE_MESH = ["parallel.strategy=tp, pp, dp", "parallel.tp=8", "parallel.pp=8", "parallel.dp=auto"]
ONE = ["train.batch=1"]
CASES = (  # name, job, command, words, what is taken
    ("plan, GPT-2 1.5B, dp 8, zero1", LARGE, "plan",
     ["-n", "8", "parallel.strategy=dp", "optim.placement=zero1"], "ms"),
    ("plan, GPT-2 1.5B, dp 1,024", LARGE, "plan", ["-n", "1024", "parallel.strategy=dp"], "ms"),
    ("plan, GPT-2 1.5B, pp 16, dp 64", LARGE, "plan",
     ["-n", "1024", "parallel.strategy=pp, dp", "parallel.pp=16", "parallel.schedule=1f1b",
      "optim.placement=zero1"], "ms"),
    # These two show that planning and printing are linear in the ranks.
    ("plan, 16,384 ranks: tp 8, pp 8, dp 256", HUGE, "plan",
     ["-n", "16384", *HUGE_MESH, "train.batch=2048"], "ms"),
    ("plan, 65,536 ranks: tp 8, pp 8, dp 1,024", HUGE, "plan",
     ["-n", "65536", *HUGE_MESH, "train.batch=8192"], "ms"),
    ("start, 2 ranks", SMALL, "train",
     ["-n", "2", "parallel.strategy=dp", "run.steps=1", "run.out=run", "train.batch=2",
      "train.sequence=32", "train.eval_every=0", "device.threads=1", "log.level=error",
      "log.peak_gflops=1"], "ms"),
    ("step, 1 layer", SMALL, "overhead", ONE, "step_us_median"),
    ("step, 48 layers", DEEP, "overhead", ONE, "step_us_median"),
)


def words_of(build, case, ini):
    _, _, command, words, _ = case
    if command != "overhead":
        return [os.path.join(build, "bin", "weft"), command, *words[:2], ini, *words[2:],
                "comm.plugin=tcp"]  # auto loads what either build has
    return [os.path.join(build, "bin", "overhead"), ini, *words]


def measure(build, case, ini):
    env = os.environ | {"WEFT_PLUGIN_PATH": os.path.join(build, "bench", "plugins")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words_of(build, case, ini), env=env, capture_output=True, text=True,
                          cwd=os.path.dirname(ini))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    if done.returncode:
        raise SystemExit(f"{' '.join(words_of(build, case, ini))}: {done.stderr}")
    return took if case[4] == "ms" else json.loads(done.stdout)[case[4]]


def instructions(build, case, ini):
    env = os.environ | {"WEFT_PLUGIN_PATH": os.path.join(build, "bench", "plugins")}
    done = subprocess.run(words_of(build, case, ini), env=env, capture_output=True, text=True,
                          check=True, cwd=os.path.dirname(ini))
    return json.loads(done.stdout)["instructions"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--against")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--only", help="part of a case's name")
    args = parser.parse_args()
    builds = [os.path.abspath(b) for b in (args.build, args.against) if b]
    print("| case | this build | against | this / against, median of pairs |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        train.tokens(os.path.join(folder, "tokens.bin"))
        for case in CASES:
            if args.only and args.only not in case[0]:
                continue
            ini = os.path.join(folder, "job.ini")
            with open(ini, "w", encoding="utf-8") as f:
                f.write(JOB.format(**case[1]))
            taken = [[] for _ in builds]
            for pair in range(args.pairs):
                for b in (range(len(builds)) if pair % 2 else reversed(range(len(builds)))):
                    taken[b].append(measure(builds[b], case, ini))
            unit = "ms" if case[4] == "ms" else "us"
            name = case[0] if unit == "ms" else \
                f"{case[0]}, {instructions(builds[0], case, ini)} kernels"
            medians = [f"{statistics.median(t):.2f} {unit}" for t in taken] + ["-"]
            quotients = [a / b for a, b in zip(*taken)] if len(taken) > 1 else [1]
            print(f"| {name} | {medians[0]} | {medians[1]} | "
                  f"{statistics.median(quotients):.3f} |", flush=True)
    calls = subprocess.run([os.path.join(builds[0], "bin", "calls")], capture_output=True,
                           text=True, check=False)
    print(f"\n```\n{calls.stdout}```")


if __name__ == "__main__":
    main()
