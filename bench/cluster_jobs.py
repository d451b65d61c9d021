"""cluster_jobs.py: what bench/cluster.py shares: a job that runs under weft's launcher while things
are done to it, a folder for it, and when its processes end."""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "parity")]
import train  # noqa: E402  (bench/train.py)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PATIENCE = 120  # seconds for what takes seconds
PF_EXITING = 4  # of field 9 of /proc/PID/stat


class Failed(Exception):
    pass


class Job:
    """A job under the launcher, which ends with this process and takes its ranks along."""

    def __init__(self, place, ranks, options, more=(), extra=None):
        self.place, self.n, self.out = place, ranks, os.path.join(place.path, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        words = [w.WEFT, "train", "-n", str(ranks), place.ini, f"run.out={self.out}",
                 *(f"{key}={value}" for key, value in options.items()), *more]
        if "data.train" not in options:
            words.append(f"data.train={place.tokens(options['model.vocab'])}")
        self.log = open(os.path.join(place.path, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            words, env=w.environment(extra), stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, start_new_session=True,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pids = [self.pid, *self.ranks().values()]
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        limit = time.monotonic() + PATIENCE
        while any(w.born(p) for p in pids) and time.monotonic() < limit:
            time.sleep(0.002)
        self.log.close()

    def said(self):
        return w.read_text(self.log.name)

    def step(self):
        try:
            with open(os.path.join(self.out, "metrics.jsonl"), "rb") as f:
                f.seek(max(0, os.fstat(f.fileno()).st_size - 4096))
                return json.loads(f.read().rpartition(b"\n")[0].rpartition(b"\n")[2])["step"]
        except (FileNotFoundError, ValueError):
            return 0

    def until_step(self, step):
        until(lambda: self.step() >= step, f"step {step}", self)

    def ranks(self):
        """{rank: process number} of those that live."""
        found = {}
        for pid in w.children(self.pid):
            rank = re.search(r"(?:^|\0)RANK=(\d+)\0", w.read_text(f"/proc/{pid}/environ"))
            if rank:
                found[int(rank[1])] = pid
        return found

    def all_ranks(self):
        until(lambda: len(self.ranks()) == self.n, f"{self.n} ranks", self)
        return self.ranks()

    def ended(self, status):
        """The launcher's status has to be this."""
        try:
            found = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            found = "none"
        if found != status:
            raise Failed(f"status {found}, not {status}:\n{self.said()}")

    def has_named(self, victim, how):
        """Each survivor has reported the rank."""
        said = self.said()
        for rank in set(range(self.n)) - {victim}:
            named = rf"(?m)^\S+ weft error: rank {rank}, step .*rank {victim} {how}"
            if not re.search(named, said):
                raise Failed(f"rank {rank} has not named rank {victim}:\n{said}")


def until(true, what, job, patience=PATIENCE, pause=0.002):
    limit = time.monotonic() + patience
    while not true():
        if time.monotonic() > limit:
            raise Failed(f"it did not come to {what}:\n{job.said()}")
        if job.process.poll() is not None and not true():
            raise Failed(f"the job ended before {what}:\n{job.said()}")
        time.sleep(pause)


class Place:
    """A folder for one figure, with token files and a job file."""

    def __init__(self, o):
        self.o, self.path = o, tempfile.mkdtemp(prefix="weft-cluster-", dir=o.folder)
        self.ini = os.path.join(self.path, "job.ini")
        with open(self.ini, "w", encoding="utf-8") as f:
            f.write("[run]\nname = cluster\n")

    def tokens(self, vocab):
        path = os.path.join(self.path, f"{vocab}.bin")
        if not os.path.exists(path):
            if vocab > 50256:
                train.tokens(path)
            else:
                w.numbers_of_weft.write_tokens(
                    path, w.numbers_of_weft.noisy_chain(4000, vocab - 6), vocab)
        return path


def progress(name, done, count, began, told=[0.0]):  # pylint: disable=dangerous-default-value
    """On a terminal one line, elsewhere one every ten seconds."""
    now, here = time.monotonic(), sys.stderr.isatty()
    if here or done >= count or now > told[0] + 10:
        told[0] = now
        print(f"{name}: {done} of {count}, {now - began:.0f} s", file=sys.stderr, flush=True,
              end="\r" if here and done < count else "\n")


def trials(name, count):
    """Counts, with a line about them."""
    began = time.monotonic()
    for i in range(count):
        yield i
        progress(name, i + 1, count, began)


def resident(pid):
    words = w.read_text(f"/proc/{pid}/statm").split()
    return int(words[1]) if len(words) > 1 else 0


def is_ending(pid, before):
    """It is gone, in exit, or gives its memory back."""
    words = w.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return not words or words[0] in "ZX" or int(words[6]) & PF_EXITING or \
        resident(pid) < before - max(256, before // 8)


def seconds_until_ending(pids, patience=PATIENCE):
    left = {pid: resident(pid) for pid in pids}
    began = time.monotonic()
    while left:
        left = {pid: size for pid, size in left.items() if not is_ending(pid, size)}
        if time.monotonic() > began + patience:
            raise Failed(f"processes {sorted(left)} go on")
        time.sleep(0.0003)
