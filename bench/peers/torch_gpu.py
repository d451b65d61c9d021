"""GPT-2 and Llama training steps in PyTorch on one GPU, compiled: the peer of bench/gpu/run.

  torch_gpu.py --family gpt2 --layers 12 --heads 12 --width 768 --batch 32 --sequence 1024
  torch_gpu.py --ceilings           copy bandwidth, matrix products, attention

Weights are fp32 under autocast to bf16, the optimizer is fused AdamW, attention is PyTorch's
scaled_dot_product_attention; model and loss go through torch.compile. Prints a JSON line."""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_gpt2 import Block as Gpt2Block


class LlamaBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.kv, self.dim = o.heads, o.kv_heads, o.width // o.heads
        kv = self.kv * self.dim
        self.norm1, self.norm2 = nn.RMSNorm(o.width, eps=1e-5), nn.RMSNorm(o.width, eps=1e-5)
        self.q, self.k = (nn.Linear(o.width, n, bias=False) for n in (o.width, kv))
        self.v, self.out = (nn.Linear(o.width, n, bias=False) for n in (kv, o.width))
        self.gate, self.up = (nn.Linear(o.width, o.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(o.ffn, o.width, bias=False)

    def rotate(self, x, turn):
        cos, sin = turn
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x, turn):
        batch, tokens, width = x.shape
        n = self.norm1(x)
        q, k, v = (f(n).view(batch, tokens, -1, self.dim).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        q, k = self.rotate(q, turn), self.rotate(k, turn)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        gpt2 = o.family == "gpt2"
        self.token = nn.Embedding(o.vocab, o.width)
        self.position = nn.Embedding(o.sequence, o.width) if gpt2 else None
        self.blocks = nn.ModuleList(Gpt2Block(o.width, o.heads, o.ffn) if gpt2 else LlamaBlock(o)
                                    for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.width) if gpt2 else nn.RMSNorm(o.width, eps=1e-5)
        half = o.width // o.heads // 2
        rates = 10000.0 ** (-torch.arange(half) / half)
        angles = torch.arange(o.sequence)[:, None] * rates
        self.register_buffer("cos", angles.cos().bfloat16())
        self.register_buffer("sin", angles.sin().bfloat16())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.token(tokens)
        turn = ((self.cos, self.sin),)
        if self.position is not None:
            x, turn = x + self.position.weight, ()
        for block in self.blocks:
            x = block(x, *turn)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))


def timed(f, times=20, warm=5):
    """Median milliseconds of f() on the GPU."""
    for _ in range(warm):
        f()
    ms = []
    for _ in range(times):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        f()
        b.record()
        b.synchronize()
        ms.append(a.elapsed_time(b))
    return sorted(ms)[len(ms) // 2]


def ceilings():
    found = {}
    x = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    found["copy_gbps"] = 2 * x.numel() / timed(lambda: y.copy_(x)) * 1e-6
    del x, y
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found["product_tflops"] = 2 * 8192**3 / timed(lambda: a @ b) * 1e-9
    for name, shape, kv in (("gpt2", (64, 12, 1024, 64), 12), ("llama", (8, 32, 2048, 64), 8)):
        q = torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        k, v = (torch.randn((shape[0], kv, *shape[2:]), device="cuda", dtype=torch.bfloat16,
                            requires_grad=True) for _ in range(2))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            def forward():
                return F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                      enable_gqa=kv != shape[1])
            out = forward()
            d = torch.randn_like(out)
            found[f"attention_{name}_ms"] = timed(forward)
            found[f"attention_dx_{name}_ms"] = timed(
                lambda: torch.autograd.grad(out, (q, k, v), d, retain_graph=True))
    return found


def train(o):
    model = Model(o).cuda()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1},
                                   {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    net = torch.compile(model)
    data = torch.randint(0, 50257, (o.batch, o.sequence + 1),
                         generator=torch.Generator().manual_seed(1)).cuda()
    ms, loss = [], None
    for _ in range(o.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(o.passes):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = net(data[:, :-1], data[:, 1:]) / o.passes
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        ms.append(1e3 * (time.perf_counter() - start))
    later = sorted(ms[4:])
    return {"step_ms": [round(x, 2) for x in ms], "loss": loss.item() * o.passes,
            "tokens_per_s": o.batch * o.passes * o.sequence / later[len(later) // 2] * 1e3,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--ceilings", action="store_true")
    a.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")
    for name, value in (("layers", 12), ("heads", 12), ("kv-heads", 12), ("width", 768),
                        ("ffn", 3072), ("vocab", 50304), ("batch", 32), ("passes", 1),
                        ("sequence", 1024), ("steps", 14)):
        a.add_argument("--" + name, type=int, default=value)
    o = a.parse_args()
    found = {"peer": "torch " + torch.__version__, "gpu": torch.cuda.get_device_name()}
    print(json.dumps(found | (ceilings() if o.ceilings else train(o))))


if __name__ == "__main__":
    main()
