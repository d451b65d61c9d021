"""What hf.py and peers.py share: a job that trains imported weights, and what it says."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "parity")]
import shapes  # noqa: E402
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

BATCH, SEQUENCE, STEPS = 8, 16, 20
RECORDED = os.path.join(HERE, "recorded.json")
JOB = {
    "run.seed": 3, "train.batch": BATCH, "train.microbatch": 2, "train.sequence": SEQUENCE,
    "train.precision": "fp32", "train.eval_every": 1000, "train.eval_batches": 1,
    "optim.lr": 1e-3, "optim.warmup": 0, "optim.schedule": "constant", "device.threads": 1,
    "data.order": "starts", "log.peak_gflops": 1, "log.progress": 0, "parallel.strategy": "dp",
}


def text_of(vocab):
    """Tokens of the validation set: one batch, and the target of its last token."""
    return shapes.tokens(vocab, BATCH * SEQUENCE + 1)


def write_data(folder, vocab):
    for name, tokens in (("valid", text_of(vocab)), ("train", shapes.tokens(vocab, 3000)[130:])):
        w.numbers_of_weft.write_tokens(os.path.join(folder, f"{name}-{vocab}.bin"), tokens, vocab)


def train(folder, ini, vocab, out, *, ranks=1, **keys):
    """Train and return the last validation loss."""
    job = {"data.train": f"{folder}/train-{vocab}.bin", "data.valid": f"{folder}/valid-{vocab}.bin",
           "run.steps": STEPS, "run.out": out} | JOB | {k.replace("__", "."): v
                                                        for k, v in keys.items()}
    w.weft("train", "-n", ranks, ini, *[f"{k}={v}" for k, v in job.items()])
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(x) for x in f]
    return [x["valid_loss"] for x in lines if "valid_loss" in x][-1]


def first_loss(folder, ini, vocab, out, **more):
    """The loss of the weights as they are: a step that changes nothing."""
    return train(folder, ini, vocab, out, run__steps=1, optim__lr=0, **more)


def recorded():
    with open(RECORDED, encoding="utf-8") as f:
        return json.load(f)["models"]


def near(a, b, bound):
    if not abs(a - b) <= bound * abs(b):
        raise AssertionError(f"{a} is not within {bound} of {b}")
