"""A GPT-2 training step in PyTorch on the CPU: the peer of `weft train`.

  torch_gpt2.py --batch 4 --sequence 64 --threads 2 --precision bf16 --steps 8

Prints a JSON line: milliseconds of each step, tokens a second (median without the first two steps),
peak resident bytes, the version. Same shape as weft's default model, AdamW fused where this PyTorch
has it, attention through scaled_dot_product_attention, bf16 through autocast with fp32 weights;
--compile compiles the model. bench/train.py preloads an allocator that keeps memory. Started
with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT it runs as DistributedDataParallel over Gloo;
--shard state puts ZeroRedundancyOptimizer under it, --shard all is fully_shard (FSDP2)."""
import argparse
import json
import os
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, 2)
        q, k, v = (z.view(batch, tokens, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocab, width, layers, heads, context):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, 4 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def main():
    a = argparse.ArgumentParser()
    for name, value in (("batch", 4), ("sequence", 64), ("threads", 2), ("steps", 8),
                        ("vocab", 50304), ("width", 768), ("layers", 12), ("heads", 12),
                        ("context", 1024)):
        a.add_argument("--" + name, type=int, default=value)
    a.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    a.add_argument("--shard", choices=("none", "state", "all"), default="none")
    a.add_argument("--compile", action="store_true")
    o = a.parse_args()
    torch.set_num_threads(o.threads)
    model = net = Gpt2(o.vocab, o.width, o.layers, o.heads, o.context)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        if o.shard == "all":
            from torch.distributed.fsdp import fully_shard
            mesh = torch.distributed.init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        else:
            net = nn.parallel.DistributedDataParallel(model)
    if o.compile:
        net = torch.compile(net)
    version = tuple(int(x) for x in torch.__version__.split(".")[:2])
    fused = {"fused": True} if version >= (2, 4) else {}  # of the CPU
    if o.shard == "state":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4,
                                            **fused)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
    data = torch.randint(0, min(o.vocab, 50257), (o.batch, o.sequence + 1),
                         generator=torch.Generator().manual_seed(1))
    ms = []
    for _ in range(o.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.precision == "bf16"):
            loss = net(data[:, :-1], data[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ms.append(1e3 * (time.perf_counter() - start))
    later = sorted(ms[2:] or ms)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps({
            "peer": f"torch {torch.__version__}{', compiled' if o.compile else ''}",
            "allocator": os.environ.get("LD_PRELOAD", ""),
            "precision": o.precision, "loss": loss.item(),
            "step_ms": [round(x, 1) for x in ms],
            "tokens_per_s": o.batch * o.sequence / later[len(later) // 2] * 1e3,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
