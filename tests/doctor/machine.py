"""machine.py: made-up machines, as folders with the files of /proc, /sys and /dev that matter."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import started  # noqa: E402

CPUS = 8  # on two nodes, four cores each, no two of a core
CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
NET = "sys/class/net/eth0"
IB = "sys/class/infiniband/mlx5_0"
THP = "sys/kernel/mm/transparent_hugepage"
GPU, NIC = "0000:81:00.0", "0000:82:00.0"

FLAGS = "fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt avx avx2 fma avx512f avx512_bf16"
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            65536                1048576              files
Max locked memory         unlimited            unlimited            bytes
"""
MEMINFO = """MemTotal:       268435456 kB
MemFree:        260000000 kB
MemAvailable:   250000000 kB
SwapTotal:      8388604 kB
SwapFree:       8388604 kB
CommitLimit:    142606332 kB
Committed_AS:   1000000 kB
HugePages_Total:       0
HugePages_Free:        0
Hugepagesize:       2048 kB
"""


class Case(started.Case):
    """Tests that share machines, each of which finds them healthy; self.m is the first."""
    count = 1

    @classmethod
    def setUpClass(cls):
        cls.shed = tempfile.mkdtemp(prefix="weft-doctor-")
        cls.addClassCleanup(shutil.rmtree, cls.shed, ignore_errors=True)
        cls.machines = [Machine(os.path.join(cls.shed, str(i))) for i in range(cls.count)]
        cls.m = cls.machines[0]

    def setUp(self):
        super().setUp()
        for m in self.machines:
            m.heal()


class Machine:
    """A healthy machine with a fast network, until a test sets it otherwise."""

    def __init__(self, folder):
        self.folder = folder
        self.touched = set()
        self.libraries = self.path("lib")  # where the one that is looked for is none
        self.set("lib/libnccl.so.2", "This is not a library, which is soon seen. " * 20)
        self.processors()
        self.kernel()
        self.network()
        self.rdma()
        self.gpu()
        self.touched = set()
        self.healthy = {name: self.content(name) for name in self.files()}

    def path(self, name):
        return os.path.join(self.folder, name)

    def set(self, name, content):
        """A file with a line, or several."""
        path = self.path(name)
        self.touched.add(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = content if isinstance(content, bytes) else f"{content}\n".encode()
        with open(path, "wb") as f:
            f.write(data)

    def fill(self, folder, **files):
        for name, content in files.items():
            self.set(f"{folder}/{name}", content)

    def change(self, name, old, new):
        with open(self.path(name), encoding="utf-8") as f:
            text = f.read()
        assert old in text, f"{name} has no {old}"
        self.set(name, text.replace(old, new))

    def content(self, name):
        """The file's bytes, or where the link leads."""
        path = self.path(name)
        if os.path.islink(path):
            return os.readlink(path)
        with open(path, "rb") as f:
            return f.read()

    def heal(self):
        """As it was made."""
        for name in list(self.touched):
            if os.path.lexists(self.path(name)):
                self.remove(name)
            folder = os.path.dirname(self.path(name))
            while os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
                folder = os.path.dirname(folder)
        for name, content in self.healthy.items():
            if os.path.lexists(self.path(name)):
                continue
            if isinstance(content, str):
                os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
                os.symlink(content, self.path(name))
            else:
                self.set(name, content)
        self.touched = set()

    def remove(self, name):
        path = self.path(name)
        self.touched.add(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def link(self, name, to):
        path = self.path(name)
        self.touched.add(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.path.relpath(self.path(to), os.path.dirname(path)), path)

    def files(self):
        """Every file of the system, and every link."""
        return sorted(os.path.relpath(os.path.join(base, f), self.folder)
                      for base, dirs, names in os.walk(self.folder) if base != self.libraries
                      for f in names + [d for d in dirs if os.path.islink(os.path.join(base, d))])

    # --- the parts ---

    def processors(self):
        self.set("proc/cpuinfo", "".join(
            f"processor\t: {i}\nvendor_id\t: GenuineIntel\nmodel name\t: Made-up CPU\n"
            f"flags\t\t: {FLAGS}\n\n" for i in range(CPUS)))
        for name in ("online", "possible", "present"):
            self.set(f"{CPU}/{name}", f"0-{CPUS - 1}")
        self.set(f"{CPU}/smt/active", "0")
        for i in range(CPUS):
            node = i // 4
            self.fill(f"{CPU}/cpu{i}/topology", core_id=i % 4, physical_package_id=node,
                      core_cpus=f"{1 << i:x}", thread_siblings=f"{1 << i:x}",
                      package_cpus=f"{15 << 4 * node:x}", core_siblings=f"{15 << 4 * node:x}")
            self.fill(f"{CPU}/cpu{i}/cpufreq", scaling_governor="performance")
            for at, (level, size, shared) in enumerate(
                    [(1, "32K", 1 << i), (2, "1024K", 1 << i), (3, "16384K", 15 << 4 * node)]):
                self.fill(f"{CPU}/cpu{i}/cache/index{at}", level=level, type="Data", size=size,
                          shared_cpu_map=f"{shared:x}", coherency_line_size=64,
                          number_of_sets=64, physical_line_partition=1, id=0)
        for node in range(2):
            self.set(f"{NODE}/node{node}/cpumap", f"{15 << 4 * node:x}")
            self.set(f"{NODE}/node{node}/meminfo", f"Node {node} MemTotal: 134217728 kB")
            self.set(f"{NODE}/node{node}/distance", "10 21" if node == 0 else "21 10")
        self.set(f"{NODE}/online", "0-1")

    def kernel(self):
        self.fill("proc/sys/kernel", osrelease="6.1.0-made-up", hostname="made-up",
                  numa_balancing=0)
        self.set("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        self.set("proc/self/limits", LIMITS)
        self.set("proc/self/status", f"Name:\tweft\nCapEff:\t0\nCpus_allowed_list:\t0-{CPUS - 1}")
        self.set("proc/self/cgroup", "0::/")
        self.set("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=16g 0 0")
        self.set("proc/meminfo", MEMINFO)
        self.set("proc/sys/vm/overcommit_memory", "0")
        self.fill("sys/devices/system/clocksource/clocksource0", current_clocksource="tsc",
                  available_clocksource="tsc hpet acpi_pm")
        self.fill(THP, enabled="always [madvise] never",
                  shmem_enabled="always within_size [advise] never deny force")

    def network(self):
        self.link(f"{NET}/device", f"sys/devices/pci0000:80/{NIC}")
        self.fill(NET, flags="0x1003", carrier=1, operstate="up", speed=100000, mtu=9000,
                  duplex="full")
        self.pci(NIC, "0x020000", "0x15b3", 16, "16.0 GT/s PCIe")
        self.fill("sys/class/net/lo", flags="0x9", carrier=1, operstate="unknown", mtu=65536)
        self.fill("proc/sys/net/ipv4", tcp_rmem="4096 131072 67108864",
                  tcp_wmem="4096 65536 67108864", tcp_congestion_control="cubic")
        self.set("proc/sys/net/core/somaxconn", "4096")

    def pci(self, name, kind, vendor, lanes, speed):
        folder = f"sys/devices/pci0000:80/{name}"
        self.fill(folder, vendor=vendor, device="0x1017", subsystem_vendor=vendor,
                  subsystem_device="0x0001", numa_node=1, local_cpus="f0", config=b"\0" * 256,
                  current_link_width=lanes, max_link_width=16, current_link_speed=speed,
                  max_link_speed=speed)
        self.set(f"{folder}/class", kind)
        self.link(f"sys/bus/pci/devices/{name}", folder)

    def rdma(self):
        self.link(f"{IB}/device", f"sys/devices/pci0000:80/{NIC}")
        port = f"{IB}/ports/1"
        self.fill(port, state="4: ACTIVE", phys_state="5: LinkUp", rate="100 Gb/sec (4X EDR)",
                  link_layer="Ethernet")
        gids = ["fe80:0000:0000:0000:0202:c9ff:fe00:0001"] * 2 + \
               ["0000:0000:0000:0000:0000:ffff:0a00:0001"] * 2
        for i in range(8):
            self.set(f"{port}/gids/{i}", gids[i] if i < 4 else ":".join(["0000"] * 8))
            if i < 4:
                self.set(f"{port}/gid_attrs/types/{i}", "RoCE v2" if i % 2 else "IB/RoCE v1")
                self.set(f"{port}/gid_attrs/ndevs/{i}", "eth0")
        self.set("dev/infiniband/uverbs0", "")

    def gpu(self):
        self.pci(GPU, "0x030200", "0x10de", 16, "16.0 GT/s PCIe")
        self.set("proc/driver/nvidia/version",
                 "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024")
        self.set(f"proc/driver/nvidia/gpus/{GPU}/information", "Model: \t\t Made-up GPU")
        self.set("dev/nvidiactl", "")
        self.set("sys/module/nvidia_peermem/refcnt", "0")
