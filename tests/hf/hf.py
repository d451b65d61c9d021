#!/usr/bin/env python3
"""Do weights of other programs come in and go out as docs/HUGGINGFACE.md says?

recorded.json has names, shapes and losses of transformers (peers.py); the files are made again from
shapes.py. Every script is `SCRIPT WEFT [unittest's arguments]`."""
import base64
import gzip
import json
import math
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

import folder
import jobs
import shapes
from jobs import w


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = jobs.recorded()
        cls.place = tempfile.mkdtemp(prefix="weft-hf-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        for vocab in {m[2]["vocab_size"] for m in shapes.MODELS.values()}:
            jobs.write_data(cls.place, vocab)

    def path(self, *names):
        return os.path.join(self.place, *names)

    def made(self, name, to=None, files=1, change=None, drop=None, tensors=None):
        """A folder of the model, with other fields or tensors; returns its path."""
        model = self.models[name]
        to = self.path(to or name)
        shutil.rmtree(to, ignore_errors=True)
        config = model["config"] | (change or {})
        folder.write(to, {k: v for k, v in config.items() if k != drop},
                     folder.tensors_of(model) if tensors is None else tensors, files)
        return to

    def imported(self, name, to, **more):
        out = self.path(to)
        shutil.rmtree(out, ignore_errors=True)
        w.weft("import", "hf", self.made(name, to + "-from", **more), "-o", out)
        return out

    def vocab(self, name):
        return self.models[name]["config"]["vocab_size"]


class Losses(Case):
    """The loss of transformers, before and after 20 steps; and the same files out again."""

    def one(self, name):
        model, start, out = self.models[name], self.imported(name, name, files=3), self.path("out")
        ini = start + "/job.ini"
        jobs.near(jobs.first_loss(self.place, ini, self.vocab(name), out), model["loss"], 1e-6)
        here = jobs.train(self.place, ini, self.vocab(name), out)
        jobs.near(here, model["trained"], 2e-5)
        self.assertGreater(abs(here - model["loss"]), 1e-3 * here)
        kind = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[model["type"]]
        back = self.path(name + "-back")
        w.weft("export", "hf", start, "-o", back, "--dtype", kind)
        self.assertEqual(folder.read(back), folder.tensors_of(model))
        self.assertEqual(folder.unpack(back + "/model.safetensors")[1], {"format": "pt"})
        self.same_config(folder.config(back), model)

    def same_config(self, config, model):
        self.assertEqual(config["torch_dtype"], model["type"])
        for key, value in model["config"].items():
            if key in ("dtype", "transformers_version") or (key == "n_inner" and value is None):
                continue
            self.assertEqual(config.get(key), value, key)


for _name in shapes.MODELS:
    setattr(Losses, f"test_{_name}", lambda self, name=_name: self.one(name))


class Deep(Case):
    def test_layers_of_two_digits_and_buffers(self):
        """Masks and frequencies, which older files have, are no parameters."""
        for name, layers, each, buffers in (
                ("gpt2", "n_layer", "transformer.h.", ("attn.bias", "attn.masked_bias")),
                ("llama2", "num_hidden_layers", "model.layers.",
                 ("self_attn.rotary_emb.inv_freq",))):
            tensors, first = folder.tensors_of(self.models[name]), each + "0."
            for key, (kind, shape, data) in list(tensors.items()):
                for i in range(2, 11 if key.startswith(first) else 0):  # with values of its own
                    tensors[key.replace(first, f"{each}{i}.")] = (kind, shape,
                                                                  data[4 * i:] + data[:4 * i])
            more = {f"{each}{i}.{x}": ("I32", [1], b"1234") for i in range(11) for x in buffers}
            start, back = self.imported(name, "deep", change={layers: 11},
                                        tensors=tensors | more), self.path(name + "-deep-back")
            w.weft("export", "hf", start, "-o", back)
            self.assertEqual(folder.read(back), tensors)


class Trained(Case):
    """Weights after steps of training, in every type of files."""

    def test_types_round_to_nearest(self):
        start, out = self.imported("qwen3", "types"), self.path("types-run")
        jobs.train(self.place, start + "/job.ini", self.vocab("qwen3"), out, run__steps=3,
                   checkpoint__every=3)
        trained = out + "/checkpoints/step-00000003"
        files = {}
        for kind in ("fp32", "bf16", "fp16"):
            w.weft("export", "hf", trained, "-o", self.path("types-" + kind), "--dtype", kind)
            files[kind] = folder.read(self.path("types-" + kind))
        exact = 0
        for name, (_, shape, data) in files["fp32"].items():
            values = folder.decode("F32", data)
            for kind, there in (("bf16", "BF16"), ("fp16", "F16")):
                self.assertEqual(files[kind][name], (there, shape, folder.encode(there, values)))
            exact += folder.decode("BF16", files["bf16"][name][2]) == values
        self.assertLess(exact, len(files["fp32"]) / 2)  # training has moved the values
        again = self.path("types-again")
        w.weft("import", "hf", self.path("types-fp32"), "-o", again)
        one, two = (w.checkpoint.read(x) for x in (trained, again))
        for name, tensor in two.items():
            self.assertEqual(list(one[name][1]), list(tensor[1]), name)

    def test_what_fp16_cannot_hold(self):
        """65519 is the last value that rounds to its largest; whether a tensor is turned or not."""
        for name in ("transformer.ln_f.bias", "transformer.h.1.mlp.c_fc.weight"):
            for value, lawful in ((65519.0, True), (65520.0, False), (-1e5, False)):
                with self.subTest(name=name, value=value):
                    tensors = folder.tensors_of(self.models["gpt2"])
                    kind, shape, data = tensors[name]
                    tensors[name] = (kind, shape, data[:-4] + struct.pack("<f", value))
                    start, back = self.imported("gpt2", "wide", tensors=tensors), self.path("half")
                    shutil.rmtree(back, ignore_errors=True)
                    words = ["export", "hf", start, "-o", back, "--dtype"]
                    said = w.weft(*words, "fp16", status=0 if lawful else 2).stderr
                    if lawful:
                        self.assertEqual(folder.read(back)[name][2][-2:], struct.pack("<e", 65504))
                        continue
                    self.assertRegex(said, f"has the value {abs(value):g}, which fp16 cannot hold")
                    self.assertFalse(os.path.exists(back))
                    w.weft(*words, "bf16")

    def test_several_files(self):
        """A model that is larger than a file may be has an index, and comes back bit for bit."""
        for name, kind in (("qwen3", "fp32"), ("gpt2", "bf16")):
            start, back = self.imported(name, "files"), self.path("files-back")
            whole, again = self.path("files-whole"), self.path("files-again")
            for path in (back, whole, again):
                shutil.rmtree(path, ignore_errors=True)
            w.weft("export", "hf", start, "-o", back, "--dtype", kind,
                   extra={"WEFT_TEST_FILE_BYTES": "20000"})
            with open(os.path.join(back, folder.INDEX), encoding="utf-8") as f:
                index = json.load(f)
            files = sorted(set(index["weight_map"].values()))
            self.assertGreater(len(files), 2)
            self.assertEqual(files, [f"model-{i + 1:05}-of-{len(files):05}.safetensors"
                                     for i in range(len(files))])
            self.assertEqual(sorted(x for x in os.listdir(back) if x.endswith("rs")), files)
            parts = {x: folder.unpack(os.path.join(back, x))[0] for x in files}
            for tensor, file in index["weight_map"].items():
                self.assertIn(tensor, parts[file])
            sizes = [sum(len(v[2]) for v in part.values()) for part in parts.values()]
            self.assertEqual(index["metadata"]["total_size"], sum(sizes))
            for part, size in zip(parts.values(), sizes, strict=True):
                self.assertTrue(size <= 20000 or len(part) == 1, size)
            w.weft("export", "hf", start, "-o", whole, "--dtype", kind)
            self.assertEqual(folder.read(back), folder.read(whole))
            w.weft("import", "hf", back, "-o", again)
            w.weft("import", "hf", whole, "-o", whole + "-again")
            one, two = (w.checkpoint.read(x) for x in (again, whole + "-again"))
            self.assertEqual({k: list(v[1]) for k, v in one.items()},
                             {k: list(v[1]) for k, v in two.items()})
            shutil.rmtree(whole + "-again")

    def test_a_large_vocabulary(self):
        """That of Llama 3: tokens that 16 bits do not hold. With a head of zeros all tokens are
        equally probable."""
        vocab = 128256
        config = self.models["llama2"]["config"] | {
            "vocab_size": vocab, "hidden_size": 8, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 16,
            "num_hidden_layers": 1}
        tensors = {}
        for name, shape in shapes.llama_tensors(config):
            shape = [4, 8] if "k_proj" in name or "v_proj" in name else shape
            count = shape[0] * (shape[1] if len(shape) > 1 else 1)
            tensors[name] = ("F32", shape, folder.encode("F32", shapes.values(name, count)))
        tensors["lm_head.weight"] = ("F32", [vocab, 8], bytes(vocab * 8 * 4))
        source, start, out = self.path("large-from"), self.path("large"), self.path("large-run")
        folder.write(source, config, tensors)
        w.weft("import", "hf", source, "-o", start)
        w.weft("export", "hf", start, "-o", self.path("large-back"))
        self.assertEqual(folder.read(self.path("large-back")), tensors)
        jobs.write_data(self.place, vocab)
        self.assertGreater(max(jobs.text_of(vocab)), 1 << 16)
        ini = start + "/job.ini"
        jobs.near(jobs.first_loss(self.place, ini, vocab, out), math.log(vocab), 1e-6)
        trained = jobs.train(self.place, ini, vocab, out, checkpoint__every=20)
        self.assertGreater(abs(trained - math.log(vocab)), 1e-4)
        back, again = self.path("large-trained"), self.path("large-again")
        w.weft("export", "hf", out + "/checkpoints/step-00000020", "-o", back)
        w.weft("import", "hf", back, "-o", again)
        jobs.near(jobs.first_loss(self.place, again + "/job.ini", vocab, out), trained, 1e-6)

    def test_keys_matter(self):
        """What differs between architectures changes the loss: a key that were lost would show."""
        for name, change in (("llama3", {"model.rope_scaling": "none"}),
                             ("llama3", {"model.rope_theta": 10000}),
                             ("llama_linear", {"model.activation": "silu"}),
                             ("llama_linear", {"model.rope_factor": 1})):
            start = self.imported(name, "matter")
            loss = jobs.first_loss(self.place, start + "/job.ini", self.vocab(name),
                                   self.path("matter-run"),
                                   **{k.replace(".", "__"): v for k, v in change.items()})
            self.assertGreater(abs(loss - self.models[name]["loss"]), 2e-5 * loss, (name, change))


class Rope(Case):
    """rope_theta and rope_scaling of transformers 4, and rope_parameters of transformers 5."""

    def keys(self, name, **more):
        with open(self.imported(name, "rope", **more) + "/job.ini", encoding="utf-8") as f:
            return sorted(x for x in f if x.startswith("rope"))

    def fields(self, name):
        """The fields of the old form, and those of the new one in their place."""
        config = self.models[name]["config"]
        new = {**config["rope_scaling"], "rope_theta": config["rope_theta"]}
        return {"rope_theta": None, "rope_scaling": None, "rope_parameters": new}

    def test_both_forms(self):
        for name, scaling in (("llama3", "llama3"), ("llama_linear", "linear")):
            old, new = self.keys(name), self.keys(name, change=self.fields(name))
            self.assertEqual(old, new)
            self.assertIn(f"rope_scaling = {scaling}\n", new)
            self.assertEqual(len(new), 6)
            both = {"rope_parameters": self.fields(name)["rope_parameters"]}
            self.assertEqual(self.keys(name, change=both), old)

    def test_forms_that_differ(self):
        for name, key, value in (("llama3", "rope_theta", 4e5), ("llama3", "factor", 4),
                                 ("llama_linear", "rope_type", "llama3")):
            new = self.fields(name)["rope_parameters"] | {key: value}
            old = key if key == "rope_theta" else "rope_scaling." + key
            said = w.weft("import", "hf", self.made(name, change={"rope_parameters": new}), "-o",
                          self.path("differ"), status=2).stderr
            self.assertRegex(said, f"the field '{old}' is .* and 'rope_parameters.{key}' is ")


class Init(Case):
    def test_from_the_folder_itself(self):
        """init names a folder of Hugging Face; the model has to be the job's, key by key."""
        source, start = self.made("qwen2", files=2), self.imported("qwen2", "init")
        job = {"checkpoint__init": source}
        loss = jobs.first_loss(self.place, start + "/job.ini", self.vocab("qwen2"),
                               self.path("init-run"), **job)
        jobs.near(loss, self.models["qwen2"]["loss"], 1e-6)
        for key, value in (("model.rope_theta", 5), ("model.qkv_bias", "off"), ("model.ffn", 44)):
            done = w.weft("plan", start + "/job.ini", status=None)
            self.assertEqual(done.returncode, 0, done.stderr)
            init = f"checkpoint.init={source}"
            said = w.weft("train", start + "/job.ini", f"{key}={value}", init,
                          f"data.train={self.place}/train-{self.vocab('qwen2')}.bin",
                          f"run.out={self.path('refused')}", "log.peak_gflops=1", "train.batch=8",
                          status=2).stderr
            self.assertIn(f"{key} is {value}", said)

    def test_other_layouts(self):
        """Ranks read their own parts, and train as one rank does."""
        for name, layouts in (("qwen3", ({"parallel.strategy": "tp", "parallel.tp": 2},
                                         {"parallel.strategy": "tp", "parallel.tp": 2,
                                          "parallel.sequence": "on"},
                                         {"optim.placement": "zero3"})),
                              ("qwen2", ({"parallel.strategy": "pp", "parallel.pp": 2},
                                         {"parallel.strategy": "tp", "parallel.tp": 2})),
                              ("llama3", ({"optim.placement": "zero1"},
                                          {"parallel.strategy": "tp", "parallel.tp": 2})),
                              ("gpt2", ({"parallel.strategy": "tp", "parallel.tp": 2},
                                        {"optim.placement": "zero3"}))):
            source = self.made(name)
            ini = self.imported(name, "layouts") + "/job.ini"
            for layout in layouts:
                keys = {k.replace(".", "__"): v for k, v in layout.items()}
                with self.subTest(name=name, layout=layout):
                    loss = jobs.train(self.place, ini, self.vocab(name), self.path("layout-run"),
                                      ranks=2, checkpoint__init=source, **keys)
                    jobs.near(loss, self.models[name]["trained"], 2e-5)

    def test_a_checkpoint_of_any_job(self):
        """Its weights alone: the states are zero and the steps begin at 1."""
        start, out = self.imported("gpt2", "any"), self.path("any-run")
        vocab = self.vocab("gpt2")
        jobs.train(self.place, start + "/job.ini", vocab, out, checkpoint__every=10, ranks=2,
                   optim__placement="zero1")
        after = jobs.first_loss(self.place, start + "/job.ini", vocab, self.path("any-next"),
                                checkpoint__init=out + "/checkpoints/step-00000020")
        jobs.near(after, self.models["gpt2"]["trained"], 2e-5)


class Llmc(Case):
    def test_there_and_back(self):
        start = self.imported("gpt2", "llmc")
        for kind, version, width in (("fp32", 3, 4), ("bf16", 5, 2)):
            file, back = self.path(kind + ".bin"), self.path("llmc-" + kind)
            w.weft("export", "llmc", start, "-o", file, "--dtype", kind)
            w.weft("import", "llmc", file, "-o", back)
            one, two = w.checkpoint.read(start), w.checkpoint.read(back)
            self.assertEqual({k: list(v[1]) for k, v in one.items()},
                             {k: list(v[1]) for k, v in two.items()})
            self.layout(file, version, width)
            loss = jobs.first_loss(self.place, back + "/job.ini", self.vocab("gpt2"),
                                   self.path("llmc-run"))
            jobs.near(loss, self.models["gpt2"]["loss"], 1e-6)

    def layout(self, file, version, width):
        """The file as train_gpt2.py of llm.c writes it: head, then parameters in order, a matrix as
        [out, in], the token table padded to a multiple of 128."""
        c = self.models["gpt2"]["config"]
        layers, e, v, t = c["n_layer"], c["n_embd"], c["vocab_size"], c["n_positions"]
        tensors = {k: folder.decode("F32", d[2])
                   for k, d in folder.tensors_of(self.models["gpt2"]).items()}
        with open(file, "rb") as f:
            data = f.read()
        self.assertEqual(struct.unpack("<8i", data[:32]),
                         (20240326, version, t, v, layers, c["n_head"], e, 128))

        def turned(name, rows, columns):
            flat = tensors[name]
            return [flat[i * columns + k] for k in range(columns) for i in range(rows)]
        want = tensors["transformer.wte.weight"] + [0.0] * ((128 - v) * e)
        want += tensors["transformer.wpe.weight"]
        for name, shape in (("ln_1.weight", 0), ("ln_1.bias", 0),
                            ("attn.c_attn.weight", (e, 3 * e)), ("attn.c_attn.bias", 0),
                            ("attn.c_proj.weight", (e, e)),
                            ("attn.c_proj.bias", 0), ("ln_2.weight", 0), ("ln_2.bias", 0),
                            ("mlp.c_fc.weight", (e, 4 * e)), ("mlp.c_fc.bias", 0),
                            ("mlp.c_proj.weight", (4 * e, e)), ("mlp.c_proj.bias", 0)):
            for i in range(layers):
                full = f"transformer.h.{i}.{name}"
                want += turned(full, *shape) if shape else tensors[full]
        want += tensors["transformer.ln_f.weight"] + tensors["transformer.ln_f.bias"]
        self.assertEqual(folder.decode("F32" if width == 4 else "BF16", data[1024:]), want)

    def test_refused(self):
        start, file = self.imported("gpt2", "cut"), self.path("cut.bin")
        w.weft("export", "llmc", start, "-o", file)
        with open(file, "rb") as f:
            data = f.read()
        for change, words in ((data[:-4], "not the size of the model"), (data[:900], "too short"),
                              (b"\0" + data[1:], "is no checkpoint of llm.c"),
                              (data[:4] + b"\4" + data[5:], "of version 4"),
                              (data[:16] + b"\xff\xff\xff\x7f" + data[20:], "num_layers")):
            with open(self.path("bad.bin"), "wb") as f:
                f.write(change)
            said = w.weft("import", "llmc", self.path("bad.bin"), "-o", self.path("bad"),
                          status=None)
            self.assertIn(words, said.stderr)
            self.assertNotEqual(said.returncode, 0)
            self.assertFalse(os.path.exists(self.path("bad")))
        untied = self.imported("gpt2_untied", "cut-untied")
        said = w.weft("export", "llmc", untied, "-o", self.path("no.bin"), status=2).stderr
        self.assertRegex(said, "model.(ffn|tied) is .*, which GPT2 cannot say")
        self.assertFalse(os.path.exists(self.path("no.bin")))


class Refused(Case):
    """What cannot be: a sentence with the field or the tensor, and nothing written."""

    def refuse(self, words, **made):
        name = made.pop("model", "llama2")
        out = self.path("refused")
        done = w.weft("import", "hf", self.made(name, "refused-from", **made), "-o", out,
                      status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(words, done.stderr)
        self.assertFalse([x for x in os.listdir(self.place)
                          if x.startswith(".refused") or x == "refused"])

    def test_fields(self):
        for change, words in (
                ({"attention_bias": True}, "the field 'attention_bias' is true"),
                ({"mlp_bias": True}, "'mlp_bias' is true"),
                ({"hidden_act": "relu"}, "'hidden_act' is relu"),
                ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "_scaling.type' is dynamic"),
                ({"quantization_config": {"bits": 4}}, "'quantization_config' is {"),
                ({"architectures": ["MambaForCausalLM"]}, "'architectures' is MambaForCausalLM"),
                ({"architectures": None}, "'architectures' has not one name"),
                ({"hidden_size": None}, "it has no field 'hidden_size'"),
                ({"hidden_size": 33}, "tensor model.embed_tokens.weight is [67, 32]"),
                ({"num_hidden_layers": 3}, "there is no tensor model.layers.2."),
                ({"num_hidden_layers": 1}, "model.layers.1."),
                ({"vocab_size": 68}, "tensor model.embed_tokens.weight is [67, 32]"),
                ({"num_attention_heads": "4 ; x"}, "cannot stand in a job file")):
            with self.subTest(change=change):
                self.refuse(words, change=change)
        self.refuse("'sliding_window' is 4096", change={"sliding_window": 4096}, model="mistral")
        self.refuse("'sliding_window' is 4096", drop="sliding_window", model="mistral")
        self.refuse("'use_sliding_window' is true", change={"use_sliding_window": True},
                    model="qwen2")
        for field, value in (("scale_attn_by_inverse_layer_idx", True),
                             ("scale_attn_weights", False), ("activation_function", "relu")):
            self.refuse(f"'{field}'", model="gpt2", change={field: value})

    def test_fields_of_another_type(self):
        """A value of the wrong type is no field that is left out."""
        for scaling in ("yarn", [{"rope_type": "yarn"}], 7, True):
            for field in ("rope_scaling", "rope_parameters"):
                with self.subTest(scaling=scaling, field=field):
                    self.refuse(f"the field '{field}' must be an object or null",
                                change={field: scaling})
        for field in ("rope_scaling", "rope_parameters"):
            for more in ({}, {"rope_type": None}):
                with self.subTest(field=field, more=more):
                    self.refuse(f"it has a field '{field}.factor' and no '{field}.rope_type'",
                                change={field: {"factor": 8.0} | more})
        for text in ("true", "false"):
            for model in ("llama2", "gpt2"):
                self.refuse("the field 'tie_word_embeddings' is a text; it must be true or false",
                            model=model, change={"tie_word_embeddings": text})
        self.refuse("'quantization_config' is a text", change={"quantization_config": "null"})
        self.refuse("'tie_word_embeddings' is 1", change={"tie_word_embeddings": 1})
        for scaling in (None, {}, {"rope_type": "default"}, {"factor": None}):
            self.imported("llama2", "none", change={"rope_scaling": scaling})
        self.imported("llama2", "none", drop="rope_theta",
                      change={"rope_parameters": {"rope_theta": 5000.0}})

    def test_tensors(self):
        good = folder.tensors_of(self.models["llama2"])
        name = "model.norm.weight"
        kind, shape, data = good[name]
        self.refuse(f"there is no tensor {name}", tensors={k: v for k, v in good.items()
                                                           if k != name})
        self.refuse("is none that the model family knows",
                    tensors=good | {"model.layers.0.self_attn.q_proj.bias": good[name]})
        self.refuse("[31]", tensors=good | {name: (kind, [31], data[4:])})
        self.refuse("is neither F32, F16 nor BF16", tensors=good | {name: ("I32", shape, data)})

    def test_a_tied_head_may_be_there_twice(self):
        good = folder.tensors_of(self.models["llama3"])
        table = good["model.embed_tokens.weight"]
        self.imported("llama3", "twice", tensors=good | {"lm_head.weight": table})
        other = (table[0], table[1], table[2][:-1] + b"\x01")
        self.refuse("tensor lm_head.weight belongs to no parameter", model="llama3",
                    tensors=good | {"lm_head.weight": other})

    def test_damaged_files(self):
        def with_file(name, data):
            self.made("llama2", "refused-from")
            with open(self.path("refused-from", name), "wb") as f:
                f.write(data)
            done = w.weft("import", "hf", self.path("refused-from"), "-o", self.path("refused"),
                          status=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertFalse(os.path.exists(self.path("refused")))
            return done.stderr
        whole = folder.pack(folder.tensors_of(self.models["llama2"]))
        file = "model.safetensors"
        self.assertIn("truncated", with_file(file, whole[:-1]))
        self.assertIn("belong to no tensor", with_file(file, whole + b"\0"))
        self.assertIn("too short", with_file(file, whole[:7]))
        self.assertIn("bytes long", with_file(file, struct.pack("<Q", 1 << 62) + whole[8:]))
        self.assertIn("not a JSON object", with_file(file, whole[:8] + b"[" + whole[9:]))
        self.assertIn("config.json:1: it is not JSON", with_file("config.json", b"{"))
        self.assertIn("not a JSON object", with_file("config.json", b"[]"))

    def test_damaged_checkpoint(self):
        """It is read while its checksum is formed, and nothing of that is left."""
        start = self.imported("llama2", "flipped")
        shard = os.path.join(start, "shard-00000-of-00001.safetensors")
        with open(shard, "r+b") as f:
            f.seek(-9, os.SEEK_END)
            byte = f.read(1)
            f.seek(-9, os.SEEK_END)
            f.write(bytes([byte[0] ^ 1]))
        os.mkdir(self.path("flip"))
        for words in (["hf"], ["hf", "--dtype", "bf16"]):
            said = w.weft("export", *words, start, "-o", self.path("flip", "out"), status=2).stderr
            self.assertIn("its SHA-256 is not the one that was recorded: it is damaged", said)
            self.assertEqual(os.listdir(self.path("flip")), [])

    def test_index(self):
        source = self.made("llama2", "index", files=2)
        path = os.path.join(source, folder.INDEX)
        with open(path, encoding="utf-8") as f:
            good = json.load(f)["weight_map"]
        first = sorted(good)[0]
        for change, words in (({first: "../x"}, "no file of the folder"),
                              ({first: 7}, "no file of the folder"),
                              ({first: "absent.safetensors"}, "absent.safetensors"),
                              ({"more": good[first]}, "names 22 tensors"),
                              ({first: good[sorted(good)[1]]}, "puts into another file")):
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"weight_map": good | change}, f)
            done = w.weft("import", "hf", source, "-o", self.path("refused"), status=None)
            self.assertIn(words, done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_no_field_is_added(self):
        """A configuration that is made anew has no fields but those of transformers."""
        for name in ("llama2", "qwen2", "mistral"):
            start, back = self.imported(name, name + "-fields"), self.path(name + "-back")
            os.remove(start + "/config.json")
            w.weft("export", "hf", start, "-o", back)
            self.assertNotIn("partial_rotary_factor", folder.config(back))
        start, back = self.imported("mistral", "window"), self.path("window-back")
        folder.write(self.path("bare"), {"architectures": ["MistralForCausalLM"]}, {})
        os.remove(start + "/config.json")
        w.weft("export", "hf", start, "-o", back, "--tokenizer", self.path("bare"))
        config = folder.config(back)
        self.assertEqual(config["architectures"], ["MistralForCausalLM"])
        self.assertIsNone(config["sliding_window"])

    def test_nothing_is_replaced(self):
        start = self.imported("llama2", "keep")
        said = w.weft("import", "hf", self.made("llama2"), "-o", start, status=2).stderr
        self.assertIn("exists and is not replaced", said)
        said = w.weft("export", "hf", start, "-o", start, status=2).stderr
        self.assertIn("exists and is not replaced", said)
        said = w.weft("import", "hf", self.made("llama2"), "-o", self.path("no", "such"),
                      status=2).stderr
        self.assertIn("cannot open the folder", said)
        said = w.weft("import", "hf", "org/model", "-o", self.path("new"), status=2).stderr
        self.assertIn("nothing is downloaded", " ".join(said.split()))
        said = w.weft("import", "hf", start, "-o", self.path("new"), status=2).stderr
        self.assertIn("it is a checkpoint of weft already", " ".join(said.split()))
        said = w.weft("ckpt", "info", self.made("llama2"), status=None).stderr
        self.assertIn("weft import hf makes one of a folder of Hugging Face", said)
        said = w.weft("export", "hf", start, "-o", self.path("new"), "--dtype", "float16",
                      status=2).stderr
        self.assertIn("--dtype 'float16' is unknown; give fp32, bf16 or fp16", said)
        said = w.weft("export", "hf", start, "-o", self.path("new"), "--type", "fp16",
                      status=2).stderr
        self.assertIn("there is no option --type", said)
        said = w.weft("export", "hf", start, "-o", status=2).stderr
        self.assertIn("the value of -o is missing", said)
        said = w.weft("export", "hf", self.path("absent"), "-o", self.path("new"), status=2).stderr
        self.assertIn("cannot open checkpoint", said)
        for words in (["import"], ["import", "onnx"], ["import", "hf", "x"],
                      ["export", "hf", "x", "-o", "y", "--dtype", "int8"]):
            self.assertIn("usage:", w.weft(*words, status=2).stderr)


class Names(Case):
    """Names of folders stand in job.ini."""

    def test_refused(self):
        """What INI text cannot hold is refused, and nothing is written."""
        source, here = self.made("gpt2", "names-from"), self.path("names")
        os.mkdir(here)
        for name in ("a ; b", ";a", " a", "a ", "a\n[train]\nseed = 3", "a\tb", "a\x7f", "\udcff"):
            with self.subTest(name=name):
                said = self.run_at(here, source, name)
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertIn("the name behind -o cannot stand in job.ini", said.stderr)
                self.assertEqual(os.listdir(here), [])
        for name in ("b\nseed = 3", "b ; c", "\udcff"):
            os.rename(source, self.path(name))
            said = self.run_at(here, self.path(name), "out")
            os.rename(self.path(name), source)
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertIn("the name of what is read cannot stand in job.ini", said.stderr)
            self.assertEqual(os.listdir(here), [])
        odd = self.path("c ; d")
        os.mkdir(odd)
        said = self.run_at(odd, source, "out")
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("the name of the current folder with that behind -o", said.stderr)

    def run_at(self, place, source, name):
        return subprocess.run([os.path.abspath(w.WEFT), "import", "hf", source, "-o", name],
                              cwd=place, capture_output=True, text=True, errors="replace",
                              check=False)

    def test_the_command_is_a_line_of_a_shell(self):
        source = self.made("gpt2", "line-from")
        for name in ("it's $HOME; `x`#y", "plain-1.0", "a # b", "\u00fc"):
            with self.subTest(name=name):
                said = self.run_at(self.place, source, name)
                self.assertEqual(said.returncode, 0, said.stderr)
                line = said.stdout.splitlines()[-1]
                with open(self.path(name, "job.ini"), encoding="utf-8") as f:
                    job = f.read()
                self.assertIn(f"; {line}\n", job)
                self.assertIn(f"\ninit = {self.path(name)}\n", job)
                self.assertEqual(shlex.split(line)[:3], ["weft", "train", name + "/job.ini"])
                jobs.near(jobs.first_loss(self.place, self.path(name, "job.ini"),
                                          self.vocab("gpt2"), self.path("line-run")),
                          self.models["gpt2"]["loss"], 1e-6)


TOKENIZER = json.dumps({"model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "b": 1},
                                  "merges": []}})


class Beside(Case):
    def test_a_tokenizer_that_cannot_be_used(self):
        """The model is imported, the user is told, and no job names it."""
        source, start = self.made("llama2", "odd-from"), self.path("odd")
        many = {f"t{i}": i for i in range(self.vocab("llama2") + 1)}
        for text, why in (("{}", "odd-from/tokenizer.json"),
                          (json.dumps({"model": {"type": "BPE", "unk_token": "t0", "vocab": many,
                                                 "merges": []}}),
                           f"it has {len(many)} ids, and the model a vocabulary of")):
            with open(os.path.join(source, "tokenizer.json"), "w", encoding="utf-8") as f:
                f.write(text)
            shutil.rmtree(start, ignore_errors=True)
            said = w.weft("import", "hf", source, "-o", start).stdout
            self.assertIn("weft cannot use its tokenizer.json", said)
            self.assertIn(why, said)
            with open(start + "/job.ini", encoding="utf-8") as f:
                job = f.read()
            self.assertIn("; Its tokenizer.json cannot be used: ", job)
            self.assertIn("; tokenizer = hf", job)
            with open(start + "/manifest.json", encoding="utf-8") as f:
                self.assertNotIn("tokenizer = hf", f.read())
            self.assertTrue(os.path.exists(start + "/tokenizer.json"))

    def test_tokenizer_files_come_along(self):
        source = self.made("llama2", "beside-from")
        files = {"tokenizer.json": TOKENIZER, "tokenizer_config.json": '{"a": 1}',
                 "merges.txt": "a b"}
        for name, text in files.items():
            with open(os.path.join(source, name), "w", encoding="utf-8") as f:
                f.write(text)
        start, back, out = self.path("beside"), self.path("beside-back"), self.path("beside-run")
        w.weft("import", "hf", source, "-o", start)
        with open(start + "/job.ini", encoding="utf-8") as f:
            job = f.read()
        named = f"file = {start}/tokenizer.json"
        self.assertIn(named, job)
        self.assertNotIn("\n\n\n", job)
        with open(start + "/manifest.json", encoding="utf-8") as f:
            self.assertIn(named, f.read().replace("\\n", "\n"))  # for sample and eval
        jobs.train(self.place, start + "/job.ini", self.vocab("llama2"), out, run__steps=1,
                   checkpoint__every=1)
        w.weft("export", "hf", out + "/checkpoints/step-00000001", "-o", back)
        for name, text in files.items():
            for place in (start, back):
                with open(os.path.join(place, name), encoding="utf-8") as f:
                    self.assertEqual(f.read(), text)
        self.assertEqual(folder.config(back)["eos_token_id"], 2)
        bare = self.path("beside-bare")
        shutil.rmtree(start)
        said = w.weft("export", "hf", out + "/checkpoints/step-00000001", "-o", bare).stderr
        self.assertIn(f"{bare} gets no tokenizer: that of the job, {start}/tokenizer.json, is no "
                      "longer there; export again with --tokenizer DIR", " ".join(said.split()))
        self.assertEqual(sorted(os.listdir(bare)), ["config.json", "model.safetensors"])
        again = self.path("beside-again")
        said = w.weft("export", "hf", out + "/checkpoints/step-00000001", "-o", again,
                      "--tokenizer", source).stderr
        self.assertNotIn("gets no tokenizer", said)
        self.assertIn("tokenizer.json", os.listdir(again))

    def spm(self, folder_name, vocab=1000):
        """A folder whose tokenizer is a model of SentencePiece."""
        recorded = os.path.join(jobs.HERE, "..", "tokenizer", "recorded", "spm_bpe.json.gz")
        with gzip.open(recorded, "rt") as f:
            model = base64.b64decode(json.load(f)["file"])
        shapes_of = {k: [vocab if n == 67 else n for n in v]
                     for k, v in self.models["llama2"]["shapes"].items()}
        tensors = folder.tensors_of({"shapes": shapes_of, "type": "float32"})
        source = self.made("llama2", folder_name, change={"vocab_size": vocab}, tensors=tensors)
        with open(os.path.join(source, "tokenizer.model"), "wb") as f:
            f.write(model)
        return source

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(os.path.abspath(w.WEFT)), "..",
                                                     "lib/weft/tokenizer/sentencepiece.so")),
                         "the library SentencePiece is not here")
    def test_a_model_of_sentencepiece(self):
        source, start, back = self.spm("spm-from"), self.path("spm"), self.path("spm-back")
        for odd in (None, "{}"):
            if odd:  # one that cannot be used stands in front of it
                with open(os.path.join(source, "tokenizer.json"), "w", encoding="utf-8") as f:
                    f.write(odd)
            shutil.rmtree(start, ignore_errors=True)
            said = w.weft("import", "hf", source, "-o", start).stdout
            self.assertIn(f"weft data --tokenizer {start}/tokenizer.model TEXT", said)
            self.assertNotIn("cannot use", said)
            for file in ("job.ini", "manifest.json"):
                with open(os.path.join(start, file), encoding="utf-8") as f:
                    text = f.read().replace("\\n", "\n")
                self.assertIn("\ntokenizer = sentencepiece\n", text)
                self.assertIn(f"\nfile = {start}/tokenizer.model\n", text)
        said = w.weft("sample", start, "--prompt", "Weft", "--tokens", "2").stdout
        self.assertTrue(said.startswith("Weft"), said)
        w.weft("export", "hf", start, "-o", back)
        models = []
        for folder_name in (source, back):
            with open(folder_name + "/tokenizer.model", "rb") as f:
                models.append(f.read())
        self.assertEqual(*models)
        os.rename(start + "/tokenizer.model", self.path("other.model"))
        os.remove(start + "/tokenizer.json")
        said = w.weft("export", "hf", start, "-o", self.path("spm-bare")).stderr
        self.assertIn("--tokenizer DIR, the folder that has it as tokenizer.model",
                      " ".join(said.split()))

    def test_without_a_tokenizer(self):
        source = self.made("llama2", "bare-from")
        said = w.weft("import", "hf", source, "-o", self.path("bare-start")).stdout
        self.assertIn(f"{source} has neither tokenizer.json nor tokenizer.model, and the job names "
                      "no tokenizer", said)

    def interrupted(self, words, to, number):
        """Signal it when its temporary folder is there; False: it was complete before."""
        process = subprocess.Popen([w.WEFT, *words, "-o", to], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        place, name = os.path.split(to)
        while process.poll() is None and not any(
                x.startswith(f".{name}.") for x in os.listdir(place)):
            pass
        process.send_signal(number)
        said = process.communicate()[1]
        self.assertEqual([x for x in os.listdir(place) if x.startswith(f".{name}.")], [], said)
        if os.path.exists(to):
            self.assertEqual(process.returncode, 0, said)
            shutil.rmtree(to)
            return False
        self.assertEqual(process.returncode, 128 + number, said)
        self.assertIn("interrupted by a signal", said)
        return True

    def test_a_signal_leaves_nothing(self):
        tensors = folder.tensors_of(self.models["llama2"])
        for name, (kind, shape, _) in list(tensors.items()):
            if shape[0] == 67:
                tensors[name] = (kind, [400000, shape[1]], bytes(4 * 400000 * shape[1]))
        source = self.made("llama2", "large-from", change={"vocab_size": 400000}, tensors=tensors)
        start = self.path("large")
        w.weft("import", "hf", source, "-o", start)
        for words in (["import", "hf", source], ["export", "hf", start]):
            for number in (signal.SIGINT, signal.SIGTERM):
                self.assertTrue(any(self.interrupted(words, self.path("signalled"), number)
                                    for _ in range(20)), words)


class Walk(Case):
    """The commands of docs/HUGGINGFACE.md, one after the other, as they stand there."""

    def commands(self):
        docs = os.path.join(jobs.HERE, "..", "..", "docs", "HUGGINGFACE.md")
        with open(docs, encoding="utf-8") as f:
            block = f.read().split("```")[1]
        return [x.split("#")[0].split() for x in block.strip().splitlines()]

    def test_the_commands(self):
        here, vocab = self.path("walk"), 500
        recorded = os.path.join(jobs.HERE, "..", "tokenizer", "recorded", "llama3.json.gz")
        with gzip.open(recorded, "rt") as f:
            tokenizer = base64.b64decode(json.load(f)["file"])
        wide = {k: [vocab if n == 67 else n for n in v]
                for k, v in self.models["llama3"]["shapes"].items()}
        folder.write(here + "/DIR", self.models["llama3"]["config"] | {"vocab_size": vocab},
                     folder.tensors_of({"shapes": wide, "type": "float32"}))
        with open(here + "/DIR/tokenizer.json", "wb") as f:
            f.write(tokenizer)
        os.mkdir(here + "/corpus")
        for i in range(3):
            with open(f"{here}/corpus/{i}.txt", "w", encoding="utf-8") as f:
                f.writelines(f"{k * k % 997} is the square of {k}, or nearly.\n"
                             for k in range(i, 3000, 3))
        *commands, last = self.commands()
        self.assertEqual([x[1] for x in commands],
                         ["import", "data", "train", "eval", "sample", "export"])
        said = {}
        for words in commands:
            self.assertEqual(words[0], "weft")
            more = ["log.peak_gflops=1"] if words[1] == "train" else []
            done = subprocess.run([os.path.abspath(w.WEFT), *shlex.split(" ".join(words[1:])),
                                   *more], cwd=here, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
            said[words[1]] = done.stdout
        self.assertIn("bits per byte", said["eval"])
        self.assertTrue(said["sample"].startswith("Once upon a time"), said["sample"])
        self.assertIn("M.from_pretrained('tuned')", last[-1])
        self.loads(here)

    def loads(self, here):
        """What from_pretrained() gets: the weights after 200 steps, rounded, and what lay beside
        them."""
        trained = here + "/runs/tuned/checkpoints/step-00000200"
        w.weft("export", "hf", trained, "-o", here + "/exact")
        exact, tuned = folder.read(here + "/exact"), folder.read(here + "/tuned")
        self.assertEqual(tuned, {k: ("BF16", s, folder.encode("BF16", folder.decode("F32", d)))
                                 for k, (_, s, d) in exact.items()})
        before = folder.read(here + "/DIR")
        self.assertEqual({k: v[1] for k, v in before.items()}, {k: v[1] for k, v in exact.items()})
        self.assertFalse([k for k, v in exact.items() if v[2] == before[k][2]])
        self.assertEqual(folder.config(here + "/tuned")["torch_dtype"], "bfloat16")
        with open(here + "/tuned/tokenizer.json", "rb") as f, \
                open(here + "/DIR/tokenizer.json", "rb") as g:
            self.assertEqual(f.read(), g.read())


class Outside(Case):
    """A family from outside of the tree (tests/openness/plugins/pair) with a table of its own."""
    CONFIG = {"architectures": ["AcmePairForCausalLM"], "model_type": "acme_pair", "vocab_size": 67,
              "sizes": {"width": 6}, "order": 1, "motto": "kept"}
    SHAPES = {"pair.lookup.weight": [67, 6], "pair.stage.0.kernel": [6, 12],
              "pair.stage.0.bias": [12], "out.kernel": [12, 67]}

    def loss(self, tensors):
        """The formula of pair.c."""
        flat = {k: folder.decode("F32", v[2]) for k, v in tensors.items()}
        table, up, bias, head = (flat[k] for k in self.SHAPES)
        text, total = jobs.text_of(67), 0.0
        for token, target in zip(text, text[1:]):
            x = table[token * 6:token * 6 + 6]
            y = [sum(x[i] * up[i * 12 + j] for i in range(6)) + bias[j] for j in range(12)]
            y = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))
                 for v in y]
            logits = [sum(y[j] * head[j * 67 + k] for j in range(12)) for k in range(67)]
            most = max(logits)
            total += math.log(sum(math.exp(v - most) for v in logits)) + most - logits[target]
        return total / (len(text) - 1)

    def test_in_and_out(self):
        plugins = "run.plugins=" + os.environ["WEFT_TEST_PLUGINS"]
        tensors = folder.tensors_of({"shapes": self.SHAPES, "type": "float32"})
        source, start = self.path("pair-from"), self.path("pair")
        folder.write(source, self.CONFIG, tensors | {"pair.stage.0.scratch": ("I32", [1], b"1234")})
        said = w.weft("import", "hf", source, "-o", start, status=2).stderr
        self.assertIn("'architectures' is AcmePairForCausalLM", said)
        w.weft("import", "hf", source, "-o", start, plugins)
        loss = jobs.first_loss(self.place, start + "/job.ini", 67, self.path("pair-run"))
        jobs.near(loss, self.loss(tensors), 1e-6)
        out, back = self.path("pair-run"), self.path("pair-back")
        here = jobs.train(self.place, start + "/job.ini", 67, out, ranks=2, checkpoint__every=20,
                          checkpoint__init=source)
        w.weft("export", "hf", out + "/checkpoints/step-00000020", "-o", back, plugins)
        jobs.near(here, self.loss(folder.read(back)), 1e-6)
        self.assertGreater(abs(here - loss), 1e-4 * loss)
        self.assertEqual(folder.config(back), self.CONFIG | {
            "sizes": {"width": 6, "inner": 12, "area": 36}, "torch_dtype": "float32"})
        w.weft("export", "hf", start, "-o", self.path("pair-same"), plugins)
        self.assertEqual(folder.read(self.path("pair-same")), tensors)
        said = w.weft("export", "hf", start, "-o", self.path("pair-fancy"), "model.style=fancy",
                      plugins, status=2).stderr
        self.assertIn("model.style is fancy, which AcmePairForCausalLM|AcmePair cannot say", said)
        for change, words in (
                ({"order": 2}, "'order' is 2"), ({"sizes": None}, "'sizes.width'"),
                ({"sizes": {"width": 6, "area": 35}}, "'sizes.area' is 35"),
                ({"sizes": {"width": 1 << 39}}, "sizes.width*sizes.width cannot be computed")):
            with open(source + "/config.json", "w", encoding="utf-8") as f:
                json.dump(self.CONFIG | change, f)
            said = w.weft("import", "hf", source, "-o", self.path("pair-no"), plugins, status=2)
            self.assertIn(words, said.stderr)


if __name__ == "__main__":
    unittest.main(argv=[__file__, *sys.argv[2:]])
