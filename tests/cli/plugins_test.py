"""weft plugins and weft config: what is installed, what it takes, and the document made of it."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import unittest

import started

SHIPPED = {"comm": {"self", "tcp", "shm"}, "device": {"cpu"}, "optim": {"sgd", "adam", "adamw"},
           "parallel": {"dp"}, "op": {"builtin"}}


class Plugins(started.Case):
    def listed(self, **how):
        out, _ = self.weft("plugins", **how)
        return {tuple(line.split(None, 3)[:3]): line.split(None, 3)[3] for line in out.splitlines()}

    def test_all_are_listed(self):
        found = self.listed()
        for kind, names in SHIPPED.items():
            self.assertLessEqual(names, {name for k, name, _ in found if k == kind})
        self.assertTrue(all(iface.startswith("weft.") for _, _, iface in found))
        self.assertTrue(all(found.values()))

    def test_each_explains_itself(self):
        for kind, name, iface in self.listed():
            out, _ = self.weft("plugins", name)
            self.assertIn(f"{kind} {name}: ", out)
            self.assertIn(iface, out)
        self.assertIn("[optim]", self.weft("plugins", "adamw")[0])
        self.assertIn("weight_decay", self.weft("plugins", "adamw")[0])
        self.assertIn("[comm.tcp]", self.weft("plugins", "tcp")[0])
        self.assertIn("  dp ", self.weft("plugins", "dp")[0])

    @unittest.skipIf(os.geteuid(), "only root can give files away")
    def test_a_build_of_another_user(self):
        """In a container a mounted build has the owner that it has outside; a user namespace that
        maps one id shows all others as 65534. The program's own plugins go with the program."""
        os.chmod(self.place, 0o755)
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        shutil.copytree(lib, self.path("tree", "lib", "weft"))
        os.mkdir(self.path("tree", "bin"))
        program = shutil.copy(started.WEFT, self.path("tree", "bin", "weft"))
        alone = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "unshare", "-U", "-c"]
        for owner, words in ((1234, []), (0, alone)):
            for base, folders, files in os.walk(self.path("tree")):
                for name in folders + files:
                    os.chown(os.path.join(base, name), owner, owner)
            self.plan_with([*words, program], 0)
        os.makedirs(self.path("mine", "optim"))
        foreign = shutil.copy(os.path.join(lib, "optim", "adamw.so"), self.path("mine", "optim"))
        os.chown(foreign, 4321, 4321)
        for words in ([], alone):
            said = self.plan_with([*words, program], 2, "run.plugins=mine")
            self.assertRegex(said, r"belongs to user \d+, who is neither root nor you nor the "
                                   "owner of the program")

    def test_the_ops_are_missing(self):
        """Every job uses them; the sentence says where they were looked for. A folder that the job
        names may have them."""
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        shutil.copytree(lib, self.path("tree", "lib", "weft"))
        os.mkdir(self.path("tree", "bin"))
        program = [shutil.copy(started.WEFT, self.path("tree", "bin", "weft"))]
        os.rename(self.path("tree", "lib", "weft", "op"), self.path("op"))
        said = self.plan_with(program, 2)
        self.assertIn("the ops that come with weft, which every job uses: no op plugin 'builtin' "
                      f"in {self.path('tree/lib/weft/op')}", said)
        os.makedirs(self.path("mine"), mode=0o755)
        os.rename(self.path("op"), self.path("mine", "op"))
        self.plan_with(program, 0, "run.plugins=mine")

    def plan_with(self, program, status, *words):
        done = subprocess.run([*program, "plan", "tiny.ini", *words], cwd=self.place, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_info(self):
        """What a file says of itself, and another file with the same name."""
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        own = os.path.join(lib, "optim", "adamw.so")
        out = self.weft("plugins", "info", own)[0]
        self.assertIn("optim adamw (weft.rule/1)", out)
        self.assertIn("(default 1e-8)", out)
        self.assertNotIn("another plugin", out)
        os.makedirs(self.path("mine", "optim"), mode=0o755)
        copy = shutil.copy(own, self.path("mine", "optim", "adamw.so"))
        os.chmod(copy, 0o755)
        said = json.loads(self.weft("plugins", "info", copy, "--json", "run.plugins=mine")[0])
        with open(own, "rb") as f:
            self.assertEqual(said["sha256"], hashlib.sha256(f.read()).hexdigest())
        self.assertEqual((said["id"], said["abi"]), ("weft.adamw", said["program_abi"]))
        component = said["components"][0]
        self.assertEqual(component["also_in"], [own])
        self.assertEqual([o["key"] for o in component["options"]],
                         ["betas", "eps", "weight_decay"])
        self.refused("plugins", "info", why="takes a FILE.so")
        self.refused("plugins", "info", "none.so", why="cannot find the plugin none.so")
        self.refused("plugins", "info", "tiny.ini", why="no ELF header")
        self.refused("plugins", "info", own, own, why="does not take")

    def test_info_of_a_file_that_ends_the_process(self):
        for name, body, why in (
                ("ends", "_exit(0);", "its code ended the process with status 0 when it was"),
                ("exits", "exit(0);", "does not survive being loaded"),
                ("crashes", "abort();", "does not survive being loaded")):
            path = self.path(f"{name}.so")
            self.write(f"{name}.c", "#include <stdlib.h>\n#include <unistd.h>\n"
                       f"__attribute__((constructor)) static void begin(void) {{ {body} }}\n")
            subprocess.run([shutil.which("cc") or "gcc", "-shared", "-fPIC", "-o", path,
                            self.path(f"{name}.c")], check=True)
            os.chmod(path, 0o755)
            for words in ([path], [path, "--json"]):
                said = self.weft("plugins", "info", *words, status=2)
                self.assertEqual(said[0], "")
                self.assertIn(why, said[1])
                self.assertIn(path, said[1])

    def test_names_of_files_are_printed_as_text(self):
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        os.makedirs(self.path("p", "optim"))
        for name in ("x\033[31m.so", "x\nweft.so"):
            file = shutil.copy(os.path.join(lib, "optim", "sgd.so"), self.path("p", "optim", name))
            said = self.weft("plugins", "info", file, status=2)[1]
            self.assertRegex(said, r"^weft error: '[ -~]*x\?[ -~]*': the path of a plugin has "
                                   r"control characters[ -~]*\n$")
        out, err = self.weft("plugins", "run.plugins=p")
        self.assertRegex(out, r"(?m)^optim +x\?weft +unusable: .* control characters")
        self.assertRegex(out, r"(?m)^optim +x\?\[31m +unusable: ")
        self.assertRegex(out + err, r"^[\n -~]*$")
        self.refused("plan", "tiny.ini", "run.plugins=p", "optim.rule=acme.none",
                     why="run.plugins and WEFT_PLUGIN_PATH name further folders")

    def test_licences(self):
        """Every plugin of the tree names that of the tree; what others say is in tests/kit."""
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        files = [os.path.join(folder, name) for folder, _, names in os.walk(lib) for name in names
                 if name.endswith(".so") and os.path.basename(folder) != "lib"]
        self.assertTrue(files)
        for file in files:
            said = json.loads(self.weft("plugins", "info", file, "--json")[0])
            self.assertEqual((file, said["license"]), (file, "Apache-2.0"))

    def test_refusals(self):
        self.refused("plugins", "admw", why="did you mean 'adamw'?")
        self.refused("plugins", "../x", why="no plugin is named")
        self.refused("plugins", "a", "b", why="one name at a time")
        self.refused("plugins", "no.ini", why="cannot open the job file no.ini")
        self.refused("config", "x", why="takes no arguments but")

    def test_a_job_names_files(self):
        self.write("names.ini", "[optim]\nrule = adamw\n")
        out, _ = self.weft("plugins", "names.ini")
        self.assertRegex(out, r"optim\.rule = adamw: /.*/optim/adam.*\.so\n")
        self.assertNotIn("optim.rule = ", self.weft("plugins")[0])
        self.refused("plugins", "names.ini", "optim.rule=admw", why="did you mean 'adamw'?")
        self.refused("plugins", "names.ini", "run.use=acme.none", why="run.use")
        self.refused("plugins", "names.ini", "run.use=sgd", why="has neither an op nor a kernel")

    def test_an_unusable_file_is_listed_with_its_reason(self):
        os.makedirs(self.path("p", "optim"))
        self.write("p/optim/broken.so", "not a plugin")
        os.chmod(self.path("p"), 0o755)
        out, _ = self.weft("plugins", env={"WEFT_PLUGIN_PATH": self.path("p")})
        self.assertRegex(out, r"optim +broken +unusable: .*not a shared object")
        said = self.weft("plugins", "broken", status=2,
                         env={"WEFT_PLUGIN_PATH": self.path("p")})[1]
        self.assertIn("broken cannot be used: ", said)
        self.write("b.ini", f"[run]\nplugins = {self.path('p')}\n[optim]\nrule = broken\n")
        self.refused("plan", "b.ini", why="it is not a shared object")

    def test_a_folder_of_the_users_comes_first(self):
        os.makedirs(self.path("p", "optim"))
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        shutil.copy(os.path.join(lib, "optim", "sgd.so"), self.path("p", "optim", "sgd.so"))
        out, _ = self.weft("plugins", "sgd", env={"WEFT_PLUGIN_PATH": self.path("p")})
        self.assertIn(self.path("p", "optim", "sgd.so"), out)
        said = self.weft("plan", "tiny.ini", "run.plugins=p", "optim.rule=sgd",
                         "log.level=debug")[1]
        self.assertIn(f"the optim plugin 'sgd' is loaded from {self.path('p/optim/sgd.so')}, which "
                      f"takes the place of {lib}/optim/sgd.so", said)
        self.assertIn(f"plugin weft.sgd is loaded from {self.path('p/optim/sgd.so')}", said)
        self.assertNotIn("takes the place", self.weft("plan", "tiny.ini", "optim.rule=sgd")[1])

    def test_any_two_places_are_told(self):
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        for place in ("p", "q"):
            os.makedirs(self.path(place, "optim"))
            shutil.copy(os.path.join(lib, "optim", "sgd.so"),
                        self.path(place, "optim", "acme.so"))
        said = self.weft("plugins", "run.plugins=p:q")[1]
        self.assertNotIn("takes the place", said)
        said = self.weft("plan", "tiny.ini", "run.plugins=p:q", "optim.rule=acme", status=2)[1]
        self.assertIn(f"is loaded from {self.path('p/optim/acme.so')}, which takes the place of "
                      "q/optim/acme.so", said)

    def test_the_file_that_a_job_loads(self):
        """The first place counts, whatever its name; the others are named as not loaded."""
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        for place in ("a", "b"):
            os.makedirs(self.path(place, "optim"))
            shutil.copy(os.path.join(lib, "optim", "sgd.so"), self.path(place, "optim", "sgd.so"))
        self.write("ba.ini", "[run]\nplugins = b:a\n")
        for words in (["run.plugins=b:a", "sgd"], ["ba.ini", "sgd"]):
            out = self.weft("plugins", *words)[0]
            self.assertRegex(out, rf"^optim sgd: .*\n.* {self.path('b/optim/sgd.so')}\n")
            self.assertEqual(out.count("keys in [optim]"), 1, out)
            self.assertIn(f"not loaded, since the file above is found first: "
                          f"{self.path('a/optim/sgd.so')}\n", out)
        self.write("b/optim/sgd.so", "not a plugin")  # no job goes past it
        self.refused("plugins", *words, why=f"{self.path('b/optim/sgd.so')}")
        os.rename(self.path("b/optim/sgd.so"), self.path("a/optim/other.so"))
        self.assertIn(f" {self.path('a/optim/sgd.so')}\n", self.weft("plugins", *words)[0])

    def test_the_folders_of_a_job_are_looked_into(self):
        os.makedirs(self.path("p", "optim"))
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
        shutil.copy(os.path.join(lib, "optim", "sgd.so"), self.path("p", "optim", "mine.so"))
        self.write("own.ini", "[run]\nplugins = p\n")
        for words in (["own.ini", "sgd"], ["sgd", "run.plugins=p"]):
            self.assertIn(self.path("p", "optim", "mine.so"), self.weft("plugins", *words)[0])
        self.assertEqual(self.weft("plugins", "own.ini")[0].count("\noptim     sgd "), 2)

    def test_libraries_of_the_working_folder(self):
        """No library is taken from where the user happens to be, which may be somebody else's."""
        top = os.path.dirname(os.path.dirname(started.WEFT))
        programs = [os.path.join(top, "bin", name) for name in ("weft", "weft-check")]
        plugins = glob.glob(os.path.join(top, "lib", "weft", "*", "*.so"))
        said = subprocess.run(["ldd", *programs, *plugins], check=True, capture_output=True,
                              text=True).stdout
        libraries = set(re.findall(r"^\s+(\S+) => ", said, re.M))
        self.assertIn("libz.so.1", libraries)
        for name in (*libraries, "libmicrohttpd.so.12"):
            self.write(name, "no library")
        for words in ([programs[0], "plugins"], [programs[1], "--help"]):
            done = subprocess.run(words, cwd=self.place, check=False, capture_output=True,
                                  text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertNotIn("too short", done.stdout)

    def test_a_checker_that_is_not_installed(self):
        """The checker is a part of the SDK, which a machine that trains may lack."""
        os.makedirs(self.path("bin"))
        shutil.copy(started.WEFT, self.path("bin", "weft"))
        done = subprocess.run([self.path("bin", "weft"), "plugins", "check", "x.so"], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("bin/weft-check, which tests plugins, cannot be started", done.stderr)
        self.assertIn("(package weft-dev)", done.stderr)

    def test_the_reference_is_current(self):
        out, _ = self.weft("config")
        with open(os.path.join(started.SOURCE, "docs", "CONFIG.md"), encoding="utf-8") as f:
            kept = f.read()
        for section in re.findall(r"(?ms)^## \[(?:comm\.\w+|device)\] with .*?(?=^## |\Z)", kept):
            name = re.search(r"with the plugin (\w+)", section).group(1)
            name = {"mpi_pairs": "mpi"}.get(name, name)  # one file
            if not started.built("device" if "[device]" in section else "comm", name):
                kept = kept.replace(section, "")
        self.assertEqual(kept, out, "docs/CONFIG.md is old: weft config > docs/CONFIG.md")

    def test_the_page_of_metrics_is_current(self):
        out, _ = self.weft("config", "metrics")
        with open(os.path.join(started.SOURCE, "docs", "METRICS.md"), encoding="utf-8") as f:
            self.assertEqual(f.read(), out, "it is old: weft config metrics > docs/METRICS.md")


if __name__ == "__main__":
    started.main()
