#!/usr/bin/env python3
"""How fast do weights come in and go out, beside a copy of the same bytes?

  bench/weights.py [--weft build/release/bin/weft] [--gib 1] [--dir /tmp] [-o FILE]

For a Llama (no axis is transposed) and a GPT-2 (all matrices are) with weights of that size in
fp32: `weft import hf` and `weft export hf`.
The copy reads the same file and writes it again, with fsync, in blocks of 1 MiB: what the disk and
the memory give to a program that does nothing else. Each is the best of five, in turn; what the
one before has written is removed and synced first."""
import argparse
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "hf"))
import shapes  # noqa: E402  (tests/hf/shapes.py)

LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_size": 1536, "num_attention_heads": 12,
         "intermediate_size": 4096, "vocab_size": 32000, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": 1280, "n_head": 20, "vocab_size": 50257,
        "n_positions": 1024}

ROUNDS = 5


def elements(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def make(path, config, key, names, gib):
    """A folder with as many layers as make `gib` GiB."""
    layers = 1
    while sum(4 * elements(s) for _, s in names(config | {key: layers + 1})) <= gib * 2 ** 30:
        layers += 1
    os.makedirs(path)
    with open(path + "/config.json", "w", encoding="utf-8") as f:
        json.dump(config | {key: layers}, f)
    head, at = {}, 0
    for name, shape in names(config | {key: layers}):
        n = 4 * elements(shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(1)
    block = array.array("f", [draw.gauss(0, 0.02) for _ in range(1 << 18)]).tobytes()
    with open(path + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i in range(0, at, len(block)):
            f.write(block[:at - i])
    return at


def copy(source, to):
    with open(source, "rb", buffering=0) as f, open(to, "wb", buffering=0) as g:
        while block := f.read(1 << 20):
            g.write(block)
        os.fsync(g.fileno())


def timed(what):
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin


def remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def measure(weft, place, name, config, key, names, gib):
    source = os.path.join(place, name)
    size = make(source, config, key, names, gib)
    out = {k: os.path.join(place, k) for k in ("copy", "import", "export")}
    start = os.path.join(place, "start")
    run(weft, "import", "hf", source, "-o", start)
    work = {"copy": lambda: copy(source + "/model.safetensors", out["copy"]),
            "import": lambda: run(weft, "import", "hf", source, "-o", out["import"]),
            "export": lambda: run(weft, "export", "hf", start, "-o", out["export"])}
    best = dict.fromkeys(work, 1e9)
    for _ in range(ROUNDS):
        for k, what in work.items():
            remove(out[k])
            os.sync()
            best[k] = min(best[k], timed(what))
    rates = {k: size / 2 ** 20 / v for k, v in best.items()}
    print(f"{name}: {size / 2 ** 20:.0f} MiB; copy {rates['copy']:.0f} MiB/s, "
          f"import {rates['import']:.0f} ({100 * rates['import'] / rates['copy']:.0f} %), "
          f"export {rates['export']:.0f} ({100 * rates['export'] / rates['copy']:.0f} %)")
    row = [name, f"{size / 2 ** 20:.0f}", f"{rates['copy']:.0f}"]
    for k in ("import", "export"):
        row += [f"{rates[k]:.0f}", f"{100 * rates[k] / rates['copy']:.0f} %"]
    for path in (start, *out.values()):
        remove(path)
    return row


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "a processor without a name"


def report(rows, gib):
    lines = ["# Weights in and out", "",
             f"`python3 bench/weights.py --gib {gib:g}`: `weft import hf` and `weft export hf` of "
             "weights in fp32 as whole commands, and a copy of the",
             "same file by a program that reads and writes blocks of 1 MiB and ends with fsync. "
             f"The best of {ROUNDS}, in turn. {os.cpu_count()} cores of",
             f"{processor()}. Of gpt2 every matrix is transposed.", "",
             "| model | MiB | copy MiB/s | import MiB/s | of the copy | export MiB/s | "
             "of the copy |", "|---|---|---|---|---|---|---|"]
    return "\n".join(lines + [f"| {' | '.join(r)} |" for r in rows]) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--weft", default="build/release/bin/weft")
    p.add_argument("--gib", type=float, default=1)
    p.add_argument("--dir", default="/tmp")
    p.add_argument("--only", choices=["llama", "gpt2"])
    p.add_argument("-o", "--out", help="file for the table, such as bench/results/weights.md")
    a = p.parse_args()
    rows = []
    place = tempfile.mkdtemp(prefix="weft-weights-", dir=a.dir)
    try:
        if a.only != "gpt2":
            rows.append(measure(a.weft, place, "llama", LLAMA, "num_hidden_layers",
                                shapes.llama_tensors, a.gib))
        if a.only != "llama":
            rows.append(measure(a.weft, place, "gpt2", GPT2, "n_layer", shapes.gpt2_tensors,
                                a.gib))
    finally:
        shutil.rmtree(place)
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            f.write(report(rows, a.gib))


if __name__ == "__main__":
    sys.exit(main())
