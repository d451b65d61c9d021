"""Which CPUs do ranks take? A rank with CPUs of its own takes all of them, ranks that share a set
divide it, and two jobs are not pinned to the same core."""
import json
import os
import re
import subprocess
import time

import started

MINE = sorted(os.sched_getaffinity(0))
DATA = "the quick brown fox jumps over the lazy dog. " * 40


def allowed(pid):
    """The CPUs of a process's main thread."""
    return os.sched_getaffinity(pid)


class Cpus(started.Case):
    def setUp(self):
        super().setUp()
        if len(MINE) < 2:
            self.skipTest("one CPU")
        self.write("text", DATA)
        for name in ("train", "valid"):
            self.weft("data", "text", "-o", f"{name}.bin")
        self.children = []
        self.addCleanup(self.end)

    def end(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()

    def start(self, words, cpus, env=None):
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith(("RANK", "WORLD_", "LOCAL_", "MASTER_", "OMPI_", "PMI",
                                      "SLURM_", "WEFT_PLUGIN"))}
        child = subprocess.Popen([started.WEFT, *words], cwd=self.place, env=clean | (env or {}),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        self.children.append(child)
        return child

    def two_ranks(self, words, cpus):
        """What rank 0 of two says; rank R may run on cpus[R]."""
        if not os.path.exists(self.path("job.key")):
            self.weft("key", "-o", "job.key")
        env = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(started.free_port())}
        words = ["train", "tiny.ini", "run.key=job.key", "parallel.strategy=dp",
                 "comm.plugin=tcp", "train.batch=8", *words]
        ranks = [self.start(words, cpus[r], env | {"RANK": str(r), "LOCAL_RANK": str(r)})
                 for r in (0, 1)]
        said = [r.communicate(timeout=120) for r in ranks]
        self.assertEqual([r.returncode for r in ranks], [0, 0], said)
        return said[0]

    def test_cpus_of_its_own(self):
        both, one = set(MINE[:2]), {MINE[1]}
        _, err = self.two_ranks([], [both, one])
        cores = int(re.search(r", (\d+) thread", err).group(1))
        _, err = self.two_ranks([], [both, both])
        shared = int(re.search(r", (\d+) thread", err).group(1))
        self.assertEqual((cores, shared), (2, 1))

    def test_what_the_doctor_says(self):
        both, one = set(MINE[:2]), {MINE[1]}
        for cpus, words in (([both, one], "threads: 2 for each of 1 rank that share 2 cores"),
                            ([both, both], "threads: 1 for each of 2 ranks that share 2 cores")):
            out, _ = self.two_ranks(["--doctor", "--json"], cpus)
            checks = {c["id"]: c for c in json.loads(out)["ranks"][0]["checks"]}
            self.assertIn(words, checks["fit"]["summary"])

    def test_reading_the_topology_loads_nothing_for_displays(self):
        job = self.start(["train", "tiny.ini"], set(MINE),
                         {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": self.path("loaded")})
        self.assertEqual(job.wait(120), 0)
        said = b"".join(self.read(name) for name in self.names() if name.startswith("loaded."))
        self.assertIn(b"libhwloc.so", said)
        self.assertNotIn(b"hwloc_gl.so", said)

    def test_two_jobs(self):
        masks = []
        for name in ("a", "b"):
            child = self.start(["train", "tiny.ini", f"run.out={name}", "run.steps=1000000",
                                "checkpoint.every=0", "train.eval_every=0", "device.threads=1"],
                               set(MINE))
            limit = time.monotonic() + 300
            while not os.path.exists(self.path(name, "metrics.jsonl")):
                self.assertIsNone(child.poll())
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.05)
            masks.append(allowed(child.pid))
        if masks[0] == set(MINE):
            self.skipTest("other programs are pinned to all cores")
        self.assertNotEqual(masks[0], masks[1])


if __name__ == "__main__":
    started.main()
