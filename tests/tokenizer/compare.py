"""compare.py IDS PLUGINS KIND ...: what the plugins in the folder PLUGINS, asked through IDS
(ids.c), make of texts is what the libraries made of them, as recorded/ has it.

compare.py IDS PLUGINS --live: the same against the installed libraries, with tokenizers that are
trained anew and texts of today's seed, with texts of a million characters without a place to
cut, and with 5 MB of Cyrillic in parts, as weft data takes it. Status 77 where the libraries are
missing."""
import datetime
import math
import sys
import tempfile
from pathlib import Path

import kinds
import record
import served

LONG = ["x" * 1000000, "ab\u00e9" * 200000, "\u65e5\u672c\u8a9e" * 60000, "a " * 200000,
        " " * 500000, "x\n" * 200000, "<|endoftext|>" * 20000]


def long_texts():
    """... and a million characters of words without a space between them."""
    words = "".join(record.corpus().split())
    return [*LONG, (words * (1000000 // len(words) + 1))[:1000000]]


def plugin(plugins, name):
    return str(Path(plugins) / ("sentencepiece.so" if name in kinds.MODELS else "hf.so"))


class Sum:
    def __init__(self):
        self.checked = self.wrong = 0

    def check(self, holds, name, what, text):
        self.checked += 1
        if holds:
            return
        self.wrong += 1
        if self.wrong <= 10:
            print(f"{name}: {what} of {text[:60]!r} differ")


def compare_recorded(ids, plugins, names):
    texts, total = record.load("texts"), Sum()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            recorded = record.load(name)
            with_file = record.write_file(name, recorded, folder)
            s = served.Served(ids, plugin(plugins, name), with_file)
            mine = texts["all"]
            for i, text in enumerate(mine):
                got = s.encode(text, special=False)
                total.check(record.digest(got) == recorded["ids"][i], name, "ids", text)
                total.check(record.digest(s.encode(text, special=True)) == recorded["special"][i],
                            name, "ids with special tokens", text)
                back = s.decode(got).decode("utf-8", "replace")
                total.check(record.text_digest(back) == recorded["decoded"][i], name,
                            "decoded ids", text)
                total.check(s.encode(text, special=False, step=61) == got, name,
                            "ids of pieces", text)
            for text in [*mine, *kinds.scripts()]:
                total.check(s.encode(text, special=False, step=31, parts=True) ==
                            s.encode(text, special=False), name, "ids of parts", text)
            for text, want in zip(texts["broken"], recorded["ids"][len(mine):], strict=True):
                got = s.encode(text.encode("latin-1"), special=False)
                total.check(record.digest(got) == want, name, "ids of broken UTF-8", text)
            total.check(s.close() == 0, name, "memory of the host", "")
    return total


def is_tie(file, ours, theirs):
    """Does our way to cut a text score as high as the library's? Both are versions of it, which sum
    in single precision and break ties in other ways: each addition rounds the sum so far, which
    moves that of n scores by about sqrt(n) times its precision."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    a, b = (sum(model.GetScore(i) for i in x) for x in (ours, theirs))
    rounding = 2 ** -24 * math.sqrt(len(theirs))
    return model.decode(ours) == model.decode(theirs) and a >= b - rounding * abs(b)


def compare_live(ids, plugins):
    total, seed = Sum(), datetime.date.today().toordinal()
    text = record.corpus()[:400000]
    print(f"texts of seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        for name in [*kinds.KINDS, *kinds.MODELS]:
            work = Path(folder)
            if name in kinds.MODELS:
                file = kinds.model(name, text, work)
            else:
                file = work / f"{name}.json"
                kinds.KINDS[name](text, work).save(str(file))
            encode, decode = record.library(name, file)
            s = served.Served(ids, plugin(plugins, name), file)
            some = [*kinds.texts(seed), *long_texts(), *kinds.scripts(seed)]
            for one in some:
                want, got = encode(one, False), s.encode(one, special=False)
                same = got == want or (name in kinds.MODELS and is_tie(file, got, want))
                total.check(same, name, "ids", one)
                if len(one) < 100000:
                    total.check(s.decode(want).decode("utf-8", "replace") == decode(want), name,
                                "decoded ids", one)
            if name in ("xlmr", "spm_bpe"):
                one = kinds.cyrillic(5000000)
                total.check(s.encode(one, special=False, step=4 << 20, parts=True) ==
                            encode(one, False), name, "ids of parts", one)
            total.check(s.close() == 0, name, "memory of the host", "")
    return total


def main():
    ids, plugins, *names = sys.argv[1:]
    if names == ["--live"]:
        try:
            import sentencepiece  # noqa: F401
            import tokenizers  # noqa: F401
        except ImportError as e:
            print(f"{e}: the libraries are installed by make integration")
            return 77
        total = compare_live(ids, plugins)
    else:
        total = compare_recorded(ids, plugins, names)
    print(f"{total.checked} results, {total.wrong} differ")
    return 1 if total.wrong or not total.checked else 0


if __name__ == "__main__":
    sys.exit(main())
