/* schedule/cost.c: alpha-beta cost model: selects the algorithm for `auto` where the link's costs
 * are known.
 *
 * Idea: each algorithm reports its terms for a request (sched_terms: latencies that follow one
 * another, messages and bytes that the busiest member sends, bytes that it reads to reduce), and a
 * measurement gives the cost of each (sched_cost). The sum of the products is a predicted time; the
 * algorithm with the lowest is selected, the first in the table among equals. A round's first
 * message is part of its latency; the others occupy their sender one after the other. Loads from
 * and stores to peers' mapped memory cost less per byte than sends, and are measured separately.
 *
 * The model is that of Hockney (The communication challenge for MPP, Parallel Computing 20, 1994),
 * latency and bandwidth, with the per-message overhead of LogGP (Alexandrov, Ionescu, Schauser,
 * Scheiman, SPAA 1995).
 *
 * Known errors. The model has no overlap, while chunks are reduced as others arrive, and a
 * hierarchical algorithm may use both networks at once; so it overestimates long chunked messages,
 * about equally for most algorithms. It has no contention at one receiver or in the network, and no
 * gain of a member that sends to two peers at once. One line stands for a link that carries
 * messages differently by length, and for caches of several sizes: the error is largest around the
 * bends. Ranks that have other work, or share cores, wait for each other longer than predicted.
 * `weft tune comm` shows prediction beside measurement.
 *
 * All ranks of a group must choose alike, or they deadlock. So values of a single rank are cleared
 * before anything is computed, both ends of a send evaluate the same request, and the arithmetic is
 * plain double, in one order. */
#include "schedule/algorithm.h"

#include <stdio.h>

#include "config/constraints.h"

static double of_way(const sched_way *w, const sched_speed *s)
{
    double more = w->messages > w->rounds ? w->messages - w->rounds : 0;
    return w->rounds * s->latency + more * s->message + (w->bytes + w->fill) * s->per_byte;
}

double sched_seconds(const sched_terms *t, const sched_cost *c)
{
    return of_way(&t->intra, &c->intra) + of_way(&t->inter, &c->inter) + t->reduced * c->reduce;
}

/* Makes the request equal on every rank. */
static sched_request of_group(const sched_request *r)
{
    sched_request q = *r;
    q.me = 0;
    if (r->kind == WEFT_SEND || r->kind == WEFT_RECV) {
        q.kind = WEFT_SEND;
        q.me = r->me < r->root ? r->me : r->root;
        q.root = r->me < r->root ? r->root : r->me;
        q.in_place = 0;
    }
    return q;
}

double sched_predict(const sched_algorithm *a, const sched_request *r)
{
    sched_terms t = {0};
    if (!a->terms || !r->cost)
        return -1;
    sched_request q = of_group(r);
    sched_terms_of(a, &q, &t);
    sched_cost c = *r->cost;
    if (a->maps) /* its bytes are loads and stores */
        c.intra.per_byte = c.mapped;
    return sched_seconds(&t, &c);
}

const sched_algorithm *sched_cheapest(const sched_request *r)
{
    const sched_algorithm *best = NULL;
    double least = 0;
    sched_request q = of_group(r);
    const sched_algorithm *flat = r->layout && r->layout->machines > 1 ? NULL : &sched_hierarchical;
    for (uint32_t i = 0; r->cost && sched_algorithms[i]; i++) {
        const sched_algorithm *a = sched_algorithms[i];
        if (!sched_able(a, &q) || (sched_sum_rounds(&q) && !a->once) || a == flat)
            continue; /* one machine has no levels */
        double seconds = sched_predict(a, &q);
        if (seconds >= 0 && (!best || seconds < least)) {
            best = a;
            least = seconds;
        }
    }
    return best;
}

/* Reads comm.NAME.bandwidth and so on, in the units of the INI. */
static double read_key(const config *c, const char *transport, const char *key)
{
    char name[128];
    snprintf(name, sizeof name, "comm.%.64s.%s", transport, key);
    return config_real(c, name);
}

weft_status sched_cost_read(const config *c, const char *transport, sched_cost *out, int *known)
{
    double latency = read_key(c, transport, "latency"), message = read_key(c, transport, "message");
    double bandwidth = read_key(c, transport, "bandwidth"), reduce = config_real(c, "comm.reduce");
    double mapped = read_key(c, transport, "mapped");
    mapped = mapped > 0 ? mapped : bandwidth;
    *out = (sched_cost){.reduce = reduce > 0 ? 1e-9 / reduce : 0,
                        .mapped = mapped > 0 ? 1e-9 / mapped : 0};
    *known = bandwidth > 0;
    if (!*known && (latency > 0 || message > 0)) {
        char key[128];
        snprintf(key, sizeof key, "comm.%.64s.%s", transport, latency > 0 ? "latency" : "message");
        return config_refuse(CONSTRAINT_TUNED, c, key,
                             (config_fact[]){{"transport", 0, transport}, {0}});
    }
    if (*known)
        out->intra = out->inter = (sched_speed){latency * 1e-6, message * 1e-6, 1e-9 / bandwidth};
    return WEFT_OK;
}
