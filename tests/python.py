"""python.py PACKAGES SCRIPT [ARGUMENT...]: run SCRIPT with the Python that has the packages of
requirements.txt, of which it needs PACKAGES, "a, b": the one that make integration makes, or this
one. 77: neither has them."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for python in (os.path.join(HERE, "../build/python/bin/python3"), sys.executable):
    if os.path.exists(python) and not subprocess.run(
            [python, "-c", f"import {sys.argv[1]}"], capture_output=True, check=False).returncode:
        os.execv(python, [python, "-B", *sys.argv[2:]])
print(f"{sys.argv[1]} is not here; make integration installs it")
sys.exit(77)
