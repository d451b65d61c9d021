/* weft/tokens.h: the layout of token files, for sources that read them and for programs that write
 * or describe them. One function takes a header apart and checks it against the length of the file.
 * Nothing is allocated or kept, and the bytes may be anything.
 *
 * All numbers are little endian. A file is a header of 256 words of 32 bits, then the ids of the
 * tokens without gaps, then in version 3 the index. Words that are not named are 0.
 *
 *   word   weft                                GPT-2 (llm.c)   Llama 3 (llm.c)
 *   0      20261121                            20240520        20240801
 *   1      version: 1, 2 or 3                  1               7
 *   2      tokens, lower half                  tokens          tokens
 *   3      vocabulary: ids are below it        (50257)         (128256)
 *   4      tokens, upper half
 *   5      version 3: bits of an id, 16 or 32
 *   6, 7   version 3: documents, lower and upper half
 *
 * An id has 16 bits in version 1 and in GPT-2's files, 32 bits in version 2 and in Llama 3's. The
 * two formats of llm.c name no vocabulary: it is that of their tokenizer. They begin each document
 * with one id, 50256 or 128000.
 *
 * The index of version 3 begins at the next multiple of 8 bytes behind the ids. It has a number of
 * 64 bits for each document, in order: how many tokens of the file are in this document and those
 * before it. So the numbers rise, and the last is the number of tokens. Document i has the tokens
 * from index[i - 1], or 0, up to index[i].
 *
 * A program that writes files of its own takes the lowest version that can say what it has: a file
 * of version 1 is read by every weft. It writes to another name and renames, since sources map the
 * file, and a mapped file that becomes shorter ends the job.
 *
 * This header is compiled into its user and is not part of the ABI. All [any].
 */
#ifndef WEFT_TOKENS_H
#define WEFT_TOKENS_H

#include <weft/base.h>

#include <stdio.h>
#include <string.h>

WEFT_EXTERN_C_BEGIN

#define WEFT_TOKENS_MAGIC 20261121u
#define WEFT_TOKENS_MAGIC_GPT2 20240520u
#define WEFT_TOKENS_MAGIC_LLAMA3 20240801u
#define WEFT_TOKENS_HEADER_WORDS 256u
#define WEFT_TOKENS_HEADER_BYTES 1024u
#define WEFT_TOKENS_INDEXED 3u /* the version of weft's files that have an index */

/* What a header says. */
typedef struct weft_tokens {
    const char *format; /* "weft", "GPT-2 (llm.c)", "Llama 3 (llm.c)" */
    uint32_t magic, version;
    uint32_t vocab;  /* an id in the file may still be outside: check ids when they are read */
    uint32_t bits;   /* of an id: 16 or 32 */
    uint32_t begin;  /* the id with which llm.c begins each document, plus 1; 0: another format */
    uint64_t tokens; /* ids in the file; at least 1 */
    uint64_t documents; /* 0: the file has no index */
    uint64_t index;     /* byte of the file where the index begins, or would */
    char why[320];      /* after an error: the end of a sentence that begins with the file's name */
} weft_tokens;

/* Word `i` of the header. */
static inline uint32_t weft_tokens_word(const void *head, uint32_t i)
{
    const unsigned char *b = (const unsigned char *)head + 4 * (size_t)i;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Why a file is refused, for the caller's message: the arguments are those of printf(). */
#define WEFT_TOKENS_SAY(t, ...) ((void)snprintf((t)->why, sizeof(t)->why, __VA_ARGS__))

/* The format by its first word, and whether its version is one of `lowest` to `highest`. A version
 * that is too new is WEFT_UNSUPPORTED: the file may be right. */
static inline weft_status weft_tokens_known(weft_tokens *t, uint32_t lowest, uint32_t highest)
{
    const uint32_t m = t->magic,
                   turned = m >> 24 | (m >> 8 & 0xff00u) | (m << 8 & 0xff0000u) | m << 24;
    if (turned == WEFT_TOKENS_MAGIC || turned == WEFT_TOKENS_MAGIC_GPT2 ||
        turned == WEFT_TOKENS_MAGIC_LLAMA3) {
        WEFT_TOKENS_SAY(t, "is big-endian; write it again with little-endian numbers");
        return WEFT_DATA;
    }
    if (!t->format) {
        WEFT_TOKENS_SAY(t,
                        "is not a token file: `weft data TEXT... -o FILE` makes one of text, and "
                        "data.source = text takes the text itself");
        return WEFT_DATA;
    }
    if (t->version < lowest) {
        WEFT_TOKENS_SAY(t, "has version %u; versions of %s files begin with %u", t->version,
                        t->format, lowest);
        return WEFT_DATA;
    }
    if (t->version <= highest)
        return WEFT_OK;
    WEFT_TOKENS_SAY(t,
                    "has version %u, and this program reads versions up to %u: use a weft "
                    "as new as the one that wrote it",
                    t->version, highest);
    return WEFT_UNSUPPORTED;
}

/* What the words say against each other and against the length of the file. A count that does not
 * fit into the file is found by division, so that no product overflows. */
static inline weft_status weft_tokens_check(weft_tokens *t, uint64_t bytes)
{
    const uint64_t width = t->bits / 8, room = bytes - WEFT_TOKENS_HEADER_BYTES;
    const uint32_t most = t->bits == 32 ? 1u << 30 : 65536u;
    const int indexed = t->magic == WEFT_TOKENS_MAGIC && t->version == WEFT_TOKENS_INDEXED;
    if (t->bits != 16 && t->bits != 32) {
        WEFT_TOKENS_SAY(t, "has ids of %u bits; 16 and 32 are possible", t->bits);
        return WEFT_DATA;
    }
    if (!t->vocab || t->vocab > most) {
        WEFT_TOKENS_SAY(t, "gives a vocabulary of %u; tokens of %u bits allow 1 to %u", t->vocab,
                        t->bits, most);
        return WEFT_DATA;
    }
    if (!t->tokens) {
        WEFT_TOKENS_SAY(t, "holds no tokens");
        return WEFT_DATA;
    }
    if (indexed && (!t->documents || t->documents > t->tokens)) {
        WEFT_TOKENS_SAY(t, "counts %llu documents in %llu tokens; each has at least one token",
                        (unsigned long long)t->documents, (unsigned long long)t->tokens);
        return WEFT_DATA;
    }
    const int fits = t->tokens <= room / width && t->documents <= room / 8;
    const uint64_t ids = fits ? t->tokens * width : 0, gap = indexed ? (8 - ids % 8) % 8 : 0;
    t->index = WEFT_TOKENS_HEADER_BYTES + ids + gap;
    if (fits && ids + gap + 8 * t->documents == room)
        return WEFT_OK;
    WEFT_TOKENS_SAY(
        t,
        "is %llu bytes long, but its header counts %llu tokens of %llu bytes after %u bytes, and "
        "%llu documents in an index: it is truncated or damaged",
        (unsigned long long)bytes, (unsigned long long)t->tokens, (unsigned long long)width,
        WEFT_TOKENS_HEADER_BYTES, (unsigned long long)t->documents);
    return WEFT_DATA;
}

/* Take a header apart: `head` has the first WEFT_TOKENS_HEADER_BYTES of a file of `bytes`; a
 * shorter file is refused and `head` not read. WEFT_DATA: no token file, or damaged.
 * WEFT_UNSUPPORTED: a later version. t->why has the words then: "is big-endian ...".
 *
 * Ids and the index are not looked at, so that opening a file costs no scan. Who reads them checks
 * each id against the vocabulary, and each number of the index against its neighbours and the
 * number of tokens. */
static inline weft_status weft_tokens_read(weft_tokens *t, const void *head, uint64_t bytes)
{
    memset(t, 0, sizeof *t);
    if (bytes < WEFT_TOKENS_HEADER_BYTES) {
        WEFT_TOKENS_SAY(t,
                        "is %llu bytes long, shorter than the header of a token file, "
                        "which is %u; `weft data TEXT... -o FILE` makes one",
                        (unsigned long long)bytes, WEFT_TOKENS_HEADER_BYTES);
        return WEFT_DATA;
    }
    t->magic = weft_tokens_word(head, 0);
    t->version = weft_tokens_word(head, 1);
    t->tokens = weft_tokens_word(head, 2);
    const int own = t->magic == WEFT_TOKENS_MAGIC, llama = t->magic == WEFT_TOKENS_MAGIC_LLAMA3;
    const int indexed = own && t->version == WEFT_TOKENS_INDEXED;
    t->format = own ? "weft" : llama ? "Llama 3 (llm.c)" : NULL;
    t->format = t->magic == WEFT_TOKENS_MAGIC_GPT2 ? "GPT-2 (llm.c)" : t->format;
    t->bits = indexed ? weft_tokens_word(head, 5) : llama || (own && t->version == 2) ? 32 : 16;
    t->vocab = own ? weft_tokens_word(head, 3) : llama ? 128256 : 50257;
    t->begin = own ? 0 : llama ? 128001 : 50257;
    t->tokens |= own ? (uint64_t)weft_tokens_word(head, 4) << 32 : 0;
    if (indexed)
        t->documents = weft_tokens_word(head, 6) | (uint64_t)weft_tokens_word(head, 7) << 32;
    weft_status st = weft_tokens_known(t, llama ? 7 : 1, llama ? 7 : own ? WEFT_TOKENS_INDEXED : 1);
    return st != WEFT_OK ? st : weft_tokens_check(t, bytes);
}

WEFT_EXTERN_C_END

#endif
