/* check/exercise/tokenizer.c: the life of a tokenizer: open, describe, encode a line, decode it.
 * One whose options have to name a file is opened where the user names it (--set). */
#include "check/exercise/exercise.h"

#include <stdio.h>
#include <string.h>
#include <weft/data.h>

#define ROOM 512u

#define CALL(d, t, member, ...) ((d)->where = #member, PLUGIN_GET(t, member, __VA_ARGS__))
#define LENT(d, ...) check_lend_end(&(d)->lend, CALL(d, __VA_ARGS__))

typedef struct answer {
    weft_tokenizer_info info;
    uint64_t spare[8]; /* a plugin may write too much */
} answer;

static weft_status describe(check_exercise *d, const weft_tokenizer_table *t, weft_tokenizer *k)
{
    answer own = {.info = {.struct_size = sizeof own.info}};
    weft_tokenizer_info *lent = check_lend_out(&d->lend, &own.info);
    const weft_status st = LENT(d, t, info, k, lent);
    check_lend_filled(&d->lend, &own.info, lent, "weft_tokenizer_info");
    if (st == WEFT_OK && (!own.info.vocab || !own.info.identity))
        check_fail("info() of '%s' answers a vocabulary of %u, and %s identity", d->of,
                   own.info.vocab, own.info.identity ? "an" : "no");
    return st;
}

static weft_status encode(check_exercise *d, const weft_tokenizer_table *t, weft_tokenizer *k,
                          int32_t *ids, uint64_t *n)
{
    static const char line[] = "The warp is 1,024 threads wide.\n\t\xc3\xbc\xff";
    const uint64_t bytes = sizeof line - 1;
    uint64_t used = 0;
    const weft_encode_args args = {
        .struct_size = sizeof args,
        .flags = WEFT_TEXT_LAST,
        .text = check_lend_bytes(&d->lend, line, bytes),
        .bytes = bytes,
        .out = ids,
        .room = ROOM,
    };
    weft_status st = LENT(d, t, encode, k, CHECK_LEND(&d->lend, weft_encode_args, &args), &used, n);
    if (st == WEFT_OK && (used != bytes || !*n || *n > ROOM))
        check_fail("encode() of '%s' used %llu of the %llu bytes of the last text, with room for "
                   "%u ids, and gave %llu ids",
                   d->of, (unsigned long long)used, (unsigned long long)bytes, ROOM,
                   (unsigned long long)*n);
    return st;
}

static weft_status decode(check_exercise *d, const weft_tokenizer_table *t, weft_tokenizer *k,
                          const int32_t *ids, uint64_t n)
{
    static char out[ROOM * 1024];
    uint64_t used = 0, bytes = 0;
    const weft_decode_args args = {.struct_size = sizeof args,
                                   .ids = check_lend_bytes(&d->lend, ids, n * sizeof *ids),
                                   .n = n,
                                   .out = out,
                                   .room = sizeof out};
    const weft_status st =
        LENT(d, t, decode, k, CHECK_LEND(&d->lend, weft_decode_args, &args), &used, &bytes);
    if (st == WEFT_OK && (used != n || bytes > sizeof out))
        check_fail("decode() of '%s' used %llu of %llu ids, with room for all", d->of,
                   (unsigned long long)used, (unsigned long long)n);
    return st;
}

weft_status check_exercise_tokenizer(check_exercise *d, const host_component *c)
{
    const weft_tokenizer_table *t = c->table;
    weft_tokenizer *k = NULL;
    int32_t ids[ROOM];
    uint64_t n = 0;
    if (d->paper)
        return WEFT_OK;
    weft_status st = CALL(d, t, open, d->module, check_conf(d->host, c), &k);
    if ((st == WEFT_USAGE || st == WEFT_DATA) && !d->lend.altered) {
        snprintf(d->absent, sizeof d->absent,
                 "it opens no vocabulary with these options, and --set can name one (--set "
                 "KEY=VALUE): %.800s",
                 check_exercise_why(d));
        check_host_clear(d->host);
        return WEFT_OK;
    }
    if (st != WEFT_OK)
        return st;
    st = describe(d, t, k);
    if (st == WEFT_OK)
        st = encode(d, t, k, ids, &n);
    if (st == WEFT_OK)
        st = decode(d, t, k, ids, n);
    PLUGIN_DO(t, close, k);
    return st;
}
