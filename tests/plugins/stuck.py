"""stuck.py WEFT SOURCE WILD STUCK: does a call that never returns end the job, and in words?

tests/plugins/stuck.c is tcp and cpu, of which one call does not return; wild.c is an update rule
that does not. Programs that end at a deadline wait beside each other."""
import concurrent.futures
import itertools
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
STUCK = os.path.abspath(sys.argv.pop(4))
PLACE = os.path.abspath(sys.argv.pop(3))
import started  # noqa: E402  (tests/cli/started.py)

FILE = os.path.join(STUCK, "comm", "test.stuck.so")
ID = f"of the plugin org.test.stuck ({FILE})"
RULE = f"of the plugin org.test.wild ({os.path.join(PLACE, 'optim', 'test.wild.so')})"
OWN = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft")
SLACK = 400  # seconds; no deadline that a test does not set is so short
# Other calls must not take so long, however busy the machine is.
CALL, SETUP = 2, 2.5
SHORT = f"run.call_deadline={CALL}", f"run.setup_deadline={SETUP}"
AT_ONCE = 8  # programs that wait beside each other


class Stuck(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.number = itertools.count()
        self.write("job.ini", started.TINY.replace(
            "[run]\n", f"[run]\nplugins = {PLACE}:{STUCK}\n"))

    def stuck(self, call, *words, command="train", variable="WEFT_STUCK"):
        """Standard error, output and status of a run in which `call` does not return."""
        env = os.environ | {"WEFT_STUCK_TCP": os.path.join(OWN, "comm", "tcp.so"),
                            "WEFT_STUCK_CPU": os.path.join(OWN, "device", "cpu.so"),
                            variable: call}
        own = [f"run.out=run{next(self.number)}"] if command in ("plan", "train") else []
        done = subprocess.run([started.WEFT, command, *words, *own], cwd=self.place, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=SLACK)
        self.assertNotIn("Sanitizer", done.stderr)
        return done.stderr, done.returncode, done.stdout

    def together(self, *calls):
        """Each call is a tuple: a function, its arguments, and in a dict those with names."""
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            running = [pool.submit(f, *(x for x in more if not isinstance(x, dict)),
                                   **next((x for x in more if isinstance(x, dict)), {}))
                       for f, *more in calls]
            return [x.result() for x in running]

    def ends(self, call, *words, who=ID, key="call", leaves=1, **how):
        said, status, _ = self.stuck(call, *words, *SHORT, **how)
        name = call.split()[0]
        limit = CALL if key == "call" else SETUP
        self.assertIn(f"{name}() {who} does not return: {limit} s have passed, all that "
                      f"run.{key}_deadline allows; ", said)
        self.assertEqual(status, leaves, said)
        return said

    def test_it_trains_when_it_returns(self):
        said, status, _ = self.stuck("nothing", "-n", "2", "job.ini", "parallel.strategy=dp",
                                     "comm.plugin=test.stuck", "device.plugin=test.stuck")
        self.assertEqual(status, 0, said)

    def test_calls_of_planning(self):
        rule = {"who": RULE, "variable": "WEFT_WILD"}
        self.together(
            *((self.ends, "query", "job.ini", "device.plugin=test.stuck", {"command": command})
              for command in ("plan", "train")),
            (self.ends, "update hang", "job.ini", "optim.rule=test.wild",
             rule | {"command": "plan"}),
            (self.ends, "update spin", "job.ini", "optim.rule=test.wild", rule),
            (self.ends, "open hang", "job.ini", "optim.rule=test.wild", rule | {"key": "setup"}))

    def test_the_constructor_and_the_entry(self):
        who = RULE.replace("org.test.wild", "test.wild.so")  # no better name is known yet
        how = {"command": "plan", "who": who, "variable": "WEFT_WILD",
               "leaves": 2}  # a child process has tried it
        self.together(*((self.ends, f"{call} hang", "job.ini", "optim.rule=test.wild", how)
                        for call in ("constructor", "weft_plugin_entry")))

    def test_close_after_the_last_step(self):
        self.ends("close hang", "job.ini", "optim.rule=test.wild", who=RULE, key="setup",
                  variable="WEFT_WILD")

    def test_calls_of_the_device(self):
        words = "job.ini", "device.plugin=test.stuck"
        self.together(*((self.ends, call, *words, {"key": "setup"})
                        for call in ("open", "prepare", "close")), (self.ends, "run", *words))

    def two(self, call, key="call", **how):
        return self.ends(call, "-n", "2", "job.ini", "parallel.strategy=dp",
                         "comm.plugin=test.stuck", "run.deadline=300", "run.join_timeout=300",
                         key=key, **how)

    def test_a_probe_of_the_named_transport(self):  # that of `auto`: wild.py
        words = "-n", "2", "job.ini", "parallel.strategy=dp", "comm.plugin=test.stuck"
        self.together(*((self.ends, "probe", *words, {"command": command})
                        for command in ("plan", "train")))

    def test_calls_of_a_link_on_all_ranks(self):
        self.together(*((self.two, call) for call in ("send", "progress", "wait")),
                      *((self.two, call, "setup") for call in ("create", "connect", "disconnect")))

    def test_calls_of_a_link_on_one_rank(self):
        said = self.together(*((self.two, f"{call} {rank}", key) for rank in "01"
                               for call, key in (("progress", "call"), ("create", "setup"))))
        for number, text in enumerate(said):
            self.assertIn(f"rank {number // 2}", text)

    def test_counts_that_cannot_be(self):
        words = ("-n", "2", "job.ini", "parallel.strategy=dp", "comm.plugin=test.stuck",
                 "run.deadline=300")
        said, status, _ = self.stuck("ahead", *words, variable="WEFT_MISCOUNT")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "plugin org.test.stuck: its progress\\(\\) counts [0-9]+ finished "
                               "sends; so many were not posted on this connection, only [0-9]+")
        said, status, _ = self.stuck("back", *words, variable="WEFT_MISCOUNT")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "plugin org.test.stuck: its progress\\(\\) counts 0 finished sends; "
                               "its last call counted more, and a count never falls: [0-9]+")

    def test_ranks_without_our_launcher(self):
        """Rank 0 hangs; rank 1, started by somebody else, learns of it from the store."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(started.free_port()),
                 "WORLD_SIZE": "2", "WEFT_STUCK": "progress 0",
                 "WEFT_STUCK_TCP": os.path.join(OWN, "comm", "tcp.so"),
                 "WEFT_STUCK_CPU": os.path.join(OWN, "device", "cpu.so")}
        self.weft("key", "-o", "job.key")
        words = ["train", "job.ini", "parallel.strategy=dp", "comm.plugin=test.stuck",
                 "run.key=job.key", "run.deadline=300", *SHORT]
        ranks = [subprocess.Popen([started.WEFT, *words], cwd=self.place, text=True,
                                  env=os.environ | place | {"RANK": str(r)},
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
                 for r in range(2)]
        said = [p.communicate(timeout=SLACK)[1] for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [1, 1], said)
        place = r"rank 0, step 1, entry \d+ of list step, all-reduce of gradients [^:]*: "
        what = place + re.escape(f"progress() {ID} does not return")
        self.assertRegex(said[0], "(?m)^\S+ weft rank 0 error: " + what)
        self.assertRegex(said[1], "rank 0 failed: " + what)

    def test_a_row_of_a_sweep_and_the_doctor(self):
        self.write("sweep.ini", self.read("job.ini").decode() +
                   "[sweep]\nout = sweep\nsteps = 1\nwarmup = 0\ntrain.microbatch = 1, 2\n")
        said, _, out = self.stuck("query", "sweep.ini", "device.plugin=test.stuck", *SHORT,
                                  command="bench")
        self.assertIn(f"query() {ID} does not return", out + said)
        said, _, out = self.stuck("query", "job.ini", "device.plugin=test.stuck", *SHORT,
                                  command="doctor")
        self.assertIn(f"query() {ID} does not return", out + said)

    def test_no_deadline(self):
        """0 switches it off: the job is still there when this test ends it."""
        env = os.environ | {"WEFT_WILD": "update hang"}
        with subprocess.Popen([started.WEFT, "plan", "job.ini", "optim.rule=test.wild",
                               "run.call_deadline=0", "run.setup_deadline=0.2"], cwd=self.place,
                              env=env, stderr=subprocess.DEVNULL) as p:
            with self.assertRaises(subprocess.TimeoutExpired):
                p.wait(timeout=2)
            p.kill()

    def test_time_in_which_it_was_stopped_does_not_count(self):
        env = os.environ | {"WEFT_WILD": "update hang"}
        with subprocess.Popen([started.WEFT, "plan", "job.ini", "optim.rule=test.wild",
                               "run.call_deadline=3"], cwd=self.place, env=env,
                              stderr=subprocess.DEVNULL) as p:
            began = time.monotonic()
            time.sleep(0.5)
            ran = time.monotonic() - began
            p.send_signal(signal.SIGSTOP)
            time.sleep(4)
            p.send_signal(signal.SIGCONT)
            began = time.monotonic()
            self.assertEqual(p.wait(timeout=SLACK), 1)
            self.assertGreater(ran + time.monotonic() - began, 2)

    def test_listing_goes_on_after_a_bad_file(self):
        def list_plugins(call, deed, why):
            said, status, out = self.stuck(f"{call} {deed}", f"run.plugins={PLACE}",
                                           f"run.call_deadline={CALL}", command="plugins",
                                           variable="WEFT_WILD")
            self.assertEqual(status, 0, said)
            bad = [x for x in out.splitlines() if "test.wild" in x]
            self.assertEqual(len(bad), 1, out)
            self.assertRegex(bad[0], "^optim +test.wild +unusable: ")
            self.assertIn(why, bad[0])
            for name in "tcp", "cpu", "adamw", "zero3", "tp":
                self.assertRegex(out, rf"(?m)^\w+ +{name} +weft\.")

        self.together(*((list_plugins, call, deed, why.format(call + "()"))
                        for call in ("constructor", "weft_plugin_entry")
                        for deed, why in (("crash", "signal 11 (SIGSEGV) during {} of the plugin"),
                                          ("exit", "exit() was called during {} of the plugin"),
                                          ("hang", "{} of the plugin"))))

    def test_memory_of_planning_is_capped(self):
        said, status, _ = self.stuck("update more bytes", "job.ini", "optim.rule=test.wild",
                                     "run.planning_mb=64", command="plan", variable="WEFT_WILD")
        self.assertEqual(status, 1, said)
        self.assertIn(f"update() {RULE} holds 6", said)
        self.assertIn(" MiB of the core's memory and asks for 1048576 bytes more, which it does "
                      "not get: while planning a plugin may hold 64 MiB (run.planning_mb)", said)
        self.assertIn("plugin org.test.wild: no memory for this rule", said)
        said, status, _ = self.stuck("update more names", "job.ini", "optim.rule=test.wild",
                                     "run.planning_mb=16", command="plan", variable="WEFT_WILD")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "planning takes [0-9]+ MiB, more than run.planning_mb allows, "
                               "during update\\(\\) of the plugin org.test.wild")


if __name__ == "__main__":
    started.main()
