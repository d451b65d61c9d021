"""Job files: what is wrong is refused with its place, its reason and the nearest known name."""
import started


class Ini(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def bad(self, text, why, *words):
        self.write("bad.ini", text)
        self.refused("plan", "bad.ini", *words, why=why)
        self.refused("train", "bad.ini", "data.train=train.bin", *words, why=why)

    def test_malformed(self):
        self.bad("[run\n", "bad.ini:1")
        self.bad("[run]\nname demo\n", "bad.ini:2")
        self.bad("name = demo\n", "bad.ini:1")
        self.bad("[run]\nname = a\nname = b\n", "bad.ini:3")
        self.bad("[run]\nname = " + "x" * 5000 + "\n", "bad.ini:2")
        self.bad(b"[run]\nname = a\0b\n", "bad.ini:2")
        self.bad(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 9, "bad.ini")
        self.bad("[" + "n" * 60 + "]\n", "bad.ini:1")
        self.bad("; long\n" * 200000, "bad.ini")

    def test_unknown_names(self):
        self.bad("[run]\nstep = 3\n", "bad.ini:2: unknown key 'step' in [run]; did you mean")
        self.bad("[trian]\nbatch = 3\n", "unknown section [trian]; did you mean [train]?")
        self.bad("[train]\nbatch = 3\n\nmicrobatches = 3\n", "bad.ini:4: unknown key 'microb")
        self.bad("[optim]\nrule = adamww\n", "did you mean 'adamw'?")
        self.bad("[optim]\nrule = sgd\nbeta = 0.9\n", "bad.ini:3: unknown key 'beta' in [optim]")
        self.bad("[parallel]\nstrategy = ddp\n", "did you mean 'dp'?")
        self.bad("[comm]\nplugin = pcp\n[parallel]\nstrategy = dp\n", "pcp", "-n", "2")
        self.bad("[device]\nplugin = gpu\n", "gpu")
        self.bad("[comm.nobody]\nplugin = tcp\n", "nobody")

    def test_names_that_one_rank_does_not_use(self):
        """A job that one rank accepts is not refused for a name on eight."""
        for section, key in (("comm", "plugin"), ("comm", "near"), ("comm.dp", "plugin"),
                             ("comm.tp", "near")):
            self.bad(f"[{section}]\n{key} = carrier_pigeon\n",
                     f"bad.ini:2: {section}.{key}: no comm plugin 'carrier_pigeon'")
        self.bad("[comm]\nplugin = pcp\n", "did you mean 'tcp'?")
        self.bad("[comm]\nplugin =\n", "'' is not a plugin name")
        self.bad("[comm.carrier_pigeon]\ncolour = grey\n",
                 "bad.ini:2: [comm.carrier_pigeon]: no comm plugin 'carrier_pigeon'")
        self.bad("[comm]\nplugin = tcp\n[comm.tcp]\nencript = on\n", "did you mean 'encrypt'?")
        self.bad("[comm.dp]\nalgorithm = rings\n", "bad.ini:2: comm.dp.algorithm: 'rings'")
        self.bad("[parallel]\nstrategy = dp, ttp\n", "no parallel plugin 'ttp'")

    def test_a_backend_is_swapped_in_one_line(self):
        """Keys of installed plugins that are not used may stay; their values must be lawful."""
        self.write("job.ini", "[optim]\nrule = adamw\nbetas = 0.9, 0.95\n[parallel]\n"
                              "strategy = dp\n[comm]\nplugin = shm\n[comm.tcp]\nencrypt = on\n")
        for words in ([], ["optim.rule=sgd"], ["comm.plugin=tcp"]):
            self.weft("plan", "-n", "2", "job.ini", *words)
        self.bad("[optim]\nrule = sgd\nbetas = x\n", "bad.ini:3: optim.betas")

    def test_wrong_values(self):
        self.bad("[run]\nsteps = many\n", "bad.ini:2: run.steps: 'many' is not a whole number")
        self.bad("[run]\nsteps = 0\n", "bad.ini:2: run.steps")
        self.bad("[run]\nsteps = 1e3\n", "bad.ini:2: run.steps")
        self.bad("[run]\nsteps = 99999999999999999999\n", "bad.ini:2: run.steps")
        self.bad("[train]\nprecision = fp8\n", "bad.ini:2: train.precision")
        self.bad("[train]\nclip = -1\n", "bad.ini:2: train.clip")
        self.bad("[train]\nclip = nan\n", "bad.ini:2: train.clip")
        self.bad("[model]\ntied = maybe\n", "bad.ini:2: model.tied")
        self.bad("[optim]\nbetas = 0.9,, 0.95\n", "bad.ini:2: optim.betas")
        self.bad("[optim]\nlr =\n", "bad.ini:2: optim.lr")

    def test_sizes_that_cannot_be(self):
        self.bad("[model]\nheads = 7\n", "7 heads do not divide")
        self.bad("[model]\ncontext = 8\n[train]\nsequence = 9\n", "9 tokens are more than")
        self.bad("[train]\nbatch = 3\nmicrobatch = 2\n", "3 sequences are not a multiple")
        self.bad("[parallel]\nstrategy = dp\ndp = 3\n", "3 does not divide the 2 ranks", "-n", "2")
        self.bad("[run]\nname = x\n", "the strategies use 1 rank, but the job has 2", "-n", "2")
        self.bad("[model]\nlayers = 1000000\n", "bad.ini:2: model.layers")
        self.bad("[model]\nfamily = lama\n", "did you mean 'llama'?")

    def test_sizes_that_no_llama_has(self):
        llama = "[model]\nfamily = llama\nheads = 12\n"
        self.bad(llama + "kv_heads = 5\n", "heads must be a multiple of kv_heads")
        self.bad(llama + "kv_heads = 24\n", "heads must be a multiple of kv_heads")
        self.bad(llama + "embed = 756\n", "gives each head 63 elements")
        self.bad(llama + "rope_theta = 0\n", "bad.ini:4: model.rope_theta")
        self.bad("[model]\nrope_theta = 5e5\n", "family gpt2 learns its positions")
        self.bad("[model]\nkv_heads = 4\n", "every head has its own keys and values")

    def test_words_and_numbers_of_the_step(self):
        self.bad("[train]\nrecompute = blocks\n", "did you mean 'block'")
        self.bad("[train]\nprecision = half\n", "is none of fp32, bf16, fp16")
        self.bad("[train]\nloss_scale = 0\n", "bad.ini:2: train.loss_scale")
        self.bad("[train]\nloss_scale = dynamic\n", "bad.ini:2: train.loss_scale")
        self.bad("[train]\nscale_window = -1\n", "bad.ini:2: train.scale_window")
        self.bad("[model]\ndropout = 1\n", "bad.ini:2: model.dropout")

    def test_command_line(self):
        self.refused("plan", "tiny.ini", "train.bathc=1", why="command line: unknown key 'bathc'")
        self.refused("plan", "tiny.ini", "bathc=1", why="is not section.key=value")
        self.refused("plan", "tiny.ini", "train.batch=x", why="command line: train.batch: 'x'")
        self.refused("plan", "no.ini", why="cannot open the job file no.ini")
        self.refused("plan", ".", why="job file .")
        out, _ = self.weft("plan", "tiny.ini", "train.batch=9", "train.batch=8",
                           "train.microbatch=4")
        self.assertIn("2 micro-batches of 4 sequences", out)  # of a key given twice the last holds

    def test_a_comment_is_no_value(self):
        self.write("c.ini", started.TINY.replace("layers = 1", "layers = 2   ; not 3"))
        self.assertEqual(self.parameters("c.ini") > self.parameters("tiny.ini"), True)

    def parameters(self, ini):
        return int(self.weft("plan", ini)[0].split()[1])


if __name__ == "__main__":
    started.main()
