"""built.py: the templates, one plugin of every kind, built by hand with a folder of headers, and
jobs that train with them.

`weft plugins new` writes the sources. The jobs use all of them together: the bigram model with an
op of another file, a rule, a strategy in C++, a placement, a sink, and a transport or a library of
collectives.
"""
import json
import os
import subprocess
from pathlib import Path

# folder of the file, name, language
PLUGINS = {
    "rule": ("optim", "acme.lion", "c"),
    "placement": ("optim", "acme.shards", "c"),
    "strategy": ("parallel", "acme.crew", "cc"),
    "model": ("model", "acme.bigram", "c"),
    "data": ("data", "acme.cycle", "c"),
    "tokenizer": ("tokenizer", "acme.bytes", "c"),
    "op": ("op", "acme.softcap", "c"),
    "sink": ("sink", "acme.tsv", "c"),
    "device": ("device", "acme.plain", "c"),
    "link": ("comm", "acme.socket", "c"),
    "coll": ("comm", "acme.hostcoll", "c"),
}
JOB = {
    "run.name": "built", "run.seed": 3, "run.steps": 12, "run.use": "acme.softcap",
    "model.family": "acme.bigram",
    "train.batch": 8, "train.microbatch": 2, "train.sequence": 32,
    "train.precision": "fp32", "train.eval_every": 0,
    "parallel.strategy": "acme.softcap.use, acme.crew",
    "optim.rule": "acme.lion", "optim.lr": 0.1, "optim.schedule": "constant", "optim.warmup": 0,
    "optim.weight_decay": 0.01, "log.sinks": "jsonl, acme.tsv", "log.peak_gflops": 1,
    "comm.plugin": "acme.socket",
}
NO_OP = {"run__use": None, "parallel__strategy": "acme.crew"}  # its kernels are for the device cpu
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]


def run(words, **options):
    return subprocess.run([str(x) for x in words], capture_output=True, text=True, timeout=300,
                          check=False, **options)


def compile_one(files, include, folder, kind, name, flags=WARNINGS):
    """One plugin: the shared object folder/KIND/NAME.so. Returns its path."""
    cxx = files[0].suffix == ".cc"
    out = folder / kind / f"{name}.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    export = Path(__file__).resolve().parents[2] / "cmake" / "plugin.map"
    words = [*(["c++", "-std=c++17"] if cxx else ["cc", "-std=c11"]), "-O2", "-fPIC", "-shared",
             "-fvisibility=hidden", *flags, "-I", include, f"-Wl,--version-script={export}",
             "-Wl,-z,defs", "-o", out, *files, "-lm"]
    done = run(words)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}:\n{done.stderr}")
    for path in (out, out.parent, folder):
        os.chmod(path, 0o755)
    return out


def compile_all(weft, include, folder, flags=WARNINGS):
    """{kind: path}; the sources come to the folder `new` beside the given one."""
    place, paths = folder.parent / "new", {}
    place.mkdir()
    for kind, (where, name, language) in PLUGINS.items():
        done = run([weft, "plugins", "new", kind, name, "--dir", place,
                    *["--cxx"] * (language == "cc")])
        if done.returncode:
            raise AssertionError(done.stderr)
        files = sorted((place / name.split(".")[1]).glob(f"*.{language}"))
        paths[kind] = compile_one(files, include, folder, where, name, flags)
    return paths


def text_for(weft, folder):
    """A data set whose next letter is easy to guess."""
    text, data = folder / "text", folder / "train.bin"
    text.write_text("".join(f"the weft is carried across the warps, number {i}\n"
                            for i in range(400)))
    done = run([weft, "data", text, "-o", data])
    if done.returncode:
        raise AssertionError(done.stderr)
    return data


def train(weft, folder, name, plugins, ranks=1, **more):
    """Train JOB with other values for some keys, None: without; a key's '.' is '__'. Returns the
    process."""
    job = JOB | {"run.plugins": plugins, "run.out": folder / name,
                 "data.train": folder / "train.bin", "parallel.crew": ranks}
    job |= {key.replace("__", "."): value for key, value in more.items()}
    ini = folder / f"{name}.ini"
    ini.write_text("".join(f"[{key.split('.')[0]}]\n{key.split('.')[1]} = {value}\n"
                           for key, value in job.items() if value is not None))
    return run([weft, "train", "-n", ranks, ini])


def losses(folder, name):
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    return [x["loss"] for x in map(json.loads, lines) if "loss" in x]


def failed_checks(weft, path):
    done = run([weft, "plugins", "check", path, "--json"])
    return [(c["number"], c["text"]) for c in json.loads(done.stdout)["checks"]
            if c["result"] not in ("pass", "not applicable")]
