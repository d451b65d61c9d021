"""weft_jobs.py: what the scripts of tests/parity and tests/fault share: tiny jobs, the program
started on them, and what a run leaves behind. Needs Python alone.

Every script is `SCRIPT WEFT [unittest's arguments]`."""
import functools
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "pytorch"))
import checkpoint  # noqa: E402  (tests/pytorch/checkpoint.py)
import numbers_of_weft  # noqa: E402  (tests/pytorch/numbers_of_weft.py)
from ports import free_port  # noqa: E402,F401  (tests/parity/ports.py)

WEFT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "weft"
SLOW = 10 if os.environ.get("WEFT_SANITIZED") else 1  # times as slow as the release build
WHOLE = SLOW == 1 and bool(os.environ.get("WEFT_WHOLE"))  # more ranks and rounds
BRIEF = SLOW > 1 and not os.environ.get("WEFT_WHOLE")  # what make nightly does as well
SAMPLE = bool(os.environ.get("WEFT_SAMPLE"))  # make test; make integration runs the whole
TIMEOUT = 120 if SLOW == 1 else 500  # of a wait; ctest ends a test after 600
TIMED = os.environ.get("WEFT_TIMED") == "1"  # assertions about elapsed time are meant
USUAL = 0.05  # seconds that the job of calibration() takes on a machine of the usual speed
SANITIZERS = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer:|: runtime error:")
NO_TIME = ("step_ms", "tokens_per_s", "mfu", "exposed_comm_ms", "compute_ms", "bubble_ms",
           "optimizer_ms", "save_stop_ms", "save_copy_ms", "save_write_ms", "time", "host",
           "attempt", "resident_bytes")
# Where a rank is that learns of a failure in a step; after some of them the ranks exchange times.
PLACE = r"step \d+, entry \d+ of list .*|after step \d+: the times of all ranks: "
LAUNCHERS = ("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_",
             "WEFT_PLUGIN")

# No size that a kernel, a cache line or a number of ranks would like.
ODD = {
    "run.seed": 5, "run.steps": 20, "model.layers": 2, "model.heads": 3, "model.embed": 24,
    "model.ffn": 40, "model.context": 19, "model.vocab": 257, "model.tied": "on",
    "train.batch": 12, "train.microbatch": 3, "train.sequence": 17, "train.precision": "fp32",
    "train.eval_every": 0, "parallel.strategy": "dp", "optim.lr": 3e-3, "optim.warmup": 5,
    "device.threads": 1, "log.peak_gflops": 1, "log.progress": 0,
    "run.frozen_after": 60,  # no rank of a busy machine is frozen; tests that freeze one say when
}
EVEN = ODD | {
    "run.seed": 6, "model.heads": 4, "model.embed": 32, "model.ffn": 128, "model.context": 16,
    "model.vocab": 256, "model.tied": "off", "train.sequence": 16,
}
# What a test or a figure of default settings takes instead.
ODD_DEFAULTS, EVEN_DEFAULTS = ({k: v for k, v in job.items() if k != "run.frozen_after"}
                               for job in (ODD, EVEN))
# On top of one of these: all heads share the same keys and values.
LLAMA = {"model.family": "llama", "model.kv_heads": 1, "model.tied": "auto"}


def environment(extra=None):
    """Ours, without what another launcher may have left in it. The leak sanitizer of gcc 12 crashes
    on thread-local memory of shared objects unless told to leave it alone."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    if SLOW > 1:
        keep["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":intercept_tls_get_addr=0"
    return keep | (extra or {})


def weft(*words, status=0, extra=None, timeout=TIMEOUT):
    """Run the program to its end; the status has to be the one given (None: any)."""
    done = subprocess.run([WEFT, *map(str, words)], env=environment(extra), timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="surrogateescape")
    found = SANITIZERS.search(done.stderr)
    if found or (status is not None and done.returncode != status):
        raise AssertionError(f"weft {' '.join(map(str, words))}\nended with {done.returncode}, "
                             f"not {status}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def place_of(rank, ranks, port, address="127.0.0.1", where=None):
    """What a launcher of torchrun's kind tells a rank; `where` is the machine of each rank, and
    without it nothing is said of machines."""
    local = {} if where is None else {"LOCAL_RANK": str(where[:rank].count(where[rank])),
                                      "LOCAL_WORLD_SIZE": str(where.count(where[rank]))}
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address,
            "MASTER_PORT": str(port)} | local


def ends(ranks):
    """[(status, what it said)] of processes that Bench.by_hand() has started."""
    said = [r.communicate(timeout=TIMEOUT)[0] for r in ranks]
    return [(r.returncode, text) for r, text in zip(ranks, said)]


def resume_words(resume):
    """False: none; True: --resume; a word: --resume=WORD."""
    return [] if not resume else ["--resume"] if resume is True else [f"--resume={resume}"]


@functools.cache
def calibration():
    """How many times as slow as usual this machine is now: a job of two ranks, the median of
    five. At least 1, so that a fast machine has no narrower bounds."""
    took = []
    with tempfile.TemporaryDirectory(prefix="weft-calibration-") as place:
        ini, data = os.path.join(place, "job.ini"), os.path.join(place, "train.bin")
        numbers_of_weft.write_tokens(data, numbers_of_weft.noisy_chain(4000, 251), 251)
        with open(ini, "w", encoding="utf-8") as f:
            f.write("[run]\nname = calibration\n")
        job = ODD | {"data.train": data, "run.steps": 20, "comm.plugin": "tcp",
                     "checkpoint.every": 0, "run.out": os.path.join(place, "run")}
        for _ in range(5):
            began = time.monotonic()
            weft("train", "-n", 2, ini, *(f"{k}={v}" for k, v in job.items()))
            took.append(time.monotonic() - began)
    found = max(1.0, sorted(took)[2] / USUAL)
    print(f"calibration: {sorted(took)[2]:.3f} s, usually {USUAL} s; bounds are {found:.2f} times "
          "as wide", flush=True)
    return found


def patience(seconds):
    """The bound of an assertion about elapsed time whose figure is `seconds`. It is ten times that
    (a hundred times under a sanitizer), since a verdict must not depend on how busy the machine is;
    with WEFT_TIMED=1, where nothing else runs, the figure times what calibration() finds."""
    return seconds * calibration() if TIMED else 10 * SLOW * seconds


def only_timed(test):
    """Decorates a case that asks nothing but how long something takes."""
    return test if TIMED else None


class TooSoon(AssertionError):
    """A job has ended well before the test could disturb it: it says nothing about the job."""


def again(test):
    """Decorates a test that disturbs a job which ends by itself. A test that gets no processor for
    a moment comes too late for that, and tries again."""
    @functools.wraps(test)
    def tried(self, *args):
        for _ in range(20):
            try:
                return test(self, *args)
            except TooSoon as e:
                print(f"once more: {e}", flush=True)
                self.doCleanups()
                self.setUp()
        return test(self, *args)
    return tried


class Bench(unittest.TestCase):
    """A test case with a folder, token files and a job file of its own."""

    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="weft-" + cls.__name__.lower() + "-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        if TIMED:
            calibration()  # before anything is timed
        for name, count, vocab in (("train", 4000, 251), ("valid", 900, 251)):
            tokens = numbers_of_weft.noisy_chain(count, vocab)
            numbers_of_weft.write_tokens(cls.path(name + ".bin"), tokens, vocab)
        cls.ini = cls.path("job.ini")
        with open(cls.ini, "w", encoding="utf-8") as f:
            f.write("[run]\nname = tests\n")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.place, *names)

    def near(self, one, many, bound=1e-5, *, first=None, norm=None,
             keys=("loss", "grad_norm", "valid_loss"), same=("step", "lr", "tokens")):
        """Have two runs the same numbers but for rounding, step by step? A run is its folder or its
        metrics. The bounds are relative: of step 1 (first), of the norm, of the rest. Returns the
        largest distance."""
        a, b = (x if isinstance(x, list) else metrics(self.path(x)) for x in (one, many))
        for key in same:
            self.assertEqual([x[key] for x in a], [x[key] for x in b])
        worst = 0.0
        for x, y in zip(a, b):
            for key in keys:
                self.assertEqual(key in x, key in y)
                far = abs(x[key] - y[key]) / abs(x[key]) if key in x else 0
                limit = norm if key == "grad_norm" and norm is not None else bound
                self.assertLessEqual(far, first if x["step"] == 1 and first is not None else limit,
                                     f"{key} of step {x['step']}")
                worst = max(worst, far)
        return worst

    def near_tensors(self, one, many, bound, step=20, key_step=None):
        """The same of the tensors of a checkpoint, relative to the largest element of each. The
        gradient of the keys' bias is nothing but rounding, which an update enlarges: an element of
        it may be `key_step` away, and where that is None nothing is asked of qkv.b."""
        a, b = (tensors(self.path(x), step) for x in (one, many))
        b = {name: x for name, x in b.items() if not name.startswith("replica.")}
        self.assertEqual({name: x[0] for name, x in a.items()},
                         {name: x[0] for name, x in b.items()})
        biases = [n for n in a if (n.endswith("qkv.b") if key_step else "qkv.b" in n)]
        far, name = furthest(a, b, set(a) - set(biases))
        self.assertLessEqual(far, bound, name)
        for name in biases if key_step else ():
            third, scale = len(a[name][1]) // 3, max(map(abs, a[name][1]))  # queries, keys, values
            for i, (x, y) in enumerate(zip(a[name][1], b[name][1])):
                is_key = third <= i < 2 * third
                self.assertLessEqual(abs(x - y), key_step if is_key else bound * scale,
                                     f"{name}[{i}]")

    @classmethod
    def options(cls, out, job):
        """The command line after the job's file."""
        job = {"data.train": cls.path("train.bin")} | job | {"run.out": cls.path(out)}
        return [f"{key}={value}" for key, value in job.items()]

    @classmethod
    def train(cls, out, job, *, ranks=1, resume=False, status=0, **more):
        """Train to the end under the launcher; returns what the program said."""
        return weft("train", "-n", ranks, cls.ini, *cls.options(out, job),
                    *resume_words(resume), status=status, **more)

    @classmethod
    def plan(cls, job, ranks=1, *words):
        """What `weft plan --json` says of the job."""
        return json.loads(weft("plan", "-n", ranks, cls.ini, "--json", *words,
                               *cls.options("plan", job)).stdout)

    def key_file(self):
        """The key file of jobs whose ranks are started one by one."""
        if not os.path.exists(self.path("job.key")):
            weft("key", "-o", self.path("job.key"))
        return self.path("job.key")

    def command(self, out, job):
        return [WEFT, "train", self.ini, *self.options(out, job)]

    def by_hand(self, words, place, log=None, **more):
        """Start one process, whose environment says `place`, as another launcher does. What it says
        is in the file `log`, or for ends()."""
        with open(log or os.devnull, "w", encoding="utf-8") as f:
            process = subprocess.Popen(
                [*map(str, words)], env=environment(place), stdin=subprocess.DEVNULL, text=True,
                stdout=f if log else subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def same_run(self, one, two, step=None, skip=NO_TIME):
        """Two runs with the same bits in metrics and, when `step` is given, in its checkpoint."""
        self.assertEqual(lines(self.path(one), skip), lines(self.path(two), skip))
        if step:
            self.same_tensors(tensors(self.path(one), step), tensors(self.path(two), step))

    def same_tensors(self, one, two):
        self.assertEqual(sorted(one), sorted(two))
        for name, (shape, values) in one.items():
            self.assertEqual(shape, two[name][0], name)
            self.assertEqual(values.tobytes(), two[name][1].tobytes(), f"the bits of {name}")


class RankByRank(Bench):
    """A test case whose jobs are started rank by rank, as srun, mpirun and torchrun do it; BASE is
    the job, where a test does not say otherwise."""

    def start_rank(self, out, rank, port, attempt=None, more=("--restarts", "3"), job=None,
                   preexec_fn=None):
        """One of three."""
        return self.by_hand(
            [*self.command(out, self.BASE | (job or {})), f"run.key={self.key_file()}", *more],
            place_of(rank, 3, port) | ({"WEFT_ATTEMPT": str(attempt)} if attempt else {}),
            self.path(f"{out}.{rank}.{attempt}.log"), preexec_fn=preexec_fn)

    def said(self, out, rank, attempt=None):
        return read_text(self.path(f"{out}.{rank}.{attempt}.log"))

    def until_metrics(self, out, step):
        limit = time.monotonic() + TIMEOUT
        path = self.path(out, "metrics.jsonl")
        while f'"step":{step},' not in read_text(path).replace(" ", ""):
            self.assertLess(time.monotonic(), limit, "\n".join(self.said(out, r) for r in range(3)))
            time.sleep(0.01)


def has_signal(pid, number, *masks):
    """Is signal `number` in one of these masks of a process, as "SigCgt" of /proc/PID/status?"""
    words = dict(x.split(":", 1) for x in read_text(f"/proc/{pid}/status").splitlines())
    return any(int(words.get(m, "0"), 16) >> number - 1 & 1 for m in masks)


def pending(pid, number):
    """Has process `pid` still to take a signal that was sent to it?"""
    return has_signal(pid, number, "SigPnd", "ShdPnd")


def is_stopped(pid):
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["T"]


class Running:
    """A job under the launcher, running beside the test."""

    def __init__(self, case, out, job, ranks, resume=False, extra=None, more=(),
                 preexec_fn=None):
        self.out, self.n, self.case = case.path(out), ranks, case
        if not resume:
            shutil.rmtree(self.out, ignore_errors=True)
        self.log = open(case.path(out + ".log"), "w+", encoding="utf-8")
        words = [WEFT, "train", "-n", str(ranks), case.ini, *case.options(out, job)]
        self.process = subprocess.Popen(words + resume_words(resume) + list(more),
                                        env=environment(extra), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, start_new_session=True,
                                        preexec_fn=preexec_fn)
        self.pid = self.process.pid
        case.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def wait(self, timeout=TIMEOUT):
        """The launcher's status."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.case.fail(f"the job did not end within {timeout} s:\n{self.said()}")
        self.case.assertNotRegex(self.said(), SANITIZERS)
        return status

    def until(self, true, what):
        """Wait until true() is; the job must not end before."""
        limit = time.monotonic() + TIMEOUT
        while not true():
            if self.process.poll() is not None and not true():  # its last deed may be that
                if self.process.returncode == 0:
                    raise TooSoon(f"the job ended before {what}:\n{self.said()}")
                self.case.fail(f"the job ended before {what}:\n{self.said()}")
            if time.monotonic() > limit:
                self.case.fail(f"the job did not get to {what}:\n{self.said()}")
            time.sleep(0.005)

    def until_step(self, step):
        """Until metrics.jsonl has the line of `step`, written by this process."""
        path = os.path.join(self.out, "metrics.jsonl")

        def there():
            try:
                with open(path, "rb") as f:
                    last = f.read().rstrip(b"\n").rpartition(b"\n")[2]
                return last and json.loads(last)["step"] >= step
            except (FileNotFoundError, ValueError):
                return False

        self.until(there, f"step {step}")

    def ranks(self):
        """{rank: process number} of those that live."""
        found = {}
        for pid in children(self.pid):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    words = dict(x.split(b"=", 1) for x in f.read().split(b"\0") if b"=" in x)
                found[int(words[b"RANK"])] = pid
            except (FileNotFoundError, ProcessLookupError, KeyError):
                pass
        return found

    def kill(self, rank, number=signal.SIGKILL):
        """Send a signal to a rank of a job that may have come to its end meanwhile."""
        try:
            os.kill(self.ranks()[rank], number)
        except (KeyError, ProcessLookupError):
            raise TooSoon(f"rank {rank} had ended:\n{self.said()}") from None

    def until_ranks(self):
        """{rank: process number} when all have been started."""
        self.until(lambda: len(self.ranks()) == self.n, "all ranks")
        return self.ranks()

    def marks(self):
        """What this job has on the machine: processes, ports, and files outside its own folder."""
        found = Marks()
        for pid in [self.pid, *self.ranks().values()]:
            found.add(pid)
        found.paths = {x for x in found.paths if not x.startswith(self.case.place)}
        return found


class Marks:
    """Processes with the sockets that listen, and the paths in /tmp and /dev/shm that are open."""

    def __init__(self):
        self.born, self.ports, self.paths = {}, set(), set()

    def add(self, pid):
        self.born[pid] = born(pid)
        sockets = set()
        for fd in listed(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
            elif target.startswith(("/tmp/", "/dev/shm/")):
                self.paths.add(target)
        self.ports |= {port for port, inode in listening() if inode in sockets}
        # a process that executes or ends meanwhile leaves the last line unfinished
        for line in read_text(f"/proc/{pid}/maps").split("\n")[:-1]:
            path = line.partition("/")[2]
            if path.startswith(("tmp/", "dev/shm/")):
                self.paths.add("/" + path)
        build = os.path.dirname(os.path.dirname(WEFT)) + os.sep  # the program's own may be in /tmp
        self.paths = {x for x in self.paths if not x.endswith((" (deleted)", ".so"))
                      and not x.startswith(build)}

    def left(self):
        """What is there still, in words."""
        out = [f"process {p}" for p, b in self.born.items() if b and born(p) == b]
        out += [f"port {p}" for p in self.ports if p in {port for port, _ in listening()}]
        return out + [f"file {p}" for p in self.paths if os.path.exists(p)]

    def wait(self, limit):
        """Seconds until nothing is left; what is left after the limit, else []."""
        began = time.monotonic()
        while True:
            left = self.left()
            if not left or time.monotonic() > began + limit:
                return time.monotonic() - began, left
            time.sleep(0.01)


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def born(pid):
    """When the process was started; None when it is gone, or dead and nobody has asked."""
    words = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return words[19] if words and words[0] not in "ZX" else None


def listening():
    """(port, inode) of every TCP socket that listens."""
    rows = [x.split() for f in ("tcp", "tcp6")
            for x in read_text(f"/proc/net/{f}").splitlines()[1:]]
    return [(int(x[1].rpartition(":")[2], 16), x[9]) for x in rows if x[3] == "0A"]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def written(out):
    """The lines of metrics.jsonl, but for one that is being written."""
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as f:
        return [line for line in f if line.endswith("\n")]


def metrics(out):
    return [json.loads(line) for line in written(out)]


def lines(out, skip=NO_TIME):
    """The lines of metrics.jsonl, whose numbers stay text, without the keys in `skip`."""
    whole = [json.loads(line, parse_float=str) for line in written(out)]
    return [{k: v for k, v in line.items()
             if k not in skip and not k.startswith(("ranks.", "axis."))} for line in whole]


def folder(out, step):
    return os.path.join(out, "checkpoints", f"step-{step:08d}")


def steps_saved(out):
    """The steps of complete checkpoints, and the names of all else that lies there. The first save
    makes the folder, beside the steps."""
    saved, other = [], []
    for name in sorted(listed(os.path.join(out, "checkpoints"))):
        if name.startswith("step-") and name[5:].isdigit():
            saved.append(int(name[5:]))
        elif name != ".lock":
            other.append(name)
    return saved, other


def tensors(out, step):
    """{name: (shape, values)} of a checkpoint."""
    return checkpoint.read(folder(out, step))


def furthest(one, two, names=None):
    """(largest |difference| over the largest |value| of its tensor, the tensor's name)"""
    worst = (0.0, "")
    for name in names or one:
        a, b = one[name][1], two[name][1]
        scale = max(map(abs, a)) or 1.0
        worst = max(worst, (max(abs(x - y) for x, y in zip(a, b)) / scale, name))
    return worst


def distance(one, two, names=None):
    """The same with lengths: (|a - b| over |a| of the tensor where it is largest, its name)"""
    worst = (0.0, "")
    for name in names or one:
        a, b = one[name][1], two[name][1]
        far = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))
        worst = max(worst, (far / (math.sqrt(sum(x * x for x in a)) or 1.0), name))
    return worst


def main():
    """Moments are random; the seed is printed, and WEFT_TEST_SEED sets it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup the jobs would ignore it as well
    seed = int(os.environ.get("WEFT_TEST_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
    random.seed(seed)
    print(f"WEFT_TEST_SEED={seed}", flush=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
