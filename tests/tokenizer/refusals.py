"""refusals.py IDS PLUGINS: a tokenizer.json with a field that is not known, or a damaged one, is
refused with a sentence that names the field; so is a damaged tokenizer.model."""
import copy
import json
import os
import resource
import sys
import tempfile
import unittest
from pathlib import Path

import record
import served

IDS, PLUGINS = "", ""


def small():
    """A lawful file, so that each change is the only fault."""
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
            {"id": 3, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}],
        "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "byte_fallback": False, "ignore_merges": False,
                  "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}


UNIGRAM = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -2.5]]}

# Where, what stands there instead, and what the sentence says.
CASES = [
    ("version", "2.0", "version"),
    ("colour", "red", "colour: this field is unknown"),
    ("normalizer", {"type": "Rot13"}, "normalizer.type: the normalizer Rot13"),
    ("normalizer", {"type": "NFC", "odd": 1}, "normalizer.odd"),
    ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "X"}]},
     "normalizer.normalizers[1].type"),
    ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
     "precompiled_charsmap"),
    ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "////////////"},
     "precompiled_charsmap"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""},
     "normalizer.pattern: PCRE2 does not take"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": "a*"}, "content": ""}, "empty text"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": "^a"}, "content": ""}, "an anchor"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": r"\h"}, "content": ""}, "an escape"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": "[a&&b]"}, "content": ""}, "a set"),
    ("normalizer", {"type": "Replace", "pattern": {"Regex": "a{1,2}+"}, "content": ""}, "a count"),
    ("normalizer", {"type": "Replace", "pattern": {"String": ""}, "content": ""}, "no character"),
    ("pre_tokenizer", {"type": "UnicodeScripts"}, "the pre-tokenizer UnicodeScripts"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd",
                       "invert": False}, "pre_tokenizer.behavior"),
    ("pre_tokenizer", {"type": "Metaspace", "replacement": "ab"}, "one character"),
    ("post_processor", {"type": "Odd"}, "the post-processor Odd"),
    ("post_processor", {"type": "TemplateProcessing", "single": [], "pair": [],
                        "special_tokens": {}}, "post_processor.single"),
    *[("post_processor", {"type": name, "cls": ["a", 0], "sep": ["b", 1], "odd": 1},
       "post_processor.odd: this field is unknown")
      for name in ("BertProcessing", "RobertaProcessing")],
    ("post_processor", {"type": "ByteLevel", "trim_offsets": True, "odd": 1},
     "post_processor.odd: this field is unknown"),
    ("post_processor", {"type": "Sequence", "processors": [], "odd": 1},
     "post_processor.odd: this field is unknown"),
    ("post_processor", {"type": "Sequence", "processors": [{"type": "ByteLevel", "odd": 1}]},
     "post_processor.processors[0].odd: this field is unknown"),
    ("post_processor", {"type": "Sequence"}, "post_processor.processors: it is not a list"),
    ("post_processor", {"type": "Sequence", "processors": {}},
     "post_processor.processors: it is not a list"),
    ("decoder", {"type": "WordPiece", "prefix": "##", "cleanup": True}, "the decoder WordPiece"),
    ("decoder", {"type": "BPEDecoder", "suffix": "</w>"}, "the decoder BPEDecoder"),
    ("model", {"type": "WordPiece"}, "the model WordPiece is not supported"),
    ("model.dropout", 0.1, "model.dropout"),
    ("model.vocab", {}, "model.vocab"),
    ("model.vocab", {"a": -1}, "model.vocab"),
    ("model.vocab", {"a": 0, "b": 0}, "the id 0"),
    ("model.vocab", {"a": 2000000000}, "model.vocab"),
    ("model.vocab", {"a" * 2000: 0}, "1024"),
    ("model.merges", [["a", "c"]], "model.merges[0]"),
    ("model.merges", ["a b c"], "model.merges[0]"),
    ("model.merges", [["b", "a"]], "what it makes"),
    ("model.unk_token", "<unk>", "model.unk_token"),
    ("model", {**UNIGRAM, "unk_id": None}, "model.unk_id"),
    ("model", {**UNIGRAM, "vocab": [["a"]]}, "model.vocab[0]"),
    ("added_tokens", [{"id": 9, "content": "<s>"}], "added_tokens[0].id"),
    ("added_tokens", [{"id": 3}], "added_tokens[0].content"),
    ("added_tokens", {"id": 3}, "added_tokens"),
]


class Refusals(unittest.TestCase):
    def refused(self, file, why, plugin="hf.so"):
        with self.assertRaises(served.Refused) as e:
            served.Served(IDS, f"{PLUGINS}/{plugin}", file).info()
        self.assertIn(why, str(e.exception))
        self.assertIn(str(file), str(e.exception))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "tokenizer.json"

    def tearDown(self):
        self.folder.cleanup()

    def test_post_processors_of_the_library(self):
        """With all fields that its versions write."""
        for name, more in (("BertProcessing", {}),
                           ("RobertaProcessing", {"trim_offsets": True, "add_prefix_space": True})):
            frame = {"type": name, "sep": ["b", 1], "cls": ["a", 0], **more}
            bytes_too = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                         "use_regex": True}
            for value in (frame, {"type": "Sequence", "processors": [bytes_too, frame]}):
                self.file.write_text(json.dumps({**small(), "post_processor": value}))
                s = served.Served(IDS, f"{PLUGINS}/hf.so", self.file)
                self.assertEqual([s.info()[x] for x in ("begin", "end")], [1, 2])
                self.assertEqual(s.close(), 0)

    def test_lawful_files_are_read(self):
        for model in (small()["model"], UNIGRAM):
            self.file.write_text(json.dumps({**small(), "model": model}))
            s = served.Served(IDS, f"{PLUGINS}/hf.so", self.file)
            self.assertEqual(s.info()["vocab"], 4)
            self.assertEqual(s.encode("ab")[-1], 2)
            self.assertEqual(s.close(), 0)

    def test_each_field(self):
        for where, value, why in CASES:
            with self.subTest(f"{where} = {str(value)[:60]}"):
                data = copy.deepcopy(small())
                at = data
                *path, last = where.split(".")
                for key in path:
                    at = at[key]
                at[last] = value
                self.file.write_text(json.dumps(data))
                self.refused(self.file, why)

    def test_files_that_are_none(self):
        self.refused(self.file, "No such file")
        self.refused(self.folder.name, "it is not a file")
        for text, why in (("", "it is not JSON"), ("{", "line 1"), ("[]", "not an object"),
                          ("{}", "model.type"), ('{"a": "\\ud800"}', "it is not JSON"),
                          ("[" * 100000, "it is not JSON")):
            self.file.write_text(text)
            self.refused(self.file, why)

    @unittest.skipIf(os.environ.get("WEFT_SANITIZED"), "sanitizers hold memory of their own")
    def test_memory(self):
        """A tree of JSON takes many times the memory of the file."""
        before = resource.getrlimit(resource.RLIMIT_AS)
        for text, megabytes, why in (
                ("[" + "{}," * 20000000 + "{}]", 512, "it has more than 4194304 values"),
                ("[" + "{}," * 2000000 + "{}]", 128, "there is no memory")):
            self.file.write_text(text)
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, before[1]))
            try:
                with self.assertRaises(served.Refused) as e:
                    served.Served(IDS, f"{PLUGINS}/hf.so", self.file).info()
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
            self.assertIn(why, str(e.exception))

    def test_cut_files(self):
        text = json.dumps(small())
        for n in range(0, len(text), 7):
            self.file.write_text(text[:n])
            self.refused(self.file, "")

    @unittest.skipUnless(Path(record.RECORDED / "spm_bpe.json.gz").exists(), "nothing is recorded")
    def test_damaged_models(self):
        if not Path(f"{PLUGINS}/sentencepiece.so").exists():
            self.skipTest("the library SentencePiece is not here")
        whole = record.write_file("spm_bpe", record.load("spm_bpe"), self.folder.name)
        good = whole.read_bytes()
        for bad in (b"", b"no model", good[:100], good[:-5], good[5:], b"\x0a\xff\xff\xff\xff\x0f"):
            whole.write_bytes(bad)
            self.refused(whole, "cannot read the tokenizer", "sentencepiece.so")


if __name__ == "__main__":
    IDS, PLUGINS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
