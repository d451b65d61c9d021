#!/usr/bin/env python3
"""train_campaign.py WEFT: do random failures around saves and resumes lose a checkpoint?

One job of two or three ranks goes on and on. Each case begins or resumes it and, at a random
moment, kills a rank or the launcher, freezes a rank, lets one be late, or makes file operations of
one fail (EIO, ENOSPC) for once or for good; in some a bit of the newest checkpoint is turned. After
each case the newest durable checkpoint loads, every checkpoint that was durable is there with the
same bytes unless newer ones took its turn, a damaged one keeps its bytes under another name, and
nothing is left that the next job does not use or remove.

Another job is started rank by rank, as srun and mpirun do it, and each rank by a supervisor of its
own (--restarts). A case is a few faults on the way: ranks and supervisors are killed, frozen or
stopped for a moment, and the job trains on by itself after each, until it is asked to end.

WEFT_CAMPAIGN sets the number of cases (10; make nightly: 200) and of faults, WEFT_TEST_SEED the
seed, which is the same in every run of the 10."""
import collections
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

FAULTS = os.path.join(os.path.dirname(w.WEFT), "..", "tests", "fault", "file_faults.so")
FAULTS = os.environ.get("WEFT_FILE_FAULTS", FAULTS)
CASES = int(os.environ.get("WEFT_CAMPAIGN", "10"))
if CASES == 10:
    os.environ.setdefault("WEFT_TEST_SEED", "3")
KEEP, EVERY = 3, 4
JOB = w.ODD | {"checkpoint.every": EVERY, "optim.schedule": "constant", "checkpoint.keep": KEEP,
               "train.batch": 6, "run.frozen_after": 2, "run.join_timeout": 20, "run.steps": 10**6,
               "comm.plugin": "shm"}
RANKS = 3  # of the job that is started rank by rank
ASKED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGXCPU)
KINDS = ("kill", "kill launcher", "freeze", "late", "EIO at resume", "EIO in save",
         "ENOSPC in save", "ENOSPC for good", "damage")


def digest(folder):
    """Of all names and bytes in a folder."""
    h = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            h.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return h.hexdigest()


class Checkpoints(w.Bench):
    """What has to hold for those of one job, over all its failures."""

    def setUp(self):
        self.known, self.aside, self.done = {}, {}, collections.Counter()
        self.out = self.path("run")

    def durable(self):
        """{step: digest} of what stands under its own name; the other names."""
        if not os.path.isdir(os.path.join(self.out, "checkpoints")):
            return {}, []
        saved, other = w.steps_saved(self.out)
        return {s: digest(w.folder(self.out, s)) for s in saved}, other

    def check(self, what):
        """What this case may have changed, and nothing else."""
        now, other = self.durable()
        newest = sorted(now)[-KEEP:]
        for step, was in self.known.items():
            if step in now:
                self.assertEqual(now[step], was, f"{what}: step {step} was replaced")
            else:
                self.assertGreaterEqual(len([s for s in newest if s > step]), KEEP,
                                        f"{what}: step {step} is gone: {sorted(now)}")
        kept = {}
        for name in other:
            path = os.path.join(self.out, "checkpoints", name)
            if ".damaged" in name:
                kept[digest(path)] = name
            else:  # of a job that was killed; the next save removes it
                self.assertRegex(name, r"^\.step-\d+\.(tmp|old)$", what)
        waiting = set(now.values())
        for was in self.aside:
            self.assertIn(was, set(kept) | waiting, f"{what}: a damaged checkpoint is lost")
        self.assertEqual(set(kept) - set(self.aside), set(), f"{what}: a whole one was set aside")
        self.known = {s: d for s, d in now.items() if d not in self.aside}
        for step in self.known:
            w.weft("ckpt", "verify", w.folder(self.out, step))

    def finish(self):
        """The job resumes from the newest, comes to an end, and leaves nothing behind."""
        newest = max(self.known, default=0)
        job = JOB | {"run.steps": newest + EVERY, "train.microbatch": 2, "run.frozen_after": 60}
        said = self.train("run", job, ranks=3, resume=newest > 0).stderr
        if newest:
            self.assertIn(f"resumed after step {newest} ", said)
        self.check("the end")
        self.assertEqual([x for x in self.durable()[1] if ".damaged" not in x], [])
        self.assertEqual([x for x in os.listdir(self.out) if x.startswith(".")], [])
        self.assertEqual([x for x in os.listdir(os.path.join(self.out, "flight"))
                          if not x.endswith(".ring")], [])
        numbers = [x["step"] for x in w.metrics(self.out)]
        self.assertEqual(numbers, list(range(1, numbers[-1] + 1)))
        shutil.rmtree(self.out)
        return numbers[-1]


class Campaign(Checkpoints):
    def rules(self, kind, ranks):
        """What strikes in this case, as file_faults.c reads it."""
        rank, times = random.randrange(ranks), random.choice("1123")
        if kind == "EIO at resume":
            call = random.choice(("open", "read"))
            return f"{rank}:{call}:/step-:{random.randint(1, 8)}:{errno.EIO}"
        if kind in ("EIO in save", "ENOSPC in save", "ENOSPC for good"):
            error = errno.EIO if kind[0] == "E" and kind[1] == "I" else errno.ENOSPC
            call, path = random.choice((("write", ".tmp/"), ("sync", ".tmp/"), ("open", ".tmp/"),
                                        ("rename", ".tmp"), ("mkdir", ".tmp"),
                                        ("sync", "checkpoints"), ("rename", "step-")))
            if call in ("rename", "mkdir"):
                rank = 0
            return f"{rank}:{call}:{path}:{times}{'+' if 'good' in kind else ''}:{error}"
        if kind == "late":
            call, path = random.choice((("sync", ".tmp/shard"), ("read", "/shard-"),
                                        ("open", "job.ini"), ("open", "flight")))
            return f"{rank}:{call}:{path}:{times}:sleep={random.uniform(0.5, 3):.2f}"
        return ""

    def damage(self):
        """Turn a bit of the newest checkpoint."""
        step = max(self.known)
        folder = w.folder(self.out, step)
        path = os.path.join(folder, random.choice(sorted(os.listdir(folder))))
        with open(path, "r+b") as f:
            f.seek(random.randrange(os.path.getsize(path)))
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1 << random.randrange(8)]))
        self.aside[digest(folder)] = step
        del self.known[step]

    def strike(self, run, kind):
        """At a random moment of the run; then until it has ended. Its status."""
        first = max(self.known, default=0)
        goal = first + random.randint(1, 3 * EVERY)
        limit = time.monotonic() + random.uniform(5, 8)
        while run.process.poll() is None and time.monotonic() < limit:
            try:
                lines = w.metrics(run.out)
            except (FileNotFoundError, ValueError):
                lines = []
            if lines and lines[-1]["step"] >= goal:
                break
            time.sleep(0.003)
        time.sleep(random.random() * 0.02)
        ranks = run.ranks()
        if kind in ("kill", "freeze") and ranks:
            victim = random.choice(list(ranks.values()))
            try:
                os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            except ProcessLookupError:
                pass
        elif kind == "kill launcher":
            run.process.kill()
        elif run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
        status = run.wait()
        for pid in ranks.values():  # of a launcher that was killed
            while w.born(pid):
                time.sleep(0.005)
        return status

    def case(self, number):
        kind, ranks = random.choice(KINDS), random.choice((2, 3))
        if kind == "damage":
            if len(self.known) < 2 or any(s in self.durable()[0] for s in self.aside.values()):
                kind = "kill"
            else:
                self.damage()
        rules = self.rules(kind, ranks)
        what = f"case {number}: {kind} {rules}"
        extra = {"LD_PRELOAD": FAULTS, "WEFT_FILE_FAULT": rules} if rules else {}
        run = w.Running(self, "run", JOB | {"train.microbatch": 6 // ranks}, ranks,
                        resume=bool(self.known), extra=extra)
        newest = max(self.known, default=0)
        status = self.strike(run, kind)
        said = run.said()
        self.assertIn(status, (1, 2, 75, -signal.SIGKILL, -signal.SIGTERM), f"{what}\n{said}")
        self.assertNotRegex(said, "SIGSEGV|SIGBUS|SIGABRT|bug:", what)
        if newest and "resumed after step" in said:
            self.assertIn(f"resumed after step {newest} ", said, what)
        self.done[kind] += 1
        self.check(what + "\n" + said)

    def test_cases(self):
        self.assertTrue(os.path.exists(FAULTS), FAULTS)
        began = time.monotonic()
        for number in range(CASES):
            self.case(number)
            if number % 50 == 49:
                print(f"{number + 1} cases", flush=True)
        steps = self.finish()
        print(f"{CASES} cases in {time.monotonic() - began:.0f} s, {dict(self.done)}; "
              f"{steps} steps; set aside: {len(self.aside)}; lost, replaced, left: none")


class Supervised(w.RankByRank, Checkpoints):
    BASE = JOB | {"train.microbatch": 6 // RANKS, "run.join_timeout": 5}
    PAUSES = ("pause", "kill, the supervisor late", "supervisor paused")
    FAULTS = ("kill", "freeze", *PAUSES, "kill supervisor")

    def last(self):
        """(attempt, step) of the newest line of metrics; (0, 0): none that this job has written."""
        try:
            with open(os.path.join(self.out, "metrics.jsonl"), "rb") as f:
                f.seek(max(0, f.seek(0, os.SEEK_END) - 4096))  # all jobs write it, and it grows
                line = json.loads(f.read().splitlines()[-1])
        except (FileNotFoundError, ValueError, IndexError):
            return 0, 0
        return (line["attempt"], line["step"]) if line["time"] > self.begun else (0, 0)

    def until(self, true, what):
        limit = time.monotonic() + w.TIMEOUT
        while not true():
            if time.monotonic() > limit or all(r.poll() is not None for r in self.ranks):
                self.fail(f"{what}: it did not train on\n{self.all_said()}")
            time.sleep(0.003)

    def all_said(self):
        return "".join(f"--- rank {r}\n{self.said('run', r)}" for r in range(RANKS))

    def child_of(self, supervisor):
        """The process of its rank; of a rank that is just started again, the new one."""
        found = []
        self.until(lambda: found.extend(w.children(supervisor.pid)) or found, "a rank has to live")
        return found[0]

    def strike(self, kind, what):
        """One fault; returns when the job trains on after it."""
        attempt, step = self.last()
        own = random.choice(self.ranks)
        child = self.child_of(own)
        late = own.pid if "supervisor" in kind else child

        def send(process, number):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

        if kind in self.PAUSES:
            send(late, signal.SIGSTOP)
        if kind.startswith("kill"):
            send(own.pid if kind == "kill supervisor" else child, signal.SIGKILL)
        if kind == "freeze":
            send(child, signal.SIGSTOP)
        if kind in self.PAUSES:
            time.sleep(random.uniform(0.05, 1.5))
            send(late, signal.SIGCONT)
        if kind == "kill supervisor":
            return self.ranks.index(own)
        attempt += kind not in ("pause", "supervisor paused")
        self.until(lambda: self.last()[0] >= attempt and self.last()[1] > step + EVERY, what)
        return None

    def case(self, number):
        port, self.begun = w.free_port(), time.time()
        resume = ["--resume"] if self.known else []
        if not self.known:
            shutil.rmtree(self.out, ignore_errors=True)
        self.ranks = [self.start_rank("run", r, port, more=("--restarts", "2", *resume))
                      for r in range(RANKS)]
        self.until(lambda: self.last()[1], f"case {number}: the first step")
        gone, story = None, []
        while gone is None and len(story) < 3 and self.struck < CASES:
            time.sleep(random.random() * 0.1)
            story.append(random.choice(self.FAULTS))
            what = f"case {number}: {', then '.join(story)}"
            gone = self.strike(story[-1], what)
            self.struck += 1
            self.done[story[-1]] += 1
        if gone is None:
            random.choice(self.ranks).send_signal(random.choice(ASKED))
        for rank, process in enumerate(self.ranks):
            try:
                status = process.wait(w.TIMEOUT)
            except subprocess.TimeoutExpired:
                self.fail(f"{what}: rank {rank} did not end\n{self.all_said()}")
            want = 75 if gone is None else -signal.SIGKILL if rank == gone else 1
            self.assertEqual(status, want, f"{what}: rank {rank}\n{self.all_said()}")
        if gone is not None:
            self.assertRegex(self.said("run", 1 if gone == 0 else 0),
                             rf"(?m)^  attempt \d+, 3 ranks, .*rank {gone}\b", self.all_said())
        self.assertNotRegex(self.all_said(), "SIGSEGV|SIGBUS|SIGABRT|bug:", what)
        self.check(what + "\n" + self.all_said())

    def test_faults(self):
        self.struck, began, number = 0, time.monotonic(), 0
        while self.struck < CASES:
            self.case(number)
            self.doCleanups()
            number += 1
        steps = self.finish()
        print(f"{self.struck} faults in {number} jobs, {time.monotonic() - began:.0f} s, "
              f"{dict(self.done)}; {steps} steps; lost, replaced, left: none")


if __name__ == "__main__":
    if w.SLOW > 1:
        print("files cannot be made to fail under a sanitizer")
        sys.exit(0)
    w.main()
