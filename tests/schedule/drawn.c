/* tests/schedule/drawn.c: see drawn.h. */
#include "drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "naive.h"
#include "schedule/request.h"

uint32_t drawn_number(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

static uint64_t number_of(const char *name, uint64_t usually)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : usually;
}

uint64_t drawn_seed(void)
{
    return number_of("WEFT_COMM_SEED", 1);
}

uint64_t drawn_runs(uint64_t usually)
{
    return number_of("WEFT_COMM_RUNS", usually);
}

const char *drawn_text(const sched_request *r, char text[256])
{
    snprintf(
        text, 256,
        "%s by %s of %llu elements of type %u (reduction %u), %u ranks, root %u, chunk %llu%s%s"
        "%s%s",
        sched_kind_name(r->kind), r->algorithm, (unsigned long long)r->count, r->dtype, r->redop,
        r->ranks, r->root, (unsigned long long)r->chunk, r->in_place ? ", in place" : "",
        r->layout ? ", several machines" : "", r->cost ? ", by costs" : "",
        r->link_caps & WEFT_LINK_MAP ? ", mapped" : "");
    return text;
}

int drawn_exact(const sched_request *r)
{
    const sched_algorithm *a;
    if (!sched_reduces(r->kind) || r->redop != WEFT_SUM || r->ranks == 1)
        return 1;
    return sched_choose(r, &a) == WEFT_OK && a->once;
}

static void draw_layout(drawn *d, uint64_t *random)
{
    uint32_t max = 1 + drawn_number(random, 4), seen[8] = {0}, number[8];
    d->layout = (sched_layout){0, d->machine, d->order, WEFT_LINK_HOST};
    for (uint32_t i = 0; i < d->r.ranks; i++) {
        uint32_t m = drawn_number(random, max);
        if (!seen[m])
            number[m] = d->layout.machines++;
        d->machine[i] = number[m];
        d->order[i] = seen[m]++;
    }
    d->r.layout = &d->layout;
}

/* Elements: none, few, about a chunk, several chunks. */
static uint64_t draw_count(uint64_t *random, uint64_t size, uint64_t chunk, uint64_t bytes)
{
    uint64_t one = chunk ? chunk / size : 64;
    switch (drawn_number(random, 6)) {
    case 0: return drawn_number(random, 3);
    case 1: return drawn_number(random, 40);
    case 2: return one - 1 + drawn_number(random, 3);
    case 3: return one * drawn_number(random, 9);
    default: return drawn_number(random, (uint32_t)(bytes / size));
    }
}

static void draw_once(drawn *d, uint64_t *random, uint32_t ranks, uint64_t caps, uint64_t bytes)
{
    static const uint32_t types[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64};
    static const uint64_t chunks[] = {0, 64, 128, 256, 1024};
    sched_request *r = &d->r;
    uint32_t algorithms = 0;
    while (sched_algorithms[algorithms])
        algorithms++;
    uint32_t which = drawn_number(random, algorithms + 2);
    memset(d, 0, sizeof *d);
    r->kind = 1 + drawn_number(random, WEFT_SHIFT);
    r->kind = r->kind == WEFT_RECV ? WEFT_SEND : r->kind;
    r->ranks = ranks ? ranks : 1 + drawn_number(random, DRAWN_MAX);
    r->root = drawn_number(random, r->ranks);
    r->redop = WEFT_SUM + drawn_number(random, 3);
    r->dtype = types[drawn_number(random, 5)];
    r->in_place = drawn_number(random, 2);
    r->chunk = chunks[drawn_number(random, 5)];
    r->link_caps = WEFT_LINK_HOST | (drawn_number(random, 2) ? WEFT_LINK_MAP : 0u);
    r->link_caps = caps ? caps : r->link_caps;
    r->algorithm = which < algorithms ? sched_algorithms[which]->name : "auto";
    r->count = draw_count(random, weft_dtype_size(r->dtype), r->chunk, bytes);
    int parts = r->kind == WEFT_REDUCE_SCATTER || r->kind == WEFT_ALL_GATHER ||
                (r->kind >= WEFT_GATHER && r->kind <= WEFT_ALL_TO_ALL);
    r->count = r->kind == WEFT_BARRIER ? 0 : parts ? r->count / r->ranks * r->ranks : r->count;
    if (drawn_number(random, 3) == 0)
        draw_layout(d, random);
    if (drawn_number(random, 3) == 0) {
        d->cost = (sched_cost){{1e-5, 1e-6, 1e-9}, {1e-4, 1e-6, 1e-8}, 1e-10, 1e-10};
        r->cost = &d->cost;
    }
}

void drawn_request(drawn *d, uint64_t *random, uint32_t ranks, uint64_t caps, uint64_t bytes)
{
    for (;;) {
        sched_schedule *s;
        sched_request mine;
        draw_once(d, random, ranks, caps, bytes);
        if (!naive_role(&d->r, d->r.kind == WEFT_SEND ? d->r.root : 0, &mine))
            continue;
        if (sched_make(&mine, &s) == WEFT_OK) {
            sched_free(s);
            err_clear();
            return;
        }
    }
}
