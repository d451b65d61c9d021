/* check/data/tokenizer.c: what a tokenizer makes of text. See data.h. */
#include "check/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM CHECK_TEXT_BYTES
#define DECODE_CAPACITY 1024u

static check_host lent;
static char text[CHECK_TEXT_BYTES], back[CHECK_TEXT_BYTES * 2];
static int32_t whole[2 * ROOM], joined[2 * ROOM];

void check_tokenizer_each(check_run *r, void (*fn)(check_tokenizer *k))
{
    const weft_manifest *m = check_manifest(r);
    for (uint32_t i = 0; i < r->n; i++) {
        check_tokenizer k = {.run = r, .c = r->components[i], .table = r->components[i]->table};
        void *module;
        if (strcmp(k.c->iface, "weft.tokenizer/1"))
            continue;
        check_host_begin(&lent, "the host");
        if (check_open(m, &lent, &module) != WEFT_OK)
            check_fail("open() failed: %s", lent.why);
        k.info.struct_size = sizeof k.info;
        weft_status st = PLUGIN_GET(k.table, open, module, check_conf(&lent, k.c), &k.t);
        if (st == WEFT_OK)
            st = PLUGIN_GET(k.table, info, k.t, &k.info);
        if (st == WEFT_OK && (!k.info.identity || !*k.info.identity || !k.info.vocab))
            check_fail("info() of '%s' answers a vocabulary of %u and no identity", k.c->name,
                       k.info.vocab);
        if (st == WEFT_OK)
            fn(&k);
        else
            check_absent("'%s' opens no vocabulary with these options, and --set KEY=VALUE can "
                         "name one: %s",
                         k.c->name, lent.why);
        PLUGIN_DO(k.table, close, k.t);
        check_close(m, module);
        check_host_end(&lent);
    }
}

/* --- texts --- */

uint64_t check_tokenizer_text(const check_run *r, uint32_t i, char *out)
{
    static const char *const words[] = {"the ",
                                        "loom's ",
                                        "they'LL ",
                                        "1024 ",
                                        "\n\n",
                                        "   ",
                                        "x\xc2\xb2 ",
                                        "na\xc3\xafve ",
                                        "\xd0\xbc\xd0\xb8\xd1\x80 ",
                                        "\xe6\x97\xa5\xe6\x9c\xac",
                                        "\xf0\x9f\x99\x82",
                                        "\t",
                                        "a_b-c",
                                        "<|endoftext|>",
                                        "\r\n",
                                        "\xc2\xa0",
                                        ". ",
                                        "(if x != 3) {",
                                        "\xef\xbb\xbf",
                                        "e\xcc\x81 "};
    const uint32_t sizes[] = {1, 7, 300, i < 4 ? 60000 : 4000};
    uint64_t state = r->seed * 31 + i, n = 0;
    if (i < 8) { /* words, and words with arbitrary bytes between them */
        while (n + 32 < sizes[i % 4]) {
            const uint64_t draw = check_random(&state);
            n +=
                (uint64_t)snprintf(out + n, 32, "%s", words[draw % (sizeof words / sizeof *words)]);
            if (i >= 4 && draw >> 60 < 4)
                out[n++] = (char)(draw >> 32);
        }
        return n ? n : (uint64_t)snprintf(out, 32, "%s", words[i % 4]);
    }
    if (i < 12) { /* arbitrary bytes */
        for (; n < sizes[i - 8]; n++)
            out[n] = (char)check_random(&state);
        return n;
    }
    if (i < 14) { /* one byte */
        memset(out, i == 12 ? ' ' : 'a', 4000);
        return 4000;
    }
    return 0;
}

/* --- encoding --- */

static weft_status encode(check_tokenizer *k, const char *from, uint64_t bytes, uint32_t flags,
                          int32_t *out, uint64_t room, uint64_t *used, uint64_t *n)
{
    const weft_encode_args args = {sizeof args, flags, from, bytes, out, room};
    *used = *n = 0;
    const weft_status st = PLUGIN_GET(k->table, encode, k->t, &args, used, n);
    if (st == WEFT_OK && (*used > bytes || *n > room))
        check_fail("encode() of '%s' used %llu of %llu bytes, and gave %llu ids with room for %llu",
                   k->c->name, (unsigned long long)*used, (unsigned long long)bytes,
                   (unsigned long long)*n, (unsigned long long)room);
    for (uint64_t i = 0; st == WEFT_OK && i < *n; i++)
        if (out[i] < 0 || (uint32_t)out[i] >= k->info.vocab)
            check_fail("encode() of '%s' gave the id %d; its vocabulary has %u", k->c->name,
                       (int)out[i], k->info.vocab);
    return st;
}

uint64_t check_tokenizer_encode(check_tokenizer *k, const char *from, uint64_t bytes, uint64_t room,
                                int32_t *out, uint64_t max)
{
    uint64_t all = 0;
    for (uint64_t at = 0; at < bytes;) {
        uint64_t used, n;
        const uint64_t here = room < max - all ? room : max - all;
        const weft_status st =
            encode(k, from + at, bytes - at, WEFT_TEXT_LAST, out + all, here, &used, &n);
        if (st != WEFT_OK)
            check_fail("encode() of '%s' returned %s for %llu bytes; every byte string can be "
                       "encoded: %s",
                       k->c->name, check_status(st), (unsigned long long)(bytes - at), lent.why);
        check_that(used,
                   "encode() of '%s' used no byte of %llu with WEFT_TEXT_LAST and room for "
                   "%llu ids",
                   k->c->name, (unsigned long long)(bytes - at), (unsigned long long)here);
        at += used;
        all += n;
    }
    return all;
}

/* --- decoding --- */

static uint64_t decode_all(check_tokenizer *k, const int32_t *ids, uint64_t n, uint64_t room)
{
    uint64_t all = 0;
    for (uint64_t at = 0; at < n;) {
        uint64_t used = 0, bytes = 0;
        const uint64_t here = room < sizeof back - all ? room : sizeof back - all;
        const weft_decode_args args = {sizeof args, 0, ids + at, n - at, back + all, here};
        const weft_status st = PLUGIN_GET(k->table, decode, k->t, &args, &used, &bytes);
        if (st != WEFT_OK)
            check_fail("decode() of '%s' returned %s for %d and later ids, below its vocabulary of "
                       "%u: %s",
                       k->c->name, check_status(st), (int)ids[at], k->info.vocab, lent.why);
        if (used > n - at || bytes > here || !used)
            check_fail("decode() of '%s' used %llu of %llu ids and wrote %llu bytes, with room for "
                       "%llu",
                       k->c->name, (unsigned long long)used, (unsigned long long)(n - at),
                       (unsigned long long)bytes, (unsigned long long)here);
        at += used;
        all += bytes;
    }
    return all;
}

static void round_trip(check_tokenizer *k)
{
    uint64_t bytes;
    for (uint32_t i = 0; (bytes = check_tokenizer_text(k->run, i, text)); i++) {
        const uint64_t n = check_tokenizer_encode(k, text, bytes, ROOM, whole, 2 * ROOM);
        const uint64_t got = decode_all(k, whole, n, sizeof back);
        const bool same_text = got == bytes && !memcmp(text, back, bytes);
        if (!same_text && !(k->info.flags & WEFT_TOKENIZER_NORMALIZES)) {
            uint64_t same = 0;
            while (same < got && same < bytes && text[same] == back[same])
                same++;
            check_fail("decode(encode(text)) of '%s' is another text: %llu bytes became %llu, and "
                       "byte %llu differs (a tokenizer that changes text says so by "
                       "WEFT_TOKENIZER_NORMALIZES)",
                       k->c->name, (unsigned long long)bytes, (unsigned long long)got,
                       (unsigned long long)same);
        }
    }
}

void check_tokenizer_round(check_run *r)
{
    check_tokenizer_each(r, round_trip);
}

/* --- pieces --- */

/* Give the text in pieces of `step` bytes; what a call leaves comes before the next piece. */
static uint64_t encode_pieces(check_tokenizer *k, uint64_t bytes, uint64_t step)
{
    uint64_t all = 0, at = 0, end = 0;
    while (at < bytes) {
        uint64_t used, n;
        end = end + step < bytes ? end + step : bytes;
        const weft_status st = encode(k, text + at, end - at, end == bytes ? WEFT_TEXT_LAST : 0,
                                      joined + all, 2 * ROOM - all, &used, &n);
        if (st != WEFT_OK)
            check_fail("encode() of '%s' returned %s for a piece of a text: %s", k->c->name,
                       check_status(st), lent.why);
        check_that(used || (end < bytes && end - at < 65536),
                   "encode() of '%s' used none of %llu bytes", k->c->name,
                   (unsigned long long)(end - at));
        at += used;
        all += n;
    }
    return all;
}

/* The text cut where cut() says, once from its end and once from its middle. */
static void cut_pieces(check_tokenizer *k, uint64_t bytes, uint64_t n)
{
    for (uint64_t end = bytes; end > bytes / 4; end /= 2) {
        uint64_t at = 0, all = 0;
        const weft_status st = PLUGIN_GET(k->table, cut, k->t, text, end, &at);
        check_that(st == WEFT_OK && at <= end, "cut() of '%s' answers %llu of %llu bytes: %s",
                   k->c->name, (unsigned long long)at, (unsigned long long)end, lent.why);
        if (!at || at == bytes)
            continue;
        all = check_tokenizer_encode(k, text, at, ROOM, joined, 2 * ROOM);
        all += check_tokenizer_encode(k, text + at, bytes - at, ROOM, joined + all, 2 * ROOM - all);
        check_that(all == n && !memcmp(whole, joined, n * sizeof *whole),
                   "'%s' gives %llu ids for a text of %llu bytes, and other ids (%llu) when it is "
                   "cut at byte %llu, which cut() names",
                   k->c->name, (unsigned long long)n, (unsigned long long)bytes,
                   (unsigned long long)all, (unsigned long long)at);
    }
}

static void pieces(check_tokenizer *k)
{
    static const uint64_t steps[] = {1, 3, 64, 1000};
    uint64_t bytes;
    for (uint32_t i = 0; (bytes = check_tokenizer_text(k->run, i, text)); i++) {
        const uint64_t n = check_tokenizer_encode(k, text, bytes, ROOM, whole, 2 * ROOM);
        if (WEFT_HAS(k->table, cut))
            cut_pieces(k, bytes, n);
        for (size_t s = bytes > 1000 ? 2 : 0; s < sizeof steps / sizeof *steps; s++) {
            const uint64_t got = encode_pieces(k, bytes, steps[s]);
            check_that(got == n && !memcmp(whole, joined, n * sizeof *whole),
                       "'%s' gives %llu ids for a text of %llu bytes, and other ids (%llu) when it "
                       "comes in pieces of %llu bytes",
                       k->c->name, (unsigned long long)n, (unsigned long long)bytes,
                       (unsigned long long)got, (unsigned long long)steps[s]);
        }
    }
}

void check_tokenizer_pieces(check_run *r)
{
    check_tokenizer_each(r, pieces);
}

/* --- limits --- */

static void limits(check_tokenizer *k)
{
    const int32_t odd[] = {(int32_t)k->info.vocab, -1, INT32_MAX};
    const uint32_t step = k->info.vocab / 1000 + 1;
    for (uint32_t id = 0; id < k->info.vocab; id += step) {
        whole[0] = (int32_t)id;
        decode_all(k, whole, 1, DECODE_CAPACITY); /* a model may give any of them */
    }
    uint64_t bytes;
    for (uint32_t i = 0; (bytes = check_tokenizer_text(k->run, i, text)); i++) {
        const uint64_t n = check_tokenizer_encode(k, text, bytes, ROOM, whole, 2 * ROOM);
        const uint64_t got = decode_all(k, whole, n, sizeof back);
        memcpy(text, back, got < sizeof text ? got : sizeof text);
        check_that(decode_all(k, whole, n, DECODE_CAPACITY) == got && !memcmp(text, back, got),
                   "decode() of '%s' gives other bytes with room for %u at a time", k->c->name,
                   DECODE_CAPACITY);
        check_tokenizer_text(k->run, i, text);
        if (bytes <= 300) /* where a call may end changes ids, so only progress is looked at */
            check_tokenizer_encode(k, text, bytes, 1, joined, 2 * ROOM);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        uint64_t used = 0, out = 0;
        const weft_decode_args args = {sizeof args, 0, &odd[i], 1, back, sizeof back};
        check_host_clear(&lent);
        const weft_status st = PLUGIN_GET(k->table, decode, k->t, &args, &used, &out);
        check_that(st == WEFT_USAGE,
                   "decode() of '%s' returned %s for the id %d; its vocabulary "
                   "has %u, so that is WEFT_USAGE",
                   k->c->name, check_status(st), (int)odd[i], k->info.vocab);
    }
}

void check_tokenizer_limits(check_run *r)
{
    check_tokenizer_each(r, limits);
}
