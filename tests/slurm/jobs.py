#!/usr/bin/env python3
"""jobs.py WEFT, inside cluster.py: do jobs under Slurm do what docs/SLURM.md says?

srun with nothing set and every --mpi that is there; the page's own batch scripts; scancel, a time
limit, requeue, a killed slurmd, a killed rank, arrays and heterogeneous steps. What comes out has
the bits of a job of weft's own launcher."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "SLURM.md")
BASE = w.EVEN | {"run.steps": 40, "model.layers": 1, "train.microbatch": 1, "comm.plugin": "tcp",
                 "checkpoint.every": 10, "checkpoint.keep": 100}
LONG = BASE | {"run.steps": 1000000, "checkpoint.every": 100000000}


def run(*words, timeout=120):
    return subprocess.run([str(x) for x in words], capture_output=True, text=True, timeout=timeout,
                          env=environment(), stdin=subprocess.DEVNULL)


def environment():
    """Slurm's own variables alone, and the folder of weft first."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(w.LAUNCHERS)}
    return keep | {"SLURM_CONF": os.environ["SLURM_CONF"],
                   "PATH": os.path.dirname(w.WEFT) + ":" + os.environ["PATH"]}


def scripts():
    """The batch scripts of the page."""
    with open(PAGE, encoding="utf-8") as f:
        return re.findall(r"```sh\n(#!/bin/sh\n.*?)```", f.read(), re.S)


class Slurm(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("plain4", BASE, ranks=4)

    def srun(self, out, job, *options, more=()):
        return run("srun", *options, w.WEFT, "train", self.ini, *self.options(out, job), *more)

    def test_nothing_set(self):
        for name, options in (("two nodes", ("-N2", "-n4")), ("uneven", ("-N3", "-n4")),
                              ("one node", ("-N1", "-n4")), ("pmi2", ("--mpi=pmi2", "-N2", "-n4")),
                              ("pmix", ("--mpi=pmix", "-N2", "-n4")),
                              ("none", ("--mpi=none", "-N4", "-n4")),
                              ("ports", ("--resv-ports", "-N2", "-n4"))):
            with self.subTest(name):
                out = name.replace(" ", "")
                done = self.srun(out, BASE, *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.same_run("plain4", out, step=40)

    def test_names_that_nobody_knows(self):
        """/etc/hosts of a node as in clouds: without the nodes, its own name as on Debian."""
        script = self.path("hosts.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n"
                    "if [ $1 = debian ]; then echo 127.0.1.1 $SLURMD_NODENAME; fi "
                    f">{self.place}/hosts.$SLURMD_NODENAME\n"
                    f"mount --bind {self.place}/hosts.$SLURMD_NODENAME /etc/hosts\n"
                    'shift; exec "$@"\n')
        os.chmod(script, 0o755)
        for kind in ("none", "debian"):
            with self.subTest(kind):
                done = run("srun", "-N2", "-n4", "unshare", "--mount", script, kind, w.WEFT,
                           "train", self.ini, *self.options(kind, BASE))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.same_run("plain4", kind, step=40)
                self.assertIn("its NodeAddr in Slurm is 10.77.0.1", done.stderr)

    def test_refusals(self):
        done = run("srun", "-n2", w.WEFT, "train", "-n", 2, self.ini, *self.options("no", BASE))
        self.assertEqual(done.returncode, 2)
        self.assertIn("srun has started this program 2 times", done.stderr)
        self.assertIn("`srun -n 2 weft train", done.stderr)
        done = run("srun", "-n2", w.WEFT, "train", "--hosts", "none", self.ini,
                   *self.options("no", BASE))
        self.assertIn("leave --hosts out: `srun -n 2 weft train", done.stderr)
        script = self.path("alone.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{w.WEFT} train {self.ini} {' '.join(self.options('no', BASE))}\n")
        _, state, said = self.batch(script, "-n4")
        self.assertEqual(state, "FAILED", said)
        self.assertIn("the Slurm job has 4 tasks", said)
        self.assertIn("`srun weft train", said)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_port_of_another_user(self):
        """What answers at the port is another user's job, whose key munge does not open."""
        script = self.path("user.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n[ $SLURM_PROCID = 0 ] && exec \"$@\"\n"
                    'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"\n')
        for path, mode in ((self.place, 0o755), (script, 0o755)):
            os.chmod(path, mode)
        done = run("srun", "-N2", "-n2", script, w.WEFT, "train", self.ini,
                   *self.options("no", BASE | {"run.join_timeout": 10}))
        self.assertIn("a process of another user than 65534, who runs this rank: another job has "
                      "the port", done.stderr)

    # --- batch jobs ---

    def submit(self, script, *options):
        done = run("sbatch", "--parsable", "--chdir", self.place, *options, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def state(self, number):
        said = run("scontrol", "show", "job", number).stdout
        return re.search(r"JobState=(\w+)", said)[1], said

    def until_state(self, number, wanted, limit=150):
        until = time.monotonic() + limit
        seen = None  # when the job was first seen to wait for its time after a requeue
        while time.monotonic() < until:
            state, said = self.state(number)
            if state in wanted:
                return state
            if state == "PENDING" and "Reason=BeginTime" in said:
                # Not at once: slurmd refuses credentials of the second in which it revoked some.
                seen = seen or time.monotonic()
                if time.monotonic() > seen + 2:
                    run("scontrol", "update", f"JobId={number}", "StartTime=now")
            time.sleep(0.3)
        said += w.read_text(self.path("job.log"))
        self.fail(f"job {number} is {state}, not {wanted}:\n{said}")

    def batch(self, script, *options):
        log = script + ".out"
        number = self.submit(script, "--output", log, *options)
        state = self.until_state(number, ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"))
        return number, state, w.read_text(log)

    def page_script(self, index, job):
        """A script of the page, with a job.ini beside it."""
        with open(self.path("job.ini"), "w", encoding="utf-8") as f:
            sections = {}
            for option in self.options("paged", job):
                key, value = option.split("=", 1)
                sections.setdefault(key.split(".")[0], []).append((key.split(".")[1], value))
            for section, values in sections.items():
                f.write(f"[{section}]\n" + "".join(f"{k} = {v}\n" for k, v in values))
        path = self.path(f"page{index}.sh")
        with open(path, "w", encoding="utf-8") as f:
            f.write(scripts()[index])
        return path

    def until_step(self, out, step, limit=60):
        until = time.monotonic() + limit
        path = self.path(out, "metrics.jsonl")
        while time.monotonic() < until:
            found = re.findall(r'"step": ?(\d+)', w.read_text(path))
            if found and int(found[-1]) >= step:
                return int(found[-1])
            time.sleep(0.1)
        self.fail(f"{out} did not get to step {step}: {w.read_text(self.path('job.log'))}")

    def until_said(self, pattern, limit):
        """The first group of a pattern in job.log."""
        until = time.monotonic() + limit
        while not (found := re.search(pattern, w.read_text(self.path("job.log")))):
            self.assertLess(time.monotonic(), until, w.read_text(self.path("job.log")))
            time.sleep(0.2)
        return found[1]

    def test_time_limit(self):
        """USR1 before the limit: saved, requeued, continued; then a rank is killed while it trains,
        and at the end scancel saves once more."""
        number = self.submit(self.page_script(0, LONG))
        self.until_step("paged", 5)
        step = int(self.until_said("stopped by SIGUSR1 after step ([0-9]+), which is saved", 120))
        until = time.monotonic() + 60
        while "Restarts=1" not in self.state(number)[1]:
            self.assertLess(time.monotonic(), until, self.state(number)[1])
            time.sleep(0.2)
        self.assertEqual(self.until_state(number, ("RUNNING",)), "RUNNING")
        self.until_step("paged", step + 5)
        self.assertIn(f"resumed after step {step} of", w.read_text(self.path("job.log")))
        # a rank dies: the same Slurm job goes on
        victims = [p for p in w.listed("/proc") if p.isdigit()
                   and b"SLURM_PROCID=3" in self.environ_of(p)
                   and b"WEFT_ATTEMPT=1" in self.environ_of(p)]
        self.assertEqual(len(victims), 1)
        os.kill(int(victims[0]), signal.SIGKILL)
        self.until_said(f"(?s)(resumed after step {step} of).*resumed after step {step} of", 60)
        run("scancel", number)
        self.until_state(number, ("CANCELLED",))
        last = int(self.until_said("stopped by SIGTERM after step ([0-9]+), which is saved", 20))
        self.assertIn(f"step-{last:08d}", os.listdir(self.path("paged", "checkpoints")))

    @staticmethod
    def environ_of(pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                return f.read()
        except OSError:
            return b""

    def test_array(self):
        number = self.submit(self.page_script(1, BASE))
        for element in (0, 1):
            self.assertEqual(self.until_state(f"{number}_{element}", ("COMPLETED", "FAILED")),
                             "COMPLETED", w.read_text(self.path(f"array-{element}.log")))
            self.train(f"alone{element}", BASE | {"run.seed": element}, ranks=2)
            self.same_run(os.path.join("runs", f"array-{element}"), f"alone{element}", step=40)

    def test_heterogeneous(self):
        script = self.path("het.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n#SBATCH -N1 -n3 -w n4\n#SBATCH hetjob\n#SBATCH -N1 -n1 -w n1\n"
                    f"srun --het-group=0,1 {w.WEFT} train {self.ini} "
                    f"{' '.join(self.options('het', BASE))}\n")
        _, state, said = self.batch(script)
        self.assertEqual(state, "COMPLETED", said)
        self.same_run("plain4", "het", step=40)

    def test_arbitrary(self):
        """Rank 0 is on n2, and the list of nodes begins with n1."""
        hosts = self.path("arbitrary")
        with open(hosts, "w", encoding="utf-8") as f:
            f.write("n2\nn2\nn1\nn1\n")
        step = ("env", f"SLURM_HOSTFILE={hosts}", "srun", "-n4", "-m", "arbitrary")
        job = (w.WEFT, "train", self.ini)
        done = run(*step, *job, *self.options("no", BASE))
        self.assertIn("the first node of this Slurm step is n1, and rank 0 is not there",
                      done.stderr)
        done = run(*step, "--export=ALL,MASTER_ADDR=n2", *job, *self.options("order", BASE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same_run("plain4", "order", step=40)

    def test_killed_slurmd(self):
        """The daemon of a node dies and the ranks live on: nothing is lost."""
        step = subprocess.Popen(["srun", "-N2", "-n4", w.WEFT, "train", self.ini,
                                 *self.options("daemon", BASE | {"run.steps": 300})],
                                env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)
        self.until_step("daemon", 3)
        subprocess.run(["pkill", "-KILL", "-f", "slurmd -D -N n2"], check=True)
        said = step.communicate(timeout=120)[0]
        self.assertEqual(step.returncode, 0, said)
        slurmd = subprocess.Popen(["slurmd", "-D", "-N", "n2", "-f", os.environ["SLURM_CONF"]],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addClassCleanup(slurmd.kill)
        until = time.monotonic() + 60
        while run("sinfo", "-h", "-N", "-n", "n2", "-o", "%T").stdout.strip() != "idle":
            self.assertLess(time.monotonic(), until)
            time.sleep(0.3)

    def test_host_is_named(self):
        """A rank that dies is named with its node."""
        step = subprocess.Popen(["srun", "-N2", "-n2", "--kill-on-bad-exit=0", w.WEFT, "train",
                                 self.ini, *self.options("host", LONG | {"train.batch": 12})],
                                env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)
        self.until_step("host", 3)
        [victim] = [p for p in w.listed("/proc") if p.isdigit() and self.path("host").encode() in
                    w.read_text(f"/proc/{p}/cmdline").encode()
                    and b"SLURM_PROCID=1" in self.environ_of(p)]
        os.kill(int(victim), signal.SIGKILL)
        said = step.communicate(timeout=60)[0]
        self.assertRegex(said, "rank 1 is gone: .*; host n2")


if __name__ == "__main__":
    w.main()
