#!/usr/bin/env python3
"""Do the models of this folder go from transformers to weft and back?

  peers.py WEFT            with the installed transformers: what is recorded in recorded.json comes
                           out again, and every model after 20 steps has the loss there that it has
                           here (make peers)
  peers.py WEFT --record   write recorded.json

77: transformers is not installed in a version that has all architectures."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import jobs
import folder
import shapes
from jobs import w


def need_transformers():
    """Go on in a Python that has it: this one, or that of cmake/peers.sh."""
    python = os.path.join(jobs.HERE, "../../build/peers/bin/python3")
    for one in (sys.executable, python):
        if os.path.exists(one) and not subprocess.run(
                [one, "-c", "from transformers import Qwen3ForCausalLM; import torch"],
                capture_output=True, check=False).returncode:
            if one != sys.executable:
                os.execv(one, [one, "-B", *sys.argv])
            return
    print("transformers with Qwen3 is not installed here; make peers installs it")
    sys.exit(77)


def made(place, name):
    """The model of a name as transformers writes it, whole and in several files."""
    import torch
    import transformers
    architecture, kind, fields = shapes.MODELS[name]
    cls = getattr(transformers, architecture)
    model = cls(cls.config_class(**fields, architectures=[architecture]))
    with torch.no_grad():
        for key, value in model.named_parameters():
            value.copy_(torch.tensor(shapes.values(key, value.numel())).reshape(value.shape))
    model = model.to(getattr(torch, kind))
    path = os.path.join(place, name)
    model.save_pretrained(path)
    model.save_pretrained(path + "-files", max_shard_size="20KB")
    return path


def loss(path, vocab):
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32)
    text = torch.tensor(jobs.text_of(vocab))
    n = jobs.BATCH * jobs.SEQUENCE
    with torch.no_grad():
        logits = model.eval()(text[:n].reshape(jobs.BATCH, jobs.SEQUENCE)).logits.double()
    return torch.nn.functional.cross_entropy(logits.reshape(n, -1), text[1:]).item()


def round_trip(place, name):
    """What is recorded of a model; checks it on the way."""
    path, vocab = made(place, name), shapes.MODELS[name][2]["vocab_size"]
    tensors = folder.read(path)
    model = {"type": shapes.MODELS[name][1], "config": folder.config(path),
             "shapes": {k: v[1] for k, v in sorted(tensors.items())}}
    assert tensors == folder.tensors_of(model), f"{name}: other values than those of shapes.py"
    assert folder.read(path + "-files") == tensors
    start, out = os.path.join(place, name + "-start"), os.path.join(place, name + "-out")
    w.weft("import", "hf", path + "-files", "-o", start)
    model["loss"] = loss(path, vocab)
    jobs.near(jobs.first_loss(place, start + "/job.ini", vocab, out), model["loss"], 1e-6)
    here = jobs.train(place, start + "/job.ini", vocab, out, checkpoint__every=jobs.STEPS)
    trained = f"{out}/checkpoints/step-{jobs.STEPS:08}"
    for kind in ("fp32", "bf16", "fp16"):
        back = os.path.join(place, f"{name}-{kind}")
        w.weft("export", "hf", trained, "-o", back, "--dtype", kind)
        there = loss(back, vocab)
        print(f"{name} {kind}: loss {here:.7f} here, {there:.7f} in transformers, "
              f"{abs(here - there) / there:.1e}")
        jobs.near(there, here, 1e-6 if kind == "fp32" else 1e-3)
        if kind == "fp32":
            model["trained"] = there
    return model


def compare(old, new):
    assert list(old) == list(new), f"{list(new)} are there, {list(old)} recorded"
    for name, a in old.items():
        b = new[name]
        for key in ("type", "config", "shapes"):
            assert a[key] == b[key], f"{name}: {key} is {b[key]}, recorded is {a[key]}"
        jobs.near(b["loss"], a["loss"], 1e-6)
        jobs.near(b["trained"], a["trained"], 2e-5)


def main():
    need_transformers()
    import transformers
    transformers.logging.set_verbosity_error()
    place = tempfile.mkdtemp(prefix="weft-peers-")
    try:
        for fields in {m[2]["vocab_size"]: 0 for m in shapes.MODELS.values()}:
            jobs.write_data(place, fields)
        fresh = {name: round_trip(place, name) for name in shapes.MODELS}
    finally:
        shutil.rmtree(place)
    if "--record" in sys.argv:
        with open(jobs.RECORDED, "w", encoding="utf-8") as f:
            lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}"
                               for k, v in fresh.items())
            version = transformers.__version__
            f.write(f'{{"transformers": "{version}", "models": {{\n{lines}\n}}}}\n')
    compare(jobs.recorded(), fresh)
    print(f"{len(fresh)} models are as recorded")


if __name__ == "__main__":
    main()
