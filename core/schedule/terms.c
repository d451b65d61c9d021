/* schedule/terms.c: see terms.h.
 *
 * What one rank sends to all, or all to one, is kept as one number for the rank and one for its
 * machine, and distributed over the others only at the end: n additions instead of n^2. */
#include "schedule/terms.h"

#include <stdlib.h>

#include "base/mem.h"

typedef struct member {
    sched_amount intra, inter; /* that it sends */
    double got;                /* bytes, intra-node */
    double to_all;             /* bytes that it sends to each other rank */
    sched_amount from_all;     /* that each other rank sends to it */
} member;

typedef struct machine {
    double size;
    double out, in; /* bytes, inter-node */
    double to_all;  /* of its members */
    sched_amount from_all;
} machine;

struct sched_traffic {
    const sched_request *r;
    member *member;
    machine *machine;
    uint32_t machines;
    double sent[2]; /* messages since the last sched_traffic_rounds(), intra-node and inter-node */
    sched_way intra, inter;
    bool back;
};

sched_amount sched_amount_whole(uint64_t bytes)
{
    return (sched_amount){bytes ? 1 : 0, (double)bytes};
}

sched_amount sched_amount_cut(const sched_writer *w, uint64_t bytes)
{
    return (sched_amount){(double)sched_writer_chunks(w, bytes), (double)bytes};
}

sched_amount sched_amount_part(const sched_writer *w, uint32_t i)
{
    return sched_amount_cut(w, sched_writer_part(w, i).bytes);
}

sched_amount sched_amount_parts(const sched_writer *w)
{
    sched_amount sum = {0};
    for (uint32_t i = 0; i < w->r->ranks; i++) {
        sum.messages += sched_amount_part(w, i).messages;
        sum.bytes += sched_amount_part(w, i).bytes;
    }
    return sum;
}

double sched_shortest_part(const sched_writer *w)
{
    double least = sched_amount_part(w, 0).bytes;
    for (uint32_t i = 1; i < w->r->ranks; i++) {
        double bytes = sched_amount_part(w, i).bytes;
        least = bytes < least ? bytes : least;
    }
    return least;
}

static uint32_t machine_of(const sched_traffic *t, uint32_t rank)
{
    return t->machines > 1 ? t->r->layout->machine[rank] : 0;
}

static sched_traffic *begin(const sched_request *r)
{
    sched_traffic *t = mem_alloc(sizeof *t);
    t->r = r;
    t->machines = r->layout && r->layout->machines > 1 ? r->layout->machines : 1;
    t->member = mem_alloc(r->ranks * sizeof *t->member);
    t->machine = mem_alloc(t->machines * sizeof *t->machine);
    for (uint32_t i = 0; i < r->ranks; i++)
        t->machine[machine_of(t, i)].size++;
    return t;
}

static void add(sched_amount *to, sched_amount a, double times)
{
    to->messages += a.messages * times;
    to->bytes += a.bytes * times;
}

void sched_traffic_edge(sched_traffic *t, uint32_t from, uint32_t to, sched_amount a)
{
    uint32_t m = machine_of(t, from), k = machine_of(t, to);
    t->sent[m != k] += a.messages;
    add(m == k ? &t->member[from].intra : &t->member[from].inter, a, 1);
    if (m == k) {
        t->member[to].got += a.bytes;
    } else {
        t->machine[m].out += a.bytes;
        t->machine[k].in += a.bytes;
    }
}

void sched_traffic_to_all(sched_traffic *t, uint32_t from, sched_amount a)
{
    machine *m = &t->machine[machine_of(t, from)];
    double intra = m->size - 1, inter = t->r->ranks - m->size;
    add(&t->member[from].intra, a, intra);
    add(&t->member[from].inter, a, inter);
    t->member[from].to_all += a.bytes;
    m->to_all += a.bytes;
    m->out += a.bytes * inter;
    t->sent[0] += a.messages * intra;
    t->sent[1] += a.messages * inter;
}

void sched_traffic_from_all(sched_traffic *t, uint32_t to, sched_amount a)
{
    machine *m = &t->machine[machine_of(t, to)];
    double intra = m->size - 1, inter = t->r->ranks - m->size;
    add(&t->member[to].from_all, a, 1);
    add(&m->from_all, a, 1);
    t->member[to].got += a.bytes * intra;
    m->in += a.bytes * inter;
    t->sent[0] += a.messages * intra;
    t->sent[1] += a.messages * inter;
}

void sched_traffic_rounds(sched_traffic *t, double rounds, double fill)
{
    sched_way *w = t->sent[1] > 0 ? &t->inter : &t->intra;
    if (t->sent[0] + t->sent[1] > 0) {
        w->rounds += rounds;
        w->fill += fill;
    }
    t->sent[0] = t->sent[1] = 0;
}

void sched_traffic_way(sched_traffic *t, double hops, double inter, double chunk)
{
    double intra = hops - inter;
    if (t->sent[0] + t->sent[1] > 0) {
        t->intra.rounds += intra;
        t->inter.rounds += inter;
        t->intra.fill += intra > 1 ? (intra - 1) * chunk : 0;
        t->inter.fill += inter > 1 ? (inter - 1) * chunk : 0;
    }
    t->sent[0] = t->sent[1] = 0;
}

int sched_traffic_crosses(const sched_traffic *t, uint32_t a, uint32_t w)
{
    return machine_of(t, a) != machine_of(t, w);
}

uint32_t sched_traffic_crossings(const sched_traffic *t, uint32_t first, uint32_t hops)
{
    uint32_t n = t->r->ranks, found = 0;
    for (uint32_t i = 0; i < hops; i++)
        found += (uint32_t)sched_traffic_crosses(t, (first + i) % n, (first + i + 1) % n);
    return found;
}

/* Distributes what was kept by rank and machine over the others. */
static void spread(sched_traffic *t)
{
    double to_all = 0;
    sched_amount from_all = {0};
    for (uint32_t k = 0; k < t->machines; k++) {
        to_all += t->machine[k].to_all;
        add(&from_all, t->machine[k].from_all, 1);
    }
    for (uint32_t i = 0; i < t->r->ranks; i++) {
        member *e = &t->member[i];
        const machine *m = &t->machine[machine_of(t, i)];
        e->got += m->to_all - e->to_all;
        add(&e->intra, sched_amount_less(m->from_all, e->from_all), 1);
        add(&e->inter, sched_amount_less(from_all, m->from_all), 1);
    }
    for (uint32_t k = 0; k < t->machines; k++) {
        machine *m = &t->machine[k];
        m->in += m->size * (to_all - m->to_all);
        m->out += m->size * (from_all.bytes - m->from_all.bytes);
    }
}

static double larger(double a, double w)
{
    return a > w ? a : w;
}

void sched_traffic_back(sched_traffic *t)
{
    t->back = true;
}

/* Adds the excess of a rank that receives more than any rank sends: the group waits for it too. */
static void end(sched_traffic *t, sched_terms *out)
{
    double got = 0, in = 0;
    sched_way *intra = &t->intra, *inter = &t->inter;
    spread(t);
    for (uint32_t i = 0; i < t->r->ranks; i++) {
        const member *e = &t->member[i];
        intra->messages = larger(intra->messages, e->intra.messages);
        intra->bytes = larger(intra->bytes, e->intra.bytes);
        inter->messages = larger(inter->messages, e->inter.messages);
        got = larger(got, e->got);
    }
    for (uint32_t k = 0; k < t->machines; k++) {
        inter->bytes = larger(inter->bytes, t->machine[k].out);
        in = larger(in, t->machine[k].in);
    }
    intra->fill += larger(0, got - intra->bytes);
    inter->fill += larger(0, in - inter->bytes);
    intra->fill += t->back ? intra->bytes : 0;
    inter->fill += t->back ? inter->bytes : 0;
    *out = (sched_terms){.intra = *intra, .inter = *inter};
    free(t->member);
    free(t->machine);
    free(t);
}

void sched_terms_of(const sched_algorithm *a, const sched_request *r, sched_terms *out)
{
    sched_writer w = sched_writer_begin(r, a);
    sched_traffic *t = begin(r);
    const double reduced = a->terms(&w, t);
    end(t, out);
    out->reduced = reduced;
}
