#!/usr/bin/env python3
"""record.py WEFT [--check]: does weft continue tokens as transformers does?

A tiny model of each family is trained by weft for two steps. Its weights are given to transformers
by the names of the family's format, and both continue the same ids greedily, transformers with
generate() and its own cache. The ids have to be equal; so are the log-probabilities, to 1e-4.
Nothing is recorded: the peer runs. Without torch and transformers it skips (77)."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pytorch"))
import checkpoint  # noqa: E402  (tests/pytorch/checkpoint.py)

WEFT = os.path.abspath(sys.argv[1])
PYTHON = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                      "../../build/python/bin/python3"))
JOB = """[run]
out = run
steps = 2
[model]
{model}layers = 2
heads = 4
embed = 32
ffn = 64
context = 128
vocab = 256
[data]
train = train.bin
[train]
batch = 2
microbatch = 2
sequence = 32
precision = fp32
eval_every = 0
[optim]
lr = 0.03
[checkpoint]
every = 2
[log]
progress = 0
level = error
"""
FAMILIES = {"gpt2": "family = gpt2\n", "llama": "family = llama\nkv_heads = 2\n"}


def weft(place, *words):
    return subprocess.run([WEFT, *words], cwd=place, check=True, capture_output=True,
                          text=True).stdout


def tensors(folder, torch):
    """The parameters of a checkpoint of one rank."""
    found = {}
    for name in os.listdir(folder):
        if not name.endswith(".safetensors"):
            continue
        for key, dtype, shape, data in checkpoint.entries(os.path.join(folder, name))[0]:
            if dtype == "F32":
                flat = torch.frombuffer(bytearray(data), dtype=torch.float32)
                found[key] = flat.reshape(shape)
    return found


def gpt2(t, transformers):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_head=4, n_embd=32, n_inner=64, vocab_size=256, n_positions=128))
    state = {"transformer.wte.weight": t["embed.tok.w"], "lm_head.weight": t["embed.tok.w"],
             "transformer.wpe.weight": t["embed.pos.w"]}
    for i in range(2):
        to, at = f"transformer.h.{i}.", f"block.{i}."
        state[to + "attn.c_attn.weight"] = t[at + "attn.qkv.w"].reshape(96, 32).T
        state[to + "attn.c_attn.bias"] = t[at + "attn.qkv.b"].reshape(96)
        state[to + "attn.c_proj.weight"] = t[at + "attn.out.w"].reshape(32, 32).T
        state[to + "attn.c_proj.bias"] = t[at + "attn.out.b"]
        state[to + "mlp.c_fc.weight"] = t[at + "ffn.in.w"].T
        state[to + "mlp.c_fc.bias"] = t[at + "ffn.in.b"]
        state[to + "mlp.c_proj.weight"] = t[at + "ffn.out.w"].T
        state[to + "mlp.c_proj.bias"] = t[at + "ffn.out.b"]
        for k in (1, 2):
            state[to + f"ln_{k}.weight"] = t[at + f"ln{k}.g"]
            state[to + f"ln_{k}.bias"] = t[at + f"ln{k}.b"]
    state["transformer.ln_f.weight"] = t["head.ln.g"]
    state["transformer.ln_f.bias"] = t["head.ln.b"]
    return model, state


def llama(t, transformers):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
        intermediate_size=64, vocab_size=256, max_position_embeddings=128, rms_norm_eps=1e-5,
        tie_word_embeddings=False))
    state = {"model.embed_tokens.weight": t["embed.tok.w"], "lm_head.weight": t["head.w"],
             "model.norm.weight": t["head.norm.g"]}
    for i in range(2):
        to, at = f"model.layers.{i}.", f"block.{i}."
        for there, here in (("q", "q"), ("k", "k"), ("v", "v")):
            state[to + f"self_attn.{there}_proj.weight"] = \
                t[at + f"attn.{here}.w"].reshape(-1, 32)
        state[to + "self_attn.o_proj.weight"] = t[at + "attn.out.w"].reshape(32, 32)
        for name in ("gate", "up", "down"):
            state[to + f"mlp.{name}_proj.weight"] = t[at + f"ffn.{name}.w"]
        state[to + "input_layernorm.weight"] = t[at + "norm1.g"]
        state[to + "post_attention_layernorm.weight"] = t[at + "norm2.g"]
    return model, state


def check(family, torch, transformers):
    with tempfile.TemporaryDirectory() as place:
        with open(os.path.join(place, "text"), "w", encoding="utf-8") as f:
            f.writelines(f"{i * i % 9973} is the square of {i}.\n" for i in range(400))
        with open(os.path.join(place, "job.ini"), "w", encoding="utf-8") as f:
            f.write(JOB.format(model=FAMILIES[family]))
        weft(place, "data", "text", "-o", "train.bin")
        weft(place, "train", "job.ini")
        folder = os.path.join(place, "run", "checkpoints", "step-00000002")
        prompt = [(7 * i * i + 3) % 256 for i in range(70)]
        ours = json.loads(weft(place, "sample", folder, "--ids", ",".join(map(str, prompt)),
                               "--tokens", "50", "--temperature", "0", "--past-end", "--json"))
        t = tensors(folder, torch)
    model, state = {"gpt2": gpt2, "llama": llama}[family](t, transformers)
    left = model.load_state_dict({k: v.contiguous() for k, v in state.items()}, strict=False)
    assert not left.unexpected_keys and all("attn.bias" in k or "masked" in k or "rotary" in k
                                            for k in left.missing_keys), left
    model.eval()
    model.generation_config.eos_token_id = None  # no token ends the text
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                             max_new_tokens=50, pad_token_id=0)[0].tolist()
        logs = torch.log_softmax(model(torch.tensor([out])).logits[0].double(), -1)
    assert ours["cached"]
    assert out[70:] == ours["ids"], (family, out[70:], ours["ids"])
    apart = max(abs(logs[69 + i, token].item() - ours["log_probabilities"][i])
                for i, token in enumerate(ours["ids"]))
    assert apart < 1e-4, (family, apart)
    print(f"{family}: 50 tokens behind 70 are those of transformers {transformers.__version__}, "
          f"log-probabilities {apart:.1e} apart")


def main():
    try:
        import torch
        import transformers
    except ImportError as e:
        if PYTHON != sys.executable and os.path.exists(PYTHON):  # that of cmake/python.sh
            os.execv(PYTHON, [PYTHON, "-B", *sys.argv])
        print(f"there is no peer here: {e}")
        sys.exit(77)
    for family in FAMILIES:
        check(family, torch, transformers)


if __name__ == "__main__":
    main()
