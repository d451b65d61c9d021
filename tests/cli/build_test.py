"""A tree that was copied or moved with its build folder configures where it is."""
import os
import shutil
import subprocess

import started


class Build(started.Case):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("first/cmake"))
        for name in ("CMakePresets.json", "Makefile", "cmake/configure.sh"):
            shutil.copy(os.path.join(started.SOURCE, name), self.path("first", name))
        self.write("first/CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\n"
                                           "project(copied LANGUAGES NONE)\n")

    def configure(self, tree, status=0):
        done = subprocess.run(["sh", self.path(tree, "cmake/configure.sh"), "release"],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_a_copied_build_folder_is_made_anew(self):
        self.assertEqual(self.configure("first"), "")
        self.write("first/build/release/mine", "kept")
        self.assertEqual(self.configure("first"), "")
        self.assertEqual(self.read("first/build/release/mine"), b"kept")
        shutil.copytree(self.path("first"), self.path("second"))
        said = self.configure("second")
        self.assertIn(f"build/release was made in {self.path('first')}, not here", said)
        self.assertNotIn("mine", self.names("second/build/release"))
        self.assertIn(self.path("second") + "\n",
                      self.read("second/build/release/CMakeCache.txt").decode())
        self.assertEqual(self.configure("second"), "")

    def make(self, tree):
        done = subprocess.run(["make", "-s", "build"], cwd=self.path(tree), capture_output=True,
                              text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_make_in_a_moved_tree(self):
        """Also where cmake has configured by itself; make demo and all others build by this rule,
        and make test configures as tests/runner shows."""
        subprocess.run(["cmake", "--preset", "release"], cwd=self.path("first"), check=True,
                       capture_output=True, timeout=300)
        self.assertNotIn("was made in", self.make("first"))
        os.rename(self.path("first"), self.path("moved"))
        self.assertIn(f"build/release was made in {self.path('first')}, not here",
                      self.make("moved"))
        self.assertNotIn("was made in", self.make("moved"))
        for target in ("demo", "nightly", "bench", "bundle"):
            done = subprocess.run(["make", "-n", target], cwd=started.SOURCE, capture_output=True,
                                  text=True, timeout=300, check=True)
            self.assertIn("cmake/configure.sh release", done.stdout, target)

    def test_what_cmake_says_is_printed_on_failure(self):
        self.write("first/CMakeLists.txt", "message(FATAL_ERROR nonsense)\n")
        self.assertIn("nonsense", self.configure("first", status=1))

    def test_make_peers_compares_or_fails(self):
        """Whether the packages cannot be installed, or a comparison says that it has none."""
        for name in ("tests/hf/peers.py", "tests/generate/record.py"):
            os.makedirs(os.path.dirname(self.path("first", name)))
            self.write(f"first/{name}", "raise SystemExit(77)")
        shutil.copy(os.path.join(started.SOURCE, "cmake/peers.sh"), self.path("first/cmake"))
        self.write("first/tests/hf/peers.txt", "./absent")
        for why in ("build/peers could not be made", "Error 77"):
            done = subprocess.run(["make", "peers"], cwd=self.path("first"), capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn(why, done.stderr)
            os.makedirs(self.path("first/build/peers"), exist_ok=True)
            self.write("first/build/peers/installed", "./absent")


if __name__ == "__main__":
    started.main()
