#!/usr/bin/env python3
"""train_hosts.py WEFT: does `weft train --hosts` train as `-n` does, and end as it does?

A script stands for ssh: it runs the remote command on this machine (tests/ssh has the real one).
Ranks, agents, ssh and the launcher are killed; hosts are lost with and without spares; agents that
lie, that speak another protocol or that stay silent; files of hosts that are none."""
import os
import pathlib
import re
import signal
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

BASE = w.EVEN | {"run.steps": 40, "model.layers": 1, "train.microbatch": 1,
                 "checkpoint.every": 10, "checkpoint.keep": 100, "comm.plugin": "tcp"}
LONG = BASE | {"run.steps": 1000000, "checkpoint.every": 50, "checkpoint.keep": 3}
# ssh HOST COMMAND: down-HOST: the host is down; says-HOST: what it says instead of an agent, and it
# stays; its words go to `calls`.
SSH = """#!/bin/sh
echo "$1" >>{place}/calls
if [ -e {place}/down-$1 ]; then echo "connect to host $1: down" >&2; exit 255; fi
if [ -e {place}/says-$1 ]; then cat {place}/says-$1; exec sleep 600; fi
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" FAKE_HOST=$1 exec sh -c "$2"
"""
MAGIC = 0x31746677
PROTOCOL = 2


def frame(kind, rank=0, code=0, text=b"", magic=MAGIC, size=None):
    return struct.pack("<6I", kind, rank, rank, code, len(text) if size is None else size,
                       magic) + text


HERE = frame(1, code=PROTOCOL, text=b"127.0.0.1")


def environ_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)
    except OSError:
        return {}


class Running(w.Running):
    """Agents are children of the launcher, ranks are children of agents."""

    def agents(self):
        """{host: process number}"""
        found = {environ_of(p).get(b"FAKE_HOST", b"").decode(): p for p in w.children(self.pid)}
        return {host: pid for host, pid in found.items() if host}

    def ranks(self):
        return {int(environ_of(p)[b"RANK"]): p for a in w.children(self.pid)
                for p in w.children(a) if b"RANK" in environ_of(p)}


class Hosts(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ssh = cls.script("fake", SSH.format(place=cls.place))
        cls.train("plain", BASE, ranks=4)

    @classmethod
    def script(cls, name, text):
        with open(cls.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(cls.path(name), 0o755)
        return cls.path(name)

    def hosts(self, text):
        with open(self.path("hosts"), "w", encoding="utf-8") as f:
            f.write(text)
        return ["--hosts", self.path("hosts"), "--ssh", self.ssh]

    def begin(self, out, job, text, *more, ranks=4, resume=False):
        return Running(self, out, job, ranks, resume, more=[*self.hosts(text), *more])

    def refused(self, text, words, *more, status=2, job=None):
        done = w.weft("train", self.ini, *self.options("no", job or BASE), *self.hosts(text), *more,
                      status=status)
        self.assertRegex(done.stderr, words)
        self.assertFalse(os.path.exists(self.path("no")))
        return done.stderr

    def until_saved(self, run):
        """Saves are written beside the steps: until one is complete."""
        run.until_step(55)
        run.until(lambda: w.steps_saved(run.out)[0], "a checkpoint")

    # --- as on one machine ---

    def test_same_bits(self):
        """-n and slots, one host or three, an address, a spare; the job from a pipe, with a word
        of an earlier version, which is named once."""
        for name, text in (("two", "a slots=2\nb slots=2\n"), ("one", "a slots=4 addr=127.0.0.1"),
                           ("uneven", "# mine\na\tslots=1\n\nb slots=2 # b\nuser@c slots=9\n")):
            with self.subTest(name):
                run = self.begin(name, BASE, text)
                self.assertEqual(run.wait(), 0, run.said())
                self.same_run("plain", name, step=40)
        done = w.subprocess.run(
            [w.WEFT, "train", "-", *self.options("pipe", BASE),
             *self.hosts("a slots=2\nb slots=2")],
            input="[run]\nname = tests\n[comm]\nnear = none\n", env=w.environment(None),
            capture_output=True, text=True, timeout=w.TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("'near' is a word of an earlier version"), 1)
        self.same_run("plain", "pipe", step=40)

    @unittest.skipIf(w.SLOW > 1, "the thread sanitizer loses count of threads after a fork")
    def test_doctor(self):
        """What a rank prints comes out of the launcher."""
        done = w.weft("train", self.ini, *self.options("doctor", BASE), "--doctor", "--json",
                      *self.hosts("a\nb"))
        self.assertTrue(done.stdout.startswith("{"), done.stdout)

    def test_signals(self):
        run = self.begin("term", LONG, "a slots=2\nb slots=2\n")
        run.until_step(60)
        marks = run.marks()
        os.kill(run.pid, signal.SIGHUP)
        self.assertEqual(run.wait(), 75, run.said())
        step = int(re.search("stopped by SIGHUP after step ([0-9]+), which", run.said())[1])
        self.assertEqual(w.steps_saved(run.out)[0][-1], step)
        self.assertEqual(marks.wait(w.patience(5))[1], [])
        run = self.begin("term", LONG, "b slots=4\n", resume="auto")
        run.until(lambda: f"resumed after step {step}" in run.said(), "the resume")
        run.until_step(step + 1)
        os.kill(run.pid, signal.SIGINT)
        self.assertEqual(run.wait(), 1, run.said())

    def test_agent_signaled(self):
        """A signal to the agent of one host: all ranks save, and no attempt follows."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU):
            with self.subTest(number.name):
                run = self.begin("agent", LONG, "a slots=2\nb slots=2\n", "--restarts", "2")
                run.until_step(5)
                os.kill(run.agents()["b"], number)
                self.assertEqual(run.wait(), 75, run.said())
                step = int(re.search(f"stopped by {number.name} after step ([0-9]+), which",
                                     run.said())[1])
                self.assertEqual(w.steps_saved(run.out)[0][-1], step)

    # --- deaths ---

    def test_rank_killed(self):
        run = self.begin("killed", LONG, "a slots=2\nb slots=2\n")
        run.until_step(5)
        marks = run.marks()
        os.kill(run.until_ranks()[3], signal.SIGKILL)
        self.assertEqual(run.wait(), 1, run.said())
        last = run.said().strip().split("\n")[-1]
        self.assertRegex(last, r"rank 3 was killed by signal 9 \(SIGKILL\).*; host b$")
        self.assertEqual(marks.wait(w.patience(5))[1], [])

    def test_launcher_killed(self):
        run = self.begin("orphans", LONG, "a slots=2\nb slots=2\n")
        run.until_step(5)
        marks = run.marks()
        run.process.kill()
        run.process.wait()
        seconds, left = marks.wait(w.patience(5))
        self.assertEqual(left, [])
        print(f"{seconds * 1e3:.0f} ms from the launcher's death to the last rank's")

    @w.unittest.skipIf(w.SAMPLE, "ten seconds of waiting: make integration does it")
    def test_host_frozen(self):
        """An agent that does not move any more: its host is left out."""
        run = self.begin("frozen", LONG | {"run.frozen_after": 4},
                         "a slots=2\nb slots=1\nc slots=2\n", "--restarts", "2", ranks=3)
        self.until_saved(run)
        for pid in (run.agents()["b"], run.until_ranks()[2]):
            os.kill(pid, signal.SIGSTOP)
        run.until(lambda: "resumed after" in run.said(), "the resume")
        self.assertRegex(run.said(), "rank 2 is frozen: .*; host b")
        self.assertIn("host b is lost: it does not answer", run.said())
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())

    @w.unittest.skipIf(w.SAMPLE, "ten seconds of waiting: make integration does it")
    def test_all_frozen(self):
        """No rank is left to name one: the agents do, and the next attempt goes on."""
        run = self.begin("ice", LONG | {"run.frozen_after": 4}, "a slots=2\nb slots=1\n",
                         "--restarts", "2", ranks=3)
        self.until_saved(run)
        for pid in run.until_ranks().values():
            os.kill(pid, signal.SIGSTOP)
        run.until(lambda: "resumed after" in run.said(), "the resume")
        self.assertRegex(run.said(), r"all ranks are frozen: no sign of life for \d+\.\d s")
        self.assertNotIn("is lost", run.said())
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())

    @w.unittest.skipIf(w.SAMPLE, "ten seconds of waiting: make integration does it")
    def test_paused(self):
        """Ctrl-Z stops ranks and launcher; the agents, which run on, take none for frozen."""
        run = self.begin("paused", LONG | {"run.frozen_after": 1}, "a slots=2\nb slots=1\n",
                         ranks=3)
        run.until_step(5)
        os.kill(run.pid, signal.SIGTSTP)
        run.until(lambda: w.is_stopped(run.pid), "the pause")
        time.sleep(13)
        step = w.metrics(run.out)[-1]["step"]
        os.kill(run.pid, signal.SIGCONT)
        run.until_step(step + 50)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        self.assertNotIn("frozen", run.said())

    def test_asked_and_killed(self):
        """A rank of host b is asked to stop, and rank 0 dies before they agree: no attempt follows.
        """
        run = self.begin("asked", LONG | {"run.frozen_after": 300}, "a slots=2\nb slots=2\n",
                         "--restarts", "2")
        run.until_step(5)
        ranks = run.until_ranks()
        os.kill(ranks[0], signal.SIGSTOP)
        os.kill(ranks[3], signal.SIGTERM)
        run.until(lambda: not w.pending(ranks[3], signal.SIGTERM), "rank 3 to take the signal")
        os.kill(ranks[0], signal.SIGKILL)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertIn("the job is not started again: SIGTERM has asked it to end", run.said())

    @w.again
    def test_host_lost(self):
        """Without --restarts the host is named; it is moved to a spare; fewer ranks go on."""
        run = self.begin("lost", LONG, "a slots=2\nb slots=2\n")
        run.until_step(5)
        run.until_ranks()
        os.kill(run.agents()["b"], signal.SIGKILL)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertRegex(run.said(), "(?m)host b is lost with ranks 2 to 3: its ssh was killed")

        run = self.begin("spare", BASE | {"run.steps": 400}, "a slots=2\nb slots=2\nc slots=2\n",
                         "--restarts", "2")
        run.until_step(25)
        os.kill(run.agents()["a"], signal.SIGKILL)
        self.assertEqual(run.wait(), 0, run.said())
        self.assertIn("the hosts that are left have 4 slots for the 4 ranks", run.said())
        self.train("spareless", BASE | {"run.steps": 400}, ranks=4)
        self.same_run("spareless", "spare", step=400)

    def test_fewer(self):
        """A lost host has no spare; with --restarts-min the largest legal number goes on."""
        run = self.begin("least", LONG, "a slots=2\nb slots=2\n", "--restarts", "2",
                         "--restarts-min", "1")
        self.until_saved(run)
        os.kill(run.agents()["b"], signal.SIGKILL)
        run.until(lambda: "resumed after" in run.said(), "the resume")
        step = int(re.search("resumed after step ([0-9]+)", run.said())[1])
        run.until_step(step + 1)
        self.assertIn("the hosts that are left have 2 slots: 2 of 4 ranks continue", run.said())
        self.assertEqual(len(run.ranks()), 2)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())

        run = self.begin("none", LONG, "a slots=2\nb slots=2\n", "--restarts", "2")
        run.until_step(5)
        os.kill(run.agents()["b"], signal.SIGKILL)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertIn("have 2 slots, and the job has 4 ranks: name spare hosts", run.said())

    # --- what cannot be started ---

    def test_refusals(self):
        self.refused("", "names no host")
        self.refused("a\na\n", "hosts:2: a is in line 1 already")
        self.refused("-oProxyCommand=x", "hosts:1: '-oProxyCommand=x' is not the name of a host")
        self.refused("a slots=0", "hosts:1: 'slots=0'")
        self.refused("a slots=2 max=4", "'max=4' is neither slots=N nor addr=ADDRESS")
        self.refused("a\nb", "-n 3: the 2 hosts of .*hosts have 2 slots", "-n", "3")
        self.refused("a slots=2", "parallel", job=BASE | {"parallel.strategy": "none such"})
        done = w.weft("train", self.ini, "--hosts", self.path("nofile"), status=2)
        self.assertRegex(done.stderr, "cannot read the hosts file .*nofile: No such")
        done = w.weft("train", self.ini, "--ssh", "ssh", status=2)
        self.assertIn("--ssh belongs to --hosts", done.stderr)

    def test_host_down(self):
        with open(self.path("down-b"), "w", encoding="utf-8"):
            pass
        self.addCleanup(os.remove, self.path("down-b"))
        said = self.refused("a\nb\n", "host b, line 2 of --hosts: ssh has ended with status 255",
                            status=1)
        self.assertIn("connect to host b: down", said)
        self.refused("a addr=192.0.2.1\nc\n", "host a, line 1 of --hosts: cannot listen on 192.0",
                     status=1)
        self.ssh = self.path("nothing")
        self.refused("a\nc\n", "host [ac], line [12] of --hosts: the program of --ssh", status=1)

    def test_lying_agents(self):
        """What comes from a host is input from outside."""
        for name, words in (("junk", os.urandom(3000)), ("short", HERE[:30]),
                            ("huge", frame(1, code=PROTOCOL, size=1 << 30)),
                            ("magic", frame(1, code=PROTOCOL, magic=7)),
                            ("twice", HERE + HERE), ("newer", frame(1, code=PROTOCOL + 1)),
                            ("ranks", HERE + frame(3, rank=77, code=4 << 16, text=b"x") +
                             frame(6, rank=1 << 31) + frame(5, rank=0, text=b"12345678")),
                            ("gone", HERE + frame(6, rank=0) * 9),
                            ("failed", HERE + frame(8, text=b"no room\0no more"))):
            with self.subTest(name), open(self.path("words"), "wb") as f:
                f.write(words)
                f.flush()
                self.ssh = self.script("liar", f"#!/bin/sh\ncat {self.path('words')}\nsleep 0.2\n")
                self.refused("a slots=2\n", "(?m)host a", status=1)

    def says(self, host, words):
        """From now on the host says `words` instead of starting an agent, and its ssh stays."""
        with open(self.path("words"), "wb") as f:
            f.write(words)
        os.replace(self.path("words"), self.path("says-" + host))
        self.addCleanup(pathlib.Path(self.path("says-" + host)).unlink, missing_ok=True)

    def test_broken_link(self):
        """An ssh that stays, and through which no frame of an agent comes, is not waited for."""
        noise = b"\nWelcome to node b!\n" + HERE
        told = r'its remote shell wrote text of its own before weft began \("Welcome to node b!"\)'
        for words, reason in ((noise, told),
                              (HERE + noise, "what came through its ssh is not from weft's agent")):
            with self.subTest(reason):
                self.says("b", words)
                self.refused("a\nb\n", "host b, line 2 of --hosts: " + reason, status=1)
        if not w.SAMPLE:  # five seconds of waiting
            self.ssh = self.script("closed", "#!/bin/sh\nexec sleep 600 >&-\n")
            self.refused("a\n", "host a, line 1 of --hosts: its agent has ended, and its ssh",
                         status=1)

    def moves_on(self, words, reason):
        """A host that is not usable in the second attempt is lost; a spare takes its ranks."""
        run = self.begin("moved", LONG, "a slots=2\nb slots=2\nc slots=2\n", "--restarts", "3")
        self.until_saved(run)
        ranks = run.until_ranks()
        self.says("b", words)
        os.kill(ranks[3], signal.SIGKILL)
        run.until(lambda: "resumed after" in run.said(), "the resume")
        self.assertRegex(run.said(), "host b is lost: " + reason)
        self.assertEqual(sorted(run.agents()), ["a", "c"])
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())

    def test_broken_later(self):
        self.moves_on(b"Welcome to node b of the cluster\n", "its remote shell wrote text")

    def test_failed_later(self):
        self.moves_on(HERE + frame(8, text=b"no memory"), "no memory")

    @w.unittest.skipUnless(w.TIMED and not w.SAMPLE, "a minute of waiting for the launcher alone")
    def test_silent_later(self):
        self.moves_on(b"", "ssh has not started weft there for 60 s")

    def test_silent_agent(self):
        """A second signal is not needed to leave a host that does not answer."""
        self.ssh = self.script("silent", "#!/bin/sh\nexec sleep 600\n")
        run = self.begin("silent", BASE, "a slots=4\n")
        run.until(lambda: w.children(run.pid), "ssh")
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        self.assertIn("stopped by signal 15 before its ranks began", run.said())


if __name__ == "__main__":
    w.main()
