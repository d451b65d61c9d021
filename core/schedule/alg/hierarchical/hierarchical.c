/* schedule/alg/hierarchical/hierarchical.c: hierarchical collectives: intra-node, inter-node, then
 * intra-node again.
 *
 * Idea: inter-node bytes are expensive, so each machine combines or shares data among its members
 * before it sends. The first k members of each machine, those nearest to the network, are its
 * leaders; leader j owns part j of k.
 *
 *   all-reduce      1. Members send part j to their leader j, which adds the parts in rank order.
 *                   2. The leaders j of all machines all-reduce part j: two of them swap it whole,
 *                   more reduce a share each and all-gather the sums. 3. Leaders send the results
 *                   to the members. Short messages have one leader per machine.
 *   reduce-scatter  A machine's contributions to rank q of another machine are added by the member
 *                   at q's place, which sends q the sum; q adds the sums in machine order.
 *   all-gather      The reverse: q sends its part to one member of each other machine, which
 *                   forwards it to the rest.
 *   broadcast, reduce   A binomial tree of machines, and one inside each: hierarchical_tree.c.
 *
 * Cost for S bytes on M machines of l members: a machine sends 2 S (M-1)/M to others for an
 * all-reduce, S (M-1)/M for reduce-scatter and all-gather, where flat algorithms send up to l times
 * that; two inter-node latencies, one if M is 2. Intra-node, a member sends up to 2 S in two
 * rounds.
 *
 * Gradient compression applies to inter-node messages only: hierarchical_compress.c.
 *
 * It loses where inter-node links are as fast as intra-node ones: each byte is then handled once
 * more. Partial sums of 16-bit types are rounded once per level. */
#include "schedule/alg/hierarchical/hierarchy.h"
#include "schedule/form.h"

/* --- all-reduce --- */

static int leads(const sched_lead *d)
{
    return d->v.place < d->leaders;
}

static sched_span part_of(const sched_lead *d, uint32_t leader, uint64_t chunk)
{
    sched_span all = {0, d->v.w->bytes};
    return sched_writer_chunk(d->v.w, sched_hierarchy_share(d->v.w, all, leader, d->leaders),
                              chunk);
}

static void add_up(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *w = v->w;
    sched_span s = part_of(d, v->place, chunk);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine && i != v->me)
            sched_writer_recv(w, i, sched_landed(&d->intra, chunk, seen++), s.bytes);
    sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
    seen = 0;
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine)
            sched_writer_from(w, i == v->me ? sched_in_at(s.at)
                                            : sched_landed(&d->intra, chunk, seen++));
    sched_writer_to(w, sched_out_at(s.at));
}

static void inside(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    uint32_t n = v->size[v->machine];
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (v->place + k) % n;
        if (to >= d->leaders)
            continue;
        sched_span give = part_of(d, to, chunk);
        sched_writer_send(v->w, sched_hierarchy_member(v, v->machine, to), sched_in_at(give.at),
                          give.bytes);
    }
    if (leads(d) && n > 1)
        add_up(d, chunk);
}

static void swap_whole(const sched_lead *d, sched_span s, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    uint32_t partner = sched_hierarchy_member(v, 1 - v->machine, v->place);
    sched_place ours = sched_hierarchy_summed(d, s.at), theirs = sched_landed(&d->inter, chunk, 0);
    sched_writer_send(v->w, partner, ours, s.bytes);
    sched_writer_recv(v->w, partner, theirs, s.bytes);
    sched_writer_reduce2(v->w, sched_out_at(s.at), v->machine ? theirs : ours,
                         v->machine ? ours : theirs, s.bytes);
}

static void between(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *w = v->w;
    sched_span s = part_of(d, v->place, chunk);
    if (w->r->compress) {
        sched_hierarchy_inter_node(
            d, s, sched_hierarchy_share(w, (sched_span){0, w->bytes}, v->place, d->leaders), chunk);
        return;
    }
    if (v->machines == 2) {
        swap_whole(d, s, chunk);
        return;
    }
    sched_span mine = sched_hierarchy_share(w, s, v->machine, v->machines);
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span give = sched_hierarchy_share(w, s, to, v->machines);
        sched_writer_send(w, sched_hierarchy_member(v, to, v->place),
                          sched_hierarchy_summed(d, give.at), give.bytes);
        sched_writer_recv(w, sched_hierarchy_member(v, from, v->place),
                          sched_landed(&d->inter, chunk, from), mine.bytes);
    }
    sched_writer_open(w, SCHED_REDUCE, 0, mine.bytes);
    for (uint32_t m = 0; m < v->machines; m++)
        sched_writer_from(w, m == v->machine ? sched_hierarchy_summed(d, mine.at)
                                             : sched_landed(&d->inter, chunk, m));
    sched_writer_to(w, sched_out_at(mine.at));
}

static void round_machines(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_span s = part_of(d, v->place, chunk),
               mine = sched_hierarchy_share(v->w, s, v->machine, v->machines);
    if (v->w->r->compress) {
        sched_hierarchy_round(d, s, chunk);
        return;
    }
    for (uint32_t k = 1; k < v->machines && v->machines > 2; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span take = sched_hierarchy_share(v->w, s, from, v->machines);
        sched_writer_send(v->w, sched_hierarchy_member(v, to, v->place), sched_out_at(mine.at),
                          mine.bytes);
        sched_writer_recv(v->w, sched_hierarchy_member(v, from, v->place), sched_out_at(take.at),
                          take.bytes);
    }
}

static void tell_members(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    uint32_t n = v->size[v->machine];
    for (uint32_t k = 1; k < n; k++) {
        uint32_t to = (v->place + k) % n, from = (v->place + n - k) % n;
        sched_span give = part_of(d, v->place, chunk);
        if (leads(d))
            sched_writer_send(v->w, sched_hierarchy_member(v, v->machine, to),
                              sched_out_at(give.at), give.bytes);
        sched_span take = from < d->leaders ? part_of(d, from, chunk) : (sched_span){0};
        sched_writer_recv(v->w, sched_hierarchy_member(v, v->machine, from), sched_out_at(take.at),
                          take.bytes);
    }
}

/* A leader's codes cover its share of a chunk; the last share may be a line longer. */
static sched_landing reserve_codes(sched_hierarchy *v, uint64_t longest)
{
    sched_writer *w = v->w;
    uint64_t chunk = sched_writer_chunk(w, (sched_span){0, longest}, 0).bytes;
    uint64_t share = sched_hierarchy_share(w, (sched_span){0, chunk}, 0, v->machines).bytes + 64;
    return sched_writer_landing_of(w, longest, sched_code_bytes(w->r->compress, share / w->size),
                                   sched_hierarchy_codes(v));
}

/* Each phase runs one chunk behind the previous phase, so that its messages do not delay those that
 * others wait for. */
static void all_reduce(sched_hierarchy *v)
{
    sched_lead d = {.v = *v, .leaders = sched_hierarchy_leaders(v)};
    uint64_t longest =
        sched_hierarchy_share(v->w, (sched_span){0, v->w->bytes}, 0, d.leaders).bytes;
    uint64_t last =
        sched_hierarchy_share(v->w, (sched_span){0, v->w->bytes}, d.leaders - 1, d.leaders).bytes;
    longest = last > longest ? last : longest;
    uint64_t chunks = sched_writer_chunks(v->w, longest);
    if (leads(&d) && v->size[v->machine] > 1)
        d.intra = sched_writer_landing(v->w, longest, v->size[v->machine] - 1);
    if (leads(&d) && v->machines > 1)
        d.inter = v->w->r->compress
                      ? reserve_codes(v, longest)
                      : sched_writer_landing(v->w, longest, v->machines == 2 ? 1 : v->machines);
    if (leads(&d))
        sched_hierarchy_keep_residual(v, longest);
    for (uint64_t c = 0; c < chunks + 3; c++) {
        if (c < chunks)
            inside(&d, c);
        if (leads(&d) && v->machines > 1 && c >= 1 && c - 1 < chunks)
            between(&d, c - 1);
        if (leads(&d) && c >= 2 && c - 2 < chunks)
            round_machines(&d, c - 2);
        if (c >= 3)
            tell_members(&d, c - 3);
    }
}

/* --- reduce-scatter and all-gather --- */

/* One chunk of what this member adds for rank q, the nth of the remote ranks; the sum goes to
 * `sum`. */
static void add_for(sched_hierarchy *v, uint32_t q, uint32_t nth, sched_span s,
                    sched_place capacity, uint64_t stride, sched_place sum)
{
    sched_writer *w = v->w;
    uint32_t seen = 0, n = v->size[v->machine];
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine && i != v->me)
            sched_writer_recv(w, i, sched_place_plus(capacity, seen++ * stride), s.bytes);
    seen = 0;
    if (n == 1 && w->r->compress && q != v->me) {
        sched_hierarchy_send_code(v, q, nth, s, sched_in_at(s.at), sum);
        return;
    }
    if (n == 1) {
        sched_writer_copy(w, sum, sched_in_at(s.at), s.bytes);
    } else {
        sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
        for (uint32_t i = 0; i < v->ranks; i++)
            if (v->at[i] == v->machine)
                sched_writer_from(w, i == v->me ? sched_in_at(s.at)
                                                : sched_place_plus(capacity, seen++ * stride));
        sched_writer_to(w, sum);
    }
    if (q != v->me && w->r->compress) /* contributions received are added by now */
        sched_hierarchy_send_code(v, q, nth, s, sum, capacity);
    else if (q != v->me)
        sched_writer_send(w, q, sum, s.bytes);
}

static void finish_mine(sched_hierarchy *v, sched_span s, sched_place sums, uint64_t stride)
{
    sched_writer *w = v->w;
    const uint32_t form = w->r->compress;
    const uint64_t bytes = form ? sched_code_bytes(form, s.bytes / w->size) : s.bytes;
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t m = (v->machine + v->machines - k) % v->machines;
        sched_writer_recv(w, sched_hierarchy_leads_for(v, m, v->me),
                          sched_place_plus(sums, m * stride), bytes);
    }
    if (form)
        sched_writer_open(w, SCHED_REDUCE_DECODE, v->machine, s.bytes);
    else
        sched_writer_open(w, SCHED_REDUCE, 0, s.bytes);
    for (uint32_t m = 0; m < v->machines; m++)
        sched_writer_from(w, sched_place_plus(sums, m * stride));
    sched_writer_to(w, sched_out_at(s.at));
}

/* Number of ranks that this member is responsible for on its machine, itself included. */
static uint32_t charges(const sched_hierarchy *v)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < v->ranks; q++)
        n += sched_hierarchy_leads_for(v, v->machine, q) == v->me;
    return n;
}

/* Members of a machine visit the ranks in the same order, because messages between them are matched
 * by order; machines begin at different ranks. */
static void reduce_scatter(sched_hierarchy *v)
{
    sched_writer *w = v->w;
    uint64_t part = w->bytes / v->ranks, chunks = sched_writer_chunks(w, part);
    uint32_t n = v->size[v->machine];
    sched_landing intra = sched_writer_landing(w, part, charges(v) * n),
                  sums = sched_writer_landing(w, part, v->machines);
    sched_hierarchy_keep_residual(v, 0);
    for (uint64_t c = 0; c < chunks; c++) {
        sched_span s = sched_writer_chunk(w, (sched_span){0, part}, c);
        for (uint32_t k = 0, charge = 0, nth = 0; k < v->ranks; k++) {
            uint32_t q = (sched_hierarchy_member(v, v->machine, 0) + k) % v->ranks,
                     by = sched_hierarchy_leads_for(v, v->machine, q);
            sched_span give = {q * part + s.at, s.bytes};
            if (by != v->me) {
                sched_writer_send(w, by, sched_in_at(give.at), give.bytes);
                continue;
            }
            sched_place capacity = sched_landed(&intra, c, charge++ * n);
            add_for(v, q, nth, give, capacity, intra.stride,
                    q == v->me ? sched_landed(&sums, c, v->machine)
                               : sched_place_plus(capacity, (n - 1) * intra.stride));
            nth += q != v->me;
        }
        finish_mine(v, s, sched_landed(&sums, c, 0), sums.stride);
    }
}

static void gather_far(sched_hierarchy *v, sched_span s, uint64_t part)
{
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t m = (v->machine + k) % v->machines;
        sched_writer_send(v->w, sched_hierarchy_leads_for(v, m, v->me), sched_in_at(s.at), s.bytes);
    }
    for (uint32_t k = 1; k < v->ranks; k++) {
        uint32_t q = (v->me + v->ranks - k) % v->ranks;
        if (v->at[q] != v->machine && sched_hierarchy_leads_for(v, v->machine, q) == v->me)
            sched_writer_recv(v->w, q, sched_out_at(q * part + s.at), s.bytes);
    }
}

static void gather_near(sched_hierarchy *v, sched_span s, uint64_t part)
{
    for (uint32_t q = 0; q < v->ranks; q++) {
        uint32_t by = sched_hierarchy_leads_for(v, v->machine, q);
        sched_place at = sched_out_at(q * part + s.at);
        if (by != v->me)
            sched_writer_recv(v->w, by, at, s.bytes);
        for (uint32_t i = 0; i < v->size[v->machine] && by == v->me; i++)
            if (sched_hierarchy_member(v, v->machine, i) != v->me)
                sched_writer_send(v->w, sched_hierarchy_member(v, v->machine, i), at, s.bytes);
    }
}

static void all_gather(sched_hierarchy *v)
{
    sched_writer *w = v->w;
    uint64_t part = w->bytes / v->ranks, chunks = sched_writer_chunks(w, part);
    sched_writer_copy(w, sched_out_at(v->me * part), sched_in_at(0), part);
    for (uint64_t c = 0; c <= chunks; c++) {
        if (c < chunks)
            gather_far(v, sched_writer_chunk(w, (sched_span){0, part}, c), part);
        if (c > 0)
            gather_near(v, sched_writer_chunk(w, (sched_span){0, part}, c - 1), part);
    }
}

static void emit(sched_writer *w)
{
    sched_hierarchy v;
    sched_hierarchy_begin(w, &v);
    switch (w->r->kind) {
    case WEFT_ALL_REDUCE: all_reduce(&v); break;
    case WEFT_REDUCE_SCATTER: reduce_scatter(&v); break;
    case WEFT_ALL_GATHER: all_gather(&v); break;
    case WEFT_BROADCAST: sched_hierarchy_broadcast(&v); break;
    default: sched_hierarchy_reduce(&v); break;
    }
    sched_hierarchy_end(&v);
}

const sched_algorithm sched_hierarchical = {
    .name = "hierarchical",
    .kinds = SCHED_ON(WEFT_ALL_REDUCE) | SCHED_ON(WEFT_REDUCE_SCATTER) | SCHED_ON(WEFT_ALL_GATHER) |
             SCHED_ON(WEFT_BROADCAST) | SCHED_ON(WEFT_REDUCE),
    .chunk = 128 << 10,
    .emit = emit,
    .terms = sched_hierarchy_terms,
};
