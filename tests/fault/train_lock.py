#!/usr/bin/env python3
"""train_lock.py WEFT: can two jobs write into one run.out?

While a job runs, every other job that names its folder is refused with status 2 and a sentence
that names the holder, and the folder stays as it is, with flight rings that somebody has mapped.
Commands that only read go on. The lock ends with the processes, however they end.

A job whose folder is renamed or removed ends with a sentence and status 1. It writes nothing into
the folder that has the name now, and says of no step that it is saved where it is not."""
import ctypes
import fcntl
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

SMALL = w.ODD | {"run.steps": 10, "checkpoint.every": 5, "optim.schedule": "constant",
                 "comm.plugin": "shm", "checkpoint.keep": 0, "train.microbatch": 2,
                 "run.frozen_after": 60}
# A job waits so long for the processes of an earlier one to end; no test below waits for that.
REFUSED = {"run.frozen_after": 1}
ENDLESS = SMALL | {"run.steps": 10**6, "checkpoint.every": 0}
F_OFD_SETLK = 37
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def exchange(a, b):
    """Each name gets what the other one has, and there is no moment without either."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2", a)


def hold_shared(path, first, count):
    """As another rank does it: a descriptor whose shared lock the kernel drops with it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, first, count, 0))
    return fd


class Lock(w.Bench):
    def inodes(self, out):
        """{path: inode} of all that lies in a run's folder."""
        return {os.path.join(base, name): os.stat(os.path.join(base, name)).st_ino
                for base, folders, names in os.walk(self.path(out)) for name in names + folders
                if ".tmp" not in name}

    def check_refused(self, out, job, ranks, resume):
        said = self.train(out, job | REFUSED, ranks=ranks, resume=resume, status=2).stderr
        self.assertRegex(said, rf"run\.out: \S*run is in use by process \d+ on "
                               rf"{re.escape(socket.gethostname())}, since \d+-\d+-\d+ \S+ UTC")
        return int(re.search(r"process (\d+)", said)[1])

    def test_a_second_job_is_refused(self):
        """Fresh or with --resume, with one rank or several, with another seed."""
        self.train("run", SMALL, ranks=2)
        run = w.Running(self, "run", ENDLESS, 2, resume=True)
        run.until_step(20)
        before = self.inodes("run")
        for ranks in (1, 2):
            for resume in (False, True):
                with self.subTest(ranks=ranks, resume=resume):
                    holder = self.check_refused("run", ENDLESS | {"run.seed": 7}, ranks, resume)
                    self.assertEqual(holder, run.ranks()[0])
        self.assertEqual(self.inodes("run"), before)
        self.assertFalse(os.path.exists(self.path("run.1")))
        run.until_step(w.metrics(run.out)[-1]["step"] + 5)
        run.process.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), 1)
        self.assertEqual(len(set(x["step"] for x in w.metrics(run.out))), len(w.metrics(run.out)))
        self.assertEqual([x for x in os.listdir(run.out) if x.startswith(".")], [])

    def test_reading_beside_a_run(self):
        self.train("run", SMALL, ranks=2)
        run = w.Running(self, "run", ENDLESS, 2, resume=True)
        run.until_step(20)
        before = self.inodes("run")
        w.weft("ckpt", "verify", w.folder(run.out, 10))
        w.weft("sample", w.folder(run.out, 10), "--prompt", "1,2", "--tokens", 3)
        self.assertIn("rank 1 of 2", w.weft("flight", run.out).stdout)
        self.assertEqual(self.inodes("run"), before)
        run.until_step(w.metrics(run.out)[-1]["step"] + 5)

    def test_no_lock_outlives_its_processes(self):
        for victim in ("launcher", 0, 1):
            with self.subTest(victim=victim):
                run = w.Running(self, "run", ENDLESS | {"checkpoint.every": 5}, 2)
                run.until_step(11)  # a save has begun after step 10, so that of step 5 is there
                os.kill(run.pid if victim == "launcher" else run.ranks()[victim], signal.SIGKILL)
                run.wait()
                last = w.metrics(run.out)[-1]["step"]  # the ranks may end only now
                self.train("run", SMALL | {"run.steps": last + 20, "checkpoint.every": 1000},
                           ranks=2, resume=True)
                self.assertFalse(os.path.exists(os.path.join(run.out, ".lock")))
                shutil.rmtree(run.out)

    def test_another_rank_holds_it(self):
        """Rank 0 of the earlier job is dead, another rank of it is not."""
        self.train("run", SMALL, ranks=2)
        fd = hold_shared(self.path("run", ".lock"), 1, 1)
        said = self.train("run", SMALL | REFUSED, ranks=2, resume=True, status=2).stderr
        self.assertRegex(said, "run is in use by another job")
        os.close(fd)
        self.train("run", SMALL | {"run.steps": 11}, ranks=2, resume=True)

    def test_hostile_lock_files(self):
        """What stands in the file is shown as text, and a link is not followed."""
        os.makedirs(self.path("run"))
        fd = hold_shared(self.path("run", ".lock"), 0, 2)
        os.write(fd, b"\x1b[31m%s%n" + b"\xff" * 5000)
        said = self.train("run", SMALL | REFUSED, status=2).stderr
        self.assertRegex(said, r"in use by \?\[31m%s%n\?+[;:]")
        os.close(fd)
        os.unlink(self.path("run", ".lock"))
        os.symlink(self.path("elsewhere"), self.path("run", ".lock"))
        self.assertIn(".lock cannot be opened", self.train("run", SMALL | REFUSED, status=2).stderr)
        self.assertFalse(os.path.exists(self.path("elsewhere")))

    def test_rings_are_new_files(self):
        """What a process has mapped is neither cut short nor written by the next job."""
        self.train("run", SMALL, ranks=2)
        path = self.path("run", "flight", "rank-0001.ring")
        with open(path, "rb") as f:
            before, inode = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ), os.fstat(f.fileno())
            text = before[:]
            self.train("run", SMALL | {"run.steps": 20}, ranks=2, resume=True)
            self.assertNotEqual(os.stat(path).st_ino, inode.st_ino)
            self.assertEqual(os.fstat(f.fileno()).st_size, inode.st_size)
            self.assertEqual(before[:], text)
        self.assertEqual(sorted(os.listdir(self.path("run", "flight"))),
                         ["rank-0000.ring", "rank-0001.ring"])

    def test_slashes_at_the_end(self):
        for out in ("run/", "run//", "run"):
            self.train(out, SMALL, ranks=2)
        self.assertEqual(sorted(x for x in os.listdir(self.place) if os.path.isdir(self.path(x))),
                         ["run", "run.1", "run.2"])
        for out in ("run", "run.1", "run.2"):
            self.assertEqual(w.steps_saved(self.path(out)), ([5, 10], []))
            self.assertEqual([x for x in os.listdir(self.path(out)) if x.startswith(".")], [])
        said = self.train("run/.", SMALL, status=2).stderr
        self.assertIn("give the name of the folder itself", said)
        self.assertTrue(os.path.exists(self.path("run", "metrics.jsonl")))

    def test_metrics_are_missing(self):
        """As where only checkpoints were copied."""
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                whole, cut, copy = f"whole{ranks}", f"cut{ranks}", f"copy{ranks}"
                self.train(whole, SMALL | {"run.steps": 20}, ranks=ranks)
                self.train(cut, SMALL, ranks=ranks)
                shutil.copytree(self.path(cut, "checkpoints"), self.path(copy, "checkpoints"))
                said = self.train(copy, SMALL | {"run.steps": 20}, ranks=ranks, resume=True).stderr
                self.assertIn("starts at step 11", said)
                self.assertEqual(w.lines(self.path(copy)), w.lines(self.path(whole))[10:])

    def setUp(self):
        empty(self)


SAVES = ENDLESS | {"checkpoint.every": 5, "checkpoint.keep": 2}
GONE = (r"error: (rank 0: )?run\.out is not there any more: \S*/run was moved or removed while the "
        "job ran")


class Moved(w.Bench):
    def check_end(self, run, words=GONE):
        self.assertEqual(run.wait(), 1, run.said())
        self.assertRegex(run.said(), words)
        self.assertNotIn("which is saved", run.said())

    def check_moved(self, ranks):
        """What is in the folder goes on from its newest checkpoint."""
        saved, other = w.steps_saved(self.path("moved"))
        self.assertNotEqual(saved, [])
        self.assertEqual(other, [])
        self.assertEqual([x for x in os.listdir(self.path("moved")) if x.startswith(".")], [])
        for step in saved:
            w.weft("ckpt", "verify", w.folder(self.path("moved"), step))
        said = self.train("moved", SAVES | {"run.steps": saved[-1] + 5}, ranks=ranks,
                          resume=True).stderr
        self.assertIn(f"resumed after step {saved[-1]}", said)

    def tree(self, out):
        """{path: (inode, bytes)} of all files, and the folders."""
        found = {}
        for base, folders, names in os.walk(self.path(out)):
            found.update({os.path.join(base, name): None for name in folders})
            for name in names:
                with open(os.path.join(base, name), "rb") as f:
                    found[os.path.join(base, name)] = os.fstat(f.fileno()).st_ino, f.read()
        return found

    def saving(self, ranks, **more):
        run = w.Running(self, "run", SAVES | more, ranks)
        run.until_step(11)  # the save of step 5 is complete: that of step 10 has begun
        return run

    def test_renamed(self):
        for ranks, more in ((1, {}), (2, {}), (2, {"checkpoint.async": "off"}),
                            (2, {"checkpoint.every": 10})):
            with self.subTest(ranks=ranks, more=more):
                empty(self)
                run = self.saving(ranks, **more)
                if more.get("checkpoint.every"):
                    run.until_step(21)
                os.rename(run.out, self.path("moved"))
                self.check_end(run, GONE + r" \(it is now \S*/moved\)")
                self.assertFalse(os.path.exists(run.out))
                self.check_moved(ranks)

    def test_renamed_without_a_save_to_come(self):
        """A run that saves nothing does not go on either."""
        run = w.Running(self, "run", ENDLESS, 2)
        run.until_step(5)
        os.rename(run.out, self.path("moved"))
        self.check_end(run)

    def test_renamed_and_stopped(self):
        """The last save, that of a stop, is not said to be where it is not."""
        run = w.Running(self, "run", ENDLESS | {"checkpoint.every": 10**5}, 2)
        run.until_step(5)
        os.rename(run.out, self.path("moved"))
        run.process.send_signal(signal.SIGTERM)
        self.check_end(run)
        self.assertFalse(os.path.exists(run.out))

    def test_another_job_has_the_name(self):
        """All of the first job stands still while the second one takes its place and ends."""
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                empty(self)
                run = self.saving(ranks, **{"log.trace_steps": "1-3",
                                            "log.sinks": "jsonl, prometheus"})
                everybody = {run.pid, *run.ranks().values()}
                for pid in everybody:
                    os.kill(pid, signal.SIGSTOP)
                os.rename(run.out, self.path("moved"))
                self.train("run", SAVES | {"run.seed": 7, "run.steps": 20}, ranks=ranks)
                for name in ("prometheus.address", ".trace-0.part", ".trace-1.part"):
                    with open(self.path("run", name), "w", encoding="ascii") as f:
                        f.write("of the second job\n")
                before = self.tree("run")
                for pid in everybody:
                    os.kill(pid, signal.SIGCONT)
                self.check_end(run)
                self.assertEqual(self.tree("run"), before)
                for step in (15, 20):
                    w.weft("ckpt", "verify", w.folder(self.path("run"), step))

    def test_removed(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                run = self.saving(ranks)

                def removed():
                    shutil.rmtree(run.out, ignore_errors=True)  # a save may begin meanwhile
                    return not os.path.exists(run.out)

                run.until(removed, "the end of its folder")
                # It may notice when the lock file is gone and the folder is still there.
                self.check_end(run, r"error: (rank \d: )?run\.out is not there any more: .* was "
                                    "(moved or )?removed while the job ran")
                self.assertFalse(os.path.exists(run.out))

    def other(self):
        """A run of the same job that has ended."""
        self.train("other", SAVES | {"run.steps": 20, "checkpoint.keep": 0}, ranks=2)
        return self.tree("other")

    def test_restarts_stay_in_the_folder(self):
        """A later attempt neither begins anew nor goes on in the run that has the name now."""
        before = self.other()
        for replaced in (False, True):
            with self.subTest(replaced=replaced):
                run = w.Running(self, "run", SAVES, 2, more=["--restarts", "3"])
                run.until_step(11)
                os.rename(run.out, self.path("moved"))
                if replaced:
                    os.symlink(self.path("other"), run.out)
                    run.kill(1)
                self.assertEqual(run.wait(), 2, run.said())
                self.assertIn("the folder in which the attempts before this one have written: it "
                              "was moved or removed", run.said())
                self.assertNotIn("attempt 3", run.said())
                self.assertEqual(self.tree("other"), before)
                self.assertEqual(os.path.islink(run.out), replaced)
                self.assertEqual(os.path.exists(run.out), replaced)
                self.check_moved(2)
                shutil.rmtree(self.path("moved"))
        os.unlink(run.out)

    def test_the_checkpoints_are_replaced(self):
        before = self.other()
        run = self.saving(2)
        os.symlink(self.path("other", "checkpoints"), self.path("moved"))
        exchange(os.path.join(run.out, "checkpoints"), self.path("moved"))
        self.check_end(run, "run/checkpoints is another folder than before: it was moved or "
                            "replaced while the job ran")
        self.assertEqual(self.tree("other"), before)

    def test_links_in_the_folder(self):
        """What they lead to stays: the job refuses them, or writes a file in their place."""
        text = "of somebody else\n"
        job = SAVES | {"run.steps": 5}
        for name, refused in (("metrics.jsonl", True), ("events.jsonl", True), ("flight", True),
                              (".trace-0.part", False), ("trace.json.tmp", False)):
            with self.subTest(name=name):
                self.train("run", job)
                path, foreign = self.path("run", name), self.path("foreign")
                with open(foreign, "w", encoding="ascii") as f:
                    f.write(text)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                elif os.path.exists(path):
                    os.unlink(path)
                os.symlink(foreign, path)
                said = self.train("run", job | {"run.steps": 10, "log.trace_steps": "6-8",
                                                "sink.jsonl.events": "on"},
                                  resume=True, status=2 if refused else 0)
                if refused:
                    self.assertRegex(said.stderr, rf"run/{name} is (no folder but )?a link")
                self.assertEqual(w.read_text(foreign), text)

    def test_the_lock_file_is_removed(self):
        """Without it a second job is let in."""
        run = self.saving(2)
        os.unlink(os.path.join(run.out, ".lock"))
        self.check_end(run, r"the lock file \S*/run/\.lock was removed while the job ran")
        os.rename(run.out, self.path("moved"))
        self.check_moved(2)

    def setUp(self):
        empty(self)


def empty(case):
    for name in os.listdir(case.place):
        if os.path.isdir(case.path(name)):
            shutil.rmtree(case.path(name))


if __name__ == "__main__":
    w.main()
