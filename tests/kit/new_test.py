"""new_test.py BUILD [--whole]: is what `weft plugins new` writes a plugin that works?

BUILD is installed to a fresh prefix, and everything else happens with that alone, in another
folder. Files and folders are open to the user's group, as some systems have it. A sample of
kinds, languages and build tools; with --whole all of them.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, WHOLE = os.path.abspath(sys.argv[1]), "--whole" in sys.argv
PLACE = tempfile.mkdtemp(prefix="weft-kit-")
PREFIX = os.path.join(PLACE, "prefix")
WEFT = os.path.join(PREFIX, "bin", "weft")
KINDS = ("link", "coll", "strategy", "rule", "placement", "device", "op", "model", "data",
         "tokenizer", "sink")
# Kind, language, build tool.
ALL = [(k, cxx, tool) for k in KINDS for cxx in (False, True) for tool in ("cmake", "make")]
SAMPLE = [(k, k in ("rule", "sink", "model"), "make" if k in ("rule", "op", "link") else "cmake")
          for k in KINDS]


def run(words, where, status=0, **more):
    env = os.environ | {"PKG_CONFIG_PATH": os.path.join(PREFIX, "lib", "pkgconfig"), "WEFT": WEFT}
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=300, env=env,
                          check=False, **more)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-3000:]}"
                             f"{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, PLACE, ignore_errors=True)
    unittest.addModuleCleanup(os.umask, os.umask(0o002))
    run(["cmake", "--install", BUILD, "--prefix", PREFIX], PLACE)


class New(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(dir=PLACE)

    def new(self, *words, status=0):
        return run([WEFT, "plugins", "new", *words], self.place, status)

    def test_every_kind_works(self):
        for kind, cxx, tool in ALL if WHOLE else SAMPLE:
            with self.subTest(kind=kind, cxx=cxx, tool=tool):
                name = f"{tool}_{'cxx' if cxx else 'c'}"
                where = os.path.join(self.place, kind + name)
                os.mkdir(where)
                self.new(kind, f"acme.{name}", "--dir", where, *["--cxx"] * cxx)
                folder = os.path.join(where, name)
                self.assertIn(f"{name}.{'cc' if cxx else 'c'}", os.listdir(folder))
                self.expect_filled(folder)
                self.build(folder, tool)
                file = glob.glob(os.path.join(folder, "build", "lib", "weft", "*", "*.so"))[0]
                said = json.loads(run([WEFT, "plugins", "info", file, "--json"], folder))
                self.assertEqual(said["license"], "", "a plugin from outside says its own")
                if kind == "device":
                    self.expect_losses_of_cpu(folder, f"acme.{name}")
                if kind == "sink":
                    self.expect_each_step_once(folder)

    def expect_each_step_once(self, folder):
        """Steps 9 and 10 are lost with the newest checkpoint, and come again."""
        words = [WEFT, "train", "job.ini", "run.plugins=build/lib/weft", "run.out=cut",
                 "data.train=t.bin", "checkpoint.every=4", "checkpoint.keep=0", "log.progress=0",
                 "log.peak_gflops=1"]
        run([WEFT, "data", "README.md", "-o", "t.bin"], folder)
        run(words, folder)
        shutil.rmtree(os.path.join(folder, "cut", "checkpoints", "step-00000010"))
        run([*words, "--resume"], folder)
        with open(os.path.join(folder, "cut", "metrics.tsv"), encoding="utf-8") as f:
            rows = [line.split("\t") for line in f]
        self.assertEqual([int(r[0]) for r in rows if r[1] == "loss"], list(range(1, 11)))

    def test_help(self):
        """The help names every kind with its header and its page, which are installed."""
        said = self.new("--help")
        for kind in {kind for kind, _, _ in ALL}:
            found = re.search(rf"(?m)^  {kind} .* (weft/\w+\.h) +(\w+\.md)$", said)
            self.assertIsNotNone(found, kind)
            for path in ("include/" + found[1], "share/doc/weft/interfaces/" + found[2]):
                self.assertTrue(os.path.exists(os.path.join(PREFIX, path)), path)

    def test_links_of_installed_pages(self):
        """Each leads to a file that is installed; rule.md leads to whole rules. What the pages of
        the SDK name as samples and headers is all installed."""
        pages = glob.glob(os.path.join(PREFIX, "share/doc/weft/**/*.md"), recursive=True)
        self.assertGreater(len(pages), 10)
        links = []
        for page in pages:
            with open(page, encoding="utf-8") as f:
                text = f.read()
            for target in re.findall(r"\]\(([^()# ]+)[^()]*\)", text):
                if ":" not in target:
                    path = os.path.join(os.path.dirname(page), target)
                    self.assertTrue(os.path.exists(path), f"{page}: {target}")
                    links.append(os.path.realpath(path))
            if re.search("(PLUGINS|VERSIONS|CHECKS|OPS|STRATEGIES|interfaces/.*).md$", page):
                self.assertEqual(re.findall(r"\] \(.* of the source\)", text), [], page)
        self.assertGreater(len(links), 40)
        samples = os.path.realpath(os.path.join(PREFIX, "share/weft/samples"))
        self.assertIn(os.path.join(samples, "plugins/optim/lamb/lamb.c"), links)

    def expect_filled(self, folder):
        for file in os.listdir(folder):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                self.assertNotRegex(f.read(), "@[A-Z_]+@", f"{file} has a word to replace")

    def build(self, folder, tool):
        """Its own build files and its own test: the checks, and a job that trains."""
        if tool == "make":
            said = run(["make", "check"], folder)
        else:
            run(["cmake", "-B", "build", "-DCMAKE_PREFIX_PATH=" + PREFIX], folder)
            run(["cmake", "--build", "build"], folder)
            said = run(["ctest", "--test-dir", "build", "-V"], folder)
        self.assertIn(" 0 failed", said)
        self.assertRegex(said, "step +10")
        self.assertNotIn("warning:", said)

    def expect_losses_of_cpu(self, folder, name):
        """Checks and a falling loss do not show a kernel that is slightly wrong."""
        plugins = os.path.join(folder, "build", "lib", "weft")
        run([WEFT, "data", "README.md", "-o", "train.bin", f"run.plugins={plugins}"], folder)
        found = [[float(x) for x in re.findall(r"step +\d+/.* loss ([0-9.]+)", run(
            [WEFT, "train", "job.ini", f"run.plugins={plugins}", f"run.out={device}",
             f"device.plugin={device}", "data.train=train.bin"], folder))]
            for device in (name, "cpu")]
        self.assertGreater(len(found[0]), 1)
        self.assertEqual(len(found[0]), len(found[1]))
        for own, cpu in zip(*found):
            self.assertAlmostEqual(own, cpu, delta=1e-4 * cpu)

    def test_refusals(self):
        for words, why in ((("wheel", "acme.a"), "no kind of plugin; there are link"),
                           (("rule",), "a kind and a name"),
                           (("rule", "lion"), "a dot between"),
                           (("rule", "acme."), "no name"), (("rule", "acme/lion.x"), "no name"),
                           (("rule", "../acme.lion"), "no name"),
                           (("rule", "acme.9"), "begins with a letter"),
                           (("rule", "acme." + "x" * 40), "at most 40 bytes"),
                           (("rule", "acme.a", "--dir", "none"), "folder of --dir is not there"),
                           (("rule", "acme.a", "acme.b"), "does not take acme.b")):
            with self.subTest(words):
                self.assertIn(why, self.new(*words, status=2))
                self.assertEqual(os.listdir(self.place), [])

    def test_a_folder_is_not_overwritten(self):
        os.mkdir(os.path.join(self.place, "lion"))
        self.assertIn("lion: File exists", self.new("rule", "acme.lion", status=2))
        self.assertEqual(os.listdir(os.path.join(self.place, "lion")), [])

    def test_without_templates(self):
        """Nothing is left where a template is missing."""
        templates = os.path.join(PREFIX, "share", "weft", "templates")
        os.rename(os.path.join(templates, "common"), os.path.join(self.place, "kept"))
        self.assertIn("templates", self.new("rule", "acme.lion", status=77))
        os.rename(os.path.join(self.place, "kept"), os.path.join(templates, "common"))
        self.assertEqual(os.listdir(self.place), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
