"""interfaces_test.py WEFT SOURCE: are the pages of docs/interfaces those of this program?

Every function of every table is named on the page of its interface, every check that a page names
exists, the list of ops for a device is whole, and VERSIONS.md puts every struct into one sort.
"""
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "grown")]
import built  # noqa: E402  (tests/abi/built.py)
import grow  # noqa: E402  (tests/abi/grown/grow.py)

WEFT, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
HEADERS = "".join(p.read_text() for p in sorted((SOURCE / "sdk/include/weft").glob("*.h")))
PAGES = {p.stem: p.read_text() for p in (SOURCE / "docs/interfaces").glob("*.md")}
TABLES = {
    "coll": ["weft_coll_table"],
    "data": ["weft_data_table"],
    "device": ["weft_device_table", "weft_kernel"],
    "host": ["weft_host", "weft_conf", "weft_host_tls", "weft_host_component", "weft_host_trace",
             "weft_host_kv", "weft_host_metrics"],
    "link": ["weft_link_table"],
    "model": ["weft_model_table"],
    "op": ["weft_op"],
    "placement": ["weft_placement"],
    "rule": ["weft_rule"],
    "sink": ["weft_sink_table"],
    "strategy": ["weft_strategy", "weft_view", "weft_edits"],
    "tokenizer": ["weft_tokenizer_table"],
}
HEADINGS = ["What", "Life", "Functions", "Lengths and limits", "Errors",
            "What the checker tests", "A complete sample", "Test your own"]


def members(struct):
    body = re.search(rf"typedef struct {struct} \{{\n(.*?)\n\}} {struct};", HEADERS, re.S)[1]
    return re.findall(r"\(\*(\w+)\)\(", body)


class Pages(unittest.TestCase):
    def test_every_interface_has_a_page(self):
        self.assertEqual(set(PAGES), set(TABLES))
        entry = (SOURCE / "docs" / "PLUGINS.md").read_text()
        for page in PAGES:
            self.assertIn(f"(interfaces/{page}.md)", entry)

    def test_the_same_questions_in_the_same_order(self):
        for page, text in PAGES.items():
            found = re.findall(r"^## (.*)$", text, re.M)
            kept = [h for h in HEADINGS if any(x.startswith(h) for x in found)]
            self.assertEqual(kept, HEADINGS, page)
            places = [next(i for i, x in enumerate(found) if x.startswith(h)) for h in HEADINGS]
            self.assertEqual(places, sorted(places), page)

    def test_every_function_is_named(self):
        for page, structs in TABLES.items():
            for struct in structs:
                for name in members(struct):
                    self.assertIn(f"`{name}()`", PAGES[page], f"{page}.md, {struct}")

    def test_no_function_is_made_up(self):
        known = set(re.findall(r"\(\*(\w+)\)\(", HEADERS)) | set(re.findall(r"\b(\w+)\(", HEADERS))
        for page, text in PAGES.items():
            text = re.sub(r"^```c\n.*?^```", "", text, flags=re.M | re.S)
            for name in re.findall(r"`(?:\w+->)*(\w+)\(\)`", text):
                self.assertIn(name, known | {"exit"}, f"{page}.md")

    def test_every_check_exists(self):
        listed = {int(line.split()[0])
                  for line in built.run([WEFT, "plugins", "check", "--list"]).stdout.splitlines()}
        for page, text in PAGES.items():
            part = text.split("## What the checker tests")[1].split("\n## ")[0]
            part = re.sub(r"\(https?:[^)]*\)|`[^`]*`", "", part)
            numbers = [(int(a), int(b or a)) for a, b in re.findall(r"\b(\d+)(?: to (\d+))?\b",
                                                                     part)]
            self.assertGreater(len(numbers), 3, page)
            for first, last in numbers:
                self.assertLessEqual({first, last}, listed, f"{page}.md: {first} to {last}")

    def test_every_check_of_an_interface_is_named(self):
        rows = [line.split("|") for line in (SOURCE / "docs/CHECKS.md").read_text().splitlines()
                if re.match(r"\| \d+ \|", line)]
        of = {int(row[1]): row[4].replace(",", " ").split() for row in rows}
        for page, text in PAGES.items():
            if page == "host":
                continue
            ours = {f"weft.{page}/1", "all"} | ({"weft.kernel/1"} if page == "device" else set())
            part = text.split("## What the checker tests")[1].split("\n## ")[0]
            named = set()
            for a, b in re.findall(r"\b(\d+)(?: to (\d+))?\b", part):
                named.update(range(int(a), int(b or a) + 1))
            missing = {n for n, interfaces in of.items() if ours & set(interfaces)} - named
            self.assertEqual(missing, set(), f"{page}.md")

    def test_every_op_is_listed_for_devices(self):
        ids = [line.split()[0] for line in built.run([WEFT, "ops"]).stdout.splitlines()]
        self.assertGreater(len(ids), 40)
        for name in ids:
            self.assertIn(f"`{name}`", PAGES["device"])

    def test_every_struct_has_a_sort(self):
        text = (SOURCE / "docs" / "VERSIONS.md").read_text()
        part = text.split("## Sorts of structs")[1].split("\n## ")[0]
        first = [line.split("|")[2] for line in part.splitlines() if line.startswith("| ")]
        named = re.findall(r"`(weft_\w+)`", " ".join(first))
        self.assertEqual(len(named), len(set(named)), "a struct has two sorts")
        grown = {m[1] for m in grow.STRUCT.finditer(HEADERS)}
        arrays = {"weft_axis"} | {x for x in re.findall(r"^WEFT_FREEZE\((\w+),", HEADERS, re.M)
                                  if x not in grown}
        self.assertEqual(set(named), grown | arrays)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
