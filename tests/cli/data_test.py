"""Token files: made from texts, and refused when they are not what they claim to be."""
import os
import resource
import signal
import struct

import started

HEADER = 1024


class Data(started.Case):
    def test_bytes_become_tokens(self):
        text = self.make_data(blocks=45)
        train, valid = self.read("train.bin"), self.read("valid.bin")
        magic, version, count, vocab = struct.unpack("<4i", train[:16])
        self.assertEqual((magic, version, vocab), (20261121, 1, 256))
        self.assertEqual(len(train), HEADER + 2 * count)
        blocks = [text[i:i + 4096] for i in range(0, len(text), 4096)]
        held = "".join(b for i, b in enumerate(blocks) if i % 20 == 19)
        kept = "".join(b for i, b in enumerate(blocks) if i % 20 != 19)
        for raw, want in ((train, kept), (valid, held)):
            tokens = struct.unpack(f"<{len(want)}H", raw[HEADER:])
            self.assertEqual(bytes(tokens), want.encode())

    def test_several_texts(self):
        self.write("a", "x" * 100)
        self.write("b", bytes(range(256)))
        out, _ = self.weft("data", "a", "b", "-o", "all.bin")
        self.assertIn("all.bin: 356 tokens", out)
        self.assertEqual(self.names(), ["a", "all.bin", "b", "tiny.ini"])

    def test_refusals(self):
        self.write("a", "some text")
        self.write("empty", "")
        self.refused("data", why="name the texts")
        self.refused("data", "a", why="name the output")
        self.refused("data", "a", "-o", why="-o")
        self.refused("data", "missing", "-o", "t.bin", why="cannot read text missing")
        self.refused("data", "a", "missing", "-o", "t.bin", why="cannot read text missing")
        self.refused("data", ".", "-o", "t.bin", why="text .")
        self.refused("data", "empty", "-o", "t.bin", why="the text has 0 bytes")
        self.refused("data", "a", "-o", "no/such/t.bin", why="no/such")
        self.refused("data", "a", "-o", "t.bin", "--valid", "v.bin", why="v.bin")
        self.refused("data", "a", "-o", "t.bin", "--valid", "t.bin", why="t.bin")
        self.refused("data", "a", "-o", "a", why="a")
        self.assertEqual(self.read("a"), b"some text")

    def test_files_that_are_none(self):
        self.make_data()
        whole = self.read("train.bin")
        bad = {
            "nothing": (b"", "bad.bin"),
            "short": (whole[:700], "bad.bin"),
            "cut": (whole[:-100], "bad.bin"),
            "longer": (whole + b"xx", "bad.bin"),
            "foreign": (b"PK\3\4" + whole[4:], "bad.bin"),
            "version": (whole[:4] + struct.pack("<i", 3) + whole[8:], "version 3"),
            "wide": (whole[:4] + struct.pack("<i", 2) + whole[8:], "tokens of 4 bytes"),
            "count": (whole[:8] + struct.pack("<i", -1) + whole[12:], "bad.bin"),
            "vocabulary": (whole[:12] + struct.pack("<i", 0) + whole[16:], "bad.bin"),
        }
        for name, (content, why) in bad.items():
            with self.subTest(name):
                self.write("bad.bin", content)
                self.refused("train", "tiny.ini", "data.train=bad.bin", why=why)
                self.refused("train", "tiny.ini", "data.valid=bad.bin", why=why)

    def test_tokens_out_of_range(self):
        """They are met when they are read."""
        self.make_data()
        whole = self.read("train.bin")
        self.write("bad.bin", whole[:1024] + b"\xff" * (len(whole) - 1024))
        for key in ("data.train", "data.valid"):
            said = self.weft("train", "tiny.ini", f"{key}=bad.bin", status=2)[1]
            self.assertIn("is 65535, outside its vocabulary of 256", said)

    def test_files_that_do_not_suit_the_job(self):
        self.make_data()
        self.write("few", "0123456789")
        self.weft("data", "few", "-o", "few.bin")
        self.refused("train", "tiny.ini", "data.train=few.bin", why="a sequence needs 17")
        self.refused("train", "tiny.ini", "data.train=none.bin", why="none.bin")
        self.refused("train", "tiny.ini", "data.train=", why="no data for training")
        self.refused("train", "tiny.ini", "model.vocab=100", why="the data has tokens up to 255")
        self.refused("train", "tiny.ini", "data.train=.", why="data.train")

    def test_no_room(self):
        """A file that cannot be written whole is not there at all."""
        self.write("a", "x" * 200000)

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        self.weft("data", "a", "-o", "t.bin", status=1, preexec_fn=small_files)
        self.assertEqual(self.names(), ["a", "tiny.ini"])

    def test_an_old_file_survives_a_failure(self):
        self.write("t.bin", "precious")
        self.refused("data", "missing", "-o", "t.bin", why="missing")
        self.assertEqual(self.read("t.bin"), b"precious")
        self.assertFalse(os.path.exists(self.path("t.bin.tmp")))


if __name__ == "__main__":
    started.main()
