#!/usr/bin/env python3
"""Greedy generation with transformers on the CPU; prints one JSON line a line of standard input.

  bench/peers/torch_generate.py --layers 12 --heads 12 --embed 768 --vocab 50304 --context 1024
    --precision bf16 --threads 2

Random weights: the speed does not depend on them. A line of input is "PROMPT TOKENS", two numbers;
the process stays, so that a run has no start in it."""
import argparse
import json
import sys
import time

import torch
import transformers


def main():
    p = argparse.ArgumentParser()
    for name in ("layers", "heads", "embed", "vocab", "context", "threads"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=o.layers, n_head=o.heads, n_embd=o.embed,
                                     vocab_size=o.vocab, n_positions=o.context)
    model = transformers.GPT2LMHeadModel(config).eval()
    model = model.to(torch.bfloat16 if o.precision == "bf16" else torch.float32)

    def run(ids, tokens):
        began = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                 min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0)
        assert out.shape[1] == ids.shape[1] + tokens
        return time.perf_counter() - began

    run(torch.ones((1, 4), dtype=torch.long), 4)
    print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}),
          flush=True)
    for line in sys.stdin:
        prompt, tokens = (int(x) for x in line.split())
        ids = torch.arange(prompt, dtype=torch.long).remainder(o.vocab)[None]
        first, whole = run(ids, 1), run(ids, tokens)
        print(json.dumps({"prompt_seconds": first,
                          "tokens_per_s": (tokens - 1) / (whole - first)}), flush=True)


if __name__ == "__main__":
    main()
