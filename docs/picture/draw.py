"""Draws docs/picture/architecture.svg from docs/picture/architecture.txt.

draw.py writes the SVG; `draw.py --check` compares it with the file and ends with 1 if they differ.
"""
import html
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE, PICTURE = HERE / "architecture.txt", HERE / "architecture.svg"
WIDTH, MARGIN, GAP = 960, 16, 20
LABEL, BOX, ARROW = 22, 74, 34
COLOURS = ["#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3"]


def read(text):
    """Rows as (kind, label, boxes, arrow below); a box is (title, text)."""
    rows = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.strip().partition(" ")
        if line.startswith("  "):
            title, _, words = line.strip().partition(" = ")
            rows[-1][2].append((title, words))
        elif word in ("row", "flow"):
            rows.append([word, rest, [], ""])
        elif word == "down":
            rows[-1][3] = rest
        else:
            raise SystemExit(f"{SOURCE.name}: '{line}' is not a row, a box or an arrow")
    return rows


def label(x, y, words, size=12, anchor="middle", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def arrow(x1, y1, x2, y2):
    return (f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#333" '
            f'stroke-width="1.5" marker-end="url(#head)"/>')


def box(x, y, width, colour, title, words):
    yield (f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX}" rx="6" '
           f'fill="{colour}" stroke="#333"/>')
    yield label(x + width / 2, y + 22, title, 14, weight="bold")
    for i, line in enumerate(textwrap.wrap(words, max(int(width / 6.4), 8))):
        yield label(x + width / 2, y + 40 + 14 * i, line, 11)


def draw(rows):
    parts, y = [], MARGIN
    for number, (kind, name, boxes, below) in enumerate(rows):
        parts.append(label(MARGIN, y + 12, name, 12, "start", "bold"))
        y += LABEL
        width = (WIDTH - 2 * MARGIN - GAP * (len(boxes) - 1)) / len(boxes)
        for i, (title, words) in enumerate(boxes):
            x = MARGIN + i * (width + GAP)
            parts += box(x, y, width, COLOURS[number % len(COLOURS)], title, words)
            if kind == "flow" and i:
                parts.append(arrow(x - GAP, y + BOX / 2, x - 3, y + BOX / 2))
        y += BOX
        if below:
            parts.append(arrow(WIDTH / 2, y + 4, WIDTH / 2, y + ARROW - 6))
            parts.append(label(WIDTH / 2 + 10, y + ARROW / 2 + 4, below, 11, "start"))
            y += ARROW
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + MARGIN}" '
            f'viewBox="0 0 {WIDTH} {y + MARGIN}" font-family="sans-serif">\n'
            '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#333"/></marker></defs>\n'
            '<rect width="100%" height="100%" fill="white"/>\n')
    return head + "\n".join(parts) + "\n</svg>\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        raise SystemExit("usage: draw.py [--check]")
    picture = draw(read(SOURCE.read_text(encoding="utf-8")))
    if not sys.argv[1:]:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print(f"{PICTURE.name} is not what draw.py makes of {SOURCE.name}: run draw.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
