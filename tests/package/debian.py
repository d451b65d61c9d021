#!/usr/bin/env python3
"""debian.py BUILD SOURCE: do the packages that cpack makes install, train and go away again?

A chroot of the distribution gets `weft` and what that depends on, nothing that is recommended,
then `weft-dev` and `weft-cuda`. A job of the package trains on two ranks, a plugin is made,
and after `apt-get purge` no file is left that was not there before. 77 where this user
cannot make a chroot."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = map(os.path.abspath, sys.argv[1:3])
TREES = ("usr", "etc", "var/lib")
# What apt and dpkg write for themselves.
OF_APT = ("var/lib/dpkg", "var/lib/apt", "etc/ld.so.cache", "var/lib/systemd")


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-3000:]}"
                             f"\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def files_of(root):
    found = set()
    for tree in TREES:
        for folder, folders, files in os.walk(os.path.join(root, tree)):
            found |= {os.path.relpath(os.path.join(folder, x), root) for x in folders + files}
    return {x for x in found if not x.startswith(OF_APT)}


class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="weft-package-")
        cls.addClassCleanup(shutil.rmtree, cls.place, True)
        cls.debs = os.path.join(cls.place, "debs")
        run("cpack", "-B", cls.debs, cwd=BUILD)
        cls.files = {os.path.basename(x).split("_")[0]: x
                     for x in glob.glob(os.path.join(cls.debs, "*.deb"))}

    def inside(self, *words):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive",
               "HOME": "/srv", "LC_ALL": "C.UTF-8"}
        return run("chroot", self.root, *words, env=env)

    def install(self, *packages):
        for x in packages:
            shutil.copy(self.files[x], os.path.join(self.root, "debs"))
        return self.inside("apt-get", "install", "-y", "--no-install-recommends",
                           *(f"/debs/{os.path.basename(self.files[x])}" for x in packages))

    def test_lintian(self):
        said = run("lintian", "--allow-root", "--fail-on", "error,warning",
                   *self.files.values())
        self.assertEqual(said, "")

    def test_what_is_in_which(self):
        names = {x: run("dpkg-deb", "-c", f) for x, f in self.files.items()}
        self.assertLessEqual({"weft", "weft-dev"}, set(names))
        self.assertIn("./usr/bin/weft\n", names["weft"])
        self.assertIn("./usr/share/man/man1/weft-train.1.gz", names["weft"])
        self.assertIn("./usr/include/weft/plugin.h", names["weft-dev"])
        self.assertIn("./usr/bin/weft-check\n", names["weft-dev"])
        self.assertIn("./usr/share/man/man1/weft-check.1.gz", names["weft-dev"])
        self.assertNotIn("/cuda.so", names["weft"])
        self.assertNotIn("/usr/include", names["weft"])
        if os.path.exists(os.path.join(BUILD, "lib/weft/device/cuda.so")):
            self.assertIn("./usr/lib/weft/device/cuda.so", names["weft-cuda"])

    def train(self):
        with open(os.path.join(SOURCE, "docs/CONFIG.md"), encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(self.root, "srv/text.txt"), "w", encoding="utf-8") as f:
            f.write(text * 4)
        self.inside("weft", "data", "/srv/text.txt", "-o", "/srv/a.bin", "--valid", "/srv/v.bin")
        said = self.inside("weft", "train", "-n", "2", "/usr/share/weft/configs/demo.ini",
                           "data.train=/srv/a.bin", "data.valid=/srv/v.bin", "run.steps=20",
                           "run.out=/srv/run", "checkpoint.every=20")
        self.assertIn("step 20/20", said)
        text = self.inside("weft", "sample", "/srv/run/checkpoints/step-00000020",
                           "--prompt", "The ", "--tokens", "20")
        self.assertTrue(text.strip())

    def test_install_and_remove(self):
        self.root = os.path.join(self.place, "root")
        run("mmdebstrap", "--variant=apt", "--include=apt",
            '--customize-hook=mkdir "$1/debs"', *self.distribution(), self.root)
        for folder in ("dev/shm", "proc"):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        run("mount", "-t", "proc", "proc", os.path.join(self.root, "proc"))
        self.addCleanup(run, "umount", os.path.join(self.root, "proc"))
        self.inside("apt-get", "update")
        before = files_of(self.root)
        self.install("weft")
        self.train()
        self.install(*(x for x in self.files if x != "weft"))
        self.inside("sh", "-c", "cd /srv && weft plugins new rule own.rule && ls rule/rule.c")
        self.inside("weft", "plugins", "check", "/usr/lib/weft/optim/sgd.so")
        self.assertIn("cuda", self.inside("weft", "plugins"))
        self.assertGreater(len([x for x in files_of(self.root) - before if "weft" in x]), 100)
        self.inside("apt-get", "purge", "-y", "--autoremove", *self.files)
        self.assertEqual(files_of(self.root) - before, set())

    def distribution(self):
        """The suite of this machine, from where its apt gets packages."""
        with open("/etc/os-release", encoding="utf-8") as f:
            names = dict(x.strip().split("=", 1) for x in f if "=" in x)
        return ["--mode=root", names["VERSION_CODENAME"]]


if __name__ == "__main__":
    for program in ("cpack", "lintian", "mmdebstrap"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            sys.exit(77)
    if os.geteuid():
        print("skipped: a chroot needs root")
        sys.exit(77)
    del sys.argv[1:]
    unittest.main(verbosity=2)
