"""The fitted constants of configs/clusters, from published measurements of parts of a step.

usage: python3 bench/fit_clusters.py PUBLISHED.csv

Reads the groups below and nothing else of the file; no time of a whole step is among them.

  zb_t6            time of the weight gradients of a stage (T_W), products alone: reach and ramp
  mamf             the largest rate of a product: reach of other devices, relative to A100's
  nccl_gtc24       bandwidth of long all-reduces: reach of links
  nccl_*_sweep     all-reduces by size: latencies of a step
"""
import csv
import math
import statistics
import sys

GROUPS = ("zb_t6", "mamf", "nccl_gtc24", "nccl_a100_sweep", "nccl_h200_sweep", "nccl_b200_sweep")
A100 = 312e12
UNITS, TILE = 108, 128
# layers of a stage, as zero-bubble places them: 22 + 2 over 8, ...
STAGE_LAYERS = {"22": 3, "30": 4, "46": 3, "62": 2}


def read(path):
    with open(path, newline="", encoding="utf-8") as f:
        return [r for r in csv.DictReader(f) if r["group"] in GROUPS]


def rounds(rows, columns):
    tiles = math.ceil(rows / TILE) * math.ceil(columns / TILE)
    return min(1, rows * columns / TILE ** 2 / (math.ceil(tiles / UNITS) * UNITS))


def weight_gradients(row, reach, ramp):
    """Seconds of the four products of each layer, with the tokens as inner length."""
    hidden, tokens = int(row["hidden"]), int(row["seq"]) * int(row["mbs"])
    seconds = 0
    for rows, columns in ((3 * hidden, hidden), (hidden, hidden), (4 * hidden, hidden),
                          (hidden, 4 * hidden)):
        rate = A100 * reach * tokens / (tokens + ramp) * rounds(rows, columns)
        seconds += 2 * rows * columns * tokens / rate
    return seconds * STAGE_LAYERS[row["layers"]]


def fit_products(table):
    rows = [r for r in table if r["group"] == "zb_t6" and r["metric"] == "T_W"]

    def errors(reach, ramp):
        return [weight_gradients(r, reach, ramp) * 1e3 / float(r["value"]) - 1 for r in rows]

    best = min(((statistics.fmean(e * e for e in errors(a / 1000, b)), a / 1000, b)
                for a in range(700, 950, 5) for b in range(0, 400, 10)))
    left = errors(best[1], best[2])
    print(f"products on A100: reach {best[1]:.3f}, ramp {best[2]}; {len(rows)} rows, "
          f"{100 * min(left):+.1f} ... {100 * max(left):+.1f} %")
    return best[1]


def fit_reach(table, a100):
    most = {}
    for r in table:
        if r["group"] == "mamf" and r["precision"] == "bf16":
            most.setdefault(r["hardware"], {})[r["metric"]] = float(r["value"])
    share = {k: v["max_achievable_matmul"] / v["theory_peak"] for k, v in most.items()}
    steady = a100 / share["NVIDIA A100 SXM"]
    print(f"a step reaches {steady:.3f} of the largest rate measured")
    for name, value in share.items():
        print(f"  {name}: largest {value:.3f} of the peak, reach {value * steady:.3f}")


def fit_links(table):
    for r in table:
        if r["group"] == "nccl_gtc24":
            print(f"  {r['hardware']}: {r['metric']} {r['value']} {r['unit']}")
    for group, bandwidth, n in (("nccl_a100_sweep", 232e9, 8), ("nccl_h200_sweep", 480e9, 8),
                                ("nccl_b200_sweep", 381e9, 32)):
        wanted = "allreduce_busbw_4_nodes" if n == 32 else "allreduce_busbw"
        steps, share, points = 2 * (n - 1), 2 * (n - 1) / n, []
        for r in table:
            if r["group"] != group or r["metric"] != wanted:
                continue
            size = float(r["notes"].split()[1])
            seconds = share * size / (float(r["value"]) * 1e9)
            points.append((size, (seconds - share * size / bandwidth) / steps))
        long = [p for s, p in points if 2 ** 24 <= s <= 2 ** 28]
        short = [p for s, p in points if s <= 2 ** 16]
        print(f"{group}: a step of 16 to 256 MiB {1e6 * statistics.median(long):.1f} us, of up to "
              f"64 KiB {1e6 * statistics.median(short):.1f} us")


def main():
    table = read(sys.argv[1])
    fit_reach(table, fit_products(table))
    fit_links(table)


if __name__ == "__main__":
    main()
