#!/usr/bin/env python3
"""All-reduce of weft's transports against Open MPI, with its own transports and over UCX, and Gloo:
in turn, in place, medians, ratios.

  bench/allreduce.py [--weft build/release/bin/weft] [--ranks 2,4] [--rounds 5] [--links tcp,shm]
                    [--range 64,67108864,4]

Prints a JSON line a size; the ratio is to the fastest peer. Nothing else should run on the machine.
Peers that are missing are left out and named."""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RANGE = ["64", "67108864", "4"]  # bytes: from, to, factor


def table(text):
    """size -> microseconds, from the columns that everybody prints."""
    rows = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 7 and words[0].isdigit():
            rows[int(words[0])] = float(words[4])
    return rows


def weft(o, ranks, link):
    text = subprocess.run(
        [o.weft, "bench", "comm", "-n", str(ranks), f"comm.plugin={link}", "bench.inplace=on",
         f"bench.min={RANGE[0]}", f"bench.max={RANGE[1]}", f"bench.factor={RANGE[2]}"],
        check=True, capture_output=True, text=True).stdout
    return table(text)


def mpi(work, ranks, words):
    """None where it does not run in this way."""
    done = subprocess.run(
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *words,
         os.path.join(work, "mpi"), *RANGE], check=False, capture_output=True, text=True)
    return None if done.returncode else table(done.stdout)


def ways_of_mpi(link):
    """Its own transports, and UCX's."""
    own = "vader,self" if link == "shm" else "tcp,self"
    lo = ["--mca", "btl_tcp_if_include", "lo", "-x", "UCX_NET_DEVICES=lo"]
    ucx = "UCX_TLS=" + ("sm,self" if link == "shm" else "tcp,self")
    return {"mpi": ["--mca", "pml", "ob1", "--mca", "btl", own, *lo],
            "ucx": ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "pml_ucx_tls", "any",
                    "--mca", "pml_ucx_devices", "any", "-x", ucx, *lo]}


def gloo(ranks):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
               GLOO_SOCKET_IFNAME="lo")
    procs = [subprocess.Popen([sys.executable, os.path.join(HERE, "peers", "gloo_allreduce.py"),
                               *RANGE], env=dict(env, RANK=str(r)), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
             for r in range(ranks)]
    text = procs[0].communicate()[0]
    for p in procs[1:]:
        p.communicate()
    return table(text)


def median_rows(runs):
    return {size: statistics.median(r[size] for r in runs if size in r) for size in runs[0]}


def compare(o, work, ranks, link, has_mpi, has_torch):
    runs = {"weft": [], "mpi": [], "ucx": [], "gloo": []}
    for _ in range(o.rounds):
        runs["weft"].append(weft(o, ranks, link))
        for way, words in ways_of_mpi(link).items() if has_mpi else ():
            runs[way].append(mpi(work, ranks, words))
        if has_torch and link == "tcp":
            runs["gloo"].append(gloo(ranks))
    us = {name: median_rows(r) for name, r in runs.items() if r and r[0]}
    for size, mine in sorted(us["weft"].items()):
        row = {"link": link, "ranks": ranks, "bytes": size, "weft_us": round(mine, 2)}
        peers = {n: us[n][size] for n in us if n != "weft" and size in us[n]}
        for name, value in peers.items():
            row[name + "_us"] = round(value, 2)
        if peers:
            row["ratio"] = round(min(peers.values()) / mine, 3)
        row["busbw"] = round(size / mine * 1e-3 * 2 * (ranks - 1) / ranks, 3)
        print(json.dumps(row), flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default=os.path.join(HERE, "..", "build", "release", "bin", "weft"))
    a.add_argument("--ranks", default="2,4")
    a.add_argument("--links", default="tcp,shm")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--range", default=",".join(RANGE), help="bytes: FROM,TO,FACTOR")
    o = a.parse_args()
    RANGE[:] = o.range.split(",")
    has_mpi = bool(shutil.which("mpicc") and shutil.which("mpirun"))
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True,
                               check=False).returncode == 0
    for name, there in (("Open MPI", has_mpi), ("PyTorch (Gloo)", has_torch)):
        if not there:
            print(f"{name} is not installed: left out", file=sys.stderr)
    with tempfile.TemporaryDirectory() as work:
        if has_mpi:
            subprocess.run(["mpicc", "-O2", "-o", os.path.join(work, "mpi"),
                            os.path.join(HERE, "peers", "mpi_allreduce.c")], check=True)
        for link in o.links.split(","):
            for ranks in (int(x) for x in o.ranks.split(",")):
                compare(o, work, ranks, link, has_mpi, has_torch)


if __name__ == "__main__":
    main()
