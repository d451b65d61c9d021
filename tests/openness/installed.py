"""installed.py: the plugins of plugins/, built against an installed SDK. A script imports it first,
with the build as its first argument; then that argument is the installed program, for weft_jobs."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PLACE = tempfile.mkdtemp(prefix="weft-openness-")
BUILD, sys.argv[1] = sys.argv[1], os.path.join(PLACE, "prefix", "bin", "weft")
PLUGINS = os.path.join(PLACE, "build", "lib", "weft")


def build(*targets):
    """Install BUILD to a fresh prefix and build the plugins; for setUpModule()."""
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    prefix, folder = os.path.join(PLACE, "prefix"), os.path.join(PLACE, "build")
    more = ["--target", *targets] if targets else []
    for words in (["cmake", "--install", BUILD, "--prefix", prefix],
                  ["cmake", "-S", os.path.join(HERE, "plugins"), "-B", folder,
                   "-DCMAKE_PREFIX_PATH=" + prefix],
                  ["cmake", "--build", folder, *more]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
