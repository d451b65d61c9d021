"""Every command in README, docs/ and the first comments of configs/ runs as it is written.

Lines of fenced blocks and commands in first comments are executed by a shell in a folder with a
copy of configs/ and small data. `weft` is there a script that makes the models small, and changes
nothing else of a job: batches, ranks and strategies are what a reader would have. Output that the
README shows below a command has the shape of what the command prints. Of `weft ...` in running
text, subcommand and options have to be in the command's help.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

import started

DOCUMENTS = ["README.md", *sorted(glob.glob("docs/*.md", root_dir=started.SOURCE)),
             *sorted(glob.glob("docs/interfaces/*.md", root_dir=started.SOURCE))]

SMALL = f"""#!{sys.executable}
import os, re, sys
words = sys.argv[1:]
jobs = [w for w in words if w.endswith(".ini") and "=" not in w and os.path.exists(w)]
if jobs and words[0] in ("train", "plan", "bench", "tune", "doctor") and "gpt2" not in jobs[0]:
    heads = int(re.search(r"^heads = (\\d+)", open(jobs[0]).read(), re.M).group(1))
    words += [f"model.embed={{heads * 8}}", "model.ffn=32", "model.context=16",
              "train.sequence=16", "log.peak_gflops=1"]
    if not any(w.startswith("device.plugin=") for w in words):
        words += ["device.threads=1"]
    if words[0] == "tune":
        words += ["tune.max=4K", "tune.seconds=0.01", "tune.passes=1"]
    if words[0] == "bench":
        words += ["sweep.repeats=1", "sweep.steps=2"]
    if "demo" not in jobs[0] and words[0] == "train":
        words += ["run.steps=4"]
os.execv({started.WEFT!r}, [{started.WEFT!r}, *words])
"""

# What another test runs, and a word that has to be in it.
ELSEWHERE = {
    "weft train --hosts hosts job.ini": ("tests/ssh/jobs.py", '"--hosts"'),
    **dict.fromkeys((
        "weft import hf DIR -o base",
        "weft data --tokenizer base/tokenizer.json corpus/ -o TOKENS.bin --valid VALID.bin",
        "weft train -n 2 base/job.ini data.train=TOKENS.bin data.valid=VALID.bin run.steps=200 "
        "run.out=runs/tuned checkpoint.every=100",
        "weft eval runs/tuned/checkpoints/step-00000200",
        'weft sample runs/tuned/checkpoints/step-00000200 --prompt "Once upon a time"',
        "weft export hf runs/tuned/checkpoints/step-00000200 -o tuned --dtype bf16"),
        ("tests/hf/hf.py", "HUGGINGFACE.md")),
    "weft watch runs/demo --http": ("tests/report/watch_test.py", '"--http"'),
    "cmake --install build/release --prefix PREFIX": ("tests/kit/new_test.py", "--install"),
    "cmake -S . -B BUILD -DCMAKE_PREFIX_PATH=PREFIX && cmake --build BUILD":
        ("tests/kit/new_test.py", "CMAKE_PREFIX_PATH"),
}
# Statuses besides 0: a machine need not have the hardware.
ABSENT = {"device.plugin=cuda": (0, 77), "comm.plugin=verbs": (0, 77),
          "comm.plugin=ucx": (0, 77)}


def fenced(name):
    """The commands of the fenced blocks of a document that name no language."""
    with open(os.path.join(started.SOURCE, name), encoding="utf-8") as f:
        text = f.read()
    found = []
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            command = re.sub(r"\s+#.*", "", line).strip()
            if re.match(r"weft |make |cmake |tests/\w|bench/\w|export ", command):
                found.append(command)
    return found


def shown(name):
    """The output lines that a document shows below each command of a fenced block."""
    with open(os.path.join(started.SOURCE, name), encoding="utf-8") as f:
        text = f.read()
    blocks = re.findall(r"^```\n(weft [^\n]*)\n(.*?)^```", text, re.M | re.S)
    return {command: lines.splitlines() for command, lines in blocks
            if lines and not re.search(r"^weft ", lines, re.M)}


def shape(line):
    """A line without its time, numbers, units and columns."""
    line = re.sub(r"^[-\dT:.]+Z ", "", line)
    line = re.sub(r"\d[\d.]*", "N", line)
    line = re.sub(r"\b(K|M|G)iB\b|\bbytes\b", "SIZE", line)
    return " ".join(re.sub(r"\b[kMGT]?FLOP\b", "FLOP", line).split())


def of_words(text):
    """Commands in running text: `weft` and what follows as long as it looks like its words."""
    word = r"(?:--?[a-z]+\b|\d+|[\w/.-]+\.(?:ini|key|bin)|[a-z_]+\.[a-z_]+=[\w./,]+)"
    pattern = rf"((?:[A-Z_]+=\S+ )*weft [a-z]+(?: (?:comm|{word}))*)"
    return [found.rstrip(".") for found in re.findall(pattern, text)]


def first_comment(path):
    with open(path, encoding="utf-8") as f:
        head = re.match("(?:;.*\n)*", f.read()).group()
    return re.sub(r"\n; *", " ", head).replace("`", " ` ")


class Documents(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.demo_data()
        shutil.copy(os.path.join(started.SOURCE, "README.md"), self.place)
        for folder in ("configs", "docs"):
            shutil.copytree(os.path.join(started.SOURCE, folder), self.path(folder))
        for name in ("bin", "BUILD/lib/weft"):
            os.makedirs(self.path(name))
        self.write("bin/weft", SMALL)
        os.chmod(self.path("bin/weft"), 0o755)
        self.write("job.ini", started.TINY.replace("train.bin", "runs/demo-train.bin")
                   .replace("valid.bin", "runs/demo-valid.bin").replace("batch = 4", "batch = 8")
                   + "[parallel]\nstrategy = dp\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_PLUGIN")}
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]

    def start(self, command, **env):
        return subprocess.Popen(["bash", "-c", command], cwd=self.place, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env=self.env | env)

    def finish(self, process, command, statuses=(0,)):
        said = process.communicate(timeout=300)[0]
        self.assertIn(process.returncode, statuses, f"{command}\n{said[-4000:]}")
        return said

    def run_ranks(self, command):
        """RANK=0 WORLD_SIZE=2 MASTER_ADDR=first ... weft train JOB: all its ranks, here."""
        port = started.free_port()
        command = re.sub(r"MASTER_ADDR=\S+", "MASTER_ADDR=127.0.0.1", command)
        command = re.sub(r"MASTER_PORT=\d+", f"MASTER_PORT={port}", command)
        ranks = int(re.search(r"WORLD_SIZE=(\d+)", command).group(1))
        started_ranks = [
            (self.start(of_rank), of_rank) for of_rank in
            (re.sub(r"RANK=\d+", f"RANK={r}", command) + " run.key=job.key" for r in range(ranks))]
        for process, of_rank in started_ranks:
            self.finish(process, of_rank)

    def run_command(self, command):
        if command in ELSEWHERE:
            path, word = ELSEWHERE[command]
            with open(os.path.join(started.SOURCE, path), encoding="utf-8") as f:
                self.assertIn(word, f.read())
        elif command.startswith("make "):
            subprocess.run(["make", "-n", *command.split()[1:]], cwd=started.SOURCE, check=True,
                           stdout=subprocess.DEVNULL)
        elif command.startswith("RANK="):
            self.run_ranks(command)
        else:
            absent = [word for word in ABSENT if word in command]
            kind, name = absent[0].replace(".plugin", "").split("=") if absent else ("", "")
            if not absent or started.built(kind, name):
                return self.finish(self.start(command), command,
                                   ABSENT[absent[0]] if absent else (0,))
        return ""

    def assert_shape(self, lines, said):
        """Each line that is shown is printed, in this order; "..." stands for any lines."""
        printed = [shape(line) for line in said.splitlines()]
        for line in lines:
            if line == "...":
                continue
            self.assertIn(shape(line), printed, said)
            del printed[:printed.index(shape(line)) + 1]

    def test_readme(self):
        """`make demo` first, as it says."""
        said = self.finish(self.start("sh configs/demo.sh", WEFT="weft", TEXT="text"), "demo.sh")
        self.assertRegex(said, r"step  *1000")
        commands, output = fenced("README.md"), shown("README.md")
        self.assertGreater(len(commands), 10)
        self.assertGreater(len(output), 5)
        self.assertLess(set(output), set(commands))
        for command in commands:
            with self.subTest(command=command):
                lines = output.get(command, [])
                if command.startswith("weft sample"):  # the text after the prompt may be any
                    said = self.run_command(command + " 2>sample.log")  # without the log
                    self.assertTrue(said.startswith("A good ") and lines[0].startswith("A good "))
                else:
                    self.assert_shape(lines, self.run_command(command))

    def test_picture(self):
        """The committed SVGs are what the scripts draw."""
        for script in ("draw.py", "trace.py"):
            subprocess.run([sys.executable, os.path.join(started.SOURCE, "docs/picture", script),
                            "--check"], check=True)

    def test_docs(self):
        commands = [c for name in DOCUMENTS if name != "README.md" for c in fenced(name)]
        self.assertGreater(len(commands), 12)
        for command in commands:
            with self.subTest(command=command):
                self.run_command(command)

    def test_first_comments_of_configs(self):
        executed = 0
        for path in sorted(glob.glob(self.path("configs/*.ini"))):
            for command in sorted(of_words(first_comment(path)), key=lambda c: "key -o" not in c):
                with self.subTest(job=os.path.basename(path), command=command):
                    if "key -o" in command and os.path.exists(self.path("job.key")):
                        os.remove(self.path("job.key"))
                    if ".ini" in command or "key -o" in command:
                        self.run_command(command)
                        executed += 1
        self.assertGreater(executed, 24)

    def test_words_in_running_text(self):
        helps = {}
        for name in [*DOCUMENTS, *glob.glob("configs/*.ini", root_dir=started.SOURCE)]:
            with open(os.path.join(started.SOURCE, name), encoding="utf-8") as f:
                text = f.read()
            spans = re.findall(r"`(weft [^`]+)`", text) if name.endswith(".md") else [text]
            for command in (c for span in spans for c in of_words(span)):
                words = re.sub(r"^(\w+=\S+ )*weft ", "", command).split()
                if words[0] not in helps:
                    helps[words[0]] = self.weft(words[0], "--help")[0]
                for option in (w for w in words if w.startswith("--") and w != "--help"):
                    self.assertIn(option, helps[words[0]], f"{name}: {command}")
        self.assertGreater(len(helps), 8)


if __name__ == "__main__":
    started.main()
