"""Job files: what is wrong is refused with its place, its reason and the nearest known name."""
import os

import started

DP = "parallel.strategy=dp"


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
        for section, key in (("comm", "plugin"), ("comm", "intra"), ("comm.dp", "plugin"),
                             ("comm.tp", "intra")):
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
        for strategy, key in (("dp", "dp"), ("tp", "tp"), ("pp", "pp")):
            self.bad(f"[parallel]\nstrategy = {strategy}\n{key} = 2000000\n",
                     f"bad.ini:3: parallel.{key}: '2000000' is out of range; write 1 to 1048576")
            self.assertRegex(self.weft("plugins", strategy)[0],
                             rf"(?m)^ +{key} +auto or whole number, 1 to 1048576 ")
        self.bad("[model]\nlayers = 1000000\n", "bad.ini:2: model.layers")
        self.bad("[model]\nfamily = lama\n", "did you mean 'llama'?")

    def test_words_and_numbers_of_the_step(self):
        self.bad("[train]\nrecompute = blocks\n", "did you mean 'block'")
        self.bad("[train]\nprecision = half\n", "is none of fp32, bf16, fp16")
        self.bad("[train]\nloss_scale = 0\n", "bad.ini:2: train.loss_scale")
        self.bad("[train]\nloss_scale = dynamic\n", "bad.ini:2: train.loss_scale")
        self.bad("[train]\nscale_window = -1\n", "bad.ini:2: train.scale_window")
        for steps in ("x", "0-2", "3-2", "1-200", "1-2x", "-3"):
            self.bad(f"[log]\ntrace_steps = {steps}\n",
                     f"bad.ini:2: log.trace_steps: '{steps}' is not FIRST-LAST")
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


class Keys(started.Case):
    """Keys that change nothing are refused on the command line and noted in a file; so is text
    that a shell or another reader of such files would have changed."""

    def setUp(self):
        super().setUp()
        self.make_data()

    def typed(self, why, *words):
        self.refused("plan", "-n", "2", "tiny.ini", *words, why=why)
        self.refused("train", "-n", "2", "tiny.ini", *words, why=why)

    def said(self, text, *words, level="info"):
        self.write("job.ini", text)
        return self.weft("plan", "-n", "2", "job.ini", DP, f"log.level={level}", *words)[1]

    def test_keys_of_plugins_that_are_not_used(self):
        """The refusal names who reads the key and what selects it."""
        for key, who, by, other in (
                ("parallel.tp=2", "strategy tp", "parallel.strategy", "dp"),
                ("parallel.schedule=fthenb", "strategy pp", "parallel.strategy", "dp"),
                ("comm.tp.plugin=tcp", "strategy tp", "parallel.strategy", "dp"),
                ("optim.momentum=0.9", "update rule muon or sgd", "optim.rule", "adamw"),
                ("optim.prefetch=2", "placement zero3", "optim.placement", "none"),
                ("data.begin=byte", "data source text", "data.source", "tokens"),
                ("sink.prometheus.port=9100", "sink prometheus", "log.sinks", "jsonl")):
            self.typed(f"command line: {key.split('=')[0]}: the key has no effect: {who} reads "
                       f"it, and {by} is {other}", DP, key)
        self.weft("plan", "-n", "2", "tiny.ini", "parallel.strategy=tp", "parallel.tp=2")

    def test_keys_of_transports_that_carry_nothing(self):
        """Where auto may take it on another machine, or in a file, it is said only."""
        idle = "no mesh axis of this job goes over tcp"
        self.typed(f"command line: comm.tcp.encrypt: the key has no effect: {idle}", DP,
                   "comm.plugin=shm", "comm.tcp.encrypt=on")
        said = f"weft warn: command line: comm.tcp.encrypt has no effect: {idle}"
        _, err = self.weft("plan", "-n", "2", "tiny.ini", DP, "comm.tcp.encrypt=on")
        self.assertIn(said, err)
        for words in (("comm.plugin=tcp", DP),
                      (DP, "comm.plugin=trace", "comm.trace.inner=tcp")):
            _, err = self.weft("plan", "-n", "2", "tiny.ini", "comm.tcp.encrypt=on", *words)
            self.assertNotIn("has no effect", err)
        text = self.read("tiny.ini").decode() + "\n[comm.tcp]\nencrypt = on\n"
        self.assertIn(f"comm.tcp.encrypt has no effect: {idle}",
                      self.said(text, "comm.plugin=shm", level="info"))
        self.assertNotIn("has no effect", self.said(text, "comm.plugin=shm", level="warn"))

    def test_the_size_of_buckets(self):
        """Only the plan knows whether it cuts a sum."""
        key = "train.bucket_mb=3"
        self.typed("train.bucket_mb: the key has no effect: no strategy of the job sums gradients "
                   "in buckets", "parallel.strategy=pp", "model.family=llama", key)
        said = "train.bucket_mb has no effect: this layout leaves no gradient to sum in buckets"
        _, err = self.weft("plan", "-n", "2", "tiny.ini", key, "parallel.strategy=dp, pp",
                           "parallel.dp=1", "model.family=llama")
        self.assertIn(f"weft warn: command line: {said}", err)
        self.write("job.ini", self.read("tiny.ini").decode() + "\n[train]\nbucket_mb = 3\n")
        _, err = self.weft("plan", "-n", "2", "job.ini", "parallel.strategy=pp",
                           "model.family=llama")
        self.assertIn("bucket_mb has no effect: no strategy", err)
        for words in ((DP,), (DP, "optim.placement=zero3"), ("parallel.strategy=pp",)):
            _, err = self.weft("plan", "-n", "2", "job.ini", *words)
            self.assertNotIn("has no effect", err)

    def test_a_transport_inside_a_machine(self):
        """It is for an axis that spans machines, whatever the other transport is."""
        why = "intra: the key has no effect: no axis has ranks both inside a machine and on others"
        for words in (("comm.plugin=tcp", "comm.intra=shm"), ("comm.intra=tcp",),
                      ("comm.dp.intra=tcp",)):
            self.typed(why, DP, *words)
        for words in (("comm.intra=auto",), ("comm.intra=none",), ("comm.dp.intra=",)):
            self.weft("plan", "-n", "2", "tiny.ini", DP, *words)
        self.weft("plan", "-n", "4", "tiny.ini", DP, "--machines", "2", "comm.plugin=tcp",
                  "comm.intra=shm", "train.microbatch=1")
        self.assertIn("weft info: job.ini:26: comm.intra has no effect: no axis has ranks",
                      self.said(started.TINY + "[comm]\nplugin = tcp\nintra = shm\n"))

    def test_keys_of_another_launcher(self):
        """Ranks that weft starts need no key and no address: they inherit both."""
        why = "the launcher gives its ranks a key and a socket to meet at"
        for key in ("run.key=nowhere.key", "run.listen=0.0.0.0:4000"):
            self.refused("train", "-n", "2", "tiny.ini", DP, key, why="command line: "
                         f"{key.split('=')[0]}: the key has no effect: {why}")
            self.weft("plan", "-n", "2", "tiny.ini", DP, key)
        self.write("job.ini", started.TINY.replace("steps", "key = nowhere.key\nsteps"))
        said = self.weft("train", "-n", "2", "job.ini", DP)[1]
        self.assertEqual(said.count(f"weft warn: job.ini:3: run.key has no effect: {why}"), 1, said)

    def test_harmless_keys_are_warned_of(self):
        """A script that goes through sizes or turns saving off leaves them."""
        for words, what in (
                (("train.accumulate=compute", "train.precision=fp32"),
                 "train.accumulate has no effect: gradients are fp32"),
                (("train.eval_batches=3", "train.eval_every=0"),
                 "train.eval_batches has no effect: nothing is evaluated"),
                (("checkpoint.keep=5", "checkpoint.every=0"),
                 "checkpoint.keep has no effect: nothing is saved"),
                (("parallel.strategy=tp, dp", "parallel.tp=1", "parallel.sequence=on"),
                 "parallel.sequence has no effect: parallel.tp is 1"),
                (("parallel.strategy=none", "-n", "1", "comm.tcp.encrypt=on"),
                 "comm.tcp.encrypt has no effect: the job has one rank"),
                (("parallel.strategy=none", "-n", "1", "train.bucket_mb=3"),
                 "train.bucket_mb has no effect: the job has one rank"),
                (("parallel.strategy=none", "-n", "1", "run.join_timeout=3"),
                 "run.join_timeout has no effect: the job has one rank"),
                (("run.plugins=nowhere",), "no plugins come from nowhere: No such file")):
            _, err = self.weft("plan", "-n", "2", "tiny.ini", DP, *words)
            self.assertIn(what, err)
            self.assertIn("weft warn: ", err)

    def test_words_of_an_earlier_version(self):
        """They mean what they meant, and a line says what they are called now."""
        text = self.read("tiny.ini").decode() + "\n[comm.dp]\nnear = none\n"
        rules = "all_reduce:0-1K=exchange, *=direct"
        said = self.said(text, "comm.plugin=tcp", f"comm.algorithm={rules}")
        self.assertIn("comm.dp.intra: 'near' is a word of an earlier version, which the next one "
                      "will not know; write comm.dp.intra = none\n", said)
        self.assertIn("write comm.algorithm = all_reduce:0-1K=one_shot, *=pairwise\n", said)
        self.assertEqual(said.count("an earlier version"), 2)
        self.refused("plan", "-n", "2", "tiny.ini", DP, "comm.algorithm=indirect",
                     why="'indirect' is none of the algorithms auto, ")

    def test_keys_that_need_another(self):
        scale = "has no effect: only precision fp16 scales the loss, and train.precision is bf16"
        self.typed(scale, DP, "train.loss_scale=1024")
        self.typed(scale, DP, "train.scale_window=7")
        self.typed("the learning rate does not fall, and optim.schedule is constant", DP,
                   "optim.schedule=constant", "optim.min_lr=1e-5")
        self.typed("documents are not told apart, and data.documents is joined", DP,
                   "model.positions=sample")
        self.typed("no step is traced, and log.trace_steps is empty", DP, "log.trace_mb=3")
        self.typed("every algorithm is named, and comm.algorithm is ring", DP,
                   "comm.algorithm=ring", "comm.reduce=3")
        self.typed("no gradient is compressed, and comm.compress is none", DP, "comm.feedback=off")
        for key in ("train.eval_every=7", "train.eval_batches=3"):
            self.typed("nothing is evaluated, and data.valid is empty", DP, "data.valid=", key)
        self.typed("documents are not told apart, and data.documents is joined", DP,
                   "data.boundary=begin:3")
        self.typed("no such step is done, and run.steps is 4", DP, "log.trace_steps=5-6")
        for key, value, own in (("plugin", "tcp", "shm"), ("algorithm", "ring", "ring"),
                                ("compress", "int8", "none"), ("checksum", "on", "off")):
            self.typed(f"comm.{key}: the key has no effect: every mesh axis has a value of its own",
                       DP, f"comm.{key}={value}", f"comm.dp.{key}={own}")
        self.typed("schedule = interleaved needs parallel.virtual of 2 or more",
                   "parallel.strategy=pp", "parallel.schedule=interleaved")
        for words in (("train.loss_scale=auto",), ("train.loss_scale=1024", "train.precision=fp16"),
                      ("comm.dp.compress=int8", "comm.feedback=off"),
                      ("log.trace_mb=3", "log.trace_steps=1-2"), ("comm.reduce=3",),
                      ("comm.reduce=3", "comm.algorithm=all_reduce=ring"),
                      ("comm.reduce=3", "comm.dp.algorithm=auto"),
                      ("data.valid=", "train.eval_every=0"), ("log.trace_steps=4-6",),
                      ("comm.checksum=on", "comm.dp.checksum=same"),
                      ("comm.plugin=tcp", "comm.dp.plugin=")):
            self.weft("plan", "-n", "2", "tiny.ini", DP, *words)

    def test_the_same_in_a_file(self):
        """A backend is swapped in one line: no warning for that, and one for what is wrong."""
        job = started.TINY + "[optim]\nwarmup = 2\nmomentum = 0.9\n[parallel]\ntp = 2\n"
        self.assertEqual(self.said(job, level="warn"), "")
        said = self.said(job)
        self.assertIn("job.ini:26: optim.momentum has no effect: update rule muon or sgd", said)
        self.assertIn("job.ini:28: parallel.tp has no effect: strategy tp reads it", said)
        job = started.TINY.replace("[train]\n", "[train]\nloss_scale = 64\n")
        job += "[optim]\nwarmup = 2\n"
        self.assertIn("weft warn: job.ini:15: train.loss_scale has no effect",
                      self.said(job, level="warn"))
        self.assertEqual(self.said(job, "train.precision=fp32", level="warn"), "")
        self.assertEqual(self.said(job, "train.precision=fp16", level="warn"), "")
        for words in ((), ("-n", "2", DP)):
            said = self.weft("train", "job.ini", *words)[1]
            self.assertEqual(said.count("train.loss_scale has no effect"), 1, said)

    def test_keys_of_a_file_that_need_another(self):
        """[comm] is for the axes of other layouts, too."""
        own = "[comm]\nplugin = tcp\n[comm.dp]\nplugin = shm\n"
        said = self.said(started.TINY.replace("valid = valid.bin\n", "") + own)
        self.assertIn("weft info: job.ini:24: comm.plugin has no effect: every mesh axis has", said)
        self.assertIn("weft warn: job.ini:17: train.eval_every has no effect: nothing is", said)
        said = self.said(started.TINY, "data.valid=")
        self.assertIn("weft info: job.ini:18: train.eval_every has no effect: nothing is", said)

    def test_a_sweep_goes_on(self):
        """What one combination does not read another does."""
        done = self.weft("bench", "tiny.ini", "sweep.parallel.strategy=tp,dp", "parallel.tp=2",
                         "sweep.ranks=2", "--plan")[0]
        self.assertIn("\n2 to run, 0 skipped", done)
        done = self.weft("bench", "tiny.ini", DP, "sweep.parallel.tp=1,2", "sweep.ranks=2",
                         "--plan")[0]
        self.assertIn("same: the job of combination 1", done)

    def test_learning_rates(self):
        self.typed("command line: optim.min_lr: 1 is above the peak, which is 6e-4 (optim.lr "
                   "(default 6e-4))", DP, "optim.min_lr=1")
        words = "tiny.ini", DP, "-n", "2", "run.steps=4", "log.level=warn"
        for warmup, why in ((9, "never reaches optim.lr"), (4, "at the last step alone")):
            said = self.weft("plan", *words, f"optim.warmup={warmup}")[1]
            self.assertIn(f"command line: optim.warmup is {warmup}", said)
            self.assertIn(why, said)
        self.assertEqual(self.weft("plan", *words, "optim.warmup=3")[1], "")

    def test_what_a_shell_would_expand(self):
        for out, why in (("~/runs", "does not expand '~'"), ("~", "does not expand '~'"),
                         ("a, ~/b", "does not expand '~'"), ("a:~/b", "does not expand '~'"),
                         ("$HOME/runs", "does not expand '$HOME'"),
                         ("/scratch/${USER}/x", "does not expand '${USER}'"),
                         ('"runs/x"', "the quotes would be part of the value; write runs/x"),
                         ("'x'", "write x"), ("runs # note", "'# note' would be part of the")):
            self.write("odd.ini", started.TINY.replace("out = run", "out = " + out))
            self.refused("train", "odd.ini", why="odd.ini:2: run.out: ")
            self.refused("plan", "odd.ini", why=why)
        for out in ("./~/x", "a~b", "cost$5", "a#b"):
            self.weft("plan", "tiny.ini", f"run.out={out}")
        self.refused("plan", "tiny.ini", "run.out=~/x", why="command line: run.out: weft does not")
        self.weft("plan", "tiny.ini", "run.name=try #3")

    def test_paths_with_an_equals_sign(self):
        folder = "./lr=0.1"
        self.weft("plan", self.job_in(folder))
        self.weft("plan", "lr=0.1/job.ini")
        self.weft("plan", self.path("lr=0.1", "job.ini"))
        self.refused("plan", "lr=0.1/none.ini", why="name the INI file of a job")

    def test_every_command_takes_such_a_path(self):
        job = self.job_in("lr=0.1")
        cluster = os.path.join(started.SOURCE, "configs/clusters/dgx-a100.ini")
        for words in (("train", job, "run.steps=1"), ("doctor", job, "--list"),
                      ("sim", "-n", "2", job, DP, "--cluster", cluster),
                      ("bench", job, "--plan", "sweep.optim.lr=1,2"),
                      ("bench", "comm", job, "bench.max=8"),
                      ("tune", "comm", "-n", "2", job, DP, "tune.max=1K", "tune.seconds=0.01"),
                      ("plugins", job, "sgd"), ("ops", job, "linear")):
            self.weft(*words)

    def test_a_key_is_no_path(self):
        """Even where a file is called as it is."""
        for name in ("optim.lr=1", "bench.max=8", "run.plugins="):
            self.write(name, "no job")
        for words in (("plan", "tiny.ini", "optim.lr=1"), ("bench", "comm", "bench.max=8"),
                      ("plugins", "sgd", "run.plugins="), ("ops", "linear", "run.plugins=")):
            self.weft(*words)

    def job_in(self, folder):
        os.mkdir(self.path(folder))
        return self.write(f"{folder}/job.ini", started.TINY)


if __name__ == "__main__":
    started.main()
