#!/usr/bin/env python3
"""How long a save stops a run, and how long memcpy takes for the same bytes.

  bench/save.py [--weft build/release/bin/weft] [--ranks 1] [--mib 256] [--saves 5]
                [--out FOLDER] [section.key=value ...]

Trains a small model whose checkpoint has about --mib MiB in all, with checkpoint.async = on and
off, and saves --saves times, each time after the one before is complete. Prints CSV, a row each:
the bytes that rank 0 writes, the medians of what its metrics say of a save (stop_ms: the run stood
still; copy_ms: the copy; write_ms: until the checkpoint was complete), and the median time of one
memcpy of those bytes between memory that has been touched, on one thread of this machine while
nothing trains. An asynchronous save is to stop a run for at most 1.3 * memcpy_ms + 5 ms; `within`
says whether it did. Nothing else should run on the machine."""
import argparse
import csv
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import train  # noqa: E402  (bench/train.py)

FIELDS = ("async", "ranks", "bytes", "saves", "stop_ms", "copy_ms", "write_ms", "memcpy_ms",
          "stop_per_memcpy", "within")
VOCAB = 50304
ROW = 12 * VOCAB  # bytes of the embedding, in fp32 with two moments, for each 1 of model.embed


def memcpy_ms(count, rounds=9):
    """The median of `rounds` copies, all pages touched before."""
    one, two = ctypes.create_string_buffer(count), ctypes.create_string_buffer(count)
    ctypes.memset(one, 1, count)
    ctypes.memset(two, 2, count)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        ctypes.memmove(two, one, count)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def measure(o, place, how):
    """(the metrics of all steps, bytes that rank 0 saves)"""
    out, embed, every = os.path.join(place, how), max(1, (o.mib << 20) // (2 * ROW)) * 2, 10
    done = subprocess.run(
        [o.weft, "train", "-n", str(o.ranks), os.path.join(place, "job.ini"), f"run.out={out}",
         f"run.steps={o.saves * every + every - 1}", "train.batch=" + str(o.ranks),
         "train.microbatch=1", "train.sequence=8", "model.layers=1", "model.heads=2",
         f"model.embed={embed}", "model.ffn=64", "model.context=8", f"model.vocab={VOCAB}",
         "model.tied=on", "train.precision=fp32", "train.eval_every=0", "log.peak_gflops=1",
         "log.progress=0", "parallel.strategy=dp",
         "data.train=" + os.path.join(place, "train.bin"), f"checkpoint.every={every}",
         "checkpoint.keep=1", f"checkpoint.async={how}", *o.more],
        capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        seen = [json.loads(line) for line in f]
    newest = sorted(os.listdir(os.path.join(out, "checkpoints")))[-1]
    folder = os.path.join(out, "checkpoints", newest)
    count = min((x for x in os.listdir(folder) if x.startswith("shard-00000")), default="")
    size = os.path.getsize(os.path.join(folder, count))
    shutil.rmtree(out)
    return seen, size


def median(seen, name):
    values = [x[name] for x in seen if name in x]
    return round(statistics.median(values), 3) if values else ""


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weft", default="build/release/bin/weft")
    a.add_argument("--ranks", type=int, default=1)
    a.add_argument("--mib", type=int, default=256)
    a.add_argument("--saves", type=int, default=5)
    a.add_argument("--out", default=None, help="where to write; default: the temporary folder")
    a.add_argument("more", nargs="*", help="section.key=value for both")
    o = a.parse_args()
    rows = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    rows.writeheader()
    place = tempfile.mkdtemp(prefix="weft-save-", dir=o.out)
    try:
        with open(os.path.join(place, "job.ini"), "w", encoding="utf-8") as f:
            f.write("[run]\nname = save\n")
        train.tokens(os.path.join(place, "train.bin"))
        for how in ("on", "off"):
            seen, size = measure(o, place, how)
            stop, copy = median(seen, "save_stop_ms"), memcpy_ms(size)
            rows.writerow({
                "async": how, "ranks": o.ranks, "bytes": size, "saves": o.saves, "stop_ms": stop,
                "copy_ms": median(seen, "save_copy_ms"),
                "write_ms": median(seen, "save_write_ms"), "memcpy_ms": round(copy, 3),
                "stop_per_memcpy": round(stop / copy, 3),
                "within": "yes" if stop <= 1.3 * copy + 5 else "no"})
            sys.stdout.flush()
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
