#!/usr/bin/env python3
"""vectors_reference.py -o vectors.json: the classifier of plugins/mlp in PyTorch, in fp64, trained
as vectors.ini says. Initial weights and the order of the samples follow weft; the form of the
recording is that of tests/pytorch/reference.py."""
import argparse
import configparser
import math
import os
import sys

import numpy
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "pytorch"))
import numbers_of_weft as numbers  # noqa: E402
import reference  # noqa: E402
import vectors_file as file  # noqa: E402  (vectors_file.py)


def read_job():
    ini = configparser.ConfigParser(inline_comment_prefixes=(";",))
    ini.read(os.path.join(HERE, "vectors.ini"))
    optim = ini["optim"]
    return {
        **{k: int(ini["model"][k]) for k in ("layers", "embed", "ffn")},
        "seed": ini["run"].getint("seed"), "steps": ini["run"].getint("steps"),
        "batch": ini["train"].getint("batch"), "clip": ini["train"].getfloat("clip"),
        **{k: optim.getfloat(k) for k in ("lr", "min_lr", "eps", "weight_decay")},
        "warmup": optim.getint("warmup"),
        "betas": [float(x) for x in optim["betas"].split(",")],
    }


def layout(job):
    """{name: (shape, deviation; 0: it starts from zeros)}"""
    e, f = job["embed"], job["ffn"]
    out = {f"embed.{name}.w": ((e, *(size for _, size in axes)), 1 / math.sqrt(file.WIDTH[name]))
           for name, axes in file.FIELDS.items()}
    out["embed.b"] = ((e,), 0)
    for i in range(job["layers"]):
        n = f"block.{i}."
        out |= {n + "up.w": ((f, e), 1 / math.sqrt(e)), n + "up.b": ((f,), 0),
                n + "down.w": ((e, f), 1 / math.sqrt(f)), n + "down.b": ((e,), 0)}
    return out | {"head.w": ((file.CLASSES, e), 1 / math.sqrt(e)), "head.b": ((file.CLASSES,), 0)}


def parameters(job):
    out = {}
    for name, (shape, deviation) in layout(job).items():
        n = math.prod(shape)
        value = numbers.normals(numbers.key_of(job["seed"], name), n, numpy) if deviation else \
            numpy.zeros(n)
        value = value * float(numpy.float32(float(f"{deviation:.9g}")))
        out[name] = torch.tensor(value.astype(numpy.float32).reshape(shape), dtype=torch.float64,
                                 requires_grad=True)
    return out


def loss_of(job, p, rows):
    x = torch.tensor([r[0] for r in rows], dtype=torch.float64)
    parts = x.split(list(file.WIDTH.values()), 1)
    y = p["embed.b"] + sum(part @ p[f"embed.{name}.w"].reshape(job["embed"], -1).T
                           for name, part in zip(file.FIELDS, parts))
    y = F.gelu(y, approximate="tanh")
    for i in range(job["layers"]):
        n = f"block.{i}."
        up = F.gelu(F.linear(y, p[n + "up.w"], p[n + "up.b"]), approximate="tanh")
        y = y + F.linear(up, p[n + "down.w"], p[n + "down.b"])
    logits = F.linear(y, p["head.w"], p["head.b"])
    return F.cross_entropy(logits, torch.tensor([r[1] for r in rows]))


def train(job, p, rows, valid):
    groups = [{"params": [p[n] for n in p if n.endswith(".w")],
               "weight_decay": job["weight_decay"]},
              {"params": [p[n] for n in p if n.endswith(".b")], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=job["lr"], betas=job["betas"], eps=job["eps"])
    steps, grads, short = [], {}, reference.short
    for step in range(job["steps"]):
        batch = [rows[file.place_of(job["seed"], step * job["batch"] + i, len(rows))]
                 for i in range(job["batch"])]
        optimizer.zero_grad()
        loss = loss_of(job, p, batch)
        loss.backward()
        if step == 0:
            grads = {name: reference.summary(t.grad) for name, t in p.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), job["clip"])
        lr = reference.learning_rate(job, step + 1)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        steps.append({"loss": short(loss.item()), "grad_norm": short(norm.item()), "lr": short(lr)})
    return {"grads": grads, "steps": steps, "valid_loss": short(loss_of(job, p, valid).item()),
            "after": {n: reference.summary(t) for n, t in p.items()}}


def main():
    parser = argparse.ArgumentParser(description="the classifier of plugins/mlp in PyTorch")
    parser.add_argument("-o", "--out", required=True)
    torch.set_num_threads(1)
    job = read_job()
    p = parameters(job)
    start = {n: reference.summary(t) for n, t in p.items()}
    made = train(job, p, file.samples("train", 200), file.samples("valid", 36))
    reference.write(parser.parse_args().out, {
        "torch": torch.__version__.split("+")[0],
        "jobs": {"vectors": {"job": job, "start": start, **made}}})


if __name__ == "__main__":
    main()
