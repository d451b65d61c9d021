"""cluster.py: a Slurm cluster on one machine: munged, slurmctld and four slurmd, in namespaces of
their own, so that nothing of it is seen outside and nothing is left of it.

    cluster.py FOLDER COMMAND [ARGUMENT...]

starts the cluster with its files in FOLDER, runs COMMAND in it, and ends with its status, or with
77 where it cannot be. Needs root, and Debian's slurm-wlm, munge and iproute2."""
import os
import shutil
import signal
import subprocess
import sys
import time

NODES = 4
CONF = """
ClusterName=weft
SlurmctldHost=ctl
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
TmpFS={place}/tmp.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
MpiParams=ports=18000-18100
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=5
SlurmdTimeout=15
InactiveLimit=0
MinJobAge=300
SchedulerParameters=sched_interval=1,bf_interval=1
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def inside(place):
    """In the new namespaces: private /run/munge, /etc/hosts and /etc/slurm."""
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for i in range(1, NODES + 1):
        subprocess.run(["ip", "addr", "add", f"10.77.0.{10 + i}/32", "dev", "lo"], check=True)
    os.makedirs("/run/munge", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "munge", "/run/munge"], check=True)
    os.chmod("/run/munge", 0o755)
    hosts = os.path.join(place, "hosts")
    with open(hosts, "w", encoding="utf-8") as f:
        f.write("127.0.0.1 localhost ctl\n")
        f.writelines(f"10.77.0.{10 + i} n{i}\n" for i in range(1, NODES + 1))
        f.write(f"127.0.0.1 {os.uname().nodename}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


def write_conf(place):
    nodes = "\n".join(f"NodeName=n{i} NodeHostname={os.uname().nodename} NodeAddr=10.77.0.{10 + i} "
                      f"Port={17000 + i} CPUs=8 State=UNKNOWN" for i in range(1, NODES + 1))
    with open(os.path.join(place, "slurm.conf"), "w", encoding="utf-8") as f:
        f.write(CONF.format(place=place, nodes=nodes)
                .replace("SlurmctldHost=ctl", f"SlurmctldHost={os.uname().nodename}(127.0.0.1)"))
    for name in ["state"] + [f"{x}.n{i}" for i in range(1, NODES + 1) for x in ("spool", "tmp")]:
        os.makedirs(os.path.join(place, name), exist_ok=True)


def start(place):
    key = os.path.join(place, "munge.key")
    with open(key, "wb") as f:
        f.write(os.urandom(1024))
    os.chmod(key, 0o400)
    daemons = [subprocess.Popen(
        ["munged", "-F", "--force", f"--key-file={key}", "--socket=/run/munge/munge.socket.2",
         f"--pid-file={place}/munged.pid", f"--log-file={place}/munged.log",
         f"--seed-file={place}/munged.seed"], stderr=subprocess.DEVNULL)]
    for _ in range(100):
        if os.path.exists("/run/munge/munge.socket.2"):
            break
        time.sleep(0.05)
    daemons.append(subprocess.Popen(["slurmctld", "-D", "-f", f"{place}/slurm.conf"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for i in range(1, NODES + 1):
        command = ["slurmd", "-D", "-N", f"n{i}", "-f", f"{place}/slurm.conf"]
        daemons.append(subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL))
    return daemons


def wait_idle():
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        said = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True)
        if said.stdout.split() == ["idle"] * NODES:
            return
        time.sleep(0.2)
    raise SystemExit(f"the nodes did not become idle: {said.stdout}{said.stderr}")


def main():
    place, *command = sys.argv[1:]
    may = subprocess.run(["unshare", "-m", "-n", "-p", "-f", "true"], capture_output=True,
                         text=True)
    if may.returncode or os.geteuid():
        print(f"a Slurm cluster in namespaces is not permitted here: {may.stderr.strip()}")
        sys.exit(77)
    if os.environ.get("WEFT_SLURM_INSIDE") != "1":
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place)
        os.environ["WEFT_SLURM_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-m", "-n", "-p", "-f", "--mount-proc", "--kill-child",
                              sys.executable, "-B", *sys.argv])
    inside(place)
    write_conf(place)
    os.environ["SLURM_CONF"] = f"{place}/slurm.conf"
    daemons = start(place)
    status = 1
    try:
        wait_idle()
        status = subprocess.run(command).returncode
    finally:
        for d in reversed(daemons):
            d.send_signal(signal.SIGKILL)
            d.wait()
    sys.exit(status)


if __name__ == "__main__":
    main()
