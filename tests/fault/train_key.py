#!/usr/bin/env python3
"""train_key.py WEFT: does the job's key stay where it belongs?

The ranks of a running job are searched, as another user's `ps` would and more: command lines,
environments, names of open files, everything under run.out, and what is printed. The key of a key
file is known; that of the launcher lies in a descriptor that only its ranks have, and is closed
when they have read it."""
import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

ENDLESS = w.ODD | {"run.steps": 100000000, "optim.lr": 1e-4, "comm.plugin": "tcp",
                   "checkpoint.every": 20, "train.microbatch": 2}


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def targets(pid):
    """{descriptor: what it is}, of those that stay open meanwhile."""
    found = {}
    for fd in w.listed(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


class Key(w.Bench):
    def search(self, pids, secrets):
        """Where one of the secrets can be read."""
        seen = {}
        for pid in pids:
            for name in ("cmdline", "environ", "comm", "maps", "wchan"):
                seen[f"/proc/{pid}/{name}"] = read(f"/proc/{pid}/{name}")
            self.assertTrue(seen[f"/proc/{pid}/environ"])
            for task in w.listed(f"/proc/{pid}/task"):
                seen[f"thread {task}"] = read(f"/proc/{pid}/task/{task}/comm")
        files = 0
        for base, _, names in os.walk(self.path("run")):
            for name in names:
                files += 1
                seen[os.path.join(base, name)] = read(os.path.join(base, name))
        self.assertGreater(files, 4)
        return [where for where, text in seen.items() for s in secrets if s in text]

    def wait_for_checkpoint(self):
        until = time.monotonic() + w.TIMEOUT
        while not [x for x in w.listed(self.path("run", "checkpoints")) if x.startswith("step-")]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_key_file(self):
        self.assertEqual(os.stat(self.key_file()).st_mode & 0o777, 0o600)
        digits = read(self.key_file()).strip()
        secrets = [digits, digits.upper(), bytes.fromhex(digits.decode())]
        port, words = w.free_port(), self.command("run", ENDLESS | {"run.key": self.key_file()})
        logs = [self.path(f"said.{rank}") for rank in (0, 1)]
        ranks = [self.by_hand(words, w.place_of(rank, 2, port), log)
                 for rank, log in enumerate(logs)]
        self.wait_for_checkpoint()
        self.assertEqual(self.search([r.pid for r in ranks], secrets), [])
        self.assertNotIn(secrets[0], b"".join(map(read, logs)))
        for r in ranks:
            r.send_signal(signal.SIGTERM)
        for r in ranks:
            self.assertNotEqual(r.wait(w.TIMEOUT), 0)
        self.assertNotIn(secrets[0], b"".join(map(read, logs)))

    def test_launcher(self):
        """Nobody but the ranks ever has the key, so look for what could be one."""
        run = w.Running(self, "run", ENDLESS, 3)
        self.wait_for_checkpoint()
        for pid in run.ranks().values():
            self.check_rank(pid)
        for target in targets(run.pid).values():  # it has the steps of the ranks
            self.assertNotRegex(target, "memfd:(?!weft progress)")

    def check_rank(self, pid):
        variables = [x for x in read(f"/proc/{pid}/environ").split(b"\0") if x.startswith(b"WEFT_")]
        for x in variables:
            self.assertRegex(x.partition(b"=")[2], rb"^\d{0,6}$",
                             "descriptors are all that is told")
        self.assertNotRegex(read(f"/proc/{pid}/cmdline"), rb"[0-9a-fA-F]{32}")
        told = {x.partition(b"=")[2].decode() for x in variables}
        for fd, target in targets(pid).items():
            if fd in told:
                self.assertNotIn("memfd", target, "the key's descriptor is still open")


if __name__ == "__main__":
    w.main()
