"""Reads the tensors of a weft checkpoint, which are safetensors shards, with Python alone.

What a shard holds whole stands under its name; a block of a tensor under NAME@FROM:TO,FROM:TO; a
range of the flattened elements of either as a vector with @FIRST behind that. For parts the whole
shape is in the shard's metadata as "shape:NAME"."""
import array
import glob
import hashlib
import json
import math
import os
import struct


CODES = {"F32": "f", "BF16": "H", "I32": "i", "U8": "B"}


def numbers(dtype, data):
    """The elements as an array; bf16 as fp32, of which it is the upper half."""
    values = array.array(CODES[dtype])
    values.frombytes(data)
    if dtype != "BF16":
        return values
    return array.array("f", array.array("I", (x << 16 for x in values)).tobytes())


def entries(path):
    """[(key, type, shape, bytes)] of any safetensors file, and its metadata."""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    meta = header.pop("__metadata__", {})
    return [(key, x["dtype"], x["shape"], data[slice(*x["data_offsets"])])
            for key, x in header.items()], meta


def read_shard(path):
    """[(name, shape of the whole, block as (from, to) by axis, first element of it, values)]"""
    found, meta = entries(path)
    out = []
    for key, dtype, shape, data in found:
        name, *part = key.split("@")
        if dtype not in CODES:
            raise ValueError(f"{path}: {key} is {dtype}, not one of {', '.join(CODES)}")
        values = numbers(dtype, data)
        if part:
            shape = meta["shape:" + name]
            shape = json.loads(shape) if isinstance(shape, str) else shape
        block = [(0, n) for n in shape]
        if part and ":" in part[0]:
            block = [tuple(map(int, x.split(":"))) for x in part.pop(0).split(",")]
        out.append((name, shape, block, int(part[0]) if part else 0, values))
    return out


def write_manifest(folder, manifest):
    """Of a checkpoint, with the sum over itself."""
    body = json.dumps({k: x for k, x in manifest.items() if k != "sha256"},
                      separators=(",", ":"))[:-1]
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as f:
        f.write(f'{body},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n')


def places(shape, block):
    """Numbers in the whole tensor of the elements of a block, in their order there."""
    out, stride = [0], 1
    for size, (start, end) in reversed(list(zip(shape, block))):
        out = [i * stride + x for i in range(start, end) for x in out]
        stride *= size
    return out


def read(folder):
    """{name: (shape, array of all elements)} of a checkpoint folder; whole numbers where the
    elements are."""
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        for name, shape, block, first, values in read_shard(path):
            if name not in tensors:
                empty = array.array(values.typecode, bytes(values.itemsize * math.prod(shape)))
                tensors[name] = (shape, empty)
            whole = tensors[name][1]
            if block == [(0, n) for n in shape]:
                whole[first : first + len(values)] = values
                continue
            for at, value in zip(places(shape, block)[first:], values):
                whole[at] = value
    if not tensors:
        raise ValueError(f"{folder} holds no shards")
    return tensors
