"""weft doctor on made-up machines: each bad setting is seen, alone, and in words; nothing that it
reads brings it down; and ranks on machines that differ are told where."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

import machine
from machine import CPU, GPU, IB, NET, NIC, NODE, THP, started

CRASH = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else ""

# What they say depends on the machine that the test runs on.
LIVE = {"libcuda", "libnccl", "libucp", "peers", "plugins", "path"}
MEASURED = re.compile(r"the clock of rank|rank \d+ has a round trip|packets of ")


def every_cpu(name, text):
    def change(m):
        for i in range(machine.CPUS):
            m.set(f"{CPU}/cpu{i}/{name}", text)
    return change


def setting(name, text):
    return lambda m: m.set(name, text)


def without(name):
    return lambda m: m.remove(name)


def both(*changes):
    def change(m):
        for c in changes:
            c(m)
    return change


def replaced(name, old, new):
    return lambda m: m.change(name, old, new)


def second_nic(m):
    m.fill("sys/class/net/eth1", flags="0x1003", carrier=1, speed=1000, mtu=1500, duplex="full")
    m.link("sys/class/net/eth1/device", f"sys/devices/pci0000:80/{GPU}")


def second_port(m):
    m.fill(f"{IB}/ports/2", state="4: ACTIVE", rate="100 Gb/sec (4X EDR)",
           link_layer="InfiniBand")


def cgroup1(m):
    m.set("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/")
    m.fill("sys/fs/cgroup/cpu/docker", **{"cpu.cfs_quota_us": 150000, "cpu.cfs_period_us": 100000})
    m.fill("sys/fs/cgroup/cpu/docker/abc", **{"cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100000})


def nested_cgroup(m):
    m.set("proc/self/cgroup", "0::/a/b")
    m.set("sys/fs/cgroup/a/cpu.max", "200000 100000")
    m.set("sys/fs/cgroup/a/b/cpu.max", "max 100000")


def far_gpu(m):
    folder = f"sys/devices/pci0000:80/{GPU}"
    m.fill(folder, numa_node=0, local_cpus="0f")


def versions(kind):
    return both(*[setting(f"{IB}/ports/1/gid_attrs/types/{i}", kind) for i in range(4)])


# Name of the case: what is done to the machine, the check that says so, its level, words of it.
CASES = {
    "virtual interface": (lambda m: m.fill("sys/class/net/veth7", flags="0x1003", carrier=1,
                                           speed=10000, mtu=1500), "network", "ok", []),
    "powersave": (every_cpu("cpufreq/scaling_governor", "powersave"), "frequency", "warning",
                  ["8 of 8 CPUs have the governor powersave", "echo performance | sudo tee"]),
    "powersave that performs": (
        both(every_cpu("cpufreq/scaling_governor", "powersave"),
             every_cpu("cpufreq/energy_performance_preference", "performance")),
        "frequency", "ok", []),
    "schedutil": (setting(f"{CPU}/cpu3/cpufreq/scaling_governor", "schedutil"), "frequency",
                  "note", ["1 of 8 CPUs have the governor schedutil"]),
    "no turbo": (setting(f"{CPU}/intel_pstate/no_turbo", "1"), "frequency", "note", ["turbo"]),
    "no boost": (setting(f"{CPU}/cpufreq/boost", "0"), "frequency", "note", ["turbo"]),
    "slow clock": (setting("sys/devices/system/clocksource/clocksource0/current_clocksource",
                           "hpet"), "clock", "warning", ["time comes from hpet", "echo tsc"]),
    "old processor": (replaced("proc/cpuinfo", "avx2", ""), "processor", "note", ["no AVX2"]),
    "mask": (replaced("proc/self/status", "0-7", "1,4-5"), "processor", "note",
             ["3 of 8 CPUs (1,4-5)"]),
    "node without memory": (setting(f"{NODE}/node1/meminfo", "Node 1 MemTotal: 0 kB"), "topology",
                            "warning", ["NUMA node 1 has CPUs and no memory"]),
    "balancing": (setting("proc/sys/kernel/numa_balancing", "1"), "topology", "note",
                  ["automatic NUMA balancing is enabled",
                                           "sysctl kernel.numa_balancing=0"]),
    "far GPU": (far_gpu, "topology", "note",
                [f"GPU {GPU} has no network interface at its NUMA node"]),
    "swap in use": (replaced("proc/meminfo", "SwapFree:       8388604", "SwapFree:  100"),
                    "memory", "note", ["8.0 GiB of swap are in use"]),
    "no overcommitment": (setting("proc/sys/vm/overcommit_memory", "2"), "memory", "warning",
                          ["overcommit_memory 2"]),
    "no huge pages": (setting(f"{THP}/enabled", "always madvise [never]"), "hugepages", "warning",
                      ["transparent huge pages are disabled",
                       f"echo madvise | sudo tee /{THP}/enabled"]),
    "no shared huge pages": (setting(f"{THP}/shmem_enabled", "always advise [never] deny"),
                             "hugepages", "note", ["shmem_enabled is never", "echo advise"]),
    "reserved huge pages": (
        both(replaced("proc/meminfo", "HugePages_Total:       0", "HugePages_Total: 10000"),
             replaced("proc/meminfo", "HugePages_Free:        0", "HugePages_Free: 9990")),
        "hugepages", "note", ["19.5 GiB of memory are reserved", "vm.nr_hugepages=10"]),
    "locked memory": (replaced("proc/self/limits", "memory         unlimited            unlimited",
                               "memory         65536                65536"), "limits", "warning",
                      ["the limit of locked memory is 64 KiB", "mlx5_0", "limits.d"]),
    "locked memory, soft": (replaced("proc/self/limits", "memory         unlimited",
                                     "memory         65536"), "limits", "warning",
                            ["the limit of locked memory is 64 KiB", "ulimit -l unlimited"]),
    "locked memory of root": (
        both(replaced("proc/self/limits", "memory         unlimited", "memory         65536"),
             replaced("proc/self/status", "CapEff:\t0", "CapEff:\t000001ffffffffff")),
        "limits", "ok", []),
    "few files": (replaced("proc/self/limits", "65536 ", "256 "), "limits", "warning",
                  ["limit of open files is 256", "ulimit -n 65536"]),
    "quota": (setting("sys/fs/cgroup/cpu.max", "250000 100000"), "container", "warning",
              ["8 CPUs are visible, and the CPU quota is 2.50", "device.threads=2"]),
    "quota above": (nested_cgroup, "container", "warning", ["quota is 2.00"]),
    "quota, version 1": (cgroup1, "container", "warning", ["quota is 1.50"]),
    "enough quota": (setting("sys/fs/cgroup/cpu.max", "800000 100000"), "container", "ok", []),
    "small MTU": (setting(f"{NET}/mtu", "1500"), "network", "warning",
                  ["eth0 has an MTU of 1500 on a link of 100 Gbit/s",
                   "sudo ip link set eth0 mtu 9000"]),
    "small MTU, slow link": (both(setting(f"{NET}/mtu", "1500"), setting(f"{NET}/speed", "1000")),
                             "network", "ok", []),
    "no link": (setting(f"{NET}/carrier", "0"), "network", "warning", ["eth0", "has no link"]),
    "one of two links": (both(second_nic, setting(f"{NET}/carrier", "0")), "network", "note",
                         ["eth0 is up and has no link"]),
    "switched off": (setting(f"{NET}/flags", "0x1002"), "network", "ok", []),
    "half duplex": (setting(f"{NET}/duplex", "half"), "network", "warning", ["half duplex"]),
    "narrow slot": (
        both(setting(f"sys/devices/pci0000:80/{NIC}/current_link_width", "4"),
             setting(f"sys/devices/pci0000:80/{NIC}/current_link_speed", "8.0 GT/s PCIe")),
        "network", "warning", ["the PCIe slot of eth0 has 32 Gbit/s, and its link 100 Gbit/s"]),
    "small buffers": (setting("proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"), "sockets",
                      "note", ["4 MiB", "100 Gbit/s", "tcp_wmem="]),
    "port down": (setting(f"{IB}/ports/1/state", "1: DOWN"), "rdma", "warning",
                  ["mlx5_0 port 1 is not active (1: DOWN)", "sudo ip link set eth0 up"]),
    "one of two ports": (both(second_port, setting(f"{IB}/ports/1/state", "1: DOWN")), "rdma",
                         "note", ["mlx5_0 port 1 is not active"]),
    "no subnet manager": (setting(f"{IB}/ports/1/state", "2: INIT"), "rdma", "warning",
                          ["subnet manager", "opensm"]),
    "no RoCE v2": (versions("IB/RoCE v1"), "rdma", "warning",
                   ["has no GID of RoCE v2", "dev eth0"]),
    "link-local alone": (both(setting(f"{IB}/ports/1/gids/2", ":".join(["0000"] * 8)),
                              setting(f"{IB}/ports/1/gids/3", ":".join(["0000"] * 8))), "rdma",
                         "note", ["but a link-local one"]),
    "no verbs files": (without("dev/infiniband"), "rdma", "warning", ["/dev/infiniband",
                                                                     "modprobe ib_uverbs"]),
    "narrow GPU": (setting(f"sys/devices/pci0000:80/{GPU}/current_link_width", "8"), "gpus",
                   "note", [f"GPU {GPU} has 8 of its 16 PCIe lanes"]),
    "no driver": (without("proc/driver"), "gpus", "warning", ["no driver is loaded"]),
    "GPUs kept away": (without("dev/nvidiactl"), "gpus", "warning", ["cannot open", "--gpus all"]),
    "no peer memory": (without("sys/module/nvidia_peermem"), "gpus", "note",
                       ["modprobe nvidia_peermem"]),
    "small /dev/shm": (setting("proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0"),
                       "shared", "warning", ["/dev/shm has only 64 MiB", "--shm-size"]),
}


class Doctor(machine.Case):
    def examine(self, *words, root=None, **how):
        """The report, and what else it said."""
        env = {"WEFT_DOCTOR_ROOT": root or self.m.folder, "LD_LIBRARY_PATH": self.m.libraries}
        out, err = self.weft("doctor", "--json", *words, env=env | how.pop("env", {}), **how)
        report = json.loads(out)
        return {c["id"]: c for c in report["checks"]}, err

    def assert_others_well(self, checks, but):
        for name, c in checks.items():
            if name != but and name not in LIVE:
                self.assertEqual((name, c["findings"]), (name, []))

    # --- what it sees ---

    def test_a_healthy_machine_has_no_findings(self):
        checks, _ = self.examine()
        self.assert_others_well(checks, None)
        self.assertEqual(checks["topology"]["facts"]["cores"], 8)
        self.assertEqual(checks["topology"]["facts"]["nodes"], 2)
        self.assertEqual(checks["gpus"]["facts"]["driver"], "550.54.15")
        self.assertEqual(checks["memory"]["facts"]["total"], 256 << 30)
        self.assertEqual(checks["network"]["facts"]["eth0.mtu"], 9000)
        text = "\n".join(sum((c["summary"] for c in checks.values()), []))
        for words in ("node 1: CPUs 4-7, 128 GiB", "GID 3: 10.0.0.1, RoCE v2, eth0",
                      f"GPU {GPU}: nearest is eth0", "eth0: up, 100 Gbit/s, MTU 9000"):
            self.assertIn(words, text)

    def test_each_bad_setting_is_seen_and_nothing_else(self):
        for name, (change, check, level, words) in CASES.items():
            with self.subTest(name):
                self.m.heal()
                change(self.m)
                checks, _ = self.examine()
                self.assertEqual(checks[check]["level"], level, checks[check])
                said = json.dumps(checks[check]["findings"])
                for word in words:
                    self.assertIn(word, said)
                for f in checks[check]["findings"]:
                    self.assertTrue(f["what"] and f["why"] and f["type"], f)
                self.assert_others_well(checks, check)

    def test_a_small_dev_shm_is_a_note_where_there_is_no_gpu(self):
        self.m.set("proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0")
        self.m.remove(f"sys/bus/pci/devices/{GPU}")
        checks, _ = self.examine()
        self.assertEqual(checks["shared"]["level"], "note")

    def test_a_machine_without_files(self):
        """What cannot be read is not called well."""
        checks, _ = self.examine(root=self.path("nowhere"))
        self.assert_others_well(checks, None)
        self.assertEqual({name: c["level"] for name, c in checks.items() if name not in LIVE},
                         {name: "unknown" for name in checks if name not in LIVE})
        out, _ = self.weft("doctor", env={"WEFT_DOCTOR_ROOT": self.path("nowhere")})
        self.assertRegex(out, r"(?m)^clock +unknown +not reported by the kernel$")
        self.assertRegex(out, r", 0 notes, \d\d unknown\n")

    def test_one_that_cannot_be_read_is_unknown(self):
        """... and the others are judged as before; a finding counts for more."""
        well = {"network", "memory", "limits", "topology", "frequency"}
        def unknown(checks):
            return {n for n, c in checks.items() if c["level"] == "unknown" and n not in LIVE}

        self.assertEqual(unknown(self.examine()[0]), {"job", "fit"})
        self.m.remove("sys/devices/system/clocksource/clocksource0/current_clocksource")
        self.m.remove("proc/self/limits")
        checks, _ = self.examine()
        self.assertEqual(unknown(checks), {"job", "fit", "clock", "limits"})
        self.assertLessEqual(well - {"limits"},
                             {n for n, c in checks.items() if c["level"] == "ok"})

    def test_this_machine(self):
        out, _ = self.weft("doctor")
        for name in self.weft("doctor", "--list")[0].splitlines():
            self.assertRegex(out, rf"(?m)^{name.split()[0]} +(ok|unknown|note|warning) ")

    def test_people_read_what_programs_read(self):
        CASES["small MTU"][0](self.m)
        out, _ = self.weft("doctor", env={"WEFT_DOCTOR_ROOT": self.m.folder})
        self.assertIn("- eth0 has an MTU of 1500 on a link of 100 Gbit/s\n", out)
        self.assertIn("why:  The CPU handles each packet", out)
        self.assertIn("type: sudo ip link set eth0 mtu 9000", out)
        self.assertRegex(out, r"\nmade-up: \d+ checks, 0 problems, 1 warning, ")

    def test_every_check_is_in_the_table(self):
        folder = os.path.join(started.SOURCE, "tools", "doctor")
        with open(os.path.join(folder, "checks", "checks.h"), encoding="utf-8") as f:
            declared = set(re.findall(r"^void (doctor_check_\w+)\(", f.read(), re.M))
        with open(os.path.join(folder, "doctor.c"), encoding="utf-8") as f:
            rows = re.findall(r'^    \{"\w+", "[^"]*",\s+(doctor_check_\w+),', f.read(), re.M)
        self.assertGreater(len(declared), 15)
        self.assertEqual(declared, set(rows))
        self.assertEqual(rows[-1], "doctor_check_fit")

    def test_every_check_is_described(self):
        with open(os.path.join(started.SOURCE, "docs", "DOCTOR.md"), encoding="utf-8") as f:
            text = f.read()
        for line in self.weft("doctor", "--list")[0].splitlines():
            self.assertIn(f"\n| {line.split()[0]} | ", text)

    # --- the job ---

    def test_a_job_that_fits(self):
        self.make_data()
        checks, _ = self.examine("tiny.ini")
        self.assertEqual(checks["job"]["facts"]["ranks"], 1)
        self.assertEqual(checks["fit"]["level"], "ok")
        self.assertEqual(self.names(), ["text", "tiny.ini", "train.bin", "valid.bin"])

    def test_too_little_memory(self):
        self.make_data()
        self.m.change("proc/meminfo", "MemAvailable:   250000000", "MemAvailable:   100")
        checks, err = self.examine("tiny.ini", status=1)
        self.assertIn("of the 100 KiB that the machine has available",
                      checks["fit"]["findings"][0]["what"])
        self.assertIn("the job cannot run here", err)

    def test_too_little_memory_in_the_control_group(self):
        self.make_data()
        self.m.fill("sys/fs/cgroup", **{"memory.max": 1 << 20, "memory.current": 900 << 10,
                                        "memory.stat": f"anon 5\nfile {100 << 10}"})
        checks, _ = self.examine("tiny.ini", status=1)
        self.assertIn("of the 224 KiB that its control group leaves",
                      checks["fit"]["findings"][0]["what"])

    def test_more_ranks_than_cores(self):
        self.make_data()
        many = ["tiny.ini", "train.batch=32", "parallel.strategy=dp", "-n", "16",
                "run.out=it's; a folder"]
        checks, _ = self.examine(*many)
        self.assertIn("16 ranks with 1 thread each share 8 cores",
                      checks["fit"]["findings"][0]["what"])
        self.assertEqual(checks["fit"]["findings"][0]["type"],
                         "weft train -n 8 tiny.ini train.batch=32 parallel.strategy=dp "
                         "'run.out=it'\\''s; a folder'")
        checks, _ = self.examine(*many, "--here", "8")
        self.assertEqual(checks["fit"]["findings"], [])
        checks, _ = self.examine(*many, "--here", "4", "device.threads=4")
        self.assertIn("4 ranks with 4 threads each share 8 cores",
                      checks["fit"]["findings"][0]["what"])
        self.assertRegex(checks["fit"]["findings"][0]["type"],
                         "^weft train -n 8 tiny.ini .* device.threads=4  # that many on each")

    def test_fewer_files_than_connections(self):
        self.make_data()
        self.m.change("proc/self/limits", "65536                1048576", "60       60")
        checks, _ = self.examine("tiny.ini", "parallel.strategy=dp", "-n", "2", "comm.plugin=tcp")
        self.assertRegex(checks["fit"]["findings"][0]["what"],
                         r"rank 0 may have up to 6\d files open, and its limit is 60")

    def test_checkpoints_that_the_disk_cannot_hold(self):
        self.make_data()
        huge = ["model.embed=65536", "model.ffn=262144", "model.layers=8", "checkpoint.keep=5"]
        checks, _ = self.examine("tiny.ini", *huge, status=1)
        self.assertIn("6 checkpoints of ", checks["fit"]["findings"][1]["what"])
        checks, _ = self.examine("tiny.ini", *huge, "checkpoint.every=0", status=1)
        self.assertEqual(len(checks["fit"]["findings"]), 1)

    def test_jobs_that_are_refused(self):
        self.make_data()
        for words, why in ((["-n", "2", "parallel.strategy=dp", "comm.plugin=self"], "self"),
                           (["train.batch=7"], "microbatch"),
                           (["data.train=none.bin"], "none.bin")):
            checks, _ = self.examine("tiny.ini", *words, status=1)
            self.assertEqual(checks["job"]["level"], "problem")
            self.assertIn(why, checks["job"]["findings"][0]["what"])
            self.assertEqual(checks["fit"]["findings"], [])

    def test_wrong_requests(self):
        self.refused("doctor", "none.ini", why="none.ini")
        self.refused("doctor", "tiny.ini", "train.bach=7", why="did you mean")
        self.refused("doctor", "tiny.ini", "comm.plugin=tpc", "parallel.strategy=dp",
                     "-n", "2", why="tpc")
        self.refused("doctor", "-n", "2", why="name the INI file of the job")
        self.refused("doctor", "train.batch=7", why="name the INI file of the job")
        self.refused("doctor", "tiny.ini", "--here", "0", why="--here takes a number")
        self.refused("doctor", "tiny.ini", "--here", "2", why="how many of the -n ranks")
        self.refused("train", "tiny.ini", "--json", why="--json is of --doctor")
        self.refused("train", "tiny.ini", "--doctor", "--resume", why="trains nothing")

    def test_ucx_over_tcp_is_a_note(self):
        for tls, level in (("rc,sm", "ok"), ("^tcp", "ok"), ("tcp,sm", "note"), ("^rc", "note")):
            found = self.examine(env={"UCX_TLS": tls})[0]["libucp"]
            if "version" not in found["facts"]:
                self.skipTest("there is no libucp here; cmake/setup.sh installs it")
            self.assertEqual((found["facts"]["tls"], found["level"]), (tls, level))
            self.assertIn(f"UCX_TLS={tls}", found["summary"])

    # --- what it survives ---

    def test_a_library_that_crashes(self):
        checks, _ = self.examine(env={"LD_LIBRARY_PATH": CRASH})
        self.assertIn("was ended by signal 6", checks["libnccl"]["findings"][0]["what"])

    def test_scores_of_transports(self):
        said = self.examine()[0]["plugins"]["summary"]
        self.assertIn("comm tcp: can be used; its score for `auto` is 10 inside a machine and 10 "
                      "between machines", said)

    def test_plugins_from_outside(self):
        """A file that hides another is a note, one that cannot be loaded a problem."""
        lib = os.path.join(os.path.dirname(os.path.dirname(started.WEFT)), "lib", "weft", "optim")
        place = self.path("outside")
        os.makedirs(os.path.join(place, "optim"), mode=0o755)
        mine = shutil.copy(os.path.join(lib, "adamw.so"), os.path.join(place, "optim"))
        os.chmod(mine, 0o755)
        self.assertEqual(self.examine()[0]["plugins"]["facts"]["external"], 0)
        found = self.examine(env={"WEFT_PLUGIN_PATH": place})[0]["plugins"]
        self.assertEqual((found["facts"]["external"], found["level"]), (1, "note"))
        self.assertTrue(any(re.search(r"/optim/adamw\.so: optim adamw \(weft\.rule/1\), ABI \d", x)
                            for x in found["summary"]), found["summary"])
        self.assertIn("hides that of", found["findings"][0]["what"])
        with open(os.path.join(place, "optim", "torn.so"), "wb") as f:
            f.write(b"not a library")
        os.chmod(f.name, 0o755)
        out, _ = self.weft("doctor", "--json", status=1,
                           env={"WEFT_DOCTOR_ROOT": self.m.folder, "WEFT_PLUGIN_PATH": place})
        found = {c["id"]: c for c in json.loads(out)["checks"]}["plugins"]
        self.assertEqual((found["facts"]["external"], found["level"]), (2, "problem"))
        said = [f["what"] for f in found["findings"] if f["level"] == "problem"]
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "torn.so cannot be used: .*ELF")

    def test_a_file_that_is_no_library(self):
        checks, _ = self.examine()
        self.assertIn("invalid ELF header", checks["libnccl"]["summary"][0])

    def spoil(self, name, how):
        self.m.remove(name)
        path = self.m.path(name)
        if how == "folder":
            os.mkdir(path)
        elif how == "pipe":
            os.mkfifo(path)
        elif how == "loop":
            os.symlink(os.path.basename(name), path)
        elif how == "endless":
            os.symlink("/dev/zero", path)
        elif how is not None:
            self.m.set(name, how)

    def survives(self):
        """hwloc ends with an assertion of its own on some trees that cannot be, but it alone."""
        checks, err = self.examine()
        allowed = "topology" if err.startswith("weft: topology-linux.c:") else None
        self.assertTrue(allowed or not err, err)
        for name, c in checks.items():
            for f in c["findings"] if name != allowed else []:
                self.assertNotRegex(f["what"], "signal|ended with|no answer")
            self.assertTrue(json.dumps(c, ensure_ascii=False).isprintable())

    def test_files_that_never_end(self):
        """hwloc waits for a pipe; nothing else does."""
        for how in ("pipe", "endless"):
            self.m.heal()
            for name in self.m.healthy:
                if name.startswith(("proc/self/l", "proc/sys", "proc/driver", "sys/kernel",
                                    "sys/devices/system/clock")):
                    self.spoil(name, how)
            self.survives()

    def test_garbage_in_any_file(self):
        bad = ["folder", "loop", None, b"", b"\n", b"\xff\xfe\x1b[31m\n",
               b"A" * 70000, b"-1\n", b"99999999999999999999\n", b"nan nan nan\n", b"0-\n",
               b"1e999 1e-999\n", b"%s%n%d\n", b"[", b"\0\0\0", b"0-4294967295\n", b"max 0\n",
               b"9223372036854775807 kB\n", b"0 0\n", b"-9223372036854775808\n"]
        for seed in range(int(os.environ.get("WEFT_DOCTOR_SEEDS", "12"))):
            with self.subTest(seed=seed):
                draw = random.Random(seed)
                self.m.heal()
                for name in self.m.healthy:
                    if draw.random() < draw.choice([0.05, 0.5]):
                        self.spoil(name, draw.choice(bad))
                self.survives()


class Ranks(machine.Case):
    count = 3

    def setUp(self):
        super().setUp()
        self.make_data()
        self.weft("key", "-o", "job.key")
        self.write("job.ini", started.TINY.replace("[run]", "[run]\nkey = job.key")
                   .replace("batch = 4", "batch = 12") +
                   "[parallel]\nstrategy = dp\n")

    def examine(self, n, status=0, words=("--json",)):
        """One rank on each of so many machines; what rank 0 said."""
        roots = [m.folder for m in self.machines[:n]]
        port, started_ranks = started.free_port(), []
        for i, root in enumerate(roots):
            env = os.environ | {"RANK": str(i), "WORLD_SIZE": str(len(roots)), "LOCAL_RANK": str(i),
                                "LOCAL_WORLD_SIZE": str(len(roots)),
                                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                                "WEFT_DOCTOR_ROOT": root,
                                "LD_LIBRARY_PATH": os.path.join(root, "lib")}
            started_ranks.append(subprocess.Popen(
                [started.WEFT, "train", "--doctor", "job.ini", *words], cwd=self.place, env=env,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = [p.communicate(timeout=300) for p in started_ranks]
        for i, p in enumerate(started_ranks):
            self.assertEqual(p.returncode, 0 if i else status, said)
        self.assertEqual([x[0] for x in said[1:]], [""] * (len(roots) - 1), "rank 0 alone prints")
        return said[0][0]

    def compared(self, report):
        """{sentence: level}, but for what the load of this machine decides."""
        return {f["what"]: f["level"] for f in report["compared"] if not MEASURED.match(f["what"])}

    def test_equal_machines(self):
        report = json.loads(self.examine(2))
        self.assertEqual(self.compared(report), {})
        self.assertEqual(len(report["ranks"]), 2)

    def test_what_differs_is_said(self):
        m = self.machines
        m[1].set(f"{NET}/mtu", "1500")
        m[1].set("proc/sys/kernel/hostname", "other")
        m[1].set("proc/sys/kernel/osrelease", "5.15.0-other")
        m[1].change("proc/meminfo", "MemTotal:       268435456", "MemTotal:       134217728")
        m[2].change("proc/meminfo", "MemTotal:       268435456", "MemTotal:       268000000")
        m[2].set(f"{IB}/ports/1/rate", "25 Gb/sec (1X EDR)")
        every_cpu("cpufreq/scaling_governor", "powersave")(m[2])
        m[2].change("proc/driver/nvidia/version", "550.54.15", "535.1.2")
        self.assertEqual(self.compared(json.loads(self.examine(3))), {
            "the kernel differs: 6.1.0-made-up on ranks 0, 2 (made-up), 5.15.0-other on rank 1 "
            "(other)": "note",
            "the size of memory differs: 274877906944 on ranks 0, 2 (made-up), 137438953472 on "
            "rank 1 (other)": "note",
            "the CPU governor differs: performance on ranks 0-1 (made-up, other), powersave on "
            "rank 2 (made-up)": "warning",
            "the MTU of eth0 differs: 9000 on ranks 0, 2 (made-up), 1500 on rank 1 (other)":
                "warning",
            "the rate of mlx5_0.1 differs: 100 Gb/sec (4X EDR) on ranks 0-1 (made-up, other), "
            "25 Gb/sec (1X EDR) on rank 2 (made-up)": "warning",
            "the GPU driver differs: 550.54.15 on ranks 0-1 (made-up, other), 535.1.2 on rank 2 "
            "(made-up)": "warning"})
        text = self.examine(3, words=())
        self.assertRegex(text, r"(?s)ranks 0, 2: made-up\nrank 1: other\n.*\nother ranks\n.*"
                               r"warning: rank 1 \(other\): eth0 has an MTU of 1500.*"
                               r"warning: rank 2 \(made-up\): 8 of 8 CPUs have the governor.*"
                               r"\ncompared\n.*the MTU of eth0 differs")

    def test_a_problem_of_one_rank_is_one_of_the_job(self):
        self.machines[1].change("proc/meminfo", "MemAvailable:   250000000", "MemAvailable:   100")
        report = json.loads(self.examine(2, status=1))
        fit = [c for c in report["ranks"][1]["checks"] if c["id"] == "fit"][0]
        self.assertEqual(fit["level"], "problem")

    def test_the_launcher_does_it_too(self):
        out, _ = self.weft("train", "--doctor", "-n", "2", "tiny.ini", "parallel.strategy=dp")
        self.assertIn("ranks 0-1: ", out)
        self.assertIn("\ncompared\n", out)
        self.assertNotIn("run", self.names(), "it trained")
        out, _ = self.weft("train", "--doctor", "tiny.ini")
        self.assertNotIn("\ncompared\n", out)
        self.weft("train", "--doctor", "-n", "2", "tiny.ini", "train.bach=1", status=2)
        self.weft("train", "--doctor", "-n", "2", "tiny.ini", "comm.plugin=self",
                  "parallel.strategy=dp", status=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
