/* schedule/alg/hierarchical/hierarchical_compress.c: compressed sums on several machines: the
 * inter-node phase of hierarchical.c with compressed messages.
 *
 * Idea: intra-node sums are not compressed, because bytes are cheap there; inter-node messages are
 * encoded. Leader j of each machine has the machine's sum of part j; the leaders j of all machines
 * exchange codes of it as ranks do in compress.c. In a reduce-scatter, the member responsible for
 * rank q encodes its machine's sum for q, and q adds the sums.
 *
 * Cost: the inter-node bytes of hierarchical.c, as codes. A leader keeps a residual of one fp32
 * number per element of its part; in a reduce-scatter, a member keeps one per element of the remote
 * ranks it is responsible for. That is the size without levels divided by the number of leaders per
 * machine.
 *
 * It loses where compress.c does. */
#include "schedule/alg/hierarchical/hierarchy.h"
#include "schedule/form.h"

static uint64_t coded(const sched_writer *w, uint64_t bytes)
{
    return sched_code_bytes(w->r->compress, bytes / w->size);
}

static void encode(sched_writer *w, sched_place from, sched_place code, uint64_t residual_at,
                   uint64_t bytes)
{
    sched_writer_open(w, SCHED_ENCODE, 0, bytes);
    sched_writer_from(w, from);
    sched_writer_to(w, code);
    if (w->r->feedback)
        sched_writer_to(w, (sched_place){SCHED_RESIDUAL, 0, residual_at / w->size * 4});
}

void sched_hierarchy_keep_residual(const sched_hierarchy *v, uint64_t longest)
{
    sched_writer *w = v->w;
    uint64_t others = (uint64_t)(v->machines - 1) * ((v->max + v->least - 1) / v->least);
    others = others < v->ranks - v->least ? others : v->ranks - v->least; /* that I own */
    uint64_t bytes = w->r->kind == WEFT_ALL_REDUCE ? longest : others * (w->bytes / v->ranks);
    w->residual_bytes = w->r->compress && w->r->feedback ? bytes / w->size * 4 : 0;
}

/* --- all-reduce. A chunk's codes: sent to and received from each machine, and those of the sums
 * --- */

static sched_place code_at(const sched_lead *d, uint64_t chunk, uint32_t kind, uint32_t machine)
{
    return sched_landed(&d->inter, chunk, kind * d->v.machines + machine);
}
#define GIVEN 0u
#define TAKEN 1u
#define SUMS 2u
#define KINDS 3u

uint32_t sched_hierarchy_codes(const sched_hierarchy *v)
{
    return KINDS * v->machines;
}

void sched_hierarchy_inter_node(const sched_lead *d, sched_span s, sched_span part, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *w = v->w;
    sched_span mine = sched_hierarchy_share(w, s, v->machine, v->machines);
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span give = sched_hierarchy_share(w, s, to, v->machines);
        encode(w, sched_hierarchy_summed(d, give.at), code_at(d, chunk, GIVEN, to),
               give.at - part.at, give.bytes);
        sched_writer_send(w, sched_hierarchy_member(v, to, v->place), code_at(d, chunk, GIVEN, to),
                          coded(w, give.bytes));
        sched_writer_recv(w, sched_hierarchy_member(v, from, v->place),
                          code_at(d, chunk, TAKEN, from), coded(w, mine.bytes));
    }
    sched_writer_open(w, SCHED_REDUCE_ENCODE, v->machine, mine.bytes);
    for (uint32_t m = 0; m < v->machines; m++)
        sched_writer_from(w, m == v->machine ? sched_hierarchy_summed(d, mine.at)
                                             : code_at(d, chunk, TAKEN, m));
    sched_writer_to(w, code_at(d, chunk, SUMS, v->machine));
    sched_writer_to(w, sched_out_at(mine.at));
    if (w->r->feedback)
        sched_writer_to(w, (sched_place){SCHED_RESIDUAL, 0, (mine.at - part.at) / w->size * 4});
}

void sched_hierarchy_round(const sched_lead *d, sched_span s, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *w = v->w;
    sched_span mine = sched_hierarchy_share(w, s, v->machine, v->machines);
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span take = sched_hierarchy_share(w, s, from, v->machines);
        sched_writer_send(w, sched_hierarchy_member(v, to, v->place),
                          code_at(d, chunk, SUMS, v->machine), coded(w, mine.bytes));
        sched_writer_recv(w, sched_hierarchy_member(v, from, v->place),
                          code_at(d, chunk, SUMS, from), coded(w, take.bytes));
        sched_writer_open(w, SCHED_DECODE, 0, take.bytes);
        sched_writer_from(w, code_at(d, chunk, SUMS, from));
        sched_writer_to(w, sched_out_at(take.at));
    }
}

/* --- reduce-scatter --- */

void sched_hierarchy_send_code(sched_hierarchy *v, uint32_t q, uint32_t nth, sched_span s,
                               sched_place sum, sched_place code)
{
    sched_writer *w = v->w;
    uint64_t part = w->bytes / v->ranks;
    encode(w, sum, code, nth * part + s.at % part, s.bytes);
    sched_writer_send(w, q, code, coded(w, s.bytes));
}
