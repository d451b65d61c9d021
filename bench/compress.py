#!/usr/bin/env python3
"""What does it cost to send gradients in fewer bits, and what does it save?

  bench/compress.py [--weft build/release/bin/weft] [--demo | --link] [--rounds 3] [--text FILE]

--demo trains configs/demo.ini, a minute each, with none, bf16, fp16 and int8, and with int8 without
feedback: held-out loss at the end, against that of none; and none from two other seeds, which says
what a difference means.

--link (for root) times a job that waits for its network: two ranks on two hosts, which are network
namespaces of tests/lab/hosts.sh joined by a cable of 200 Mbit/s and, where the kernel has netem,
1 ms; a GPT-2 of 3.2M parameters, a sequence of 64 tokens a rank and step. Steps a second with none
and with each form, in turn in each round; medians. The limit of a step is what its bytes take on
the cable, and of_the_cable the share of the step that this is.

Prints a JSON line a case. Nothing else should run on the machine."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
HOSTS = os.path.join(ROOT, "tests", "lab", "hosts.sh")
FORTUNES = "/usr/share/games/fortunes"
FORMS = [("none", "on"), ("bf16", "on"), ("fp16", "on"), ("int8", "on"), ("int8", "off")]
CABLE = 200e6 / 8 / 1e3  # bytes in a millisecond, each way
CABLES = ["netem delay 1ms rate 200mbit", "tbf rate 200mbit burst 64kb latency 50ms"]
JOB = """[run]
out = {out}
steps = 10
key = {work}/key
[model]
layers = 4
heads = 4
embed = 256
ffn = 1024
context = 64
vocab = 0
[data]
train = {work}/train.bin
[train]
batch = 2
microbatch = 1
sequence = 64
eval_every = 0
bucket_mb = 4
[parallel]
strategy = dp
[comm]
plugin = tcp
[device]
threads = 1
[log]
progress = 0
level = error
"""


def lines(out):
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def make_data(o, work):
    text = [o.text] if o.text else sorted(
        x for x in glob.glob(FORTUNES + "/*")
        if os.path.isfile(x) and not os.path.islink(x) and not x.endswith((".dat", ".u8")))
    if not text:
        sys.exit(f"there is no text in {FORTUNES}: say --text FILE")
    subprocess.run([o.weft, "data", *text, "-o", f"{work}/train.bin", "--valid",
                    f"{work}/valid.bin"], check=True, stdout=subprocess.DEVNULL)


def demo(o, work):
    none = None
    for form, feedback, seed in [(*x, 1) for x in FORMS] + [("none", "on", 2), ("none", "on", 3)]:
        out = f"{work}/{form}-{feedback}-{seed}"
        subprocess.run(
            [o.weft, "train", "-n", "2", f"{ROOT}/configs/demo.ini", f"run.out={out}",
             f"data.train={work}/train.bin", f"data.valid={work}/valid.bin",
             f"comm.compress={form}", f"comm.feedback={feedback}", f"run.seed={seed}",
             "checkpoint.every=0", "log.progress=0", "log.level=error"], check=True)
        steps = lines(out)
        loss = steps[-1]["valid_loss"]
        none = loss if none is None else none
        print(json.dumps({"form": form, "feedback": feedback, "seed": seed, "steps": len(steps),
                          "valid_loss": loss, "over_none": loss / none - 1,
                          "comm_bytes": steps[-1]["comm_bytes"],
                          "step_ms": statistics.median(x["step_ms"] for x in steps[10:])}),
              flush=True)


def hosts(*words, check=True):
    return subprocess.run(["bash", HOSTS, *map(str, words)], check=check,
                          stderr=None if check else subprocess.DEVNULL).returncode == 0


def run_apart(o, work, port, form, feedback):
    """One job, a rank on each host; its median step."""
    out, ranks = f"{work}/run", []
    with open(f"{work}/job.ini", "w", encoding="utf-8") as f:
        f.write(JOB.format(work=work, out=out))
    for rank in range(2):
        names = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1,
                 "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": port}
        ranks.append(subprocess.Popen(
            ["bash", HOSTS, "on", str(rank + 1), o.weft, "train", f"{work}/job.ini",
             f"comm.compress={form}", f"comm.feedback={feedback}"],
            env=os.environ | {k: str(v) for k, v in names.items()}, stdin=subprocess.DEVNULL))
    if any([r.wait() for r in ranks]):
        sys.exit("a rank failed")
    steps = lines(out)
    return statistics.median(x["step_ms"] for x in steps[2:]), steps[-1]["comm_bytes"]


def link(o, work):
    subprocess.run([o.weft, "key", "-o", f"{work}/key"], check=True)
    hosts("two_hosts")
    cable = next(x for x in CABLES
                 if all(hosts("shape", host, *x.split(), check=False) for host in (1, 2)))
    found, sent = {x: [] for x in FORMS}, {}
    for turn in range(o.rounds):
        for i, (form, feedback) in enumerate(FORMS):
            port = 5000 + turn * len(FORMS) + i
            ms, sent[form, feedback] = run_apart(o, work, port, form, feedback)
            found[form, feedback].append(ms)
    hosts("no_hosts", check=False)
    none = statistics.median(found["none", "on"])
    for (form, feedback), ms in found.items():
        print(json.dumps({"cable": cable, "form": form, "feedback": feedback,
                          "steps_per_s": 1e3 / statistics.median(ms),
                          "over_none": none / statistics.median(ms),
                          "of_the_cable": sent[form, feedback] / CABLE / statistics.median(ms),
                          "comm_bytes": sent[form, feedback], "all_step_ms": ms}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--weft", default="build/release/bin/weft")
    p.add_argument("--demo", action="store_true")
    p.add_argument("--link", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--text")
    o = p.parse_args()
    o.weft = os.path.abspath(o.weft)
    if o.link and "WEFT_HOSTS" not in os.environ:  # in namespaces of our own, which end with us
        sys.exit(subprocess.run(["bash", HOSTS, "apart", sys.executable, "-B", *sys.argv],
                                env=os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
                                check=False).returncode)
    with tempfile.TemporaryDirectory(prefix="weft-compress-") as work:
        make_data(o, work)
        (link if o.link else demo)(o, work)


if __name__ == "__main__":
    main()
