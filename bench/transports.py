#!/usr/bin/env python3
"""All transports side by side on this machine, in turn in each round: latency and bandwidth of a
pair of ranks, all-reduces, and a training job.

  bench/transports.py [--weft build/release/bin/weft] [--rounds 5] [--minutes 8] [--ranks 2,4]
                      [--steps 20] [--only shm,tcp,mpi] [-o bench/results/transports.md]

Transports are those of the build; those that cannot be used here are named and left out. A round
that would end after --minutes is not begun (the first always is). Ranks over
mpi and mpi_pairs are started by mpirun, which shares this machine's memory; `mpi itself` is
bench/peers/mpi_allreduce.c, without weft. Medians of the rounds, as a table in Markdown.

The limit of messages of 1 MiB is one copy of them; over tcp, what a bare socket of this machine
moves. Nothing else should run on the machine."""
import argparse
import json
import mmap
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from allreduce import table  # noqa: E402  (bench/allreduce.py)

ALONE = ("self", "trace", "nccl")  # one rank, a wrapper, GPUs
MPI = {"mpi": "mpi.so", "mpi_pairs": "mpi.so"}
SIZES = (8, 512, 4096, 32768, 256 << 10, 2 << 20, 16 << 20)
MODEL = {"vocab": 4096, "layers": 4, "heads": 4, "embed": 256, "ffn": 1024, "context": 256}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def copied():
    """MiB/s of a copy of 1 MiB that lies in caches."""
    page, here, times = memoryview(mmap.mmap(-1, 1 << 20)), memoryview(bytearray(1 << 20)), []
    for _ in range(1000):
        began = time.perf_counter()
        here[:] = page
        times.append(time.perf_counter() - began)
    return 1 / statistics.median(times)


def through_socket():
    """MiB/s of one way over a TCP socket of this machine: 1 MiB a call of the sender, 256 KiB of
    the receiver, whose cache holds that; without the pacing of bbr, as weft has it."""
    count, data = 4000, bytearray(1 << 20)
    part = memoryview(data)[:256 << 10]
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = os.fork()
        if not child:
            with socket.create_connection(server.getsockname()) as s:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
                for _ in range(count):
                    s.sendall(data)
            os._exit(0)
        with server.accept()[0] as s:
            began, got = time.perf_counter(), 0
            while n := s.recv_into(part):
                got += n
            took = time.perf_counter() - began
    os.waitpid(child, 0)
    return got / took / (1 << 20)


MESSAGES, LIMIT = ("1 MiB messages", "MiB/s"), ("their limit", "MiB/s")
LIMITS = {"tcp": through_socket, "shm": copied, "ucx": copied, "mpi_pairs": copied}


class Failed(Exception):
    pass


class Bench:
    def __init__(self, o, work):
        self.o, self.work = o, work
        self.build = os.path.dirname(os.path.dirname(os.path.abspath(o.weft)))
        self.key = os.path.join(work, "key")
        subprocess.run([o.weft, "key", "-o", self.key], check=True, capture_output=True)
        subprocess.run([o.weft, "data", os.path.abspath(__file__), "-o",
                        os.path.join(work, "tokens.bin")], check=True, capture_output=True)

    def run(self, words, ranks=0):
        """What it prints. With ranks: mpirun starts that many."""
        env = dict(os.environ)
        if ranks:
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            words = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *root,
                     *words]
            env.update(MASTER_PORT=str(free_port()), OMPI_MCA_plm="isolated", TMPDIR=self.work)
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False,
                              stdin=subprocess.DEVNULL, env=env)
        if done.returncode:
            said = [x for x in (done.stdout + done.stderr).splitlines() if x.strip(" -")]
            of_weft = [x for x in said if re.match(r"(\S+Z )?weft ", x)]
            raise Failed((of_weft or said or ["it says nothing"])[-1])
        return done.stdout + done.stderr

    def weft(self, plugin, ranks, *words):
        """A command of weft with this many ranks over the transport."""
        words = [self.o.weft, *words, f"comm.plugin={plugin}"]
        if plugin in MPI:
            return self.run([*words, f"run.key={self.key}"], ranks)
        at = 3 if words[1] == "bench" else 2
        return self.run([*words[:at], "-n", str(ranks), *words[at:]])

    def pair(self, plugin, what, size, count):
        file = os.path.join(self.build, "lib/weft/comm", MPI.get(plugin, plugin + ".so"))
        text = self.run([os.path.join(self.build, "bin/link_bench"), file, what, str(size),
                         str(count)], 2 if plugin in MPI else 0)
        found = re.findall(r"^[\d.]+$", text, re.M)
        if not found:
            raise Failed(text.strip().splitlines()[-1] if text.strip() else "it printed nothing")
        return float(found[-1])

    def all_reduces(self, plugin, ranks):
        """{bytes: us}"""
        if plugin == "mpi":
            return table(self.run([os.path.join(self.work, "mpi"), str(SIZES[0]), str(SIZES[-1]),
                                   "8"], ranks))
        return table(self.weft(plugin, ranks, "bench", "comm", "bench.inplace=on",
                               f"bench.min={SIZES[0]}", f"bench.max={SIZES[-1]}",
                               "bench.factor=8"))

    def job(self, plugin, ranks, placement):
        """Tokens a second."""
        out = os.path.join(self.work, "run")
        job = os.path.join(self.work, "job.ini")
        with open(job, "w", encoding="utf-8") as f:
            f.write(f"[run]\nout = {out}\nsteps = {self.o.steps}\n[model]\n")
            f.writelines(f"{key} = {value}\n" for key, value in MODEL.items())
            f.write(f"[data]\ntrain = {self.work}/tokens.bin\n[train]\nbatch = {2 * ranks}\n"
                    "microbatch = 2\nsequence = 128\nprecision = fp32\neval_every = 0\n"
                    f"[parallel]\nstrategy = dp\n[optim]\nplacement = {placement}\nlr = 1e-4\n"
                    "[device]\nthreads = 1\n[log]\nprogress = 0\nlevel = error\n")
        shutil.rmtree(out, ignore_errors=True)
        self.weft(plugin, ranks, "train", job)
        with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
            steps = [json.loads(line) for line in f][2:]
        return statistics.median(m["tokens_per_s"] for m in steps)


def figures(b, plugin):
    """{(what, unit): a run of it}; pairs are of links alone."""
    found = {}
    if plugin != "mpi":
        found[("8 bytes one way", "us")] = lambda: b.pair(plugin, "lat", 8, 5000)
        found[("64 KiB one way", "us")] = lambda: b.pair(plugin, "lat", 65536, 1000)
        found[MESSAGES] = lambda: b.pair(plugin, "bw", 1 << 20, 1000)
    if plugin in LIMITS:
        found[LIMIT] = LIMITS[plugin]
    for ranks in b.o.ranks:
        found[("all-reduce", ranks)] = lambda r=ranks: b.all_reduces(plugin, r)
        for placement in ("none", "zero3"):
            name = "job" if placement == "none" else "job with " + placement
            found[(f"{name}, {ranks} ranks", "tokens/s")] = \
                lambda r=ranks, p=placement: b.job(plugin, r, p)
    return found


def spread(key, value):
    """The rows of a run's result."""
    if key[0] != "all-reduce":
        return {key: value}
    return {(f"all-reduce of {size} bytes, {key[1]} ranks", "us"): us
            for size, us in value.items() if size in SIZES}


def more_time(b, done, began):
    """Is there time for another round, as long as those before?"""
    took = time.monotonic() - began
    if done:
        print(f"round {done} of {b.o.rounds}: {took:.0f} s", file=sys.stderr, flush=True)
    return done < b.o.rounds and (not done or took * (done + 1) / done <= 60 * b.o.minutes)


def measure(b, plugins):
    """{row: {plugin: [runs]}}, {plugin: why it is left out}, and the number of rounds."""
    rows, left_out, done, began = {}, {}, 0, time.monotonic()
    while more_time(b, done, began):
        done += 1
        for plugin in plugins:
            for key, one in figures(b, plugin).items():
                if plugin in left_out:
                    break
                try:
                    result = spread(key, one())
                except Failed as why:
                    left_out[plugin] = f"{key[0]}: {why}"
                    continue
                for row, value in result.items():
                    rows.setdefault(row, {}).setdefault(plugin, []).append(value)
    return rows, left_out, done


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((x.partition(":")[2].strip() for x in f if x.startswith("model name")), "?")


def report(rows, left_out, rounds, plugins, o):
    shown = [p for p in plugins if p not in left_out]
    lines = ["# Transports side by side", "",
             f"    bench/transports.py --rounds {o.rounds} --ranks "
             f"{','.join(map(str, o.ranks))} --steps {o.steps}", "",
             f"Medians of {rounds} interleaved rounds on one machine ({processor()}, "
             f"{os.cpu_count()} cores). All-reduces of `mpi` are those of MPI itself, without "
             "weft. RDMA is in [verbs.md](verbs.md).", "",
             "| | unit | " + " | ".join(shown) + " |", "|---|---|" + "---|" * len(shown)]
    for (what, unit), runs in rows.items():
        cells = [f"{statistics.median(runs[p]):.4g}" if p in runs else "" for p in shown]
        lines.append(f"| {what} | {unit} | " + " | ".join(cells) + " |")
        if (what, unit) == LIMIT:
            had = {p: statistics.median(x) for p, x in rows[MESSAGES].items()}
            cells = [f"{100 * had[p] / statistics.median(runs[p]):.0f}" if p in runs else ""
                     for p in shown]
            lines.append("| share of it | % | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {p} is left out: {why}" for p, why in left_out.items())]
    return "\n".join(lines).rstrip() + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    a.add_argument("--weft", default=os.path.join(HERE, "..", "build", "release", "bin", "weft"))
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--minutes", type=float, default=8)
    a.add_argument("--ranks", default="2,4")
    a.add_argument("--steps", type=int, default=20)
    a.add_argument("--only", default="")
    a.add_argument("-o", "--out", help="file for the table; else it is printed")
    o = a.parse_args()
    o.ranks = [int(x) for x in o.ranks.split(",")]
    with tempfile.TemporaryDirectory() as work:
        b = Bench(o, work)
        here = sorted(x[:-3] for x in os.listdir(os.path.join(b.build, "lib/weft/comm"))
                      if x.endswith(".so"))
        plugins = [p for p in here if p not in (*ALONE, "mpi")]
        plugins += ["mpi_pairs", "mpi"] if "mpi" in here else []
        plugins = [p for p in plugins if not o.only or p in o.only.split(",")]
        if "mpi" in plugins and shutil.which("mpicc"):
            subprocess.run(["mpicc", "-O2", "-o", os.path.join(work, "mpi"),
                            os.path.join(HERE, "peers", "mpi_allreduce.c")], check=True)
        text = report(*measure(b, plugins), plugins, o)
    if o.out:
        with open(o.out, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
