#!/usr/bin/env python3
"""Do the tables of names of gpt2 and llama fit models of Hugging Face transformers?

  huggingface.py FAMILIES                   names and shapes, with those in huggingface.json
  huggingface.py FAMILIES --numbers         with the installed transformers: its small random models
                                            have the recorded names and shapes, and their logits are
                                            those of reference.py for the converted parameters; 77:
                                            it is not installed
  huggingface.py FAMILIES --record          write huggingface.json with the installed transformers

FAMILIES is the program of families.c, which prints the tables and the parameters that weft has for
given options. The options come from the configuration by the table of fields alone."""
import json
import math
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "huggingface.json")
MODELS = [  # family, what differs from the defaults of transformers
    ("gpt2", dict(n_layer=2, n_head=2, n_embd=8, n_inner=12, vocab_size=11, n_positions=6)),
    ("gpt2", dict(n_layer=1, n_head=5, n_embd=15, n_inner=None, vocab_size=23, n_positions=9,
                  tie_word_embeddings=False)),
    ("gpt2", dict(n_layer=11, n_head=1, n_embd=4, n_inner=6, vocab_size=7, n_positions=5,
                  activation_function="gelu_pytorch_tanh")),
    ("llama", dict(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                   hidden_size=16, intermediate_size=12, vocab_size=11, rms_norm_eps=1e-5,
                   max_position_embeddings=6)),
    ("llama", dict(num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3,
                   hidden_size=18, intermediate_size=20, vocab_size=17, rms_norm_eps=1e-5,
                   max_position_embeddings=7, tie_word_embeddings=True, rope_theta=500.0)),
    ("llama", dict(num_hidden_layers=11, num_attention_heads=6, num_key_value_heads=1,
                   hidden_size=24, intermediate_size=10, vocab_size=9, rms_norm_eps=1e-5,
                   max_position_embeddings=5)),
]


class Tables:
    """What the program of families.c prints."""

    def __init__(self, program, family, options=()):
        run = subprocess.run([program, family, *(f"{k}={v}" for k, v in dict(options).items())],
                             capture_output=True, text=True, check=False)
        if run.returncode:
            raise ValueError(run.stderr)
        self.tensors, self.fields, self.params = [], [], {}
        for line in run.stdout.splitlines():
            kind, *parts = line.split("\t")
            parts = [None if p == "-" else p for p in parts]
            if kind == "format":
                self.name, self.architecture, self.prefix = parts
            elif kind == "tensor":
                self.tensors.append(parts)
            elif kind == "field":
                self.fields.append(parts)
            else:
                self.params[parts[0]] = [(a.split(":")[0], int(a.split(":")[1]))
                                         for a in parts[1:]]


def as_text(value):
    return json.dumps(value) if not isinstance(value, str) else value


def field(config, names):
    """The value of the first of these fields that the configuration has, as text; None: none."""
    for name in names.split("|"):
        at = config
        for part in name.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        if at is not None:
            return as_text(at)
    return None


def computed(config, text):
    """"4*n_embd" and "hidden_size/num_attention_heads" as numbers; other text as it is."""
    parts = re.fullmatch(r"(\w+)([*/])(\w+)", text)
    if not parts:
        return text
    a, b = (int(x) if x.isdigit() else int(field(config, x)) for x in parts.group(1, 3))
    return str(a * b if parts.group(2) == "*" else a // b)


def options_of(tables, config):
    """The options of [model] for a configuration."""
    out = {}
    for key, names, dflt, values in tables.fields:
        value = field(config, names)
        if value is None:
            if dflt is None:
                raise ValueError(f"the configuration has no {names}")
            value = computed(config, dflt)
        if key is None:
            lawful = [computed(config, v) for v in values.split("|")]
            if value not in lawful:
                raise ValueError(f"{names} is {value}; {' or '.join(lawful)} is expected")
        else:
            pairs = dict(p.split("=") for p in values.split("|")) if values else {}
            if pairs and value not in pairs:
                raise ValueError(f"{names} is {value}; it may be {', '.join(pairs)}")
            out[key] = pairs.get(value, value)
    return out


def mapped(tables):
    """{name there: (param, [[(axis, size), ...] of each axis there])}"""
    out = {}
    for param, axes in tables.params.items():
        rows = [(flags, name, there) for flags, pattern, name, there in tables.tensors
                if pattern and re.fullmatch(re.escape(pattern).replace(r"\*", r"\d+"), param)]
        assert len(rows) == 1, f"{param} has {len(rows)} rows"
        flags, name, there = rows[0]
        number = re.search(r"\.(\d+)\.", param)
        name = name.replace("*", number.group(1)) if number else name
        groups = [[a] for a, _ in axes]
        if there:
            groups = [g.strip("()").split() for g in re.findall(r"\([^)]*\)|[^ ]+", there)]
        sizes = dict(axes)
        full = name if int(flags) & 1 else tables.prefix + name
        assert full not in out, f"two parameters are {full}"
        out[full] = (param, [[(a, sizes[a]) for a in g] for g in groups])
    return out


def expect_shapes(tables, shapes):
    """Every tensor there is a parameter of this shape, but the head of a tied model, which has its
    own name there."""
    named = mapped(tables)
    skipped = [re.escape(tables.prefix + name).replace(r"\*", r"\d+")
               for _, param, name, _ in tables.tensors if param is None]
    for name, shape in shapes.items():
        if any(re.fullmatch(x, name) for x in skipped):
            continue
        if name == "lm_head.weight" and name not in named:
            continue
        assert name in named, f"{name} is no parameter"
        here = [math.prod(size for _, size in group) for group in named[name][1]]
        assert here == list(shape), f"{name}: {shape} there, {here} by the table"
    assert not set(named) - set(shapes), f"not there: {sorted(set(named) - set(shapes))}"


def check(program, model):
    """One recorded model; also that a difference would be found."""
    tables = Tables(program, model["family"])
    assert tables.architecture in model["config"]["architectures"]
    options = options_of(tables, model["config"])
    tables = Tables(program, model["family"], options)
    masks = {tables.prefix + name.replace("*", "0"): [1]
             for _, param, name, _ in tables.tensors if param is None}
    assert masks
    expect_shapes(tables, model["shapes"] | masks)
    sizes = ["layers", "embed", "ffn", "vocab"] + ["context"] * (model["family"] == "gpt2")
    for key in sizes:  # of tensors there
        changed = options | {key: str(int(options[key]) * 2)}
        try:
            expect_shapes(Tables(program, model["family"], changed), model["shapes"])
        except (AssertionError, ValueError):
            continue
        raise AssertionError(f"another {key} makes no difference")
    return options


def refused(program):
    """Models that weft does not have."""
    for family, change, words in (("gpt2", {"activation_function": "relu"}, "gelu_new or"),
                                  ("gpt2", {"scale_attn_weights": False}, "true is expected"),
                                  ("llama", {"rope_scaling": {"type": "dynamic"}}, "it may be"),
                                  ("llama", {"mlp_bias": True}, "mlp_bias is true"),
                                  ("llama", {"attention_bias": True}, "false is expected"),
                                  ("llama", {"hidden_size": None}, "has no hidden_size")):
        with open(RECORDED, encoding="utf-8") as f:
            model = next(m for m in json.load(f)["models"] if m["family"] == family)
        try:
            options_of(Tables(program, family), model["config"] | change)
        except ValueError as e:
            assert words in str(e), f"'{e}' does not say '{words}'"
            continue
        raise AssertionError(f"{change} is accepted")


# --- with transformers ---


def built(family, change):
    import transformers
    kind = {"gpt2": ("GPT2Config", "GPT2LMHeadModel"),
            "llama": ("LlamaConfig", "LlamaForCausalLM")}[family]
    config = getattr(transformers, kind[0])(**change, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = getattr(transformers, kind[1])(config).eval()
    said = {k: v for k, v in config.to_dict().items() if not k.endswith("_pdrop")}
    return model, said | {"architectures": [kind[1]]}


def record(family, change):
    """What is kept of a model: the fields that its table names, and the shapes."""
    model, config = built(family, change)
    shapes = {k: list(v.shape) for k, v in model.state_dict().items()}
    return {"family": family, "config": config, "shapes": shapes}


def trimmed(program, model):
    """Without fields that no table names."""
    names = {n.split(".")[0] for f in Tables(program, model["family"]).fields
             for n in f[1].split("|")} | {"architectures", "model_type"}
    return model | {"config": {k: v for k, v in model["config"].items() if k in names}}


def expect_numbers(program, family, change):
    """Logits of the model there, and of reference.py for the same parameters under our names."""
    import torch
    import reference
    torch.manual_seed(len(str(change)))
    torch.set_default_dtype(torch.float64)
    model, config = built(family, change)
    model = model.double()
    for value in model.state_dict().values():  # biases and gains, too, differ in every element
        value += 0.1 * torch.randn_like(value) if value.is_floating_point() else 0
    options = options_of(Tables(program, family), config)
    tables = Tables(program, family, options)
    there, params = model.state_dict(), {}
    for name, (param, groups) in mapped(tables).items():
        value = there[name]
        flat = [axis for group in groups for axis in group]
        value = value.reshape([size for _, size in flat])
        order = [[a for a, _ in flat].index(a) for a, _ in tables.params[param]]
        params[param] = value.permute(order)
    job = {k: int(options[k]) for k in "layers heads embed ffn context vocab".split()}
    job["tied"] = options["tied"] == "on"
    if family == "llama":
        job |= {"kv_heads": int(options["kv_heads"]), "rope_theta": float(options["rope_theta"])}
    tokens = torch.randint(job["vocab"], (3, job["context"]))
    with torch.no_grad():
        far = (model(tokens).logits - reference.forward(job, params, tokens, 0)).abs().max().item()
        size = model(tokens).logits.abs().max().item()
    assert size > 0.01 and far < 1e-6 * size, f"{family} {change}: logits differ by {far} of {size}"
    return far / size


def with_transformers():
    """Go on in a Python that has transformers: this one, or that of cmake/python.sh."""
    if importable():
        return
    python = os.path.join(HERE, "../../build/python/bin/python3")
    if os.path.exists(python) and not subprocess.run(
            [python, "-c", "import torch, transformers"], capture_output=True,
            check=False).returncode:
        os.execv(python, [python, "-B", *sys.argv])
    print("transformers is not installed here")
    sys.exit(77)


def importable():
    return not subprocess.run([sys.executable, "-c", "import torch, transformers"],
                              capture_output=True, check=False).returncode


def main():
    program, *how = sys.argv[1:]
    if not how:
        with open(RECORDED, encoding="utf-8") as f:
            models = json.load(f)["models"]
        assert len(models) == len(MODELS)
        for model in models:
            check(program, model)
        refused(program)
        print(f"{len(models)} models have our parameters")
        return
    with_transformers()
    import transformers
    fresh = [trimmed(program, record(*m)) for m in MODELS]
    if how == ["--record"]:
        with open(RECORDED, "w", encoding="utf-8") as f:
            lines = ",\n".join(json.dumps(m, sort_keys=True) for m in fresh)
            f.write(f'{{"transformers": "{transformers.__version__}", "models": [\n{lines}\n]}}\n')
        return
    with open(RECORDED, encoding="utf-8") as f:
        old = json.load(f)["models"]
    for a, b in zip(old, fresh, strict=True):
        assert a["shapes"] == b["shapes"], f"{b['family']}: other shapes than recorded"
        check(program, b)
    print("logits differ by at most", max(expect_numbers(program, *m) for m in MODELS))


if __name__ == "__main__":
    sys.path.insert(0, HERE)
    main()
