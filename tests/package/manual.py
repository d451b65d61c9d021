#!/usr/bin/env python3
"""manual.py WEFT SOURCE: do manual pages and completion say what the program does?

cmake/manual.py makes them of what the program prints. Here man reads the pages, and bash and zsh
complete lines, zsh on a terminal. tests/cli/help_test.py asks whether the help is right."""
import glob
import gzip
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

WEFT, SOURCE = map(os.path.abspath, sys.argv[1:3])
TRY = r"""
compopt() { :; }
. "$1"
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<<"${2//=/ = }"
case $2 in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_weft
printf '%s\n' "${COMPREPLY[@]}"
"""


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="weft-manual-")
        cls.addClassCleanup(shutil.rmtree, cls.place, True)
        cls.make()
        cls.pages = {os.path.basename(x)[:-len(".1.gz")]: x
                     for x in glob.glob(os.path.join(cls.place, "man1/*.1.gz"))}

    @classmethod
    def make(cls):
        run(sys.executable, "-B", os.path.join(SOURCE, "cmake/manual.py"), "1.2.3", cls.place, WEFT)

    def words_of(self, text):
        """Letters alone, without the hyphens and spaces that filling a paragraph may add."""
        return re.sub(r"[\s\u2010-]+", "", text)

    def test_pages_are_read_without_a_warning(self):
        for name, page in self.pages.items():
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page],
                                  capture_output=True, text=True, check=False,
                                  env=os.environ | {"MANWIDTH": "90", "LC_ALL": "C.UTF-8"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_pages_have_all_of_the_help(self):
        commands = re.findall(r"^  (\w+) ", run(WEFT, "--help"), re.M)
        self.assertEqual({"weft"} | {f"weft-{x}" for x in commands}, set(self.pages))
        for command in commands:
            shown = self.words_of(run("man", "-E", "UTF-8", "-l", self.pages[f"weft-{command}"],
                                      env=os.environ | {"MANWIDTH": "90", "LC_ALL": "C.UTF-8"}))
            for line in run(WEFT, command, "--help").removeprefix("usage: ").splitlines():
                for part in re.split(r"\s{2,}", line.strip()):
                    self.assertIn(self.words_of(part), shown, f"{command}: {part}")

    def test_pages_are_the_same_every_time(self):
        first = {x: read(page) for x, page in self.pages.items()}
        self.make()
        for name, page in self.pages.items():
            self.assertEqual(read(page), first[name], name)
        self.assertIn(b"1.2.3", gzip.decompress(first["weft"]))

    def bash(self, line, **more):
        said = run("bash", "-c", TRY, "bash", os.path.join(self.place, "weft.bash"), line, **more)
        return said.split()

    def test_bash(self):
        self.assertEqual(self.bash("weft tra"), ["train"])
        self.assertIn("--version", self.bash("weft --"))
        self.assertEqual(self.bash("weft train --resume="), ["auto", "force"])
        self.assertIn("--resume=auto", self.bash("weft train --res"))
        self.assertEqual(self.bash("weft train a.ini train.prec"), ["train.precision="])
        self.assertEqual(self.bash("weft train a.ini train.precision="), ["fp32", "bf16", "fp16"])
        self.assertEqual(self.bash("weft train a.ini train.precision=b"), ["bf16"])
        self.assertEqual(self.bash("weft train a.ini log.sinks="),
                         ["jsonl", "prometheus", "tensorboard"])
        self.assertEqual(self.bash("weft plan --lis"), ["--list"])
        for name in ("one.ini", "two words.ini"):
            with open(os.path.join(self.place, name), "wb"):
                pass
        self.assertEqual(self.bash("weft plan one", cwd=self.place), ["one.ini"])
        self.assertEqual(self.bash("weft key -o on", cwd=self.place), ["one.ini"])
        self.assertEqual(self.bash("weft plan a.ini data.train=on", cwd=self.place), ["one.ini"])

    def test_zsh(self):
        """A line on a terminal, as it stands after the tabulator."""
        for line, want in (("weft tra", "weft train "), ("weft plan --lis", "weft plan --list "),
                           ("weft train x train.prec", "weft train x train.precision="),
                           ("weft train x train.precision=b", "weft train x train.precision=bf16")):
            self.zsh(line, want)

    def zsh(self, line, want):
        pid, fd = pty.fork()
        if not pid:
            os.chdir(self.place)
            os.execvpe("zsh", ["zsh", "-f", "-i"], os.environ | {"TERM": "dumb", "PS1": "> "})
        limit = time.monotonic() + 60
        try:
            begin = (f"fpath=({self.place} $fpath); autoload -Uz compinit; compinit -u -D; "
                     "echo re''ady\n")
            for words, until in ((begin, "\nready"), (line + "\t", want)):
                os.write(fd, words.encode())
                said = ""
                while until not in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]|[\r\x07]", "", said):
                    self.assertLess(time.monotonic(), limit, f"no {until!r} in {said!r}")
                    if select.select([fd], [], [], 0.2)[0]:
                        said += os.read(fd, 4096).decode(errors="replace")
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(fd)


if __name__ == "__main__":
    for program in ("man", "bash", "zsh"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            sys.exit(77)
    del sys.argv[1:]
    unittest.main(verbosity=2)
