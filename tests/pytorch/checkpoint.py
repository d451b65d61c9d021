"""Reads the tensors of a weft checkpoint, which are safetensors shards, with Python alone.

A tensor that a shard holds whole stands under its name; a part of one as a vector under
NAME@FIRST, with the whole shape in the shard's metadata as "shape:NAME"."""
import array
import glob
import json
import math
import os
import struct


def read_shard(path):
    """{name: (shape of the whole, first element, values)}"""
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    meta, out = header.pop("__metadata__", {}), []
    for key, entry in header.items():
        name, _, first = key.partition("@")
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {key} is {entry['dtype']}, not F32")
        values = array.array("f")
        values.frombytes(data[slice(*entry["data_offsets"])])
        shape = entry["shape"]
        if first:
            shape = meta["shape:" + name]
            shape = json.loads(shape) if isinstance(shape, str) else shape
        out.append((name, shape, int(first or 0), values))
    return out


def read(folder):
    """{name: (shape, array of all elements)} of a checkpoint folder."""
    tensors = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        for name, shape, first, values in read_shard(path):
            if name not in tensors:
                tensors[name] = (shape, array.array("f", bytes(4 * math.prod(shape))))
            tensors[name][1][first : first + len(values)] = values
    if not tensors:
        raise ValueError(f"{folder} holds no shards")
    return tensors
