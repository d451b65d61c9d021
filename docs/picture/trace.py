"""Draws the pictures of docs/TRACE.md: one step of a trace, without kernels.

trace.py TRACE.json STEP NAME   keeps the step as docs/picture/trace-NAME.json, and draws it
trace.py                        draws docs/picture/trace-*.svg from the files that are kept
trace.py --check                compares instead, and ends with 1 if a picture differs
"""
import html
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, MARGIN, LABEL = 960, 12, 130
ROW, GAP = 18, 3
COLOURS = [("forward", "#bfdbfe"), ("backward", "#fcd34d"), ("send", "#f9a8d4"),
           ("receive", "#ddd6fe"), ("all-", "#86efac"), ("reduce-", "#86efac"), ("", "#d1d5db")]
WORDS = {"forward": "forward", "backward": "backward", "send": "send", "receive": "receive",
         "all-": "collective", "": "norm, update"}


def kept(trace, step):
    """The slices and arrows of a step, in us from its beginning, and the names of the lanes."""
    events = [e for e in trace["traceEvents"] if e["name"] != "clock"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown = {k for k, name in lanes.items() if name in ("compute", "communication")}
    slices = [e for e in events if e["ph"] == "X" and e["args"]["step"] == step
              and (e["pid"], e["tid"]) in shown]
    begin = min(e["ts"] for e in slices)
    end = max(e["ts"] + e["dur"] for e in slices)
    arrows = [e for e in events if e["ph"] in "sf" and begin <= e["ts"] <= end]
    out = [{"ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
            "args": {"name": lanes[pid, tid]}}
           for pid, tid in sorted({(e["pid"], e["tid"]) for e in slices})]
    for e in slices:
        out.append({"ph": "X", "pid": e["pid"], "tid": e["tid"], "ts": round(e["ts"] - begin, 1),
                    "dur": round(e["dur"], 1), "name": e["name"]})
    for e in arrows:
        out.append({"ph": e["ph"], "pid": e["pid"], "tid": e["tid"], "name": e["name"],
                    "ts": round(e["ts"] - begin, 1), "id": e["id"]})
    return out


def text(x, y, words, size=11, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def colour(name):
    return next(c for word, c in COLOURS if name.startswith(word))


def rows(events):
    """{(rank, lane): top of its row}, the first y below them, and the labels."""
    y, at, labels, last = MARGIN + 24, {}, [], None
    for e in events:
        if e["ph"] != "M":
            continue
        rank, name = e["pid"], e["args"]["name"]
        if last and rank != last[0]:
            y += 3 * GAP
        if last != (rank, name):
            labels.append(text(MARGIN, y + 13, f"rank {rank}, {name}"))
        at[rank, e["tid"]], last = y, (rank, name)
        y += ROW + GAP
    return at, y, labels


def draw(events):
    slices = [e for e in events if e["ph"] == "X"]
    scale = (WIDTH - LABEL - 3 * MARGIN) / max(e["ts"] + e["dur"] for e in slices)
    at, bottom, parts = rows(events)

    def x(us):
        return LABEL + 2 * MARGIN + us * scale

    for i, (word, name) in enumerate(WORDS.items()):
        left = LABEL + 2 * MARGIN + i * 120
        parts.append(f'<rect x="{left}" y="{MARGIN}" width="12" height="12" '
                     f'fill="{colour(word)}"/>')
        parts.append(text(left + 17, MARGIN + 10, name))
    for e in slices:
        top, width = at[e["pid"], e["tid"]], max(e["dur"] * scale, 0.3)
        parts.append(f'<rect x="{x(e["ts"]):.1f}" y="{top}" width="{width:.1f}" height="{ROW}" '
                     f'fill="{colour(e["name"])}" stroke="#333" stroke-width="0.3">'
                     f'<title>{html.escape(e["name"])}</title></rect>')
    ends = {}
    for e in events:
        if e["ph"] in "sf":
            ends.setdefault((e["name"], e["id"]), {})[e["ph"]] = e
    for pair in ends.values():
        if len(pair) == 2:
            (x1, y1), (x2, y2) = ((x(e["ts"]), at[e["pid"], e["tid"]] + ROW / 2)
                                  for e in (pair["s"], pair["f"]))
            parts.append(f'<path d="M{x1:.1f},{y1:.0f} L{x2:.1f},{y2:.0f}" stroke="#7c3aed" '
                         f'stroke-width="0.6" fill="none" marker-end="url(#head)"/>')
    whole = max(e["ts"] + e["dur"] for e in slices)
    unit = 10 ** (len(str(int(whole))) - 1)  # us between two marks
    unit /= 1 if whole >= 3 * unit else 5
    for i in range(int(whole / unit) + 1):
        parts.append(f'<path d="M{x(i * unit):.1f},{bottom} v5" stroke="#333"/>')
        parts.append(text(x(i * unit), bottom + 16, f"{i * unit / 1000:g} ms", 10, "middle"))
    height = bottom + 24
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">\n'
            '<defs><marker id="head" markerWidth="6" markerHeight="6" refX="5" refY="3" '
            'orient="auto"><path d="M0,0 L6,3 L0,6 z" fill="#7c3aed"/></marker></defs>\n'
            '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    words = sys.argv[1:]
    if len(words) == 3:
        events = kept(json.loads(Path(words[0]).read_text(encoding="utf-8")), int(words[1]))
        lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in events)
        (HERE / f"trace-{words[2]}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    elif words not in ([], ["--check"]):
        sys.exit(__doc__)
    status = 0
    for source in sorted(HERE.glob("trace-*.json")):
        picture = source.with_suffix(".svg")
        svg = draw(json.loads(source.read_text(encoding="utf-8")))
        if words != ["--check"]:
            picture.write_text(svg, encoding="utf-8")
        elif not picture.exists() or picture.read_text(encoding="utf-8") != svg:
            print(f"{picture.name} is not what trace.py makes of {source.name}: run trace.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
