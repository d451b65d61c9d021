"""grow.py FROM TO: the headers of a later minor, made from the headers FROM/weft.

A member is added at the end of every struct that has a struct_size: the function `later` to a table
(a struct with functions), the number `later` to any other. There is a new flag, and the minor is
one more. What a plugin of that minor then does here is what grown_test.py asks.
"""
import re
import sys
from pathlib import Path

STRUCT = re.compile(r"typedef struct (weft_\w+) \{\n(    uint32_t (?:magic, )?struct_size.*?)"
                    r"\n\} \1;\n", re.S)
FUNCTION = "    weft_status (*later)(void *ctx, uint32_t what);"
NUMBER = "    uint64_t later;"
FLAG = "\n#define WEFT_LATER_FLAG 0x40000000u /* of any flags word */\n"


def grow(text):
    """The header, and the names of what has grown."""
    names = []

    def one(match):
        names.append(match[1])
        member = FUNCTION if "(*" in match[2] else NUMBER
        return f"typedef struct {match[1]} {{\n{match[2]}\n{member}\n}} {match[1]};\n"

    text = STRUCT.sub(one, text)
    for name in names:
        text = re.sub(rf"^WEFT_FREEZE\({name},.*?;\n", "", text, flags=re.M)
    text = re.sub(r"(#define WEFT_ABI_MINOR )(\d+)u", lambda m: f"{m[1]}{int(m[2]) + 1}u", text)
    if "#define WEFT_BASE_H\n" in text:
        text = text.replace("#define WEFT_BASE_H\n", "#define WEFT_BASE_H\n" + FLAG)
    return text, names


def grow_all(source, target):
    """Write the headers; returns the names of what has grown."""
    target.mkdir(parents=True)
    names = []
    for path in sorted(source.glob("*.h")):
        text, some = grow(path.read_text())
        (target / path.name).write_text(text)
        names += some
    return names


if __name__ == "__main__":
    print("\n".join(grow_all(Path(sys.argv[1]) / "weft", Path(sys.argv[2]) / "weft")))
