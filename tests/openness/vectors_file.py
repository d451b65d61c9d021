"""Files of acme.vectors (plugins/mlp/vectors.c), and the order in which it hands out samples."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pytorch"))
import numbers_of_weft  # noqa: E402  (tests/pytorch/numbers_of_weft.py)

CLASSES = 11
FIELDS = {"pixels": (("row", 4), ("column", 6)), "weights": (("place", 5),)}
WIDTH = {"pixels": 24, "weights": 5}
LINE = (f"vectors {CLASSES} " + " ".join(
    name + ":" + ",".join(f"{axis}={size}" for axis, size in axes)
    for name, axes in FIELDS.items()) + "\n").encode()
BYTES = 4 * (sum(WIDTH.values()) + 1)
MASK = 0xFFFFFFFFFFFFFFFF


def samples(name, count):
    """[(numbers of all fields, class)]: the class is the largest of some sums of the numbers."""
    width = sum(WIDTH.values())
    key = numbers_of_weft.key_of(0, "vectors " + name)
    way = numbers_of_weft.normals(numbers_of_weft.key_of(0, "classes"), CLASSES * width)
    values = numbers_of_weft.normals(key, count * width)
    out = []
    for i in range(count):
        x = struct.unpack(f"<{width}f", struct.pack(f"<{width}f",
                                                    *values[i * width:(i + 1) * width]))
        sums = [sum(a * b for a, b in zip(x, way[c * width:])) for c in range(CLASSES)]
        out.append((x, sums.index(max(sums))))
    return out


def content(rows):
    return LINE + b"".join(struct.pack(f"<{len(x)}fi", *x, c) for x, c in rows)


def place_of(seed, number, count):
    """Number in the file of training sample `number`."""
    z = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15 + 1) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return (z ^ z >> 31) % count
