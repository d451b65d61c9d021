#!/usr/bin/env python3
"""What weft does about deaths, signals, restarts and many ranks, in figures, each beside its goal.

  bench/cluster.py [--weft build/release/bin/weft] [--only kill,launcher] [--trials N]
                   [-o bench/results/cluster.md]

Trains real jobs under weft's launcher and does to them what the figure says, --trials times
(without it, as many as the list has). Prints a table in Markdown: the goal, the number of trials,
median, p99 and worst, and whether the goal is met. -o writes the table to a file; rows of that file
that are not measured stay, so that a long table can be measured in parts. All processes end with
this one. Nothing else should run on the machine; seconds a trial are those of 2 cores.

`kill` and `freeze` are seen at the survivors: a rank that learns of the failure reports it and then
ends, so the time counts until the kernel shows that the last survivor is ending (its memory
shrinks, or it is in exit); and each has to have named the rank in its report.

figures:
"""
import argparse
import collections
import contextlib
import csv
import json
import math
import os
import random
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
# bench/cluster_jobs.py:
from cluster_jobs import (PATIENCE, Failed, Job, Place, progress, resident,  # noqa: E402
                          seconds_until_ending, trials, until, w)
import save  # noqa: E402  (bench/save.py)
import train  # noqa: E402  (bench/train.py)
import transports  # noqa: E402  (bench/transports.py)

ENDLESS = w.ODD_DEFAULTS | {"run.steps": 10**9, "optim.lr": 1e-4}
SMALL = ENDLESS | {"train.microbatch": 3}  # 4 ranks
BALLAST_MIB = 5120
MANY = (("tcp", 512), ("shm", 256))
PARAMETERS_30M = ENDLESS | {
    "model.vocab": 50304, "model.layers": 6, "model.heads": 6, "model.embed": 384,
    "model.ffn": 1536, "model.context": 64, "model.tied": "on", "train.batch": 4,
    "train.microbatch": 1, "train.sequence": 16, "checkpoint.every": 4, "checkpoint.keep": 2,
    "log.progress": 1}
Row = collections.namedtuple("Row", "figure goal unit limit values note", defaults=("",))


# --- deaths ---

def named(job, victim, number, how):
    """Seconds from the signal to the last survivor."""
    ranks = job.all_ranks()
    others = [pid for rank, pid in ranks.items() if rank != victim]
    began = time.monotonic()
    os.kill(ranks[victim], number)
    seconds_until_ending(others)
    took = time.monotonic() - began
    job.ended(1)
    job.has_named(victim, how)
    return took


def kill(place, count):
    values = []
    for i in trials("kill", count):
        job = SMALL | {"comm.plugin": ("tcp", "shm")[i % 2]}
        with Job(place, 4, job) as run:
            run.until_step(2)
            time.sleep(random.random() * 0.05)
            values.append(1e3 * named(run, i // 2 % 4, signal.SIGKILL, "was killed|is gone"))
    return [Row("a dead rank named by all survivors, 4 small ranks, tcp and shm in turn",
                "p99 <= 100 ms", "ms", 100, values)]


def kill_large(place, count):
    """bench/peers/ballast.c makes the ranks large; a model of that size takes long to begin."""
    values, library = [], os.path.join(place.path, "ballast.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library,
                    os.path.join(HERE, "peers", "ballast.c")], check=True)
    ballast = {"LD_PRELOAD": library, "BALLAST_MIB": str(BALLAST_MIB)}
    for i in trials("kill-large", count):
        job = SMALL | {"train.microbatch": 4, "comm.plugin": ("tcp", "shm")[i % 2]}
        with Job(place, 3, job, extra=ballast) as run:
            run.until_step(2)
            size = min(map(resident, run.ranks().values())) * os.sysconf("SC_PAGESIZE")
            if size < BALLAST_MIB << 20:
                raise Failed(f"a rank has {size >> 20} MiB only")
            values.append(1e3 * named(run, i // 2 % 3, signal.SIGKILL, "was killed|is gone"))
    return [Row(f"the same, 3 ranks of {BALLAST_MIB / 1024:.0f} GiB", "p99 <= 250 ms", "ms", 250,
                values)]


def freeze(place, count):
    values = []
    for i in trials("freeze", count):
        job = SMALL | {"comm.plugin": ("tcp", "shm")[i % 2]}
        with Job(place, 4, job) as run:
            run.until_step(2)
            time.sleep(random.random())
            values.append(named(run, i // 2 % 4, signal.SIGSTOP, "is frozen"))
    return [Row("a frozen rank named by all survivors, default settings", "worst <= 3 s", "s", 3,
                values)]


def stuck(place, count):
    """A kernel that sleeps for ever: from the begin of its call to the end of all ranks, as
    tests/fault/watch/train_stuck.py has it. Its calls before took less than 0.6 s."""
    values, build = [], os.path.dirname(os.path.dirname(w.WEFT))
    flag, library = os.path.join(place.path, "now"), os.path.join(build, "lib", "weft")
    job = ENDLESS | {"train.microbatch": 4, "comm.plugin": "test.stuck",
                     "device.plugin": "test.stuck",
                     "run.plugins": os.path.join(build, "tests", "plugins", "stuck")}
    for i in trials("stuck", count):
        for path in (flag, flag + ".at"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        names = {"WEFT_STUCK": f"run {i % 3}", "WEFT_STUCK_WHEN": flag,
                 "WEFT_STUCK_TCP": os.path.join(library, "comm", "tcp.so"),
                 "WEFT_STUCK_CPU": os.path.join(library, "device", "cpu.so")}
        with Job(place, 3, job, extra=names) as run:
            run.until_step(6)
            with open(flag, "w", encoding="ascii") as f:
                f.write("x")
            run.ended(1)
            values.append(time.monotonic() - float(w.read_text(flag + ".at").split()[1]))
    return [Row("a thread stuck in a short kernel: named and the job over, default settings",
                "worst <= max(3 s, 5 x its longest)", "s", 3, values)]


def launcher(place, count):
    values = []
    for i in trials("launcher", count):
        with Job(place, 4, SMALL | {"comm.plugin": ("tcp", "shm")[i % 2]}) as run:
            run.until_step(2)
            marks = w.Marks()
            for pid in [run.pid, *run.all_ranks().values()]:
                marks.add(pid)
            marks.paths = {x for x in marks.paths if not x.startswith(place.path)}
            left = {os.pidfd_open(pid) for pid in run.all_ranks().values()}
            began = time.monotonic()
            os.kill(run.pid, signal.SIGKILL)
            while left:
                ready = select.select(left, [], [], PATIENCE)[0]
                if not ready:
                    raise Failed("a rank goes on without its launcher")
                for fd in ready:
                    os.close(fd)
                    left.remove(fd)
            run.process.wait()
            took = time.monotonic() - began
            if marks.left():
                took += marks.wait(PATIENCE)[0]
            if marks.left():
                raise Failed(f"left behind: {marks.left()}")
            values.append(1e3 * took)
    return [Row("launcher killed (SIGKILL): no process, port or file is left", "p99 <= 500 ms",
                "ms", 500, values)]


# --- restarts and signals ---

def restart(place, count):
    """The first step after a death; in one job, each after a new checkpoint."""
    values = []
    with Job(place, 4, PARAMETERS_30M, ["--restarts", "1000"]) as run:
        for i in trials("restart", count):
            run.until_step(run.step() + 6)  # a checkpoint is complete
            pid, told = run.all_ranks()[i % 4], len(run.said())
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            until(lambda t=told: re.search("resumed after step [1-9](?s:.*)\nstep ",
                                           run.said()[t:]), "a step after the restart", run)
            values.append(time.monotonic() - began)
    return [Row("death to the first step again, --restarts, 30M parameters, dp 4", "worst <= 5 s",
                "s", 5, values)]


def metrics(run, name):
    with open(os.path.join(run.out, "metrics.jsonl"), encoding="utf-8") as f:
        return [x[name] for x in map(json.loads, f) if name in x]


def sigterm(place, count):
    values, one = [], []
    for _ in trials("sigterm", count):
        with Job(place, 4, PARAMETERS_30M) as run:
            until(lambda r=run: r.step() and metrics(r, "save_write_ms"), "a save", run)
            one += [x / 1e3 for x in metrics(run, "save_write_ms")]
            began = time.monotonic()
            os.kill(run.pid, signal.SIGTERM)
            run.ended(75)
            values.append(time.monotonic() - began)
            step = int(re.search("stopped by SIGTERM after step ([0-9]+), which is saved",
                                 run.said())[1])
            if not os.path.isfile(os.path.join(w.folder(run.out, step), "manifest.json")):
                raise Failed(f"step {step} is not saved:\n{run.said()}")
    usual = statistics.median(one)
    return [Row("SIGTERM to saved and gone, 30M parameters, dp 4",
                f"worst <= one save ({usual:.2f} s here) + 1 s", "s", usual + 1, values)]


def copies(place, count):
    """A save's copy against memcpy of the same bytes (bench/save.py)."""
    train.tokens(os.path.join(place.path, "train.bin"))
    settings = argparse.Namespace(weft=w.WEFT, ranks=1, mib=256, saves=count, more=[])
    for _ in trials("save", 1):
        seen, size = save.measure(settings, place.path, "on")
    limit = 1.3 * save.memcpy_ms(size) + 5
    values = [x["save_stop_ms"] for x in seen if "save_stop_ms" in x]
    return [Row(f"a step that copies a save stands still, {size >> 20} MiB",
                f"median <= 1.3 x memcpy + 5 ms ({limit:.0f} ms here)", "ms", limit, values)]


# --- many ---

def many(place, count):
    rows = []
    for transport, ranks in MANY:
        job = w.EVEN_DEFAULTS | {"run.steps": 3, "model.layers": 1, "train.microbatch": 1,
                        "train.batch": ranks, "comm.plugin": transport}
        values = []
        for _ in trials(f"{ranks} ranks over {transport}", count):
            began = time.monotonic()
            with Job(place, ranks, job) as run:
                until(lambda r=run: r.step() or r.process.poll() == 0, "a step", run, 600, 0.1)
                values.append(time.monotonic() - began)
                run.ended(0)
        rows.append(Row(f"{ranks} ranks over {transport} on {os.cpu_count()} cores, default "
                        "settings: first step after", "they train", "s", math.inf, values))
    return rows


def join(place, count):
    """`PROGRAM CLIENTS 1`, whose line of CSV has all_s: all have joined and every one knows it."""
    rows, program = [], place.o.join or os.path.join(os.path.dirname(w.WEFT), "join_bench")
    here = shutil.which(program.split()[0])
    for clients, limit in ((1000, 1), (4000, 15)):
        values = []
        for _ in trials(f"{clients} clients", count if here else 0):
            done = subprocess.run([*program.split(), str(clients), "1"], capture_output=True,
                                  text=True, check=False, timeout=PATIENCE)
            found = list(csv.DictReader(done.stdout.splitlines()))
            if done.returncode or not found:
                raise Failed(f"{program} {clients}: status {done.returncode}: {done.stderr}")
            values.append(float(found[-1]["all_s"]))
        rows.append(Row(f"{clients:,} clients join a store", f"worst <= {limit} s", "s", limit,
                        values, "" if here else "not measured: --join PROGRAM"))
    return rows


def stop_for_a_second(run):
    with contextlib.suppress(ProcessLookupError, IndexError):
        victim = random.choice(list(run.ranks().values()))
        os.kill(victim, signal.SIGSTOP)
        time.sleep(1)
        os.kill(victim, signal.SIGCONT)
    time.sleep(random.random())


def false_alarms(place, count):
    """`count` minutes. Four ranks a core; again and again one is stopped for a second."""
    ranks, stops, alarms, began = 4 * os.cpu_count(), 0, 0, time.monotonic()
    job, number = ENDLESS | {"train.batch": 3 * ranks}, 0
    while time.monotonic() < began + 60 * count:
        number += 1
        with Job(place, ranks, job | {"comm.plugin": ("tcp", "shm")[number % 2]}) as run:
            run.until_step(2)
            # Each job for ten minutes, so that both transports have their share.
            end = min(began + 60 * count, time.monotonic() + 600)
            while run.process.poll() is None and time.monotonic() < end:
                stop_for_a_second(run)
                stops += 1
                progress("false-alarms, minutes", int(time.monotonic() - began) // 60, count, began)
            if run.process.poll() is not None:
                alarms += 1
                print(f"a false alarm:\n{run.said()}", file=sys.stderr)
    return [Row(f"false alarms in {count} minutes, {ranks} ranks on {os.cpu_count()} cores, "
                f"{stops:,} stops of 1 s", "0", "", 0, [alarms])]


# name: (function, trials, seconds a trial, goal's quantile: 0.5, 0.99 or 1)
FIGURES = {
    "kill": (kill, 1000, 0.3, 0.99),
    "kill-large": (kill_large, 100, 4, 0.99),
    "freeze": (freeze, 20, 6, 1),
    "stuck": (stuck, 20, 6, 1),
    "launcher": (launcher, 500, 0.3, 0.99),
    "restart": (restart, 20, 6, 1),
    "sigterm": (sigterm, 20, 5, 1),
    "save": (copies, 9, 2, 0.5),
    "many": (many, 1, 60, 1),
    "join": (join, 3, 10, 1),
    "false-alarms": (false_alarms, 60, 60, 1),
}


# --- the table ---

def quantile(values, share):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def line(row, share, name):
    """A row of the table; a comment keeps its figure's name."""
    mark = f"<!-- {name} -->"
    if not row.values:
        return f"| {row.figure} | {row.goal} | 0 | | | | {row.note} {mark} |"
    shown = [f"{quantile(row.values, q):.3g} {row.unit}".strip() for q in (0.5, 0.99, 1)]
    met = "yes" if quantile(row.values, share) <= row.limit else "no"
    return f"| {row.figure} | {row.goal} | {len(row.values)} | {' | '.join(shown)} | {met} {mark} |"


HEAD = ["| figure | goal | n | median | p99 | worst | met |", "|---|---|---|---|---|---|---|"]
MARK = re.compile(r"<!-- (\S+) -->")


def report(lines, notes):
    """The document; `lines`: {figure: its rows}, of this time or kept, and what follows them."""
    out = ["# Deaths, signals, restarts, many ranks", "",
           "    bench/cluster.py -o bench/results/cluster.md", "",
           f"Jobs under weft's launcher on one machine ({transports.processor()}, {os.cpu_count()} "
           "cores). The head of the", "script says how each figure is measured. Parts were "
           "measured one after another, with `--only`.", ""]
    out += HEAD + [x for name in FIGURES for x in lines.get(name, [])]
    return "\n".join(out) + "\n" + notes


def kept(path):
    """{figure: its rows} of an earlier table, and the text behind it."""
    found, notes = {}, ""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as f:
        for text in f:
            name = MARK.search(text)
            if name and text.startswith("|"):
                found.setdefault(name[1], []).append(text.rstrip("\n"))
            elif found:
                notes += text
    return found, notes


def asked(o, parser):
    names = o.only.split(",") if o.only else list(FIGURES)
    for name in names:
        if name not in FIGURES:
            parser.error(f"--only {name}: there are {', '.join(FIGURES)}")
    return names


def main():
    listed = "".join(f"  {name:13} {count:5} trials of {seconds} s\n"
                     for name, (_, count, seconds, _) in FIGURES.items())
    a = argparse.ArgumentParser(description=__doc__ + listed,
                                formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("--weft", default=os.path.join(HERE, "..", "build", "release", "bin", "weft"))
    a.add_argument("--only", default="", help="figures, with commas between them")
    a.add_argument("--trials", type=int, default=0)
    a.add_argument("--join", default="", help="program of the figure join (join_bench beside weft)")
    a.add_argument("--folder", default=None, help="where jobs write; default: the temporary folder")
    a.add_argument("-o", "--out", help="file for the table; else it is printed")
    o = a.parse_args()
    names = asked(o, a)
    w.WEFT = os.path.abspath(o.weft)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: sys.exit(128 + n))
    lines, notes = kept(o.out) if o.out else ({}, "")
    failed = False
    for name in names:
        function, count, _, share = FIGURES[name]
        place = Place(o)
        try:
            rows = function(place, o.trials or count)
            lines[name] = [line(row, share, name) for row in rows]
        except Failed as why:
            failed = True
            print(f"{name}: {why}", file=sys.stderr)
        finally:
            shutil.rmtree(place.path, ignore_errors=True)
        if o.out:
            with open(o.out, "w", encoding="utf-8") as f:
                f.write(report(lines, notes))
    if not o.out:
        print(report(lines, notes), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
