#!/usr/bin/env python3
"""names.py WEFT SOURCE: are the names that plugins use those of names.golden?

Ids of ops with their operands and attributes, axes, inputs, scalars, blocks, parameters with their
roles, mesh axes of the strategies that come with weft, and interfaces. Numbers of statuses and
element types are in abi.layout. A name may be added; one that plugins have seen stays, with its
meaning. `names.py WEFT SOURCE print` prints the list."""
import json
import os
import re
import subprocess
import sys
import unittest

WEFT, SOURCE = sys.argv[1:3]
GOLDEN = os.path.join(SOURCE, "tests", "abi", "names.golden")

GONE = """These names are in names.golden and not in the program, or mean something else there:
{lines}
Plugins that are built use them. A name of the ABI is not removed and does not change its meaning:
put it back as it was, and give what is new a name of its own beside it."""
NEW = """These names are new:
{lines}
An addition to the ABI is allowed with a new minor version: raise WEFT_ABI_MINOR in
sdk/include/weft/plugin.h, unless this release has done so already, run
`weft ops --markdown > docs/OPS.md`, and then `{command} > tests/abi/names.golden`."""


def form_line(form):
    def side(operands):
        return " ".join(f"{o['name']}:{o['pattern']}" for o in operands)
    return f"{side(form['inputs'])} -> {side(form['outputs'])}"


def op_lines(op):
    at = f"op {op['id']}"
    # a form without its optional input follows the form with it
    forms = [f for f, before in zip(op["forms"], [None, *op["forms"]])
             if not before or f["inputs"] != before["inputs"][:-1] or
             not before["inputs"][-1]["optional"]]
    for i, form in enumerate(forms):
        yield f"{at} form {i + 1} = {form_line(form)}"
    for a in op["attributes"]:
        default = "required" if a["default"] is None else f"{a['default']:g}"
        yield f"{at} attribute {a['key']} = {a['type']} {default}"
    if op["first_input"]:
        of = op["forms"][0]["inputs"][op["first_input"] - 1]
        if "numbered" in op["flags"]:
            for key in ("seed", "first", "whole.K"):
                yield f"{at} attribute {key} = int, of the elements of {of['name']}"
        else:
            axis = of["axes"][op["first_axis"]]
            yield f"{at} attribute first = int, along {axis} of {of['name']}"
    for flag in op["flags"]:
        yield f"{at} flag {flag} = {op['ew'] if flag == 'elementwise' else 'yes'}"


def interfaces():
    folder = os.path.join(SOURCE, "sdk", "include", "weft")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            yield from re.findall(r'"(weft\.[a-z.]+/\d+)"', f.read())


def all_lines():
    env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_PLUGIN")}
    done = subprocess.run([WEFT, "ops", "--json"], capture_output=True, text=True, check=True,
                          env=env)
    said = json.loads(done.stdout)
    names = said["names"]
    found = [line for op in said["ops"] if not op["plugin"] for line in op_lines(op)]
    for kind, one in (("axes", "axis"), ("inputs", "input"), ("scalars", "scalar"),
                      ("blocks", "block"), ("reserved_scalars", "reserved scalar"),
                      ("nodes", "node"), ("device_ops", "device op")):
        found += [f"{one} {e['name']}" for e in names[kind]]
    for e in names["mesh_axes"]:
        found.append(f"mesh axis {e['name']} = parallel.{e['key']} of {e['strategy']}")
    for family in names["families"]:
        for i in family["inputs"]:
            found.append(f"{family['name']} input {i['name']} = [{', '.join(i['axes'])}]")
        for p in family["params"]:
            found.append(f"{family['name']} parameter {p['name']} = [{', '.join(p['axes'])}] "
                         f"role {p['role']}")
    found += [f"interface {i}" for i in interfaces()]
    return sorted(set(found))


def difference(kept, now):
    """What to do about it, one sentence for what is gone or changed and one for what is new."""
    keys = {line.split(" = ")[0] for line in kept}
    gone = [f"  - {line}" for line in kept if line not in now]
    changed = [f"  + {line}" for line in now if line not in kept and line.split(" = ")[0] in keys]
    new = [f"  + {line}" for line in now if line.split(" = ")[0] not in keys]
    command = f"python3 -B tests/abi/names.py {WEFT} . print"
    return [text.format(lines="\n".join(lines), command=command)
            for text, lines in ((GONE, gone + changed), (NEW, new)) if lines]


class Names(unittest.TestCase):
    def test_names_are_those_of_the_golden_file(self):
        with open(GOLDEN, encoding="utf-8") as f:
            said = difference(f.read().splitlines(), all_lines())
        self.assertEqual(said, [], "\n\n" + "\n\n".join(said))

    def test_every_kind_is_there(self):
        lines = all_lines()
        for line in ("op linear form 1 = x:cT*I w:c*O*I b:c*O? -> y:cT*O",
                     "op attention form 2 = q:cTHD k:cTGD v:cTGD -> y:cTHD lse:fTH",
                     "op attention attribute sequence = int required",
                     "op add flag elementwise = 2",
                     "op embedding attribute first = int, along vocab of table", "axis kv_heads",
                     "scalar lr", "node shift", "gpt2 input positions = [tokens]",
                     "mesh axis tp = parallel.tp of tp", "interface weft.op/1",
                     "llama parameter block.N.attn.k.w = [kv_heads, head_dim, embed] "
                     "role attention.key"):
            self.assertIn(line, lines)

    def test_sentences(self):
        now = all_lines()
        (gone,) = difference(now + ["op sine form 1 = a:cA -> y:cA"], now)
        self.assertIn("- op sine form 1", gone)
        self.assertIn("put it back", gone)
        self.assertNotIn("WEFT_ABI_MINOR", gone)
        (new,) = difference(now[1:], now)
        self.assertIn(f"+ {now[0]}", new)
        self.assertIn("raise WEFT_ABI_MINOR", new)
        self.assertNotIn("put it back", new)
        other = [line.replace("w:c*O*I", "w:c*I*O") for line in now]
        (changed,) = difference(other, now)
        for sign, line in (("-", "w:c*I*O"), ("+", "w:c*O*I")):
            self.assertRegex(changed, rf"(?m)^  \{sign} op linear form 1 = .*{re.escape(line)}")
        self.assertEqual(len(difference(now[1:] + ["axis gone"], now)), 2)


if __name__ == "__main__":
    if sys.argv[3:] == ["print"]:
        print("\n".join(all_lines()))
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
