/* load.c: vocab.json and merges.txt. Both write each byte of a token as a printable character. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpe.h"

#define MOST_BYTES (64u << 20)
#define MOST_TOKENS (1u << 24)

typedef struct input {
    const weft_host *host;
    const char *path;
    unsigned char *text;
    uint64_t n, at;
    int16_t byte_of[324]; /* of a character; -1: it stands for none */
} input;

static weft_status bad(const input *in, weft_status code, const char *what)
{
    char text[512];
    uint64_t line = 1;
    for (uint64_t i = 0; in->text && i < in->at && i < in->n; i++)
        line += in->text[i] == '\n';
    snprintf(text, sizeof text, "acme.bpe: %.300s:%llu: %s", in->path, (unsigned long long)line,
             what);
    return (in->host->fail)(in->host->ctx, code, text);
}

static weft_status slurp(input *in)
{
    FILE *f = fopen(in->path, "rb");
    if (!f)
        return bad(in, errno == ENOMEM ? WEFT_NO_MEMORY : WEFT_USAGE, strerror(errno));
    weft_status st = WEFT_OK;
    const long size = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    if (size < 0 || size > (long)MOST_BYTES)
        st = bad(in, WEFT_DATA, "it is not a file of at most 64 MiB");
    in->text = weft_new(in->host, (uint64_t)(size < 0 ? 0 : size) + 1, &st);
    rewind(f);
    if (st == WEFT_OK && fread(in->text, 1, (size_t)size, f) != (size_t)size)
        st = bad(in, WEFT_IO, "it cannot be read");
    in->n = st == WEFT_OK ? (uint64_t)size : 0;
    fclose(f);
    int16_t next = 256;
    memset(in->byte_of, -1, sizeof in->byte_of);
    for (int16_t b = 0; b < 256; b++)
        in->byte_of[(b > 32 && b < 127) || (b > 160 && b != 173) ? b : next++] = b;
    return st;
}

static unsigned char now(const input *in)
{
    return in->at < in->n ? in->text[in->at] : 0;
}

static void space(input *in)
{
    while (now(in) && strchr(" \t\r\n", now(in)))
        in->at++;
}

/* The byte of the next character, which is UTF-8 or, in JSON, an escape; -1: none. */
static int next_byte(input *in, int json)
{
    uint32_t c = now(in);
    if (in->at < in->n)
        in->at++;
    if (json && c == '\\') {
        c = now(in);
        in->at += in->at < in->n;
        for (int i = c == 'u' ? 0 : 4, sum = 0; i < 4; i++, c = (uint32_t)sum) {
            const unsigned char h = now(in);
            const char *digits = "0123456789abcdef";
            const char *d = h ? strchr(digits, h >= 'A' && h <= 'F' ? h + 32 : h) : NULL;
            if (!d)
                return -1;
            sum = sum * 16 + (int)(d - digits);
            in->at++;
        }
        if (strchr("bfnrt", (int)c) && in->text[in->at - 1] == c && in->text[in->at - 2] == '\\')
            return -1;
    } else if (c >= 0xc2 && c < 0xe0 && (now(in) & 0xc0) == 0x80) {
        c = (c & 0x1f) << 6 | (now(in) & 0x3f);
        in->at++;
    } else if (c >= 0x80) {
        return -1;
    }
    return c < 324 ? in->byte_of[c] : -1;
}

static uint32_t hash(const unsigned char *s, uint64_t n)
{
    uint32_t h = 2166136261u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ s[i]) * 16777619u;
    return h;
}

/* The place of a token in the table of names. */
static int32_t *name(weft_tokenizer *t, const unsigned char *s, uint32_t n)
{
    uint32_t i = hash(s, n) & t->name_mask;
    for (; t->names[i]; i = (i + 1) & t->name_mask) {
        const bpe_token *k = &t->tokens[t->names[i] - 1];
        if (k->bytes == n && !memcmp(t->bytes + k->at, s, n))
            break;
    }
    return &t->names[i];
}

/* "token": id */
static weft_status entry(weft_tokenizer *t, input *in, uint32_t most, uint32_t *filled)
{
    bpe_token k = {.at = *filled};
    if (now(in) != '"')
        return bad(in, WEFT_DATA, "a token in quotes is expected");
    for (in->at++; now(in) != '"'; k.bytes++) {
        const int b = next_byte(in, 1);
        if (b < 0 || k.bytes == BPE_TOKEN)
            return bad(in, WEFT_DATA, "a token has at most 1024 characters of GPT-2's alphabet");
        t->bytes[(*filled)++] = (unsigned char)b;
    }
    in->at++;
    space(in);
    if (now(in) != ':')
        return bad(in, WEFT_DATA, "':' and an id are expected behind a token");
    in->at++;
    space(in);
    uint64_t id = now(in) >= '0' && now(in) <= '9' ? 0 : most;
    for (; now(in) >= '0' && now(in) <= '9'; in->at++)
        id = id < most ? id * 10 + (now(in) - '0') : most;
    if (id >= most || t->tokens[id].bytes || !k.bytes)
        return bad(in, WEFT_DATA, "ids are 0, 1, 2, ..., each of one token that is not empty");
    int32_t *place = name(t, t->bytes + k.at, k.bytes);
    if (*place)
        return bad(in, WEFT_DATA, "a token is there twice");
    t->tokens[id] = k;
    *place = (int32_t)id + 1;
    t->vocab++;
    return WEFT_OK;
}

static weft_status vocabulary(weft_tokenizer *t, input *in)
{
    uint32_t most = 0, filled = 0;
    weft_status st = slurp(in);
    for (uint64_t i = 0; i < in->n; i++)
        most += in->text[i] == ':';
    if (st == WEFT_OK && most > MOST_TOKENS)
        return bad(in, WEFT_DATA, "more than 16777216 tokens");
    for (t->name_mask = 1; t->name_mask <= 2 * most; t->name_mask *= 2)
        ;
    t->names = weft_new(in->host, t->name_mask * sizeof *t->names, &st);
    t->tokens = weft_new(in->host, (most + 1ull) * sizeof *t->tokens, &st);
    t->bytes = weft_new(in->host, in->n + 1, &st);
    t->name_mask--;
    if (st != WEFT_OK)
        return st;
    unsigned char before = '{';
    for (space(in); st == WEFT_OK && now(in) == before; before = ',') {
        in->at++;
        space(in);
        st = entry(t, in, most, &filled);
        space(in);
    }
    if (st == WEFT_OK && now(in) != '}')
        st = bad(in, WEFT_DATA, "it is not an object {\"token\": id, ...}");
    for (uint32_t i = 0; st == WEFT_OK && i < t->vocab; i++)
        if (!t->tokens[i].bytes)
            st = bad(in, WEFT_DATA, "ids are not 0, 1, 2, ... without a gap");
    for (int b = 0; st == WEFT_OK && b < 256; b++) {
        const unsigned char c = (unsigned char)b;
        t->byte[b] = *name(t, &c, 1) - 1;
        if (t->byte[b] < 0)
            st = bad(in, WEFT_DATA, "a single byte has no token");
    }
    if (st == WEFT_OK)
        t->special = *name(t, (const unsigned char *)BPE_SPECIAL, sizeof BPE_SPECIAL - 1) - 1;
    return st;
}

static bpe_merge *place(const weft_tokenizer *t, int32_t left, int32_t right)
{
    uint32_t i = ((uint32_t)left * 0x9e3779b1u ^ (uint32_t)right * 0x85ebca6bu) >> 7;
    for (i &= t->merge_mask; t->merges[i].rank; i = (i + 1) & t->merge_mask)
        if (t->merges[i].left == left && t->merges[i].right == right)
            break;
    return &t->merges[i];
}

const bpe_merge *bpe_find(const weft_tokenizer *t, int32_t left, int32_t right)
{
    const bpe_merge *m = place(t, left, right);
    return m->rank ? m : NULL;
}

/* "left right" of one line */
static weft_status merge(weft_tokenizer *t, input *in)
{
    unsigned char s[2 * BPE_TOKEN];
    uint32_t n = 0, split = 0;
    for (; now(in) && now(in) != '\n' && now(in) != '\r';) {
        const int gap = now(in) == ' ', b = gap ? 0 : next_byte(in, 0);
        if (b < 0 || (gap && (split || !n)) || n == sizeof s)
            return bad(in, WEFT_DATA, "a line is two tokens of GPT-2's alphabet");
        if (gap) {
            split = n;
            in->at++;
        } else {
            s[n++] = (unsigned char)b;
        }
    }
    if (!n)
        return WEFT_OK;
    if (!split || split == n)
        return bad(in, WEFT_DATA, "a line is two tokens with a space between them");
    const int32_t left = *name(t, s, split) - 1, right = *name(t, s + split, n - split) - 1,
                  to = *name(t, s, n) - 1;
    if (left < 0 || right < 0 || to < 0)
        return bad(in, WEFT_DATA, "the vocabulary lacks a token of this merge or what it gives");
    bpe_merge *m = place(t, left, right);
    if (!m->rank)
        *m = (bpe_merge){left, right, to, (int32_t)++t->nmerges};
    return WEFT_OK;
}

static weft_status merges(weft_tokenizer *t, input *in)
{
    weft_status st = slurp(in);
    uint64_t lines = 1;
    for (uint64_t i = 0; i < in->n; i++)
        lines += in->text[i] == '\n';
    if (st == WEFT_OK && lines > MOST_TOKENS)
        return bad(in, WEFT_DATA, "more than 16777216 merges");
    for (t->merge_mask = 1; t->merge_mask <= 2 * lines; t->merge_mask *= 2)
        ;
    t->merges = weft_new(in->host, t->merge_mask * sizeof *t->merges, &st);
    t->merge_mask--;
    if (st == WEFT_OK && in->n >= 8 && !memcmp(in->text, "#version", 8))
        while (in->at < in->n && now(in) != '\n')
            in->at++;
    while (st == WEFT_OK && in->at < in->n) {
        if (now(in) == '\n' || now(in) == '\r')
            in->at++;
        else if (!now(in))
            st = bad(in, WEFT_DATA, "a byte 0 is not part of a merge");
        else
            st = merge(t, in);
    }
    return st;
}

weft_status bpe_load(weft_tokenizer *t, const char *vocab, const char *merge_file)
{
    input v = {.host = t->host, .path = vocab}, m = {.host = t->host, .path = merge_file};
    weft_status st = vocabulary(t, &v);
    if (st == WEFT_OK)
        st = merges(t, &m);
    if (st == WEFT_OK)
        snprintf(t->identity, sizeof t->identity, "bpe of %u tokens %08x, %u merges %08x", t->vocab,
                 hash(v.text, v.n), t->nmerges, hash(m.text, m.n));
    (t->host->free)(t->host->ctx, v.text);
    (t->host->free)(t->host->ctx, m.text);
    return st;
}
