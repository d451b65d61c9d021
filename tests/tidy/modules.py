"""Rules about modules: how large the core is, who calls whom, and what names begin with.

A module is a folder of core/, sdk/ or tools/ with its sub-folders, or a shared folder of plugins/;
the files of tools/ itself are the module weft. Calls come from
the symbols of the build: file A calls file B where A's object needs a symbol that B's object
defines. Tables of functions count as calls, since they name the functions.
"""
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict

import tree
from tree import CODE, blanked, files, lines, name, text

CORE = "base config host graph job schedule resolve plan comm data ckpt run".split()
SDK = "describe check".split()
TOOLS = "launch view tokens formats saved sim doctor cli ops report bench plugins weft".split()
LAYERS = CORE + SDK + TOOLS
# Those before it that a module does without: schedules and plans are pure, the checker is a program
# of its own.
FORBIDDEN = {"schedule": "host graph job", "plan": "config job", "sim": "job",
             "comm": "graph resolve plan", **{tool: "check" for tool in TOOLS}}
CORE_LINES = 56278  # and falling
# What a module's external names begin with, where that is not the module's name. A header of base/
# is a topic of its own, and its name is the prefix.
PREFIXES = {"schedule": ["sched"], "weft": ["cli", "main", "commands"]}
# The same of types alone: the spec is what resolve/ makes and every module above it reads; how
# other programs' weights are read is declared in run/ and defined in formats/.
TYPES = {"resolve": ["spec"], "formats": ["run_foreign"]}


def rule_core():
    """Every module of the core has a line in core/README.md, with a bound for its lines that it
    keeps and nearly reaches; together they have at most CORE_LINES."""
    bounds = {m[1]: int(m[2]) for m in
              re.finditer(r"^\| `(\w+)` \| (\d+) \|", text(tree.ROOT / "core/README.md"), re.M)}
    count = Counter(f.relative_to(tree.ROOT).parts[1] for f in files(*CODE, under=["core"])
                    for _ in lines(f))
    if sorted(bounds) != sorted(CORE):
        yield f"core/README.md has lines for {', '.join(bounds)}"
    for module in bounds:
        if not 0.9 * bounds[module] <= count[module] <= bounds[module]:
            yield (f"core/{module}: {count[module]} lines; core/README.md says at most "
                   f"{bounds[module]}, and it should be close")
    if sum(bounds.values()) > CORE_LINES:
        yield f"core/README.md allows {sum(bounds.values())} lines; {CORE_LINES} at most"


def symbols(paths):
    """{path: (symbols that the object defines, symbols that it needs)}"""
    if not shutil.which("nm"):
        print("no nm here", file=sys.stderr)
        sys.exit(77)
    found = {str(path): (set(), set()) for path in paths}
    listed = subprocess.run(["nm", "-A", *found], capture_output=True, text=True,
                            check=True).stdout if found else ""
    for line in listed.splitlines():
        path, rest = line.split(".o:", 1)
        kind, symbol = rest.split()[-2:]
        has, needs = found[path + ".o"]
        if kind in "TDBRC":
            has.add(symbol)
        elif kind == "U":
            needs.add(symbol)
    return found


def objects(folder, targets):
    """{"file": its symbols} of the objects of a folder; files that are gone are left out."""
    paths = {}
    for path in sorted((tree.BUILD / folder / "CMakeFiles").glob(f"{targets}/**/*.c.o")):
        source = str(path).split(".dir/", 1)[1][:-4]
        if (tree.ROOT / folder / (source + ".c")).exists():
            paths[source] = str(path)
    found = symbols(paths.values())
    return {source: found[path] for source, path in paths.items()}


def module_objects():
    """{"module/file": its symbols}"""
    found = {}
    for folder in ("core", "sdk", "tools"):
        found |= objects(folder, "weft_*.dir")
    return found | {f"weft/{source}": x for source, x in objects("tools", "weft.dir").items()}


def shared_objects():
    """{"module/file": its symbols} of each shared folder of plugins/."""
    return [{f"{folder.name}/{source}": found for source, found
             in objects(name(folder), f"weft_{folder.name}.dir").items()}
            for folder in tree.shared_folders()]


def calls(found):
    """{file: files that it calls}"""
    home = {symbol: f for f, (has, _) in found.items() for symbol in has}
    return {f: {home[s] for s in needs if s in home} - {f} for f, (_, needs) in found.items()}


def reaches(graph, start):
    seen, todo = set(), list(graph[start])
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += graph[node]
    return seen


def circles(graph):
    """The sets of nodes that call each other in a circle."""
    below = {node: reaches(graph, node) for node in graph}
    found = {frozenset(x for x in below[n] if n in below[x]) for n in graph if n in below[n]}
    return sorted(sorted(c) for c in found)


def rule_circles():
    """No circle of calls between the files of a module, nor between modules."""
    graph = calls(module_objects())
    if not graph:
        yield f"{tree.BUILD} has no objects of modules"
    for shared in shared_objects():
        for circle in circles(calls(shared)):
            yield "these call each other in a circle: " + ", ".join(circle)
    between = defaultdict(set)
    for f, called in graph.items():
        between[f.split("/")[0]] |= {c.split("/")[0] for c in called} - {f.split("/")[0]}
    for circle in circles(graph) + circles({m: between[m] for m in list(between)}):
        yield "these call each other in a circle: " + ", ".join(circle)
    for module, called in between.items():
        for other in called:
            if LAYERS.index(other) > LAYERS.index(module):
                yield f"{module} calls {other}, which is above it"


def prefixes(source):
    module, *_, last = source.split("/")
    if module == "base":
        return [last, "weft"]
    return PREFIXES.get(module, [module]) + (["cli_cmd"] if module in TOOLS else [])


def types(path):
    """The typedefs of a header, and the structs, unions and enums that it defines: a declaration
    without a body may name one of another module."""
    body = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", blanked(text(path)), flags=re.M)
    found = set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*{", body))
    inside = 1
    while inside:
        body, inside = re.subn(r"{[^{}]*}", " ", body)
    for typedef in re.findall(r"\btypedef\b([^;]*);", body):
        word = re.search(r"\(\*(\w+)\)", typedef) or \
            re.search(r"(\w+)\s*(?:\([^()]*\)|\[[^\]]*\])*$", typedef)
        found.add(word[1])
    return sorted(found)


def begins(word, allowed):
    return any(word.startswith(p + "_") or word == p for p in allowed)


def rule_prefixes():
    """A module's external names, and the types of its headers, begin with the module's name."""
    for group in [module_objects(), *shared_objects()]:
        for source, (has, _) in group.items():
            allowed = prefixes(source)
            for symbol in sorted(has):
                if not begins(symbol, allowed):
                    yield f"{source}.c: {symbol} does not begin with {allowed[0]}_"
    for f in files(".h", under=["core", "sdk/check", "sdk/describe", "tools"]):
        module, *rest = f.relative_to(tree.ROOT).with_suffix("").parts[1:]
        source = "/".join([module, *rest] if rest else ["weft", module])
        allowed = prefixes(source)
        for word in types(f):
            if not begins(word, allowed + TYPES.get(module, [])):
                yield f"{name(f)}: the type {word} does not begin with {allowed[0]}_"
