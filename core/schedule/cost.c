/* schedule/cost.c: what `auto` means where the costs of the link are known.
 *
 * Idea: each algorithm says what a request takes by it (sched_terms: latencies that follow one
 * another, messages and bytes that the busiest member sends, bytes that it reads to reduce), and a
 * measurement has said what each of these takes here (sched_cost). The sum of the products is a
 * time; the algorithm with the least is taken, the first of the table among equals. A first message
 * of a round is in its latency; the others keep their sender busy one after the other. What a rank
 * loads from and stores into memory of others costs less a byte than what is sent, and is measured
 * apart.
 *
 * This is the model of Hockney (The communication challenge for MPP, Parallel Computing 20, 1994),
 * latency and bandwidth, with the overhead of a message from LogGP (Alexandrov, Ionescu, Schauser,
 * Scheiman, SPAA 1995).
 *
 * Where it is wrong. Nothing overlaps in it, while chunks are reduced as others arrive, and a
 * hierarchical algorithm may use both networks at once; so it thinks too badly of long messages in
 * chunks, equally for most. All sends are alike, so what a network suffers when everybody sends to
 * one rank, or crosses it at once, is not seen. One line stands for a link that has several ways
 * to carry a message, by its length, and for caches of several sizes: around the bends the error is
 * largest. Ranks that have other work to do, or share cores, wait for each other longer than any of
 * this says. `weft tune comm` shows all of it, prediction beside measurement.
 *
 * All ranks of a group must choose alike, or they wait for ever. So what is one rank's own is
 * blanked before anything is computed, both ends of a send ask the same question, and the
 * arithmetic is plain double, in one order. */
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
    return of_way(&t->near, &c->near) + of_way(&t->far, &c->far) + t->reduced * c->reduce;
}

/* The same question on every rank. */
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
    a->terms(&q, &t);
    sched_cost c = *r->cost;
    if (a->maps) /* its bytes are loads and stores */
        c.near.per_byte = c.mapped;
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
            continue; /* on one machine there are no levels */
        double seconds = sched_predict(a, &q);
        if (seconds >= 0 && (!best || seconds < least)) {
            best = a;
            least = seconds;
        }
    }
    return best;
}

/* comm.NAME.bandwidth and so on, as it stands in the INI. */
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
        out->near = out->far = (sched_speed){latency * 1e-6, message * 1e-6, 1e-9 / bandwidth};
    return WEFT_OK;
}
