#!/usr/bin/env python3
"""environment.py WEFT: does a variable of the environment change what a job computes?

Variables of OpenMP runtimes and of oneDNN that a user, a module or a container may have set: the
losses and norms have the same bits. Those that choose oneDNN's kernels change the rounding, and no
more. A libgomp that the loader finds first is refused: oneDNN would get fewer threads than it was
promised."""
import ctypes.util
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import weft_jobs as w  # noqa: E402

SAME = """OMP_DYNAMIC=true OMP_THREAD_LIMIT=1 OMP_THREAD_LIMIT=x OMP_MAX_ACTIVE_LEVELS=0
OMP_NUM_THREADS=1 OMP_NUM_THREADS=7 OMP_NUM_THREADS=0 OMP_NESTED=true OMP_PROC_BIND=spread
OMP_PLACES={0} OMP_SCHEDULE=dynamic OMP_STACKSIZE=16k OMP_WAIT_POLICY=active
OMP_WAIT_POLICY=passive OMP_CANCELLATION=true OMP_TARGET_OFFLOAD=MANDATORY OMP_DISPLAY_ENV=verbose
GOMP_SPINCOUNT=0 GOMP_SPINCOUNT=infinity GOMP_CPU_AFFINITY=0 GOMP_STACKSIZE=16 GOMP_DEBUG=1
KMP_AFFINITY=compact KMP_BLOCKTIME=0 KMP_DYNAMIC_MODE=load_balance KMP_DUPLICATE_LIB_OK=TRUE
MKL_NUM_THREADS=1 MKL_DYNAMIC=TRUE OPENBLAS_NUM_THREADS=1 ONEDNN_DEFAULT_FPMATH_MODE=BF16
ONEDNN_DEFAULT_FPMATH_MODE=ANY DNNL_DEFAULT_FPMATH_MODE=F16 ONEDNN_PRIMITIVE_CACHE_CAPACITY=0
ONEDNN_VERBOSE=1 DNNL_VERBOSE=2 ONEDNN_CPU_ISA_HINTS=PREFER_YMM""".split()
ROUNDED = """ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=SSE41
ONEDNN_MAX_CPU_ISA=AVX512_CORE""".split()


def figures(rows):
    return [(r["step"], r["loss"], r["grad_norm"]) for r in rows]


class Environment(w.Bench):
    JOB = w.ODD | {"run.steps": 4, "device.threads": 2, "train.precision": "fp32"}

    def run_with(self, words, job=None):
        self.train("run", job or self.JOB, extra=dict(word.split("=", 1) for word in words))
        return figures(w.metrics(self.path("run")))

    def test_same_bits(self):
        """As many at once as go together; where figures differ, which one is it?"""
        for precision in ("fp32", "bf16"):
            job, left = self.JOB | {"train.precision": precision}, SAME
            plain = self.run_with((), job)
            while left:
                group = list({word.split("=")[0]: word for word in left}.values())
                left = [word for word in left if word not in group]
                if self.run_with(group, job) != plain:
                    self.fail(f"{precision}: " + ", ".join(
                        word for word in group if self.run_with((word,), job) != plain))

    def test_rounding(self):
        plain = self.run_with(())
        for word in ROUNDED:
            with self.subTest(variable=word):
                for (_, loss, norm), (_, *right) in zip(self.run_with((word,)), plain):
                    self.assertAlmostEqual(loss, right[0], delta=1e-4 * right[0])
                    self.assertAlmostEqual(norm, right[1], delta=1e-3 * right[1])

    @unittest.skipIf(w.SLOW > 1, "a sanitizer's runtime must be the first that is loaded")
    def test_another_runtime(self):
        name = ctypes.util.find_library("gomp")
        self.assertTrue(name)
        said = self.train("run", self.JOB, extra={"LD_PRELOAD": name}, status=2)
        self.assertIn("another OpenMP runtime was loaded before it: is LD_PRELOAD set?",
                      said.stderr)


if __name__ == "__main__":
    w.main()
