"""make.py WEFT FOLDER [PLANNER]: makes the files of one version, with the program WEFT of that
version, in FOLDER (tests/compat/VERSION). PLANNER is a program that prints plan digests, where WEFT
is older than that: `weft plan --json` has the member "digest" from 0.2.0 on."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import cases

WEFT, OUT = (os.path.abspath(x) for x in sys.argv[1:3])
PLANNER = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else WEFT
TEXT = "The old files load. A newer format is refused by its name.\n" * 12


def run(*words, program=WEFT, status=0):
    done = subprocess.run([program, *map(str, words)], env=os.environ | cases.BITS,
                          capture_output=True, text=True)
    if done.returncode != status:
        sys.exit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write(name, text):
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)


def plan_digest(ini, ranks):
    return json.loads(run("plan", "-n", ranks, ini, "--json", program=PLANNER))["digest"]


def train(name, ranks):
    """Train a run whole; what it was like, and its folder without the second checkpoint."""
    os.chdir(WORK)
    run("train", "-n", ranks, f"ini/{name}.ini")
    saved, last = f"run/{cases.FOLDER}", f"run/checkpoints/step-{cases.STEPS:08}"
    run("ckpt", "verify", saved)
    seen = {"ranks": ranks, "plan": plan_digest(f"ini/{name}.ini", ranks),
            "losses": cases.losses("run"),
            "tensors": sorted({x.split("@")[0] for x in cases.tensors(saved)}),
            "saved": cases.digest(saved), "last": cases.digest(last)}
    shutil.rmtree(last)
    if name != "one":
        shutil.rmtree("run/flight")
    os.rename("run", f"runs/{name}")
    return seen


def pretty(recorded):
    """JSON with one run, plan or row a line."""
    parts = []
    for name, value in recorded.items():
        text = json.dumps(value)
        if isinstance(value, dict):
            text = "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}"
                                      for k, v in value.items()) + "}"
        parts.append(f"{json.dumps(name)}: {text}")
    return "{" + ",\n".join(parts) + "}\n"


def make():
    os.makedirs("ini")
    os.mkdir("runs")
    write("text.txt", TEXT)
    run("data", "text.txt", "-o", "text.tokens")
    cases.write_tokens("chain.tokens", cases.chain(600, 16), 16)
    cases.write_tokens("gpt2.tokens", cases.chain(200, 50257), 50257, cases.MAGIC_GPT2)
    run("tune", "comm", "-n", 2, "comm.plugin=tcp", "tune.seconds=0.01", "tune.passes=1",
        "tune.max=4K", "-o", "tuned.ini")
    write("bench.ini", cases.text_of(cases.BENCH))
    run("bench", "comm", "-n", 2, "bench.ini")
    run("key", "-o", "job.key")
    write("sweep.ini", cases.text_of(cases.SWEEP))
    for name, (_, job) in (cases.RUNS | cases.PLANS).items():
        write(f"ini/{name}.ini", cases.text_of(job))
    version = run("--version").splitlines()[0]
    runs = {name: train(name, ranks) for name, (ranks, _) in cases.RUNS.items()}
    plans = {name: {"ranks": ranks, "plan": plan_digest(f"ini/{name}.ini", ranks)}
             for name, (ranks, _) in cases.PLANS.items()}
    rows = json.loads(run_sweep())["rows"]
    kept = [[x["values"], x["ranks"], x["status"]] for x in rows]
    sampled = run("sample", "runs/one-bytes/" + cases.FOLDER, *cases.SAMPLE)
    recorded = {"program": version, "sampled": sampled, "runs": runs, "plans": plans, "sweep": kept}
    write("recorded.json", pretty(recorded))


def run_sweep():
    run("bench", "sweep.ini")
    with open("swept/sweep.json", encoding="utf-8") as f:
        text = f.read()
    shutil.rmtree("swept")
    return text


def pack():
    """All but the recorded numbers in one archive, whose bytes depend on the files alone."""
    def plain(info):
        info.mtime = info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if info.name.endswith(".lock") else info

    os.makedirs(OUT, exist_ok=True)
    with tarfile.open(os.path.join(OUT, "files.tar.xz"), "w:xz", preset=9) as archive:
        for name in sorted(os.listdir(".")):
            if name != "recorded.json":
                archive.add(name, filter=plain)
    shutil.copy("recorded.json", OUT)


WORK = tempfile.mkdtemp(prefix="weft-compat-")
os.chdir(WORK)
make()
pack()
os.chdir("/")
shutil.rmtree(WORK)
