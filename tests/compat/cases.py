"""cases.py: the jobs whose files are kept, and how a file of a run is read. make.py makes the files
of one version with them; the tests read what make.py recorded."""
import hashlib
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pytorch"))
import checkpoint  # noqa: E402  (tests/pytorch/checkpoint.py)

STEPS, SAVED = 8, 4
FOLDER = f"checkpoints/step-{SAVED:08}"
SAMPLE = ("--prompt", "The old", "--tokens", "12", "--temperature", "0")
MAGIC, MAGIC_GPT2, HEADER_WORDS = 20261121, 20240520, 256

# Kernels of one instruction set, and products of one: with these the bits are those of any x86-64.
BITS = {"DNNL_MAX_CPU_ISA": "SSE41"}
BASE = {
    "run": {"name": "compat", "out": "run", "seed": 7, "steps": STEPS},
    "model": {"layers": 1, "heads": 2, "embed": 4, "ffn": 8, "context": 8, "vocab": 0},
    "data": {"train": "chain.tokens"},
    "train": {"batch": 4, "microbatch": 2, "sequence": 8, "precision": "fp32", "eval_every": 0},
    "parallel": {"strategy": "none"},
    "optim": {"rule": "adamw", "lr": 0.01, "warmup": 2},
    "comm": {"plugin": "shm"},
    "device": {"plugin": "cpu", "threads": 1, "isa": "v2"},
    "checkpoint": {"every": SAVED, "keep": 0},
    "log": {"progress": 0, "peak_gflops": 1},
}


def of(**changes):
    """BASE with other values: section_key = value."""
    job = {name: dict(keys) for name, keys in BASE.items()}
    for name, value in changes.items():
        section, key = name.split("_", 1)
        job.setdefault(section, {})[key] = value
    return job


# name: (ranks, job). Each is trained, saved in the middle and resumed.
RUNS = {
    "one": (1, of(model_tied="off", log_trace_steps="2-3")),
    "one-adam-bf16": (1, of(optim_rule="adam", train_precision="bf16", optim_schedule="linear")),
    "one-sgd-fp16": (1, of(optim_rule="sgd", optim_momentum=0.9, train_precision="fp16")),
    "one-sgd": (1, of(optim_rule="sgd", optim_lr=0.1, train_recompute="block")),
    "one-llama": (1, of(model_family="llama", model_kv_heads=1, train_accumulate="compute",
                        train_precision="bf16")),
    "one-bytes": (1, of(data_train="text.tokens", optim_rule="sgd")),
    "dp2": (2, of(parallel_strategy="dp", comm_plugin="tcp", optim_rule="sgd")),
    "dp2-int8": (2, of(parallel_strategy="dp", comm_compress="int8", optim_rule="adam")),
    "dp2-zero1": (2, of(parallel_strategy="dp", optim_placement="zero1")),
    "dp2-zero2-bf16": (2, of(parallel_strategy="dp", optim_placement="zero2", comm_plugin="tcp",
                             comm_compress="bf16", train_precision="bf16")),
    "dp2-zero3": (2, of(parallel_strategy="dp", optim_placement="zero3")),
    "tp2": (2, of(parallel_strategy="tp", parallel_sequence="on")),
    "pp2-bf16": (2, of(parallel_strategy="pp", train_microbatch=1, train_precision="bf16")),
    "hybrid4": (4, of(parallel_strategy="tp, pp, dp", parallel_tp=2, parallel_pp=2,
                      parallel_dp=1)),
}
# Planned and not trained: what a test machine may lack, and keys that the runs above leave out.
PLANS = {
    "large": (64, of(model_layers=8, model_heads=8, model_embed=64, model_ffn=128, model_context=64,
                     train_sequence=64, train_batch=64, parallel_strategy="tp, pp, dp",
                     parallel_tp=4, parallel_pp=4, parallel_schedule="interleaved",
                     parallel_virtual=2, optim_placement="zero1", comm_algorithm="ring")),
    "gpt2-tokens": (1, of(data_train="gpt2.tokens")),
    "tuned": (4, of(train_microbatch=1, parallel_strategy="dp", comm_tuned="tuned.ini",
                    comm_plugin="tcp", train_bucket_mb=0.001)),
}
SWEEP = of(parallel_strategy="dp", comm_plugin="shm") | {"sweep": {
    "ranks": "1, 2", "optim.placement": "none, zero1", "repeats": 1, "warmup": 1, "steps": 2,
    "skip": "ranks=1 & optim.placement!=none", "out": "swept"}}

BENCH = {"comm": {"plugin": "tcp"}, "bench": {"op": "all_reduce, all_gather", "min": 8, "max": 64,
                                              "type": "fp32", "out": "bench"}}

# Every section of a job file but [sweep] and [bench], which are in files of their own.
EVERY = of(
    run_deterministic="on", run_deadline=30, run_join_timeout=30, run_frozen_after=4,
    model_tied="off", model_norm_eps=1e-6, data_valid="chain.tokens", train_clip=0.5,
    train_eval_every=4, train_eval_batches=2, train_bucket_mb=0.5, train_recompute="selective",
    parallel_strategy="dp, tp", parallel_dp=2, parallel_tp=2, optim_rule="adamw",
    optim_placement="zero1", optim_betas="0.8, 0.9", optim_eps=1e-7, optim_weight_decay=0.2,
    optim_schedule="cosine", optim_min_lr=0.001, comm_plugin="tcp", comm_near="none",
    comm_algorithm="all_reduce:0-64K=doubling, all_reduce=ring, *=auto", comm_reduce=8,
    comm_feedback="off", log_level="warn", log_trace_steps="1-2",
) | {
    "comm.tcp": {"encrypt": "on", "sndbuf": "1M", "rcvbuf": "1M", "latency": 20, "message": 2,
                 "bandwidth": 5},
    "comm.dp": {"plugin": "tcp", "algorithm": "auto", "compress": "fp16"},
    "comm.tp": {"plugin": "shm", "algorithm": "auto"},
    "comm.shm": {"ring": "128K", "latency": 1, "message": 0.1, "bandwidth": 20, "mapped": 10},
}
PLANS["every-section"] = (4, EVERY)


def text_of(job):
    """The job as an INI."""
    return "\n".join(f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
                     for name, keys in job.items())


def chain(count, vocab):
    """A sequence of tokens that a model can learn a little of."""
    out, state = [], 1
    for i in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        out.append((state >> 16) % vocab if i % 3 == 0 else (out[-1] * 5 + 3) % vocab)
    return out


def write_tokens(path, tokens, vocab, magic=MAGIC, version=1):
    """A token file; plugins/data/tokens/file.h says what its header is."""
    head = [magic, version, len(tokens)] + ([vocab] if magic == MAGIC else [])
    head += [0] * (HEADER_WORDS - len(head))
    with open(path, "wb") as f:
        f.write(struct.pack(f"<{HEADER_WORDS}i{len(tokens)}H", *head, *tokens))


def tensors(folder):
    """{name in the shards: sum of type, shape and bytes} of a checkpoint."""
    out = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        for key, dtype, shape, data in checkpoint.entries(os.path.join(folder, name))[0]:
            out[key] = hashlib.sha256(f"{dtype} {shape} ".encode() + data).hexdigest()
    return out


def digest(folder, without=()):
    """One sum over all tensors of a checkpoint but those named, whichever shard each is in."""
    sums = {k: v for k, v in tensors(folder).items() if k not in without}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def losses(folder):
    """Step, loss and gradient norm of each line of the metrics, as written."""
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line, parse_float=str, parse_int=str) for line in f]
    return [[x["step"], x["loss"], x["grad_norm"]] for x in lines]
