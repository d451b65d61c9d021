"""runner_test.py SOURCE: what tests/run.py counts and how it ends, in a small tree of its own with
tests that pass, fail and skip."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.abspath(sys.argv.pop(1))
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(planted LANGUAGES NONE)
enable_testing()
add_test(NAME good COMMAND true)
"""
SKIPS = """add_test(NAME card COMMAND sh -c "echo there is no card here; exit 77")
set_tests_properties(card PROPERTIES SKIP_RETURN_CODE 77)
"""
FAILS = "add_test(NAME bad COMMAND false)\n"
EVERY_SECOND = """add_test(NAME moody COMMAND sh -c
  "if [ -e ${CMAKE_BINARY_DIR}/failed ]; then rm ${CMAKE_BINARY_DIR}/failed; \
  else touch ${CMAKE_BINARY_DIR}/failed; echo bad luck; exit 1; fi")
"""
LABELLED = """add_test(NAME heavy COMMAND true)
set_tests_properties(heavy PROPERTIES LABELS integration)
"""
CASES = '''import unittest


class A(unittest.TestCase):
    def test_one(self):
        """With a sentence of its own."""
        self.skipTest("no floppy here")

    def test_two(self):
        pass


unittest.main(verbosity=2)
'''
UNITTEST = f"""add_test(NAME cases COMMAND {sys.executable} -B ${{CMAKE_SOURCE_DIR}}/cases.py)
"""
CMOCKA = """add_test(NAME c COMMAND printf "[ RUN      ] tape\\n[  SKIPPED ] tape\\n")
"""


class Runner(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="weft-runner-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        for name in ("CMakePresets.json", "cmake/configure.sh", "tests/run.py"):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            shutil.copy(os.path.join(SOURCE, name), self.path(name))
        self.write("tests/skips.txt", "")
        self.write("tests/seconds.txt", "# seconds, test\n2.5 good\n")
        self.write("cases.py", CASES)

    def path(self, *names):
        return os.path.join(self.place, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def run_target(self, tests, status, ends, words=("test",), **env):
        self.write("CMakeLists.txt", PROJECT + tests)
        keep = {k: v for k, v in os.environ.items() if k not in ("CI", "WEFT_CI", "WEFT_WHOLE")}
        done = subprocess.run([sys.executable, "-B", self.path("tests/run.py"), *words],
                              env=keep | env, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.stdout.splitlines()[-1:], [ends], said)
        self.assertEqual(done.returncode, status, said)
        self.assertEqual(self.read("build/summary.txt"), ends + "\n")
        return said

    def test_all_pass(self):
        said = self.run_target("", 0, "1 passed, 0 failed, 0 skipped")
        self.assertRegex(said, r"make test: \d+\.\d minutes \(release: build \d")
        self.assertRegex(said, r"slowest tests, in seconds:\n +\d+\.\d  good \(release\)\n")
        self.assertIn("good ", self.read("build/release/Testing/Temporary/CTestCostData.txt"))

    def test_a_failure(self):
        said = self.run_target(FAILS, 1, "1 passed, 1 failed, 0 skipped")
        self.assertIn("FAILED   bad (release)\n", said)

    def test_a_test_that_fails_every_second_time(self):
        """Its first output is kept, and the target passes; a test that always fails fails it."""
        said = self.run_target(EVERY_SECOND, 0, "2 passed, 0 failed, 0 skipped")
        kept = "build/flaky/release.moody.txt"
        self.assertIn(f"flaky    moody (release)  [its first output: {kept}]\n", said)
        self.assertIn("bad luck", self.read(kept))
        self.assertNotIn("FAILED   ", said)
        said = self.run_target(EVERY_SECOND + FAILS, 1, "2 passed, 1 failed, 0 skipped")
        self.assertIn("FAILED   bad (release)\n", said)
        self.assertNotIn("flaky    bad", said)
        said = self.run_target("", 1, "2 passed, 1 failed, 0 skipped", words=("sum", "test"))
        self.assertIn("flaky    moody (release)", said)
        self.assertRegex(said, r"make test .* 2 passed, 1 failed, 0 skipped, 1 flaky\n")

    def test_a_soak(self):
        """Nothing is tried again, every failure is listed with its output, and loops end."""
        said = self.run_target(EVERY_SECOND, 1, "1 passed, 1 failed, 0 skipped",
                               words=("soak", "test", "3"))
        self.assertIn("FAILED   moody (release) in 2 of 3 rounds: "
                      "build/soak/1.release.moody.txt, build/soak/3.release.moody.txt\n", said)
        self.assertIn("bad luck", self.read("build/soak/3.release.moody.txt"))
        self.assertIn("round 3 of 3", said)
        self.run_target("", 0, "1 passed, 0 failed, 0 skipped", words=("soak", "test", "2"))

    def test_a_build_that_fails(self):
        said = self.run_target("message(FATAL_ERROR nonsense)\n", 1,
                               "0 passed, 1 failed, 0 skipped")
        self.assertIn("nonsense", said)
        said = self.run_target("add_custom_target(broken ALL COMMAND false)\n", 1,
                               "0 passed, 1 failed, 0 skipped")
        self.assertIn("the build release failed", said)

    def test_no_tests(self):
        self.run_target("", 1, "0 passed, 1 failed, 0 skipped", words=("integration",))

    def test_a_skip(self):
        """Passes outside CI; in CI it fails, unless the list of skips has its reason."""
        said = self.run_target(SKIPS, 0, "1 passed, 0 failed, 1 skipped", CI="")
        self.assertIn("skipped  card: there is no card here (release)\n", said)
        for variable in ("CI", "WEFT_CI"):
            said = self.run_target(SKIPS, 1, "1 passed, 1 failed, 0 skipped", **{variable: "1"})
            self.assertIn("FAILED   card (release)\n", said)
        self.write("tests/skips.txt", "card: .*no card.*\n    No machine has one.\n")
        said = self.run_target(SKIPS, 0, "1 passed, 0 failed, 1 skipped", CI="1")
        self.assertIn("no card here  [No machine has one.]", said)
        self.write("tests/skips.txt", "card: .*no tape.*\n    No machine has one.\n")
        self.run_target(SKIPS, 1, "1 passed, 1 failed, 0 skipped", CI="1")

    def test_a_skipped_case(self):
        """In a test that passes: the same rule."""
        for tests, line in ((UNITTEST, "cases: test_one: no floppy here"), (CMOCKA, "c: tape")):
            self.write("tests/skips.txt", "")
            said = self.run_target(tests, 0, "2 passed, 0 failed, 0 skipped")
            self.assertIn(f"skipped  {line} (release)\n", said)
            self.run_target(tests, 1, "1 passed, 1 failed, 0 skipped", CI="true")
            self.write("tests/skips.txt", f"{line}\n    Nobody has one.\n")
            self.run_target(tests, 0, "2 passed, 0 failed, 0 skipped", CI="true")

    def test_a_reason_without_a_sentence(self):
        self.run_target("", 0, "1 passed, 0 failed, 0 skipped")
        self.write("tests/skips.txt", "card: .*\n")
        done = subprocess.run([sys.executable, "-B", self.path("tests/run.py"), "test"],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("card: .* has no sentence", done.stderr)

    def test_labels(self):
        """`long` and `timed` as well as `integration` move a test to `make integration`."""
        self.run_target(LABELLED + FAILS, 1, "1 passed, 1 failed, 0 skipped")
        self.run_target(LABELLED + FAILS, 0, "1 passed, 0 failed, 0 skipped",
                        words=("integration",))
        for label in ("long", "timed"):
            moved = LABELLED + FAILS + f"set_tests_properties(bad PROPERTIES LABELS {label})\n"
            self.run_target(moved, 0, "1 passed, 0 failed, 0 skipped")
            self.run_target(moved, 1, "1 passed, 1 failed, 0 skipped", words=("integration",))

    def test_the_sum(self):
        """A target that did not come to its end counts as one failure."""
        self.run_target(LABELLED + FAILS, 1, "1 passed, 1 failed, 0 skipped")
        self.run_target(LABELLED, 0, "1 passed, 0 failed, 0 skipped", words=("integration",))
        said = self.run_target("", 1, "2 passed, 1 failed, 0 skipped",
                               words=("sum", "test", "integration"))
        self.assertRegex(said, r"make test +\d+\.\d minutes   1 passed, 1 failed, 0 skipped, 0 fl")
        said = self.run_target("", 1, "1 passed, 1 failed, 0 skipped",
                               words=("sum", "integration", "sanitize"))
        self.assertIn("(it has no summary)", said)

    def test_a_copied_tree(self):
        """A stale build folder is configured anew, with one line."""
        self.run_target("", 0, "1 passed, 0 failed, 0 skipped")
        first, self.place = self.place, self.place + "-moved"
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        shutil.move(first, self.place)
        said = self.run_target("", 0, "1 passed, 0 failed, 0 skipped")
        self.assertIn(f"build/release was made in {first}, not here: it is removed", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
