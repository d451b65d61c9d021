#!/usr/bin/env python3
"""What all sinks and the trace together cost a step.

  bench/sinks.py [--weft build/release/bin/weft] [--ranks 1] [--pairs 31] [-o FILE.md]
                 [section.key=value ...]

Trains a small model in pairs of runs, in turn first: one without a sink, and one with jsonl and its
events, tensorboard, prometheus (scraped each second) and a trace of every step. The flight record
has the time of each instruction in both, so a step falls into the walk of its list and what lies
between the end of it and the next list, where sinks get the values and events of the trace are
handed over. Threads write them meanwhile, which may hold up a list: the table has the medians of
both and of their sum, and the share of the sum in a step of 10 ms. With two ranks or more it also
has what the exchange of all ranks' times costs (ranks.* of docs/METRICS.md): the time between lists
where it took place less the time where it did not, times its share of the steps.
Nothing else should run on the machine."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

STEPS = 101  # the most that a trace has
GOAL = 10.0  # ms
JOB = """[run]
out = run
steps = {steps}
[model]
layers = 3
heads = 4
embed = 128
ffn = 512
context = 64
vocab = 256
[data]
train = train.bin
[train]
batch = 16
microbatch = {microbatch}
sequence = 64
eval_every = 0
[parallel]
strategy = dp
[device]
threads = 1
[checkpoint]
every = 0
[log]
peak_gflops = 1
progress = 0
"""
WITHOUT = ["log.sinks="]
WITH = ["log.sinks=jsonl, tensorboard, prometheus", "sink.jsonl.events=on",
        f"log.trace_steps=1-{STEPS}"]
RECORD = re.compile(r" +(-?[\d.]+) ms +step (\d+) +entry \d+ +(\w+) +(.*)")


def scrape(place, over):
    """As a Prometheus does, until the run is over."""
    while not over.wait(1):
        try:
            with open(os.path.join(place, "run", "prometheus.address"), encoding="utf-8") as f:
                urllib.request.urlopen(f"http://{f.read().strip()}/metrics", timeout=5).read()
        except OSError:
            pass


def records(weft, place):
    """[(ms, step, kind, name)] of rank 0's flight record, which has a step's beginning and end."""
    said = subprocess.run([weft, "flight", "run", "-c", "4096"], cwd=place, text=True, check=True,
                          capture_output=True).stdout
    mine = re.split(r"(?m)^rank ", said)[1]
    return [(float(m[1]), int(m[2]), m[3], m[4]) for m in map(RECORD.fullmatch, mine.split("\n"))
            if m]


def run(weft, place, ranks, words):
    """({step: ms of its list}, {step: ms between it and the next})."""
    subprocess.run(["rm", "-rf", os.path.join(place, "run")], check=True)
    over = threading.Event()
    client = threading.Thread(target=scrape, args=(place, over))
    client.start()
    try:
        subprocess.run([weft, "train", "-n", str(ranks), "job.ini", *words], cwd=place, check=True,
                       stderr=subprocess.PIPE, text=True)
    except subprocess.CalledProcessError as e:
        sys.exit(e.stderr)
    finally:
        over.set()
        client.join()
    began, ended = {}, {}
    for ms, step, kind, name in records(weft, place):
        began.setdefault(step, ms)
        if kind == "end" and name == "step":
            ended[step] = ms
    steps = sorted(set(began) & set(ended))[2:]  # the first ones warm up; one may be cut off
    return ({s: ended[s] - began[s] for s in steps},
            {s: began[s + 1] - ended[s] for s in steps if s + 1 in began})


def exchanges(place, between):
    """What an exchange of times costs a step on average, in ms."""
    with open(os.path.join(place, "run", "metrics.jsonl"), encoding="utf-8") as f:
        steps = {x["step"] for x in map(json.loads, f) if "ranks.steps" in x} & set(between)
    if not steps:
        return 0.0
    rest = statistics.median(v for s, v in between.items() if s not in steps)
    return sum(max(between[s] - rest, 0) for s in steps) / len(between)


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return re.search(r"model name\s*: (.*)", f.read())[1]


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


def measure(o, place):
    """A row of the table."""
    with open(os.path.join(place, "job.ini"), "w", encoding="utf-8") as f:
        f.write(JOB.format(steps=STEPS, microbatch=16 // o.ranks))
    walks, gaps, both, cost = [], [], [], []
    for pair in range(o.pairs):
        found = {}
        for words in (WITHOUT, WITH) if pair % 2 else (WITH, WITHOUT):
            walk, between = run(o.weft, place, o.ranks, words + o.words)
            found[words[0]] = [statistics.median(x.values()) for x in (walk, between)]
            if words is WITH and o.ranks > 1:
                cost.append(1e3 * exchanges(place, between))
        (walk0, gap0), (walk1, gap1) = found[WITHOUT[0]], found[WITH[0]]
        walks.append(1e3 * (walk1 - walk0))
        gaps.append(1e3 * (gap1 - gap0))
        both.append(walk0)
        print(f"pair {pair + 1} of {o.pairs}: {gaps[-1]:.1f} us between lists, {walks[-1]:.1f} us "
              f"in the list of {walk0:.2f} ms", file=sys.stderr)
    sums = [x + y for x, y in zip(gaps, walks)]
    share = statistics.median(sums) / (1e3 * GOAL)
    row = [str(o.ranks), f"{statistics.median(both):.2f}", quartiles(gaps), quartiles(walks),
           quartiles(sums), f"{100 * share:.2f} %", quartiles(cost) if cost else "-"]
    return "| " + " | ".join(row) + " |"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--weft", default="build/release/bin/weft", type=os.path.abspath)
    p.add_argument("--ranks", type=int, nargs="+", default=[1])
    p.add_argument("--pairs", type=int, default=31)
    p.add_argument("-o", metavar="FILE.md")
    p.add_argument("words", nargs="*", help="section.key=value")
    o = p.parse_args()
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="weft-sinks-") as place:
        text = "".join(f"{i * i % 9973} is the square of {i}.\n" for i in range(20000))
        with open(os.path.join(place, "text"), "w", encoding="utf-8") as f:
            f.write(text)
        subprocess.run([o.weft, "data", "text", "-o", "train.bin"], cwd=place, check=True,
                       capture_output=True)
        for o.ranks in o.ranks:
            rows.append(measure(o, place))
    page = f"""# What sinks and the trace cost

Made by `bench/sinks.py` on {os.cpu_count()} cores of an {processor()}, {time.strftime('%Y-%m-%d')}:
{o.pairs} pairs of runs of {STEPS} steps, one without a sink, and one with jsonl and its events,
tensorboard, prometheus (scraped each second) and a trace of every step. Microseconds of a step, the
median of the pairs and their quartiles. In the list the difference is that of two runs, so it has
their noise. The share is that of the sum in a step of {GOAL:.0f} ms; the goal is below 1 %. The
load of the machine at the start was {load:.1f}; beside other programs the list is long and its
differences say nothing. The last column is what the exchange of all
ranks' times costs a step in microseconds (`ranks.*` in docs/METRICS.md), with and without sinks.

| ranks | list, ms | between, us | in the list, us | sum, us | share of {GOAL:.0f} ms | exchange |
|---|---|---|---|---|---|---|
""" + "\n".join(rows) + "\n"
    print(page)
    if o.o:
        with open(o.o, "w", encoding="utf-8") as f:
            f.write(page)


if __name__ == "__main__":
    main()
