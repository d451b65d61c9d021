"""Does the cuda device train as the cpu device does? Whole jobs of tiny models, on doubles of the
driver and of cuBLASLt (driver.c), or on a GPU.

`train.py WEFT DOUBLES [unittest's arguments]`; DOUBLES is their folder, or "gpu"."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
DOUBLES = sys.argv.pop(2)
import weft_jobs as w  # noqa: E402  (tests/parity/weft_jobs.py)

GPU = DOUBLES == "gpu"
STEPS = 50 if GPU else 8
LIBRARIES = {} if GPU else {"LD_LIBRARY_PATH": DOUBLES}
CUDA = {"device.plugin": "cuda"}
JOB = {"run.steps": STEPS}
SHORT = unittest.skipIf(w.BRIEF, "sanitizers see the same code in other types")
# Losses are about 5: so many roundings of the compute type.
BOUND = {"fp32": 2e-5, "bf16": 5e-3, "fp16": 5e-3}


class Cuda(w.Bench):
    def on_cuda(self, out, job, extra=None, **how):
        job = {k: v for k, v in (job | JOB).items() if k != "device.threads"}
        return self.train(out, job | CUDA, extra=LIBRARIES | (extra or {}), **how)

    def against_cpu(self, name, job):
        job = job | {"data.valid": self.path("valid.bin"), "train.eval_every": STEPS}
        self.train(f"{name}-cpu", job | JOB)
        self.on_cuda(f"{name}-cuda", job)
        cpu, cuda = w.metrics(self.path(f"{name}-cpu")), w.metrics(self.path(f"{name}-cuda"))
        self.assertEqual(len(cuda), STEPS)
        bound = BOUND[job["train.precision"]]
        for a, b in zip(cpu, cuda):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=bound)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=20 * bound)
        self.assertAlmostEqual(cpu[-1]["valid_loss"], cuda[-1]["valid_loss"], delta=bound)
        self.assertLess(cuda[-1]["loss"], cuda[0]["loss"] - 0.05)

    def test_gpt2_fp32(self):
        self.against_cpu("g32", w.ODD)

    def test_gpt2_bf16(self):
        self.against_cpu("g16", w.EVEN | {"train.precision": "bf16"})

    @SHORT
    def test_gpt2_fp16(self):
        self.against_cpu("gh", w.EVEN | {"train.precision": "fp16"})

    def test_llama_fp32(self):
        self.against_cpu("l32", w.EVEN | w.LLAMA)

    @SHORT
    def test_llama_bf16(self):
        self.against_cpu("l16", w.EVEN | w.LLAMA | {"train.precision": "bf16"})

    def test_recorded_work_is_the_same_work(self):
        for graphs in ("on", "off"):
            self.on_cuda(graphs, w.ODD | {"device.graphs": graphs, "train.precision": "bf16",
                                          "run.deterministic": "on"})
        self.same_run("on", "off")

    def test_joined_ops(self):
        """The same bits each time; and but for rounding what the same job gives op by op."""
        for precision in ("fp32", "bf16")[w.BRIEF:]:
            job = w.EVEN | {"train.precision": precision, "run.deterministic": "on"}
            for out, key in (("once", "on"), ("twice", "on"), ("apart", "off")):
                self.on_cuda(out, job | {"device.joined": key})
            self.same_run("once", "twice")
            for a, b in zip(w.metrics(self.path("once")), w.metrics(self.path("apart"))):
                self.assertAlmostEqual(a["loss"], b["loss"], delta=BOUND[precision])
                self.assertAlmostEqual(a["grad_norm"], b["grad_norm"],
                                       delta=20 * BOUND[precision])

    def test_what_is_joined(self):
        for key in ("on", "off"):
            job = {k: v for k, v in w.EVEN.items() if k != "device.threads"} | CUDA
            plan = w.weft("plan", self.ini, "--list",
                          *self.options("plan", job | {"device.joined": key})).stdout
            for name in ("linear+gelu", "linear+bias_residual", "linear.dx+gelu.dx",
                         "linear.dw+colsum", "colsum+linear.dw"):
                self.assertEqual(f" {name} " in plan, key == "on", f"{name}, joined = {key}")

    def test_checkpoints_go_both_ways(self):
        job = w.EVEN | {"checkpoint.every": STEPS // 2, "optim.schedule": "constant"}
        self.on_cuda("there", job)
        self.train("there", job | JOB | {"run.steps": STEPS + 2}, resume=True)
        self.train("whole", job | JOB | {"run.steps": STEPS + 2})
        a, b = w.metrics(self.path("there"))[-1], w.metrics(self.path("whole"))[-1]
        self.assertAlmostEqual(a["loss"], b["loss"], delta=BOUND["fp32"])


class Doubles(w.Bench):
    """What only doubles show."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if GPU:
            raise unittest.SkipTest("there is a GPU")

    def run_cuda(self, extra, status=0, **keys):
        job = {k: v for k, v in w.ODD.items() if k != "device.threads"} | {"run.steps": 3}
        words = [f"{k}={v}" for k, v in (job | CUDA | keys).items()]
        words += [f"data.{x}={self.path(x + '.bin')}" for x in ("train", "valid")]
        return w.weft("train", self.ini, f"run.out={self.path('doubles')}", *words, status=status,
                      extra=LIBRARIES | extra).stderr

    def test_the_host_leaves_device_memory_alone(self):
        self.run_cuda({"DOUBLE_GPU_CLOSED": "1"})

    def test_a_full_gpu(self):
        said = self.run_cuda({"DOUBLE_GPU_MIB": "1"}, status=1)
        self.assertRegex(said, r"needs an arena of .* GiB .* the GPU has .* GiB free")

    def test_a_nearly_full_gpu(self):
        """The plan fits, and no op can be tried beside it."""
        said = self.run_cuda({"DOUBLE_GPU_MIB": "48"}, **{"device.graphs": "off"})
        self.assertRegex(said, r"leaves no 0.03 GiB of the GPU's memory to try an op on")

    def test_versions_of_cudnn(self):
        """What a version is known to compute wrongly goes to own kernels, or is an error."""
        for version, says, status, refuses in (
                (91900, "attention: cuDNN 9.19.0", 0, "attention: cuDNN"),
                (90800, "cuDNN does not start, or is older", 77, "needs 9.10.2 or later"),
                (91400, "attention.dx, 51 tokens .* up to 9.15.0", 2, "its gradients want")):
            extra = {"DOUBLE_CUDNN_VERSION": str(version)}
            keys = {"train.precision": "fp16"}
            self.assertRegex(self.run_cuda(extra, **keys), says)
            said = self.run_cuda(extra, status, **keys | {"device.attention": "cudnn"})
            self.assertRegex(said, refuses)
        said = self.run_cuda({}, 2, **{"device.attention": "cudnn"})
        self.assertRegex(said, "device.attention = cudnn: op attention, .* it takes 16-bit")

    def test_products_that_are_slow(self):
        said = self.run_cuda({}, **{"train.precision": "bf16"})
        self.assertRegex(said, r"op linear, 51 tokens, 24 by 257: cuBLASLt has no algorithm")
        said = self.run_cuda({}, **{"train.precision": "bf16", "model.vocab": 264})
        self.assertNotIn("has no algorithm", said)

    def test_rules_have_kernels_of_their_own(self):
        """The kernel for any program would take three times as many instructions."""
        for rule in ("sgd", "adam", "adamw"):
            launched = self.path(f"launched.{rule}")
            self.run_cuda({"DOUBLE_GPU_LAUNCHES": launched}, **{"optim.rule": rule})
            with open(launched, encoding="utf-8") as f:
                names = f.read().split()
            self.assertIn(f"known_{rule}", names)
            self.assertIn("known_add", names)

    def test_a_driver_that_does_not_start(self):
        said = self.run_cuda({"DOUBLE_GPU_FAILS": "init"}, status=77)
        self.assertIn("no NVIDIA driver: it does not start: CUDA_ERROR_NO_DEVICE", said)


class Absent(w.Bench):
    def test_no_driver(self):
        if GPU:
            self.skipTest("there is a GPU")
        empty = self.path("empty")
        os.makedirs(empty, exist_ok=True)
        done = self.plan_or_train("train", {"LD_LIBRARY_PATH": empty}, None)
        if done.returncode == 0:
            self.skipTest("this machine has a driver")
        self.assertEqual(done.returncode, 77)
        self.assertIn("no NVIDIA driver: libcuda.so.1 cannot be opened", done.stderr)

    def test_plans_need_no_driver(self):
        out = self.plan_or_train("plan", {}, 0).stdout
        self.assertRegex(out, r"(?m)^ +0 .* MiB")

    def plan_or_train(self, command, extra, status):
        words = [f"{k}={v}" for k, v in w.ODD.items() if k != "device.threads"]
        words += [f"data.{x}={self.path(x + '.bin')}" for x in ("train", "valid")]
        return w.weft(command, self.ini, f"run.out={self.path('no')}", *words,
                      "device.plugin=cuda", status=status, extra=extra)


if __name__ == "__main__":
    w.main()
