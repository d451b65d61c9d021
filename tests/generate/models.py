"""models.py: small models of both families, trained for a few steps, for the tests of this
folder. With an odd vocabulary, so that nothing divides evenly."""
import json
import os
import re
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, name) for name in ("cli", "pytorch")]
import checkpoint  # noqa: E402  (tests/pytorch/checkpoint.py)
import started  # noqa: E402  (tests/cli/started.py)

MODEL = {
    "gpt2": "family = gpt2\nlayers = 3\nheads = 4\n",
    "llama": "family = llama\nlayers = 3\nheads = 4\nkv_heads = 2\n",
}
JOB = """[run]
out = {name}
steps = 4
[model]
{model}embed = 32
ffn = 64
context = 96
vocab = 256
[data]
train = train.bin
valid = valid.bin
[train]
batch = 4
microbatch = 2
sequence = 48
precision = {precision}
eval_every = 4
eval_batches = {batches}
[optim]
lr = 3e-3
[checkpoint]
every = 4
[log]
progress = 0
"""


class Case(started.Case):
    def trained(self, family, precision="fp32", batches=1000):
        """The folder of a checkpoint."""
        if not os.path.exists(self.path("train.bin")):
            self.make_data(21)
        name = f"{family}-{precision}"
        self.write(f"{name}.ini", JOB.format(name=name, model=MODEL[family], precision=precision,
                                             batches=batches))
        self.weft("train", f"{name}.ini")
        return f"{name}/checkpoints/step-00000004"

    def forge(self, folder, section, key, value):
        """Give a key of a checkpoint's job another value, and make its sum right."""
        with open(self.path(folder, "manifest.json"), encoding="utf-8") as f:
            manifest = json.load(f)
        sections = re.split(r"(?m)^(?=\[)", manifest["job"])
        sections = [re.sub(rf"(?m)^{key} =.*\n", "", x) if x.startswith(f"[{section}]") else x
                    for x in sections]
        manifest["job"] = "".join(sections) + f"[{section}]\n{key} = {value}\n"
        checkpoint.write_manifest(self.path(folder), manifest)

    def sampled(self, folder, *words, ranks=1):
        n = ("-n", ranks) if ranks > 1 else ()
        return json.loads(self.weft("sample", *n, folder, "--json", *words)[0])

    def evaluated(self, folder, *words, ranks=1):
        n = ("-n", ranks) if ranks > 1 else ()
        return json.loads(self.weft("eval", *n, folder, "--json", *words)[0])

    def valid_loss(self, name):
        lines = self.read(name, "metrics.jsonl").decode().splitlines()
        return [json.loads(line)["valid_loss"] for line in lines if "valid_loss" in line][-1]
