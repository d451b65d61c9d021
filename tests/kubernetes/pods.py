"""pods.py: what Kubernetes makes of a manifest with an Indexed Job, on one machine.

A pod is a process in namespaces of its own: network, with an address on a bridge; mounts, with the
volumes and the name server of the cluster; host name; processes, where the container is number 1.
Secrets are links to files of root's whose group is fsGroup. The controller here follows
podFailurePolicy and backoffLimitPerIndex, with pauses of a second instead of ten and more. Of a
cluster there is no scheduler, no image and no network plugin."""
import os
import re
import shutil
import signal
import subprocess
import time

from names import Names

SERVER = "10.78.0.1"
DOMAIN = "default.svc.cluster.local"
PAUSE = 1.0  # before a pod is replaced


def make_network():
    """In new namespaces of network and mounts: the bridge, and room for the pods' namespaces."""
    for words in ("mount --make-rprivate /", "mount -t tmpfs tmpfs /run", "mkdir /run/netns",
                  "ip link set lo up", "ip link add br0 address 02:00:00:00:78:01 type bridge",
                  f"ip addr add {SERVER}/24 dev br0", "ip link set br0 up"):
        subprocess.run(words.split(), check=True, capture_output=True)
    subprocess.run("ip addr add fd00:78::1/64 dev br0 nodad".split(), check=False,
                   capture_output=True)


class Pod:
    """One container of a pod; `number` is unique, so a replacement has other addresses."""

    def __init__(self, cluster, index, number):
        self.cluster, self.index, self.number = cluster, index, number
        self.place = os.path.join(cluster.place, f"pod{number}")
        self.killed = False  # unshare ends with 1 then
        self.addresses = [f"10.78.0.{10 + number}", f"fd00:78::{10 + number:x}"]
        os.makedirs(self.place)
        self.make_namespace()
        self.log = os.path.join(self.place, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/p{number}", "unshare", "--mount", "--uts", "--pid",
                 "--fork", "--kill-child", "sh", "-ec", self.script()],
                env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def make_namespace(self):
        n = self.number
        commands = [f"ip netns add p{n}", f"ip link add v{n} type veth peer name eth0 netns p{n}",
                    f"ip link set v{n} master br0 up", f"ip -n p{n} link set lo up",
                    f"ip -n p{n} addr add {self.addresses[0]}/24 dev eth0",
                    f"ip -n p{n} link set eth0 up"]
        for words in commands:
            subprocess.run(words.split(), check=True, capture_output=True)
        subprocess.run(f"ip -n p{n} addr add {self.addresses[1]}/64 dev eth0 nodad".split(),
                       check=False, capture_output=True)

    def write(self, name, text):
        path = os.path.join(self.place, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    def script(self):
        """Until it becomes the container's command."""
        spec, c = self.cluster.pod_spec, self.cluster.container
        host = f"{self.cluster.name}-{self.index}"
        resolv = self.write("resolv.conf", f"nameserver {SERVER}\nsearch {DOMAIN} "
                            "svc.cluster.local cluster.local\noptions ndots:5\n")
        hosts = self.write("hosts", "127.0.0.1 localhost\n::1 localhost\n"
                           f"{self.addresses[0]} {host}.{spec['subdomain']}.{DOMAIN} {host}\n")
        lines = ["mount --make-rprivate /", f"hostname {host}", "mount -t proc proc /proc",
                 f"mount --bind {resolv} /etc/resolv.conf", f"mount --bind {hosts} /etc/hosts",
                 "mount -t tmpfs tmpfs /srv", "mount -t tmpfs tmpfs /opt", "mkdir /opt/weft",
                 f"mount --bind {self.cluster.program} /opt/weft"]
        for mount in c["volumeMounts"]:
            lines += [f"mkdir -p {mount['mountPath']}",
                      f"mount --bind {self.cluster.volumes[mount['name']]} {mount['mountPath']}"]
        who = spec["securityContext"]
        env = {"PATH": "/opt/weft/bin:/usr/bin:/bin", "HOSTNAME": host,
               "JOB_COMPLETION_INDEX": str(self.index)}
        for setting in c["env"]:
            env[setting["name"]] = re.sub(r"\$\((\w+)\)", lambda m: env.get(m[1], m[0]),
                                          setting["value"])
        env |= self.cluster.extra.get(self.index, {})
        words = ["setpriv", f"--reuid={who['runAsUser']}", f"--regid={who['runAsGroup']}",
                 f"--groups={who['fsGroup']}", "--no-new-privs", "env", "-i",
                 *(f"{k}={v}" for k, v in env.items() if v is not None), *c["command"]]
        lines += ["cd /srv", "exec " + " ".join(f"'{x}'" for x in words)]
        return "\n".join(lines)

    def send(self, number):
        """To the container's first process."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                  encoding="ascii") as f:
            os.kill(int(f.read().split()[0]), number)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        subprocess.run(["ip", "netns", "del", f"p{self.number}"], check=False,
                       capture_output=True)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()


class Cluster:
    """The Job of a manifest, and its controller."""

    names, started = None, 0  # of all; pods started so far

    def __init__(self, place, documents, program, secret, **how):
        """how: late, seconds until a name is there (None: never); extra, {index: variables};
        volume, the folder of the claim."""
        self.place, self.program = place, program
        self.late, self.extra = how.get("late", 0.0), how.get("extra", {})
        Cluster.names = Cluster.names or Names(SERVER)
        self.names.forget()
        kinds = {d["kind"]: d for d in documents}
        self.name, self.spec = kinds["Job"]["metadata"]["name"], kinds["Job"]["spec"]
        self.pod_spec = self.spec["template"]["spec"]
        [self.container] = self.pod_spec["containers"]
        self.volumes = self.make_volumes(kinds["ConfigMap"]["data"], secret, how["volume"])
        self.pods, self.history = {}, []  # history: (index, status)
        self.complete, self.failures, self.failed = set(), {}, None
        self.due = {}  # index: when it is replaced
        self.earlier = {}  # index: what its pods before have said

    def make_volumes(self, config, secret, volume):
        out, group = {}, self.pod_spec["securityContext"]["fsGroup"]
        for v in self.pod_spec["volumes"]:
            path = out[v["name"]] = os.path.join(self.place, "volume-" + v["name"])
            if "persistentVolumeClaim" in v:
                out[v["name"]] = volume
                os.chown(volume, 0, group)
                os.chmod(volume, 0o2775)
                continue
            mode = v["secret"].get("defaultMode", 0o644) | 0o440 if "secret" in v else 0o644
            version = os.path.join(path, "..2026_01_01")
            os.makedirs(version)
            os.symlink("..2026_01_01", os.path.join(path, "..data"))
            for name, text in ({"key": secret} if "secret" in v else config).items():
                with open(os.path.join(version, name), "w", encoding="utf-8") as f:
                    f.write(text)
                os.chown(os.path.join(version, name), 0, group)
                os.chmod(os.path.join(version, name), mode)
                os.symlink(os.path.join("..data", name), os.path.join(path, name))
        return out

    def start(self, index):
        Cluster.started += 1
        pod = self.pods[index] = Pod(self, index, Cluster.started)
        if self.late is not None:
            name = f"{self.name}-{index}.{self.pod_spec['subdomain']}.{DOMAIN}"
            self.names.publish(name, pod.addresses, self.late)

    def apply(self):
        for index in range(self.spec["completions"]):
            self.start(index)

    def rule_for(self, status):
        for rule in self.spec["podFailurePolicy"]["rules"]:
            if status in rule.get("onExitCodes", {}).get("values", ()):
                return rule["action"]
        return "Count"

    def judge(self, index, status):
        self.history.append((index, status))
        if status == 0:
            self.complete.add(index)
            return
        action = self.rule_for(status)
        if action == "Count":
            self.failures[index] = self.failures.get(index, 0) + 1
            if self.failures[index] > self.spec["backoffLimitPerIndex"]:
                action = "FailJob"
        if action == "FailJob":
            self.failed = f"pod {index} ended with status {status}"
        else:
            self.due[index] = time.monotonic() + PAUSE

    def step(self):
        """What the controller does now and then."""
        for index, pod in list(self.pods.items()):
            status = pod.process.poll()
            if status is not None:
                del self.pods[index]
                pod.end()
                self.earlier[index] = self.earlier.get(index, "") + pod.said()
                self.judge(index, 128 + signal.SIGKILL if pod.killed else status)
        for index, when in list(self.due.items()):
            if time.monotonic() >= when and not self.failed:
                del self.due[index]
                self.start(index)

    def until(self, true, seconds, what):
        limit = time.monotonic() + seconds
        while not true():
            self.step()
            if time.monotonic() > limit or (self.failed and what != "failure"):
                raise AssertionError(f"no {what}: {self.failed}\n{self.said()}")
            time.sleep(0.05)

    def until_complete(self, seconds=90):
        self.until(lambda: len(self.complete) == self.spec["completions"], seconds, "completion")

    def said(self, index=None):
        if index is None:
            return "\n".join(f"--- pod {i}\n{self.said(i)}"
                             for i in range(self.spec["completions"]))
        pod = self.pods.get(index)
        return self.earlier.get(index, "") + (pod.said() if pod else "")

    def kill(self, index):
        self.pods[index].killed = True
        self.pods[index].send(signal.SIGKILL)

    def end(self):
        for pod in self.pods.values():
            pod.end()
        shutil.rmtree(self.place, ignore_errors=True)
