#!/usr/bin/env python3
"""memory.py WEFT: does a rank take the memory that its plan says?

A GPT-2 of some 25M parameters is trained for two steps by one rank, by stages, by slices and by
split tensors. `metrics.jsonl` has the plan's peak, and the resident peak of the largest process has
to be within a tenth of it, plus a base of 96 MiB for the program, its libraries and the code that
oneDNN makes. With shm as transport a rank also sees its peers' arenas, which count as resident
where it has touched them: these jobs use tcp."""
import os
import resource

import weft_jobs as w

BASE = 96 << 20
JOB = {
    "run.steps": 2, "model.layers": 4, "model.heads": 8, "model.embed": 512, "model.ffn": 2048,
    "model.context": 128, "model.vocab": 24000, "train.batch": 8, "train.microbatch": 4,
    "train.sequence": 128, "train.precision": "fp32", "train.eval_every": 0, "device.threads": 1,
    "log.peak_gflops": 1, "log.progress": 0, "comm.plugin": "tcp"}
LAYOUTS = [
    (1, {}), (1, {"train.precision": "bf16"}), (1, {"train.recompute": "block"}),
    (2, {"parallel.strategy": "pp"}), (2, {"parallel.strategy": "tp"}),
    (2, {"parallel.strategy": "dp", "optim.placement": "zero3"})]


class Memory(w.Bench):
    def test_resident_peak(self):
        if w.SLOW > 1:
            self.skipTest("sanitizers take memory of their own")
        for i, (ranks, keys) in enumerate(LAYOUTS):
            with self.subTest(ranks=ranks, **keys):
                self.check(f"again-{i}", JOB | keys, ranks)

    def check(self, out, job, ranks):
        """In a child, since ru_maxrss is that of the largest process waited for so far."""
        pid = os.fork()
        if pid == 0:
            self.train(out, job, ranks=ranks)
            most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            with open(self.path(out + ".rss"), "w", encoding="utf-8") as f:
                f.write(str(most))
            os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        with open(self.path(out + ".rss"), encoding="utf-8") as f:
            resident = int(f.read())
        plan = w.metrics(self.path(out))[-1]["peak_bytes"]
        print(f"{ranks} ranks: plan {plan >> 20} MiB, resident {resident >> 20} MiB")
        self.assertLessEqual(resident, 1.1 * plan + BASE)
        self.assertGreaterEqual(resident, 0.9 * plan)


if __name__ == "__main__":
    w.main()
