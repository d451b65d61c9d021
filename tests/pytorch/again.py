#!/usr/bin/env python3
"""again.py WEFT: does the installed PyTorch still compute what recorded.json says?

The jobs of this folder are recorded once more, in fp64, and compared with recorded.json number by
number; then weft trains them and is compared with the new recording. 77: no Python here has
PyTorch."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = ("tied", "untied", "llama", "dropout", "llama_dropout")
FAR = 1e-6  # of a number, after 20 steps in fp64; recorded.json may be of another version


def with_torch():
    """A Python that has PyTorch: this one, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0:
            return python
    print("there is no PyTorch here; make integration installs it")
    sys.exit(77)


def differences(old, new, where=""):
    """Places where two recordings differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            yield f"{where}: other names"
            return
        for key in old:
            yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, f"{where}/{i}")
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if abs(old - new) > FAR * max(abs(old), abs(new)) + 1e-9:
            yield f"{where}: {old} was recorded, and now it is {new}"
    elif old != new:
        yield f"{where}: {old!r} was recorded, and now it is {new!r}"


def main():
    python, weft = with_torch(), sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="weft-pytorch-") as place:
        fresh = os.path.join(place, "recorded.json")
        subprocess.run([python, "-B", os.path.join(HERE, "reference.py"), "-o", fresh,
                        *(os.path.join(HERE, f"{job}.ini") for job in JOBS)], check=True)
        with open(os.path.join(HERE, "recorded.json"), encoding="utf-8") as f:
            old = json.load(f)
        with open(fresh, encoding="utf-8") as f:
            new = json.load(f)
        print(f"PyTorch {old['torch']} recorded, {new['torch']} is here")
        wrong = list(differences(old["jobs"], new["jobs"]))
        print("\n".join(wrong[:20]))
        changed = json.loads(json.dumps(new["jobs"]))
        changed["tied"]["steps"][7]["loss"] *= 1.00001
        if len(list(differences(new["jobs"], changed))) != 1:
            wrong.append("a loss that was changed by hand is not seen")
        for job in JOBS:
            done = subprocess.run(["sh", os.path.join(HERE, "run.sh"), weft, job], check=False,
                                  env=os.environ | {"RECORDED": fresh})
            wrong += [f"weft {job}"] * (done.returncode != 0)
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
