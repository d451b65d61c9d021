"""newer.py WEFT: a file of a version that does not exist yet is refused, with a sentence that names
format, version found, version known and what to do; and nothing else is done with it."""
import hashlib
import json
import os
import re
import shutil
import struct
import unittest

import old_files
from cases import FOLDER, write_tokens

VERSION = "0.1.0"
ADVICE = "use a weft as new as the one that wrote it"


def seal(manifest):
    """Manifest text with the sum of its own that it needs."""
    body = re.sub(rb',"sha256":"[0-9a-f]{64}"}\n$', b"", manifest)
    return body + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


class Newer(old_files.Old):
    def setUp(self):
        shutil.copytree(self.path(VERSION), self.path("new"))
        self.addCleanup(shutil.rmtree, self.path("new"))

    def refused(self, words, *parts, extra=None):
        process = self.start("new", words, extra)
        out, err = process.communicate(timeout=300)
        self.assertNotEqual(process.returncode, 0, out)
        for part in parts:
            self.assertIn(part, err)

    def newer(self, words, format_, found=2, known=1):
        self.refused(words, f"{format_} has version {found}, and this program reads versions up to "
                            f"{known}: {ADVICE}")

    def change(self, name, turn):
        """The bytes of a file, turned into others."""
        with open(self.path("new", name), "rb") as f:
            old = f.read()
        new = turn(old)
        self.assertNotEqual(old, new)
        with open(self.path("new", name), "wb") as f:
            f.write(new)
        return old, new

    def newer_manifest(self):
        self.change(f"runs/one/{FOLDER}/manifest.json",
                    lambda x: seal(x.replace(b'"version":1', b'"version":2', 1)))

    def test_manifest(self):
        self.newer_manifest()
        for words in (("ckpt", "verify"), ("ckpt", "info")):
            self.newer((*words, f"runs/one/{FOLDER}"), "the checkpoint manifest")

    def test_resume_sets_nothing_aside(self):
        """A newer checkpoint is intact: it ends the resume, and an older one is not taken."""
        again = f"runs/one/{FOLDER}".replace("4", "2")
        shutil.copytree(self.path("new", f"runs/one/{FOLDER}"), self.path("new", again))
        self.newer_manifest()
        before = sorted(os.listdir(self.path("new", "runs/one/checkpoints")))
        self.newer(("train", "ini/one.ini", "run.out=runs/one", "--resume"),
                   "the checkpoint manifest")
        after = sorted(set(os.listdir(self.path("new", "runs/one/checkpoints"))) - {".lock"})
        self.assertEqual(after, before)

    def test_shard(self):
        def header(data):
            (length,) = struct.unpack("<Q", data[:8])
            head = json.loads(data[8:8 + length])
            head["__metadata__"] = head.get("__metadata__", {}) | {"version": "2"}
            text = json.dumps(head).encode()
            text += b" " * (-len(text) % 8)
            return struct.pack("<Q", len(text)) + text + data[8 + length:]

        old, new = self.change(f"runs/one/{FOLDER}/shard-00000-of-00001.safetensors", header)
        sums = [f'"bytes":{len(x)},"sha256":"{hashlib.sha256(x).hexdigest()}"'.encode()
                for x in (old, new)]
        self.change(f"runs/one/{FOLDER}/manifest.json", lambda x: seal(x.replace(*sums)))
        self.newer(("ckpt", "verify", f"runs/one/{FOLDER}"), "the checkpoint shard")

    def test_tokens(self):
        for magic, known in ((20261121, 3), (20240520, 1), (20240801, 7)):
            write_tokens(self.path("new", "chain.tokens"), [1, 2, 3] * 40, 16, magic, known + 1)
            self.newer(("plan", "ini/one.ini"), "chain.tokens", known + 1, known)

    def test_flight(self):
        self.change("runs/one/flight/rank-0000.ring",
                    lambda x: x[:8] + struct.pack("<I", 2) + x[12:])
        self.newer(("flight", "runs/one"), "the flight record")

    def test_tuned(self):
        self.change("tuned.ini", lambda x: b"; weft tuned file, version 2\n" + x)
        self.newer(("plan", "-n", 4, "ini/tuned.ini"), "the tuned file")

    def test_tuned_as_written(self):
        """What this program writes says its version, and is read."""
        self.weft("new", "tune", "comm", "-n", 2, "comm.plugin=tcp", "tune.seconds=0.01",
                  "tune.passes=1", "tune.max=1K", "-o", "tuned.ini")
        with open(self.path("new", "tuned.ini"), encoding="utf-8") as f:
            self.assertEqual(f.readline(), "; weft tuned file, version 1\n")
        self.weft("new", "plan", "-n", 4, "ini/tuned.ini")

    def test_metrics(self):
        self.change("runs/one/metrics.jsonl", lambda x: x.replace(b"}\n", b',"version":2}\n'))
        self.newer(("train", "ini/one.ini", "run.out=runs/one", "--resume"), "metrics.jsonl")

    def test_bench_table(self):
        self.change("bench/comm.csv", lambda x: b"more," + x)
        self.refused(("bench", "comm", "-n", 2, "bench.ini", "bench.append=on"),
                     "comm.csv has other columns than this program writes", "another bench.out")

    def test_key(self):
        self.change("job.key", lambda x: b"weft key 2\n" + x)
        os.chmod(self.path("new", "job.key"), 0o600)
        place = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        self.refused(("train", "ini/dp2.ini", "run.key=job.key"),
                     "the key file has version 2, and this program reads versions up to 1", ADVICE,
                     extra=place)

    def test_unknown_keys(self):
        """A job file has no version: what is unknown in it is refused with file and line."""
        self.change("ini/one.ini", lambda x: x.replace(b"[model]\n", b"[model]\nnewer = 1\n"))
        self.refused(("plan", "ini/one.ini"), "ini/one.ini:", "unknown key 'newer' in [model]")
        self.change("ini/one-sgd.ini", lambda x: b"[newer]\nkey = 1\n" + x)
        self.refused(("plan", "ini/one-sgd.ini"), "ini/one-sgd.ini:1", "unknown section [newer]")
        self.change("sweep.ini", lambda x: x.replace(b"[sweep]\n", b"[sweep]\nnewer = 1\n"))
        self.refused(("bench", "sweep.ini", "--plan"), "sweep.ini:", "newer")

    def test_written_versions(self):
        """JSON that weft writes says its version."""
        self.weft("new", "train", "ini/one.ini", "run.out=written")
        with open(self.path("new", "written", "metrics.jsonl"), encoding="utf-8") as f:
            self.assertEqual({json.loads(line)["version"] for line in f}, {1})
        with open(self.path("new", "written", "trace.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["otherData"], {"version": "1"})
        for words in (("plan", "ini/one.ini", "--json"), ("doctor", "--json")):
            process = self.start("new", words)
            out, err = process.communicate(timeout=300)
            self.assertEqual(json.loads(out)["version"], 1, err)
        self.weft("new", "bench", "sweep.ini", "--plan", "sweep.out=swept")


del old_files.Old  # a base alone
if __name__ == "__main__":
    unittest.main(verbosity=1)
