"""A tokenizer plugin, asked through tokenizer_ids (ids.c)."""
import struct
import subprocess

FIRST, SPECIAL = 4, 2


class Refused(Exception):
    """The plugin does not take the file, or fails: its sentence."""


class Served:
    def __init__(self, program, plugin, file, **options):
        words = [w for pair in {"file": str(file), **options}.items() for w in pair]
        self.process = subprocess.Popen([program, plugin, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, what, flags, step, body):
        try:
            self.process.stdin.write(struct.pack("<4I", ord(what), flags, step, len(body)) + body)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        head = self.process.stdout.read(8)
        if len(head) < 8:
            raise RuntimeError(f"tokenizer_ids ended with status {self.process.wait()}")
        status, n = struct.unpack("<iI", head)
        answer = self.process.stdout.read(n)
        if status:
            raise Refused(answer.decode("utf-8", "replace"))
        return answer

    def encode(self, text, special=True, first=True, step=0, parts=False):
        body = text.encode() if isinstance(text, str) else text
        what = "c" if parts else "p" if step else "e"
        answer = self.ask(what, FIRST * first | SPECIAL * special, step, body)
        return list(struct.unpack(f"<{len(answer) // 4}i", answer))

    def decode(self, ids, first=True):
        return self.ask("d", FIRST * first, 0, struct.pack(f"<{len(ids)}i", *ids))

    def info(self):
        flags, vocab, begin, end, identity = self.ask("i", 0, 0, b"").decode().split(" ", 4)
        return {"flags": int(flags), "vocab": int(vocab), "begin": int(begin), "end": int(end),
                "identity": identity}

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()
