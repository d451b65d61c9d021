#!/usr/bin/env python3
"""tokenizers_again.py BUILD: does the BPE from outside give the ids of the package tokenizers?

Its trainer learns merges from a text; then its encoder and `weft data --tokenizer acme.bpe` encode
texts of every kind with them. 77: no Python here has the package, or PCRE2 is not here."""
import json
import os
import random
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
import bpe

PROGRAM = """
import json, sys
from tokenizers import ByteLevelBPETokenizer
folder, texts = sys.argv[1], json.load(sys.stdin)
t = ByteLevelBPETokenizer()
t.train_from_iterator(texts["learn"], vocab_size=700, min_frequency=2, show_progress=False)
t.save_model(folder)
print(json.dumps({"ids": [t.encode(x).ids for x in texts["encode"]], "vocab": t.get_vocab()}))
"""


def with_tokenizers():
    """A Python that has the package: the one that make integration makes, or this one."""
    for python in (os.path.join(HERE, "../../build/python/bin/python3"), sys.executable):
        if os.path.exists(python) and not subprocess.run(
                [python, "-c", "import tokenizers"], capture_output=True, check=False).returncode:
            return python
    print("there is no package tokenizers here; make integration installs it")
    return None


def texts():
    draw = random.Random(11)
    kinds = [(32, 127), (9, 14), (128, 0x250), (0x370, 0x590), (0x600, 0x700), (0x2000, 0x2070),
             (0x3000, 0x3100), (0x4e00, 0x4f00), (0x1f600, 0x1f650), (0x660, 0x66a)]
    yield bpe.TEXT * 3
    yield from ("ab", "  ", "  a", "a  ", "\n\n\n b", "x\u00a0 y", "it's I'LL we'd", "\u3000" * 5,
                "e\u0301 \u1ea5", "1234567 89", "\r\n\t \x0b", "!!!...???", "\u200b\u2028\ufeff")
    for size in (10, 100, 1000, 20000):
        yield "".join(chr(draw.randrange(*draw.choice(kinds))) for _ in range(size))


class Again(bpe.Base):
    """Both encoders have the merges of the package's trainer."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        own = list(texts())
        done = subprocess.run([with_tokenizers(), "-c", PROGRAM, cls.place], check=True, text=True,
                              input=json.dumps({"learn": own, "encode": own}), capture_output=True)
        found = json.loads(done.stdout)
        cls.theirs = list(zip(own, found["ids"]))
        with open(os.path.join(cls.place, "merges.txt"), encoding="utf-8") as f:
            cls.merges = [tuple(line.split(" ")) for line in f.read().splitlines()[1:]]
        cls.names = sorted(bpe.BYTES.values()) + ["".join(pair) for pair in cls.merges]
        cls.names.append("<|endoftext|>")
        cls.ids = {n: i for i, n in enumerate(cls.names)}
        assert all(found["vocab"][n] == i for n, i in cls.ids.items() if n in found["vocab"])

    def test_ids_of_the_package(self):
        self.assertGreater(len(self.merges), 300)
        for text, ids in self.theirs:
            with self.subTest(text=text[:20]):
                self.assertEqual(self.encode(text.encode()), ids)


if __name__ == "__main__":
    if not bpe.has_pcre2() or not with_tokenizers():
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
