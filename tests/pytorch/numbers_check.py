#!/usr/bin/env python3
"""numbers_check.py PROGRAM: are the random numbers and samples of core/ those of
numbers_of_weft.py? PROGRAM is numbers.c."""
import math
import os
import subprocess
import sys
import tempfile

import numbers_of_weft as numbers


def expected_stream(seed, name):
    key = numbers.key_of(seed, name)
    out = [key]
    for i, x in enumerate(numbers.normals(key, 7)):
        out += [x, x * 0.02, numbers.below(key, i, 1000003)]
    return out


def expected_samples(tokens, vocab, order):
    out = [vocab]
    for s in range(40, 43):
        x, y = numbers.sample(tokens, 11, s, 5, order)
        out += [v for pair in zip(x, y) for v in pair]
    return out


def same(got, want):
    return len(got) == len(want) and all(
        int(g) == w if isinstance(w, int) else math.isclose(float(g), w, rel_tol=1e-7)
        for g, w in zip(got, want)
    )


def main():
    tokens = numbers.noisy_chain(1000, 97)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        numbers.write_tokens(path, tokens, 97)
        assert numbers.read_tokens(path) == (tuple(tokens), 97)
        lines = subprocess.run([sys.argv[1], path], check=True, capture_output=True, text=True)
    wrong = seen = 0
    for line in lines.stdout.splitlines():
        kind, *rest = line.split()
        if kind == "stream":
            want = expected_stream(int(rest[0]), rest[1])
            rest = rest[2:]
        else:
            want = expected_samples(tokens, 97, rest[0])
            rest = rest[1:]
        seen += 1
        if not same(rest, want):
            wrong += 1
            print(f"{line}\n  expected {want}")
    print(f"{seen} lines, {wrong} wrong")
    return wrong or seen != 10


if __name__ == "__main__":
    sys.exit(main())
