#!/usr/bin/env python3
"""train_restart.py WEFT: does a job that has failed continue by itself, and as if by hand?

Ranks are killed while they train, at random moments and always in the same step (late/late.c), at
set-up, and with fewer ranks than before; under weft's launcher, and rank by rank as srun and mpirun
start them. What comes out has the bits of a run that nothing disturbed, or of one that was resumed
by hand with the same ranks. A rank that is left from an older attempt is fenced."""
import os
import pty
import random
import re
import resource
import shutil
import signal
import sys
import termios
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PLUGINS = os.environ.get("WEFT_TEST_PLUGINS") or os.path.join(
    os.path.dirname(w.WEFT), "..", "tests", "fault", "plugins")
BASE = w.EVEN | {"run.steps": 60, "model.layers": 1, "train.microbatch": 1,
                 "checkpoint.every": 7, "checkpoint.keep": 100, "comm.plugin": "tcp"}
LATE = {"run.plugins": PLUGINS, "comm.plugin": "late", "comm.algorithm": "ring"}


class Restart(w.RankByRank):
    BASE = BASE

    def metrics_are_whole(self, out, steps):
        self.assertEqual([x["step"] for x in w.lines(self.path(out), w.NO_TIME)],
                         list(range(1, steps + 1)))

    @w.again
    def test_killed(self):
        """Three ranks, rank 0 among them, at moments of their own; the end has the same bits."""
        self.train("plain", BASE, ranks=4)
        run = w.Running(self, "killed", BASE, 4, more=["--restarts", "3"])
        for step, victim in ((5, 2), (20, 0), (41, 3)):
            run.until_step(step)
            run.kill(victim)
            number = (5, 20, 41).index(step) + 2
            run.until(lambda n=number: f"attempt {n} begins" in run.said(), "the next attempt")
            run.until_ranks()
        self.assertEqual(run.wait(), 0, run.said())
        self.assertRegex(run.said(), "resumed after step [0-9]+")
        self.same_run("plain", "killed", step=60)
        self.metrics_are_whole("killed", 60)

    def test_a_terminal_that_is_held(self):
        """Standard error of the job is a terminal at Ctrl-S, or one whose screen nobody reads: what
        is said is lost, and the job goes on, or ends, as if it were read."""
        self.train("read", BASE, ranks=2)
        for full in (False, True):
            with self.subTest(full=full):
                screen, line = pty.openpty()
                self.addCleanup(os.close, screen)
                self.addCleanup(os.close, line)
                if full:
                    os.set_blocking(line, False)
                    with self.assertRaises(BlockingIOError):
                        while True:
                            os.write(line, b"nobody reads\n")
                    os.set_blocking(line, True)
                else:
                    termios.tcflow(line, termios.TCOOFF)
                run = w.Running(self, "held", BASE, 2, more=["--restarts", "3"],
                                preexec_fn=lambda to=line: os.dup2(to, 2))
                run.until_step(9)
                run.kill(1)
                self.assertEqual(run.wait(), 0)
                self.assertEqual(run.said(), "")
                self.same_run("read", "held", step=60)
                run = w.Running(self, "once", BASE, 2, preexec_fn=lambda to=line: os.dup2(to, 2))
                run.until_step(9)
                run.kill(1)
                self.assertEqual(run.wait(), 1)

    def failing(self, out, job, *more, rank=3, dies=200, ranks=4, resume=False):
        run = w.Running(self, out, BASE | LATE | job, ranks, resume, more=more,
                        extra={"LATE_RANK": str(rank), "LATE_DIES": str(dies)})
        return run.wait(), run.said()

    def test_same_step(self):
        """A rank that dies in the same step again and again ends the job, with its history."""
        status, said = self.failing("same", {"checkpoint.every": 0}, "--restarts", "2")
        self.assertEqual(status, 1, said)
        self.assertEqual(len(re.findall("attempt [0-9] begins", said)), 2, said)
        [step] = set(re.findall("attempts in a row got no further than step ([0-9]+)", said))
        self.assertGreater(int(step), 1)
        history = re.findall(r"(?m)^  attempt ([0-9]), 4 ranks, [0-9.]+ s, got to step ([0-9]+): "
                             "rank 3 was killed by signal 9", said)
        self.assertEqual(history, [(str(n), step) for n in (1, 2, 3)], said)

    def test_set_up(self):
        """Before its first step a run leaves an older run's checkpoints alone, each time."""
        self.train("older", BASE | {"run.steps": 14}, ranks=2)
        status, said = self.failing("older", {}, "--restarts", "1", rank=1, dies=0, ranks=2)
        self.assertEqual(status, 1, said)
        self.assertNotIn("resumed", said)
        self.assertRegex(said, r"attempt 2 begins, as the first did")
        self.assertRegex(said, r"(?m)^  attempt 2, 2 ranks, .* before its first step: rank 1")

    @unittest.skipIf(w.SLOW > 1, "a sanitizer needs the addresses that are refused here")
    def test_the_same_reason(self):
        """What no further attempt can mend, an arena that is refused, ends the job at the second
        attempt: under the launcher, and by each rank of another one."""
        job = {"model.embed": 1024, "model.ffn": 8192, "model.layers": 8}

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))

        run = w.Running(self, "large", BASE | job, 2, more=["--restarts", "7"], preexec_fn=limit)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertEqual(re.findall("attempt ([0-9]) begins", run.said()), ["2"], run.said())
        same = "attempt 2 failed before its first step for the same reason as the attempt before it"
        self.assertIn(same, run.said())
        port = w.free_port()
        ranks = [self.start_rank("large", r, port, more=("--restarts", "7"), job=job,
                                 preexec_fn=limit) for r in range(3)]
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(w.TIMEOUT), 1, self.said("large", rank))
            self.assertNotIn("attempt 3", self.said("large", rank))
        self.assertIn(same, self.said("large", 0))
        self.assertIn("an arena of", self.said("large", 0))

    def test_fewer(self):
        """Rank 3 dies twice in the same step: 3 ranks go on, as if resumed by hand."""
        job = {"run.steps": 30, "checkpoint.every": 1000}
        for out in ("fewer", "hand"):
            self.train(out, BASE | LATE | job | {"run.steps": 7}, ranks=4)
        status, said = self.failing("fewer", job, "--restarts", "2", "--restarts-min", "2",
                                    dies=50, resume=True)
        self.assertEqual(status, 0, said)
        self.assertIn("3 of 4 ranks continue", said)
        self.assertIn("spare: 0", said)
        self.assertEqual(re.findall("resumed after step ([0-9]+)", said), ["7"] * 3)
        self.train("hand", BASE | LATE | job, ranks=3, resume=True)
        self.same_run("fewer", "hand", step=30)

    def test_spares(self):
        """Three ranks cannot share 8 sequences of 2: two go on; at least 3 is impossible."""
        job = {"run.steps": 16, "train.batch": 8, "train.microbatch": 2, "checkpoint.every": 100}
        status, said = self.failing("spares", job, "--restarts", "2", "--restarts-min", "1",
                                    dies=40)
        self.assertEqual(status, 0, said)
        self.assertIn("2 of 4 ranks continue, the largest number that the job allows; spare: 1",
                      said)
        status, said = self.failing("none", job, "--restarts", "2", "--restarts-min", "3", dies=40)
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "cannot continue with fewer ranks: .*with 3 ranks: .*train.batch")

    def test_stopped(self):
        """A request to stop is no failure, and neither is a wrong request."""
        run = w.Running(self, "stopped", BASE | {"run.steps": 100000}, 2, more=["--restarts", "5"])
        run.until_step(3)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        self.assertNotIn("begins", run.said())
        for words, why in ((("--restarts", "0"), "--restarts 0"),
                           (("--restarts-min", "2"), "belongs to --restarts"),
                           (("--restarts", "2", "--restarts-min", "3"), "1 to the 2 ranks"),
                           (("--restarts", "2", "--doctor"), "--doctor trains nothing")):
            said = w.weft("train", "-n", 2, self.ini, *self.options("refused", BASE), *words,
                          status=2).stderr
            self.assertIn(why, said)
        said = w.weft("train", self.ini, *self.options("refused", BASE), "--restarts", "2",
                      "--restarts-min", "1", status=2).stderr
        self.assertIn("--restarts-min needs -n or --hosts", said)

    def test_asked_and_killed(self):
        """A rank is asked to stop, and another one dies before they agree on a step: what was asked
        holds, and no attempt follows. Likewise where one rank is interrupted."""
        job = BASE | {"run.steps": 100000, "run.frozen_after": 300}
        run = w.Running(self, "asked", job, 4, more=["--restarts", "5"])
        run.until_step(3)
        run.kill(2, signal.SIGSTOP)
        asked = run.ranks()[1]
        os.kill(asked, signal.SIGTERM)
        run.until(lambda: not w.pending(asked, signal.SIGTERM), "rank 1 to take the signal")
        run.kill(2)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertIn("the job is not started again: SIGTERM has asked it to end", run.said())
        self.assertRegex(run.said(), "(?m)^  attempt 1, 4 ranks, .*: rank 2 was killed by signal 9")
        run = w.Running(self, "interrupted", job, 2, more=["--restarts", "5"])
        run.until_step(3)
        run.kill(1, signal.SIGINT)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertIn("the job is not started again: SIGINT has asked it to end", run.said())

    def test_asked_in_a_pause(self):
        """Signals between two attempts end the job, with its history; the second one only repeats
        the first, as some schedulers do."""
        run = w.Running(self, "pause", BASE | LATE, 2, more=["--restarts", "7"],
                        extra={"LATE_RANK": "1", "LATE_DIES": "20"})
        run.until(lambda: "attempt 4 begins after a pause" in run.said(), "the pause")
        os.kill(run.pid, signal.SIGSTOP)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
            os.kill(run.pid, number)
        self.assertEqual(run.wait(), 75, run.said())
        self.assertRegex(run.said(), "stopped by SIG(HUP|TERM) before attempt 4; this was not its "
                                     "first attempt: continue with --resume=auto")
        self.assertEqual(re.findall("(?m)^  attempt ([0-9]), 2 ranks, ", run.said()),
                         ["1", "2", "3"])

    # --- ranks of another launcher ---

    @w.again
    def test_supervised(self):
        """Each rank's process stays and starts the rank again; rank 0 is killed, and rank 2."""
        shutil.rmtree(self.path("sup"), ignore_errors=True)
        self.train("whole", BASE | {"run.steps": 200}, ranks=3)
        port = w.free_port()
        ranks = [self.start_rank("sup", r, port, job={"run.steps": 200}) for r in range(3)]
        for step, victim in ((4, 2), (60, 0)):
            self.until_metrics("sup", step)
            child = w.children(ranks[victim].pid)
            if not child:
                raise w.TooSoon("the job has ended before its rank was killed")
            os.kill(child[0], signal.SIGKILL)
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(w.TIMEOUT), 0, self.said("sup", rank))
        self.same_run("whole", "sup", step=200)
        self.assertIn("rank 2 was killed by signal 9", self.said("sup", 2))
        self.assertIn("attempt 3 begins", self.said("sup", 0))

    @w.again
    def test_supervised_frozen(self):
        """A rank that is stopped hears of nothing: the process that stays ends it, and starts it
        again with the others."""
        shutil.rmtree(self.path("ice"), ignore_errors=True)
        job = {"run.steps": 2000, "run.frozen_after": 3, "checkpoint.every": 50}
        port, victim = w.free_port(), random.choice((0, 2))
        ranks = [self.start_rank("ice", r, port, job=job, more=("--restarts", "9"))
                 for r in range(3)]
        self.until_metrics("ice", 60)
        child = w.children(ranks[victim].pid)
        if not child:
            raise w.TooSoon("the job has ended before its rank was stopped")
        os.kill(child[0], signal.SIGSTOP)
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(w.TIMEOUT), 0, self.said("ice", rank))
        self.assertRegex(self.said("ice", victim), f"rank {victim} gives no sign of life for "
                                                   r"\d\.\d s and is killed")
        self.assertIn(f"rank {victim} was frozen, and was killed", self.said("ice", victim))
        if victim:  # the history of rank 0 has the cause
            self.assertRegex(self.said("ice", 0),
                             f"rank 0 ended by itself with status 1.*: rank {victim}.* is frozen")
        self.metrics_are_whole("ice", 2000)

    def test_supervised_stop(self):
        """A signal to one process ends all with 75; nobody starts again."""
        port = w.free_port()
        ranks = [self.start_rank("stop", r, port, job={"run.steps": 100000}) for r in range(3)]
        self.until_metrics("stop", 5)
        ranks[1].send_signal(signal.SIGHUP)
        for rank, process in enumerate(ranks):
            self.assertEqual(process.wait(w.TIMEOUT), 75, self.said("stop", rank))

    def test_fenced(self):
        """A rank of attempt 1 comes to attempt 2; then one of attempt 3 ends attempt 2."""
        port = w.free_port()
        zero = self.start_rank("fence", 0, port, attempt=2, more=())
        old = self.start_rank("fence", 1, port, attempt=1, more=())
        self.assertEqual(old.wait(w.TIMEOUT), 1)
        self.assertIn("attempt 2 of this job has begun, and this process is of attempt 1",
                      self.said("fence", 1, 1))
        self.assertIsNone(zero.poll(), "rank 0 waits for the right ones")
        new = self.start_rank("fence", 2, port, attempt=3, more=())
        self.assertEqual(zero.wait(w.TIMEOUT), 1)
        self.assertIn("attempt 3 of this job has begun, so attempt 2 is over",
                      self.said("fence", 0, 2))
        new.kill()


if __name__ == "__main__":
    w.main()
