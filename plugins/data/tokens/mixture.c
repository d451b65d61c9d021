/* mixture.c: see mixture.h. */
#include <inttypes.h>
#include <stdio.h>

#include "mixture.h"

typedef struct race {
    const uint64_t *weight;
    uint64_t had[64]; /* samples of each set so far */
    int64_t sum;      /* of the weights */
    uint32_t n;
} race;

/* In units of 1 / (2 (n - 1) W): how far set i is behind its share after sample number `at`. */
static int64_t behind(const race *r, uint32_t i, uint64_t at)
{
    return 2 * (int64_t)(r->n - 1) * ((int64_t)(r->weight[i] * at) - r->sum * (int64_t)r->had[i]);
}

/* Of the sets that are behind by 1 / (2 n - 2) of a sample at least, the one that would first be
 * behind by more than the bound allows. */
static uint32_t next(const race *r, uint64_t at)
{
    uint32_t best = r->n;
    __int128 best_capacity = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const int64_t late = behind(r, i, at);
        if (late < r->sum)
            continue;
        const __int128 room = (int64_t)(2 * r->n - 3) * r->sum - late; /* over weight[i] */
        if (best == r->n ||
            room * (int64_t)r->weight[best] < best_capacity * (int64_t)r->weight[i]) {
            best = i;
            best_capacity = room;
        }
    }
    return best;
}

weft_status mixture_open(const weft_host *host, const char *key, const uint64_t *weight, uint32_t n,
                         mixture *out)
{
    race r = {.weight = weight, .n = n};
    uint64_t sum = 0;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n && sum <= MIXTURE_PERIOD; i++)
        sum += weight[i];
    if (sum > MIXTURE_PERIOD)
        return source_fail(host, WEFT_USAGE,
                           "%s: the weights of the mixture repeat only after more than %u samples; "
                           "write them with fewer digits",
                           key, MIXTURE_PERIOD);
    mixture m = {.host = host, .period = sum, .weight = weight};
    m.turn = (uint8_t *)weft_new(host, sum, &st);
    m.before = (uint32_t *)weft_new(host, sum * sizeof *m.before, &st);
    r.sum = (int64_t)sum;
    for (uint64_t at = 0; st == WEFT_OK && at < sum; at++) {
        const uint32_t i = n > 1 ? next(&r, at + 1) : 0;
        m.turn[at] = (uint8_t)i;
        m.before[at] = (uint32_t)r.had[i]++;
    }
    if (st != WEFT_OK)
        mixture_close(&m);
    else
        *out = m;
    return st;
}

void mixture_close(mixture *m)
{
    if (m->host) {
        (m->host->free)(m->host->ctx, m->turn);
        (m->host->free)(m->host->ctx, m->before);
    }
    *m = (mixture){0};
}

uint32_t mixture_turn(const mixture *m, uint64_t sample, uint64_t *number)
{
    const uint64_t at = sample % m->period;
    const uint32_t i = m->turn[at];
    *number = sample / m->period * m->weight[i] + m->before[at];
    return i;
}
