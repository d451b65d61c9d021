"""token_ids.py: text encoded by weft data and by the PyPI package `tokenizers`, in MB/s.

Both encode the same documents with the same tokenizer, one after the other in each round, with 1
and 2 threads; the median of the rounds counts, and the ratio is that of the medians. weft is timed
as a whole command, from reading the file to the synced token file; `tokenizers` only while
encode_batch() runs over texts that are in memory, and gives the ids back to nobody. The tokenizers
are trained here: BPE as GPT-2's, Unigram as XLM-R's.

  python3 bench/token_ids.py [--weft PROGRAM] [--text FILE] [--rounds N] [--mb N]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tokenizer"))
import kinds  # noqa: E402

DOCUMENT = 4000  # characters


def train(work, text, more, vocab):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    def parts(of):
        return [of[i:i + DOCUMENT] for i in range(0, min(len(of), 2000000), DOCUMENT)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(parts(text) + parts(more), trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    uni = Tokenizer(models.Unigram())
    uni.normalizer = normalizers.NFKC()
    uni.pre_tokenizer = pre_tokenizers.Metaspace()
    uni.train_from_iterator(parts(text)[:100], trainers.UnigramTrainer(
        vocab_size=vocab // 2, special_tokens=["<unk>", "</s>"], unk_token="<unk>",
        show_progress=False))
    for name, tok in (("bpe", bpe), ("unigram", uni)):
        tok.save(str(work / f"{name}.json"))


def mixed(mb):
    """Prose, code and scripts of all sorts, by turns."""
    files = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "core").rglob("*.c"))
    texts = [f.read_text() for f in files]
    scripts = [t for t in kinds.texts("all", n=20) if t]
    out, size = [], 0
    for i in range(10 ** 9):
        out.append(texts[i % len(texts)] if i % 4 else " ".join(scripts[i % 7::7])[:8000])
        size += len(out[-1].encode())
        if size > mb * 1000000:
            return "".join(out)


PEER = """
import json, sys, time
from tokenizers import Tokenizer
tok = Tokenizer.from_file(sys.argv[1])
texts = [json.loads(line)["text"] for line in open(sys.argv[2])]
began = time.perf_counter()
n = sum(len(e.ids) for e in tok.encode_batch(texts, add_special_tokens=False))
print(time.perf_counter() - began, n)
"""


def time_peer(file, docs, threads):
    env = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"}
    out = subprocess.run([sys.executable, "-c", PEER, file, docs], env=env, check=True,
                         capture_output=True, text=True).stdout.split()
    return float(out[0]), int(out[1])


def time_weft(weft, file, docs, threads, out):
    began = time.perf_counter()
    said = subprocess.run([weft, "data", "--force", docs, "-o", out, "--tokenizer", file, "--plain",
                           "--threads", str(threads)], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(said.stdout.split()[-6])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("--weft", default=str(ROOT / "build/release/bin/weft"))
    p.add_argument("--text", help="text that is repeated; else docs/")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--mb", type=int, default=20)
    p.add_argument("--vocab", type=int, default=16000)
    a = p.parse_args()
    prose = Path(a.text).read_text() if a.text else "".join(
        f.read_text() for f in sorted((ROOT / "docs").glob("*.md")))
    prose *= a.mb * 1000000 // len(prose.encode()) + 1
    corpora = {"prose": prose[:a.mb * 1000000], "mixed": mixed(a.mb)}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as f:
        work = Path(f)
        train(work, corpora["prose"], corpora["mixed"], a.vocab)
        print("| tokenizer | text | threads | weft MB/s | tokenizers MB/s | ratio |")
        print("|---|---|---|---|---|---|")
        for corpus, text in corpora.items():
            docs = work / f"{corpus}.jsonl"
            with open(docs, "w", encoding="utf-8") as out:
                for i in range(0, len(text), DOCUMENT):
                    out.write(json.dumps({"text": text[i:i + DOCUMENT]}) + "\n")
            mb = len(text.encode()) / 1e6
            for kind in ("bpe", "unigram"):
                file = str(work / f"{kind}.json")
                for threads in (1, 2):
                    mine, theirs = [], []
                    for _ in range(a.rounds):
                        s, n = time_weft(a.weft, file, str(docs), threads, str(work / "t.bin"))
                        mine.append(mb / s)
                        s, m = time_peer(file, str(docs), threads)
                        theirs.append(mb / s)
                        if n != m:
                            sys.exit(f"{kind}, {corpus}: {n} ids here, {m} there")
                    w, t = statistics.median(mine), statistics.median(theirs)
                    print(f"| {kind} | {corpus} | {threads} | {w:.1f} | {t:.1f} | {w / t:.1f} |",
                          flush=True)


if __name__ == "__main__":
    main()
