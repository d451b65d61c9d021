#!/usr/bin/env python3
"""vectors_again.py BUILD: does the installed PyTorch still compute what vectors.json says?

The recording is made once more and compared number by number; then vectors.py compares weft with
the new one. 77: no Python here has PyTorch."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "pytorch"))
import again  # noqa: E402  (tests/pytorch/again.py)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def main():
    python = again.with_torch()
    with tempfile.TemporaryDirectory(prefix="weft-vectors-") as place:
        fresh = os.path.join(place, "vectors.json")
        subprocess.run([python, "-B", os.path.join(HERE, "vectors_reference.py"), "-o", fresh],
                       check=True)
        old, new = load(os.path.join(HERE, "vectors.json")), load(fresh)
        print(f"PyTorch {old['torch']} recorded, {new['torch']} is here")
        wrong = list(again.differences(old["jobs"], new["jobs"]))
        print("\n".join(wrong[:20]))
        done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "vectors.py"), sys.argv[1],
                               "Vectors.test_one_rank"], check=False,
                              env=os.environ | {"RECORDED": fresh})
        return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
