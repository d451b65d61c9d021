#!/usr/bin/env python3
"""attack.py HOST PORT HELLO [SECONDS]: strangers at a port of a job, and what they cost it.

Holds 1,200 connections open and opens 30 more each second: a third says nothing, a third half of a
ClientHello, a third the whole of one that a rank once sent, which the job's key has signed (a
replay). HELLO is a file with its bytes. Whoever is cut off is replaced at the same rate. Ends after
SECONDS, or when its standard input ends, and prints what it did.

Tests start it with Attack(); kernel_bytes() is the memory that the kernel holds for the sockets of
one local port, accepted or not, as sock_diag(7) tells it."""
import resource
import selectors
import socket
import struct
import subprocess
import sys
import time

HELD, RATE = 1200, 30
SOCKET_BYTES = 3500  # a TCP socket of the kernel, with its file once accepted; buffers come on top
SMALL = {3: 350, 6: 300, 12: 350}  # where it is less: SYN_RECV, TIME_WAIT, NEW_SYN_RECV
DUMP, BY_FAMILY, SKMEMINFO, DONE, FAILED = 0x301, 20, 7, 3, 2


def kernel_bytes(port):
    """(bytes, sockets) of the kernel for connections to local TCP port `port`, IPv4. What is not a
    whole socket counts as bytes alone."""
    request = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (SKMEMINFO - 1),
                          ~(1 << 10) & 0xfff)  # all states but those that listen
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as s:
        s.sendall(struct.pack("=IHHII", 16 + len(request), BY_FAMILY, DUMP, 0, 0) + request)
        total = count = 0
        while True:
            data = s.recv(1 << 17)
            while len(data) >= 16:
                size, kind = struct.unpack_from("=IH", data)
                if kind in (DONE, FAILED):
                    return total, count
                if struct.unpack_from(">H", data, 20)[0] == port:
                    small = SMALL.get(data[17])
                    total += small or SOCKET_BYTES + buffers(data[16 + 72:size])
                    count += not small
                data = data[(size + 3) & ~3:]


def buffers(attributes):
    while len(attributes) >= 4:
        size, kind = struct.unpack_from("=HH", attributes)
        if kind == SKMEMINFO:
            received, _, sending, _, forward = struct.unpack_from("=5I", attributes, 4)
            return received + sending + forward
        attributes = attributes[(size + 3) & ~3:]
    return 0


class Attack:
    """The attack as a process of its own, until stop()."""

    def __init__(self, port, hello, host="127.0.0.1"):
        self.process = subprocess.Popen([sys.executable, "-B", __file__, host, str(port), hello],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self):
        """What it did, in words."""
        return self.process.communicate("", timeout=30)[0].strip()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Strangers:
    def __init__(self, to, hello):
        self.to, self.select, self.opened, self.cut = to, selectors.EpollSelector(), 0, 0
        self.says = (b"", hello[:len(hello) // 2], hello)
        self.held = set()

    def open(self):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(self.to)
        self.held.add(s)
        self.select.register(s, selectors.EVENT_WRITE, self.says[self.opened % 3])
        self.opened += 1

    def close(self, s):
        self.select.unregister(s)
        self.held.discard(s)
        s.close()

    def turn(self, seconds):
        """False: standard input has ended."""
        for key, events in self.select.select(seconds):
            s = key.fileobj
            if s is sys.stdin:
                return False
            try:
                if events & selectors.EVENT_WRITE:
                    s.send(key.data or b"")
                    self.select.modify(s, selectors.EVENT_READ)
                elif not s.recv(4096):
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                self.cut += 1
                self.close(s)
        return True


def main():
    host, port, path = sys.argv[1:4]
    until = time.monotonic() + float(sys.argv[4]) if len(sys.argv) > 4 else None
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with open(path, "rb") as f:
        crowd = Strangers((host, int(port)), f.read())
    if until is None:
        crowd.select.register(sys.stdin, selectors.EVENT_READ)
    began = time.monotonic()
    while until is None or time.monotonic() < until:
        while crowd.opened < HELD + RATE * (time.monotonic() - began):
            crowd.open()
        if not crowd.turn(0.02):
            break
    print(f"{crowd.opened} connections in {time.monotonic() - began:.1f} s, {crowd.cut} cut off, "
          f"{len(crowd.held)} held at the end")


if __name__ == "__main__":
    main()
