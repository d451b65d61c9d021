"""traces.py: is a trace.json what trace.schema.json says, and do its parts fit together?

Slices of a lane are nested, arrows begin and end within slices and have two ends, and what is in
flight comes back to 0. The schema is checked by as much of JSON Schema as it uses."""
import collections
import json
import os
import re
import subprocess

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace.schema.json"),
          encoding="utf-8") as _file:
    SCHEMA = json.load(_file)
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
KNOWN = {"$schema", "title", "type", "required", "additionalProperties", "properties", "const",
         "enum", "items", "oneOf", "minimum", "pattern"}


def mistake(x, schema, at="$"):
    """What is wrong with a value, or None."""
    assert set(schema) <= KNOWN, f"the checker does not know all of {sorted(schema)}"
    kind = schema.get("type")
    if kind and (not isinstance(x, TYPES[kind]) or isinstance(x, bool)):
        return f"{at}: {x!r} is no {kind}"
    if "const" in schema and x != schema["const"] or x not in schema.get("enum", [x]):
        return f"{at}: {x!r} is not allowed"
    if "minimum" in schema and x < schema["minimum"]:
        return f"{at}: {x} is below {schema['minimum']}"
    if "pattern" in schema and not re.search(schema["pattern"], x):
        return f"{at}: '{x}' is not {schema['pattern']}"
    if "oneOf" in schema:
        found = [mistake(x, s, at) for s in schema["oneOf"]]
        if found.count(None) != 1:
            return f"{at}: {x!r} is none of: {'; '.join(f for f in found if f)}"
    if isinstance(x, list) and "items" in schema:
        return next(filter(None, (mistake(v, schema["items"], f"{at}[{i}]")
                                  for i, v in enumerate(x))), None)
    known = schema.get("properties", {})
    if isinstance(x, dict):
        for name in schema.get("required", []):
            if name not in x:
                return f"{at}: '{name}' is missing"
        for name, value in x.items():
            if name in known:
                wrong = mistake(value, known[name], f"{at}.{name}")
                if wrong:
                    return wrong
            elif schema.get("additionalProperties") is False:
                return f"{at}: '{name}' is not known"
    return None


def ns(microseconds):
    return round(microseconds * 1000)


def span(e):
    return ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])


def lanes(events):
    """{(rank, name of the lane): slices in the order of their beginnings}; the lanes of
    communication and those of plugins are each one."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = collections.defaultdict(list)
    for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
        found[e["pid"], names[e["pid"], e["tid"]]].append(e)
    return found


def counter(events, rank, name):
    """[(ns, bytes)] of a counter, in the order of the file."""
    return [(ns(e["ts"]), e["args"]["bytes"]) for e in events
            if e["ph"] == "C" and e["pid"] == rank and e["name"] == name]


def check_nesting(case, slices):
    """Perfetto drops a slice that begins in another one and ends after it."""
    by_lane = collections.defaultdict(list)
    for e in slices:
        by_lane[e["pid"], e["tid"]].append(span(e))
    for lane, spans in by_lane.items():
        stack = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            case.assertTrue(not stack or end <= stack[-1], f"lane {lane}: {begin} to {end} in "
                            f"one that ends at {stack and stack[-1]}")
            stack.append(end)
    return by_lane


def check_arrows(case, events, by_lane, whole):
    ends = collections.defaultdict(list)
    for e in events:
        if e["ph"] in "sf":
            ends[e["name"], e["id"]].append(e)
            case.assertTrue(any(begin <= ns(e["ts"]) < end
                                for begin, end in by_lane[e["pid"], e["tid"]]), e)
    for name, found in ends.items():
        phases = sorted(e["ph"] for e in found)
        case.assertIn(phases, [["f", "s"]] if whole else [["f", "s"], ["f"], ["s"]], name)
        case.assertEqual(len({e["pid"] for e in found}), len(found), f"{name} leads to its rank")
    return ends


def check(case, path, whole=True):
    """The events of a trace; not `whole`: of a job that failed, so that arrows may lack an end."""
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    case.assertIsNone(mistake(trace, SCHEMA))
    events = trace["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    arrows = check_arrows(case, events, check_nesting(case, slices), whole)
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    case.assertEqual(named, {(e["pid"], e["tid"]) for e in slices})
    for rank in {e["pid"] for e in events}:
        flying = counter(events, rank, "in flight")
        case.assertEqual(flying, sorted(flying, key=lambda x: x[0]))
        case.assertEqual([b for _, b in flying[-1:]], [0] * bool(flying))
    return events, arrows


DAY = 86400
CLOSE = 10**6  # ns that a clock may be off
SHIFTED = ["unshare", "--time", "--monotonic", str(DAY), "--boottime", str(DAY)]


def can_shift():
    """May a process here have the clocks of a host that was booted a day earlier?"""
    try:
        return subprocess.run([*SHIFTED, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def check_clocks(case, trace, shifted):
    """trace() runs a job with ranks that SHIFTED has started and returns what check() does. The
    clocks agree within CLOSE. A clock is read by round trips, which a busy machine delays, so the
    best of several jobs counts."""
    found = []
    while len(found) < 20 and min(found, default=CLOSE + 1) > CLOSE:
        found.append(worst_clock(case, *trace(), shifted))
    case.assertLessEqual(min(found), CLOSE, found)


def worst_clock(case, events, arrows, shifted):
    """By how many ns the worst clock is wrong: the kernel says what the difference is, a day for
    ranks of `shifted`. No clock is more wrong than its error, and nothing arrives before it is sent
    by more than those of both."""
    clocks = [(e["pid"], e["args"]) for e in events if e["name"] == "clock"]
    case.assertEqual({r for r, _ in clocks}, {e["pid"] for e in events})
    error, worst = collections.Counter(), 0
    for rank, clock in clocks:
        wrong = abs(clock["ahead_ns"] + (DAY * 10**9 if rank in shifted else 0))
        case.assertLessEqual(wrong, clock["error_ns"], f"rank {rank}: {clock}")
        worst = max(worst, wrong)
        error[rank] = max(error[rank], clock["error_ns"])
    for ends in arrows.values():
        at = {e["ph"]: ns(e["ts"]) for e in ends}
        case.assertLessEqual(at["s"], at["f"] + sum(error[e["pid"]] for e in ends), ends)
    return worst
