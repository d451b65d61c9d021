"""weft tune comm: the file that it writes is one that a job takes, and what it prints adds up. No
word about how fast anything is."""
import re

import started

SHORT = ("tune.op=all_reduce, broadcast", "tune.min=64", "tune.max=4K", "tune.factor=64",
         "tune.seconds=0.003", "tune.passes=1")
JOB = started.TINY + "[parallel]\nstrategy = dp\n[comm]\nplugin = tcp\n"
LINKS = ("latency", "message", "bandwidth")


class Tune(started.Case):
    def setUp(self):
        super().setUp()
        self.make_data()

    def tune(self, *words, ranks=2):
        return self.weft("tune", "comm", "-n", ranks, *words, *SHORT)[0]

    def costs(self, name):
        """{section: {key: number}}"""
        found, section = {}, None
        for line in self.read(name).decode().splitlines():
            head = re.match(r"\[(.*)\]", line)
            pair = re.match(r"(\w+) = (\S+) ; (?:us|GB/s)$", line)
            if head:
                section = found.setdefault(head.group(1), {})
            elif pair:
                section[pair.group(1)] = float(pair.group(2))
            else:
                self.assertRegex(line, r"^(;.*)?$")
        return found

    def check_table(self, out, transport, able):
        """Every able algorithm is there once a size, timed and predicted; one is taken."""
        rows = re.findall(r"(?m)^ +(\w+) +(\d+) +(\w+) +([\d.]+) +([\d.]+)(.*)$", out)
        self.assertIn(f"# {transport}", out)
        for op, size in {(r[0], r[1]) for r in rows}:
            of = [r for r in rows if r[:2] == (op, size)]
            names = [r[2] for r in of]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(sum("auto" in r[5] for r in of), 1)
            self.assertEqual(sum("  fastest" in r[5] for r in of), 1)
            least = min(float(r[4]) for r in of)
            taken = [float(r[4]) for r in of if "auto" in r[5]]
            self.assertAlmostEqual(taken[0], least, delta=0.011)
        self.assertEqual({(r[0], r[1]) for r in rows},
                         {(op, n) for op in ("all_reduce", "broadcast") for n in ("64", "4096")})
        self.assertLessEqual(able, {r[2] for r in rows if r[0] == "all_reduce"})

    def test_what_is_written_is_taken(self):
        self.write("job.ini", JOB)
        out = self.tune("job.ini", "-o", "tcp.ini")
        self.check_table(out, "tcp on mesh axis dp, 2 ranks", {"ring", "halving", "pairwise"})
        self.assertNotIn("mapped", out)
        costs = self.costs("tcp.ini")
        self.assertEqual({k: tuple(v) for k, v in costs.items()},
                         {"comm": ("reduce",), "comm.tcp": LINKS})
        for value in [*costs["comm"].values(), costs["comm.tcp"]["bandwidth"]]:
            self.assertGreater(value, 0)
        plan, _ = self.weft("plan", "-n", "2", "job.ini", "comm.tuned=tcp.ini")
        self.assertIn("dp 2 over tcp (tuned)", plan)
        self.weft("train", "-n", "2", "job.ini", "comm.tuned=tcp.ini")
        self.assertEqual([x for x in self.names() if "tmp" in x], [])

    def test_without_a_job(self):
        self.write("tuned.ini", "what stood here before")
        out = self.tune("comm.plugin=shm", "tune.type=bf16")
        self.check_table(out, "shm, 2 ranks", {"mapped", "one_shot"})
        self.assertEqual({k: tuple(v) for k, v in self.costs("tuned.ini").items()},
                         {"comm": ("reduce",), "comm.shm": (*LINKS, "mapped")})

    def test_each_transport_of_a_job(self):
        self.write("job.ini", JOB.replace("= dp", "= tp, dp\ntp = 2\ndp = 2") + "tuned = gone.ini\n"
                              "[comm.tp]\nplugin = shm\n")
        out = self.tune("job.ini", "-o", "gone.ini", ranks=4)
        self.assertIn("# shm on mesh axis tp, 2 ranks", out)
        self.assertIn("# tcp on mesh axis dp, 2 ranks", out)
        self.assertEqual(set(self.costs("gone.ini")), {"comm", "comm.shm", "comm.tcp"})
        self.weft("plan", "-n", "4", "job.ini")

    def test_costs_choose(self):
        """Dear latencies against dear bytes; the job's own key wins over the file's."""
        self.write("job.ini", JOB.replace("batch = 2", "batch = 1") + "tuned = costs.ini\n")
        self.write("costs.ini", "[comm.tcp]\nlatency = 1000\nbandwidth = 1000\n")

        def taken(*words):
            out, _ = self.weft("plan", "-n", "4", "job.ini", "--list", *words)
            return re.search(r"all-reduce of gradients .* \((\w+)\)", out).group(1)

        self.assertEqual(taken(), "one_shot")
        self.assertNotEqual(taken("comm.tcp.latency=0", "comm.tcp.bandwidth=0.001"), "one_shot")
        self.assertEqual(taken("comm.tuned="), taken("comm.tuned=", "comm.reduce=3"))
        self.write("costs.ini", "[comm.tcp]\nlatency = 0\nmessage = 0\nbandwidth = 0.001\n")
        self.assertNotEqual(taken(), "one_shot")

    def test_bad_files(self):
        self.write("job.ini", JOB + "tuned = costs.ini\n")
        for text, why in (
                ("[comm.tcp]\nlatency = fast\n", "costs.ini:2: comm.tcp.latency: 'fast' is not a"),
                ("[comm.tcp]\nlatencies = 3\n", "costs.ini:2: unknown key 'latencies'"),
                ("[train]\nbatch = 3\n", "costs.ini:1: [train] is not allowed in a file of comm"),
                ("[comm.tcp]\nlatency = 3\n", "costs.ini:2: comm.tcp.latency: tcp has no band"),
                ("[comm]\ntuned = a.ini\n", "costs.ini:2: a file of comm.tuned cannot name"),
                ("[comm.dcp]\nlatency = 3\n", "dcp")):
            self.write("costs.ini", text)
            self.refused("plan", "-n", "2", "job.ini", why=why)
        self.refused("plan", "-n", "2", "job.ini", "comm.tuned=gone.ini",
                     why="command line: comm.tuned: cannot open the file gone.ini")

    def test_refusals(self):
        self.refused("tune", why="name what to tune: comm")
        self.refused("tune", "link", why="'link' cannot be tuned")
        self.refused("tune", "comm", why="one rank sends nothing that could be measured")
        self.refused("tune", "comm", "-n", "2", "tune.op=all", why="'all' is none of all_reduce")
        self.refused("tune", "comm", "-n", "2", "tune.min=8K", "tune.max=8", why="than tune.min")
        self.refused("tune", "comm", "-n", "2", "tune.size=8", why="unknown key 'size' in [tune]")
        self.refused("tune", "comm", "-n", "2", "comm.plugin=pcp", why="pcp")
        self.refused("tune", "comm", "-n", "2", "-o", ".", why="exists and is not a regular file")
        self.refused("tune", "comm", "-n", "2", "-o", "no/where.ini", why="no/where.ini")
        self.refused("tune", "comm", "-n", "2", "tune.factor=2", "tune.max=1G",
                     why="choose a larger tune.factor")


if __name__ == "__main__":
    started.main()
