"""The random numbers and token files of weft, written a second time from their description.

Philox4x32-10 keyed by (seed, name), as core/base/rng.h says. words() works on Python integers and,
for many counters at once, on numpy arrays of uint64."""
import math
import struct

MASK = 0xFFFFFFFF
MAGIC = 20261121
HEADER_WORDS = 256


def words(key, counter, stream):
    """Four uniform 32-bit words."""
    none = counter * 0
    c = [counter & MASK, counter >> 32, none + (stream & MASK), none + (stream >> 32)]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def key_of(seed, name):
    """The key of a named stream: FNV-1a of the name, mixed with the seed."""
    h = 1469598103934665603
    for byte in name.encode():
        h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    w = words(h, seed, 0x57454654)
    return w[0] << 32 | w[1]


def below(key, index, n):
    """Uniform integer in [0, n), number `index` of the stream."""
    w = words(key, index, 3)
    return (w[0] << 32 | w[1]) * n >> 64


def normals(key, n, lib=None):
    """The first n standard normals of the stream; `lib` is numpy for an array, else a list."""
    pairs = lib.arange((n + 1) // 2, dtype=lib.uint64) if lib else range((n + 1) // 2)

    def pair(counter, math_lib):
        w = words(key, counter, 1)
        u = ((w[0] << 32 | w[1]) >> 11) * 1.0
        v = ((w[2] << 32 | w[3]) >> 11) * 2.0**-53
        r = (-2.0 * math_lib.log((u + 0.5) * 2.0**-53)) ** 0.5
        return r * math_lib.cos(2 * math.pi * v), r * math_lib.sin(2 * math.pi * v)

    if lib:
        return lib.stack(pair(pairs, lib), axis=1).reshape(-1)[:n]
    return [x for p in pairs for x in pair(p, math)][:n]


def stream_of(name):
    """The number of a stream of random numbers in a step: FNV-1a."""
    h = 14695981039346656037
    for byte in name.encode():
        h = ((h ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return h


def kept(seed, name, first, n, p, lib):
    """Which of the elements first ... first + n - 1 of a stream dropout keeps; `lib` is numpy."""
    number = lib.arange(first, first + n, dtype=lib.uint64)
    counter = number // 64 * 16 + number % 16
    word = lib.choose((number % 64 // 16).astype(lib.int64), words(seed, counter, stream_of(name)))
    return word >= int(p * 2.0**32)


def read_tokens(path):
    """Tokens and vocabulary of a token file."""
    with open(path, "rb") as f:
        data = f.read()
    head = struct.unpack(f"<{HEADER_WORDS}I", data[: 4 * HEADER_WORDS])
    count = head[2] | (head[4] << 32 if head[0] == MAGIC else 0)
    vocab = head[3] if head[0] == MAGIC else 50257
    tokens = struct.unpack(f"<{count}H", data[4 * HEADER_WORDS :])
    return tokens, vocab


def write_tokens(path, tokens, vocab):
    wide = vocab > 1 << 16
    head = [MAGIC, 1 + wide, len(tokens), vocab] + [0] * (HEADER_WORDS - 4)
    with open(path, "wb") as f:
        f.write(struct.pack(f"<{HEADER_WORDS}I", *head))
        f.write(struct.pack(f"<{len(tokens)}{'I' if wide else 'H'}", *tokens))


def permuted(key, epoch, n, i):
    """Where number i comes to in the permutation of the numbers below n."""
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    w = words(key, epoch, 4)
    own = w[0] << 32 | w[1]

    def draw(counter, stream, size):
        w = words(own, counter, stream)
        return (w[0] << 32 | w[1]) * size >> 64

    while True:
        x, y = divmod(i, b)
        for r in range(4):
            x = (x + draw(y, 16 + 2 * r, a)) % a
            y = (y + draw(x, 17 + 2 * r, b)) % b
        i = x * b + y
        if i < n:
            return i


def sample(tokens, seed, number, sequence, order="starts"):
    """Inputs and targets of sample `number`."""
    key = key_of(seed, "data.order")
    windows = (len(tokens) - 1) // sequence
    if order == "starts":
        start = below(key, number, len(tokens) - sequence)
    else:
        start = permuted(key, number // windows, windows, number % windows) * sequence
    return tokens[start : start + sequence], tokens[start + 1 : start + sequence + 1]


def noisy_chain(count, vocab):
    """Text that can be learnt, but not too well: each token follows from the last but for noise."""
    key, tokens = key_of(0, "noisy chain"), [1]
    while len(tokens) < count:
        jump = below(key, len(tokens), 4)
        tokens.append((3 * tokens[-1] + (1 if jump else 2)) % vocab)
    return tokens
