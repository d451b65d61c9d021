#!/usr/bin/env python3
"""train_stop.py WEFT: what happens when a job is asked to stop?

SIGTERM, SIGUSR1, SIGHUP or SIGXCPU to one rank, to the launcher or to all: every rank ends with the
same step, which is saved, and with status 75; resumed, the run has the bits of one that was never
stopped. Under nohup SIGHUP changes nothing. Before
the first step nothing is lost and the status is 75 as well; with checkpoints off it is 1. Any
number of these signals is one request; SIGINT after one ends the job at once. No signal, SIGKILL
among them, leaves a temporary file but the folder of a save and parts of a trace, which the next
start removes."""
import os
import random
import resource
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

STOPPED = 75
ROUNDS = 12 if w.WHOLE else 1
LONG = w.ODD | {"run.steps": 400, "checkpoint.every": 150, "train.eval_every": 30,
                "train.eval_batches": 1, "optim.lr": 1e-3, "optim.warmup": 40}
ENDLESS = LONG | {"run.steps": 100000000}


def to_one(run, number):
    for pid in random.sample(list(run.ranks().values()), 1) if run.ranks() else ():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # the job was at its end


def to_launcher(run, number):
    run.process.send_signal(number)


def to_all(run, number):
    for pid in [*run.ranks().values(), run.pid]:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def handles(pid, number):
    """Whether the process catches or blocks a signal."""
    return w.has_signal(pid, number, "SigCgt", "SigBlk")


def has_thread(pid, name):
    return any(w.read_text(f"/proc/{pid}/task/{t}/comm").strip() == name
               for t in w.listed(f"/proc/{pid}/task"))


class Stop(w.Bench):
    def job(self, job, ranks, transport="tcp"):
        return job | {"data.valid": self.path("valid.bin"), "comm.plugin": transport,
                      "train.microbatch": 12 // ranks}

    def last_step(self, out):
        """Of the metrics: a run that goes on has reached it before it handles any signal."""
        path = self.path(out, "metrics.jsonl")
        lines = w.metrics(self.path(out)) if os.path.exists(path) else []
        return lines[-1]["step"] if lines else 0

    def check_exact(self, ranks, transport, stops, change=(), at=(20, 140, 260), spread=10):
        """Stopped several times, each time after some step; the bits of a whole run. A round in
        which the job was always at its end before the signal says nothing, and is repeated."""
        job = self.job(LONG | dict(change), ranks, transport)
        self.train("whole", job, ranks=ranks)
        done, limit = 0, time.monotonic() + ROUNDS * w.TIMEOUT
        while done < ROUNDS:
            self.assertLess(time.monotonic(), limit, "the job was always faster than the signal")
            shutil.rmtree(self.path("cut"), ignore_errors=True)
            stopped = 0
            for (send, number), after in zip(stops, at):
                begun = self.last_step("cut")
                if begun >= job["run.steps"]:
                    break
                run = w.Running(self, "cut", job, ranks, resume="auto")
                run.until_step(min(max(after + random.randint(0, spread), begun + 1),
                                   job["run.steps"]))
                time.sleep(random.random() * 0.02)
                send(run, number)
                status = run.wait()
                self.assertIn(status, (STOPPED, 0), run.said())
                if status == 0:
                    continue  # it was at its end
                stopped += 1
                last = w.metrics(self.path("cut"))[-1]["step"]
                self.assertIn(last, w.steps_saved(self.path("cut"))[0])
                self.assertIn(f"stopped by {number.name} after step {last},", run.said())
                self.assertNotIn("error", run.said())
            done += stopped > 0
            self.train("cut", job, ranks=ranks, resume="auto")
            self.same_run("whole", "cut", job["run.steps"])

    def test_two_ranks(self):
        self.check_exact(2, "shm", ((to_one, signal.SIGTERM), (to_launcher, signal.SIGHUP),
                                    (to_all, signal.SIGTERM)))

    def test_three_ranks(self):
        self.check_exact(3, "tcp", ((to_all, signal.SIGUSR1), (to_one, signal.SIGHUP),
                                    (to_launcher, signal.SIGXCPU)))

    def test_while_it_saves_and_evaluates(self):
        """After every step, so that most signals come then."""
        self.check_exact(2, "tcp", ((to_one, signal.SIGTERM), (to_all, signal.SIGUSR1),
                                    (to_launcher, signal.SIGTERM)),
                         {"run.steps": 16, "checkpoint.every": 1, "train.eval_every": 1,
                          "train.eval_batches": 4}, (1, 5, 9), 2)

    def test_one_rank(self):
        self.check_exact(1, "auto", ((to_launcher, signal.SIGTERM), (to_launcher, signal.SIGHUP)))

    def test_nohup(self):
        """A closed terminal (SIGHUP) does not concern a job that was started with it ignored."""
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
                try:
                    run = w.Running(self, f"run{ranks}", self.job(ENDLESS, ranks), ranks)
                finally:
                    signal.signal(signal.SIGHUP, before)
                run.until_step(5)
                to_all(run, signal.SIGHUP)
                run.until_step(w.metrics(run.out)[-1]["step"] + 5)
                run.process.send_signal(signal.SIGTERM)
                self.assertEqual(run.wait(), STOPPED, run.said())
                self.assertIn("stopped by SIGTERM after", run.said())

    def test_no_checkpoints(self):
        """checkpoint.every = 0: the same step everywhere, nothing saved, and that is said."""
        for ranks, send in ((1, to_launcher), (3, to_launcher), (3, to_one)):
            with self.subTest(ranks=ranks, send=send.__name__):
                run = w.Running(self, "run", self.job(ENDLESS | {"checkpoint.every": 0}, ranks),
                                ranks)
                run.until_step(5)
                send(run, signal.SIGTERM)
                self.assertEqual(run.wait(), 1, run.said())
                last = w.metrics(self.path("run"))[-1]["step"]
                self.assertEqual(run.said().count(
                    f"stopped by SIGTERM after step {last}, and nothing is saved: checkpoint.every "
                    "is 0"), 1, run.said())
                self.assertFalse(os.path.exists(self.path("run", "checkpoints")))
                self.assertNotIn("ended by itself", run.said())

    def test_while_it_begins(self):
        """At any moment from the start on, while ranks plan, meet, connect, resume: 75, and a
        resumed run is whole."""
        job = self.job(LONG | {"run.steps": 60, "checkpoint.every": 20, "train.eval_every": 20}, 3)
        self.train("whole", job, ranks=3)
        began = time.monotonic()
        self.train("probe", job | {"run.steps": 1}, ranks=3)
        length = time.monotonic() - began
        seen = set()
        for i in range(80 * ROUNDS):
            if i >= 8 * ROUNDS and STOPPED in seen:
                break
            shutil.rmtree(self.path("cut"), ignore_errors=True)
            if i % 2:
                self.train("cut", job | {"run.steps": 20}, ranks=3)
            run = w.Running(self, "cut", job, 3, resume="auto")
            run.until(lambda r=run: len(r.ranks()) == 3 or r.process.poll() is not None, "ranks")
            time.sleep(random.random() * length if i else 0)
            try:
                (to_all, to_launcher)[i // 2 % 2](run, signal.SIGTERM)
            except ProcessLookupError:
                pass
            status = run.wait()
            self.assertIn(status, (0, STOPPED), run.said())
            seen.add(status)
            self.assertNotRegex(run.said(), "ended by itself|was killed")
            self.train("cut", job, ranks=3, resume="auto")
            self.same_run("whole", "cut", 60)
        self.assertIn(STOPPED, seen)

    def test_while_the_launcher_plans(self):
        """75, or dead of the signal in the first moment, before it is handled."""
        job = self.job(LONG | {"model.layers": 200}, 2)
        for i in range(6):
            run = w.Running(self, "planned", job, 2)
            if i:
                run.until(lambda r=run: handles(r.pid, signal.SIGTERM), "a handler of SIGTERM")
                time.sleep(0.01 * (i - 1))
            run.process.send_signal(signal.SIGTERM)
            status = run.wait()
            self.assertIn(status, (STOPPED,) if i else (STOPPED, -signal.SIGTERM), run.said())

    def until_joined(self, ranks):
        """A rank has the thread that serves its connection once it has had its welcome."""
        limit = time.monotonic() + w.TIMEOUT
        while not all(has_thread(p.pid, "weft-job") for p in ranks):
            for p in ranks:
                self.assertIsNone(p.poll(), "it waits for rank 2")
            self.assertLess(time.monotonic(), limit, "ranks 0 and 1 do not meet")
            time.sleep(0.01)

    def test_before_all_have_met(self):
        """Rank 2 of 3 never comes. A launcher sends SIGTERM to the others when it has failed, so
        they wait some seconds for it and do not end with 75, which would have the job started again
        for ever. Rank 1 is asked once it has found rank 0, and rank 0 hears of it."""
        for number in (signal.SIGTERM, signal.SIGUSR1):
            ranks = self.started("never", self.job(LONG, 3) | {"run.join_timeout": 3600}, 3, 2)
            self.until_joined(ranks)
            ranks[1].send_signal(number)
            for status, said in w.ends(ranks):
                self.assertEqual(status, 1, said)
                self.assertIn(f"{number.name} asked the job to stop before it had begun, and these "
                              "ranks had not joined: rank 2", said)
            self.assertFalse(os.path.exists(self.path("never")))

    @w.again
    def test_without_a_launcher(self):
        """As srun and mpirun do: a signal to one process, or to all of them again and again."""
        job = self.job(LONG, 2)
        self.train("whole", job, ranks=2)
        for everywhere in (False, True):
            shutil.rmtree(self.path("cut"), ignore_errors=True)
            ranks = self.started("cut", job, 2, 2)
            while self.last_step("cut") < 10 and ranks[0].poll() is None:
                time.sleep(0.005)
            for p in ranks if everywhere else ranks[1:]:
                p.send_signal(signal.SIGTERM)
            while everywhere and any(p.poll() is None for p in ranks):
                time.sleep(0.01)
                for p in ranks:
                    p.send_signal(signal.SIGTERM)
            ended = w.ends(ranks)
            status = [status for status, _ in ended]
            if status == [0, 0]:
                raise w.TooSoon("the job was at its end before the signal")
            self.assertEqual(status, [STOPPED, STOPPED], ended)
            self.train("cut", job, ranks=2, resume=True)
            self.same_run("whole", "cut", 400)

    def started(self, out, job, ranks, begun):
        """The first `begun` of so many ranks, each by itself."""
        port, words = w.free_port(), self.command(out, job | {"run.key": self.key_file()})
        return [self.by_hand(words, w.place_of(r, ranks, port, where=(1,) * ranks))
                for r in range(begun)]

    def test_a_rank_that_cannot_answer(self):
        """A frozen rank is named, and nobody waits for its answer for ever."""
        run = w.Running(self, "run", self.job(ENDLESS | {"run.frozen_after": 6}, 3), 3)
        run.until_step(5)
        os.kill(run.ranks()[2], signal.SIGSTOP)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertRegex(run.said(), "rank 2 is frozen|rank 2 was killed")

    def passing(self, out):
        """The paths in a run's folder that no finished run has: of files that are being written."""
        found = []
        for base, folders, files in os.walk(self.path(out)):
            found += [os.path.join(base, x) for x in folders + files
                      if x.endswith((".tmp", ".old")) or (x[0] == "." and x != ".lock")]
        return found

    def test_no_signal_leaves_a_temporary_file(self):
        """Checkpoints, metrics and events are written all the time, and the job is ended at random
        moments by each signal, to one rank, the launcher or all. One that it handles leaves
        nothing; others at most the folder of a save and parts of the trace, which the next start
        removes, those of ranks that it does not have, too."""
        job = self.job(ENDLESS | {"checkpoint.every": 1, "checkpoint.keep": 2,
                                  "log.sinks": "jsonl, tensorboard, prometheus",
                                  "log.trace_steps": "1-100",
                                  "train.eval_every": 2}, 2, "shm")
        asks = (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)
        ends = (signal.SIGKILL, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT)
        left = 0

        def no_core():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        for number in random.sample((*asks, *ends) * ROUNDS, 7 * ROUNDS):
            send = random.choice((to_one, to_launcher, to_all))
            with self.subTest(signal=number.name, to=send.__name__):
                run = w.Running(self, "busy", job, 2, resume="auto", preexec_fn=no_core)
                run.until_step(self.last_step("busy") + random.randint(2, 12))
                time.sleep(random.random() * 0.02)
                marks = run.marks()
                send(run, number)
                run.wait()
                self.assertEqual(marks.wait(w.TIMEOUT)[1], [])
                found = self.passing("busy")
                if number in asks:
                    self.assertEqual(found, [], run.said())
                for path in found:
                    self.assertRegex(path, r"/checkpoints/\.step-\d+\.(tmp|old)$"
                                     r"|/\.trace-\d\.part$|/\.trace\.join$|/trace\.json\.tmp$")
                left += len(found)
        with open(self.path("busy", ".trace-7.part"), "wb"):
            job = job | {"log.trace_steps": ""}
        run = w.Running(self, "busy", job, 2, resume="auto")
        run.until_step(self.last_step("busy") + 1)
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), STOPPED, run.said())
        self.assertEqual(self.passing("busy"), [])
        print(f"temporary folders of saves that a signal left: {left}", flush=True)

    def test_signals_after_the_first(self):
        """Whenever they come, further requests repeat the first; SIGINT ends all ranks."""
        job = self.job(ENDLESS | {"run.frozen_after": 3600}, 3)
        run = w.Running(self, "run", job, 3)
        run.until_step(5)
        os.kill(run.ranks()[1], signal.SIGSTOP)  # so that nothing can be agreed on
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP,
                       signal.SIGXCPU, signal.SIGTERM):
            run.process.send_signal(number)
            time.sleep(0.3)
            self.assertIsNone(run.process.poll(), run.said())
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 1, run.said())
        self.assertIn("stopped by signal 2", run.said())


if __name__ == "__main__":
    w.main()
