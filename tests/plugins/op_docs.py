"""op_docs.py WEFT SOURCE PLACE: what `weft ops` says of a plugin's ops whose docs are absent or
wrong (tests/plugins/op_docs.c)."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
PLACE = "run.plugins=" + os.path.abspath(sys.argv.pop(3))
import started  # noqa: E402  (tests/cli/started.py)

UNREAD = 'op test.unread: axes of its doc, "", at "A": this axis of an operand has no name'
UNTRUE = "takes one tensor of one axis or more"


class OpDocs(started.Case):
    def test_wrong_docs_do_not_hide_the_others(self):
        out, err = self.weft("ops", PLACE)
        self.assertEqual([" ".join(line.split()) for line in out.splitlines()[-5:]],
                         ["test.absent an op of the test; of org.test.docs",
                          "test.astray y = x; of org.test.docs",
                          "test.right y = x; of org.test.docs",
                          "test.unread an op of the test; of org.test.docs",
                          "test.untrue an op of the test; of org.test.docs"])
        self.assertIn(UNREAD, err)
        self.assertIn(UNTRUE, err)
        self.assertEqual(len(err.splitlines()), 2)
        ops = json.loads(self.weft("ops", "--json", PLACE)[0])["ops"]
        self.assertEqual({op["id"]: "forms" in op for op in ops if op["plugin"]},
                         {"test.absent": False, "test.astray": True, "test.right": True,
                          "test.unread": False, "test.untrue": False})

    def test_one_at_a_time(self):
        self.assertIn("its table has no doc", self.weft("ops", "test.absent", PLACE)[0])
        out = " ".join(self.weft("ops", "test.right", PLACE)[0].split())
        self.assertIn("split along axis y split", out)
        self.refused("ops", "test.unread", PLACE, why=UNREAD)
        self.refused("ops", "test.untrue", PLACE, why="does not take the operands of its own doc")
        out = " ".join(self.weft("ops", "test.astray", PLACE)[0].split())
        self.assertIn("split along axis refused", out)

    def test_the_page_is_of_the_core_alone(self):
        self.assertEqual(self.weft("ops", "--markdown")[0],
                         self.weft("ops", "--markdown", PLACE)[0])


if __name__ == "__main__":
    started.main()
