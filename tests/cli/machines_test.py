"""What does `auto` choose on one machine and on several, and what does it say of the choice?"""

import re

import started

JOB = """
[model]
layers = 1
heads = 2
embed = 16
ffn = 32
context = 16
vocab = 256
[train]
batch = 8
microbatch = 1
sequence = 8
precision = fp32
[parallel]
strategy = tp, dp
tp = 1
dp = auto
"""


class Machines(started.Case):
    def setUp(self):
        super().setUp()
        self.ini = self.write("machines.ini", JOB)

    def plan(self, machines, *more):
        return self.weft("plan", "-n", 4, "--machines", machines, self.ini, *more)[0]

    def mesh(self, machines, *more):
        mesh = re.search(r"^mesh\s+4 ranks: (.*)$", self.plan(machines, *more), re.M).group(1)
        return mesh.removesuffix(" x tp 1")

    def test_axes_by_where_their_ranks_are(self):
        self.assertEqual(self.mesh(1), "dp 4 over shm")
        self.assertEqual(self.mesh(2), "dp 4 over shm+tcp")
        self.assertEqual(self.mesh(4), "dp 4 over tcp")
        self.assertEqual(self.mesh(2, "parallel.tp=2"), "dp 2 over tcp x tp 2 over shm")

    def test_a_named_transport_is_never_replaced(self):
        self.assertEqual(self.mesh(2, "comm.plugin=tcp"), "dp 4 over tcp")
        self.assertEqual(self.mesh(2, "comm.plugin=tcp", "comm.intra=shm"), "dp 4 over shm+tcp")
        self.assertEqual(self.mesh(2, "comm.intra=none"), "dp 4 over tcp")
        self.assertEqual(self.mesh(2, "comm.dp.intra=tcp"), "dp 4 over tcp")
        self.refused("plan", "-n", 4, "--machines", 1, self.ini, "comm.plugin=tcp",
                     "comm.intra=shm", why="no axis has ranks both inside a machine and on others")
        self.refused("plan", "-n", 4, "--machines", 2, self.ini, "comm.plugin=shm",
                     why="cannot carry the mesh axis dp here: plugin weft.shm: shm reaches ranks "
                         "of one machine only")

    def test_sums_inside_machines_come_first(self):
        for machines, algorithm in ((1, "mapped"), (2, "hierarchical"), (4, "halving")):
            lists = self.plan(machines, "--list", "model.embed=32")
            self.assertRegex(lists, rf"all-reduce of gradients .*\({algorithm}\)")

    def test_so_many_machines_that_ranks_fill(self):
        self.refused("plan", "-n", 4, "--machines", 5, self.ini,
                     why="--machines 5: 4 ranks can be on 1 to 4")


if __name__ == "__main__":
    started.main()
