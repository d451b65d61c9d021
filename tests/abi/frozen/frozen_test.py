"""frozen_test.py WEFT SOURCE: do plugins that were built with the headers of ABI 0.9 still work?

Builds 0.9/plugins, one of every kind, with the headers 0.9/include and nothing else; each passes
`weft plugins check`, and jobs train with all of them. Before the headers of 0.9 are taken (take.sh)
those of sdk/include stand in for them.
"""
import hashlib
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import built  # noqa: E402  (tests/abi/built.py)

WEFT, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
FROZEN = Path(__file__).resolve().parent / "0.9"
TAKEN = FROZEN / "include"
INCLUDE = TAKEN if TAKEN.exists() else SOURCE / "sdk" / "include"
STEPS = built.JOB["run.steps"]


class Frozen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="weft-frozen-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        cls.plugins = cls.folder / "plugins"
        cls.files = built.compile_all(FROZEN / "plugins", INCLUDE, cls.plugins)
        built.text_for(WEFT, cls.folder)

    def train(self, name, ranks=1, **more):
        done = built.train(WEFT, self.folder, name, self.plugins, ranks, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = built.losses(self.folder, name)
        self.assertEqual(len(found), STEPS)
        self.assertLess(found[-1], 0.8 * found[0], "the loss does not fall")
        return found

    def near(self, one, other):
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-4 * a)

    def test_headers_are_as_they_were_taken(self):
        """A copy that is edited tells nothing of the plugins that exist."""
        if not TAKEN.exists():
            self.assertFalse((FROZEN / "digests").exists(), "digests without headers")
            return
        rows = [line.split() for line in (FROZEN / "digests").read_text().splitlines()]
        found = {str(p.relative_to(TAKEN)): hashlib.sha256(p.read_bytes()).hexdigest()
                 for p in TAKEN.rglob("*") if p.is_file()}
        self.assertEqual(found, {name: digest for digest, name in rows})

    def test_checks(self):
        for word, path in self.files.items():
            with self.subTest(word):
                self.assertEqual(built.failed_checks(WEFT, path), [])

    def test_jobs(self):
        one = self.train("one")
        self.near(one, self.train("two", 2))
        self.near(one, self.train("shards", 2, optim__placement="acme.shards"))
        self.near(one, self.train("device", device__plugin="acme.plain"))
        self.near(one, self.train("device2", 2, device__plugin="acme.plain"))
        self.near(one, self.train("library", 2, comm__plugin="acme.hostcoll"))
        self.train("source", 2, data__train=None, data__source="acme.cycle",
                   data__tokenizer="acme.bytes")
        lines = [x.split("\t") for x in (self.folder / "one" / "metrics.tsv").read_text()
                 .splitlines()]
        self.near(one, [float(x[2]) for x in lines if x[1] == "loss"])
        self.assertEqual(lines[-1][2].split(":")[0], "end")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
