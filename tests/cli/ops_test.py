"""weft ops: what it says of one op and of all, and docs/OPS.md, the page made of it."""
import json
import os
import re

import started


def source(*path):
    with open(os.path.join(started.SOURCE, *path), encoding="utf-8") as f:
        return f.read()


class Ops(started.Case):
    def all(self):
        return json.loads(self.weft("ops", "--json")[0])

    def test_the_page_is_current(self):
        self.assertEqual(source("docs", "OPS.md"), self.weft("ops", "--markdown")[0],
                         "docs/OPS.md is old: weft ops --markdown > docs/OPS.md")

    def test_all_are_listed(self):
        ids = [op["id"] for op in self.all()["ops"]]
        self.assertEqual([line.split()[0] for line in self.weft("ops")[0].splitlines()], ids)
        builtin = ("plugins", "op", "builtin")
        tables = "".join(source(*builtin, f) for f in
                         os.listdir(os.path.join(started.SOURCE, *builtin)))
        self.assertEqual(sorted(re.findall(r'^    (?:EW|OP)\("([\w.]+)",', tables, re.M)),
                         sorted(ids))

    def test_one_explains_itself(self):
        out = " ".join(self.weft("ops", "linear")[0].split())
        for text in ("linear: y = x w^T + b", "x [tokens, in..] compute gradient: yes",
                     "b [out..] compute gradient: yes; may be absent",
                     "split along in refused; without b: y partial sum",
                     "partial sums x, b y partial sum",
                     "gradient: of y; appends linear.dx linear.dw colsum",
                     "FLOPs: 2 tokens in out"):
            self.assertIn(text, out)
        out = " ".join(self.weft("ops", "attention")[0].split())
        for text in ("form 2 of 4", "split along heads and kv_heads y, lse split",
                     "sequence int required tokens of one sequence", "causal int 1 "):
            self.assertIn(text, out)
        out = " ".join(self.weft("ops", "embedding.dw")[0].split())
        for text in ("dtable [vocab, features..] gradient", "kernels can add to its outputs",
                     "of the last input only the shape is used",
                     'the attribute "first", an int: where the rank\'s part of the axis vocab of '
                     "table begins"):
            self.assertIn(text, out)
        self.assertIn("y may overwrite a", self.weft("ops", "add")[0])

    def test_json_of_one(self):
        one = json.loads(self.weft("ops", "--json", "rope")[0])
        self.assertEqual(one, next(op for op in self.all()["ops"] if op["id"] == "rope"))
        form, placed = one["forms"]
        self.assertEqual([i["pattern"] for i in placed["inputs"]], ["cTHD", "iT"])
        self.assertEqual([i["pattern"] for i in form["inputs"]], ["cTHD"])
        self.assertIn({"split": ["head_dim"], "partial": [], "result": None}, form["placements"])
        self.assertIn({"split": [], "partial": ["x"], "result": "y partial sum"},
                      form["placements"])
        self.assertEqual(form["gradient"],
                         {"of": ["y"], "inputs": ["x"], "params": ["x"], "ops": "rope"})
        self.assertEqual([(a["key"], a["type"], a["default"]) for a in one["attributes"]],
                         [("sequence", "int", None), ("theta", "real", 10000.0),
                          ("sign", "int", 1.0), ("factor", "real", 1.0),
                          ("original", "int", 0.0), ("low", "real", 1.0), ("high", "real", 4.0)])

    def test_refusals(self):
        self.refused("ops", "liner", why="did you mean 'linear'?")
        self.refused("ops", "a", "b", why="one name at a time")
        self.refused("ops", "no.ini", why="cannot open the job file no.ini")
        self.refused("ops", "linear", "--markdown", why="--markdown writes the page of all ops")

    def test_every_name_of_the_families_has_a_meaning(self):
        names = self.all()["names"]

        def known(kind):
            return {entry["name"] for entry in names[kind]}
        self.assertTrue(all(e["meaning"] for kind in names if kind != "families"
                            for e in names[kind]))
        families = names["families"]
        self.assertEqual(["gpt2", "llama"], [f["name"] for f in families])
        roles = re.search(r"whatever its family calls it.*?a third", source(
            "sdk", "include", "weft", "graph.h"), re.S).group()
        roles = set(re.findall(r'"([\w.]+)"', roles))
        axes, used = {"sums"}, set()  # sums: of xent.sums
        for family in families:
            self.assertLessEqual(set(family["blocks"]), known("blocks"))
            self.assertLessEqual({i["name"] for i in family["inputs"]}, known("inputs"))
            for tensor in family["params"] + family["inputs"]:
                axes |= set(tensor["axes"])
            for param in family["params"]:
                self.assertIn(param["role"], roles, f"the role of {param['name']}: see role_of() "
                                                    "of plugins/model/layers/layers.c")
                used.add(param["role"])
        self.assertEqual(axes, known("axes"))
        self.assertEqual(used, roles)
        inputs = {i["name"] for f in families for i in f["inputs"]}
        of_jobs = {"first_token", "document_positions"}  # of dropout, and of data with documents
        self.assertEqual(inputs | of_jobs, known("inputs"))

    def test_scalars_are_those_of_the_header(self):
        names = self.all()["names"]
        header = source("sdk", "include", "weft", "graph.h")
        listed = re.search(r"Scalars with a meaning.*?\*/", header, re.S).group()
        said = re.findall(r'^ \*   "(\w+)" +(.*?)(?: \*/)?$', listed, re.M)
        self.assertEqual([e["name"] for e in names["scalars"]], [name for name, _ in said])
        for entry, (_, meaning) in zip(names["scalars"], said):
            self.assertEqual(entry["meaning"], meaning)
        core = re.search(r"is_core.*?names\[\] = \{(.*?)\};", source("core", "plan", "scalar.c"),
                         re.S).group(1)
        self.assertEqual(set(re.findall(r'"([\w.]+)"', core)),
                         {e["name"] for k in ("scalars", "reserved_scalars") for e in names[k]})

    def test_nodes_are_those_of_the_graph(self):
        found = set(re.findall(r'return "(\w+)";', source("core", "graph", "builder_comm.c")))
        builder = source("core", "graph", "builder.c")
        found |= set(re.findall(r'graph_add_node\(g, "(\w+)"', builder))
        self.assertEqual({e["name"] for e in self.all()["names"]["nodes"]}, found)

    def test_opcodes_are_those_of_the_header(self):
        numbers = dict(re.findall(r"#define WEFT_EW_(\w+) (\d+)u",
                                  source("sdk", "include", "weft", "op.h")))
        numbers.pop("SCALAR", None)  # a flag
        ops = {op["id"]: op["ew"] for op in self.all()["ops"] if "elementwise" in op["flags"]}
        for other_axes in ("rename", "merge", "unmerge"):
            self.assertEqual(ops.pop(other_axes), int(numbers["COPY"]))
        self.assertEqual({name.upper(): str(ew) for name, ew in ops.items()} | {"CONST": "19"},
                         numbers)


if __name__ == "__main__":
    started.main()
