#!/usr/bin/env python3
"""What [comm] checksum = on costs: collectives with and without, in pairs.

  bench/checksum.py [--weft build/release/bin/weft] [--ranks 2] [--links tcp] [--rounds 9]
                    [--op all_reduce] [--range 65536,67108864,4] [section.key=value ...]

A round runs the same table of `weft bench comm` without and with checksums, the other way round in
every other round. Prints a JSON line a transport and size: medians in us, and `ratio`, the median
of the rounds' ratios of times. Nothing else should run on the machine, and it should have a core
for each rank: where a rank shares its core, a checksum costs its whole time."""
import argparse
import json
import statistics
import subprocess


def table(o, link, checksum):
    """size -> microseconds"""
    low, high, factor = o.range.split(",")
    text = subprocess.run(
        [o.weft, "bench", "comm", "-n", str(o.ranks), f"comm.plugin={link}",
         f"comm.checksum={checksum}", f"bench.op={o.op}", "bench.inplace=on", f"bench.min={low}",
         f"bench.max={high}", f"bench.factor={factor}", *o.more],
        check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {int(r[0]): float(r[4]) for r in rows if r and r[0].isdigit()}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default="build/release/bin/weft")
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--links", default="tcp")
    a.add_argument("--rounds", type=int, default=9)
    a.add_argument("--op", default="all_reduce")
    a.add_argument("--range", default="65536,67108864,4", help="bytes: from, to, factor")
    a.add_argument("more", nargs="*", help="section.key=value for both")
    o = a.parse_args()
    for link in o.links.split(","):
        pairs = []
        for i in range(o.rounds):
            both = {c: table(o, link, c) for c in (("off", "on") if i % 2 else ("on", "off"))}
            pairs.append((both["off"], both["on"]))
        for size in pairs[0][0]:
            off, on = [x[size] for x, _ in pairs], [y[size] for _, y in pairs]
            print(json.dumps({
                "link": link, "ranks": o.ranks, "op": o.op, "bytes": size, "rounds": o.rounds,
                "off_us": round(statistics.median(off), 2),
                "on_us": round(statistics.median(on), 2),
                "ratio": round(statistics.median(y / x for x, y in zip(off, on)), 4),
                "best_ratio": round(min(on) / min(off), 4)}), flush=True)


if __name__ == "__main__":
    main()
