"""Does weft plugins check find each bad plugin, and pass every right one?

usage: check_test.py WEFT BUILD SOURCE [Class.test]
BUILD/tests/check/plugins/optim/NUMBER_NAME.so are bad plugins, one a check: that check fails, with
the phrase of bad/expected.txt, and no check with a lower number does.
"""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

WEFT, BUILD, SOURCE = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
BAD = BUILD / "tests" / "check" / "plugins" / "optim"


def weft(*words):
    return subprocess.run([WEFT, "plugins", "check", *map(str, words)], capture_output=True,
                          text=True, timeout=120, check=False)


def report(path, *words):
    done = weft(path, "--json", *words)
    return done.returncode, json.loads(done.stdout)


def expected():
    lines = (SOURCE / "tests" / "check" / "bad" / "expected.txt").read_text().splitlines()
    rows = [line.split(None, 2) for line in lines if line and not line.startswith("#")]
    return [(int(number), name, phrase) for number, name, phrase in rows]


class Bad(unittest.TestCase):
    def test_each(self):
        for number, name, phrase in expected():
            with self.subTest(f"{number} {name}"):
                path = BAD / f"{number}_{name.lower()}.so"
                status, found = report(path, "--only", f"1-{number}")
                self.assertEqual(status, 1)
                bad = [c for c in found["checks"]
                       if c["result"] not in ("pass", "not applicable")]
                self.assertEqual([c["number"] for c in bad], [number], bad)
                self.assertIn(phrase, bad[0]["text"])

    def test_every_check_has_one(self):
        listed = {int(line.split()[0]) for line in weft("--list").stdout.splitlines()}
        self.assertEqual(listed, {number for number, _, _ in expected()})


class Right(unittest.TestCase):
    def test_plugins_of_the_tree(self):
        self.all_pass(BUILD / "lib" / "weft", 18)

    def test_third_parties(self):
        self.all_pass(BUILD / "tests" / "check" / "right", 7)

    def all_pass(self, folder, least):
        files = sorted(folder.glob("*/*.so"))
        self.assertGreaterEqual(len(files), least)
        for path in files:
            with self.subTest(path.name):
                status, found = report(path)
                bad = [(c["number"], c["text"]) for c in found["checks"]
                       if c["result"] not in ("pass", "not applicable")]
                self.assertEqual((status, bad), (0, []))

    def test_good(self):
        self.assertEqual(report(BAD / "0_good.so")[0], 0)


class Command(unittest.TestCase):
    def test_wrong_requests(self):
        good = BAD / "0_good.so"
        for words in ([], ["none.so"], [good, good], [good, "--only", "x"], [good, "--only", "9-"],
                      [good, "--only", "9999"], [good, "--seed", "-1"], [good, "--frobnicate"],
                      [good, "--in-process"]):
            with self.subTest(words):
                done = weft(*words)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("weft plugins check: ", done.stderr)

    def test_repeat(self):
        number, name, phrase = expected()[0]
        path = BAD / f"{number}_{name.lower()}.so"
        done = weft(path, "--seed", "7", "--only", str(number))
        line = [x for x in done.stdout.splitlines() if x.startswith("  repeat: ")][0]
        words = line.split()[1:]
        self.assertEqual(words[:3] + words[4:],
                         ["weft", "plugins", "check", "--only", str(number), "--seed", "7"])
        again = subprocess.run([WEFT] + words[1:], capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn(phrase, again.stdout)

    def test_in_process(self):
        done = weft(BAD / "0_good.so", "--only", "16", "--in-process")
        self.assertEqual((done.returncode, done.stdout), (0, "pass\n"))

    def test_not_a_plugin(self):
        status, found = report(os.path.realpath(__file__), "--only", "1")
        self.assertEqual(status, 1)
        self.assertIn("no ELF header", found["checks"][0]["text"])

    def test_page(self):
        page = (SOURCE / "docs" / "CHECKS.md").read_text()
        self.assertEqual(weft("--page").stdout, page, "weft plugins check --page > docs/CHECKS.md")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
