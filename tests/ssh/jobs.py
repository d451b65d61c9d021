#!/usr/bin/env python3
"""jobs.py WEFT: does `weft train --hosts` work over a real ssh, as docs/SSH.md says?

Two sshd of a configuration of their own listen on two loopback addresses, with keys that this test
makes; 77 where there is no sshd. tests/fault/train_hosts.py has the cases that need no real one."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
ADDRESSES = ("127.0.0.2", "127.0.0.3")
BASE = w.EVEN | {"run.steps": 40, "model.layers": 1, "train.microbatch": 1,
                 "checkpoint.every": 10, "checkpoint.keep": 3, "comm.plugin": "tcp"}
LONG = BASE | {"run.steps": 1000000, "checkpoint.every": 50}
SERVER = """
ListenAddress {address}
Port {port}
HostKey {place}/host
AuthorizedKeysFile {place}/authorized
PidFile {place}/{address}.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
"""
CLIENT = """
Host {names}
  Port {port}
  IdentityFile {place}/user
  UserKnownHostsFile {place}/known
  StrictHostKeyChecking accept-new
"""


def descendants(pid):
    found = []
    for child in w.children(pid):
        found += [child, *descendants(child)]
    return found


class Ssh(w.Bench):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        place, cls.port = cls.place, w.free_port(ADDRESSES[0])
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{place}/{name}"],
                           check=True)
        shutil.copy(f"{place}/user.pub", f"{place}/authorized")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where sshd drops its privileges
        cls.servers = {a: cls.serve(a) for a in ADDRESSES}
        with open(f"{place}/config", "w", encoding="utf-8") as f:
            f.write(CLIENT.format(names=" ".join(ADDRESSES), port=cls.port, place=place))
        cls.ssh = f"ssh -F {place}/config"
        cls.hosts = cls.path("hosts")
        with open(cls.hosts, "w", encoding="utf-8") as f:
            f.write("".join(f"{a} slots=2\n" for a in ADDRESSES))
        cls.train("plain", BASE, ranks=4)

    @classmethod
    def serve(cls, address):
        path = cls.path(address + ".conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(SERVER.format(address=address, port=cls.port, place=cls.place))
        log = open(cls.path(address + ".log"), "w", encoding="utf-8")
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", path], stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log)
        cls.addClassCleanup(log.close)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.kill)
        limit = time.monotonic() + 20
        while "Server listening" not in w.read_text(cls.path(address + ".log")):
            if server.poll() is not None or time.monotonic() > limit:
                raise AssertionError(w.read_text(cls.path(address + ".log")))
            time.sleep(0.05)
        return server

    def begin(self, out, job, *more, resume=False):
        words = ["--hosts", self.hosts, "--ssh", self.ssh, *more]
        return w.Running(self, out, job, 4, resume, more=words)

    def on_host(self, address):
        """Processes of the sessions of an sshd."""
        return descendants(self.servers[address].pid)

    def nothing_left(self, limit=5):
        until = time.monotonic() + limit
        while any(self.on_host(a) for a in ADDRESSES):
            self.assertLess(time.monotonic(), until, [self.on_host(a) for a in ADDRESSES])
            time.sleep(0.02)

    def test_two_hosts(self):
        """The end has the bits of a job of one machine; 4 ranks, two on each host."""
        run = self.begin("two", BASE)
        self.assertEqual(run.wait(), 0, run.said())
        self.same_run("plain", "two", step=40)
        self.nothing_left()

    def test_stop(self):
        run = self.begin("stop", LONG)
        run.until_step(20)
        for address in ADDRESSES:
            self.assertGreaterEqual(len(self.on_host(address)), 3)  # a session and two ranks
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        step = int(re.search("stopped by SIGTERM after step ([0-9]+), which", run.said())[1])
        self.assertEqual(w.steps_saved(run.out)[0][-1], step)
        self.nothing_left()

    def test_launcher_killed(self):
        run = self.begin("orphans", LONG)
        run.until_step(20)
        began = time.monotonic()
        run.process.kill()
        self.nothing_left()
        print(f"{(time.monotonic() - began) * 1e3:.0f} ms from the launcher's death to the last "
              "process's")

    def test_connection_lost(self):
        """The sessions of one host are killed: the job goes on where it can."""
        run = self.begin("lost", LONG, "--restarts", "3", "--restarts-min", "2")
        run.until_step(55)
        run.until(lambda: w.steps_saved(run.out)[0], "a checkpoint")
        for pid in self.on_host(ADDRESSES[1]):
            with contextlib.suppress(ProcessLookupError):  # ended with the one before it
                os.kill(pid, signal.SIGKILL)
        run.until(lambda: "resumed after" in run.said(), "the resume")
        self.assertRegex(run.said(), "host 127.0.0.3|rank [23] ")
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(), 75, run.said())
        self.nothing_left()

    def test_no_access(self):
        """A key that the hosts do not know: nothing asks, nothing is started."""
        ssh = (f"ssh -F /dev/null -p {self.port} -i {self.place}/host -o IdentitiesOnly=yes "
               f"-o UserKnownHostsFile={self.place}/known2 -o StrictHostKeyChecking=accept-new")
        done = w.weft("train", self.ini, *self.options("no", BASE), "--hosts", self.hosts, "--ssh",
                      ssh, status=1)
        self.assertIn("Permission denied", done.stderr)
        self.assertRegex(done.stderr,
                         r"host 127.0.0.[23], line [12] of --hosts: ssh has ended with")
        self.assertFalse(os.path.exists(self.path("no")))


if __name__ == "__main__":
    if not SSHD or not shutil.which("ssh") or not shutil.which("ssh-keygen"):
        print("there is no sshd here: Debian's openssh-server has it")
        sys.exit(77)
    w.main()
