"""Records what the libraries `tokenizers` and `sentencepiece` make of texts.

  record.py            trains the tokenizers of kinds.py on the text of this folder's sources and
                       writes recorded/: texts.json.gz, and KIND.json.gz with the tokenizer's file,
                       and digests of ids and of what they decode to, for each text
  record.py --check    the installed libraries give the same digests for the recorded tokenizers

Status 77 where the libraries are missing. compare.py holds the plugins against recorded/.
"""
import base64
import gzip
import hashlib
import json
import struct
import sys
import tempfile
from pathlib import Path

import kinds

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"


def load(name):
    with gzip.open(RECORDED / f"{name}.json.gz", "rt") as f:
        return json.load(f)


def save(name, data):
    RECORDED.mkdir(exist_ok=True)
    text = json.dumps(data, ensure_ascii=False, sort_keys=True).encode()
    (RECORDED / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()[:12]


def text_digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def corpus():
    """A text of many sorts: prose, code and the odd texts, none of them from elsewhere."""
    root = HERE.parent.parent
    files = sorted((root / "docs").glob("*.md"))[:12] + sorted((root / "core/base").glob("*.c"))
    return "\n".join(f.read_text() for f in files) + "\n".join(kinds.PLAIN) * 30


def library(name, file):
    """Functions that encode, and decode ids, by the library."""
    if name in kinds.MODELS:
        import sentencepiece
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
        return (lambda text, special: model.encode(text)), model.decode
    tok = kinds.lib().Tokenizer.from_file(str(file))

    def encode(text, special):
        tok.encode_special_tokens = not special
        return tok.encode(text, add_special_tokens=False).ids
    return encode, lambda ids: tok.decode(ids, skip_special_tokens=False)


def results(name, file, texts):
    encode, decode = library(name, file)
    out = {"ids": [], "special": [], "decoded": []}
    for text in texts["all"]:
        ids = encode(text, False)
        out["ids"].append(digest(ids))
        out["special"].append(digest(encode(text, True)))
        out["decoded"].append(text_digest(decode(ids)))
    for text in texts["broken"]:
        text = text.encode("latin-1")
        bare = name in kinds.MODELS
        out["ids"].append(digest(encode(text if bare else text.decode("utf-8", "replace"), False)))
    return out


def write_file(name, recorded, folder):
    """The recorded file of a tokenizer: its path."""
    path = Path(folder) / (name + (".model" if name in kinds.MODELS else ".json"))
    path.write_bytes(base64.b64decode(recorded["file"]))
    return path


def record():
    text = corpus()
    texts = {"all": kinds.texts(n=40), "broken": [b.decode("latin-1") for b in kinds.broken(n=20)]}
    save("texts", texts)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in [*kinds.KINDS, *kinds.MODELS]:
            if name in kinds.MODELS:
                file = kinds.model(name, text, work)
            else:
                file = work / f"{name}.json"
                kinds.KINDS[name](text, work).save(str(file), pretty=False)
            data = {"file": base64.b64encode(file.read_bytes()).decode()}
            save(name, {**data, **results(name, file, texts)})
            print(f"{name}: recorded")
    return 0


def check():
    texts, wrong = load("texts"), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in [*kinds.KINDS, *kinds.MODELS]:
            recorded = load(name)
            live = results(name, write_file(name, recorded, folder), texts)
            for key, value in live.items():
                differ = sum(a != b for a, b in zip(value, recorded[key]))
                differ += abs(len(value) - len(recorded[key]))
                wrong += differ
                if differ:
                    print(f"{name}: {differ} of {len(value)} {key} differ from the record")
    print("the libraries give what is recorded" if not wrong else f"{wrong} results differ")
    return 1 if wrong else 0


def main():
    try:
        import sentencepiece
        import tokenizers
    except ImportError as e:
        print(f"{e}: the libraries are installed by make integration (tests/tokenizer)")
        return 77
    print(f"tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}")
    return check() if "--check" in sys.argv[1:] else record()


if __name__ == "__main__":
    sys.exit(main())
