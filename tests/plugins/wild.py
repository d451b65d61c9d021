"""wild.py WEFT SOURCE: does whatever goes wrong inside a plugin name the plugin and the call?

tests/plugins/wild.c misbehaves where WEFT_WILD says. It lies in the folder of optim alone, and has
a transport too."""
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
PLACE = os.path.abspath(sys.argv.pop(3))
import started  # noqa: E402  (tests/cli/started.py)

FILE = os.path.join(PLACE, "optim", "test.wild.so")
ID = f"the plugin org.test.wild ({FILE})"
PLAIN = not os.environ.get("WEFT_SANITIZED")


class Wild(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()
        self.write("job.ini", started.TINY.replace("[run]\n", f"[run]\nplugins = {PLACE}\n")
                   .replace("eval_every = 2\n", "") + "[optim]\nrule = test.wild\n")

    def wild(self, how, *words, command="train"):
        """Standard error and status of a run in which the plugin does `how`."""
        done = subprocess.run([started.WEFT, command, *words], cwd=self.place,
                              env=os.environ | {"WEFT_WILD": how}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=300)
        return done.stderr, done.returncode

    def test_it_trains_when_it_behaves(self):
        self.weft("train", "job.ini")

    def test_exit_is_a_failure(self):
        for call in ("open", "update", "close"):
            said, status = self.wild(f"{call} exit", "job.ini")
            self.assertEqual(status, 1, said)
            self.assertIn(f"weft error: exit() was called during {call}() of {ID}; a plugin may "
                          "not end the process, and the job is not done\n", said)

    def test_exit_of_a_rank_is_a_failure(self):
        said, status = self.wild("create exit", "-n", "2", "job.ini", "parallel.strategy=dp",
                                 "comm.plugin=test.wild")
        self.assertNotEqual(status, 0, said)
        self.assertIn(f"weft rank 1 error: exit() was called during create() of {ID}", said)

    def crash(self, how, number, *words, command="train", who=ID, rank=""):
        call = how.split()[0]
        said, status = self.wild(how, *words, command=command)
        name = signal.Signals(number).name
        self.assertIn(f"weft {rank}error: signal {number} ({name}) during {call}() of {who}", said)
        if rank or not PLAIN:
            self.assertNotEqual(status, 0)
        else:
            self.assertEqual(status, -number, said)
        return said

    def test_a_crash_names_plugin_and_call(self):
        self.crash("update crash", signal.SIGSEGV, "job.ini")
        self.crash("open divide", signal.SIGFPE, "job.ini")
        self.crash("update abort", signal.SIGABRT, "job.ini")
        self.crash("update crash", signal.SIGSEGV, "job.ini", command="plan")

    @unittest.skipUnless(PLAIN, "a sanitizer has a stack of its own for signals")
    def test_a_stack_that_is_used_up(self):
        self.crash("update deep", signal.SIGSEGV, "job.ini")

    def test_a_crash_while_loading_names_the_file(self):
        who = f"the plugin test.wild.so ({FILE})"
        for call in ("constructor", "weft_plugin_entry"):
            for command in "plan", "train":
                said, status = self.wild(f"{call} crash", "job.ini", command=command)
                self.assertIn(f"signal 11 (SIGSEGV) during {call}() of {who}", said)
                self.assertNotEqual(status, 0)

    @unittest.skipUnless(PLAIN, "a thread of a sanitizer's forbids trying in a child process")
    def test_a_silent_end_while_loading_names_the_file(self):
        two = "-n", "2", "job.ini", "parallel.strategy=dp"
        for call in "constructor", "weft_plugin_entry":
            for deed in "_exit", "syscall":
                for words, command in ((["job.ini"], "plan"), (["job.ini"], "train"),
                                       (two, "train"), (two, "plan")):
                    said, status = self.wild(f"{call} {deed}", *words, command=command)
                    self.assertIn(f"{FILE}: its code ended the process with status 0 when it was "
                                  "loaded", said)
                    self.assertNotEqual(status, 0)

    def test_a_crash_of_a_rank_names_the_rank_too(self):
        self.crash("create crash", signal.SIGSEGV, "-n", "2", "job.ini", "parallel.strategy=dp",
                   "comm.plugin=test.wild", rank="rank 1 ")

    @unittest.skipUnless(PLAIN, "a thread of a sanitizer's forbids trying in a child process")
    def test_a_transport_that_auto_probes_costs_itself_alone(self):
        own = os.path.join(self.place, "others", "comm", "test.wild.so")
        os.makedirs(os.path.dirname(own))
        shutil.copy(FILE, own)
        text = self.read("job.ini").decode().replace(PLACE, f"{self.place}/others")
        self.write("auto.ini", text.replace("rule = test.wild", "rule = sgd"))
        two = "-n", "2", "auto.ini", "parallel.strategy=dp", "log.level=debug"
        bench = "comm", "-n", "2", f"run.plugins={self.place}/others", "bench.max=8"
        probed = "does not survive being probed: "
        for how, why in (("probe abort", probed + "signal 6 (SIGABRT) during probe()"),
                         ("probe crash", probed + "signal 11 (SIGSEGV) during probe()"),
                         ("probe exit", probed + "exit() was called during probe()"),
                         ("probe syscall", "ended the process with status 0 when it was probed"),
                         ("probe hang", probed + "probe() of the plugin org.test.wild"),
                         ("constructor abort", probed + "signal 6 (SIGABRT)"),
                         ("constructor _exit",
                          "ended the process with status 0 when it was probed"),
                         ("open divide", probed + "signal 8 (SIGFPE) during open()"),
                         ("close crash", probed + "signal 11 (SIGSEGV) during close()")):
            for words, command in (two, "train"), (two, "plan"), (bench, "bench"):
                more = ["run.call_deadline=1"] if how.endswith("hang") else []
                said, status = self.wild(how, *words, *more, command=command)
                self.assertEqual(status, 0, f"{how}: {said}")
                self.assertEqual(said.count(f" warn: {own} is left out: its code {why}"), 1,
                                 f"{how}, {command}: {said}")
                if command == "train":
                    self.assertIn("transport: dp over shm inside machines\n", said)
                    self.assertIn(f"not test.wild: on rank 0 {own}: its code {why}", said)
        said, status = self.wild("nothing", *two)
        self.assertEqual(status, 0, said)
        self.assertIn("plugin org.test.wild is loaded from", said)
        self.assertNotRegex(said, "left out|not test.wild")
        # The job names it: then there is no other.
        said, status = self.wild("probe abort", *two, "comm.plugin=test.wild")
        self.assertNotEqual(status, 0)
        self.assertIn("signal 6 (SIGABRT) during probe() of the plugin org.test.wild", said)

    def test_a_signal_from_outside_is_no_plugins(self):
        self.write("sleep.ini", self.read("job.ini").replace(b"steps = 4", b"steps = 100000000"))
        with subprocess.Popen([started.WEFT, "train", "sleep.ini"], cwd=self.place,
                              stderr=subprocess.PIPE, text=True) as p:
            for line in p.stderr:
                if "parameters" in line or "step" in line:
                    break
            p.send_signal(signal.SIGABRT)
            said = p.stderr.read()
        self.assertIn(f"(SIGABRT), sent by process {os.getpid()}\n", said)

    def test_no_failure_is_without_a_sentence(self):
        silent = "failed without a reason (status 5, WEFT_IO)"
        odd = "returned 77, which is not a status of weft/base.h"
        for call in ("open", "update"):
            said, status = self.wild(f"{call} silent", "job.ini")
            self.assertIn(f"plugin org.test.wild: its {call}() {silent}", said)
            self.assertEqual(status, 1)
            said, status = self.wild(f"{call} odd", "job.ini")
            self.assertIn(f"plugin org.test.wild: its {call}() {odd}", said)
            self.assertEqual(status, 1)
            said, status = self.wild(f"{call} busy", "job.ini")
            self.assertIn(f"plugin org.test.wild: its {call}() returned WEFT_BUSY", said)
            self.assertEqual(status, 1)
        two = "-n", "2", "job.ini", "parallel.strategy=dp", "comm.plugin=test.wild"
        for how in ("probe silent", "create silent"):
            said, status = self.wild(how, *two)
            self.assertIn(f"plugin org.test.wild: its {how.split()[0]}() {silent}", said)
            self.assertNotEqual(status, 0)


if __name__ == "__main__":
    started.main()
