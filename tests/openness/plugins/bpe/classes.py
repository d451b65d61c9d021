#!/usr/bin/env python3
"""classes.py FILE: write the ranges of letters, numbers and white space of Unicode as C."""
import sys
import unicodedata

SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
         0x205F, 0x3000}


def kind(c):
    if c in SPACE:
        return "BPE_SPACE"
    return {"L": "BPE_LETTER", "N": "BPE_NUMBER"}.get(unicodedata.category(chr(c))[0])


def ranges():
    out = []
    for c in range(sys.maxunicode + 1):
        k = kind(c)
        if k and out and out[-1][1:] == [c - 1, k]:
            out[-1][1] = c
        elif k:
            out.append([c, c, k])
    return out


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="ascii") as f:
        f.write("static const bpe_range bpe_ranges[] = {\n")
        f.writelines("    {0x%x, 0x%x, %s},\n" % tuple(r) for r in ranges())
        f.write("};\n")
