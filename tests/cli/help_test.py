"""Help, version, and commands and options that there are not."""
import os
import re
import subprocess

import started


class Help(started.Case):
    def commands(self):
        return re.findall(r"^  (\w+) ", self.weft("--help")[0], re.M)

    def test_every_command_explains_itself(self):
        found = self.commands()
        for name in "train plan data sample ckpt flight key plugins config".split():
            self.assertIn(name, found)
        for name in found:
            for word in ("--help", "-h"):
                out, err = self.weft(name, word)
                self.assertTrue(out.startswith(f"usage: weft {name}"), out)
                self.assertGreater(len(out.splitlines()), 2)
                self.assertEqual(err, "")

    def test_help_wins_over_everything(self):
        self.weft("train", "no-such.ini", "--bogus", "--help")
        self.assertEqual(self.names(), ["tiny.ini"])

    def test_every_option_in_the_usage_line_is_known(self):
        for name in self.commands():
            usage = self.weft(name, "--help")[0].splitlines()[0]
            for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", usage):
                said = self.weft_any(name, option).stderr
                self.assertNotIn(f"no option {option}", said)

    def test_version(self):
        out, _ = self.weft("--version")
        self.assertRegex(out, r"^weft \d+\.\d+\.\d+, plugin ABI \d+\.\d+\n"
                         r"commit (unknown|[0-9a-f]{12}( with changes)?)\n"
                         r"build  \w+, \w+ [\d.]+, for \w+\n$")

    def test_an_answer_that_cannot_be_written(self):
        """It is no success; a reader who has closed the pipe has what it wanted."""
        self.make_data()
        for words in (["--help"], ["--version"], ["train", "--help"], ["config"], ["plugins"],
                      ["plan", "tiny.ini"], ["plan", "tiny.ini", "--json"],
                      ["plugins", "check", "--list"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                done = subprocess.run([started.WEFT, *words], cwd=self.place, stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("standard output could not be written", done.stderr)
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([started.WEFT, "config"], stdout=write, stderr=subprocess.PIPE,
                              text=True, check=False)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_command(self):
        done = subprocess.run([started.WEFT], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage: weft COMMAND", done.stdout)

    def test_unknown_commands(self):
        self.refused("trian", why="did you mean 'train'?")
        self.refused("qqqqqqqq", why="unknown command 'qqqqqqqq'; weft --help lists them")
        self.refused("--bogus", why="unknown command '--bogus'")
        self.refused("", why="unknown command ''")

    def test_unknown_options(self):
        for name in self.commands():
            said = self.weft(name, "--no-such-option", status=2)[1]
            self.assertRegex(said, r"--no-such-option|usage: weft ")
        self.assertEqual(self.names(), ["tiny.ini"])

    def test_values_that_are_missing(self):
        for words in (("new", "x.ini", "--text"), ("eval", "x", "--batches"), ("flight", "-c"),
                      ("data", "--field"), ("eval", "x", "--data")):
            self.refused(*words, why=f"the value of {words[-1]} is missing: {words[-1]} ")
        self.refused("new", "x.ini", "--txt", "a", why="there is no option --txt")
        self.refused("new", "x.ini", "y.ini", why="'y.ini' is one name too many")
        self.refused("eval", "x", "--batches", "0", why="--batches '0'")
        self.assertEqual(self.names(), ["tiny.ini"])

    def test_ranks_may_be_attached(self):
        one, two = (self.weft("plan", *words, "tiny.ini", "parallel.strategy=dp", "run.steps=3")
                    for words in (("-n", "2"), ("-n2",)))
        self.assertEqual(one, two)
        for word in ("-nx", "-n0", "-n"):
            self.refused("plan", "tiny.ini", word, why="-n takes a number of ranks")

    def test_values_of_options(self):
        for value in ("0", "-1", "two", "2x", "", "1048577", "99999999999999999999"):
            self.refused("plan", "-n", value, "tiny.ini", why="-n takes a number of ranks")
        self.refused("plan", "tiny.ini", "-n", why="-n takes a number of ranks")
        self.refused("plan", "tiny.ini", "--rank", why="--rank takes a value")
        self.refused("plan", "tiny.ini", "--rank", "1", why="the job has ranks 0 to 0")
        self.refused("plan", "tiny.ini", "other.ini", why="the job file is tiny.ini already")
        self.refused("train", why="name the INI file of a job")


if __name__ == "__main__":
    started.main()
