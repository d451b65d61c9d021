"""Keys, checkpoints, flight records and samples: made by the program, and hostile."""
import os
import shutil
import stat
import subprocess
import unittest

import started


class Files(started.Case):
    def trained(self):
        self.make_data()
        self.weft("train", "tiny.ini")
        return "run/checkpoints/step-00000004"

    def test_key(self):
        mask = os.umask(0)
        self.weft("key", "-o", "job.key")
        os.umask(mask)
        self.assertEqual(os.path.getsize(self.path("job.key")), 65)
        mode = os.stat(self.path("job.key")).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        first = self.read("job.key")
        self.refused("key", "-o", "job.key", why="exists already")
        self.assertEqual(self.read("job.key"), first)
        self.weft("key", "-o", "other.key")
        self.assertNotEqual(self.read("other.key"), first)
        self.refused("key", why="-o FILE")
        self.refused("key", "-o", "no/such/place", why="no/such/place")
        os.symlink("nowhere", self.path("link"))
        self.weft("key", "-o", "link", status=2)
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_flight(self):
        self.trained()
        for folder in ("run", "run/flight"):
            out, _ = self.weft("flight", folder)
            self.assertIn("rank 0", out)
            self.assertRegex(out, r"update|write|forward")
        few, _ = self.weft("flight", "run", "-c", "1")
        self.assertLess(len(few.splitlines()), len(out.splitlines()))
        self.refused("flight", why="name the folder of a run")
        self.refused("flight", "missing", why="missing")
        self.refused("flight", "run", "-c", "0", why="-c takes a number")
        self.refused("flight", "run", "-c", "many", why="-c takes a number")
        for name in self.names("run", "flight"):
            self.write(f"run/flight/{name}", b"\xff" * 5000)
        self.weft_any("flight", "run")

    def test_checkpoint_info(self):
        folder = self.trained()
        out, _ = self.weft("ckpt", "info", folder)
        self.assertIn("step 4, every sum agrees", out)
        self.assertRegex(out, r"(?m)^embed\.tok\.w +256 x 16$")
        self.assertRegex(out, r"(?m)^block\.0\.ffn\.in\.w\.m ")
        self.assertIn("[train]", out)  # the job that wrote it
        self.weft("ckpt", "verify", folder)

    def test_damaged_checkpoints(self):
        folder = self.trained()
        for name in self.names(folder):
            for damage in ("flip", "cut", "remove", "grow"):
                with self.subTest(file=name, damage=damage):
                    shutil.rmtree(self.path("copy"), ignore_errors=True)
                    shutil.copytree(self.path(folder), self.path("copy"))
                    self.damage("copy", name, damage)
                    said = self.weft("ckpt", "verify", "copy", status=2)[1]
                    self.assertIn("copy", said)
                    self.weft("sample", "copy", "--prompt", "x", status=2)

    def damage(self, folder, name, how):
        content = self.read(folder, name)
        middle = len(content) // 2
        if how == "remove":
            os.remove(self.path(folder, name))
        elif how == "flip":
            self.write(f"{folder}/{name}", content[:middle] + bytes([content[middle] ^ 1])
                       + content[middle + 1:])
        else:
            self.write(f"{folder}/{name}", content[:middle] if how == "cut" else content + b"\n")

    def test_checkpoint_refusals(self):
        self.refused("ckpt", why="give info or verify")
        self.refused("ckpt", "verify", why="give info or verify")
        self.refused("ckpt", "check", "x", why="give info or verify")
        self.refused("ckpt", "verify", "missing", why="cannot open checkpoint missing")
        self.refused("ckpt", "verify", "tiny.ini", why="tiny.ini")
        os.mkdir(self.path("empty"))
        self.refused("ckpt", "verify", "empty", why="empty")
        os.mkdir(self.path("empty/checkpoints"))
        self.refused("ckpt", "verify", "empty", why="the folder of a run that has no checkpoint")
        self.trained()
        newest = max(self.names("run/checkpoints"))
        self.refused("ckpt", "verify", "run", why="the newest is checkpoints/" + newest)
        self.refused("ckpt", "verify", "run/checkpoints", why="the newest is " + newest)

    @unittest.skipIf(os.geteuid(), "another user's folder is made by root")
    def test_checkpoints_that_cannot_be_listed(self):
        os.makedirs(self.path("closed/checkpoints"))
        os.chmod(self.path("closed/checkpoints"), 0o700)
        for folder in (self.path("closed"), os.path.dirname(self.path("closed"))):
            os.chmod(folder, 0o755)
        said = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", started.WEFT, "ckpt", "info",
             self.path("closed")], capture_output=True, text=True, check=False).stderr
        self.assertIn("closed: cannot list its folder checkpoints, where checkpoints may be: "
                      "Permission denied", said)

    def test_sample(self):
        folder = self.trained()
        words = ("sample", folder, "--prompt", "12", "--tokens", "30")
        out, _ = self.weft(*words)
        self.assertGreaterEqual(len(out.encode()), 30)
        self.assertEqual(out, self.weft(*words)[0])
        self.assertNotEqual(out, self.weft(*words, "--seed", "2")[0])
        greedy = self.weft(*words, "--temperature", "0")[0]
        self.assertEqual(greedy, self.weft(*words, "--temperature", "0", "--seed", "5")[0])
        self.assertEqual(greedy, self.weft(*words, "--top", "1")[0])

    def test_sample_refusals(self):
        self.refused("sample", why="name a checkpoint")
        self.refused("sample", "missing", "--prompt", "x", why="missing")
        for words in (["--tokens", "0"], ["--tokens", "x"], ["--temperature", "-1"],
                      ["--temperature", "hot"], ["--bogus", "1"], ["--prompt"]):
            self.refused("sample", "missing", *words, why=words[0])


if __name__ == "__main__":
    started.main()
