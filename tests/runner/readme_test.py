"""readme_test.py SOURCE: tests/README.md has one row for each folder below tests/, and no other."""
import os
import re
import sys
import unittest

SOURCE = os.path.abspath(sys.argv.pop(1))
TESTS = os.path.join(SOURCE, "tests")
ROW = re.compile(r"^\| `(\w+)/` \|(.*)\|\s*$", re.M)
TARGETS = {"test", "sanitize", "integration", "nightly", "test-gpu"}


def read(*names):
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as f:
        return f.read()


def rows(text):
    """{folder: [question, time, targets]}"""
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in ROW.findall(text)}


class Readme(unittest.TestCase):
    def test_each_folder_has_a_row(self):
        folders = {name for name in os.listdir(TESTS)
                   if os.path.isfile(os.path.join(TESTS, name, "CMakeLists.txt"))}
        found = [name for name, _ in ROW.findall(read("tests", "README.md"))]
        self.assertEqual(sorted(found), sorted(folders))

    def test_rows_are_complete(self):
        """One question, a time and the targets, which the Makefile has."""
        made = set(re.findall(r"^([\w-]+):", read("Makefile"), re.M))
        self.assertLessEqual(TARGETS, made)
        for name, cells in rows(read("tests", "README.md")).items():
            with self.subTest(folder=name):
                self.assertEqual(len(cells), 3)
                self.assertRegex(cells[0], r"\?$")
                self.assertRegex(cells[1], r"\d+ s")
                self.assertLessEqual(set(re.findall(r"[\w-]+", cells[2])), TARGETS)

    def test_integration_has_its_label(self):
        """A row that names the target, and a label in the folder, come together."""
        labelled = re.compile(
            r"LABELS (\w+ )*(integration|long|timed)\b"
            r"|weft_add_(lab_test|test_beside_lab|timed_test)")
        for name, cells in rows(read("tests", "README.md")).items():
            with self.subTest(folder=name):
                self.assertEqual("integration" in cells[2],
                                 bool(labelled.search(read("tests", name, "CMakeLists.txt"))))


if __name__ == "__main__":
    unittest.main(verbosity=2)
