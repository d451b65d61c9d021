"""started.py: the program, started in a folder of its own, and what it said."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
from ports import free_port  # noqa: E402,F401  (tests/parity/ports.py)

WEFT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "weft"
SOURCE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else "."

TINY = """[run]
out = run
steps = 4
[model]
layers = 1
heads = 2
embed = 16
ffn = 32
context = 16
vocab = 256
[data]
train = train.bin
valid = valid.bin
[train]
batch = 4
microbatch = 2
sequence = 16
eval_every = 2
[checkpoint]
every = 2
[log]
progress = 0
peak_gflops = 1
"""


class Case(unittest.TestCase):
    """Each test has an empty folder with tiny.ini, and weft() runs there."""

    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="weft-cli-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.write("tiny.ini", TINY)

    def path(self, *names):
        return os.path.join(self.place, *names)

    def write(self, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        return name

    def read(self, *names):
        with open(self.path(*names), "rb") as f:
            return f.read()

    def names(self, *folder):
        return sorted(os.listdir(self.path(*folder)))

    def weft(self, *words, status=0, **how):
        """Run it; its status has to be the one given. Returns (standard output, error)."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_",
                                    "WEFT_PLUGIN"))}
        done = subprocess.run([WEFT, *map(str, words)], cwd=self.place, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=300,
                              env=env | how.pop("env", {}), **how)
        said = f"weft {' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        self.assertEqual(done.returncode, status, said)
        if status == 0:
            self.assertNotIn("error", done.stderr)
        else:
            self.assertIn("weft", done.stderr, "it failed without a word")
        return done.stdout, done.stderr

    def weft_any(self, *words):
        """Run it, whatever its status; it does not crash."""
        done = subprocess.run([WEFT, *map(str, words)], cwd=self.place, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=300)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        return done

    def refused(self, *words, why, status=2, **how):
        """It is refused with this sentence, and leaves no file."""
        before = self.everything()
        said = self.weft(*words, status=status, **how)[1]
        self.assertIn(why, said)
        self.assertEqual(self.everything(), before, f"{words} left something behind")

    def everything(self):
        return sorted((base, name) for base, dirs, names in os.walk(self.place)
                      for name in dirs + names)

    def make_data(self, blocks=60):
        """train.bin and valid.bin, of a text with some structure."""
        text = "".join(f"{i * i % 9973} is the square of {i}, more or less.\n"
                       for i in range(blocks * 110))
        self.write("text", text[:blocks * 4096])
        self.weft("data", "text", "-o", "train.bin", "--valid", "valid.bin")
        return text[:blocks * 4096]

    def demo_data(self):
        """train.bin and valid.bin where the files of configs/ look for them."""
        os.mkdir(self.path("runs"))
        for name in ("train", "valid"):
            os.rename(self.path(f"{name}.bin"), self.path("runs", f"demo-{name}.bin"))


def built(kind, name):
    """Is the plugin part of this build? Those that need a header which is not here are left out."""
    name = {"mpi_pairs": "mpi"}.get(name, name)  # one file with two components
    lib = os.path.join(os.path.dirname(os.path.dirname(WEFT)), "lib", "weft")
    return os.path.exists(os.path.join(lib, kind, name + ".so"))


def job_files():
    """{name: (command, ranks)} of configs/, as the first comment of each says to start it."""
    found = {}
    for path in sorted(glob.glob(os.path.join(SOURCE, "configs", "*.ini"))):
        name = os.path.basename(path)[:-4]
        with open(path, encoding="utf-8") as f:
            head = re.match("(?:;.*\n)*", f.read()).group()
        how = re.findall(rf"weft (train|plan|bench)(?: -n (\d+))? configs/{name}\.ini", head)
        assert how, f"{path}: the first comment does not say how to start it"
        command, ranks = ([x for x in how if x[0] != "plan"] or how)[0]
        found[name] = command, int(ranks or 1)
    return found


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
