/* job/store/gather.c: see gather.h. */
#include "job/store/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/store/parts.h"
#include "job/wire/wire.h"

/* --- requests --- */

uint8_t *job_gather_pack(const job_gather_request *r, uint64_t *bytes)
{
    const uint32_t listed = r->member ? r->n : 0;
    *bytes = GATHER_HEAD + 4 * (uint64_t)listed + r->bytes;
    uint8_t *out = mem_alloc(*bytes), *to = out + GATHER_HEAD;
    job_wire_put64(out, r->total);
    job_wire_put32(out + 8, listed);
    for (uint32_t i = 0; i < listed; i++, to += 4)
        job_wire_put32(to, r->member[i]);
    if (r->bytes)
        memcpy(to, r->fragment, r->bytes);
    return out;
}

static const char *take_members(const uint8_t *from, uint32_t rank, uint32_t ranks,
                                job_gather_request *out)
{
    bool inside = false;
    uint32_t *member = mem_alloc(out->n * sizeof *member);
    const char *wrong = NULL;
    for (uint32_t i = 0; i < out->n && !wrong; i++) {
        member[i] = job_wire_get32(from + (uint64_t)i * 4);
        if (member[i] >= ranks || (i && member[i] <= member[i - 1]))
            wrong = "its members are not ranks of the job in ascending order";
        inside = inside || member[i] == rank;
    }
    if (!wrong && !inside)
        wrong = "the rank itself is not among its members";
    if (wrong)
        free(member);
    else
        out->member = member;
    return wrong;
}

const char *job_gather_unpack(const uint8_t *from, uint64_t bytes, uint32_t rank, uint32_t ranks,
                              job_gather_request *out)
{
    *out = (job_gather_request){0};
    if (bytes < GATHER_HEAD)
        return "its head is incomplete";
    out->total = job_wire_get64(from);
    out->n = job_wire_get32(from + 8);
    const uint64_t listed = 4 * (uint64_t)out->n;
    if (job_wire_get32(from + 12) || out->n > ranks || listed > bytes - GATHER_HEAD)
        return "its list of members is incomplete";
    out->fragment = from + GATHER_HEAD + listed;
    out->bytes = bytes - GATHER_HEAD - listed;
    if (out->total > GATHER_VALUE_MAX || out->bytes > out->total ||
        out->bytes > job_gather_fragment(ranks, 1))
        return "it is above the limit";
    if (out->n)
        return take_members(from + GATHER_HEAD, rank, ranks, out);
    out->n = ranks;
    return NULL;
}

/* --- gathers in progress --- */

typedef struct gathering {
    struct gathering *next;
    char key[WIRE_KEY_MAX + 1];
    bool exchange;
    job_gather_request of; /* of the rank that opened it; `fragment` is unused */
    uint32_t first, arrived;
    uint64_t due;
    job_parts all;
    bool *here; /* [of.n] */
} gathering;

struct job_gathers {
    uint32_t ranks;
    job_store_reply reply;
    void *ctx;
    gathering *open;
};

job_gathers *job_gathers_open(uint32_t ranks, job_store_reply reply, void *ctx)
{
    job_gathers *g = mem_alloc(sizeof *g);
    *g = (job_gathers){ranks, reply, ctx, NULL};
    return g;
}

static void end(job_gathers *g, gathering *x)
{
    gathering **at = &g->open;
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    job_parts_end(&x->all);
    free((void *)(uintptr_t)x->of.member);
    free(x->here);
    free(x);
}

void job_gathers_close(job_gathers *g)
{
    while (g && g->open)
        end(g, g->open);
    free(g);
}

static uint32_t member_at(const job_gather_request *r, uint32_t i)
{
    return r->member ? r->member[i] : i;
}

/* The place of `rank` among the members; n: it is none. */
static uint32_t place_of(const job_gather_request *r, uint32_t rank)
{
    uint32_t low = 0, high = r->n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (member_at(r, middle) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->n && member_at(r, low) == rank ? low : r->n;
}

/* Answer the members that have come, and end it. */
static void finish(job_gathers *g, gathering *x, weft_status st, const void *bytes, uint64_t n)
{
    for (uint32_t i = 0; i < x->of.n; i++)
        if (x->here[i])
            g->reply(g->ctx, member_at(&x->of, i), st, bytes, n);
    end(g, x);
}

static bool same_members(const job_gather_request *a, const job_gather_request *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (member_at(a, i) != member_at(b, i))
            return false;
    return true;
}

static gathering *find_exchange(const job_gathers *g)
{
    gathering *x = g->open;
    while (x && !x->exchange)
        x = x->next;
    return x;
}

/* The open gather of this key that has `rank` or one of its members. Groups without a common member
 * may use the same key. */
static gathering *find(const job_gathers *g, const char *key, const job_gather_request *r)
{
    for (gathering *x = g->open; x; x = x->next) {
        if (x->exchange || strcmp(x->key, key) != 0)
            continue;
        for (uint32_t i = 0; i < r->n; i++)
            if (place_of(&x->of, member_at(r, i)) < x->of.n)
                return x;
    }
    return NULL;
}

static gathering *begin(job_gathers *g, uint32_t rank, const char *key, const job_gather_request *r,
                        uint64_t due)
{
    gathering *x = mem_alloc(sizeof *x);
    snprintf(x->key, sizeof x->key, "%s", key);
    x->of = *r; /* takes over the list */
    x->first = rank;
    x->due = due;
    x->here = mem_alloc(r->n * sizeof *x->here);
    job_parts_begin(&x->all, r->n, r->bytes);
    x->next = g->open;
    g->open = x;
    return x;
}

static void arrive(job_gathers *g, gathering *x, uint32_t rank, const uint8_t *fragment)
{
    const uint32_t place = place_of(&x->of, rank);
    job_parts_add(&x->all, place, fragment);
    x->here[place] = true;
    if (++x->arrived < x->of.n)
        return;
    uint64_t n;
    uint8_t *answer = job_parts_pack(&x->all, &n);
    const bool too_much = x->exchange && n * g->ranks > GATHER_ANSWERS_MAX &&
                          x->of.bytes > job_gather_fragment(g->ranks, 1);
    finish(g, x, too_much ? WEFT_BUSY : WEFT_OK, answer, too_much ? 0 : n);
    free(answer);
}

static void refuse(job_gathers *g, uint32_t rank, weft_status st, const char *text)
{
    g->reply(g->ctx, rank, st, text, strlen(text));
}

static void disagree(job_gathers *g, gathering *x, uint32_t rank, const job_gather_request *r)
{
    char text[WIRE_TEXT];
    snprintf(text, sizeof text,
             "rank %u gathers '%s' over %u ranks (%llu bytes each) while rank %u gathers it over "
             "%s%u ranks (%llu bytes each): the ranks do not run the same configuration",
             rank, x->key, r->n, (unsigned long long)r->total, x->first,
             r->n == x->of.n && r->total == x->of.total ? "other " : "", x->of.n,
             (unsigned long long)x->of.total);
    refuse(g, rank, WEFT_PEER, text);
    finish(g, x, WEFT_PEER, text, strlen(text));
}

void job_gathers_join(job_gathers *g, uint32_t rank, const char *key, const void *request,
                      uint64_t bytes, uint64_t due)
{
    job_gather_request r;
    char text[WIRE_TEXT];
    const char *wrong = job_gather_unpack(request, bytes, rank, g->ranks, &r);
    if (wrong) {
        snprintf(text, sizeof text, "the request to gather '%s' is malformed: %s", key, wrong);
        refuse(g, rank, WEFT_USAGE, text);
        return;
    }
    gathering *x = find(g, key, &r);
    if (!x) {
        arrive(g, begin(g, rank, key, &r, due), rank, r.fragment);
        return;
    }
    if (x->of.total == r.total && x->of.bytes == r.bytes && same_members(&x->of, &r))
        arrive(g, x, rank, r.fragment);
    else
        disagree(g, x, rank, &r);
    free((void *)(uintptr_t)r.member);
}

uint64_t job_gather_fragment(uint32_t ranks, int differ)
{
    const uint64_t max = (WIRE_VALUE_MAX - PARTS_OVERHEAD(ranks)) / ranks;
    const uint64_t by_memory = GATHER_ANSWERS_MAX / ranks / ranks;
    return !differ || max < by_memory ? max : by_memory ? by_memory : 1;
}

void job_gathers_exchange(job_gathers *g, uint32_t rank, const char *name, const void *mine,
                          uint64_t bytes, uint64_t due)
{
    char text[WIRE_TEXT];
    gathering *x = find_exchange(g);
    if (bytes > job_gather_fragment(g->ranks, 0)) {
        snprintf(text, sizeof text, "an exchange of %llu bytes a rank is above the store's limit",
                 (unsigned long long)bytes);
        refuse(g, rank, WEFT_USAGE, text);
        return;
    }
    if (x && (x->of.bytes != bytes || strcmp(x->key, name) != 0)) {
        snprintf(text, sizeof text,
                 "rank %u exchanges '%s' (%llu bytes) while rank %u exchanges '%s' (%llu bytes): "
                 "the ranks do not run the same configuration",
                 rank, name, (unsigned long long)bytes, x->first, x->key,
                 (unsigned long long)x->of.bytes);
        refuse(g, rank, WEFT_PEER, text);
        finish(g, x, WEFT_PEER, text, strlen(text));
        return;
    }
    if (!x) {
        x = begin(g, rank, name, &(job_gather_request){.n = g->ranks, .bytes = bytes}, due);
        x->exchange = true;
    }
    arrive(g, x, rank, mine);
}

static void late(job_gathers *g, gathering *x)
{
    char text[WIRE_TEXT];
    size_t n = (size_t)snprintf(text, sizeof text, "%s '%s' still waits for",
                                x->exchange ? "the exchange" : "gathering", x->key);
    uint32_t listed = 0;
    for (uint32_t i = 0; i < x->of.n && listed < 8; i++)
        if (!x->here[i])
            n += (size_t)snprintf(text + n, sizeof text - n, "%s rank %u", listed++ ? "," : "",
                                  member_at(&x->of, i));
    if (x->of.n - x->arrived > listed)
        n += (size_t)snprintf(text + n, sizeof text - n, " and others");
    snprintf(text + n, sizeof text - n, ", and its time is over");
    finish(g, x, WEFT_PEER, text, strlen(text));
}

void job_gathers_tick(job_gathers *g, uint64_t now)
{
    for (gathering *x = g->open, *next; x; x = next) {
        next = x->next;
        if (now >= x->due)
            late(g, x);
    }
}
