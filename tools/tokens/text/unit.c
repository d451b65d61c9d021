/* tokens/text/unit.c: see unit.h. */
#include "tokens/text/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define UNIT (256u << 10) /* bytes of text: with the next part a unit has more */
#define MAX_PARTS 4096u

static void put(tokens_ids *to, int32_t id)
{
    *vec_push(to) = id;
}

/* Memory for at least `more` ids behind those that are there. */
static void make_capacity(tokens_ids *to, uint64_t more)
{
    const uint64_t want = to->n + more;
    if (want <= to->cap)
        return;
    mem_check(want * sizeof *to->at);
    to->at = mem_grow(to->at, want * sizeof *to->at);
    to->cap = (uint32_t)want;
}

static void begin(tokens_ids *to, const tokens_part *p, const data_tokenizer *t,
                  const tokens_text_options *o)
{
    const weft_tokenizer_info *i = &t->info;
    if (p->first && i->begin && i->begin != i->end && !o->plain)
        put(to, (int32_t)i->begin - 1);
}

static void end(tokens_ids *to, const tokens_part *p, const data_tokenizer *t,
                const tokens_text_options *o)
{
    if (p->last && t->info.end && !o->plain)
        put(to, (int32_t)t->info.end - 1);
    if (p->last || p->anew)
        put(to, DATA_SPOOL_END);
}

/* One call: *used bytes of the part. */
static weft_status encode_some(tokens_ids *to, const char *text, uint64_t n, uint32_t flags,
                               const data_tokenizer *t, uint64_t *used)
{
    uint64_t made = 0;
    make_capacity(to, n + 64);
    const weft_status st =
        tokens_encode(t, text, n, flags, to->at + to->n, to->cap - to->n, used, &made);
    to->n += (uint32_t)made;
    return st;
}

static uint32_t flags_of(const tokens_part *p, const tokens_text_options *o)
{
    return (p->first ? WEFT_TEXT_FIRST : 0) | (o->special ? WEFT_TEXT_SPECIAL : 0);
}

static weft_status encode_part(tokens_unit *u, const tokens_part *p, const data_tokenizer *t,
                               const tokens_text_options *o)
{
    tokens_ids *to = &u->ids[p->valid];
    weft_status st = WEFT_OK;
    begin(to, p, t, o);
    for (uint64_t at = 0, used; st == WEFT_OK && at < p->n; at += used) {
        const uint32_t flags = flags_of(p, o) & ~(at ? WEFT_TEXT_FIRST : 0);
        st = encode_some(to, u->text + p->from + at, p->n - at, flags | WEFT_TEXT_LAST, t, &used);
    }
    end(to, p, t, o);
    return st;
}

void tokens_unit_encode(tokens_unit *u, const data_tokenizer *t, const tokens_text_options *o)
{
    for (uint32_t i = 0; u->st == WEFT_OK && i < u->parts.n; i++)
        u->st = encode_part(u, &u->parts.at[i], t, o);
    if (u->st != WEFT_OK)
        snprintf(u->why, sizeof u->why, "%s", err_text());
}

/* A part of a tokenizer that says where it stops: encoded here, since the next one begins there. */
static weft_status encode_ahead(tokens_unit *u, tokens_reader *r, const tokens_part *p,
                                const char *text, const data_tokenizer *t,
                                const tokens_text_options *o)
{
    tokens_ids *to = &u->ids[p->valid];
    const bool last = p->last || p->anew;
    uint64_t used = 0;
    begin(to, p, t, o);
    const weft_status st =
        encode_some(to, text, p->n, flags_of(p, o) | (last ? WEFT_TEXT_LAST : 0), t, &used);
    if (st == WEFT_OK && used == p->n)
        end(to, p, t, o);
    tokens_reader_take(r, p, used);
    u->n += used;
    return st;
}

static void keep_part(tokens_unit *u, const tokens_part *p, const char *text)
{
    if (u->capacity - u->n < p->n) {
        u->capacity = u->n + p->n + UNIT;
        u->text = mem_grow(u->text, u->capacity);
    }
    memcpy(u->text + u->n, text, p->n);
    tokens_part *kept = vec_push(&u->parts);
    *kept = *p;
    kept->from = u->n;
    u->n += p->n;
}

weft_status tokens_unit_read(tokens_unit *u, tokens_reader *r, const data_tokenizer *t,
                             const tokens_text_options *o)
{
    const bool cuts = tokens_cuts(t);
    weft_status st = WEFT_OK;
    u->parts.n = u->ids[0].n = u->ids[1].n = 0;
    u->n = 0;
    u->st = WEFT_OK;
    while (st == WEFT_OK && u->n < UNIT && u->parts.n < MAX_PARTS) {
        tokens_part p;
        const char *text;
        st = tokens_reader_next(r, &p, &text);
        if (st != WEFT_OK || !text)
            break;
        if (cuts) {
            keep_part(u, &p, text);
            tokens_reader_take(r, &p, p.n);
        } else {
            st = encode_ahead(u, r, &p, text, t, o);
        }
    }
    u->marks = tokens_reader_place(r, &u->place);
    u->done = tokens_reader_done(r);
    return st;
}

void tokens_unit_free(tokens_unit *u)
{
    free(u->parts.at);
    free(u->text);
    free(u->ids[0].at);
    free(u->ids[1].at);
    *u = (tokens_unit){0};
}
