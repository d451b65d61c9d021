#!/usr/bin/env python3
"""weft's verbs against perftest's ib_write_bw and ib_write_lat, and against weft's tcp over a
narrow cable: in turn, medians, ratios.

  tests/lab/run -t 900 python3 -B bench/verbs.py [--build BUILD] [--rounds 5] [PART ...]

For root on a machine with two RDMA devices r1 and r2 of two hosts, as tests/lab/hosts.sh makes
them: so in the lab, one boot. BUILD is build/release where nothing is said. PART is bw, poll, lat,
narrow or sum, else all. Prints a JSON line a figure. Nothing else should run on the machine."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, "..", "tests", "lab", "hosts.sh")
MTU = 4096
# ib_write_bw waits 67 ms before it sends again; weft's default is half a second.
DEVICES = {"verbs": (["devices=r1", "timeout=0.06"], ["devices=r2", "timeout=0.06"]),
           "tcp": (["bind=10.0.0.1"], ["bind=10.0.0.2"])}


def hosts(*words):
    return subprocess.run(["bash", HOSTS, *map(str, words)], check=True, capture_output=True,
                          text=True).stdout


def link(o, plugin, what, size, count):
    first, second = DEVICES[plugin]
    done = subprocess.run(
        [os.path.join(o.build, "bin/link_bench"),
         os.path.join(o.build, f"lib/weft/comm/{plugin}.so"), what, str(size), str(count), *first,
         "--", *second], capture_output=True, text=True, timeout=300)
    found = re.findall(r"^[\d.]+$", done.stderr, re.M)
    if done.returncode or not found:
        sys.exit(f"link_bench over {plugin} failed:\n{done.stdout}{done.stderr}")
    return float(found[-1])


def perftest(program, size, count, column):
    """On the processors that link_bench takes. Its calibration of clocks may fail in an emulator,
    and then it says 0."""
    words = ["-x", "1", "-m", str(MTU), "-F", "-s", str(size), "-n", str(count)]
    for _ in range(5):
        server = subprocess.Popen(
            ["taskset", "-c", "1", program, "-d", "r2", *words], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        time.sleep(1)
        said = subprocess.run(["taskset", "-c", "0", program, "-d", "r1", *words, "10.0.0.2"],
                              capture_output=True, text=True, timeout=300).stdout
        server.wait(60)
        rows = [line.split() for line in said.splitlines() if line.split()[:1] == [str(size)]]
        if rows and float(rows[-1][column]) > 0:
            return float(rows[-1][column])
    sys.exit(f"{program} failed:\n{said}")


def all_reduce(o, plugin, size, port):
    """Milliseconds of one of `size` bytes, a rank on each host."""
    with tempfile.TemporaryDirectory() as work:
        key = os.path.join(work, "key")
        subprocess.run([os.path.join(o.build, "bin/weft"), "key", "-o", key], check=True)
        ranks = []
        for rank in (0, 1):
            names = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                     "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port,
                     "ONEDNN_MAX_CPU_ISA": "SSE41"}
            words = [f"comm.plugin={plugin}", "comm.algorithm=ring", f"run.key={key}",
                     "bench.inplace=on", f"bench.min={size}", f"bench.max={size}"]
            if plugin == "verbs":
                words += ["comm.verbs." + x for x in DEVICES["verbs"][rank]]
            ranks.append(subprocess.Popen(
                ["bash", HOSTS, "on", str(rank + 1), os.path.join(o.build, "bin/weft"), "bench",
                 "comm", *words], env=os.environ | {k: str(v) for k, v in names.items()},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        said = [rank.communicate(timeout=300)[0] for rank in ranks]
    rows = [x.split() for x in said[0].splitlines() if x.split()[:1] == [str(size)]]
    if not rows:
        sys.exit(f"weft bench comm over {plugin} failed:\n{said[0]}{said[1]}")
    return float(rows[-1][4]) / 1000


def narrow(on):
    for host in (1, 2):
        hosts(*(["shape", host, *"tbf rate 200mbit burst 64kb latency 50ms".split()] if on
                else ["unshape", host]))


class Port:
    """The last job's may be waited for still."""
    number = 7000

    @classmethod
    def next(cls):
        cls.number += 1
        return cls.number


# Each part: what it is, its unit, is more better, one run of verbs, one of the other.
def parts(o):
    long, count = 1 << 20, o.messages
    return {
        "bw": ("1 MiB messages beside ib_write_bw", "MiB/s", True,
               lambda: link(o, "verbs", "bw", long, count),
               lambda: perftest("ib_write_bw", long, count, 3)),
        "poll": ("the same where no end sleeps, beside ib_write_bw", "MiB/s", True,
                 lambda: link(o, "verbs", "poll", long, count // 2),
                 lambda: perftest("ib_write_bw", long, count, 3)),
        "lat": ("8 bytes one way beside ib_write_lat", "us", False,
                lambda: link(o, "verbs", "lat", 8, 2000),
                lambda: perftest("ib_write_lat", 8, 2000, 4)),
        "narrow": ("1 MiB messages over 200 Mbit/s beside tcp", "MiB/s", True,
                   lambda: link(o, "verbs", "bw", long, count // 2),
                   lambda: link(o, "tcp", "bw", long, count // 2)),
        "sum": ("all-reduce of 4 MiB over 200 Mbit/s beside tcp", "ms", False,
                lambda: all_reduce(o, "verbs", 4 << 20, Port.next()),
                lambda: all_reduce(o, "tcp", 4 << 20, Port.next())),
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--build", default=os.path.join(HERE, "..", "build", "release"))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--messages", type=int, default=200)
    p.add_argument("part", nargs="*", default=[])
    o = p.parse_args()
    hosts("two_rdma_hosts")
    for name, (what, unit, more, ours, theirs) in parts(o).items():
        if o.part and name not in o.part:
            continue
        if name in ("narrow", "sum"):
            narrow(True)
        runs = [(ours(), theirs()) for _ in range(o.rounds)]
        mine, other = (statistics.median(x) for x in zip(*runs))
        print(json.dumps({"what": what, "unit": unit, "weft": round(mine, 2),
                          "other": round(other, 2),
                          "ratio": round(mine / other if more else other / mine, 2),
                          "runs": runs}), flush=True)
        if name in ("narrow", "sum"):
            narrow(False)


if __name__ == "__main__":
    main()
