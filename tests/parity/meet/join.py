#!/usr/bin/env python3
"""join.py WEFT: do ranks that we did not start make the same job, and only with their like?

Ranks that the environment describes, with a key file, train bit for bit as those of the launcher
(mpirun: tests/mpi). A rank that was told something else (another value in its job file, other
data, --resume) or has another key is named, and nothing is trained."""
import hashlib
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "parity", "plugins")
JOB = w.ODD | {"checkpoint.every": 20, "comm.plugin": "tcp"}


class Join(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("key", "other.key"):
            w.weft("key", "-o", cls.path(name))
        cls.key = {"run.key": cls.path("key")}
        cls.train("launched", JOB, ranks=2)

    def start(self, out, jobs, resume=(), extra=None):
        """One process a job; [(status, what it said)] in rank order."""
        port = w.free_port()
        return w.ends([self.by_hand(self.command(out, job) + ["--resume"] * (rank in resume),
                                    w.place_of(rank, len(jobs), port) | (extra or {}))
                       for rank, job in enumerate(jobs)])

    def refused(self, jobs, *words, resume=(), status=(1, 2), change=()):
        """All ranks end, the last with one of `status`, and each says the first of `words`."""
        shutil.rmtree(self.path("refused"), ignore_errors=True)
        ended = self.start("refused", [job | dict(change) for job in jobs], resume=resume)
        for code, text in ended:
            self.assertIn(code, (1, 2), text)
            self.assertIn(words[0], text)
        for word in words:
            self.assertIn(word, ended[-1][1])
        self.assertIn(ended[-1][0], status, ended[-1][1])
        self.assertFalse(os.path.exists(self.path("refused")))
        return ended

    def test_a_network_without_loopback(self):
        """As a new network namespace has it: no reason to wait for join_timeout."""
        alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "-r", "--net"]
        done = subprocess.run([*alone, w.WEFT, "train", "-n", "2", self.ini,
                               *self.options("alone", JOB)], env=w.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=w.TIMEOUT,
                              check=False)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("the loopback interface of this machine is down", done.stderr)

    def test_environment(self):
        for status, text in self.start("joined", [JOB | self.key] * 2):
            self.assertEqual(status, 0, text)
        self.same_run("launched", "joined", 20)

    def test_key_is_handed_over(self):
        """The key's file is all that is told; it is not in the checkpoint's copy of the job."""
        with open(self.path("key"), "rb") as f:
            key = f.read().strip()
        self.start("joined", [JOB | self.key] * 2)
        for base, _, names in os.walk(self.path("joined")):
            for name in names:
                with open(os.path.join(base, name), "rb") as f:
                    self.assertNotIn(key, f.read(), name)

    @w.again
    def test_what_all_say_is_said_once(self):
        """A wrong setting, found before ranks have met or after, by ranks of one run of srun,
        mpirun or torchrun; what one rank alone says is said by it."""
        run = {"TORCHELASTIC_RUN_ID": "7"}
        for change, words in (({"optim.lrr": 3}, "unknown key 'lrr'"),
                              ({"train.microbatch": 5}, "are not a multiple of microbatch = 5")):
            ended = self.start("refused", [JOB | self.key | change] * 3, extra=run)
            self.assertEqual([status for status, _ in ended], [2] * 3, ended)
            count = "".join(text for _, text in ended).count(words)
            self.assertGreater(count, 0, ended)
            if count > 1:  # one came when the first had ended
                raise w.TooSoon(str(ended))
        one = JOB | self.key
        ended = self.start("refused", [one, one | {"optim.lrr": 3, "run.join_timeout": 1}],
                           extra=run | {"WORLD_SIZE": "2"})
        self.assertIn("unknown key 'lrr'", ended[1][1])

    def test_other_settings(self):
        for change in ({"optim.lr": 1e-3}, {"run.seed": 6}, {"run.steps": 21}, {"model.ffn": 48},
                       {"train.microbatch": 6}, {"checkpoint.every": 10},
                       {"optim.betas": "0.8,0.9"},
                       {"comm.plugin": "shm"}, {"comm.algorithm": "pairwise"}, {"run.deadline": 7}):
            with self.subTest(change=change):
                (key, value), = change.items()
                self.refused([JOB | self.key, JOB | self.key | change], "rank 1", key, str(value),
                             str(JOB.get(key, "")), status=(2,))

    def test_other_costs(self):
        """What algorithms are chosen by is compared, whatever file it stands in."""
        tuned = JOB | self.key | {"comm.tcp.bandwidth": 2, "comm.tcp.latency": 20}
        self.refused([tuned, tuned | {"comm.tcp.latency": 30}], "rank 1",
                     "has comm.tcp.latency = 30 where rank 0 has comm.tcp.latency = 20",
                     status=(2,))
        with open(self.path("tuned.ini"), "w", encoding="utf-8") as f:
            f.write("[comm.tcp]\nbandwidth = 3\n")
        self.refused([JOB | self.key, JOB | self.key | {"comm.tuned": self.path("tuned.ini")}],
                     "rank 1", "has comm.tcp.bandwidth = 3, which rank 0 lacks", status=(2,))
        self.refused([tuned, JOB | self.key], "rank 1", "lacks comm.tcp.latency = 20",
                     status=(2,))

    def test_other_plugin_file(self):
        """A byte behind the end of the file: it works the same, and is not the same build."""
        lib = os.path.join(os.path.dirname(os.path.dirname(w.WEFT)), "lib", "weft")
        os.makedirs(self.path("own/optim"), exist_ok=True)
        name = JOB["optim.rule"] if "optim.rule" in JOB else "adamw"
        digest, copy = [], self.path(f"own/optim/{name}.so")
        with open(os.path.join(lib, "optim", name + ".so"), "rb") as f:
            data = f.read()
        with open(copy, "wb") as f:
            f.write(data + b"\n")
        os.chmod(copy, 0o644)
        for bytes_ in (data + b"\n", data):
            digest.append(hashlib.sha256(bytes_).hexdigest())
        own = JOB | self.key | {"run.plugins": self.path("own")}
        self.refused([JOB | self.key, own], "rank 1", f"different files of the plugin weft.{name}",
                     f"SHA-256 {digest[0]} ({os.path.realpath(copy)}) on rank 1",
                     f"{digest[1]} ({os.path.realpath(lib)}/optim/{name}.so) on rank 0",
                     status=(2,))
        for status, text in self.start("joined", [own] * 2):
            self.assertEqual(status, 0, text)
        self.same_run("launched", "joined", 20)

    def test_other_plan(self):
        """The same files, and another choice of a kernel by one rank."""
        moody = JOB | self.key | {"run.plugins": PLUGINS, "run.use": "moody"}
        ended = self.refused([moody] * 2, "rank 1 has another plan than rank 0", status=(2,))
        said = " ".join(ended[1][1].split())
        self.assertRegex(said, r"differs first in segment \d+, forward block")

    def test_the_odd_one_out_of_three(self):
        job = JOB | self.key | {"train.microbatch": 4}
        ended = self.refused([job, job | {"optim.lr": 1e-3}, job], "rank 1")
        self.assertNotIn("rank 2 has", "".join(text for _, text in ended))

    def test_what_may_differ(self):
        own = JOB | self.key | {"device.threads": 2, "log.level": "warn", "device.pin": "off"}
        for status, text in self.start("joined", [JOB | self.key, own]):
            self.assertEqual(status, 0, text)
        self.same_run("launched", "joined", 20)

    def test_other_data(self):
        """The same length and the same vocabulary, one token another."""
        with open(self.path("train.bin"), "rb") as f:
            data = bytearray(f.read())
        shutil.copy(self.path("train.bin"), self.path("copy.bin"))
        copied = JOB | self.key | {"data.train": self.path("copy.bin")}
        for status, text in self.start("joined", [JOB | self.key, copied]):
            self.assertEqual(status, 0, text)
        data[1024 + 2 * 1234] ^= 1
        with open(self.path("copy.bin"), "wb") as f:
            f.write(data)
        self.refused([JOB | self.key, copied], "rank 1", "training data", "4000 tokens of",
                     status=(2,))

    def test_no_data_on_one_rank(self):
        """What a rank alone finds wrong is told by all."""
        gone = JOB | self.key | {"data.train": self.path("gone.bin")}
        ended = self.refused([JOB | self.key, JOB | self.key, gone], "gone.bin", "data.train",
                             status=(2,), change={"train.microbatch": 4})
        for status, text in ended[:2]:
            self.assertIn("rank 2", text)

    def test_port_is_taken(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            ended = self.start("refused", [JOB | self.key | {"run.join_timeout": 3}] * 2,
                               extra={"MASTER_PORT": str(port)})
        for status, text in ended:
            self.assertIn(status, (1, 2), text)
        self.assertIn(str(port), ended[0][1])

    def test_one_resumes(self):
        self.refused([JOB | self.key, JOB | self.key], "rank 1", "--resume", resume=(1,),
                     status=(2,))

    def test_other_key(self):
        shutil.rmtree(self.path("refused"), ignore_errors=True)
        job = JOB | {"run.join_timeout": 3}
        ended = self.start("refused", [job | self.key, job | {"run.key": self.path("other.key")}])
        for status, text in ended:
            self.assertIn(status, (1, 2), text)
        self.assertIn("rank 1", ended[0][1])
        self.assertIn("key", ended[1][1])
        self.assertFalse(os.path.exists(self.path("refused")))

    def test_no_key(self):
        job = JOB | {"run.join_timeout": 3}
        for status, text in self.start("refused", [job, job]):
            self.assertEqual(status, 2, text)
            self.assertIn("key", text)
        os.chmod(self.path("other.key"), 0o644)
        job = job | {"run.key": self.path("other.key")}
        for status, text in self.start("refused", [job, job]):
            self.assertEqual(status, 2, text)
            self.assertIn("other.key", text)
        os.chmod(self.path("other.key"), 0o600)

    def test_a_rank_is_missing(self):
        ended = self.start("refused", [JOB | self.key | {"run.join_timeout": 2}],
                           extra={"WORLD_SIZE": "2"})
        self.assertEqual(ended[0][0], 1, ended[0][1])
        self.assertIn("rank 1", ended[0][1])


if __name__ == "__main__":
    w.main()
