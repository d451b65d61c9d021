/* schedule/alg/hierarchical/hierarchical.c: inside a machine first, then between machines, then
 * inside again.
 *
 * Idea: between M machines a byte is dear, so no machine sends one that another of its members
 * could have saved. The first k members of each machine, those nearest to the network, are its
 * leaders; leader j answers for part j of k.
 *
 *   all-reduce      1. members send part j to their leader j, which adds them in the order of the
 *                   ranks. 2. The leaders j of all machines all-reduce part j: two of them swap it
 *                   whole, more take a share each, add, and send the sum round. 3. Leaders send
 *                   the results to the members. Short messages have one leader a machine.
 *   reduce-scatter  what a machine has for rank q of another is added by its member at q's place,
 *                   which sends q the sum; q adds the sums in the order of the machines.
 *   all-gather      the same backwards: q sends its part to one member of each other machine,
 *                   which sends it on to the rest.
 *   broadcast, reduce   a binomial tree of machines, and one inside each: hierarchical_tree.c.
 *
 * Cost for S bytes on M machines of l: a machine sends 2 S (M-1)/M to others for an all-reduce, S
 * (M-1)/M for the other two, where flat algorithms send up to l times that; two latencies between
 * machines, one if M is 2. Inside, a member sends up to 2 S in two rounds.
 *
 * What is to be compressed is so between machines: compress_levels.c.
 *
 * It loses where machines are no further apart than ranks: each byte is then handled once more. It
 * rounds 16-bit sums on their way, once a level. */
#include "schedule/alg/hierarchical/hierarchy.h"
#include "schedule/form.h"

static sched_landing land_some(sched_writer *b, uint64_t stride, uint64_t chunks,
                               uint32_t contributions)
{
    sched_landing l = {.stride = stride, .each = stride * contributions};
    l.base = build_scratch(b, l.each * (chunks < LEVELS_SLOTS ? chunks : LEVELS_SLOTS));
    return l;
}

static sched_landing land(sched_writer *b, uint64_t bytes, uint32_t contributions)
{
    uint64_t first = build_chunk(b, (sched_span){0, bytes}, 0).bytes;
    return land_some(b, sched_align_line(first), build_chunks(b, bytes), contributions);
}

/* --- all-reduce --- */

static int leads(const sched_lead *d)
{
    return d->v.place < d->leaders;
}

static sched_span part_of(const sched_lead *d, uint32_t leader, uint64_t chunk)
{
    sched_span all = {0, d->v.b->bytes};
    return build_chunk(d->v.b, levels_share(d->v.b, all, leader, d->leaders), chunk);
}

static void add_up(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *b = v->b;
    sched_span s = part_of(d, v->place, chunk);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine && i != v->me)
            build_recv(b, i, levels_landed(&d->near, chunk, seen++), s.bytes);
    build_reduce(b, s.bytes);
    seen = 0;
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine)
            build_from(b, i == v->me ? in_at(s.at) : levels_landed(&d->near, chunk, seen++));
    build_to(b, out_at(s.at));
    build_reduced(b);
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
        build_send(v->b, sched_hierarchy_member(v, v->machine, to), in_at(give.at), give.bytes);
    }
    if (leads(d) && n > 1)
        add_up(d, chunk);
}

static void swap_whole(const sched_lead *d, sched_span s, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    uint32_t partner = sched_hierarchy_member(v, 1 - v->machine, v->place);
    comm_place ours = levels_summed(d, s.at), theirs = levels_landed(&d->far, chunk, 0);
    build_send(v->b, partner, ours, s.bytes);
    build_recv(v->b, partner, theirs, s.bytes);
    build_reduce2(v->b, out_at(s.at), v->machine ? theirs : ours, v->machine ? ours : theirs,
                  s.bytes);
}

static void between(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_writer *b = v->b;
    sched_span s = part_of(d, v->place, chunk);
    if (b->r->compress) {
        levels_between(d, s, levels_share(b, (sched_span){0, b->bytes}, v->place, d->leaders),
                       chunk);
        return;
    }
    if (v->machines == 2) {
        swap_whole(d, s, chunk);
        return;
    }
    sched_span mine = levels_share(b, s, v->machine, v->machines);
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span give = levels_share(b, s, to, v->machines);
        build_send(b, sched_hierarchy_member(v, to, v->place), levels_summed(d, give.at),
                   give.bytes);
        build_recv(b, sched_hierarchy_member(v, from, v->place),
                   levels_landed(&d->far, chunk, from), mine.bytes);
    }
    build_reduce(b, mine.bytes);
    for (uint32_t m = 0; m < v->machines; m++)
        build_from(b,
                   m == v->machine ? levels_summed(d, mine.at) : levels_landed(&d->far, chunk, m));
    build_to(b, out_at(mine.at));
    build_reduced(b);
}

static void round_machines(const sched_lead *d, uint64_t chunk)
{
    const sched_hierarchy *v = &d->v;
    sched_span s = part_of(d, v->place, chunk),
               mine = levels_share(v->b, s, v->machine, v->machines);
    if (v->b->r->compress) {
        levels_round(d, s, chunk);
        return;
    }
    for (uint32_t k = 1; k < v->machines && v->machines > 2; k++) {
        uint32_t to = (v->machine + k) % v->machines;
        uint32_t from = (v->machine + v->machines - k) % v->machines;
        sched_span take = levels_share(v->b, s, from, v->machines);
        build_send(v->b, sched_hierarchy_member(v, to, v->place), out_at(mine.at), mine.bytes);
        build_recv(v->b, sched_hierarchy_member(v, from, v->place), out_at(take.at), take.bytes);
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
            build_send(v->b, sched_hierarchy_member(v, v->machine, to), out_at(give.at),
                       give.bytes);
        sched_span take = from < d->leaders ? part_of(d, from, chunk) : (sched_span){0};
        build_recv(v->b, sched_hierarchy_member(v, v->machine, from), out_at(take.at), take.bytes);
    }
}

/* A leader's codes are of its share of a chunk, the last of which may be a line longer. */
static sched_landing land_codes(sched_hierarchy *v, uint64_t longest)
{
    sched_writer *b = v->b;
    uint64_t chunk = build_chunk(b, (sched_span){0, longest}, 0).bytes;
    uint64_t share = levels_share(b, (sched_span){0, chunk}, 0, v->machines).bytes + 64;
    return land_some(b, sched_align_line(code_bytes(b->r->compress, share / b->size)),
                     build_chunks(b, longest), levels_codes(v));
}

/* Each phase a chunk behind the one before it, so that its messages do not stand before those that
 * others wait for. */
static void all_reduce(sched_hierarchy *v)
{
    sched_lead d = {.v = *v, .leaders = levels_leaders(v)};
    uint64_t longest = levels_share(v->b, (sched_span){0, v->b->bytes}, 0, d.leaders).bytes;
    uint64_t last =
        levels_share(v->b, (sched_span){0, v->b->bytes}, d.leaders - 1, d.leaders).bytes;
    longest = last > longest ? last : longest;
    uint64_t chunks = build_chunks(v->b, longest);
    if (leads(&d) && v->size[v->machine] > 1)
        d.near = land(v->b, longest, v->size[v->machine] - 1);
    if (leads(&d) && v->machines > 1)
        d.far = v->b->r->compress ? land_codes(v, longest)
                                  : land(v->b, longest, v->machines == 2 ? 1 : v->machines);
    if (leads(&d))
        levels_keep(v, longest);
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

/* One chunk of what I add for rank q, the nth of those elsewhere; the sum goes to `sum`. */
static void add_for(sched_hierarchy *v, uint32_t q, uint32_t nth, sched_span s, comm_place room,
                    uint64_t stride, comm_place sum)
{
    sched_writer *b = v->b;
    uint32_t seen = 0, n = v->size[v->machine];
    for (uint32_t i = 0; i < v->ranks; i++)
        if (v->at[i] == v->machine && i != v->me)
            build_recv(b, i, place_plus(room, seen++ * stride), s.bytes);
    seen = 0;
    if (n == 1 && b->r->compress && q != v->me) {
        levels_send_code(v, q, nth, s, in_at(s.at), sum);
        return;
    }
    if (n == 1) {
        build_copy(b, sum, in_at(s.at), s.bytes);
    } else {
        build_reduce(b, s.bytes);
        for (uint32_t i = 0; i < v->ranks; i++)
            if (v->at[i] == v->machine)
                build_from(b, i == v->me ? in_at(s.at) : place_plus(room, seen++ * stride));
        build_to(b, sum);
        build_reduced(b);
    }
    if (q != v->me && b->r->compress) /* what was received has been added */
        levels_send_code(v, q, nth, s, sum, room);
    else if (q != v->me)
        build_send(b, q, sum, s.bytes);
}

static void finish_mine(sched_hierarchy *v, sched_span s, comm_place sums, uint64_t stride)
{
    sched_writer *b = v->b;
    const uint32_t form = b->r->compress;
    const uint64_t bytes = form ? code_bytes(form, s.bytes / b->size) : s.bytes;
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t m = (v->machine + v->machines - k) % v->machines;
        build_recv(b, levels_stands_for(v, m, v->me), place_plus(sums, m * stride), bytes);
    }
    if (form)
        build_summing(b, COMM_ADD, v->machine, s.bytes);
    else
        build_reduce(b, s.bytes);
    for (uint32_t m = 0; m < v->machines; m++)
        build_from(b, place_plus(sums, m * stride));
    build_to(b, out_at(s.at));
    build_reduced(b);
}

/* For how many ranks I stand on my machine, myself among them. */
static uint32_t charges(const sched_hierarchy *v)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < v->ranks; q++)
        n += levels_stands_for(v, v->machine, q) == v->me;
    return n;
}

/* Members of a machine go through the ranks in one order, since messages between them are matched
 * by order; machines begin at different ranks. */
static void reduce_scatter(sched_hierarchy *v)
{
    sched_writer *b = v->b;
    uint64_t part = b->bytes / v->ranks, chunks = build_chunks(b, part);
    uint32_t n = v->size[v->machine];
    sched_landing near = land(b, part, charges(v) * n), sums = land(b, part, v->machines);
    levels_keep(v, 0);
    for (uint64_t c = 0; c < chunks; c++) {
        sched_span s = build_chunk(b, (sched_span){0, part}, c);
        for (uint32_t k = 0, charge = 0, nth = 0; k < v->ranks; k++) {
            uint32_t q = (sched_hierarchy_member(v, v->machine, 0) + k) % v->ranks,
                     by = levels_stands_for(v, v->machine, q);
            sched_span give = {q * part + s.at, s.bytes};
            if (by != v->me) {
                build_send(b, by, in_at(give.at), give.bytes);
                continue;
            }
            comm_place room = levels_landed(&near, c, charge++ * n);
            add_for(v, q, nth, give, room, near.stride,
                    q == v->me ? levels_landed(&sums, c, v->machine)
                               : place_plus(room, (n - 1) * near.stride));
            nth += q != v->me;
        }
        finish_mine(v, s, levels_landed(&sums, c, 0), sums.stride);
    }
}

static void gather_far(sched_hierarchy *v, sched_span s, uint64_t part)
{
    for (uint32_t k = 1; k < v->machines; k++) {
        uint32_t m = (v->machine + k) % v->machines;
        build_send(v->b, levels_stands_for(v, m, v->me), in_at(s.at), s.bytes);
    }
    for (uint32_t k = 1; k < v->ranks; k++) {
        uint32_t q = (v->me + v->ranks - k) % v->ranks;
        if (v->at[q] != v->machine && levels_stands_for(v, v->machine, q) == v->me)
            build_recv(v->b, q, out_at(q * part + s.at), s.bytes);
    }
}

static void gather_near(sched_hierarchy *v, sched_span s, uint64_t part)
{
    for (uint32_t q = 0; q < v->ranks; q++) {
        uint32_t by = levels_stands_for(v, v->machine, q);
        comm_place at = out_at(q * part + s.at);
        if (by != v->me)
            build_recv(v->b, by, at, s.bytes);
        for (uint32_t i = 0; i < v->size[v->machine] && by == v->me; i++)
            if (sched_hierarchy_member(v, v->machine, i) != v->me)
                build_send(v->b, sched_hierarchy_member(v, v->machine, i), at, s.bytes);
    }
}

static void all_gather(sched_hierarchy *v)
{
    sched_writer *b = v->b;
    uint64_t part = b->bytes / v->ranks, chunks = build_chunks(b, part);
    build_copy(b, out_at(v->me * part), in_at(0), part);
    for (uint64_t c = 0; c <= chunks; c++) {
        if (c < chunks)
            gather_far(v, build_chunk(b, (sched_span){0, part}, c), part);
        if (c > 0)
            gather_near(v, build_chunk(b, (sched_span){0, part}, c - 1), part);
    }
}

static void emit(sched_writer *b)
{
    sched_hierarchy v;
    levels_begin(b->r, b, &v);
    switch (b->r->kind) {
    case WEFT_ALL_REDUCE: all_reduce(&v); break;
    case WEFT_REDUCE_SCATTER: reduce_scatter(&v); break;
    case WEFT_ALL_GATHER: all_gather(&v); break;
    case WEFT_BROADCAST: levels_broadcast(&v); break;
    default: levels_reduce(&v); break;
    }
    levels_end(&v);
}

const comm_algorithm comm_hierarchical = {
    .name = "hierarchical",
    .kinds = COMM_ON(WEFT_ALL_REDUCE) | COMM_ON(WEFT_REDUCE_SCATTER) | COMM_ON(WEFT_ALL_GATHER) |
             COMM_ON(WEFT_BROADCAST) | COMM_ON(WEFT_REDUCE),
    .chunk = LEVELS_CHUNK,
    .emit = emit,
    .terms = levels_terms,
};
