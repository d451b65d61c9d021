"""One way to write the same thing: status tests, null tests, truth values.

    weft_status st = open_it(&x);     a status is called st, unless two are alive
    if (st != WEFT_OK)                it is compared by name: if (st) does not say which is which
    if (!p || q)                      a pointer is tested as it is, never compared with NULL
    bool is_open(const it *x)         what is true or false is a bool
"""
import re

from tree import blanked, files, functions, name, shipped, text

NAMES = "s|status|ret|rc|res|result|err|error"
TRUTH = re.compile(r"[!=<>]=|(?<![<-])[<>](?![<>=])|&&|\|\||^\s*!|^\s*[01]\s*$")
WITH_NULL = re.compile(r"(if|while) \(.*!= NULL|(&&|\|\|) [^;]*!= NULL|!= NULL (&&|\|\||\?)")
# Functions whose type a library gives: qsort, inih, OpenSSL.
CALLBACKS = re.compile(r"^(by_\w+|compare\w*|ascending|\w*entry|\w+_key|socket_\w+|\w*help|main)$")


def statuses(sources):
    """The names of functions that return a status: those of headers."""
    found = set()
    for f, source in sources.items():
        if f.suffix == ".h":
            found |= set(re.findall(r"\bweft_status (\w+)\(", source))
    return found


def status_tests(functions_found):
    calls = "|".join(sorted(functions_found)) or "-"
    return re.compile(
        r"(?<![\w.>])!(?:st\b(?!\w*[.(\[-])|(?:" + calls + r")\()"
        r"|\b(?:if|while) \(st(?:\)| &&| \|\|)|(?:&&|\|\|) st(?:\)| &&| \|\||;)"
        r"|(?:[=(,]|return) st \?")


def rule_dialect():
    """One dialect: st != WEFT_OK, !p, bool."""
    shown = {f: blanked(text(f)) for f in files(".c", ".h", ".cc") if shipped(f)}
    shared = statuses(shown)
    declared = re.compile(r"\bweft_status (" + NAMES + r")\b\s*[=;,)]")
    for f, source in shown.items():
        bare = status_tests(shared | set(re.findall(r"\bweft_status (\w+)\(", source)))
        for i, line in enumerate(source.split("\n")):
            at = f"{name(f)}:{i + 1}: "
            if declared.search(line) and f.suffix == ".c":
                yield at + f"a status is called st: {line.strip()}"
            if bare.search(line) and "(void)" not in line and "weft_status" not in line:
                yield at + f"a status is compared with WEFT_OK: {line.strip()}"
            if re.search(r"== NULL\b", line):
                yield at + f"write !p: {line.strip()}"
            if WITH_NULL.search(line):
                yield at + f"write p: {line.strip()}"
        yield from truths(f, source.split("\n"))


def truths(path, source):
    """Functions of type int all of whose results are true or false."""
    for word, at, n in functions(path):
        body = "\n".join(source[at:at + n])
        head = body.split("{")[0]
        if not re.search(r"(?<!\w)int\s+" + re.escape(word) + r"\(", head) or CALLBACKS.match(word):
            continue
        values = re.findall(r"\breturn\b([^;]*);", body)
        if len(set(values)) > 1 and all(TRUTH.search(v) and "?" not in v for v in values):
            yield f"{name(path)}:{at + 1}: {word} is true or false: its type is bool"
