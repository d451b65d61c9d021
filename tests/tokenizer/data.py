"""data.py WEFT: token files of folders, records and compressed files, by any number of threads, and
after any interruption."""
import contextlib
import glob
import gzip
import json
import math
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import record  # noqa: E402
import started  # noqa: E402
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)


def zst(data):
    """A frame of zstd with blocks that are not compressed."""
    blocks = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
    out = b"\x28\xb5\x2f\xfd\x00\x38"  # a window of 128 KiB
    for i, block in enumerate(blocks):
        out += (len(block) << 3 | (i + 1 == len(blocks))).to_bytes(3, "little") + block
    return out


def tokens(raw):
    _, version, low, _, high = struct.unpack("<5i", raw[:20])
    n = (high << 32) + (low & 0xffffffff)
    return list(struct.unpack(f"<{n}{'H' if version == 1 else 'I'}", raw[1024:]))


def within(mib):
    """Keywords of a command that has so many MiB of addresses, libraries among them. A sanitizer
    takes addresses of its own, so with it there is no limit."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))
    return {} if w.SLOW > 1 else {"preexec_fn": limit}


class Data(started.Case):
    def setUp(self):
        super().setUp()
        self.llama3 = record.write_file("llama3", record.load("llama3"), self.place)
        self.texts = record.load("texts")["all"]

    def jsonl(self, texts, field="text"):
        return "".join(json.dumps({"id": i, field: t}) + "\n" for i, t in enumerate(texts)).encode()

    def data(self, *words):
        return self.weft("data", "--force", *words)

    def test_documents_have_the_ids_of_the_library(self):
        texts = [t for t in self.texts if t]
        want = [d for t, d in zip(self.texts, record.load("llama3")["ids"]) if t]
        self.write("docs.jsonl", self.jsonl(self.texts))
        out, _ = self.data("docs.jsonl", "-o", "t.bin", "--tokenizer", "llama3.json")
        self.assertIn("llama3.json: tokenizer hf", out)
        documents, now = [], None
        for token in tokens(self.read("t.bin")):  # <|begin_of_text|> ... <|end_of_text|>
            if token == 0:
                now = []
            elif token == 1:
                documents.append(now)
            else:
                now.append(token)
        self.assertEqual(len(documents), len(texts))
        self.assertEqual([record.digest(d) for d in documents], want)

    def test_folders(self):
        os.makedirs(self.path("in", "b", "c"))
        for name, text in (("in/z.txt", "zz"), ("in/a", "aa"), ("in/b/c/m.txt", "mm"),
                           ("in/.hidden", "hh"), ("in/b/empty", "")):
            self.write(name, text)
        self.data("in", "in/z.txt", "-o", "t.bin")
        self.assertEqual(bytes(tokens(self.read("t.bin"))), b"aammzzzz")

    def test_compressed_files(self):
        text = ("".join(self.texts) * 3).encode()
        self.write("a.txt", text)
        self.write("b.txt.gz", gzip.compress(text[:70000]) + gzip.compress(text[70000:]))
        self.write("c.txt.zst", zst(text))
        self.write("d.jsonl.gz", gzip.compress(self.jsonl([text.decode("latin-1")], "body")))
        for name in ("a.txt", "b.txt.gz", "c.txt.zst"):
            self.data(name, "-o", "t.bin")
            self.assertEqual(bytes(tokens(self.read("t.bin"))), text, name)
        self.data("d.jsonl.gz", "--field", "body", "-o", "t.bin")
        self.assertEqual(bytes(tokens(self.read("t.bin"))), text.decode("latin-1").encode())

    def test_damage_is_named(self):
        whole = gzip.compress(b"some text, " * 9999)
        packed = zst(b"some text, " * 9999)
        for name, content, why in (
                ("a.gz", whole[:-9], "it is cut off"), ("b.gz", b"no gzip at all", "b.gz"),
                ("c.gz", whole[:50] + b"\xff" * 50 + whole[100:], "c.gz"),
                ("a.zst", packed[:-3], "it is cut off"), ("b.zst", b"no zstd at all", "b.zst"),
                ("a.jsonl", b'{"text": "a"}\n\n{"text": }\n', "a.jsonl:3: the line is not JSON"),
                ("b.jsonl", b'{"text": "a"}\n[1]\n', "b.jsonl:2: the line is no record"),
                ("c.jsonl", b'{"body": "a"}\n', "c.jsonl:1: the record has no such field"),
                ("d.jsonl", b'{"text": 1}\n', "d.jsonl:1: this field of the record is no text"),
                ("f.jsonl", b'{"a": {"b": 1], "text": "x"}\n', "f.jsonl:1: the line is not JSON"),
                ("e.jsonl", b'{"text": "\xff"}\n', "e.jsonl:1: the line is not JSON")):
            with self.subTest(name):
                self.write(name, content)
                self.refused("data", name, "-o", "n.bin", why=why)

    def test_a_line_without_an_end_is_refused(self):
        self.write("a.jsonl", b'{"text": "a"}\n{"text": "')
        os.truncate(self.path("a.jsonl"), 70 << 20)
        self.refused("data", "a.jsonl", "-o", "n.bin", why="a.jsonl:2: the line has more than 64")

    def test_other_fields_of_a_record_take_no_memory(self):
        """A tree of JSON of them would take 4 GB."""
        text = 'a "text" \\ {,\u00e9\u20ac'
        more = {"\u00e9": 1, "y": ["}", '"', "\\", {"text": 2}], "text": "b", "z": None}
        lines = [json.dumps({"text": text, **more}), json.dumps({**more, "text": text}),
                 f' {{ "te\\u0078t" : {json.dumps(text)} , "x" : 1e999 , "y" : [ {{ }} ] }} ',
                 '{"x": [' + "{}," * 20000000 + "{}], " + json.dumps({"text": text})[1:]]
        self.write("a.jsonl", "\n".join(lines))
        self.weft("data", "a.jsonl", "-o", "t.bin", "--threads", 1, **within(1024))
        self.assertEqual(bytes(tokens(self.read("t.bin"))), b"b" + 3 * text.encode())
        for line in ('{"text": "a"', '{"text": "a", }', '{"text": "a"} 1', '{"text" "a"}', "{",
                     '{"text": "a" "b"}', '{"a": {, "text": "b"}', '{"a": "}', '{"a": }', "{,}"):
            with self.subTest(line):
                self.write("b.jsonl", line)
                self.refused("data", "b.jsonl", "-o", "n.bin", why="1: the line is not JSON")

    def test_texts_larger_than_memory(self):
        """Plain, as archives of which a thousandth is on disk, and without a space; under a
        sanitizer short texts."""
        size = 600 << 20 if w.SLOW == 1 else 6 << 20
        self.write("a.txt", b"")
        os.truncate(self.path("a.txt"), size)
        self.write("b.txt.gz", gzip.compress(bytes(size >> 3), 1) * 8)
        block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # one byte, repeated
        self.write("c.txt.zst", b"\x28\xb5\x2f\xfd\x00\x38" + block * (size >> 17) +
                   b"\x01\0\0")
        text = "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0".encode()
        with open(self.path("d.txt"), "wb") as f:
            for _ in range(size // len(text * 10000) + 1):
                f.write(text * 10000)
        record.write_file("xlmr", record.load("xlmr"), self.place)
        for name, tokenizer in (("a.txt", "bytes"), ("b.txt.gz", "bytes"), ("c.txt.zst", "bytes"),
                                ("d.txt", "xlmr.json"), ("d.txt", "llama3.json")):
            with self.subTest(name, tokenizer=tokenizer):
                out, _ = self.weft("data", "--force", name, "-o", "t.bin", "--tokenizer",
                                   tokenizer, "--threads", 1, **within(512))
                n = int(re.search(r"(\d+) tokens", out)[1])
                self.assertGreater(n, size // 20)
                self.assertTrue(n == size or tokenizer != "bytes")

    def test_threads_change_nothing(self):
        text = "\n".join(self.texts) * 12
        self.write("a.txt", text)
        self.write("b.jsonl", self.jsonl(self.texts * 3))
        outputs = set()
        for n in (1, 2, 5):
            self.data("a.txt", "b.jsonl", "-o", "t.bin", "--valid", "v.bin", "--tokenizer",
                      "llama3.json", "--threads", n)
            outputs.add(self.read("t.bin") + self.read("v.bin"))
        self.assertEqual(len(outputs), 1)

    def test_one_file_on_several_threads_is_encoded_as_a_whole(self):
        text = "\n".join(t.replace("\n", " ") for t in self.texts) * 12
        self.write("a.txt", text)
        self.write("a.jsonl", self.jsonl([text]))
        self.data("a.txt", "-o", "t.bin", "--tokenizer", "llama3.json", "--threads", 3)
        self.data("a.jsonl", "-o", "u.bin", "--tokenizer", "llama3.json", "--threads", 1)
        self.assertEqual(self.read("t.bin"), self.read("u.bin"))

    def interrupt(self, words, text):
        """Kill it three times after it has stored a place; then it ends."""
        place, env = self.path("t.bin.part", "place"), {**os.environ, "WEFT_TEST_SPOOL": "20000"}
        said = ""
        for _ in range(3):
            before = os.stat(place).st_ino if os.path.exists(place) else None
            run = subprocess.Popen([started.WEFT, *words], cwd=self.place, env=env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while run.poll() is None and (not os.path.exists(place) or
                                          os.stat(place).st_ino == before):
                time.sleep(0.001)
            run.send_signal(signal.SIGKILL)
            said += run.communicate()[1]
            if run.returncode == 0:
                raise w.TooSoon("the texts were encoded before the signal")
        said += self.weft(*words, env={"WEFT_TEST_SPOOL": "20000"})[1]
        self.assertFalse(os.path.exists(self.path("t.bin.part")))
        return said

    @w.again
    def test_interruptions(self):
        text = "\n".join(self.texts) * 10
        self.write("a.txt", text)
        self.write("b.jsonl.gz", gzip.compress(self.jsonl(self.texts * 6), 1))
        for words in (["a.txt", "b.jsonl.gz"], ["b.jsonl.gz", "a.txt", "--valid", "v.bin"]):
            words = ["data", "--force", *words, "-o", "t.bin", "--tokenizer", "llama3.json",
                     "--threads", "2"]
            self.weft(*words)
            want = self.read("t.bin") + (self.read("v.bin") if "--valid" in words else b"")
            os.remove(self.path("t.bin"))
            said = self.interrupt(words, text)
            self.assertIn("t.bin goes on after", said)
            got = self.read("t.bin") + (self.read("v.bin") if "--valid" in words else b"")
            self.assertEqual(got, want)

    def test_progress(self):
        """A line says how much is done, how fast, and how long the rest takes."""
        self.write("a.txt", "\n".join(self.texts) * 4)
        size = os.path.getsize(self.path("a.txt")) * 1e-6
        said = self.weft("data", "a.txt", "-o", "t.bin", "--tokenizer", "llama3.json",
                         env={"WEFT_TEST_SPOOL": "20000"})[1]
        lines = re.findall(r"encoded (\d+) of (\d+) MB of files, ([0-9.]+) MB/s of text, "
                           r"ETA (\d+):([0-5]\d)\n", said)
        self.assertGreater(len(lines), 2, said)
        self.assertEqual({x[1] for x in lines}, {f"{size:.0f}"})
        self.assertEqual([int(x[0]) for x in lines], sorted(int(x[0]) for x in lines))
        self.assertEqual(lines[-1][0], f"{size:.0f}")
        self.assertEqual(lines[-1][3:], ("0", "00"))

    def test_bits_per_byte(self):
        """Bytes are those of the tokens that are predicted, as the tokenizer's file has them."""
        self.write("a.txt", "\n".join(self.texts))
        self.data("a.txt", "-o", "train.bin", "--valid", "valid.bin", "--plain", "--tokenizer",
                  "llama3.json")
        self.weft("train", "tiny.ini", "data.tokenizer=hf", "tokenizer.file=llama3.json",
                  "model.vocab=0")
        found = json.loads(self.weft("eval", "run/checkpoints/step-00000004", "--json")[0])
        alike = [*range(33, 127), *range(161, 173), *range(174, 256)]
        other = [b for b in range(256) if b not in alike]
        byte_of = {chr(b) for b in alike} | {chr(256 + i) for i in range(len(other))}
        vocab = json.loads(self.read("llama3.json"))["model"]["vocab"]
        width = {i: len(s) for s, i in vocab.items() if set(s) <= byte_of}
        ids = tokens(self.read("valid.bin"))
        counted = sum(width[i] for i in ids[1:found["tokens"] + 1])
        self.assertEqual(found["bytes"], counted)
        self.assertNotEqual(counted, found["tokens"])
        self.assertAlmostEqual(found["bits_per_byte"],
                               found["loss"] * found["tokens"] / math.log(2) / counted, places=9)

    def test_what_another_run_has_left_is_not_used(self):
        os.mkdir(self.path("t.bin.part"))
        self.write("t.bin.part/place", b"x" * 64)
        self.write("a.txt", "some text")
        said = self.data("a.txt", "-o", "t.bin")[1]
        self.assertIn("t.bin.part has nothing to go on with", said)
        self.assertEqual(bytes(tokens(self.read("t.bin"))), b"some text")
        self.assertFalse(os.path.exists(self.path("t.bin.part")))

    @w.again
    def test_ctrl_c_says_what_is_kept(self):
        """... and another command over the same output does not throw it away."""
        self.write("a.txt", "\n".join(self.texts) * 100)
        words = ["data", "a.txt", "-o", "t.bin", "--tokenizer", "llama3.json"]
        place, env = self.path("t.bin.part", "place"), {**os.environ, "WEFT_TEST_SPOOL": "20000"}
        run = subprocess.Popen([started.WEFT, *words], cwd=self.place, env=env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        places = set()
        while run.poll() is None and len(places) < 2:  # the second one comes after the handler
            with contextlib.suppress(FileNotFoundError):
                places.add(os.stat(place).st_mtime_ns)
            time.sleep(0.001)
        run.send_signal(signal.SIGINT)
        said = run.communicate()[1]
        if run.returncode == 0:
            raise w.TooSoon("the text was encoded before the signal")
        self.assertEqual(run.returncode, -signal.SIGINT, said)
        self.assertIn("interrupted; t.bin.part keeps what is done, and the same command goes on",
                      said)
        self.refused(*words, "--plain", why="of an interrupted command with other texts")
        self.assertIn("t.bin goes on after", self.weft(*words)[1])

    @w.again
    def test_signals_leave_no_half_written_file(self):
        self.write("a.txt", "\n".join(self.texts) * 100)
        before = os.listdir(self.place)
        for number in (signal.SIGTERM, signal.SIGHUP):
            run = subprocess.Popen([started.WEFT, "data", "a.txt", "-o", "t.bin", "--documents"],
                                   cwd=self.place, stderr=subprocess.PIPE, text=True)
            while run.poll() is None and not any(".tmp" in x for x in os.listdir(self.place)):
                pass
            run.send_signal(number)
            said = run.communicate()[1]
            if run.returncode == 0:
                raise w.TooSoon("the file was written before the signal")
            self.assertEqual(run.returncode, -number, said)
            left = set(os.listdir(self.place)) - set(before)
            self.assertLessEqual(left, {"t.bin", "t.bin.part"})
            self.data("--force", "a.txt", "-o", "t.bin")
            os.remove(self.path("t.bin"))

    def test_refusals(self):
        self.write("a.txt", "some text")
        self.refused("data", "a.txt", "-o", "n.bin", "--threads", "0", why="--threads takes")
        self.refused("data", "a.txt", "-o", "n.bin", "--tokenizer", "none.json", why="none.json")
        self.refused("data", "a.txt", "-o", "n.bin", "--tokenizer", "llama3.json", "end=<none>",
                     why='no token "<none>"')

    @unittest.skipUnless(glob.glob(str(Path(started.WEFT).parent.parent /
                                       "lib/weft/tokenizer/sentencepiece.so")), "no SentencePiece")
    def test_a_job_trains_on_text_without_a_place_to_cut(self):
        """A sample is encoded from as much text as it needs, not from all that follows."""
        record.write_file("spm_bpe", record.load("spm_bpe"), self.place)
        chars, rng = [chr(c) for c in range(0x4e00, 0x5e00)], random.Random(5)
        self.write("cjk.txt", "".join(rng.choices(chars, k=100000)))
        self.weft("train", "tiny.ini", "data.source=text", "data.train=cjk.txt", "data.valid=",
                  "train.eval_every=0", "data.tokenizer=sentencepiece", "model.vocab=0",
                  "tokenizer.file=spm_bpe.model", "run.steps=20", "optim.warmup=1")

    def test_a_job_trains_on_text_by_it(self):
        self.write("a.txt", "\n".join(self.texts))
        words = ["tiny.ini", "data.source=text", "data.train=a.txt", "data.valid=",
                 "train.eval_every=0", "data.tokenizer=hf", "tokenizer.file=llama3.json",
                 "model.vocab=0"]
        self.weft("train", *words)
        out, _ = self.weft("sample", "run/checkpoints/step-00000004", "--prompt", "Hello",
                           "--tokens", "3")
        self.assertIn("Hello", out)
        long = "".join(random.Random(6).choices("etaoinshr", k=20000))  # no place to cut
        self.write("long.txt", long)
        self.data("long.txt", "-o", "long.bin", "--plain", "--tokenizer", "llama3.json")
        prompted = json.loads(self.weft("sample", "run/checkpoints/step-00000004", "--prompt", long,
                                        "--tokens", "1", "--json")[0])["prompt_ids"]
        self.assertGreater(len(prompted), 4096)
        self.assertEqual(prompted[1:], tokens(self.read("long.bin")))
        other = json.loads(self.read("llama3.json"))
        other["decoder"] = None
        self.write("llama3.json", json.dumps(other))
        self.weft("train", *words, "run.steps=8", "--resume", status=2)


if __name__ == "__main__":
    started.main()
