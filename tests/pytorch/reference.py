#!/usr/bin/env python3
"""GPT-2 and Llama in PyTorch, trained as a weft job says, to compare weft with.

  reference.py JOB.ini... [-o recorded.json] [--fp32] [--weights CHECKPOINT] [--tokens FILE]

Model, optimizer and clipping are PyTorch's own; only the initial weights, the order of the data and
the elements that dropout drops follow weft, from numbers_of_weft.py or a checkpoint. Without
--tokens the data are those of tokens.py. Recorded of each job are loss, gradient norm and learning
rate of every step; and of every parameter, as its norm and a few elements, the start, the first
gradient and the end."""
import argparse
import configparser
import json
import math
import os

import numpy
import torch
import torch.nn.functional as F

import checkpoint
import numbers_of_weft as numbers


def read_job(path):
    ini = configparser.ConfigParser(inline_comment_prefixes=(";",))
    with open(path) as f:
        ini.read_file(f)
    model = {k: int(ini["model"][k]) for k in "layers heads embed ffn context vocab".split()}
    if ini["model"]["family"] == "llama":
        model["kv_heads"] = int(ini["model"]["kv_heads"])
        model["rope_theta"] = float(ini["model"]["rope_theta"])
    if ini["model"].getfloat("dropout", 0):
        model["dropout"] = ini["model"].getfloat("dropout")
    optim = ini["optim"]
    return dict(
        model,
        tied=ini["model"].getboolean("tied"),
        seed=ini["run"].getint("seed"),
        steps=ini["run"].getint("steps"),
        batch=ini["train"].getint("batch"),
        sequence=ini["train"].getint("sequence"),
        clip=ini["train"].getfloat("clip"),
        lr=optim.getfloat("lr"),
        min_lr=optim.getfloat("min_lr"),
        warmup=optim.getint("warmup"),
        betas=[float(x) for x in optim["betas"].split(",")],
        eps=optim.getfloat("eps"),
        weight_decay=optim.getfloat("weight_decay"),
    )


def is_llama(job):
    return "kv_heads" in job


def llama_layout(job):
    e, f, h, kv = job["embed"], job["ffn"], job["heads"], job["kv_heads"]
    small = 0.02 / math.sqrt(2 * job["layers"])
    out = {"embed.tok.w": ((job["vocab"], e), 0.02)}
    for i in range(job["layers"]):
        block = {
            "norm1.g": ((e,), "1"),
            "attn.q.w": ((h, e // h, e), 0.02),
            "attn.k.w": ((kv, e // h, e), 0.02),
            "attn.v.w": ((kv, e // h, e), 0.02),
            "attn.out.w": ((e, h, e // h), small),
            "norm2.g": ((e,), "1"),
            "ffn.gate.w": ((f, e), 0.02),
            "ffn.up.w": ((f, e), 0.02),
            "ffn.down.w": ((e, f), small),
        }
        out.update({f"block.{i}.{k}": v for k, v in block.items()})
    out["head.norm.g"] = ((e,), "1")
    if not job["tied"]:
        out["head.w"] = ((job["vocab"], e), 0.02)
    return out


def layout(job):
    """{name: (shape, deviation of its normal, or the constant that it starts from)}"""
    if is_llama(job):
        return llama_layout(job)
    e, f, h = job["embed"], job["ffn"], job["heads"]
    small = 0.02 / math.sqrt(2 * job["layers"])
    out = {"embed.tok.w": ((job["vocab"], e), 0.02), "embed.pos.w": ((job["context"], e), 0.02)}
    for i in range(job["layers"]):
        block = {
            "ln1.g": ((e,), "1"),
            "ln1.b": ((e,), "0"),
            "attn.qkv.w": ((3, h, e // h, e), 0.02),
            "attn.qkv.b": ((3, h, e // h), "0"),
            "attn.out.w": ((e, h, e // h), small),
            "attn.out.b": ((e,), "0"),
            "ln2.g": ((e,), "1"),
            "ln2.b": ((e,), "0"),
            "ffn.in.w": ((f, e), 0.02),
            "ffn.in.b": ((f,), "0"),
            "ffn.out.w": ((e, f), small),
            "ffn.out.b": ((e,), "0"),
        }
        out.update({f"block.{i}.{k}": v for k, v in block.items()})
    out.update({"head.ln.g": ((e,), "1"), "head.ln.b": ((e,), "0")})
    if not job["tied"]:
        out["head.w"] = ((job["vocab"], e), 0.02)
    return out


def initial(job, name, shape, init):
    if isinstance(init, str):
        return numpy.full(shape, float(init), numpy.float32)
    values = numbers.normals(numbers.key_of(job["seed"], name), math.prod(shape), numpy)
    return (values * float(numpy.float32(init))).astype(numpy.float32).reshape(shape)


def parameters(job, weights, dtype):
    stored = checkpoint.read(weights) if weights else None
    out = {}
    for name, (shape, init) in layout(job).items():
        value = initial(job, name, shape, init)
        if stored:
            value = numpy.array(stored[name][1], numpy.float32).reshape(shape)
        out[name] = torch.tensor(value, dtype=dtype, requires_grad=True)
    return out


def rotate(x, theta):
    """x [batch, heads, sequence, dim], rotated as the public Llama code does it."""
    s, d = x.shape[-2:]
    frequency = theta ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = torch.outer(torch.arange(s, dtype=x.dtype), frequency).repeat(1, 2)
    half = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    return x * angle.cos() + half * angle.sin()


def rms_norm(x, gain, eps=1e-5):
    """PyTorch's own; its formula where the version is older than 2.4."""
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, gain.shape, gain, eps=eps)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gain


def causal_attention(q, k, v):
    """PyTorch's own; its formula where the version is older than 2.0 (Debian 12 has 1.13)."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(later, -math.inf), -1) @ v


def dropout(job, x, name, step):
    """x [batch, sequence, embed] of a step, counted from 0, with the elements dropped that weft
    drops: it numbers the tokens of the run."""
    if "dropout" not in job:
        return x
    first = step * job["batch"] * job["sequence"] * job["embed"]
    keep = numbers.kept(job["seed"], name, first, x.numel(), job["dropout"], numpy)
    return x * torch.tensor(keep).reshape(x.shape) / (1 - job["dropout"])


def llama_forward(job, p, tokens, step):
    b, s = tokens.shape
    h, kv = job["heads"], job["kv_heads"]

    def norm(x, name):
        return rms_norm(x, p[name + ".g"])

    def project(x, name):
        return torch.einsum("bse,hde->bhsd", x, p[name])

    x = dropout(job, p["embed.tok.w"][tokens], "embed.drop", step)
    for i in range(job["layers"]):
        n = f"block.{i}."
        y = norm(x, n + "norm1")
        q = rotate(project(y, n + "attn.q.w"), job["rope_theta"])
        k = rotate(project(y, n + "attn.k.w"), job["rope_theta"])
        k, v = (t.repeat_interleave(h // kv, 1) for t in (k, project(y, n + "attn.v.w")))
        y = causal_attention(q, k, v)
        y = torch.einsum("bhsd,ehd->bse", y, p[n + "attn.out.w"])
        x = x + dropout(job, y, n + "attn.drop", step)
        y = norm(x, n + "norm2")
        y = F.silu(y @ p[n + "ffn.gate.w"].T) * (y @ p[n + "ffn.up.w"].T)
        x = x + dropout(job, y @ p[n + "ffn.down.w"].T, n + "ffn.drop", step)
    return norm(x, "head.norm") @ p["embed.tok.w" if job["tied"] else "head.w"].T


def forward(job, p, tokens, step):
    """Logits [batch, sequence, vocab] of tokens [batch, sequence]."""
    if is_llama(job):
        return llama_forward(job, p, tokens, step)
    b, s = tokens.shape
    e, h = job["embed"], job["heads"]

    def norm(x, name):
        return F.layer_norm(x, (e,), p[name + ".g"], p[name + ".b"], eps=1e-5)

    x = dropout(job, p["embed.tok.w"][tokens] + p["embed.pos.w"][:s], "embed.drop", step)
    for i in range(job["layers"]):
        n = f"block.{i}."
        qkv = norm(x, n + "ln1") @ p[n + "attn.qkv.w"].reshape(3 * e, e).T
        qkv = (qkv + p[n + "attn.qkv.b"].reshape(3 * e)).reshape(b, s, 3, h, e // h)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = causal_attention(q, k, v)
        y = y.transpose(1, 2).reshape(b, s, e)
        y = y @ p[n + "attn.out.w"].reshape(e, e).T + p[n + "attn.out.b"]
        x = x + dropout(job, y, n + "attn.drop", step)
        y = norm(x, n + "ln2") @ p[n + "ffn.in.w"].T + p[n + "ffn.in.b"]
        y = F.gelu(y, approximate="tanh")
        x = x + dropout(job, y @ p[n + "ffn.out.w"].T + p[n + "ffn.out.b"], n + "ffn.drop", step)
    return norm(x, "head.ln") @ p["embed.tok.w" if job["tied"] else "head.w"].T


def batch(job, tokens, step):
    rows = [
        numbers.sample(tokens, job["seed"], step * job["batch"] + i, job["sequence"])
        for i in range(job["batch"])
    ]
    return torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])


def learning_rate(job, count):
    """At update number `count`, from 1: linear warm-up, then a cosine down to min_lr."""
    if count < job["warmup"]:
        return job["lr"] * count / job["warmup"]
    t = (count - job["warmup"]) / max(1, job["steps"] - job["warmup"])
    return job["min_lr"] + (job["lr"] - job["min_lr"]) * 0.5 * (1 + math.cos(math.pi * t))


def places(n):
    """The elements of a tensor of n that are recorded."""
    return sorted({0, n // 7, n // 3, n // 2, n - 1})


def short(x):
    return float(f"{x:.12g}")


def summary(t):
    flat = t.detach().double().reshape(-1)
    return {
        "norm": short(flat.norm().item()),
        "at": places(len(flat)),
        "values": [short(flat[i].item()) for i in places(len(flat))],
    }


def train(job, p, tokens):
    def plain(name):
        return isinstance(layout(job)[name][1], str)  # biases and gains, which do not decay

    groups = [
        {"params": [p[n] for n in p if not plain(n)], "weight_decay": job["weight_decay"]},
        {"params": [p[n] for n in p if plain(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=job["lr"], betas=job["betas"], eps=job["eps"])
    steps, grads = [], {}
    for step in range(job["steps"]):
        x, y = batch(job, tokens, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(job, p, x, step).reshape(-1, job["vocab"]), y.reshape(-1))
        loss.backward()
        if step == 0:
            grads = {name: summary(t.grad) for name, t in p.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), job["clip"] or math.inf)
        lr = learning_rate(job, step + 1)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
        steps.append({"loss": short(loss.item()), "grad_norm": short(norm.item()), "lr": short(lr)})
    return {"grads": grads, "steps": steps, "after": {n: summary(t) for n, t in p.items()}}


def write(path, recorded):
    """As JSON with a line for each tensor and step."""

    def dump(value, depth):
        if depth == 0 or not isinstance(value, (dict, list)):
            return json.dumps(value)
        inner = [dump(v, depth - 1) for v in (value.values() if isinstance(value, dict) else value)]
        if isinstance(value, dict):
            inner = [f"{json.dumps(k)}: {v}" for k, v in zip(value, inner)]
            return "{" + ",\n".join(inner) + "}"
        return "[" + ",\n".join(inner) + "]"

    with open(path, "w") as f:
        f.write(dump(recorded, 4) + "\n")


def main():
    parser = argparse.ArgumentParser(description="models in PyTorch, as weft jobs say")
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("-o", "--out")
    parser.add_argument("--fp32", action="store_true", help="compute in fp32, not in fp64")
    parser.add_argument("--weights", help="checkpoint folder to start from")
    parser.add_argument("--tokens", help="token file; else that of tokens.py")
    args = parser.parse_args()
    torch.set_num_threads(1)
    recorded = {"torch": torch.__version__.split("+")[0], "jobs": {}}
    for path in args.jobs:
        job = read_job(path)
        tokens = (
            numbers.read_tokens(args.tokens)[0]
            if args.tokens
            else numbers.noisy_chain(4000, job["vocab"])
        )
        p = parameters(job, args.weights, torch.float32 if args.fp32 else torch.float64)
        name = os.path.splitext(os.path.basename(path))[0]
        start = {n: summary(t) for n, t in p.items()}
        recorded["jobs"][name] = dict(job=job, start=start, **train(job, p, tokens))
        steps = recorded["jobs"][name]["steps"]
        print(f"{name}: loss {steps[0]['loss']:.9f} -> {steps[-1]['loss']:.9f}")
    if args.out:
        write(args.out, recorded)


if __name__ == "__main__":
    main()
