"""train.py WEFT FOREIGN ROOT: two ranks over tcp train the same job under FOREIGN, a program of
another processor that QEMU runs with the libraries in ROOT, and under WEFT; losses agree."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "compat"), os.path.join(HERE, "..", "parity")]
import cases  # noqa: E402  (tests/compat/cases.py)
from ports import free_port  # noqa: E402  (tests/parity/ports.py)

WEFT, FOREIGN, ROOT = (os.path.abspath(x) for x in sys.argv[1:4])
BOUND = 1e-4  # of a loss: products and sums have another order


def train(command, place, out, isa):
    port, ranks = free_port(), []
    for rank in range(2):
        env = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        words = [*command, "train", "job.ini", f"run.out={out}", f"device.isa={isa}",
                 "run.key=job.key", "run.deadline=120", "run.join_timeout=120",
                 "run.frozen_after=60"]
        ranks.append(subprocess.Popen(words, cwd=place, env=env, stderr=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True))
    for rank in ranks:
        said = "".join(rank.communicate(timeout=240))
        if rank.returncode:
            sys.exit(f"{command} ended with {rank.returncode}:\n{said}")
    with open(os.path.join(place, out, "metrics.jsonl"), encoding="utf-8") as f:
        return [json.loads(line)["loss"] for line in f]


with tempfile.TemporaryDirectory(prefix="weft-aarch64-") as folder:
    with open(os.path.join(folder, "job.ini"), "w", encoding="utf-8") as ini:
        job = cases.of(parallel_strategy="dp", comm_plugin="tcp", optim_placement="zero1")
        del job["device"]["isa"]  # each processor has words of its own
        ini.write(cases.text_of(job))
    cases.write_tokens(os.path.join(folder, "chain.tokens"), cases.chain(600, 16), 16)
    subprocess.run([WEFT, "key", "-o", "job.key"], cwd=folder, check=True, capture_output=True)
    here = train([WEFT], folder, "here", "v2")
    there = train(["qemu-aarch64", "-L", ROOT, FOREIGN], folder, "there", "plain")
worst = max(abs(a - b) / abs(a) for a, b in zip(here, there))
print(f"{len(there)} steps of two ranks on AArch64: losses {there[0]} to {there[-1]}, on x86-64 "
      f"{here[0]} to {here[-1]}; they differ by {worst:.2g} at most")
sys.exit(len(here) != cases.STEPS or len(there) != cases.STEPS or worst > BOUND)
