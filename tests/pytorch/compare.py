#!/usr/bin/env python3
"""compare.py recorded.json JOB OUT [--loose FACTOR]: a weft run against what PyTorch recorded.

OUT is the run's folder: metrics.jsonl, and checkpoints of the steps if it kept them. Compared are
loss, gradient norm and learning rate of every step; the gradients of the first, which are in the
first moments of the checkpoint after it; and the parameters after the last. Needs Python alone.
Exit status 0: they agree; 1: they do not; 2: there is nothing to compare.

The bounds are those of fp32: the recording, in fp64, is 2e-7 away from PyTorch's own fp32 in loss
and gradients, and 1e-6 in parameters after 20 steps. Only the keys' biases, whose gradient is 0
but for rounding, which Adam enlarges, may differ by 1e-3 of their tensor. --loose multiplies
all bounds."""
import argparse
import json
import math
import os
import sys

import checkpoint

LOSS, NORM, RATE, GRADIENT, PARAMETER, KEY_BIAS = 2e-6, 5e-6, 1e-6, 2e-6, 2e-5, 1e-3


class Comparison:
    def __init__(self, loose):
        self.loose, self.wrong, self.number, self.worst = loose, 0, 0, {}

    def check(self, kind, what, got, want, scale, bound):
        """|got - want| <= bound * scale"""
        far = abs(got - want) / scale if scale else abs(got - want)
        self.number += 1
        self.worst[kind] = max(self.worst.get(kind, 0), far)
        if not far <= bound * self.loose:
            self.wrong += 1
            if self.wrong <= 20:
                print(f"{what}: {got:.9g}, PyTorch has {want:.9g}; {far:.1e} away, not {bound:.0e}")

    def tensor(self, kind, name, values, want, bound):
        norm = math.sqrt(sum(x * x for x in values))
        self.check(kind, f"norm of {name}", norm, want["norm"], want["norm"], bound)
        for i, v in zip(want["at"], want["values"]):
            self.check(kind, f"{name}[{i}]", values[i], v, want["norm"], bound)


def read_metrics(out):
    with open(os.path.join(out, "metrics.jsonl")) as f:
        return [json.loads(line) for line in f]


def compare_steps(c, lines, job):
    for want, got in zip(job["steps"], lines):
        step = got["step"]
        c.check("loss", f"loss of step {step}", got["loss"], want["loss"], want["loss"], LOSS)
        c.check("norm", f"norm of step {step}", got["grad_norm"], want["grad_norm"],
                want["grad_norm"], NORM)
        c.check("rate", f"rate of step {step}", got["lr"], want["lr"], want["lr"] or 1, RATE)


def compare_gradients(c, tensors, job):
    """After one step of AdamW the first moment is (1 - beta1) times the clipped gradient."""
    norm, clip = job["steps"][0]["grad_norm"], job["job"]["clip"]
    factor = min(1, clip / (norm + 1e-6)) if clip else 1
    factor *= 1 - job["job"]["betas"][0]
    for name, want in job["grads"].items():
        values = [x / factor for x in tensors[name + ".m"][1]]
        c.tensor("gradient", "gradient of " + name, values, want, GRADIENT)


def compare_parameters(c, tensors, job):
    for name, want in job["after"].items():
        bound = KEY_BIAS if name.endswith("attn.qkv.b") else PARAMETER
        c.tensor("parameter", name, tensors[name][1], want, bound)


def main():
    parser = argparse.ArgumentParser(description="a weft run against PyTorch")
    parser.add_argument("recorded")
    parser.add_argument("job")
    parser.add_argument("out")
    parser.add_argument("--loose", type=float, default=1)
    args = parser.parse_args()
    with open(args.recorded) as f:
        job = json.load(f)["jobs"][args.job]
    c, lines = Comparison(args.loose), read_metrics(args.out)
    if len(lines) != len(job["steps"]):
        print(f"{args.out} has {len(lines)} steps, {len(job['steps'])} are recorded")
        return 2
    compare_steps(c, lines, job)
    for step, compare in ((1, compare_gradients), (len(lines), compare_parameters)):
        folder = os.path.join(args.out, "checkpoints", f"step-{step:08d}")
        if os.path.isdir(folder):
            compare(c, checkpoint.read(folder), job)
    worst = ", ".join(f"{kind} {far:.1e}" for kind, far in c.worst.items())
    print(f"{args.job}: {c.number} numbers, {c.wrong} wrong; furthest away: {worst}")
    return 1 if c.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
