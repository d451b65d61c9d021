"""frozen_test.py WEFT: do plugins that were built with the headers of ABI 0.9 still work?

Builds the templates, one plugin of every kind, with the headers 0.9/include (taken by take.sh) and
nothing else; each passes `weft plugins check`, and jobs train with all of them. A template that
needs a later header does not compile here.
"""
import hashlib
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import built  # noqa: E402  (tests/abi/built.py)

WEFT = Path(sys.argv[1])
FROZEN = Path(__file__).resolve().parent / "0.9"
INCLUDE = FROZEN / "include"
# The one name of the templates that 0.9 lacks. There an axis had no flag, and the core saw itself
# that the batch is split.
FLAGS = [*built.WARNINGS, "-DWEFT_AXIS_BATCH=0"]
STEPS = built.JOB["run.steps"]

# What a link of 0.9 may have and no host calls: write(), and what came with it.
WRITES = """
static weft_status add(weft_link *l, const weft_memory *memory, weft_region **out)
{
    (void)memory, (void)out;
    abort_link(l);
    return WEFT_OK;
}
static void drop(weft_region *r)
{
    (void)r;
}
static weft_status key(weft_region *r, void *out, uint64_t *bytes)
{
    (void)r, (void)out, (void)bytes;
    return WEFT_INTERNAL;
}
static weft_status put(weft_conn *c, const weft_write *w)
{
    (void)w;
    abort_link(c->link);
    return WEFT_OK;
}
"""
TABLE = "static const weft_link_table table = {\n"
CAPS = ".caps = WEFT_LINK_HOST | WEFT_LINK_LOCAL,\n"
SLOTS = ".register_memory = add, .deregister_memory = drop, .key = key, .write = put,\n"


class Frozen(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="weft-frozen-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        cls.plugins = cls.folder / "plugins"
        cls.files = built.compile_all(WEFT, INCLUDE, cls.plugins, FLAGS)
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
        rows = [line.split() for line in (FROZEN / "digests").read_text().splitlines()]
        found = {str(p.relative_to(INCLUDE)): hashlib.sha256(p.read_bytes()).hexdigest()
                 for p in INCLUDE.rglob("*") if p.is_file()}
        self.assertEqual(found, {name: digest for digest, name in rows})

    def test_checks(self):
        for word, path in self.files.items():
            with self.subTest(word):
                self.assertEqual(built.failed_checks(WEFT, path), [])

    def test_a_link_with_write(self):
        """It has gone since (docs/VERSIONS.md); the host ignores the slot and the bit."""
        source = self.folder / "new" / "socket" / "socket.c"
        text = source.read_text()
        for old, new in ((TABLE, WRITES + TABLE),
                         (CAPS, CAPS.replace(",", " | WEFT_LINK_WRITE,") + SLOTS)):
            self.assertEqual(text.count(old), 1)
            text = text.replace(old, new)
        writes, plugins = self.folder / "writes.c", self.folder / "plugins.writes"
        writes.write_text(text)
        shutil.copytree(self.plugins, plugins)
        link = built.compile_one([writes], INCLUDE, plugins, "comm", "acme.socket", FLAGS)
        self.assertEqual(built.failed_checks(WEFT, link), [])
        self.near(self.train("one.writes"), self.train("two.writes", 2, run__plugins=plugins))

    def test_jobs(self):
        one = self.train("one")
        self.near(one, self.train("two", 2))
        self.near(one, self.train("shards", 2, optim__placement="acme.shards"))
        cpu = self.train("cpu", **built.NO_OP)
        self.near(cpu, self.train("device", device__plugin="acme.plain", **built.NO_OP))
        self.near(cpu, self.train("device2", 2, device__plugin="acme.plain", **built.NO_OP))
        self.near(one, self.train("library", 2, comm__plugin="acme.hostcoll"))
        self.train("source", 2, data__train=None, data__source="acme.cycle",
                   data__tokenizer="acme.bytes")
        lines = [x.split("\t") for x in (self.folder / "one" / "metrics.tsv").read_text()
                 .splitlines()]
        self.near(one, [float(x[2]) for x in lines if x[1] == "loss"])
        self.assertEqual(lines[-1][2].split(":")[0], "end")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
