"""Token files: made from texts, and refused when they are not what they claim to be."""
import json
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

    def test_numbers_that_nobody_reads(self):
        """A record may have integers above 2^63 - 1 beside its text."""
        lines = [{"id": 2**63, "text": "ab"}, {"text": "cd", "more": [-2**80, {"x": 10**300}]}]
        self.write("big.jsonl", "".join(json.dumps(x) + "\n" for x in lines))
        self.weft("data", "big.jsonl", "-o", "big.bin")
        self.assertEqual(self.read("big.bin")[HEADER:], b"a\0b\0c\0d\0")
        self.write("number.jsonl", '{"text": 18446744073709551616}\n')
        self.refused("data", "number.jsonl", "-o", "no.bin", why="this field of the record is no "
                     "text: text")

    def test_folders_that_link_to_each_other(self):
        """Each folder is visited once below a name: 25 levels of two links are 2^25 ways."""
        for level in range(25):
            os.makedirs(self.path("dag", f"{level:02}"))
            for name in "ab":
                os.symlink(f"../{level + 1:02}", self.path("dag", f"{level:02}", name))
        os.makedirs(self.path("dag", "25"))
        self.write("dag/25/x.txt", "x" * 100)
        self.write("dag/00/y.txt", "y" * 10)
        os.symlink("..", self.path("dag", "25", "back"))
        for names, tokens in ((["dag"], 110), (["dag/00"], 110), (["dag/25", "dag/25"], 220)):
            out, _ = self.weft("data", *names, "-o", "all.bin", "--force")
            self.assertIn(f"all.bin: {tokens} tokens", out)

    def test_documents(self):
        self.write("a", "x" * 101)
        self.write("b", "y" * 50)
        self.weft("data", "a", "b", "-o", "all.bin", "--documents")
        raw = self.read("all.bin")
        self.assertEqual(struct.unpack("<8I", raw[:32]), (20261121, 3, 151, 256, 0, 16, 2, 0))
        self.assertEqual(struct.unpack("<2Q", raw[-16:]), (101, 151))
        self.assertEqual(len(raw), HEADER + 304 + 16)
        self.weft("data", "a", "b", "-o", "plain.bin")
        out, _ = self.weft("data", "info", "all.bin", "plain.bin")
        self.assertEqual(out, "all.bin: weft, version 3: 151 tokens of 16 bits, vocabulary 256, "
                              "2 documents by an index\nplain.bin: weft, version 1: 151 tokens of "
                              "16 bits, vocabulary 256, no index of documents\n")
        said = json.loads(self.weft("data", "info", "all.bin", "--scan", "--json")[0])
        self.assertEqual(said, [{"file": "all.bin", "format": "weft", "version": 3,
                                 "bytes": len(raw), "tokens": 151, "bits": 16, "vocabulary": 256,
                                 "index": True, "documents": 2, "begins_with": None,
                                 "largest_id": ord("y")}])
        self.write("gpt2.bin", struct.pack("<256I6H", 20240520, 1, 6, *[0] * 253,
                                           50256, 1, 2, 50256, 50256, 3))
        self.assertIn("each document begins with 50256", self.weft("data", "info", "gpt2.bin")[0])
        self.assertIn("3 documents by their first token, largest id 50256",
                      self.weft("data", "info", "gpt2.bin", "--scan")[0])
        self.refused("data", "info", why="name the token files")
        self.refused("data", "info", "all.bin", "--what", why="there is no option --what")
        self.refused("data", "info", "none.bin", why="cannot read data file none.bin")
        self.refused("data", "info", "a", why="data file a is 101 bytes long")
        for at, value, why in ((len(raw) - 16, 151, "document number 1 ends at token 151"),
                               (len(raw) - 16, 0, "document number 0 ends at token 0"),
                               (1024, 0xffff, "token number 0 is 65535")):
            self.write("bad.bin", raw[:at] + struct.pack("<H", value) + raw[at + 2:])
            self.weft("data", "info", "bad.bin")
            self.refused("data", "info", "bad.bin", "--scan", why=why)
        self.write("bad.bin", raw[:-8] + struct.pack("<Q", 150))
        self.refused("data", "info", "bad.bin", why="ends at token 150")

    def test_refusals(self):
        self.write("a", "some text")
        self.write("empty", "")
        self.refused("data", why="name the texts")
        self.refused("data", "a", why="name the output")
        self.refused("data", "a", "-o", why="-o")
        self.refused("data", "missing", "-o", "t.bin", why="cannot read text missing")
        self.refused("data", "a", "missing", "-o", "t.bin", why="cannot read text missing")
        os.mkdir(self.path("none"))
        self.refused("data", "none", "-o", "t.bin", why="the folder none has no text files")
        self.refused("data", "empty", "-o", "t.bin", why="the text has 0 bytes")
        self.refused("data", "a", "-o", "no/such/t.bin", why="no/such")
        self.refused("data", "a", "-o", "t.bin", "--valid", "v.bin", why="v.bin")
        self.refused("data", "a", "-o", "t.bin", "--valid", "t.bin", why="t.bin")
        self.refused("data", "a", "-o", "a", why="a")
        self.assertEqual(self.read("a"), b"some text")

    def test_other_formats(self):
        """They are no text, alone and in a folder; a text that begins alike is one."""
        os.mkdir(self.path("corpus"))
        for head, what in ((b"PAR1\x15\4", "is a Parquet file"),
                           (b"ARROW1\0\0", "is an Arrow file"),
                           (b"PK\3\4", "is a zip archive"), (b"%PDF-1.7", "is a PDF file"),
                           (bytes.fromhex("fd377a585a00"), "is packed by xz"),
                           (b"BZh91AY&SY", "is packed by bzip2")):
            self.write("corpus/part", head + b"x" * 1000)
            self.refused("data", "corpus/part", "-o", "t.bin", why="corpus/part " + what)
            self.refused("data", "corpus", "-o", "t.bin", why=", and no text: ")
            self.write("corpus/part", head[:2] + b"x" * 1000)
            self.weft("data", "corpus", "-o", "t.bin", "--force")
            os.remove(self.path("t.bin"))
        self.write("corpus/part", b"PAR1 is the name of a street. BZh is none." * 9)
        self.weft("data", "corpus", "-o", "t.bin")

    def test_a_folder_as_tokenizer(self):
        self.write("a", "some text")
        os.mkdir(self.path("hfm"))
        self.write("hfm/tokenizer.json", "{}")
        self.refused("data", "a", "-o", "t.bin", "--tokenizer", "hfm",
                     why="hfm is a folder: give --tokenizer hfm/tokenizer.json")
        self.refused("data", "a", "-o", "t.bin", "--tokenizer", "./hfm",
                     why="./hfm is a folder: give --tokenizer ./hfm/tokenizer.json")

    def test_what_exists_is_replaced_only_by_force(self):
        self.write("a", "some text")
        for words in (["-o", "a.bin"], ["-o", "b.bin", "--valid", "a.bin"]):
            self.write("a.bin", "mine")
            self.refused("data", "a", *words, why="a.bin exists and is not replaced")
            self.assertEqual(self.read("a.bin"), b"mine")
        self.weft("data", "a", "-o", "a.bin", "--force")
        self.assertNotEqual(self.read("a.bin"), b"mine")

    def test_a_link_leads_to_the_output(self):
        """The file that it leads to is replaced, where it is."""
        self.write("a", "some text")
        self.weft("data", "a", "-o", "whole.bin")
        os.mkdir(self.path("disk"))
        self.write("disk/big.bin", "mine")
        os.symlink("disk/big.bin", self.path("link.bin"))
        self.refused("data", "a", "-o", "link.bin", why="link.bin exists and is not replaced")
        self.weft("data", "a", "-o", "link.bin", "--force")
        self.assertTrue(os.path.islink(self.path("link.bin")))
        self.assertEqual(self.read("disk/big.bin"), self.read("whole.bin"))
        os.unlink(self.path("disk/big.bin"))
        self.refused("data", "a", "-o", "link.bin", why="link.bin is a link that leads to no file")
        self.assertEqual(os.listdir(self.path("disk")), [])

    def test_files_that_are_none(self):
        self.make_data()
        whole = self.read("train.bin")
        bad = {
            "nothing": (b"", "bad.bin"),
            "short": (whole[:700], "bad.bin"),
            "cut": (whole[:-100], "bad.bin"),
            "longer": (whole + b"xx", "bad.bin"),
            "foreign": (b"PK\3\4" + whole[4:], "bad.bin"),
            "version": (whole[:4] + struct.pack("<i", 4) + whole[8:], "version 4"),
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
        self.refused("train", "tiny.ini", "data.train=none.bin",
                     why="command line: plugin weft.tokens: data.train: data file none.bin cannot")
        self.refused("train", "tiny.ini", "data.train=", why="no data for training")
        self.refused("train", "tiny.ini", "model.vocab=100", why="the data has tokens up to 255")
        os.mkdir(self.path("empty"))
        self.refused("train", "tiny.ini", "data.train=empty", why="folder empty has no file")

    def test_commas_of_names(self):
        """Written as in a list of text files; a backslash is one of a name, or doubled."""
        self.make_data()
        for name in ("a,b.bin", "c\\,d.bin", "e\\f.bin"):
            self.write(name, self.read("train.bin"))
        for names, said in (("a\\,b.bin", ""), ("train.bin, a\\,b.bin", ""), ("a,b.bin", ""),
                            ("a\\,b.bin:2, train.bin:1", ""), ("train.bin,c\\\\\\,d.bin", ""),
                            ("train.bin,e\\f.bin", ""), ("e\\\\f.bin,a\\,b.bin", ""),
                            ("train.bin, a,b.bin", "data file a cannot")):
            with self.subTest(names):
                if said:
                    self.refused("train", "tiny.ini", f"data.train={names}", why=said)
                else:
                    self.weft("train", "tiny.ini", f"data.train={names}")
        self.weft("train", "tiny.ini", "data.valid=a\\,b.bin")

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
