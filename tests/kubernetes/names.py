"""names.py: a name server that knows the pods, each some seconds after it has started.

It answers A and AAAA over UDP: NXDOMAIN for a name that is not there yet, and no record where the
name has none of that kind."""
import socket
import struct
import threading
import time

KINDS = {1: socket.AF_INET, 28: socket.AF_INET6}


class Names(threading.Thread):
    def __init__(self, address):
        super().__init__(daemon=True)
        self.lock = threading.Lock()
        self.records = {}  # name: [(since when, [address, ...])]
        self.asked, self.denied = {}, {}  # name: how often
        self.silent = False  # answers nobody
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.start()

    def publish(self, name, addresses, after=0.0):
        """From then on the name leads there; until then to what it led to before."""
        with self.lock:
            self.records.setdefault(name, []).append((time.monotonic() + after, addresses))

    def forget(self):
        with self.lock:
            self.records.clear()
            self.silent = False
            self.asked.clear()
            self.denied.clear()

    def find(self, name):
        with self.lock:
            now = time.monotonic()
            found = [a for since, a in self.records.get(name, []) if since <= now]
            count = self.asked if found else self.denied
            count[name] = count.get(name, 0) + 1
            return found[-1] if found else None

    def answer(self, query):
        number, flags = struct.unpack("!HH", query[:4])
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind, _ = struct.unpack("!HH", query[at + 1:at + 5])
        question = query[12:at + 5]
        found = self.find(".".join(labels).lower())
        data = [socket.inet_pton(KINDS[kind], a) for a in found or []
                if kind in KINDS and (":" in a) == (kind == 28)]
        records = b"".join(struct.pack("!HHHIH", 0xc00c, kind, 1, 5, len(d)) + d for d in data)
        code = 0x8400 | (flags & 0x0100) | (0 if found is not None else 3)
        return struct.pack("!HHHHHH", number, code, 1, len(data), 0, 0) + question + records

    def run(self):
        while True:
            query, who = self.socket.recvfrom(4096)
            if self.silent:
                continue
            try:
                self.socket.sendto(self.answer(query), who)
            except (IndexError, UnicodeDecodeError, struct.error, OSError):
                pass
