"""The tree that the rules look at: its files, their text, their functions.

The parsing leans on the formatting, which is a rule itself: a function's body begins with a line
that is "{" and ends with a line that is "}".
"""
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
FOLDERS = ["core", "sdk", "tools", "plugins", "tests", "bench", "cmake", "configs", "docs"]
CODE = (".c", ".h", ".cc", ".cu", ".cuh")
SCRIPTS = (".py", ".sh", ".cmake", ".awk")

def files(*endings, under=FOLDERS):
    """Every file below the given folders with one of the endings, in order."""
    found = []
    for folder in under:
        for base, dirs, names in os.walk(ROOT / folder):
            dirs[:] = sorted(d for d in dirs if d not in ("__pycache__", "corpus"))
            found += [Path(base) / n for n in sorted(names) if not endings or n.endswith(endings)]
    return found


def name(path):
    return str(path.relative_to(ROOT))


def text(path):
    return path.read_text(encoding="utf-8")


def lines(path):
    return text(path).split("\n")[:-1]


def blanked(source, comments=True, strings=True):
    """The source with comments and the insides of strings replaced by blanks, line for line."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        t = match.group(0)
        if t[0] == "/":
            return re.sub(r"[^\n]", " ", t) if comments else t
        return t[0] + " " * (len(t) - 2) + t[-1] if strings else t
    return token.sub(blank, source)


def functions(path):
    """(name, first line, number of lines) of each function, its signature included."""
    body = blanked(text(path)).split("\n")
    start = None
    for i, line in enumerate(body):
        if line == "{":
            start = i
            while start > 0 and body[start - 1].strip() and not body[start - 1].startswith(
                    ("}", "#")) and not body[start - 1].rstrip().endswith(";"):
                start -= 1
        elif line == "}" and start is not None:
            word = re.search(r"(\w+)\s*\(", " ".join(body[start:i]))
            yield word.group(1) if word else "?", start, i + 1 - start
            start = None


def shared_folders(kind="*"):
    """Folders plugins/KIND/NAME that make no plugin: a library that plugins of the kind link."""
    return [p.parent for p in sorted((ROOT / "plugins").glob(f"{kind}/*/CMakeLists.txt"))
            if "weft_add_plugin(" not in text(p)]


def shipped(path):
    return not name(path).startswith("tests/")
