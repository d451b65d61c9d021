"""The models that the tests of this folder import and export: every architecture and shape that
docs/HUGGINGFACE.md promises, small. A model's values are those of values(), which needs no library,
so that its files need not be kept."""

LLAMA = dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
             intermediate_size=48, vocab_size=67, max_position_embeddings=64, rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2)
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}

# name: architecture, type of the file, fields of the configuration
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "float32", dict(
        n_layer=2, n_head=4, n_embd=32, n_inner=None, vocab_size=67, n_positions=64,
        bos_token_id=1, eos_token_id=2)),
    "gpt2_untied": ("GPT2LMHeadModel", "bfloat16", dict(
        n_layer=2, n_head=3, n_embd=24, n_inner=40, vocab_size=61, n_positions=32,
        tie_word_embeddings=False, activation_function="gelu_pytorch_tanh", bos_token_id=1,
        eos_token_id=2)),
    "llama2": ("LlamaForCausalLM", "float32", LLAMA | dict(num_key_value_heads=4)),
    "llama3": ("LlamaForCausalLM", "float32", LLAMA | dict(
        rope_theta=500000.0, rope_scaling=ROPE, head_dim=16, tie_word_embeddings=True)),
    "llama_linear": ("LlamaForCausalLM", "float16", LLAMA | dict(
        rope_scaling={"rope_type": "linear", "factor": 4.0}, hidden_act="gelu_pytorch_tanh")),
    "mistral": ("MistralForCausalLM", "bfloat16", LLAMA | dict(sliding_window=None, head_dim=4)),
    "qwen2": ("Qwen2ForCausalLM", "float32", LLAMA | dict(
        use_sliding_window=False, rope_theta=1000000.0)),
    "qwen3": ("Qwen3ForCausalLM", "float32", LLAMA | dict(head_dim=12, use_sliding_window=False)),
}


def llama_tensors(config):
    """(name, shape) of each tensor of a Llama with a head that is tied, for weights of any size."""
    e, f = config["hidden_size"], config["intermediate_size"]
    yield "model.embed_tokens.weight", [config["vocab_size"], e]
    for i in range(config["num_hidden_layers"]):
        for name, shape in (("input_layernorm", [e]), ("post_attention_layernorm", [e]),
                            ("self_attn.q_proj", [e, e]), ("self_attn.k_proj", [e, e]),
                            ("self_attn.v_proj", [e, e]), ("self_attn.o_proj", [e, e]),
                            ("mlp.gate_proj", [f, e]), ("mlp.up_proj", [f, e]),
                            ("mlp.down_proj", [e, f])):
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", [e]


def gpt2_tensors(config):
    """The same of a GPT-2."""
    e = config["n_embd"]
    yield "transformer.wte.weight", [config["vocab_size"], e]
    yield "transformer.wpe.weight", [config["n_positions"], e]
    for i in range(config["n_layer"]):
        for name, shape in (("ln_1.weight", [e]), ("ln_1.bias", [e]), ("ln_2.weight", [e]),
                            ("ln_2.bias", [e]), ("attn.c_attn.weight", [e, 3 * e]),
                            ("attn.c_attn.bias", [3 * e]), ("attn.c_proj.weight", [e, e]),
                            ("attn.c_proj.bias", [e]), ("mlp.c_fc.weight", [e, 4 * e]),
                            ("mlp.c_fc.bias", [4 * e]), ("mlp.c_proj.weight", [4 * e, e]),
                            ("mlp.c_proj.bias", [e])):
            yield f"transformer.h.{i}.{name}", shape
    yield "transformer.ln_f.weight", [e]
    yield "transformer.ln_f.bias", [e]


def values(name, count):
    """`count` numbers that depend on the tensor's name alone; fp32, fp16 and bf16 have all of them.
    Gains lie around 1. Queries and keys are large, so that positions matter."""
    state = sum((i + 1) * ord(c) for i, c in enumerate(name)) % 65521 + 1
    gain = name.endswith("weight") and ("norm" in name or "ln_" in name)
    wide = any(x in name for x in ("q_proj", "k_proj", "c_attn.weight"))
    out = []
    for _ in range(count):
        state = state * 48271 % 2147483647
        x = state / 2147483647 - 0.5
        out.append(1 + round(x * 32) / 64 if gain else round(x * 128) / (64 if wide else 512))
    return out


def tokens(vocab, count):
    """The same text for everybody."""
    return [(i * i * 7 + i * 3 + i // 5) % vocab for i in range(count)]
