"""Does the tree keep its architecture and its form? Sizes are no rules: docs/STYLE.md.

tidy.py RULE BUILD_DIR checks one rule over the whole tree and prints each place that breaks it;
status 0: none does, 1: some do, 77: a program that the rule needs is missing. `tidy.py list`
prints the rules. A rule is a function; what it yields is a finding.

tree.py reads the tree; modules.py has the rules about modules, dialect.py those about one way to
write the same thing.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import tree
from dialect import rule_dialect  # noqa: F401, found by its name
from modules import FORBIDDEN, LAYERS, rule_circles, rule_core, rule_prefixes  # noqa: F401
from tree import CODE, SCRIPTS, blanked, files, functions, name, shipped, text

COLUMNS = 100
IFS_PER_1000 = 4
BANNED = ("strcpy strcat sprintf vsprintf gets atoi atol atoll atof alloca system popen tmpnam "
          "mktemp rand srand setjmp longjmp").split()


# --- form ---

def rule_columns():
    """A line of code has at most 100 columns, no tab and no blank at its end; the last one ends."""
    others = [tree.ROOT / "CMakeLists.txt", tree.ROOT / ".ci/run"] + files("CMakeLists.txt", ".ini")
    for f in files(*CODE, *SCRIPTS) + others:
        if not text(f).endswith("\n") and text(f):
            yield f"{name(f)}: the last line does not end"
        for i, line in enumerate(text(f).split("\n")):
            if len(line) > COLUMNS:
                yield f"{name(f)}:{i + 1}: {len(line)} columns; {COLUMNS} at most"
            if line != line.rstrip() or "\t" in line:
                yield f"{name(f)}:{i + 1}: a tab, or a blank at the end"


def rule_conditionals():
    """At most 4 #if a thousand lines that ship, and none inside a function."""
    total = count = 0
    for f in files(*CODE):
        body = blanked(text(f)).split("\n")
        inside = {i for _, at, n in functions(f) for i in range(at, at + n)}
        for i, line in enumerate(body):
            guard = line.startswith("#ifndef") and body[i + 1].startswith("#define")
            if not re.match(r"\s*#\s*if", line) or guard:
                continue
            count += shipped(f)
            if i in inside:
                yield f"{name(f)}:{i + 1}: a conditional inside a function"
        total += len(body) if shipped(f) else 0
    if count * 1000 > IFS_PER_1000 * total:
        yield f"{count} conditionals in {total} lines; {IFS_PER_1000} a thousand at most"


# --- who may see whom ---

def includes(path):
    """(line, text between quotes or brackets, is it quoted)"""
    for i, line in enumerate(blanked(text(path), strings=False).split("\n")):
        m = re.match(r'\s*#\s*include\s*(["<])([^">]+)', line)
        if m:
            yield i + 1, m.group(2), m.group(1) == '"'


def rule_layers():
    """A module includes those before it, the core none of sdk/ and tools/; plugins see weft/,
    themselves and the shared folders of their kind; shared folders see weft/ and themselves; public
    headers, each other."""
    for f in files(*CODE, under=["core", "sdk/check", "sdk/describe", "tools"]):
        own = f.relative_to(tree.ROOT).parts[1]
        own = own if own in LAYERS else "weft"
        for at, what, quoted in includes(f):
            part = what.split("/")[0] if "/" in what else "weft"
            if quoted and (part not in LAYERS or LAYERS.index(part) > LAYERS.index(own)
                           or part in FORBIDDEN.get(own, "").split()):
                yield f"{name(f)}:{at}: {own}/ includes {what}"
    for f in files(*CODE, under=["plugins", "tests/openness/plugins"]):
        parts = f.relative_to(tree.ROOT).parts  # plugins/KIND/NAME/...
        own = tree.ROOT.joinpath(*parts[:3])
        shared = tree.shared_folders(parts[1]) if parts[0] == "plugins" else []
        seen = [f.parent, own] + (shared if own not in shared else [])
        for at, what, quoted in includes(f):
            if quoted and (".." in what or not any((d / what).exists() for d in seen)):
                yield f"{name(f)}:{at}: {what} is not in the plugin's own folder or a shared one"
    for f in files(*CODE, under=["sdk/include"]):
        for at, what, quoted in includes(f):
            if quoted or not re.match(r"weft/|std(def|int|io)\.h$|string\.h$", what):
                yield f"{name(f)}:{at}: a public header includes {what}"


def plugin_names():
    folders = (tree.ROOT / "plugins").glob("*/*")
    names = {p.name for p in folders if p.is_dir() and p not in tree.shared_folders()}
    for f in files(*CODE, under=["plugins"]):
        names |= set(re.findall(r'"(\w+)", *"[^"]*", *(?:NULL|\w*options)', text(f)))
        names |= set(re.findall(r'weft_mesh_axis \w+ = \{[^"]*"(\w+)"', text(f)))
    return names | set("adamw cuda nccl verbs ucx mpi tp pp hybrid zero1 zero2 zero3".split())


# Plugins of data whose names are also words of the core: an axis and a field, a unit, and a format
# of `weft import`.
WORDS = {"tokens", "text", "bytes", "hf"}


def rule_names():
    """The core knows kinds, never names: no plugin or mesh axis stands in its logic as a string."""
    known = plugin_names() - WORDS
    for f in files(".c", ".h", under=["core", "sdk/check", "sdk/describe", "tools"]):
        if name(f) == "core/config/options.c":  # what a key that is left out means
            continue
        for i, line in enumerate(blanked(text(f), strings=False).split("\n")):
            for word in re.findall(r'"([^"]*)"', line):
                if word in known:
                    yield f'{name(f)}:{i + 1}: the core names "{word}"'


# --- words ---

def rule_banned_calls():
    """Calls that cannot be told how much room there is, or that run a shell."""
    call = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for f in files(*CODE):
        for i, line in enumerate(blanked(text(f)).split("\n")):
            for word in call.findall(line):
                yield f"{name(f)}:{i + 1}: {word}()"


def rule_unfinished():
    """Nothing says that it is still to be done."""
    words = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]
    soft = ["st" + "ub", "place" + "holder", "for " + "now", "not yet " + "implemented"]
    mark = re.compile(r"\b(" + "|".join(words) + r")\b|(?i:\b(" + "|".join(soft) + r")s?\b)")
    for f in files(*CODE, *SCRIPTS, ".md", ".txt", ".ini") + list(tree.ROOT.glob("*.md")):
        for i, line in enumerate(text(f).split("\n")):
            if mark.search(line):
                yield f"{name(f)}:{i + 1}: {line.strip()}"


def rule_own_machine():
    """No path of one machine: what is written here works on any."""
    path = re.compile(r"(?<![\w.])/(work|home|root|mnt|Users)/\w|/tmp/build")
    for f in files(*CODE, *SCRIPTS, ".md", ".txt", ".ini", ".json") + list(tree.ROOT.glob("*.md")):
        if f == Path(__file__):
            continue
        for i, line in enumerate(text(f).split("\n")):
            if path.search(line):
                yield f"{name(f)}:{i + 1}: {line.strip()[:80]}"


def rule_control_flow_in_macros():
    """No macro jumps: a goto or return has to be seen where it happens.

    WEFT_PLUGIN() is a whole function, so that what it returns from is itself."""
    for f in files(*CODE):
        source = blanked(text(f)).replace("\\\n", " \x01")
        for i, line in enumerate(source.split("\n")):
            whole = re.match(r"#define WEFT_PLUGIN\(", line) and "weft_plugin_entry(void)" in line
            if re.match(r"\s*#\s*define", line) and not whole and \
                    re.search(r"\b(goto|return)\b", line):
                at = source.split("\n")[:i + 1]
                yield f"{name(f)}:{i + 1 + sum(x.count(chr(1)) for x in at[:-1])}: a macro jumps"


# --- what belongs together ---

def globbed(path):
    """A CMakeLists.txt beside it, or up to two folders above, has a pattern: vec_${isa}.h"""
    modules = [tree.ROOT / "cmake/weft_add_modules.cmake"] if name(path).startswith(
        ("core/", "sdk/", "tools/")) else []
    for lists in [folder / "CMakeLists.txt" for folder in list(path.parents)[:3]] + modules:
        for word in re.findall(r"[\w$*{}.]+", text(lists)) if lists.exists() else []:
            pattern = re.sub(r"\$\{\w+\}", "*", word.replace("${CMAKE_CURRENT_SOURCE_DIR}", ""))
            if "*" in pattern and "." in pattern and fnmatch(path.name, pattern):
                return True
    return False


def rule_dead_files():
    """Every source is compiled or named by a script beside it, every header and script is used."""
    database = json.loads((tree.BUILD / "compile_commands.json").read_text())
    compiled = {str(Path(x["directory"], x["file"]).resolve()) for x in database}
    everything = {f: text(f) for f in files(*CODE, *SCRIPTS, ".txt", ".md", ".in")
                  + [tree.ROOT / "CMakeLists.txt", tree.ROOT / "Makefile", tree.ROOT / ".ci/run"]}
    for f in files(*CODE, *SCRIPTS):
        if str(f) in compiled or globbed(f):
            continue
        named = any(f.name in t for g, t in everything.items() if g != f)
        if f.suffix == ".h":
            named = any(f"{f.name}\"" in t or f"{f.name}>" in t for g, t in everything.items())
        if not named:
            yield f"{name(f)}: nothing compiles, includes or runs it"


def rule_samples():
    """A C sample in a document stands, line for line, in a file that is compiled, or in a template,
    where @NAME@ is any name of acme's."""
    def nameless(source):
        return re.sub(r"acme\.[a-z]+", "@NAME@", source)
    sources = nameless("\n".join(text(f) for f in files(*CODE) + files(".c.in")))
    for f in list(tree.ROOT.glob("*.md")) + files(".md"):
        for block in re.findall(r"^```c\n(.*?)^```", text(f), re.S | re.M):
            if nameless(block) not in sources:
                yield f"{name(f)}: no source has this sample: {block.splitlines()[0]} ..."


def rule_links():
    """Every file that a document points to is there."""
    for f in list(tree.ROOT.glob("*.md")) + files(".md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(f)):
            if not (f.parent / target).exists():
                yield f"{name(f)}: there is no {target}"


def makes(lists, call):
    """What the calls of a CMake file make: (pattern, words that ${} stands for: those of the file,
    and names of files below it and of plugins)."""
    source = re.sub(r"weft_add_plugin\((\S+) (\S+)", r"add_library(weft_\1_\2",
                    re.sub(r"#.*|if\([^)]*\)", "", text(lists)))
    for parts in re.findall(r"weft_add_modules\(([^)]*)\)", source):
        source += "".join(f"add_library(weft_{part} " for part in parts.split())
    names = [p.stem for p in [*lists.parent.rglob("*"), *(tree.ROOT / "plugins").glob("*/*")]]
    words = {*re.findall(r"\w+", source), *names, *(n.removesuffix("_test") for n in names)}
    for made in set(re.findall(rf"(?:{call})([\w.${{}}]+)", source)):
        yield re.sub(r"\\\$\\\{\w+\\\}", r"(\\w+)", re.escape(made)), words


def rule_cmake_names():
    """What if(TARGET) of a CMake file and tests/seconds.txt name is made by some CMake file."""
    everything = files("CMakeLists.txt", ".cmake")
    asked = [(name(f), word, r"add_(?:library|executable)\(")
             for f in everything for word in re.findall(r"\bTARGET ([\w.]+)[) ]", text(f))]
    asked += [("tests/seconds.txt", line.split()[1], r"add_test\(NAME |weft_add_\w*test\w*\(")
              for line in text(tree.ROOT / "tests/seconds.txt").splitlines() if line[0] != "#"]
    made = {call: [m for f in everything for m in makes(f, call)]
            for call in {call for _, _, call in asked}}
    for where, word, call in asked:
        found = [(re.fullmatch(pattern, word), words) for pattern, words in made[call]]
        if not any(m and words.issuperset(m.groups()) for m, words in found):
            yield f"{where}: nothing makes {word}"


# --- other programs ---

def need(program):
    if not shutil.which(program):
        print(f"no {program} here", file=sys.stderr)
        sys.exit(77)


def rule_format():
    """clang-format 14 would change nothing."""
    need("clang-format")
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if " 14." not in version:
        print(f"other versions format otherwise: {version.strip()}", file=sys.stderr)
        sys.exit(77)
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files(*CODE))],
                          cwd=tree.ROOT, capture_output=True, text=True)
    for f in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M))):
        yield f"{name(Path(f))}: run clang-format -i"


def commands():
    """(directory, words without the output) of each C file of ours that the build compiles."""
    for x in json.loads((tree.BUILD / "compile_commands.json").read_text()):
        words = x["command"].split()
        if not x["file"].endswith(".c") or not x["file"].startswith(str(tree.ROOT)):
            continue
        at = words.index("-o")
        keep = [w.replace('\\"', '"') for w in words[1:at] + words[at + 2:] if w != "-c"]
        yield x["directory"], [w for w in keep if not w.startswith(("-fsanitize", "-fno-sanitize"))]


def compile_all(compiler, *extra):
    """Each distinct compilation again, for its warnings alone."""
    def run(work):
        directory, words = work
        done = subprocess.run([compiler, *words, *extra, "-fsyntax-only", "-Werror"],
                              cwd=directory, capture_output=True, text=True)
        return done.stderr if done.returncode else ""
    once = {json.dumps(c): c for c in commands()}.values()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for out in pool.map(run, once):
            yield from re.findall(r"^\S+:\d+:.*(?:error|warning).*$", out, re.M)[:3] if out else []


def clang_at_once(work):
    """What clang says about files with the same flags: one process of its compiler proper for all,
    since starting it takes longer than most files do."""
    (directory, *flags), sources = work
    words = ["clang", *flags, "-fsyntax-only", "-Werror"]
    planned = subprocess.run([*words, "-###", sources[0]], cwd=directory, capture_output=True,
                             text=True)
    line = next((x for x in planned.stderr.splitlines() if '"-cc1"' in x), None)
    if line is None:
        return f"clang:0: error: {planned.stderr}"
    proper = [w for w in shlex.split(line) if w != sources[0]]
    done = subprocess.run([*proper, *sources], cwd=directory, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def rule_clang():
    """clang has no warning."""
    need("clang")
    groups = {}
    for directory, words in commands():
        groups.setdefault((directory, *words[:-1]), set()).add(words[-1])
    work = [(flags, sorted(sources)) for flags, sources in groups.items()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for out in pool.map(clang_at_once, sorted(work, key=lambda w: -len(w[1]))):
            found = re.findall(r"^\S+:\d+:.*(?:error|warning).*$", out, re.M)
            yield from found or [out] * bool(out)


def rule_statuses():
    """No status is ignored: gcc sees that in C23, where the enum itself can be marked."""
    need("gcc")
    yield from compile_all("gcc", "-std=gnu2x")


BAD = {
    "core/base/a.c": '#include "plan/plan.h"\nint f(void)\n{\n#if 1\n    system("sgd");\n'
                     "#endif\n}\n#define M(x) return x\n",
    "core/plan/t.h": "struct plan_one;\ntypedef VEC(int) list;\nenum kind { A, B };\n"
                     "typedef struct plan_two {\n    int list;\n} two[2];\n"
                     "typedef int (*finder)(int list);\n",
    "core/plan/c.c": '#include "job/job.h"\n',
    "core/run/d.c": '#include "launch/launch.h"\n',
    "core/base/b.c": "int x; // " + "TO" + "DO" + " " * 100 + "\n",
    "plugins/comm/tcp/t.c": '#include "../up.h"\n',
    "plugins/comm/tcp/t.h": "int t;\n",
    "plugins/comm/shared/CMakeLists.txt": "add_library(weft_shared STATIC one.c two.c)\n",
    "plugins/comm/shared/s.h": '#include "t.h"\n',
    "plugins/optim/sgd/CMakeLists.txt": "weft_add_plugin(optim sgd SOURCES s.c)\n",
    "plugins/optim/sgd/other.c": '#include "s.h"\n',
    "plugins/optim/sgd/s.c": 'const char *p = "/ho' + 'me/me";\n',
    "sdk/include/weft/w.h": "int f(void);\n",
    "tests/CMakeLists.txt": "if(TARGET gone)\nadd_test(NAME a.${name} COMMAND a)\n",
    "tests/seconds.txt": " 2 a.gone\n",
    "docs/a.md": "```c\nint no_such_thing;\n```\n[x](nothing.h)\n",
}
# Each is a finding of rule_dialect.
BAD_DIALECT = ("    weft_status s = f();", "    if (st)", "    if (!st && x)",
               "    return st ? st : f();", "    if (p == NULL)", "    while (p != NULL)",
               "    if (!config_f(x))")
# What calls what, and so what each object of the core needs.
BAD_CALLS = {"plan/one": "int plan_two(void); int plan_one(void) { return plan_two(); }",
             "plan/two": "int plan_one(void); int up_there(void); int plan_two(void); "
                         "int plan_two(void) { return plan_one() + up_there(); }",
             "base/up": "int plan_two(void); int up_there(void) { return plan_two(); }",
             "data/alone": "int alone(void); int alone(void) { return 1; }"}
# The same of a shared folder of plugins.
BAD_SHARED = {"one": "int shared_two(void); int stray(void); int stray(void) { "
                     "return shared_two(); }",
              "two": "int stray(void); int shared_two(void); int shared_two(void) { "
                     "return stray(); }"}


def plant(place):
    """A tree that breaks every rule, with objects as a build of it has."""
    for path, source in BAD.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(source)
    (place / "plugins/device").mkdir()
    (place / "core/README.md").write_text("| `base` | 10 | it |\n")
    (place / ".ci").mkdir()
    for path in ("CMakeLists.txt", ".ci/run", "Makefile"):
        (place / path).write_text("\n")
    (place / "core/base/c.c").write_text(
        "weft_status config_f(int x);\nint g(void)\n{\n" + "\n".join(BAD_DIALECT)
        + "\n}\n\nint h(int x)\n{\n    if (x)\n        return 0;\n    return 1;\n}\n")
    for path, source in BAD_CALLS.items():
        plant_object(place, "core", f"weft_{path.split('/')[0]}.dir", path, source)
    for path, source in BAD_SHARED.items():
        plant_object(place, "plugins/comm/shared", "weft_shared.dir", path, source)


def plant_object(place, folder, target, path, source):
    out = place / f"build/{folder}/CMakeFiles/{target}/{path}.c.o"
    here = place / f"{folder}/{path}.c"
    here.parent.mkdir(parents=True, exist_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    here.write_text(source + "\n")
    subprocess.run(["gcc", "-c", here, "-o", out], check=True)


def rule_tidy():
    """The rules see what they are there for: a bad tree has findings under each."""
    need("gcc")
    with tempfile.TemporaryDirectory() as place:
        database = (tree.BUILD / "compile_commands.json").read_text()
        tree.ROOT, tree.BUILD = Path(place), Path(place) / "build"
        plant(tree.ROOT)
        (tree.BUILD / "compile_commands.json").write_text(database)
        for rule in RULES:
            outside = ("format", "clang", "statuses", "tidy")
            if rule not in outside and not list(RULES[rule]()):
                yield f"the rule {rule} finds nothing in a bad tree"
        dialect = "\n".join(RULES["dialect"]())
        for line in (*BAD_DIALECT, "h is true or false"):
            if line.strip() not in dialect:
                yield f"the rule dialect does not see: {line.strip()}"
        found = "\n".join(RULES["circles"]())
        for wanted in ("plan/one, plan/two", "base, plan", "base calls plan",
                       "shared/one, shared/two"):
            if wanted not in found:
                yield f"the rule circles does not see: {wanted}"
        found = "\n".join(RULES["prefixes"]())
        for wanted in ("alone does not begin with data_", "stray does not begin with shared_",
                       *(f"the type {x} does not begin with plan_"
                         for x in ("list", "kind", "two", "finder"))):
            if wanted not in found:
                yield f"the rule prefixes does not see: {wanted}"
        found = "\n".join(RULES["layers"]())
        for wanted in ("comm/shared/s.h:1: t.h", "optim/sgd/other.c:1: s.h",
                       "core/run/d.c:1: run/ includes launch/launch.h"):
            if wanted not in found:
                yield f"the rule layers does not see: {wanted}"


RULES = {k[5:]: v for k, v in list(globals().items()) if k.startswith("rule_")}


def main():
    if sys.argv[1:] == ["list"]:
        print("\n".join(RULES))
        return 0
    tree.BUILD = Path(sys.argv[2]).resolve()
    findings = list(RULES[sys.argv[1]]())
    for f in findings:
        print(f)
    if findings:
        print(f"\n{len(findings)} against the rule: {RULES[sys.argv[1]].__doc__.strip()}")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
