"""old_files.py WEFT [CLASS]: files of every version that was released, one folder each beside this
script, load, plan and resume with the bits that they had. README.md says what the files are."""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "parity")]
import cases  # noqa: E402
from ports import free_port  # noqa: E402  (tests/parity/ports.py)

WEFT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "weft"
VERSIONS = sorted(os.path.basename(os.path.dirname(x))
                  for x in glob.glob(os.path.join(HERE, "*", "recorded.json")))
LAUNCHERS = ("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "WEFT_PLUGIN")


class Old(unittest.TestCase):
    """Each version's files in a folder of their own; weft() runs there."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.recorded, cls.changed = {}, {}
        cls.place = tempfile.mkdtemp(prefix="weft-compat-")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        for version in VERSIONS:
            cls.recorded[version] = cls.load(version, "recorded.json")
            cls.changed[version] = cls.load(version, "changed.json")
            with tarfile.open(os.path.join(HERE, version, "files.tar.xz")) as archive:
                archive.extractall(os.path.join(cls.place, version), filter="data")

    @staticmethod
    def load(version, name):
        with open(os.path.join(HERE, version, name), encoding="utf-8") as f:
            return json.load(f)

    def path(self, version, *names):
        return os.path.join(self.place, version, *names)

    def start(self, version, words, extra=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
        return subprocess.Popen([WEFT, *map(str, words)], cwd=self.path(version),
                                env=clean | cases.BITS | (extra or {}), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def weft(self, version, *words):
        """What the program printed; it has to succeed."""
        process = self.start(version, words)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, f"{words}\n{out}{err}")
        return out

    def runs(self):
        """(version, name, what was recorded) of each run."""
        return [(version, name, seen) for version in VERSIONS
                for name, seen in self.recorded[version]["runs"].items()]


class Plans(Old):
    """Job files plan to the digest of the program that they were written for, or to the one in
    changed.json, which gives the reason."""

    def digest(self, version, *words):
        return json.loads(self.weft(version, "plan", *words, "--json"))["digest"]

    def test_there_are_versions(self):
        self.assertIn("0.1.0", VERSIONS)

    def test_digests(self):
        for version in VERSIONS:
            recorded, changed = self.recorded[version], self.changed[version]["plans"]
            plans = recorded["runs"] | recorded["plans"]
            want = {name: seen["plan"] for name, seen in plans.items()} | changed["now"]
            self.assertEqual(sorted(want), sorted(plans))
            self.assertTrue(changed["why"] or not changed["now"])
            found = {name: self.digest(version, "-n", seen["ranks"], f"ini/{name}.ini")
                     for name, seen in plans.items()}
            self.assertEqual(found, want)

    def test_another_job_has_another_digest(self):
        one = self.digest("0.1.0", "ini/one.ini")
        self.assertNotEqual(self.digest("0.1.0", "ini/one.ini", "model.embed=8"), one)
        self.assertEqual(self.digest("0.1.0", "ini/one.ini", "run.out=elsewhere"), one)


@unittest.skipUnless(platform.machine() == "x86_64", "the bits are those of x86-64")
class Resumes(Old):
    """A run that an old program saved goes on as it went on under that program."""

    def compare(self, version, name, out, seen):
        self.assertEqual(cases.losses(self.path(version, out)), seen["losses"], name)
        last = self.path(version, out, "checkpoints", f"step-{cases.STEPS:08}")
        new = self.changed[version]["tensors"]["new"]
        self.assertEqual(cases.digest(last, new), seen["last"], name)

    def test_resumed(self):
        for version, name, seen in self.runs():
            out = f"runs/{name}"
            self.weft(version, "train", "-n", seen["ranks"], f"ini/{name}.ini", f"run.out={out}",
                      "--resume")
            self.compare(version, name, out, seen)

    def test_begun_anew(self):
        """The same job from its first step: data order, initial weights and all steps."""
        for version, name, seen in self.runs():
            out = f"again/{name}"
            self.weft(version, "train", "-n", seen["ranks"], f"ini/{name}.ini", f"run.out={out}",
                      *self.changed[version]["keys"]["now"])
            self.compare(version, name, out, seen)

    def test_sampled(self):
        for version in VERSIONS:
            self.assertEqual(self.weft(version, "sample", "runs/one-bytes/" + cases.FOLDER,
                                       *cases.SAMPLE), self.recorded[version]["sampled"])


class Files(Old):
    """What else an old program wrote is read."""

    def test_checkpoints_print(self):
        for version, name, seen in self.runs():
            saved = f"runs/{name}/{cases.FOLDER}"
            self.assertEqual(cases.digest(self.path(version, saved)), seen["saved"], name)
            self.weft(version, "ckpt", "verify", saved)
            said = self.weft(version, "ckpt", "info", saved)
            for tensor in seen["tensors"]:
                self.assertRegex(said, rf"(?m)^{re.escape(tensor)}\s", name)
            self.assertIn("[train]", said)

    def test_flight(self):
        for version in VERSIONS:
            said = self.weft(version, "flight", "runs/one")
            self.assertRegex(said, r"rank 0 of 1: \d+ entries")

    def test_sweep(self):
        for version in VERSIONS:
            self.weft(version, "bench", "sweep.ini", "sweep.out=swept")
            with open(self.path(version, "swept", "sweep.json"), encoding="utf-8") as f:
                rows = json.load(f)["rows"]
            self.assertEqual([[x["values"], x["ranks"], x["status"]] for x in rows],
                             self.recorded[version]["sweep"])

    def test_bench_goes_on(self):
        """bench.append adds lines to the table of an old program."""
        for version in VERSIONS:
            with open(self.path(version, "bench", "comm.json"), encoding="utf-8") as f:
                before = json.load(f)
            self.weft(version, "bench", "comm", "-n", 2, "bench.ini", "bench.append=on")
            with open(self.path(version, "bench", "comm.json"), encoding="utf-8") as f:
                after = json.load(f)
            self.assertEqual(after[:len(before)], before)
            self.assertEqual(len(after), 2 * len(before))
            self.assertEqual({tuple(x) for x in after}, {tuple(before[0])})

    def test_text(self):
        """The same text makes the same token file."""
        for version in VERSIONS:
            self.weft(version, "data", "text.txt", "-o", "new.tokens")
            with open(self.path(version, "new.tokens"), "rb") as f:
                new = f.read()
            with open(self.path(version, "text.tokens"), "rb") as f:
                self.assertEqual(new, f.read())

    def test_key(self):
        """Two ranks that somebody else starts meet with an old key file."""
        for version in VERSIONS:
            os.chmod(self.path(version, "job.key"), 0o600)
            place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(free_port())}
            words = ("train", "ini/dp2.ini", "run.key=job.key", "run.out=keyed",
                     *self.changed[version]["keys"]["now"])
            ranks = [self.start(version, words, place | {"RANK": str(r)}) for r in range(2)]
            said = [rank.communicate(timeout=300) for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
            self.assertEqual(cases.losses(self.path(version, "keyed"))[0][1],
                             self.recorded[version]["runs"]["dp2"]["losses"][0][1])


if __name__ == "__main__":
    unittest.main(verbosity=1)
