#!/usr/bin/env python3
"""run.py TARGET [OPTIONS OF CTEST] builds what a target needs, runs its tests and prints a summary.

    run.py test           the release build: all tests without one of the labels below
    run.py sanitize       the address and undefined-behaviour sanitizers, then the thread sanitizer
    run.py integration    the release build: the tests with one of the labels below
    run.py quick          the release build: rules of the tree, units, plans, schedules
    run.py soak TARGET N  the tests of a target N times beside two busy loops: what ever fails?
    run.py sum TARGET...  the sum of the targets that have run, for .ci/run

Three labels move a test from one target to another; a folder's CMakeLists.txt sets them with
set_tests_properties(... LABELS LABEL):

    integration   `make integration` alone: heavier needs, or a whole table that has a sample here
    long          `make integration` instead of `make test`; `make sanitize` runs it as before
    timed         `make integration` alone, one after another: it asks how long something takes

What the sanitizers run stands below, in ASAN_RUNS and TSAN_RUNS.

A test that fails is run once more, alone. One that passes then is flaky: a line of the summary
names it, build/flaky/ keeps its first output, and it counts as passed. It is a defect all the same.

A summary ends with "N passed, N failed, N skipped", also in build/summary.txt; the status is 1 when
a test failed or a build failed. Where CI or WEFT_CI is set, a skip fails too, whether a whole test
is skipped or one case in it, unless tests/skips.txt allows it. WEFT_WHOLE=1 gives the sanitizers
what they leave out; CTEST_PARALLEL_LEVEL sets how many tests run at a time (more than there are
cores, since some only wait, most of them under the thread sanitizer)."""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INTEGRATION = "^(integration|timed)$"
LABELS = "^(integration|long|timed)$"
TARGETS = ("test", "sanitize", "integration", "quick")
QUICK = r"(tidy|unit|plan|schedule)\."
SLOWEST = 10
EVERY = 30  # seconds between two lines about a build
LIMIT = 600  # seconds that a test may take, unless its TIMEOUT says otherwise

# Tests of the tree itself have the same result in every build.
TREE = r"tidy|abi\.headers|abi\.outside|pytorch|runner"
# What the address and undefined-behaviour sanitizers run: parsers of foreign bytes, the wire and
# the store, links, the engine, kernels, checkpoints, and a training of each strategy
# (parity.matrix). The rest asks about plans, numbers, commands and texts, whose code these reach as
# well; `make nightly` (WEFT_WHOLE=1) runs it. No sanitizer sees that two tensors of one arena
# overlap; bounds of the cuda device's kernels are checked by the interpreter of PTX
# (tests/cuda/ptx/ptx.h).
ASAN_RUNS = (r"fuzz|unit|data|tokenizer|links|comm|verbs|ucx|plan|schedule|compat|hf|sinks|ops"
             r"|generate\.layouts|parity\.matrix|coll|report\.data"
             r"|fault\.(job|launch|train_(save|async|encrypt))")
ASAN_LEAVES = (r"comm\.threads_(fuzz|checked)|schedule\.(referee|terms)|ucx\.jobs|coll\.train"
               r"|ops\.(ops|random)_test|ops\..*\.(avx2|cuda|cuda_own|cudnn|ptx)"
               r"|plan\.memory|unit\.bench_noise|hf\.(walk|beside)|compat\.newer|data\.order"
               r"|fault\.(job_(death|pause|stop|tree)|launch)")
# The thread sanitizer runs what has threads; variants of a link have the same ones.
TSAN_RUNS = (r"links|comm\.(links|threads)|ops\.pool_test$|unit\.(comm|job|launch|run|log)"
             r"|fault\.(job|launch_dying|train_(async|encrypt|trace))")
TSAN_LEAVES = (r"fault\.job_(attack|bytes|flood|tree)|unit\.run_weights|comm\.threads_checked"
               r"|links\.check\.(self|.*\.(small|three|eight))")
TSAN_WHOLE = (r"links|fault|ops\.(pool|product)_test$|comm\.(links|threads)|job"
              r"|unit\.(comm|job|launch|run|log)")
# The folders that each builds: these tests and what they use.
SANITIZED = ("core", "sdk", "tools", "plugins/*/*", "tests/comm", "tests/fault", "tests/links",
             "tests/ops", "tests/schedule", "tests/unit")
ASAN_BUILDS = SANITIZED + tuple(f"tests/{folder}" for folder in (
    "coll compat data fuzz generate hf parity plan report sinks tokenizer ucx "
    "verbs".split()))


class Result:
    """One test of a report: its status ("passed", "flaky", "failed" or "skipped"), seconds and
    output, and why it or cases in it were skipped."""

    def __init__(self, preset, name, status, seconds=0.0, output=""):
        self.preset, self.name, self.status = preset, name, status
        self.seconds, self.output = seconds, output
        self.reasons = reasons_of(name, status, output)


def whole():
    return bool(os.environ.get("WEFT_WHOLE"))


def in_ci():
    return any(os.environ.get(v, "").lower() not in ("", "0", "false") for v in ("CI", "WEFT_CI"))


def parts(patterns):
    """Build targets of the folders that match."""
    folders = [p.parent.relative_to(ROOT) for x in patterns
               for p in sorted(ROOT.glob(f"{x}/CMakeLists.txt"))]
    return [f"{folder}/all" for folder in folders]


def steps(target):
    """(preset, build targets, tests at a time, options of ctest) of each part of a target."""
    many = parallel(1)
    if target == "test":
        return [("release", ["all"], parallel(2), ["-LE", LABELS])]
    if target == "quick":
        return [("release", ["all"], many, ["-LE", LABELS, "-R", f"^({QUICK})"])]
    if target == "integration":
        return [("release", ["all"], many, ["-L", "^(integration|long)$"]),
                ("release", [], 1, ["-L", "^timed$"])]
    if whole():
        return [("asan-ubsan", ["all"], many, ["-LE", INTEGRATION, "-E", f"^({TREE})"]),
                # fault.train_stuck has its device from tests/plugins
                ("tsan", parts((*SANITIZED, "tests/plugins")), many,
                 ["-LE", INTEGRATION, "-R", f"^({TSAN_WHOLE})"])]
    return [("asan-ubsan", parts(ASAN_BUILDS), many,
             ["-LE", INTEGRATION, "-R", f"^({ASAN_RUNS})", "-E", f"^({ASAN_LEAVES})"]),
            ("tsan", parts(SANITIZED), parallel(4),
             ["-LE", INTEGRATION, "-R", f"^({TSAN_RUNS})", "-E", f"^({TSAN_LEAVES})"])]


# --- skips ---

def skipped_cases(output):
    """(case, reason) of each case that a program of unittest or cmocka says it has skipped."""
    found, case = [], ""
    for line in output.splitlines():
        named = re.match(r"(\w+) \([\w.]+\)", line)
        case = named[1] if named else case
        reason = re.search(r"\.\.\. skipped (['\"])(.*)\1\s*$", line)
        if reason:
            found.append((case, reason[2]))
        plain = re.match(r"\[  SKIPPED \] (?:\w+: )?(\w+)\s*$", line)
        if plain and (plain[1], "") not in found:
            found.append((plain[1], ""))
    return found


def reasons_of(name, status, output):
    """Lines "TEST: why", "TEST: CASE: why" or "TEST: CASE", which tests/skips.txt matches."""
    if status == "skipped":
        said = [line.strip() for line in output.splitlines() if line.strip()]
        return [f"{name}: {' '.join(said[-2:])}"]
    return [f"{name}: {case}" + (f": {reason}" if reason else "")
            for case, reason in skipped_cases(output)]


def allowed_skips(path=ROOT / "tests/skips.txt"):
    """[(pattern, sentence)]: a line that begins a pattern, and indented lines that give a reason"""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            found.append([re.compile(line.strip()), ""])
        else:
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    for pattern, sentence in found:
        if not sentence:
            raise SystemExit(f"{path}: {pattern.pattern} has no sentence that says why")
    return found


def judge_skips(results, allowed, strict):
    """Print the skips; where `strict`, a test with one that is not allowed has failed."""
    known = {}  # (test, sentence): its reasons
    for result in results:
        for reason in result.reasons:
            lines = [reason] + [f"sanitizers/{reason}"] * (result.preset != "release")
            sentence = next((s for p, s in allowed if any(map(p.fullmatch, lines))), None)
            if sentence:
                known.setdefault((f"{result.name} ({result.preset})", sentence), []).append(reason)
                continue
            print(f"skipped  {reason} ({result.preset})")
            if strict:
                print("         FAILED: CI has to run it, or tests/skips.txt has to say why not")
                result.status = "failed"
    for (test, sentence), reasons in known.items():
        what = reasons[0] if len(reasons) == 1 else f"{test}: {len(reasons)} cases"
        print(f"skipped  {what}  [{sentence}]")


# --- one build and its tests ---

def read_report(preset, path):
    results = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = {"run": "passed", "fail": "failed", "disabled": "skipped"}.get(case.get("status"))
        if status is None:
            status = "skipped" if case.find("skipped") is not None else "failed"
        output = case.findtext("system-out") or ""
        results.append(Result(preset, case.get("name"), status, float(case.get("time") or 0),
                              output))
    return results


def keep_output(folder, name, result):
    """Write what a test has printed to build/FOLDER/NAME; the path, as one prints it."""
    path = ROOT / "build" / folder / name.replace("/", "_")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(result.output, encoding="utf-8", errors="replace")
    return path.relative_to(ROOT)


def build(preset, targets):
    """Configure and build; False, with the errors printed, when that fails."""
    if subprocess.run(["sh", "cmake/configure.sh", preset], cwd=ROOT, check=False).returncode:
        return False
    log, said = ROOT / f"build/{preset}.log", time.monotonic()
    words = ["cmake", "--build", "--preset", preset, "--target", *targets, "--", "-k", "0"]
    with open(log, "a", encoding="utf-8") as out, subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace") as work:
        for line in work.stdout:
            out.write(line)
            step = re.match(r"\[\d+/\d+\]", line)
            if step and time.monotonic() > said + EVERY:
                said = time.monotonic()
                print(f"=== {preset}: building {step[0]}", flush=True)
    if work.returncode:
        errors = [x for x in log.read_text(encoding="utf-8", errors="replace").splitlines()
                  if re.search("error|Error|FAILED", x)]
        print("\n".join(errors[:20]))
        print(f"the build {preset} failed; its output is in build/{preset}.log")
    return work.returncode == 0


def seed_costs(folder):
    """Long tests have to begin first. ctest knows how long they take from the run before; a new
    build has none and takes the times of tests/seconds.txt."""
    path = folder / "Testing/Temporary/CTestCostData.txt"
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [line.split() for line in (ROOT / "tests/seconds.txt").read_text().splitlines()
            if line and not line.startswith("#")]
    path.write_text("".join(f"{test} 1 {seconds}\n" for seconds, test in rows) + "---\n")


def run_ctest(preset, jobs, options, name=None):
    """The results of the tests of one build that the options of ctest choose. Its report is
    build/NAME.xml."""
    report = ROOT / f"build/{name or preset}.xml"
    report.unlink(missing_ok=True)
    done = subprocess.run(["ctest", "--preset", preset, "-j", str(jobs), "--timeout", str(LIMIT),
                           "--no-tests=ignore", "--output-junit", str(report),
                           "--test-output-size-passed", "1000000",
                           "--test-output-size-failed", "1000000", *options],
                          cwd=ROOT, check=False)
    if report.exists():
        return read_report(preset, report)
    return [Result(preset, f"ctest of {preset}", "failed")] if done.returncode else []


def both(preset, chosen, options):
    """The options of ctest that choose what `chosen` and `options` choose: of several -R it would
    take the last one."""
    if "-R" not in chosen or "-R" not in options:
        return chosen + options
    listed = subprocess.run(["ctest", "--preset", preset, "-N", *chosen], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, check=False).stdout
    names = re.findall(r"^ +Test +#\d+: (\S+)", listed, re.M)
    wanted = options[options.index("-R") + 1]
    return ["-R", "^(" + "|".join(re.escape(n) for n in names if re.search(wanted, n)) + ")$"]


def try_again(results):
    """Run each test that has failed once more, alone: what passes then is flaky."""
    for i, first in enumerate(results):
        if first.status != "failed":
            continue
        print(f"=== {first.preset}: {first.name} once more, alone", flush=True)
        again = run_ctest(first.preset, 1, ["-R", f"^{re.escape(first.name)}$"], "again")
        good = [r for r in again if r.name == first.name and r.status == "passed"]
        if good:
            results[i] = good[0]
            results[i].status = "flaky"
            results[i].kept = keep_output("flaky", f"{first.preset}.{first.name}.txt", first)


def parallel(more):
    """How many tests run at a time: so many more than there are cores."""
    return os.environ.get("CTEST_PARALLEL_LEVEL") or len(os.sched_getaffinity(0)) + more


def run_step(preset, targets, jobs, chosen, options):
    """(results, seconds of the build, seconds of the tests) of one build."""
    began = time.monotonic()
    print(f"=== {preset}: building", flush=True)
    if targets and not build(preset, targets):
        return [Result(preset, f"the build {preset}", "failed")], time.monotonic() - began, 0
    built = time.monotonic()
    print(f"=== {preset}: built in {built - began:.0f} s; testing", flush=True)
    seed_costs(ROOT / "build" / preset)
    results = run_ctest(preset, jobs, both(preset, chosen, options))
    try_again(results)
    return results, built - began, time.monotonic() - built


# --- summaries ---

def line_of(passed, failed, skipped):
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def finish(target, results, minutes, text):
    """Print and keep the summary of a target; the exit status."""
    slow = sorted(results, key=lambda r: -r.seconds)[:SLOWEST]
    print(f"\nThe {len(slow)} slowest tests, in seconds:")
    for result in slow:
        print(f"{result.seconds:8.1f}  {result.name} ({result.preset})")
    judge_skips(results, allowed_skips(), in_ci())
    flaky = [f"flaky    {r.name} ({r.preset})  [its first output: {r.kept}]"
             for r in results if r.status == "flaky"]
    print("\n".join(flaky), end="\n" if flaky else "")
    for result in results:
        if result.status == "failed":
            print(f"FAILED   {result.name} ({result.preset})")
    counts = [sum(r.status in s for r in results)
              for s in (("passed", "flaky"), ("failed",), ("skipped",))]
    keep = ROOT / "build/summary"
    keep.mkdir(exist_ok=True)
    (keep / f"{target}.json").write_text(json.dumps(
        {"counts": counts, "minutes": minutes, "flaky": flaky}))
    print(f"\nmake {target}: {minutes:.1f} minutes ({text})")
    return conclude(counts)


def conclude(counts):
    print(line_of(*counts), flush=True)
    (ROOT / "build/summary.txt").write_text(line_of(*counts) + "\n")
    return 1 if counts[1] else 0


def total(targets):
    """What .ci/run ends with. A target without a summary has not come to its end: it failed."""
    sums, lines, flaky = [0, 0, 0], [], []
    (ROOT / "build").mkdir(exist_ok=True)
    for target in targets:
        path = ROOT / f"build/summary/{target}.json"
        kept = {"counts": [0, 1, 0], "minutes": 0, "flaky": []}
        if path.exists():
            kept = json.loads(path.read_text())
        lines.append(f"make {target:12} {kept['minutes']:5.1f} minutes   "
                     f"{line_of(*kept['counts'])}, {len(kept['flaky'])} flaky"
                     f"{'' if path.exists() else ' (it has no summary)'}")
        sums = [a + b for a, b in zip(sums, kept["counts"])]
        flaky += kept["flaky"]
    print("", *flaky, *lines, sep="\n")
    return conclude(sums)


def run_target(target, options):
    began, results, text = time.monotonic(), [], []
    (ROOT / f"build/summary/{target}.json").unlink(missing_ok=True)
    for preset, targets, jobs, chosen in steps(target):
        found, building, testing = run_step(preset, targets, jobs, chosen, options)
        results += found
        text.append(f"{preset}: build {building / 60:.1f}, tests {testing / 60:.1f}")
    for preset in {step[0] for step in steps(target)} - {r.preset for r in results}:
        print(f"ctest of {preset} ran no test")
        results.append(Result(preset, f"ctest of {preset}", "failed"))
    return finish(target, results, (time.monotonic() - began) / 60, "; ".join(text))


# --- the same tests many times on a busy machine ---

BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    sum(range(100000))"


def soak(target, rounds, options):
    """Each test that ever fails is listed, with what it printed; nothing is tried again."""
    for preset, targets, _, _ in steps(target):
        if targets and not build(preset, targets):
            return conclude([0, 1, 0])
        seed_costs(ROOT / "build" / preset)
    shutil.rmtree(ROOT / "build/soak", ignore_errors=True)
    passed, skipped, failures = set(), set(), {}
    busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(2)]
    try:
        for number in range(1, rounds + 1):
            began = time.monotonic()
            for preset, _, jobs, chosen in steps(target):
                for r in run_ctest(preset, jobs, both(preset, chosen, options)):
                    name = f"{r.name} ({preset})"
                    (skipped if r.status == "skipped" else passed).add(name)
                    if r.status == "failed":
                        failures.setdefault(name, []).append(keep_output(
                            "soak", f"{number}.{preset}.{r.name}.txt", r))
            print(f"=== round {number} of {rounds}: {(time.monotonic() - began) / 60:.1f} minutes; "
                  f"tests that failed so far: {len(failures)}", flush=True)
    except KeyboardInterrupt:
        print(f"=== interrupted in round {number} of {rounds}")
    finally:
        for loop in busy:
            loop.kill()
            loop.wait()
    for name, kept in sorted(failures.items()):
        print(f"FAILED   {name} in {len(kept)} of {rounds} rounds: {', '.join(map(str, kept))}")
    good = passed - set(failures)
    return conclude([len(good), len(failures), len(skipped - passed)])


def main():
    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "sum":
        return total(words[1:])
    if len(words) > 2 and words[0] == "soak" and words[1] in TARGETS and words[2].isdigit():
        return soak(words[1], int(words[2]), words[3:])
    if words and words[0] in TARGETS:
        return run_target(words[0], words[1:])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
