#!/usr/bin/env python3
"""How far is a training step of the cpu device from what the machine can do?

  bench/limit.py [--weft build/release/bin/weft] [--rounds 3] [--steps 8] [--only bf16:4x512]
                 [--model 124M] [--threads 2]

The limit of a step is the sum of

- for each product in it the least time (a tenth of many are below) that anybody took for this
  form (op, rows, outputs, inputs) alone: PyTorch's mm, or the device's own kernel in a traced step,
  whichever was faster;
- for attention the operations of its two products, halved by the mask, at the highest rate that
  any form of the step reached;
- for the update the bytes that it reads and writes, over what a triad moves (the median of the
  rounds: the memory of a virtual machine is shared): the faster of a = b + s c, for which a
  processor mostly loads a before it stores it, and a = a + s c, where that load counts; an update
  is mostly of the second kind.

Everything else, such as norms, activations, the loss and sums of gradients, counts as distance:
with kernels that are fused into products it could take no time. Prints a JSON line a case: `share`
is limit / step (median of the rounds, without a trace), `ops` says what each op takes in a traced
step beside what the limit grants it. GPT-2 with 124 or 30 million parameters, one process. Nothing
else should run on the machine. PyTorch is needed, the newest gives the truest limit."""
import collections
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402  (bench/train.py)

SIZE = {"fp32": 4, "bf16": 2}
PRODUCTS = ("linear", "linear.dx", "linear.dw")
TRIAD_BYTES = 256 << 20


def listed_ops(o, job):
    """(op, bytes of each operand, how many are inputs) of the step, in the order of its list."""
    said = subprocess.run([o.weft, "plan", job, "--list", "--json"], check=True,
                          capture_output=True, text=True).stdout
    return [(x["op"], x["bytes"], len(x["in"]))
            for entry in json.loads(said)["step"] for x in entry.get("ops", [])]


def form_of(op, sizes, inputs, size):
    """(op, rows, outputs, inputs) of a product, from the bytes of its three matrices."""
    out = sizes[inputs]
    a, b, c = sizes[0] / size, sizes[1] / size, out / (4 if op == "linear.dw" else size)
    one, two, three = (round(math.sqrt(x)) for x in (a * c / b, b * c / a, a * b / c))
    # y = x w': a = MK, b = NK, c = MN.  dx = dy w: a = MN, b = NK, c = MK.  dw = dy' x: MN, MK, NK
    if op == "linear":
        return op, one, two, three
    return (op, one, three, two) if op == "linear.dx" else (op, three, one, two)


def traced_ms(out, count):
    """Times of the kernels of rank 0 in each traced step, in the order of their begin."""
    with open(os.path.join(out, "trace.json"), encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    lanes = {x["tid"] for x in events
             if x["name"] == "thread_name" and x["args"]["name"] == "kernels"}
    steps = collections.defaultdict(list)
    for x in events:
        if x["ph"] == "X" and x["tid"] in lanes:
            steps[x["args"]["step"]].append((x["ts"], x["name"], x["dur"] / 1e3))
    for step in steps.values():
        step.sort()
        if len(step) != count:
            sys.exit(f"a traced step has {len(step)} kernels, and the plan {count}")
    return [[(name, ms) for _, name, ms in step] for _, step in sorted(steps.items())]


def run_weft(o, job, out, *more):
    subprocess.run([o.weft, "train", job, *more], check=True)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line)["step_ms"] for line in f]


def least(times):
    """The time that a tenth of them do not reach; the least one may be a clock that stood still."""
    return sorted(times)[len(times) // 10]


def best_of(call, seconds=0.5):
    call()
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return least(times) * 1e3


def torch_ms(form, precision):
    op, m, n, k = form
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    x, w, y = (torch.randn(s).to(kind) for s in ((m, k), (n, k), (m, n)))
    if op == "linear":
        return best_of(lambda: torch.mm(x, w.t(), out=y))
    if op == "linear.dx":
        return best_of(lambda: torch.mm(y, w, out=x))
    return best_of(lambda: torch.mm(y.t(), x, out=w))


def triad_gbs():
    n = TRIAD_BYTES // 4
    a, b, c = (torch.ones(n) for _ in range(3))
    best = min(best_of(lambda: torch.add(b, c, alpha=3.0, out=a), 1),
               best_of(lambda: a.add_(c, alpha=1e-9), 1))
    return 3 * TRIAD_BYTES / best / 1e6


def measure(o, work, precision, batch, sequence):
    job, out = train.write_job(o, work, precision, batch, sequence)
    ops = listed_ops(o, job)
    forms = [form_of(op, sizes, inputs, SIZE[precision]) if op in PRODUCTS else None
             for op, sizes, inputs in ops]
    kernels, spent, steps = {f: [] for f in forms if f}, collections.defaultdict(list), []
    library, triads = {f: [] for f in kernels}, []
    for _ in range(o.rounds):
        steps += run_weft(o, job, out)[2:]
        run_weft(o, job, out, f"log.trace_steps=3-{o.steps}")
        for form in library:
            library[form].append(torch_ms(form, precision))
        triads.append(triad_gbs())
        for step in traced_ms(out, len(ops)):
            sums = collections.Counter()
            for (name, ms), form in zip(step, forms):
                sums[name] += ms
                if form:
                    kernels[form].append(ms)
            for name, ms in sums.items():
                spent[name].append(ms)
    own, library = ({f: least(x) for f, x in times.items()} for times in (kernels, library))
    best = {f: min(own[f], library[f]) for f in own}
    rate = max(2 * f[1] * f[2] * f[3] / ms for f, ms in best.items())
    model = train.MODELS[o.model]  # of attention two products, half of each
    attention = 2 * batch * model["embed"] * sequence ** 2 * model["layers"]
    granted = collections.Counter({"attention": attention / rate,
                                   "attention.dx": 2.5 * attention / rate})
    for form in filter(None, forms):
        granted[form[0]] += best[form]
    gbs = statistics.median(triads)
    # of the update: eight operands or more, of which the first five large ones are read
    moved = sum(sum(x for x in sizes if x > 4) for op, sizes, _ in ops
                if op == "ew" and len(sizes) > 9)
    granted["ew"] = moved / gbs / 1e6
    step, limit = statistics.median(steps), sum(granted.values())
    print(json.dumps({
        "case": f"GPT-2 {o.model} {precision} {batch} x {sequence}, {o.threads} threads",
        "step_ms": round(step, 1), "limit_ms": round(limit, 1), "share": round(limit / step, 3),
        "tokens_per_s": round(batch * sequence / step * 1e3, 1), "triad_gb_s": round(gbs, 1),
        "best_gflop_s": round(rate / 1e6, 1),
        "products_of_the_limit": sum(library[f] >= own[f] for f in own), "forms": len(own),
        "torch": torch.__version__,
        "ops": {name: {"ms": round(statistics.median(ms), 2), "limit_ms": round(granted[name], 2)}
                for name, ms in sorted(spent.items(), key=lambda x: -statistics.median(x[1]))}}),
        flush=True)


def main():
    o = train.options()
    torch.set_num_threads(o.threads)
    with tempfile.TemporaryDirectory() as work:
        train.tokens(os.path.join(work, "tokens.bin"))
        for precision, batch, sequence in train.cases(o):
            measure(o, work, precision, batch, sequence)


if __name__ == "__main__":
    main()
