"""Tokenizers of every kind that is supported, trained by the library `tokenizers` on a small text,
and the texts that they are compared on, for which none of them was made."""
import json
import random
import sys
import unicodedata

SPACE = "\u2581"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
            r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = (r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]"
        r"|[^\s\p{L}\p{N}]+")
BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]


def lib():
    import tokenizers
    return tokenizers


def charsmap(corpus, work):
    """The map of the rule nmt_nfkc, out of a model of SentencePiece (protobuf, read by hand)."""
    import sentencepiece
    text = work / "spm.txt"
    text.write_text(corpus)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(work / "spm"), vocab_size=300, minloglevel=2,
        normalization_rule_name="nmt_nfkc", hard_vocab_limit=False)

    def fields(data):
        at = 0

        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            if key & 7 == 2:
                n = number()
                yield key >> 3, data[at:at + n]
                at += n
            elif key & 7 == 0:
                yield key >> 3, number()
            else:
                at += 8 if key & 7 == 1 else 4
    spec = dict(fields((work / "spm.model").read_bytes()))[3]
    return dict(fields(spec))[2]


def train(tok, corpus, trainer):
    corpus = corpus.replace("\0", "")
    tok.train_from_iterator([corpus[i:i + 4000] for i in range(0, len(corpus), 4000)], trainer)


def bpe(corpus, vocab=500, initial=(), special=("<|endoftext|>",), **model):
    t = lib()
    tok = t.Tokenizer(t.models.BPE(**model))

    def finish(normalizer=None, splitter=None, decoder=None):
        if normalizer:
            tok.normalizer = normalizer
        if splitter:
            tok.pre_tokenizer = splitter
        if decoder:
            tok.decoder = decoder
        affixes = {k: model[k] for k in ("continuing_subword_prefix", "end_of_word_suffix")
                   if k in model}
        train(tok, corpus, t.trainers.BpeTrainer(
            vocab_size=vocab, special_tokens=list(special), initial_alphabet=list(initial),
            show_progress=False, **affixes))
        return tok
    return finish


def byte_level(corpus, splitter, normalizer=None, **model):
    t = lib()
    return bpe(corpus, initial=t.pre_tokenizers.ByteLevel.alphabet(), **model)(
        normalizer, splitter, t.decoders.ByteLevel())


def regex(pattern, behavior="isolated", invert=False):
    t = lib()
    return t.pre_tokenizers.Split(t.Regex(pattern), behavior, invert)


def split_then_bytes(*stages):
    p = lib().pre_tokenizers
    return p.Sequence([*stages, p.ByteLevel(add_prefix_space=False, use_regex=False)])


def without_added(tok, names):
    """Tokens that were special while training become plain ones."""
    data = json.loads(tok.to_str())
    data["added_tokens"] = [a for a in data["added_tokens"] if a["content"] not in names]
    return lib().Tokenizer.from_str(json.dumps(data))


def sentencepiece_decoder():
    d = lib().decoders
    return d.Sequence([d.Replace(SPACE, " "), d.ByteFallback(), d.Fuse(), d.Strip(" ", 1, 0)])


def gpt2(corpus, work):
    p = lib().pre_tokenizers
    return byte_level(corpus, p.ByteLevel(add_prefix_space=False))


def roberta(corpus, work):
    t = lib()
    tok = byte_level(corpus, t.pre_tokenizers.ByteLevel(add_prefix_space=True),
                     special=("<s>", "</s>", "<mask>"))
    tok.add_special_tokens([t.AddedToken("<mask>", lstrip=True, special=True)])
    tok.post_processor = t.processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return tok


def llama3(corpus, work):
    t = lib()
    tok = byte_level(corpus, split_then_bytes(regex(LLAMA3)), ignore_merges=True,
                     special=("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    tok.post_processor = t.processors.Sequence([
        t.processors.ByteLevel(),
        t.processors.TemplateProcessing("<|begin_of_text|> $A", "$A $B",
                                        [("<|begin_of_text|>", 0)])])
    return tok


def qwen(corpus, work):
    return byte_level(corpus, split_then_bytes(regex(QWEN)), lib().normalizers.NFC(),
                      special=("<|endoftext|>", "<|im_start|>"))


def o200k(corpus, work):
    return byte_level(corpus, split_then_bytes(regex(O200K)))


def deepseek(corpus, work):
    return byte_level(corpus, split_then_bytes(
        regex(r"\p{N}{1,3}"), regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        regex(DEEPSEEK)))


def falcon(corpus, work):
    p = lib().pre_tokenizers
    return byte_level(corpus, p.Sequence([
        p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(False),
        regex("[0-9][0-9][0-9]")]))


def llama2(corpus, work):
    t = lib()
    n = t.normalizers
    normalizer = n.Sequence([n.Prepend(SPACE), n.Replace(" ", SPACE)])
    lines = "".join(corpus.splitlines()[:3000])
    tok = bpe(lines, vocab=700, special=["<unk>", "<s>", "</s>", *BYTE_TOKENS], unk_token="<unk>",
              fuse_unk=True, byte_fallback=True)(
        normalizer, t.pre_tokenizers.Metaspace(), sentencepiece_decoder())
    tok.pre_tokenizer = None
    tok = without_added(tok, BYTE_TOKENS)
    tok.post_processor = t.processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 1)])
    return tok


def gemma(corpus, work):
    t = lib()
    tok = bpe(corpus, vocab=800, special=["<pad>", "<eos>", "<unk>", *BYTE_TOKENS],
              unk_token="<unk>", fuse_unk=True, byte_fallback=True)(
        t.normalizers.Replace(" ", SPACE),
        t.pre_tokenizers.Split(" ", "merged_with_previous"), sentencepiece_decoder())
    tok = without_added(tok, BYTE_TOKENS)
    tok.add_tokens([t.AddedToken("\n\n", normalized=False),
                    t.AddedToken(SPACE * 2, normalized=False)])
    return tok


def unigram(corpus, vocab, normalizer, splitter, special, **trainer):
    t = lib()
    tok = t.Tokenizer(t.models.Unigram())
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = splitter
    tok.decoder = t.decoders.Metaspace()
    train(tok, corpus[:300000], t.trainers.UnigramTrainer(
        vocab_size=vocab, special_tokens=special, unk_token="<unk>", show_progress=False,
        **trainer))
    return tok


def xlmr(corpus, work):
    t = lib()
    n, p = t.normalizers, t.pre_tokenizers
    tok = unigram(corpus, 900, n.Sequence([n.Precompiled(charsmap(corpus, work)),
                                          n.Replace(t.Regex(" {2,}"), " ")]),
                  p.Metaspace(), ["<s>", "<pad>", "</s>", "<unk>"])
    tok.post_processor = t.processors.TemplateProcessing(
        "<s> $A </s>", "$A $B", [("<s>", 0), ("</s>", 2)])
    return tok


def albert(corpus, work):
    t = lib()
    n, p = t.normalizers, t.pre_tokenizers
    tok = unigram(corpus, 900, n.Sequence([
        n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(),
        n.Nmt(), n.Strip()]),
        p.Sequence([p.WhitespaceSplit(), p.Metaspace()]), ["<pad>", "<unk>", "[CLS]", "[SEP]"])
    tok.add_special_tokens([t.AddedToken("[MASK]", lstrip=True, special=True)])
    tok.post_processor = t.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def unigram_bytes(corpus, work):
    """Unigram with bytes for what is unknown, and nothing that cuts words."""
    t = lib()
    tok = unigram(corpus, 900, t.normalizers.Sequence([t.normalizers.NFKC()]),
                  t.pre_tokenizers.Metaspace(prepend_scheme="first"),
                  ["<unk>", "<s>", "</s>", *BYTE_TOKENS])
    data = json.loads(without_added(tok, BYTE_TOKENS).to_str())
    data["model"]["byte_fallback"] = True
    data["pre_tokenizer"]["split"] = False
    data["decoder"] = json.loads(sentencepiece_decoder().__getstate__())
    return t.Tokenizer.from_str(json.dumps(data))


def clip(corpus, work):
    t = lib()
    n, p = t.normalizers, t.pre_tokenizers
    return bpe(corpus.lower(), vocab=900, special=["<|startoftext|>", "<|endoftext|>"],
               unk_token="<|endoftext|>", end_of_word_suffix="</w>",
               continuing_subword_prefix="")(
        n.Sequence([n.NFC(), n.Replace(t.Regex(r"\s+"), " "), n.Lowercase()]),
        p.Sequence([regex(CLIP, "removed", True),
                    p.ByteLevel(add_prefix_space=False)]), t.decoders.ByteLevel())


def bert(corpus, work):
    """BPE behind BERT's own stages, with what begins later parts of a word."""
    t = lib()
    return bpe(corpus, vocab=700, special=["[UNK]", "[CLS]", "[SEP]"], unk_token="[UNK]",
               continuing_subword_prefix="##")(
        t.normalizers.BertNormalizer(), t.pre_tokenizers.BertPreTokenizer())


def words(corpus, work):
    """BPE over the words of Whitespace, with added tokens of every sort."""
    t = lib()
    tok = bpe(corpus, vocab=600, special=["[UNK]"], unk_token="[UNK]", fuse_unk=False)(
        t.normalizers.Sequence([t.normalizers.NFD(), t.normalizers.Lowercase()]),
        t.pre_tokenizers.Sequence([t.pre_tokenizers.Whitespace(),
                                   t.pre_tokenizers.Digits(True),
                                   t.pre_tokenizers.Punctuation("merged_with_previous")]))
    tok.add_tokens([t.AddedToken("King", single_word=True), t.AddedToken("Thee and"),
                    t.AddedToken("o r", lstrip=True, rstrip=True, normalized=False),
                    t.AddedToken("\u00c9t\u00e9", normalized=True)])
    tok.add_special_tokens([t.AddedToken("<sep>", rstrip=True, special=True)])
    return tok


def delimiter(corpus, work):
    t = lib()
    p = t.pre_tokenizers
    return bpe(corpus, vocab=600, special=["[UNK]"], unk_token="[UNK]", fuse_unk=True)(
        t.normalizers.NFKC(),
        p.Sequence([p.CharDelimiterSplit("\n"), p.Split(" ", "merged_with_next"),
                    p.Punctuation("merged_with_next"), regex(r"\d+|\p{Lu}", "contiguous"),
                    p.Metaspace("_", "never", False)]), t.decoders.Metaspace("_", "never"))


KINDS = {f.__name__: f for f in (gpt2, roberta, llama3, qwen, o200k, deepseek, falcon, llama2,
                                 gemma, xlmr, albert, unigram_bytes, clip, bert, words, delimiter)}


# --- texts ---

# The characters that the library and ours treat differently, found by giving both each character
# alone and among others: its tables of marks, of punctuation and of normalization are older.
NEWER = """
061d 07fd 0890-0891 0898-089f 08ca-08e2 09fd-09fe 0a76 0afa-0aff 0b55 0c04 0c3c 0c77 0c84 0d00
0d3b-0d3c 0d81 0eba 166d 1715 1734 180f 1885-1886 1abf-1ace 1b7d-1b7e 1cf2-1cf3 1cf7 1df6-1dfb
2e43-2e4f 2e52-2e5d 32ff a7f2-a7f4 a82c a8c5 a8ff a9bd ab69 10781-10785 10787-107b0 107b2-107ba
10d24-10d27 10eab-10ead 10f46-10f50 10f55-10f59 10f82-10f89 11070 11073-11074 110c2 110cd
11145-11146 111c9 111ce-111cf 1123e 1133b 11438-1143f 11442-11444 11446 1144b-1144f 1145a-1145b
1145d-1145e 11660-1166c 116b9 1182c-1183b 11930-11935 11937-11938 1193b-1193e 11940 11942-11946
119d1-119d7 119da-119e0 119e2 119e4 11a01-11a0a 11a33-11a39 11a3b-11a47 11a51-11a5b 11a8a-11a9c
11a9e-11aa2 11c30-11c36 11c38-11c3d 11c3f 11c41-11c45 11c70-11c71 11c92-11ca7 11caa-11cb0
11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47 11d8a-11d8e 11d90-11d91
11d93-11d97 11ef3-11ef8 11fff 12ff1-12ff2 13430-13438 16e97-16e9a 16f4f 16f7f-16f87 16fe2 16fe4
16ff0-16ff1 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a
1e130-1e136 1e2ae 1e2ec-1e2ef 1e944-1e94a 1e95e-1e95f 1f16c 1fbf0-1fbf9
"""


def characters():
    """Every other assigned character, by number."""
    ends = [[int(x, 16) for x in one.split("-")] for one in NEWER.split()]
    newer = {c for x in ends for c in range(x[0], x[-1] + 1)}
    for c in range(1, sys.maxunicode):
        if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") and c not in newer:
            yield chr(c)


EMOJI = ("\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd"
         "\u2764\ufe0f \U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \U0001f926\U0001f3fc"
         "\u200d\u2642\ufe0f")
PLAIN = [
    "", " ", "\n", "a", "  two  spaces  ", "Hello, world! It's 1234567 o'clock; they'LL see.",
    "\tTabs\tand\r\nlines\n\n\n  of \n text \n", "x" * 500, " " * 300, "na\u00efve cafe\u0301 "
    "\u212b \ufb01 \u017f \u0130\u0131 STRASSE stra\u00dfe",
    "\u00e9\u0301\u0323\u0307 a\u0315\u0300"
    "\u05ae\u0062 \uac00\u11a8 \u1100\u1161\u11a8", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002"
    "\u4e2d\u6587\uff0c\u6587\u5b57\u3002\n\u65b0\u884c", "\u0e44\u0e17\u0e22 \u0939\u093f"
    "\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9"
    "\u05ea", EMOJI, "<|endoftext|> in <s> and </s> <mask>  [MASK]  King Kings  thee and o r  "
    "\u00c9t\u00e9 e\u0301te\u0301 <sep>  x",
    "def f(x):\n    return x ** 2  # squared\n\n\n\t\tend",
    "1 22 333 4444 55555 \u00bd \u0664\u0665 \u2167 \u00b2", "a\u00a0b\u2003c\u3000d\u180ee\u0085f"
    "\u2028g\u200bh\ufeffi", "``quoted'' \"text\" \u201cso\u201d \u00abthis\u00bb",
    "A\u0000B\u0001C"
    "\u007fD\u009f", "http://example.org/a_b?c=d&e=%20#f", "\u2581\u2581x \u2581 y__z _ w",
]


def texts(seed=1, n=120):
    """Texts of every script, of random characters and words, and odd ones."""
    rng = random.Random(seed)
    every = list(characters())
    out = list(PLAIN)
    for at in range(0, len(every), 7):
        chunk = "".join(every[at:at + 7])
        if at % 1001 == 0:
            out.append("")
        out[-1] += chunk + rng.choice(("", " ", "\n", "a"))
    word = ["the", "King", "'s", " ", "  ", "\n", "\r\n", "42", "don't", "\u00e9", "\u4f60", "!?",
            "\U0001f600", "\u0301", "_", "THE", "\u200d", "-", "\t", "ing", "\u0391\u03b2"]
    for _ in range(n):
        out.append("".join(rng.choice(word) + rng.choice(("", " ")) for _ in range(60)))
        out.append("".join(rng.choice(every) for _ in range(80)))
    return out


def scripts(seed=3):
    """For every block of letters a text of words of it, with spaces between them."""
    rng, blocks = random.Random(seed), {}
    for c in characters():
        if c != " " and unicodedata.category(c)[0] in "LMN":
            blocks.setdefault(ord(c) >> 7, []).append(c)
    for letters in blocks.values():
        yield " ".join("".join(rng.choices(letters, k=rng.randint(1, 6))) +
                       rng.choice(("", "", "", ",", " ", "7")) for _ in range(40))


def cyrillic(n):
    """`n` bytes of words of Cyrillic letters on one line."""
    rng = random.Random(4)
    words = ["".join(chr(rng.randint(0x430, 0x44f)) for _ in range(rng.randint(1, 9)))
             for _ in range(5000)]
    text = " ".join(rng.choices(words, k=n // 11))
    return text + " " + "\u0430" * ((n - len(text.encode()) - 1) // 2)


def broken(seed=2, n=60):
    """Bytes that are no UTF-8."""
    rng = random.Random(seed)
    parts = [b"abc ", b"\xff", b"\xe2\x82", b"\xe2\x82\xac", b"\xc0\xaf", b"\xed\xa0\x80",
             b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\x80", b" x", "\u00e9".encode(), b"\xf8\x88"]
    return [b"".join(rng.choice(parts) for _ in range(30)) for _ in range(n)]


# --- models of SentencePiece ---

MODELS = {
    "spm_unigram": {"model_type": "unigram", "vocab_size": 900,
                    "normalization_rule_name": "nmt_nfkc"},
    "spm_bpe": {"model_type": "bpe", "vocab_size": 900, "byte_fallback": True,
                "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                "split_digits": True},
    "spm_plain": {"model_type": "unigram", "vocab_size": 800, "byte_fallback": True,
                  "add_dummy_prefix": False, "user_defined_symbols": "<sep>"},
}


def model(name, corpus, work):
    """Train a model of SentencePiece: the path of its file."""
    import sentencepiece
    text = work / f"{name}.txt"
    text.write_text(corpus.replace("\0", "")[:200000])
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(work / name), minloglevel=2, hard_vocab_limit=False,
        **MODELS[name])
    return work / f"{name}.model"
