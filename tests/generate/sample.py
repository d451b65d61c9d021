"""Generation on one rank: from caches as from the whole model, draws, ends, and evaluation."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "hf")]
import folder  # noqa: E402  (tests/hf/folder.py)
import models  # noqa: E402
import started  # noqa: E402

LONG = "the square of 81 is 6561, more or less; and of 82 it is 6724. "  # more than a chunk


class Sample(models.Case):
    def same(self, folder, tolerance, *words, cachable=True):
        """Log-probabilities of the same tokens, computed from caches and without."""
        cached = self.sampled(folder, *words)
        whole = self.sampled(folder, *words, "--uncached")
        self.assertEqual(cached["cached"], cachable)
        self.assertFalse(whole["cached"])
        self.assertEqual(cached["ids"], whole["ids"])
        self.assertEqual(cached["text"], whole["text"])
        apart = [abs(a - b) for a, b in zip(cached["log_probabilities"],
                                            whole["log_probabilities"])]
        self.assertLess(max(apart), tolerance)
        return cached

    def test_caches_give_what_the_whole_model_gives(self):
        for family in models.MODEL:
            saved = self.trained(family)
            for prompt in ("", "7", LONG, LONG[:64], LONG[:65] + LONG[:31]):
                with self.subTest(family=family, prompt=len(prompt)):
                    one = self.same(saved, 1e-5, "--prompt", prompt, "--temperature", 0,
                                    "--tokens", 30)
                    self.assertEqual(one["prompt"], prompt or "\n")
                    self.assertEqual(len(one["ids"]), 30)

    def test_caches_with_other_keys_of_a_model(self):
        """No value is the default of an op, which would stand in for one that is lost."""
        self.trained("llama")
        for i, keys in enumerate((
                ("rope_scaling=llama3", "rope_factor=8", "rope_low=0.5", "rope_high=3",
                 "rope_original=16", "qk_norm=on", "head_dim=12"),
                ("rope_scaling=linear", "rope_factor=4", "rope_theta=500", "qkv_bias=on",
                 "activation=gelu_tanh"))):
            with self.subTest(keys=keys):
                self.weft("train", "llama-fp32.ini", f"run.out=keys{i}",
                          *[f"model.{x}" for x in keys])
                self.same(f"keys{i}/checkpoints/step-00000004", 1e-5, "--prompt",
                          LONG[:65] + LONG[:9], "--temperature", 0, "--tokens", 15)

    def test_a_full_context(self):
        saved = self.trained("llama")
        words = ("--prompt", LONG, "--temperature", 0.9, "--seed", 4, "--tokens", 100)
        one = self.same(saved, 1e-5, *words)
        self.assertEqual(one["forgotten"], 48 + 48)
        said = self.weft("sample", saved, *words)[1]
        self.assertEqual(said.count("the older half is forgotten"), 1)
        done = subprocess.run([started.WEFT, "sample", saved, *map(str, words)], cwd=self.place,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        self.assertRegex(done.stdout.decode("utf-8", "replace"),
                         r"\n(\S+Z )?weft warn: the context of 96 tokens is full: .*\n$")
        said = self.weft("sample", saved, "--prompt", LONG * 3, "--tokens", 1)[1]
        self.assertIn(f"the prompt has {3 * len(LONG)} tokens and the model a context of 96", said)

    def test_the_shortest_contexts(self):
        """Of 1, 2 and 3 tokens: prompts that are not longer, and longer; text behind them."""
        self.trained("gpt2")
        for family in models.MODEL:
            self.trained(family)
            for context in (1, 2, 3):
                out = f"{family}-{context}"
                self.weft("train", f"{family}-fp32.ini", f"model.context={context}",
                          f"train.sequence={context}", f"run.out={out}")
                saved = f"{out}/checkpoints/step-00000004"
                for prompt in ("a", LONG):
                    with self.subTest(family=family, context=context, prompt=len(prompt)):
                        one = self.same(saved, 1e-5, "--prompt", prompt, "--temperature", 0,
                                        "--tokens", 20, cachable=context > 1)
                        self.assertEqual(one["prompt"], prompt)
                        self.assertEqual(len(one["ids"]), 20)
                        end = self.sampled(saved, "--prompt", prompt[-context:], "--temperature",
                                           0, "--tokens", 1)
                        self.assertEqual(one["ids"][0], end["ids"][0])

    def test_sixteen_bits(self):
        saved = self.trained("llama", "bf16")
        cached = self.sampled(saved, "--prompt", LONG, "--temperature", 0, "--tokens", 20)
        ids = ",".join(map(str, cached["prompt_ids"] + cached["ids"][:-1]))
        whole = self.sampled(saved, "--ids", ids, "--temperature", 0, "--tokens", 1, "--uncached")
        self.assertLess(abs(whole["log_probabilities"][0] - cached["log_probabilities"][-1]), 0.1)

    def test_draws_repeat(self):
        saved = self.trained("gpt2")
        words = ("--prompt", "1", "--tokens", 40, "--temperature", 1, "--top-p", 0.9, "--top-k", 60)
        one, again, other = (self.sampled(saved, *words, "--seed", seed) for seed in (1, 1, 2))
        for x in (one, again, other):
            del x["seconds"], x["prompt_seconds"]
        self.assertEqual(one, again)
        self.assertNotEqual(one["ids"], other["ids"])
        self.assertEqual(self.sampled(saved, *words, "--top-k", 1)["ids"],
                         self.sampled(saved, *words, "--temperature", 0)["ids"])
        self.assertEqual(self.sampled(saved, *words, "--top-p", 1e-9)["ids"],
                         self.sampled(saved, *words, "--temperature", 0)["ids"])

    def test_ends(self):
        saved = self.trained("gpt2")
        words = ("--prompt", "12 is", "--temperature", 1, "--seed", 3, "--tokens", 80)
        text = self.sampled(saved, *words)["text"]
        stop = next(c for i, c in enumerate(text) if i > 4 and "\n" < c < "\x7f"
                    and c not in text[:i])
        one = self.sampled(saved, *words, "--stop", stop, "--stop", "never there")
        self.assertEqual((one["text"], one["end"]), (text[:text.index(stop)], "stop"))
        out = self.weft("sample", saved, *words, "--stop", stop)[0]
        self.assertEqual(out, "12 is" + text[:text.index(stop)] + "\n")
        self.assertEqual(self.sampled(saved, *words)["end"], "tokens")

    def test_prompts(self):
        saved = self.trained("gpt2")
        words = ("--temperature", 0, "--tokens", 5)
        want = self.weft("sample", saved, "--prompt", LONG, *words)[0]
        self.write("prompt.txt", LONG)
        self.assertEqual(self.weft("sample", saved, "--prompt-file", "prompt.txt", *words)[0], want)
        ids = " ".join(str(x) for x in LONG.encode())
        self.assertEqual(self.weft("sample", saved, "--ids", ids, *words)[0], want)
        self.write("zero.txt", b"a\0b")
        for bad, why in ((("--prompt-file", "none.txt"), "none.txt"),
                         (("--prompt-file", "zero.txt"), "zero byte"),
                         (("--ids", "1 256"), "below 256"), (("--ids", "x"), "token numbers"),
                         (("--prompt", "a", "--ids", "1"), "given twice"),
                         (("--top-p", "0"), "out of range"), (("--stop", ""), "out of range"),
                         (("--max-new-tokens", "2"), "there is no option --max-new-tokens"),
                         (("--seed",), "the value of --seed is missing"),
                         (("--tokens", "0"), "a number from 1 to 1000000000")):
            with self.subTest(bad):
                self.refused("sample", saved, *bad, why=why)


    def test_it_ends_with_its_reader(self):
        """A write that fails ends it: so many tokens would take hours."""
        saved = self.trained("gpt2")
        words = [started.WEFT, "sample", saved, "--prompt", "a", "--tokens", "1000000000"]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(words, cwd=self.place, stdout=full, stderr=subprocess.PIPE,
                                  timeout=300, check=False, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the text cannot be written: No space left on device", done.stderr)
        with subprocess.Popen(words, cwd=self.place, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as child:
            self.assertEqual(len(child.stdout.read(10)), 10)
            child.stdout.close()
            said = child.stderr.read().decode()
            self.assertEqual(child.wait(120), 1, said)
        self.assertIn("the text cannot be written: Broken pipe", said)


class NotFinite(models.Case):
    """Weights that are not finite give neither text nor a loss."""

    def test_sample_and_eval(self):
        saved = self.trained("llama")
        self.weft("export", "hf", saved, "-o", "good")
        for value in (math.nan, math.inf, -math.inf):
            with self.subTest(value=value):
                tensors = folder.read(self.path("good"))
                name = "model.norm.weight"
                kind, shape, data = tensors[name]
                tensors[name] = (kind, shape, struct.pack("<f", value) + data[4:])
                place = f"bad{value}"
                folder.write(self.path(place + "-from"), folder.config(self.path("good")), tensors)
                self.weft("import", "hf", place + "-from", "-o", place)
                for json in ((), ("--json",)):
                    said = self.weft("sample", place, "--ids", "1", *json, status=1)
                    self.assertIn("the logits of token 1 behind the prompt are not finite", said[1])
                    said = self.weft("eval", place, "--data", "valid.bin", *json,
                                     "train.sequence=48", "train.batch=4", status=1)
                    self.assertIn("samples from sample 0 on is not finite", said[1])
                    self.assertNotIn("loss", said[0])
                said = self.weft("eval", place, "--data", "valid.bin", "--batches", 1,
                                 "train.sequence=48", "train.batch=4", status=1)[1]
                self.assertIn("samples from sample 0 on is not finite", said)

    def test_the_size_that_the_data_says(self):
        """vocab = 0 stands for it, and the files of others have the number."""
        self.trained("gpt2")
        self.weft("train", "gpt2-fp32.ini", "model.vocab=0", "run.out=no-number")
        self.weft("export", "hf", "no-number/checkpoints/step-00000004", "-o", "zero")
        vocab = folder.config(self.path("zero"))["vocab_size"]
        self.assertEqual(vocab, folder.read(self.path("zero"))["transformer.wte.weight"][1][0])
        self.weft("import", "hf", "zero", "-o", "back")

    def test_links_in_a_checkpoint(self):
        """What they lead to is not copied, unless the user names the folder."""
        saved = self.trained("gpt2")
        self.weft("export", "hf", saved, "-o", "plain")
        shutil.copytree(self.path("plain"), self.path("tokenizer"))
        os.symlink("/etc/hostname", self.path("tokenizer", "tokenizer.json"))
        for name in ("config.json", "tokenizer.json"):
            os.symlink(self.path("tokenizer", name), self.path(saved, name))
        said = self.weft("export", "hf", saved, "-o", "links", status=2)[1]
        self.assertIn("is a link", said)
        self.assertFalse(os.path.exists(self.path("links")))
        self.weft("export", "hf", saved, "-o", "named", "--tokenizer", "tokenizer")
        self.assertTrue(os.path.exists(self.path("named", "tokenizer.json")))


class Evaluate(models.Case):
    def test_it_is_the_loss_of_training(self):
        for precision in ("fp32", "bf16"):
            saved = self.trained("llama", precision, batches=3)
            found = self.evaluated(saved, "--batches", 3)
            self.assertEqual(f"{found['loss']:.9g}", f"{self.valid_loss(f'llama-{precision}'):.9g}")
            self.assertEqual(found["samples"], 12)
        for name, *layout in (("dp", "parallel.strategy=dp"),
                              ("tp", "parallel.strategy=tp", "parallel.tp=2")):
            self.weft("train", "-n", 2, "llama-fp32.ini", *layout, "comm.plugin=shm",
                      f"run.out={name}")
            found = self.evaluated(f"{name}/checkpoints/step-00000004", "--batches", 3, ranks=2)
            self.assertEqual(f"{found['loss']:.9g}", f"{self.valid_loss(name):.9g}")
            self.assertEqual(found["samples"], 12)

    def test_every_sample_counts_once(self):
        saved = self.trained("gpt2")
        size = os.path.getsize(self.path("valid.bin"))
        one = self.evaluated(saved, "train.microbatch=1", "train.batch=4")
        other = self.evaluated(saved, "train.microbatch=4", "train.batch=4")
        self.assertEqual(one["samples"], other["samples"])
        self.assertLess(abs(one["loss"] - other["loss"]), 1e-6)
        self.assertEqual(one["tokens"], one["samples"] * 48)
        self.assertLess(one["left_out"], 48)
        self.assertGreater(one["left_out"] + one["tokens"], 0)
        self.assertLess(one["tokens"] + one["left_out"], size)
        self.assertAlmostEqual(one["perplexity"], math.exp(one["loss"]), places=9)
        self.assertEqual(one["bytes"], one["tokens"])  # a byte is a token
        self.assertAlmostEqual(one["bits_per_byte"], one["loss"] / math.log(2), places=9)

    def test_batches_count_no_sample_twice(self):
        saved = self.trained("gpt2")
        n = self.evaluated(saved)["samples"]
        for batch, counted in ((n // 2 + 1, n // 2 + 1), (n + 3, n + 3)):  # three again
            found = self.evaluated(saved, "--batches", 10, "train.microbatch=1",
                                   f"train.batch={batch}")
            self.assertEqual(found["samples"], counted)

    def test_the_loss_is_that_of_the_log_probabilities(self):
        """48 tokens are drawn behind one; the 49 are a sample whose targets are those drawn."""
        for family in models.MODEL:
            saved = self.trained(family)
            drawn = self.sampled(saved, "--ids", "55", "--tokens", 48, "--temperature", 1)
            self.write("one.txt", bytes([55, *drawn["ids"]]))
            self.weft("data", "one.txt", "-o", "one.bin", "--force")
            found = self.evaluated(saved, "--data", "one.bin", "train.microbatch=1",
                                   "train.batch=1")
            self.assertEqual((found["samples"], found["left_out"]), (1, 0))
            mean = -sum(drawn["log_probabilities"]) / 48
            self.assertLess(abs(found["loss"] - mean), 1e-5)

    def test_refusals(self):
        saved = self.trained("gpt2")
        self.refused("eval", why="name a checkpoint")
        self.refused("eval", saved, "--batches", "0", why="--batches")
        self.refused("eval", saved, "--data", "none.bin", why="none.bin")
        self.refused("eval", saved, "data.valid=", why="--data FILE")
        for typed in ("optim.lr=1", "optim.rule=sgd", "checkpoint.every=1", "run.steps=9",
                      "train.clip=2", "comm.compress=int8", "log.progress=0"):
            why = f"{typed.split(chr(61))[0]}: the key has no effect: weft"
            self.refused("eval", saved, "--data", "valid.bin", typed, why=f"{why} eval")
            self.refused("sample", saved, "--ids", "1", typed, why=f"{why} sample")
        self.refused("sample", saved, "--ids", "1", "data.valid=valid.bin", why="has no effect")

    def test_keys_that_nothing_reads(self):
        """As in a job: only typed ones, for the job of a checkpoint has many."""
        saved = self.trained("gpt2")
        tp = "strategy tp reads it, and parallel.strategy is "
        one, two = ("-n", 1), ("-n", 2, "parallel.strategy=dp", "comm.plugin=shm")
        both, sample = ("eval", "sample"), ("sample",)
        nothing = "weft COMMAND trains nothing and does not read it"
        for typed, words, commands, why in (
                ("parallel.tp=2", one, both, tp + "none"),
                ("parallel.tp=2", two, both, tp + "dp"),
                ("parallel.schedule=fthenb", two, both, "strategy pp reads it"),
                ("tokenizer.file=x.json", one, both, "tokenizer hf or sentencepiece reads it"),
                ("comm.tcp.encrypt=on", one, both, "the job has one rank"),
                ("comm.algorithm=ring", one, both, "the job has one rank"),
                ("run.join_timeout=3", one, both, "the job has one rank"),
                ("comm.tcp.encrypt=on", two, both, "no mesh axis of this job goes over tcp"),
                ("comm.reduce=3", (*two, "comm.algorithm=ring"), both, "every algorithm is named"),
                ("data.begin=line", one, ("eval",), "data source text reads it"),
                ("data.begin=line", one, sample, nothing),
                ("data.boundary=begin:3", one, sample, nothing),
                ("data.order=starts", one, both, nothing),
                ("data.train=train.bin", one, both, nothing),
                ("log.trace_mb=3", one, both, nothing)):
            for command in commands:
                given = ("--ids", "1") if command == "sample" else ("--data", "valid.bin")
                with self.subTest(command=command, typed=typed):
                    self.refused(command, *words[:2], saved, *given, *words[2:], typed,
                                 why=f"command line: {typed.split('=', 1)[0]}: the key has no "
                                     f"effect: {why.replace('COMMAND', command)}")


class Foreign(models.Case):
    """A checkpoint of somebody else does not say which code is loaded (docs/FOREIGN.md)."""

    def archive(self):
        """A checkpoint whose job names folders of plugins, and such a folder beside it: what is
        loaded from there ends the command."""
        self.trained("gpt2")
        os.makedirs(self.path("archive/lib/model"))
        self.weft("train", "gpt2-fp32.ini", "run.plugins=archive/lib", "run.out=archive/run")
        self.write("archive/lib/model/gpt2.so", "code of somebody else")
        return "archive/run/checkpoints/step-00000004"

    def test_no_folder_of_plugins(self):
        saved, given = self.archive(), "run.plugins=archive/lib"
        for words in (("sample", saved, "--prompt", "7", "--tokens", 2),
                      ("eval", saved, "--data", "valid.bin"),
                      ("export", "hf", saved, "-o", "weights")):
            with self.subTest(command=words[0]):
                said = self.weft(*words)[1]
                self.assertEqual(said.count("its job says run.plugins = archive/lib, which is not "
                                            "used"), 1, said)
                self.assertIn(f"if you trust it, give {given}", said)
                shutil.rmtree(self.path("weights"), ignore_errors=True)
                self.refused(*words, given, why="archive/lib/model/gpt2.so")
        for words in (("ckpt", "verify", saved), ("ckpt", "info", saved)):
            self.weft(*words)

    READERS = (("sample", "--prompt", "7", "--tokens", 2), ("eval", "--data", "valid.bin"),
               ("export", "hf", "-o", "weights"))

    def opened(self, saved, words, status=0):
        place = 2 if words[0] == "export" else 1
        shutil.rmtree(self.path("weights"), ignore_errors=True)
        return self.weft(*words[:place], saved, *words[place:], status=status)[1]

    def test_no_library_of_a_checkpoint(self):
        """It is left out, with a warning where the command reads its section."""
        for section, key in (("device", "libraries"), ("comm.mpi", "library"), ("run", "plugins")):
            saved = self.trained("gpt2")
            self.forge(saved, section, key, "./evil")
            for words in self.READERS:
                with self.subTest(section=section, command=words[0]):
                    said = self.opened(saved, words)
                    if section != "comm.mpi":
                        self.assertIn(f"its job says {section}.{key} = ./evil, which is not used",
                                      said)

    def test_no_path_in_a_name(self):
        """Names of components are looked up in folders of plugins; a path is no name."""
        os.makedirs(self.path("model"))
        for name in ("x.so", "model/x.so", "evil.so"):
            self.write(name, "code of somebody else")
        for section, key, value in (("run", "use", "../../x"), ("model", "family", "../x"),
                                    ("device", "plugin", self.path("x")), ("run", "use", "x.so"),
                                    ("data", "tokenizer", "../x"), ("model", "family", "evil")):
            saved = self.trained("gpt2")
            self.forge(saved, section, key, value)
            for words in self.READERS[:1 if key == "tokenizer" else 2]:
                with self.subTest(key=key, value=value, command=words[0]):
                    said = self.opened(saved, words, status=2)
                    self.assertRegex(said, "is not a plugin name|no .*plugin '")
                    self.assertNotRegex(said, "not a shared object|loader")

    def test_no_code_in_data(self):
        """A token file, a tokenizer and a folder of Hugging Face have no place for a name of code:
        what stands there all the same is passed over or refused, and nothing is loaded."""
        saved = self.trained("gpt2")
        self.weft("export", "hf", saved, "-o", "weights")
        with open(self.path("weights", "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config |= {"auto_map": {"AutoModel": "evil.py"}, "plugins": "evil", "library": "evil.so"}
        self.write("weights/config.json", json.dumps(config))
        self.write("weights/evil.py", "raise SystemExit('code of somebody else')")
        self.weft("import", "hf", "weights", "-o", "back")
        self.assertNotIn(b"evil", self.read("back", "manifest.json"))
        whole = self.read("valid.bin")
        self.write("tokens.bin", whole[:32] + b"run.plugins=./evil\0" + whole[51:])
        said = self.weft("eval", saved, "--data", "tokens.bin")[1]
        self.assertNotIn("evil", said)
        self.write("tokenizer.json", json.dumps({"library": "./evil.so", "model": {
            "type": "BPE", "vocab": {"a": 0}, "merges": []}}))
        said = self.weft("sample", saved, "--prompt", "a", "--tokens", 1, "data.tokenizer=bpe",
                         "tokenizer.file=tokenizer.json", status=2)[1]
        self.assertNotIn("evil", said)

    def test_no_library(self):
        """Nor does a file of measurements."""
        self.trained("gpt2")
        tuned = "[comm]\nplugin = tcp\n[comm.mpi]\nlibrary = ./libmpi.so\n"
        self.write("tuned.ini", tuned)
        self.refused("plan", "gpt2-fp32.ini", "comm.tuned=tuned.ini",
                     why="tuned.ini:4: library is not allowed in a file of comm.tuned: it names")


if __name__ == "__main__":
    started.main()
