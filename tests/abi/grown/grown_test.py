"""grown_test.py WEFT: does a plugin of a later minor work here, or is refused in words?

The headers of a later minor are made by grow.py: each table and each argument struct has a member
more. The templates, built with them, use nothing of it: they pass the checker and train.
later.c uses it: with a test before it works, without one it is refused.
"""
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import built  # noqa: E402  (tests/abi/built.py)
import grow  # noqa: E402  (tests/abi/grown/grow.py)

WEFT, SOURCE = Path(sys.argv[1]), HERE.parents[2]
NEVER = {"weft_shape", "weft_attr", "weft_operand", "weft_place", "weft_ew_step",
         "weft_work", "weft_metric", "weft_field"}  # passed in arrays
TINY = {"model__family": "gpt2", "model__layers": 1, "model__heads": 2,
        "model__embed": 32, "model__ffn": 64, "model__context": 32}
FLAGS = ["-Wall", "-Wshadow", "-Werror"]  # not -Wextra: lists by position lack the new member


class Grown(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="weft-grown-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        cls.include = cls.folder / "include"
        cls.names = grow.grow_all(SOURCE / "sdk" / "include" / "weft", cls.include / "weft")
        built.text_for(WEFT, cls.folder)

    def later(self, asks):
        """later.c that asks for something new, where a job finds it under its name."""
        plugins = self.folder / f"plugins_{asks.lower()}"
        flags = FLAGS + [f"-DASKS={asks}"]
        path = built.compile_one([HERE / "later.c"], self.include, plugins, "optim", "acme.later",
                                 flags)
        split = {"parallel__strategy": "acme.later"} if asks == "NOTHING" else {
            "parallel__strategy": "dp", "parallel__crew": None}
        done = built.train(WEFT, self.folder, asks.lower(), plugins, 2, **split, **TINY,
                           run__use=None, optim__rule="acme.later", optim__weight_decay=None,
                           log__sinks="jsonl", comm__plugin="shm")
        return path, done

    def test_every_struct_has_grown(self):
        text = "".join(p.read_text() for p in (SOURCE / "sdk" / "include" / "weft").glob("*.h"))
        frozen = set(grow.re.findall(r"^WEFT_FREEZE\((\w+),", text, grow.re.M))
        self.assertEqual(set(self.names) | NEVER, frozen)
        self.assertEqual(set(self.names) & NEVER, set())

    def test_plugins_that_ask_for_nothing_new(self):
        plugins = self.folder / "plugins"
        for kind, path in built.compile_all(WEFT, self.include, plugins, FLAGS).items():
            with self.subTest(kind):
                self.assertEqual([c for c in built.failed_checks(WEFT, path) if c[0] != 15], [])
        for more in ({"ranks": 2, "optim__placement": "acme.shards"},
                     {"device__plugin": "acme.plain"} | built.NO_OP,
                     {"ranks": 2, "comm__plugin": "acme.hostcoll"}):
            done = built.train(WEFT, self.folder, "job", plugins, **more)
            self.assertEqual(done.returncode, 0, done.stderr)
            losses = built.losses(self.folder, "job")
            self.assertLess(losses[-1], 0.8 * losses[0])

    def test_what_is_tested_for_works(self):
        path, done = self.later("NOTHING")
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = built.losses(self.folder, "nothing")
        self.assertLess(losses[-1], losses[0])
        found = built.failed_checks(WEFT, path)  # 19 names weft.rule/2, which is not known here
        self.assertEqual([number for number, _ in found if number not in (15, 19)], [])

    def test_what_is_not_is_refused(self):
        for asks, words in {
                "TABLE": ["acme.later: its weft.rule/1 table", "needs a newer weft"],
                "OPTION": ["acme.later", "needs a newer weft"],
                "COMPONENT": ["needs a newer weft"],
                "ARGUMENTS": ["builder.state", "a newer weft is needed"],
                "FLAGS": ["builder.state", "0x40000000", "not known to this version"],
        }.items():
            with self.subTest(asks):
                _, done = self.later(asks)
                self.assertEqual(done.returncode, 2, done.stderr)
                for each in words:
                    self.assertIn(each, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
