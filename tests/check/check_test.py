"""Does weft plugins check find each bad plugin, and pass every right one?

usage: check_test.py WEFT BUILD SOURCE [Class.test]
BUILD/tests/check/plugins/SET/KIND/NUMBER_NAME.so are bad plugins, one a check: that check fails,
with the phrase of bad/SET.expected, and no check with a lower number does. NUMBER 0 passes all.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from multiprocessing.pool import ThreadPool
from pathlib import Path

WEFT, BUILD, SOURCE = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, str(SOURCE / "tests" / "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

SETS = {path.stem: path for path in sorted((SOURCE / "tests" / "check" / "bad").glob("*.expected"))}


def weft(*words):
    return subprocess.run([WEFT, "plugins", "check", *map(str, words)], capture_output=True,
                          text=True, timeout=300, check=False)


def report(path, *words):
    done = weft(path, "--json", *words)
    return done.returncode, json.loads(done.stdout)


def expected(name):
    """The kind of a set, and (number, name, phrase) of its plugins."""
    lines = SETS[name].read_text().splitlines()
    rows = [line.split(None, 2) for line in lines[1:] if line and not line.startswith("#")]
    return lines[0].split()[1], [(int(number), rule, phrase) for number, rule, phrase in rows]


def plugin(name, number, rule):
    kind = expected(name)[0]
    return BUILD / "tests" / "check" / "plugins" / name / kind / f"{number}_{rule.lower()}.so"


LONG = 106  # moves 8 GiB: plugins that fail a later check are left out


def upto(number):
    return f"1-{number}" if number <= LONG else f"1-{LONG - 1},{LONG + 1}-{number}"


class Own(unittest.TestCase):
    """Each set has a test, test_SET: a bad plugin fails at its own check."""

    @staticmethod
    def only(number):
        return str(number)

    def check_set(self, name):
        rows = expected(name)[1]
        with ThreadPool(2) as pool:  # most of the time of a check is waiting
            reports = pool.map(
                lambda row: report(plugin(name, *row[:2]), "--only", self.only(row[0])), rows)
        for (number, rule, phrase), (status, found) in zip(rows, reports):
            with self.subTest(f"{number} {rule}"):
                self.assertEqual(status, 1)
                bad = [c for c in found["checks"]
                       if c["result"] not in ("pass", "not applicable")]
                self.assertEqual([c["number"] for c in bad], [number], bad)
                self.assertIn(phrase, bad[0]["text"])
        status, found = report(plugin(name, 0, "good"))
        self.assertEqual(status, 0, [c for c in found["checks"] if c["result"] != "pass"])


class Bad(Own):
    """... and at none with a lower number."""

    @staticmethod
    def only(number):
        return upto(number)


for each in SETS:
    setattr(Own, f"test_{each}", lambda self, name=each: self.check_set(name))


class Right(unittest.TestCase):
    def test_plugins_of_the_tree(self):
        self.all_pass(BUILD / "lib" / "weft", 18)

    def test_third_parties(self):
        self.all_pass(BUILD / "tests" / "check" / "right", 9)

    def all_pass(self, folder, least):
        files = sorted(set(folder.glob("*/*.so")) - set(folder.glob("lib/*")))
        self.assertGreaterEqual(len(files), least)
        with ThreadPool(2) as pool:
            reports = pool.map(report, files)
        for path, (status, found) in zip(files, reports):
            with self.subTest(path.name):
                bad = [(c["number"], c["text"]) for c in found["checks"]
                       if c["result"] not in ("pass", "not applicable")]
                self.assertEqual((status, bad), (0, []))


class Command(unittest.TestCase):
    def test_every_check_has_a_bad_plugin(self):
        listed = {int(line.split()[0]) for line in weft("--list").stdout.splitlines()}
        self.assertEqual(listed, {row[0] for name in SETS for row in expected(name)[1]})

    def test_wrong_requests(self):
        good = plugin("any", 0, "good")
        for words in ([], ["none.so"], [good, good], [good, "--only", "x"], [good, "--only", "9-"],
                      [good, "--only", "3-1"], [good, "--only", "1,9-8"],
                      [good, "--only", "9999"], [good, "--seed", "-1"], [good, "--frobnicate"],
                      [good, "--reproduce"],
                      [good, "--in-process"]):
            with self.subTest(words):
                done = weft(*words)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn("weft plugins check: ", done.stderr)

    @w.again
    def test_a_file_that_is_replaced(self):
        """There is no verdict that mixes two files."""
        with tempfile.TemporaryDirectory(prefix="weft-check-") as place:
            path = Path(place, "rule.so")
            shutil.copy(plugin("any", 0, "good"), path)
            with subprocess.Popen([WEFT, "plugins", "check", path], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
                children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
                while running.poll() is None and not children.read_text(encoding="ascii"):
                    time.sleep(0.001)  # the first process that loads the file
                shutil.copy(plugin("any", 18, "no_dot"), Path(place, "new"))
                os.rename(Path(place, "new"), path)
                said = running.communicate(timeout=300)
            if running.returncode == 0:
                raise w.TooSoon("the file was checked before it was replaced")
            self.assertEqual((running.returncode, said[0]), (1, ""))
            self.assertIn("was replaced or changed while it was checked", said[1])

    def test_a_file_that_is_refused(self):
        """One cause is one failure, and the sentence of the host says why the rest is not run."""
        for number, rule, why in ((3, "wants_symbol", "undefined symbol: weft_of_the_program"),
                                  (11, "writable", "others may write it (mode 775)"),
                                  (15, "magic", "manifest field magic is 0x12345678"),
                                  (20, "size", "its component has 40 bytes, at least 56")):
            path = plugin("any", number, rule)
            done = weft(path)
            with self.subTest(rule):
                self.assertEqual((done.returncode, done.stderr), (1, ""))
                self.assertEqual(done.stdout.count("  repeat: "), 1, done.stdout)
                self.assertIn(f"\ncheck {number} (", "\n" + done.stdout)
                self.assertRegex(done.stdout, r"\n1\d\d checks not run: the host refuses the file")
                self.assertIn(why, done.stdout.splitlines()[-2])
                self.assertIn(" 1 failed, ", done.stdout.splitlines()[-1])
        status, found = report(path)
        self.assertEqual((status, found["failed"]), (1, 1))
        self.assertIn(why, found["stopped"])
        self.assertEqual(len(found["checks"]) + found["not_run"],
                         len(weft("--list").stdout.splitlines()))
        done = weft(path, "--set", "lr=1")  # the request is right, so this is a verdict, too
        self.assertEqual((done.returncode, done.stderr), (1, ""))

    def test_progress(self):
        """A terminal sees how many checks are done, at most ten times a second."""
        ours, theirs = os.openpty()
        since = time.monotonic()
        with subprocess.Popen([WEFT, "plugins", "check", plugin("plan", 0, "good")], stderr=theirs,
                              stdout=subprocess.PIPE, text=True) as running:
            os.close(theirs)
            said = b""
            while True:
                try:
                    said += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
            self.assertIn(" checks passed, 0 failed", running.stdout.read())
        os.close(ours)
        drawn = said.count(b" checks")
        self.assertGreaterEqual(drawn, 2, said)
        self.assertLessEqual(drawn, 2 + 10 * (time.monotonic() - since), said)
        self.assertTrue(said.endswith(b"\r\033[K"), said)

    def test_names_are_printed_as_text(self):
        with tempfile.TemporaryDirectory(prefix="weft-check-") as place:
            for name in ("a\033[31m.so", "a\nb.so", "a\x7f.so", "a\u009b1m.so"):
                path = shutil.copy(plugin("any", 0, "good"), os.path.join(place, name))
                for words in ([path], [path, "--json"]):
                    done = weft(*words)
                    self.assertEqual((done.returncode, done.stdout), (2, ""))
                    self.assertIn("has control characters, shown as '?'", done.stderr)
                    self.assertIn("a?", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)
                    self.assertRegex(done.stderr, r"^[ -~]+\n$")

    def test_no_daemon_is_left(self):
        for number, rule in ((8, "daemon_loaded"), (39, "daemon_opened"), (46, "daemon_called")):
            path = plugin("any", number, rule)
            self.assertEqual(weft(path, "--only", str(number)).returncode, 1)
            left = []
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if str(path).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                        left.append(process.name)
                except OSError:
                    pass
            self.assertEqual(left, [])

    def test_repeat(self):
        number, rule, phrase = expected("any")[1][0]
        path = plugin("any", number, rule)
        done = weft(path, "--seed", "7", "--only", str(number))
        line = [x for x in done.stdout.splitlines() if x.startswith("  repeat: ")][0]
        words = line.split()[1:]
        self.assertEqual(words[:3] + words[4:],
                         ["weft", "plugins", "check", "--only", str(number), "--seed", "7"])
        again = subprocess.run([WEFT] + words[1:], capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn(phrase, again.stdout)

    def test_a_path_that_is_not_utf8(self):
        """Its bytes that are no character are U+FFFD in JSON; the status is that of the checks."""
        with tempfile.TemporaryDirectory(prefix="weft-check-") as place:
            for number, rule, want in ((0, "good", 0), (*expected("any")[1][0][:2], 1)):
                name = f"{rule.lower()}-\xe9".encode("latin-1") + "\u00e9.so".encode()
                path = os.path.join(os.fsencode(place), name)
                shutil.copy(plugin("any", number, rule), path)
                words = [os.fsencode(WEFT), b"plugins", b"check", path, b"--only", b"1-14"]
                text = subprocess.run(words, capture_output=True, timeout=300, check=False)
                self.assertEqual(text.returncode, want, text)
                self.assertIn(b" checks passed", text.stdout)
                said = subprocess.run(words + [b"--json"], capture_output=True, timeout=300,
                                      check=False)
                self.assertEqual(said.returncode, want, said)
                found = json.loads(said.stdout.decode())
                self.assertEqual(found["file"], f"{place}/{rule.lower()}-\ufffd\u00e9.so")
                self.assertTrue(all(c["text"] is not None for c in found["checks"]))

    def test_reproduce(self):
        number, rule = next(row[:2] for row in expected("link")[1] if row[0] == 181)
        path = plugin("link", number, rule)
        text = report(path, "--only", str(number))[1]["checks"][0]["text"]
        words = text.rstrip(")").split()[-2:]
        self.assertEqual(words[0], "--reproduce", text)
        self.assertEqual(report(path, *words)[1]["checks"][0]["text"], text)

    def test_absent(self):
        path = plugin("plan", 0, "good")
        status, found = report(path, "--only", "29")
        reason = found["checks"][0]
        self.assertEqual((status, found["passed"], found["not_applicable"]), (0, 0, 1))
        self.assertEqual(reason["result"], "not applicable")
        self.assertIn("libacme-device.so.1", reason["text"])
        done = weft(path, "--only", "29")
        self.assertIn("check 29 (version): not applicable: 'acme.device' cannot be used",
                      done.stdout)
        self.assertIn("0 checks passed, 0 failed, 1 not applicable", done.stdout)

    def test_set(self):
        """Options of the user reach the plugin, also in the command that repeats a check."""
        tokens = BUILD / "lib" / "weft" / "data" / "tokens.so"
        given = ("--set", "train=/nonexistent/a file", "--only", "186")
        status, found = report(tokens, *given)
        self.assertEqual((status, found["not_applicable"]), (0, 1), found)
        self.assertIn("/nonexistent/a file", found["checks"][0]["text"])
        self.assertEqual(report(tokens, "--only", "186")[1]["passed"], 1)
        done = weft(tokens, "--set", "trian=x", "--only", "186")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no component of the file has the option 'trian'", done.stderr)
        number, rule, _ = expected("data")[1][2]
        done = weft(plugin("data", number, rule), "--only", number)
        self.assertNotIn("--set", done.stdout)
        for words in (["--set"], ["--set", "x"], ["--set", "=x"], ["--set", "train=x"] * 17):
            with self.subTest(words):
                self.assertEqual(weft(tokens, *words).returncode, 2)

    def test_a_format_of_its_own(self):
        """A source that reads no file of the checker: which call says so, and what to give it."""
        path = plugin("data", 0, "own_format")
        done = weft(path)
        say = ("it reads neither the text file nor the token file of the checker; name a file of "
               "its own format with --set train=FILE: read() failed: byte 0: the word numbers is ")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count(say), 2, done.stdout)
        other = r"check (186|185) \(data\): not applicable, for the reason of check (?!\1)18[56]\n"
        self.assertRegex(done.stdout, other)  # the two run at once
        with tempfile.NamedTemporaryFile(prefix="weft-check-", mode="w") as file:
            given = ("--set", f"train={file.name}", "--only", "29,185,186")
            found = report(path, *given)[1]["checks"]
            self.assertEqual([c["result"] for c in found], ["fail"] * 3)
            for check in found:
                self.assertIn("a lawful call failed: read() of 'acme.numbers' returned WEFT_DATA",
                              check["text"])
            file.write("numbers")
            file.flush()
            self.assertEqual(report(path, *given)[1]["passed"], 3)

    def test_nothing_is_left(self):
        """Temporary files of a check that crashes are removed."""
        number, rule, _ = expected("data")[1][0]
        with tempfile.TemporaryDirectory() as folder:
            for path in (plugin("any", 0, "good"), plugin("data", number, rule),
                         BUILD / "lib" / "weft" / "sink" / "jsonl.so"):
                subprocess.run([WEFT, "plugins", "check", path], capture_output=True, check=False,
                               env=os.environ | {"TMPDIR": folder})
                self.assertEqual(os.listdir(folder), [])

    def test_in_process(self):
        done = weft(plugin("any", 0, "good"), "--only", "16", "--in-process")
        self.assertEqual((done.returncode, done.stdout), (0, "pass\n"))

    def test_not_a_plugin(self):
        status, found = report(os.path.realpath(__file__), "--only", "1")
        self.assertEqual(status, 1)
        self.assertIn("no ELF header", found["checks"][0]["text"])

    def test_page(self):
        page = (SOURCE / "docs" / "CHECKS.md").read_text()
        self.assertEqual(weft("--page").stdout, page, "weft plugins check --page > docs/CHECKS.md")


class Never(unittest.TestCase):
    def test_a_call_that_does_not_return(self):
        """Each result is printed as it comes, and the third time-out in one call is the last."""
        with subprocess.Popen([WEFT, "plugins", "check", plugin("sink", 29, "never")], text=True,
                              stdout=subprocess.PIPE) as running:
            lines = []
            for line in running.stdout:
                lines.append((time.monotonic(), line))
        failed = [at for at, line in lines if ": time out: the deadline passed during m" in line]
        self.assertEqual(running.returncode, 1)
        self.assertIn(len(failed), (3, 4), lines)  # two run at a time
        self.assertGreater(lines[-1][0] - failed[0], 5)  # of the 10 until the last one
        self.assertRegex(lines[-2][1], r"^\d+ checks not run: metrics\(\) of the plugin org.acme."
                                       rf"count does not return: {len(failed)} checks have waited ")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
