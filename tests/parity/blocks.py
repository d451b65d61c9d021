#!/usr/bin/env python3
"""blocks.py WEFT: does a checkpoint load whatever pieces its tensors are stored in?

The checkpoint of one rank is taken apart here, with a writer of its own: every tensor is cut along
its axes into a grid of blocks, each block into ranges, and the pieces are dealt to shards. The
program has to verify it, name the same tensors, sample the same text from it, and go on from it to
the same bits."""
import hashlib
import json
import math
import os
import random
import shutil
import struct

import weft_jobs as w

LAYOUTS = (  # ranks, keys
    (2, {}),
    (2, {"parallel.strategy": "pp", "parallel.pp": 2}),
    (3, {"parallel.strategy": "tp", "parallel.tp": 3}),
    (2, {"optim.placement": "zero1"}),
    (3, {"optim.placement": "zero2", "train.microbatch": 1}),
    (3, {"optim.placement": "zero3", "train.microbatch": 1}),
    (4, {"parallel.strategy": "pp, dp", "parallel.pp": 2, "parallel.dp": 2,
         "optim.placement": "zero3"}),
    (6, {"parallel.strategy": "tp, dp", "parallel.tp": 3, "parallel.dp": 2,
         "optim.placement": "zero1"}),
)
JOB = w.ODD | {"run.steps": 6, "checkpoint.every": 6, "optim.schedule": "constant"}


def cuts(size, most):
    """Parts of 0 .. size as (from, to)."""
    inner = sorted(random.sample(range(1, size), min(random.randrange(most), size - 1)))
    return list(zip([0, *inner], [*inner, size]))


def grid(shape, most):
    out = [[]]
    for size in shape:
        out = [block + [part] for part in cuts(size, most) for block in out]
    return out


def cut(tensors, shards, most):
    """By shard [(name, shape, block, first, values)]; a block that is all of it is None."""
    dealt = [[] for _ in range(shards)]
    for name, (shape, values) in tensors.items():
        for block in grid(shape, most):
            mine = w.checkpoint.places(shape, block)
            whole = len(mine) == math.prod(shape)
            for first, end in cuts(len(mine), most):
                part = struct.pack(f"<{end - first}f", *(values[i] for i in mine[first:end]))
                dealt[random.randrange(shards)].append(
                    (name, shape, None if whole else block, first, end - first, part))
    return dealt


def count_of(shape, block):
    return math.prod(b - a for a, b in block) if block else math.prod(shape)


def shard_bytes(pieces):
    header, data = {"__metadata__": {}}, b""
    for name, shape, block, first, count, part in pieces:
        key, stored = name, shape
        if block:
            key += "@" + ",".join(f"{a}:{b}" for a, b in block)
            stored = [b - a for a, b in block]
        if count != count_of(shape, block):
            key, stored = f"{key}@{first}", [count]
        if key != name:
            header["__metadata__"]["shape:" + name] = "[" + ", ".join(map(str, shape)) + "]"
        header[key] = {"dtype": "F32", "shape": stored,
                       "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(folder, old, dealt):
    """The checkpoint of the manifest `old` with its tensors in the pieces of `dealt`."""
    os.makedirs(folder)
    new, tensors = [], {}
    for number, pieces in enumerate(dealt):
        text = shard_bytes(pieces)
        name = f"shard-{number:05d}-of-{len(dealt):05d}.safetensors"
        with open(os.path.join(folder, name), "wb") as f:
            f.write(text)
        new.append({"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()})
        for name, shape, block, first, count, _ in pieces:
            entry = tensors.setdefault(name, {"dtype": "F32", "shape": shape, "pieces": []})
            piece = [number, first, count]
            if block:
                piece += [[a for a, _ in block], [b - a for a, b in block]]
            entry["pieces"].append(piece)
    w.checkpoint.write_manifest(folder, {
        k: old[k] for k in ("format", "version", "step", "job")} | {"shards": new,
                                                                   "tensors": tensors})


class Blocks(w.Bench):
    def manifest(self, out):
        with open(os.path.join(w.folder(self.path(out), 6), "manifest.json"),
                  encoding="utf-8") as f:
            return json.load(f)

    def said(self, out):
        """What info and sample say, and the tensors that another reader finds."""
        folder = w.folder(self.path(out), 6)
        w.weft("ckpt", "verify", folder)
        info = w.weft("ckpt", "info", folder).stdout.replace(folder, "")
        text = w.weft("sample", folder, "--prompt", "3 1 4", "--tokens", 12).stdout
        return info, text

    def test_any_pieces(self):
        self.train("one", JOB)
        self.train("whole", JOB | {"run.steps": 12})
        whole, old, said = w.tensors(self.path("one"), 6), self.manifest("one"), self.said("one")
        for shards, most in ((1, 2), (3, 3), (5, 4)):
            for ranks in (1, 2):
                with self.subTest(shards=shards, most=most, ranks=ranks):
                    shutil.rmtree(self.path("cut"), ignore_errors=True)
                    shutil.copytree(self.path("one"), self.path("cut"))
                    shutil.rmtree(w.folder(self.path("cut"), 6))
                    write(w.folder(self.path("cut"), 6), old, cut(whole, shards, most))
                    self.same_tensors(whole, w.tensors(self.path("cut"), 6))
                    self.assertEqual(self.said("cut"), said)
                    self.train("cut", JOB | {"run.steps": 12}, resume=True, ranks=ranks)
                    if ranks == 1:
                        self.same_run("whole", "cut", 12)
    def test_any_layout(self):
        job = JOB | {"optim.lr": 0, "model.ffn": 42}
        for precision in ("fp32", "bf16"):
            self.train("one", job | {"train.precision": precision})
            one, said = w.tensors(self.path("one"), 6), self.said("one")
            names = [n for n in one if not n.endswith((".m", ".v")) and "scalar" not in n]
            for ranks, keys in LAYOUTS:
                with self.subTest(precision=precision, ranks=ranks, keys=keys):
                    self.train("many", job | {"train.precision": precision} | keys, ranks=ranks)
                    many, text = w.tensors(self.path("many"), 6), self.said("many")[1]
                    self.same_tensors({n: one[n] for n in names}, {n: many[n] for n in names})
                    self.assertEqual(sorted(one), sorted(many))
                    self.assertEqual(text, said[1])


if __name__ == "__main__":
    w.main()
