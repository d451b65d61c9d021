"""Does the transport nccl train? Two ranks of a tiny model share the one GPU that there is.

NCCL refuses that unless it is told that they are on two machines (NCCL_HOSTID); then it goes over
sockets, and the GPU takes the ranks in turns. So this shows that calls, streams and endings fit
together, and nothing of speed. `nccl.py WEFT`; status 77 where there is no libnccl."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

JOB = {k: v for k, v in w.EVEN.items() if k != "device.threads"} | {
    "run.steps": 5, "train.batch": 8, "train.microbatch": 2, "device.plugin": "cuda"}
APART = {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo",
         "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2",
         "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_DEBUG": "WARN"}


class Nccl(w.Bench):
    def over_nccl(self, out, job):
        """Two ranks, each started by hand; what both said."""
        port = w.free_port()
        words = self.command(out, job | {"comm.plugin": "nccl", "run.key": self.key_file()})
        ended = w.ends([self.by_hand(words, w.place_of(rank, 2, port, where=(1, 1)) | APART
                                     | {"NCCL_HOSTID": f"weft-{rank}"}) for rank in range(2)])
        said = "".join(text for _, text in ended)
        if 77 in [status for status, _ in ended]:
            print(said)
            os._exit(77)
        self.assertEqual([status for status, _ in ended], [0, 0], said)
        return said

    def like_one_rank(self, change):
        self.train("one", JOB | {"parallel.strategy": "none"})
        said = self.over_nccl("two", JOB | change)
        self.assertRegex(said, r"NCCL \d")
        one, two = w.metrics(self.path("one")), w.metrics(self.path("two"))
        self.assertEqual(len(one), len(two))
        for a, b in zip(one, two):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-3)

    def test_all_reduce(self):
        self.like_one_rank({})

    def test_reduce_scatter_and_all_gather(self):
        self.like_one_rank({"optim.placement": "zero3", "train.bucket_mb": 0.01})


if __name__ == "__main__":
    w.main()
