"""Folders of Hugging Face and files of llm.c, read and written without their libraries."""
import array
import json
import os
import struct
import sys

import shapes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pytorch"))
import checkpoint  # noqa: E402  (tests/pytorch/checkpoint.py)

TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
WIDTH = {"F32": 4, "BF16": 2, "F16": 2}
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = "model.safetensors.index.json"


def encode(kind, values):
    if kind == "F32":
        return array.array("f", values).tobytes()
    if kind == "F16":
        return b"".join(struct.pack("<e", x) for x in values)
    bits = array.array("I", array.array("f", values).tobytes())
    return array.array("H", [(b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits]).tobytes()


def decode(kind, data):
    if kind == "F32":
        return list(array.array("f", data))
    if kind == "F16":
        return [x for x, in struct.iter_unpack("<e", data)]
    wide = array.array("I", [h << 16 for h in array.array("H", data)])
    return list(array.array("f", wide.tobytes()))


def pack(tensors):
    """{name: (kind, shape, bytes)} as a safetensors file."""
    head, at, body = {"__metadata__": {"format": "pt"}}, 0, []
    for name, (kind, shape, data) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        body.append(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(body)


def unpack(path):
    """The same from a file, and its metadata."""
    found, meta = checkpoint.entries(path)
    return {name: tuple(what) for name, *what in found}, meta


def tensors_of(model):
    """The tensors of a recorded model, with the values of shapes.py."""
    out = {}
    for name, shape in model["shapes"].items():
        count = 1
        for n in shape:
            count *= n
        kind = TYPES[model["type"]]
        out[name] = (kind, shape, encode(kind, shapes.values(name, count)))
    return out


def write(path, config, tensors, files=1):
    """A folder; with several files there is an index."""
    os.makedirs(path)
    with open(os.path.join(path, CONFIG), "w", encoding="utf-8") as f:
        json.dump(config, f)
    if files == 1:
        with open(os.path.join(path, WEIGHTS), "wb") as f:
            f.write(pack(tensors))
        return
    places = {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = {k: v for n, (k, v) in enumerate(sorted(tensors.items())) if n % files == i}
        places |= {k: name for k in part}
        with open(os.path.join(path, name), "wb") as f:
            f.write(pack(part))
    with open(os.path.join(path, INDEX), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": places}, f)


def read(path):
    """{name: (kind, shape, bytes)} of a folder."""
    if os.path.exists(os.path.join(path, WEIGHTS)):
        return unpack(os.path.join(path, WEIGHTS))[0]
    with open(os.path.join(path, INDEX), encoding="utf-8") as f:
        files = set(json.load(f)["weight_map"].values())
    out = {}
    for name in files:
        out |= unpack(os.path.join(path, name))[0]
    return out


def config(path):
    with open(os.path.join(path, CONFIG), encoding="utf-8") as f:
        return json.load(f)
