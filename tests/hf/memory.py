#!/usr/bin/env python3
"""Does a rank that loads weights hold what the plan says, and at most 64 MiB beside it?

The most that a rank had in memory at any time (VmHWM), for models of 200 MB of which every matrix
or none is transposed, from a folder of Hugging Face and from the checkpoint of an import, on one
rank and split over two. They talk over tcp: with shm, pages of the
other rank that a rank has read in the step would count as its own.

  memory.py WEFT [unittest's arguments]"""
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import folder
import shapes
from jobs import w

BESIDE = 64 << 20
EMBED, VOCAB = 1024, 4096
LLAMA = {"architectures": ["LlamaForCausalLM"], "hidden_size": EMBED, "num_attention_heads": 8,
         "intermediate_size": 4 * EMBED, "vocab_size": VOCAB, "max_position_embeddings": 256,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "num_hidden_layers": 3}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": EMBED, "n_head": 8, "vocab_size": VOCAB,
        "n_positions": 256, "n_layer": 4}


def tensors(names, kind):
    width, out = folder.WIDTH[kind], {}
    for name, shape in names:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        block = folder.encode(kind, shapes.values(name, 1 << 12))
        out[name] = (kind, shape, (block * (count * width // len(block) + 1))[:count * width])
    return out


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="weft-hf-memory-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.data = os.path.join(cls.place, "train.bin")
        w.numbers_of_weft.write_tokens(cls.data, shapes.tokens(VOCAB, 3000), VOCAB)

    def model(self, config, names, kind):
        """The folder and the checkpoint that an import makes of it, and the import's job."""
        source, start = os.path.join(self.place, "source"), os.path.join(self.place, "start")
        for path in (source, start):
            shutil.rmtree(path, ignore_errors=True)
        folder.write(source, config, tensors(names(config), kind))
        w.weft("import", "hf", source, "-o", start)
        with open(start + "/job.ini", encoding="utf-8") as f:
            text = f.read()
        self.assertIn(f"init = {start}\n", text)
        job = os.path.join(self.place, "job.ini")
        with open(job, "w", encoding="utf-8") as f:
            f.write(text)
        return job, (source, start)

    def peak(self, job, ranks, keys):
        """Bytes that the plan has for a rank, and the most that a rank had."""
        words = [f"{k}={v}" for k, v in keys.items()]
        plan = json.loads(w.weft("plan", "-n", ranks, job, *words, "--json").stdout)
        planned = max(r["peak"] for r in plan["ranks"])
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run(
            [sys.executable, "-c", code, w.WEFT, "train", "-n", str(ranks), job, *words],
            env=w.environment(None), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return planned, int(done.stdout.split()[-1]) << 10

    def check(self, config, names, kind="F32"):
        job, places = self.model(config, names, kind)
        keys = {"data.train": self.data, "run.out": os.path.join(self.place, "run"),
                "run.steps": 1, "train.batch": 2, "train.microbatch": 1, "train.sequence": 16,
                "train.eval_every": 0, "comm.plugin": "tcp", "device.threads": 1, "log.progress": 0,
                "log.peak_gflops": 1}
        layouts = ((1, {}), (2, {"parallel.strategy": "tp"}), (2, {"optim.placement": "zero3"}))
        for place, (ranks, strategy) in itertools.product(places, layouts):
            with self.subTest(os.path.basename(place), ranks=ranks, strategy=strategy):
                shutil.rmtree(keys["run.out"], ignore_errors=True)
                planned, had = self.peak(job, ranks, {"checkpoint.init": place} | keys | strategy)
                self.assertLessEqual(had, planned + BESIDE)
                self.assertGreater(had, planned // 2)  # it is the ranks that were measured

    def test_rows(self):
        self.check(LLAMA, shapes.llama_tensors)

    def test_columns_in_half(self):
        self.check(GPT2, shapes.gpt2_tensors, "BF16")


if __name__ == "__main__":
    unittest.main(argv=[__file__, *sys.argv[2:]])
